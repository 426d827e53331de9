//! Scopes of arenas: threads that enter and leave while others collect.

use std::convert::Infallible;
use std::sync::Arc;

use crate::check::Preemptions::AtMost;
use crate::check::{Fault, explore, must_fail_without};
use crate::collector::scopes::Scopes;
use crate::kernel::{self, Kernel};
use crate::sabotage::Guard;
use crate::sync::{Lock, UnsafeCell};

/// A world with one object, which each collection frees and each scope uses.
struct World {
    allocation: Lock,
    scopes: Scopes,
    object: UnsafeCell<u32>,
}

// SAFETY: the data that is not Sync is in a loom cell, and loom reports unordered accesses to it.
unsafe impl Sync for World {}
// SAFETY: as above.
unsafe impl Send for World {}

impl World {
    fn new() -> Arc<Self> {
        Arc::new(World { allocation: Lock::new(), scopes: Scopes::new(), object: UnsafeCell::new(0) })
    }

    fn scope(&self) {
        while !self.scopes.may_enter() {}
        let held = self.allocation.lock();
        self.scopes.enter(&held);
        drop(held);
        // SAFETY: loom reports every concurrent write.
        self.object.with(|object| unsafe { *object });
        // An allocation in the scope.
        drop(self.allocation.lock());
        // SAFETY: as above.
        self.object.with(|object| unsafe { *object });
        self.scopes.leave();
    }

    /// Collects. Returns whether it did, before its time was used up.
    fn collect(&self) -> bool {
        let wait = |time_is_up: &mut bool, word: &_, value| {
            *time_is_up |= kernel::wait(word, value, Some(5)) == kernel::FutexWait::TimedOut;
            !*time_is_up
        };
        let lock = |_: &mut bool| Ok::<_, Infallible>(self.allocation.lock());
        let Ok(locked) = self.scopes.lock_outside(&mut false, wait, lock);
        // SAFETY: loom reports every concurrent access.
        locked.ok().map(|_held| self.object.with_mut(|object| unsafe { *object += 1 })).is_some()
    }
}

#[test]
fn no_collection_frees_what_a_scope_uses() {
    explore("scopes, 2 threads and a collection", AtMost(3), || {
        let kernel = Kernel::boot(3);
        let world = World::new();
        let threads: Vec<_> = (2..=3)
            .map(|tid| {
                let world = Arc::clone(&world);
                kernel.spawn(tid, move || world.scope())
            })
            .collect();
        assert!(world.collect(), "the wait never times out in this model");
        threads.into_iter().for_each(|thread| thread.join().expect("loom reports what fails"));
        assert_eq!(world.scopes.count(), 0);
    });
}

#[test]
fn a_collection_that_does_not_wait_for_scopes_is_caught() {
    must_fail_without(Guard::ArenaScopes, "models::scopes::no_collection_frees_what_a_scope_uses", Fault::Race);
}

#[test]
fn two_collections_and_two_scopes_of_a_thread_end() {
    explore("scopes, 2 collections", AtMost(3), || {
        let kernel = Kernel::boot(3);
        let world = World::new();
        let (scopes, collections) = (Arc::clone(&world), Arc::clone(&world));
        let thread = kernel.spawn(2, move || (0..2).for_each(|_| scopes.scope()));
        let other = kernel.spawn(3, move || assert!(collections.collect()));
        assert!(world.collect());
        thread.join().expect("loom reports what fails");
        other.join().expect("loom reports what fails");
    });
}

/// A collection that gives up does not keep threads from entering.
#[test]
fn a_scope_begins_after_a_collection_has_given_up() {
    explore("scopes, a collection gives up", AtMost(3), || {
        let kernel = Kernel::boot(2);
        let world = World::new();
        let same = Arc::clone(&world);
        let thread = kernel.spawn(2, move || {
            let held = same.allocation.lock();
            same.scopes.enter(&held);
            drop(held);
            kernel::time_is_up();
            same.scopes.leave();
        });
        let _may_have_given_up = world.collect();
        assert!(world.scopes.may_enter(), "a scope waits for a collection that has given up");
        thread.join().expect("loom reports what fails");
        assert!(world.collect());
    });
}
