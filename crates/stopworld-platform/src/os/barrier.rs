//! A memory barrier on all threads of the process at once (membarrier(2)).
//!
//! A path that runs a hundred million times and one that runs ten times a second can share a Dekker handshake ("I have
//! said that I am inside; now, is it still allowed?") without a fence on the first: it keeps its two accesses in program
//! order, and the second asks the kernel to let every processor that runs a thread of ours pass a barrier now.
//!
//! Plain system calls: async-signal-safe, errno preserved, stop-safe.

use std::io;

const PRIVATE_EXPEDITED: i32 = 1 << 3;
const REGISTER_PRIVATE_EXPEDITED: i32 = 1 << 4;

fn membarrier(command: i32) -> io::Result<()> {
    super::preserving_errno(|| {
        // SAFETY: integers only.
        let r = unsafe { libc::syscall(libc::SYS_membarrier, command, 0, 0) };
        if r == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    })
}

/// Says that this process will use [`on_all_threads`]. Linux 4.14 or later; a sandbox may refuse. Once is enough, for
/// the children of forks too.
pub fn register() -> io::Result<()> {
    membarrier(REGISTER_PRIVATE_EXPEDITED)
}

/// When this returns, every running thread of the process has passed a full memory barrier; one that does not run passes
/// one before it runs again. Only after [`register`], and then it can't fail.
pub fn on_all_threads() {
    let _ = membarrier(PRIVATE_EXPEDITED);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_can_be_had_here() {
        register().unwrap();
        membarrier(PRIVATE_EXPEDITED).unwrap();
    }
}
