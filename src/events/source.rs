//! A world's events: who listens to them, and whether somebody records them.

use std::sync::Arc;

use super::gate::Settled;
use super::listeners::{Change, ListenError, ListenerId, Listeners};
use super::record::RecordedWorld;
use super::sink::Sink;
use super::state::{EnabledWords, EventSet, Selection};
use super::table::EventId;
use crate::sync::{AtomicPtr, AtomicU32, Ordering};

/// A world's events: fired by the collector, heard by its listeners.
#[derive(Debug)]
pub struct Events {
    /// Whom a fire concerns: listeners or consumers. What the fire functions test.
    pub(super) enabled: EnabledWords,
    /// Whether it concerns listeners.
    pub(super) heard: EnabledWords,
    /// What is recorded of this world; null if nothing ever was.
    recording: AtomicPtr<RecordedWorld>,
    /// How often what somebody wants has changed.
    changes: AtomicU32,
    pub(super) listeners: Listeners,
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

    /// A number that is another one when somebody wants something else. For who tells what does not change once: to each.
    pub(crate) fn changes(&self) -> u32 {
        // Acquire: pairs with the release of `enable`.
        self.changes.load(Ordering::Acquire)
    }

    #[inline(always)]
    pub(super) fn recorded_world(&self) -> Option<&'static RecordedWorld> {
        // SAFETY: null or a static. Acquire: pairs with the release of `set_recorded_world`; it costs nothing.
        unsafe { self.recording.load(Ordering::Acquire).as_ref() }
    }

    /// From now on what this world fires is recorded as of `world`.
    pub(super) fn set_recorded_world(&self, world: &'static RecordedWorld) {
        // Release: pairs with the acquire of `recorded_world`.
        self.recording.store(std::ptr::from_ref(world).cast_mut(), Ordering::Release);
    }

    /// Brings the words that the fire functions test up to date, after a change of either road.
    pub(super) fn enable(&self, listeners: &Change<'_>) {
        let heard = listeners.union();
        let recorded = self.recorded_world().map_or(EventSet::NONE, RecordedWorld::recorded);
        self.heard.store(heard);
        self.enabled.store(heard | recorded);
        // Release: pairs with the acquire of `changes`: what is told after that is told to whom wants it since.
        self.changes.fetch_add(1, Ordering::Release);
    }
}

impl Default for Events {
    fn default() -> Events {
        Events::new()
    }
}

#[cfg(test)]
mod tests {
    use super::super::memory::MemorySink;
    use super::super::statistics::Statistics;
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
