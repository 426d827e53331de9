//! The model checker used by `kernel.rs` and the models of debuggers: here loom, in `shuttle-tests` shuttle.

pub(crate) use loom::sync::{Condvar, Mutex, atomic};
pub(crate) use loom::{thread, thread_local};
