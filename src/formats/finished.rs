//! How the writing of a trace ended, whatever its format.

use std::io;

use crate::events::record::ConsumerTotals;

/// How a trace ended.
#[derive(Debug)]
pub struct Finished {
    /// The events that it was to have: `fired` = `written` + `lost` + `dropped`.
    pub totals: ConsumerTotals,
    /// Records in the file: some events are several, some none.
    pub records: u64,
    /// Bytes in the file.
    pub bytes: u64,
    /// Why the file is not complete.
    pub error: Option<io::Error>,
}

impl Finished {
    /// Whether everything that was fired is in the file.
    pub fn is_complete(&self) -> bool {
        self.error.is_none() && self.totals.lost == 0 && self.totals.dropped == 0
    }
}
