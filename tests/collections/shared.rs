//! `GcMutex`: collections in objects that several threads change.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use rstest::rstest;
use stopworld::{Gc, GcHashMap, GcMutex, GcVec, Mutator, Root, Trace};

use super::hazard::while_collecting;
use super::hazard::{By, build, builder};

#[derive(Trace)]
struct Shared {
    log: GcMutex<GcVec<Gc<str>>>,
    counts: GcMutex<GcHashMap<Gc<str>, Gc<u64>>>,
}

const THREADS: usize = 3;
const ROUNDS: usize = 60;

#[rstest]
fn threads_change_collections_of_a_shared_object_without_losses(
    #[values(By::Signals, By::Safepoints, By::Debugger)] by: By,
) {
    let world = build(builder(), by);
    let make = |m: &Mutator| {
        let shared = Shared { log: GcMutex::new(GcVec::new()), counts: GcMutex::new(GcHashMap::new()) };
        m.root(m.alloc(shared).unwrap())
    };
    // SAFETY: the threads keep every `Gc` in local variables, in collected objects and in roots.
    let shared: Root<Shared> = unsafe { world.spawn("maker", make) }.unwrap().join().unwrap();
    while_collecting(&world, || {
        let threads: Vec<_> = (0..THREADS)
            .map(|number| {
                let shared = shared.clone();
                let work = move |m: &Mutator| {
                    for round in 0..ROUNDS {
                        let shared = shared.get(m);
                        let name = m.alloc_str(&format!("{}", round % 7)).unwrap();
                        shared.log.lock(m).push(m, m.alloc_str(&format!("{number} {round}")).unwrap()).unwrap();
                        let mut counts = shared.counts.lock(m);
                        let before = counts.get(&name).map_or(0, |count| **count);
                        counts.insert(m, name, m.alloc(before + 1).unwrap()).unwrap();
                    }
                };
                // SAFETY: as above.
                unsafe { world.spawn("worker", work) }.unwrap()
            })
            .collect();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    });
    // SAFETY: as above.
    let m = unsafe { world.attach("main") }.unwrap();
    m.collect().unwrap();
    let shared = shared.get(&m);
    let log = shared.log.lock(&m);
    for number in 0..THREADS {
        let prefix = format!("{number} ");
        let own = log.iter().filter_map(|line| line.strip_prefix(&prefix));
        assert!(own.map(|round| round.parse::<usize>().unwrap()).eq(0..ROUNDS), "in the order of the thread");
    }
    let total: u64 = shared.counts.lock(&m).values().map(|count| **count).sum();
    assert_eq!(total, (THREADS * ROUNDS) as u64);
}

#[test]
fn a_lock_excludes_other_threads_and_is_free_after_a_panic() {
    let world = build(builder(), By::Signals);
    // SAFETY: this thread keeps every `Gc` in local variables.
    let m = unsafe { world.attach("main") }.unwrap();
    let object = m.alloc(GcMutex::new(7_u64)).unwrap();
    let guard = object.lock(&m);
    assert!(object.try_lock().is_none());
    let root = m.root(object);
    let work = move |m: &Mutator| (root.get(m).try_lock().is_none(), *root.get(m).lock(m));
    // SAFETY: as above.
    let other = unsafe { world.spawn("other", work) }.unwrap();
    while !world.threads().iter().any(|thread| thread.name.as_str() == "other" && thread.blocking) {
        m.blocking(|| std::thread::sleep(Duration::from_millis(1)));
    }
    m.collect().unwrap();
    assert_eq!(format!("{object:?}"), "GcMutex(<locked>)");
    drop(guard);
    assert_eq!(other.join().unwrap(), (true, 7));
    let again = AssertUnwindSafe(|| {
        let _guard = object.lock(&m);
        drop(object.lock(&m));
    });
    let panic = catch_unwind(again).unwrap_err();
    let message = panic.downcast_ref::<String>().map(String::as_str).or(panic.downcast_ref::<&str>().copied());
    assert!(message.unwrap().contains("holds the `GcMutex` already"));
    assert_eq!(*object.lock(&m), 7);
    assert_eq!(format!("{object:?}"), "GcMutex(7)");
}
