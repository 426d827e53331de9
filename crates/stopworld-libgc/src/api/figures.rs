//! Figures of the heap.
//!
//! Free bytes are what the heap holds beyond the bytes that were alive after the last collection and those allocated since. None of the
//! functions waits, so they can be called by functions that the collector calls. Figures that another thread's allocation keeps from being
//! read are those of the moment before.

use std::ffi::{CStr, c_char, c_int, c_ulong};

use crate::binding::{ADDED, FREED_BYTES, report_size};
use crate::data::{GC_gc_no, GC_non_gc_bytes, GC_parallel};
use crate::environment::MAXIMUM_HEAP;
use crate::library::{if_initialised, limit};
use crate::lock::LOCK;
use crate::print::{self, log};
use crate::sync::{AtomicUsize, Ordering, fence};
use crate::tables::finalizers::FINALIZERS;
use crate::tables::links::{LONG, SHORT};
use crate::tables::objects::UNCOLLECTABLE;
use crate::thread::attached;

/// The version of bdwgc whose interface this is: 8.2.2.
const VERSION: u32 = 8 << 16 | 2 << 8 | 2;

#[derive(Clone, Copy, Debug, Default)]
struct Figures {
    heap: usize,
    live: usize,
    since_collection: usize,
    allocated_before: usize,
    pause_total_ns: u64,
}

fn figures() -> Figures {
    static SINCE: AtomicUsize = AtomicUsize::new(0);
    let Some(library) = if_initialised() else { return Figures::default() };
    let counters = library.world.counters();
    let since = counters.acquired_bytes.map_or_else(|| SINCE.load(Ordering::Relaxed), |bytes| bytes as usize);
    SINCE.store(since, Ordering::Relaxed);
    let live = counters.live.small + counters.live.large + counters.live.pinned;
    Figures {
        // The memory up to the requested size is the heap's, although it is only taken from the kernel when it is used.
        heap: counters.committed_bytes.max(library.world.minimum_heap()) as usize,
        live: live as usize,
        since_collection: since,
        allocated_before: counters.allocated_bytes as usize,
        pause_total_ns: counters.pause_total_ns,
    }
}

