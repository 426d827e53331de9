//! Model checks of the stopping protocol.
//!
//! The protocol files of stopworld are *included* here, not copied: `sync/semaphore.rs`, `sync/lock.rs`,
//! `world/handshake.rs`, `world/locks.rs`, `world/latch.rs`, `debugger/protocol.rs`, `collector/termination.rs`, `events/gate.rs`, and
//! `stream.rs`, `wanted.rs` and `bell.rs` of `events/record/`, `diagnostics/ring.rs`, `formats/mps/relay.rs`, and `sync/mapped.rs`,
//! `sync/present.rs` and `profile/tree.rs` name only each other, `crate::sync` and `crate::sabotage`, and this crate
//! has modules of those names. Its [`sync`] hands out loom's atomics; its [`kernel`] plays Linux: futexes, thread numbers, signals that
//! interrupt a thread at each step of its own protocol, and ptrace. So a plain `cargo test --workspace` checks the very files that ship.
//!
//! A model in [`models`] is a test. It says which preemption bound it explores (how often a thread that could run on
//! is interrupted in favour of another one; `None` is everything) and prints how many executions that were.
//!
//! Each model has known-bad variants: the same test, run in a process of its own with one guard of the shipped file
//! taken out ([`sabotage`]). loom must find what then goes wrong, and it must be the expected fault; a bad variant
//! that passes fails the test. (A process of its own, because a deadlock that loom finds ends in an abort.)
//!
//! # Debuggers
//!
//! What a collection and a debugger say to each other is `debugger/protocol.rs`, the shipped file. What the two *do* is played in
//! [`debugging`], step by step as `debugger/bridge.rs`, `world/ask.rs` and the contract's document have it: those files stop
//! real threads by ptrace and signals. Modelled are:
//!
//! * both contracts; a notification that is acknowledged, or not; AGAIN; phases; the look before anything is cleared; the repeat without a
//!   contract;
//! * attach, detach and death at each step of the debugger's protocol and at each moment of the collector and the threads; a debugger
//!   that comes after a dead one, or again under another contract;
//! * threads that the user freezes and lets go at any of their steps, in their handlers too; `park`; the signal that is pending for a thread
//!   that is let go, and the one that the kernel forgets when the tracer dies with it in its hand;
//! * threads that begin and end, and tell the debugger of it.
//!
//! Not modelled: registers and what the debugger writes below the red zone (a cell stands for it), the notification by breakpoint, masked
//! signals, forks, hostile words, time (a model says when a slice has run out), more than one world, more than one tracer at once (the
//! kernel excludes it). A debugger keeps its contract here but for dying, for claiming to
//! hold threads that run, and for resuming threads too early; what else it may do wrong is not explored.
//!
//! More threads and more cycles than loom can explore are in `shuttle-tests`: the same files under a random scheduler.

#![cfg(test)]

mod check;
mod checker;
mod collector;
mod debugger;
#[allow(dead_code, reason = "shuttle's models use more of it")]
mod debugging;
mod diagnostics;
mod events;
mod files;
#[allow(dead_code, reason = "shuttle's models use more of it")]
mod kernel;
mod known_bad;
mod models;
mod playground;
mod profile;
mod recording;
mod sabotage;
mod stacks;
mod sync;
mod world;
