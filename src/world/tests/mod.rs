//! Tests that stop and start real threads, without a heap. This file has the common part; the tests are in the other files.

mod ends;
mod errors;
mod places;
mod stacks;
mod stopping;
mod vtables;

use std::sync::Arc;
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::os::clock::Budget;
use crate::os::{Tid, signals, thread};
use crate::sync::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use super::error::{SilenceReason, StopError};
use super::registry::{Threads, Vtable};
use super::safepoints::SafepointStopper;
use super::signals::SignalStopper;
use super::stop::{StopBy, StoppedWorld};
use super::stop_info::{Slot, ThreadStopInfo};
use super::stop_request::StopRequest;
use super::vtable::ThreadVtable;

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum By {
    Signals,
    Safepoints,
}

pub(crate) fn vtable(by: By) -> Vtable {
    match by {
        By::Signals => Arc::new(SignalStopper::new(signals::DEFAULT).unwrap()),
        By::Safepoints => Arc::new(SafepointStopper),
    }
}

pub(crate) fn threads(by: By) -> Arc<Threads> {
    crate::sabotage::choose();
    Threads::new(vtable(by)).unwrap()
}

pub(crate) fn budget(ms: u64) -> Budget {
    Budget::new(Duration::from_millis(ms))
}

/// Stops the world once, by a thread that is not attached.
pub(crate) fn stop_within(threads: &Threads, ms: u64) -> Result<StoppedWorld<'_>, StopError> {
    let mut budget = budget(ms);
    let locks = threads.lock_for_stop(&mut budget)?;
    threads.stop(locks, None, StopBy::InForce, budget)
}

pub(crate) fn stop(threads: &Threads) -> StoppedWorld<'_> {
    stop_within(threads, 60_000).unwrap()
}

/// An attached thread that repeats `work` until it is requested to end.
pub(crate) struct Worker {
    pub(crate) info: &'static ThreadStopInfo,
    pub(crate) count: Arc<AtomicU64>,
    end: Arc<AtomicBool>,
    handle: Option<JoinHandle<()>>,
}

impl Worker {
    pub(crate) fn new(
        threads: &Arc<Threads>,
        name: &str,
        work: impl Fn(&'static ThreadStopInfo) + Send + 'static,
    ) -> Self {
        let count = Arc::new(AtomicU64::new(0));
        let end = Arc::new(AtomicBool::new(false));
        let (sender, receiver) = mpsc::channel();
        let handle = {
            let (threads, name, count, end) = (Arc::clone(threads), name.to_owned(), count.clone(), end.clone());
            std::thread::spawn(move || {
                let info = threads.attach(&name).unwrap();
                sender.send(info).unwrap();
                while !end.load(Ordering::Relaxed) {
                    count.fetch_add(1, Ordering::Relaxed);
                    work(info);
                }
                threads.detach(info);
            })
        };
        Self { info: receiver.recv().unwrap(), count, end, handle: Some(handle) }
    }

    pub(crate) fn count(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }

    pub(crate) fn runs(&self) -> bool {
        let before = self.count();
        within(LONG, || self.count() > before + 1)
    }

    pub(crate) fn is_stopped(&self) -> bool {
        let before = self.count();
        std::thread::sleep(Duration::from_millis(30));
        self.count() == before
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.end.store(true, Ordering::Relaxed);
        if let Some(handle) = self.handle.take()
            && !std::thread::panicking()
        {
            handle.join().unwrap();
        }
    }
}

/// A time limit for the tests' waits, far longer than any of them takes, even on a busy machine.
pub(crate) const LONG: Duration = Duration::from_secs(300);

pub(crate) fn within(time: Duration, holds: impl Fn() -> bool) -> bool {
    let start = Instant::now();
    while !holds() {
        if start.elapsed() > time {
            return false;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    true
}

fn sleep_in_region(info: &ThreadStopInfo) {
    info.blocking(|| std::thread::sleep(Duration::from_millis(1)));
}

pub(crate) fn spin(info: &ThreadStopInfo) {
    info.safepoint();
}

pub(crate) use places::{ALL as KEEPERS, is_found, is_found_between};
