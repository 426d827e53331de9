//! Where events go: a record, and who takes it.
//!
//! This is the seam between the collector, which only fires, and everything that listens: memory and statistics here,
//! files, formats and a host's callback elsewhere.

use std::fmt;
use std::sync::Arc;

use super::table::{Event, EventId, PAYLOAD_WORDS};

/// One event that happened. A cache line, whatever the event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Record {
    /// When: CLOCK_MONOTONIC in nanoseconds.
    pub timestamp: u64,
    /// On which thread, by the kernel's thread id. 0 for the events of one object each, where the system call that
    /// tells it would cost more than the event.
    pub tid: u32,
    /// What.
    pub id: EventId,
    pub(super) words: [u64; PAYLOAD_WORDS],
}

impl Record {
    /// The event with its payload.
    pub fn event(&self) -> Event {
        Event::from_words(self.id, &self.words)
    }

    /// The fields in order, each as a number, as many as the event has.
    pub fn fields(&self) -> &[u64] {
        &self.words[..self.id.descriptor().fields.len()]
    }
}

/// What becomes of a sink in a forked child.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AfterFork {
    /// It gets the child's events as it got the parent's.
    GoOn,
    /// It gets none: what it writes to belongs to the parent.
    Silence,
}

/// Somebody who takes records.
///
/// `record` is called by the thread that fires, at the moment of the event: by mutators, by the collecting thread **in
/// the stopped world**, perhaps **in a signal handler** that interrupted `record` itself. So it must not allocate,
/// free, print, wait, or take any lock that another thread may hold; and it must not panic (which aborts the
/// process). It may write to memory that it has, with atomics. Whoever needs more puts the record into such memory
/// and does the rest later on a thread of its own.
///
/// # Why the trait is safe
/// A sink that breaks these rules may hang or end the process, but does not damage the heap. The functions of the interface
/// that use the heap or the list of threads (allocation, roots, finalizers, attaching, collecting, …) abort the process with one line that names the
/// function when a sink calls them, by way of a thread-local [`Mutator`](crate::Mutator), say (`.stop.no-mutator`). A reference that a sink
/// could use without any of them is excluded by the promise of [`World::attach`](crate::World::attach).
pub trait Sink: fmt::Debug + Send + Sync {
    /// Takes one record.
    fn record(&self, record: &Record);

    /// What becomes of it in a forked child. Called there, by the only thread.
    fn forked(&self) -> AfterFork {
        AfterFork::Silence
    }
}

/// Takes records and does nothing: for measuring what the way here costs.
#[derive(Clone, Copy, Debug, Default)]
pub struct NullSink;

impl Sink for NullSink {
    fn record(&self, _: &Record) {}

    fn forked(&self) -> AfterFork {
        AfterFork::GoOn
    }
}

/// One sink after another, as one listener with one selection.
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
