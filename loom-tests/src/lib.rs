//! Model checks of the stopping protocol.
//!
//! The protocol files of stopworld are *included* here, not copied: `sync/semaphore.rs`, `sync/lock.rs`,
//! `world/handshake.rs`, `world/locks.rs`, `world/latch.rs`, `debugger/protocol.rs`, `helpers.rs`, `mark_byte.rs`, `ranges.rs`, `scopes.rs` and `termination.rs` of `collector/`, `events/gate.rs`, and
//! `stream.rs` and `enabled.rs` of `events/record/`, `sync/notify.rs`, `ring.rs` of `stopworld-diagnostics`, `mps/hand_off.rs` of `stopworld-trace`, and `sync/mapped.rs`,
//! `sync/current_id.rs`, `profile/tree.rs` `check/blocks.rs` and `sync/trace_store.rs`. These files use only each other, `crate::sync` and `crate::sabotage`, and this crate
//! has modules of the same names. Its [`sync`] provides loom's atomics. Its [`kernel`] simulates Linux: futexes, thread ids, signals that
//! interrupt a thread at each step of its own protocol, and ptrace. So `cargo test --workspace` checks the shipped files themselves.
//!
//! Each model in [`models`] is a test. It states its preemption bound (the maximum number of switches away from a thread that could
//! continue; `Unbounded` explores everything) and prints the number of executions.
//!
//! Each model has known-bad variants: the same test, run in a new process with one guard of the shipped file
//! removed ([`sabotage`]). loom must then find the expected fault; a bad variant that passes fails the test. (A new process,
//! because loom aborts when it finds a deadlock.)
//!
//! # Debuggers
//!
//! The messages between a collection and a debugger are in `debugger/protocol.rs`, the shipped file. The actions of the two are simulated
//! in [`debugging`], with the same steps as in `debugger/bridge.rs`, `world/handshake_stop.rs` and the contract's document: those files stop
//! real threads by ptrace and signals. The models cover:
//!
//! * both contracts; notifications that are acknowledged or not; the notification AGAIN; notifications of phases; the check before weak
//!   references are cleared; the repetition of a collection without a contract;
//! * attach, detach and death of the debugger at each step of its protocol, and at any step of the collector and the threads; a debugger
//!   that attaches after a dead one, or attaches again under another contract;
//! * threads that the user freezes and resumes at any of their steps, also in their handlers; `park`; the signal that is pending for a
//!   resumed thread, and the signal that the kernel drops if the tracer dies before it passes the signal on;
//! * threads that start and end, and notify the debugger; a thread that the debugger does not trace.
//!
//! Not modelled: registers and the debugger's writes below the red zone (represented by one cell), the notification by breakpoint, masked
//! signals, forks, invalid words, time (a model decides when a wait slice ends), more than one world, more than one tracer at a time (the
//! kernel excludes it). The simulated debugger keeps its contract, with three exceptions: it may die, it may claim to hold threads that
//! run, and it may resume threads too early. Other violations are not explored.
//!
//! `shuttle-tests` runs the same files under a random scheduler, with more threads and cycles than loom can explore.

#![cfg(test)]

mod check;
mod checker;
mod collector;
mod debugger;
#[allow(dead_code, reason = "the shuttle models use more of it")]
mod debugging;
mod diagnostics;
mod events;
mod files;
#[allow(dead_code, reason = "the shuttle models use more of it")]
mod kernel;
mod known_bad;
mod models;
mod playground;
mod profile;
mod promise;
mod recording;
mod sabotage;
mod stacks;
mod sync;
mod world;
