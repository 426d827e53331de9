//! A trace that is being written, in any format.
//!
//! ```text
//!   Options ──start──► Trace ──record(&world)… ──finish──► Finished
//!     Manner             Ongoing ── Recording ──► Writer ─────────► Place      as it happens,
//!                           ▲           │            │
//!                           │           └──► FlightRecorder ┄┄┄┄┄► Place      or kept in memory, and written on demand
//!                           └───────── Progress ◄────┘
//! ```
//!
//! Each format has its own `Options` and `Trace`. They decide which events are recorded, what the writer must know about a world
//! that joins, and how the records of a flight recorder become a file. This module has the rest. The macros
//! [`methods_of_options`] and [`methods_of_trace`] generate the public methods that are the same in each format.

use std::ffi::CString;
use std::fmt;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::complaint::Complaint;
use super::finished::Finished;
use super::outlet::Outlet;
use super::trace_error::TraceError;
use super::worlds::{Ends, Worlds};
use crate::events::Selection;
use crate::events::record::{Consumer, ConsumerTotals, FlightRecorder, RecordError, Recorder, Recording, WorldNumber};
use crate::runtime::Inner;
use crate::sync::{AtomicU64, Ordering};

/// Output options that do not depend on the format.
#[derive(Clone, Debug)]
pub(super) struct Manner {
    /// If set, the trace is a flight recorder: this many bytes of records are kept in memory instead of written immediately.
    pub(super) flight_bytes: Option<usize>,
    pub(super) complaint: Complaint,
}

impl Default for Manner {
    fn default() -> Manner {
        Manner { flight_bytes: None, complaint: Complaint::Returned }
    }
}

/// The file of a trace.
#[derive(Clone)]
pub(super) struct Place {
    path: PathBuf,
    /// The same as a C string, made in advance because a drain may not allocate.
    pub(super) c_path: CString,
    pub(super) complaint: Complaint,
}

impl Place {
    pub(super) fn new(path: PathBuf, complaint: Complaint) -> Result<Place, TraceError> {
        match CString::new(path.as_os_str().as_bytes()) {
            Ok(c_path) => Ok(Place { path, c_path, complaint }),
            Err(_) => Err(TraceError::Path(path)),
        }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn outlet(&self) -> Outlet {
        Outlet::to_file(self.c_path.clone(), self.complaint.clone())
    }
}

impl fmt::Debug for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.path.fmt(f)
    }
}

/// Longest wait for worlds to end when the trace has failed: their ends are not written any more.
const WHEN_FAILED: Duration = Duration::from_millis(500);

/// What a writer has done, for the owner of its trace. Each number is read and written independently.
#[derive(Debug, Default)]
pub(super) struct Progress {
    records: AtomicU64,
    bytes: AtomicU64,
    /// Worlds whose end the writer has received.
    ended: AtomicU64,
}

impl Progress {
    /// Publishes the number of records and bytes in the file.
    pub(super) fn is(&self, records: u64, bytes: u64) {
        self.records.store(records, Ordering::Relaxed);
        self.bytes.store(bytes, Ordering::Relaxed);
    }

    pub(super) fn a_world_ended(&self) {
        self.ended.fetch_add(1, Ordering::Relaxed);
    }
}

/// A trace that is being written. See the module documentation.
#[derive(Debug)]
pub(super) struct Ongoing {
    recording: Recording<Worlds>,
    progress: Arc<Progress>,
    /// Whether it is a flight recorder.
    keeps: bool,
}

