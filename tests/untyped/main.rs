//! Objects without a type: what keeps them alive, and what does not; kinds, explicit free, and bindings of runtimes.

mod binding;
mod freed;
mod graph;
mod kinds;
mod list;
