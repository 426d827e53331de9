//! Losses: a writer that is blocked while threads continue to fire. These tests are in a program of their own and run one at a time: the
//! writer thread serves the whole process, so every other recording would wait for it.

mod eventlog;
#[path = "../eventlog_rules/mod.rs"]
mod eventlog_rules;
mod nettrace;
#[path = "../nettrace_rules/mod.rs"]
mod nettrace_rules;

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Held by each test from its beginning to its end.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}
