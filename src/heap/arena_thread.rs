//! What a thread's cache has for the thread's arena.

use crate::sync::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};

/// The state of a thread that may have an [`Arena`](crate::Arena). Only the thread itself writes it, so each operation is relaxed.
pub(crate) struct ArenaThread {
    pub(super) has_arena: AtomicBool,
    /// The number of scopes that the thread is in, one inside the other.
    scopes: AtomicU32,
    /// The collection that became due in a scope: 0, or the number of finished collections at that time plus 1, and [`REQUESTED`].
    due: AtomicU64,
}

/// A debugger has requested the collection.
const REQUESTED: u64 = 1 << 63;

/// A collection that became due in a scope.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DueCollection {
    /// The number of finished collections at that time: a later one makes it unnecessary.
    pub(crate) seen: u32,
    pub(crate) is_requested: bool,
}

impl ArenaThread {
    pub(super) const fn new() -> Self {
        Self { has_arena: AtomicBool::new(false), scopes: AtomicU32::new(0), due: AtomicU64::new(0) }
    }

    /// Notes that the thread has an arena: from now on it has references in scopes only, and its stack is not scanned.
    pub(crate) fn begin(&self) {
        self.has_arena.store(true, Relaxed);
    }

    pub(crate) fn has_arena(&self) -> bool {
        self.has_arena.load(Relaxed)
    }

    pub(crate) fn is_in_scope(&self) -> bool {
        self.scopes.load(Relaxed) != 0
    }

    /// Enters a scope, which may be inside another one.
    pub(crate) fn enter(&self) {
        self.scopes.store(self.scopes.load(Relaxed) + 1, Relaxed);
    }

    /// Leaves the innermost scope.
    pub(crate) fn leave(&self) {
        self.scopes.store(self.scopes.load(Relaxed) - 1, Relaxed);
    }

    /// Notes that a collection is due. A request is not forgotten for a later collection that was not requested.
    pub(crate) fn set_due(&self, due: DueCollection) {
        let requested = self.due.load(Relaxed) & REQUESTED | if due.is_requested { REQUESTED } else { 0 };
        self.due.store(requested | (u64::from(due.seen) + 1), Relaxed);
    }

    /// Takes the collection that is due.
    pub(crate) fn take_due(&self) -> Option<DueCollection> {
        match self.due.swap(0, Relaxed) {
            0 => None,
            due => Some(DueCollection { seen: ((due & !REQUESTED) - 1) as u32, is_requested: due & REQUESTED != 0 }),
        }
    }
}
