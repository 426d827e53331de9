//! The writer thread: drains when a ring fills, and periodically.
//!
//! It is not a mutator, so no collection stops it. All signals are blocked on it, so no handler runs there. It sleeps until a
//! thread notifies it (after every few chunks), but at most a tenth of a second, so that a run that is killed leaves a
//! file that is complete up to that time (`.event.crash`).

use std::io;
use std::time::Duration;

use super::drain::{Drain, Outcome, PATIENCE_NS};
use super::lock::Held;
use super::ring;
use super::waiting::{WRITER_WAKEUP, is_ending};
use crate::os::clock::now_ns;
use crate::os::signals;
use crate::os::spawn::spawn;
use crate::sync::{AtomicBool, Ordering};

/// The maximum time between two flushes of everything.
const FLUSH_NS: u64 = 100_000_000;

/// The pause after a drain that was held up by a thread that the scheduler has preempted.
const BREATHER: Duration = Duration::from_micros(50);

static RUNS: AtomicBool = AtomicBool::new(false);

/// Starts the writer thread unless it runs. The drain is borrowed so that two threads cannot start it at the same time.
pub(super) fn ensure_started(_drain: &mut Drain) -> io::Result<()> {
    if RUNS.load(Ordering::Relaxed) {
        return Ok(());
    }
    // The new thread inherits this thread's signal mask.
    let _blocked = signals::block_all();
    spawn("stopworld-events", run)?;
    RUNS.store(true, Ordering::Relaxed);
    Ok(())
}

/// Forgets the writer thread, which does not exist in the child of a fork.
pub(super) fn forget() {
    RUNS.store(false, Ordering::Relaxed);
}

fn run() {
    // What is written contains addresses of objects.
    #[cfg(feature = "check")]
    let _own_memory = crate::check::OwnMemory::begin();
    let mut flushed = now_ns();
    loop {
        let notified = WRITER_WAKEUP.wait(Some(FLUSH_NS));
        let is_due = now_ns().saturating_sub(flushed) >= FLUSH_NS;
        if !notified && !is_due {
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

/// One round of the writer: drains, and flushes if requested.
fn work(flush: bool) -> Outcome {
    let mut held = Held::take();
    if is_ending() {
        return Outcome::All;
    }
    let outcome = held.drain(PATIENCE_NS);
    if flush {
        ring::all().for_each(ring::ThreadRings::probe);
        held.report_losses();
    }
    held.report_time();
    if flush {
        held.flush();
    }
    held.count_lossless();
    outcome
}
