//! The cost centre stacks of the process. All of them form one [tree](super::tree), and the number of a stack is the number of its node.
//!
//! The first edges are close together in memory, so that a program with few stacks touches few pages.

use super::numbers::{CentreId, StackId};
use super::tree::Tree;

/// Maximum number of stacks.
const MOST_STACKS: usize = 1 << 20;
/// The number of slots of the table of edges that is searched first.
const NEAR: usize = 1 << 12;
/// The number of slots of the table of edges that is searched second.
const FAR: usize = 1 << 22;

/// A store of stacks. The process has one.
pub(super) type Stacks = Tree<MOST_STACKS, NEAR, FAR>;

static OF_THE_PROCESS: Stacks = Stacks::new();

impl Stacks {
    pub(super) fn of_the_process() -> &'static Stacks {
        &OF_THE_PROCESS
    }
}

impl StackId {
    /// Returns the stack on which the innermost centre was pushed. `None` for the empty stack.
    pub fn parent(self) -> Option<StackId> {
        OF_THE_PROCESS.node(self).map(|(parent, _)| parent)
    }

    /// Returns the innermost centre; MAIN for the empty stack.
    pub fn centre(self) -> CentreId {
        OF_THE_PROCESS.node(self).map_or(CentreId::MAIN, |(_, centre)| centre)
    }

    /// Returns the stack's centres, innermost first, without MAIN, which is the bottom of every stack.
    pub fn centres(self) -> impl Iterator<Item = CentreId> {
        let mut next = OF_THE_PROCESS.node(self);
        std::iter::from_fn(move || {
            let (parent, centre) = next?;
            next = OF_THE_PROCESS.node(parent);
            Some(centre)
        })
    }

    /// Returns the number of the stack's centres, not counting MAIN.
    pub fn depth(self) -> usize {
        self.centres().count()
    }

    /// Returns this stack with `centre` on top. If `centre` is on the stack already, returns the part of the stack that ends with
    /// it. If there is no room for another stack, returns this stack.
    #[inline]
    #[must_use]
    pub fn push(self, centre: CentreId) -> StackId {
        OF_THE_PROCESS.push(self, centre)
    }
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

    /// Pushes a centre on a list: the specification of what pushing on a stack does.
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

    /// Without the check in `push_slowly` the nodes of both stacks refer to each other, and the second push never returns.
    #[test]
    fn a_number_that_is_no_stack_yet_counts_as_main() {
        let store = store();
        let last = store.push(StackId::MAIN, CentreId(20));
        let (next, after) = (StackId(last.0 + 1), StackId(last.0 + 2));
        assert_eq!(store.push(after, CentreId(21)), next);
        assert_eq!(expanded(store, next), [21]);
        assert_eq!(store.push(next, CentreId(22)), after);
        assert_eq!(expanded(store, after), [21, 22]);
        assert_eq!(expanded(store, store.push(StackId(u32::MAX), CentreId(23))), [23]);
    }

    #[test]
    fn a_full_store_keeps_the_stacks_that_it_has() {
        let store = store();
        let mut made = Vec::new();
        // The stacks have one centre each, so there are as many nodes as edges.
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
            assert_eq!(store.push(stack, CentreId(7)), stack, "no room for another stack");
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
        // Equal lists always give the same stack, however often they are pushed.
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
