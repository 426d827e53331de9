//! A timeline that is being written: which worlds it is of, what it has, and how it ends.
//!
//! A process may have several, each with its own events. A timeline outlives its worlds: one that is built later can join
//! it, and its end is said by who started it.

use std::ffi::CString;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use super::writer::{Board, Plan, Writer};
use crate::events::clock::Clock;
use crate::events::record::{Consumer, ConsumerTotals, FlightRecorder, Policy, RecordError, Recorder, Recording};
use crate::events::{EventId, EventSet, Group, Selection};
use crate::formats::Finished;
use crate::formats::complaint::Complaint;
use crate::formats::outlet::Outlet;
use crate::formats::trace_error::{TraceError, c_path};
use crate::formats::worlds::{Worlds, flush_until};
use crate::os::thread::getpid;
use crate::sync::Ordering;
use crate::{World, WorldBuilder};

/// How a timeline is to be.
#[derive(Clone, Debug)]
pub struct Options {
    path: PathBuf,
    events: EventSet,
    policy: Policy,
    flight_bytes: Option<usize>,
    complaint: Complaint,
}

impl Options {
    /// A timeline in this file, of everything but what comes for each object, reference and block, what only says what addresses
    /// are called, and heap dumps, which would be made for it.
    pub fn new(path: impl Into<PathBuf>) -> Options {
        let many = EventSet::group(Group::Object) | EventSet::group(Group::Block);
        let names = [EventId::Interned, EventId::Labelled];
        let dumps = [EventId::DumpNode, EventId::DumpEdge, EventId::DumpRoot, EventId::DumpEnd, EventId::ObjectSampled];
        let others: EventSet = names.into_iter().chain(dumps).collect();
        let events = EventSet::all().without(many | others);
        Options {
            path: path.into(),
            events,
            policy: Policy::Lossless,
            flight_bytes: None,
            complaint: Complaint::Returned,
        }
    }

    /// Which events are drawn.
    #[must_use]
    pub fn events(self, events: EventSet) -> Options {
        Options { events, ..self }
    }

    /// Whether threads wait when the writer is behind, or events are lost.
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

    /// Starts the timeline. It has no world yet.
    ///
    /// # Errors
    /// The path is none, or recording is not possible here.
    pub fn start(self) -> Result<Trace, TraceError> {
        let Options { path, events: asked, policy, flight_bytes, complaint } = self;
        let c_path = c_path(&path)?;
        let clock = Clock::of_process();
        let arguments: Vec<_> = std::env::args_os().map(|word| word.to_string_lossy().into_owned()).collect();
        let plan = Plan {
            asked,
            policy,
            ticks: clock.now(),
            hz: clock.hz(),
            process: getpid() as u32,
            name: arguments.join(" ").into(),
        };
        let template = Template { plan, c_path, complaint, board: Arc::new(Board::new()) };
        let consumer: Box<dyn Consumer> = match flight_bytes {
            Some(bytes) => Box::new(FlightRecorder::with_capacity(bytes)?),
            None => Box::new(template.writer()?),
        };
        let recording = Recording::start(consumer, Worlds::default())?;
        Ok(Trace(Arc::new(Parts { recording, template, path, keeps: flight_bytes.is_some() })))
    }
}

/// What every writer of a timeline is made of.
#[derive(Debug)]
struct Template {
    plan: Plan,
    c_path: CString,
    complaint: Complaint,
    board: Arc<Board>,
}

impl Template {
    fn writer(&self) -> io::Result<Writer> {
        let outlet = Outlet::to_file(self.c_path.clone(), self.complaint.clone());
        Writer::new(self.plan.clone(), Arc::clone(&self.board), outlet)
    }

    /// What is drawn, and what must be known for it: what threads are called, and when a world ends.
    fn selection(&self) -> Selection {
        let mut events = self.plan.asked;
        events.insert(EventId::ThreadAttached);
        events.insert(EventId::WorldClosed);
        Selection::of(events)
    }
}

/// A timeline that is being written. Cheap to clone; clones are the same timeline.
#[derive(Clone)]
pub struct Trace(Arc<Parts>);

struct Parts {
    recording: Recording<Worlds>,
    template: Template,
    path: PathBuf,
    /// Records go to memory, and to the file on demand.
    keeps: bool,
}

impl Trace {
    /// The file.
    pub fn path(&self) -> &Path {
        &self.0.path
    }

    /// From now on the world's events are on the timeline. Who builds a world and wants all of its events says
    /// [`WorldBuilder::drawn_by`]. Threads that were there before have no name on it.
    ///
    /// # Errors
    /// The timeline has ended, or too many worlds are recorded.
    pub fn record(&self, world: &World) -> Result<(), RecordError> {
        let inner = world.inner();
        let Parts { recording, template, .. } = &*self.0;
        let events = &inner.collector.events;
        recording.join(events, |worlds, _| {
            worlds.add(inner);
            events.select_recorded(recording.consumer(), template.selection())
        })
    }

    /// Brings everything that was fired before to the file.
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
        if !self.0.keeps {
            return Err(io::ErrorKind::Unsupported.into());
        }
        let mut writer = self.0.template.writer()?;
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

    /// Waits until the ends of all its worlds are on the timeline, those whose last handle has gone.
    pub fn wait_for_worlds(&self, within: Duration) {
        flush_until(within, || self.has_seen_all_ends());
    }

    fn has_seen_all_ends(&self) -> bool {
        let ended = &self.0.template.board.ended;
        let all_have_ended = |joined| self.0.keeps || ended.load(Ordering::Relaxed) >= joined;
        self.0.recording.with(|worlds| worlds.have_gone() && all_have_ended(worlds.joined()))
    }

    /// Ends the timeline: everything is on it, or counted.
    ///
    /// # Errors
    /// It has ended already.
    pub fn finish(&self) -> Result<Finished, RecordError> {
        let ended = self.0.recording.end()?;
        let board = &self.0.template.board;
        Ok(Finished {
            totals: ended.totals,
            records: board.rows.load(Ordering::Relaxed),
            bytes: board.bytes.load(Ordering::Relaxed),
            error: ended.error,
        })
    }
}

impl WorldBuilder {
    /// Lets the world's events, from its first on, be drawn on this timeline.
    #[must_use]
    pub fn drawn_by(self, trace: &Trace) -> Self {
        let trace = trace.clone();
        self.before_first_event(move |world| Ok(trace.record(world)?))
    }
}

impl fmt::Debug for Trace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Trace").field("path", &self.0.path).field("keeps", &self.0.keeps).finish_non_exhaustive()
    }
}
