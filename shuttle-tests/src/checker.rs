//! The model checker used by `kernel.rs` and the models of debuggers: here shuttle.

pub(crate) use shuttle::sync::{Condvar, Mutex, atomic};
pub(crate) use shuttle::{thread, thread_local};
