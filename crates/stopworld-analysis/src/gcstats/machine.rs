//! From events to collections: the rules that match suspensions, starts, ends and restarts.
//!
//! The runtime has no event such as "collection 7 paused the world for 3 ms". Its events report which thread suspended the others
//! and why, that a collection began, that it ended, the state of the heap, and that the threads run again; each with a time and a
//! thread. The thread that suspends the others also restarts them. The events of a blocking collection are, in order:
//!
//! ```text
//!   SuspendBegin(for a GC) SuspendEnd Start … End HeapStats RestartBegin RestartEnd
//!   ├──── suspend ─────────┤          ├─────┤ duration               │
//!   ├──── pause ─────────────────────────────────────────────────────┤
//! ```
//!
//! A background collection is interleaved with the program. The program is stopped when it begins, and again when marking must end
//! (the reason is then "for GC preparation"). It is also interleaved with young collections of a special kind, the foreground collections;
//! it may begin with one of them. A background collection ends with its `HeapStats`: no restart follows.
//!
//! The rules, each of which has a test:
//! * Only suspensions for a collection or its preparation count. For other suspensions (a sampler stops the world a thousand times a
//!   second) only the suspending thread is remembered, so that the restarts by that thread can be ignored.
//! * A start without a suspension before it, and a start with the same number as the previous collection, are ignored. The number does not count
//!   if a suspension lies between the two starts.
//! * An event belongs to the newest collection if that is not complete, otherwise to the one in the background.
//! * The server collector reports the histories of a background collection's heaps after its `HeapStats`. Such a history belongs
//!   to the collection that was completed last. PerfView applies this to the server collector only, which it recognises by its
//!   marks (`server`); here it applies to every background collection.
//! * A blocking collection is complete when the thread that suspended the others restarts them, if the collection's end and statistics came
//!   before. Otherwise the collection stays incomplete, and is not counted.
//! * The pause of a full collection requested by provisional mode, and of one that begins while a background collection has only
//!   begun, is measured from its own start, because the time before belongs to the other collection.
//!
//! These are the rules of PerfView. Where PerfView is wrong ([`Rules::LikePerfView`] reproduces it):
//!
//! * If the end of a collection has the same time as its start, PerfView considers it not ended, and never counts it. A collection can be
//!   shorter than one tick of the clock.
//! * PerfView has one collection at a time for a process, and ignores a number that it has just seen. The worlds of this project count their
//!   collections from 1 each, and may be collected at the same time. So there is a machine for each of them (see `worlds`).
//! * PerfView keeps the end of an old suspension. So if `SuspendEnd` is missing, the length of the suspension is that of some other
//!   one, or negative. Here it lasts until the start of the collection, as in PerfView for the first collection.
//! * PerfView stores thread ids in signed 32 bits; macOS has larger ids.

use std::collections::HashSet;

use super::Rules;
use super::collection::{Collection, Kind, MARKS, MOST_ROWS, Marks, Reason};
use super::server::Detector;
use super::store::Store;
use nettrace::clr::{AllocationKind, MarkRoot, SuspendReason};

/// The largest capacity of the pinned set that is kept for the next collection: a trace may have a thousand processes.
const KEPT_PINNED: usize = 1 << 10;

/// No thread.
const NOBODY: i64 = -1;

/// The collections so far of a process, or of one of its worlds.
pub(super) struct Machine {
    rules: Rules,
    /// The newest collection.
    last: Option<Collection>,
    /// A background collection during which others have begun. After its end it stays here until the next background one begins.
    background: Option<Collection>,
    /// Whether the collection in `background` was completed later than the newest collection.
    background_was_last: bool,
    server: Detector,
    /// Whether the newest collection is a background collection.
    last_is_background: bool,
    /// The number of the world, or of the runtime: `ClrInstanceID`.
    world: u16,
    /// Objects known to be pinned, up to the limit of the [store](Store::pin). An object beyond the limit counts each time that an
    /// event names it.
    pinned: HashSet<u64>,
    /// The thread that suspended the others for a collection, for its preparation, or for another reason.
    stopped_for_gc: i64,
    stopped_for_preparation: i64,
    stopped_otherwise: i64,
    suspend_begin: Option<f64>,
    suspend_end: Option<f64>,
    /// Whether threads were suspended for a collection, or for its preparation, since the newest collection started.
    suspended_since_start: bool,
    last_reason_was_preparation: bool,
    /// Whether `End` of the newest collection was seen. PerfView infers this from the duration.
    ended: bool,
    /// Whether PerfView would take the newest collection for one of the old concurrent kind.
    old_concurrent: bool,
    ticks: Ticks,
    /// The time of the last `HeapStats`.
    pub(super) last_stats: f64,
    store: Store,
}

