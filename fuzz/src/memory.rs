//! An allocator with a limit: a target that allocates more than it may ends at once, with the allocation on its stack.
//!
//! libFuzzer's own limits do not serve here: `-malloc_limit_mb` needs the hooks of a sanitizer, and `-rss_limit_mb` looks once a second.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

struct Limited;

/// Bytes that are allocated now, and how many may be.
static NOW: AtomicUsize = AtomicUsize::new(0);
static MOST: AtomicUsize = AtomicUsize::new(usize::MAX);

// SAFETY: everything is done by the system's allocator.
unsafe impl GlobalAlloc for Limited {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        charge(layout.size());
        // SAFETY: as the caller promises.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        charge(layout.size());
        // SAFETY: as the caller promises.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        NOW.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: as the caller promises.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static LIMITED: Limited = Limited;

fn charge(bytes: usize) {
    let now = NOW.fetch_add(bytes, Ordering::Relaxed) + bytes;
    let most = MOST.load(Ordering::Relaxed);
    // What a panic says of itself comes first: it takes memory, and this would wait for it.
    if now > most && !std::thread::panicking() {
        MOST.store(usize::MAX, Ordering::Relaxed);
        eprintln!("an allocation of {bytes} bytes makes {now} where {most} are allowed");
        eprintln!("{}", std::backtrace::Backtrace::force_capture());
        std::process::abort();
    }
}

/// Runs `work`, which may allocate at most `bytes` bytes more than are allocated now.
pub fn limited<T>(bytes: usize, work: impl FnOnce() -> T) -> T {
    MOST.store(NOW.load(Ordering::Relaxed) + bytes, Ordering::Relaxed);
    let result = work();
    MOST.store(usize::MAX, Ordering::Relaxed);
    result
}
