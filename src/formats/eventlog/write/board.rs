//! What the owner of a log and its writer know of each other.
//!
//! Mostly numbers, each by itself. But who begins to log a world that runs already has missed the coming of its threads: then the
//! owner leaves a note with all that are there, and with the profiles that run. Notes are put in front of each other, never changed, and live as long as
//! the board; the writer, which may take no lock, reads those that it has not seen.

use std::ptr;
use std::sync::Arc;

use crate::events::record::MAX_WORLDS;
use crate::formats::ongoing::Progress;
use crate::sync::{AtomicPtr, AtomicU64, Ordering};

/// A thread that has attached before anybody logged it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Present {
    /// The kernel's id.
    pub(super) tid: u32,
    /// Its name, by its label.
    pub(super) label: u64,
}

/// A heap profile that began before anybody logged it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Begun {
    pub(super) period_ns: u64,
    pub(super) breakdown: u32,
    /// The filters, by their kind: labels.
    pub(super) filters: [u64; 7],
}

/// Profiles that began before anybody logged them.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Profiled {
    pub(super) heap: Option<Begun>,
    /// Nanoseconds from tick to tick.
    pub(super) ticks_ns: Option<u64>,
}

impl Profiled {
    pub(super) fn is_some(&self) -> bool {
        self.heap.is_some() || self.ticks_ns.is_some()
    }
}

/// What was there when a world was met.
#[derive(Debug)]
pub(super) struct Note {
    pub(super) world: usize,
    /// When it was written, in ticks.
    pub(super) ticks: u64,
    pub(super) threads: Box<[Present]>,
    pub(super) profiled: Profiled,
    before: *const Note,
}

/// What is fixed about a world.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Facts {
    /// Its heap limit in bytes.
    pub(super) limit: u64,
    /// How many threads mark.
    pub(super) markers: u64,
}

/// See the module's text.
#[derive(Debug)]
pub(super) struct Board {
    /// The facts of each world. Its first record comes after they were noted: who notes, records after that.
    limits: [AtomicU64; MAX_WORLDS],
    markers: [AtomicU64; MAX_WORLDS],
    /// The last note.
    notes: AtomicPtr<Note>,
    pub(super) progress: Arc<Progress>,
}

impl Board {
    pub(super) fn new() -> Board {
        Board {
            limits: [const { AtomicU64::new(0) }; MAX_WORLDS],
            markers: [const { AtomicU64::new(0) }; MAX_WORLDS],
            notes: AtomicPtr::new(ptr::null_mut()),
            progress: Arc::default(),
        }
    }

    pub(super) fn note_facts(&self, world: usize, facts: Facts) {
        self.limits[world].store(facts.limit, Ordering::Relaxed);
        self.markers[world].store(facts.markers, Ordering::Relaxed);
    }

    pub(super) fn facts(&self, world: usize) -> Facts {
        let limit = self.limits[world].load(Ordering::Relaxed);
        Facts { limit, markers: self.markers[world].load(Ordering::Relaxed) }
    }

    /// Leaves a note. One thread at a time.
    pub(super) fn note(&self, world: usize, ticks: u64, threads: Box<[Present]>, profiled: Profiled) {
        let before = self.notes.load(Ordering::Relaxed);
        let note = Box::into_raw(Box::new(Note { world, ticks, threads, profiled, before }));
        // Release: pairs with the Acquire in `last_note`: whoever sees the note sees what is in it.
        self.notes.store(note, Ordering::Release);
    }

    /// What was noted of a world's profiles when it was met.
    pub(super) fn profiled(&self, world: usize) -> Profiled {
        let of_world = self.notes(self.last_note(), ptr::null()).filter(|note| note.world == world);
        of_world.map(|note| note.profiled).find(Profiled::is_some).unwrap_or_default()
    }

    /// The last note, to be compared with the one that was the last before.
    #[inline(always)]
    pub(super) fn last_note(&self) -> *const Note {
        // Acquire: pairs with the Release in `note`.
        self.notes.load(Ordering::Acquire)
    }

    /// The notes from this one back to the one that was read last.
    pub(super) fn notes(&self, from: *const Note, until: *const Note) -> impl Iterator<Item = &Note> {
        // SAFETY: a note of this board's, which lives as long as the board and does not change.
        let note = move |at: *const Note| if at == until { None } else { unsafe { at.as_ref() } };
        std::iter::successors(note(from), move |newer| note(newer.before))
    }
}

impl Drop for Board {
    fn drop(&mut self) {
        let mut at = self.notes.load(Ordering::Relaxed).cast_const();
        while !at.is_null() {
            // SAFETY: made by `note` from a box, and nobody's any more.
            let note = unsafe { Box::from_raw(at.cast_mut()) };
            at = note.before;
        }
    }
}
