//! The shipped files of `collector/`.

#![allow(dead_code, reason = "the models do not use everything that the library does")]

#[path = "../../src/collector/scopes.rs"]
pub(crate) mod scopes;
#[path = "../../src/collector/termination.rs"]
pub(crate) mod termination;
