//! [`GcVec`], a growing array.

mod compare;
mod drain;
mod iter;
mod sort;
mod vector;

pub use drain::Drain;
pub use iter::{IntoIter, IterMut};
pub use vector::GcVec;
