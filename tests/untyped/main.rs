//! Objects without a type: what keeps them alive, and what does not.

mod freed;
mod graph;
