//! The rules by which the figures are computed.

/// The rules by which the figures are computed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Rules {
    /// The rules of stopworld: the figures of PerfView, without its errors.
    #[default]
    Ours,
    /// The rules of PerfView, including its errors.
    LikePerfView,
}
