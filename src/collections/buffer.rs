//! The storage of a collection: a collected array, some of whose elements are values and the others zero words.

use std::marker::PhantomData;
use std::mem::{ManuallyDrop, MaybeUninit, size_of};
use std::ops::{Bound, Range, RangeBounds};
use std::ptr;

use crate::heap::array::{ARRAY_HEAD_BYTES, Buffer, check_elements};
use crate::heap::pointer::Gc;
use crate::{Layout, Mutator, OutOfMemory, Trace};

/// The smallest capacity that grown storage gets.
const LEAST: usize = 4;

/// Marks storage as the owner of its values.
struct Elements<T>(PhantomData<T>);

// SAFETY: it has no bytes.
unsafe impl<T: Trace> Trace for Elements<T> {
    const NAME: &'static str = "Elements";
    /// Computed where a type with a collection is declared: there a wrong element is found.
    const LAYOUT: Layout = {
        check_elements::<T>();
        Layout::LEAF
    };
    const ZERO_IS_READABLE: bool = true;
}

/// Storage for a number of values. It does not know which of its places have values; its owner does.
///
/// Every place that has no value is 0, or has the words of a value that was lost with an iterator that was leaked. So the collector can scan
/// all places. The owner is the only one that refers to the storage.
#[derive(Trace)]
pub(super) struct Storage<T: Trace> {
    buffer: Option<Gc<Buffer<T>>>,
    owns: Elements<T>,
}

impl<T: Trace> Storage<T> {
    pub(super) const EMPTY: Self = Self { buffer: None, owns: Elements(PhantomData) };

    /// Allocates storage for `capacity` values, all places without one.
    pub(super) fn new(mutator: &Mutator, capacity: usize) -> Result<Self, OutOfMemory> {
        if capacity == 0 {
            return Ok(Self::EMPTY);
        }
        Ok(Self { buffer: Some(mutator.alloc_buffer(capacity)?), owns: Elements(PhantomData) })
    }

    pub(super) fn capacity(&self) -> usize {
        self.buffer.map_or(0, |buffer| buffer.capacity())
    }

    /// Returns the capacity to grow to for at least `wanted` values: at least twice the present one.
    pub(super) fn grown(&self, wanted: usize) -> usize {
        wanted.max(self.capacity().saturating_mul(2)).max(LEAST)
    }

    /// The first place. Dangling without storage.
    #[inline(always)]
    pub(super) fn places(&self) -> *mut T {
        match self.buffer {
            Some(buffer) => (Gc::addr(buffer) + ARRAY_HEAD_BYTES) as *mut T,
            None => ptr::dangling_mut(),
        }
    }

    /// The place with this index.
    ///
    /// # Safety
    /// `index` is at most the capacity.
    #[inline(always)]
    pub(super) unsafe fn place(&self, index: usize) -> *mut T {
        // SAFETY: the caller's promise.
        unsafe { self.places().add(index) }
    }

    /// Writes a value into a place without one.
    ///
    /// # Safety
    /// `index` is below the capacity, and the place has no value.
    pub(super) unsafe fn put(&mut self, index: usize, value: T) {
        let value = ManuallyDrop::new(value);
        // SAFETY: the caller's promise; this is the owner. The value is on this stack until it is in its place.
        unsafe {
            let place = self.place(index);
            move_words(&raw const *value, place, 1);
            T::clear_unused(place);
        }
        std::hint::black_box(&value);
    }

    /// Takes the value out of a place.
    ///
    /// # Safety
    /// The place has a value.
    pub(super) unsafe fn take(&mut self, index: usize) -> T {
        // SAFETY: the caller's promise; this is the owner. The value is on this stack before the place is cleared.
        unsafe {
            let place = self.place(index);
            let value = place.read();
            self.clear(index, 1);
            value
        }
    }

    /// Moves `count` values to other places, which may overlap. Places that have no value afterwards must be cleared.
    ///
    /// # Safety
    /// Both ranges are within the capacity.
    pub(super) unsafe fn shift(&mut self, from: usize, to: usize, count: usize) {
        // SAFETY: the caller's promise.
        unsafe { move_words(self.place(from), self.place(to), count) };
    }

    /// Copies `count` values to other storage, which owns them from then on: this storage is dropped, or its places are cleared.
    ///
    /// # Safety
    /// Both ranges are within the capacities.
    pub(super) unsafe fn copy_to(&self, from: usize, other: &mut Self, to: usize, count: usize) {
        // SAFETY: the caller's promise.
        unsafe { move_words(self.place(from), other.place(to), count) };
    }

    /// Clears places, whose values are gone.
    ///
    /// # Safety
    /// The range is within the capacity.
    pub(super) unsafe fn clear(&mut self, from: usize, count: usize) {
        if T::LAYOUT.is_leaf() {
            return;
        }
        // SAFETY: the caller's promise; elements with references are whole words.
        unsafe {
            let first = self.place(from).cast::<usize>();
            for word in 0..count * (size_of::<T>() / size_of::<usize>()) {
                first.add(word).write_volatile(0);
            }
        }
    }
}

/// Returns the range of indices that `range` is for `len` elements.
///
/// # Panics
/// If it ends beyond `len`, or before it begins.
pub(super) fn checked_range(range: impl RangeBounds<usize>, len: usize) -> Range<usize> {
    let past = |index: usize| index.checked_add(1).expect("the range ends beyond all indices");
    let start = match range.start_bound() {
        Bound::Included(&start) => start,
        Bound::Excluded(&before) => past(before),
        Bound::Unbounded => 0,
    };
    let end = match range.end_bound() {
        Bound::Included(&last) => past(last),
        Bound::Excluded(&end) => end,
        Bound::Unbounded => len,
    };
    assert!(start <= end, "the range begins at {start}, but ends at {end}");
    assert!(end <= len, "the range ends at {end}, beyond the length {len}");
    start..end
}

/// Moves values word by word, so that the collector finds a whole word in each place whenever it stops this thread. In overlapping ranges
/// each value is written to its new place before its old place is overwritten.
///
/// # Safety
/// As for [`ptr::copy`].
unsafe fn move_words<T: Trace>(from: *const T, to: *mut T, count: usize) {
    if T::LAYOUT.is_leaf() {
        // SAFETY: the caller's promise. The collector does not read these words.
        return unsafe { ptr::copy(from, to, count) };
    }
    let words = count * (size_of::<T>() / size_of::<usize>());
    let (from, to) = (from.cast::<MaybeUninit<usize>>(), to.cast::<MaybeUninit<usize>>());
    // Volatile: the compiler must not make a call of `memmove` of the loop, which may copy bytes, and hold words in registers.
    // SAFETY: the caller's promise; elements with references are whole words.
    let step = |word: usize| unsafe { to.add(word).write_volatile(from.add(word).read_volatile()) };
    if from.addr() < to.addr() {
        (0..words).rev().for_each(step);
    } else {
        (0..words).for_each(step);
    }
}
