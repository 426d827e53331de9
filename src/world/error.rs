//! The errors of a stop, worded so that a user knows what to do.
//!
//! A thread that does not stop is no reason to abort, and "timed out" is no explanation. Each error names the
//! threads, what the kernel reports about them, the likely reason, and the remedy. Each error leaves the world running.
//!
//! Making an error reads /proc and allocates, so it happens after the world runs again (`.stop.no-malloc`).

use std::fmt;
use std::time::Duration;

pub use crate::os::Tid;
pub use crate::os::proc_status::ThreadDescription;
use crate::os::{proc_status, signals};
use crate::sync::Ordering;

use super::handler;
use super::name::ThreadName;
use super::stop_info::ThreadStopInfo;

/// Why the world could not be stopped. The world continues to run as before, and no memory was reclaimed.
///
/// The text of each error names the thread, the likely reason, and the remedy.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StopError {
    /// Some threads did not stop in time.
    #[error("{} of {of} threads did not stop within {within:?} ({stopper}); the world runs on, no memory was reclaimed. {}{attempts}", threads.len(), Lines(threads))]
    Unanswered {
        /// The name of the vtable that tried to stop them.
        stopper: &'static str,
        /// The configured time for a stop.
        within: Duration,
        /// The number of threads that were to be stopped.
        of: usize,
        /// The threads that did not stop.
        threads: Vec<SilentThread>,
        /// The requests that were made to these threads.
        attempts: StopAttempts,
    },
    /// Another thread held a lock that the collection needs, for the whole time.
    #[error("the {lock} lock could not be taken within {within:?}; the world runs on. Its holder: {holder}")]
    LockHeld {
        /// The lock: `collection`, `allocation` or `thread list`.
        lock: &'static str,
        /// How long the collecting thread waited: three quarters of the configured time. The rest is kept for the stop itself.
        within: Duration,
        /// The thread that holds the lock.
        holder: Box<SilentThread>,
    },
    /// The vtable returned from `stop_world`, but a thread's slot is 0: the vtable has not written the thread's stack pointer.
    #[error(
        "thread \"{name}\" (tid {tid}) has no stack pointer after stop_world of the vtable \"{stopper}\"; nothing was scanned, the world runs on. \
         The vtable must write the lowest live stack address to the slot of every thread of the request"
    )]
    NoStackPointer {
        /// The thread's name.
        name: ThreadName,
        /// Its id.
        tid: Tid,
        /// The name of the installed vtable.
        stopper: &'static str,
    },
    /// A thread's stack pointer is in none of its stacks.
    #[error(
        "thread \"{name}\" (tid {tid}) has stack pointer {stack_ptr:#x}, outside its stack {stack:#x?}, its alternate signal stack and every registered stack \
         (stopped by \"{stopper}\"); nothing was scanned, the world runs on. If it runs on a coroutine's stack, register that stack (register_stack)"
    )]
    UnknownStack {
        /// The thread's name.
        name: ThreadName,
        /// Its id.
        tid: Tid,
        /// The value of the slot.
        stack_ptr: usize,
        /// The thread's own stack: its lowest address and its base.
        stack: (usize, usize),
        /// The name of the installed vtable.
        stopper: &'static str,
    },
    /// A debugger reported a thread as stopped that was not. The collection is repeated with the stopper that the world was built
    /// with, so only a failure listener gets this error.
    #[error(
        "{0}; the debugger is no longer used; nothing was scanned, the world runs on, and the collection is repeated by the world's own stopper"
    )]
    FalseAnswer(FalseAnswer),
    /// A vtable could not stop the world for a reason of its own.
    #[error("the vtable \"{stopper}\" could not stop the world: {what}; the world runs on")]
    Vtable {
        /// The vtable's name.
        stopper: &'static str,
        /// The vtable's own explanation.
        what: String,
    },
}

/// A debugger's claim that it has stopped a thread, which the kernel contradicts (`.debug.lies`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FalseAnswer {
    /// The thread's name.
    pub name: ThreadName,
    /// Its id.
    pub tid: Tid,
    /// What is wrong with the claim.
    pub found: HoldFault,
}

impl fmt::Display for FalseAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, tid, found } = self;
        let found = match found {
            HoldFault::Running => "it is not stopped",
            HoldFault::NotAtPark => "it is not at `park` with the frame that the debugger pushed",
            HoldFault::BelowStackPointer => "its stack reaches below the stack pointer that the debugger wrote",
            HoldFault::LetGo => "it was resumed before the collection had ended",
        };
        write!(f, "the debugger reported thread \"{name}\" (tid {tid}) as stopped, but {found}")
    }
}

