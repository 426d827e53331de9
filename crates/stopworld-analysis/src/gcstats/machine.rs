//! From events to collections: the rules by which a suspension, a start, an end and a restart belong together.
//!
//! The runtime never says "collection 7 paused the world for 3 ms". It says who asked the threads to stop and why, that
//! a collection began, that it ended, what the heap is like now, that the threads run again; each with a time and a
//! thread. Who asked for a stop also restarts, on the same thread. A blocking collection is, in the order of its events:
//!
//! ```text
//!   SuspendBegin(for a GC) SuspendEnd Start … End HeapStats RestartBegin RestartEnd
//!   ├──── suspend ─────────┤          ├─────┤ duration               │
//!   ├──── pause ─────────────────────────────────────────────────────┤
//! ```
//!
//! One in the background is interleaved with the program, which is stopped for its beginning, and again (the reason is
//! then "for GC preparation") when marking must end; and with young collections of its own kind, the foreground ones, of
//! which it may begin with one. Its `HeapStats` is its end: there is no restart after that.
//!
//! The rules, of which each has a test:
//!
//! * Only stops for a collection and for its preparation count. Those for other reasons (a sampler stops the world a
//!   thousand times a second) are remembered by their thread alone, so that their restarts are ignored.
//! * A start without any stop before it, and a start with the number of the collection before, are ignored.
//! * An event belongs to the newest collection if that is not over, or else to the one in the background.
//! * The server collector reports what a background collection did to each heap after its `HeapStats`. Such a history
//!   belongs to the collection that was completed last. The real reader applies this to the server collector only, which
//!   it recognises by its marks (`server`); here it holds for every background collection.
//! * A blocking collection is over at the restart by the thread that stopped the world, if its end and its statistics
//!   came before. Otherwise it stays incomplete, and is not counted.
//! * The pause of a full collection that provisional mode asks for, and of one that begins while another has only begun
//!   to run in the background, counts from its own start: what came before is the other's.
//!
//! These are the rules of the real reader. Where that reader is wrong ([`Rules::LikePerfView`] has it so all the same):
//!
//! * It takes a collection whose end has the time of its start for one that has not ended, and never counts it. Clocks
//!   have ticks, and collections can be shorter.
//! * It keeps the end of an old suspension, so where `SuspendEnd` is missing the suspension's length is that of some
//!   other, or negative. Here it lasts until the collection's start, as that reader has it for the first.
//! * It has thread identifiers in 32 bits with a sign; those of macOS have more.

use std::collections::HashSet;

use super::Rules;
use super::collection::{Collection, Kind, MARKS, MOST_ROWS, Marks, Reason};
use super::server::Detector;
use super::store::Store;

/// A set that was larger than this is not kept for the next collection: a trace may have a thousand processes.
const KEPT_PINNED: usize = 1 << 10;

/// The sort of roots that handles are.
const HANDLES: usize = 2;
/// No thread.
const NOBODY: i64 = -1;

/// The collections of a process, as far as they have happened.
pub(super) struct Machine {
    rules: Rules,
    /// The newest collection.
    last: Option<Collection>,
    /// The one in the background, where others have begun since. It stays here after its end, until the next begins.
    background: Option<Collection>,
    /// Whether the one in `background` was completed later than the newest.
    background_was_last: bool,
    server: Detector,
    /// Whether the newest collection is the one in the background.
    last_is_background: bool,
    /// How many there are.
    count: u64,
    /// Objects that are known to be pinned, as many as the [store](Store::pin) has room for; beyond these an object counts as often as an
    /// event names it.
    pinned: HashSet<u64>,
    /// The thread that stopped the world for a collection, for the preparation of one, for anything else.
    stopped_for_gc: i64,
    stopped_for_preparation: i64,
    stopped_otherwise: i64,
    suspend_begin: Option<f64>,
    suspend_end: Option<f64>,
    last_reason_was_preparation: bool,
    /// Whether `End` of the newest collection was seen; what the real reader concludes from its duration.
    ended: bool,
    /// A collection that the real reader takes for one of the old concurrent sort.
    old_concurrent: bool,
    ticks: Ticks,
    /// The time of the last `HeapStats`.
    pub(super) last_stats: f64,
    store: Store,
}

