//! State shared by the owner of a log and its writer.
//!
//! Most of it is independent numbers. But a log that joins a running world has missed the attach events of its threads. So the
//! owner publishes a note with the threads that exist then and the profiles that run. The notes form a linked list: a new note is
//! pushed at its head, a note is never changed, and all live as long as the shared state. The writer, which may take no lock, reads the
//! notes that it has not seen yet.

use std::ptr;
use std::sync::Arc;

use crate::progress::Progress;
use crate::sync::{AtomicPtr, AtomicU64, Ordering};
use stopworld::events::record::MAX_WORLDS;

/// A thread that attached before the log joined its world.
#[derive(Clone, Copy, Debug)]
pub(super) struct ExistingThread {
    /// The kernel's thread id.
    pub(super) tid: u32,
    /// The label of its name.
    pub(super) label: u64,
}

/// A heap profile that began before the log joined its world.
#[derive(Clone, Copy, Debug)]
pub(super) struct RunningProfile {
    pub(super) period_ns: u64,
    pub(super) breakdown: u32,
    /// The labels of the filters, indexed by their kind.
    pub(super) filters: [u64; 7],
}

/// Profiles that began before the log joined their world.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct RunningProfiles {
    pub(super) heap: Option<RunningProfile>,
    /// Nanoseconds between two ticks.
    pub(super) ticks_ns: Option<u64>,
}

impl RunningProfiles {
    pub(super) fn is_some(&self) -> bool {
        self.heap.is_some() || self.ticks_ns.is_some()
    }
}

/// The threads and profiles that existed when the log joined a world.
#[derive(Debug)]
pub(super) struct Note {
    pub(super) world: usize,
    /// The time at which the note was written, in ticks.
    pub(super) ticks: u64,
    pub(super) threads: Box<[ExistingThread]>,
    pub(super) profiled: RunningProfiles,
    before: *const Note,
}

/// The fixed properties of a world.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Facts {
    /// Its heap limit in bytes.
    pub(super) limit: u64,
    /// The number of threads that mark.
    pub(super) markers: u64,
}

/// See the module documentation.
#[derive(Debug)]
pub(super) struct SharedState {
    /// The facts of each world. The owner stores them before it begins to record the world.
    limits: [AtomicU64; MAX_WORLDS],
    markers: [AtomicU64; MAX_WORLDS],
    /// The newest note.
    notes: AtomicPtr<Note>,
    pub(super) progress: Arc<Progress>,
}

impl SharedState {
    pub(super) fn new() -> SharedState {
        SharedState {
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

    /// Publishes a note. Only one thread may do so at a time.
    pub(super) fn note(&self, world: usize, ticks: u64, threads: Box<[ExistingThread]>, profiled: RunningProfiles) {
        let before = self.notes.load(Ordering::Relaxed);
        let note = Box::into_raw(Box::new(Note { world, ticks, threads, profiled, before }));
        // Release: pairs with the Acquire in `last_note`: a thread that sees the note sees its contents.
        self.notes.store(note, Ordering::Release);
    }

    /// Returns the profiles of a world in its newest note that has some.
    pub(super) fn profiled(&self, world: usize) -> RunningProfiles {
        let of_world = self.notes(self.last_note(), ptr::null()).filter(|note| note.world == world);
        of_world.map(|note| note.profiled).find(RunningProfiles::is_some).unwrap_or_default()
    }

    /// Returns the newest note. If it differs from the previous result, there are new notes.
    #[inline(always)]
    pub(super) fn last_note(&self) -> *const Note {
        // Acquire: pairs with the Release in `note`.
        self.notes.load(Ordering::Acquire)
    }

    /// Iterates over the notes from the newest, `from`, back to `until`, which is excluded.
    pub(super) fn notes(&self, from: *const Note, until: *const Note) -> impl Iterator<Item = &Note> {
        // SAFETY: it is a note of this state; it lives as long as the state and does not change.
        let note = move |at: *const Note| if at == until { None } else { unsafe { at.as_ref() } };
        std::iter::successors(note(from), move |newer| note(newer.before))
    }
}

impl Drop for SharedState {
    fn drop(&mut self) {
        let mut at = self.notes.load(Ordering::Relaxed).cast_const();
        while !at.is_null() {
            // SAFETY: the function `note` made this pointer from a box, and there is no other reference to the note.
            let note = unsafe { Box::from_raw(at.cast_mut()) };
            at = note.before;
        }
    }
}