/// What is wrong with a thread that a debugger has reported as stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
#[repr(u32)]
pub enum HoldFault {
    /// No tracer has stopped the thread.
    Running = 1,
    /// The debugger reported that the thread is in `park`, where it would stay stopped if the debugger died, but it is not there.
    NotAtPark = 2,
    /// The kernel's value of the stack pointer is below the one that the debugger wrote: a part of the stack would not be scanned.
    BelowStackPointer = 3,
    /// The thread was stopped when the world stopped, and has run since.
    LetGo = 4,
}

impl HoldFault {
    pub(crate) fn of(number: u32) -> Option<Self> {
        [Self::Running, Self::NotAtPark, Self::BelowStackPointer, Self::LetGo].into_iter().find(|f| *f as u32 == number)
    }
}

impl StopError {
    /// Returns the number of threads that this error is about; 0 if it is not about threads.
    pub(crate) fn unanswered(&self) -> u32 {
        match self {
            Self::Unanswered { threads, .. } => threads.len() as u32,
            Self::LockHeld { .. } | Self::NoStackPointer { .. } | Self::UnknownStack { .. } | Self::FalseAnswer(_) => 1,
            Self::Vtable { .. } => 0,
        }
    }
}

/// The requests that a failed stop made to the threads that did not stop. All zero if the stopper does not count them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct StopAttempts {
    /// How many times each of these threads was requested to stop, by the signal if the stopper has one.
    pub requests: u32,
    /// What a debugger did in the stop; `None` if the stopper does not use debuggers.
    pub debugger: Option<DebuggerPart>,
}

/// What a debugger did in a stop that failed. Useful to find out why a debugger and the collector disagreed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct DebuggerPart {
    /// The control word when the stop began. 0: no debugger had control.
    pub control_at_first: u64,
    /// The control word when the stop was abandoned.
    pub control_at_last: u64,
    /// How many requests the collector made to the debugger to acknowledge the threads that it has frozen.
    pub asked: u32,
    /// How many of these requests the debugger acknowledged.
    pub acknowledged: u32,
    /// The process id of the collecting thread's tracer; 0 for none. A thread that the debugger does not trace cannot make requests
    /// to it.
    pub tracer: i32,
    /// The process id of a tracer of any thread of the process; 0 for none. If it is not 0 and `tracer` is, a debugger has attached without
    /// the collecting thread, and cannot answer for the threads that it holds.
    pub others_tracer: i32,
}

impl fmt::Display for StopAttempts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.requests != 0 {
            write!(f, ". Each was asked to stop {} times", self.requests)?;
        }
        let Some(part) = &self.debugger else { return Ok(()) };
        write!(f, "; control word {:#x} at first, {:#x} at last", part.control_at_first, part.control_at_last)?;
        write!(f, "; {} of {} requests to a debugger acknowledged", part.acknowledged, part.asked)?;
        write!(f, "; the collecting thread's TracerPid {}", part.tracer)?;
        if part.tracer != 0 || part.others_tracer == 0 {
            return Ok(());
        }
        write!(
            f,
            "; the process {} traces other threads of this process, but not the collecting thread, which it has missed: detach it and attach again",
            part.others_tracer
        )
    }
}

/// A thread that did not stop, or that holds a needed lock, and the likely reason.
#[derive(Clone, Debug)]
pub struct SilentThread {
    /// The name given at attach; `None` for a thread that is attached to no world.
    pub name: Option<ThreadName>,
    /// The kernel's thread id.
    pub tid: Tid,
    /// The thread's state as /proc shows it.
    pub description: ThreadDescription,
    /// The likely reason.
    pub reason: SilenceReason,
    /// Whether the suspend signal was sent to the thread, and the signal's handler has not run since: the signal is pending, or a tracer
    /// withholds it, or it was lost with a tracer.
    pub signal_not_taken: bool,
}

