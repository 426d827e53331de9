//! The module that the shipped files use as `crate::sync`, implemented with shuttle.

#![allow(dead_code, reason = "the models do not use everything that the library does")]

#[path = "../../crates/stopworld-platform/src/sync/lock.rs"]
pub(crate) mod lock;
pub(crate) use crate::kernel as port;
#[path = "../../crates/stopworld-platform/src/sync/semaphore.rs"]
pub(crate) mod semaphore;

pub(crate) use crate::cell::UnsafeCell;
pub(crate) use crate::kernel::interrupt_point;
pub(crate) use lock::{HeldBy, Lock, LockGuard};
pub(crate) use semaphore::Semaphore;
pub(crate) use shuttle::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Declares a function that is `const` in the library. shuttle's constructors are `const` too, but that is not needed here.
macro_rules! const_new {
    ($(#[$attribute:meta])* $visibility:vis fn $($rest:tt)*) => {
        $(#[$attribute])* $visibility fn $($rest)*
    };
}
pub(crate) use const_new;
