//! Firing many events where a thread must not wait: a heap dump in the stopped world.

use super::drain::{Outcome, PATIENCE_NS};
use super::lock::Held;
use super::ring;
use crate::os::thread;

/// How often [`keep_up`] tries to drain, and how long it sleeps between two attempts: 200 ms in total, which is
/// longer than a drain waits for a thread that was stopped in the middle of a fire.
const LOOKS: u32 = 2_000;
const NAP_NS: u64 = 100_000;

/// Delivers everything that was fired to the consumers. For a thread that fires many events in the stopped world. Returns false if a
/// stopped thread holds what this needs; then the caller continues to fire, and the rings grow to their limit.
///
/// The recorder's lock may be held by the writer, which is never stopped, or by a thread in a blocking region, which continues too, except
/// under a debugger. So this function tries to take the lock and never waits for it.
#[cold]
pub(crate) fn keep_up() -> bool {
    if ring::own().is_none() {
        return true;
    }
    for _ in 0..LOOKS {
        if let Some(mut held) = Held::try_take() {
            let outcome = held.drain(PATIENCE_NS);
            held.count_lossless();
            if outcome == Outcome::All {
                return true;
            }
        }
        thread::sleep_ns(NAP_NS);
    }
    false
}
