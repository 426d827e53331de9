//! One conformance suite for every debugger of a stopped world.
//!
//! The requirements `.vtable.*` and `.debug.*` of DESIGN.md, and those of registers and system calls, are *cases*; each is run with each
//! *driver* against the same program: the debugger inside the program (mock), this project's debugger in both modes (ptrace), gdb and lldb.
//! The result is a table of driver × case. A case `holds` or `FAILED`; `skipped` means that the driver could not be run here, and the note
//! below the table says what it needs; `-` means that the driver cannot have this case; `OPEN` is known not to hold yet.
//!
//! ```text
//!   this process                     driver's process                  debugged program
//!   cases/*.rs  ── freeze 4711 ──>   `conformance engine …`,  ptrace   `conformance debuggee`
//!        │                           gdb, lldb            ──────────>  worlds, mutators
//!        └──────────────────── collect, facts … ────────────────────>
//! ```
//! Program and driver are separate processes, so that either can be killed, and all processes exchange lines (`facts.rs`). The program is
//! this same binary.
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

/// Parses what `cargo test` and users pass; options of the usual test harness are ignored.
fn asked(arguments: &[String]) -> suite::SuiteArguments {
    let mut asked = suite::SuiteArguments::default();
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
