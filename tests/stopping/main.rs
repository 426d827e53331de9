//! Stopping the world: the threads that may do it, the memory that is scanned, concurrent actions of threads, and the contract of a thread
//! vtable.

mod callbacks;
mod callers;
mod discard;
#[path = "../hazard/mod.rs"]
mod hazard;
#[path = "../numbered_list/mod.rs"]
mod numbered_list;
mod races;
mod registers;
#[path = "../skipped/mod.rs"]
mod skipped;
mod threads;
mod vtable;
