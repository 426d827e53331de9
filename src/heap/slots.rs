//! Tables of words outside the heap that the stopped world can read without a lock.
//!
//! Root handles and finalizers need memory that never moves, may be read while any thread is stopped at any point of changing
//! it, and does not come from malloc. A [`SlotTable`] is such an array of words. Slots are taken and returned under its own
//! lock, but reading all of them needs no lock, because each slot is one word that shows by itself whether it is free.

use std::io;
use std::ops::Range;

use crate::os::memory::Reservation;
use crate::sync::{AtomicUsize, Lock, LockGuard, Ordering};

/// The tag of free slots. They form a list: the odd word of a free slot holds the index of the next free slot, shifted by one.
const FREE_TAG: usize = 1;
/// The end of the list of free slots.
const END: usize = usize::MAX >> 1;

/// A growing array of words, in mapped memory.
pub(crate) struct SlotTable {
    memory: Reservation,
    capacity: usize,
    /// The number of slots ever used; the others were never touched.
    used: AtomicUsize,
    /// The number of words in the table.
    taken: AtomicUsize,
    first_free: AtomicUsize,
    pub(crate) lock: Lock,
}

impl SlotTable {
    /// Creates a table for at most `capacity` words; the kernel provides memory as it grows.
    pub(crate) fn new(capacity: usize) -> io::Result<Self> {
        let memory = Reservation::new(capacity * size_of::<AtomicUsize>(), 4096)?;
        memory.commit(0, memory.len())?;
        Ok(Self {
            memory,
            capacity,
            used: AtomicUsize::new(0),
            taken: AtomicUsize::new(0),
            first_free: AtomicUsize::new(END),
            lock: Lock::new(),
        })
    }

    /// Returns the maximum number of words.
    pub(crate) fn capacity(&self) -> usize {
        self.capacity
    }

    fn slot(&self, index: usize) -> &AtomicUsize {
        assert!(index < self.capacity, "slot index beyond the table");
        // SAFETY: in bounds of the committed mapping, which lives as long as `self`; zero is a valid word.
        unsafe { &*self.memory.base().cast::<AtomicUsize>().add(index) }
    }

    /// Takes a slot and stores `word` in it, an even number. `None` when the table is full. `lock` takes this table's lock in
    /// the way that the caller needs.
    ///
    /// # Panics
    /// If `lock` took another lock.
    pub(crate) fn take<'a>(&'a self, word: usize, lock: impl FnOnce() -> LockGuard<'a>) -> Option<usize> {
        debug_assert_eq!(word & FREE_TAG, 0);
        let held = lock();
        assert!(held.is_of(&self.lock), "the guard of another lock");
        // Relaxed: the lock orders these against other takers, and the stop against the collector.
        let free = self.first_free.load(Ordering::Relaxed);
        if free != END {
            let slot = self.slot(free);
            self.first_free.store(slot.load(Ordering::Relaxed) >> 1, Ordering::Relaxed);
            slot.store(word, Ordering::Relaxed);
            self.count(1);
            return Some(free);
        }
        let index = self.used.load(Ordering::Relaxed);
        if index == self.capacity {
            return None;
        }
        self.slot(index).store(word, Ordering::Relaxed);
        self.used.store(index + 1, Ordering::Relaxed);
        self.count(1);
        Some(index)
    }

    /// Adds to the number of words. The caller holds the lock.
    fn count(&self, change: isize) {
        self.taken.store(self.taken.load(Ordering::Relaxed).wrapping_add_signed(change), Ordering::Relaxed);
    }

    /// Frees a slot. `lock` as in [`take`](Self::take).
    pub(crate) fn give_back<'a>(&'a self, index: usize, lock: impl FnOnce() -> LockGuard<'a>) {
        let held = lock();
        assert!(held.is_of(&self.lock), "the guard of another lock");
        self.slot(index).store(self.first_free.load(Ordering::Relaxed) << 1 | FREE_TAG, Ordering::Relaxed);
        self.first_free.store(index, Ordering::Relaxed);
        self.count(-1);
    }

    /// The number of words in the table. It is exact for a caller that holds the lock.
    pub(crate) fn len(&self) -> usize {
        self.taken.load(Ordering::Relaxed)
    }

    /// The number of slots that were ever used: all words are in these first slots. It is never more than the table has, even if memory is
    /// damaged.
    pub(crate) fn used(&self) -> usize {
        self.used.load(Ordering::Relaxed).min(self.capacity).min(self.memory.len() / size_of::<AtomicUsize>())
    }

    /// The word in a slot that is taken.
    pub(crate) fn get(&self, index: usize) -> usize {
        self.slot(index).load(Ordering::Relaxed)
    }

    /// The address of a slot, by which events identify it.
    pub(crate) fn address(&self, index: usize) -> usize {
        std::ptr::from_ref(self.slot(index)) as usize
    }

    /// Returns the address of the first slot, and that of the number of slots ever used.
    pub(crate) fn addresses(&self) -> (usize, usize) {
        (self.memory.base() as usize, std::ptr::from_ref(&self.used) as usize)
    }

    /// Visits every word in use, with the address of its slot. Takes no lock: for the stopped world, whose collector holds it,
    /// and for a debugger's query at any moment. It never reads beyond the table, even if memory is damaged.
    pub(crate) fn for_each(&self, visit: impl FnMut(usize, usize)) {
        self.for_each_of(0..usize::MAX, visit);
    }

    /// Does the same with these slots.
    pub(crate) fn for_each_of(&self, slots: Range<usize>, mut visit: impl FnMut(usize, usize)) {
        for index in slots.start..slots.end.min(self.used()) {
            let word = self.slot(index).load(Ordering::Relaxed);
            if word & FREE_TAG == 0 && word != 0 {
                visit(self.address(index), word);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// `.debug.inspect`
    #[test]
    fn a_table_with_a_damaged_count_ends_with_its_memory() {
        let table = SlotTable::new(256).unwrap();
        table.take(6, || table.lock.lock()).unwrap();
        table.used.store(usize::MAX / 2, Ordering::Relaxed);
        let mut seen = Vec::new();
        table.for_each(|_, word| seen.push(word));
        assert_eq!(seen, [6]);
    }

    proptest! {
        #[test]
        fn a_table_holds_exactly_what_was_put_in_and_not_taken_out(
            steps in proptest::collection::vec((any::<bool>(), 1_usize..1000), 1..300),
        ) {
            let table = SlotTable::new(256).unwrap();
            let mut held: Vec<(usize, usize)> = Vec::new();
            for (insert, number) in steps {
                if insert {
                    match table.take(number * 2, || table.lock.lock()) {
                        Some(index) => held.push((index, number * 2)),
                        None => prop_assert_eq!(held.len(), 256),
                    }
                } else if !held.is_empty() {
                    let (index, word) = held.swap_remove(number % held.len());
                    prop_assert_eq!(table.get(index), word);
                    table.give_back(index, || table.lock.lock());
                }
                let mut seen = Vec::new();
                table.for_each(|_, word| seen.push(word));
                let mut expected: Vec<usize> = held.iter().map(|&(_, word)| word).collect();
                seen.sort_unstable();
                expected.sort_unstable();
                prop_assert_eq!(seen, expected);
                prop_assert_eq!(table.len(), held.len());
            }
        }
    }
}
