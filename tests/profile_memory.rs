//! The memory that profiles keep. The test is in a separate program, because it measures the memory of the whole process.

mod heap_support;

use heap_support::*;
use stopworld::profile::census::{Breakdown, Every, HeapProfile};
use stopworld::{GcCell, World};

/// A census by retainers needs a word for each cell, a quarter of this heap; none of that memory remains between two censuses.
#[test]
fn a_profile_by_retainers_keeps_no_memory_between_its_censuses() {
    let world = World::builder().heap_limit(256 << 20).build().unwrap();
    let roots = on_a_thread(&world, |m| {
        let all = m.alloc_array(1 << 21, |_| GcCell::new(None)).unwrap();
        all.iter().for_each(|cell| cell.set(Some(m.alloc(7_u64).unwrap())));
        m.root(all)
    });
    let resident = || {
        let pages = std::fs::read_to_string("/proc/self/statm").unwrap();
        pages.split_ascii_whitespace().nth(1).unwrap().parse::<u64>().unwrap() * 4096
    };
    world.profile(HeapProfile::by(Breakdown::Type).every(Every::Demand)).unwrap();
    world.sample().unwrap();
    let before = resident();
    world.profile(HeapProfile::by(Breakdown::Retainer).every(Every::Demand)).unwrap();
    for _ in 0..2 {
        let census = world.sample().unwrap().unwrap();
        assert_eq!(census.live_objects, (1 << 21) + 1);
        assert!(resident() < before + (4 << 20), "{} of {} MiB", resident() >> 20, before >> 20);
    }
    drop(roots);
}
