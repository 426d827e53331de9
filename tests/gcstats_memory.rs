//! A trace of any length takes the same memory (`.format.hostile`), and every collection of it counts.

mod gcstats_stream;

use std::alloc::{GlobalAlloc, Layout, System};
use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};

use gcstats_stream::Stream;
use stopworld::formats::nettrace::Reader;
use stopworld::gcstats::{Rules, analyse};

/// Counts what is allocated, and the most there was at once.
struct Counting;

static NOW: AtomicUsize = AtomicUsize::new(0);
static MOST: AtomicUsize = AtomicUsize::new(0);

// SAFETY: everything is done by the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let now = NOW.fetch_add(layout.size(), Ordering::Relaxed) + layout.size();
        MOST.fetch_max(now, Ordering::Relaxed);
        // SAFETY: as the caller promises.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        NOW.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: as the caller promises.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

#[test]
fn memory_does_not_grow_with_the_number_of_collections() {
    let stream = Stream::new(150 << 20, 0);
    let expected = stream.collections();
    let (processes, summary) = analyse(Reader::new(stream), Rules::Ours).expect("temporary files can be read");
    assert!(summary.damage.is_none(), "{:?}", summary.damage);
    assert_eq!(summary.lost, 0);
    assert_eq!(processes[0].all.count, expected);
    let mut xml = 0;
    let lines = processes[0].for_each(|collection, figures| {
        assert!(collection.complete && figures.peak > 1.0);
        xml += 1;
        Ok::<_, io::Error>(())
    });
    lines.expect("temporary files can be read");
    assert_eq!(xml, expected);
    // Packed they would be some 40 MiB; the reader's windows take most of what is left.
    let most = MOST.load(Ordering::Relaxed) >> 20;
    assert!(expected > 100_000 && most < 64, "{most} MiB for {expected} collections");
}
