//! All code that runs in the handler of the suspend signal.
//!
//! The handler may have interrupted any code: malloc with its lock held, stdio, the dynamic linker, the collector's own
//! allocator, a protocol step of the thread's own handshake. It may call only the following:
//!
//! | call | why it is safe |
//! |---|---|
//! | `gettid`, `getpid`, `futex` | plain system calls |
//! | `clock_gettime` | the vDSO: no lock, no allocation |
//! | `__errno_location` | the address of the thread's errno, in the static part of its thread-local storage |
//! | [`TidTable::find`] | two loads; no thread-local storage |
//! | atomics of the thread's own record | type-stable memory |
//! | [`StopState::park_if_held`](super::handshake::StopState::park_if_held) | model-checked with the handler run at each step of the interrupted protocol |
//! | the previous handler of the signal | called only if the collector was not the only sender of the signal |
//!
//! `tests/no_malloc.rs` wraps the handler, and ends the process if malloc is called in it.
//!
//! **The stack.** SA_ONSTACK is not set. Rust gives its threads an alternate stack; an address in the handler's frame on it would
//! have no relation to the thread's own stack (`.stop.altstack`). On the thread's own stack the kernel skips the red zone and saves
//! all registers above the handler's frame. The address of a local variable is below them all, so `[stack_ptr, base)` holds
//! everything.
//!
//! ```text
//!   base of the stack   ┌──────────────────────────┐ high
//!                       │ frames of the program    │
//!   interrupted rsp ──> ├──────────────────────────┤
//!                       │ red zone, 128 bytes      │
//!                       ├──────────────────────────┤
//!                       │ xmm, ymm, zmm … (XSAVE)  │
//!                       │ siginfo, ucontext: rax … │
//!                       ├──────────────────────────┤
//!   stack_ptr ────────> │ the handler's frame      │ low
//!                       └──────────────────────────┘
//! ```
//!
//! **The mask.** The handler masks all signals except faults: a timer's handler on top of a parked thread would be a mutator
//! that runs inside the stop.
//!
//! **The sender of the signal.** siginfo is only a hint: a signal that is sent while another one is pending is merged with it. So
//! the handler always reads the state word, and parks the thread if it is held (unless the thread is about to do so itself:
//! [`undisturbed`](ThreadStopInfo::undisturbed)). Then it checks whether the collector had sent this thread a suspend signal. If
//! not, or if siginfo names a sender outside this process, it calls the previous handler too. If the signal of an abandoned stop
//! arrives late, the handler finds no hold and does nothing (`.stop.late`).

use crate::os::signals::{self, HandlerStack, Previous};
use crate::os::{clock, thread, ucontext::Context};
use crate::sabotage::{Guard, removed};
use crate::sync::{AtomicI32, Lock, LockGuard, Ordering, UnsafeCell};

use super::setup_error::SetupError;
use super::stop_info::ThreadStopInfo;
use super::tid_table::TidTable;

/// The records of all attached threads of the process, in any world.
pub(super) static TABLE: TidTable<ThreadStopInfo> = TidTable::new();

/// The signal that the handler is installed for; 0 before the first world that stops by signals. Never reset.
static INSTALLED: AtomicI32 = AtomicI32::new(0);
static INSTALLING: Lock = Lock::new();
static PREVIOUS: PreviousHandler = PreviousHandler(UnsafeCell::new(Previous::NONE));

struct PreviousHandler(UnsafeCell<Previous>);

// SAFETY: written once, under `INSTALLING`, when the collector has not sent the signal to any thread yet. The signal is not blocked
// then, so it may arrive from another sender: such a delivery reads either NONE or the complete value, see `install`.
unsafe impl Sync for PreviousHandler {}

/// Installs the handler for `signal`, once for the whole process. A second call for the same signal does nothing.
pub(crate) fn install(signal: i32) -> Result<(), SetupError> {
    if !signals::is_usable(signal) {
        return Err(SetupError::UnusableSignal(signal));
    }
    install_holding(&INSTALLING.lock(), signal)
}

/// [`install`] for a stop that has begun: the thread that holds the lock may be stopped, so this does not wait for it
/// (`.stop.locks`). Returns whether the process has this signal now.
pub(crate) fn install_in_a_stop(signal: i32) -> bool {
    INSTALLING.try_lock().is_ok_and(|held| install_holding(&held, signal).is_ok())
}

fn install_holding(_held: &LockGuard<'_>, signal: i32) -> Result<(), SetupError> {
    match INSTALLED.load(Ordering::Relaxed) {
        0 => {
            let previous = signals::current(signal)?;
            // SAFETY: under the lock, and `INSTALLED` is still 0, so `suspend` does not read it.
            PREVIOUS.0.with_mut(|slot| unsafe { *slot = previous });
            // SAFETY: `suspend` calls only what a handler may call, and passes each signal that is not the collector's to the
            // handler that it replaces.
            unsafe { signals::install(signal, suspend, HandlerStack::Own) }?;
            // Release: pairs with the Acquire in `installed`.
            INSTALLED.store(signal, Ordering::Release);
            Ok(())
        }
        installed if installed == signal => Ok(()),
        installed => Err(SetupError::OtherSignal { installed, asked: signal }),
    }
}

/// Returns the suspend signal of the process, if one is installed.
pub(crate) fn installed() -> Option<i32> {
    // Acquire: pairs with the Release in `install_holding`.
    match INSTALLED.load(Ordering::Acquire) {
        0 => None,
        signal => Some(signal),
    }
}

/// Returns whether the process still has this handler for its suspend signal; `true` if this handler was never installed.
pub(crate) fn is_in_place() -> bool {
    installed().is_none_or(|signal| signals::is_installed(signal, suspend))
}

