//! What can go wrong, each with what to do.

use std::io;
use std::time::Duration;

use super::memory::{Address, MemoryError};
use super::proc::Silence;
use super::target::TargetError;
use stopworld_platform::os::{Tid, signals};

/// Why the debugger could not do something.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DebuggerError {
    /// No such process.
    #[error("there is no process {0}")]
    NoProcess(i32),
    /// The kernel does not allow it.
    #[error("process {pid} can't be traced: {}", why_not(*.pid, *.tracer))]
    NotAllowed {
        /// The process.
        pid: i32,
        /// Who traces it already; 0: nobody.
        tracer: i32,
    },
    /// The program could not be run.
    #[error("{program} can't be run: {error}")]
    Launch {
        /// Which.
        program: String,
        /// What the kernel said, which is part of the message.
        error: io::Error,
    },
    /// No such thread.
    #[error("the process has no thread {0}")]
    NoThread(Tid),
    /// It needs a thread that stands.
    #[error("thread {0} runs: stop it first")]
    NotStanding(Tid),
    /// A thread does not stand.
    #[error("thread {tid} does not stand after {within:?}: it {why}")]
    Silent {
        /// Which.
        tid: Tid,
        /// How long it was waited for.
        within: Duration,
        /// Why.
        why: Silence,
    },
    /// The process has ended, or is not debugged any more.
    #[error("there is no process to debug any more")]
    Ended,
    /// It did not end, though killed.
    #[error("process {0} has not ended, though it was killed: a thread of it sleeps uninterruptibly")]
    NotKilled(i32),
    /// Something is wrong with what the target says about itself.
    #[error(transparent)]
    Target(#[from] TargetError),
    /// Memory could not be read or written.
    #[error(transparent)]
    Memory(#[from] MemoryError),
    /// The kernel refused something.
    #[error("{doing} failed: {error}")]
    System {
        /// What.
        doing: &'static str,
        /// What the kernel said, which is part of the message.
        error: io::Error,
    },
}

fn why_not(pid: i32, tracer: i32) -> String {
    if tracer != 0 {
        format!("process {tracer} traces it already")
    } else if pid == std::process::id() as i32 {
        "no process can trace itself".to_owned()
    } else {
        "the kernel does not allow it (another user's, or see /proc/sys/kernel/yama/ptrace_scope)".to_owned()
    }
}

/// Why a function of the target could not be called, or did not come back.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CallError {
    /// More arguments than there are registers for them.
    #[error("{0} arguments are too many: six go in registers, and no others")]
    Arguments(usize),
    /// The target has no such function.
    #[error("the target's collector has no function for that")]
    NoFunction,
    /// No thread can do it.
    #[error("no thread of the process can be stopped to call a function")]
    NoThread,
    /// The thread belongs to a stopped job.
    #[error("thread {0} belongs to a stopped job: continue the job first")]
    GroupStopped(Tid),
    /// It raised a signal.
    #[error("the function raised {} at {at}; the thread is as it was", signals::name(*signal))]
    Faulted {
        /// Which.
        signal: i32,
        /// Where.
        at: Address,
    },
    /// The user wanted no answer any more.
    #[error("the function was interrupted; the thread is as it was")]
    Interrupted,
    /// It did not come back in time.
    #[error("the function has not returned within {0:?}; the thread is as it was")]
    TooLong(Duration),
    /// The debugger could not do its part.
    #[error(transparent)]
    Debugger(#[from] DebuggerError),
}

/// A system call that failed.
pub(super) fn system(doing: &'static str) -> impl FnOnce(io::Error) -> DebuggerError {
    move |error| DebuggerError::System { doing, error }
}
