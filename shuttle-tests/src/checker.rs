//! The model checker, as `kernel.rs` and the models of debuggers know it: here shuttle.

pub(crate) use shuttle::sync::{Condvar, Mutex, atomic};
pub(crate) use shuttle::{thread, thread_local};
