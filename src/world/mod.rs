//! Threads and how they stop.

pub(crate) mod handshake;
pub(crate) mod latch;
pub(crate) mod locks;
