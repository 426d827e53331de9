//! The error of a stopper that cannot be set up.

use crate::os::signals;

/// Why a stopper could not be set up.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SetupError {
    /// Another world of this process uses another signal.
    #[error(
        "another world of this process suspends its threads with {}, this one asks for {}: the suspend signal is one for the whole process", signals::name(*installed), signals::name(*asked)
    )]
    OtherSignal {
        /// The one in use.
        installed: i32,
        /// The one asked for.
        asked: i32,
    },
    /// Not a signal that can be used.
    #[error("signal {0} can't suspend threads: choose one between 1 and 64 that can be caught and is neither a fault nor reserved by libc, such as {default} (SIGURG)", default = signals::DEFAULT)]
    UnusableSignal(i32),
    /// The system refused.
    #[error("the stopper can't be set up: {0}")]
    System(#[from] std::io::Error),
}
