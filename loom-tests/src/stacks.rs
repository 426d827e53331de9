//! Stacks are used again.
//!
//! loom gives each thread of each execution a stack of its own: three system calls and some page faults for each, more than half of the
//! time of a model of many short executions, and what two models that run side by side wait for each other for. The coroutines call the
//! C library's `mmap` and `munmap`; a program may have these functions itself, and those here keep the stacks that are given back for the
//! next execution. Whatever is no such stack goes to the system.

use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering};

use libc::{MAP_STACK, PROT_READ, PROT_WRITE, SYS_mmap, SYS_munmap, c_int, c_long, c_void, off_t, size_t, syscall};

/// Two models at a time, with as many threads as loom can have, and some. What there are more is mapped and unmapped.
const MOST: usize = 32;

/// A stack that is mapped once.
struct Kept {
    /// Where it begins; null before there is one.
    at: AtomicPtr<c_void>,
    is_free: AtomicBool,
}

static KEPT: [Kept; MOST] = [const { Kept { at: AtomicPtr::new(null_mut()), is_free: AtomicBool::new(false) } }; MOST];

/// How large a stack is; all are alike. 0 before the first.
static STACK_BYTES: AtomicUsize = AtomicUsize::new(0);

/// # Safety
/// As the system's.
#[unsafe(no_mangle)]
unsafe extern "C" fn mmap(
    at: *mut c_void,
    bytes: size_t,
    access: c_int,
    flags: c_int,
    fd: c_int,
    from: off_t,
) -> *mut c_void {
    let is_stack = at.is_null() && flags & MAP_STACK != 0 && access == PROT_READ | PROT_WRITE;
    let is_one_of_ours = is_stack
        && [0, bytes].contains(
            &STACK_BYTES.compare_exchange(0, bytes, Ordering::Relaxed, Ordering::Relaxed).unwrap_or_else(|all| all),
        );
    if is_one_of_ours {
        // Acquire: pairs with the release in `munmap`, so that whoever had it has done with it.
        let free = KEPT.iter().find(|kept| kept.is_free.swap(false, Ordering::Acquire));
        if let Some(kept) = free {
            return kept.at.load(Ordering::Relaxed);
        }
    }
    // SAFETY: by the caller.
    let mapped = unsafe {
        syscall(SYS_mmap, at, bytes, c_long::from(access), c_long::from(flags), c_long::from(fd), from) as *mut c_void
    };
    if is_one_of_ours && mapped != libc::MAP_FAILED {
        let has_taken =
            |kept: &Kept| kept.at.compare_exchange(null_mut(), mapped, Ordering::Relaxed, Ordering::Relaxed).is_ok();
        let _ = KEPT.iter().any(has_taken);
    }
    mapped
}

/// # Safety
/// As the system's.
#[unsafe(no_mangle)]
unsafe extern "C" fn munmap(at: *mut c_void, bytes: size_t) -> c_int {
    if let Some(kept) = KEPT.iter().find(|kept| kept.at.load(Ordering::Relaxed) == at) {
        // Release: pairs with the acquire in `mmap`.
        kept.is_free.store(true, Ordering::Release);
        return 0;
    }
    // SAFETY: by the caller.
    unsafe { syscall(SYS_munmap, at, bytes) as c_int }
}
