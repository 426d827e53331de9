//! Where each object was allocated.
//!
//! A sink of the event of a new object notes the thread's backtrace. So a world that checks nothing has no code for this in its allocation.
//! The notes are a table with 4 bytes for each 16 bytes of the heap's address space, whose pages cost nothing until they are written.
//! An object's note is overwritten when its cell is allocated again.

use std::fmt;
use std::io;

use crate::check::TraceId;
use crate::events::{AfterFork, Event, Record, Sink};
use crate::os::memory::{Reservation, page_size};
use crate::sync::{AtomicU32, Ordering::Relaxed};
use crate::world::inside;

/// The smallest distance between two objects.
const GRAIN_BYTES: usize = 16;

/// The table of a heap.
pub(super) struct Sites {
    base: usize,
    notes: Reservation,
}

impl Sites {
    /// Maps a table for a heap of `bytes` that begins at `base`.
    pub(super) fn new(base: usize, bytes: usize) -> io::Result<Self> {
        let notes = Reservation::new(bytes / GRAIN_BYTES * size_of::<AtomicU32>(), page_size())?;
        notes.commit(0, notes.len())?;
        Ok(Self { base, notes })
    }

    fn note(&self, object: usize) -> Option<&AtomicU32> {
        let offset = object.checked_sub(self.base)? / GRAIN_BYTES * size_of::<AtomicU32>();
        // SAFETY: in bounds of the committed mapping, aligned, and zeros are a valid number.
        (offset < self.notes.len()).then(|| unsafe { &*self.notes.base().add(offset).cast::<AtomicU32>() })
    }

    /// Returns the backtrace of the allocation of the object at this address.
    pub(super) fn of(&self, object: usize) -> TraceId {
        self.note(object).map_or(TraceId::NONE, |note| TraceId(note.load(Relaxed)))
    }
}

impl fmt::Debug for Sites {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sites").finish_non_exhaustive()
    }
}

impl Sink for Sites {
    fn record(&self, record: &Record) {
        if let Event::ObjectAllocated(object) = record.event()
            && let Some(note) = self.note(object.addr)
        {
            // In the stopped world, the collector reports an object that another thread has just allocated: its backtrace is not known.
            let trace = if inside::may_be_inside() { TraceId::NONE } else { TraceId::here() };
            // Relaxed: the stop orders it before the search that reads it.
            note.store(trace.0, Relaxed);
        }
    }

    fn forked(&self) -> AfterFork {
        AfterFork::GoOn
    }
}
