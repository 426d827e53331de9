//! The mark byte of a cell that two markers find.

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use crate::check::Preemptions::Unbounded;
use crate::check::{Fault, explore, must_fail_without};
use crate::collector::mark_byte::{Epochs, unmark};
use crate::kernel::Kernel;
use crate::sabotage::Guard;
use crate::sync::{AtomicU8, Lock, Ordering};

const EPOCHS: Epochs = Epochs { epoch: 7, swept_epoch: 6 };

/// A way to mark a cell that may be free.
type Mark = fn(&AtomicU8) -> bool;

fn without_a_branch(mark: &AtomicU8) -> bool {
    EPOCHS.mark(mark, &AtomicU8::new(0), || false)
}

fn with_a_branch(mark: &AtomicU8) -> bool {
    EPOCHS.mark_if_new(mark, || false)
}

/// Two markers find a cell. Returns the mark at the end, and how often the cell was taken for new. A marker that takes a
/// free cell for new unmarks it. With more finds than these, loom lets a load return a store that the same thread has overwritten.
fn find(first: Mark, second: Mark, is_free: bool) -> (u8, usize) {
    let kernel = Kernel::boot(2);
    let mark = Arc::new(AtomicU8::new(0));
    let new = Arc::new(AtomicUsize::new(0));
    let finder = |how: Mark| {
        let (mark, new) = (Arc::clone(&mark), Arc::clone(&new));
        move || {
            if how(&mark) {
                new.fetch_add(1, Ordering::Relaxed);
                if is_free {
                    unmark(&mark);
                }
            }
        }
    };
    let other = kernel.spawn(2, finder(second));
    finder(first)();
    other.join().expect("loom reports what fails");
    (mark.load(Ordering::Relaxed), new.load(Ordering::Relaxed))
}

/// Two markers find a free cell. The first one puts what it took for new into a pool, where the other one looks. Returns the mark at the end.
fn find_and_hand_over() -> u8 {
    let kernel = Kernel::boot(2);
    let mark = Arc::new(AtomicU8::new(0));
    let pool = Arc::new((Lock::new(), AtomicUsize::new(0)));
    let unmark_what_is_in = |pool: &(Lock, AtomicUsize), mark: &AtomicU8| {
        let guard = pool.0.lock();
        let tasks = pool.1.swap(0, Ordering::Relaxed);
        drop(guard);
        (0..tasks).for_each(|_| unmark(mark));
    };
    let other = kernel.spawn(2, {
        let (mark, pool) = (Arc::clone(&mark), Arc::clone(&pool));
        move || {
            if without_a_branch(&mark) {
                unmark(&mark);
            }
            unmark_what_is_in(&pool, &mark);
        }
    });
    if without_a_branch(&mark) {
        let _guard = pool.0.lock();
        pool.1.store(1, Ordering::Relaxed);
    }
    other.join().expect("loom reports what fails");
    unmark_what_is_in(&pool, &mark);
    mark.load(Ordering::Relaxed)
}

fn no_free_cell_stays_marked(name: &str, first: Mark, second: Mark) {
    explore(name, Unbounded, move || {
        let (mark, _) = find(first, second, true);
        assert_ne!(mark, EPOCHS.epoch, "a free cell stays marked");
    });
}

fn an_object_stays_marked(name: &str, first: Mark, second: Mark) {
    explore(name, Unbounded, move || {
        let (mark, new) = find(first, second, false);
        assert_eq!(mark, EPOCHS.epoch, "an object is not marked");
        assert!((1..=2).contains(&new), "an object is scanned by {new} markers");
    });
}

#[test]
fn no_free_cell_stays_marked_by_markers_without_a_branch() {
    no_free_cell_stays_marked("mark byte of a free cell, without a branch", without_a_branch, without_a_branch);
}

#[test]
fn no_free_cell_stays_marked_by_markers_with_a_branch() {
    no_free_cell_stays_marked("mark byte of a free cell, with a branch", with_a_branch, with_a_branch);
}

#[test]
fn no_free_cell_stays_marked_by_markers_of_both_kinds() {
    no_free_cell_stays_marked("mark byte of a free cell, both ways", with_a_branch, without_a_branch);
}

#[test]
fn no_free_cell_stays_marked_by_a_marker_that_hands_it_over() {
    explore("mark byte of a free cell, handed over", Unbounded, || {
        assert_ne!(find_and_hand_over(), EPOCHS.epoch, "a free cell stays marked");
    });
}

#[test]
fn an_object_stays_marked_and_is_scanned() {
    an_object_stays_marked("mark byte of an object, without a branch", without_a_branch, without_a_branch);
    an_object_stays_marked("mark byte of an object, both ways", with_a_branch, without_a_branch);
}

#[test]
fn a_marker_that_marks_a_marked_cell_again_is_caught() {
    must_fail_without(
        Guard::MarkFree,
        "models::mark_byte::no_free_cell_stays_marked_by_markers_without_a_branch",
        Fault::Claim("a free cell stays marked"),
    );
}
