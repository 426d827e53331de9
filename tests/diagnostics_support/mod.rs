//! What the tests of the diagnostics socket need: a protocol client, a reader of streams, and processes to ask. None of it shares
//! code with what is tested.
#![allow(dead_code, reason = "each test uses its part")]

pub mod client;
pub mod stream;
pub mod subject;
