//! The queue of records from the drain to a session. Neither side ever waits for the other (`.live.no-wait`).
//!
//! The drain runs under the recorder's lock, possibly while other threads are stopped, so it may neither allocate nor wait. A
//! session encodes records and writes to a client that may be slow. Between them is a [ring](super::ring) of fixed size with
//! one writer (the thread that holds the recorder's lock) and one reader (the session's thread).
//!
//! **When the queue is full, records are lost, and counted per thread** (`.live.exact`), so that a client can account for all
//! records. The writer keeps the counts until a quarter of the ring is free again, and then puts them into the ring before the next
//! record: so they appear where the gap is. For the counts at the end of the session the ring has reserved slots, one for each
//! entry of the table of threads. If there are more threads than entries, the last entry counts for all the others.

use super::ring::{Ring, Slot};
use stopworld::events::clock::Relation;
use stopworld::events::record::{Lost, Recorded, RecordingThread};

/// The number of threads whose losses are counted separately.
const PLACES: usize = 64;

/// An item that a session receives, in order.
#[derive(Clone, Copy, Debug)]
pub(super) enum Item {
    Record(Recorded),
    Lost(Lost),
    /// All items up to this time have been received.
    Reached(Relation),
}

/// A queue; see the module documentation.
pub(super) type Queue = Ring<Item>;

/// Creates a queue of about this many bytes. The system commits its pages when they are first used.
pub(super) fn queue(bytes: usize) -> Queue {
    let slots = (bytes / size_of::<Item>()).max(8 * PLACES);
    let slots = Box::<[Slot<Item>]>::new_uninit_slice(slots);
    // SAFETY: a slot is a cell of `MaybeUninit`, which need not be initialised.
    Ring::over(unsafe { slots.assume_init() })
}

/// The writer's state: the losses that have not been put into the queue yet.
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

    /// Puts an item into the queue, preceded by the losses before it. If there is no room, counts the item as lost.
    ///
    /// # Safety
    /// The caller is the queue's only writer.
    pub(super) unsafe fn put(&mut self, queue: &Queue, ticks: u64, item: Item) {
        let slots = queue.slots();
        let least = if self.used > 0 { slots / 4 } else { 1 };
        if queue.room() < least + PLACES as u64 {
            match item {
                Item::Record(record) => self.count(record.thread, 1),
                Item::Lost(lost) => self.count(lost.thread, lost.count),
                Item::Reached(_) => {}
            }
            return;
        }
        // SAFETY: guaranteed by the caller; there is room for the losses and one more item.
        unsafe {
            self.report(queue, ticks);
            queue.put(item);
        }
    }

    /// Puts the losses into the queue. There is always room: slots are reserved for them.
    ///
    /// # Safety
    /// As for [`put`](Self::put).
    pub(super) unsafe fn report(&mut self, queue: &Queue, ticks: u64) {
        for (thread, count) in &self.by_thread[..self.used] {
            // SAFETY: guaranteed by the caller.
            unsafe { queue.put(Item::Lost(Lost { ticks, thread: *thread, count: *count })) };
        }
        self.used = 0;
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::Arc;

    use super::*;
    use stopworld::events::EventId;
    use stopworld::events::record::WorldNumber;

    fn record(tid: u32, ticks: u64) -> Item {
        let thread = RecordingThread { tid, index: tid };
        Item::Record(Recorded::new(EventId::GcEnd, ticks, thread, WorldNumber(0), &[7]))
    }

    /// Returns the number of records received or counted as lost, by thread.
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
    fn lost_records_are_counted_where_they_are_missing() {
        let queue = super::queue(0);
        let mut losses = Losses::none();
        let slots = queue.slots();
        for ticks in 0..slots + 10 {
            // SAFETY: one thread, here and below.
            unsafe { losses.put(&queue, ticks, record(1 + ticks as u32 % 3, ticks)) };
        }
        // SAFETY: one thread.
        let mut items: Vec<Item> = std::iter::from_fn(|| unsafe { queue.take() }).collect();
        assert_eq!(items.len() as u64, slots - PLACES as u64);
        // SAFETY: as above.
        unsafe { losses.put(&queue, 1000, record(1, 1000)) };
        // SAFETY: as above.
        items.extend(std::iter::from_fn(|| unsafe { queue.take() }));
        let kinds: Vec<bool> =
            items[slots as usize - PLACES..].iter().map(|item| matches!(item, Item::Lost(_))).collect();
        assert_eq!(kinds, [true, true, true, false], "the losses come before the next record");
        assert_eq!(balance(items).values().sum::<u64>(), slots + 11);
    }

    #[test]
    fn with_more_threads_than_entries_the_total_is_correct() {
        let queue = super::queue(0);
        let mut losses = Losses::none();
        let slots = queue.slots() as u32;
        // SAFETY: one thread, here and below.
        (0..slots + 200).for_each(|tid| unsafe { losses.put(&queue, 1, record(tid, 1)) });
        // SAFETY: as above.
        unsafe { losses.report(&queue, 2) };
        // SAFETY: one thread.
        let items: Vec<Item> = std::iter::from_fn(|| unsafe { queue.take() }).collect();
        assert_eq!(balance(items).values().sum::<u64>(), u64::from(slots) + 200);
    }

    #[test]
    fn between_two_threads_records_arrive_in_order_or_are_counted() {
        const RECORDS: u64 = 200_000;
        let queue = Arc::new(super::queue(0));
        let from = Arc::clone(&queue);
        let writer = std::thread::spawn(move || {
            let mut losses = Losses::none();
            for ticks in 1..=RECORDS {
                // SAFETY: the only writer.
                unsafe { losses.put(&from, ticks, record(5, ticks)) };
            }
            // SAFETY: as above.
            unsafe { losses.report(&from, RECORDS) };
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
