//! The chain of listeners: several sinks at once, each with its own selection.
//!
//! There is a fixed number of slots, so that a fire iterates over an array and not over a list that another thread may be changing.
//! Changes are made under a lock, outside a stop; a fire only passes gates.
//!
//! ```text
//!   free ──listen──► live ──unlisten──► free            no fire was inside: the sink is released at once
//!                                  └──► retired ──► free  a suspended thread is inside: the sink stays until it has left
//! ```

use std::sync::Arc;

use super::gate::{Entry, Gate, Settled};
use super::sink::{AfterFork, Record, Sink};
use super::state::{EventSet, Selection};
use super::table::GROUPS;
use crate::os;
use crate::os::callback::Callback;
use crate::sync::{AtomicU32, Lock, LockGuard, UnsafeCell};

/// The maximum number of listeners of a world at one time.
pub const MAX_LISTENERS: usize = 8;

/// A listener of a world's events, until [`Events::unlisten`](super::Events::unlisten).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ListenerId {
    slot: usize,
    /// Distinguishes this listener from earlier listeners in the same slot.
    serial: u64,
}

/// Why a sink cannot listen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ListenError {
    /// All slots are taken.
    #[error("a world has at most {MAX_LISTENERS} listeners: end one, or let one sink feed several consumers")]
    TooMany,
    /// The listener has ended already.
    #[error("this listener has ended: call `listen` again")]
    Ended,
}

/// Reads the clock, before anything that the caller does next: the processor must not read a listener's selection first.
#[inline]
pub(super) fn now_ns() -> u64 {
    let now = os::clock::now_ns();
    // SAFETY: every x86-64 processor has SSE2, and so this instruction; it touches nothing.
    unsafe { std::arch::x86_64::_mm_lfence() };
    now
}

#[derive(Debug)]
struct ListenerSlot {
    gate: Gate<GROUPS>,
    sink: UnsafeCell<Option<Arc<dyn Sink>>>,
}

impl ListenerSlot {
    const fn new() -> ListenerSlot {
        ListenerSlot { gate: Gate::new([const { AtomicU32::new(0) }; GROUPS]), sink: UnsafeCell::new(None) }
    }
}

#[derive(Clone, Copy, Debug)]
enum State {
    Free,
    Live { serial: u64, selection: Selection },
    Retired,
}

#[derive(Debug)]
struct Registrations {
    states: [State; MAX_LISTENERS],
    next_serial: u64,
}

#[derive(Debug)]
pub(super) struct Listeners {
    slots: [ListenerSlot; MAX_LISTENERS],
    lock: Lock,
    registrations: UnsafeCell<Registrations>,
}

// SAFETY: `registrations` is accessed only under `lock`. A `sink` is written only under `lock`, while its gate wants nothing and
// no fire is inside. It is read only by fires inside or under `lock`. `Sink` is Send and Sync.
unsafe impl Sync for Listeners {}

impl Listeners {
    pub(super) const fn new() -> Listeners {
        Listeners {
            slots: [const { ListenerSlot::new() }; MAX_LISTENERS],
            lock: Lock::new(),
            registrations: UnsafeCell::new(Registrations { states: [State::Free; MAX_LISTENERS], next_serial: 1 }),
        }
    }

    /// Passes the record to every listener that wants it. Takes no lock; callable anywhere.
    pub(super) fn record(&self, mut record: Record) {
        let (word, bit) = (record.id.group() as usize, record.id.mask());
        'slots: for slot in &self.slots {
            let _inside = loop {
                match slot.gate.enter(word, bit, record.timestamp) {
                    Entry::Inside(pass) => break pass,
                    // The loop repeats at most once for each concurrent change of the selection.
                    Entry::Early => record.timestamp = now_ns(),
                    Entry::Refused => continue 'slots,
                }
            };
            // SAFETY: this fire is inside the gate, so the sink was stored before, and it stays while the fire is inside.
            if let Some(sink) = slot.sink.with(|sink| unsafe { (*sink).as_deref() }) {
                let _called_back = Callback::begin();
                sink.record(&record);
            }
        }
    }

    /// Returns the right to change the listeners. Waits while another thread has it.
    pub(super) fn change(&self) -> Change<'_> {
        self.change_under(self.lock.lock())
    }

    /// Returns the right to change the listeners, if no thread has it, this one included.
    pub(super) fn try_change(&self) -> Option<Change<'_>> {
        self.lock.try_lock().ok().map(|lock| self.change_under(lock))
    }

    fn change_under<'a>(&'a self, lock: LockGuard<'a>) -> Change<'a> {
        // SAFETY: the lock is held as long as the `Change` lives, so there is no other reference to the registrations.
        let registrations = self.registrations.with_mut(|registrations| unsafe { &mut *registrations });
        Change { slots: &self.slots, registrations, _lock: lock }
    }

    /// Prevents changes of the listeners while the process forks.
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

    /// Ends what `before_fork` began, in the child, whose only thread is this one: no fire is inside any gate, and a
    /// sink that is not to continue in the child receives nothing (`.fork.services`).
    ///
    /// # Safety
    /// This is the child of a fork before which its thread called [`before_fork`](Self::before_fork), and no other thread runs yet.
    pub(super) unsafe fn after_fork_in_child(&self) -> Change<'_> {
        // SAFETY: the caller's promise.
        unsafe { self.lock.reset_in_child() };
        let change = self.change();
        for (slot, state) in self.slots.iter().zip(&mut change.registrations.states) {
            slot.gate.forget_who_is_inside();
            // SAFETY: sinks are added and removed only under the lock, which is held.
            let sink = slot.sink.with(|sink| unsafe { (*sink).as_deref() });
            let goes_on = sink.is_some_and(|sink| {
                let _called_back = Callback::begin();
                sink.forked() == AfterFork::GoOn
            });
            if let (State::Live { selection, .. }, false) = (state, goes_on) {
                *selection = Selection::nothing();
                slot.gate.change(EventSet::NONE.words(), now_ns());
            }
        }
        change
    }
}