impl Ongoing {
    /// Starts recording, with no world yet. Calls `writer` unless the trace is a flight recorder.
    pub(super) fn start<W: Consumer + 'static>(
        manner: &Manner,
        progress: &Arc<Progress>,
        writer: impl FnOnce() -> io::Result<W>,
    ) -> Result<Ongoing, TraceError> {
        let keeps = manner.flight_bytes.is_some();
        let consumer: Box<dyn Consumer> = match manner.flight_bytes {
            Some(bytes) => Box::new(FlightRecorder::with_capacity(bytes)?),
            None => Box::new(writer()?),
        };
        let ends = if keeps { Ends::DoNotCome } else { Ends::Come };
        let recording = Recording::start(consumer, Worlds::with_ends(ends))?;
        Ok(Ongoing { recording, progress: Arc::clone(progress), keeps })
    }

    /// Starts recording with an existing writer.
    pub(super) fn following(writer: Box<dyn Consumer>, progress: Arc<Progress>) -> Result<Ongoing, RecordError> {
        let recording = Recording::start(writer, Worlds::with_ends(Ends::Come))?;
        Ok(Ongoing { recording, progress, keeps: false })
    }

    /// Returns whether the trace is a flight recorder: records are kept in memory and written to the file on request.
    pub(super) fn keeps(&self) -> bool {
        self.keeps
    }

    /// Runs `f` on the worlds, under their lock.
    pub(super) fn with<R>(&self, f: impl FnOnce(&mut Worlds) -> R) -> R {
        self.recording.with(f)
    }

    /// Adds a world and calls `meet`, which must [`select`](Self::select) its events. Does nothing if the world has joined before.
    pub(super) fn join(
        &self,
        world: &Arc<Inner>,
        meet: impl FnOnce(WorldNumber) -> Result<(), RecordError>,
    ) -> Result<(), RecordError> {
        self.recording.join(&world.collector.events, |worlds, number| {
            worlds.add(world);
            meet(number)
        })
    }

    /// Sets which events of a world are recorded from now on.
    pub(super) fn select(&self, world: &Inner, selection: Selection) -> Result<(), RecordError> {
        world.collector.events.select_recorded(self.recording.consumer(), selection)
    }

    /// Writes the flight recorder's records with `writer` and closes it. Returns the number of events.
    pub(super) fn replay_to_end(&self, mut writer: impl Consumer) -> io::Result<u64> {
        if !self.keeps {
            return Err(io::Error::new(
                io::ErrorKind::Unsupported,
                "this trace has no flight recorder: start it with Options::flight_recorder",
            ));
        }
        let recorder = Recorder::of_process();
        let events = recorder.replay(self.recording.consumer(), &mut writer)?;
        writer.close(&recorder.clock().relation())?;
        Ok(events)
    }

    pub(super) fn totals(&self) -> Result<ConsumerTotals, RecordError> {
        self.recording.totals()
    }

    pub(super) fn wait_for_worlds(&self, within: Duration) {
        let begun = Instant::now();
        let is_late = || begun.elapsed() >= if self.has_failed() { within.min(WHEN_FAILED) } else { within };
        while !self.has_seen_all_ends() && !is_late() {
            std::thread::sleep(Duration::from_millis(1));
            // `finish` reports an error.
            let _ = Recorder::of_process().flush();
        }
    }

    fn has_seen_all_ends(&self) -> bool {
        self.with(|worlds| worlds.have_ended(self.progress.ended.load(Ordering::Relaxed)))
    }

    /// Returns whether the file has failed. Then worlds' ends are counted as lost too.
    fn has_failed(&self) -> bool {
        self.totals().map_or(true, |totals| totals.lost > 0)
    }

    pub(super) fn finish(&self) -> Result<Finished, RecordError> {
        let ended = self.recording.end()?;
        Ok(Finished {
            totals: ended.totals,
            records: self.progress.records.load(Ordering::Relaxed),
            bytes: self.progress.bytes.load(Ordering::Relaxed),
            error: ended.error,
        })
    }
}

/// Generates the methods of a format's `Options`, which must have a field `manner`.
macro_rules! methods_of_options {
    () => {
        impl Options {
            /// Keeps the last `bytes` bytes of records in memory; [`Trace::write_flight`] writes them to the file.
            #[must_use]
            pub fn flight_recorder(mut self, bytes: usize) -> Options {
                self.manner.flight_bytes = Some(bytes);
                self
            }

            /// Reports a failure of the file immediately, in one line on standard error. `another` is the option with which the
            /// user names another file.
            #[must_use]
            pub fn tell_failures(mut self, another: &'static str) -> Options {
                self.manner.complaint = $crate::formats::complaint::Complaint::Told(another);
                self
            }
        }
    };
}
pub(super) use methods_of_options;

/// Generates the methods of a format's `Trace`, whose parts must include an `ongoing` and a `place`. The arguments are the parts
/// that its `Debug` output shows as well.
macro_rules! methods_of_trace {
    ($($shown:ident),*) => {
        impl Trace {
            /// Writes all events fired before this call to the trace.
            ///
            /// # Errors
            /// The first error of the file. It is returned only once.
            pub fn flush(&self) -> std::io::Result<()> {
                $crate::events::record::Recorder::of_process().flush()
            }

            /// Returns the event counts so far.
            ///
            /// # Errors
            /// The trace has ended.
            pub fn totals(
                &self,
            ) -> Result<$crate::events::record::ConsumerTotals, $crate::events::record::RecordError> {
                self.0.ongoing.totals()
            }

            /// Waits until every world of the trace is closed and the trace contains its end, but no longer than `within`.
            pub fn wait_for_worlds(&self, within: std::time::Duration) {
                self.0.ongoing.wait_for_worlds(within);
            }

            /// Ends the trace. Every event is either written or counted as lost.
            ///
            /// # Errors
            /// The trace has ended already.
            pub fn finish(&self) -> Result<$crate::formats::Finished, $crate::events::record::RecordError> {
                self.0.ongoing.finish()
            }
        }

        impl std::fmt::Debug for Trace {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                let mut shown = f.debug_struct("Trace");
                shown.field("path", &self.0.place).field("keeps", &self.0.ongoing.keeps());
                $(shown.field(stringify!($shown), &self.0.$shown);)*
                shown.finish_non_exhaustive()
            }
        }
    };
}
pub(super) use methods_of_trace;
