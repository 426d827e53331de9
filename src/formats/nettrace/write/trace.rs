//! A trace that is being written: which worlds it is of, what it has, and how it ends.
//!
//! A process may have several at once, each with its own providers; none gets what only another asked for. A trace
//! outlives its worlds: one that is built later can join it, and its end is said by who started it.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::board::Board;
use super::encoder::{Head, opener};
use super::output::Outlet;
use super::providers::Providers;
use super::writer::{Plan, Writer};
use super::{Container, Destination};
use crate::events::Selection;
use crate::events::record::{Policy, RecordError};
use crate::formats::TraceError;
use crate::formats::ongoing::{Manner, Ongoing, Place, methods_of_options, methods_of_trace};
use crate::{World, WorldBuilder};

/// How a trace is to be.
#[derive(Debug)]
pub struct Options {
    to: To,
    providers: Providers,
    container: Container,
    policy: Policy,
    manner: Manner,
}

methods_of_options!();

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
            manner: Manner::default(),
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

    /// Starts the trace. It has no world yet.
    ///
    /// # Errors
    /// The path is none, or recording is not possible here.
    pub fn start(self) -> Result<Trace, TraceError> {
        let Options { to, providers, container, policy, manner } = self;
        let template = Template { providers, container, policy, head: Head::now(), board: Arc::new(Board::new()) };
        let progress = &template.board.progress;
        let (ongoing, place) = match to {
            To::File(path) => {
                let place = Place::new(path, manner.complaint.clone())?;
                (Ongoing::start(&manner, progress, || template.writer(place.outlet()))?, Some(place))
            }
            To::Other(_) if manner.flight_bytes.is_some() => return Err(TraceError::FlightWithoutFile),
            To::Other(destination) => {
                (Ongoing::start(&manner, progress, || template.writer(Outlet::to(destination)))?, None)
            }
        };
        Ok(Trace(Arc::new(Parts { ongoing, template, place })))
    }
}

/// What every writer of a trace is made of.
#[derive(Debug)]
struct Template {
    providers: Providers,
    container: Container,
    policy: Policy,
    head: Head,
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

/// What writes a trace of all that there is to this place, for `fuzz/`.
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub fn consumer(
    container: Container,
    to: Box<dyn Destination>,
) -> io::Result<Box<dyn crate::events::record::Consumer>> {
    use super::providers::ProviderRequest;
    use super::schema::{DEFAULT, OWN, PRIVATE};
    let everything = |name: &str| ProviderRequest { name: name.to_owned(), keywords: u64::MAX, level: u32::MAX };
    let requests = [DEFAULT, PRIVATE, OWN].map(everything).into();
    let providers = Providers { requests, rundown: true };
    let board = Arc::new(Board::new());
    let template = Template { providers, container, policy: Policy::Lossless, head: Head::now(), board };
    Ok(Box::new(template.writer(Outlet::to(to))?))
}

/// A trace that is being written. Cheap to clone; clones are the same trace.
#[derive(Clone)]
pub struct Trace(Arc<Parts>);

struct Parts {
    ongoing: Ongoing,
    template: Template,
    place: Option<Place>,
}

methods_of_trace!();

impl Trace {
    /// The file, if it is one.
    pub fn path(&self) -> Option<&Path> {
        self.0.place.as_ref().map(Place::path)
    }

    /// From now on the world's events are in the trace. Who builds a world and wants all of its events says
    /// [`WorldBuilder::recorded_in`].
    ///
    /// # Errors
    /// The trace has ended, or too many worlds are recorded.
    pub fn record(&self, world: &World) -> Result<(), RecordError> {
        let inner = world.inner();
        let Parts { ongoing, template, .. } = &*self.0;
        ongoing.join(inner, |number| {
            template.board.note_limit(usize::from(number.0), inner.collector.heap.limit_bytes());
            ongoing.select(inner, Selection::of(template.providers.selection()))
        })
    }

    /// Writes what the flight recorder has into the file, in place of what is there. Says how many events those were.
    ///
    /// # Errors
    /// There is no flight recorder, or the file failed.
    pub fn write_flight(&self) -> io::Result<u64> {
        let Parts { ongoing, template, place: Some(place) } = &*self.0 else {
            return Err(io::ErrorKind::Unsupported.into());
        };
        ongoing.replay_to_end(template.writer(place.outlet())?)
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
