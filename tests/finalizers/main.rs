//! Weak references and finalizers.

#[path = "../heap_support/mod.rs"]
mod heap_support;
mod order;
mod stuck;
