//! A cache of thread stacks.
//!
//! loom maps a new stack for each thread of each execution, which costs three system calls and some page faults. In a model with many short
//! executions this takes more than half of the time, and models that run in parallel contend for the kernel's memory lock. The coroutines call
//! the C library's `mmap` and `munmap`. A program may define these functions itself; those defined here keep unmapped stacks for the
//! next execution. All other requests are passed to the system.

use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering};

use libc::{MAP_STACK, PROT_READ, PROT_WRITE, SYS_mmap, SYS_munmap, c_int, c_long, c_void, off_t, size_t, syscall};

/// The size of the cache: enough for two models at a time with loom's maximum number of threads. More stacks are mapped and unmapped as usual.
const MOST: usize = 32;

/// A cached stack.
struct Kept {
    /// The address of the stack; null if this entry is unused.
    at: AtomicPtr<c_void>,
    is_free: AtomicBool,
}

static KEPT: [Kept; MOST] = [const { Kept { at: AtomicPtr::new(null_mut()), is_free: AtomicBool::new(false) } }; MOST];

/// The size of a stack, which is the same for all stacks; 0 before the first one is mapped.
static STACK_BYTES: AtomicUsize = AtomicUsize::new(0);

/// # Safety
/// As for the system's function.
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
        // Acquire: pairs with the release in `munmap`, so that the previous user has finished with the stack.
        let free = KEPT.iter().find(|kept| kept.is_free.swap(false, Ordering::Acquire));
        if let Some(kept) = free {
            return kept.at.load(Ordering::Relaxed);
        }
    }
    // SAFETY: the caller's promise.
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
/// As for the system's function.
#[unsafe(no_mangle)]
unsafe extern "C" fn munmap(at: *mut c_void, bytes: size_t) -> c_int {
    if let Some(kept) = KEPT.iter().find(|kept| kept.at.load(Ordering::Relaxed) == at) {
        // Release: pairs with the acquire in `mmap`.
        kept.is_free.store(true, Ordering::Release);
        return 0;
    }
    // SAFETY: the caller's promise.
    unsafe { syscall(SYS_munmap, at, bytes) as c_int }
}
