//! The shipped files of `world/`.

#![allow(dead_code, reason = "the models do not use everything that the library does")]

#[path = "../../src/world/handshake.rs"]
pub(crate) mod handshake;
#[path = "../../src/world/latch.rs"]
pub(crate) mod latch;
#[path = "../../src/world/locks.rs"]
pub(crate) mod locks;
