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
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::OnceLock;

use super::Errno;
use super::thread::getpid;
use crate::sabotage::{Guard, removed};
use crate::sync::{AtomicI32, Lock, LockGuard, Ordering};

/// The maximum number of open sockets.
pub const MOST: usize = 256;

/// The longest path in bytes, without its final 0.
pub const LONGEST_PATH: usize = size_of::<libc::sockaddr_un>() - offset_of!(libc::sockaddr_un, sun_path) - 1;

/// An empty table entry.
const FREE: i32 = -1;

static TABLE: [AtomicI32; MOST] = [const { AtomicI32::new(FREE) }; MOST];
static LOCK: Lock = Lock::new();

/// An open socket. Closed when dropped, and in the child of a fork at once.
#[derive(Debug)]
pub struct Socket {
    fd: i32,
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
    fn adopt(_held: &LockGuard<'_>, fd: i32) -> io::Result<Socket> {
        let free = |place: &AtomicI32| place.compare_exchange(FREE, fd, Ordering::Relaxed, Ordering::Relaxed).is_ok();
        match TABLE.iter().position(free) {
            Some(place) => Ok(Socket { fd, place, pid: getpid() }),
            None => {
                // SAFETY: the descriptor was just made, and is not used elsewhere.
                unsafe { libc::close(fd) };
                Err(Errno::EMFILE.into())
            }
        }
    }

    /// Listens at `path`, where no file may exist (`.live.owner`). From the first moment on, only the owner can connect.
    pub fn listen(path: &Path) -> io::Result<Socket> {
        forget_in_children()?;
        let address = address(path)?;
        let socket = {
            let held = LOCK.lock();
            Socket::adopt(&held, made(libc::SOCK_NONBLOCK)?)?
        };
        // SAFETY: our own descriptor. Before `bind`, so that the name appears with this mode.
        Errno::result(unsafe { libc::fchmod(socket.fd, 0o600) })?;
        // SAFETY: an address of this family and this length.
        Errno::result(unsafe {
            libc::bind(socket.fd, (&raw const address).cast(), size_of::<libc::sockaddr_un>() as libc::socklen_t)
        })?;
        // SAFETY: our own bound descriptor.
        Errno::result(unsafe { libc::listen(socket.fd, 255) })?;
        Ok(socket)
    }

    /// Accepts one pending connection, if there is one.
    pub fn accept(&self) -> io::Result<Socket> {
        let held = LOCK.lock();
        let flags = libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
        // SAFETY: a listening descriptor; the peer's address is not requested.
        let fd = Errno::result(unsafe { libc::accept4(self.fd, std::ptr::null_mut(), std::ptr::null_mut(), flags) })?;
        Socket::adopt(&held, fd)
    }

    /// Waits until something can be read, until the other end is gone, or for `ms` milliseconds.
    pub fn wait_to_read(&self, ms: i32) -> Ready {
        self.wait(libc::POLLIN, ms)
    }

    /// Waits until something can be written, until the other end is gone, or for `ms` milliseconds.
    pub fn wait_to_write(&self, ms: i32) -> Ready {
        self.wait(libc::POLLOUT, ms)
    }

    /// Whether the other end is gone for good: it can neither write nor read any more.
    pub fn is_gone(&self) -> bool {
        self.wait(0, 0).gone
    }

    fn wait(&self, events: libc::c_short, ms: i32) -> Ready {
        let mut wanted = libc::pollfd { fd: self.fd, events, revents: 0 };
        // SAFETY: one pollfd. An interrupted wait counts as nothing found.
        let found = unsafe { libc::poll(&mut wanted, 1, ms) };
        if found <= 0 {
            return Ready { ready: false, gone: false };
        }
        let gone = wanted.revents & (libc::POLLHUP | libc::POLLERR | libc::POLLNVAL) != 0;
        Ready { ready: wanted.revents & events != 0, gone }
    }

    /// Receives the bytes that have arrived, up to the length of `buffer`; returns 0 at the end.
    pub fn receive(&self, buffer: &mut [u8]) -> io::Result<usize> {
        // SAFETY: the buffer is writable and has this length.
        let count = unsafe { libc::recv(self.fd, buffer.as_mut_ptr().cast(), buffer.len(), 0) };
        Ok(Errno::result(count)? as usize)
    }

    /// Sends the bytes for which the socket has room. Returns their number. Raises no signal if the other end is gone.
    pub fn send(&self, bytes: &[u8]) -> io::Result<usize> {
        // SAFETY: the bytes are readable, and the length is theirs.
        let count = unsafe { libc::send(self.fd, bytes.as_ptr().cast(), bytes.len(), libc::MSG_NOSIGNAL) };
        Ok(Errno::result(count)? as usize)
    }

    /// Ends this side's stream; the other end may continue to send.
    pub fn end(&self) {
        // SAFETY: our own descriptor. If the other end is gone there is nothing to end.
        unsafe { libc::shutdown(self.fd, libc::SHUT_WR) };
    }

    /// Wakes a thread that waits for a connection, and stops listening for good.
    pub fn stop_listening(&self) {
        // SAFETY: our own descriptor.
        unsafe { libc::shutdown(self.fd, libc::SHUT_RDWR) };
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        // In the child of a fork it is closed already, and its number and its table entry may belong to another socket.
        if self.pid == getpid() {
            TABLE[self.place].store(FREE, Ordering::Relaxed);
            // SAFETY: the descriptor belongs to `self`, and is not used after this.
            unsafe { libc::close(self.fd) };
        }
    }
}

fn made(flags: i32) -> io::Result<i32> {
    // SAFETY: three numbers.
    let fd = unsafe { libc::socket(libc::AF_UNIX, libc::SOCK_STREAM | libc::SOCK_CLOEXEC | flags, 0) };
    Ok(Errno::result(fd)?)
}

fn address(path: &Path) -> io::Result<libc::sockaddr_un> {
    let bytes = path.as_os_str().as_bytes();
    if bytes.len() > LONGEST_PATH || bytes.contains(&0) {
        return Err(Errno::ENAMETOOLONG.into());
    }
    // SAFETY: numbers, for which zeroes are fine.
    let mut address: libc::sockaddr_un = unsafe { std::mem::zeroed() };
    address.sun_family = libc::AF_UNIX as libc::sa_family_t;
    for (to, from) in address.sun_path.iter_mut().zip(bytes) {
        *to = *from as libc::c_char;
    }
    Ok(address)
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
            // SAFETY: a descriptor of the table; the threads that used it do not exist here.
            unsafe { libc::close(fd) };
        }
    }
}
