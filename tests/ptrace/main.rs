//! The ptrace debugger, with difficult and with hostile programs.

#[path = "../../examples/debuggee.rs"]
#[allow(dead_code, reason = "its main function is the example's")]
mod debuggee;
mod debugger;
mod hostile;
#[path = "../skipped/mod.rs"]
mod skipped;
#[path = "../tasks/mod.rs"]
mod tasks;
#[path = "../unfinished_clone/mod.rs"]
mod unfinished_clone;
