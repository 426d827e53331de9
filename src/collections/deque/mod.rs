//! [`GcDeque`], a queue with two ends.

mod queue;

pub use queue::GcDeque;
