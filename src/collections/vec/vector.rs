//! The vector, and what does not remove a range of its elements.

use std::borrow::Borrow;
use std::cmp;
use std::fmt;
use std::mem;
use std::ops::{Deref, Index, IndexMut, RangeBounds};
use std::slice::{self, GetDisjointMutError, SliceIndex};

use super::iter::{IntoIter, IterMut};
use crate::collections::buffer::{Storage, checked_range};
use crate::{Gc, Mutator, OutOfMemory, Trace};

/// A growing array in the collected heap, with the interface of `Vec`. See [`collections`](crate::collections).
///
/// It dereferences to a slice, for reading: `len`, `iter`, `first`, `contains`, `binary_search`, `chunks` and all other functions of slices. There
/// is no `&mut [T]`: std's stable sort moves elements through memory of malloc, where the collector would not see them. The functions for
/// which std needs a mutable slice are methods here. An element that is an array with references is sorted by `sort_unstable`: `vec[0].sort()` would
/// be such a stable sort.
///
/// ```
/// use stopworld::{GcVec, World};
///
/// let world = World::builder().build()?;
/// // SAFETY: this thread keeps every `Gc` and every collection in local variables.
/// let mutator = unsafe { world.attach("main") }?;
/// let mut names = GcVec::new();
/// for name in ["Boehm", "Demers", "Weiser"] {
///     names.push(&mutator, mutator.alloc_str(name)?)?;
/// }
/// names.sort_by(&mutator, |a, b| b.cmp(a))?;
/// assert_eq!(names.iter().map(|name| name.len()).collect::<Vec<_>>(), [6, 6, 5]);
/// assert_eq!(names.pop().as_deref(), Some("Boehm"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Trace)]
pub struct GcVec<T: Trace> {
    pub(super) storage: Storage<T>,
    pub(super) len: usize,
}

impl<T: Trace> GcVec<T> {
    /// Creates an empty vector, without storage. O(1).
    pub const fn new() -> Self {
        Self { storage: Storage::EMPTY, len: 0 }
    }

    /// Creates an empty vector with room for `capacity` elements, with one allocation.
    ///
    /// # Errors
    /// There is no room in the heap, here and in all functions that take a mutator. The vector is unchanged.
    pub fn with_capacity(mutator: &Mutator, capacity: usize) -> Result<Self, OutOfMemory> {
        Ok(Self { storage: Storage::new(mutator, capacity)?, len: 0 })
    }

    /// Creates a vector of the items of an iterator. The iterator may allocate. O(n), with one allocation if the lower bound of its
    /// [`size_hint`](Iterator::size_hint) is exact, and O(log n) allocations otherwise.
    ///
    /// # Errors
    /// As [`with_capacity`](Self::with_capacity).
    pub fn from_iter(mutator: &Mutator, items: impl IntoIterator<Item = T>) -> Result<Self, OutOfMemory> {
        let mut vec = Self::new();
        vec.extend(mutator, items)?;
        Ok(vec)
    }

    /// # Safety
    /// The first `len` places have values, and the others have none.
    pub(in crate::collections) unsafe fn from_parts(storage: Storage<T>, len: usize) -> Self {
        Self { storage, len }
    }

    /// Returns the storage, whose first places have values, and their number.
    pub(in crate::collections) fn into_parts(self) -> (Storage<T>, usize) {
        (self.storage, self.len)
    }

    /// Copies the vector: allocates an array of the exact size, and clones each element. O(n).
    ///
    /// # Errors
    /// As [`with_capacity`](Self::with_capacity).
    pub fn try_clone(&self, mutator: &Mutator) -> Result<Self, OutOfMemory>
    where
        T: Clone,
    {
        let mut copy = Self::with_capacity(mutator, self.len)?;
        copy.extend(mutator, self.iter().cloned())?;
        Ok(copy)
    }

    /// Returns the number of elements for which there is room. O(1).
    pub fn capacity(&self) -> usize {
        self.storage.capacity()
    }

    /// Returns the elements as a slice. O(1).
    #[inline(always)]
    pub fn as_slice(&self) -> &[T] {
        // SAFETY: the first `len` places have values. The result borrows the owner, so no value changes meanwhile.
        unsafe { slice::from_raw_parts(self.storage.places(), self.len) }
    }

    #[inline(always)]
    pub(in crate::collections) fn as_mut_slice(&mut self) -> &mut [T] {
        // SAFETY: the first `len` places have values, and this is their only owner, which is borrowed.
        unsafe { slice::from_raw_parts_mut(self.storage.places(), self.len) }
    }

