//! The first word of a record.

use crate::events::table::EventId;

/// The first word of a record: its event, its number of fields, and its world. Never 0.
///
/// ```text
///   63     62                  31      16 15          8 7       0
///  +---+--------+------------+-----------+-------------+---------+
///  | 1 | losses |     0      |   world   | field count |  event  |
///  +---+--------+------------+-----------+-------------+---------+
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Head(pub(super) u64);

const VALID: u64 = 1 << 63;
const LOSSES: u64 = 1 << 62;

impl Head {
    #[inline(always)]
    pub(super) const fn new(id: EventId, payload_words: usize, world: u16) -> Head {
        Head(VALID | (world as u64) << 16 | (payload_words as u64) << 8 | id as u64)
    }

    /// Returns the head of a record that contains the number of records dropped in its ring so far.
    pub(super) const fn of_losses() -> Head {
        Head(VALID | LOSSES | 1 << 8)
    }

    #[inline(always)]
    pub(super) fn payload_words(self) -> usize {
        (self.0 >> 8 & 0xff) as usize
    }

    #[inline(always)]
    pub(super) fn is_loss_report(self) -> bool {
        self.0 & LOSSES != 0
    }
}
