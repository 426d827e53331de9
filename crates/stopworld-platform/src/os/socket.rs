//! Sockets in the file system, for who serves strangers: reachable by their owner only, and never in their hands for ever.
//!
//! The standard library's would do but for three things. Its listener is reachable with the mode that the umask leaves until
//! somebody changes it; its writes raise SIGPIPE in a process that did not ask for Rust's start-up; and a descriptor of
//! its is open in the child of a fork as well, where nobody serves it: a client of the parent would wait there for an end that
//! the parent's close does not bring.
//!
//! So each descriptor here has a place in a table that the child of a fork empties (`.fork.services`, `.live.end`). The table's lock is held
//! while one is made and while the process forks, so none is missed; it is never held while waiting.

use std::io;
use std::mem::offset_of;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::OnceLock;

use super::Errno;
use super::thread::getpid;
use crate::sabotage::{Guard, removed};
use crate::sync::{AtomicI32, Lock, LockGuard, Ordering};

/// How many of them can be open at once.
pub const MOST: usize = 256;

/// The longest path, without its final 0.
pub const LONGEST_PATH: usize = size_of::<libc::sockaddr_un>() - offset_of!(libc::sockaddr_un, sun_path) - 1;

/// No descriptor has this place.
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

/// What a wait found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ready {
    /// Something can be read, or written, as was asked.
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
                // SAFETY: ours, and known to nobody.
                unsafe { libc::close(fd) };
                Err(Errno::EMFILE.into())
            }
        }
    }

    /// Listens at `path`, where nothing may be (`.live.owner`). Who is not its owner finds it closed from the first moment on.
    pub fn listen(path: &Path) -> io::Result<Socket> {
        forget_in_children()?;
        let address = address(path)?;
        let socket = {
            let held = LOCK.lock();
            Socket::adopt(&held, made(libc::SOCK_NONBLOCK)?)?
        };
        // SAFETY: a descriptor of ours. Before `bind`, so that the name appears with this mode.
        Errno::result(unsafe { libc::fchmod(socket.fd, 0o600) })?;
        // SAFETY: an address of this family and this length.
        Errno::result(unsafe {
            libc::bind(socket.fd, (&raw const address).cast(), size_of::<libc::sockaddr_un>() as libc::socklen_t)
        })?;
        // SAFETY: a bound descriptor of ours.
        Errno::result(unsafe { libc::listen(socket.fd, 255) })?;
        Ok(socket)
    }

    /// Takes one who has connected, if there is one.
    pub fn accept(&self) -> io::Result<Socket> {
        let held = LOCK.lock();
        let flags = libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
        // SAFETY: a listening descriptor; the address is not asked for.
        let fd = Errno::result(unsafe { libc::accept4(self.fd, std::ptr::null_mut(), std::ptr::null_mut(), flags) })?;
        Socket::adopt(&held, fd)
    }

    /// Waits until something can be read, until the other end is gone, or for so long.
    pub fn wait_to_read(&self, ms: i32) -> Ready {
        self.wait(libc::POLLIN, ms)
    }

    /// Waits until something can be written, until the other end is gone, or for so long.
    pub fn wait_to_write(&self, ms: i32) -> Ready {
        self.wait(libc::POLLOUT, ms)
    }

    /// Whether the other end is gone for good: it can neither write nor read any more.
    pub fn is_gone(&self) -> bool {
        self.wait(0, 0).gone
    }

    fn wait(&self, events: libc::c_short, ms: i32) -> Ready {
        let mut wanted = libc::pollfd { fd: self.fd, events, revents: 0 };
        // SAFETY: one place of this shape. An interrupted wait found nothing.
        let found = unsafe { libc::poll(&mut wanted, 1, ms) };
        if found <= 0 {
            return Ready { ready: false, gone: false };
        }
        let gone = wanted.revents & (libc::POLLHUP | libc::POLLERR | libc::POLLNVAL) != 0;
        Ready { ready: wanted.revents & events != 0, gone }
    }

    /// Takes what has come, as much as has room; 0 is the end.
    pub fn receive(&self, buffer: &mut [u8]) -> io::Result<usize> {
        // SAFETY: the buffer is writable, as long as is said.
        let count = unsafe { libc::recv(self.fd, buffer.as_mut_ptr().cast(), buffer.len(), 0) };
        Ok(Errno::result(count)? as usize)
    }

    /// Gives what there is room for. Raises no signal if the other end is gone.
    pub fn send(&self, bytes: &[u8]) -> io::Result<usize> {
        // SAFETY: the bytes are readable, as many as are said.
        let count = unsafe { libc::send(self.fd, bytes.as_ptr().cast(), bytes.len(), libc::MSG_NOSIGNAL) };
        Ok(Errno::result(count)? as usize)
    }

    /// The end of what is said here; the other end may go on.
    pub fn end(&self) {
        // SAFETY: a descriptor of ours. If the other end is gone there is nothing to end.
        unsafe { libc::shutdown(self.fd, libc::SHUT_WR) };
    }

    /// Wakes who waits for a connection, for good.
    pub fn stop_listening(&self) {
        // SAFETY: a descriptor of ours.
        unsafe { libc::shutdown(self.fd, libc::SHUT_RDWR) };
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        // In the child of a fork it is closed already, and its number and its place may be another's.
        if self.pid == getpid() {
            TABLE[self.place].store(FREE, Ordering::Relaxed);
            // SAFETY: ours, and used by nobody after this.
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

/// From now on the child of a fork closes what is open here.
fn forget_in_children() -> io::Result<()> {
    static REGISTERED: OnceLock<()> = OnceLock::new();
    if REGISTERED.get().is_none() {
        // SAFETY: made to be called in these places of a fork, on any thread.
        unsafe { super::thread::at_fork(before_fork, after_fork_in_parent, after_fork_in_child) }?;
        // Two at once: the second pair of functions finds the lock its own, and nothing to close.
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
        // SAFETY: taken in `before_fork`, by this thread and without a guard.
        unsafe { LOCK.release() };
    }
}

unsafe extern "C" fn after_fork_in_child() {
    // SAFETY: the child's only thread, which has no guard of it.
    unsafe { LOCK.reset_in_child() };
    if removed(Guard::ForkServices) {
        return;
    }
    for place in &TABLE {
        let fd = place.swap(FREE, Ordering::Relaxed);
        if fd != FREE {
            // SAFETY: the table's own; the threads that used it do not exist here.
            unsafe { libc::close(fd) };
        }
    }
}