impl Figures {
    fn free(&self) -> usize {
        self.heap.saturating_sub(self.live + self.since_collection)
    }
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn GC_get_version() -> u32 {
    VERSION
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn GC_get_gc_no() -> usize {
    GC_gc_no.load(Ordering::Relaxed)
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn GC_get_parallel() -> c_int {
    GC_parallel.load(Ordering::Relaxed)
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn GC_get_heap_size() -> usize {
    figures().heap
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn GC_get_free_bytes() -> usize {
    figures().free()
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn GC_get_unmapped_bytes() -> usize {
    0
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn GC_get_bytes_since_gc() -> usize {
    figures().since_collection
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn GC_get_expl_freed_bytes_since_gc() -> usize {
    FREED_BYTES.load(Ordering::Relaxed)
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn GC_get_total_bytes() -> usize {
    let figures = figures();
    figures.allocated_before + figures.since_collection
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn GC_get_obtained_from_os_bytes() -> usize {
    figures().heap
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn GC_get_memory_use() -> usize {
    figures().live
}

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn GC_get_heap_usage_safe(
    heap: *mut usize,
    free: *mut usize,
    unmapped: *mut usize,
    since_collection: *mut usize,
    total: *mut usize,
) {
    let figures = figures();
    let values = [
        (heap, figures.heap),
        (free, figures.free()),
        (unmapped, 0),
        (since_collection, figures.since_collection),
        (total, figures.allocated_before + figures.since_collection),
    ];
    for (place, value) in values {
        // SAFETY: the program's promise: null, or a place for the value.
        if let Some(place) = unsafe { place.as_mut() } {
            *place = value;
        }
    }
}

/// `struct GC_prof_stats_s`, as words.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn GC_get_prof_stats(place: *mut usize, bytes: usize) -> usize {
    let figures = figures();
    let values = [
        figures.heap,
        figures.free(),
        0,
        figures.since_collection,
        figures.allocated_before,
        GC_non_gc_bytes.load(Ordering::Relaxed),
        GC_get_gc_no(),
        GC_get_parallel() as usize,
        0,
        figures.allocated_before.saturating_sub(figures.live),
        GC_get_expl_freed_bytes_since_gc(),
        figures.heap,
    ];
    let words = bytes / size_of::<usize>();
    for index in 0..words {
        // As in bdwgc, fields that this version does not know are all ones.
        // SAFETY: the program's promise: a structure of this size.
        unsafe { place.add(index).write(values.get(index).copied().unwrap_or(usize::MAX)) };
    }
    words.min(values.len()) * size_of::<usize>()
}

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn GC_get_prof_stats_unsafe(place: *mut usize, bytes: usize) -> usize {
    // SAFETY: the program's promise.
    unsafe { GC_get_prof_stats(place, bytes) }
}

/// Times are always measured.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn GC_start_performance_measurement() {}

/// In milliseconds.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn GC_get_full_gc_total_time() -> c_ulong {
    figures().pause_total_ns / 1_000_000
}

/// Lets the heap grow by `bytes` before it is collected. The memory is taken from the kernel when it is used.
#[unsafe(no_mangle)]
pub(crate) extern "C-unwind" fn GC_expand_hp(bytes: usize) -> c_int {
    if LOCK.is_mine() {
        print::abort("GC_expand_hp was called by a function that holds the allocation lock: call it afterwards");
    }
    /// The size to which requests have expanded the heap.
    static EXPANDED: AtomicUsize = AtomicUsize::new(0);
    let world = &attached().library.world;
    let limit = world.heap_limit() as usize;
    let expanded = |before: usize| before.max(figures().heap).checked_add(bytes).filter(|&size| size <= limit);
    if EXPANDED.fetch_update(Ordering::Relaxed, Ordering::Relaxed, expanded).is_err() {
        return 0;
    }
    // Of two requests at once, the one that sets the size first may be the larger one. Then the other finds that here, and sets it again.
    let size = loop {
        // SeqCst: pairs with the fence below, of the other thread. Either this thread's size is the last one that is set, or the other
        // thread loads the sum.
        fence(Ordering::SeqCst);
        let size = EXPANDED.load(Ordering::Relaxed);
        world.set_minimum_heap(size);
        // SeqCst: pairs with the fence above.
        fence(Ordering::SeqCst);
        if EXPANDED.load(Ordering::Relaxed) == size {
            break size;
        }
    };
    report_size(size, &LOCK.lock());
    1
}

/// Before the library is initialised, any limit can be set; afterwards, one up to the limit at that time.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn GC_set_max_heap_size(bytes: usize) {
    MAXIMUM_HEAP.store(bytes, Ordering::Relaxed);
    if let Some(library) = if_initialised() {
        library.world.set_heap_limit(if bytes == 0 { usize::MAX } else { limit(bytes) });
    }
}

fn dump(name: Option<&str>) {
    let figures = figures();
    let held = LOCK.lock();
    let mut lines = format!("***GC dump {} collection #{}\n", name.unwrap_or_default(), GC_get_gc_no());
    lines += &format!(
        "heap {} bytes, alive after the last collection {}, allocated since {}, pauses together {} ms\n",
        figures.heap,
        figures.live,
        figures.since_collection,
        figures.pause_total_ns / 1_000_000
    );
    let mut ranges = 0;
    ADDED.get(&held).for_each(|_, _| ranges += 1);
    let finalizers = FINALIZERS.get(&held);
    lines += &format!(
        "{ranges} added ranges, {} uncollectable objects, {} links, {} long links, {} finalizers, {} ready ones\n",
        UNCOLLECTABLE.get(&held).len(),
        SHORT.get(&held).len(),
        LONG.get(&held).len(),
        finalizers.registered(),
        finalizers.ready(),
    );
    drop(finalizers);
    drop(held);
    log(&lines);
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn GC_dump() {
    dump(None);
}

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn GC_dump_named(name: *const c_char) {
    if name.is_null() {
        return dump(None);
    }
    // SAFETY: the program's promise: a text that ends in 0.
    dump(Some(&unsafe { CStr::from_ptr(name) }.to_string_lossy()));
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn GC_dump_regions() {
    dump(Some("regions"));
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn GC_dump_finalization() {
    dump(Some("finalization"));
}