/// The allocated MB according to allocation ticks.
#[derive(Default)]
struct Ticks {
    now: [f64; 3],
    at_last: [f64; 3],
    any: bool,
    /// Whether a negative amount was seen: old runtimes wrote amounts that overflowed. Then all amounts are limited to plausible values.
    bad: bool,
}

/// The fields of a start.
#[derive(Clone, Copy, Debug)]
pub(super) struct Started {
    pub(super) number: i32,
    pub(super) generation: i32,
    pub(super) reason: Reason,
    pub(super) kind: Kind,
}

/// The reason why the threads were suspended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stop {
    Collection,
    Preparation,
    Other,
}

impl Stop {
    pub(super) fn of(reason: u32) -> Stop {
        match SuspendReason::of(reason) {
            Some(SuspendReason::SuspendForGC) => Stop::Collection,
            Some(SuspendReason::SuspendForGCPrep) => Stop::Preparation,
            _ => Stop::Other,
        }
    }
}

impl Machine {
    pub(super) fn new(rules: Rules, world: u16, store: Store) -> Machine {
        Machine {
            rules,
            last: None,
            background: None,
            background_was_last: false,
            server: Detector::default(),
            last_is_background: false,
            world,
            pinned: HashSet::new(),
            stopped_for_gc: NOBODY,
            stopped_for_preparation: NOBODY,
            stopped_otherwise: NOBODY,
            suspend_begin: None,
            suspend_end: None,
            suspended_since_start: false,
            last_reason_was_preparation: false,
            ended: false,
            old_concurrent: false,
            ticks: Ticks::default(),
            last_stats: 0.0,
            store,
        }
    }

    /// Ends the trace and returns all collections.
    pub(super) fn finish(self) -> Store {
        let drop_provisional = self.server.is_server() != Some(true);
        let mut store = self.retire();
        store.drop_provisional = drop_provisional;
        store
    }

    /// Returns the collections for a machine of another world, which adds its own.
    pub(super) fn retire(mut self) -> Store {
        self.retire_background();
        if let Some(last) = self.last.take() {
            self.store.push(&last);
        }
        self.store.unpin(self.pinned.len());
        self.store
    }

    /// Returns whether no collection is in progress.
    pub(super) fn is_idle(&self) -> bool {
        !self.last_is_open() && self.background.as_ref().is_none_or(|background| background.complete)
    }

    pub(super) fn suspend_begin(&mut self, now: f64, thread: u64, stop: Stop) {
        let thread = self.thread(thread);
        match stop {
            Stop::Collection => self.stopped_for_gc = thread,
            Stop::Preparation => self.stopped_for_preparation = thread,
            Stop::Other => {
                self.stopped_otherwise = thread;
                return;
            }
        }
        self.last_reason_was_preparation = stop == Stop::Preparation;
        self.suspend_begin = Some(now);
        self.suspended_since_start = true;
        if self.rules == Rules::Ours {
            self.suspend_end = None;
        }
    }

    pub(super) fn suspend_end(&mut self, now: f64, thread: u64) {
        if !self.stopped_by(thread) {
            return;
        }
        let begin = self.suspend_begin.unwrap_or(-1.0);
        if self.stopped_for_preparation > 0
            && let Some(background) = self.in_background()
        {
            background.suspend += now - begin;
        }
        self.suspend_end = Some(now);
    }

    pub(super) fn restart_end(&mut self, now: f64, thread: u64) {
        if self.thread(thread) == self.stopped_otherwise {
            self.stopped_otherwise = NOBODY;
        }
        if !self.stopped_by(thread) {
            return;
        }
        self.resume(now);
        self.suspend_begin = None;
        self.stopped_for_preparation = NOBODY;
        self.stopped_for_gc = NOBODY;
    }

