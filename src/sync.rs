//! The one facade for synchronisation.
//!
//! Nothing outside this module names `std::sync::atomic`. Protocol files (`sync/`, `world/handshake.rs`,
//! `world/locks.rs`, `world/latch.rs`, `collector/termination.rs`, `events/gate.rs`) use only what is exported here, so
//! the member `loom-tests` can include those very files and give them a `sync` of the same names whose atomics and
//! whose futexes belong to the model checker.
//!
//! What a protocol file gets:
//!
//! * the atomics and [`Ordering`],
//! * [`port`]: sleeping on one word of memory (a futex), and who the current thread is,
//! * [`Semaphore`] and [`Lock`], built on the port; neither allocates, spins, or touches thread-local storage,
//! * [`UnsafeCell`] with access by closure, in which the model checker detects races,
//! * [`interrupt_point`]: nothing here; under the model a signal handler may run at that very point,
//! * [`const_new!`]: a constructor that is `const` here (loom's can't be).

pub(crate) mod cell;
pub(crate) mod lock;
pub(crate) mod port;
pub(crate) mod semaphore;
#[cfg(test)]
mod stress;

pub(crate) use cell::UnsafeCell;
#[allow(unused_imports, reason = "a facade offers what its users may need")]
pub(crate) use lock::{HeldBy, Lock, LockGuard, Patience};
pub(crate) use semaphore::Semaphore;
#[allow(unused_imports, reason = "a facade offers what its users may need")]
pub(crate) use std::sync::atomic::{
    AtomicBool, AtomicI32, AtomicPtr, AtomicU8, AtomicU16, AtomicU32, AtomicU64, AtomicUsize, Ordering, compiler_fence,
    fence,
};

/// Where the model checker may run the thread's own signal handler. Nothing in the ordinary build: real signals
/// need no invitation.
#[inline(always)]
pub(crate) fn interrupt_point() {}

/// Declares a constructor that is `const` in this crate and an ordinary function under the model checker.
macro_rules! const_new {
    ($(#[$attribute:meta])* $visibility:vis fn $($rest:tt)*) => {
        $(#[$attribute])* $visibility const fn $($rest)*
    };
}
pub(crate) use const_new;
