//! Figures, callbacks, and switching collections off.

use std::ptr::null_mut;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Barrier, Mutex};

use super::*;

static STAGES: Mutex<Vec<c_int>> = Mutex::new(Vec::new());
static STARTS: AtomicUsize = AtomicUsize::new(0);

extern "C" fn stage(number: c_int) {
    STAGES.lock().unwrap().push(number);
}

extern "C" fn start() {
    // Its figures may be read there.
    // SAFETY: has no precondition.
    assert!(unsafe { GC_get_heap_size() } > 0);
    STARTS.fetch_add(1, Ordering::Relaxed);
}

extern "C" fn yes() -> c_int {
    1
}

extern "C" fn no() -> c_int {
    0
}

#[test]
fn a_collection_calls_the_program_at_each_stage() {
    let _alone = alone();
    STAGES.lock().unwrap().reserve(100);
    // SAFETY: functions as the interface has them.
    unsafe {
        GC_malloc(1);
        collect();
        let (before, starts) = (GC_gc_no, STARTS.load(Ordering::Relaxed));
        GC_set_on_collection_event(Some(stage));
        GC_set_start_callback(Some(start));
        assert_eq!((GC_try_to_collect(yes), GC_try_to_collect(no)), (0, 1));
        GC_set_on_collection_event(None);
        GC_set_start_callback(None);
        let now = (&raw const GC_gc_no).read_volatile();
        assert!(now > before && STARTS.load(Ordering::Relaxed) > starts);
    }
    let stages = std::mem::take(&mut *STAGES.lock().unwrap());
    // start, marks begin, stop, stopped, marks end, restart, restarted, reclaim begins, reclaim ends, end
    assert_eq!(stages[..10], [0, 1, 6, 7, 2, 8, 9, 3, 4, 5], "{stages:?}");
}

#[test]
fn disabled_collections_do_not_happen() {
    let _alone = alone();
    // SAFETY: has no precondition.
    unsafe {
        GC_disable();
        GC_disable();
        GC_enable();
        assert_eq!((GC_is_disabled(), (&raw const GC_dont_gc).read_volatile()), (1, 1));
        let before = (&raw const GC_gc_no).read_volatile();
        for _ in 0..200_000 {
            GC_malloc(1000);
        }
        collect();
        assert_eq!((&raw const GC_gc_no).read_volatile(), before);
        GC_enable();
        collect();
        assert!((&raw const GC_gc_no).read_volatile() > before);
    }
}

#[test]
fn the_figures_agree() {
    let _alone = alone();
    let [mut heap, mut free, mut unmapped, mut since, mut total] = [usize::MAX; 5];
    // SAFETY: places for the figures; null is allowed, too.
    unsafe {
        let before = GC_get_total_bytes();
        for _ in 0..1000 {
            GC_malloc_atomic(10_000);
        }
        GC_get_heap_usage_safe(&mut heap, &mut free, &mut unmapped, &mut since, &mut total);
        assert!(total >= before + 10_000_000 && heap >= free && unmapped == 0, "{heap} {free} {since} {total}");
        GC_get_heap_usage_safe(null_mut(), null_mut(), null_mut(), null_mut(), null_mut());
        let mut fields = [0; 14];
        assert_eq!(GC_get_prof_stats(fields.as_mut_ptr(), size_of_val(&fields)), 12 * 8);
        assert_eq!((fields[0], fields[12]), (GC_get_heap_size(), usize::MAX));
    }
}

static SIZE: AtomicUsize = AtomicUsize::new(0);

extern "C" fn resized(size: usize) {
    SIZE.store(size, Ordering::Relaxed);
}

