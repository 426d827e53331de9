//! A stop whose owner has lost it: the collection must not free anything after such a stop (`.debug.dies`).

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, OnceLock};

use crate::hazard::Losing;
use stopworld::{CollectError, Gc, GcCell, World, traced};

traced! {
    struct Link { next: GcCell<Option<Gc<Link>>>, value: u64 }
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
                // Called between the lost collection and the one that repeats it.
                alive.lock().unwrap().push(world.get().unwrap().verify().unwrap().live_objects);
            })
            .build()
            .unwrap()
    };
    listening.set(world.clone()).unwrap();
    let lost = Losing::install(&world);
    lost.store(true, Ordering::Relaxed);
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
    assert_eq!(alive, [1500, 1000, 1000], "a lost stop must free nothing");
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
