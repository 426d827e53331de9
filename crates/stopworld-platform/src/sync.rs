//! The facade for all synchronisation.
//!
//! Nothing outside this module names `std::sync::atomic`. Protocol files (`sync/`, `world/handshake.rs`,
//! `world/locks.rs`, `world/latch.rs`, `collector/termination.rs`, `events/gate.rs`, and `enabled.rs` and
//! `stream.rs` of `events/record/`, `ring.rs` of `stopworld-diagnostics`, `mps/hand_off.rs` of `stopworld-trace`, `profile/tree.rs`) use only what is exported here, so
//! the member `loom-tests` can include those very files and give them a `sync` of the same names whose atomics and
//! whose futexes belong to the model checker.
//!
//! What a protocol file gets:
//!
//! * the atomics and [`Ordering`],
//! * [`port`]: sleeping on one word of memory (a futex), and the id of the current thread,
//! * [`Semaphore`] and [`Lock`], built on the port; neither allocates, spins, or touches thread-local storage,
//! * [`Locked`], [`Guarded`] and [`SharedLock`]: data that can be accessed only with their lock's guard (not for protocol files),
//! * [`Mapped`], memory that is mapped on first use, and [`zeroed!`] for the types that it may contain,
//! * [`TraceStore`], backtraces with a number each, read and extended without a lock,
//! * [`CurrentId`], a number that one thread changes and any thread reads,
//! * [`UnsafeCell`] with access by closure, in which the model checker detects races,
//! * [`light_barrier`] and [`heavy_barrier`], a pair of fences of which only the heavy one costs time,
//! * [`interrupt_point`]: does nothing here; under the model checker a signal handler may run at that point,
//! * [`const_new!`]: a constructor that is `const` here (loom's can't be).

pub mod cell;
mod current_id;
mod guarded;
pub mod lock;
mod mapped;
pub mod notify;
pub mod port;
pub mod semaphore;
#[cfg(test)]
mod stress;
mod trace_store;
mod zeroed;

use std::ptr::NonNull;

pub use cell::UnsafeCell;
pub use current_id::CurrentId;
pub use guarded::{Guarded, Locked, SharedLock};
#[allow(unused_imports, reason = "a facade offers what its users may need")]
pub use lock::{HeldBy, Lock, LockGuard, Patience};
pub use mapped::Mapped;
pub use semaphore::Semaphore;
#[allow(unused_imports, reason = "a facade offers what its users may need")]
pub use std::sync::atomic::{
    AtomicBool, AtomicI8, AtomicI16, AtomicI32, AtomicI64, AtomicIsize, AtomicPtr, AtomicU8, AtomicU16, AtomicU32,
    AtomicU64, AtomicUsize, Ordering, compiler_fence, fence,
};
pub use trace_store::TraceStore;
pub use zeroed::{Zeroed, ZeroedMapping, zeroed};

/// Marks a point at which the model checker may run the thread's own signal handler. Does nothing in the ordinary build, where
/// real signals arrive at any point.
#[inline(always)]
pub fn interrupt_point() {}

/// The cheap half of a pair of fences. It prevents only the compiler from moving memory accesses across it. For the processor, the
/// other side's [`heavy_barrier`] does that.
#[inline(always)]
pub fn light_barrier() {
    compiler_fence(Ordering::SeqCst);
}

/// The expensive half: a full fence on every thread of the process. Together with a [`light_barrier`] it orders memory as two
/// sequentially consistent fences do. Requires `os::barrier::register`.
pub fn heavy_barrier() {
    crate::os::barrier::on_all_threads();
}

/// Prefetches the cache line of an address that will be read soon. Any address is allowed.
#[inline(always)]
pub fn prefetch(address: usize) {
    use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
    // SAFETY: a prefetch never faults.
    unsafe { _mm_prefetch::<_MM_HINT_T0>(address as *const i8) };
}

/// Prefetches the cache line of an address that will be written soon. Any address is allowed.
#[inline(always)]
pub fn prefetch_for_writing<T>(address: *const T) {
    use std::arch::x86_64::{_MM_HINT_ET0, _mm_prefetch};
    // SAFETY: a prefetch never faults.
    unsafe { _mm_prefetch::<_MM_HINT_ET0>(address.cast()) };
}

/// Writes a word with a non-temporal store, past the caches: its cache line is not fetched just to be overwritten. Use it for long runs
/// of memory that only other threads read, and only later. Before any thread reads the word, the writer included, the writer
/// must call [`fence_past_the_caches`].
///
/// # Safety
/// As for a write to `place`.
#[inline(always)]
pub unsafe fn write_past_the_caches(place: NonNull<u64>, word: u64) {
    // SAFETY: by the caller's promise.
    unsafe { std::arch::x86_64::_mm_stream_si64(place.as_ptr().cast(), word.cast_signed()) };
}

/// Orders this thread's earlier writes past the caches before its later writes.
#[inline]
pub fn fence_past_the_caches() {
    // SAFETY: it only orders stores.
    unsafe { std::arch::x86_64::_mm_sfence() };
}

/// Declares a constructor that is `const` in this crate and an ordinary function under the model checker.
#[doc(hidden)]
#[macro_export]
macro_rules! __const_new {
    ($(#[$attribute:meta])* $visibility:vis fn $($rest:tt)*) => {
        $(#[$attribute])* $visibility const fn $($rest)*
    };
}
pub use crate::__const_new as const_new;
