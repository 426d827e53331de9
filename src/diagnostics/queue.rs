//! From the drain to a session: a place for records that nobody ever waits for (`.live.no-wait`).
//!
//! The drain runs under the recorder's lock, perhaps while other threads stand still, so it may neither allocate nor wait; a
//! session encodes and writes to a client that may take its time. Between them is a ring of fixed size with one writer (who
//! holds the recorder's lock) and one reader (the session's thread).
//!
//! ```text
//!            taken                        put
//!   ──────────┬────────────────────────────┬──────────────
//!      free   │  what the session will     │     free          put − taken ≤ capacity
//!   ──────────┴────────────────────────────┴──────────────
//! ```
//!
//! **When it is full, records are lost, and counted by thread** (`.live.exact`): what a client is told must add up. The counts wait on the writer's
//! side until a quarter of the ring is free again, and go in before the next record: so they are where the gap is. As many slots
//! as there can be counts are kept for those of the end. For more threads than the table has places the last place counts for all
//! of them.

use std::mem::MaybeUninit;

use crate::events::clock::Relation;
use crate::events::record::{Lost, Recorded, RecordingThread};
use crate::sync::{AtomicU64, Ordering, UnsafeCell};

/// The threads whose losses are told apart.
const PLACES: usize = 64;

/// What a session gets, in this order.
#[derive(Clone, Copy, Debug)]
pub(super) enum Item {
    Record(Recorded),
    Lost(Lost),
    /// Everything up to this moment has come.
    Reached(Relation),
}

/// See the module's text.
pub(super) struct Queue {
    slots: Box<[UnsafeCell<MaybeUninit<Item>>]>,
    /// How many have been put in, and taken out, ever.
    put: AtomicU64,
    taken: AtomicU64,
}

// SAFETY: a slot is the writer's or the reader's, as `put` and `taken` say, and there is one of each: `Writer` and `Reader` are
// made once and need `&mut` for what they do.
unsafe impl Sync for Queue {}

impl Queue {
    /// A ring of about this many bytes, which the system gives as they are first used.
    pub(super) fn with_capacity(bytes: usize) -> Queue {
        let slots = (bytes / size_of::<Item>()).max(8 * PLACES);
        Queue {
            slots: (0..slots).map(|_| UnsafeCell::new(MaybeUninit::uninit())).collect(),
            put: AtomicU64::new(0),
            taken: AtomicU64::new(0),
        }
    }

    fn slot(&self, number: u64) -> &UnsafeCell<MaybeUninit<Item>> {
        &self.slots[(number % self.slots.len() as u64) as usize]
    }

    /// For the reader: takes the oldest.
    ///
    /// # Safety
    /// Nobody else takes at the same time.
    pub(super) unsafe fn take(&self) -> Option<Item> {
        let taken = self.taken.load(Ordering::Relaxed);
        // Acquire: pairs with the release of `put`; what is in the slot is seen.
        if taken == self.put.load(Ordering::Acquire) {
            return None;
        }
        // SAFETY: it was written before `put` passed it, and is not written again before `taken` does.
        let item = self.slot(taken).with(|slot| unsafe { (*slot).assume_init() });
        // Release: pairs with the acquire of `room`; the slot has been read.
        self.taken.store(taken + 1, Ordering::Release);
        Some(item)
    }

    fn room(&self) -> u64 {
        // Acquire: pairs with the release of `take`.
        self.slots.len() as u64 - (self.put.load(Ordering::Relaxed) - self.taken.load(Ordering::Acquire))
    }

    /// For the writer, who has looked whether there is room.
    fn put(&self, item: Item) {
        let put = self.put.load(Ordering::Relaxed);
        // SAFETY: the reader is not there yet, and there is no other writer.
        self.slot(put).with_mut(|slot| unsafe { (*slot).write(item) });
        // Release: pairs with the acquire of `take`.
        self.put.store(put + 1, Ordering::Release);
    }
}

impl std::fmt::Debug for Queue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Queue").field("slots", &self.slots.len()).field("room", &self.room()).finish()
    }
}

/// What the writer knows: losses that have not been told.
#[derive(Debug)]
pub(super) struct Losses {
    by_thread: [(RecordingThread, u64); PLACES],
    used: usize,
}

impl Losses {
    pub(super) fn none() -> Losses {
        Losses { by_thread: [(RecordingThread { tid: 0, index: 0 }, 0); PLACES], used: 0 }
    }

    fn count(&mut self, thread: RecordingThread, count: u64) {
        let known = self.by_thread[..self.used].iter().position(|(one, _)| *one == thread);
        let place = known.unwrap_or_else(|| {
            if self.used < PLACES {
                self.by_thread[self.used] = (thread, 0);
                self.used += 1;
            }
            self.used - 1
        });
        self.by_thread[place].1 += count;
    }

