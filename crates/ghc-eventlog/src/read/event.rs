//! An event of a log.

use super::types::EventType;

/// A view of an event in the reader's memory.
#[derive(Clone, Copy, Debug)]
pub struct Event<'a> {
    /// Its type.
    pub kind: &'a EventType,
    /// When it happened, in nanoseconds since the program began.
    pub time: u64,
    /// The capability to which it belongs; `None` for an event of the whole program.
    pub cap: Option<u16>,
    /// Its payload, as it is in the file.
    pub payload: &'a [u8],
    /// The byte offset at which it begins.
    pub offset: u64,
}
