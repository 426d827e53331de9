//! Cost centre stacks: a tree that only grows.
//!
//! A stack is what it was pushed on and the centre that was pushed, so all stacks together are a tree whose root is the empty
//! stack, MAIN. A stack's number, its [`StackId`], is one word: a thread has its present one where anybody may read it,
//! and each object can have the one that it was allocated under.
//!
//! ```text
//!   nodes | (parent, centre) | (parent, centre) | …          by the stack's number
//!   edges | parent, centre → stack | …                       a hash table of what pushing gives, one word for each
//! ```
//!
//! **Recursion** is compressed as GHC does it: pushing a centre that is on the stack already goes back to that occurrence. So
//! no stack has a centre twice, none is deeper than there are centres, and a program that recurses makes no
//! more stacks than one that loops.
//!
//! ```text
//!   push(a·b·c, b) = a·b        push(a·b, b) = a·b        push(anything, MAIN) = MAIN
//! ```
//!
//! That answer is an edge of the tree too, so that the common push, recursive or not, is one load that hits. An edge with
//! its answer is one word of three times 21 bits, put there by one compare-exchange: nobody waits for anybody, and
//! who finds no edge looks whether the centre is on the stack, makes a node if it is not, and tries to put the edge in. Two
//! threads that make the same node at the same time waste one number.
//!
//! The first edges lie close together, so that a program with few stacks touches few pages.

use super::centres::{CENTRE_BITS, CentreId};
use super::mapped::Mapped;
use crate::sync::{AtomicU32, AtomicU64, Ordering};

/// Bits of each part of an edge.
const PART_BITS: u32 = 21;
const PART: u64 = (1 << PART_BITS) - 1;
/// Stacks at most.
const MOST_STACKS: usize = 1 << 20;
/// Slots of the table of edges that all look at first.
const NEAR: usize = 1 << 12;
const NEAR_PROBES: usize = 8;
/// The others.
const FAR: usize = 1 << 22;
const FAR_PROBES: usize = 64;

const NEAR_AT: usize = MOST_STACKS * size_of::<AtomicU64>();
const FAR_AT: usize = NEAR_AT + NEAR * size_of::<AtomicU64>();
const MAPPED: usize = FAR_AT + FAR * size_of::<AtomicU64>();

const _: () = assert!(CENTRE_BITS <= PART_BITS && MOST_STACKS <= 1 << PART_BITS);

/// The number of a cost centre stack; 0 is the empty one, MAIN. The same in every world of the process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct StackId(pub(super) u32);

impl StackId {
    /// The empty stack: the program itself.
    pub const MAIN: StackId = StackId(0);
    /// The runtime's own work.
    pub const SYSTEM: StackId = StackId(CentreId::SYSTEM.0);
    /// A collection.
    pub const GC: StackId = StackId(CentreId::GC.0);
    /// A thread that waits.
    pub const IDLE: StackId = StackId(CentreId::IDLE.0);

    /// The number.
    pub const fn get(self) -> u32 {
        self.0
    }

    /// The stack of this number; whether it exists, the store says: one that does not looks like [`MAIN`](Self::MAIN).
    pub const fn from_raw(number: u32) -> StackId {
        StackId(number)
    }

    /// What it was pushed on. `None` for the empty stack.
    pub fn parent(self) -> Option<StackId> {
        OF_THE_PROCESS.node(self).map(|(parent, _)| parent)
    }

    /// The centre on top: MAIN for the empty stack.
    pub fn centre(self) -> CentreId {
        OF_THE_PROCESS.node(self).map_or(CentreId::MAIN, |(_, centre)| centre)
    }

    /// Its centres, innermost first; MAIN, which all have in common, is left out.
    pub fn centres(self) -> impl Iterator<Item = CentreId> {
        let mut next = OF_THE_PROCESS.node(self);
        std::iter::from_fn(move || {
            let (parent, centre) = next?;
            next = OF_THE_PROCESS.node(parent);
            Some(centre)
        })
    }

    /// How many centres are on it, MAIN left out.
    pub fn depth(self) -> usize {
        self.centres().count()
    }

    /// This stack with `centre` on top; or, if it is on the stack already, what ends with that. Without room for another
    /// stack, this one.
    #[inline]
    #[must_use]
    pub fn push(self, centre: CentreId) -> StackId {
        OF_THE_PROCESS.push(self, centre)
    }
}

/// A store of stacks. The process has one.
#[derive(Debug)]
pub(super) struct Stacks {
    memory: Mapped<MAPPED>,
    /// Numbers given out, or not to be given out.
    claimed: AtomicU32,
}

static OF_THE_PROCESS: Stacks = Stacks::new();

impl Stacks {
    const fn new() -> Stacks {
        Stacks { memory: Mapped::new(), claimed: AtomicU32::new(CentreId::BUILT_IN.len() as u32 + 1) }
    }