/// The likely reason why a thread did not stop. Its text includes the remedy.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SilenceReason {
    /// The thread masks the suspend signal (or is inside a handler that does).
    MasksSignal {
        /// The signal's number.
        signal: i32,
    },
    /// A debugger has stopped the thread.
    HeldByDebugger {
        /// The debugger's process id.
        tracer: i32,
    },
    /// Job control or SIGSTOP has stopped the thread.
    StoppedByJobControl,
    /// The thread is in an uninterruptible sleep in the kernel, for example in vfork, or because of a slow disk.
    Uninterruptible,
    /// The thread was suspended by [`World::suspend`](crate::World::suspend) or by a debugger through stopworld.
    SuspendedByUser,
    /// Other code has replaced the process's handler of the suspend signal.
    HandlerReplaced {
        /// The signal's number.
        signal: i32,
    },
    /// The thread runs or sleeps outside a blocking region and has not reached a safepoint.
    NoSafepoint,
    /// The thread is the world's finalizer thread, in a finalizer that has not reached a safepoint.
    InFinalizer {
        /// The type of the object that is being finalized.
        type_name: &'static str,
        /// How long the finalizer has been running.
        running: Duration,
    },
    /// The thread is collecting, and itself waits for another thread, which the error of that collection names.
    IsCollecting,
    /// The thread does not exist any more.
    Gone,
    /// No reason is visible: perhaps overload, or a signal handler of the program that does not return.
    Unknown,
}

impl fmt::Display for SilenceReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::MasksSignal { signal } => {
                let name = signals::name(*signal);
                write!(
                    f,
                    "it masks {name} (pthread_sigmask, or a handler that masks it): unmask {name}, or choose another suspend signal, or use safepoints"
                )
            }
            Self::HeldByDebugger { tracer } => {
                write!(f, "the debugger with pid {tracer} has stopped it: continue the thread, or detach")
            }
            Self::StoppedByJobControl => write!(f, "SIGSTOP has stopped it: send SIGCONT"),
            Self::Uninterruptible => {
                write!(
                    f,
                    "it is in an uninterruptible sleep (vfork, a slow disk): wait, or put the call into blocking(..)"
                )
            }
            Self::SuspendedByUser => write!(f, "a user has suspended it: resume it"),
            Self::HandlerReplaced { signal } => {
                let name = signals::name(*signal);
                write!(
                    f,
                    "the handler of {name} has been replaced by other code in the process: chain to the previous handler there, or choose another suspend signal"
                )
            }
            Self::NoSafepoint => {
                write!(
                    f,
                    "it has not reached a safepoint: call safepoint() in its loop and put system calls into blocking(..), or stop by signals"
                )
            }
            Self::InFinalizer { type_name, running } => {
                write!(
                    f,
                    "it has been running the finalizer of a \"{type_name}\" object for {running:.1?} without reaching a safepoint: have the finalizer return, call safepoint() in its loop and put waiting calls into blocking(..), or stop by signals"
                )
            }
            Self::IsCollecting => {
                write!(
                    f,
                    "it is collecting, and cannot stop another thread, which the error of that collection names: collect again"
                )
            }
            Self::Gone => write!(f, "the thread does not exist any more"),
            Self::Unknown => {
                write!(
                    f,
                    "it does not respond to the signal: the machine may be overloaded, or the thread may hang in a signal handler"
                )
            }
        }
    }
}

impl fmt::Display for SilentThread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.name {
            Some(name) => write!(f, "thread \"{name}\"")?,
            None => write!(f, "thread \"{}\" (not attached)", self.description.comm.as_deref().unwrap_or("?"))?,
        }
        let signal = if self.signal_not_taken { ", suspend signal not taken" } else { "" };
        write!(f, " (tid {}, {}{signal}): {}", self.tid, self.description, self.reason)
    }
}

/// Formats several threads, separated by semicolons; at most 8.
struct Lines<'a>(&'a [SilentThread]);

impl fmt::Display for Lines<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const SHOWN: usize = 8;
        for (i, thread) in self.0.iter().take(SHOWN).enumerate() {
            if i > 0 {
                f.write_str("; ")?;
            }
            thread.fmt(f)?;
        }
        if self.0.len() > SHOWN {
            write!(f, "; and {} more", self.0.len() - SHOWN)?;
        }
        Ok(())
    }
}

impl SilentThread {
    /// Describes a thread that did not respond to `signal` (0: it was requested without a signal). Reads /proc, allocates.
    pub(crate) fn describe(tid: Tid, name: Option<ThreadName>, signal: i32) -> Self {
        let description = proc_status::describe(tid);
        let reason = reason(&description, signal);
        Self { name, tid, description, reason, signal_not_taken: false }
    }

