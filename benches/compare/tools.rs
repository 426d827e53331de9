//! Finds out which tools the machine has, and runs make in `benches/peers`.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Returns the folder for the built programs.
pub fn folder() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join("peers")
}

pub fn source() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/peers")
}

pub fn runs(program: &str) -> bool {
    let quiet = || Stdio::null();
    Command::new(program).arg("--version").stdin(quiet()).stdout(quiet()).stderr(quiet()).status().is_ok()
}

pub fn make(folder: &Path, goal: &str) -> bool {
    Command::new("make")
        .arg("-s")
        .arg("-C")
        .arg(source())
        .arg(format!("OUT={}", folder.display()))
        .arg(goal)
        // this make must not use cargo's jobserver
        .env_remove("MAKEFLAGS")
        .stdin(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

/// Returns whether the preprocessor finds a header. Output is suppressed, because a missing header is not an error.
pub fn has_header(header: &str) -> bool {
    let compiler = std::env::var("CC").unwrap_or_else(|_| "cc".into());
    let prefix = std::env::var("PREFIX").unwrap_or_else(|_| "/usr".into());
    Command::new(compiler)
        .arg(format!("-I{prefix}/include"))
        .args(["-E", "-include", header, "-x", "c", "/dev/null"])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}
