//! The processor time that collections take, thread by thread, for a time profile.
//!
//! Nobody could tell from outside: a tick comes when it comes, and a short collection lies between two. So, while somebody wants to
//! know, whoever works in a collection reads the clock of its own processor time when it begins and when it ends: the
//! collecting thread into its record, the service threads into one sum.

use crate::os::clock::thread_cpu_ns;
use crate::sync::{AtomicBool, AtomicU64, Ordering};
use crate::world::stop_info::ThreadStopInfo;

/// Whether the time is wanted, and the service threads' sum.
#[derive(Debug)]
pub(crate) struct CollectorTime {
    wanted: AtomicBool,
    helpers_ns: AtomicU64,
}

impl CollectorTime {
    pub(crate) const fn new() -> Self {
        Self { wanted: AtomicBool::new(false), helpers_ns: AtomicU64::new(0) }
    }

    /// From now on it is wanted, or not.
    pub(crate) fn want(&self, wanted: Wanted) {
        self.wanted.store(wanted == Wanted::Yes, Ordering::Relaxed);
    }

    /// What the service threads have taken so far, as far as somebody wanted to know.
    pub(crate) fn helpers_ns(&self) -> u64 {
        self.helpers_ns.load(Ordering::Relaxed)
    }

    /// A collection begins on this thread, which is one of the world's or a stranger. It ends when the result is dropped.
    pub(crate) fn of_a_collection<'a>(&self, record: Option<&'a ThreadStopInfo>) -> InCollection<'a> {
        let record = record.filter(|_| self.wanted.load(Ordering::Relaxed));
        if let Some(record) = record {
            record.begins_to_collect(thread_cpu_ns());
        }
        InCollection(record)
    }

    /// A service thread begins to work. It ends when the result is dropped.
    pub(crate) fn of_a_helper(&self) -> Helping<'_> {
        let wanted = self.wanted.load(Ordering::Relaxed);
        Helping { sum: &self.helpers_ns, since: wanted.then(thread_cpu_ns) }
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

/// A service thread works as long as this is there.
#[must_use]
pub(crate) struct Helping<'a> {
    sum: &'a AtomicU64,
    since: Option<u64>,
}

impl Drop for Helping<'_> {
    fn drop(&mut self) {
        if let Some(since) = self.since {
            self.sum.fetch_add(thread_cpu_ns().saturating_sub(since), Ordering::Relaxed);
        }
    }
}
