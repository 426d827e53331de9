//! Events in memory: a ring that is allocated before the first event and never grows.
//!
//! The ring is mapped when the sink is created. Firing threads add records at the tail; readers take them out at the
//! head, while events are fired or afterwards. A full ring drops the new record and counts it, so that always
//!
//! ```text
//!   fired = taken out + still in the ring + dropped
//! ```
//!
//! **The turn of a cell.** Position `p` of the stream is in cell `p mod capacity`, in lap `p div capacity`. A cell's
//! `turn` says which thread may use it: at `2·lap` the writer of that lap, at `2·lap + 1` the reader. A fresh mapping is all
//! zeroes, which is "the writer's turn, lap 0", so the pages need not be touched before they are used.
//!
//! A writer claims a position by moving the tail, writes, and passes the cell to the reader. In between it can be
//! stopped by a collection or interrupted by a handler that fires. No thread waits for it: other writers claim other
//! cells, and a reader that finds the unfinished cell returns `None`, as if there were no further record.

use std::io;
use std::ptr::NonNull;

use super::sink::{Record, Sink};
use crate::os::memory::{map_anonymous, unmap};
use crate::sync::{AtomicU64, Ordering, UnsafeCell};

#[repr(C)]
struct Cell {
    turn: AtomicU64,
    record: UnsafeCell<std::mem::MaybeUninit<Record>>,
}

/// Keeps records in a ring in mapped memory until they are taken out. Never allocates when recording.
#[derive(Debug)]
pub struct MemorySink {
    cells: NonNull<Cell>,
    capacity: u64,
    /// The next position that a writer claims, and so the number of records that were ever stored.
    tail: AtomicU64,
    /// The next position that a reader claims, and so the number of records that were taken out.
    head: AtomicU64,
    dropped: AtomicU64,
}

// SAFETY: the mapping belongs to the sink alone, and `turn` says which thread may access a cell.
unsafe impl Send for MemorySink {}
// SAFETY: as above; only the one thread whose turn it is accesses a cell's record.
unsafe impl Sync for MemorySink {}

impl MemorySink {
    /// Creates a ring for at least `records` records, of 72 bytes each. The number is rounded up to a power of two, at least two.
    pub fn with_capacity(records: usize) -> io::Result<MemorySink> {
        let capacity = records.max(2).checked_next_power_of_two();
        let bytes = capacity.and_then(|records| records.checked_mul(size_of::<Cell>()));
        let (Some(capacity), Some(bytes)) = (capacity, bytes) else {
            return Err(io::Error::new(io::ErrorKind::OutOfMemory, "the event ring is larger than the address space"));
        };
        let cells = NonNull::new(map_anonymous(bytes)?).ok_or(io::ErrorKind::AddrNotAvailable)?;
        Ok(MemorySink {
            cells: cells.cast(),
            capacity: capacity as u64,
            tail: AtomicU64::new(0),
            head: AtomicU64::new(0),
            dropped: AtomicU64::new(0),
        })
    }

    /// Returns the number of records that fit.
    pub fn capacity(&self) -> usize {
        self.capacity as usize
    }

    /// Returns the number of records stored so far, including those that have been taken out.
    pub fn stored(&self) -> u64 {
        self.tail.load(Ordering::Relaxed)
    }

    /// Returns the number of records that found the ring full and are lost.
    pub fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }

    /// Takes out the oldest record, if there is one and it is complete. Concurrent readers get different records.
    pub fn take(&self) -> Option<Record> {
        let mut position = self.head.load(Ordering::Relaxed);
        loop {
            let cell = self.cell(position);
            let full = self.turn_of_writer(position) + 1;
            // Acquire: pairs with the writer's release of the cell, so that its record is complete.
            let turn = cell.turn.load(Ordering::Acquire);
            if turn < full {
                return None;
            }
            if turn == full {
                match self.head.compare_exchange_weak(position, position + 1, Ordering::Relaxed, Ordering::Relaxed) {
                    Ok(_) => {
                        // SAFETY: it is the reader's turn, and this reader has claimed the position; the writer
                        // initialised the record before it passed the cell on.
                        let record = cell.record.with(|record| unsafe { (*record).assume_init_read() });
                        // Release: pairs with the acquire of the next lap's writer, which must not write before this read.
                        cell.turn.store(full + 1, Ordering::Release);
                        return Some(record);
                    }
                    Err(now) => position = now,
                }
            } else {
                position = self.head.load(Ordering::Relaxed);
            }
        }
    }

    /// Takes out all records, oldest first.
    pub fn drain(&self) -> impl Iterator<Item = Record> {
        std::iter::from_fn(|| self.take())
    }

    fn cell(&self, position: u64) -> &Cell {
        // SAFETY: the mapping has `capacity` cells, a power of two, and lives as long as the sink. Zeroes are a valid
        // cell: turn 0, record uninitialised.
        unsafe { self.cells.add((position & (self.capacity - 1)) as usize).as_ref() }
    }

    fn turn_of_writer(&self, position: u64) -> u64 {
        2 * (position >> self.capacity.trailing_zeros())
    }
}

