//! A world's end frees everything that the world has: worlds with every feature on are built, used, closed and dropped.
//!
//! In an ordinary build the process's mappings show whether a world leaks any. `.ci/asan` runs the same test under LeakSanitizer, which
//! also reports leaked blocks of the allocator; with `WORLDS_END_LEAK` set it must report the block that is leaked here, so that a silent
//! run proves something.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use stopworld::events::record::FlightRecorder;
use stopworld::events::{NullSink, Selection, Statistics};
use stopworld::profile::census::{Breakdown, HeapProfile};
use stopworld::profile::{TickClock, TimeProfile};
use stopworld::{Gc, GcCell, Leaf, Mutator, World, cost_centre, traced};

/// The size of the block that is leaked on demand. No other block here has this size.
const LEAKED_BYTES: usize = 43_210;

/// The number of finalizers that have run.
static FINALIZED: AtomicU64 = AtomicU64::new(0);

traced! {
    struct Node { next: GcCell<Option<Gc<Node>>>, words: Gc<Leaf<[u64; 4]>> }
}

fn list(m: &Mutator, length: usize) -> Gc<Node> {
    let node = |next, number: usize| {
        // The value is not a string: memory that an object owns is freed by the collection that finds the object dead, and not at the
        // world's end.
        let words = m.alloc(Leaf([number as u64; 4])).unwrap();
        m.alloc(Node { next: GcCell::new(next), words }).unwrap()
    };
    (1..length).fold(node(None, 0), |next, number| node(Some(next), number))
}

/// Builds a world with markers, listeners, a recording, profiles, finalizers, weak references and threads, and ends it.
fn live_and_end() {
    let profile = TimeProfile { interval: Duration::from_micros(200), clock: TickClock::Cpu };
    let world = World::builder()
        .heap_limit(32 << 20)
        .markers(2)
        .time_profile(profile)
        .profile(HeapProfile::by(Breakdown::Description))
        .listen(Arc::new(NullSink), Selection::everything())
        .on_collection(|_| {})
        .build()
        .unwrap();
    let statistics = Arc::new(Statistics::new());
    world.events().listen(statistics, Selection::everything()).unwrap();
    let recorder = FlightRecorder::with_capacity(1 << 16).unwrap();
    let recording = world.events().record_to(Box::new(recorder), Selection::everything()).unwrap();
    let threads: Vec<_> = (0..3)
        .map(|number| {
            let work = move |m: &Mutator| {
                let _scope = cost_centre!("building");
                let kept = m.root(list(m, 2_000));
                let weak = m.alloc_weak(list(m, 10)).unwrap();
                let count = |_: &Mutator, _: Gc<Node>| _ = FINALIZED.fetch_add(1, Ordering::Relaxed);
                m.set_finalizer(list(m, 5), count).unwrap();
                m.world().collect().unwrap();
                list(m, 500 * number);
                drop((kept, weak));
            };
            // SAFETY: all references are on the thread's stack, in collected objects and in root handles.
            unsafe { world.spawn(&format!("builder-{number}"), work) }.unwrap()
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    world.collect().unwrap();
    world.verify().unwrap();
    world.events().end_recording(recording).unwrap();
    world.close(Duration::from_secs(60)).unwrap();
}

fn mappings() -> usize {
    std::fs::read_to_string("/proc/self/maps").unwrap().lines().count()
}

#[test]
fn a_world_that_has_ended_leaks_nothing() {
    // The memory that belongs to the process (names, cost centres, rings, arenas of the allocator) exists after the first few worlds.
    (0..3).for_each(|_| live_and_end());
    let before = mappings();
    (0..8).for_each(|_| live_and_end());
    let after = mappings();
    assert!(after < before + 16, "eight worlds have left {} mappings", after - before);
    assert!(FINALIZED.load(Ordering::Relaxed) > 0);
    if std::env::var_os("WORLDS_END_LEAK").is_some() {
        std::mem::forget(std::hint::black_box(vec![1_u8; LEAKED_BYTES]));
    }
}
