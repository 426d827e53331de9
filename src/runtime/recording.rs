//! The interface by which a recording gets a world's events. It is the same for trace files, diagnostics sessions, and a program's own
//! recordings.

use std::sync::Arc;

use super::{World, WorldBuilder};
use crate::events::record::RecordError;

/// A recording that worlds can join: a trace file, a diagnostics socket. [`WorldBuilder::record_to`] and [`World::record_to`] pass
/// it the worlds.
///
/// A recording outlives its worlds, and may record several worlds at a time. Implementations usually subscribe a
/// [`Consumer`](crate::events::record::Consumer) to [`World::events`].
pub trait RecordWorld {
    /// Records the world's events from now on. Does nothing if this recording already has the world.
    ///
    /// # Errors
    /// The recording has ended, or the recorder has no place for another world.
    fn record_world(&self, world: &World, since: Since) -> Result<(), RecordError>;
}

/// Records to the shared recording.
impl<R: RecordWorld + ?Sized> RecordWorld for Arc<R> {
    fn record_world(&self, world: &World, since: Since) -> Result<(), RecordError> {
        (**self).record_world(world, since)
    }
}

/// Records to the recording if there is one.
impl<R: RecordWorld> RecordWorld for Option<R> {
    fn record_world(&self, world: &World, since: Since) -> Result<(), RecordError> {
        self.as_ref().map_or(Ok(()), |recording| recording.record_world(world, since))
    }
}

/// The first event of a world that a recording gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Since {
    /// The first event that the world fires: the recording sees its creation and all its threads.
    FirstEvent,
    /// The next event of a world that already exists. A format may need a description of its present state first.
    Now,
}

impl World {
    /// Records the world's events to `recording` from now on. To record all events of a world, its creation included, use
    /// [`WorldBuilder::record_to`]. Does nothing if the recording already has the world.
    ///
    /// # Errors
    /// The recording has ended, or the recorder has no place for another world.
    pub fn record_to(&self, recording: &(impl RecordWorld + ?Sized)) -> Result<(), RecordError> {
        recording.record_world(self, Since::Now)
    }
}

impl WorldBuilder {
    /// Records all events of the world, from the first one, to `recording`. May be called for several recordings. Building the
    /// world fails if it can't join one of them.
    #[must_use]
    pub fn record_to(self, recording: &(impl RecordWorld + Clone + Send + 'static)) -> Self {
        let recording = recording.clone();
        self.before_first_event(move |world| Ok(recording.record_world(world, Since::FirstEvent)?))
    }
}
