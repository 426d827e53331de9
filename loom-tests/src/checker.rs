//! The model checker that `kernel.rs` and the models of debuggers use. In this crate it is loom, in `shuttle-tests` it is shuttle.

pub(crate) use loom::sync::{Condvar, Mutex, atomic};
pub(crate) use loom::{thread, thread_local};
