//! Decides when parallel marking is over.
//!
//! Several markers share a pool of work. A marker without work may not leave: another marker may still find objects and
//! share them. Marking is over when *all* markers have no work, and the pool is empty at that moment.
//!
//! ```text
//!   31               9     8       7       0
//!  +------------------+----------+----------+
//!  |  work added      | finished |   idle   |
//!  +------------------+----------+----------+
//! ```
//!
//! The loop of a marker:
//!
//! ```text
//!   loop {
//!       let seen = termination.snapshot();
//!       match pool.take() {
//!           Some(work) => mark(work),        // shares surplus: pool.put(..); termination.work_added()
//!           None => match termination.became_idle(seen) { Finished => break, LookAgain => {} },
//!       }
//!   }
//! ```
//!
//! **It ends at the right moment.** Only a marker that is not idle holds work or puts work into the pool. A marker counts
//! itself as idle *after* it found the pool empty, and as busy again *before* it looks into the pool (`.mark.termination`). So
//! when all are counted as idle, each has found the pool empty at a time when only idle markers could have filled it, and idle
//! markers do not fill it. **No marker sleeps while there is work.** A new value of `work added` announces work, and a marker becomes
//! idle only by a compare-exchange that still finds the value of its *snapshot*, the word that it read before it looked into the
//! pool (`.mark.snapshot`).
//!
//! An idle marker sleeps in a futex on that word; no marker spins. The last marker that becomes idle wakes all. The number of
//! additions wraps around after 2^23. A marker could take an old value for the present one only if the others added work that
//! often while it looked into the pool once.

use crate::sabotage::{Guard, removed};
use crate::sync::{AtomicU32, Ordering, const_new, interrupt_point, port};

const IDLE: u32 = 0xff;
const FINISHED: u32 = 1 << 8;
const ADDED: u32 = 1 << 9;

/// The maximum number of markers that one [`Termination`] counts.
pub(crate) const MOST_MARKERS: u32 = IDLE;

/// Finds the end of parallel marking. See the module's text.
#[derive(Debug)]
pub(crate) struct Termination {
    word: AtomicU32,
    markers: AtomicU32,
}

/// The word as a marker saw it before it looked into the pool.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PoolSnapshot(u32);

/// What a marker without work does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub(crate) enum Idle {
    /// All markers are without work. Marking is over.
    Finished,
    /// Work was added: look into the pool again.
    LookAgain,
}

impl Termination {
    const_new! {
        /// Creates a word for 0 markers.
        pub(crate) fn new() -> Self {
            Self { word: AtomicU32::new(0), markers: AtomicU32::new(0) }
        }
    }

    /// Begins a marking with this many markers. Called before any of them starts (starting them orders this).
    pub(crate) fn start(&self, markers: u32) {
        debug_assert!((1..=MOST_MARKERS).contains(&markers));
        self.markers.store(markers, Ordering::Relaxed);
        self.word.store(0, Ordering::Relaxed);
    }

    /// Returns the present value of the word. A marker calls this before it looks into the pool.
    pub(crate) fn snapshot(&self) -> PoolSnapshot {
        // Acquire: pairs with the Release of `work_added`: a marker that sees the new number finds the work.
        PoolSnapshot(self.word.load(Ordering::Acquire))
    }

    /// Whether a marker is idle, so that sharing is worth it. One relaxed load, for the inner loop.
    #[inline]
    pub(crate) fn has_idle(&self) -> bool {
        self.word.load(Ordering::Relaxed) & IDLE != 0
    }

    /// Announces that work was put into the pool. Wakes one idle marker, if there is one.
    pub(crate) fn work_added(&self) {
        // Release: pairs with the Acquire of `snapshot` and of `became_idle`.
        let before = self.word.fetch_add(ADDED, Ordering::Release);
        interrupt_point();
        if before & IDLE != 0 {
            port::wake(&self.word, 1);
        }
    }

    /// Counts the caller as idle, which found the pool empty after this snapshot and holds no work. Returns when work was added, or
    /// when all markers are without work.
    pub(crate) fn became_idle(&self, snapshot: PoolSnapshot) -> Idle {
        let markers = self.markers.load(Ordering::Relaxed);
        let mut seen = self.word.load(Ordering::Relaxed);
        loop {
            if seen / ADDED != snapshot.0 / ADDED && !removed(Guard::MarkSnapshot) {
                return Idle::LookAgain;
            }
            let last = (seen & IDLE) + 1 == markers;
            let idle = (seen + 1) | if last { FINISHED } else { 0 };
            // Release: pairs with the Acquire in `sleep`, and with the Acquire here of the last marker: what this marker
            // marked is visible to every thread that sees the end. Acquire: pairs with the Release of the other markers,
            // for the last one, which sees the end here.
            match self.word.compare_exchange_weak(seen, idle, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) if last => {
                    interrupt_point();
                    port::wake(&self.word, MOST_MARKERS);
                    return Idle::Finished;
                }
                Ok(_) => {
                    interrupt_point();
                    return self.sleep(idle);
                }
                Err(now) => seen = now,
            }
        }
    }

    /// Sleeps as an idle marker.
    fn sleep(&self, idle: u32) -> Idle {
        let mut seen = idle;
        loop {
            // Acquire: pairs with the Release of `work_added` and of the last marker's `became_idle`.
            if seen & FINISHED != 0 {
                return Idle::Finished;
            }
            if seen / ADDED == idle / ADDED {
                port::wait(&self.word, seen, None);
                interrupt_point();
                seen = self.word.load(Ordering::Acquire);
                continue;
            }
            // The marker counts as busy before it looks into the pool: if it takes work from the pool, other markers that find the pool empty
            // see that this marker is busy.
            if removed(Guard::MarkTermination) {
                return Idle::LookAgain;
            }
            // Relaxed: the load that saw the addition has acquired the work, and this marker has done nothing since it became
            // idle. Markers that become idle later continue its release sequence, because all change the word by exchanges.
            match self.word.compare_exchange_weak(seen, seen - 1, Ordering::Relaxed, Ordering::Acquire) {
                Ok(_) => return Idle::LookAgain,
                Err(now) => seen = now,
            }
        }
    }
}
