//! A log that is being written: which worlds it is of, what it has, and how it ends.
//!
//! A process may have several at once, each with its own classes. A log outlives its worlds: one that is built later can
//! join it, and its end is said by who started it.

use std::ffi::CString;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use super::board::{Begun, Board, Facts, Present, Profiled};
use super::classes::Classes;
use super::process::Head;
use super::writer::{Plan, Writer};
use crate::events::clock::Clock;
use crate::events::record::{
    Consumer, ConsumerTotals, FlightRecorder, Policy, RecordError, Recorder, Recording, WorldNumber,
};
use crate::events::{Label, Labels, Selection};
use crate::formats::Finished;
use crate::formats::complaint::Complaint;
use crate::formats::outlet::Outlet;
use crate::formats::trace_error::{TraceError, c_path};
use crate::formats::worlds::{Worlds, flush_until};
use crate::profile::census::{Every, HeapProfile};
use crate::sync::Ordering;
use crate::world::stop_info::ThreadStopInfo;
use crate::{World, WorldBuilder};

/// How a log is to be.
#[derive(Debug)]
pub struct Options {
    path: PathBuf,
    classes: Classes,
    policy: Policy,
    flight_bytes: Option<usize>,
    complaint: Complaint,
}

impl Options {
    /// A log with all classes of events, into this file.
    pub fn new(path: impl Into<PathBuf>) -> Options {
        let classes = Classes::default();
        let (policy, complaint) = (Policy::Lossless, Complaint::Returned);
        Options { path: path.into(), classes, policy, flight_bytes: None, complaint }
    }

    /// What the log has.
    #[must_use]
    pub fn classes(self, classes: Classes) -> Options {
        Options { classes, ..self }
    }

    /// Whether threads wait when the writer is behind, or events are lost; the log says where, and how many.
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

    /// Starts the log. It has no world yet.
    ///
    /// # Errors
    /// The path is none, or recording is not possible here.
    pub fn start(self) -> Result<Trace, TraceError> {
        let Options { path, classes, policy, flight_bytes, complaint } = self;
        let c_path = c_path(&path)?;
        let (plan, board) = (Plan { head: Head::now(), classes, policy }, Arc::new(Board::new()));
        let consumer: Box<dyn Consumer> = match flight_bytes {
            Some(bytes) => Box::new(FlightRecorder::with_capacity(bytes)?),
            None => {
                let outlet = Outlet::to_file(c_path.clone(), complaint.clone());
                Box::new(Writer::new(plan, Arc::clone(&board), outlet)?)
            }
        };
        let keeps = flight_bytes.is_some();
        let recording = Recording::start(consumer, Worlds::default())?;
        Ok(Trace(Arc::new(Parts { recording, plan, board, path, c_path, complaint, keeps })))
    }
}

/// A log that is being written. Cheap to clone; clones are the same log.
#[derive(Clone)]
pub struct Trace(Arc<Parts>);

struct Parts {
    recording: Recording<Worlds>,
    plan: Plan,
    board: Arc<Board>,
    path: PathBuf,
    c_path: CString,
    complaint: Complaint,
    /// Records go to memory, and to the file on demand.
    keeps: bool,
}

impl Trace {
    /// The file.
    pub fn path(&self) -> &Path {
        &self.0.path
    }

    /// From now on the world's events are in the log. Who builds a world and wants all of its events says
    /// [`WorldBuilder::logged_in`].
    ///
    /// # Errors
    /// The log has ended, or too many worlds are recorded.
    pub fn record(&self, world: &World) -> Result<(), RecordError> {
        let inner = world.inner();
        let Parts { recording, board, plan, .. } = &*self.0;
        let collector = &inner.collector;
        recording.join(&collector.events, |worlds, number| {
            worlds.add(inner);
            let (limit, markers) = (collector.heap.limit_bytes(), collector.markers.count().into());
            board.note_facts(usize::from(number.0), Facts { limit, markers });
            collector.events.select_recorded(recording.consumer(), Selection::of(plan.classes.events()))?;
            let heap = world.heap_profile().map(|profile| begun(&profile));
            let profiled = Profiled { heap, ticks_ns: inner.ticker.interval_ns(&collector.threads) };
            collector.threads.with_live(|live| self.note(live, number, profiled));
            Ok(())
        })
    }

