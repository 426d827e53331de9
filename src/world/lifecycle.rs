//! The beginning and the end of a world's threads: registration for forks and debuggers, and its removal.

use std::sync::{Arc, OnceLock};

use crate::events::record;
use crate::sync::{AtomicBool, AtomicU64, AtomicUsize, Guarded, Lock};

use super::fork;
use super::handshake::Handshake;
use super::latch::Latch;
use super::locks::WorldLocks;
use super::published::PublishedWorld;
use super::registry::{Roster, SURROUNDINGS, Threads, Vtable, exit_key};
use super::stop_info;

impl Threads {
    /// Makes a world's empty set of threads, stopped by `vtable`.
    #[cfg(test)]
    pub(crate) fn new(vtable: Vtable) -> std::io::Result<Arc<Self>> {
        Self::with(Arc::clone(&vtable), vtable)
    }

    /// Makes a world's empty set of threads. The world is stopped by `vtable`, or by `built_in` after a stop with `vtable` has failed.
    pub(crate) fn with(vtable: Vtable, built_in: Vtable) -> std::io::Result<Arc<Self>> {
        exit_key()?;
        record::set_surroundings(&SURROUNDINGS);
        let threads = Arc::new(Self {
            locks: WorldLocks::new(),
            handshake: Handshake::new(),
            vtable: Latch::new(vtable),
            built_in,
            epoch: AtomicU64::new(0),
            suspending: Lock::new(),
            roster: Guarded::new(Roster::default()),
            stacks: Guarded::new(Vec::new()),
            stack_list: [const { AtomicUsize::new(0) }; 2],
            hooks: OnceLock::new(),
            closed: AtomicBool::new(false),
            foreign: OnceLock::new(),
            next_stack: AtomicU64::new(1),
            published: PublishedWorld::new(),
        });
        // `drop` calls `leave`.
        let enter = |vtable: &Vtable| threads.enter(vtable).map_err(std::io::Error::other);
        enter(&threads.built_in)?;
        threads.vtable.latch().with(enter)?;
        threads.publish_vtable();
        fork::enroll(&threads)?;
        Ok(threads)
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        self.published.withdraw();
        self.vtable.latch().with(|vtable| self.leave(vtable));
        self.leave(&self.built_in);
        fork::dismiss(self);
        // Every attached thread holds a strong count, so no thread is attached and all records are free.
        let chunks = std::mem::take(&mut self.roster.own().chunks);
        stop_info::give_chunks(chunks);
    }
}
