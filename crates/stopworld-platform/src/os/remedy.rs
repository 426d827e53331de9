//! What a user can do about a file that cannot be written.

use std::io;

use super::Errno;

/// Returns what the user can do about a file that fails with this error. Allocates nothing.
pub fn remedy_of(error: &io::Error) -> &'static str {
    match error.raw_os_error().map(Errno::from_raw) {
        Some(Errno::EFBIG) => "raise the limit of a file's size (ulimit -f)",
        Some(Errno::ENOSPC | Errno::EDQUOT) | None => "make room",
        Some(Errno::EPIPE) => "its reader closed the pipe: let it read to the end",
        Some(Errno::EISDIR) => "it is a directory: name a file in it",
        Some(Errno::EACCES | Errno::EPERM | Errno::EROFS) => "make it writable",
        Some(Errno::ENOENT | Errno::ENOTDIR) => "create its directory",
        Some(_) => "check the device",
    }
}
