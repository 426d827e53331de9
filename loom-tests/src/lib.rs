//! Model checks of the stopping protocol.
//!
//! The protocol files of stopworld are *included* here, not copied: `sync/semaphore.rs`, `sync/lock.rs`,
//! `world/handshake.rs`, `world/locks.rs`, `world/latch.rs`, `collector/termination.rs`, `events/gate.rs`, and `stream.rs`,
//! `wanted.rs` and `bell.rs` of `events/record/` name only `crate::sync` and `crate::sabotage`, and this crate has modules of those names. Its [`sync`] hands out loom's
//! atomics; its [`kernel`] plays Linux: futexes, thread numbers, and signals that interrupt a thread at each step of
//! its own protocol. So a plain `cargo test --workspace` checks the very files that ship.
//!
//! A model in [`models`] is a test. It says which preemption bound it explores (how often a thread that could run on
//! is interrupted in favour of another one; `None` is everything) and prints how many executions that were.
//!
//! Each model has known-bad variants: the same test, run in a process of its own with one guard of the shipped file
//! taken out ([`sabotage`]). loom must find what then goes wrong, and it must be the expected fault; a bad variant
//! that passes fails the test. (A process of its own, because a deadlock that loom finds ends in an abort.)

#![cfg(test)]

mod check;
mod collector;
mod events;
mod kernel;
mod models;
mod playground;
mod recording;
mod sabotage;
mod sync;
mod world;
