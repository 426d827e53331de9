//! Where events go: the record of an event, and the sinks that take records.
//!
//! This is the interface between the collector, which only fires, and everything that listens: memory and statistics here,
//! files, formats and a host's callback elsewhere.

use std::fmt;
use std::sync::Arc;

use super::table::{Event, EventId, PAYLOAD_WORDS};

/// One event that happened. Its size is one cache line for every event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Record {
    /// The time, by CLOCK_MONOTONIC in nanoseconds.
    pub timestamp: u64,
    /// The kernel's id of the thread. 0 for the events that are fired once per object, for which the system call
    /// that returns the id would cost more than the event.
    pub tid: u32,
    /// The event.
    pub id: EventId,
    pub(super) words: [u64; PAYLOAD_WORDS],
}

impl Record {
    /// Returns the event with its payload.
    pub fn event(&self) -> Event {
        Event::from_words(self.id, &self.words)
    }

    /// Returns the event's fields in order, each as a number.
    pub fn fields(&self) -> &[u64] {
        &self.words[..self.id.descriptor().fields.len()]
    }
}

/// What happens to a sink in a forked child.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AfterFork {
    /// The sink receives the child's events as it received the parent's events.
    GoOn,
    /// The sink receives no events of the child, because its file or connection belongs to the parent.
    Silence,
}

/// A receiver of records.
///
/// `record` is called by the thread that fires, at the moment of the event: by mutators, by the collecting thread **in
/// the stopped world**, possibly **in a signal handler** that interrupted `record` itself. So it must not allocate,
/// free, print, wait, or take any lock that another thread may hold; and it must not panic (which aborts the
/// process). It may write to memory that it already has, with atomics. A sink that needs more stores the record in such memory
/// and does the rest later on a thread of its own.
///
/// # Why the trait is safe
/// A sink that breaks these rules may hang or end the process, but does not damage the heap. Functions
/// that use the heap or the list of threads (allocation, roots, finalizers, attaching, collecting, …) abort the process with one line that names the
/// function if a sink calls them, for example by way of a thread-local [`Mutator`](crate::Mutator) (`.stop.no-mutator`). A sink could
/// use a reference without calling any of them, but the promise of [`World::attach`](crate::World::attach) excludes that a sink has one.
pub trait Sink: fmt::Debug + Send + Sync {
    /// Takes one record.
    fn record(&self, record: &Record);

    /// Returns what happens to the sink in a forked child. Called in the child, by its only thread.
    fn forked(&self) -> AfterFork {
        AfterFork::Silence
    }
}

/// Takes records and does nothing, for measuring what the delivery costs.
#[derive(Clone, Copy, Debug, Default)]
pub struct NullSink;

impl Sink for NullSink {
    fn record(&self, _: &Record) {}

    fn forked(&self) -> AfterFork {
        AfterFork::GoOn
    }
}

/// Passes each record to one sink and then to another, as one listener with one selection.
#[derive(Clone, Copy, Debug, Default)]
pub struct Chain<A, B>(pub A, pub B);

impl<A: Sink, B: Sink> Sink for Chain<A, B> {
    fn record(&self, record: &Record) {
        self.0.record(record);
        self.1.record(record);
    }

    fn forked(&self) -> AfterFork {
        match (self.0.forked(), self.1.forked()) {
            (AfterFork::GoOn, AfterFork::GoOn) => AfterFork::GoOn,
            _ => AfterFork::Silence,
        }
    }
}

impl<S: Sink + ?Sized> Sink for Arc<S> {
    fn record(&self, record: &Record) {
        (**self).record(record);
    }

    fn forked(&self) -> AfterFork {
        (**self).forked()
    }
}
