//! The tools that tests look into programs with. Where one is missing, or may not do what it is for, the test says so and is skipped:
//! `skipped: needs gdb`.

#![allow(dead_code, reason = "each test program uses its part")]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

pub use crate::skipped::skipped;

/// Whether a tool is there; says so if not.
pub fn has(tool: &str) -> bool {
    let is_there = Command::new(tool).arg("--version").output().is_ok();
    if !is_there {
        skipped(tool);
    }
    is_there
}

/// Everything that a tool has said.
pub fn said(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

/// This program as `strip` makes it, in `folder`; `None` if there is no such tool.
pub fn stripped(folder: &Path, how: &str) -> Option<PathBuf> {
    let copy = folder.join("stripped");
    let this = std::env::current_exe().unwrap();
    let status = Command::new("strip").args([how, "-o"]).args([&copy, &this]).status().ok()?;
    assert!(status.success());
    Some(copy)
}

/// Whether gdb may trace; says so if not.
fn gdb_may_trace(said: &str) -> bool {
    let denied = ["ptrace: Operation not permitted", "Could not trace"].iter().any(|denied| said.contains(denied));
    if denied {
        skipped(&format!("gdb that may trace: {said}"));
    }
    !denied
}

/// Whether gdb is there and may trace; says so if not.
pub fn has_gdb() -> bool {
    let probe = ["-nx", "-batch", "-ex", "starti", "--args", "/bin/true"];
    let Ok(output) = Command::new("gdb").args(probe).output() else {
        skipped("gdb");
        return false;
    };
    gdb_may_trace(&String::from_utf8_lossy(&output.stderr))
}

/// What came of a program in gdb.
pub struct InGdb {
    /// Everything that gdb and the program said.
    pub said: String,
    /// If not, the program has not run, and the test has said that it is skipped.
    pub may_trace: bool,
}

/// Runs a program in gdb as a script says. It is not asked anything, and reads expressions as C. `None`, and says so, if there is no gdb.
pub fn in_gdb(script: &str, program: &Path, arguments: &[&str], variable: &str) -> Option<InGdb> {
    if !has("gdb") {
        return None;
    }
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("script");
    std::fs::write(&file, format!("set pagination off\nset confirm off\nset language c\n{script}")).unwrap();
    let mut gdb = Command::new("gdb");
    gdb.args(["-nx", "-batch", "-x"]).arg(&file).arg("--args").arg(program).args(arguments).env(variable, "1");
    let said = said(&gdb.output().unwrap());
    let may_trace = gdb_may_trace(&said);
    Some(InGdb { said, may_trace })
}
