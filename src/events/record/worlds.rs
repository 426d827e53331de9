//! The selections: which consumer records which events of which world, and at which time.
//!
//! A fire checks one bit of its world's [`EnabledEvents`] words, the union of what all consumers want. Which consumers receive the record is
//! decided when it is drained, by what each consumer had selected *at the record's timestamp*. So a change
//! need not drain first: each world keeps a short history of time segments, each with the consumers of each event.
//!
//! ```text
//!                  change begins          change returns
//!     ─────────────────┼───────────────────────┼──────────────────────► time
//!      before          │ before or after       │ after
//! ```
//!
//! In the middle segment some threads have seen the change and others have not; a consumer receives what either selection contains.
//!
//! Everything here except [`RecordedWorld`] is protected by the recorder's lock.

use super::enabled::EnabledEvents;
use super::recorded::WorldNumber;
use crate::events::clock;
use crate::events::state::{EventSet, Selection};
use crate::events::table::{EventId, GROUPS};
use crate::sync::{AtomicU32, AtomicU64, Ordering, heavy_barrier};

/// The maximum number of consumers at one time.
pub const MAX_CONSUMERS: usize = 8;

/// The maximum number of worlds of a process that record at one time.
pub const MAX_WORLDS: usize = 64;

/// The part of a recorded world that fires access.
#[derive(Debug)]
pub(in crate::events) struct RecordedWorld {
    pub(super) enabled: EnabledEvents<GROUPS>,
    number: u16,
    /// How often each event was dropped.
    dropped: [AtomicU64; EventId::COUNT],
}

impl RecordedWorld {
    const fn new(number: u16) -> RecordedWorld {
        RecordedWorld {
            enabled: EnabledEvents::new([const { AtomicU32::new(0) }; GROUPS]),
            number,
            dropped: [const { AtomicU64::new(0) }; EventId::COUNT],
        }
    }

    #[inline(always)]
    pub(super) fn number(&self) -> u16 {
        self.number
    }

    /// Whether the event seems to be recorded.
    #[inline(always)]
    pub(in crate::events) fn seems_wanted(&self, id: EventId) -> bool {
        self.enabled.guess(id.group() as usize) & id.mask() != 0
    }

    /// Returns the events that are recorded, for all consumers together.
    pub(in crate::events) fn recorded(&self) -> EventSet {
        EventSet::from_words(std::array::from_fn(|group| self.enabled.guess(group)))
    }

    pub(super) fn count_dropped(&self, id: EventId) {
        self.dropped[id as usize].fetch_add(1, Ordering::Relaxed);
    }
}

static WORLDS: [RecordedWorld; MAX_WORLDS] = {
    let mut worlds = [const { RecordedWorld::new(0) }; MAX_WORLDS];
    let mut index = 0;
    while index < MAX_WORLDS {
        worlds[index].number = index as u16;
        index += 1;
    }
    worlds
};

/// A set of consumers: a bit for each slot.
pub(super) type Consumers = u8;

const _: () = assert!(MAX_CONSUMERS <= Consumers::BITS as usize);

/// The maximum number of segments of the history. Each change since the last complete drain takes two segments. The history can grow
/// because a thread that is preempted in a fire holds up the drain.
const SEGMENTS: usize = 256;

#[derive(Clone, Copy)]
struct Segment {
    from: u64,
    takers: [Consumers; EventId::COUNT],
}

/// A consumer's selection of a world.
#[derive(Clone, Copy)]
struct Subscription {
    selection: Selection,
    wants: EventSet,
    /// The number of dropped records of each event when the consumer made this selection.
    dropped_before: [u64; EventId::COUNT],
}

/// The selections of one world, and their history.
pub(super) struct SelectionHistory {
    taken: bool,
    subscriptions: [Option<Subscription>; MAX_CONSUMERS],
    segments: [Segment; SEGMENTS],
    count: usize,
    /// The index of the segment that applied to the last record.
    at: usize,
}

impl SelectionHistory {
    pub(super) const fn new() -> SelectionHistory {
        SelectionHistory {
            taken: false,
            subscriptions: [None; MAX_CONSUMERS],
            segments: [Segment { from: 0, takers: [0; EventId::COUNT] }; SEGMENTS],
            count: 0,
            at: 0,
        }
    }

    /// Returns the consumers that receive a record of this event and this time.
    #[inline(always)]
    pub(super) fn takers(&mut self, id: usize, ticks: u64) -> Consumers {
        let current = &self.segments[self.at % SEGMENTS];
        let is_current =
            current.from <= ticks && (self.at + 1 >= self.count || ticks < self.segments[self.at + 1].from);
        if !is_current {
            self.find(ticks);
        }
        self.segments[self.at % SEGMENTS].takers[id]
    }

    #[cold]
    #[inline(never)]
    fn find(&mut self, ticks: u64) {
        let segments = &self.segments[..self.count];
        // A record that is older than the history uses the first segment. It can only come from a thread that was suspended in a fire for
        // a long time.
        self.at = segments.partition_point(|segment| segment.from <= ticks).saturating_sub(1);
    }

