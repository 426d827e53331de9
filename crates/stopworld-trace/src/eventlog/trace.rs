//! An eventlog: its settings, and the state that it shares with its writer.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use super::classes::Classes;
use super::process::Head;
use super::shared_state::{Facts, Note, RunningProfile, RunningProfiles, SharedState};
use super::writer::{Writer, WriterSettings};
use crate::format::{Format, Joining};
use crate::notes::ExistingThread;
use crate::progress::Progress;
use crate::target::Target;
use crate::worlds::Worlds;
use stopworld::ThreadInfo;
use stopworld::events::clock::Clock;
use stopworld::events::record::{Consumer, Policy, RecordError, Recording, WorldNumber};
use stopworld::events::{Label, Labels, Selection};
use stopworld::profile::census::{Every, HeapProfile};

/// The GHC eventlog format.
#[derive(Debug)]
pub struct Eventlog {
    settings: WriterSettings,
    shared_state: Arc<SharedState>,
}

/// Options of an eventlog.
pub type Options = crate::Options<Eventlog>;

/// An eventlog that is being written.
pub type Trace = crate::Trace<Eventlog>;

impl Options {
    /// Creates the options of a log with all classes of events, which is written to this file.
    pub fn new(path: impl Into<PathBuf>) -> Options {
        Options::with_file(path.into(), Classes::default())
    }

    /// Selects the classes of events in the log.
    #[must_use]
    pub fn classes(self, classes: Classes) -> Options {
        self.set(|settings| *settings = classes)
    }
}

impl Format for Eventlog {
    type Settings = Classes;

    fn begin(classes: Classes, policy: Policy) -> Eventlog {
        Eventlog {
            settings: WriterSettings { head: Head::now(), classes, policy },
            shared_state: Arc::new(SharedState::new()),
        }
    }

    fn progress(&self) -> &Arc<Progress> {
        &self.shared_state.progress
    }

    fn writer(&self, target: Target) -> io::Result<Box<dyn Consumer>> {
        Ok(Box::new(Writer::new(self.settings, Arc::clone(&self.shared_state), target.trace_output())?))
    }

    /// Also notes the attached threads, because the recorder may have overwritten their attach events.
    fn replayer(&self, target: Target, recording: &Recording<Worlds>) -> io::Result<Box<dyn Consumer>> {
        let living = recording.with(|worlds| worlds.living());
        let writer = recording.with(|_| {
            let before = self.shared_state.notes.count();
            for world in &living {
                if let Some(number) = world.events().world_number() {
                    let profiled = self.shared_state.profiled(usize::from(number.0));
                    // Do not wait for the lock: the thread that holds it may be the one that panics.
                    world.try_with_threads(|threads| self.note(threads, number, profiled));
                }
            }
            Writer::after(before, self.settings, Arc::clone(&self.shared_state), target.trace_output())
        });
        // A world whose last other handle was dropped meanwhile is closed here.
        drop(living);
        Ok(Box::new(writer?))
    }

    fn selection(&self) -> Selection {
        Selection::of(self.settings.classes.events())
    }

    fn join(&self, joining: &Joining<'_>) -> Result<(), RecordError> {
        let Joining { world, number, .. } = *joining;
        let facts = world.facts();
        let (limit, markers) = (facts.limit_bytes, facts.markers.into());
        self.shared_state.note_facts(usize::from(number.0), Facts { limit, markers });
        joining.select(self.selection())?;
        let heap = world.heap_profile().map(|profile| begun(&profile));
        let profiled =
            RunningProfiles { heap, ticks_ns: world.tick_interval().map(|interval| interval.as_nanos() as u64) };
        world.with_threads(|threads| self.note(threads, number, profiled));
        Ok(())
    }
}

impl Eventlog {
    /// Publishes a note of the attached threads and the running profiles, because the events of their beginnings may not be in the log. The
    /// caller ensures that no thread attaches or detaches meanwhile, so no thread in the note has detached.
    fn note(&self, threads: &[ThreadInfo], number: WorldNumber, profiled: RunningProfiles) {
        let threads = ExistingThread::all(threads);
        if !threads.is_empty() || profiled.is_some() {
            let ticks = Clock::of_process().now();
            self.shared_state.notes.push(Note { world: usize::from(number.0), ticks, threads, profiled });
        }
    }
}

/// Describes a running profile, with its texts as labels.
fn begun(profile: &HeapProfile) -> RunningProfile {
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
    RunningProfile { period_ns, breakdown: profile.breakdown as u32, filters }
}

/// Returns a writer that writes a log of all classes to this destination, for `fuzz/`.
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub fn consumer(to: Box<dyn crate::trace_output::Destination>) -> io::Result<Box<dyn Consumer>> {
    Eventlog::begin(Classes::default(), Policy::Lossless).writer(Target::Destination(to))
}
