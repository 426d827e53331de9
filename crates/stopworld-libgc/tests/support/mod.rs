//! What the tests and benchmarks of this crate share: the library that was built, programs that use bdwgc, and how these are run with the
//! one library or the other.

#![allow(dead_code, reason = "each test program uses its part")]

pub mod collections;
pub mod library;
pub mod programs;
pub mod run;
