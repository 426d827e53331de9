//! The worlds that are served to clients.

use std::sync::Mutex;

use super::counters::Source;
use stopworld::events::record::locked;
use stopworld::{WeakWorld, World};

/// The worlds of the process that are served, each with a unique serial number.
#[derive(Default)]
pub(super) struct Worlds(Mutex<List>);

#[derive(Default)]
struct List {
    met: u64,
    worlds: Vec<(u64, WeakWorld)>,
}

impl Worlds {
    /// Adds a world. Returns `false` if the list already contains it.
    pub(super) fn add(&self, world: &World) -> bool {
        locked(&self.0, |list| {
            list.worlds.retain(|(_, world)| world.is_alive());
            if list.worlds.iter().any(|(_, known)| known.is(world)) {
                return false;
            }
            list.met += 1;
            list.worlds.push((list.met, world.downgrade()));
            true
        })
    }

    fn numbered(&self) -> Vec<(u64, World)> {
        locked(&self.0, |list| {
            list.worlds.iter().filter_map(|(serial, world)| Some((*serial, world.upgrade()?))).collect()
        })
    }

    /// Returns the live worlds. If the last other owner drops a world meanwhile, the world ends when the result is dropped.
    pub(super) fn living(&self) -> Vec<World> {
        self.numbered().into_iter().map(|(_, world)| world).collect()
    }

    /// Encodes the numbers of the live worlds, the newest first: the payload of a reply.
    pub(super) fn list(&self) -> Vec<u8> {
        let mut numbers: Vec<u64> = self.living().iter().map(|world| world.facts().number).collect();
        numbers.sort_unstable_by(|a, b| b.cmp(a));
        let mut payload = (numbers.len() as u32).to_le_bytes().to_vec();
        payload.extend(numbers.iter().flat_map(|number| number.to_le_bytes()));
        payload
    }

    /// Returns the counters of the live worlds.
    pub(super) fn sources(&self) -> Vec<Source> {
        let worlds = self.numbered();
        worlds.iter().map(|(serial, world)| Source { serial: *serial, counters: world.counters() }).collect()
    }
}

impl std::fmt::Debug for Worlds {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Worlds").finish_non_exhaustive()
    }
}
