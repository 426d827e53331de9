//! Functions that run at a regular exit of the process.

use std::io;

/// Registers `last` to be called when the process exits: by returning from `main`, or by `exit` on any thread.
pub fn at_exit(last: extern "C" fn()) -> io::Result<()> {
    // SAFETY: a function that lives as long as the program.
    match unsafe { libc::atexit(last) } {
        0 => Ok(()),
        _ => Err(io::ErrorKind::OutOfMemory.into()),
    }
}
