//! The only module that calls Linux.
//!
//! Everything that stopworld needs from the kernel or from libc goes through here. The other modules then use terms of the
//! problem (a stack, a thread, a reservation) and never a system call. The subtle properties of each call are documented next
//! to it. Three of them matter most:
//!
//! * **async-signal-safe**: may run in a handler that interrupted anything, malloc included;
//! * **errno preserved**: what the interrupted code reads in `errno` afterwards is what it would have read;
//! * **stop-safe**: may run while all other threads are stopped, whatever locks of libc they hold.
//!
//! | module | what | async-signal-safe | stop-safe |
//! |---|---|---|---|
//! | [`barrier`] | a memory barrier on all threads at once | yes, errno preserved | yes |
//! | [`callback`] | code that the collector calls, and what it must not call | no | yes |
//! | [`clock`] | monotonic time; time budgets that do not count the time during which the process is suspended (SIGSTOP) | yes | yes |
//! | [`mod@file`] | output files; the beginning of a file | `read_beginning` | yes |
//! | [`futex`] | wait and wake | yes, errno preserved | yes |
//! | [`loaded`] | the program and its libraries in memory; the thread pointer | `thread_pointer` | `thread_pointer` |
//! | [`memory`] | reservations, commits, probes | `is_mapped`, `lowest_mapped` | yes (system calls only) |
//! | [`open_files`] | the limit of open files | no | yes |
//! | [`own_memory`] | copies of memory that may be unmapped at any moment | yes, errno preserved | yes |
//! | [`probe`] | probe sites that tracers find by name | yes | yes |
//! | [`thread`] | thread ids, stacks, tgkill, exit keys, atfork | `gettid`, `tgkill` | `gettid`, `tgkill` |
//! | [`registers`] | push the callee-saved registers | yes | yes |
//! | [`signals`] | handlers and masks | what the handler calls: see there | masks only |
//! | [`socket`] | sockets in the file system | no | **no** |
//! | [`spawn`] | threads of the collector's own, also in a forked child | no (allocates) | **no** |
//! | [`stack_walk`] | the return addresses of the calling thread, from copies of the unwind tables | no | no |
//! | [`tracer`] | whether a thread runs, and whether a debugger has stopped it | yes, errno preserved | yes |
//! | [`tsc`] | the processor's time stamp counter | `read` | `read` |
//! | [`unwind`] | the return addresses of the calling thread | no | no |
//! | [`ucontext`] | read an interrupted context | yes | yes |
//! | [`proc_status`] | what /proc reports about a thread | no (allocates) | **no** |

pub mod barrier;
pub mod callback;
pub mod clock;
pub mod dynamic;
pub mod exit;
pub mod file;
pub mod futex;
pub mod loaded;
pub mod memory;
pub mod open_files;
pub mod own_memory;
pub mod probe;
pub mod proc_status;
pub mod registers;
pub mod remedy;
pub mod signals;
pub mod socket;
pub mod spawn;
pub mod stack_walk;
pub mod thread;
pub mod timer;
pub mod tracer;
pub mod tsc;
pub mod ucontext;
pub mod unwind;

pub use nix::errno::Errno;

/// The kernel's id of a thread, unique among the living threads of the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
pub struct Tid(pub i32);

impl std::fmt::Display for Tid {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

/// Runs `f` and restores `errno`. Async-signal-safe.
#[inline]
pub fn preserving_errno<R>(f: impl FnOnce() -> R) -> R {
    // SAFETY: glibc gives each thread its errno in static thread-local storage, valid for the thread's life.
    let errno = unsafe { libc::__errno_location() };
    // SAFETY: as above; only this thread (and its handlers, which preserve it) writes it.
    let before = unsafe { *errno };
    let result = f();
    // SAFETY: as above.
    unsafe { *errno = before };
    result
}
