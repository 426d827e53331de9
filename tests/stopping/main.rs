//! Stopping the world: who may, what is scanned, what happens beside it, and the contract of a thread vtable.

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
