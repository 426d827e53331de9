//! The chain of listeners: several sinks at once, each with its own selection.
//!
//! A fixed number of places, so that a fire walks an array and not a list that somebody may be relinking. Changes are
//! made under a lock, outside the stop; a fire only passes gates.
//!
//! ```text
//!   free ──listen──► live ──unlisten──► free            nobody was inside: the sink is let go at once
//!                                  └──► retired ──► free  a frozen thread is inside: the sink stays until it has left
//! ```

use std::sync::Arc;

use super::gate::{Entry, Gate, Settled};
use super::sink::{AfterFork, Record, Sink};
use super::state::{EventSet, Selection};
use super::table::GROUPS;
use crate::os;
use crate::os::callback::Callback;
use crate::sync::{AtomicU32, Lock, LockGuard, UnsafeCell};

/// How many listeners a world can have at once.
pub const MAX_LISTENERS: usize = 8;

/// A listener of a world's events, until it is told to stop listening.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ListenerId {
    place: usize,
    /// Distinguishes it from those that had the same place before.
    serial: u64,
}

/// Why somebody can't listen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ListenError {
    /// All places are taken.
    #[error("a world has at most {MAX_LISTENERS} listeners: end one, or let one sink feed several consumers")]
    TooMany,
    /// The listener has ended already.
    #[error("this listener has been ended: listen again")]
    Ended,
}

/// The clock, read before whatever the caller does next: the processor must not look at a listener's selection first.
#[inline]
pub(super) fn now_ns() -> u64 {
    let now = os::clock::now_ns();
    // SAFETY: every x86-64 processor has SSE2, and so this instruction; it touches nothing.
    unsafe { std::arch::x86_64::_mm_lfence() };
    now
}

#[derive(Debug)]
struct Place {
    gate: Gate<GROUPS>,
    sink: UnsafeCell<Option<Arc<dyn Sink>>>,
}

impl Place {
    const fn new() -> Place {
        Place { gate: Gate::new([const { AtomicU32::new(0) }; GROUPS]), sink: UnsafeCell::new(None) }
    }
}

#[derive(Clone, Copy, Debug)]
enum State {
    Free,
    Live { serial: u64, selection: Selection },
    Retired,
}

#[derive(Debug)]
struct Book {
    states: [State; MAX_LISTENERS],
    next_serial: u64,
}

#[derive(Debug)]
pub(super) struct Listeners {
    places: [Place; MAX_LISTENERS],
    lock: Lock,
    book: UnsafeCell<Book>,
}

// SAFETY: `book` is touched only under `lock`. A `sink` is written only under `lock`, while its gate wants nothing and
// nobody is inside, and read only by those inside or under `lock`; `Sink` is Send and Sync.
unsafe impl Sync for Listeners {}

impl Listeners {
    pub(super) const fn new() -> Listeners {
        Listeners {
            places: [const { Place::new() }; MAX_LISTENERS],
            lock: Lock::new(),
            book: UnsafeCell::new(Book { states: [State::Free; MAX_LISTENERS], next_serial: 1 }),
        }
    }

    /// Gives the record to everyone who wants it. Takes no lock; callable anywhere.
    pub(super) fn record(&self, mut record: Record) {
        let (word, bit) = (record.id.group() as usize, record.id.mask());
        'places: for place in &self.places {
            let _inside = loop {
                match place.gate.enter(word, bit, record.timestamp) {
                    Entry::Inside(pass) => break pass,
                    // Only as often as somebody changes the selection under us.
                    Entry::Early => record.timestamp = now_ns(),
                    Entry::Refused => continue 'places,
                }
            };
            // SAFETY: the gate let us in, so the sink was put there before, and it stays while we are inside.
            if let Some(sink) = place.sink.with(|sink| unsafe { (*sink).as_deref() }) {
                let _called_back = Callback::begin();
                sink.record(&record);
            }
        }
    }

    /// The right to change who listens. Waits for whoever has it.
    pub(super) fn change(&self) -> Change<'_> {
        let lock = self.lock.lock();
        // SAFETY: we hold the lock as long as the `Change` lives, so nobody else has a reference to the book.
        let book = self.book.with_mut(|book| unsafe { &mut *book });
        Change { places: &self.places, book, _lock: lock }
    }

    /// Keeps everybody from changing who listens while the process forks.
    pub(super) fn before_fork(&self) {
        self.lock.acquire();
    }

    /// Ends what `before_fork` began, in the parent.
    ///
    /// # Safety
    /// This thread has called [`before_fork`](Self::before_fork), and the fork is over.
    pub(super) unsafe fn after_fork_in_parent(&self) {
        // SAFETY: the caller's promise.
        unsafe { self.lock.release() };
    }

    /// Ends what `before_fork` began, in the child, whose only thread is this one: nobody is inside any gate, and a
    /// sink that does not go on here gets nothing (`.fork.services`).
    ///
    /// # Safety
    /// This is the child of a fork before which its thread called [`before_fork`](Self::before_fork), and no other thread runs yet.
    pub(super) unsafe fn after_fork_in_child(&self) -> Change<'_> {
        // SAFETY: the caller's promise.
        unsafe { self.lock.reset_in_child() };
        let change = self.change();
        for (place, state) in self.places.iter().zip(&mut change.book.states) {
            place.gate.forget_who_is_inside();
            // SAFETY: sinks come and go only under the lock, which we hold.
            let sink = place.sink.with(|sink| unsafe { (*sink).as_deref() });
            let goes_on = sink.is_some_and(|sink| {
                let _called_back = Callback::begin();
                sink.forked() == AfterFork::GoOn
            });
            if let (State::Live { selection, .. }, false) = (state, goes_on) {
                *selection = Selection::nothing();
                place.gate.change(EventSet::NONE.words(), now_ns());
            }
        }
        change
    }
}

