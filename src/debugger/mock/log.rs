//! What the mock debugger did, in memory that is there before the first stop.

use crate::os::Tid;

/// One thing that the debugger did or was told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum MockEvent {
    /// It came into force, and this many threads were announced.
    Attached {
        /// How many.
        threads: u32,
    },
    /// One of the threads that existed then.
    Announced {
        /// Its id.
        tid: Tid,
    },
    /// A thread was born.
    Created {
        /// Its id.
        tid: Tid,
    },
    /// A thread ended.
    Exited {
        /// Its id.
        tid: Tid,
    },
    /// The collector asked for a stop.
    StopBegins {
        /// The world's number of the stop.
        epoch: u64,
    },
    /// A thread stands, its registers are pushed, its slot is written.
    Stopped {
        /// Its id.
        tid: Tid,
        /// What was written.
        stack_ptr: usize,
    },
    /// A frozen thread was answered for: its registers are in its record, its slot is written.
    Answered {
        /// Its id.
        tid: Tid,
        /// What was written.
        stack_ptr: usize,
    },
    /// All threads stand.
    WorldStopped {
        /// The world's number of the stop.
        epoch: u64,
    },
    /// Some thread did not answer; all others were let go.
    StopFailed {
        /// The world's number of the stop.
        epoch: u64,
    },
    /// A thread goes on after a collection.
    LetGo {
        /// Its id.
        tid: Tid,
    },
    /// A thread stays as the user left it after a collection.
    StaysFrozen {
        /// Its id.
        tid: Tid,
    },
    /// The world runs again.
    WorldStarted {
        /// The world's number of the stop.
        epoch: u64,
    },
    /// A user froze a thread.
    Frozen {
        /// Its id.
        tid: Tid,
        /// Where its live stack begins.
        stack_ptr: usize,
    },
    /// A thread was let go by the user, or by the end of the debugger.
    Thawed {
        /// Its id.
        tid: Tid,
    },
    /// It is out of force.
    Detached,
}

/// How many events are kept.
const ROOM: usize = 1 << 16;

/// Events in their order. Never grows (`.stop.no-malloc`): when it is full it counts.
pub(super) struct Log {
    events: Vec<MockEvent>,
    missed: u64,
}

impl Log {
    pub(super) fn new() -> Self {
        Self { events: Vec::with_capacity(ROOM), missed: 0 }
    }

    pub(super) fn note(&mut self, event: MockEvent) {
        if self.events.len() < self.events.capacity() {
            self.events.push(event);
        } else {
            self.missed += 1;
        }
    }

    pub(super) fn events(&self) -> &[MockEvent] {
        &self.events
    }

    pub(super) fn missed(&self) -> u64 {
        self.missed
    }

    pub(super) fn clear(&mut self) {
        self.events.clear();
        self.missed = 0;
    }
}
