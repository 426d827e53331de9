//! `gc`: a collector of one thread; `Gc` counts the references from outside the heap.
#![allow(non_local_definitions, reason = "the derives of gc generate such")]

pub mod cache;
pub mod graph;
pub mod script;
