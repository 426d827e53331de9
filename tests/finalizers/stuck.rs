//! Finalizers that do not return: the errors and messages that name them.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rstest::rstest;
use stopworld::{CloseError, CollectError, Gc, Mutator, SilenceReason, StopError, Stopper, World, traced};

traced! {
    struct Stuck { value: u64 }
}

static LET_GO: AtomicBool = AtomicBool::new(false);
static IN_IT: AtomicBool = AtomicBool::new(false);
static RETURNED: AtomicU32 = AtomicU32::new(0);
/// Held by each test, because the flags above exist once per process.
static ONE: Mutex<()> = Mutex::new(());

/// Runs until the test ends it; not in a blocking region.
fn runs_on(_: &Mutator, _: Gc<Stuck>) {
    IN_IT.store(true, Ordering::Relaxed);
    while !LET_GO.load(Ordering::Relaxed) {
        std::thread::sleep(Duration::from_millis(1));
    }
    RETURNED.fetch_add(1, Ordering::Relaxed);
}

/// A world in which such a finalizer runs, and another one is queued.
fn with_a_stuck_finalizer(stopper: Stopper, told: &Arc<Mutex<Vec<String>>>) -> World {
    LET_GO.store(false, Ordering::Relaxed);
    IN_IT.store(false, Ordering::Relaxed);
    RETURNED.store(0, Ordering::Relaxed);
    let told = Arc::clone(told);
    let world = World::builder()
        .heap_limit(16 << 20)
        .stopper(stopper)
        .stop_timeout(Duration::from_millis(300))
        .on_failure(move |error| {
            let kind = if matches!(error, CollectError::NotClosed(_)) { "closing" } else { "collecting" };
            told.lock().unwrap().push(format!("{kind}: {error}"));
        })
        .build()
        .unwrap();
    // SAFETY: every Gc is a local variable of a thread that has ended when this returns.
    let maker = unsafe {
        world.spawn("maker", |m| {
            for value in 0..2 {
                m.set_finalizer(m.alloc(Stuck { value }).unwrap(), runs_on).unwrap();
            }
        })
    };
    maker.unwrap().join().unwrap();
    let begin = Instant::now();
    while !IN_IT.load(Ordering::Relaxed) {
        assert!(begin.elapsed() < Duration::from_secs(60));
        // With safepoints the first finalizer may already block the second collection.
        let _ = world.collect();
        std::thread::sleep(Duration::from_millis(5));
    }
    world
}

#[rstest]
fn closing_and_dropping_a_world_name_the_finalizer_that_does_not_return(
    #[values(Stopper::Signals, Stopper::Safepoints)] stopper: Stopper,
) {
    let _one = ONE.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let told = Arc::default();
    let world = with_a_stuck_finalizer(stopper, &told);
    let error = world.close(Duration::from_millis(100)).unwrap_err();
    let CloseError::Finalizer { type_name, running, due, .. } = error else { panic!("{error}") };
    assert!(type_name.ends_with("Stuck"), "{type_name}");
    assert!(running > Duration::from_millis(90) && due <= 1, "{running:?}, {due}");
    told.lock().unwrap().clear();
    drop(world);
    let told = told.lock().unwrap().clone();
    LET_GO.store(true, Ordering::Relaxed);
    // The other finalizer still runs, on the thread of the dropped world: it must not set the flags of the next test.
    let begin = Instant::now();
    while RETURNED.load(Ordering::Relaxed) < 2 {
        assert!(begin.elapsed() < Duration::from_secs(60));
        std::thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(told.len(), 1, "{told:?}");
    let wanted = ["closing: the world was dropped", "within 5s", "Stuck\" object has been running for "];
    assert!(wanted.iter().all(|part| told[0].contains(part)), "{told:?}");
}

/// With safepoints no collection is possible meanwhile, and each error gives the reason.
#[test]
fn a_collection_that_a_finalizer_blocks_names_it_and_a_remedy() {
    let _one = ONE.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let world = with_a_stuck_finalizer(Stopper::Safepoints, &Arc::default());
    for error in [world.collect().unwrap_err(), world.verify().unwrap_err()] {
        let text = error.to_string();
        let CollectError::Stop(StopError::Unanswered { threads, .. }) = error else { panic!("{text}") };
        assert_eq!(threads.len(), 1);
        let SilenceReason::InFinalizer { type_name, .. } = threads[0].reason else { panic!("{text}") };
        assert!(type_name.ends_with("Stuck"), "{type_name}");
        let wanted = ["thread \"finalizer\"", "running the finalizer of a", "safepoint()", "blocking(..)"];
        assert!(wanted.iter().all(|part| text.contains(part)), "{text}");
    }
    LET_GO.store(true, Ordering::Relaxed);
    let begin = Instant::now();
    while world.collect().is_err() {
        assert!(begin.elapsed() < Duration::from_secs(60));
    }
    world.close(Duration::from_secs(60)).unwrap();
}
