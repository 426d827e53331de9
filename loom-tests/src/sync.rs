//! What the shipped files know as `crate::sync`, made of loom.

#![allow(dead_code, reason = "the models do not use everything that the library does")]

#[path = "../../src/sync/lock.rs"]
pub(crate) mod lock;
pub(crate) use crate::kernel as port;
#[path = "../../src/sync/semaphore.rs"]
pub(crate) mod semaphore;

pub(crate) use crate::kernel::interrupt_point;
pub(crate) use lock::{HeldBy, Lock, LockGuard};
pub(crate) use loom::cell::UnsafeCell;
pub(crate) use loom::sync::atomic::{AtomicU32, AtomicU64, Ordering};
pub(crate) use semaphore::Semaphore;

/// loom's constructors are not `const`.
macro_rules! const_new {
    ($(#[$attribute:meta])* $visibility:vis fn $($rest:tt)*) => {
        $(#[$attribute])* $visibility fn $($rest)*
    };
}
pub(crate) use const_new;
