//! The worlds recorded in a trace.

use std::sync::{Arc, Weak};

use crate::runtime::Inner;

/// The worlds that have joined a trace.
#[derive(Debug)]
pub(super) struct Worlds {
    worlds: Vec<Weak<Inner>>,
    /// Number of worlds that ever joined.
    joined: u64,
    ends: Ends,
}

/// Whether the trace's writer receives the end events of worlds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ends {
    Come,
    /// A flight recorder keeps them in memory, or the filter does not select them.
    DoNotCome,
}

impl Worlds {
    pub(super) fn with_ends(ends: Ends) -> Worlds {
        Worlds { worlds: Vec::new(), joined: 0, ends }
    }

    pub(super) fn add(&mut self, world: &Arc<Inner>) {
        self.worlds.retain(|world| world.strong_count() > 0);
        self.joined += 1;
        self.worlds.push(Arc::downgrade(world));
    }

    /// Returns the worlds that are alive. A world whose last other handle is dropped meanwhile is closed when the result is dropped.
    pub(super) fn living(&self) -> Vec<Arc<Inner>> {
        self.worlds.iter().filter_map(Weak::upgrade).collect()
    }

    /// Sets whether the writer receives the worlds' end events from now on.
    pub(super) fn set_ends(&mut self, ends: Ends) {
        self.ends = ends;
    }

    /// Returns whether no world has a handle any more and the writer has received all their ends; `told` is how many it has received.
    pub(super) fn have_ended(&self, told: u64) -> bool {
        let have_gone = self.worlds.iter().all(|world| world.strong_count() == 0);
        have_gone && (self.ends == Ends::DoNotCome || told >= self.joined)
    }
}
