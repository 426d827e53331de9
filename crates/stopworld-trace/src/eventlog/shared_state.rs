//! State shared by the owner of a log and its writer.
//!
//! Most of it is independent numbers. But a log that joins a running world has missed the attach events of its threads. So the
//! owner publishes a [note](crate::notes) with the threads that exist then and the profiles that run.

use std::sync::Arc;

use crate::notes::{ExistingThread, Notes};
use crate::progress::Progress;
use crate::sync::{AtomicU64, Ordering};
use stopworld::events::record::MAX_WORLDS;

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
    pub(super) notes: Notes<Note>,
    pub(super) progress: Arc<Progress>,
}

impl SharedState {
    pub(super) fn new() -> SharedState {
        SharedState {
            limits: [const { AtomicU64::new(0) }; MAX_WORLDS],
            markers: [const { AtomicU64::new(0) }; MAX_WORLDS],
            notes: Notes::new(),
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

    /// Returns the profiles of a world in its newest note that has some.
    pub(super) fn profiled(&self, world: usize) -> RunningProfiles {
        let of_world = self.notes.between(0, self.notes.count()).filter(|note| note.world == world);
        of_world.map(|note| note.profiled).find(RunningProfiles::is_some).unwrap_or_default()
    }
}
