//! How a thread finds its own call stack.

use std::cell::Cell;

use crate::os::stack_walk::Walker;
use crate::profile::allocations::{CallStack, MOST_FRAMES};
use crate::world::stop_info::ThreadStopInfo;

/// After this many walks a thread looks whether libraries were loaded or unloaded.
const WALKS_UNTIL_RENEWAL: u32 = 64;

/// Walks the stack of a thread. Empty until it is first used.
#[derive(Default)]
pub(super) struct OwnWalker {
    walker: Cell<Option<Box<Walker>>>,
    walks: Cell<u32>,
}

impl OwnWalker {
    /// Returns the call stack of the calling thread, whose record this is. `None` if the store of stacks is full.
    pub(super) fn call_stack(&self, record: &ThreadStopInfo) -> Option<CallStack> {
        // In a blocking region: the loader's lock may be held by a thread that waits for a collection.
        let mut walker = match self.walker.take() {
            None => record.blocking(|| Box::new(Walker::new())),
            Some(mut walker) if self.walks.get() >= WALKS_UNTIL_RENEWAL => {
                self.walks.set(0);
                record.blocking(|| walker.renew());
                walker
            }
            Some(walker) => walker,
        };
        self.walks.set(self.walks.get() + 1);
        let (low, high) = record.stack();
        let mut addresses = [0; MOST_FRAMES];
        let found = walker.walk(low..high, &mut addresses);
        self.walker.set(Some(walker));
        CallStack::of(&addresses[..found])
    }
}
