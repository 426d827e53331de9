//! Profiles that begin at the same time: only one of them runs, and only one thread keeps its time.

use std::sync::Barrier;
use std::time::{Duration, Instant};

use stopworld::World;
use stopworld::profile::census::{Breakdown, Every, HeapProfile};

/// The number of threads that trigger censuses, by their name, of which the kernel keeps fifteen bytes.
fn keepers_of_time() -> usize {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap();
    let names = tasks.filter_map(|task| std::fs::read_to_string(task.ok()?.path().join("comm")).ok());
    names.filter(|name| name.trim_end() == "stopworld-censu").count()
}

fn wait_for_keepers(count: usize) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while keepers_of_time() != count {
        assert!(Instant::now() < deadline, "{} threads keep the time, not {count}", keepers_of_time());
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// This test runs in a separate program, because it counts threads.
#[test]
fn only_one_of_two_concurrent_profiles_runs_and_one_thread_keeps_its_time() {
    let world = World::builder().heap_limit(16 << 20).build().unwrap();
    let never = Every::Time(Duration::from_secs(3600));
    for _ in 0..300 {
        let together = Barrier::new(2);
        std::thread::scope(|scope| {
            for breakdown in [Breakdown::Type, Breakdown::Kind] {
                let (world, together) = (&world, &together);
                scope.spawn(move || {
                    together.wait();
                    world.profile(HeapProfile::by(breakdown).every(never)).unwrap();
                });
            }
        });
        assert!(world.heap_profile().is_some());
        wait_for_keepers(1);
    }
    world.end_profile().unwrap();
    wait_for_keepers(0);
}
