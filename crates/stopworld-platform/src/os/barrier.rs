//! A memory barrier on all threads of the process at once (membarrier(2)).
//!
//! A Dekker handshake ("I have announced that I am inside; is entry still allowed?") needs a fence on both sides. If one side
//! runs a hundred million times per second and the other ten times, the frequent side can do without a fence: it only keeps its
//! two accesses in program order, and the rare side asks the kernel to execute a barrier on every processor that runs a thread of
//! this process.
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

/// Registers this process for [`on_all_threads`]. Needs Linux 4.14; a sandbox may refuse. One registration is enough, also for
/// the children of forks.
pub fn register() -> io::Result<()> {
    membarrier(REGISTER_PRIVATE_EXPEDITED)
}

/// Makes every running thread of the process pass a full memory barrier before this returns. A thread that is not running
/// passes one before it runs again. Requires [`register`]; cannot fail after that.
pub fn on_all_threads() {
    let _ = membarrier(PRIVATE_EXPEDITED);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn membarrier_is_available() {
        register().unwrap();
        membarrier(PRIVATE_EXPEDITED).unwrap();
    }
}
