//! A reference to a world that keeps neither the world open nor its memory allocated.

use std::sync::{Arc, Weak};

use super::World;
use super::inner::Inner;

/// A reference to a world that does not keep it alive: for recordings and services, which may outlive their worlds.
#[derive(Clone)]
pub struct WeakWorld(Weak<Inner>);

impl World {
    /// Returns a reference that does not keep the world alive.
    pub fn downgrade(&self) -> WeakWorld {
        WeakWorld(Arc::downgrade(self.inner()))
    }
}

impl WeakWorld {
    /// Returns a handle to the world if it still exists. The handle does not keep the world open: when the last other handle is
    /// dropped, the world closes. But the world's memory, and its last events, wait for the drop of this handle, so drop it soon, and
    /// not under a lock that a [`Consumer`](crate::events::record::Consumer) or a recording needs.
    pub fn upgrade(&self) -> Option<World> {
        Some(World::of(self.0.upgrade()?, false))
    }

    /// Returns whether the world still exists.
    pub fn is_alive(&self) -> bool {
        self.0.strong_count() > 0
    }

    /// Returns whether this refers to `world`.
    pub fn is(&self, world: &World) -> bool {
        std::ptr::eq(self.0.as_ptr(), Arc::as_ptr(world.inner()))
    }
}

impl std::fmt::Debug for WeakWorld {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WeakWorld").field("alive", &self.is_alive()).finish()
    }
}
