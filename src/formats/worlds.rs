//! The worlds that a trace is of, and the wait for their ends.

use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use crate::events::record::Recorder;
use crate::runtime::Inner;

/// The worlds that have joined a trace.
#[derive(Debug, Default)]
pub(super) struct Worlds {
    worlds: Vec<Weak<Inner>>,
    /// All that ever joined.
    joined: u64,
}

impl Worlds {
    pub(super) fn add(&mut self, world: &Arc<Inner>) {
        self.worlds.retain(|world| world.strong_count() > 0);
        self.joined += 1;
        self.worlds.push(Arc::downgrade(world));
    }

    /// Those that live. One whose last handle goes meanwhile ends where the result is dropped.
    pub(super) fn living(&self) -> Vec<Arc<Inner>> {
        self.worlds.iter().filter_map(Weak::upgrade).collect()
    }

    /// Whether none has a handle any more.
    pub(super) fn have_gone(&self) -> bool {
        self.worlds.iter().all(|world| world.strong_count() == 0)
    }

    /// How many ever joined.
    pub(super) fn joined(&self) -> u64 {
        self.joined
    }
}

/// Brings what was fired to the traces until something is so.
pub(super) fn flush_until(within: Duration, is_so: impl Fn() -> bool) {
    let deadline = Instant::now() + within;
    while !is_so() && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(1));
        // An error is told where the trace ends.
        let _ = Recorder::of_process().flush();
    }
}
