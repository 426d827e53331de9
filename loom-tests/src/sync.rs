//! The module that the shipped files use as `crate::sync`, implemented with loom.

#![allow(dead_code, reason = "the models do not use everything that the library does")]

#[path = "../../crates/stopworld-platform/src/sync/lock.rs"]
pub(crate) mod lock;
pub(crate) use crate::kernel as port;
#[path = "../../crates/stopworld-platform/src/sync/current_id.rs"]
mod current_id;
#[path = "../../crates/stopworld-platform/src/sync/mapped.rs"]
mod mapped;
#[path = "../../crates/stopworld-platform/src/sync/semaphore.rs"]
pub(crate) mod semaphore;
#[path = "sync/zeroed.rs"]
mod zeroed;

pub(crate) use crate::kernel::interrupt_point;
pub(crate) use current_id::CurrentId;
pub(crate) use lock::{HeldBy, Lock, LockGuard};
pub(crate) use loom::cell::UnsafeCell;
pub(crate) use loom::sync::atomic::{AtomicPtr, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering};
pub(crate) use mapped::Mapped;
pub(crate) use semaphore::Semaphore;
pub(crate) use zeroed::{Zeroed, ZeroedMapping, zeroed};

/// The light side of an asymmetric pair of fences. In production it is only a compiler barrier, because the kernel provides the ordering; the
/// model uses a full fence.
pub(crate) fn light_barrier() {
    loom::sync::atomic::fence(Ordering::SeqCst);
}

/// The heavy side of the pair.
pub(crate) fn heavy_barrier() {
    loom::sync::atomic::fence(Ordering::SeqCst);
}

/// Does nothing: a prefetch has no visible effect.
pub(crate) fn prefetch_for_writing<T>(_: *const T) {}

/// Does nothing: a prefetch has no visible effect.
pub(crate) fn prefetch_for_reading<T>(_: *const T) {}

/// Declares a function that is `const` in the library. loom's constructors are not `const`.
macro_rules! const_new {
    ($(#[$attribute:meta])* $visibility:vis fn $($rest:tt)*) => {
        $(#[$attribute])* $visibility fn $($rest)*
    };
}
pub(crate) use const_new;