/// The right to change the listeners, until dropped.
pub(super) struct Change<'a> {
    slots: &'a [ListenerSlot; MAX_LISTENERS],
    registrations: &'a mut Registrations,
    _lock: LockGuard<'a>,
}

impl Change<'_> {
    /// Returns the union of what all listeners want.
    pub(super) fn union(&self) -> EventSet {
        self.registrations.states.iter().fold(EventSet::NONE, |union, state| match state {
            State::Live { selection, .. } => union | selection.selected(),
            State::Free | State::Retired => union,
        })
    }

    pub(super) fn add(&mut self, sink: Arc<dyn Sink>, selection: Selection) -> Result<ListenerId, ListenError> {
        let free = |state: &State| matches!(state, State::Free);
        let slot = self.registrations.states.iter().position(free).ok_or(ListenError::TooMany)?;
        let serial = self.registrations.next_serial;
        self.registrations.next_serial += 1;
        self.registrations.states[slot] = State::Live { serial, selection };
        // SAFETY: the slot is free: its gate wants nothing and no fire is inside. The lock is held.
        self.slots[slot].sink.with_mut(|free| unsafe { *free = Some(sink) });
        self.slots[slot].gate.change(selection.selected().words(), now_ns());
        Ok(ListenerId { slot, serial })
    }

    pub(super) fn selection(&mut self, listener: ListenerId) -> Result<&mut Selection, ListenError> {
        match &mut self.registrations.states[listener.slot] {
            State::Live { serial, selection } if *serial == listener.serial => Ok(selection),
            _ => Err(ListenError::Ended),
        }
    }

    pub(super) fn set_selection(&mut self, listener: ListenerId, new: Selection) -> Result<(), ListenError> {
        *self.selection(listener)? = new;
        self.slots[listener.slot].gate.change(new.selected().words(), now_ns());
        Ok(())
    }

    /// Waits, for a limited time, for the fires that are under way.
    pub(super) fn settle(&mut self, listener: ListenerId) -> Settled {
        self.slots[listener.slot].gate.settle()
    }

    /// Ends a listener. `reclaim` releases its sink later.
    pub(super) fn retire(&mut self, listener: ListenerId) -> Result<(), ListenError> {
        self.set_selection(listener, Selection::nothing())?;
        self.registrations.states[listener.slot] = State::Retired;
        Ok(())
    }

    /// Frees the slots of ended listeners whose gate is empty. Returns their sinks, which the caller must drop after releasing
    /// the lock, because a sink's destructor is code of the program.
    pub(super) fn reclaim(&mut self) -> [Option<Arc<dyn Sink>>; MAX_LISTENERS] {
        std::array::from_fn(|slot| {
            let State::Retired = self.registrations.states[slot] else { return None };
            let ListenerSlot { gate, sink } = &self.slots[slot];
            if gate.settle() != Settled::Quiet {
                return None;
            }
            self.registrations.states[slot] = State::Free;
            // SAFETY: the gate wants nothing and was seen empty after that, so no fire is inside or will be. The lock is held.
            sink.with_mut(|sink| unsafe { (*sink).take() })
        })
    }
}

#[cfg(test)]
mod tests {
    //! These include tests of the gate. The gate's own file is included in the models of the model checker, where these tests cannot run.

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
    fn a_gate_admits_only_fires_of_wanted_events() {
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
    fn the_wait_for_a_suspended_fire_is_limited() {
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
    fn the_last_fire_to_leave_wakes_the_thread_in_settle() {
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
    fn a_forked_child_starts_with_empty_gates() {
        let gate = gate();
        gate.change([A, 0], 0);
        std::mem::forget(gate.enter(0, A, 0));
        gate.forget_who_is_inside();
        assert_eq!(gate.settle(), Settled::Quiet);
    }
}
