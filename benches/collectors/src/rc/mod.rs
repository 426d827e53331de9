//! `Rc` and `Weak`: no collector. The cache and the graph have weak references where there would be a cycle. The interpreter can't know
//! which of the references in a script would close a cycle, so it leaks them.

pub mod cache;
pub mod graph;
pub mod script;
