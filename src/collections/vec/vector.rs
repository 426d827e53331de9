//! [`GcVec`], a growing array.

use std::borrow::Borrow;
use std::cmp;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::iter::FusedIterator;
use std::mem;
use std::ops::{Deref, Index, IndexMut};
use std::slice::{self, SliceIndex};

use crate::collections::buffer::Storage;
use crate::{Gc, Mutator, OutOfMemory, Trace};

/// A growing array in the collected heap, with the interface of `Vec`. See [`collections`](crate::collections).
///
/// It dereferences to a slice, for reading. There is no `&mut [T]`: std's stable sort moves elements through memory of malloc, where
/// the collector would not see them. The functions for which std needs a mutable slice are methods here.
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
    storage: Storage<T>,
    len: usize,
}

impl<T: Trace> GcVec<T> {
    /// Creates an empty vector, without storage.
    pub const fn new() -> Self {
        Self { storage: Storage::EMPTY, len: 0 }
    }

    /// Creates an empty vector with room for `capacity` elements.
    ///
    /// # Errors
    /// There is no room in the heap, here and in all functions that take a mutator. The vector is unchanged.
    pub fn with_capacity(mutator: &Mutator, capacity: usize) -> Result<Self, OutOfMemory> {
        Ok(Self { storage: Storage::new(mutator, capacity)?, len: 0 })
    }

    /// Creates a vector of the items of an iterator. The iterator may allocate.
    ///
    /// # Errors
    /// As [`with_capacity`](Self::with_capacity).
    pub fn from_iter(mutator: &Mutator, items: impl IntoIterator<Item = T>) -> Result<Self, OutOfMemory> {
        let mut vec = Self::new();
        vec.extend(mutator, items)?;
        Ok(vec)
    }

    /// Returns the number of elements for which there is room.
    pub fn capacity(&self) -> usize {
        self.storage.capacity()
    }

    /// Returns the elements as a slice.
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

    /// Releases the room that is not used, by moving to storage of the exact size.
    ///
    /// # Errors
    /// As [`with_capacity`](Self::with_capacity).
    pub fn shrink_to_fit(&mut self, mutator: &Mutator) -> Result<(), OutOfMemory> {
        if self.capacity() == self.len { Ok(()) } else { self.set_capacity(mutator, self.len) }
    }

    fn set_capacity(&mut self, mutator: &Mutator, capacity: usize) -> Result<(), OutOfMemory> {
        let mut storage = Storage::new(mutator, capacity)?;
        // SAFETY: both have room for `len` values; the old storage is dropped.
        unsafe { self.storage.copy_to(0, &mut storage, 0, self.len) };
        self.storage = storage;
        Ok(())
    }

    /// Appends an element.
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

    /// Removes the last element and returns it.
    pub fn pop(&mut self) -> Option<T> {
        self.len = self.len.checked_sub(1)?;
        // SAFETY: it was the last element.
        Some(unsafe { self.storage.take(self.len) })
    }

    /// Inserts an element before the one at `index`, or at the end. The elements after it are moved.
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

    /// Removes the element at `index` and returns it. The elements after it are moved.
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

    /// Removes the element at `index` and returns it. The last element takes its place.
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

    /// Removes all elements from `len` on.
    pub fn truncate(&mut self, len: usize) {
        if len < self.len {
            let removed = self.len - len;
            self.len = len;
            // SAFETY: these places had values, which are gone.
            unsafe { self.storage.clear(len, removed) };
        }
    }

    /// Removes all elements, and keeps the storage.
    pub fn clear(&mut self) {
        self.truncate(0);
    }

    /// Returns a mutable reference to an element.
    pub fn get_mut(&mut self, index: usize) -> Option<&mut T> {
        self.as_mut_slice().get_mut(index)
    }

    /// Returns a mutable reference to the first element.
    pub fn first_mut(&mut self) -> Option<&mut T> {
        self.as_mut_slice().first_mut()
    }

    /// Returns a mutable reference to the last element.
    pub fn last_mut(&mut self) -> Option<&mut T> {
        self.as_mut_slice().last_mut()
    }

    /// Iterates over mutable references to the elements.
    pub fn iter_mut(&mut self) -> impl DoubleEndedIterator<Item = &mut T> + ExactSizeIterator + FusedIterator {
        // The type is hidden: `IterMut::into_slice` would give out a mutable slice.
        self.as_mut_slice().iter_mut()
    }

    /// Exchanges two elements.
    ///
    /// # Panics
    /// If an index is beyond the end.
    pub fn swap(&mut self, one: usize, other: usize) {
        self.as_mut_slice().swap(one, other);
    }

    /// Reverses the order of the elements.
    pub fn reverse(&mut self) {
        self.as_mut_slice().reverse();
    }

    /// Rotates the elements so that the one at `middle` becomes the first.
    ///
    /// # Panics
    /// If `middle` is larger than the length.
    pub fn rotate_left(&mut self, middle: usize) {
        assert!(middle <= self.len, "the index {middle} is beyond the length {}", self.len);
        self.rotate_from(0, middle);
    }

    /// Rotates the elements from `at` on so that the one at `middle` becomes the one at `at`.
    pub(in crate::collections) fn rotate_from(&mut self, at: usize, middle: usize) {
        // Three reversals, which only swap elements in place.
        let all = &mut self.as_mut_slice()[at..];
        all[..middle - at].reverse();
        all[middle - at..].reverse();
        all.reverse();
    }

    /// Keeps the elements for which `keep` returns true, in their order.
    pub fn retain(&mut self, mut keep: impl FnMut(&T) -> bool) {
        self.retain_mut(|value| keep(value));
    }

    /// As [`retain`](Self::retain); `keep` may change the elements.
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

