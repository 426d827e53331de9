//! What events need from the system. Every function here may be called in a signal handler and in the stopped world:
//! none allocates, locks, or touches thread-local storage, except [`map`] and [`unmap`], which are called outside.

use std::io;
use std::ptr::NonNull;

use crate::sync::{AtomicU32, Ordering};

/// CLOCK_MONOTONIC in nanoseconds, read before whatever the caller does next.
///
/// The fence keeps the processor from looking at a listener's selection before it has read the clock: a record is then
/// never younger than the moment at which its listener was seen to want it.
pub(super) fn now_ns() -> u64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `now` is a valid place for a timespec; the call writes nothing else.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut now) };
    // SAFETY: every x86-64 processor has SSE2, and so the instruction.
    unsafe { core::arch::x86_64::_mm_lfence() };
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// The kernel's id of the calling thread, by a system call: no thread-local storage.
pub(super) fn gettid() -> u32 {
    // SAFETY: gettid takes nothing, cannot fail, and leaves errno alone.
    unsafe { libc::syscall(libc::SYS_gettid) as u32 }
}

/// Waits until woken, or until the word is no longer `expected`, or for so long.
pub(super) fn futex_wait(word: &AtomicU32, expected: u32, timeout_ns: u64) {
    let timeout = libc::timespec {
        tv_sec: (timeout_ns / 1_000_000_000) as libc::time_t,
        tv_nsec: (timeout_ns % 1_000_000_000) as libc::c_long,
    };
    // SAFETY: `word` outlives the call, and the kernel only reads it and `timeout`.
    unsafe {
        libc::syscall(
            libc::SYS_futex,
            word.as_ptr(),
            libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG,
            expected,
            &raw const timeout,
        )
    };
}

/// Wakes everybody who waits on the word. Cannot fail on a word that exists, so errno stays as it is.
pub(super) fn futex_wake_all(word: &AtomicU32) {
    // SAFETY: the kernel only uses the address of `word`, to find who waits there.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG, i32::MAX) };
}

/// So many zeroed bytes from the system, page-aligned. Pages come when they are first touched.
pub(super) fn map(bytes: usize) -> io::Result<NonNull<u8>> {
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: a new private mapping, at an address of the kernel's choice, overlaps nothing that exists.
    let address =
        unsafe { libc::mmap(std::ptr::null_mut(), bytes, protection, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1, 0) };
    if address == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    NonNull::new(address.cast()).ok_or_else(|| io::Error::other("mmap returned the null page"))
}

/// Gives a mapping back.
///
/// # Safety
/// `address` and `bytes` are those of one [`map`], and nothing refers to it any more.
pub(super) unsafe fn unmap(address: NonNull<u8>, bytes: usize) {
    // SAFETY: by the contract above, this unmaps exactly one mapping, which nobody uses.
    unsafe { libc::munmap(address.as_ptr().cast(), bytes) };
}

/// The lock under which listeners change. Nothing that fires takes it.
///
/// Acquired and released by themselves, not by a guard, because a fork acquires it in one function and releases it in
/// two others, on either side.
#[derive(Debug)]
pub(super) struct Lock(AtomicU32);

const FREE: u32 = 0;
const HELD: u32 = 1;
const WAITED_FOR: u32 = 2;

/// How long a waiter sleeps before it looks again by itself.
const LOOK_AGAIN_NS: u64 = 1_000_000_000;

impl Lock {
    pub(super) const fn new() -> Lock {
        Lock(AtomicU32::new(FREE))
    }

    pub(super) fn acquire(&self) {
        // Acquire, here and below: pairs with the release of whoever held it before.
        if self.0.compare_exchange(FREE, HELD, Ordering::Acquire, Ordering::Relaxed).is_ok() {
            return;
        }
        while self.0.swap(WAITED_FOR, Ordering::Acquire) != FREE {
            futex_wait(&self.0, WAITED_FOR, LOOK_AGAIN_NS);
        }
    }

    /// By whoever acquired it, or by that thread's copy in a forked child.
    pub(super) fn release(&self) {
        // Release: pairs with the next holder's acquire.
        if self.0.swap(FREE, Ordering::Release) == WAITED_FOR {
            futex_wake_all(&self.0);
        }
    }
}
