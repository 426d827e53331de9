//! The heap: what is kept, limits, and whole worlds.

#[path = "../heap_support/mod.rs"]
mod heap_support;
mod large_roots;
mod limit;
mod marking;
mod steps;
mod worlds;
