//! What lives on the heap, and what does not.

mod finalizers;
#[path = "../heap_support/mod.rs"]
mod heap_support;
mod limit;
mod marking;
mod model;
mod worlds;
