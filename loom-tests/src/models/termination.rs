//! Termination of parallel marking.

use std::sync::Arc;

use loom::sync::Mutex;

use crate::check::Preemptions::AtMost;
use crate::check::{Fault, explore, must_fail_without};
use crate::collector::ranges::Ranges;
use crate::collector::termination::{Idle, Termination};
use crate::kernel::Kernel;
use crate::sabotage::Guard;
use crate::sync::{AtomicU32, Ordering, Semaphore, UnsafeCell};

/// A heap (a binary tree of items), a work pool, and the markers' shared state.
struct Marking {
    termination: Termination,
    /// The items with which the markers begin.
    roots: Ranges,
    pool: Mutex<Vec<usize>>,
    /// The mark of each item. Item n has the children 2n+1 and 2n+2, if they exist.
    marks: Vec<UnsafeCell<bool>>,
    /// Posted for each item that has been marked.
    marked: Semaphore,
}

// SAFETY: all data that is not Sync is in loom cells, and loom reports unordered accesses to them.
unsafe impl Sync for Marking {}
// SAFETY: as above.
unsafe impl Send for Marking {}

impl Marking {
    fn new(markers: u32, items: usize) -> Arc<Self> {
        let marking = Self {
            termination: Termination::new(),
            roots: Ranges::new(),
            pool: Mutex::new(vec![0]),
            marks: (0..items).map(|_| UnsafeCell::new(false)).collect(),
            marked: Semaphore::new(),
        };
        marking.termination.start(markers);
        Arc::new(marking)
    }

    fn mark(&self, item: usize) {
        self.marks[item].with_mut(|mark| {
            // SAFETY: loom reports every concurrent access.
            let mark = unsafe { &mut *mark };
            assert!(!*mark, "an item is marked twice");
            *mark = true;
        });
    }

    fn share(&self, item: usize) {
        self.pool.lock().expect("not poisoned").push(item);
        self.termination.work_added();
    }

    /// Runs a marker, which marks the first child of each item itself and shares the second.
    fn run(&self) {
        loop {
            let snapshot = self.termination.snapshot();
            let taken = self.pool.lock().expect("not poisoned").pop();
            let Some(mut item) = taken else {
                match self.termination.became_idle(snapshot) {
                    Idle::Finished => break,
                    Idle::LookAgain => continue,
                }
            };
            while item < self.marks.len() {
                self.mark(item);
                if 2 * item + 2 < self.marks.len() {
                    self.share(2 * item + 2);
                }
                item = 2 * item + 1;
            }
        }
        self.all_is_marked();
    }

    /// Runs a marker that takes roots first, and shares the child of each.
    fn run_from_roots(&self) {
        self.roots.visit(|roots| {
            for root in roots {
                self.mark(root);
                self.share(ROOTS + root);
            }
        });
        self.run();
    }

    fn all_is_marked(&self) {
        for mark in &self.marks {
            // SAFETY: loom reports every concurrent write.
            assert!(mark.with(|mark| unsafe { *mark }), "marking ended too early");
        }
    }
}

fn markers(n: u32, items: usize) {
    run(n, Marking::new(n, items), Marking::run);
}

fn run(n: u32, marking: Arc<Marking>, marker: fn(&Marking)) {
    let kernel = Kernel::boot(n);
    let spawn = |tid| {
        let marking = Arc::clone(&marking);
        kernel.spawn(tid, move || marker(&marking))
    };
    let handles: Vec<_> = (2..=n).map(spawn).collect();
    marker(&marking);
    handles.into_iter().for_each(|h| h.join().expect("loom reports what fails"));
}

#[test]
fn two_markers() {
    explore("termination, 2 markers, 5 items", AtMost(4), || markers(2, 5));
}

#[test]
fn three_markers() {
    explore("termination, 3 markers, 3 items", AtMost(2), || markers(3, 3));
}

/// The number of roots. Each has one child, which has none.
const ROOTS: usize = 2;

/// A root that a marker has taken leads to work, also if another marker has found that there are no more roots.
#[test]
fn markers_that_begin_with_roots() {
    explore("termination, roots", AtMost(4), || {
        let marking = Marking::new(2, 2 * ROOTS);
        marking.pool.lock().expect("not poisoned").clear();
        marking.roots.start(0..ROOTS, 1);
        run(2, marking, Marking::run_from_roots);
    });
}

/// One marker shares an item and then waits until it is marked: the other marker must not sleep while the item is in the pool.
#[test]
fn no_marker_sleeps_while_there_is_work() {
    explore("termination, no marker sleeps while there is work", AtMost(5), || {
        let kernel = Kernel::boot(2);
        let marking = Marking::new(2, 2);
        let other = Arc::clone(&marking);
        marking.pool.lock().expect("not poisoned").clear();
        let other = kernel.spawn(2, move || {
            loop {
                let snapshot = other.termination.snapshot();
                let taken = other.pool.lock().expect("not poisoned").pop();
                if let Some(item) = taken {
                    other.mark(item);
                    other.marked.post();
                } else if other.termination.became_idle(snapshot) == Idle::Finished {
                    break;
                }
            }
        });
        marking.mark(0);
        marking.share(1);
        marking.marked.wait();
        marking.run();
        other.join().expect("loom reports what fails");
    });
}

/// The pool has no lock: a marker checks the pool before it takes work, and only the protocol orders that check.
#[test]
fn a_marker_that_sees_that_work_was_added_finds_it() {
    explore("termination, a pool that is checked without a lock", AtMost(5), || {
        let kernel = Kernel::boot(2);
        let (termination, offered) = (Arc::new(Termination::new()), Arc::new(AtomicU32::new(0)));
        let taken = Arc::new(Semaphore::new());
        termination.start(2);
        let (its_end, its_pool, its_taken) = (Arc::clone(&termination), Arc::clone(&offered), Arc::clone(&taken));
        let other = kernel.spawn(2, move || {
            loop {
                let snapshot = its_end.snapshot();
                if its_pool.load(Ordering::Relaxed) != 0 && its_pool.swap(0, Ordering::Relaxed) != 0 {
                    its_taken.post();
                } else if its_end.became_idle(snapshot) == Idle::Finished {
                    break;
                }
            }
        });
        offered.store(1, Ordering::Relaxed);
        termination.work_added();
        // This thread waits until the work is taken: the other marker must not sleep while there is work.
        taken.wait();
        while termination.became_idle(termination.snapshot()) != Idle::Finished {}
        other.join().expect("loom reports what fails");
    });
}

#[test]
fn a_marker_that_takes_work_while_it_counts_as_idle_is_caught() {
    must_fail_without(Guard::MarkTermination, "models::termination::two_markers", Fault::Race);
}

#[test]
fn a_marker_with_a_root_that_counts_as_idle_is_caught() {
    must_fail_without(Guard::MarkTermination, "models::termination::markers_that_begin_with_roots", Fault::Race);
}

#[test]
fn a_marker_that_sleeps_while_there_is_work_is_caught() {
    must_fail_without(
        Guard::MarkSnapshot,
        "models::termination::no_marker_sleeps_while_there_is_work",
        Fault::Deadlock,
    );
}
