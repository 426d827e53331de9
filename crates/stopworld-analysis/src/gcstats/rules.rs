//! Whose figures are computed.

/// Whose figures these are to be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Rules {
    /// Ours: right.
    #[default]
    Ours,
    /// PerfView's, with its defects.
    LikePerfView,
}
