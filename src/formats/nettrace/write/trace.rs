//! A trace that is being written: which worlds it is of, what it has, and how it ends.
//!
//! A process may have several at once, each with its own providers; none gets what only another asked for. A trace
//! outlives its worlds: one that is built later can join it, and its end is said by who started it.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use super::board::Board;
use super::encoder::{Head, opener};
use super::output::Outlet;
use super::providers::Providers;
use super::writer::{Plan, Writer};
use super::{Container, Destination};
use crate::events::Selection;
use crate::events::record::{Consumer, ConsumerTotals, FlightRecorder, Policy, RecordError, Recorder, Recording};
use crate::formats::Finished;
use crate::formats::complaint::Complaint;
use crate::formats::trace_error::{TraceError, c_path};
use crate::formats::worlds::{Worlds, flush_until};
use crate::sync::Ordering;
use crate::{World, WorldBuilder};

/// How a trace is to be.
#[derive(Debug)]
pub struct Options {
    to: To,
    providers: Providers,
    container: Container,
    policy: Policy,
    flight_bytes: Option<usize>,
    complaint: Complaint,
}

#[derive(Debug)]
enum To {
    File(PathBuf),
    Other(Box<dyn Destination>),
}

impl Options {
    /// A trace of the collections, as .NET's tools ask for them, into this file.
    pub fn new(path: impl Into<PathBuf>) -> Options {
        Options::with(To::File(path.into()))
    }

    /// The same to a place of one's own.
    pub fn to(destination: Box<dyn Destination>) -> Options {
        Options::with(To::Other(destination))
    }

    fn with(to: To) -> Options {
        Options {
            to,
            providers: Providers::default(),
            container: Container::V4,
            policy: Policy::Lossless,
            flight_bytes: None,
            complaint: Complaint::Returned,
        }
    }

    /// What the trace has.
    #[must_use]
    pub fn providers(self, providers: Providers) -> Options {
        Options { providers, ..self }
    }

    /// In which container.
    #[must_use]
    pub fn container(self, container: Container) -> Options {
        Options { container, ..self }
    }

    /// Whether threads wait when the writer is behind, or events are lost; as many as there are gaps in the trace.
    #[must_use]
    pub fn policy(self, policy: Policy) -> Options {
        Options { policy, ..self }
    }

    /// Keeps the last so many bytes of records in memory; [`Trace::write_flight`] writes them.
    #[must_use]
    pub fn flight_recorder(self, bytes: usize) -> Options {
        Options { flight_bytes: Some(bytes), ..self }
    }

    /// Tells on standard error, in one line and at once, when the file fails. `another` says what names another file.
    #[must_use]
    pub fn tell_failures(self, another: &'static str) -> Options {
        Options { complaint: Complaint::Told(another), ..self }
    }

    /// Starts the trace. It has no world yet.
    ///
    /// # Errors
    /// The path is none, or recording is not possible here.
    pub fn start(self) -> Result<Trace, TraceError> {
        let Options { to, providers, container, policy, flight_bytes, complaint } = self;
        let head = Head::now();
        let path = match &to {
            To::File(path) => Some(path.clone()),
            To::Other(_) => None,
        };
        let template = Template { providers, container, policy, head, complaint, board: Arc::new(Board::new()) };
        let consumer: Box<dyn Consumer> = match (to, flight_bytes) {
            (To::File(path), Some(bytes)) => {
                c_path(&path)?;
                Box::new(FlightRecorder::with_capacity(bytes)?)
            }
            (To::Other(_), Some(_)) => return Err(TraceError::FlightWithoutFile),
            (To::File(path), None) => {
                Box::new(template.writer(Outlet::to_file(c_path(&path)?, template.complaint.clone()))?)
            }
            (To::Other(destination), None) => Box::new(template.writer(Outlet::to(destination))?),
        };
        let recording = Recording::start(consumer, Worlds::default())?;
        Ok(Trace(Arc::new(Parts { recording, template, path, keeps: flight_bytes.is_some() })))
    }
}

