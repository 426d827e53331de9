//! The times at which objects were used: the side table of biographies.
//!
//! With the feature `biography`, each read through a [`Gc`](super::pointer::Gc) stores the time in a word of the side table;
//! without it, a read has no such code. Time is counted in eras, the intervals between two censuses. A word is two halves, so
//! that recording a use is one store:
//!
//! ```text
//!   heap    |        object          |  object  | …        a granule is 16 bytes; no two objects begin in one
//!   words   | born, used | 0, 0 | …  | born, used | …      eras from 1; used 0: never; born 0: no census knows it yet
//! ```
//!
//! A `Gc` is an address and does not name its world, so the tracking heap is found by the address: at most 16 heaps track at a
//! time. While none does, a read costs one load. A concurrent reader sees a complete [`Uses`] or none: they are never freed.

use std::io;

use super::Heap;
use crate::os::memory::{Reservation, page_size};
#[cfg(feature = "biography")]
use crate::sync::AtomicUsize;
#[cfg(feature = "biography")]
use crate::sync::{AtomicPtr, Ordering};
use crate::sync::{AtomicU16, Ordering::Relaxed};

/// Whether this build tracks uses.
pub(crate) const TRACKED: bool = cfg!(feature = "biography");
/// The last era that ends with a census. The era after that one is the last that a word can hold.
pub(crate) const LAST_ERA: u16 = if cfg!(test) { 12 } else { u16::MAX - 1 };

const GRANULE_SHIFT: u32 = 4;

/// The record of one object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Life {
    /// The era in which it was first seen; 0 if no collection has seen it yet.
    pub(crate) born: u16,
    /// The era in which it was last used; 0 if never.
    pub(crate) used: u16,
}

/// The table of the uses of one heap's objects.
pub(crate) struct Uses {
    base: usize,
    bytes: usize,
    words: *const [AtomicU16; 2],
    /// The present era; 0 while uses are not recorded.
    era: AtomicU16,
}

// SAFETY: the pointer is to atomics, in memory that is mapped as long as any thread may read objects of the heap.
unsafe impl Sync for Uses {}

impl Uses {
    #[inline(always)]
    fn word(&self, payload: usize) -> &[AtomicU16; 2] {
        debug_assert!(payload.wrapping_sub(self.base) < self.bytes);
        // SAFETY: a word for each granule of the heap.
        unsafe { &*self.words.add((payload - self.base) >> GRANULE_SHIFT) }
    }

    /// The record of the object at this payload. Called in the stopped world.
    pub(crate) fn life(&self, payload: usize) -> Life {
        let [born, used] = self.word(payload);
        Life { born: born.load(Relaxed), used: used.load(Relaxed) }
    }

    /// Replaces the record of an object. Called in the stopped world.
    pub(crate) fn set_life(&self, payload: usize, life: Life) {
        let [born, used] = self.word(payload);
        born.store(life.born, Relaxed);
        used.store(life.used, Relaxed);
    }

    /// Begins a new era. With 0, uses are not recorded any more.
    pub(crate) fn set_era(&self, era: u16) {
        self.era.store(era, Relaxed);
    }

    /// Records a use of the object at this payload, if it belongs to this heap.
    #[cfg(feature = "biography")]
    #[inline(always)]
    fn note(&self, payload: usize) {
        if payload.wrapping_sub(self.base) < self.bytes {
            let era = self.era.load(Relaxed);
            if era != 0 {
                self.word(payload)[1].store(era, Relaxed);
            }
        }
    }
}

/// The tracking of the uses of a heap's objects. It exists as long as the heap, and ends when dropped.
pub(crate) struct Tracking {
    uses: &'static Uses,
    words: Reservation,
}

impl Tracking {
    /// Starts recording the reads of this heap's objects, if the build supports it.
    ///
    /// # Errors
    /// The system provides no memory, or too many heaps track.
    pub(crate) fn begin(heap: &Heap) -> io::Result<Tracking> {
        let (base, bytes) = (heap.blocks.base(), heap.blocks.reserved_bytes());
        let words = Reservation::new((bytes >> GRANULE_SHIFT) * size_of::<[AtomicU16; 2]>(), page_size())?;
        words.commit(0, words.len())?;
        // The value is small, and never freed: a thread may be checking whether an address is in this heap.
        let uses = Box::leak(Box::new(Uses { base, bytes, words: words.base().cast(), era: AtomicU16::new(0) }));
        #[cfg(feature = "biography")]
        enlist(uses)?;
        Ok(Tracking { uses, words })
    }

    /// The table.
    pub(crate) fn uses(&self) -> &'static Uses {
        self.uses
    }

    /// Clears all records. Called while the era is 0; a thread in the middle of recording a use may still write an earlier era.
    pub(crate) fn forget(&self) {
        // Released pages read as zeros when they are touched.
        // SAFETY: only atomic halves of words are there, and 0 is one of their values.
        if unsafe { self.words.release(0, self.words.len()) }.is_err() {
            let halves = self.words.len() / size_of::<AtomicU16>();
            // SAFETY: the whole table is committed, and lives as long as `self`; other threads access the halves atomically too.
            let halves = unsafe { std::slice::from_raw_parts(self.words.base().cast::<AtomicU16>(), halves) };
            halves.iter().for_each(|half| half.store(0, Relaxed));
        }
    }
}

impl Drop for Tracking {
    fn drop(&mut self) {
        self.uses.set_era(0);
        #[cfg(feature = "biography")]
        delist(self.uses);
    }
}

/// The maximum number of heaps that track at a time.
#[cfg(feature = "biography")]
const MOST_HEAPS: usize = 16;
#[cfg(feature = "biography")]
static HEAPS: [AtomicPtr<Uses>; MOST_HEAPS] = [const { AtomicPtr::new(std::ptr::null_mut()) }; MOST_HEAPS];
/// The number of table entries that were ever used: all entries from this index on were never used.
#[cfg(feature = "biography")]
static PLACES: AtomicUsize = AtomicUsize::new(0);

#[cfg(feature = "biography")]
fn enlist(uses: &'static Uses) -> io::Result<()> {
    let uses = std::ptr::from_ref(uses).cast_mut();
    for (index, place) in HEAPS.iter().enumerate() {
        // Release: pairs with the Acquire in `note`: the table is complete.
        if place.compare_exchange(std::ptr::null_mut(), uses, Ordering::Release, Relaxed).is_ok() {
            PLACES.fetch_max(index + 1, Relaxed);
            return Ok(());
        }
    }
    Err(io::Error::other("no more than 16 worlds of a process can have biographies at a time"))
}

#[cfg(feature = "biography")]
fn delist(uses: &'static Uses) {
    let uses = std::ptr::from_ref(uses).cast_mut();
    for place in &HEAPS {
        let _ = place.compare_exchange(uses, std::ptr::null_mut(), Relaxed, Relaxed);
    }
}

/// Records a use of the object at this address.
#[cfg(feature = "biography")]
#[inline(always)]
pub(crate) fn note(payload: usize) {
    for place in HEAPS.iter().take(PLACES.load(Relaxed)) {
        // SAFETY: null, or a table that is never freed. Acquire: pairs with the Release in `enlist`.
        if let Some(uses) = unsafe { place.load(Ordering::Acquire).as_ref() } {
            uses.note(payload);
        }
    }
}
