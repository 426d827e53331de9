//! State shared by the owner of a trace and its writer: independent numbers.

use std::sync::Arc;

use crate::progress::Progress;
use crate::sync::{AtomicU64, Ordering};
use stopworld::events::record::MAX_WORLDS;

/// See the module documentation.
#[derive(Debug)]
pub(super) struct SharedState {
    /// The heap limit of each world. The owner stores it before it begins to record the world.
    limits: [AtomicU64; MAX_WORLDS],
    pub(super) progress: Arc<Progress>,
}

impl SharedState {
    pub(super) fn new() -> SharedState {
        SharedState { limits: [const { AtomicU64::new(0) }; MAX_WORLDS], progress: Arc::default() }
    }

    pub(super) fn note_limit(&self, world: usize, bytes: u64) {
        self.limits[world].store(bytes, Ordering::Relaxed);
    }

    pub(super) fn limit(&self, world: usize) -> u64 {
        self.limits[world].load(Ordering::Relaxed)
    }
}