    /// Handles a restart of the threads for the current collection.
    fn resume(&mut self, now: f64) {
        let for_preparation = self.stopped_for_preparation > 0;
        let pause = now - self.suspend_begin.unwrap_or(-1.0);
        let is_final = self.last_reason_was_preparation;
        let (rules, ended) = (self.rules, self.ended);
        let Some(current) = self.current() else { return };
        let over = match rules {
            Rules::Ours => ended,
            Rules::LikePerfView => current.duration != 0.0,
        };
        if current.kind != Kind::BACKGROUND && over {
            current.pause = now - current.pause_start;
            if current.stats.is_some() {
                self.complete();
            }
            return;
        }
        // A background collection, or a blocking one without an end: the kind that ran concurrently before there were background
        // collections.
        let old_concurrent = current.kind != Kind::BACKGROUND;
        if for_preparation {
            current.pause += pause;
            if is_final {
                current.final_pause = pause;
            }
        } else {
            current.pause = now - current.pause_start;
        }
        self.old_concurrent |= old_concurrent;
    }

    /// Handles the start of a collection. `begun` is the number of collections of the process that have begun.
    pub(super) fn start(&mut self, now: f64, begun: &mut u64, started: Started) {
        let Started { number, generation, reason, kind } = started;
        self.server.start();
        let anybody = self.stopped_for_gc > 0 || self.stopped_otherwise > 0;
        let may_repeat = self.rules == Rules::LikePerfView || !self.suspended_since_start;
        if !anybody || (may_repeat && self.last.as_ref().is_some_and(|last| last.number == number)) {
            return;
        }
        let of_background = kind == Kind::BLOCKING
            && self.last.as_ref().is_some_and(|last| last.kind == Kind::BACKGROUND && !last.complete);
        let mut collection = Collection {
            index: *begun,
            world: self.world,
            number,
            kind,
            reason,
            generation,
            start: now,
            pause_start: now,
            ..Collection::default()
        };
        if reason == Reason::PROVISIONAL_FULL && self.current().is_some() {
            self.complete();
        }
        if !of_background && reason != Reason::PROVISIONAL_FULL {
            let unknown = if self.rules == Rules::Ours { now } else { -1.0 };
            let begin = self.suspend_begin.unwrap_or(unknown);
            collection.pause_start = begin;
            collection.suspend = *self.suspend_end.get_or_insert(now) - begin;
        }
        if kind == Kind::BACKGROUND {
            collection.pause = collection.suspend;
        }
        *begun += 1;
        self.begin(collection);
    }

    /// Makes a collection the newest one.
    fn begin(&mut self, collection: Collection) {
        if collection.kind == Kind::BACKGROUND {
            // The end of the previous background collection is missing.
            self.retire_background();
        }
        if let Some(before) = self.last.take() {
            if self.last_is_background && !before.complete && collection.kind != Kind::BACKGROUND {
                self.background = Some(before);
            } else {
                self.store.push(&before);
            }
        }
        self.last_is_background = collection.kind == Kind::BACKGROUND;
        self.suspended_since_start = false;
        self.ended = false;
        self.old_concurrent = false;
        self.store.unpin(self.pinned.len());
        self.pinned.clear();
        self.pinned.shrink_to(KEPT_PINNED);
        self.last = Some(collection);
    }

    pub(super) fn end(&mut self, now: f64) {
        self.server.end();
        let last_is_open = self.last_is_open();
        let Some(current) = self.current() else { return };
        current.duration = now - current.start;
        self.ended |= last_is_open;
    }

    pub(super) fn heap_stats(&mut self, now: f64, stats: super::HeapStats) {
        let since = self.last_stats;
        let Ticks { now: ticks, at_last, any, .. } = self.ticks;
        let old_concurrent = self.old_concurrent && self.last_is_open();
        if let Some(current) = self.current() {
            current.stats = Some(stats);
            let from = if current.kind == Kind::BACKGROUND { now } else { current.pause_start };
            current.since_last = from - since;
            if any {
                current.ticked = std::array::from_fn(|kind| ticks[kind] - at_last[kind]);
            }
            if current.kind == Kind::BACKGROUND || old_concurrent {
                self.complete();
            }
        }
        self.ticks.at_last = ticks;
        self.last_stats = now;
    }

    pub(super) fn allocation(&mut self, kind: u32, mut amount: i64) {
        self.ticks.any = true;
        self.ticks.bad |= amount < 0;
        if self.ticks.bad {
            amount = amount.max(90 * 1024).min(if kind == AllocationKind::Small.code() {
                110 * 1024
            } else {
                2 * 1024 * 1024
            });
        }
        self.ticks.now[kind.min(2) as usize] += amount as f64 / 1_000_000.0;
    }