    /// Whether the history has room for another change.
    pub(super) fn has_room(&self) -> bool {
        self.count + 2 <= SEGMENTS
    }

    /// Removes the segments that end before `ticks`: all records up to that time have been drained.
    pub(super) fn forget_before(&mut self, ticks: u64) {
        // The last segment that began at or before `ticks` is the first that is still needed.
        let first = self.segments[..self.count].partition_point(|segment| segment.from <= ticks).saturating_sub(1);
        self.segments.copy_within(first..self.count, 0);
        self.count -= first;
        self.at = 0;
    }

    /// Removes everything except the present segment.
    pub(super) fn forget_the_past(&mut self) {
        self.forget_before(u64::MAX);
    }

    fn push(&mut self, from: u64, takers: [Consumers; EventId::COUNT]) {
        self.segments[self.count] = Segment { from, takers };
        self.count += 1;
    }

    fn present(&self) -> [Consumers; EventId::COUNT] {
        match self.count {
            0 => [0; EventId::COUNT],
            count => self.segments[count - 1].takers,
        }
    }

    pub(super) fn selection(&self, slot: usize) -> Option<&Selection> {
        Some(&self.subscriptions[slot].as_ref()?.selection)
    }

    /// Returns how many of a consumer's records of this world were dropped since its last change.
    pub(super) fn dropped(&self, number: WorldNumber, slot: usize) -> u64 {
        let Some(subscription) = &self.subscriptions[slot] else { return 0 };
        let counts = &WORLDS[usize::from(number.0)].dropped;
        let enabled = EventId::all().filter(|id| subscription.wants.contains(*id));
        let since =
            |id: EventId| counts[id as usize].load(Ordering::Relaxed) - subscription.dropped_before[id as usize];
        enabled.map(since).sum()
    }

    /// Changes a consumer's selection of this world; `None` ends it. When this returns, no event that it
    /// disabled is recorded with a later timestamp (`.event.exact`). Returns how many records of the old selection were dropped.
    pub(super) fn change(&mut self, number: WorldNumber, slot: usize, selection: Option<Selection>) -> u64 {
        let world = &WORLDS[usize::from(number.0)];
        let before = self.present();
        let wants = selection.map_or(EventSet::NONE, |selection| selection.selected());
        let bit = 1 << slot;
        let mut after = before;
        for id in EventId::all() {
            let takers = &mut after[id as usize];
            *takers = if wants.contains(id) { *takers | bit } else { *takers & !bit };
        }
        let union: EventSet = EventId::all().filter(|id| after[*id as usize] != 0).collect();
        let mut either = before;
        either.iter_mut().zip(after).for_each(|(either, after)| *either |= after);

        let since = clock::ticks();
        self.push(since, either);
        world.enabled.change(union.words(), since);
        // Pairs with the light barrier of `Flight::begin`.
        heavy_barrier();
        self.push(clock::ticks() + 1, after);

        let dropped = self.dropped(number, slot);
        let counts = std::array::from_fn(|id| world.dropped[id].load(Ordering::Relaxed));
        self.subscriptions[slot] = selection.map(|selection| Subscription { selection, wants, dropped_before: counts });
        dropped
    }
}

/// Returns the world with this number.
pub(super) fn of(number: WorldNumber) -> &'static RecordedWorld {
    &WORLDS[usize::from(number.0)]
}

/// Takes a free number for a world that starts to record.
pub(super) fn take(histories: &mut [SelectionHistory; MAX_WORLDS]) -> Option<&'static RecordedWorld> {
    let free = histories.iter().position(|history| !history.taken)?;
    histories[free].taken = true;
    Some(&WORLDS[free])
}

/// Frees the number of a world that has stopped recording, and whose records are all drained.
pub(super) fn give_back(histories: &mut [SelectionHistory; MAX_WORLDS], world: &'static RecordedWorld) {
    histories[usize::from(world.number)] = SelectionHistory::new();
}

/// In the child of a fork: ends these consumers' selections.
pub(super) fn silence(histories: &mut [SelectionHistory; MAX_WORLDS], silent: impl Fn(usize) -> bool) {
    for (number, history) in histories.iter_mut().enumerate().filter(|(_, history)| history.taken) {
        history.forget_the_past();
        for slot in (0..MAX_CONSUMERS).filter(|slot| silent(*slot)) {
            if history.subscriptions[slot].is_some() {
                if !history.has_room() {
                    history.forget_the_past();
                }
                history.change(WorldNumber(number as u16), slot, None);
            }
        }
    }
}

/// Returns the numbers of the worlds that record.
pub(super) fn taken(histories: &[SelectionHistory; MAX_WORLDS]) -> impl Iterator<Item = WorldNumber> {
    histories.iter().enumerate().filter(|(_, history)| history.taken).map(|(number, _)| WorldNumber(number as u16))
}
