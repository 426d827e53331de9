//! The ptrace debugger, with difficult and with hostile programs.

#[path = "../../examples/debuggee.rs"]
#[allow(dead_code, reason = "its main function is the example's")]
mod debuggee;
mod debugger;
mod hostile;
#[path = "../tasks/mod.rs"]
mod tasks;
