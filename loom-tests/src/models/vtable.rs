//! The thread vtable: a swap that races with a stop, and the notifications of new threads.

use std::sync::Arc;

use crate::check::Preemptions::{AtMost, Unbounded};
use crate::check::{Fault, explore, must_fail_without};
use crate::playground::{Forever, Playground, Slices, Stopper};
use crate::sabotage::Guard;
use crate::sync::lock::Patience;
use crate::sync::{AtomicU32, LockGuard, Ordering, UnsafeCell};
use crate::world::handshake::Holder;
use crate::world::latch::{Latch, StillInUse};

/// A vtable that counts its unfinished stops.
#[derive(Debug)]
struct Vtable {
    id: u32,
    stops: UnsafeCell<u32>,
}

// SAFETY: the cell is loom's, and loom reports unordered accesses to it.
unsafe impl Sync for Vtable {}

impl Vtable {
    fn new(id: u32) -> Self {
        Self { id, stops: UnsafeCell::new(0) }
    }

    fn stop(&self, world: &Playground) {
        // SAFETY: loom reports every concurrent access.
        self.stops.with_mut(|stops| unsafe { *stops += 1 });
        world.stop(Holder::Collection, None);
    }

    fn start(&self, world: &Playground) {
        world.start(Holder::Collection, None);
        self.stops.with_mut(|stops| {
            // SAFETY: loom reports every concurrent access.
            let stops = unsafe { &mut *stops };
            assert_eq!(*stops, 1, "a vtable starts a world that it has not stopped");
            *stops -= 1;
        });
    }

    fn owes_nothing(&self) -> bool {
        // SAFETY: loom reports every concurrent write.
        self.stops.with(|stops| unsafe { *stops }) == 0
    }
}

/// Swaps the vtable. In these models only one thread calls this.
fn swap(latch: &Latch<Vtable>, vtable: Vtable, patience: &mut impl Patience) -> Result<Vtable, StillInUse<Vtable>> {
    // SAFETY: no other thread swaps the vtable.
    unsafe { latch.swap(vtable, patience) }
}

fn collect_by_the_vtable_in_force(world: &Playground, latch: &Latch<Vtable>) {
    let vtable = latch.latch();
    vtable.with(|v| v.stop(world));
    world.mark(None);
    vtable.with(|v| v.start(world));
}

#[test]
fn a_swap_racing_a_stop() {
    explore("vtable swap racing a stop, safepoints", AtMost(3), || {
        let world = Playground::new(Stopper::Safepoints, 2, 1, 1);
        let latch = Arc::new(Latch::new(Vtable::new(1)));
        let mutator = world.mutator(0, |world| {
            world.safepoint(0);
            world.work(0);
            world.block(0);
        });
        let (inner, shared) = (world.clone(), Arc::clone(&latch));
        let swapper = world.other(2, move |_| {
            let outgoing = swap(&shared, Vtable::new(2), &mut Forever).expect("Forever does not give up");
            assert_eq!(outgoing.id, 1);
            assert!(outgoing.owes_nothing(), "the outgoing vtable was not asked to start the world it stopped");
        });
        collect_by_the_vtable_in_force(&inner, &latch);
        swapper.join().expect("loom reports what fails");
        latch.latch().with(|v| assert_eq!(v.id, 2));
        mutator.join().expect("loom reports what fails");
    });
}

#[test]
fn two_swaps_racing_two_stops() {
    explore("two vtable swaps racing two stops", AtMost(5), || {
        let world = Playground::new(Stopper::Safepoints, 2, 0, 0);
        let latch = Arc::new(Latch::new(Vtable::new(1)));
        let shared = Arc::clone(&latch);
        let swapper = world.other(2, move |_| {
            for id in [2, 3] {
                let outgoing = swap(&shared, Vtable::new(id), &mut Forever).expect("Forever does not give up");
                assert_eq!(outgoing.id, id - 1);
                assert!(outgoing.owes_nothing(), "the outgoing vtable was not asked to start the world it stopped");
            }
        });
        collect_by_the_vtable_in_force(&world, &latch);
        collect_by_the_vtable_in_force(&world, &latch);
        swapper.join().expect("loom reports what fails");
        latch.latch().with(|v| assert_eq!(v.id, 3));
    });
}

#[test]
fn a_swap_that_gives_up_changes_nothing() {
    explore("a vtable swap that gives up, then one that does not", Unbounded, || {
        let world = Playground::new(Stopper::Safepoints, 2, 0, 0);
        let latch = Arc::new(Latch::new(Vtable::new(1)));
        let shared = Arc::clone(&latch);
        let swapper = world.other(2, move |_| {
            let present = match swap(&shared, Vtable::new(2), &mut Slices(0)) {
                Ok(outgoing) => {
                    assert!(outgoing.owes_nothing());
                    2
                }
                Err(StillInUse(incoming)) => {
                    assert_eq!(incoming.id, 2);
                    1
                }
            };
            let outgoing = swap(&shared, Vtable::new(3), &mut Forever).expect("Forever does not give up");
            assert_eq!(outgoing.id, present);
            assert!(outgoing.owes_nothing());
        });
        collect_by_the_vtable_in_force(&world, &latch);
        swapper.join().expect("loom reports what fails");
        latch.latch().with(|v| assert_eq!(v.id, 3));
    });
}

#[test]
fn a_swap_that_tears_a_stop_from_its_start_is_caught() {
    // Without the latch, the new vtable would start the world that the old vtable stopped, or the old vtable is removed
    // while it is in use; loom finds the second fault first.
    must_fail_without(Guard::VtableSwap, "models::vtable::a_swap_racing_a_stop", Fault::Race);
}

#[test]
fn thread_created_racing_a_collection() {
    explore("thread_created under the allocation lock racing a collection", AtMost(4), || {
        let world = Playground::new(Stopper::Safepoints, 1, 1, 0);
        // Whether the vtable was notified of the thread. The allocation lock keeps this consistent with the list.
        let known = Arc::new(AtomicU32::new(0));
        let told = Arc::clone(&known);
        let mutator = world.mutator(0, move |world| {
            let enlist = |_: &mut LockGuard<'_>| {
                world.threads[0].state.attach();
                world.list(0, true);
            };
            world.locks.thread_created(enlist, |()| told.store(1, Ordering::Relaxed));
            world.work(0);
            world.safepoint(0);
            world.block(0);
        });
        let locks = world.locks_by_stranger();
        let known = known.load(Ordering::Relaxed) == 1;
        assert_eq!(known, world.is_listed(0), "a stop finds a thread that the vtable was not notified of");
        world.collect(None);
        drop(locks);
        mutator.join().expect("loom reports what fails");
    });
}

#[test]
fn a_vtable_that_is_notified_without_the_lock_is_caught() {
    must_fail_without(
        Guard::VtableCreatedUnderLock,
        "models::vtable::thread_created_racing_a_collection",
        Fault::Claim("a stop finds a thread that the vtable was not notified of"),
    );
}
