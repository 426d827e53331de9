//! The model checker, as `kernel.rs` and the models of debuggers know it: here loom, in `shuttle-tests` shuttle.

pub(crate) use loom::sync::{Condvar, Mutex, atomic};
pub(crate) use loom::{thread, thread_local};
