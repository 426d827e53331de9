//! Counts the collections of a run.

use std::fs::File;
use std::io;
use std::path::Path;

use nettrace::Reader;
use stopworld_analysis::gcstats::{Rules, analyse};

/// Returns the number of collections in a `.nettrace` file.
///
/// # Errors
/// The file cannot be read, or is damaged or incomplete.
pub fn in_trace(file: &Path) -> io::Result<u64> {
    let (processes, summary) = analyse(Reader::new(File::open(file)?), Rules::Ours)?;
    if let Some(damage) = summary.damage {
        return Err(io::Error::other(format!("{}: {damage}", file.display())));
    }
    Ok(processes.iter().map(|process| process.all.count).sum())
}

/// Returns the number of collections in the log that bdwgc writes with `GC_PRINT_STATS=1`.
///
/// # Errors
/// The file cannot be read.
pub fn in_log_of_bdwgc(file: &Path) -> io::Result<u64> {
    let log = std::fs::read(file)?;
    Ok(String::from_utf8_lossy(&log).matches("World-stopped").count() as u64)
}
