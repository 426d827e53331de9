//! The heap: what is kept, what is freed, weak references and finalizers, limits, whole worlds, and censuses.

#[cfg(feature = "biography")]
mod biography;
mod census;
mod finalizers;
#[path = "../heap_support/mod.rs"]
mod heap_support;
mod limit;
mod marking;
mod model;
mod stuck_finalizers;
mod worlds;
