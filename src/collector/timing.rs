//! The processor time that collections take, thread by thread, for a time profile.
//!
//! Nobody could tell from outside: a tick comes when it comes, and a short collection lies between two. So, while somebody wants to
//! know, the collecting thread reads the clock of its own processor time when it begins and when it ends. The service threads do
//! nothing but mark: all that their clocks say is for collections, also in the middle of one.

use crate::os::clock::{thread_cpu_ns, thread_cpu_ns_of};
use crate::os::{Tid, thread};
use crate::sync::{AtomicBool, AtomicU32, Ordering};
use crate::world::stop_info::ThreadStopInfo;

/// Whether the time is wanted, and who the service threads are.
#[derive(Debug)]
pub(crate) struct CollectorTime {
    wanted: AtomicBool,
    /// The service threads' ids; 0 of one that has not begun or does not exist.
    helpers: Box<[AtomicU32]>,
}

impl CollectorTime {
    pub(crate) fn new(helpers: usize) -> Self {
        Self { wanted: AtomicBool::new(false), helpers: (0..helpers).map(|_| AtomicU32::new(0)).collect() }
    }

    /// From now on it is wanted, or not.
    pub(crate) fn want(&self, wanted: Wanted) {
        self.wanted.store(wanted == Wanted::Yes, Ordering::Relaxed);
    }

    /// What the service threads have taken since they began.
    pub(crate) fn helpers_ns(&self) -> u64 {
        let tids = self.helpers.iter().map(|tid| tid.load(Ordering::Relaxed)).filter(|tid| *tid != 0);
        tids.filter_map(|tid| thread_cpu_ns_of(Tid(tid as i32))).sum()
    }

    /// A collection begins on this thread, which is one of the world's or a stranger. It ends when the result is dropped.
    pub(crate) fn of_a_collection<'a>(&self, record: Option<&'a ThreadStopInfo>) -> InCollection<'a> {
        let record = record.filter(|_| self.wanted.load(Ordering::Relaxed));
        if let Some(record) = record {
            record.begins_to_collect(thread_cpu_ns());
        }
        InCollection(record)
    }

    /// The calling thread is this service thread.
    pub(crate) fn is_helper(&self, index: usize) {
        self.helpers[index].store(thread::gettid().0 as u32, Ordering::Relaxed);
    }

    /// In a forked child: there are none.
    pub(crate) fn forget_helpers(&self) {
        self.helpers.iter().for_each(|tid| tid.store(0, Ordering::Relaxed));
    }
}

/// Whether somebody wants to know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wanted {
    Yes,
    No,
}

/// A thread collects as long as this is there.
#[must_use]
pub(crate) struct InCollection<'a>(Option<&'a ThreadStopInfo>);

impl Drop for InCollection<'_> {
    fn drop(&mut self) {
        if let Some(record) = self.0 {
            record.has_collected(thread_cpu_ns());
        }
    }
}
