//! The rows of the table of events, by subject.
//!
//! Each file defines a macro that appends its rows to those that it receives, and passes all of them on to the next macro.

#[macro_use]
mod heap;
#[macro_use]
mod parallel;
#[macro_use]
mod profile;
#[macro_use]
mod program;
#[macro_use]
mod threads;
