//! stopworld: the stack is scanned, so references are words that can be copied to anywhere on it.

pub mod cache;
pub mod graph;
pub mod script;
