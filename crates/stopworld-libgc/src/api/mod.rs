//! The functions of the interface, by subject. The names and the meaning of each are in bdwgc's headers (`gc.h` and others); comments here
//! say only where this library differs.

pub(crate) mod collecting;
pub(crate) mod debug;
pub(crate) mod figures;
pub(crate) mod finalization;
pub(crate) mod finalized;
pub(crate) mod kind_facts;
pub(crate) mod kinds;
pub(crate) mod malloc;
pub(crate) mod misc;
pub(crate) mod missing;
pub(crate) mod objects;
pub(crate) mod pthread;
pub(crate) mod roots;
pub(crate) mod threads;
