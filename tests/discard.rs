//! A stop that its owner has lost: the collection must not free anything on the strength of it (`.debug.dies`).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

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

    fn still_holds(&self) -> bool {
        !self.lost.load(Ordering::Relaxed)
    }
}

#[test]
fn a_collection_whose_stop_was_lost_frees_nothing_and_the_next_one_does() {
    let failures = Arc::new(AtomicU32::new(0));
    let world = {
        let failures = Arc::clone(&failures);
        World::builder()
            .on_failure(move |_| {
                failures.fetch_add(1, Ordering::Relaxed);
            })
            .build()
            .unwrap()
    };
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
        assert!(matches!(world.collect(), Err(CollectError::Discarded { .. })));
        assert_eq!(world.verify().unwrap().live_objects, 1500, "nothing may be freed on a lost stop");
    }
    assert_eq!(failures.load(Ordering::Relaxed), 3);

    lost.store(false, Ordering::Relaxed);
    assert_eq!(world.collect().unwrap().live_objects, 1000);
    assert_eq!(world.verify().unwrap().live_objects, 1000);
    drop(built);
    assert_eq!(world.collect().unwrap().live_objects, 0);
}
