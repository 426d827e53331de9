//! Firing a great deal where nobody can be waited for: a heap dump in the stopped world.

use super::drain::{Outcome, PATIENCE_NS};
use super::lock::Held;
use super::ring;
use crate::os::thread;

/// How often who keeps up looks for the recorder's lock, and for how long he sleeps between two looks: 200 ms in all, more
/// than a drain waits for a thread that was stopped in the middle of a fire.
const LOOKS: u32 = 2_000;
const NAP_NS: u64 = 100_000;

/// For who fires a great deal in the stopped world: brings everything that was fired to the consumers. False if somebody
/// who stands still has what that needs; then who fires goes on, and the rings grow to their limit.
///
/// The recorder's lock may be the writer's, which nobody stops, or that of a thread in a blocking region, which goes on too, but
/// under a debugger; so it is asked for and never waited for.
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
