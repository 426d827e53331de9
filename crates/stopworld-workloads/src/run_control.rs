//! The run plan of a workload, and its end.
//!
//! The end of a run is one flag. Several parties may set it: the timer of a run with a duration, the world's listener
//! after the planned number of collections, the handler of a signal, a thread that failed. The working threads read it with
//! a relaxed load. It publishes no other data, and it is never cleared.

use std::num::{NonZeroU32, NonZeroUsize};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use stopworld_platform::sync::{AtomicBool, AtomicU32, Ordering};

/// The plan of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunPlan {
    /// The number of threads.
    pub threads: NonZeroUsize,
    /// The condition that ends the run.
    pub until: Until,
    /// The depth of the trees, for workloads with trees.
    pub depth: u32,
}

/// The condition that ends a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Until {
    /// The workload has done its work once.
    OnePass,
    /// The duration has passed.
    Time(Duration),
    /// This number of collections was counted with [`RunControl::count_collection`].
    Collections(NonZeroU32),
}

/// A plan in progress, shared by all threads that execute it or may end it.
#[derive(Clone)]
pub struct RunControl(Arc<Inner>);

struct Inner {
    plan: RunPlan,
    over: AtomicBool,
    collections: AtomicU32,
    /// Whether the timer thread must end, and the condition variable that wakes it.
    dismissed: Mutex<bool>,
    dismissal: Condvar,
}

/// The timer that ends a run. Dropping it cancels the timer.
pub struct Alarm {
    inner: Arc<Inner>,
    clock: Option<thread::JoinHandle<()>>,
}

impl RunControl {
    /// Creates a run that has not begun.
    pub fn new(plan: RunPlan) -> RunControl {
        RunControl(Arc::new(Inner {
            plan,
            over: AtomicBool::new(false),
            collections: AtomicU32::new(0),
            dismissed: Mutex::new(false),
            dismissal: Condvar::new(),
        }))
    }

    /// Returns the plan.
    pub fn plan(&self) -> &RunPlan {
        &self.0.plan
    }

    /// Returns whether the run has ended, so that threads must begin no new work.
    #[inline]
    pub fn is_over(&self) -> bool {
        self.0.over.load(Ordering::Relaxed)
    }

    /// Returns the flag that is set when the run is over, for a caller that needs only this flag.
    pub fn flag(&self) -> &AtomicBool {
        &self.0.over
    }

    /// Ends the run now.
    pub fn end(&self) {
        self.0.over.store(true, Ordering::Relaxed);
    }

    /// Counts a collection, and ends the run after the planned number. To be called from the world's listener.
    pub fn count_collection(&self) {
        let counted = self.0.collections.fetch_add(1, Ordering::Relaxed) + 1;
        if let Until::Collections(wanted) = self.0.plan.until
            && counted >= wanted.get()
        {
            self.end();
        }
    }

    /// Returns the number of collections counted.
    pub fn collections(&self) -> u32 {
        self.0.collections.load(Ordering::Relaxed)
    }

    /// Starts the timer of a run with a duration. The timer is a plain thread and not a mutator, so it is never stopped.
    ///
    /// # Panics
    /// If the thread can't be started.
    pub fn start(&self) -> Alarm {
        let clock = match self.0.plan.until {
            Until::Time(time) => {
                let inner = Arc::clone(&self.0);
                Some(thread::spawn(move || inner.ring_after(time)))
            }
            Until::OnePass | Until::Collections(_) => None,
        };
        Alarm { inner: Arc::clone(&self.0), clock }
    }
}

impl Inner {
    fn ring_after(&self, time: Duration) {
        // No code that holds this lock can panic.
        let dismissed = self.dismissed.lock().unwrap_or_else(PoisonError::into_inner);
        let _unused = self.dismissal.wait_timeout_while(dismissed, time, |dismissed| !*dismissed);
        self.over.store(true, Ordering::Relaxed);
    }
}

impl Drop for Alarm {
    fn drop(&mut self) {
        *self.inner.dismissed.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.inner.dismissal.notify_all();
        if let Some(clock) = self.clock.take() {
            // The timer thread only waits and sets a flag: it can't panic and returns nothing. The join takes
            // microseconds, so the caller may be a mutator outside a blocking region.
            let _ = clock.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;

    fn run_control(until: Until) -> RunControl {
        RunControl::new(RunPlan { threads: NonZeroUsize::MIN, until, depth: 4 })
    }

    #[test]
    fn a_run_with_a_duration_ends_after_it() {
        let run_control = run_control(Until::Time(Duration::from_millis(20)));
        let begun = Instant::now();
        let _alarm = run_control.start();
        while !run_control.is_over() {
            thread::sleep(Duration::from_millis(1));
            assert!(begun.elapsed() < Duration::from_secs(10));
        }
        assert!(begun.elapsed() >= Duration::from_millis(20));
    }

    #[test]
    fn a_cancelled_timer_does_not_block() {
        let begun = Instant::now();
        drop(run_control(Until::Time(Duration::from_secs(3600))).start());
        assert!(begun.elapsed() < Duration::from_secs(10));
    }

    #[test]
    fn the_planned_number_of_collections_ends_the_run() {
        let three = NonZeroU32::new(3).expect("not zero");
        let run_control = run_control(Until::Collections(three));
        run_control.count_collection();
        run_control.count_collection();
        assert!(!run_control.is_over());
        run_control.count_collection();
        assert!(run_control.is_over());
        assert_eq!(run_control.collections(), 3);
    }
}
