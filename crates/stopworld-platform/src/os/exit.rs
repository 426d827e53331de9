//! What is done when the process ends in order.

use std::io;

/// Has `last` called when the process exits: by returning from `main`, or by `exit` on any thread.
pub fn at_exit(last: extern "C" fn()) -> io::Result<()> {
    // SAFETY: a function that lives as long as the program.
    match unsafe { libc::atexit(last) } {
        0 => Ok(()),
        _ => Err(io::ErrorKind::OutOfMemory.into()),
    }
}
