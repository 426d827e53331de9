//! The settings of the writers of text profiles.

use std::sync::Arc;

use crate::progress::Progress;
use stopworld::events::record::Policy;

/// The settings of a writer.
#[derive(Clone, Debug)]
pub(super) struct WriterSettings {
    /// The command line of the process.
    pub(super) job: String,
    /// Start of the profile, in CLOCK_MONOTONIC nanoseconds.
    pub(super) began_ns: u64,
    pub(super) policy: Policy,
    pub(super) progress: Arc<Progress>,
}