/// What has been allocated, as ticks tell; MB.
#[derive(Default)]
struct Ticks {
    now: [f64; 3],
    at_last: [f64; 3],
    any: bool,
    /// Old runtimes wrote amounts that overflowed. Once one was seen, none is believed.
    bad: bool,
}

/// Why the world was stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stop {
    Collection,
    Preparation,
    Other,
}

impl Stop {
    pub(super) fn of(reason: u32) -> Stop {
        match reason {
            1 => Stop::Collection,
            6 => Stop::Preparation,
            _ => Stop::Other,
        }
    }
}

impl Machine {
    pub(super) fn new(rules: Rules, store: Store) -> Machine {
        Machine {
            rules,
            last: None,
            background: None,
            background_was_last: false,
            server: Detector::default(),
            last_is_background: false,
            count: 0,
            pinned: HashSet::new(),
            stopped_for_gc: NOBODY,
            stopped_for_preparation: NOBODY,
            stopped_otherwise: NOBODY,
            suspend_begin: None,
            suspend_end: None,
            last_reason_was_preparation: false,
            ended: false,
            old_concurrent: false,
            ticks: Ticks::default(),
            last_stats: 0.0,
            store,
        }
    }

    /// The end: nothing more will happen to any collection.
    pub(super) fn finish(mut self) -> Store {
        self.retire_background();
        if let Some(last) = self.last.take() {
            self.store.push(&last);
        }
        self.store.drop_provisional = self.server.is_server() != Some(true);
        self.store
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

    /// What a restart means for the collection that it belongs to.
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
        // In the background; or blocking, and without an end: the sort of collection that ran concurrently in the days
        // before there was a background.
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

    pub(super) fn start(&mut self, now: f64, number: i32, generation: i32, reason: Reason, kind: Kind) {
        self.server.start();
        let anybody = self.stopped_for_gc > 0 || self.stopped_otherwise > 0;
        if !anybody || self.last.as_ref().is_some_and(|last| last.number == number) {
            return;
        }
        let of_background = kind == Kind::BLOCKING
            && self.last.as_ref().is_some_and(|last| last.kind == Kind::BACKGROUND && !last.complete);
        let mut collection = Collection {
            index: self.count,
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
        self.begin(collection);
    }

    /// A new collection is the newest from now on.
    fn begin(&mut self, collection: Collection) {
        if collection.kind == Kind::BACKGROUND {
            // One that was in the background until now lost its end.
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
        self.count += 1;
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
            amount = amount.max(90 * 1024).min(if kind == 0 { 110 * 1024 } else { 2 * 1024 * 1024 });
        }
        self.ticks.now[kind.min(2) as usize] += amount as f64 / 1_000_000.0;
    }

    /// A sort of roots of a heap is marked. `promoted` is what they keep alive, if the event tells.
    pub(super) fn mark(&mut self, now: f64, thread: u64, heap: i32, sort: u32, promoted: Option<i64>) {
        let sort = sort as usize;
        if sort == HANDLES {
            self.server.handles_marked(self.thread(thread));
        }
        let Some(current) = self.current().filter(|_| sort < MARKS) else { return };
        let known = current.marks.iter().position(|marks| marks.heap == heap);
        let marks = match known {
            Some(index) => &mut current.marks[index],
            // Of the old events only that of the stacks begins a heap's row.
            None if (promoted.is_none() && sort != 0) || current.marks.len() == MOST_ROWS => return,
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

    /// The collection that an event belongs to now.
    pub(super) fn current(&mut self) -> Option<&mut Collection> {
        if self.last_is_open() { self.last.as_mut() } else { open(&mut self.background) }
    }

    /// The collection that a history belongs to: the current one, or else the last that was completed, since the server
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
            // The real reader has seen the whole trace before it gets here.
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

    /// The current collection is over.
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

    /// A thread's identifier as a number that is positive for every real thread.
    fn thread(&self, thread: u64) -> i64 {
        match self.rules {
            Rules::Ours => (thread & i64::MAX as u64) as i64,
            Rules::LikePerfView => i64::from(thread as u32 as i32),
        }
    }
}

/// The collection if it is not over.
fn open(collection: &mut Option<Collection>) -> Option<&mut Collection> {
    collection.as_mut().filter(|collection| !collection.complete)
}
