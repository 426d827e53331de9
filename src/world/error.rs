//! What can go wrong when the world is to be stopped, said so that a user knows what to do.
//!
//! A thread that does not answer is no reason to abort, and "timed out" is no explanation. Each error names the
//! threads, what the kernel says about them, the likely reason, and the remedy; and each leaves the world running.
//!
//! Making an error reads /proc and allocates, so it happens after the world runs again (`.stop.no-malloc`).

use std::fmt;
use std::time::Duration;

pub use crate::os::Tid;
pub use crate::os::proc_status::ThreadDescription;
use crate::os::{proc_status, signals};

use super::handler;
use super::name::ThreadName;
use super::stop_info::ThreadStopInfo;

/// Why the world could not be stopped. The world runs on as before.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StopError {
    /// Some threads did not answer in time.
    #[error("{} of {of} threads did not stop within {within:?} ({stopper}); the world runs on, no memory was reclaimed. {}{attempts}", threads.len(), Lines(threads))]
    Unanswered {
        /// The vtable that tried.
        stopper: &'static str,
        /// The configured time.
        within: Duration,
        /// How many threads were to be stopped.
        of: usize,
        /// Those that did not answer.
        threads: Vec<SilentThread>,
        /// What was done to reach them.
        attempts: StopAttempts,
    },
    /// A lock that the collection needs was held all the time.
    #[error("the {lock} lock could not be taken within {within:?}; the world runs on. Its holder: {holder}")]
    LockHeld {
        /// Which lock.
        lock: &'static str,
        /// How long it was waited for: three quarters of the configured time, the rest being for the stop itself.
        within: Duration,
        /// Who holds it.
        holder: Box<SilentThread>,
    },
    /// A thread was said to be stopped, but its slot is 0: nobody wrote where its stack begins.
    #[error(
        "thread \"{name}\" (tid {tid}) has no stack pointer after stop_world of the vtable \"{stopper}\"; nothing was scanned, the world runs on. \
         The vtable must write the lowest live stack address to every slot that it was told of"
    )]
    NoStackPointer {
        /// The thread's name.
        name: ThreadName,
        /// Its id.
        tid: Tid,
        /// The vtable in force.
        stopper: &'static str,
    },
    /// A thread's stack pointer is in none of its stacks.
    #[error(
        "thread \"{name}\" (tid {tid}) stands at {stack_ptr:#x}, outside its stack {stack:#x?}, its alternate signal stack and every registered stack \
         (stopped by \"{stopper}\"); nothing was scanned, the world runs on. If it runs on a coroutine's stack, register that stack (register_stack)"
    )]
    UnknownStack {
        /// The thread's name.
        name: ThreadName,
        /// Its id.
        tid: Tid,
        /// What the slot holds.
        stack_ptr: usize,
        /// The thread's own stack.
        stack: (usize, usize),
        /// The vtable in force.
        stopper: &'static str,
    },
    /// A debugger claims to hold a thread that it does not hold. The collection is repeated by the way of stopping that the world was
    /// built with, so that only a failure listener meets this.
    #[error(
        "{0}; it is not asked any more; nothing was scanned, the world runs on, and the collection is repeated by the world's own stopper"
    )]
    FalseAnswer(FalseAnswer),
    /// A vtable could not stop the world for a reason of its own.
    #[error("the vtable \"{stopper}\" could not stop the world: {what}; the world runs on")]
    Vtable {
        /// The vtable.
        stopper: &'static str,
        /// What it said.
        what: String,
    },
}

/// What a debugger said of a thread, and the kernel says otherwise (`.debug.lies`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FalseAnswer {
    /// The thread's name.
    pub name: ThreadName,
    /// Its id.
    pub tid: Tid,
    /// What was found.
    pub found: HoldFault,
}

impl fmt::Display for FalseAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, tid, found } = self;
        let found = match found {
            HoldFault::Running => "the thread is not stopped",
            HoldFault::NotAtPark => "the thread is not at `park` with the frame that the debugger pushed",
            HoldFault::BelowStackPointer => {
                "the thread's stack reaches below the stack pointer that the debugger wrote"
            }
            HoldFault::LetGo => "the thread was resumed before the collection was over",
        };
        write!(f, "the debugger answered for thread \"{name}\" (tid {tid}), but {found}")
    }
}

