//! One conformance suite for every debugger of a stopped world.
//!
//! The requirements `.vtable.*` and `.debug.*` of DESIGN.md, and those of registers and system calls, are *cases*; each is run
//! with each *driver* against the same program: the debugger inside the program (mock), our own debugger in both modes
//! (ptrace), gdb and lldb. What comes out is a table of driver × case. `holds` and `FAILED` speak for themselves;
//! `skipped` means that the driver could not be run here, and the note below the table says what it needs; `-` means that by its
//! nature the driver has no such case; `OPEN` is known not to hold yet.
//!
//! ```text
//!   this process                     driver's process                  debugged program
//!   cases/*.rs  ── freeze 4711 ──>   `conformance engine …`,  ptrace   `conformance debuggee`
//!        │                           gdb, lldb            ──────────>  worlds, mutators
//!        └──────────────────── collect, facts … ────────────────────>
//! ```
//!
//! Program and driver are processes of their own, so that either can be killed, and all of them talk in lines
//! (`facts.rs`). The program is this very binary.
//!
//! Usage: `cargo test --test conformance -- [--ignored] [PART OF driver::case]…`

mod cases;
mod debuggee;
mod driver;
mod facts;
#[path = "../hazard/mod.rs"]
mod hazard;
mod program;
#[path = "../skipped/mod.rs"]
mod skipped;
mod suite;

use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let done = match arguments.first().map(String::as_str) {
        Some("debuggee") => debuggee::main(&arguments[1..]),
        Some("engine") => driver::ptrace::engine(&arguments[1..]),
        _ => return if suite::run(&asked(&arguments)) { ExitCode::SUCCESS } else { ExitCode::FAILURE },
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

/// What `cargo test` and people pass; what is only for the usual test harness is left alone.
fn asked(arguments: &[String]) -> suite::Asked {
    let mut asked = suite::Asked::default();
    let mut arguments = arguments.iter();
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--ignored" => asked.ignored = true,
            "--list" => asked.list = true,
            "--test-threads" | "--format" | "-Z" => drop(arguments.next()),
            option if option.starts_with('-') => {}
            filter => asked.filters.push(filter.into()),
        }
    }
    asked
}
