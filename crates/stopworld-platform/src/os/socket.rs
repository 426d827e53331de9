//! Unix-domain sockets for a server: only their owner can connect, and no call waits longer than its timeout.
//!
//! The standard library's sockets have three defects here. The listener's mode is what the umask leaves, until it is changed.
//! Writes raise SIGPIPE in a process without Rust's start-up code. And a descriptor stays open in the child of a fork, where no
//! thread serves it: a client of the parent would wait for an end of file that the parent's close does not cause.
//!
//! So each descriptor here has an entry in a table, and the child of a fork closes all of them (`.fork.services`, `.live.end`).
//! The table's lock is held while a descriptor is made and while the process forks, so none is missed; it is never held while
//! waiting.

use std::io;
use std::mem::offset_of;
use std::os::fd::{BorrowedFd, IntoRawFd, RawFd};
use std::path::Path;
use std::sync::OnceLock;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{
    AddressFamily, Backlog, MsgFlags, Shutdown, SockFlag, SockType, UnixAddr, accept4, bind, listen, recv, send,
    shutdown, socket,
};
use nix::sys::stat::{Mode, fchmod};
use nix::unistd::close;

use super::Errno;
use super::thread::getpid;
use crate::sabotage::{Guard, removed};
use crate::sync::{AtomicI32, Lock, LockGuard, Ordering};

/// The maximum number of open sockets.
pub const MOST: usize = 256;

/// The longest path in bytes, without its final 0.
pub const LONGEST_PATH: usize = size_of::<libc::sockaddr_un>() - offset_of!(libc::sockaddr_un, sun_path) - 1;

/// No descriptor is inherited by another program, and no call on one waits.
const FLAGS: SockFlag = SockFlag::SOCK_CLOEXEC.union(SockFlag::SOCK_NONBLOCK);

/// An empty table entry.
const FREE: i32 = -1;

static TABLE: [AtomicI32; MOST] = [const { AtomicI32::new(FREE) }; MOST];
static LOCK: Lock = Lock::new();

/// An open socket. Closed when dropped, and in the child of a fork at once.
#[derive(Debug)]
pub struct Socket {
    fd: RawFd,
    place: usize,
    /// The process that opened it.
    pid: i32,
}

/// The result of a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ready {
    /// Something can be read, or written, as requested.
    pub ready: bool,
    /// The other end is gone.
    pub gone: bool,
}

impl Socket {
    /// Enters a new descriptor in the table. The lock keeps the process from forking after the descriptor is made and before
    /// it is in the table.
    fn adopt(_held: &LockGuard<'_>, fd: RawFd) -> io::Result<Socket> {
        let free = |place: &AtomicI32| place.compare_exchange(FREE, fd, Ordering::Relaxed, Ordering::Relaxed).is_ok();
        match TABLE.iter().position(free) {
            Some(place) => Ok(Socket { fd, place, pid: getpid() }),
            None => {
                let _ = close(fd);
                Err(Errno::EMFILE.into())
            }
        }
    }

    /// Listens at `path`, where no file may exist (`.live.owner`). From the first moment on, only the owner can connect.
    pub fn listen(path: &Path) -> io::Result<Socket> {
        forget_in_children()?;
        let address = UnixAddr::new(path)?;
        let listener = {
            let held = LOCK.lock();
            let fd = socket(AddressFamily::Unix, SockType::Stream, FLAGS, None)?;
            Socket::adopt(&held, fd.into_raw_fd())?
        };
        // Before `bind`, so that the name appears with this mode.
        fchmod(listener.borrowed(), Mode::S_IRUSR | Mode::S_IWUSR)?;
        bind(listener.fd, &address)?;
        listen(&listener.borrowed(), Backlog::new(255)?)?;
        Ok(listener)
    }

    /// Accepts one pending connection, if there is one.
    pub fn accept(&self) -> io::Result<Socket> {
        let held = LOCK.lock();
        Socket::adopt(&held, accept4(self.fd, FLAGS)?)
    }

