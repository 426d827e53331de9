//! Whose event it is: blocks.
//!
//! A marker says how many bytes its block has and whose they are. GHC counts the marker itself (24 bytes); what the real reader does with
//! the number is this: it is counted down by the length of each event, and once it is used up the capability is
//! forgotten, *after* the event that used it up. So the event behind a block without events still belongs to it, and an
//! event that reaches over the end does.

use super::layout::{self, bytes_at};
use crate::format::{BLOCK_HEAD, NO_CAPABILITY};

/// The block in which the next event is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Block {
    cap: Option<u16>,
    left: i64,
}

impl Block {
    /// Whose this event is; the block that the event after it is in. `marker` is the payload if it is one.
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
        // A size less than the marker's wraps around, as it does in the real reader.
        let size = u32::from_be_bytes(bytes_at(payload, layout::BLOCK_SIZE)).wrapping_sub(BLOCK_HEAD as u32);
        let cap = u16::from_be_bytes(bytes_at(payload, layout::BLOCK_CAP));
        self.left = i64::from(size);
        self.cap = (cap != NO_CAPABILITY).then_some(cap);
        self.cap
    }
}
