//! Scopes: how a thread gets its cost centre stack.
//!
//! Each thread's record has a word with its current stack. Only that thread writes it; any thread may read it: the ticker at any
//! time, a census while the thread is stopped. A [`Scope`] pushes a centre, and restores the stack when it is dropped, also when a
//! panic unwinds. It finds the record with two loads, through the table that the suspend handler uses. A thread that is not
//! attached to a world has no record, and scopes on it do nothing.
//!
//! The cost of a scope does not depend on whether a profile is running, because a thread's stack must be right when a profile starts. If
//! allocations are charged, the beginning and the end of a scope also charge what the thread has allocated since its last change
//! of the stack to the stack that it leaves (see [`charges`](crate::heap::charges)).

use std::marker::PhantomData;

use super::centres::{Centres, Novelty};
use super::numbers::{CentreId, StackId};
use crate::collector::cache_of;
use crate::sync::{AtomicU32, Ordering};
use crate::world::fork;
use crate::world::handler::known_current;
use crate::world::stop_info::ThreadStopInfo;

/// Enters a cost centre until the returned value is dropped. Until then, the time of this thread and the objects that it allocates
/// are charged to the centre, on top of the enclosing scopes.
///
/// Module and place in the source are added to the name, so each place in the source is a centre of its own.
///
/// ```
/// use stopworld::{World, cost_centre, profile::StackId};
///
/// fn parse() -> StackId {
///     let _cost = cost_centre!("parse");
///     stopworld::profile::current_stack()
/// }
/// let world = World::builder().heap_limit(16 << 20).build()?;
/// // SAFETY: no references at all.
/// let mutator = unsafe { world.attach("main") }?;
/// assert_eq!(parse().centre().label(), "parse");
/// assert_eq!(mutator.cost_stack(), StackId::MAIN);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[macro_export]
macro_rules! cost_centre {
    ($label:expr) => {{
        static CENTRE: $crate::profile::CentrePlace =
            $crate::profile::CentrePlace::new($label, module_path!(), concat!(file!(), ":", line!()));
        CENTRE.enter()
    }};
}

/// A cost centre defined by a place in the source: what [`cost_centre!`](crate::cost_centre) makes.
#[derive(Debug)]
pub struct CentrePlace {
    label: &'static str,
    module: &'static str,
    place: &'static str,
    /// The centre's number; 0 until the centre is first entered.
    centre: AtomicU32,
}

impl CentrePlace {
    /// A name, a module, a place in the source.
    pub const fn new(label: &'static str, module: &'static str, place: &'static str) -> CentrePlace {
        CentrePlace { label, module, place, centre: AtomicU32::new(0) }
    }

    /// Returns the centre, and defines it on first use.
    #[inline]
    pub fn centre(&self) -> CentreId {
        // Acquire: pairs with the Release in `define`: the centre with this number is complete.
        match self.centre.load(Ordering::Acquire) {
            0 => self.define(),
            number => CentreId(number),
        }
    }

    #[cold]
    #[inline(never)]
    fn define(&self) -> CentreId {
        let centre = centre(self.label, self.module, self.place);
        // Release: pairs with the Acquire in `centre`.
        self.centre.store(centre.0, Ordering::Release);
        centre
    }

    /// Enters the centre on the calling thread.
    #[inline]
    pub fn enter(&self) -> Scope {
        Scope::enter(self.centre())
    }
}

/// Returns the cost centre with this name, module and place; the same three texts always give the same centre. Use it for names
/// made at run time. Texts longer than a label are cut. If the store is full, the result is [`CentreId::DONT_CARE`].
///
/// A new centre is reported by an event in every existing world. Not safe in a signal handler.
pub fn centre(label: &str, module: &str, place: &str) -> CentreId {
    let (centre, novelty) = Centres::of_the_process().define(label, module, place);
    if novelty == Novelty::New {
        fork::each_world(|hooks| hooks.centre_defined(centre.get()));
    }
    centre
}

/// Returns the cost centre stack of the calling thread; MAIN if it is not attached to a world.
#[inline]
pub fn current_stack() -> StackId {
    known_current().map_or(StackId::MAIN, stack_of)
}

/// Returns the cost centre stack of a thread. It may change at any time unless the thread is stopped.
#[inline(always)]
pub(crate) fn stack_of(record: &ThreadStopInfo) -> StackId {
    StackId(record.cost_stack())
}

/// The part of a thread's execution that is charged to a cost centre: from [`enter`](Self::enter) until the scope is dropped.
/// Drop the scopes of a thread in the reverse order in which they were entered, as local variables are.
#[must_use = "a scope that is dropped immediately charges nothing"]
#[derive(Debug)]
pub struct Scope {
    record: Option<&'static ThreadStopInfo>,
    serial: u64,
    before: StackId,
    _stays_on_its_thread: PhantomData<*mut ()>,
}

impl Scope {
    /// Enters a centre on the calling thread. Does nothing on a thread that is not attached to a world.
    #[inline]
    pub fn enter(centre: CentreId) -> Scope {
        let Some(record) = known_current() else { return Scope::nowhere() };
        let before = stack_of(record);
        change(record, before, before.push(centre));
        Scope { record: Some(record), serial: record.serial(), before, _stays_on_its_thread: PhantomData }
    }

    const fn nowhere() -> Scope {
        Scope { record: None, serial: 0, before: StackId::MAIN, _stays_on_its_thread: PhantomData }
    }
}

impl Drop for Scope {
    #[inline]
    fn drop(&mut self) {
        let Some(record) = self.record else { return };
        // The record is looked up again because it may belong to another thread by now. If this thread has detached meanwhile, it
        // has no stack; if it has attached again, it has another stack.
        if known_current().is_some_and(|now| std::ptr::eq(now, record)) && record.serial() == self.serial {
            change(record, stack_of(record), self.before);
        }
    }
}

