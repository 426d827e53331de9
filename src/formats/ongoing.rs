//! A trace that is being written, whatever its format.
//!
//! ```text
//!   Options ──start──► Trace ──record(&world)… ──finish──► Finished
//!     Manner             Ongoing ── Recording ──► Writer ─────────► Place      as it happens,
//!                           ▲           │            │
//!                           │           └──► FlightRecorder ┄┄┄┄┄► Place      or kept in memory, and written on demand
//!                           └───────── Progress ◄────┘
//! ```
//!
//! A format has `Options` and a `Trace` of its own: which events it takes, what its writer must know of a world that joins, and
//! how a flight recorder's records become a file. Everything else is here. The public methods that are the same in each are
//! written out by [`methods_of_options`] and [`methods_of_trace`], so that each type has them as its own.

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

/// How a trace is to be written, whatever is in it.
#[derive(Clone, Debug)]
pub(super) struct Manner {
    /// So many bytes of records are kept in memory, instead of written as they come.
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
    /// The same as the system takes it, made before a drain needs it.
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

/// How long worlds may take to end whose trace has failed: nobody sees their ends in it.
const WHEN_FAILED: Duration = Duration::from_millis(500);

/// What a writer has done, for the owner of its trace: numbers, each by itself.
#[derive(Debug, Default)]
pub(super) struct Progress {
    records: AtomicU64,
    bytes: AtomicU64,
    /// Worlds of which it has told the end.
    ended: AtomicU64,
}

impl Progress {
    /// This is in the file.
    pub(super) fn is(&self, records: u64, bytes: u64) {
        self.records.store(records, Ordering::Relaxed);
        self.bytes.store(bytes, Ordering::Relaxed);
    }

    pub(super) fn a_world_ended(&self) {
        self.ended.fetch_add(1, Ordering::Relaxed);
    }
}

/// See the module's text.
#[derive(Debug)]
pub(super) struct Ongoing {
    recording: Recording<Worlds>,
    progress: Arc<Progress>,
    keeps: bool,
}

impl Ongoing {
    /// Begins, with no world yet. The writer is made if records are to be written as they come.
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

    /// Begins with a writer that is there already.
    pub(super) fn following(writer: Box<dyn Consumer>, progress: Arc<Progress>) -> Result<Ongoing, RecordError> {
        let recording = Recording::start(writer, Worlds::with_ends(Ends::Come))?;
        Ok(Ongoing { recording, progress, keeps: false })
    }

    /// Records go to memory, and to the file on demand.
    pub(super) fn keeps(&self) -> bool {
        self.keeps
    }

    /// Runs `f` with the worlds, by one thread at a time.
    pub(super) fn with<R>(&self, f: impl FnOnce(&mut Worlds) -> R) -> R {
        self.recording.with(f)
    }

    /// A world joins; `meet` is to [`select`](Self::select). One that has joined before stays as it is.
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

    /// From now on these events of a world are in the trace.
    pub(super) fn select(&self, world: &Inner, selection: Selection) -> Result<(), RecordError> {
        world.collector.events.select_recorded(self.recording.consumer(), selection)
    }

    /// Writes what is kept with this writer, and closes it. Returns the number of events.
    pub(super) fn replay_to_end(&self, mut writer: impl Consumer) -> io::Result<u64> {
        if !self.keeps {
            return Err(io::Error::new(
                io::ErrorKind::Unsupported,
                "it keeps nothing in memory: start it with Options::flight_recorder",
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
            // An error is told where the trace ends.
            let _ = Recorder::of_process().flush();
        }
    }

    fn has_seen_all_ends(&self) -> bool {
        self.with(|worlds| worlds.have_ended(self.progress.ended.load(Ordering::Relaxed)))
    }

    /// The file takes no more, and no ends either: they are counted as lost.
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

/// What the `Options` of each format offer that have a `manner`.
macro_rules! methods_of_options {
    () => {
        impl Options {
            /// Keeps the last so many bytes of records in memory; [`Trace::write_flight`] writes them.
            #[must_use]
            pub fn flight_recorder(mut self, bytes: usize) -> Options {
                self.manner.flight_bytes = Some(bytes);
                self
            }

            /// Tells on standard error, in one line and at once, when the file fails. `another` says what names another file.
            #[must_use]
            pub fn tell_failures(mut self, another: &'static str) -> Options {
                self.manner.complaint = $crate::formats::complaint::Complaint::Told(another);
                self
            }
        }
    };
}
pub(super) use methods_of_options;

/// What the `Trace` of each format offers, whose parts are an `ongoing` and a `place`. Parts that show which trace it is are
/// named.
macro_rules! methods_of_trace {
    ($($shown:ident),*) => {
        impl Trace {
            /// Brings everything that was fired before to the trace.
            ///
            /// # Errors
            /// The first error of the file, once.
            pub fn flush(&self) -> std::io::Result<()> {
                $crate::events::record::Recorder::of_process().flush()
            }

            /// The numbers so far.
            ///
            /// # Errors
            /// It has ended.
            pub fn totals(
                &self,
            ) -> Result<$crate::events::record::ConsumerTotals, $crate::events::record::RecordError> {
                self.0.ongoing.totals()
            }

            /// Waits until the ends of all its worlds are in the trace, those whose last handle has gone.
            pub fn wait_for_worlds(&self, within: std::time::Duration) {
                self.0.ongoing.wait_for_worlds(within);
            }

            /// Ends the trace: everything is in it, or counted.
            ///
            /// # Errors
            /// It has ended already.
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