    /// Makes room for `additional` more elements, and for more than that if there was too little, so that growing one by one is cheap.
    /// Moves all elements to a new array if there is too little room: O(n), and otherwise O(1).
    ///
    /// # Errors
    /// As [`with_capacity`](Self::with_capacity).
    pub fn reserve(&mut self, mutator: &Mutator, additional: usize) -> Result<(), OutOfMemory> {
        let wanted = self.len.saturating_add(additional);
        if wanted <= self.capacity() {
            return Ok(());
        }
        self.set_capacity(mutator, self.storage.grown(wanted))
    }

    /// Releases the room that is not used, by moving all elements to a new array of the exact size: O(n).
    ///
    /// # Errors
    /// As [`with_capacity`](Self::with_capacity).
    pub fn shrink_to_fit(&mut self, mutator: &Mutator) -> Result<(), OutOfMemory> {
        self.shrink_to(mutator, 0)
    }

    /// As [`shrink_to_fit`](Self::shrink_to_fit), but leaves room for at least `capacity` elements. Does nothing if the capacity is smaller.
    ///
    /// # Errors
    /// As [`with_capacity`](Self::with_capacity).
    pub fn shrink_to(&mut self, mutator: &Mutator, capacity: usize) -> Result<(), OutOfMemory> {
        let capacity = capacity.max(self.len);
        if self.capacity() <= capacity { Ok(()) } else { self.set_capacity(mutator, capacity) }
    }

    fn set_capacity(&mut self, mutator: &Mutator, capacity: usize) -> Result<(), OutOfMemory> {
        let mut storage = Storage::new(mutator, capacity)?;
        // SAFETY: both have room for `len` values; the old storage is dropped.
        unsafe { self.storage.copy_to(0, &mut storage, 0, self.len) };
        self.storage = storage;
        Ok(())
    }

    /// Appends an element. O(1) on average: moves all elements to a new array of twice the capacity if there is no room.
    ///
    /// # Errors
    /// As [`with_capacity`](Self::with_capacity); `value` is dropped.
    pub fn push(&mut self, mutator: &Mutator, value: T) -> Result<(), OutOfMemory> {
        self.reserve(mutator, 1)?;
        // SAFETY: there is room, and the place after the last element has no value.
        unsafe { self.storage.put(self.len, value) };
        self.len += 1;
        Ok(())
    }

    /// Removes the last element and returns it. O(1).
    pub fn pop(&mut self) -> Option<T> {
        self.len = self.len.checked_sub(1)?;
        // SAFETY: it was the last element.
        Some(unsafe { self.storage.take(self.len) })
    }

    /// Removes the last element and returns it, if there is one and `remove` returns true for it. O(1).
    ///
    /// # Panics
    /// If `remove` does. The element stays.
    pub fn pop_if(&mut self, remove: impl FnOnce(&mut T) -> bool) -> Option<T> {
        if remove(self.last_mut()?) { self.pop() } else { None }
    }

    /// Inserts an element before the one at `index`, or at the end. The elements after it are moved: O(n - index).
    ///
    /// # Errors
    /// As [`push`](Self::push).
    ///
    /// # Panics
    /// If `index` is larger than the length.
    pub fn insert(&mut self, mutator: &Mutator, index: usize, value: T) -> Result<(), OutOfMemory> {
        assert!(index <= self.len, "the index {index} is beyond the length {}", self.len);
        self.reserve(mutator, 1)?;
        // SAFETY: there is room for one more. The value at `index` has been moved away.
        unsafe {
            self.storage.shift(index, index + 1, self.len - index);
            self.storage.put(index, value);
        }
        self.len += 1;
        Ok(())
    }

    /// Removes the element at `index` and returns it. The elements after it are moved: O(n - index).
    ///
    /// # Panics
    /// If `index` is beyond the end.
    pub fn remove(&mut self, index: usize) -> T {
        assert!(index < self.len, "the index {index} is not below the length {}", self.len);
        self.len -= 1;
        // SAFETY: the place has a value, which is on this stack before it is overwritten. The last place has no value afterwards.
        unsafe {
            let value = self.storage.place(index).read();
            self.storage.shift(index + 1, index, self.len - index);
            self.storage.clear(self.len, 1);
            value
        }
    }

