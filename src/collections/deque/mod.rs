//! [`GcDeque`], a queue with two ends.

mod compare;
mod drain;
mod iter;
mod queue;

pub use drain::{DequeDrain, DequeIntoIter};
pub use iter::{DequeIter, DequeIterMut};
pub use queue::GcDeque;
