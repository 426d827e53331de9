//! Finalizers: functions of the program that are called with objects that have died.
//!
//! An object has at most one; it is of one of four orders:
//!
//! | order | the finalizer waits as long as … |
//! |---|---|
//! | topological | the object is reachable from another dead object with an ordered finalizer, or from itself |
//! | ignore self | as above, but the object's own pointers to itself do not count |
//! | no order | – |
//! | unreachable | the object is reachable from any other dead object with a finalizer |
//!
//! So the collector marks what dead objects with the first two orders refer to. Those that are still not marked are ready. Then they are
//! marked themselves, with everything that they reach: the finalizer may use it. An object on a cycle of ordered finalizers is never
//! finalized.
//!
//! The objects and functions that are ready wait in a queue, for whichever thread runs them. Room in the queue is reserved when a
//! finalizer is registered, because nothing may be allocated when the object is found dead.

use std::collections::VecDeque;
use std::ffi::c_void;
use std::hash::BuildHasherDefault;

use super::{OrderedMap, remove_dead};
use crate::lock::Guarded;

/// A finalizer, as the program gives it: the object, and a word of its own.
pub(crate) type Function = unsafe extern "C-unwind" fn(*mut c_void, *mut c_void);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    Topological,
    IgnoreSelf,
    None,
    Unreachable,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Finalizer {
    pub(crate) function: Function,
    /// The program's word for the function. It keeps an object alive, as a root does.
    pub(crate) data: usize,
    pub(crate) order: Order,
}

/// A finalizer whose object is dead.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ready {
    pub(crate) object: usize,
    pub(crate) finalizer: Finalizer,
}

#[derive(Debug)]
pub(crate) struct Finalizers {
    registered: OrderedMap<Finalizer>,
    ready: VecDeque<Ready>,
}

pub(crate) static FINALIZERS: Guarded<Finalizers> =
    Guarded::new(Finalizers { registered: OrderedMap::with_hasher(BuildHasherDefault::new()), ready: VecDeque::new() });

impl Finalizers {
    /// Sets or removes the finalizer of an object. Returns the one before.
    pub(crate) fn set(&mut self, object: usize, finalizer: Option<Finalizer>) -> Option<Finalizer> {
        let Some(finalizer) = finalizer else { return self.registered.swap_remove(&object) };
        let before = self.registered.insert(object, finalizer);
        // `reserve` counts from the length.
        self.ready.reserve(self.registered.len());
        before
    }

    pub(crate) fn registered(&self) -> usize {
        self.registered.len()
    }

    pub(crate) fn ready(&self) -> usize {
        self.ready.len()
    }

    /// Takes the finalizer that has been ready for longest.
    pub(crate) fn take_ready(&mut self) -> Option<Ready> {
        self.ready.pop_front()
    }

    /// Calls `visit` with the words of all finalizers, and the objects of those that are ready.
    pub(crate) fn for_each_root(&self, mut visit: impl FnMut(usize)) {
        self.registered.values().for_each(|finalizer| visit(finalizer.data));
        for Ready { object, finalizer } in &self.ready {
            visit(*object);
            visit(finalizer.data);
        }
    }

    /// Makes all finalizers ready, whether their objects are dead or not.
    pub(crate) fn make_all_ready(&mut self) {
        let all = self.registered.drain(..).map(|(object, finalizer)| Ready { object, finalizer });
        self.ready.extend(all);
    }

    /// Finds the finalizers whose objects are dead: marking has ended. Returns how many are ready now that were not before. Allocates
    /// nothing.
    pub(crate) fn find_dead(&mut self, marking: &mut impl Marking) -> usize {
        let (mut ordered, mut any_unreachable) = (false, false);
        for (&object, finalizer) in &self.registered {
            any_unreachable |= finalizer.order == Order::Unreachable;
            if matches!(finalizer.order, Order::Topological | Order::IgnoreSelf) && !marking.is_marked(object) {
                marking.mark_referents(object, finalizer.order == Order::IgnoreSelf);
                ordered = true;
            }
        }
        if ordered {
            marking.run();
        }
        let before = self.ready.len();
        self.queue_dead(marking, |order| order != Order::Unreachable);
        if any_unreachable {
            self.queue_dead(marking, |order| order == Order::Unreachable);
        }
        self.ready.len() - before
    }