/// Returns the address of the handler's first instruction.
pub(crate) fn entry() -> usize {
    suspend as *const () as usize
}

/// The lock of the installation, which a fork takes before it and resets in the child.
pub(super) fn lock() -> &'static Lock {
    &INSTALLING
}

/// Returns the record of the calling thread, if it is attached to a world. Async-signal-safe.
pub(crate) fn current() -> Option<&'static ThreadStopInfo> {
    // SAFETY: null or a record, which is never unmapped.
    let filed = unsafe { TABLE.find(thread::gettid()).as_ref() };
    // The kernel may have given this thread the id of one that ended without detaching.
    filed.filter(|record| !record.has_died())
}

/// Returns the same as [`current`] without the system call, for operations that a program makes a million times per second. Not for
/// handlers, and not inside a stop: see [`thread::known_tid`].
#[inline]
pub(crate) fn known_current() -> Option<&'static ThreadStopInfo> {
    // SAFETY: as in `current`.
    let filed = unsafe { TABLE.find(thread::known_tid()).as_ref() };
    filed.filter(|record| !record.has_died())
}

/// The handler of the suspend signal.
unsafe extern "C" fn suspend(signal: i32, info: *mut signals::SigInfo, context: *mut std::ffi::c_void) {
    let body = || {
        let ours = current().is_some_and(|record| {
            let owed = record.owed.swap(0, Ordering::Relaxed) != 0;
            // `.event.objects`: inside an undisturbed section the thread parks itself at the end.
            if record.undisturbed.load(Ordering::Relaxed) == 0 || removed(Guard::EventObjects) {
                // SAFETY: the kernel's own argument.
                park(record, unsafe { signals::context(context) });
            }
            // SAFETY: the kernel's own argument.
            owed && unsafe { signals::is_from_this_process(info) }
        });
        if !ours {
            // SAFETY: written before the handler was installed; never again.
            let previous = PREVIOUS.0.with(|slot| unsafe { *slot });
            // SAFETY: the kernel's own arguments.
            unsafe { previous.call(signal, info, context) };
        }
    };
    // `.stop.errno`: the interrupted code may be between a system call and its read of errno.
    if removed(Guard::StopErrno) { body() } else { crate::os::preserving_errno(body) }
}

/// Parks the thread if it is held.
#[inline(never)]
fn park(record: &ThreadStopInfo, context: &Context) {
    let here = 0u8;
    let frame = std::ptr::from_ref(&here) as usize;
    // SAFETY: the calling thread's record, found in the table: it is attached.
    let handshake = unsafe { &record.threads().handshake };
    let _ = record.state.park_if_held(handshake, || {
        let stack_ptr = if removed(Guard::StopRedZone) {
            context.stack_pointer()
        } else if removed(Guard::StopRegisters) {
            context.stack_pointer() - 128
        } else {
            frame
        };
        if !record.stack_bounds().contains(frame) {
            // The thread is stopped on its alternate stack, or on a coroutine's stack: `stacks.rs` finds out which, with these bounds.
            if let Some(alternate) = context.alternate_stack().filter(|bounds| bounds.contains(frame)) {
                record.set_alternate(Some(alternate));
            }
        }
        record.stopped_at.store(clock::now_ns(), Ordering::Relaxed);
        record.saved_sp.store(stack_ptr, Ordering::Relaxed);
        // Relaxed: the acknowledgement that follows is the Release.
        record.stack_ptr.store(stack_ptr, Ordering::Relaxed);
    });
}

/// Parks the thread if it is held. A thread comes here because a debugger made it continue here instead of where it was stopped;
/// the debugger has died since. All of its registers are on its stack above this frame.
#[inline(never)]
pub(crate) fn park_below(record: &ThreadStopInfo) {
    let here = 0u8;
    let frame = std::ptr::from_ref(&here) as usize;
    // SAFETY: the calling thread's record, found in the table: it is attached.
    let handshake = unsafe { &record.threads().handshake };
    let _ = record.state.park_if_held(handshake, || {
        if !record.stack_bounds().contains(frame) {
            record.set_alternate(thread::sigaltstack_bounds());
        }
        record.stopped_at.store(clock::now_ns(), Ordering::Relaxed);
        record.saved_sp.store(frame, Ordering::Relaxed);
        // Relaxed: the acknowledgement that follows is the Release.
        record.stack_ptr.store(frame, Ordering::Relaxed);
    });
}

/// Sends the suspend signal to a thread. `Err(ESRCH)`: the thread does not exist any more.
pub(crate) fn send(record: &ThreadStopInfo, signal: i32) -> Result<(), crate::os::Errno> {
    record.owed.store(1, Ordering::Relaxed);
    // SAFETY: the suspend signal, whose handler is installed before anything is sent.
    unsafe { thread::tgkill(record.tid(), signal) }
}

/// For tests: replaces the handler that the program had before `suspend` was installed, until the result is dropped.
#[cfg(test)]
pub(super) fn chain_to(handler: extern "C" fn(i32)) -> impl Drop {
    struct Restore(Previous);
    impl Drop for Restore {
        fn drop(&mut self) {
            // SAFETY: for tests only; a delivery at this moment reads one value or the other.
            PREVIOUS.0.with_mut(|slot| unsafe { *slot = self.0 });
        }
    }
    PREVIOUS.0.with_mut(|slot| {
        // SAFETY: as above.
        let before = unsafe { *slot };
        // SAFETY: as above.
        unsafe { *slot = Previous::of(handler) };
        Restore(before)
    })
}
