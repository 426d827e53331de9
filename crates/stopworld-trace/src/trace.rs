//! A trace that is being written, in any format.
//!
//! ```text
//!   Options<F> ──start──► Trace<F> ◄──record_to── worlds
//!                            │
//!                        Recording ──┬─► writer of the format ─────────► file      as it happens,
//!                            ▲       └─► FlightRecorder ┄┄┄┄┄┄┄┄┄┄┄┄┄┄► file      or kept in memory, and written on demand
//!                            └── Progress ◄──┘
//! ```
//!
//! A process may write several traces at once, each with its own events. A trace outlives its worlds: a world built later can join
//! it. It ends when its owner calls [`Trace::finish`].

use std::fmt;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::finished::Finished;
use super::format::{Format, Joining};
use super::target::{OutputFile, Target};
use super::trace_error::TraceError;
use super::worlds::Worlds;
use stopworld::events::record::{Consumer, ConsumerTotals, RecordError, Recorder, Recording, in_blocking_region};
use stopworld::{RecordWorld, Since, World};

/// The longest wait for the ends of worlds if the trace has failed. These ends are then not written any more.
const WHEN_FAILED: Duration = Duration::from_millis(500);

/// A trace that is being written. Cheap to clone; clones share one trace.
pub struct Trace<F: Format>(Arc<Parts<F>>);

struct Parts<F> {
    recording: Recording<Worlds>,
    format: F,
    /// `None` if the trace is written to a destination of the caller.
    file: Option<OutputFile>,
    /// Whether the trace is a flight recorder.
    is_flight_recorder: bool,
}

impl<F: Format> Trace<F> {
    pub(super) fn start(
        format: F,
        consumer: Box<dyn Consumer>,
        file: Option<OutputFile>,
        is_flight_recorder: bool,
    ) -> Result<Trace<F>, TraceError> {
        let recording = Recording::start(consumer, Worlds::new())?;
        Ok(Trace(Arc::new(Parts { recording, format, file, is_flight_recorder })))
    }

    pub(super) fn format(&self) -> &F {
        &self.0.format
    }

    pub(super) fn recording(&self) -> &Recording<Worlds> {
        &self.0.recording
    }

    /// Returns whether the trace is a flight recorder: records are kept in memory and written to the file on request.
    pub(super) fn is_flight_recorder(&self) -> bool {
        self.0.is_flight_recorder
    }

    /// Returns the path of the file, or `None` if the trace is written to a destination of the caller.
    pub fn path(&self) -> Option<&Path> {
        self.0.file.as_ref().map(OutputFile::path)
    }

    /// Writes all events fired before this call to this trace, and to every other trace of the process.
    ///
    /// # Errors
    /// The first error of a trace's file that was not returned before. It may be the file of another trace of the process;
    /// [`finish`](Self::finish) returns the error of this one.
    pub fn flush(&self) -> io::Result<()> {
        Recorder::of_process().flush()
    }

    /// Returns the event counts so far.
    ///
    /// # Errors
    /// The trace has ended.
    pub fn totals(&self) -> Result<ConsumerTotals, RecordError> {
        self.0.recording.totals()
    }

    /// Waits until every world of the trace is closed and the trace contains the end of each world, but no longer than `within`.
    pub fn wait_for_worlds(&self, within: Duration) {
        let begun = Instant::now();
        let is_late = || begun.elapsed() >= if self.has_failed() { within.min(WHEN_FAILED) } else { within };
        while !self.has_seen_all_ends() && !is_late() {
            std::thread::sleep(Duration::from_millis(1));
            // `finish` reports an error.
            let _ = self.flush();
        }
    }

    fn has_seen_all_ends(&self) -> bool {
        let Parts { recording, format, is_flight_recorder, .. } = &*self.0;
        recording.with(|worlds| {
            // A flight recorder keeps the ends in memory.
            worlds.have_ended((!is_flight_recorder && format.has_ends()).then(|| format.progress().ended()))
        })
    }

    /// Returns whether the file has failed. If the file has failed, the events that report the ends of worlds are counted as lost, like all
    /// other events.
    fn has_failed(&self) -> bool {
        self.totals().map_or(true, |totals| totals.lost > 0)
    }

    /// Ends the trace. Every event is either written or counted as lost.
    ///
    /// # Errors
    /// The trace has ended already.
    pub fn finish(&self) -> Result<Finished, RecordError> {
        let ended = self.0.recording.end()?;
        let progress = self.0.format.progress();
        Ok(Finished { totals: ended.totals, records: progress.records(), bytes: progress.bytes(), error: ended.error })
    }

    /// Writes the flight recorder's events to the file, replacing its contents. Returns the number of events.
    ///
    /// # Errors
    /// There is no flight recorder, or the file failed.
    pub fn write_flight(&self) -> io::Result<u64> {
        let Parts { recording, format, file, is_flight_recorder } = &*self.0;
        let Some(file) = file.as_ref().filter(|_| *is_flight_recorder) else {
            return Err(io::Error::new(
                io::ErrorKind::Unsupported,
                "this trace has no flight recorder: start it with Options::flight_recorder",
            ));
        };
        let mut writer = format.replayer(Target::File(file.clone()), recording)?;
        let recorder = Recorder::of_process();
        let events = recorder.replay(recording.consumer(), &mut *writer)?;
        writer.close(&recorder.clock().relation())?;
        in_blocking_region(|| writer.closed())?;
        Ok(events)
    }
}

impl<F: Format> RecordWorld for Trace<F> {
    fn record_world(&self, world: &World, since: Since) -> Result<(), RecordError> {
        let Parts { recording, format, .. } = &*self.0;
        recording.join(world.events(), |worlds, number| {
            worlds.add(world);
            format.join(&Joining { world, number, since, consumer: recording.consumer() })
        })
    }
}

impl<F: Format> Clone for Trace<F> {
    fn clone(&self) -> Trace<F> {
        Trace(Arc::clone(&self.0))
    }
}

impl<F: Format> fmt::Debug for Trace<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Trace")
            .field("file", &self.0.file)
            .field("is_flight_recorder", &self.0.is_flight_recorder)
            .finish_non_exhaustive()
    }
}
