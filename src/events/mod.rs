//! What happened: events, who wants them, and where they go.
//!
//! Everything that a world knows about itself leaves it as events. Each is declared once, in [`table`]; a world has one
//! [`Events`], and the collector calls `events.fire_gc_start(number, reason)` and thinks no further.
//!
//! ```text
//!  fire_gc_start(..)   inlined: one load, one test, a predicted branch        nobody listens: that was all
//!      │ someone listens
//!      ▼
//!  stopworld_fire_gc_start   out of line, cold: clock, thread id, Record      one 64-byte value, on the stack
//!      │
//!      ▼
//!  gate 0 ─► sink      each listener's own Selection decides: keywords × levels, MPS categories, events by name
//!  gate 1 ─► sink
//!   ⋮                  MemorySink: keeps records;  Statistics: keeps numbers;  Chain(a, b): both;  or your own Sink
//! ```
//!
//! **Where firing is legal: everywhere.** In the stopped world, where malloc's lock may belong to a thread that stands
//! still; in a signal handler, even one that interrupted a fire. So a fire allocates nothing, takes no lock, waits for
//! nobody, and touches no thread-local storage (the first use of which may allocate). *Changing* who listens takes a
//! lock and is for ordinary threads outside the stop.
//!
//! **Switching is exact.** When [`Events::select`] has returned, no record of an event that it disabled carries a later
//! timestamp; an event that was wanted all the while is never lost; and every decision was made from one bit, computed
//! from the new selection or from the old one, never from a mixture. The `gate` module tells how, and why nobody has to
//! wait for a thread that is frozen in the middle.
//!
//! **The tools' own words.** A listener is switched in the language of its tools ([`Control`]: keywords and levels, the
//! MPS filter; [`filter`] reads the latter from text). A record's payload becomes bytes and fields again by what the table
//! derives ([`payload`], [`templates`]); what its addresses are called is in [`labels`]; and [`mod@reference`] is the table for
//! people.
//!
//! **What the off state costs.** With nobody listening a fire is `mov eax, [events + k]; test eax, mask; jne`, with the
//! jump not taken; the word is on a cache line that is written only when a selection changes. The phases of a collection,
//! which are also probes for tracers, look at a second word before that jump.

#[macro_use]
pub mod table;

pub mod clock;
mod control;
pub mod filter;
mod fire;
mod gate;
mod histogram;
pub mod host;
pub mod labels;
mod listeners;
mod memory;
pub mod record;
pub mod reference;
pub mod sink;
pub mod state;
pub mod statistics;
mod vocabulary;

use std::sync::Arc;

pub use control::Control;
pub use gate::Settled;
pub use histogram::{Histogram, Summary};
pub use labels::{Label, LabelError, Labels};
pub use listeners::{ListenError, ListenerId, MAX_LISTENERS};
pub use memory::MemorySink;
pub use sink::{AfterFork, Chain, NullSink, Record, Sink};
pub use state::{Categories, EventSet, ProviderState, Selection, Switch};
pub use statistics::{Phase, Statistics, Totals};
pub use table::{DESCRIPTORS, Descriptor, Event, EventId, Group, payload, template as templates};
pub use vocabulary::{Category, Keywords, Level, Provider};

use self::listeners::{Change, Listeners};
use self::record::RecordedWorld;
use self::state::EnabledWords;
use self::table::PAYLOAD_WORDS;
use crate::os;
use crate::sync::{AtomicPtr, AtomicU32, Ordering};

/// A world's events: fired by the collector, heard by its listeners.
#[derive(Debug)]
pub struct Events {
    /// Whom a fire concerns: listeners or consumers. What the fire functions test.
    enabled: EnabledWords,
    /// Whether it concerns listeners.
    heard: EnabledWords,
    /// What is recorded of this world; null if nothing ever was.
    recording: AtomicPtr<RecordedWorld>,
    /// How often what somebody wants has changed.
    changes: AtomicU32,
    listeners: Listeners,
}

impl Events {
    /// Nobody listens.
    pub const fn new() -> Events {
        Events {
            enabled: EnabledWords::new(),
            heard: EnabledWords::new(),
            recording: AtomicPtr::new(std::ptr::null_mut()),
            changes: AtomicU32::new(0),
            listeners: Listeners::new(),
        }
    }

    /// Whether anybody listens to this event: one load. Ask before computing what only the event needs. Tracers that look at
    /// its probe do not count: what an event with a probe carries is at hand.
    #[inline(always)]
    pub fn is_enabled(&self, id: EventId) -> bool {
        self.enabled.word(id.group() as usize) & id.mask() != 0
    }

