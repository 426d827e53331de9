//! The functions of a world that are called when one of its threads ends, when a cost centre is defined, and around a fork.

use super::inner::{Inner, ThreadNews};
use crate::collector::Collector;
#[cfg(feature = "check")]
use crate::collector::promise::Promise;
use crate::profile::CentreId;
use crate::sabotage::{Guard, removed};
use crate::sync::LockGuard;
use crate::world::registry::{Threads, WorldHooks};
use crate::world::stop_info::ThreadStopInfo;

impl WorldHooks for Inner {
    fn thread_exits(&self, threads: &Threads, record: &'static ThreadStopInfo) {
        self.ticker.leaves(record, &self.collector.events);
        {
            let allocation = record.lock(&threads.locks().allocation);
            // SAFETY: the calling thread's record, and the allocation lock of its world.
            unsafe { self.release_cache(&allocation, record) };
        }
        self.report_thread(record, ThreadNews::Detached);
        crate::events::record::ring::leave();
        threads.detach(record);
    }

    fn thread_lost(&self, record: &'static ThreadStopInfo, allocation: &LockGuard<'_>) {
        // SAFETY: the thread does not exist any more, and `Threads` calls this with its own lock.
        unsafe { self.release_cache(allocation, record) };
    }

    fn centre_defined(&self, number: u32) {
        if let Some(centre) = CentreId::from_raw(number) {
            let [label, module, place] = centre.labels();
            self.collector.events.fire_cost_centre(number, label, module, place, u32::from(centre.is_caf()));
        }
    }

    fn fork_prepare(&self) {
        self.collector.finalizers.lock.acquire();
        self.collector.roots.lock.acquire();
        self.collector.ranges.lock.acquire();
        self.collector.observing.lock.acquire();
        self.collector.samples.iter().for_each(|samples| samples.lock().acquire());
        #[cfg(feature = "check")]
        self.collector.promise.iter().for_each(Promise::fork_prepare);
        self.ticker.before_fork();
        // The fork does not wait for a thread in the sweep gate, which may be suspended. The child finishes the sweep that the thread had
        // begun.
        self.collector.events.before_fork();
    }

    unsafe fn fork_parent(&self) {
        let Collector { events, finalizers, roots, ranges, observing, samples, .. } = &self.collector;
        // SAFETY: `fork_prepare` took these locks without guards, on this thread.
        unsafe {
            #[cfg(feature = "check")]
            self.collector.promise.iter().for_each(|promise| promise.fork_parent());
            events.after_fork_in_parent();
            self.ticker.after_fork_in_parent();
            samples.iter().for_each(|samples| samples.lock().release());
            for lock in [&*observing.lock, &ranges.lock, &roots.lock, &finalizers.lock] {
                lock.release();
            }
        }
    }

    unsafe fn fork_child(&self) {
        let Collector { events, finalizers, roots, ranges, observing, samples, heap, markers, .. } = &self.collector;
        // SAFETY: `fork_prepare` took these locks without guards; this is the only thread of the process.
        unsafe {
            #[cfg(feature = "check")]
            self.collector.promise.iter().for_each(|promise| promise.fork_child());
            events.after_fork_in_child();
            self.profiler.forget_in_child();
            observing.forget_in_child();
            samples.iter().for_each(|samples| samples.lock().reset_in_child());
            for lock in [&ranges.lock, &roots.lock, &finalizers.lock] {
                lock.reset_in_child();
            }
        }
        heap.forget_sweeps_in_child();
        self.collector.scopes.forget_others_in_child(self.collector.own_thread_is_in_scope());
        if !removed(Guard::ForkServices) {
            // SAFETY: as above.
            unsafe { self.ticker.after_fork_in_child(markers.time()) };
        }
        if !removed(Guard::ForkServices) {
            markers.forget_helpers();
        }
        self.collector.finalizers.forget_thread();
    }
}
