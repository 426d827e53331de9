//! An index of the entries of weak maps that wait for their keys to be marked.
//!
//! The entries of a bucket are linked through a word of their own. So the index needs memory only for its buckets, however many entries wait.
//! That memory is reserved before the first weak map is made; the kernel provides pages of it as the index grows, and they stay for the next
//! collection. Nothing here allocates (`.stop.no-malloc`).

use std::io;
use std::sync::OnceLock;

use crate::heap::ephemerons::{Ephemeron, hash};
use crate::os::memory::Reservation;
use crate::sync::{AtomicUsize, Ordering::Relaxed};

/// The largest number of buckets: 32 MiB of address space. With more entries the lists get longer.
const MOST_BUCKETS: usize = 1 << 22;
/// The number of buckets at first.
const FIRST_BUCKETS: usize = 1 << 8;
/// The number of entries for each bucket from which on there are more buckets.
const FULL: usize = 2;

/// The memory of a world's index. There is none as long as there was no weak map.
pub(crate) struct IndexMemory(OnceLock<Reservation>);

impl IndexMemory {
    pub(crate) const fn new() -> Self {
        Self(OnceLock::new())
    }

    /// Reserves the memory, unless that was done before. Called before a weak map gets its table.
    pub(crate) fn reserve(&self) -> io::Result<()> {
        if self.0.get().is_none() {
            let memory = Reservation::new(MOST_BUCKETS * size_of::<usize>(), 4096)?;
            memory.commit(0, memory.len())?;
            // If another thread was first, this memory is unmapped again.
            let _ = self.0.set(memory);
        }
        Ok(())
    }

    /// Returns an empty index; `None` if there was never a weak map. Only the collecting thread uses it.
    pub(super) fn index(&self) -> Option<KeyIndex<'_>> {
        let memory = self.0.get()?;
        // SAFETY: committed, aligned to a page, and mapped as long as `self`; atomic words may be anything.
        let buckets = unsafe { std::slice::from_raw_parts(memory.base().cast::<AtomicUsize>(), MOST_BUCKETS) };
        buckets[..FIRST_BUCKETS].iter().for_each(|bucket| bucket.store(0, Relaxed));
        Some(KeyIndex { buckets, count: FIRST_BUCKETS, entries: 0 })
    }
}

/// Entries, by their keys.
pub(super) struct KeyIndex<'a> {
    /// The address of the first entry of each bucket, or 0.
    buckets: &'a [AtomicUsize],
    /// The number of buckets that are used, a power of two.
    count: usize,
    entries: usize,
}

impl KeyIndex<'_> {
    /// Adds an entry.
    pub(super) fn add(&mut self, entry: &Ephemeron, key: usize) {
        if self.entries >= self.count * FULL && self.count < MOST_BUCKETS {
            self.grow();
        }
        self.entries += 1;
        self.link(entry, key);
    }

    fn link(&self, entry: &Ephemeron, key: usize) {
        let bucket = &self.buckets[hash(key) & (self.count - 1)];
        entry.next.store(bucket.load(Relaxed), Relaxed);
        bucket.store(std::ptr::from_ref(entry) as usize, Relaxed);
    }

    /// Doubles the number of buckets.
    fn grow(&mut self) {
        let before = self.count;
        self.count *= 2;
        self.buckets[before..self.count].iter().for_each(|bucket| bucket.store(0, Relaxed));
        for bucket in &self.buckets[..before] {
            let mut next = bucket.load(Relaxed);
            bucket.store(0, Relaxed);
            while let Some(entry) = entry_at(next) {
                next = entry.next.load(Relaxed);
                // An entry whose key is gone, because threads run in a lost stop, waits for nothing.
                if let Some(key) = entry.key() {
                    self.link(entry, key);
                }
            }
        }
    }

    /// Takes out the entries with this key, and calls `visit` with each.
    pub(super) fn take(&mut self, key: usize, visit: impl FnMut(&Ephemeron)) {
        let bucket = &self.buckets[hash(key) & (self.count - 1)];
        if bucket.load(Relaxed) != 0 {
            self.entries -= take_from(bucket, |other| other == key, visit);
        }
    }

    /// Takes out the entries whose keys `is_marked` accepts, and calls `visit` with each.
    pub(super) fn take_all(&mut self, is_marked: impl Fn(usize) -> bool, mut visit: impl FnMut(&Ephemeron)) {
        for bucket in &self.buckets[..self.count] {
            self.entries -= take_from(bucket, &is_marked, &mut visit);
        }
    }
}

/// Takes entries out of a bucket. Returns their number.
fn take_from(bucket: &AtomicUsize, take: impl Fn(usize) -> bool, mut visit: impl FnMut(&Ephemeron)) -> usize {
    let (mut link, mut taken) = (bucket, 0);
    while let Some(entry) = entry_at(link.load(Relaxed)) {
        if entry.key().is_some_and(&take) {
            link.store(entry.next.load(Relaxed), Relaxed);
            visit(entry);
            taken += 1;
        } else {
            link = &entry.next;
        }
    }
    taken
}

/// The entry at this address, which is in the index; `None` at the end of a list.
fn entry_at(address: usize) -> Option<&'static Ephemeron> {
    // SAFETY: 0, or a place in the table of a marked map, which is not freed while the world is stopped.
    unsafe { (address as *const Ephemeron).as_ref() }
}
