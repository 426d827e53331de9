//! The recorder of the process, and the flushes of everything: the program's, a debugger's, and the one at its end.

use std::io;

use super::consumer::{Consumer, ConsumerId, ConsumerTotals, RecordError, RecorderTotals};
use super::drain::PATIENCE_NS;
use super::fire::{HOMELESS, WAITS};
use super::lock::Held;
use super::ring;
use super::waiting::{ENDING, as_blocking};
use crate::events::clock::Clock;
use crate::os::exit::at_exit;
use crate::sync::Ordering;

/// What all worlds of the process share: the rings of all threads, the writer thread, and the consumers.
#[derive(Debug)]
pub struct Recorder(());

impl Recorder {
    /// The recorder of this process.
    pub fn of_process() -> &'static Recorder {
        static RECORDER: Recorder = Recorder(());
        &RECORDER
    }

    /// The clock of all records. The first call takes some 10 ms.
    pub fn clock(&self) -> Clock {
        Clock::of_process()
    }

    /// The MPS's `telemetry_flush`: when it returns, everything that was fired before is with its consumers, and they are
    /// flushed.
    ///
    /// Waits for a drain that is under way, as a blocking region. Not in the stopped world.
    ///
    /// # Errors
    /// The first error of a consumer that has not been returned by this function before.
    pub fn flush(&self) -> io::Result<()> {
        as_blocking(|| {
            let mut held = Held::take();
            held.flush_everything(PATIENCE_NS);
            for place in held.routes.consumers.iter_mut().flatten().filter(|place| !place.error_told) {
                if let Some(error) = &place.error {
                    place.error_told = true;
                    return Err(same_error(error));
                }
            }
            Ok(())
        })
    }

    /// The process's numbers so far. Exact when nobody fires meanwhile.
    pub fn totals(&self) -> RecorderTotals {
        as_blocking(|| {
            let held = Held::take();
            let homeless = HOMELESS.load(Ordering::Relaxed);
            let (mut fired, mut dropped) = (homeless, homeless);
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

    /// Bytes of memory that the rings have now. Waits for nobody.
    pub fn ring_bytes(&self) -> u64 {
        ring::bytes() as u64
    }

    /// The numbers of a consumer so far.
    ///
    /// # Errors
    /// It has ended.
    pub fn totals_of(&self, consumer: ConsumerId) -> Result<ConsumerTotals, RecordError> {
        as_blocking(|| Held::take().totals_of(consumer))
    }

    /// Drains, and has a consumer that keeps records (a flight recorder) hand them to another one, which is then flushed.
    /// Says how many records those were.
    ///
    /// # Errors
    /// The consumer has ended or keeps no records, or `to` failed.
    pub fn replay(&self, from: ConsumerId, to: &mut dyn Consumer) -> io::Result<u64> {
        as_blocking(|| {
            let mut held = Held::take();
            held.settle(PATIENCE_NS);
            let reached = held.reached();
            let place = held.place(from).map_err(io::Error::other)?;
            let records = place.consumer.replay(to)?;
            to.drained(&reached)?;
            to.flush()?;
            Ok(records)
        })
    }
}

/// What a debugger calls while all other threads stand still, whatever they hold: everything that was fired goes to the files.
///
/// The caller drains by itself. 0 if all is well; 1 if a thread that stands still holds the recorder's lock: let the program run
/// on for a moment, and call again; 2 if a consumer has failed, now or before.
#[unsafe(no_mangle)]
pub extern "C" fn stopworld_telemetry_flush() -> i32 {
    let Some(mut held) = Held::try_take() else { return 1 };
    // Fires in flight are those of frozen threads: no patience.
    held.flush_everything(0);
    if held.routes.consumers.iter().flatten().any(|place| place.error.is_some()) { 2 } else { 0 }
}

/// An error cannot be cloned; its meaning can.
fn same_error(error: &io::Error) -> io::Error {
    error.raw_os_error().map_or_else(|| error.kind().into(), io::Error::from_raw_os_error)
}

/// For how long the end of the process waits for a drain that is under way.
const END_NS: u64 = 1_000_000_000;

/// Has everything that was fired written to the files when the process exits, by returning from `main` or by `exit` on any thread.
/// The files end there: a thread that fires later neither drains nor waits, and what its ring does not hold is dropped and counted.
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
