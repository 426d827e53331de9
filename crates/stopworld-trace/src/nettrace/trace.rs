//! A .NET trace: its settings, and the state that it shares with its writer.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use super::providers::Providers;
use super::sequencer::{Head, opener};
use super::shared_state::SharedState;
use super::writer::{Writer, WriterSettings};
use super::{Container, Destination};
use crate::format::{Format, Joining};
use crate::progress::Progress;
use crate::target::Target;
use stopworld::events::Selection;
use stopworld::events::record::{Consumer, Policy, RecordError};

/// The .NET format.
#[derive(Debug)]
pub struct Nettrace {
    settings: Settings,
    policy: Policy,
    head: Head,
    shared_state: Arc<SharedState>,
}

/// The settings that a user chooses for a .NET trace.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The requested events.
    pub providers: Providers,
    /// The container.
    pub container: Container,
}

/// Options of a .NET trace.
pub type Options = crate::Options<Nettrace>;

/// A .NET trace that is being written.
pub type Trace = crate::Trace<Nettrace>;

impl Options {
    /// Creates the options of a trace that is written to this file. By default it contains the collections: the events with the keyword GC
    /// at level Informational.
    pub fn new(path: impl Into<PathBuf>) -> Options {
        Options::with_file(path.into(), Settings { providers: Providers::default(), container: Container::V4 })
    }

    /// Like [`new`](Self::new), but the trace is written to a destination supplied by the caller.
    pub fn to(destination: Box<dyn Destination>) -> Options {
        Options::with_destination(destination, Settings { providers: Providers::default(), container: Container::V4 })
    }

    /// Selects the events in the trace.
    #[must_use]
    pub fn providers(self, providers: Providers) -> Options {
        self.set(|settings| settings.providers = providers)
    }

    /// Selects the container.
    #[must_use]
    pub fn container(self, container: Container) -> Options {
        self.set(|settings| settings.container = container)
    }
}

impl Format for Nettrace {
    type Settings = Settings;

    fn begin(settings: Settings, policy: Policy) -> Nettrace {
        Nettrace { settings, policy, head: Head::now(), shared_state: Arc::new(SharedState::new()) }
    }

    fn progress(&self) -> &Arc<Progress> {
        &self.shared_state.progress
    }

    fn writer(&self, target: Target) -> io::Result<Box<dyn Consumer>> {
        let Settings { providers, container } = &self.settings;
        let settings =
            WriterSettings { container: *container, providers, policy: self.policy, head: self.head, opener: opener() };
        Ok(Box::new(Writer::new(&settings, Arc::clone(&self.shared_state), target.trace_output())?))
    }

    fn selection(&self) -> Selection {
        Selection::of(self.settings.providers.selection())
    }

    fn join(&self, joining: &Joining<'_>) -> Result<(), RecordError> {
        self.shared_state.note(joining.number, joining.world);
        joining.select(Selection::of(self.settings.providers.selection_of(joining.world)))
    }
}

/// Returns a writer that writes a trace of all events to this destination, for `fuzz/`.
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub fn consumer(container: Container, to: Box<dyn Destination>) -> io::Result<Box<dyn Consumer>> {
    use super::providers::ProviderRequest;
    use super::schema::{DEFAULT, OWN, PRIVATE};
    let everything = |name: &str| ProviderRequest { name: name.to_owned(), keywords: u64::MAX, level: u32::MAX };
    let requests = [DEFAULT, PRIVATE, OWN].map(everything).into();
    let providers = Providers { requests, rundown: true };
    Nettrace::begin(Settings { providers, container }, Policy::Lossless).writer(Target::Destination(to))
}
