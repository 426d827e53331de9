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
}

impl Programs {
    pub fn path(&self, program: &str) -> PathBuf {
        self.folder.join(program)
    }
}

pub fn build() -> Programs {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("peers");
    let no_bare = if make(&folder, "bare") { None } else { Some("needs cc and make") };
    let no_peers = match no_bare {
        Some(_) => no_bare,
        None if !has_libgc() => Some("needs libgc-dev"),
        None if make(&folder, "peers") => None,
        None => Some("benches/peers did not build"),
    };
    Programs { folder, no_peers, no_bare }
}

fn make(folder: &Path, goal: &str) -> bool {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/peers");
    Command::new("make")
        .arg("-s")
        .arg("-C")
        .arg(source)
        .arg(format!("OUT={}", folder.display()))
        .arg(goal)
        // cargo's own jobserver is not for this make
        .env_remove("MAKEFLAGS")
        .stdin(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

/// Does the preprocessor find gc.h? Asked quietly, because not having it is no error.
fn has_libgc() -> bool {
    let compiler = std::env::var("CC").unwrap_or_else(|_| "cc".into());
    let prefix = std::env::var("PREFIX").unwrap_or_else(|_| "/usr".into());
    Command::new(compiler)
        .arg(format!("-I{prefix}/include"))
        .args(["-E", "-include", "gc.h", "-x", "c", "/dev/null"])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}
