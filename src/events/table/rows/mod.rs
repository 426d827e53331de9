//! The rows of the table, by subject.
//!
//! Each subject is a macro. It appends its rows to those of the subjects before it, and passes all of them to the next macro. The last
//! macro gets the whole table: see `for_each_event!`.

#[macro_use]
mod worlds;
#[macro_use]
mod collections;
#[macro_use]
mod heap;
#[macro_use]
mod program;
#[macro_use]
mod profile;
#[macro_use]
mod debuggers;
