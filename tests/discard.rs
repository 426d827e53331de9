//! A stop that its owner has lost: the collection must not free anything on the strength of it (`.debug.dies`).

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use stopworld::{CollectError, Gc, GcCell, SignalStopper, StopError, StopRequest, ThreadVtable, World, traced};

/// The number of SIGURG on Linux x86-64.
const SIGURG: i32 = 23;

traced! {
    struct Link { next: GcCell<Option<Gc<Link>>>, value: u64 }
}

/// Stops like the built-in stopper, but says that it lost the world while `lost` is set.
struct Forgetful {
    inner: SignalStopper,
    lost: Arc<AtomicBool>,
}

// SAFETY: stopping and starting are the built-in stopper's own.
unsafe impl ThreadVtable for Forgetful {
    fn name(&self) -> &'static str {
        "forgetful"
    }

    fn stop_world(&self, stop: &StopRequest<'_>) -> Result<(), StopError> {
        self.inner.stop_world(stop)
    }

    fn start_world(&self, stop: &StopRequest<'_>) {
        self.inner.start_world(stop);
    }

    fn still_holds(&self, _: &StopRequest<'_>) -> bool {
        !self.lost.load(Ordering::Relaxed)
    }
}

#[test]
fn a_collection_whose_stop_was_lost_frees_nothing_and_is_repeated_by_the_worlds_own_stopper() {
    let alive_after_failures = Arc::new(Mutex::new(Vec::new()));
    let listening = Arc::new(OnceLock::<World>::new());
    let world = {
        let (alive, world) = (Arc::clone(&alive_after_failures), Arc::clone(&listening));
        World::builder()
            .on_failure(move |error| {
                assert!(matches!(error, CollectError::Discarded { .. }), "{error}");
                // Between the collection that was lost and the one that repeats it.
                alive.lock().unwrap().push(world.get().unwrap().verify().unwrap().live_objects);
            })
            .build()
            .unwrap()
    };
    listening.set(world.clone()).unwrap();
    let lost = Arc::new(AtomicBool::new(true));
    let vtable = Forgetful { inner: SignalStopper::new(SIGURG).unwrap(), lost: Arc::clone(&lost) };
    world.set_thread_vtable(Arc::new(vtable)).unwrap();
    let built = {
        // SAFETY: every Gc is a local variable of the thread, or in the object that the root keeps.
        let thread = unsafe {
            world.spawn("builder", |m| {
                let mut list = None;
                for value in 0..1000 {
                    list = Some(m.alloc(Link { next: GcCell::new(list), value }).unwrap());
                }
                for value in 0..500 {
                    m.alloc(Link { next: GcCell::new(None), value }).unwrap();
                }
                m.root(list.unwrap())
            })
        };
        thread.unwrap().join().unwrap()
    };

    for _ in 0..3 {
        assert_eq!(world.collect().unwrap().live_objects, 1000);
    }
    let alive = std::mem::take(&mut *alive_after_failures.lock().unwrap());
    assert_eq!(alive, [1500, 1000, 1000], "nothing may be freed on a lost stop");
    assert_eq!(world.totals().collections, 6);

    // A mutator that collects because it allocates.
    // SAFETY: every Gc is a local variable.
    let thread = unsafe {
        world.spawn("allocator", |m| {
            let kept = m.alloc(Link { next: GcCell::new(None), value: 77 }).unwrap();
            let before = m.world().totals().collections;
            while m.world().totals().collections < before + 4 {
                m.alloc(Link { next: GcCell::new(None), value: 0 }).unwrap();
            }
            kept.value
        })
    };
    assert_eq!(thread.unwrap().join().unwrap(), 77);
    assert!(alive_after_failures.lock().unwrap().len() >= 2);

    lost.store(false, Ordering::Relaxed);
    assert_eq!(world.collect().unwrap().live_objects, 1000);
    assert_eq!(world.verify().unwrap().live_objects, 1000);
    drop(built);
    assert_eq!(world.collect().unwrap().live_objects, 0);
}
