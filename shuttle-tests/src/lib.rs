//! Random schedules of the stopping protocol, for more threads and more cycles than loom can explore.
//!
//! The same shipped files as in `loom-tests`, the same small Linux, the same debugger and bridge (included from there); but the atomics, threads
//! and locks are shuttle's, which runs one schedule after the other: at random, and with few well-chosen preemptions (PCT). It explores
//! nothing exhaustively and knows only sequentially consistent memory. In return a model has twelve mutators and many collections, and debuggers
//! that come, freeze, let go, detach and die at random.
//!
//! Each run makes the same schedules; `SHUTTLE_TESTS_SEED=random` makes others, `SHUTTLE_TESTS_TIMES=20` more of them. A seed is printed with
//! each model, and with a failure the schedule. Known-bad variants as in `loom-tests`: random schedules must find them too.

#![cfg(test)]

mod cell;
mod check;
mod checker;
#[path = "../../loom-tests/src/debugger.rs"]
mod debugger;
mod debuggers;
#[allow(dead_code, reason = "loom's models use more of it")]
#[path = "../../loom-tests/src/debugging.rs"]
mod debugging;
mod handshake;
#[allow(dead_code, reason = "loom's models use more of it")]
#[path = "../../loom-tests/src/kernel.rs"]
mod kernel;
#[allow(dead_code, reason = "loom's models use more of it")]
#[path = "../../loom-tests/src/known_bad.rs"]
mod known_bad;
#[allow(dead_code, reason = "loom's models use more of it")]
#[path = "../../loom-tests/src/playground.rs"]
mod playground;
#[path = "../../loom-tests/src/sabotage.rs"]
mod sabotage;
mod sync;
#[path = "../../loom-tests/src/world.rs"]
mod world;
