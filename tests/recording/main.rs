//! Recording events: order, losses and ends. The recorder serves the whole process, so most of these tests run one at a time.

mod ends;
#[path = "../hazard/mod.rs"]
mod hazard;
mod order;
#[path = "../skipped/mod.rs"]
mod skipped;
#[path = "../tools/mod.rs"]
mod tools;

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Held by each test that needs the process's recorder for itself.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}
