//! Call sites as cost centres: which place in the program allocated an object.
//!
//! The function that allocates passes the address to which it returns. For each such address there is a cost centre, whose stack the thread
//! enters before it allocates. So each object is charged to its place. A centre's name is the function, if the loader knows it, and the place is
//! `file+offset`, from which `addr2line` finds the line.

use std::cell::Cell;
use std::hash::BuildHasherDefault;

use stopworld::Mutator;
use stopworld::profile::{self, StackId};

use crate::lock::{Guarded, LOCK};
use crate::os::{Place, place_of};
use crate::tables::AddressMap;

/// The stack of each place that any thread has allocated from.
static STACKS: Guarded<AddressMap<StackId>> = Guarded::new(AddressMap::with_hasher(BuildHasherDefault::new()));

/// The number of places that a thread finds without the lock.
const KNOWN: usize = 256;

/// The places from which a thread has allocated.
pub(crate) struct CallSites([Cell<(usize, StackId)>; KNOWN]);

impl CallSites {
    pub(crate) fn new() -> Self {
        Self([const { Cell::new((0, StackId::MAIN)) }; KNOWN])
    }

    /// Charges what the thread allocates from now on to the place that calls from this address.
    /// Address 0 stands for an unknown place.
    #[inline]
    pub(crate) fn enter(&self, mutator: &Mutator, caller: usize) {
        let slot = &self.0[(caller ^ caller >> 8) % KNOWN];
        let (known, mut stack) = slot.get();
        if known != caller {
            stack = stack_of(caller);
            slot.set((caller, stack));
        }
        if mutator.cost_stack() != stack {
            mutator.set_cost_stack(stack);
        }
    }
}

#[cold]
fn stack_of(caller: usize) -> StackId {
    if caller == 0 {
        return StackId::MAIN;
    }
    if let Some(&stack) = STACKS.get(&LOCK.lock()).get(&caller) {
        return stack;
    }
    // Without the lock: the loader has a lock of its own, and a new centre is reported by an event.
    let Place { file, offset, symbol } = place_of(caller);
    let place = format!("{file}+{offset:#x}");
    let name = symbol.map_or_else(|| place.clone(), |(name, distance)| format!("{name}+{distance:#x}"));
    let stack = StackId::MAIN.push(profile::centre(&name, &file, &place));
    *STACKS.get(&LOCK.lock()).entry(caller).or_insert(stack)
}
