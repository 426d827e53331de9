//! The mock debugger's event log, in memory that is allocated before the first stop.

use crate::os::Tid;

/// One thing that the debugger did or was notified of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum MockEvent {
    /// The debugger was installed, and this many threads were announced to it.
    Attached {
        /// The number of threads.
        threads: u32,
    },
    /// A thread that existed when the debugger was installed was announced.
    Announced {
        /// Its id.
        tid: Tid,
    },
    /// A thread was created.
    Created {
        /// Its id.
        tid: Tid,
    },
    /// A thread ended.
    Exited {
        /// Its id.
        tid: Tid,
    },
    /// The collector requested a stop.
    StopBegins {
        /// The world's number of the stop.
        epoch: u64,
    },
    /// A thread is stopped, its registers are pushed, its slot is written.
    Stopped {
        /// Its id.
        tid: Tid,
        /// The value written.
        stack_ptr: usize,
    },
    /// The debugger answered for a frozen thread: its registers are in its record, its slot is written.
    Answered {
        /// Its id.
        tid: Tid,
        /// The value written.
        stack_ptr: usize,
    },
    /// All threads are stopped.
    WorldStopped {
        /// The world's number of the stop.
        epoch: u64,
    },
    /// Some thread did not acknowledge; all others were resumed.
    StopFailed {
        /// The world's number of the stop.
        epoch: u64,
    },
    /// A thread was resumed after a collection.
    LetGo {
        /// Its id.
        tid: Tid,
    },
    /// A thread stays frozen by the user after a collection.
    StaysFrozen {
        /// Its id.
        tid: Tid,
    },
    /// The world was resumed.
    WorldStarted {
        /// The world's number of the stop.
        epoch: u64,
    },
    /// A user froze a thread.
    Frozen {
        /// Its id.
        tid: Tid,
        /// The lowest address of the thread's live stack.
        stack_ptr: usize,
    },
    /// A thread was resumed by the user, or by the end of the debugger.
    Thawed {
        /// Its id.
        tid: Tid,
    },
    /// The debugger is no longer in use.
    Detached,
}

/// The capacity of the log, in events.
const ROOM: usize = 1 << 16;

/// Events in order. Never grows (`.stop.no-malloc`): further events are only counted.
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
