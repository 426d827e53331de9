//! The shipped files of `collector/`.

#![allow(dead_code, reason = "the models do not use everything that the library does")]

#[path = "../../src/collector/helpers.rs"]
pub(crate) mod helpers;
#[path = "../../src/collector/mark_byte.rs"]
pub(crate) mod mark_byte;
#[path = "../../src/collector/ranges.rs"]
pub(crate) mod ranges;
#[path = "../../src/collector/scopes.rs"]
pub(crate) mod scopes;
#[path = "../../src/collector/termination.rs"]
pub(crate) mod termination;