    /// Removes the element at `index` and returns it. The last element takes its place. O(1).
    ///
    /// # Panics
    /// If `index` is beyond the end.
    pub fn swap_remove(&mut self, index: usize) -> T {
        assert!(index < self.len, "the index {index} is not below the length {}", self.len);
        self.len -= 1;
        // SAFETY: both places have values; the last one has none afterwards.
        unsafe {
            let value = self.storage.place(index).read();
            if index != self.len {
                self.storage.shift(self.len, index, 1);
            }
            self.storage.clear(self.len, 1);
            value
        }
    }

    /// Removes all elements from `len` on. O(removed elements), as their places are cleared.
    pub fn truncate(&mut self, len: usize) {
        if len < self.len {
            let removed = self.len - len;
            self.len = len;
            // SAFETY: these places had values, which are gone.
            unsafe { self.storage.clear(len, removed) };
        }
    }

    /// Removes all elements, and keeps the storage. O(n).
    pub fn clear(&mut self) {
        self.truncate(0);
    }

    /// Returns a mutable reference to an element. O(1).
    pub fn get_mut(&mut self, index: usize) -> Option<&mut T> {
        self.as_mut_slice().get_mut(index)
    }

    /// Returns a mutable reference to the first element. O(1).
    pub fn first_mut(&mut self) -> Option<&mut T> {
        self.as_mut_slice().first_mut()
    }

    /// Returns a mutable reference to the last element. O(1).
    pub fn last_mut(&mut self) -> Option<&mut T> {
        self.as_mut_slice().last_mut()
    }

    /// Returns mutable references to several elements. O(`N`²).
    ///
    /// # Errors
    /// An index is beyond the end, or occurs twice.
    pub fn get_disjoint_mut<const N: usize>(
        &mut self,
        indices: [usize; N],
    ) -> Result<[&mut T; N], GetDisjointMutError> {
        self.as_mut_slice().get_disjoint_mut(indices)
    }

