//! [`GcVec`], a growing array.

mod vector;

pub use vector::{GcVec, IntoIter};
