//! What a user can do about a file that cannot be written.

use std::io;

use super::Errno;

/// Returns what the user can do about a file that fails with this error. Allocates nothing.
pub fn remedy_of(error: &io::Error) -> &'static str {
    // An error that was wrapped has no number any more.
    match error.kind() {
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => return "make it writable",
        io::ErrorKind::NotFound => return "create its directory",
        io::ErrorKind::NotADirectory => return "its path has a file where a directory must be: name another path",
        _ => {}
    }
    match error.raw_os_error().map(Errno::from_raw) {
        Some(Errno::EFBIG) => "raise the limit of a file's size (ulimit -f)",
        Some(Errno::ENOSPC | Errno::EDQUOT) | None => "make room",
        Some(Errno::EPIPE) => "its reader closed the pipe: let it read to the end",
        Some(Errno::EISDIR) => "it is a directory: name a file in it",
        Some(_) => "check the device",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrapped_error_has_the_remedy_of_the_error_in_it() {
        for number in [Errno::EACCES, Errno::EROFS, Errno::ENOENT, Errno::ENOTDIR, Errno::ENOSPC] {
            let error = io::Error::from(number);
            let wrapped = io::Error::new(error.kind(), "a temporary file");
            assert_eq!(remedy_of(&wrapped), remedy_of(&error), "{number:?}");
        }
    }
}
