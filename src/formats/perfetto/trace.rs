//! A timeline that is being written: which worlds it is of, what it has, and how it ends.
//!
//! A process may have several, each with its own events. A timeline outlives its worlds: one that is built later can join
//! it, and its end is said by who started it.

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
use crate::{World, WorldBuilder};

/// How a timeline is to be.
#[derive(Clone, Debug)]
pub struct Options {
    path: PathBuf,
    events: EventSet,
    policy: Policy,
    manner: Manner,
}

methods_of_options!();

impl Options {
    /// A timeline in this file, of everything but what comes for each object, reference and block, what only says what addresses
    /// are called, and heap dumps, which would be made for it.
    pub fn new(path: impl Into<PathBuf>) -> Options {
        let many = EventSet::group(Group::Object) | EventSet::group(Group::Block);
        let names = [EventId::Interned, EventId::Labelled];
        let dumps = [EventId::DumpNode, EventId::DumpEdge, EventId::DumpRoot, EventId::DumpEnd, EventId::ObjectSampled];
        let others: EventSet = names.into_iter().chain(dumps).collect();
        let events = EventSet::all().without(many | others);
        Options { path: path.into(), events, policy: Policy::Lossless, manner: Manner::default() }
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

    /// Starts the timeline. It has no world yet.
    ///
    /// # Errors
    /// The path is none, or recording is not possible here.
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

/// What draws a timeline of all that there is at this place, for `fuzz/`.
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

/// A timeline that is being written. Cheap to clone; clones are the same timeline.
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
    /// The file.
    pub fn path(&self) -> &Path {
        self.0.place.path()
    }

    /// From now on the world's events are on the timeline. Who builds a world and wants all of its events says
    /// [`WorldBuilder::drawn_by`]. Threads that were there before have no name on it.
    ///
    /// # Errors
    /// The timeline has ended, or too many worlds are recorded.
    pub fn record(&self, world: &World) -> Result<(), RecordError> {
        let Parts { ongoing, plan, .. } = &*self.0;
        // What is drawn, and what must be known for it: what threads are called, and when a world ends.
        let mut events = plan.asked;
        events.insert(EventId::ThreadAttached);
        events.insert(EventId::WorldClosed);
        let inner = world.inner();
        ongoing.join(inner, |_| ongoing.select(inner, Selection::of(events)))
    }

    /// Writes what the flight recorder has into the file, in place of what is there. Says how many events those were.
    ///
    /// # Errors
    /// There is no flight recorder, or the file failed.
    pub fn write_flight(&self) -> io::Result<u64> {
        let Parts { ongoing, plan, progress, place } = &*self.0;
        ongoing.replay_to_end(Writer::new(plan.clone(), Arc::clone(progress), place.outlet())?)
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
