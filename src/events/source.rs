//! A world's events: their listeners, and whether they are recorded.

use std::sync::Arc;

use super::gate::Settled;
use super::listeners::{Change, ListenError, ListenerId, Listeners};
use super::record::RecordedWorld;
use super::sink::Sink;
use super::state::{EnabledWords, EventSet, Selection};
use super::table::EventId;
use crate::sync::{AtomicPtr, AtomicU32, Ordering};

/// A world's events: fired by the collector, received by its listeners and consumers.
#[derive(Debug)]
pub struct Events {
    /// The events that a listener or a consumer wants. The fire functions test these words.
    pub(super) enabled: EnabledWords,
    /// The events that a listener wants.
    pub(super) heard: EnabledWords,
    /// The recorder's data for this world; null if no event of the world was ever recorded.
    recording: AtomicPtr<RecordedWorld>,
    /// How often the selection of a listener or a consumer has changed.
    changes: AtomicU32,
    pub(super) listeners: Listeners,
}

impl Events {
    /// Creates events without a listener.
    pub const fn new() -> Events {
        Events {
            enabled: EnabledWords::new(),
            heard: EnabledWords::new(),
            recording: AtomicPtr::new(std::ptr::null_mut()),
            changes: AtomicU32::new(0),
            listeners: Listeners::new(),
        }
    }

    /// Whether the event has a listener or a consumer: one load. Check this before computing data that only the event needs. A tracer at
    /// the event's probe does not count: the fields of an event with a probe need no computation.
    #[inline(always)]
    pub fn is_enabled(&self, id: EventId) -> bool {
        self.enabled.word(id.group() as usize) & id.mask() != 0
    }

    /// Adds a listener: from now on, `sink` receives what `selection` selects.
    pub fn listen(&self, sink: Arc<dyn Sink>, selection: Selection) -> Result<ListenerId, ListenError> {
        let mut change = self.listeners.change();
        let gone = change.reclaim();
        let listener = change.add(sink, selection);
        self.enable(&change);
        drop(change);
        drop(gone);
        listener
    }

    /// Replaces a listener's selection as a whole. After this has returned, no record of an event that it disabled has a later
    /// timestamp.
    pub fn select(&self, listener: ListenerId, selection: Selection) -> Result<Settled, ListenError> {
        self.change(listener, |old| *old = selection)
    }

    /// Changes a listener's current selection as a whole, like [`Events::select`]. `edit` runs under the lock
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

    /// Returns a listener's selection.
    pub fn selection(&self, listener: ListenerId) -> Result<Selection, ListenError> {
        self.listeners.change().selection(listener).copied()
    }

    /// Ends a listener. Its sink is released when no fire is inside it: immediately, unless a thread is suspended inside.
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

    /// Prevents changes of the listeners while the process forks. One of the two functions below ends this.
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
    /// other threads, and silences every sink that is not to continue in the child.
    ///
    /// # Safety
    /// This thread has called [`before_fork`](Self::before_fork) before the fork, and is the only one of the process.
    pub(crate) unsafe fn after_fork_in_child(&self) {
        // SAFETY: the caller's promise.
        let change = unsafe { self.listeners.after_fork_in_child() };
        self.enable(&change);
    }

    /// Returns a number that is different after each change of a selection. Lets a caller report constant facts once to every listener
    /// and consumer: it reports them again when the number has changed.
    pub(crate) fn changes(&self) -> u32 {
        // Acquire: pairs with the release of `enable`.
        self.changes.load(Ordering::Acquire)
    }

    #[inline(always)]
    pub(super) fn recorded_world(&self) -> Option<&'static RecordedWorld> {
        // SAFETY: null or a static. Acquire: pairs with the release of `set_recorded_world`; it costs nothing.
        unsafe { self.recording.load(Ordering::Acquire).as_ref() }
    }

    /// Makes the recorder record the events of this world from now on, with the number of `world`.
    pub(super) fn set_recorded_world(&self, world: &'static RecordedWorld) {
        // Release: pairs with the acquire of `recorded_world`.
        self.recording.store(std::ptr::from_ref(world).cast_mut(), Ordering::Release);
    }

    /// Turns off the events of consumers that have ended, if the end was not told to this world (see `end_recording`). Called before each
    /// collection. If another thread changes the listeners at this moment, the next call does it.
    pub(crate) fn forget_the_ended(&self) {
        let recorded = self.recorded_world().map_or(EventSet::NONE, RecordedWorld::recorded);
        if self.enabled.load() != self.heard.load() | recorded
            && let Some(change) = self.listeners.try_change()
        {
            self.enable(&change);
        }
    }

    /// Updates the words that the fire functions test, after a change of the listeners or of the recording.
    pub(super) fn enable(&self, listeners: &Change<'_>) {
        let heard = listeners.union();
        let recorded = self.recorded_world().map_or(EventSet::NONE, RecordedWorld::recorded);
        self.heard.store(heard);
        self.enabled.store(heard | recorded);
        // Release: pairs with the acquire of `changes`: events fired by a thread that has read the new number reach the new selection.
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

    /// `.fork.services`: without the fork itself, which is unsafe in a test process with threads.
    #[test]
    fn in_a_forked_child_only_sinks_that_go_on_receive_events_and_the_lock_is_free() {
        let events = Events::new();
        let memory = Arc::new(MemorySink::with_capacity(8).unwrap());
        let statistics = Arc::new(Statistics::new());
        let parents = events.listen(memory.clone(), Selection::everything()).unwrap();
        events.listen(statistics.clone(), Selection::of([EventId::GcEnd].into_iter().collect())).unwrap();
        events.fire_gc_end(1);

        events.before_fork();
        events.fire_gc_end(2);
        // SAFETY: no other thread has access to these events.
        unsafe { events.after_fork_in_child() };

        assert_eq!(memory.stored(), 2, "firing does not wait for the lock");
        events.fire_gc_start(3, 0);
        events.fire_gc_end(3);
        assert_eq!(memory.stored(), 2, "the child does not write to the parent's ring");
        assert_eq!(statistics.count(EventId::GcEnd), 3);
        assert!(!events.is_enabled(EventId::GcStart));
        assert_eq!(events.selection(parents), Ok(Selection::nothing()));
        assert_eq!(events.select(parents, Selection::everything()), Ok(Settled::Quiet), "it can be enabled again");

        events.before_fork();
        // SAFETY: as above.
        unsafe { events.after_fork_in_parent() };
        assert_eq!(events.unlisten(parents), Ok(Settled::Quiet));
    }
}