/// What is wrong with a thread that a debugger claims to hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
#[repr(u32)]
pub enum HoldFault {
    /// No tracer has stopped it.
    Running = 1,
    /// It is not where it would park if the debugger died, although the debugger said so.
    NotAtPark = 2,
    /// Its stack pointer, as the kernel knows it, is below the one that the debugger wrote: a part of its stack would not be scanned.
    BelowStackPointer = 3,
    /// It was stopped when the world stopped, and has run since.
    LetGo = 4,
}

impl HoldFault {
    pub(crate) fn of(number: u32) -> Option<Self> {
        [Self::Running, Self::NotAtPark, Self::BelowStackPointer, Self::LetGo].into_iter().find(|f| *f as u32 == number)
    }
}

impl StopError {
    /// How many threads did not answer, as far as this is about threads that did not.
    pub(crate) fn unanswered(&self) -> u32 {
        match self {
            Self::Unanswered { threads, .. } => threads.len() as u32,
            Self::LockHeld { .. } | Self::NoStackPointer { .. } | Self::UnknownStack { .. } | Self::FalseAnswer(_) => 1,
            Self::Vtable { .. } => 0,
        }
    }
}

/// What a stop did to reach the threads that did not answer it. All zero if the stopper does not count.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct StopAttempts {
    /// How many times each of them was asked, by the signal if the stopper has one.
    pub requests: u32,
    /// What a debugger had to do with it, as far as the stopper knows of debuggers.
    pub debugger: Option<DebuggerPart>,
}

/// What a debugger had to do with a stop that failed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct DebuggerPart {
    /// The control word when the stop began; 0: no debugger was in control.
    pub control_at_first: u64,
    /// The control word when the stop was given up.
    pub control_at_last: u64,
    /// How many times the debugger was asked about threads that it holds.
    pub asked: u32,
    /// How many of these it acknowledged.
    pub acknowledged: u32,
    /// The tracer of the collecting thread, 0 for none. A debugger cannot be asked by a thread that it does not trace.
    pub tracer: i32,
}

impl fmt::Display for StopAttempts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.requests != 0 {
            write!(f, ". Each was asked {} times", self.requests)?;
        }
        let Some(part) = &self.debugger else { return Ok(()) };
        write!(f, "; control word {:#x} at first, {:#x} at last", part.control_at_first, part.control_at_last)?;
        write!(f, "; {} of {} requests to a debugger acknowledged", part.acknowledged, part.asked)?;
        write!(f, "; the collecting thread's TracerPid {}", part.tracer)
    }
}

/// A thread that did not do what was asked, and why.
#[derive(Clone, Debug)]
pub struct SilentThread {
    /// Its name, as given at attach; `None` for a thread that is attached to no world.
    pub name: Option<ThreadName>,
    /// Its id.
    pub tid: Tid,
    /// What /proc says.
    pub description: ThreadDescription,
    /// The likely reason.
    pub reason: SilenceReason,
}

