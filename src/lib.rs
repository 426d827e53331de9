//! A laboratory for stop-the-world garbage collection on Linux x86-64.

mod collector;
pub mod debugger;
pub mod events;
mod os;
mod sabotage;
mod sync;
mod world;