    /// Iterates over mutable references to the elements. O(1), as is each step.
    pub fn iter_mut(&mut self) -> IterMut<'_, T> {
        IterMut::over(self.as_mut_slice())
    }

    /// Sets all elements to clones of `value`. O(n).
    ///
    /// # Panics
    /// If `clone` does. Then only the elements before are set, here and in all functions that call a function for each element.
    pub fn fill(&mut self, value: T)
    where
        T: Clone,
    {
        self.as_mut_slice().fill(value);
    }

    /// Sets each element to a result of `make`, which may allocate. O(n).
    pub fn fill_with(&mut self, make: impl FnMut() -> T) {
        self.as_mut_slice().fill_with(make);
    }

    /// Exchanges two elements. O(1).
    ///
    /// # Panics
    /// If an index is beyond the end.
    pub fn swap(&mut self, one: usize, other: usize) {
        self.as_mut_slice().swap(one, other);
    }

    /// Reverses the order of the elements. O(n).
    pub fn reverse(&mut self) {
        self.as_mut_slice().reverse();
    }

    /// Rotates the elements so that the one at `middle` becomes the first. O(n).
    ///
    /// # Panics
    /// If `middle` is larger than the length.
    pub fn rotate_left(&mut self, middle: usize) {
        assert!(middle <= self.len, "the index {middle} is beyond the length {}", self.len);
        self.rotate_from(0, middle);
    }

    /// Rotates the elements so that the last `count` of them become the first. O(n).
    ///
    /// # Panics
    /// If `count` is larger than the length.
    pub fn rotate_right(&mut self, count: usize) {
        assert!(count <= self.len, "the count {count} is larger than the length {}", self.len);
        self.rotate_from(0, self.len - count);
    }

    /// Rotates the elements from `at` on so that the one at `middle` becomes the one at `at`.
    pub(in crate::collections) fn rotate_from(&mut self, at: usize, middle: usize) {
        // Three reversals, which only swap elements in place.
        let all = &mut self.as_mut_slice()[at..];
        all[..middle - at].reverse();
        all[middle - at..].reverse();
        all.reverse();
    }

    /// Keeps the elements for which `keep` returns true, in their order. O(n).
    ///
    /// # Panics
    /// If `keep` does. Then all elements are in the vector, in another order.
    pub fn retain(&mut self, mut keep: impl FnMut(&T) -> bool) {
        self.retain_mut(|value| keep(value));
    }

    /// As [`retain`](Self::retain); `keep` may change the elements.
    ///
    /// # Panics
    /// As [`retain`](Self::retain).
    pub fn retain_mut(&mut self, mut keep: impl FnMut(&mut T) -> bool) {
        // The kept elements are swapped to the front. So every place has a value whenever `keep` is called, which may panic.
        let mut kept = 0;
        for index in 0..self.len {
            if keep(&mut self.as_mut_slice()[index]) {
                self.swap(kept, index);
                kept += 1;
            }
        }
        self.truncate(kept);
    }

    /// Removes all but the first of consecutive equal elements. O(n).
    ///
    /// # Panics
    /// As [`dedup_by`](Self::dedup_by).
    pub fn dedup(&mut self)
    where
        T: PartialEq,
    {
        self.dedup_by(|one, kept| one == kept);
    }

    /// Removes all but the first of consecutive elements that have the same key. O(n).
    ///
    /// # Panics
    /// As [`dedup_by`](Self::dedup_by).
    pub fn dedup_by_key<K: PartialEq>(&mut self, mut key: impl FnMut(&mut T) -> K) {
        self.dedup_by(|one, kept| key(one) == key(kept));
    }

    /// Removes each element for which `same` returns true, called with the element and with the one that was kept last. O(n).
    ///
    /// # Panics
    /// If `same` does. Then all elements are in the vector, in another order.
    pub fn dedup_by(&mut self, mut same: impl FnMut(&mut T, &mut T) -> bool) {
        // As in `retain_mut`: every place has a value at each call.
        let mut kept = self.len.min(1);
        for index in 1..self.len {
            let (before, from_index) = self.as_mut_slice().split_at_mut(index);
            if !same(&mut from_index[0], &mut before[kept - 1]) {
                self.swap(kept, index);
                kept += 1;
            }
        }
        self.truncate(kept);
    }

    /// Appends the items of an iterator. The iterator may allocate. O(items), with allocations as [`push`](Self::push).
    ///
    /// # Errors
    /// As [`with_capacity`](Self::with_capacity). The items before the error are appended.
    pub fn extend(&mut self, mutator: &Mutator, items: impl IntoIterator<Item = T>) -> Result<(), OutOfMemory> {
        let items = items.into_iter();
        self.reserve(mutator, items.size_hint().0)?;
        for item in items {
            self.push(mutator, item)?;
        }
        Ok(())
    }

    /// Appends clones of the elements of a slice. O(elements), and at most one allocation.
    ///
    /// # Errors
    /// As [`with_capacity`](Self::with_capacity).
    pub fn extend_from_slice(&mut self, mutator: &Mutator, elements: &[T]) -> Result<(), OutOfMemory>
    where
        T: Clone,
    {
        self.extend(mutator, elements.iter().cloned())
    }

    /// Appends clones of a range of the own elements. O(elements), and at most one allocation.
    ///
    /// # Errors
    /// As [`with_capacity`](Self::with_capacity).
    ///
    /// # Panics
    /// If the range ends beyond the length, or before it begins.
    pub fn extend_from_within(&mut self, mutator: &Mutator, range: impl RangeBounds<usize>) -> Result<(), OutOfMemory>
    where
        T: Clone,
    {
        let range = checked_range(range, self.len);
        self.reserve(mutator, range.len())?;
        range.into_iter().try_for_each(|index| self.push(mutator, self[index].clone()))
    }

    /// Sets the length: appends results of `make`, which may allocate, or removes elements at the end. O(change), and at most one allocation.
    ///
    /// # Errors
    /// As [`with_capacity`](Self::with_capacity).
    pub fn resize_with(&mut self, mutator: &Mutator, len: usize, make: impl FnMut() -> T) -> Result<(), OutOfMemory> {
        self.truncate(len);
        self.extend(mutator, std::iter::repeat_with(make).take(len - self.len))
    }

    /// Sets the length: appends clones of `value`, or removes elements at the end. O(change), and at most one allocation.
    ///
    /// # Errors
    /// As [`with_capacity`](Self::with_capacity).
    pub fn resize(&mut self, mutator: &Mutator, len: usize, value: T) -> Result<(), OutOfMemory>
    where
        T: Clone,
    {
        self.truncate(len);
        self.extend(mutator, std::iter::repeat_n(value, len - self.len))
    }

    /// Moves all elements of `other` to the end of this vector. O(their number), and at most one allocation. `other` keeps its storage.
    ///
    /// # Errors
    /// As [`with_capacity`](Self::with_capacity); both are unchanged.
    pub fn append(&mut self, mutator: &Mutator, other: &mut Self) -> Result<(), OutOfMemory> {
        self.reserve(mutator, other.len)?;
        // SAFETY: there is room. The places of the other vector have no values afterwards.
        unsafe {
            other.storage.copy_to(0, &mut self.storage, self.len, other.len);
            self.len += other.len;
            let moved = mem::take(&mut other.len);
            other.storage.clear(0, moved);
        }
        Ok(())
    }

    /// Moves the elements from `at` on to a new vector. O(n - at), and one allocation.
    ///
    /// # Errors
    /// As [`with_capacity`](Self::with_capacity); this vector is unchanged.
    ///
    /// # Panics
    /// If `at` is larger than the length.
    pub fn split_off(&mut self, mutator: &Mutator, at: usize) -> Result<Self, OutOfMemory> {
        assert!(at <= self.len, "the index {at} is beyond the length {}", self.len);
        let moved = self.len - at;
        let mut other = Self::with_capacity(mutator, moved)?;
        // SAFETY: there is room. The places of this vector have no values afterwards.
        unsafe {
            self.storage.copy_to(at, &mut other.storage, 0, moved);
            other.len = moved;
            self.len = at;
            self.storage.clear(at, moved);
        }
        Ok(other)
    }

    /// Moves the elements to an array of the exact length, which can be shared. O(n), and one allocation.
    ///
    /// # Errors
    /// As [`with_capacity`](Self::with_capacity).
    pub fn into_slice(self, mutator: &Mutator) -> Result<Gc<[T]>, OutOfMemory> {
        let len = self.len;
        let mut items = self.into_iter();
        mutator.alloc_array(len, |_| items.next().expect("an iterator with as many items as the vector had elements"))
    }

    /// Sorts the elements in place, without an allocation. The order of equal ones is not kept. O(n log n).
    ///
    /// # Panics
    /// As [`sort`](Self::sort).
    pub fn sort_unstable(&mut self)
    where
        T: Ord,
    {
        self.sort_unstable_by(T::cmp);
    }

    /// As [`sort_unstable`](Self::sort_unstable), by a key. The function may allocate.
    pub fn sort_unstable_by_key<K: Ord>(&mut self, mut key: impl FnMut(&T) -> K) {
        self.sort_unstable_by(|one, other| key(one).cmp(&key(other)));
    }

    /// As [`sort_unstable`](Self::sort_unstable), by a function, which may allocate.
    pub fn sort_unstable_by(&mut self, compare: impl FnMut(&T, &T) -> cmp::Ordering) {
        // It moves elements only within the slice and on the stack.
        self.as_mut_slice().sort_unstable_by(compare);
    }
}

