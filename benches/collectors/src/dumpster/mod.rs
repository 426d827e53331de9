//! `dumpster`: reference counts, and a search for cycles.

pub mod cache;
pub mod graph;
pub mod script;
