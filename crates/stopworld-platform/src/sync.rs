//! The one facade for synchronisation.
//!
//! Nothing outside this module names `std::sync::atomic`. Protocol files (`sync/`, `world/handshake.rs`,
//! `world/locks.rs`, `world/latch.rs`, `collector/termination.rs`, `events/gate.rs`, and `wanted.rs`, `stream.rs` and
//! `bell.rs` of `events/record/`, `diagnostics/ring.rs`, `formats/mps/relay.rs`, `profile/tree.rs`) use only what is exported here, so
//! the member `loom-tests` can include those very files and give them a `sync` of the same names whose atomics and
//! whose futexes belong to the model checker.
//!
//! What a protocol file gets:
//!
//! * the atomics and [`Ordering`],
//! * [`port`]: sleeping on one word of memory (a futex), and who the current thread is,
//! * [`Semaphore`] and [`Lock`], built on the port; neither allocates, spins, or touches thread-local storage,
//! * [`Locked`], [`Guarded`] and [`SharedLock`]: data that are reached with a lock's guard as proof (not for protocol files),
//! * [`Mapped`], memory that is mapped when it is first needed, and [`zeroed!`] for what may lie in it,
//! * [`Present`], a number that one thread changes and anybody reads,
//! * [`UnsafeCell`] with access by closure, in which the model checker detects races,
//! * [`light_barrier`] and [`heavy_barrier`], a fence whose cost is all on one side,
//! * [`interrupt_point`]: nothing here; under the model a signal handler may run at that very point,
//! * [`const_new!`]: a constructor that is `const` here (loom's can't be).

pub mod cell;
mod fresh;
mod guarded;
pub mod lock;
mod mapped;
pub mod port;
mod present;
pub mod semaphore;
#[cfg(test)]
mod stress;

use std::ptr::NonNull;

pub use cell::UnsafeCell;
pub use fresh::{Fresh, Zeroed, zeroed};
pub use guarded::{Guarded, Locked, SharedLock};
#[allow(unused_imports, reason = "a facade offers what its users may need")]
pub use lock::{HeldBy, Lock, LockGuard, Patience};
pub use mapped::Mapped;
pub use present::Present;
pub use semaphore::Semaphore;
#[allow(unused_imports, reason = "a facade offers what its users may need")]
pub use std::sync::atomic::{
    AtomicBool, AtomicI32, AtomicPtr, AtomicU8, AtomicU16, AtomicU32, AtomicU64, AtomicUsize, Ordering, compiler_fence,
    fence,
};

/// Where the model checker may run the thread's own signal handler. Nothing in the ordinary build: real signals
/// need no invitation.
#[inline(always)]
pub fn interrupt_point() {}

/// The cheap half of a pair of fences: what comes before it in the program is not moved behind it by the compiler, and by
/// the processor only as far as the other side's [`heavy_barrier`] lets it.
#[inline(always)]
pub fn light_barrier() {
    compiler_fence(Ordering::SeqCst);
}

/// The dear half: a full fence on every thread of the process. Together with a [`light_barrier`] it orders as two sequentially
/// consistent fences do. Only after `os::barrier::register`.
pub fn heavy_barrier() {
    crate::os::barrier::on_all_threads();
}

/// Asks for the cache line of an address that will be read soon. Any address will do.
#[inline(always)]
pub fn prefetch(address: usize) {
    use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
    // SAFETY: a prefetch never faults.
    unsafe { _mm_prefetch::<_MM_HINT_T0>(address as *const i8) };
}

/// Asks for the cache line of an address that will be written soon. Any address will do.
#[inline(always)]
pub fn prefetch_for_writing<T>(address: *const T) {
    use std::arch::x86_64::{_MM_HINT_ET0, _mm_prefetch};
    // SAFETY: a prefetch never faults.
    unsafe { _mm_prefetch::<_MM_HINT_ET0>(address.cast()) };
}

/// Writes a word past the caches: for long runs of memory that only others read, and later. The lines are then not fetched to be
/// overwritten. Before anybody reads the word, also who wrote it, who wrote it has called [`fence_past_the_caches`].
///
/// # Safety
/// As to write to the place.
#[inline(always)]
pub unsafe fn write_past_the_caches(place: NonNull<u64>, word: u64) {
    // SAFETY: by the caller's promise.
    unsafe { std::arch::x86_64::_mm_stream_si64(place.as_ptr().cast(), word.cast_signed()) };
}

/// What this thread wrote past the caches comes before what it writes from now on.
#[inline]
pub fn fence_past_the_caches() {
    // SAFETY: it orders stores, and no more.
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
