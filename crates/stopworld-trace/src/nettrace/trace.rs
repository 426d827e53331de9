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
use crate::worlds::Worlds;
use stopworld::events::Selection;
use stopworld::events::record::{Consumer, Policy, RecordError, Recording};

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
        self.writer_after(0, target)
    }

    /// Also notes the attached threads, because the recorder may have overwritten their attach events.
    fn replayer(&self, target: Target, recording: &Recording<Worlds>) -> io::Result<Box<dyn Consumer>> {
        let living = recording.with(|worlds| worlds.living());
        let noted = recording.with(|_| {
            let noted = self.shared_state.threads.count();
            for world in &living {
                // Do not wait for the lock: the thread that holds it may be the one that panics.
                world.try_with_threads(|threads| self.shared_state.note_threads(threads));
            }
            noted
        });
        // A world whose last other handle was dropped meanwhile is closed here.
        drop(living);
        self.writer_after(noted, target)
    }

    fn selection(&self) -> Selection {
        Selection::of(self.settings.providers.selection())
    }

    fn join(&self, joining: &Joining<'_>) -> Result<(), RecordError> {
        self.shared_state.note(joining.number, joining.world);
        joining.select(Selection::of(self.settings.providers.selection_of(joining.world)))?;
        joining.world.with_threads(|threads| self.shared_state.note_threads(threads));
        Ok(())
    }
}

impl Nettrace {
    /// Makes a writer that ignores the first `noted` notes of threads.
    fn writer_after(&self, noted: u64, target: Target) -> io::Result<Box<dyn Consumer>> {
        let Settings { providers, container } = &self.settings;
        let (container, policy, head) = (*container, self.policy, self.head);
        let settings = WriterSettings { container, providers, policy, head, opener: opener(), noted };
        Ok(Box::new(Writer::new(&settings, Arc::clone(&self.shared_state), target.trace_output())?))
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
