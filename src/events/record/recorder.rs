//! The recorder of the process, and the flushes of everything: by the program, by a debugger, and at the end of the process.

use std::io;

use super::consumer::{Consumer, ConsumerId, ConsumerTotals, RecordError, RecorderTotals};
use super::drain::PATIENCE_NS;
use super::fire::{WAITS, WITHOUT_RING};
use super::lock::Held;
use super::ring;
use super::waiting::{ENDING, as_blocking};
use crate::events::clock::Clock;
use crate::os::exit::at_exit;
use crate::sync::Ordering;

/// The recording that all worlds of the process share: the rings of all threads, the writer thread, and the consumers.
#[derive(Debug)]
pub struct Recorder(());

impl Recorder {
    /// Returns the recorder of this process.
    pub fn of_process() -> &'static Recorder {
        static RECORDER: Recorder = Recorder(());
        &RECORDER
    }

    /// Returns the clock of all records. The first call takes some 10 ms.
    pub fn clock(&self) -> Clock {
        Clock::of_process()
    }

    /// `telemetry_flush` of the MPS: when it returns, everything that was fired before has been delivered to the consumers, and they are
    /// flushed.
    ///
    /// Waits, in a blocking region, for a drain that is under way. Must not be called in the stopped world.
    ///
    /// # Errors
    /// The first error of a consumer that this function has not returned before.
    pub fn flush(&self) -> io::Result<()> {
        as_blocking(|| {
            let mut held = Held::take();
            held.flush_everything(PATIENCE_NS);
            for slot in held.routes.consumers.iter_mut().flatten().filter(|slot| !slot.error_reported) {
                if let Some(error) = &slot.error {
                    slot.error_reported = true;
                    return Err(same_error(error));
                }
            }
            Ok(())
        })
    }

    /// Returns the process's numbers so far. Exact if no thread fires at the same time.
    pub fn totals(&self) -> RecorderTotals {
        as_blocking(|| {
            let held = Held::take();
            let without_ring = WITHOUT_RING.load(Ordering::Relaxed);
            let (mut fired, mut dropped) = (without_ring, without_ring);
            for ring in ring::all().flat_map(ring::ThreadRings::both) {
                fired += ring.fired.load(Ordering::Relaxed);
                dropped += ring.dropped.load(Ordering::Relaxed);
            }
            RecorderTotals {
                fired,
                dropped,
                drained: held.routes.passed.drained,
                unclaimed: held.routes.passed.unclaimed,
                ring_bytes: ring::bytes() as u64,
                waits: WAITS.load(Ordering::Relaxed),
            }
        })
    }

    /// Returns the current memory of the rings, in bytes. Never waits.
    pub fn ring_bytes(&self) -> u64 {
        ring::bytes() as u64
    }

    /// Returns the numbers of a consumer so far.
    ///
    /// # Errors
    /// The consumer has ended.
    pub fn totals_of(&self, consumer: ConsumerId) -> Result<ConsumerTotals, RecordError> {
        as_blocking(|| Held::take().totals_of(consumer))
    }

    /// Drains, passes the records that a consumer keeps (a flight recorder) to the consumer `to`, and flushes `to`.
    /// Returns the number of records.
    ///
    /// # Errors
    /// The consumer has ended or keeps no records, or `to` failed.
    pub fn replay(&self, from: ConsumerId, to: &mut dyn Consumer) -> io::Result<u64> {
        as_blocking(|| {
            let mut held = Held::take();
            held.settle(PATIENCE_NS);
            let reached = held.reached();
            let slot = held.slot(from).map_err(io::Error::other)?;
            let records = slot.consumer.replay(to)?;
            to.drained(&reached)?;
            to.flush()?;
            Ok(records)
        })
    }
}

/// Writes everything that was fired to the files. A debugger may call this while all other threads are stopped, whatever locks they hold.
///
/// The calling thread itself drains. Returns 0 on success; 1 if a stopped thread holds the recorder's lock: resume the program
/// for a moment, and call this again; 2 if a consumer has failed, now or before.
#[unsafe(no_mangle)]
pub extern "C" fn stopworld_telemetry_flush() -> i32 {
    let Some(mut held) = Held::try_take() else { return 1 };
    // All fires in flight are those of stopped threads, so do not wait for them.
    held.flush_everything(0);
    if held.routes.consumers.iter().flatten().any(|slot| slot.error.is_some()) { 2 } else { 0 }
}

/// Returns an equivalent error, because `io::Error` cannot be cloned.
fn same_error(error: &io::Error) -> io::Error {
    error.raw_os_error().map_or_else(|| error.kind().into(), io::Error::from_raw_os_error)
}

/// How long the end of the process waits for a drain that is under way.
const END_NS: u64 = 1_000_000_000;

/// Registers a flush at the end of the process: everything that was fired is written to the files when `main` returns or any thread calls
/// `exit`. The files end there. A thread that fires later neither drains nor waits, and records that do not fit in its ring are dropped and
/// counted.
///
/// # Errors
/// The system has no memory for the registration.
pub fn flush_at_exit() -> io::Result<()> {
    at_exit(flush_now)
}

extern "C" fn flush_now() {
    ENDING.store(true, Ordering::Relaxed);
    if let Some(mut held) = Held::take_within(END_NS) {
        held.flush_everything(PATIENCE_NS);
    }
}
