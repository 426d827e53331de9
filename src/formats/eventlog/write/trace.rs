//! A log that is being written: its options, its worlds, and its end.
//!
//! A process may write several logs at once, each with its own classes. A log outlives its worlds: a world built later can join
//! it. It ends when its owner calls [`Trace::finish`].

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::board::{Begun, Board, Facts, Present, Profiled};
use super::classes::Classes;
use super::process::Head;
use super::writer::{Plan, Writer};
use crate::events::clock::Clock;
use crate::events::record::{Policy, RecordError, WorldNumber};
use crate::events::{Label, Labels, Selection};
use crate::formats::TraceError;
use crate::formats::ongoing::{Manner, Ongoing, Place, methods_of_options, methods_of_trace};
use crate::profile::census::{Every, HeapProfile};
use crate::world::stop_info::ThreadStopInfo;
use crate::{RecordWorld, Since, World};

/// Options of a log.
#[derive(Debug)]
pub struct Options {
    path: PathBuf,
    classes: Classes,
    policy: Policy,
    manner: Manner,
}

methods_of_options!();

impl Options {
    /// A log with all classes of events, written to this file.
    pub fn new(path: impl Into<PathBuf>) -> Options {
        let (classes, manner) = (Classes::default(), Manner::default());
        Options { path: path.into(), classes, policy: Policy::Lossless, manner }
    }

    /// Selects the classes of events in the log.
    #[must_use]
    pub fn classes(self, classes: Classes) -> Options {
        Options { classes, ..self }
    }

    /// Sets what happens when the writer is too slow: threads wait, or events are lost. The log shows where events were lost, and how
    /// many.
    #[must_use]
    pub fn policy(self, policy: Policy) -> Options {
        Options { policy, ..self }
    }

    /// Starts the log, with no world yet.
    ///
    /// # Errors
    /// The path is invalid, or the process cannot record events.
    pub fn start(self) -> Result<Trace, TraceError> {
        let Options { path, classes, policy, manner } = self;
        let place = Place::new(path, manner.complaint.clone())?;
        let (plan, board) = (Plan { head: Head::now(), classes, policy }, Arc::new(Board::new()));
        let writer = || Writer::new(plan, Arc::clone(&board), place.outlet());
        let ongoing = Ongoing::start(&manner, &board.progress, writer)?;
        Ok(Trace(Arc::new(Parts { ongoing, plan, board, place })))
    }
}

/// Returns a writer that writes a log of all classes to this destination, for `fuzz/`.
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub fn consumer(
    to: Box<dyn crate::formats::outlet::Destination>,
) -> io::Result<Box<dyn crate::events::record::Consumer>> {
    use crate::formats::outlet::Outlet;
    let plan = Plan { head: Head::now(), classes: Classes::default(), policy: Policy::Lossless };
    Ok(Box::new(Writer::new(plan, Arc::new(Board::new()), Outlet::to(to))?))
}

/// A log that is being written. Cheap to clone; clones share one log.
#[derive(Clone)]
pub struct Trace(Arc<Parts>);

struct Parts {
    ongoing: Ongoing,
    plan: Plan,
    board: Arc<Board>,
    place: Place,
}

methods_of_trace!();

impl Trace {
    /// Returns the path of the file.
    pub fn path(&self) -> &Path {
        self.0.place.path()
    }

    /// Publishes a note of the attached threads and running profiles, whose beginnings may not be recorded. The caller holds the lock
    /// of the thread list, so no thread in the note has detached.
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

    /// Writes the flight recorder's events to the file, replacing its contents. Returns the number of events.
    ///
    /// # Errors
    /// There is no flight recorder, or the file failed.
    pub fn write_flight(&self) -> io::Result<u64> {
        let Parts { ongoing, plan, board, place } = &*self.0;
        // Threads whose attach events are not in the recorder any more are noted now.
        let living = ongoing.with(|worlds| worlds.living());
        let writer = ongoing.with(|_| {
            let before = board.last_note();
            for inner in &living {
                if let Some(number) = inner.collector.events.world_number() {
                    let profiled = board.profiled(usize::from(number.0));
                    // Do not wait for the lock: the thread that holds it may be the one that panics.
                    inner.collector.threads.look_now(|live| self.note(live, number, profiled));
                }
            }
            Writer::after(before, *plan, Arc::clone(board), place.outlet())
        });
        // A world whose last other handle was dropped meanwhile is closed here.
        drop(living);
        ongoing.replay_to_end(writer?)
    }
}

/// Describes a running profile, with its texts as labels.
fn begun(profile: &HeapProfile) -> Begun {
    let mut filters = [0; 7];
    for (kind, text) in profile.filters.texts() {
        if let Some(filter) = filters.get_mut(kind as usize) {
            // If there is no room for the label, the log does not show this filter of the profile.
            *filter = Labels::of_the_process().intern(&text).map_or(0, Label::get);
        }
    }
    let period_ns = match profile.every {
        Every::Time(period) => period.as_nanos() as u64,
        _ => 0,
    };
    Begun { period_ns, breakdown: profile.breakdown as u32, filters }
}

impl RecordWorld for Trace {
    fn record_world(&self, world: &World, _since: Since) -> Result<(), RecordError> {
        let inner = world.inner();
        let Parts { ongoing, board, plan, .. } = &*self.0;
        let collector = &inner.collector;
        ongoing.join(inner, |number| {
            let (limit, markers) = (collector.heap.limit_bytes(), collector.markers.count().into());
            board.note_facts(usize::from(number.0), Facts { limit, markers });
            ongoing.select(inner, Selection::of(plan.classes.events()))?;
            let heap = world.heap_profile().map(|profile| begun(&profile));
            let profiled = Profiled { heap, ticks_ns: inner.ticker.interval_ns(&collector.threads) };
            collector.threads.with_live(|live| self.note(live, number, profiled));
            Ok(())
        })
    }
}
