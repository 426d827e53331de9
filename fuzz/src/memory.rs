//! An allocator with a limit: a target that exceeds it aborts at once and prints the backtrace of the allocation.
//!
//! The limits of libFuzzer do not work here: `-malloc_limit_mb` needs the hooks of a sanitizer, and `-rss_limit_mb` checks only once a second.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

struct Limited;

/// The number of bytes that are allocated now.
static NOW: AtomicUsize = AtomicUsize::new(0);
/// The number of bytes that may be allocated.
static MOST: AtomicUsize = AtomicUsize::new(usize::MAX);

// SAFETY: every call is forwarded to the system allocator.
unsafe impl GlobalAlloc for Limited {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        charge(layout.size());
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        charge(layout.size());
        // SAFETY: the caller's promise.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        NOW.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static LIMITED: Limited = Limited;

fn charge(bytes: usize) {
    let now = NOW.fetch_add(bytes, Ordering::Relaxed) + bytes;
    let most = MOST.load(Ordering::Relaxed);
    // Not while panicking: printing the panic's message allocates, and that message must come first.
    if now > most && !std::thread::panicking() {
        MOST.store(usize::MAX, Ordering::Relaxed);
        eprintln!("an allocation of {bytes} bytes exceeds the limit: {now} bytes allocated, {most} allowed");
        eprintln!("{}", std::backtrace::Backtrace::force_capture());
        std::process::abort();
    }
}

/// Runs `work`, which may allocate at most `bytes` bytes in addition to those allocated now.
pub fn limited<T>(bytes: usize, work: impl FnOnce() -> T) -> T {
    MOST.store(NOW.load(Ordering::Relaxed) + bytes, Ordering::Relaxed);
    let result = work();
    MOST.store(usize::MAX, Ordering::Relaxed);
    result
}