impl Sink for MemorySink {
    fn record(&self, record: &Record) {
        let mut position = self.tail.load(Ordering::Relaxed);
        loop {
            let cell = self.cell(position);
            let empty = self.turn_of_writer(position);
            // Acquire: pairs with the reader's release, so that this write comes after that read.
            let turn = cell.turn.load(Ordering::Acquire);
            if turn == empty {
                match self.tail.compare_exchange_weak(position, position + 1, Ordering::Relaxed, Ordering::Relaxed) {
                    Ok(_) => {
                        // SAFETY: it is the writer's turn, and this writer has claimed the position.
                        cell.record.with_mut(|place| unsafe { (*place).write(*record) });
                        // Release: pairs with the acquire in `take`.
                        cell.turn.store(empty + 1, Ordering::Release);
                        return;
                    }
                    Err(now) => position = now,
                }
            } else if turn < empty {
                self.dropped.fetch_add(1, Ordering::Relaxed);
                return;
            } else {
                position = self.tail.load(Ordering::Relaxed);
            }
        }
    }
}

impl Drop for MemorySink {
    fn drop(&mut self) {
        // SAFETY: `with_capacity` made the mapping, of this size; a sink that is dropped is not in use.
        unsafe { unmap(self.cells.as_ptr().cast(), self.capacity as usize * size_of::<Cell>()) };
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;
    use crate::events::table::EventId;

    fn numbered(number: u64) -> Record {
        Record { timestamp: number, tid: 0, id: EventId::ObjectAllocated, words: [number; _] }
    }

    #[rstest]
    #[case(0, 2)]
    #[case(1, 2)]
    #[case(3, 4)]
    #[case(4096, 4096)]
    fn records_are_taken_out_in_order_and_dropped_ones_are_counted(#[case] asked: usize, #[case] capacity: usize) {
        let sink = MemorySink::with_capacity(asked).unwrap();
        assert_eq!(sink.capacity(), capacity);
        for lap in 0..3 {
            (0..capacity as u64 + 5).for_each(|number| sink.record(&numbered(number)));
            let seen: Vec<u64> = sink.drain().map(|record| record.timestamp).collect();
            assert_eq!(seen, (0..capacity as u64).collect::<Vec<_>>(), "lap {lap}");
            assert_eq!(sink.dropped(), (lap + 1) * 5);
            assert_eq!(sink.stored(), (lap + 1) * capacity as u64);
        }
    }

    #[test]
    fn a_ring_that_is_too_large_is_an_error() {
        assert!(MemorySink::with_capacity(usize::MAX).is_err());
        assert!(MemorySink::with_capacity(1 << 56).is_err());
    }

    #[test]
    fn every_fired_record_is_seen_whole_or_counted_as_dropped() {
        const WRITERS: u64 = 4;
        const EACH: u64 = 50_000;
        let sink = MemorySink::with_capacity(256).unwrap();
        let done = crate::sync::AtomicU64::new(0);
        let seen: Vec<Record> = std::thread::scope(|scope| {
            for writer in 0..WRITERS {
                let (sink, done) = (&sink, &done);
                scope.spawn(move || {
                    (0..EACH).for_each(|number| sink.record(&numbered(writer * EACH + number)));
                    // Release: pairs with the acquire below, so that the last drain sees everything.
                    done.fetch_add(1, Ordering::Release);
                });
            }
            let readers: Vec<_> = (0..2)
                .map(|_| {
                    scope.spawn(|| {
                        let mut seen = Vec::new();
                        // Acquire: pairs with the writers' release.
                        while done.load(Ordering::Acquire) < WRITERS {
                            seen.extend(sink.drain());
                            std::thread::yield_now();
                        }
                        seen.extend(sink.drain());
                        seen
                    })
                })
                .collect();
            readers.into_iter().flat_map(|reader| reader.join().unwrap()).collect()
        });
        assert_eq!(seen.len() as u64, sink.stored());
        assert_eq!(seen.len() as u64 + sink.dropped(), WRITERS * EACH);
        assert!(seen.iter().all(|record| record.words == [record.timestamp; _]), "a torn record");
        let mut numbers: Vec<u64> = seen.iter().map(|record| record.timestamp).collect();
        numbers.sort_unstable();
        numbers.dedup();
        assert_eq!(numbers.len(), seen.len(), "a record came out twice");
    }
}
