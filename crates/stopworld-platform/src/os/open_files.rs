//! The number of files that the process may open.

use nix::sys::resource::{Resource, getrlimit, setrlimit};

/// Raises the limit of open files (RLIMIT_NOFILE) as far as the process may. Returns the limit.
pub fn raise_open_files() -> u64 {
    let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE).unwrap_or((u64::MAX, u64::MAX));
    if soft < hard && setrlimit(Resource::RLIMIT_NOFILE, hard, hard).is_ok() { hard } else { soft }
}