    /// Leaves a note of what is there, in case its coming is not recorded. With the list of threads locked: nobody has left who
    /// is noted.
    fn note(&self, live: &[&'static ThreadStopInfo], number: WorldNumber, profiled: Profiled) {
        let present = live.iter().map(|record| {
            let label = Labels::of_the_process().label_of(std::ptr::from_ref(*record) as usize);
            Present { tid: record.tid().0 as u32, label: label.map_or(0, Label::get) }
        });
        let present: Box<[Present]> = present.collect();
        if !present.is_empty() || profiled.is_some() {
            self.0.board.note(usize::from(number.0), Clock::of_process().now(), present, profiled);
        }
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
        let Parts { recording, plan, board, c_path, complaint, .. } = &*self.0;
        let outlet = Outlet::to_file(c_path.clone(), complaint.clone());
        // Whose coming is not among what is kept, and who is there: they are asked now.
        let living = recording.with(|worlds| worlds.living());
        let writer = recording.with(|_| {
            let before = board.last_note();
            for inner in &living {
                if let Some(number) = inner.collector.events.world_number() {
                    let profiled = board.profiled(usize::from(number.0));
                    // Whoever has the list in his hands now may be the very thread that panics.
                    inner.collector.threads.look_now(|live| self.note(live, number, profiled));
                }
            }
            Writer::after(before, *plan, Arc::clone(board), outlet)
        });
        // A world whose last handle went meanwhile ends here.
        drop(living);
        let mut writer = writer?;
        let recorder = Recorder::of_process();
        let events = recorder.replay(recording.consumer(), &mut writer)?;
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

    /// Waits until the ends of all its worlds are in the log, those whose last handle has gone.
    pub fn wait_for_worlds(&self, within: Duration) {
        flush_until(within, || self.has_seen_all_ends());
    }

    fn has_seen_all_ends(&self) -> bool {
        let ended = &self.0.board.ended;
        let all_have_ended = |joined| self.0.keeps || ended.load(Ordering::Relaxed) >= joined;
        self.0.recording.with(|worlds| worlds.have_gone() && all_have_ended(worlds.joined()))
    }

    /// Ends the log: everything is in it, or counted.
    ///
    /// # Errors
    /// It has ended already.
    pub fn finish(&self) -> Result<Finished, RecordError> {
        let ended = self.0.recording.end()?;
        Ok(Finished {
            totals: ended.totals,
            records: self.0.board.events.load(Ordering::Relaxed),
            bytes: self.0.board.bytes.load(Ordering::Relaxed),
            error: ended.error,
        })
    }
}

/// A profile that runs, in labels.
fn begun(profile: &HeapProfile) -> Begun {
    let mut filters = [0; 7];
    for (kind, text) in profile.filters.texts() {
        if let Some(filter) = filters.get_mut(kind as usize) {
            // Without room for it the profile has this filter, and the log does not say so.
            *filter = Labels::of_the_process().intern(&text).map_or(0, Label::get);
        }
    }
    let period_ns = match profile.every {
        Every::Time(period) => period.as_nanos() as u64,
        _ => 0,
    };
    Begun { period_ns, breakdown: profile.breakdown as u32, filters }
}

impl WorldBuilder {
    /// Lets the world's events, from its first on, go to this log.
    #[must_use]
    pub fn logged_in(self, trace: &Trace) -> Self {
        let trace = trace.clone();
        self.before_first_event(move |world| Ok(trace.record(world)?))
    }
}

impl fmt::Debug for Trace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Trace").field("path", &self.0.path).field("keeps", &self.0.keeps).finish_non_exhaustive()
    }
}
