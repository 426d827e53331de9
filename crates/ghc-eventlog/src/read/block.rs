//! Assigns events to capabilities: blocks.
//!
//! A block marker gives the size of its block in bytes and its capability. GHC counts the marker itself (24 bytes). `ghc-events`
//! subtracts the length of each event from the size, and forgets the capability when nothing is left,
//! *after* the event that used up the rest. So the event that follows an empty block still belongs to it, and
//! so does an event that crosses the end of the block.

use crate::events::BlockMarker;
use crate::format::{BLOCK_HEAD, NO_CAPABILITY};

/// The block that contains the next event.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Block {
    cap: Option<u16>,
    left: i64,
}

impl Block {
    /// Returns the capability of an event of this length, and the block that contains the event after it. `marker` is the event's payload
    /// if it is a block marker.
    #[inline]
    pub(super) fn pass(&mut self, length: usize, marker: Option<&[u8]>) -> Option<u16> {
        if let Some(payload) = marker {
            return self.enter(payload);
        }
        let cap = self.cap;
        self.left -= length as i64;
        if self.left <= 0 {
            self.cap = None;
        }
        cap
    }

    #[inline(never)]
    fn enter(&mut self, payload: &[u8]) -> Option<u16> {
        // A size smaller than the marker's wraps around, as in `ghc-events`.
        let BlockMarker { size, cap, .. } = BlockMarker::decode(payload).unwrap_or_default();
        self.left = i64::from(size.wrapping_sub(BLOCK_HEAD as u32));
        self.cap = (cap != NO_CAPABILITY).then_some(cap);
        self.cap
    }
}
