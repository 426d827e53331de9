//! Helpers for the tests of the diagnostics socket: a protocol client, a reader of streams, and processes to test. They share no code with
//! the implementation.
#![allow(dead_code, reason = "each test uses its part")]

pub mod client;
pub mod stream;
pub mod subject;
