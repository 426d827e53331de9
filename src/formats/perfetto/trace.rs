//! A timeline that is being written: its options, its worlds, and its end.
//!
//! A process may write several timelines at once, each with its own events. A timeline outlives its worlds: a world built later
//! can join it. It ends when its owner calls [`Trace::finish`].

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::writer::{Plan, Writer};
use crate::events::clock::Clock;
use crate::events::record::{Policy, RecordError};
use crate::events::{EventId, EventSet, Group, Selection};
use crate::formats::TraceError;
use crate::formats::ongoing::{Manner, Ongoing, Place, Progress, methods_of_options, methods_of_trace};
use crate::os::thread::getpid;
use crate::{RecordWorld, Since, World};

/// Options of a timeline.
#[derive(Clone, Debug)]
pub struct Options {
    path: PathBuf,
    events: EventSet,
    policy: Policy,
    manner: Manner,
}

methods_of_options!();

impl Options {
    /// A timeline written to this file. The default selection has all events except those fired for each object, reference or
    /// block, those that only name addresses, and heap dumps, which would be made only for this trace.
    pub fn new(path: impl Into<PathBuf>) -> Options {
        let many = EventSet::group(Group::Object) | EventSet::group(Group::Block);
        let names = [EventId::Interned, EventId::Labelled];
        let dumps = [EventId::DumpNode, EventId::DumpEdge, EventId::DumpRoot, EventId::DumpEnd, EventId::ObjectSampled];
        let others: EventSet = names.into_iter().chain(dumps).collect();
        let events = EventSet::all().without(many | others);
        Options { path: path.into(), events, policy: Policy::Lossless, manner: Manner::default() }
    }

    /// Selects the events on the timeline.
    #[must_use]
    pub fn events(self, events: EventSet) -> Options {
        Options { events, ..self }
    }

    /// Sets what happens when the writer is too slow: threads wait, or events are lost.
    #[must_use]
    pub fn policy(self, policy: Policy) -> Options {
        Options { policy, ..self }
    }

    /// Starts the timeline, with no world yet.
    ///
    /// # Errors
    /// The path is invalid, or the process cannot record events.
    pub fn start(self) -> Result<Trace, TraceError> {
        let Options { path, events: asked, policy, manner } = self;
        let place = Place::new(path, manner.complaint.clone())?;
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
        let progress = Arc::default();
        let writer = || Writer::new(plan.clone(), Arc::clone(&progress), place.outlet());
        let ongoing = Ongoing::start(&manner, &progress, writer)?;
        Ok(Trace(Arc::new(Parts { ongoing, plan, progress, place })))
    }
}

/// Returns a writer that draws a timeline of all events to this destination, for `fuzz/`.
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub fn consumer(
    to: Box<dyn crate::formats::outlet::Destination>,
) -> io::Result<Box<dyn crate::events::record::Consumer>> {
    use crate::formats::outlet::Outlet;
    let clock = Clock::of_process();
    let (asked, policy) = (EventSet::all(), Policy::Lossless);
    let plan = Plan { asked, policy, ticks: clock.now(), hz: clock.hz(), process: 1, name: "fuzz".into() };
    Ok(Box::new(Writer::new(plan, Arc::default(), Outlet::to(to))?))
}

/// A timeline that is being written. Cheap to clone; clones share one timeline.
#[derive(Clone)]
pub struct Trace(Arc<Parts>);

struct Parts {
    ongoing: Ongoing,
    plan: Plan,
    progress: Arc<Progress>,
    place: Place,
}

methods_of_trace!();

impl Trace {
    /// Returns the path of the file.
    pub fn path(&self) -> &Path {
        self.0.place.path()
    }

    /// Writes the flight recorder's events to the file, replacing its contents. Returns the number of events.
    ///
    /// # Errors
    /// There is no flight recorder, or the file failed.
    pub fn write_flight(&self) -> io::Result<u64> {
        let Parts { ongoing, plan, progress, place } = &*self.0;
        ongoing.replay_to_end(Writer::new(plan.clone(), Arc::clone(progress), place.outlet())?)
    }
}

impl RecordWorld for Trace {
    fn record_world(&self, world: &World, _since: Since) -> Result<(), RecordError> {
        let Parts { ongoing, plan, .. } = &*self.0;
        // The events to draw, and two that the writer needs: the names of threads, and the ends of worlds.
        let mut events = plan.asked;
        events.insert(EventId::ThreadAttached);
        events.insert(EventId::WorldClosed);
        let inner = world.inner();
        ongoing.join(inner, |_| ongoing.select(inner, Selection::of(events)))
    }
}
