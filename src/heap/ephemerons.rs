//! The table of a weak map: pairs of a key and a value, of which the value lives only as long as the key.
//!
//! ```text
//!   payload  | elements | link | 0 | live, used |        the first element describes the table
//!            |   key    | value | next |                 an entry, or an empty place
//!            |   key    | value | next |  …
//! ```
//!
//! To everything but marking, the table is an array of which the middle word of each element is a reference. Marking does not scan it: it
//! collects the tables that it reaches, and later decides about each entry (`collector/ephemerons.rs`).
//!
//! # Who writes it
//! The table belongs to one map, whose functions that change it borrow it exclusively. In a stopped world, the collector clears the key and the
//! value of an entry whose key has died. So a thread may find after any instruction that an entry is gone, unless it has the key: what it
//! has in a register or on its stack is alive. A value is written before its key, and the number of live entries is changed by single
//! instructions.

use std::ptr;
use std::slice;

use super::array::ARRAY_HEAD_BYTES;
use super::trace::{Layout, Shape, Trace};
use crate::sync::{AtomicU32, AtomicUsize, Ordering, Ordering::Relaxed, compiler_fence};

/// The key of a place that never had an entry.
const EMPTY: usize = 0;
/// The key of a place whose entry was removed, by its map or by the collector. Not the address of an object: those are even.
const REMOVED: usize = 1;

/// The words of an entry that keep something alive, and are references to everything but marking.
const VALUE_WORD: u64 = 0b010;

/// The first element of a table, with the number of elements before it.
#[repr(C)]
pub(crate) struct Ephemerons {
    /// The number of elements, this one included.
    elements: usize,
    /// The collector's list of tables.
    link: AtomicUsize,
    /// 0: where an entry has its value.
    _no_value: usize,
    /// The number of entries.
    live: AtomicU32,
    /// The number of places that have an entry or had one.
    used: AtomicU32,
}

/// An entry, or a place for one.
#[repr(C)]
pub(crate) struct Ephemeron {
    key: AtomicUsize,
    /// The address of the object with the value; 0 without an entry.
    value: AtomicUsize,
    /// The collector's list of entries that wait for their keys. Any word outside a collection.
    pub(crate) next: AtomicUsize,
}

/// The bytes of an element.
pub(crate) const ELEMENT_BYTES: usize = size_of::<Ephemeron>();
const _: () = assert!(size_of::<Ephemerons>() == ARRAY_HEAD_BYTES + ELEMENT_BYTES);

/// The distance from a table's payload to its link.
const LINK: usize = std::mem::offset_of!(Ephemerons, link);

// SAFETY: the shape of an array of elements whose middle words are references, and whose first words the collector clears. No reference is
// in any other word.
unsafe impl Trace for Ephemerons {
    const NAME: &'static str = "WeakMap";
    const LAYOUT: Layout = Layout::LEAF;
    const MUTABLE: bool = true;
    const IS_ARRAY: bool = true;
    const SHAPE: Shape =
        Shape::Array { stride: ELEMENT_BYTES as u32, element: [VALUE_WORD, 0, 0, 0], ephemerons: true };
}

impl Ephemerons {
    /// Returns the address of the link word of the table at this payload address.
    pub(crate) const fn link_of(payload: usize) -> usize {
        payload + LINK
    }

    /// Returns the table with this link word.
    ///
    /// # Safety
    /// There is a table, whose memory stays for `'a`.
    pub(crate) unsafe fn of_link<'a>(link: usize) -> &'a Self {
        // SAFETY: the caller's promise.
        unsafe { &*((link - LINK) as *const Self) }
    }

    /// Returns all places.
    pub(crate) fn places(&self) -> &[Ephemeron] {
        let first = (ptr::from_ref(self) as usize + size_of::<Self>()) as *const Ephemeron;
        // A thread that is making a large table may be stopped before it has written the number: 0.
        let places = self.elements.saturating_sub(1);
        // SAFETY: the object was allocated with this number of elements, all zero at first, and each word is an atomic.
        unsafe { slice::from_raw_parts(first, places) }
    }

    /// The number of entries, without those that the collector has removed.
    pub(crate) fn live(&self) -> usize {
        self.live.load(Relaxed) as usize
    }

    /// The number of places that have an entry or had one.
    pub(crate) fn used(&self) -> usize {
        self.used.load(Relaxed) as usize
    }

    /// Returns the place of this key. There is an empty place, so the search ends.
    #[inline]
    pub(crate) fn find(&self, key: usize) -> Option<&Ephemeron> {
        self.probe(key)
            .take_while(|place| place.key.load(Relaxed) != EMPTY)
            .find(|place| place.key.load(Relaxed) == key)
    }

    /// Adds an entry whose key is not in the table. Key and value are alive until this returns.
    pub(crate) fn add(&self, key: usize, value: usize) {
        let is_free = |place: &&Ephemeron| place.key.load(Relaxed) <= REMOVED;
        let place = self.probe(key).find(is_free).expect("a table of a weak map is never full");
        let was_empty = place.key.load(Relaxed) == EMPTY;
        place.value.store(value, Relaxed);
        place.key.store(key, Relaxed);
        self.live.fetch_add(1, Relaxed);
        self.used.fetch_add(u32::from(was_empty), Relaxed);
    }

    /// Removes the entry of a place that has one. Returns false if the collector has removed it meanwhile. For the owner of the table, and for
    /// the collector in a stopped world.
    pub(crate) fn remove(&self, place: &Ephemeron) -> bool {
        // The value goes first: marking does not see the value of a place without a key, so none may be there.
        place.value.store(0, Relaxed);
        // The handler of a stop sees the two stores in this order.
        compiler_fence(Ordering::SeqCst);
        // One instruction: the collector may remove the entry too, at any moment before or after.
        let was_there = place.key.swap(REMOVED, Relaxed) > REMOVED;
        if was_there {
            self.live.fetch_sub(1, Relaxed);
        }
        was_there
    }

    /// Removes all entries, and what is left of former ones.
    pub(crate) fn clear(&self) {
        for place in self.places() {
            if place.key().is_some() {
                self.remove(place);
            }
            place.key.store(EMPTY, Relaxed);
        }
        self.used.store(0, Relaxed);
    }

    /// Visits all places, beginning with the first one where this key may be.
    fn probe(&self, key: usize) -> impl Iterator<Item = &Ephemeron> {
        let places = self.places();
        // The number of places is a power of two.
        let first = hash(key) & (places.len() - 1);
        places[first..].iter().chain(&places[..first])
    }
}

impl Ephemeron {
    /// Returns the address of the key, if there is an entry.
    #[inline]
    pub(crate) fn key(&self) -> Option<usize> {
        let key = self.key.load(Relaxed);
        (key > REMOVED).then_some(key)
    }

    /// Returns the address of the object with the value; 0 without an entry.
    #[inline]
    pub(crate) fn value(&self) -> usize {
        self.value.load(Relaxed)
    }

    /// Returns the address of the word with the value.
    pub(crate) fn value_slot(&self) -> usize {
        ptr::from_ref(&self.value) as usize
    }
}

/// Returns 32 bits that depend on all bits of the address of an object.
#[inline]
pub(crate) fn hash(address: usize) -> usize {
    const GOLDEN: usize = 0x9e37_79b9_7f4a_7c15;
    address.wrapping_mul(GOLDEN) >> 32
}