/// What every writer of a trace is made of.
#[derive(Debug)]
struct Template {
    providers: Providers,
    container: Container,
    policy: Policy,
    head: Head,
    complaint: Complaint,
    board: Arc<Board>,
}

impl Template {
    fn writer(&self, outlet: Outlet) -> io::Result<Writer> {
        let plan = Plan {
            container: self.container,
            providers: &self.providers,
            policy: self.policy,
            head: self.head,
            opener: opener(),
        };
        Writer::new(&plan, Arc::clone(&self.board), outlet)
    }
}

/// A trace that is being written. Cheap to clone; clones are the same trace.
#[derive(Clone)]
pub struct Trace(Arc<Parts>);

struct Parts {
    recording: Recording<Worlds>,
    template: Template,
    path: Option<PathBuf>,
    /// Records go to memory, and to the file on demand.
    keeps: bool,
}

impl Trace {
    /// The file, if it is one.
    pub fn path(&self) -> Option<&Path> {
        self.0.path.as_deref()
    }

    /// From now on the world's events are in the trace. Who builds a world and wants all of its events says
    /// [`WorldBuilder::recorded_in`].
    ///
    /// # Errors
    /// The trace has ended, or too many worlds are recorded.
    pub fn record(&self, world: &World) -> Result<(), RecordError> {
        let inner = world.inner();
        let Parts { recording, template, .. } = &*self.0;
        let events = &inner.collector.events;
        recording.join(events, |worlds, number| {
            worlds.add(inner);
            template.board.note_limit(usize::from(number.0), inner.collector.heap.limit_bytes());
            events.select_recorded(recording.consumer(), Selection::of(template.providers.selection()))
        })
    }

    /// Brings everything that was fired before to the trace.
    ///
    /// # Errors
    /// The first error of the file, once.
    pub fn flush(&self) -> io::Result<()> {
        Recorder::of_process().flush()
    }

    /// Writes what the flight recorder has into the file, in place of what is there. Says how many events those were.
    ///
    /// # Errors
    /// There is no flight recorder, or the file failed.
    pub fn write_flight(&self) -> io::Result<u64> {
        let Parts { path: Some(path), template, .. } = &*self.0 else { return Err(io::ErrorKind::Unsupported.into()) };
        let path = c_path(path).map_err(io::Error::other)?;
        let mut writer = template.writer(Outlet::to_file(path, template.complaint.clone()))?;
        let recorder = Recorder::of_process();
        let events = recorder.replay(self.0.recording.consumer(), &mut writer)?;
        writer.close(&recorder.clock().relation())?;
        Ok(events)
    }

    /// The numbers so far.
    ///
    /// # Errors
    /// It has ended.
    pub fn totals(&self) -> Result<ConsumerTotals, RecordError> {
        self.0.recording.totals()
    }

    /// Waits until the ends of all its worlds are in the trace, those whose last handle has gone.
    pub fn wait_for_worlds(&self, within: Duration) {
        flush_until(within, || self.has_seen_all_ends());
    }

    fn has_seen_all_ends(&self) -> bool {
        let ended = &self.0.template.board.ended;
        let all_have_ended = |joined| self.0.keeps || ended.load(Ordering::Relaxed) >= joined;
        self.0.recording.with(|worlds| worlds.have_gone() && all_have_ended(worlds.joined()))
    }

    /// Ends the trace: everything is in it, or counted.
    ///
    /// # Errors
    /// It has ended already.
    pub fn finish(&self) -> Result<Finished, RecordError> {
        let ended = self.0.recording.end()?;
        let board = &self.0.template.board;
        Ok(Finished {
            totals: ended.totals,
            records: board.events.load(Ordering::Relaxed),
            bytes: board.bytes.load(Ordering::Relaxed),
            error: ended.error,
        })
    }
}

impl WorldBuilder {
    /// Lets the world's events, from its first on, go to this trace.
    #[must_use]
    pub fn recorded_in(self, trace: &Trace) -> Self {
        let trace = trace.clone();
        self.before_first_event(move |world| Ok(trace.record(world)?))
    }
}

impl fmt::Debug for Trace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Trace").field("path", &self.0.path).field("keeps", &self.0.keeps).finish_non_exhaustive()
    }
}