    /// From now on, what `selection` selects goes to `sink` too.
    pub fn listen(&self, sink: Arc<dyn Sink>, selection: Selection) -> Result<ListenerId, ListenError> {
        let mut change = self.listeners.change();
        let gone = change.reclaim();
        let listener = change.add(sink, selection);
        self.enable(&change);
        drop(change);
        drop(gone);
        listener
    }

    /// Replaces what a listener wants, as one. Afterwards no record of an event that this disabled has a later
    /// timestamp.
    pub fn select(&self, listener: ListenerId, selection: Selection) -> Result<Settled, ListenError> {
        self.change(listener, |old| *old = selection)
    }

    /// Changes what a listener wants, from what it wants now, as one: as [`Events::select`]. `edit` runs under the lock
    /// that all changes take, so it must not change listeners itself.
    ///
    /// ```
    /// # use stopworld::events::{Events, EventId, Keywords, Level, NullSink, Selection};
    /// # let events = Events::new();
    /// let listener = events.listen(std::sync::Arc::new(NullSink), Selection::nothing())?;
    /// events.change(listener, |wants| wants.default_provider.set(Keywords::GC, Some(Level::Informational)))?;
    /// assert!(events.is_enabled(EventId::GcStart));
    /// # Ok::<(), stopworld::events::ListenError>(())
    /// ```
    pub fn change(&self, listener: ListenerId, edit: impl FnOnce(&mut Selection)) -> Result<Settled, ListenError> {
        let mut change = self.listeners.change();
        let mut selection = *change.selection(listener)?;
        edit(&mut selection);
        change.set_selection(listener, selection)?;
        self.enable(&change);
        Ok(change.settle(listener))
    }

    /// A listener's switches, one call for each way in which tools turn events on and off.
    pub fn control(&self, listener: ListenerId) -> Control<'_> {
        Control::new(self, listener)
    }

    /// Gives a text a number, by which events can name it. Everywhere that firing is legal.
    ///
    /// # Errors
    /// The text is too long or holds a 0, or the store is full.
    pub fn telemetry_intern(&self, text: &str) -> Result<Label, LabelError> {
        let label = Labels::of_the_process().intern(text)?;
        self.fire_interned(label.get());
        Ok(label)
    }

    /// Gives an address a name: an object, a thread's record, a data structure of the program's.
    ///
    /// # Errors
    /// Nobody interned the label, the address is 0, or the store is full.
    pub fn telemetry_label(&self, address: usize, label: Label) -> Result<(), LabelError> {
        Labels::of_the_process().bind(address, label)?;
        self.fire_labelled(address, label.get());
        Ok(())
    }

    /// Leaves a message of the program's in the trace.
    ///
    /// # Errors
    /// As of [`telemetry_intern`](Self::telemetry_intern).
    pub fn telemetry_message(&self, text: &str) -> Result<(), LabelError> {
        self.fire_user_message(self.telemetry_intern(text)?.get());
        Ok(())
    }

    /// Marks this moment in the trace, to be found again in a picture of it.
    ///
    /// # Errors
    /// As of [`telemetry_intern`](Self::telemetry_intern).
    pub fn telemetry_marker(&self, text: &str) -> Result<(), LabelError> {
        self.fire_user_marker(self.telemetry_intern(text)?.get());
        Ok(())
    }

    /// Names an address, unless it has this name already. 0 if there is no room for names: then it has none.
    pub(crate) fn name(&self, address: usize, text: &str) -> u64 {
        let labels = Labels::of_the_process();
        let label = match labels.label_of(address) {
            Some(label) if labels.text(label) == Some(text) => Ok(label),
            _ => self.telemetry_intern(text),
        };
        let named = label.and_then(|label| self.telemetry_label(address, label).map(|()| label.get()));
        named.unwrap_or(0)
    }

    /// What a listener wants.
    pub fn selection(&self, listener: ListenerId) -> Result<Selection, ListenError> {
        self.listeners.change().selection(listener).copied()
    }

    /// Ends a listener. Its sink is let go as soon as no fire is inside it: at once, unless a thread is frozen there.
    pub fn unlisten(&self, listener: ListenerId) -> Result<Settled, ListenError> {
        let mut change = self.listeners.change();
        change.retire(listener)?;
        self.enable(&change);
        let settled = change.settle(listener);
        let gone = change.reclaim();
        drop(change);
        drop(gone);
        Ok(settled)
    }

    /// Keeps everybody from changing who listens while the process forks. One of the two functions below ends it.
    pub(crate) fn before_fork(&self) {
        self.listeners.before_fork();
    }

    /// After the fork, in the parent.
    ///
    /// # Safety
    /// This thread has called [`before_fork`](Self::before_fork), and the fork is over.
    pub(crate) unsafe fn after_fork_in_parent(&self) {
        // SAFETY: the caller's promise.
        unsafe { self.listeners.after_fork_in_parent() };
    }

    /// After the fork, in the child, where only the forking thread is left (`.fork.services`): forgets the fires of the
    /// others, and silences every sink that does not want to go on here.
    ///
    /// # Safety
    /// This thread has called [`before_fork`](Self::before_fork) before the fork, and is the only one of the process.
    pub(crate) unsafe fn after_fork_in_child(&self) {
        // SAFETY: the caller's promise.
        let change = unsafe { self.listeners.after_fork_in_child() };
        self.enable(&change);
    }

    /// The enabled half of every fire function: records, and tells those who listen.
    #[inline(always)]
    fn deliver<const N: usize>(&self, id: EventId, fields: impl Fn() -> [u64; N]) {
        if let Some(world) = self.recorded_world()
            && world.seems_wanted(id)
        {
            record::fire::fire(world, id, &fields);
        }
        if self.heard.word(id.group() as usize) & id.mask() != 0 {
            self.tell(id, &fields());
        }
    }

    /// Makes the record and brings it to the listeners.
    #[inline(never)]
    fn tell(&self, id: EventId, fields: &[u64]) {
        let mut words = [0; PAYLOAD_WORDS];
        words.iter_mut().zip(fields).for_each(|(word, field)| *word = *field);
        // A system call, 50 ns and more: fair for what happens a few times per collection, not once per object.
        let tid = if matches!(id.group(), Group::Object) { 0 } else { os::thread::gettid().0 as u32 };
        self.listeners.record(Record { timestamp: now_ns(), tid, id, words });
    }

    /// The time of the record of this event, in ticks of the recorder's clock, if the calling thread has recorded it just
    /// now and nothing since.
    pub(crate) fn recorded_at(&self, id: EventId) -> Option<u64> {
        record::fire::time_of_last(self.recorded_world()?, id)
    }

    /// A number that is another one when somebody wants something else. For who tells what does not change once: to each.
    pub(crate) fn changes(&self) -> u32 {
        // Acquire: pairs with the release of `enable`.
        self.changes.load(Ordering::Acquire)
    }

    #[inline(always)]
    fn recorded_world(&self) -> Option<&'static RecordedWorld> {
        // SAFETY: null or a static. Acquire: pairs with the release of `enroll`; it costs nothing.
        unsafe { self.recording.load(Ordering::Acquire).as_ref() }
    }

    /// Brings the words that the fire functions test up to date, after a change of either road.
    fn enable(&self, listeners: &Change<'_>) {
        let heard = listeners.union();
        let recorded = self.recorded_world().map_or(EventSet::NONE, RecordedWorld::recorded);
        self.heard.store(heard);
        self.enabled.store(heard | recorded);
        // Release: pairs with the acquire of `changes`: what is told after that is told to whom wants it since.
        self.changes.fetch_add(1, Ordering::Release);
    }
}