    /// Puts an item in, for the writer, with the losses before it; or counts it.
    pub(super) fn put(&mut self, queue: &Queue, ticks: u64, item: Item) {
        let slots = queue.slots.len() as u64;
        let least = if self.used > 0 { slots / 4 } else { 1 };
        if queue.room() < least + PLACES as u64 {
            match item {
                Item::Record(record) => self.count(record.thread, 1),
                Item::Lost(lost) => self.count(lost.thread, lost.count),
                Item::Reached(_) => {}
            }
            return;
        }
        self.tell(queue, ticks);
        queue.put(item);
    }

    /// Tells the losses. At the end there is room that was kept for them.
    pub(super) fn tell(&mut self, queue: &Queue, ticks: u64) {
        for (thread, count) in &self.by_thread[..self.used] {
            queue.put(Item::Lost(Lost { ticks, thread: *thread, count: *count }));
        }
        self.used = 0;
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::Arc;

    use super::*;
    use crate::events::EventId;
    use crate::events::record::WorldNumber;

    fn record(tid: u32, ticks: u64) -> Item {
        let thread = RecordingThread { tid, index: tid };
        Item::Record(Recorded::new(EventId::GcEnd, ticks, thread, WorldNumber(0), &[7]))
    }

    /// Who came and who was counted, by thread.
    fn balance(items: impl IntoIterator<Item = Item>) -> BTreeMap<u32, u64> {
        let mut seen = BTreeMap::new();
        for item in items {
            match item {
                Item::Record(record) => *seen.entry(record.thread.tid).or_default() += 1,
                Item::Lost(lost) => *seen.entry(lost.thread.tid).or_default() += lost.count,
                Item::Reached(_) => {}
            }
        }
        seen
    }

    #[test]
    fn what_finds_no_room_is_counted_where_it_is_missing() {
        let queue = Queue::with_capacity(0);
        let mut losses = Losses::none();
        let slots = queue.slots.len() as u64;
        for ticks in 0..slots + 10 {
            losses.put(&queue, ticks, record(1 + ticks as u32 % 3, ticks));
        }
        // SAFETY: one thread.
        let mut items: Vec<Item> = std::iter::from_fn(|| unsafe { queue.take() }).collect();
        assert_eq!(items.len() as u64, slots - PLACES as u64);
        losses.put(&queue, 1000, record(1, 1000));
        // SAFETY: as above.
        items.extend(std::iter::from_fn(|| unsafe { queue.take() }));
        let kinds: Vec<bool> =
            items[slots as usize - PLACES..].iter().map(|item| matches!(item, Item::Lost(_))).collect();
        assert_eq!(kinds, [true, true, true, false], "the losses come before the next record");
        assert_eq!(balance(items).values().sum::<u64>(), slots + 11);
    }

    #[test]
    fn with_more_threads_than_places_the_sum_is_right_all_the_same() {
        let queue = Queue::with_capacity(0);
        let mut losses = Losses::none();
        let slots = queue.slots.len() as u32;
        (0..slots + 200).for_each(|tid| losses.put(&queue, 1, record(tid, 1)));
        losses.tell(&queue, 2);
        // SAFETY: one thread.
        let items: Vec<Item> = std::iter::from_fn(|| unsafe { queue.take() }).collect();
        assert_eq!(balance(items).values().sum::<u64>(), u64::from(slots) + 200);
    }

    #[test]
    fn between_two_threads_everything_comes_in_order_or_is_counted() {
        const RECORDS: u64 = 200_000;
        let queue = Arc::new(Queue::with_capacity(0));
        let from = Arc::clone(&queue);
        let writer = std::thread::spawn(move || {
            let mut losses = Losses::none();
            for ticks in 1..=RECORDS {
                losses.put(&from, ticks, record(5, ticks));
            }
            losses.tell(&from, RECORDS);
        });
        let (mut last, mut seen) = (0, 0);
        loop {
            let over = writer.is_finished();
            // SAFETY: the only reader.
            match unsafe { queue.take() } {
                Some(Item::Record(record)) => {
                    assert!(record.ticks > last && record.fields() == [7]);
                    (last, seen) = (record.ticks, seen + 1);
                }
                Some(Item::Lost(lost)) => seen += lost.count,
                Some(Item::Reached(_)) => {}
                None if over => break,
                None => std::thread::yield_now(),
            }
        }
        writer.join().unwrap();
        assert_eq!(seen, RECORDS);
    }
}
