//! The errors of the debugger; each message says what to do if something can be done.

use std::io;
use std::time::Duration;

use super::memory::{Address, MemoryError};
use super::proc::Silence;
use super::target::TargetError;
use stopworld_platform::os::{Tid, signals};

/// An error of the debugger.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DebuggerError {
    /// There is no such process.
    #[error("there is no process {0}")]
    NoProcess(i32),
    /// The kernel does not allow tracing the process.
    #[error("process {pid} cannot be traced: {}", why_not(*.pid, *.tracer))]
    NotAllowed {
        /// The process.
        pid: i32,
        /// The process that traces it already; 0: none.
        tracer: i32,
    },
    /// The program could not be run.
    #[error("{program} cannot be run: {error}")]
    Launch {
        /// The program.
        program: String,
        /// The kernel's error, which is part of the message.
        error: io::Error,
    },
    /// The process has no such thread.
    #[error("the process has no thread {0}")]
    NoThread(Tid),
    /// The operation needs a stopped thread.
    #[error("thread {0} is running: stop it first")]
    NotStopped(Tid),
    /// A thread did not stop in time.
    #[error("thread {tid} did not stop within {within:?}: it {why}")]
    Silent {
        /// The thread.
        tid: Tid,
        /// How long the debugger waited.
        within: Duration,
        /// The reason.
        why: Silence,
    },
    /// The process has ended, or is no longer debugged.
    #[error("the process has ended or is detached")]
    Ended,
    /// The process was killed, but has not ended.
    #[error("process {0} was killed but has not ended: one of its threads is in uninterruptible sleep")]
    NotKilled(i32),
    /// The target's published data is invalid.
    #[error(transparent)]
    Target(#[from] TargetError),
    /// The target's memory could not be read or written.
    #[error(transparent)]
    Memory(#[from] MemoryError),
    /// The kernel refused a request.
    #[error("{doing} failed: {error}")]
    System {
        /// The operation.
        doing: &'static str,
        /// The kernel's error, which is part of the message.
        error: io::Error,
    },
}

fn why_not(pid: i32, tracer: i32) -> String {
    if tracer != 0 {
        format!("process {tracer} traces it already")
    } else if pid == std::process::id() as i32 {
        "a process cannot trace itself".to_owned()
    } else {
        "the kernel does not allow it (it belongs to another user, or see /proc/sys/kernel/yama/ptrace_scope)"
            .to_owned()
    }
}

/// Why a function of the target could not be called, or did not return.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CallError {
    /// More arguments than are passed in registers.
    #[error("{0} arguments are too many: a call takes at most 6")]
    Arguments(usize),
    /// The target's collector has no such function.
    #[error("the target's collector does not provide this function")]
    NoFunction,
    /// No thread can execute the function.
    #[error("no thread of the process can be stopped to call a function")]
    NoThread,
    /// The thread belongs to a stopped job.
    #[error("thread {0} belongs to a stopped job: continue the job first")]
    GroupStopped(Tid),
    /// The function raised a signal.
    #[error("the function raised {} at {at}; the thread was restored", signals::name(*signal))]
    Faulted {
        /// The signal.
        signal: i32,
        /// The instruction pointer.
        at: Address,
    },
    /// The user interrupted the call.
    #[error("the function was interrupted; the thread was restored")]
    Interrupted,
    /// The function did not return in time.
    #[error("the function did not return within {0:?}; the thread was restored")]
    TooLong(Duration),
    /// The debugger failed.
    #[error(transparent)]
    Debugger(#[from] DebuggerError),
}

/// Wraps the error of a failed system call.
pub(super) fn system(doing: &'static str) -> impl FnOnce(io::Error) -> DebuggerError {
    move |error| DebuggerError::System { doing, error }
}
