//! The probes and stable names by which other tools find events.

mod gdb;
#[path = "../skipped/mod.rs"]
mod skipped;
#[path = "../tools/mod.rs"]
mod tools;
mod usdt;
#[path = "../usdt_support/mod.rs"]
mod usdt_support;
