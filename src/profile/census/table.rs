//! Tables in mapped memory, for counting in the stopped world.
//!
//! The lock of malloc may be held by a stopped thread, so a census counts in mapped memory. The number of band keys is not known
//! beforehand. A full table maps one of twice the size and moves its entries; that is a system call and takes no lock of libc
//! (`.stop.no-malloc`). If the system gives no more memory, an insertion fails. The caller then counts the object under a band key
//! for the rest, so that the total stays exact.

use std::io;
use std::ptr::NonNull;

use crate::os::memory::{map_anonymous, unmap};

/// The key of an entry. The first word is never 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(C)]
pub(crate) struct Key(pub(crate) u64, pub(crate) u64);

impl Key {
    fn hash(self) -> u64 {
        // Fibonacci hashing of both words: the upper bits are well mixed.
        let mixed = (self.0 ^ self.1.rotate_left(32)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (mixed ^ (mixed >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9)
    }
}

#[derive(Clone, Copy)]
#[repr(C)]
struct Entry {
    key: Key,
    value: [u64; 2],
}

/// A hash table from [`Key`]s to two numbers.
pub(crate) struct Table {
    entries: NonNull<Entry>,
    /// The number of entries; a power of two.
    capacity: usize,
    used: usize,
}

// SAFETY: the mapping belongs to the table alone.
unsafe impl Send for Table {}

/// Initial number of entries: 32 KiB.
const FIRST: usize = 1024;

impl Table {
    /// Creates an empty table.
    pub(crate) fn new() -> io::Result<Table> {
        Table::with_capacity(FIRST)
    }

    fn with_capacity(capacity: usize) -> io::Result<Table> {
        let entries = NonNull::new(map_anonymous(capacity * size_of::<Entry>())?);
        let entries = entries.ok_or(io::ErrorKind::AddrNotAvailable)?.cast();
        Ok(Table { entries, capacity, used: 0 })
    }

    fn entries(&self) -> &[Entry] {
        // SAFETY: the mapping has `capacity` entries; an entry of zeros is free.
        unsafe { std::slice::from_raw_parts(self.entries.as_ptr(), self.capacity) }
    }

    fn entries_mut(&mut self) -> &mut [Entry] {
        // SAFETY: as above, and the table is borrowed exclusively.
        unsafe { std::slice::from_raw_parts_mut(self.entries.as_ptr(), self.capacity) }
    }

    /// Returns the index of this key, or the free index for it.
    fn place(&self, key: Key) -> usize {
        debug_assert_ne!(key.0, 0);
        let mask = self.capacity - 1;
        let mut at = (key.hash() >> 32) as usize & mask;
        loop {
            // At most half of the entries are in use, so this ends.
            let found = self.entries()[at].key;
            if found == key || found.0 == 0 {
                return at;
            }
            at = (at + 1) & mask;
        }
    }

    /// Returns the value of a key, zeros if the key is new. `None` if it is new and there is no memory for it.
    pub(crate) fn entry(&mut self, key: Key) -> Option<&mut [u64; 2]> {
        let mut at = self.place(key);
        if self.entries()[at].key.0 == 0 {
            if self.used * 2 >= self.capacity {
                self.grow()?;
                at = self.place(key);
            }
            self.used += 1;
            self.entries_mut()[at].key = key;
        }
        Some(&mut self.entries_mut()[at].value)
    }

    /// Returns the value of an existing key.
    pub(crate) fn get(&self, key: Key) -> Option<[u64; 2]> {
        let entry = &self.entries()[self.place(key)];
        (entry.key.0 != 0).then_some(entry.value)
    }

    fn grow(&mut self) -> Option<()> {
        let mut larger = Table::with_capacity(self.capacity * 2).ok()?;
        for entry in self.entries().iter().filter(|entry| entry.key.0 != 0) {
            let at = larger.place(entry.key);
            larger.entries_mut()[at] = *entry;
        }
        larger.used = self.used;
        *self = larger;
        Some(())
    }

    /// All entries, in no meaningful order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (Key, [u64; 2])> + '_ {
        self.entries().iter().filter(|entry| entry.key.0 != 0).map(|entry| (entry.key, entry.value))
    }

    /// Removes all entries, and releases the memory by which the table has grown. Maps memory: call it after the restart.
    pub(crate) fn reset(&mut self) {
        if self.capacity > FIRST
            && let Ok(small) = Table::new()
        {
            *self = small;
        } else {
            self.clear();
        }
    }

    /// Removes all entries.
    pub(crate) fn clear(&mut self) {
        if self.used > 0 {
            self.entries_mut().fill(Entry { key: Key(0, 0), value: [0; 2] });
            self.used = 0;
        }
    }
}

impl Drop for Table {
    fn drop(&mut self) {
        // SAFETY: the mapping made by `with_capacity`, with its size; nothing else refers to it.
        unsafe { unmap(self.entries.as_ptr().cast(), self.capacity * size_of::<Entry>()) };
    }
}

/// A list of plain values in mapped memory.
pub(crate) struct List<T: Copy> {
    values: NonNull<T>,
    capacity: usize,
    used: usize,
    /// Maximum number of values.
    most: usize,
}

// SAFETY: the mapping belongs to the list alone.
unsafe impl<T: Copy + Send> Send for List<T> {}

impl<T: Copy> List<T> {
    /// Creates an empty list.
    pub(crate) fn new() -> io::Result<List<T>> {
        List::of_at_most(usize::MAX)
    }