/// The clock, read before whatever the caller does next: the processor must not look at a listener's selection first.
#[inline]
fn now_ns() -> u64 {
    let now = os::clock::now_ns();
    // SAFETY: every x86-64 processor has SSE2, and so this instruction; it touches nothing.
    unsafe { std::arch::x86_64::_mm_lfence() };
    now
}

impl Default for Events {
    fn default() -> Events {
        Events::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `.fork.services`: without the fork itself, which a test process with threads had better not do.
    #[test]
    fn in_a_forked_child_only_those_who_want_to_go_on_get_more_and_the_lock_is_free() {
        let events = Events::new();
        let memory = Arc::new(MemorySink::with_capacity(8).unwrap());
        let statistics = Arc::new(Statistics::new());
        let parents = events.listen(memory.clone(), Selection::everything()).unwrap();
        events.listen(statistics.clone(), Selection::of([EventId::GcEnd].into_iter().collect())).unwrap();
        events.fire_gc_end(1);

        events.before_fork();
        events.fire_gc_end(2);
        // SAFETY: no other thread knows these events.
        unsafe { events.after_fork_in_child() };

        assert_eq!(memory.stored(), 2, "firing does not wait for the lock");
        events.fire_gc_start(3, 0);
        events.fire_gc_end(3);
        assert_eq!(memory.stored(), 2, "the parent's ring is the parent's");
        assert_eq!(statistics.count(EventId::GcEnd), 3);
        assert!(!events.is_enabled(EventId::GcStart));
        assert_eq!(events.selection(parents), Ok(Selection::nothing()));
        assert_eq!(events.select(parents, Selection::everything()), Ok(Settled::Quiet), "who asks for more gets it");

        events.before_fork();
        // SAFETY: as above.
        unsafe { events.after_fork_in_parent() };
        assert_eq!(events.unlisten(parents), Ok(Settled::Quiet));
    }
}
