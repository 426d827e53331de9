//! A profile that is being written as text: of which worlds, and how it ends.

use std::ffi::CString;
use std::fmt;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use super::{hp, prof};
use crate::events::Selection;
use crate::events::record::{Consumer, ConsumerTotals, RecordError, Recorder, Recording};
use crate::formats::Finished;
use crate::formats::complaint::Complaint;
use crate::formats::outlet::Outlet;
use crate::formats::worlds::{Worlds, flush_until};
use crate::os::clock::now_ns;
use crate::sync::{AtomicU64, Ordering};
use crate::{World, WorldBuilder};

/// Which profile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The heap's, as `.hp`.
    Heap,
    /// That of time, as `.prof`.
    Time,
}

/// What the owner and the writer know of each other: numbers, each by itself.
#[derive(Debug)]
pub(super) struct Board {
    /// Samples, or ticks.
    pub(super) records: AtomicU64,
    pub(super) bytes: AtomicU64,
    /// Worlds that have ended.
    pub(super) ended: AtomicU64,
}

/// How a profile is to be written.
#[derive(Debug)]
pub struct Options {
    path: PathBuf,
    kind: Kind,
    complaint: Complaint,
}

impl Options {
    /// A profile of this kind, into this file.
    pub fn new(path: impl Into<PathBuf>, kind: Kind) -> Options {
        Options { path: path.into(), kind, complaint: Complaint::Returned }
    }

    /// Tells on standard error, in one line and at once, when the file fails. `another` says what names another file.
    #[must_use]
    pub fn tell_failures(self, another: &'static str) -> Options {
        Options { complaint: Complaint::Told(another), ..self }
    }

    /// Starts. It has no world yet.
    ///
    /// # Errors
    /// Recording is not possible here; or, as invalid input, the path holds a byte 0.
    pub fn start(self) -> Result<Trace, RecordError> {
        let Options { path, kind, complaint } = self;
        let c_path = CString::new(path.as_os_str().as_bytes()).map_err(io::Error::from)?;
        let counter = || AtomicU64::new(0);
        let board = Arc::new(Board { records: counter(), bytes: counter(), ended: counter() });
        let words: Vec<_> = std::env::args_os().map(|word| word.to_string_lossy().into_owned()).collect();
        let (job, began, outlet) = (words.join(" "), now_ns(), Outlet::to_file(c_path, complaint));
        let consumer: Box<dyn Consumer> = match kind {
            Kind::Heap => Box::new(hp::Writer::new(&job, began, Arc::clone(&board), outlet)),
            Kind::Time => Box::new(prof::Writer::new(&job, began, Arc::clone(&board), outlet)),
        };
        let recording = Recording::start(consumer, Worlds::default())?;
        Ok(Trace(Arc::new(Parts { recording, kind, board, path })))
    }
}

/// A profile that is being written. Cheap to clone; clones are the same one.
#[derive(Clone)]
pub struct Trace(Arc<Parts>);

struct Parts {
    recording: Recording<Worlds>,
    kind: Kind,
    board: Arc<Board>,
    path: PathBuf,
}

impl Trace {
    /// The file.
    pub fn path(&self) -> &Path {
        &self.0.path
    }

    /// From now on the world's profile is in the file, if it is profiled.
    ///
    /// # Errors
    /// The profile has ended, or too many worlds are recorded.
    pub fn record(&self, world: &World) -> Result<(), RecordError> {
        let inner = world.inner();
        let Parts { recording, kind, .. } = &*self.0;
        let events = &inner.collector.events;
        recording.join(events, |worlds, _| {
            worlds.add(inner);
            let wanted = match kind {
                Kind::Heap => hp::events(),
                Kind::Time => prof::events(),
            };
            events.select_recorded(recording.consumer(), Selection::of(wanted))
        })
    }

    /// Brings everything that was told before to the file. Of a time profile, that is nothing.
    ///
    /// # Errors
    /// The first error of the file, once.
    pub fn flush(&self) -> io::Result<()> {
        Recorder::of_process().flush()
    }

    /// The numbers so far.
    ///
    /// # Errors
    /// It has ended.
    pub fn totals(&self) -> Result<ConsumerTotals, RecordError> {
        self.0.recording.totals()
    }

    /// Waits until the ends of all its worlds have come, those whose last handle has gone.
    pub fn wait_for_worlds(&self, within: Duration) {
        let ended = &self.0.board.ended;
        flush_until(within, || {
            self.0.recording.with(|worlds| worlds.have_gone() && ended.load(Ordering::Relaxed) >= worlds.joined())
        });
    }

    /// Ends it: everything is in the file, or counted.
    ///
    /// # Errors
    /// It has ended already.
    pub fn finish(&self) -> Result<Finished, RecordError> {
        let ended = self.0.recording.end()?;
        Ok(Finished {
            totals: ended.totals,
            records: self.0.board.records.load(Ordering::Relaxed),
            bytes: self.0.board.bytes.load(Ordering::Relaxed),
            error: ended.error,
        })
    }
}

impl WorldBuilder {
    /// Lets the world's profile go to this file.
    #[must_use]
    pub fn profiled_in(self, trace: &Trace) -> Self {
        let trace = trace.clone();
        self.before_first_event(move |world| Ok(trace.record(world)?))
    }
}

impl fmt::Debug for Trace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Trace").field("path", &self.0.path).field("kind", &self.0.kind).finish_non_exhaustive()
    }
}