    pub(super) fn of_the_process() -> &'static Stacks {
        &OF_THE_PROCESS
    }

    #[inline(always)]
    fn push(&self, stack: StackId, centre: CentreId) -> StackId {
        let key = key(stack, centre);
        if let Some(base) = self.memory.base()
            && let slot = near(base, hash(key), 0).load(Ordering::Acquire)
            && slot & !PART == key
        {
            return StackId((slot & PART) as u32);
        }
        self.push_slowly(stack, centre)
    }

    #[cold]
    #[inline(never)]
    fn push_slowly(&self, stack: StackId, centre: CentreId) -> StackId {
        let Ok(base) = self.memory.map(prepare) else { return stack };
        let key = key(stack, centre);
        let mut child = None;
        for slot in probe(base, key) {
            // Acquire: pairs with the Release below: the node that it leads to is there.
            let mut edge = slot.load(Ordering::Acquire);
            if edge == 0 {
                let Some(to) = child.or_else(|| self.child(base, stack, centre)) else { return stack };
                child = Some(to);
                // Release: pairs with the Acquires of who looks for an edge.
                match slot.compare_exchange(0, key | u64::from(to.0), Ordering::Release, Ordering::Acquire) {
                    Ok(_) => return to,
                    Err(now) => edge = now,
                }
            }
            if edge & !PART == key {
                return StackId((edge & PART) as u32);
            }
        }
        // No room for an edge. Whether a centre is on a stack can be told without.
        self.occurrence(stack, centre).unwrap_or(stack)
    }

    /// Where a new edge leads. `None` if there is no room for another node.
    fn child(&self, base: *mut u8, stack: StackId, centre: CentreId) -> Option<StackId> {
        if let Some(occurrence) = self.occurrence(stack, centre) {
            return Some(occurrence);
        }
        if stack == StackId::MAIN && centre.is_built_in() {
            return Some(StackId(centre.0));
        }
        let next = |claimed: u32| ((claimed as usize) < MOST_STACKS).then_some(claimed + 1);
        let number = self.claimed.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next).ok()?;
        // Release: pairs with the Acquire in `node`, for who goes over all.
        node(base, number).store(u64::from(stack.0) << 32 | u64::from(centre.0), Ordering::Release);
        Some(StackId(number))
    }

    /// The part of the stack that ends with this centre, if it is on it.
    fn occurrence(&self, stack: StackId, centre: CentreId) -> Option<StackId> {
        if centre == CentreId::MAIN {
            return Some(StackId::MAIN);
        }
        let mut at = stack;
        while let Some((parent, top)) = self.node(at) {
            if top == centre {
                return Some(at);
            }
            at = parent;
        }
        None
    }

    /// What the stack was pushed on, and what was pushed. `None` for the empty one.
    #[inline]
    fn node(&self, stack: StackId) -> Option<(StackId, CentreId)> {
        let base = self.memory.base().filter(|_| (stack.0 as usize) < MOST_STACKS)?;
        // Acquire: pairs with the Release in `child`.
        let word = node(base, stack.0).load(Ordering::Acquire);
        (word != 0).then_some((StackId((word >> 32) as u32), CentreId(word as u32)))
    }

    /// Every stack but the empty one; each comes after what it was pushed on.
    pub(super) fn iter(&self) -> impl Iterator<Item = StackId> {
        let claimed = if self.memory.base().is_some() { self.claimed.load(Ordering::Relaxed) } else { 0 };
        (1..claimed).map(StackId).filter(|stack| self.node(*stack).is_some())
    }

    /// Makes the stacks of the built-in centres readable.
    pub(super) fn prepare(&self) {
        // Without memory there are none.
        let _ = self.memory.map(prepare);
    }
}

/// Writes the stacks of the built-in centres, each alone on MAIN; MAIN itself is the empty stack.
fn prepare(base: *mut u8) {
    for centre in CentreId::BUILT_IN.into_iter().filter(|centre| *centre != CentreId::MAIN) {
        node(base, centre.0).store(centre.0.into(), Ordering::Relaxed);
    }
}

/// What an edge is found by: never 0, since no centre is.
#[inline(always)]
const fn key(stack: StackId, centre: CentreId) -> u64 {
    (stack.0 as u64) << (2 * PART_BITS) | (centre.0 as u64) << PART_BITS
}

#[inline(always)]
const fn hash(key: u64) -> u64 {
    // Fibonacci hashing: the lower bits are 0, and the numbers small.
    (key >> PART_BITS).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

#[inline(always)]
fn near(base: *mut u8, hash: u64, step: usize) -> &'static AtomicU64 {
    word(base, NEAR_AT, ((hash >> (64 - NEAR.trailing_zeros())) as usize + step) % NEAR)
}

/// The slots in which an edge may be, the best first.
fn probe(base: *mut u8, key: u64) -> impl Iterator<Item = &'static AtomicU64> {
    let hash = hash(key);
    let far = move |step| word(base, FAR_AT, ((hash >> (64 - FAR.trailing_zeros())) as usize + step) % FAR);
    (0..NEAR_PROBES).map(move |step| near(base, hash, step)).chain((0..FAR_PROBES).map(far))
}

