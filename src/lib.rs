//! A laboratory for stop-the-world garbage collection on Linux x86-64.

mod sabotage;
mod sync;
