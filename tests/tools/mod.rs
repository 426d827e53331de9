//! The tools with which tests examine programs. If one is missing, or is not permitted to do its work, the test is skipped and reports:
//! `skipped: needs gdb`.

#![allow(dead_code, reason = "each test program uses its part")]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

pub use crate::skipped::skipped;

/// Whether a tool is installed; reports a skipped test if not.
pub fn has(tool: &str) -> bool {
    let is_there = Command::new(tool).arg("--version").output().is_ok();
    if !is_there {
        skipped(tool);
    }
    is_there
}

/// Everything that a tool has printed.
pub fn said(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

/// This program after `strip`, in `folder`; `None` if there is no such tool.
pub fn stripped(folder: &Path, how: &str) -> Option<PathBuf> {
    let copy = folder.join("stripped");
    let this = std::env::current_exe().unwrap();
    let status = Command::new("strip").args([how, "-o"]).args([&copy, &this]).status().ok()?;
    assert!(status.success());
    Some(copy)
}

/// Whether gdb may trace; reports a skipped test if not.
fn gdb_may_trace(said: &str) -> bool {
    let denied = ["ptrace: Operation not permitted", "Could not trace"].iter().any(|denied| said.contains(denied));
    if denied {
        skipped(&format!("gdb that may trace: {said}"));
    }
    !denied
}

/// Whether gdb is installed and may trace; reports a skipped test if not.
pub fn has_gdb() -> bool {
    let probe = ["-nx", "-batch", "-ex", "starti", "--args", "/bin/true"];
    let Ok(output) = Command::new("gdb").args(probe).output() else {
        skipped("gdb");
        return false;
    };
    gdb_may_trace(&String::from_utf8_lossy(&output.stderr))
}

/// The result of a program in gdb.
pub struct InGdb {
    /// Everything that gdb and the program have printed.
    pub said: String,
    /// If false, the program has not run, and the test is reported as skipped.
    pub may_trace: bool,
}

/// Runs a program in gdb with a script. gdb asks no questions, and reads expressions as C. `None`, with a skipped test reported, if there
/// is no gdb.
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