#[test]
fn a_heap_that_is_expanded_is_filled_before_a_collection() {
    let _alone = alone();
    // SAFETY: functions as the interface has them.
    unsafe {
        GC_malloc(1);
        GC_set_on_heap_resize(Some(resized));
        let before = GC_get_heap_size();
        assert_eq!(GC_expand_hp(128 << 20), 1);
        assert_eq!((GC_get_heap_size(), SIZE.load(Ordering::Relaxed)), (before + (128 << 20), before + (128 << 20)));
        collect();
        let collections = (&raw const GC_gc_no).read_volatile();
        for _ in 0..100_000 {
            GC_malloc_atomic(1000);
        }
        assert_eq!((&raw const GC_gc_no).read_volatile(), collections, "100 MB are less than the heap has");
        assert_eq!(GC_expand_hp(usize::MAX / 2), 0, "more than the limit");
        assert_eq!(GC_get_heap_size(), before + (128 << 20));
        GC_set_on_heap_resize(None);
    }
}

/// The sum of all requests counts, whichever thread comes last.
#[test]
fn heaps_are_expanded_by_several_threads_at_once() {
    const THREADS: usize = 4;
    const REQUESTS: usize = 20_000;
    const BYTES: usize = 1 << 10;
    let _alone = alone();
    // SAFETY: functions as the interface has them.
    unsafe {
        GC_malloc(1);
        let before = GC_get_heap_size();
        let begin = Barrier::new(THREADS);
        std::thread::scope(|scope| {
            for _ in 0..THREADS {
                let begin = &begin;
                scope.spawn(move || {
                    GC_malloc(1);
                    begin.wait();
                    (0..REQUESTS).for_each(|_| assert_eq!(GC_expand_hp(BYTES), 1));
                });
            }
        });
        assert_eq!(GC_get_heap_size(), before + THREADS * REQUESTS * BYTES);
    }
}

extern "C" fn count(object: Pointer, bytes: usize, data: Pointer) {
    // SAFETY: the test's counter; any address is allowed.
    unsafe {
        assert_eq!((GC_base(object), GC_size(object)), (object, bytes));
        *data.cast::<usize>() += 1;
    }
}

extern "C" fn enumerate(data: Pointer) -> Pointer {
    // SAFETY: a function as the interface has it.
    unsafe { GC_enumerate_reachable_objects_inner(count, data) };
    data
}

#[test]
fn all_objects_are_visited() {
    let _alone = alone();
    let mut visited = 0_usize;
    // SAFETY: functions as the interface has them.
    unsafe {
        let kept: Vec<_> = hidden(MANY, |index| GC_malloc_uncollectable(40 + 20 * index));
        collect();
        let data = (&raw mut visited).cast();
        assert_eq!(GC_call_with_alloc_lock(enumerate, data), data);
        assert!(visited >= MANY, "{visited}");
        kept.iter().for_each(|&object| GC_free(show(object)));
    }
}

extern "C" fn collect_elsewhere(_: Pointer) -> Pointer {
    // The thread in the region need not be stopped.
    std::thread::spawn(collect).join().unwrap();
    null_mut()
}

extern "C" fn in_region(argument: Pointer) -> Pointer {
    collect_elsewhere(argument);
    // SAFETY: a function as the interface has it.
    unsafe { GC_call_with_gc_active(allocate, argument) };
    collect_elsewhere(argument);
    argument
}

extern "C" fn allocate(argument: Pointer) -> Pointer {
    // SAFETY: has no precondition.
    unsafe {
        for _ in 0..10_000 {
            GC_malloc(100);
        }
        GC_do_blocking(collect_elsewhere, argument)
    }
}

/// The objects that a thread refers to stay alive while it is in a region, and while it has left the region for a function.
#[test]
fn a_thread_in_a_region_keeps_its_objects() {
    let _alone = alone();
    // SAFETY: an object of this size.
    unsafe {
        let object = GC_malloc(64).cast::<usize>();
        object.write(0x77);
        assert_eq!(GC_do_blocking(in_region, object.cast()), object.cast());
        assert_eq!((object.read(), GC_base(object.cast())), (0x77, object.cast()));
    }
}
