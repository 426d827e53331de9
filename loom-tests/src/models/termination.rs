//! The end of parallel marking.

use std::sync::Arc;

use loom::sync::Mutex;

use crate::check::Preemptions::AtMost;
use crate::check::{Fault, explore, must_fail_without};
use crate::collector::termination::{Idle, Termination};
use crate::kernel::Kernel;
use crate::sabotage::Guard;
use crate::sync::{AtomicU32, Ordering, Semaphore, UnsafeCell};

/// A heap that is a list of trees of two levels, a pool, and who marks.
struct Marking {
    termination: Termination,
    pool: Mutex<Vec<usize>>,
    /// Item n has the children 2n+1 and 2n+2, as long as there are such items.
    marks: Vec<UnsafeCell<bool>>,
    /// Posted for each item that has been marked.
    marked: Semaphore,
}

// SAFETY: what is not Sync is in loom cells, whose unordered accesses are what the models look for.
unsafe impl Sync for Marking {}
// SAFETY: as above.
unsafe impl Send for Marking {}

impl Marking {
    fn new(markers: u32, items: usize) -> Arc<Self> {
        let marking = Self {
            termination: Termination::new(),
            pool: Mutex::new(vec![0]),
            marks: (0..items).map(|_| UnsafeCell::new(false)).collect(),
            marked: Semaphore::new(),
        };
        marking.termination.start(markers);
        Arc::new(marking)
    }

    fn mark(&self, item: usize) {
        self.marks[item].with_mut(|mark| {
            // SAFETY: loom checks that nobody else is at it.
            let mark = unsafe { &mut *mark };
            assert!(!*mark, "an item is marked twice");
            *mark = true;
        });
    }

    fn share(&self, item: usize) {
        self.pool.lock().expect("no panic goes on").push(item);
        self.termination.work_added();
    }

    /// One marker: keeps the first child of what it marks, shares the second.
    fn run(&self) {
        loop {
            let glance = self.termination.glance();
            let taken = self.pool.lock().expect("no panic goes on").pop();
            let Some(mut item) = taken else {
                match self.termination.became_idle(glance) {
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

    fn all_is_marked(&self) {
        for mark in &self.marks {
            // SAFETY: loom checks that nobody writes it.
            assert!(mark.with(|mark| unsafe { *mark }), "marking ended too early");
        }
    }
}

fn markers(n: u32, items: usize) {
    let kernel = Kernel::boot(n);
    let marking = Marking::new(n, items);
    let spawn = |tid| {
        let marking = Arc::clone(&marking);
        kernel.spawn(tid, move || marking.run())
    };
    let handles: Vec<_> = (2..=n).map(spawn).collect();
    marking.run();
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

/// One marker shares an item and then does nothing until it has been marked: the other one must not sleep beside it.
#[test]
fn nobody_sleeps_beside_work() {
    explore("termination, nobody sleeps beside work", AtMost(5), || {
        let kernel = Kernel::boot(2);
        let marking = Marking::new(2, 2);
        let other = Arc::clone(&marking);
        marking.pool.lock().expect("no panic goes on").clear();
        let other = kernel.spawn(2, move || {
            loop {
                let glance = other.termination.glance();
                let taken = other.pool.lock().expect("no panic goes on").pop();
                if let Some(item) = taken {
                    other.mark(item);
                    other.marked.post();
                } else if other.termination.became_idle(glance) == Idle::Finished {
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

/// A pool whose lock orders nothing before the marker has seen the work: it looks before it takes.
#[test]
fn a_marker_that_sees_that_work_was_added_finds_it() {
    explore("termination, a pool that is looked at without a lock", AtMost(5), || {
        let kernel = Kernel::boot(2);
        let (termination, offered) = (Arc::new(Termination::new()), Arc::new(AtomicU32::new(0)));
        let taken = Arc::new(Semaphore::new());
        termination.start(2);
        let (its_end, its_pool, its_taken) = (Arc::clone(&termination), Arc::clone(&offered), Arc::clone(&taken));
        let other = kernel.spawn(2, move || {
            loop {
                let glance = its_end.glance();
                if its_pool.load(Ordering::Relaxed) != 0 && its_pool.swap(0, Ordering::Relaxed) != 0 {
                    its_taken.post();
                } else if its_end.became_idle(glance) == Idle::Finished {
                    break;
                }
            }
        });
        offered.store(1, Ordering::Relaxed);
        termination.work_added();
        // This one does nothing until the work is taken: the other one must not sleep beside it.
        taken.wait();
        while termination.became_idle(termination.glance()) != Idle::Finished {}
        other.join().expect("loom reports what fails");
    });
}

#[test]
fn a_marker_that_takes_work_while_it_counts_as_idle_is_caught() {
    must_fail_without(Guard::MarkTermination, "models::termination::two_markers", Fault::Race);
}

#[test]
fn a_marker_that_sleeps_beside_work_is_caught() {
    must_fail_without(Guard::MarkGlance, "models::termination::nobody_sleeps_beside_work", Fault::Deadlock);
}
