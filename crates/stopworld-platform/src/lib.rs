//! The foundation of the stopworld crates: Linux system calls, synchronisation, and guards that tests can remove. Internal: the
//! interface may change at any time.
//!
//! | module | part |
//! |---|---|
//! | [`os`] | system calls and libc |
//! | [`sync`] | atomics, locks and semaphores, which the model checker can replace |
//! | [`sabotage`] | guards that a test build can take out |
//! | `symbols` | names of functions, files and lines (with the feature `symbols`) |
//! | [`suggest`] | the known name nearest to a mistyped one |

#![allow(clippy::len_without_is_empty, clippy::new_without_default, reason = "internal")]

pub mod os;
pub mod sabotage;
pub mod suggest;
#[cfg(feature = "symbols")]
pub mod symbols;
pub mod sync;

/// Runs the examples of the README as tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