impl<T: Trace> Deref for GcVec<T> {
    type Target = [T];

    #[inline(always)]
    fn deref(&self) -> &[T] {
        self.as_slice()
    }
}

impl<T: Trace> Default for GcVec<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T: Trace, I: SliceIndex<[T]>> Index<I> for GcVec<T> {
    type Output = I::Output;

    fn index(&self, index: I) -> &I::Output {
        &self.as_slice()[index]
    }
}

impl<T: Trace> IndexMut<usize> for GcVec<T> {
    fn index_mut(&mut self, index: usize) -> &mut T {
        &mut self.as_mut_slice()[index]
    }
}

impl<T: Trace + fmt::Debug> fmt::Debug for GcVec<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_slice().fmt(f)
    }
}

impl<T: Trace> AsRef<[T]> for GcVec<T> {
    fn as_ref(&self) -> &[T] {
        self
    }
}

impl<T: Trace> Borrow<[T]> for GcVec<T> {
    fn borrow(&self) -> &[T] {
        self
    }
}

impl<'a, T: Trace> IntoIterator for &'a GcVec<T> {
    type Item = &'a T;
    type IntoIter = slice::Iter<'a, T>;

    fn into_iter(self) -> slice::Iter<'a, T> {
        self.iter()
    }
}

impl<T: Trace> IntoIterator for GcVec<T> {
    type Item = T;
    type IntoIter = IntoIter<T>;

    fn into_iter(self) -> IntoIter<T> {
        // SAFETY: the first `len` places have values.
        unsafe { IntoIter::of(self.storage, self.len) }
    }
}

impl<'a, T: Trace> IntoIterator for &'a mut GcVec<T> {
    type Item = &'a mut T;
    type IntoIter = IterMut<'a, T>;

    fn into_iter(self) -> IterMut<'a, T> {
        self.iter_mut()
    }
}
