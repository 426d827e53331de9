//! [`SetupError`], the error of setting up a stopper.

use crate::os::signals;

/// Why a stopper could not be set up.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SetupError {
    /// Another world of this process uses another suspend signal. A process has only one suspend signal.
    #[error(
        "another world of this process suspends its threads with {}, this one requests {}: a process has only one suspend signal", signals::name(*installed), signals::name(*asked)
    )]
    OtherSignal {
        /// The number of the signal in use.
        installed: i32,
        /// The number of the requested signal.
        asked: i32,
    },
    /// The signal with this number cannot suspend threads.
    #[error("signal {0} cannot suspend threads: choose one between 1 and 64 that can be caught and is neither a fault nor reserved by libc, such as {default} (SIGURG)", default = signals::DEFAULT)]
    UnusableSignal(i32),
    /// The system refused to install the handler.
    #[error("the stopper cannot be set up: {0}")]
    System(#[from] std::io::Error),
}
