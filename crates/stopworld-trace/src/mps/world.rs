//! The state of one world in a stream.

use super::blocks::{Blocks, Held};
use super::shared_state::Facts;

/// The state that a writer keeps for a world.
#[derive(Debug)]
pub(super) struct World {
    pub(super) generation: u64,
    pub(super) facts: Option<Facts>,
    /// Whether the stream has introduced the world, or will introduce it before the world's first record.
    pub(super) introduced: bool,
    pub(super) arena_reported: bool,
    pub(super) pools_reported: [bool; 3],
    pub(super) poll_open: bool,
    pub(super) trace_open: bool,
    pub(super) blocks: Option<Blocks>,
    pub(super) held_bytes: u64,
    /// Bytes committed after the last collection.
    pub(super) committed: u64,
    /// The fraction of the heap that died in the last collection.
    pub(super) mortality: f64,
}

impl World {
    pub(super) const fn new() -> World {
        World {
            generation: 0,
            facts: None,
            introduced: false,
            arena_reported: false,
            pools_reported: [false; 3],
            poll_open: false,
            trace_open: false,
            blocks: None,
            held_bytes: 0,
            committed: 0,
            mortality: 0.5,
        }
    }

    /// Adds a block to the blocks that the world owns, if these are tracked.
    pub(super) fn hold(&mut self, held: Held) {
        if let Some(blocks) = &mut self.blocks {
            blocks.hold(held);
            self.held_bytes += held.bytes;
        }
    }
}
