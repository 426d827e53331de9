//! Figures that the API reports: bytes allocated, and the size of an allocation that failed.

use std::sync::mpsc;

use rstest::rstest;
use stopworld::{Array, Described, DescribedType, Gc, Layout, Leaf, Mutator, OutOfMemory, World};

/// The size of the cell that this payload gets.
const CELL_BYTES: u64 = 24;
const BLOCK_BYTES: u64 = 16 << 10;

fn allocate(m: &Mutator, count: u64) {
    (0..count).for_each(|value| assert_eq!(m.alloc(Leaf([value, value])).unwrap().0, [value, value]));
}

#[rstest]
fn the_bytes_allocated_are_exact_at_any_moment(
    #[values(1, 2, 681, 682, 683, 5000)] at_once: u64,
    #[values(false, true)] collects: bool,
) {
    let world = World::builder().heap_limit(64 << 20).build().unwrap();
    assert_eq!(world.totals().allocated_bytes, 0);
    // SAFETY: every Gc is a local variable.
    let m = unsafe { world.attach("main") }.unwrap();
    let mut expected = 0;
    for round in 0..20 {
        allocate(&m, at_once);
        expected += at_once * CELL_BYTES;
        assert_eq!(world.totals().allocated_bytes, expected, "round {round}");
        if collects && round % 3 == 2 {
            m.collect().unwrap();
            assert_eq!(world.totals().allocated_bytes, expected, "round {round}, collected");
        }
        assert_eq!(m.blocking(|| world.totals().allocated_bytes), expected, "round {round}, from a region");
    }
    drop(m);
    assert_eq!(world.totals().allocated_bytes, expected, "detached");
}

#[test]
fn allocations_of_threads_in_regions_and_of_ended_ones_count_to_the_byte() {
    let world = World::builder().heap_limit(64 << 20).build().unwrap();
    let (sender, receiver) = mpsc::channel();
    let (go_on, wait) = mpsc::channel::<()>();
    // SAFETY: every Gc is a local variable.
    let blocking = unsafe {
        world.spawn("blocking", move |m| {
            allocate(m, 1000);
            m.blocking(move || {
                sender.send(()).unwrap();
                wait.recv().unwrap();
            });
        })
    };
    // SAFETY: as above.
    unsafe { world.spawn("short", |m| allocate(m, 77)) }.unwrap().join().unwrap();
    receiver.recv().unwrap();
    assert_eq!(world.totals().allocated_bytes, 1077 * CELL_BYTES);
    world.collect().unwrap();
    assert_eq!(world.totals().allocated_bytes, 1077 * CELL_BYTES);
    go_on.send(()).unwrap();
    blocking.unwrap().join().unwrap();
    assert_eq!(world.totals().allocated_bytes, 1077 * CELL_BYTES);
}

#[test]
fn while_another_thread_allocates_the_figure_is_off_by_at_most_a_block() {
    let world = World::builder().heap_limit(64 << 20).build().unwrap();
    let done = std::sync::atomic::AtomicU64::new(0);
    let over = std::sync::atomic::AtomicBool::new(false);
    use std::sync::atomic::Ordering::SeqCst;
    std::thread::scope(|scope| {
        scope.spawn(|| {
            // SAFETY: every Gc is a local variable.
            let m = unsafe { world.attach("busy") }.unwrap();
            while !over.load(SeqCst) {
                allocate(&m, 1);
                done.fetch_add(1, SeqCst);
            }
        });
        for _ in 0..2000 {
            let before = done.load(SeqCst) * CELL_BYTES;
            let receiver = world.totals().allocated_bytes;
            // An object may be allocated and not yet counted by its thread.
            let after = (done.load(SeqCst) + 1) * CELL_BYTES;
            assert!(
                receiver + BLOCK_BYTES >= before && receiver <= after + BLOCK_BYTES,
                "{before} ≤ {receiver} ≤ {after}"
            );
        }
        over.store(true, SeqCst);
    });
    assert_eq!(world.totals().allocated_bytes, done.load(SeqCst) * CELL_BYTES);
}

type AllocationFn = fn(&Mutator) -> OutOfMemory;

fn array<const LENGTH: usize>(m: &Mutator) -> OutOfMemory {
    let refused: Result<Gc<Array<u64>>, _> = m.alloc_array(LENGTH, |_| 0_u64);
    refused.err().unwrap()
}

fn described<const LENGTH: usize>(m: &Mutator) -> OutOfMemory {
    let sixteen = DescribedType::new("sixteen", 16, Layout::LEAF).unwrap();
    let refused: Result<Gc<Described>, _> = m.alloc_described_array(sixteen, LENGTH);
    refused.err().unwrap()
}

/// A size for which no heap has room is reported exactly, not as the largest number.
#[rstest]
#[case::half_the_addresses(array::<{ isize::MAX as usize / 16 }>, "4611686018427387904 bytes were asked for")]
#[case::nearly_all(array::<{ usize::MAX / 8 - 1 }>, "18446744073709551608 bytes were asked for")]
#[case::beyond(array::<{ usize::MAX / 8 + 1 }>, "more than 2^64 bytes were asked for")]
#[case::far_beyond(array::<{ usize::MAX }>, "more than 2^64 bytes were asked for")]
#[case::described(described::<{ isize::MAX as usize / 16 }>, "9223372036854775800 bytes were asked for")]
#[case::described_beyond(described::<{ usize::MAX }>, "more than 2^64 bytes were asked for")]
#[case::larger_than_the_heap(array::<{ 4 << 20 }>, "33554440 bytes were asked for")]
fn a_size_that_could_not_be_allocated_is_reported_exactly(#[case] ask: AllocationFn, #[case] expected: &str) {
    let world = World::builder().heap_limit(16 << 20).build().unwrap();
    // SAFETY: no Gc at all.
    let m = unsafe { world.attach("main") }.unwrap();
    let text = ask(&m).to_string();
    assert!(text.contains(expected), "{text}");
    assert!(text.contains("no collection can make that much room"), "{text}");
}
