//! The properties that distinguish one format of traces from the others.

use std::fmt;
use std::io;
use std::sync::Arc;

use super::progress::Progress;
use super::target::Target;
use super::worlds::Worlds;
use stopworld::events::Selection;
use stopworld::events::record::{Consumer, ConsumerId, Policy, RecordError, Recording, WorldNumber};
use stopworld::{Since, World};

/// A format of traces: the state that a trace of this format shares with its writer.
///
/// [`Options`](super::Options) and [`Trace`](super::Trace) have everything that is the same in each format. The trait can be implemented
/// only in this crate, because its methods take types that are not public.
pub trait Format: Send + Sync + Sized + 'static {
    /// The settings that a user chooses for a trace of this format.
    type Settings: fmt::Debug + Send + Sync + 'static;

    /// Makes the state of a new trace.
    fn begin(settings: Self::Settings, policy: Policy) -> Self;

    /// Returns the numbers that the writer publishes.
    fn progress(&self) -> &Arc<Progress>;

    /// Makes the writer of the trace.
    ///
    /// # Errors
    /// The system refused memory or a thread, or the format can't be written to this target.
    fn writer(&self, target: Target) -> io::Result<Box<dyn Consumer>>;

    /// Makes a writer for the records of a flight recorder.
    ///
    /// # Errors
    /// As [`writer`](Self::writer).
    fn replayer(&self, target: Target, recording: &Recording<Worlds>) -> io::Result<Box<dyn Consumer>> {
        let _ = recording;
        self.writer(target)
    }

    /// Returns the events to record of each world.
    fn selection(&self) -> Selection;

    /// Adds a world: publishes to the writer the facts about the world that it needs, and selects the world's events. No event of the world
    /// is recorded before that. Runs under the lock of the trace's worlds.
    ///
    /// # Errors
    /// The trace has ended.
    fn join(&self, joining: &Joining<'_>) -> Result<(), RecordError> {
        joining.select(self.selection())
    }

    /// Returns whether the writer receives the ends of worlds.
    fn has_ends(&self) -> bool {
        true
    }
}

/// A world that joins a trace.
#[derive(Clone, Copy, Debug)]
pub struct Joining<'a> {
    pub(super) world: &'a World,
    pub(super) number: WorldNumber,
    pub(super) since: Since,
    pub(super) consumer: ConsumerId,
}

impl Joining<'_> {
    /// Sets which events of the world are recorded from now on.
    pub(super) fn select(&self, selection: Selection) -> Result<(), RecordError> {
        self.world.events().select_recorded(self.consumer, selection)
    }
}
