//! [`BuildError`], the error of [`WorldBuilder::build`](super::WorldBuilder::build).

use crate::events::ListenError;
use crate::events::host::HostError;
use crate::events::record::RecordError;
use crate::profile::TickError;
use crate::profile::census::ProfileError;
use crate::world::SetupError;

/// The smallest heap limit that a world chooses as its default.
pub(super) const LEAST_HEAP_BYTES: usize = 16 << 20;

/// Why a world could not be built.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// The heap limit is below the minimum.
    #[error("a heap limit of {asked} bytes is too small: it must be at least {smallest} bytes (256 KiB)")]
    HeapLimit {
        /// The requested limit in bytes.
        asked: usize,
        /// The smallest allowed limit in bytes.
        smallest: usize,
    },
    /// The heap limit is above the maximum.
    #[error("a heap limit of {asked} bytes is too large: it may be at most {largest} bytes (16 TiB)")]
    HeapLimitTooLarge {
        /// The requested limit in bytes.
        asked: usize,
        /// The largest allowed limit in bytes.
        largest: usize,
    },
    /// The system refused the address space.
    #[error("{}", NoRoom { asked, setting, limit, used })]
    AddressSpace {
        /// Bytes of address space that the world needs, tables included.
        asked: u64,
        /// The setting because of which the world needs this much address space.
        setting: LimitSetting,
        /// Bytes of address space that the process may use (RLIMIT_AS); `None` if that is not limited.
        limit: Option<u64>,
        /// Bytes of address space that the process used already.
        used: u64,
    },
    /// The number of markers is not from 1 to 64.
    #[error("{0} markers are not possible: choose between 1 and 64")]
    Markers(usize),
    /// A listener could not be added: too many are registered.
    #[error(transparent)]
    Listen(#[from] ListenError),
    /// The stopper could not be set up.
    #[error(transparent)]
    Stopper(#[from] SetupError),
    /// The recording of the world's events could not be started.
    #[error(transparent)]
    Record(#[from] RecordError),
    /// The host could not be served with events.
    #[error(transparent)]
    Host(#[from] HostError),
    /// The heap profile could not be started.
    #[error(transparent)]
    Profile(#[from] ProfileError),
    /// The time profile could not be started.
    #[error(transparent)]
    Tick(#[from] TickError),
    /// The program has no [`check::Allocator`](crate::check::Allocator).
    #[cfg(feature = "check")]
    #[error(
        "check_promise needs the checked allocator: declare `#[global_allocator] static GLOBAL: stopworld::check::Allocator = \
         stopworld::check::Allocator::new();`"
    )]
    NoCheckedAllocator,
    /// The world has a [`binding`](super::WorldBuilder::binding), which marks objects after the search of `check_promise`.
    #[cfg(feature = "check")]
    #[error(
        "check_promise cannot be used in a world with a binding, whose objects it would report: build the world without one of them"
    )]
    CheckWithBinding,
    /// The process may not copy its own memory, which a search of `check_promise` does.
    #[cfg(feature = "check")]
    #[error(
        "check_promise needs the system call process_vm_readv, which the system refuses: allow it in the seccomp filter"
    )]
    NoCopy,
    /// The system refused memory or a thread.
    #[error("the system refused memory or a thread for the world: {0}")]
    System(#[from] std::io::Error),
}

/// The setting because of which a world needs the address space that the system refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LimitSetting {
    /// The heap limit that the program set, in bytes.
    HeapLimit(usize),
    /// The mark stack limit that the program set, in bytes.
    MarkStackLimit(usize),
    /// No setting of the program is the cause: even the smallest default heap, of this size in bytes, does not fit.
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
                    // The text suggests half of the free address space, as for a default heap limit, less a tenth for the tables.
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
