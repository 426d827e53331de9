//! Losses: a writer that is stopped while threads go on firing. In a program of their own, and one at a time: the writer's thread serves
//! the whole process, so every other recording would wait for it.

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
