//! A trace that is being written: its options, its worlds, and its end.
//!
//! A process may write several traces at once, each with only the events that its own providers request. A trace outlives its
//! worlds: a world built later can join it. It ends when its owner calls [`Trace::finish`].

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
use crate::{RecordWorld, Since, World};

/// Options of a trace.
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
    /// A trace written to this file. By default it has the collections, with the keyword GC at level Informational.
    pub fn new(path: impl Into<PathBuf>) -> Options {
        Options::with(To::File(path.into()))
    }

    /// As [`new`](Self::new), but written to a destination supplied by the caller.
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

    /// Selects the events in the trace.
    #[must_use]
    pub fn providers(self, providers: Providers) -> Options {
        Options { providers, ..self }
    }

    /// Selects the container.
    #[must_use]
    pub fn container(self, container: Container) -> Options {
        Options { container, ..self }
    }

    /// Sets what happens when the writer is too slow: threads wait, or events are lost. The gaps in the sequence numbers of the trace
    /// show how many were lost.
    #[must_use]
    pub fn policy(self, policy: Policy) -> Options {
        Options { policy, ..self }
    }

    /// Starts the trace, with no world yet.
    ///
    /// # Errors
    /// The path is invalid, a flight recorder has no file, or the process cannot record events.
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

/// The settings of every writer of a trace.
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

/// Returns a writer that writes a trace of all events to this destination, for `fuzz/`.
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

/// A trace that is being written. Cheap to clone; clones share one trace.
#[derive(Clone)]
pub struct Trace(Arc<Parts>);

struct Parts {
    ongoing: Ongoing,
    template: Template,
    place: Option<Place>,
}

methods_of_trace!();

impl Trace {
    /// Returns the path of the file, or `None` if the trace is written to a [`Destination`].
    pub fn path(&self) -> Option<&Path> {
        self.0.place.as_ref().map(Place::path)
    }

    /// Writes the flight recorder's events to the file, replacing its contents. Returns the number of events.
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

impl RecordWorld for Trace {
    fn record_world(&self, world: &World, _since: Since) -> Result<(), RecordError> {
        let inner = world.inner();
        let Parts { ongoing, template, .. } = &*self.0;
        ongoing.join(inner, |number| {
            template.board.note_limit(usize::from(number.0), inner.collector.heap.limit_bytes());
            ongoing.select(inner, Selection::of(template.providers.selection()))
        })
    }
}
