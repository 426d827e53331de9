//! Runs the stopping protocol under random schedules, with more threads and more cycles than loom can explore.
//!
//! The crate includes the same shipped files as `loom-tests`, and the same simulated Linux, debugger and bridge. But the atomics, threads and
//! locks are those of shuttle, which runs one schedule after another: random ones, and ones with few preemptions chosen by PCT. It does not
//! explore exhaustively, and its memory is sequentially consistent. In return a model has twelve mutators, many collections, and debuggers
//! that attach, freeze and resume threads, detach and die at random.
//!
//! Each run makes the same schedules; `SHUTTLE_TESTS_SEED=random` makes others, `SHUTTLE_TESTS_TIMES=20` makes 20 times as many. Each
//! model prints its seed, and a failure prints its schedule. As in `loom-tests` there are known-bad variants, which random schedules must detect.

#![cfg(test)]

mod cell;
mod check;
mod checker;
#[path = "../../loom-tests/src/debugger.rs"]
mod debugger;
mod debuggers;
#[allow(dead_code, reason = "the loom models use more of it")]
#[path = "../../loom-tests/src/debugging.rs"]
mod debugging;
mod handshake;
#[allow(dead_code, reason = "the loom models use more of it")]
#[path = "../../loom-tests/src/kernel.rs"]
mod kernel;
#[allow(dead_code, reason = "the loom models use more of it")]
#[path = "../../loom-tests/src/known_bad.rs"]
mod known_bad;
#[allow(dead_code, reason = "the loom models use more of it")]
#[path = "../../loom-tests/src/playground.rs"]
mod playground;
#[path = "../../loom-tests/src/sabotage.rs"]
mod sabotage;
mod sync;
#[path = "../../loom-tests/src/world.rs"]
mod world;
