//! Debuggers outside the process: the bridge, the contract in C, and a debugger in C.

mod bridge;
mod contract;
#[path = "../../examples/debuggee.rs"]
#[allow(dead_code, reason = "its main function is the example's")]
mod debuggee;
#[path = "../debugger_support/mod.rs"]
mod debugger_support;
mod in_c;
mod missed;
#[path = "../numbered_list/mod.rs"]
mod numbered_list;
#[path = "../patience/mod.rs"]
mod patience;
mod players;
#[path = "../skipped/mod.rs"]
mod skipped;
#[path = "../tools/mod.rs"]
mod tools;
#[path = "../unfinished_clone/mod.rs"]
mod unfinished_clone;