    /// Removes all but the first of consecutive equal elements.
    pub fn dedup(&mut self)
    where
        T: PartialEq,
    {
        let mut kept = self.len.min(1);
        for index in 1..self.len {
            if self[index] != self[kept - 1] {
                self.swap(kept, index);
                kept += 1;
            }
        }
        self.truncate(kept);
    }

    /// Appends the items of an iterator. The iterator may allocate.
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

    /// Appends clones of the elements of a slice.
    ///
    /// # Errors
    /// As [`with_capacity`](Self::with_capacity).
    pub fn extend_from_slice(&mut self, mutator: &Mutator, elements: &[T]) -> Result<(), OutOfMemory>
    where
        T: Clone,
    {
        self.extend(mutator, elements.iter().cloned())
    }

    /// Sets the length: appends clones of `value`, or removes elements at the end.
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

    /// Moves all elements of `other` to the end of this vector.
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

    /// Moves the elements from `at` on to a new vector.
    ///
    /// # Errors
    /// As [`with_capacity`](Self::with_capacity).
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

    /// Removes all elements, and returns an iterator over them. Unlike that of std, it takes the storage with it.
    pub fn drain(&mut self) -> IntoIter<T> {
        mem::take(self).into_iter()
    }

    /// Moves the elements to an array of the exact length, which can be shared.
    ///
    /// # Errors
    /// As [`with_capacity`](Self::with_capacity).
    pub fn into_slice(self, mutator: &Mutator) -> Result<Gc<[T]>, OutOfMemory> {
        let len = self.len;
        let mut items = self.into_iter();
        mutator.alloc_array(len, |_| items.next().expect("an iterator with as many items as the vector had elements"))
    }

    /// Sorts the elements, and keeps the order of equal ones. Copies the elements once in the collected heap, besides what std's sort does.
    ///
    /// # Errors
    /// As [`with_capacity`](Self::with_capacity).
    pub fn sort(&mut self, mutator: &Mutator) -> Result<(), OutOfMemory>
    where
        T: Ord,
    {
        self.sort_by(mutator, T::cmp)
    }

    /// As [`sort`](Self::sort), by a key.
    ///
    /// # Errors
    /// As [`with_capacity`](Self::with_capacity).
    pub fn sort_by_key<K: Ord>(&mut self, mutator: &Mutator, mut key: impl FnMut(&T) -> K) -> Result<(), OutOfMemory> {
        self.sort_by(mutator, |one, other| key(one).cmp(&key(other)))
    }

    /// As [`sort`](Self::sort), by a function, which may allocate.
    ///
    /// # Errors
    /// As [`with_capacity`](Self::with_capacity).
    pub fn sort_by(
        &mut self,
        mutator: &Mutator,
        compare: impl FnMut(&T, &T) -> cmp::Ordering,
    ) -> Result<(), OutOfMemory> {
        /// Keeps the copies in view of the collector to the end of the sort, also if it panics.
        struct Copies<T: Trace>(Storage<T>);

        impl<T: Trace> Drop for Copies<T> {
            fn drop(&mut self) {
                std::hint::black_box(self.0.places());
            }
        }

        // Std's sort may move elements through memory of malloc, where the collector does not see them. So what they refer to is kept
        // by copies.
        let copies = if T::LAYOUT.is_leaf() { 0 } else { self.len };
        let mut copies = Copies(Storage::new(mutator, copies)?);
        if copies.0.capacity() > 0 {
            // SAFETY: there is room. The copies are never used as values.
            unsafe { self.storage.copy_to(0, &mut copies.0, 0, self.len) };
        }
        self.as_mut_slice().sort_by(compare);
        Ok(())
    }

    /// Sorts the elements in place, without an allocation. The order of equal ones is not kept.
    pub fn sort_unstable(&mut self)
    where
        T: Ord,
    {
        self.sort_unstable_by(T::cmp);
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

impl<T: Trace + PartialEq> PartialEq for GcVec<T> {
    fn eq(&self, other: &Self) -> bool {
        self.as_slice() == other.as_slice()
    }
}

impl<T: Trace + Eq> Eq for GcVec<T> {}

impl<T: Trace + PartialOrd> PartialOrd for GcVec<T> {
    fn partial_cmp(&self, other: &Self) -> Option<cmp::Ordering> {
        self.as_slice().partial_cmp(other.as_slice())
    }
}

impl<T: Trace + Ord> Ord for GcVec<T> {
    fn cmp(&self, other: &Self) -> cmp::Ordering {
        self.as_slice().cmp(other.as_slice())
    }
}

impl<T: Trace + Hash> Hash for GcVec<T> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.as_slice().hash(state);
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
        IntoIter { first: 0, end: self.len, storage: self.storage }
    }
}

/// An iterator over the elements of a [`GcVec`] by value. Like the vector, it is kept where the collector looks.
#[derive(Trace)]
pub struct IntoIter<T: Trace> {
    storage: Storage<T>,
    first: usize,
    end: usize,
}

impl<T: Trace> Iterator for IntoIter<T> {
    type Item = T;

    fn next(&mut self) -> Option<T> {
        if self.first == self.end {
            return None;
        }
        self.first += 1;
        // SAFETY: the places from `first` to `end` have values.
        Some(unsafe { self.storage.take(self.first - 1) })
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.end - self.first, Some(self.end - self.first))
    }
}

impl<T: Trace> DoubleEndedIterator for IntoIter<T> {
    fn next_back(&mut self) -> Option<T> {
        if self.first == self.end {
            return None;
        }
        self.end -= 1;
        // SAFETY: as in `next`.
        Some(unsafe { self.storage.take(self.end) })
    }
}

impl<T: Trace> ExactSizeIterator for IntoIter<T> {}

impl<T: Trace> FusedIterator for IntoIter<T> {}
