//! One thread of the target, as its tracer sees it.
//!
//! A thread runs if it is not held. There are three kinds of hold: by the user, by a collection (full mode), and by the user's request to
//! hold a collection at a phase. They are tracked separately, so a thread that one releases stays stopped for the others
//! (`.vtable.nested`).
//!
//! The kind of its ptrace stop determines how it must be resumed: from a signal-delivery stop with the signal, from a group stop by
//! listening instead of continuing.

use super::memory::Address;
use super::sys::General;

/// The kind of a thread's ptrace stop, or that it runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stop {
    /// The thread runs, as far as the debugger knows.
    Running,
    /// The thread was interrupted, just created, or has nothing more to report: it is resumed without a signal.
    Plain,
    /// The thread is in a signal-delivery stop; it receives the signal when it is resumed.
    Signal(i32),
    /// The thread is stopped for a notification that has not been served.
    Notification(Notification),
    /// The thread is in a group stop, where its registers can be read.
    Group(i32),
    /// The thread is in a group stop that SIGCONT ends, where its registers cannot be read.
    Listening(i32),
}

/// The source of a notification.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Notification {
    /// The index of the library.
    pub(super) library: usize,
    /// The address of the request.
    pub(super) at: Address,
}

/// A mutator's entry in the collector's lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Enrolled {
    pub(super) library: usize,
    pub(super) world: Address,
    pub(super) record: Address,
}

/// The state of a thread that was changed for the duration of a collection.
#[derive(Clone, Copy, Debug)]
pub(super) struct Saved {
    pub(super) general: General,
    /// The lowest address that was written below its stack pointer.
    pub(super) lowest: u64,
    /// Whether its registers were changed.
    pub(super) location: Location,
}

/// Where the registers of a thread that a collection holds point to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Location {
    /// Where it was stopped.
    Original,
    /// To `park`, where it was sent.
    Park,
}

/// A traced thread. See the module documentation.
#[derive(Debug)]
pub(super) struct Tracee {
    pub(super) stop: Stop,
    /// The user holds it.
    pub(super) by_user: bool,
    /// A collection holds it.
    pub(super) by_world: bool,
    /// Whether it collects and is held at a phase.
    pub(super) at_phase: bool,
    /// It was interrupted and has not reported that yet; it will, even if it reports another stop first.
    pub(super) interrupt_pending: bool,
    /// A notification for which it was stopped when it was interrupted: it was resumed to reach the interruption's stop.
    pub(super) noted: Option<Notification>,
    /// It is about to end, and is not stopped any more.
    pub(super) exiting: bool,
    pub(super) enrolled: Option<Enrolled>,
    pub(super) saved: Option<Box<Saved>>,
}

impl Tracee {
    pub(super) fn new(stop: Stop) -> Self {
        Self {
            stop,
            by_user: false,
            by_world: false,
            at_phase: false,
            interrupt_pending: false,
            noted: None,
            exiting: false,
            enrolled: None,
            saved: None,
        }
    }

    /// Returns whether it is held.
    pub(super) fn is_held(&self) -> bool {
        self.by_user || self.by_world || self.at_phase
    }

    /// Returns whether it is stopped, and its registers can be read.
    pub(super) fn is_stopped(&self) -> bool {
        !matches!(self.stop, Stop::Running | Stop::Listening(_))
    }
}
