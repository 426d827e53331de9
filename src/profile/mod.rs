//! What the heap is made of.
//!
//! [`census`]: how many bytes live under each heading, taken in the stopped world, exact to the byte. [`retainers`]: who keeps
//! each object alive. [`biography`]: whether it is ever used.

pub(crate) mod biography;
pub mod census;
pub(crate) mod retainers;
