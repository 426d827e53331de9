//! What a host implements, what it is given, and why it may not be served.

use std::fmt;
use std::time::Duration;

use crate::events::record::{RecordError, RecordingThread, WorldNumber};

/// What is known about an event beside its payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    /// When it happened, by CLOCK_MONOTONIC, in nanoseconds.
    pub ns: u64,
    /// On which thread.
    pub thread: RecordingThread,
    /// In which world.
    pub world: WorldNumber,
    /// The version of the payload.
    pub version: u8,
}

/// Who is told. One thread calls it, one call at a time, events in order of time (as
/// [`Consumer`](crate::events::record::Consumer) says).
///
/// It may allocate, take locks, wait, and change what it wants; but it must not wait for what only comes after it has
/// returned: [`HostConnection::flush`](super::HostConnection::flush) and
/// [`HostConnection::end`](super::HostConnection::end) fail or return at once when it calls them. A panic ends it.
pub trait Host: Send + Sync + 'static {
    /// Something happened: the number of the event in the table, and its payload, in order, little-endian, without padding.
    fn fire_event(&self, event_id: u32, payload: &[u8]);

    /// The same with the time, the thread and the world. This is what is called; by default it calls
    /// [`fire_event`](Self::fire_event).
    fn fire_stamped_event(&self, event_id: u32, payload: &[u8], stamp: &Stamp) {
        let _ = stamp;
        self.fire_event(event_id, payload);
    }

    /// So many events are missing here.
    fn events_lost(&self, count: u64) {
        let _ = count;
    }
}

/// Why a host was not served.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HostError {
    /// The recorder does not know it, or can't have it.
    #[error(transparent)]
    Record(#[from] RecordError),
    /// The host has not taken everything in time.
    #[error("the host has not taken its events within {0:?}: it is stuck, or too slow")]
    TimedOut(Duration),
    /// It waits for itself.
    #[error("the host asks for this inside `fire_event`, and would wait for its own return: do it on another thread")]
    InFireEvent,
    /// It has panicked.
    #[error("the host has panicked in `fire_event`, and gets no more events")]
    Panicked,
}

impl fmt::Debug for dyn Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Host")
    }
}