/// The right to change who listens, until dropped.
pub(super) struct Change<'a> {
    places: &'a [Place; MAX_LISTENERS],
    book: &'a mut Book,
    _lock: LockGuard<'a>,
}

impl Change<'_> {
    /// What all listeners together want.
    pub(super) fn union(&self) -> EventSet {
        self.book.states.iter().fold(EventSet::NONE, |union, state| match state {
            State::Live { selection, .. } => union | selection.selected(),
            State::Free | State::Retired => union,
        })
    }

    pub(super) fn add(&mut self, sink: Arc<dyn Sink>, selection: Selection) -> Result<ListenerId, ListenError> {
        let free = |state: &State| matches!(state, State::Free);
        let place = self.book.states.iter().position(free).ok_or(ListenError::TooMany)?;
        let serial = self.book.next_serial;
        self.book.next_serial += 1;
        self.book.states[place] = State::Live { serial, selection };
        // SAFETY: the place is free: its gate wants nothing and nobody is inside; and we hold the lock.
        self.places[place].sink.with_mut(|free| unsafe { *free = Some(sink) });
        self.places[place].gate.change(selection.selected().words(), now_ns());
        Ok(ListenerId { place, serial })
    }

    pub(super) fn selection(&mut self, listener: ListenerId) -> Result<&mut Selection, ListenError> {
        match &mut self.book.states[listener.place] {
            State::Live { serial, selection } if *serial == listener.serial => Ok(selection),
            _ => Err(ListenError::Ended),
        }
    }

    pub(super) fn set_selection(&mut self, listener: ListenerId, new: Selection) -> Result<(), ListenError> {
        *self.selection(listener)? = new;
        self.places[listener.place].gate.change(new.selected().words(), now_ns());
        Ok(())
    }

    /// Waits, but not for ever, for the fires that are under way.
    pub(super) fn settle(&mut self, listener: ListenerId) -> Settled {
        self.places[listener.place].gate.settle()
    }

    /// Ends a listener. `release` lets its sink go.
    pub(super) fn retire(&mut self, listener: ListenerId) -> Result<(), ListenError> {
        self.set_selection(listener, Selection::nothing())?;
        self.book.states[listener.place] = State::Retired;
        Ok(())
    }

    /// Takes back the places of those who have ended and whose gate is quiet; returns their sinks, to be dropped when
    /// the lock is released, since a sink's destructor is somebody else's code.
    pub(super) fn reclaim(&mut self) -> [Option<Arc<dyn Sink>>; MAX_LISTENERS] {
        std::array::from_fn(|place| {
            let State::Retired = self.book.states[place] else { return None };
            let Place { gate, sink } = &self.places[place];
            if gate.settle() != Settled::Quiet {
                return None;
            }
            self.book.states[place] = State::Free;
            // SAFETY: the gate wants nothing and was seen empty after that, so nobody is inside or will be; we hold the
            // lock.
            sink.with_mut(|sink| unsafe { (*sink).take() })
        })
    }
}

#[cfg(test)]
mod tests {
    //! Of the gate too: its own file is included under the model checker, where these could not run.

    use super::*;

    const A: u32 = 1;
    const B: u32 = 2;

    fn gate() -> Gate<2> {
        Gate::new([AtomicU32::new(0), AtomicU32::new(0)])
    }

    fn inside(entry: Entry<'_>) -> bool {
        matches!(entry, Entry::Inside(_))
    }

    #[test]
    fn only_what_is_wanted_passes() {
        let gate = gate();
        assert!(!inside(gate.enter(0, A, 0)));
        gate.change([A, B], 0);
        assert!(inside(gate.enter(0, A, 0)));
        assert!(inside(gate.enter(1, B, 0)));
        assert!(!inside(gate.enter(0, B, 0)));
        assert!(!inside(gate.enter(1, A, 0)));
        assert_eq!(gate.settle(), Settled::Quiet);
    }

    #[test]
    fn a_fire_whose_clock_is_older_than_the_selection_that_wants_it_reads_the_clock_again() {
        let gate = gate();
        gate.change([A, 0], 10);
        assert!(matches!(gate.enter(0, A, 9), Entry::Early));
        assert!(inside(gate.enter(0, A, 10)));
        assert!(matches!(gate.enter(0, B, 9), Entry::Refused));
        assert_eq!(gate.settle(), Settled::Quiet);
    }

    #[test]
    fn a_fire_that_is_frozen_inside_is_not_waited_for() {
        let gate = gate();
        gate.change([A, 0], 0);
        let frozen = gate.enter(0, A, 0);
        gate.change([0, 0], 0);
        let began = std::time::Instant::now();
        assert_eq!(gate.settle(), Settled::Busy(1));
        assert!(began.elapsed() < std::time::Duration::from_secs(60));
        drop(frozen);
        assert_eq!(gate.settle(), Settled::Quiet);
    }

    #[test]
    fn whoever_settles_is_woken_by_the_last_one_out() {
        let gate = gate();
        gate.change([A | B, A | B], 0);
        std::thread::scope(|scope| {
            let passes = [gate.enter(0, A, 0), gate.enter(0, B, 0), gate.enter(1, A, 0)];
            assert!(passes.iter().all(|entry| matches!(entry, Entry::Inside(_))));
            scope.spawn(|| drop(passes));
            while gate.settle() != Settled::Quiet {}
        });
    }

    #[test]
    fn a_child_starts_with_nobody_inside() {
        let gate = gate();
        gate.change([A, 0], 0);
        std::mem::forget(gate.enter(0, A, 0));
        gate.forget_who_is_inside();
        assert_eq!(gate.settle(), Settled::Quiet);
    }
}