    /// Queues the finalizers of these orders whose objects are not marked, and marks the objects.
    fn queue_dead(&mut self, marking: &mut impl Marking, is_wanted: impl Fn(Order) -> bool) {
        let before = self.ready.len();
        let is_dead = |object, finalizer: &Finalizer| is_wanted(finalizer.order) && !marking.is_marked(object);
        let dead = self.registered.iter().filter(|&(&object, finalizer)| is_dead(object, finalizer));
        self.ready.extend(dead.map(|(&object, &finalizer)| Ready { object, finalizer }));
        if self.ready.len() > before {
            remove_dead(&mut self.registered, is_dead);
            self.ready.iter().skip(before).for_each(|ready| marking.keep(ready.object));
            marking.run();
        }
    }
}

/// What [`Finalizers::find_dead`] needs of the collector.
pub(crate) trait Marking {
    /// Whether the object at this address is marked.
    fn is_marked(&self, object: usize) -> bool;
    /// Marks what an object refers to, at the next [`run`](Self::run).
    fn mark_referents(&mut self, object: usize, but_itself: bool);
    /// Marks an object, and what it refers to, at the next [`run`](Self::run).
    fn keep(&mut self, object: usize);
    /// Marks everything that is to be marked.
    fn run(&mut self);
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;
    use std::collections::{BTreeMap, BTreeSet};

    unsafe extern "C-unwind" fn nothing(_: *mut c_void, _: *mut c_void) {}

    /// A graph, and what is marked in it.
    #[derive(Default)]
    struct Graph {
        edges: BTreeMap<usize, Vec<usize>>,
        marked: BTreeSet<usize>,
        work: Vec<usize>,
    }

    impl Marking for Graph {
        fn is_marked(&self, object: usize) -> bool {
            self.marked.contains(&object)
        }

        fn mark_referents(&mut self, object: usize, but_itself: bool) {
            let referents = self.edges.get(&object).into_iter().flatten().copied();
            self.work.extend(referents.filter(|&to| !(but_itself && to == object)));
        }

        fn keep(&mut self, object: usize) {
            self.work.push(object);
        }

        fn run(&mut self) {
            while let Some(object) = self.work.pop() {
                if self.marked.insert(object) {
                    self.work.extend(self.edges.get(&object).into_iter().flatten());
                }
            }
        }
    }

    /// The objects that are ready after a collection in which nothing but 1000 is reachable.
    fn ready(orders: &[(usize, Order)], edges: &[(usize, usize)]) -> Vec<usize> {
        let mut finalizers = Finalizers { registered: OrderedMap::default(), ready: VecDeque::new() };
        for &(object, order) in orders {
            finalizers.set(object, Some(Finalizer { function: nothing, data: 0, order }));
        }
        let mut graph = Graph::default();
        edges.iter().for_each(|&(from, to)| graph.edges.entry(from).or_default().push(to));
        graph.keep(1000);
        graph.run();
        let capacity = finalizers.ready.capacity();
        let found = finalizers.find_dead(&mut graph);
        assert_eq!(finalizers.ready.capacity(), capacity, "nothing may be allocated");
        assert_eq!((found, found + finalizers.registered()), (finalizers.ready(), orders.len()));
        let mut objects: Vec<_> = finalizers.ready.iter().map(|ready| ready.object).collect();
        assert!(objects.iter().all(|&object| graph.is_marked(object)), "what is ready stays alive");
        objects.sort_unstable();
        objects
    }

    #[rstest]
    #[case::reachable(&[(1, Order::Topological), (2, Order::None)], &[(1000, 1), (1, 2)], &[])]
    #[case::chain(&[(1, Order::Topological), (2, Order::Topological)], &[(1, 2)], &[1])]
    #[case::chain_by_another(&[(1, Order::Topological), (3, Order::Topological)], &[(1, 2), (2, 3)], &[1])]
    #[case::cycle(&[(1, Order::Topological), (2, Order::Topological)], &[(1, 2), (2, 1)], &[])]
    #[case::itself(&[(1, Order::Topological)], &[(1, 1)], &[])]
    #[case::ignores_itself(&[(1, Order::IgnoreSelf), (2, Order::IgnoreSelf)], &[(1, 1), (1, 2)], &[1])]
    #[case::no_order(&[(1, Order::None), (2, Order::None)], &[(1, 2), (2, 1)], &[1, 2])]
    #[case::ordered_before(&[(1, Order::Topological), (2, Order::None)], &[(1, 2), (2, 1)], &[])]
    #[case::unreachable_waits(&[(1, Order::None), (2, Order::Unreachable)], &[(1, 2)], &[1])]
    #[case::unreachable(&[(1, Order::None), (2, Order::Unreachable)], &[(2, 1)], &[1, 2])]
    fn which_finalizers_are_ready(
        #[case] orders: &[(usize, Order)],
        #[case] edges: &[(usize, usize)],
        #[case] expected: &[usize],
    ) {
        assert_eq!(ready(orders, edges), expected);
    }
}