/// Changes the stack of the calling thread. `record` is its record.
#[inline(always)]
pub(crate) fn change(record: &ThreadStopInfo, before: StackId, now: StackId) {
    if now == before {
        return;
    }
    // SAFETY: the cache belongs to a mutator of this thread, which clears the word before it frees the cache. No other thread does
    // so while this thread runs.
    if let Some(cache) = unsafe { cache_of(record) } {
        cache.settle_charges();
    }
    record.change_cost_stack(before.0, now.0);
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use super::*;
    use crate::World;

    fn names(stack: StackId) -> Vec<&'static str> {
        let mut names: Vec<_> = stack.centres().map(CentreId::label).collect();
        names.reverse();
        names
    }

    fn world() -> World {
        World::builder().heap_limit(16 << 20).build().unwrap()
    }

    #[test]
    fn a_scope_is_its_name_its_module_and_its_place() {
        let world = world();
        // SAFETY: no references at all.
        let m = unsafe { world.attach("main") }.unwrap();
        let scope = cost_centre!("here");
        let centre = m.cost_stack().centre();
        assert_eq!((centre.label(), centre.module()), ("here", "stopworld::profile::scope::tests"));
        assert!(centre.place().starts_with("src/profile/scope.rs:"));
        assert!(!centre.is_caf() && !centre.is_built_in());
        drop(scope);
        assert_eq!(m.cost_stack(), StackId::MAIN);
    }

    #[test]
    fn scopes_nest_and_recursion_goes_back() {
        fn down(depth: u32) -> Vec<Vec<&'static str>> {
            let _cost = cost_centre!("down");
            let here = names(current_stack());
            let below = if depth == 0 { Vec::new() } else { up(depth - 1) };
            assert_eq!(names(current_stack()), here);
            [vec![here], below].concat()
        }
        fn up(depth: u32) -> Vec<Vec<&'static str>> {
            let _cost = cost_centre!("up");
            [vec![names(current_stack())], down(depth)].concat()
        }
        let world = world();
        // SAFETY: no references at all.
        let _m = unsafe { world.attach("main") }.unwrap();
        assert_eq!(down(2), [vec!["down"], vec!["down", "up"], vec!["down"], vec!["down", "up"], vec!["down"]]);
        assert_eq!(current_stack(), StackId::MAIN);
    }

    #[test]
    fn a_panic_leaves_the_scopes_that_it_passes() {
        let world = world();
        // SAFETY: no references at all.
        let _m = unsafe { world.attach("main") }.unwrap();
        let _outer = cost_centre!("outer");
        let caught = catch_unwind(AssertUnwindSafe(|| {
            let _one = cost_centre!("one");
            let _two = cost_centre!("two");
            assert_eq!(names(current_stack()), ["outer", "one", "two"]);
            std::panic::resume_unwind(Box::new(()));
        }));
        assert!(caught.is_err());
        assert_eq!(names(current_stack()), ["outer"]);
    }

    #[test]
    fn a_thread_without_a_world_has_no_stack() {
        let _cost = cost_centre!("nowhere");
        assert_eq!(current_stack(), StackId::MAIN);
        let world = world();
        // SAFETY: no references at all.
        let m = unsafe { world.attach("main") }.unwrap();
        assert_eq!(m.cost_stack(), StackId::MAIN, "scopes entered before the attachment do not count");
        drop(_cost);
        assert_eq!(m.cost_stack(), StackId::MAIN);
    }

    #[test]
    fn a_scope_that_outlives_its_attachment_changes_nothing() {
        let world = world();
        // SAFETY: no references at all.
        let m = unsafe { world.attach("first") }.unwrap();
        let _outer = cost_centre!("outer");
        let inner = cost_centre!("inner");
        drop(m);
        // SAFETY: as above.
        let m = unsafe { world.attach("second") }.unwrap();
        assert_eq!(m.cost_stack(), StackId::MAIN);
        let _new = cost_centre!("new");
        drop(inner);
        assert_eq!(names(m.cost_stack()), ["new"]);
    }

    #[test]
    fn a_spawned_thread_begins_with_the_stack_of_its_spawner() {
        let world = world();
        // SAFETY: no references at all.
        let m = unsafe { world.attach("main") }.unwrap();
        let _cost = cost_centre!("spawning");
        let body = |m: &crate::Mutator| {
            let _cost = cost_centre!("spawned");
            names(m.cost_stack())
        };
        // SAFETY: as above.
        let thread = unsafe { world.spawn("child", body) }.unwrap();
        assert_eq!(thread.join().unwrap(), ["spawning", "spawned"]);
        assert_eq!(names(m.cost_stack()), ["spawning"]);
    }

    #[test]
    fn a_new_centre_is_reported_once_in_every_world() {
        use crate::events::{EventId, MemorySink, Selection};
        let sinks: Vec<_> = (0..2).map(|_| std::sync::Arc::new(MemorySink::with_capacity(1 << 10).unwrap())).collect();
        let worlds: Vec<_> = sinks
            .iter()
            .map(|sink| {
                let selection = Selection::of([EventId::CostCentre].into_iter().collect());
                World::builder().heap_limit(16 << 20).listen(sink.clone(), selection).build().unwrap()
            })
            .collect();
        let [first, second] = [0, 1].map(|_| centre("reported once", "module", "place"));
        assert_eq!(first, second);
        for sink in &sinks {
            let is_it = |record: &crate::events::Record| record.fields()[0] == u64::from(first.get());
            assert_eq!(sink.drain().filter(is_it).count(), 1);
        }
        drop(worlds);
    }
}