#[inline(always)]
fn node(base: *mut u8, stack: u32) -> &'static AtomicU64 {
    debug_assert!((stack as usize) < MOST_STACKS);
    word(base, 0, stack as usize)
}

#[inline(always)]
fn word(base: *mut u8, part: usize, index: usize) -> &'static AtomicU64 {
    // SAFETY: callers keep to their part of the mapping, which is aligned and never unmapped; zero is a valid word.
    unsafe { &*base.add(part).cast::<AtomicU64>().add(index) }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;
    use rstest::rstest;

    use super::*;

    /// Stores are never unmapped; a test leaks its own.
    fn store() -> &'static Stacks {
        Box::leak(Box::new(Stacks::new()))
    }

    fn expanded(store: &Stacks, stack: StackId) -> Vec<u32> {
        let mut centres = Vec::new();
        let mut at = stack;
        while let Some((parent, centre)) = store.node(at) {
            centres.push(centre.0);
            at = parent;
        }
        centres.reverse();
        centres
    }

    /// What pushing means, said with a list.
    fn push_by_list(stack: &mut Vec<u32>, centre: u32) {
        match stack.iter().position(|on_it| *on_it == centre) {
            _ if centre == CentreId::MAIN.0 => stack.clear(),
            Some(at) => stack.truncate(at + 1),
            None => stack.push(centre),
        }
    }

    #[rstest]
    #[case(&[], &[])]
    #[case(&[10, 11, 12], &[10, 11, 12])]
    #[case(&[10, 11, 12, 11], &[10, 11])]
    #[case(&[10, 10, 10], &[10])]
    #[case(&[10, 11, 12, 10, 12], &[10, 12])]
    #[case(&[10, 11, 1], &[])]
    #[case(&[3], &[3])]
    fn pushing_goes_back_to_where_the_centre_was(#[case] pushed: &[u32], #[case] left: &[u32]) {
        let store = store();
        for _ in 0..2 {
            let stack = pushed.iter().fold(StackId::MAIN, |stack, centre| store.push(stack, CentreId(*centre)));
            assert_eq!(expanded(store, stack), left);
        }
    }

    #[test]
    fn built_in_centres_alone_have_their_own_numbers() {
        let store = store();
        store.prepare();
        for (centre, stack) in [(CentreId::GC, StackId::GC), (CentreId::IDLE, StackId::IDLE)] {
            assert_eq!(expanded(store, stack), [centre.get()]);
            assert_eq!(store.push(StackId::MAIN, centre), stack);
        }
        assert_eq!(store.iter().count(), 6, "MAIN alone is the empty stack");
    }

    #[test]
    fn a_full_store_keeps_the_stacks_that_it_has() {
        let store = store();
        let mut made = Vec::new();
        // Chains of two: as many nodes as edges.
        for centre in 8.. {
            let first = store.push(StackId::MAIN, CentreId(centre));
            if first == StackId::MAIN {
                break;
            }
            made.push((first, centre));
        }
        assert_eq!(made.len(), MOST_STACKS - 8);
        for (stack, centre) in made {
            assert_eq!(store.push(StackId::MAIN, CentreId(centre)), stack);
            assert_eq!(store.push(stack, CentreId(7)), stack, "there is no room for another");
            assert_eq!(store.push(stack, CentreId(1)), StackId::MAIN);
        }
    }

    #[test]
    fn threads_that_push_at_once_agree() {
        let store = store();
        let walk = |seed: u64| {
            let mut random = seed;
            let mut stack = StackId::MAIN;
            let mut list = Vec::new();
            for _ in 0..20_000 {
                random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                let centre = 8 + (random >> 60) as u32;
                stack = store.push(stack, CentreId(centre));
                push_by_list(&mut list, centre);
                assert_eq!(expanded(store, stack), list);
            }
        };
        std::thread::scope(|scope| (0..4).for_each(|thread| drop(scope.spawn(move || walk(thread / 2)))));
        // What leads to the same list is the same stack, however often it was pushed.
        let ids: HashMap<Vec<u32>, StackId> = store.iter().map(|stack| (expanded(store, stack), stack)).collect();
        for (list, _) in ids {
            let again = |list: &[u32]| list.iter().fold(StackId::MAIN, |stack, c| store.push(stack, CentreId(*c)));
            assert_eq!(again(&list), again(&list));
            assert_eq!(expanded(store, again(&list)), list);
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        /// The oracle is a list.
        #[test]
        fn a_stack_is_a_list_without_repetitions(pushed in proptest::collection::vec(1_u32..14, 0..60)) {
            let store = store();
            let (mut stack, mut list) = (StackId::MAIN, Vec::new());
            let mut seen = HashMap::new();
            for centre in pushed {
                stack = store.push(stack, CentreId(centre));
                push_by_list(&mut list, centre);
                prop_assert_eq!(expanded(store, stack), list.clone());
                prop_assert_eq!(*seen.entry(list.clone()).or_insert(stack), stack, "one list, two numbers");
            }
        }
    }
}
