//! The worlds that a trace is of.

use std::sync::{Arc, Weak};

use crate::runtime::Inner;

/// The worlds that have joined a trace.
#[derive(Debug)]
pub(super) struct Worlds {
    worlds: Vec<Weak<Inner>>,
    /// All that ever joined.
    joined: u64,
    ends: Ends,
}

/// Whether the ends of worlds come to the trace's writer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ends {
    Come,
    /// They stay in memory, or nobody asks for them.
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

    /// Those that live. One whose last handle goes meanwhile ends where the result is dropped.
    pub(super) fn living(&self) -> Vec<Arc<Inner>> {
        self.worlds.iter().filter_map(Weak::upgrade).collect()
    }

    /// From now on their ends come to the writer, or do not.
    pub(super) fn set_ends(&mut self, ends: Ends) {
        self.ends = ends;
    }

    /// Whether none has a handle any more, and the writer, which has told of so many ends, has no other to tell of.
    pub(super) fn have_ended(&self, told: u64) -> bool {
        let have_gone = self.worlds.iter().all(|world| world.strong_count() == 0);
        have_gone && (self.ends == Ends::DoNotCome || told >= self.joined)
    }
}
