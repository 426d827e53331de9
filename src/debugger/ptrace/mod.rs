//! A debugger by ptrace: another process that takes the stopping of the world into its hands.
//!
//! In 2003 Mono's debugger stopped the threads of a managed program when its collector wanted the world: a thread at a breakpoint can't run
//! a signal handler, but its registers can be read, and its stack pointer can be written into the collector's record. This is
//! that debugger, for the [contract](super::contract) of today: no signal is sent to the program, no thread sees an interrupted
//! system call (but for the few that even a tracer can't hide, see below), and what the user stopped stays stopped.
//!
//! ```text
//!   core     the event loop: what each thread reports, and what becomes of it
//!   stop     serving the collector: stop, start, births, ends, phases, in both modes
//!   frame    a thread's registers as a signal frame on its stack
//!   attach   seizing, launching, detaching, killing
//!   signals  what becomes of the program's own signals
//!   user     freezing and thawing threads, holding collections at phases
//!   look     what the user sees: threads, worlds, registers, memory, snapshots
//!   call     calling a function of the target in one of its threads
//!   target   what the target says about itself, checked
//!   modules  where in the target the collector is
//!   memory, proc, sys      the target's memory, /proc, the system calls
//!   tracee, event, error, death
//! ```
//!
//! # One thread
//!
//! For the kernel the tracer is a thread, not a process: a [`Debugger`] stays on the thread that made it, and the target's collections are
//! served while that thread is in [`Debugger::poll`] or in another of its functions that wait. A prompt belongs on another thread and
//! [wakes](Waker) this one.
//!
//! # What can't be hidden
//!
//! `epoll_wait`, `sigtimedwait` and `recv` with a time limit return EINTR after any stop of a tracer's, as the kernel has it. A thread
//! in uninterruptible sleep does not stop; see `stop.rs` for what happens then.

mod attach;
mod call;
mod core;
mod death;
mod error;
mod event;
mod frame;
#[cfg(feature = "fuzzing")]
pub(crate) mod fuzzing;
mod look;
mod memory;
mod modules;
mod proc;
mod signals;
mod stop;
mod sys;
mod target;
#[cfg(test)]
mod tests;
mod tracee;
mod user;

use std::time::Duration;

pub use self::core::{Debugger, Waker};
pub use call::Inspect;
pub use error::{CallError, DebuggerError};
pub use event::{Event, Held, HeldPhase, Passed, PhaseSet, Statistics, Stopped};
pub use look::{Difference, Enrolment, Registers, RunState, Snapshot, ThreadRegisters, ThreadSnapshot, ThreadState};
pub use memory::{Address, MemoryError};
pub use modules::Mapping;
pub use proc::Silence;
pub use signals::{SignalRule, SignalRules};
pub use target::{Library, Record, Standing, TargetError, WorldState};

pub use super::contract::Mode;

/// Whether the collector tells each of its phases.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Phases {
    /// It does, and each costs a stop of the collecting thread.
    Told,
    /// It does not.
    #[default]
    Untold,
}

/// How the collector notifies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Channel {
    /// By a signal to itself whose handler in the program does nothing. Nothing in the program is changed.
    #[default]
    Signal,
    /// By a function at which there is a breakpoint. Of a debugger that dies it stays, and the program heals it.
    Breakpoint,
}

/// What becomes of the threads that a full stop holds, should the debugger die.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnDeath {
    /// They wait for the end of the collection in a stub of the collector's.
    #[default]
    Park,
    /// They run on, and the collection is worth nothing.
    RunOn,
}

/// Whether the debugger looks after itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Restored {
    /// Before a full stop's threads go on, each is compared with what it was when the world stood: all registers, the extended ones too,
    /// which signals it blocks, and its red zone. It makes stops several times as long.
    Compared,
    /// They are not compared.
    #[default]
    Trusted,
}

/// How to debug.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Who stops the world.
    pub mode: Mode,
    /// Whether phases are told.
    pub phases: Phases,
    /// How the collector notifies.
    pub channel: Channel,
    /// For the case that the debugger dies.
    pub on_death: OnDeath,
    /// Whether threads are compared with what they were.
    pub restored: Restored,
    /// What is done with the program's own signals.
    pub signals: SignalRules,
    /// How long it may take until a thread stands.
    pub stop_within: Duration,
    /// How long a function of the target that is called may take.
    pub call_within: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            mode: Mode::Full,
            phases: Phases::default(),
            channel: Channel::default(),
            on_death: OnDeath::default(),
            restored: Restored::default(),
            signals: SignalRules::REPORTED,
            stop_within: Duration::from_secs(2),
            call_within: Duration::from_secs(2),
        }
    }
}

/// What has become of the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TargetState {
    /// It lives, and we debug it.
    Alive,
    /// It has ended with this code.
    Exited(i32),
    /// This signal has killed it.
    Killed(i32),
    /// It goes its own way.
    Detached,
}
