//! An event of a log.

use super::types::EventType;

/// An event, as it stands in the file.
#[derive(Clone, Copy, Debug)]
pub struct Event<'a> {
    /// What it is.
    pub kind: &'a EventType,
    /// When it happened, in nanoseconds since the program began.
    pub time: u64,
    /// Whose event it is; none if it is the whole program's.
    pub cap: Option<u16>,
    /// What it says.
    pub payload: &'a [u8],
    /// Where in the file it begins.
    pub offset: u64,
}