    /// Records that a kind of roots of a heap was marked. `promoted` is the number of bytes that they keep alive, if the event contains it.
    pub(super) fn mark(&mut self, now: f64, thread: u64, heap: i32, sort: u32, promoted: Option<i64>) {
        let sort = sort as usize;
        if sort == MarkRoot::MarkHandles.code() as usize {
            self.server.handles_marked(self.thread(thread));
        }
        let Some(current) = self.current().filter(|_| sort < MARKS) else { return };
        let known = current.marks.iter().position(|marks| marks.heap == heap);
        let marks = match known {
            Some(index) => &mut current.marks[index],
            // Only one of the old events begins the row of a heap: the one for stacks.
            None if (promoted.is_none() && sort != MarkRoot::MarkStack.code() as usize)
                || current.marks.len() == MOST_ROWS =>
            {
                return;
            }
            None => {
                let promoted = promoted.map(|_| [-1; MARKS]);
                current.marks.push(Marks { heap, promoted, ..Marks::default() });
                current.marks.last_mut().expect("it was pushed just now")
            }
        };
        marks.times[sort] = Some(now);
        if let (Some(bytes), Some(all)) = (promoted, &mut marks.promoted) {
            all[sort] = bytes;
        }
    }

    pub(super) fn pinned(&mut self, object: u64, bytes: i64) {
        if self.current().is_none() || self.pinned.contains(&object) {
            return;
        }
        if self.store.pin() {
            self.pinned.insert(object);
        }
        if let Some(current) = self.current() {
            current.pinned_bytes = current.pinned_bytes.wrapping_add(bytes);
        }
    }

    /// Returns the collection to which the next event belongs.
    pub(super) fn current(&mut self) -> Option<&mut Collection> {
        if self.last_is_open() { self.last.as_mut() } else { open(&mut self.background) }
    }

    /// Returns the collection to which a history belongs: the current one, or, if there is none, the one completed last, since the server
    /// collector reports the histories of a background collection after its statistics.
    pub(super) fn described(&mut self) -> Option<&mut Collection> {
        if self.last_is_open() {
            return self.last.as_mut();
        }
        if self.background.as_ref().is_some_and(|background| !background.complete) {
            return self.background.as_mut();
        }
        let completed = if self.background_was_last { &mut self.background } else { &mut self.last };
        let completed = completed.as_mut()?;
        match (self.rules, self.server.is_server()) {
            (_, Some(true)) => Some(completed),
            (Rules::Ours, _) => Some(completed).filter(|completed| completed.kind == Kind::BACKGROUND),
            (Rules::LikePerfView, Some(false)) => None,
            // PerfView has read the whole trace when it decides whether the process has the server collector.
            (Rules::LikePerfView, None) => {
                completed.is_provisional |= completed.heaps.is_empty() && completed.global.is_none();
                Some(completed).filter(|completed| completed.is_provisional)
            }
        }
    }

    fn last_is_open(&self) -> bool {
        self.last.as_ref().is_some_and(|last| !last.complete)
    }

    fn in_background(&mut self) -> Option<&mut Collection> {
        if self.last_is_background && self.last_is_open() { self.last.as_mut() } else { open(&mut self.background) }
    }

    /// Completes the current collection.
    fn complete(&mut self) {
        let in_background = !self.last_is_open();
        let Some(current) = self.current() else { return };
        current.complete = true;
        let start = current.start;
        current.marks.iter_mut().for_each(|marks| marks.times_since(start));
        self.background_was_last = in_background;
    }

    fn retire_background(&mut self) {
        if let Some(background) = self.background.take() {
            self.store.push(&background);
        }
    }

    fn stopped_by(&self, thread: u64) -> bool {
        let thread = self.thread(thread);
        thread == self.stopped_for_preparation || thread == self.stopped_for_gc
    }

    /// Converts a thread id to a number that is positive for every real thread.
    fn thread(&self, thread: u64) -> i64 {
        match self.rules {
            Rules::Ours => (thread & i64::MAX as u64) as i64,
            Rules::LikePerfView => i64::from(thread as u32 as i32),
        }
    }
}

/// Returns the collection if it is not complete.
fn open(collection: &mut Option<Collection>) -> Option<&mut Collection> {
    collection.as_mut().filter(|collection| !collection.complete)
}
