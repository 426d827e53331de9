//! The worlds recorded in a trace.

use stopworld::{WeakWorld, World};

/// The worlds that have joined a trace.
#[derive(Debug)]
pub struct Worlds {
    worlds: Vec<WeakWorld>,
    /// The number of worlds that have ever joined.
    joined: u64,
}

impl Worlds {
    pub(super) fn new() -> Worlds {
        Worlds { worlds: Vec::new(), joined: 0 }
    }

    pub(super) fn add(&mut self, world: &World) {
        self.worlds.retain(WeakWorld::is_alive);
        self.joined += 1;
        self.worlds.push(world.downgrade());
    }

    /// Returns the worlds that are alive. A world whose last other handle is dropped meanwhile is closed when the result is dropped.
    pub(super) fn living(&self) -> Vec<World> {
        self.worlds.iter().filter_map(WeakWorld::upgrade).collect()
    }

    /// Returns whether no world has a handle any more and the writer has received the ends of all. The writer has received `ended` ends;
    /// `None` means that the writer does not receive ends.
    pub(super) fn have_ended(&self, ended: Option<u64>) -> bool {
        let have_gone = !self.worlds.iter().any(WeakWorld::is_alive);
        have_gone && ended.is_none_or(|ended| ended >= self.joined)
    }
}