    /// Creates an empty list that grows to at most this many values.
    pub(crate) fn of_at_most(most: usize) -> io::Result<List<T>> {
        let mut list = List::with_capacity(FIRST.min(most.max(1)))?;
        list.most = most;
        Ok(list)
    }

    fn with_capacity(capacity: usize) -> io::Result<List<T>> {
        const { assert!(size_of::<T>() > 0 && align_of::<T>() <= 4096) };
        let values = NonNull::new(map_anonymous(capacity * size_of::<T>())?);
        let values = values.ok_or(io::ErrorKind::AddrNotAvailable)?.cast();
        Ok(List { values, capacity, used: 0, most: usize::MAX })
    }

    /// Adds a value. Returns false if there is no memory for it.
    #[inline]
    pub(crate) fn push(&mut self, value: T) -> bool {
        if self.used == self.capacity && !self.grow() {
            return false;
        }
        // SAFETY: `used < capacity`.
        unsafe { self.values.add(self.used).write(value) };
        self.used += 1;
        true
    }

    #[cold]
    fn grow(&mut self) -> bool {
        let capacity = (self.capacity * 2).min(self.most);
        let Some(mut larger) = List::with_capacity(capacity).ok().filter(|_| capacity > self.capacity) else {
            return false;
        };
        // SAFETY: two mappings, the second with room for what the first holds.
        unsafe { self.values.copy_to_nonoverlapping(larger.values, self.used) };
        (larger.used, larger.most) = (self.used, self.most);
        *self = larger;
        true
    }

    /// Removes the last value and returns it.
    #[inline]
    pub(crate) fn pop(&mut self) -> Option<T> {
        self.used = self.used.checked_sub(1)?;
        // SAFETY: the index is below the old `used`, so the value was written.
        Some(unsafe { self.values.add(self.used).read() })
    }

    /// Returns the values.
    #[inline]
    pub(crate) fn as_slice(&self) -> &[T] {
        // SAFETY: the first `used` values were written.
        unsafe { std::slice::from_raw_parts(self.values.as_ptr(), self.used) }
    }

    /// Returns the number of values.
    pub(crate) fn len(&self) -> usize {
        self.used
    }

    /// Keeps only the first `length` values.
    pub(crate) fn truncate(&mut self, length: usize) {
        self.used = self.used.min(length);
    }

    /// Removes all values, and releases the memory by which the list has grown. Maps memory: call it after the restart.
    pub(crate) fn reset(&mut self) {
        if self.capacity > FIRST
            && let Ok(small) = List::of_at_most(self.most)
        {
            *self = small;
        } else {
            self.truncate(0);
        }
    }
}

impl<T: Copy> Drop for List<T> {
    fn drop(&mut self) {
        // SAFETY: the mapping made by `with_capacity`, with its size; nothing else refers to it.
        unsafe { unmap(self.values.as_ptr().cast(), self.capacity * size_of::<T>()) };
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]
        /// The oracle is a map.
        #[test]
        fn a_table_counts_as_a_map_does(
            steps in proptest::collection::vec((1_u64..5000, 0_u64..3, 1_u64..100), 1..4000),
        ) {
            let mut table = Table::with_capacity(16).unwrap();
            for round in 0..2 {
                let mut oracle: HashMap<Key, [u64; 2]> = HashMap::new();
                for &(low, high, bytes) in &steps {
                    let key = Key(low + round, high << 40);
                    for count in [table.entry(key).unwrap(), oracle.entry(key).or_default()] {
                        count[0] += bytes;
                        count[1] += 1;
                    }
                }
                prop_assert_eq!(table.iter().collect::<HashMap<_, _>>(), oracle.clone());
                prop_assert!(oracle.iter().all(|(key, value)| table.get(*key) == Some(*value)));
                prop_assert_eq!(table.get(Key(9999, 9)), None);
                table.clear();
                prop_assert_eq!(table.iter().count(), 0);
            }
        }
    }

    #[test]
    fn a_list_grows_and_pops_its_last_value() {
        let mut list = List::with_capacity(2).unwrap();
        assert!((0..1000_u32).all(|number| list.push(number)));
        assert_eq!(list.as_slice(), (0..1000).collect::<Vec<_>>());
        assert_eq!((list.pop(), list.len()), (Some(999), 999));
        list.truncate(2);
        assert_eq!((list.pop(), list.pop(), list.pop()), (Some(1), Some(0), None));
        let mut short = List::of_at_most(3).unwrap();
        assert_eq!([1, 2, 3, 4].map(|number| short.push(number)), [true, true, true, false]);
        assert_eq!(short.as_slice(), [1, 2, 3]);
    }
}
