//! Why a world could not be built.

use crate::events::ListenError;
use crate::events::host::HostError;
use crate::events::record::RecordError;
use crate::profile::TickError;
use crate::profile::census::ProfileError;
use crate::world::SetupError;

/// The smallest heap limit that a world chooses by itself.
pub(super) const LEAST_HEAP_BYTES: usize = 16 << 20;

/// Why a world could not be built.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// The heap limit is too small.
    #[error("a heap limit of {asked} bytes is too small: it must be at least {smallest} bytes (256 KiB)")]
    HeapLimit {
        /// What was asked for.
        asked: usize,
        /// What is possible.
        smallest: usize,
    },
    /// The heap limit is beyond what this machine can address.
    #[error("a heap limit of {asked} bytes is too large: it may be at most {largest} bytes (16 TiB)")]
    HeapLimitTooLarge {
        /// What was asked for.
        asked: usize,
        /// What is possible.
        largest: usize,
    },
    /// The system did not give the address space.
    #[error("{}", NoRoom { asked, setting, limit, used })]
    AddressSpace {
        /// Bytes that the world needs, tables included.
        asked: u64,
        /// What makes it need them.
        setting: LimitSetting,
        /// How many the process may use (RLIMIT_AS), if that is limited.
        limit: Option<u64>,
        /// How many it used already.
        used: u64,
    },
    /// Not a number of markers.
    #[error("{0} markers are not possible: choose between 1 and 64")]
    Markers(usize),
    /// Too many listeners.
    #[error(transparent)]
    Listen(#[from] ListenError),
    /// The way of stopping could not be set up.
    #[error(transparent)]
    Stopper(#[from] SetupError),
    /// Its events could not be recorded.
    #[error(transparent)]
    Record(#[from] RecordError),
    /// A host could not be served.
    #[error(transparent)]
    Host(#[from] HostError),
    /// The heap can't be profiled as asked.
    #[error(transparent)]
    Profile(#[from] ProfileError),
    /// Its time could not be profiled.
    #[error(transparent)]
    Tick(#[from] TickError),
    /// The system gave no memory or no thread.
    #[error("the system refused memory or a thread for the world: {0}")]
    System(#[from] std::io::Error),
}

/// What makes a world need the address space that the system refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LimitSetting {
    /// The heap limit that the program set, in bytes.
    HeapLimit(usize),
    /// The mark stack limit that the program set, in bytes.
    MarkStackLimit(usize),
    /// Nothing that the program set: not even a heap of this size, in bytes, fits.
    Least(usize),
}

/// The text of [`BuildError::AddressSpace`].
pub(super) struct NoRoom<'a> {
    pub(super) asked: &'a u64,
    pub(super) setting: &'a LimitSetting,
    pub(super) limit: &'a Option<u64>,
    pub(super) used: &'a u64,
}

impl std::fmt::Display for NoRoom<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mib = |bytes: u64| bytes.div_ceil(1 << 20);
        let Self { asked, setting, limit, used } = *self;
        match setting {
            LimitSetting::HeapLimit(bytes) => write!(f, "the heap limit of {} MiB", mib(*bytes as u64))?,
            LimitSetting::MarkStackLimit(bytes) => write!(f, "the mark stack limit of {} MiB", mib(*bytes as u64))?,
            LimitSetting::Least(bytes) => write!(f, "even a heap of {} MiB", mib(*bytes as u64))?,
        }
        write!(f, " needs {} MiB of address space, tables included, which the system refused: ", mib(*asked))?;
        match limit {
            Some(limit) => {
                let free = limit.saturating_sub(*used);
                write!(
                    f,
                    "the process may use {} MiB (RLIMIT_AS, `ulimit -v`) and uses {} MiB already; ",
                    mib(*limit),
                    mib(*used)
                )?;
                match setting {
                    // Half, as for a heap of which nothing is said, and a tenth of that for the tables.
                    LimitSetting::HeapLimit(_) if free / 20 * 9 >= LEAST_HEAP_BYTES as u64 => write!(
                        f,
                        "lower the heap limit (WorldBuilder::heap_limit, --heap-limit) to about {} MiB, or raise the process's limit",
                        mib(free / 20 * 9)
                    ),
                    LimitSetting::MarkStackLimit(_) => {
                        write!(
                            f,
                            "lower the mark stack limit (WorldBuilder::mark_stack_limit), or raise the process's limit"
                        )
                    }
                    _ => write!(f, "raise the process's limit"),
                }
            }
            None => write!(
                f,
                "no RLIMIT_AS is set, so look at RLIMIT_DATA (`ulimit -d`) and at vm.overcommit_memory, or lower the heap limit \
                 (WorldBuilder::heap_limit, --heap-limit)"
            ),
        }
    }
}
