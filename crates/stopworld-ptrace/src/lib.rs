//! A debugger by ptrace: another process that takes the stopping of the world into its hands.
//!
//! In 2003 Mono's debugger stopped the threads of a managed program when its collector wanted the world: a thread at a breakpoint can't run
//! a signal handler, but its registers can be read, and its stack pointer can be written into the collector's record. This is
//! that debugger, for the [contract](stopworld::debugger::contract) of today: no signal is sent to the program, no thread sees an interrupted
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
//!   options, signal_rules      how to debug
//!   memory, batch, proc, sys   the target's memory, batches of writes to it, /proc, the system calls
//!   tracee, registers, event, error, death
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
mod batch;
mod call;
mod core;
mod death;
mod error;
mod event;
mod frame;
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub mod fuzzing;
mod look;
mod memory;
mod modules;
mod options;
mod proc;
mod registers;
mod signal_rules;
mod signals;
mod stop;
mod sys;
mod target;
#[cfg(test)]
mod tests;
mod tracee;
mod user;

pub use self::core::{Debugger, TargetState, Waker};
pub use call::Inspect;
pub use error::{CallError, DebuggerError};
pub use event::{Event, Held, HeldPhase, Passed, PhaseSet, Statistics, Stopped};
pub use look::{Enrolment, RunState, Snapshot, ThreadSnapshot, ThreadState};
pub use memory::{Address, MemoryError};
pub use modules::Mapping;
pub use options::{Channel, OnDeath, Options, Phases, Restored};
pub use proc::Silence;
pub use registers::{Difference, Registers, ThreadRegisters};
pub use signal_rules::{SignalRule, SignalRules};
pub use target::{Library, Record, Standing, TargetError, WorldState};

pub use stopworld::debugger::contract::Mode;

/// Runs the examples of the README as tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
