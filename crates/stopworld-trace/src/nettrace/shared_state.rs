//! State shared by the owner of a trace and its writer: independent numbers, and notes of the threads that attached before the trace joined
//! their world.

use std::sync::Arc;

use crate::notes::{ExistingThread, Notes};
use crate::progress::Progress;
use crate::sync::{AtomicBool, AtomicU64, Ordering};
use stopworld::events::record::{MAX_WORLDS, WorldNumber};
use stopworld::{ThreadInfo, World};

/// See the module documentation.
#[derive(Debug)]
pub(super) struct SharedState {
    /// The heap limit of each world. The owner stores it before it begins to record the world.
    limits: [AtomicU64; MAX_WORLDS],
    /// Whether each world samples its allocations. Stored like the limit.
    sampling: [AtomicBool; MAX_WORLDS],
    pub(super) threads: Notes<Box<[ExistingThread]>>,
    pub(super) progress: Arc<Progress>,
}

impl SharedState {
    pub(super) fn new() -> SharedState {
        SharedState {
            limits: [const { AtomicU64::new(0) }; MAX_WORLDS],
            sampling: [const { AtomicBool::new(false) }; MAX_WORLDS],
            threads: Notes::new(),
            progress: Arc::default(),
        }
    }

    /// Stores the facts about the world with this number.
    pub(super) fn note(&self, number: WorldNumber, world: &World) {
        let number = usize::from(number.0);
        self.limits[number].store(world.heap_limit(), Ordering::Relaxed);
        self.sampling[number].store(world.samples_allocations(), Ordering::Relaxed);
    }

    /// Publishes a note of the attached threads of a world whose events are recorded already, so that no thread is missed. Only one thread
    /// may do so at a time.
    pub(super) fn note_threads(&self, threads: &[ThreadInfo]) {
        if !threads.is_empty() {
            self.threads.push(ExistingThread::all(threads));
        }
    }

    pub(super) fn limit(&self, world: usize) -> u64 {
        self.limits[world].load(Ordering::Relaxed)
    }

    pub(super) fn samples_allocations(&self, world: usize) -> bool {
        self.sampling[world].load(Ordering::Relaxed)
    }
}