/// The likely reason why a thread did not answer.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SilenceReason {
    /// It masks the suspend signal (or is inside a handler that does).
    MasksSignal {
        /// Which.
        signal: i32,
    },
    /// A debugger holds it.
    HeldByDebugger {
        /// The debugger's process.
        tracer: i32,
    },
    /// Job control or SIGSTOP has stopped it.
    StoppedByJobControl,
    /// It sleeps in the kernel where no signal reaches it: vfork, a slow disk.
    Uninterruptible,
    /// A user has suspended it through stopworld.
    SuspendedByUser,
    /// Somebody has replaced the process's handler of the suspend signal.
    HandlerReplaced {
        /// Which.
        signal: i32,
    },
    /// It runs or sleeps outside a blocking region and has not come to a safepoint.
    NoSafepoint,
    /// It is the world's finalizer thread, in a finalizer that has not come to a safepoint.
    InFinalizer {
        /// The type of the object that is being finalized.
        type_name: &'static str,
        /// For how long.
        running: Duration,
    },
    /// It is collecting, and waits for another thread in turn: that collection's error says for which.
    IsCollecting,
    /// The thread is gone.
    Gone,
    /// Nothing that we can see: overload, or a handler of its own that does not return.
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
                write!(f, "the debugger with pid {tracer} holds it: let the thread go on, or detach")
            }
            Self::StoppedByJobControl => write!(f, "SIGSTOP has stopped it: send SIGCONT"),
            Self::Uninterruptible => {
                write!(
                    f,
                    "it sleeps where no signal reaches it (vfork, a slow disk): wait, or put the call into blocking(..)"
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
                    "it has not come to a safepoint: call safepoint() in its loop and put system calls into blocking(..), or stop by signals"
                )
            }
            Self::InFinalizer { type_name, running } => {
                write!(
                    f,
                    "it has been running the finalizer of a \"{type_name}\" object for {running:.1?} without coming to a safepoint: have the finalizer return, call safepoint() in its loop and put what waits into blocking(..), or stop by signals"
                )
            }
            Self::IsCollecting => {
                write!(
                    f,
                    "it is collecting itself and can't stop some other thread, which its own error names: collect again"
                )
            }
            Self::Gone => write!(f, "the thread is gone"),
            Self::Unknown => {
                write!(
                    f,
                    "it answers no signal: is the machine overloaded, or does the thread hang in a signal handler?"
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
        write!(f, " (tid {}, {}): {}", self.tid, self.description, self.reason)
    }
}

/// Several threads, one after the other.
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
    /// Describes a thread that did not answer `signal` (0: it was asked without a signal). Reads /proc, allocates.
    pub(crate) fn describe(tid: Tid, name: Option<ThreadName>, signal: i32) -> Self {
        let description = proc_status::describe(tid);
        let reason = reason(&description, signal);
        Self { name, tid, description, reason }
    }

    pub(crate) fn of(info: &ThreadStopInfo, signal: i32) -> Self {
        let mut silent = Self::describe(info.tid(), Some(info.name()), signal);
        if info.is_suspended() {
            silent.reason = SilenceReason::SuspendedByUser;
        }
        silent
    }
}

/// Reads the reason from what the kernel says. The order matters: a held thread also looks as if it ignored signals.
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

/// Why a thread could not be attached.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AttachError {
    /// The calling thread is attached already.
    #[error(
        "this thread is already attached to a world as \"{name}\": a thread belongs to at most one world at a time; detach first"
    )]
    AlreadyAttached {
        /// Under which name.
        name: ThreadName,
    },
    /// The world has been closed.
    #[error("the world is closed: no thread can attach any more")]
    Closed,
    /// The system would not tell the thread's stack, or give memory for its record.
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
    fn the_kernel_knows_the_reason(
        #[case] description: ThreadDescription,
        #[case] signal: i32,
        #[case] expected: SilenceReason,
    ) {
        assert_eq!(reason(&description, signal), expected);
    }

    #[test]
    fn an_error_names_the_thread_the_reason_and_the_remedy() {
        let error = StopError::Unanswered {
            stopper: "signals",
            within: Duration::from_secs(10),
            of: 3,
            threads: vec![SilentThread {
                name: Some(ThreadName::new("worker-7")),
                tid: Tid(4711),
                description: described("S (sleeping)", 0, URG),
                reason: SilenceReason::MasksSignal { signal: 23 },
            }],
            attempts: StopAttempts {
                requests: 201,
                debugger: Some(DebuggerPart { control_at_first: 0x12_0000_0002, asked: 3, ..DebuggerPart::default() }),
            },
        };
        let text = error.to_string();
        let parts =
            ["worker-7", "4711", "S (sleeping)", "TracerPid 0", "SigBlk 0000000000400000", "wchan", "unmask SIGURG"];
        let attempts =
            ["asked 201 times", "control word 0x1200000002 at first, 0x0 at last", "0 of 3 requests to a debugger"];
        for part in parts.into_iter().chain(attempts) {
            assert!(text.contains(part), "no {part:?} in: {text}");
        }
    }
}
