//! The processor time that collections take, per thread, for a time profile.
//!
//! The profile's ticks cannot measure this time: a short collection may begin and end between two ticks. So, while the time is
//! wanted, the collecting thread reads the clock of its own processor time when the collection begins and when it ends. The service
//! threads work for collections only, so all their processor time is collection time; it can be read also while a collection runs.

use crate::os::clock::{thread_cpu_ns, thread_cpu_ns_of};
use crate::os::{Tid, thread};
use crate::sync::{AtomicBool, AtomicU32, Ordering};
use crate::world::stop_info::ThreadStopInfo;

/// Whether the time is wanted, and the ids of the service threads.
#[derive(Debug)]
pub(crate) struct CollectorTime {
    measured: AtomicBool,
    /// The service threads' ids; 0 for one that has not started or does not exist.
    helpers: Box<[AtomicU32]>,
}

impl CollectorTime {
    pub(crate) fn new(helpers: usize) -> Self {
        Self { measured: AtomicBool::new(false), helpers: (0..helpers).map(|_| AtomicU32::new(0)).collect() }
    }

    /// Turns the measurement on or off.
    pub(crate) fn set_measured(&self, measured: Measured) {
        self.measured.store(measured == Measured::Yes, Ordering::Relaxed);
    }

    /// The processor time of the service threads since they started.
    pub(crate) fn helpers_ns(&self) -> u64 {
        let tids = self.helpers.iter().map(|tid| tid.load(Ordering::Relaxed)).filter(|tid| *tid != 0);
        tids.filter_map(|tid| thread_cpu_ns_of(Tid(tid as i32))).sum()
    }

    /// Records that a collection begins on the calling thread. `record` is the thread's record, if it is attached. The collection ends
    /// when the result is dropped.
    pub(crate) fn of_a_collection<'a>(&self, record: Option<&'a ThreadStopInfo>) -> InCollection<'a> {
        let record = record.filter(|_| self.measured.load(Ordering::Relaxed));
        if let Some(record) = record {
            record.begins_to_collect(thread_cpu_ns());
        }
        InCollection(record)
    }

    /// Registers the calling thread as the service thread with this index.
    pub(crate) fn is_helper(&self, index: usize) {
        self.helpers[index].store(thread::gettid().0 as u32, Ordering::Relaxed);
    }

    /// Called in a forked child, which has no service threads.
    pub(crate) fn forget_helpers(&self) {
        self.helpers.iter().for_each(|tid| tid.store(0, Ordering::Relaxed));
    }
}

/// Whether the time is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Measured {
    Yes,
    No,
}

/// While this exists, the thread is collecting.
#[must_use]
pub(crate) struct InCollection<'a>(Option<&'a ThreadStopInfo>);

impl Drop for InCollection<'_> {
    fn drop(&mut self) {
        if let Some(record) = self.0 {
            record.has_collected(thread_cpu_ns());
        }
    }
}
