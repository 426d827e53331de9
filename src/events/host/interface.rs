//! The trait that a host implements, the data that it receives, and the errors of its calls.

use std::fmt;
use std::time::Duration;

use crate::events::record::{RecordError, RecordingThread, WorldNumber};

/// What is known about an event in addition to its payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    /// The time at which the event happened, by CLOCK_MONOTONIC, in nanoseconds.
    pub ns: u64,
    /// The thread that fired the event.
    pub thread: RecordingThread,
    /// The world to which the event belongs.
    pub world: WorldNumber,
    /// The version of the payload.
    pub version: u8,
}

/// A program that receives the events of a world. One thread calls it, one call at a time, with the events in order of time (as
/// [`Consumer`](crate::events::record::Consumer) says).
///
/// A host may allocate, take locks, wait, and change its selection. It must not wait for something that happens only after it has
/// returned: [`HostConnection::flush`](super::HostConnection::flush) and
/// [`HostConnection::end`](super::HostConnection::end) fail or return at once when the host calls them. If the host panics, its
/// connection ends.
pub trait Host: Send + Sync + 'static {
    /// Receives an event: its number in the table, and its payload, with the fields in order, little-endian, without padding.
    fn fire_event(&self, event_id: u32, payload: &[u8]);

    /// Receives an event with its time, thread and world. The serving thread calls only this function; the default implementation calls
    /// [`fire_event`](Self::fire_event).
    fn fire_stamped_event(&self, event_id: u32, payload: &[u8], stamp: &Stamp) {
        let _ = stamp;
        self.fire_event(event_id, payload);
    }

    /// Reports that `count` events are missing at this place.
    fn events_lost(&self, count: u64) {
        let _ = count;
    }
}

/// Why a call about a host failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HostError {
    /// The recorder does not know the connection, or cannot add it.
    #[error(transparent)]
    Record(#[from] RecordError),
    /// The host did not take all its events in time.
    #[error("the host has not taken its events within {0:?}: it is stuck, or too slow")]
    TimedOut(Duration),
    /// The host would wait for itself.
    #[error("the host asks for this inside `fire_event`, and would wait for its own return: do it on another thread")]
    InFireEvent,
    /// The host panicked.
    #[error("the host has panicked in `fire_event`, and gets no more events")]
    Panicked,
}

impl fmt::Debug for dyn Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Host")
    }
}
