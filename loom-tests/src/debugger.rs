//! The shipped files of `debugger/`.

#![allow(dead_code, reason = "the models do not use everything that the library does")]

#[path = "../../src/debugger/protocol.rs"]
pub(crate) mod protocol;
