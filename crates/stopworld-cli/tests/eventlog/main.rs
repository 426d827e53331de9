//! GHC eventlogs: tests of the crate `ghc-eventlog`, and of stopworld's own writer.

mod command;
#[path = "../command_support/mod.rs"]
mod command_support;
mod damage;
#[path = "../../../../tests/eventlog_rules/mod.rs"]
mod eventlog_rules;
#[path = "../../../../tests/eventlog_support/mod.rs"]
mod eventlog_support;
mod ours;
mod profiles;
mod show;
#[path = "../../../../tests/skipped/mod.rs"]
mod skipped;
mod tools;
#[path = "../trace_data/mod.rs"]
mod trace_data;
mod writer;
#[path = "../writer_support/mod.rs"]
mod writer_support;
