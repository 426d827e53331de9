//! Builds the C programs: the peers, which need libgc, and the bare limits, which need a compiler only.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// What could be built.
pub struct Programs {
    folder: PathBuf,
    /// Why there are no peers, if there are none.
    pub no_peers: Option<&'static str>,
    /// Why there are no bare limits in C, if there are none.
    pub no_bare: Option<&'static str>,
    /// Why LTTng can't be measured, if it can't.
    pub no_lttng: Option<&'static str>,
}

impl Programs {
    pub fn path(&self, program: &str) -> PathBuf {
        self.folder.join(program)
    }

    /// The script that runs a program under an LTTng session.
    pub fn lttng_session(&self) -> PathBuf {
        source().join("lttng.sh")
    }
}

pub fn build() -> Programs {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("peers");
    let no_bare = if make(&folder, "bare") { None } else { Some("needs cc and make") };
    let no_peers = match no_bare {
        Some(_) => no_bare,
        None if !has_header("gc.h") => Some("needs libgc-dev"),
        None if make(&folder, "peers") => None,
        None => Some("benches/peers did not build"),
    };
    let no_lttng = match no_bare {
        Some(_) => no_bare,
        None if !has_header("lttng/tracepoint.h") || !runs("lttng") => Some("needs liblttng-ust-dev and lttng-tools"),
        None if make(&folder, "lttng") => None,
        None => Some("benches/peers/lttng.c did not build"),
    };
    Programs { folder, no_peers, no_bare, no_lttng }
}

fn source() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/peers")
}

fn runs(program: &str) -> bool {
    let quiet = || Stdio::null();
    Command::new(program).arg("--version").stdin(quiet()).stdout(quiet()).stderr(quiet()).status().is_ok()
}

fn make(folder: &Path, goal: &str) -> bool {
    Command::new("make")
        .arg("-s")
        .arg("-C")
        .arg(source())
        .arg(format!("OUT={}", folder.display()))
        .arg(goal)
        // cargo's own jobserver is not for this make
        .env_remove("MAKEFLAGS")
        .stdin(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

/// Does the preprocessor find a header? Asked quietly, because not having it is no error.
fn has_header(header: &str) -> bool {
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
