//! One thread of the target, as its tracer sees it.
//!
//! A thread runs if nobody holds it, and there are three who may: the user, a collection (full mode), and the user again who
//! has asked that a collection be held at a phase. They are counted apart, so what one lets go stays stopped for the others
//! (`.vtable.nested`).
//!
//! How it stands is the kernel's affair, and decides how it must be let go: before a signal it wants the signal back,
//! in a group stop it must listen, not go on.

use super::memory::Address;
use super::sys::General;

/// How a thread stands, or that it does not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stop {
    /// As far as we know.
    Running,
    /// It was asked to, it was just born, or it has nothing more to tell: it goes on without a signal.
    Plain,
    /// Before a signal that it is to get when it goes on.
    Signal(i32),
    /// Before a notification that has not been served.
    Notification(Notification),
    /// In a group stop, where its registers can be read.
    Group(i32),
    /// In a group stop from which SIGCONT wakes it, and where its registers can't be read.
    Listening(i32),
}

/// Where a notification leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Notification {
    /// Which library.
    pub(super) library: usize,
    /// The request.
    pub(super) at: Address,
}

/// A mutator's place in the collector's lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Enrolled {
    pub(super) library: usize,
    pub(super) world: Address,
    pub(super) record: Address,
}

/// What was changed in a thread for the time of a collection.
#[derive(Clone, Copy, Debug)]
pub(super) struct Saved {
    pub(super) general: General,
    /// The lowest address that was written below its stack pointer.
    pub(super) lowest: u64,
    /// Whether its registers were changed.
    pub(super) place: Place,
}

/// Where a thread stands that a collection holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// Where it was stopped.
    Its,
    /// In `park`, to which it was sent.
    Park,
}

/// See the module's text.
#[derive(Debug)]
pub(super) struct Tracee {
    pub(super) stop: Stop,
    /// The user holds it.
    pub(super) by_user: bool,
    /// A collection holds it.
    pub(super) by_world: bool,
    /// It collects and is held at a phase.
    pub(super) at_phase: bool,
    /// It was asked to stand and has not yet said that it was; it will, also if it stood for another reason first.
    pub(super) asked: bool,
    /// A notification that it stood before when it was asked to stand: it was sent on to where it stands for nothing else.
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
            asked: false,
            noted: None,
            exiting: false,
            enrolled: None,
            saved: None,
        }
    }

    /// Whether anybody wants it to stand.
    pub(super) fn is_held(&self) -> bool {
        self.by_user || self.by_world || self.at_phase
    }

    /// Whether it stands, and can be looked into.
    pub(super) fn stands(&self) -> bool {
        !matches!(self.stop, Stop::Running | Stop::Listening(_))
    }
}
