//! `bdwgc-alloc`: bdwgc is the allocator of the program. A collected object is a leaked box, and a reference to it is a `&'static`. Collections are
//! those of std; what they allocate is scanned like everything else.

pub mod cache;
pub mod graph;
pub mod script;
