//! A debugger by ptrace: another process that takes over stopping the world.
//!
//! In 2006 Mono's debugger stopped the threads of a managed program for its collector: a thread at a breakpoint cannot run
//! a signal handler, but its registers can be read, and its stack pointer can be written into the collector's record. This crate is
//! that debugger, for today's [contract](stopworld::debugger::contract): no signal is sent to the program, no thread sees an interrupted
//! system call (except for the few that even a tracer cannot hide, see below), and what the user stopped stays stopped.
//!
//! ```text
//!   core     the event loop: handles what each thread reports
//!   stop     serving the collector: stop, start, creation and exit of mutators, phases, in both modes
//!   frame    a thread's registers as a signal frame on its stack
//!   attach   seizing, launching, detaching, killing
//!   signals  handling of the program's own signals
//!   user     freezing and thawing threads, holding collections at phases
//!   look     what the user can inspect: threads, worlds, registers, memory, snapshots
//!   call     calling a function of the target in one of its threads
//!   target   the target's published data, checked
//!   modules  finding the collector in the target
//!   options, signal_rules      settings
//!   memory, batch, proc, sys   the target's memory, batches of writes to it, /proc, the system calls
//!   tracee, registers          one thread as its tracer sees it; its registers
//!   event, error               what the debugger reports, and its errors
//!   death                      for tests: the debugger kills itself at a given step
//! ```
//!
//! # One thread
//!
//! For the kernel the tracer is a thread, not a process: a [`Debugger`] stays on the thread that created it, and the target's collections are
//! served while that thread is in [`Debugger::poll`] or in another of its functions that wait. Run a prompt on another thread and
//! [wake](Waker) this one from there.
//!
//! # What cannot be hidden
//!
//! `epoll_wait`, `sigtimedwait` and `recv` with a time limit return EINTR after any stop by a tracer, as Linux defines it. A thread
//! in uninterruptible sleep does not stop; `stop.rs` describes what happens then.

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
pub use options::{Channel, DebuggerOptions, OnDeath, Phases, Restored};
pub use proc::Silence;
pub use registers::{Difference, Registers, ThreadRegisters};
pub use signal_rules::{SignalRule, SignalRules};
pub use target::{HandshakeState, Library, Record, TargetError, WorldState};

pub use stopworld::debugger::contract::Mode;

/// Runs the examples of the README as tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
