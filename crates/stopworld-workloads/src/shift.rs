//! How long a workload goes on.
//!
//! The end of a shift is one flag. Whoever has a reason sets it: the alarm of a shift with a time, the world's
//! listener when enough collections are counted, a signal, a thread that failed. The threads at work read it with a
//! relaxed load; nothing else is published through it, and it stays set.

use std::num::{NonZeroU32, NonZeroUsize};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use stopworld_platform::sync::{AtomicBool, AtomicU32, Ordering};

/// What a workload is asked to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    /// On how many threads.
    pub threads: NonZeroUsize,
    /// For how long.
    pub until: Until,
    /// How deep the trees are, for workloads that are about trees.
    pub depth: u32,
}

/// When a workload is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Until {
    /// When it has done its work once.
    OnePass,
    /// When this much time has passed.
    Time(Duration),
    /// When this many collections were counted with [`Shift::count_collection`].
    Collections(NonZeroU32),
}

/// A plan under way, shared by everyone who works on it or may end it.
#[derive(Clone)]
pub struct Shift(Arc<Inner>);

struct Inner {
    plan: Plan,
    over: AtomicBool,
    collections: AtomicU32,
    /// Whether the alarm is to go home, and what wakes it.
    dismissed: Mutex<bool>,
    dismissal: Condvar,
}

/// Ends a shift in time. Dropping it calls the alarm off.
pub struct Alarm {
    inner: Arc<Inner>,
    clock: Option<thread::JoinHandle<()>>,
}

impl Shift {
    /// A shift that has not begun.
    pub fn new(plan: Plan) -> Shift {
        Shift(Arc::new(Inner {
            plan,
            over: AtomicBool::new(false),
            collections: AtomicU32::new(0),
            dismissed: Mutex::new(false),
            dismissal: Condvar::new(),
        }))
    }

    /// What was asked for.
    pub fn plan(&self) -> &Plan {
        &self.0.plan
    }

    /// Whether to begin no new work.
    #[inline]
    pub fn is_over(&self) -> bool {
        self.0.over.load(Ordering::Relaxed)
    }

    /// The flag itself, for who looks at nothing else.
    pub fn flag(&self) -> &AtomicBool {
        &self.0.over
    }

    /// Ends the shift now.
    pub fn end(&self) {
        self.0.over.store(true, Ordering::Relaxed);
    }

    /// Tells the shift of a collection; the last one that was asked for ends it. Meant for the world's listener.
    pub fn count_collection(&self) {
        let counted = self.0.collections.fetch_add(1, Ordering::Relaxed) + 1;
        if let Until::Collections(wanted) = self.0.plan.until
            && counted >= wanted.get()
        {
            self.end();
        }
    }

    /// How many collections were counted.
    pub fn collections(&self) -> u32 {
        self.0.collections.load(Ordering::Relaxed)
    }

    /// Starts the clock of a shift that has a time. The clock is a plain thread, no mutator: it is never stopped.
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
        // Nobody can panic while holding this lock.
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
            // The clock only waits and sets a flag: it can't panic, and there is nothing to learn from its end. The
            // wait is a matter of microseconds, so this may be a mutator that is not in a blocking region.
            let _ = clock.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;

    fn shift(until: Until) -> Shift {
        Shift::new(Plan { threads: NonZeroUsize::MIN, until, depth: 4 })
    }

    #[test]
    fn a_shift_with_a_time_is_over_when_it_has_passed() {
        let shift = shift(Until::Time(Duration::from_millis(20)));
        let begun = Instant::now();
        let _alarm = shift.start();
        while !shift.is_over() {
            thread::sleep(Duration::from_millis(1));
            assert!(begun.elapsed() < Duration::from_secs(10));
        }
        assert!(begun.elapsed() >= Duration::from_millis(20));
    }

    #[test]
    fn an_alarm_that_is_called_off_does_not_keep_anyone_waiting() {
        let begun = Instant::now();
        drop(shift(Until::Time(Duration::from_secs(3600))).start());
        assert!(begun.elapsed() < Duration::from_secs(10));
    }

    #[test]
    fn the_last_collection_that_was_asked_for_ends_the_shift() {
        let three = NonZeroU32::new(3).expect("not zero");
        let shift = shift(Until::Collections(three));
        shift.count_collection();
        shift.count_collection();
        assert!(!shift.is_over());
        shift.count_collection();
        assert!(shift.is_over());
        assert_eq!(shift.collections(), 3);
    }
}