    /// Waits until something can be read, until the other end is gone, or for `ms` milliseconds.
    pub fn wait_to_read(&self, ms: i32) -> Ready {
        self.wait(PollFlags::POLLIN, ms)
    }

    /// Waits until something can be written, until the other end is gone, or for `ms` milliseconds.
    pub fn wait_to_write(&self, ms: i32) -> Ready {
        self.wait(PollFlags::POLLOUT, ms)
    }

    /// Whether the other end is gone for good: it can neither write nor read any more.
    pub fn is_gone(&self) -> bool {
        self.wait(PollFlags::empty(), 0).gone
    }

    fn wait(&self, events: PollFlags, ms: i32) -> Ready {
        let mut wanted = [PollFd::new(self.borrowed(), events)];
        // An interrupted wait counts as nothing found.
        let found = poll(&mut wanted, PollTimeout::try_from(ms).unwrap_or(PollTimeout::NONE)).unwrap_or(0);
        let [wanted] = &wanted;
        let found = wanted.revents().filter(|_| found > 0).unwrap_or(PollFlags::empty());
        let gone = PollFlags::POLLHUP | PollFlags::POLLERR | PollFlags::POLLNVAL;
        Ready { ready: found.intersects(events), gone: found.intersects(gone) }
    }

    /// Receives the bytes that have arrived, up to the length of `buffer`; returns 0 at the end.
    pub fn receive(&self, buffer: &mut [u8]) -> io::Result<usize> {
        Ok(recv(self.fd, buffer, MsgFlags::empty())?)
    }

    /// Sends the bytes for which the socket has room. Returns their number. Raises no signal if the other end is gone.
    pub fn send(&self, bytes: &[u8]) -> io::Result<usize> {
        Ok(send(self.fd, bytes, MsgFlags::MSG_NOSIGNAL)?)
    }

    /// Ends this side's stream; the other end may continue to send.
    pub fn end(&self) {
        // If the other end is gone, there is nothing to end.
        let _ = shutdown(self.fd, Shutdown::Write);
    }

    /// Wakes a thread that waits for a connection, and stops listening for good.
    pub fn stop_listening(&self) {
        let _ = shutdown(self.fd, Shutdown::Both);
    }

    fn borrowed(&self) -> BorrowedFd<'_> {
        // SAFETY: the descriptor is open as long as `self` exists. (In the child of a fork it is closed, and the threads that could use it do
        // not exist; the remaining thread does not call these functions.)
        unsafe { BorrowedFd::borrow_raw(self.fd) }
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        // In the child of a fork it is closed already, and its number and its table entry may belong to another socket.
        if self.pid == getpid() {
            TABLE[self.place].store(FREE, Ordering::Relaxed);
            let _ = close(self.fd);
        }
    }
}

/// Makes the child of any later fork close the sockets of the table.
fn forget_in_children() -> io::Result<()> {
    static REGISTERED: OnceLock<()> = OnceLock::new();
    if REGISTERED.get().is_none() {
        // SAFETY: the functions may be called in these steps of a fork, on any thread.
        unsafe { super::thread::at_fork(before_fork, after_fork_in_parent, after_fork_in_child) }?;
        // If two threads register at once, the second set of functions finds the lock taken by its own thread, and nothing to close.
        let _ = REGISTERED.set(());
    }
    Ok(())
}

unsafe extern "C" fn before_fork() {
    if !LOCK.is_mine() {
        LOCK.acquire();
    }
}

unsafe extern "C" fn after_fork_in_parent() {
    if LOCK.is_mine() {
        // SAFETY: this thread took the lock in `before_fork`, without a guard.
        unsafe { LOCK.release() };
    }
}

unsafe extern "C" fn after_fork_in_child() {
    // SAFETY: called on the child's only thread, which has no guard of the lock.
    unsafe { LOCK.reset_in_child() };
    if removed(Guard::ForkServices) {
        return;
    }
    for place in &TABLE {
        let fd = place.swap(FREE, Ordering::Relaxed);
        if fd != FREE {
            // The threads that used it do not exist here.
            let _ = close(fd);
        }
    }
}
