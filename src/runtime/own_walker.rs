//! How a thread finds its own call stack.

use std::cell::Cell;

use crate::os::stack_walk::Walker;
use crate::profile::allocations::{CallStack, MOST_FRAMES};
use crate::world::registry::Threads;
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
    /// Returns the call stack of the calling thread, whose record this is. `None` if the thread is on a stack that the world does not know, or
    /// the store of stacks is full.
    pub(super) fn call_stack(&self, threads: &Threads, record: &ThreadStopInfo) -> Option<CallStack> {
        let mut addresses = [0; MOST_FRAMES];
        let stack = threads.stack_with(record, addresses.as_ptr() as usize)?;
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
        let found = walker.walk(stack.low..stack.high, &mut addresses);
        self.walker.set(Some(walker));
        (found > 0).then(|| CallStack::of(&addresses[..found])).flatten()
    }
}
