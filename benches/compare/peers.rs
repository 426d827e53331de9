//! Builds the C programs: the peers, which need libgc, and the bare limits, which need only a compiler.

use std::path::PathBuf;

use crate::tools::{folder, has_header, make, runs, source};

/// The programs that were built, and the reasons for those that were not.
pub struct Programs {
    folder: PathBuf,
    /// The reason why the peers can't run, if they can't.
    pub no_peers: Option<&'static str>,
    /// The reason why the bare limits in C can't run, if they can't.
    pub no_bare: Option<&'static str>,
    /// The reason why the LTTng program can't run, if it can't.
    pub no_lttng: Option<&'static str>,
}

impl Programs {
    pub fn path(&self, program: &str) -> PathBuf {
        self.folder.join(program)
    }

    /// The path of the script that runs a program in an LTTng session.
    pub fn lttng_session(&self) -> PathBuf {
        source().join("lttng.sh")
    }
}

pub fn build() -> Programs {
    let folder = folder();
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
