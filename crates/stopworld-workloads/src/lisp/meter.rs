//! The meter: while the world is profiled, a program's procedures are cost centres.
//!
//! Each named procedure in the program's file is a cost centre. Its allocations and its time are charged to it, on top of the
//! procedures that wait for it. Unnamed procedures, the built-in procedures and those of the prelude are charged to their
//! caller, as GHC does for libraries without cost centres.
//!
//! A scope would suffice for a procedure that returns to its caller. But a continuation may be entered again or abandoned, an
//! error cuts the stack, and a tail call does not return to its frame. So the meter keeps the cost centre stack of each waiting
//! call in a separate array, at the index of the call's return word. Every operation that rearranges frames reads or writes this array:
//! * a call stores the current stack in the array, and pushes its own centre;
//! * a return, a continuation, or leaving a `guard` restores the stack stored in the array;
//! * a tail call pushes its centre on the stack to which its frame returns: it replaces its caller, on this stack as on the
//!   machine's. So a loop of tail calls does not grow the stack, however many procedures it runs through.
//!
//! A continuation contains its part of the array. Without a profile there is no meter, and a call costs one additional test.

use super::objects::{Code, Continuation, Symbol, Text};
use super::store::Allocated;
use stopworld::profile::{CentreId, StackId, centre};
use stopworld::{Array, Gc, Mutator};

/// The value of [`Code::centre`] for a procedure that is charged to its caller.
const NONE: usize = usize::MAX;

/// A machine's meter, which does nothing unless the world is profiled.
pub struct Meter<'v>(Option<Box<Costs<'v>>>);

/// The data of a machine whose costs are measured.
struct Costs<'v> {
    mutator: &'v Mutator,
    /// The thread's cost centre stack outside the machine.
    outside: StackId,
    now: StackId,
    /// For each slot with a return word: the cost centre stack to restore.
    waiting: Vec<StackId>,
}

impl<'v> Meter<'v> {
    /// Begins to measure, if the world is profiled.
    pub fn new(mutator: &'v Mutator) -> Self {
        let outside = mutator.cost_stack();
        let costs = || Costs { mutator, outside, now: outside, waiting: Vec::new() };
        Self(mutator.world().is_profiled().then(|| Box::new(costs())))
    }
}

impl Costs<'_> {
    fn go(&mut self, stack: StackId) {
        if stack != self.now {
            self.now = stack;
            self.mutator.set_cost_stack(stack);
        }
    }

    fn put(&mut self, slot: usize, stack: StackId) {
        if slot >= self.waiting.len() {
            self.waiting.resize((slot + 1).next_power_of_two(), self.outside);
        }
        self.waiting[slot] = stack;
    }

    fn returns_to(&self, slot: usize) -> StackId {
        self.waiting.get(slot).copied().unwrap_or(self.outside)
    }
}

impl Drop for Costs<'_> {
    fn drop(&mut self) {
        self.mutator.set_cost_stack(self.outside);
    }
}

impl Meter<'_> {
    /// Called when a return word was put into this slot.
    #[inline(always)]
    pub fn call(&mut self, slot: usize) {
        if let Some(costs) = &mut self.0 {
            costs.put(slot, costs.now);
        }
    }

    /// Pushes the centre of a procedure that begins in a frame whose return word is in this slot.
    #[inline(always)]
    pub fn enter(&mut self, code: &Code, slot: usize) {
        if let Some(costs) = &mut self.0
            && let Some(centre) = code.cost_centre()
        {
            costs.go(costs.returns_to(slot).push(centre));
        }
    }

    /// Restores the stack for the return word in this slot.
    #[inline(always)]
    pub fn return_to(&mut self, slot: usize) {
        if let Some(costs) = &mut self.0 {
            costs.go(costs.returns_to(slot));
        }
    }

    /// Returns the part of the array that a continuation contains: up to its return word, which is in this slot.
    pub fn capture(&self, slot: usize) -> Allocated<Option<Gc<Array<u32>>>> {
        let Some(costs) = &self.0 else { return Ok(None) };
        Ok(Some(costs.mutator.alloc_array(slot + 1, |slot| costs.returns_to(slot).get())?))
    }

    /// Called when a continuation is entered.
    pub fn reinstate(&mut self, continuation: Gc<Continuation>) {
        let Some(costs) = &mut self.0 else { return };
        costs.waiting.clear();
        // A continuation that was captured before the profile began has no part of the array.
        if let Some(stacks) = continuation.stacks {
            costs.waiting.extend(stacks.iter().map(|&stack| StackId::from_raw(stack)));
        }
        let last = costs.waiting.last().copied();
        costs.go(last.unwrap_or(costs.outside));
    }
}

impl Code {
    #[inline]
    fn cost_centre(&self) -> Option<CentreId> {
        match self.centre.get() {
            0 => self.define_centre(),
            NONE => None,
            number => CentreId::from_raw(number as u32),
        }
    }

    #[cold]
    #[inline(never)]
    fn define_centre(&self) -> Option<CentreId> {
        let named = self.name.get::<Symbol>().zip(self.file.get::<Text>());
        let centre = named.map(|(name, file)| {
            let place = match self.places.first_chunk::<3>() {
                Some([_, line, column]) => format!("{}:{line}:{column}", file.text()),
                None => file.text().to_owned(),
            };
            centre(Symbol::base(name).text(), file.text(), &place)
        });
        self.centre.set(centre.map_or(NONE, |centre| centre.get() as usize));
        centre
    }
}
