//! The result of writing a trace in any format.

use std::io;

use stopworld::events::record::ConsumerTotals;

/// The result of a finished trace.
#[derive(Debug)]
pub struct Finished {
    /// Counts of the events selected for the trace: `fired` = `written` + `lost` + `dropped`.
    pub totals: ConsumerTotals,
    /// Number of records in the file. An event may become several records, or none.
    pub records: u64,
    /// Size of the file in bytes.
    pub bytes: u64,
    /// If the file is incomplete: the error that is the reason.
    pub error: Option<io::Error>,
}

impl Finished {
    /// Returns whether the file contains every selected event that was fired.
    pub fn is_complete(&self) -> bool {
        self.error.is_none() && self.totals.lost == 0 && self.totals.dropped == 0
    }
}
