//! The input of the commands that read heaps: a file, standard input, or a process.

use std::fs::File;
use std::path::Path;

use anyhow::{Context, anyhow};

use super::eventlog;
use super::exit::Failure;
use ghc_eventlog::read::seekable;

/// Opens a file with a heap. A pipe is copied to an unnamed file first, because a heap is read several times.
pub(super) fn open(path: &Path) -> Result<File, Failure> {
    let name = path.display();
    if process(path).is_some() {
        return Err(anyhow!(
            "can't open {name}: there is no such file; if it is a process: `stopworld snapshot {name} -o FILE.hprof`, with --ptrace if it has no diagnostics socket"
        )
        .into());
    }
    let file = eventlog::open(path)?;
    Ok(seekable(file).with_context(|| format!("can't copy {name} to a temporary file, in TMPDIR or /tmp"))?)
}

/// Returns the process id that the input is, if it is one and no file has this name.
pub(super) fn process(input: &Path) -> Option<u32> {
    let pid = input.to_str()?.parse().ok().filter(|pid| *pid > 0)?;
    (!input.exists()).then_some(pid)
}
