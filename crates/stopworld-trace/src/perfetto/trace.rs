//! A timeline: its settings, and the state that it shares with its writer.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use super::selection::usual;
use super::writer::{Writer, WriterSettings};
use crate::format::Format;
use crate::os::thread::getpid;
use crate::progress::Progress;
use crate::target::Target;
use stopworld::events::clock::Clock;
use stopworld::events::record::{Consumer, Policy};
use stopworld::events::{EventId, EventSet, Selection};

/// The Trace Event Format.
#[derive(Debug)]
pub struct Timeline {
    settings: WriterSettings,
    progress: Arc<Progress>,
}

/// Options of a timeline.
pub type Options = crate::Options<Timeline>;

/// A timeline that is being written.
pub type Trace = crate::Trace<Timeline>;

impl Options {
    /// Creates the options of a timeline of the [usual] events, which is written to this file.
    pub fn new(path: impl Into<PathBuf>) -> Options {
        Options::with_file(path.into(), usual())
    }

    /// Selects the events on the timeline.
    #[must_use]
    pub fn events(self, events: EventSet) -> Options {
        self.set(|settings| *settings = events)
    }
}

impl Format for Timeline {
    type Settings = EventSet;

    fn begin(asked: EventSet, policy: Policy) -> Timeline {
        let clock = Clock::of_process();
        let arguments: Vec<_> = std::env::args_os().map(|word| word.to_string_lossy().into_owned()).collect();
        let (ticks, hz) = (clock.now(), clock.hz());
        let settings =
            WriterSettings { asked, policy, ticks, hz, process: getpid() as u32, name: arguments.join(" ").into() };
        Timeline { settings, progress: Arc::default() }
    }

    fn progress(&self) -> &Arc<Progress> {
        &self.progress
    }

    fn writer(&self, target: Target) -> io::Result<Box<dyn Consumer>> {
        Ok(Box::new(Writer::new(self.settings.clone(), Arc::clone(&self.progress), target.trace_output())?))
    }

    /// Selects the events to draw, and two kinds that the writer needs: those with the names of threads, and the ends of worlds.
    fn selection(&self) -> Selection {
        let mut events = self.settings.asked;
        events.insert(EventId::ThreadAttached);
        events.insert(EventId::WorldClosed);
        Selection::of(events)
    }
}

/// Returns a writer that draws a timeline of all events to this destination, for `fuzz/`.
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub fn consumer(to: Box<dyn crate::trace_output::Destination>) -> io::Result<Box<dyn Consumer>> {
    let mut timeline = Timeline::begin(EventSet::all(), Policy::Lossless);
    (timeline.settings.process, timeline.settings.name) = (1, "fuzz".into());
    timeline.writer(Target::Destination(to))
}
