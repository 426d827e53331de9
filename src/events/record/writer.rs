//! The writer thread: drains when a ring fills, and now and then.
//!
//! It is no mutator, so no collection stops it; all signals are blocked on it, so no handler runs there. It sleeps until a
//! thread rings (each few chunks), and a tenth of a second at most while somebody records, so that a run that is killed leaves a
//! file that is complete up to then (`.event.crash`).

use std::io;
use std::time::Duration;

use super::drain::{Drain, Outcome, PATIENCE_NS};
use super::lock::Held;
use super::ring;
use super::waiting::{BELL, is_ending};
use crate::os::clock::now_ns;
use crate::os::signals;
use crate::os::spawn::spawn;
use crate::sync::{AtomicBool, Ordering};

/// At least so often everything is flushed.
const FLUSH_NS: u64 = 100_000_000;

/// After a drain that was held up by a thread that the scheduler has set aside.
const BREATHER: Duration = Duration::from_micros(50);

static RUNS: AtomicBool = AtomicBool::new(false);

/// Starts the thread unless it runs. The drain is borrowed so that two threads do not do so at once.
pub(super) fn ensure_started(_drain: &mut Drain) -> io::Result<()> {
    if RUNS.load(Ordering::Relaxed) {
        return Ok(());
    }
    // The new thread has this one's mask from its first instruction on.
    let _blocked = signals::block_all();
    spawn("stopworld-events", run)?;
    RUNS.store(true, Ordering::Relaxed);
    Ok(())
}

/// In the child of a fork it does not exist.
pub(super) fn forget() {
    RUNS.store(false, Ordering::Relaxed);
}

fn run() {
    let mut flushed = now_ns();
    loop {
        let rung = BELL.wait(Some(FLUSH_NS));
        let is_due = now_ns().saturating_sub(flushed) >= FLUSH_NS;
        if !rung && !is_due {
            continue;
        }
        if work(is_due) == Outcome::HeldUp {
            std::thread::sleep(BREATHER);
        }
        if is_due {
            flushed = now_ns();
        }
    }
}

/// What the writer does each time.
fn work(flush: bool) -> Outcome {
    let mut held = Held::take();
    if is_ending() {
        return Outcome::All;
    }
    let outcome = held.drain(PATIENCE_NS);
    if flush {
        ring::all().for_each(ring::ThreadRings::probe);
        held.tell_of_losses();
    }
    held.tell_the_time();
    if flush {
        held.flush();
    }
    held.count_lossless();
    outcome
}