    pub(crate) fn of(info: &ThreadStopInfo, signal: i32) -> Self {
        let mut silent = Self::describe(info.tid(), Some(info.name()), signal);
        silent.signal_not_taken = signal != 0 && info.owed.load(Ordering::Relaxed) != 0;
        if info.is_suspended() {
            silent.reason = SilenceReason::SuspendedByUser;
        }
        silent
    }
}

/// Finds the reason in the thread's state in /proc. The order matters: a traced thread also looks as if it ignored signals.
fn reason(d: &ThreadDescription, signal: i32) -> SilenceReason {
    match d.state_letter() {
        None | Some('Z' | 'X') => SilenceReason::Gone,
        Some('t') => SilenceReason::HeldByDebugger { tracer: d.tracer_pid },
        Some('T') if d.tracer_pid != 0 => SilenceReason::HeldByDebugger { tracer: d.tracer_pid },
        Some('T') => SilenceReason::StoppedByJobControl,
        Some('D') => SilenceReason::Uninterruptible,
        _ if signal == 0 => SilenceReason::NoSafepoint,
        _ if d.blocks(signal) => SilenceReason::MasksSignal { signal },
        _ if !handler::is_in_place() => SilenceReason::HandlerReplaced { signal },
        _ => SilenceReason::Unknown,
    }
}

/// Why a thread could not be attached. See [`World::attach`](crate::World::attach).
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AttachError {
    /// The calling thread is attached already.
    #[error(
        "this thread is already attached to a world as \"{name}\": a thread belongs to at most one world at a time; detach first"
    )]
    AlreadyAttached {
        /// The name under which it is attached.
        name: ThreadName,
    },
    /// The world has been closed.
    #[error("the world is closed: no thread can attach any more")]
    Closed,
    /// The system refused memory for the thread's record, or the bounds of the thread's stack could not be found.
    #[error("the thread can't be attached: {0}")]
    System(#[from] std::io::Error),
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    fn described(state: &str, tracer_pid: i32, sig_blk: u64) -> ThreadDescription {
        ThreadDescription { state: Some(state.into()), tracer_pid, sig_blk, ..ThreadDescription::default() }
    }

    const URG: u64 = 1 << (23 - 1);

    #[rstest]
    #[case::traced(described("t (tracing stop)", 77, URG), 23, SilenceReason::HeldByDebugger { tracer: 77 })]
    #[case::stopped(described("T (stopped)", 0, 0), 23, SilenceReason::StoppedByJobControl)]
    #[case::vfork(described("D (disk sleep)", 0, 0), 23, SilenceReason::Uninterruptible)]
    #[case::masked(described("S (sleeping)", 0, URG), 23, SilenceReason::MasksSignal { signal: 23 })]
    #[case::safepoints(described("S (sleeping)", 0, URG), 0, SilenceReason::NoSafepoint)]
    #[case::gone(ThreadDescription::default(), 23, SilenceReason::Gone)]
    fn the_reason_is_found_in_proc(
        #[case] description: ThreadDescription,
        #[case] signal: i32,
        #[case] expected: SilenceReason,
    ) {
        assert_eq!(reason(&description, signal), expected);
    }

    #[test]
    fn an_error_names_the_thread_the_reason_and_the_remedy() {
        let part =
            DebuggerPart { control_at_first: 0x12_0000_0002, asked: 3, others_tracer: 88, ..DebuggerPart::default() };
        let error = StopError::Unanswered {
            stopper: "signals",
            within: Duration::from_secs(10),
            of: 3,
            threads: vec![SilentThread {
                name: Some(ThreadName::new("worker-7")),
                tid: Tid(4711),
                description: described("S (sleeping)", 0, URG),
                reason: SilenceReason::MasksSignal { signal: 23 },
                signal_not_taken: true,
            }],
            attempts: StopAttempts { requests: 201, debugger: Some(part) },
        };
        let text = error.to_string();
        let parts =
            ["worker-7", "4711", "S (sleeping)", "TracerPid 0", "SigBlk 0000000000400000", "wchan", "unmask SIGURG"];
        let attempts =
            ["to stop 201 times", "control word 0x1200000002 at first, 0x0 at last", "0 of 3 requests to a debugger"];
        let missed = ["suspend signal not taken", "the process 88 traces other threads", "attach again"];
        for part in parts.into_iter().chain(attempts).chain(missed) {
            assert!(text.contains(part), "no {part:?} in: {text}");
        }
    }
}
