//! The worlds that are served to clients.

use std::sync::{Arc, Mutex, Weak};

use super::counters::Source;
use crate::events::record::locked;
use crate::runtime::Inner;

/// The worlds of the process that are served, each with a unique serial number.
#[derive(Default)]
pub(super) struct Worlds(Mutex<List>);

#[derive(Default)]
struct List {
    met: u64,
    worlds: Vec<(u64, Weak<Inner>)>,
}

impl Worlds {
    /// Adds a world. Returns `false` if the list already contains it.
    pub(super) fn add(&self, world: &Arc<Inner>) -> bool {
        locked(&self.0, |list| {
            list.worlds.retain(|(_, world)| world.strong_count() > 0);
            if list.worlds.iter().any(|(_, known)| std::ptr::eq(known.as_ptr(), Arc::as_ptr(world))) {
                return false;
            }
            list.met += 1;
            list.worlds.push((list.met, Arc::downgrade(world)));
            true
        })
    }

    fn numbered(&self) -> Vec<(u64, Arc<Inner>)> {
        locked(&self.0, |list| {
            list.worlds.iter().filter_map(|(serial, world)| Some((*serial, world.upgrade()?))).collect()
        })
    }

    /// Returns the live worlds. If the last other owner drops a world meanwhile, the world ends when the result is dropped.
    pub(super) fn living(&self) -> Vec<Arc<Inner>> {
        self.numbered().into_iter().map(|(_, world)| world).collect()
    }

    /// Calls `look` with the live worlds, as sources of counters.
    pub(super) fn with_sources<R>(&self, look: impl FnOnce(&[Source<'_>]) -> R) -> R {
        let worlds = self.numbered();
        let sources: Vec<Source<'_>> =
            worlds.iter().map(|(serial, world)| Source { serial: *serial, collector: &world.collector }).collect();
        look(&sources)
    }
}

impl std::fmt::Debug for Worlds {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Worlds").finish_non_exhaustive()
    }
}
