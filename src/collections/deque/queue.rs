//! The queue: a ring of places.
//!
//! ```text
//!   storage  | third | fourth |     |     | first | second |
//!                                         head
//! ```

use std::cmp::Ordering;
use std::fmt;
use std::ops::{Index, IndexMut, Range, RangeBounds};
use std::slice;

use super::iter::{DequeIter, DequeIterMut};
use crate::collections::buffer::{Storage, checked_range};
use crate::collections::vec::GcVec;
use crate::{Mutator, OutOfMemory, Trace};

/// A queue with two ends in the collected heap, with the interface of `VecDeque`. See [`collections`](crate::collections).
///
/// ```
/// use stopworld::{Gc, GcDeque, World};
///
/// let world = World::builder().build()?;
/// // SAFETY: this thread keeps every `Gc` and every collection in local variables.
/// let mutator = unsafe { world.attach("main") }?;
/// let mut queue: GcDeque<Gc<str>> = GcDeque::new();
/// queue.push_back(&mutator, mutator.alloc_str("second")?)?;
/// queue.push_front(&mutator, mutator.alloc_str("first")?)?;
/// assert_eq!(queue.pop_front().as_deref(), Some("first"));
/// assert_eq!(queue.len(), 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Trace)]
pub struct GcDeque<T: Trace> {
    pub(super) storage: Storage<T>,
    /// The place of the first element; less than the capacity, or 0.
    pub(super) head: usize,
    pub(super) len: usize,
}

impl<T: Trace> GcDeque<T> {
    /// Creates an empty queue, without storage. O(1).
    pub const fn new() -> Self {
        Self { storage: Storage::EMPTY, head: 0, len: 0 }
    }

    /// Creates an empty queue with room for `capacity` elements, with one allocation.
    ///
    /// # Errors
    /// There is no room in the heap, here and in all functions that take a mutator. The queue is unchanged.
    pub fn with_capacity(mutator: &Mutator, capacity: usize) -> Result<Self, OutOfMemory> {
        Ok(Self { storage: Storage::new(mutator, capacity)?, head: 0, len: 0 })
    }

    /// Creates a queue of the items of an iterator. The iterator may allocate. O(n), with one allocation if the lower bound of its
    /// [`size_hint`](Iterator::size_hint) is exact, and O(log n) allocations otherwise.
    ///
    /// # Errors
    /// As [`with_capacity`](Self::with_capacity).
    pub fn from_iter(mutator: &Mutator, items: impl IntoIterator<Item = T>) -> Result<Self, OutOfMemory> {
        let mut queue = Self::new();
        queue.extend(mutator, items)?;
        Ok(queue)
    }

    /// Copies the queue: allocates an array of the exact size, and clones each element. O(n).
    ///
    /// # Errors
    /// As [`with_capacity`](Self::with_capacity).
    ///
    /// # Panics
    /// If `clone` does. Then the clones are dropped.
    pub fn try_clone(&self, mutator: &Mutator) -> Result<Self, OutOfMemory>
    where
        T: Clone,
    {
        let mut copy = Self::with_capacity(mutator, self.len)?;
        copy.extend(mutator, self.iter().cloned())?;
        Ok(copy)
    }

    /// Returns the number of elements. O(1).
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns whether there is no element. O(1).
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the number of elements for which there is room. O(1).
    pub fn capacity(&self) -> usize {
        self.storage.capacity()
    }

    /// Makes room for `additional` more elements, and for more than that if there was too little, so that growing one by one is cheap.
    /// Moves all elements to a new array if there is too little room: O(n), and otherwise O(1).
    ///
    /// # Errors
    /// As [`with_capacity`](Self::with_capacity).
    pub fn reserve(&mut self, mutator: &Mutator, additional: usize) -> Result<(), OutOfMemory> {
        let wanted = self.len.saturating_add(additional);
        if wanted <= self.capacity() { Ok(()) } else { self.set_capacity(mutator, self.storage.grown(wanted)) }
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
        let [first, second] = self.runs(0..self.len);
        // SAFETY: there is room. The old storage is dropped.
        unsafe {
            self.storage.copy_to(first.start, &mut storage, 0, first.len());
            self.storage.copy_to(second.start, &mut storage, first.len(), second.len());
        }
        (self.storage, self.head) = (storage, 0);
        Ok(())
    }

    /// The places of a range of elements: those up to the end of the storage, and those from its beginning.
    fn runs(&self, Range { start, end }: Range<usize>) -> [Range<usize>; 2] {
        let wraps = self.capacity() - self.head;
        let first = self.head + start.min(wraps)..self.head + end.min(wraps);
        [first, start.saturating_sub(wraps)..end.saturating_sub(wraps)]
    }

    /// The place of the element with this index, which is at most the capacity.
    pub(super) fn place_of(&self, index: usize) -> usize {
        // The capacity of a queue of values without bytes may be the largest number.
        let to_the_end = self.capacity() - self.head;
        if index < to_the_end { self.head + index } else { index - to_the_end }
    }

    /// Moves an element to another index, whose value is gone. The old one must be cleared, or written.
    pub(super) fn move_element(&mut self, from: usize, to: usize) {
        let (from, to) = (self.place_of(from), self.place_of(to));
        // SAFETY: within the capacity.
        unsafe { self.storage.shift(from, to, 1) };
    }

    fn slices(&self, range: Range<usize>) -> (&[T], &[T]) {
        let [first, second] = self.runs(range);
        // SAFETY: both runs have values, and the results borrow the owner.
        unsafe {
            let front = slice::from_raw_parts(self.storage.place(first.start), first.len());
            (front, slice::from_raw_parts(self.storage.place(second.start), second.len()))
        }
    }

    fn mut_slices(&mut self, range: Range<usize>) -> (&mut [T], &mut [T]) {
        let [first, second] = self.runs(range);
        // SAFETY: both runs have values and do not overlap, and the results borrow the only owner.
        unsafe {
            let front = slice::from_raw_parts_mut(self.storage.place(first.start), first.len());
            (front, slice::from_raw_parts_mut(self.storage.place(second.start), second.len()))
        }
    }

    /// Adds an element before the first. O(1) on average: moves all elements to a new array of twice the capacity if there is no room.
    ///
    /// # Errors
    /// As [`with_capacity`](Self::with_capacity); `value` is dropped.
    pub fn push_front(&mut self, mutator: &Mutator, value: T) -> Result<(), OutOfMemory> {
        self.reserve(mutator, 1)?;
        self.head = self.head.checked_sub(1).unwrap_or(self.capacity() - 1);
        // SAFETY: there is room, so the place before the first element has no value.
        unsafe { self.storage.put(self.head, value) };
        self.len += 1;
        Ok(())
    }

    /// Adds an element after the last. O(1) on average, as [`push_front`](Self::push_front).
    ///
    /// # Errors
    /// As [`with_capacity`](Self::with_capacity); `value` is dropped.
    pub fn push_back(&mut self, mutator: &Mutator, value: T) -> Result<(), OutOfMemory> {
        self.reserve(mutator, 1)?;
        // SAFETY: there is room, so the place after the last element has no value.
        unsafe { self.storage.put(self.place_of(self.len), value) };
        self.len += 1;
        Ok(())
    }

    /// Removes the first element and returns it. O(1).
    pub fn pop_front(&mut self) -> Option<T> {
        self.len = self.len.checked_sub(1)?;
        let place = self.head;
        self.head = self.place_of(1);
        // SAFETY: it was the place of the first element.
        Some(unsafe { self.storage.take(place) })
    }

    /// Removes the last element and returns it. O(1).
    pub fn pop_back(&mut self) -> Option<T> {
        self.len = self.len.checked_sub(1)?;
        // SAFETY: it was the place of the last element.
        Some(unsafe { self.storage.take(self.place_of(self.len)) })
    }

    /// Removes the first element and returns it, if there is one and `remove` returns true for it. O(1).
    ///
    /// # Panics
    /// If `remove` does. The element stays.
    pub fn pop_front_if(&mut self, remove: impl FnOnce(&mut T) -> bool) -> Option<T> {
        if remove(self.front_mut()?) { self.pop_front() } else { None }
    }

    /// Removes the last element and returns it, if there is one and `remove` returns true for it. O(1).
    ///
    /// # Panics
    /// If `remove` does. The element stays.
    pub fn pop_back_if(&mut self, remove: impl FnOnce(&mut T) -> bool) -> Option<T> {
        if remove(self.back_mut()?) { self.pop_back() } else { None }
    }

    /// Returns the first element. O(1).
    pub fn front(&self) -> Option<&T> {
        self.get(0)
    }

    /// Returns the last element. O(1).
    pub fn back(&self) -> Option<&T> {
        self.get(self.len.checked_sub(1)?)
    }

    /// Returns a mutable reference to the first element. O(1).
    pub fn front_mut(&mut self) -> Option<&mut T> {
        self.get_mut(0)
    }

    /// Returns a mutable reference to the last element. O(1).
    pub fn back_mut(&mut self) -> Option<&mut T> {
        self.get_mut(self.len.checked_sub(1)?)
    }

    /// Returns the element with this index, counted from the front. O(1).
    pub fn get(&self, index: usize) -> Option<&T> {
        // SAFETY: an element's place. The result borrows the owner.
        (index < self.len).then(|| unsafe { &*self.storage.place(self.place_of(index)) })
    }

    /// Returns a mutable reference to the element with this index. O(1).
    pub fn get_mut(&mut self, index: usize) -> Option<&mut T> {
        // SAFETY: an element's place. The result borrows the only owner.
        (index < self.len).then(|| unsafe { &mut *self.storage.place(self.place_of(index)) })
    }

    /// Returns the elements as two slices, the first ones in the first. O(1).
    pub fn as_slices(&self) -> (&[T], &[T]) {
        self.slices(0..self.len)
    }

    /// Moves the elements so that they are in one slice, and returns it. O(n), or O(1) if they are already; without an allocation.
    pub fn make_contiguous(&mut self) -> &[T] {
        let [first, second] = self.runs(0..self.len);
        if second.is_empty() {
            return self.as_slices().0;
        }
        let (from, to) = (first.start, second.end);
        // SAFETY: the places between the two runs have no values. The first run moves towards the second, and does not reach it; what it leaves is
        // cleared. Then the first `len` places have values, and this is their only owner.
        let all = unsafe {
            self.storage.shift(from, to, first.len());
            let vacated = from.max(self.len);
            self.storage.clear(vacated, first.end - vacated);
            slice::from_raw_parts_mut(self.storage.places(), self.len)
        };
        // As `rotate_left`, by reversals, which only swap elements in place.
        all[..to].reverse();
        all[to..].reverse();
        all.reverse();
        self.head = 0;
        self.as_slices().0
    }

    /// Iterates over the elements, from the front to the back. O(1), as is each step.
    pub fn iter(&self) -> DequeIter<'_, T> {
        DequeIter::over(self.as_slices())
    }

    /// Iterates over mutable references to the elements. O(1), as is each step.
    pub fn iter_mut(&mut self) -> DequeIterMut<'_, T> {
        DequeIterMut::over(self.mut_slices(0..self.len))
    }

    /// Iterates over a range of elements. O(1) for the first.
    ///
    /// # Panics
    /// If the range ends beyond the length, or before it begins.
    pub fn range(&self, range: impl RangeBounds<usize>) -> DequeIter<'_, T> {
        DequeIter::over(self.slices(checked_range(range, self.len)))
    }

    /// Iterates over mutable references to a range of elements. O(1) for the first.
    ///
    /// # Panics
    /// As [`range`](Self::range).
    pub fn range_mut(&mut self, range: impl RangeBounds<usize>) -> DequeIterMut<'_, T> {
        DequeIterMut::over(self.mut_slices(checked_range(range, self.len)))
    }

    /// Searches elements that are sorted. Returns the index of one that equals `value`, or as an error the index at which to insert it.
    /// O(log n).
    ///
    /// # Errors
    /// No element equals `value`.
    pub fn binary_search(&self, value: &T) -> Result<usize, usize>
    where
        T: Ord,
    {
        self.binary_search_by(|element| element.cmp(value))
    }

    /// As [`binary_search`](Self::binary_search), by a key.
    ///
    /// # Errors
    /// No element has this key.
    pub fn binary_search_by_key<K: Ord>(&self, key: &K, mut key_of: impl FnMut(&T) -> K) -> Result<usize, usize> {
        self.binary_search_by(|element| key_of(element).cmp(key))
    }

    /// As [`binary_search`](Self::binary_search), by a function that compares an element with what is searched.
    ///
    /// # Errors
    /// The function returns `Equal` for no element.
    pub fn binary_search_by(&self, mut compare: impl FnMut(&T) -> Ordering) -> Result<usize, usize> {
        let (front, back) = self.as_slices();
        match back.first().map(&mut compare) {
            Some(Ordering::Less | Ordering::Equal) => {
                let in_back = back.binary_search_by(compare);
                in_back.map(|index| index + front.len()).map_err(|index| index + front.len())
            }
            Some(Ordering::Greater) | None => front.binary_search_by(compare),
        }
    }

    /// Returns the index of the first element for which `is_before` returns false, if the ones for which it returns true come first. O(log n).
    pub fn partition_point(&self, mut is_before: impl FnMut(&T) -> bool) -> usize {
        let (front, back) = self.as_slices();
        if back.first().is_some_and(&mut is_before) {
            front.len() + back.partition_point(is_before)
        } else {
            front.partition_point(is_before)
        }
    }

    /// Returns whether an element equals `value`. O(n).
    pub fn contains(&self, value: &T) -> bool
    where
        T: PartialEq,
    {
        self.iter().any(|element| element == value)
    }

    /// Exchanges two elements. O(1).
    ///
    /// # Panics
    /// If an index is beyond the end.
    pub fn swap(&mut self, one: usize, other: usize) {
        assert!(one < self.len && other < self.len, "{one} or {other} is not below the length {}", self.len);
        let (one, other) = (self.place_of(one), self.place_of(other));
        // SAFETY: both places have values, and this is their only owner.
        unsafe { std::ptr::swap(self.storage.place(one), self.storage.place(other)) };
    }

    /// Inserts an element before the one at `index`, or at the end. The elements after it are moved: O(n - index).
    ///
    /// # Errors
    /// As [`push_back`](Self::push_back).
    ///
    /// # Panics
    /// If `index` is larger than the length.
    pub fn insert(&mut self, mutator: &Mutator, index: usize, value: T) -> Result<(), OutOfMemory> {
        assert!(index <= self.len, "the index {index} is beyond the length {}", self.len);
        self.push_back(mutator, value)?;
        (index + 1..self.len).rev().for_each(|at| self.swap(at - 1, at));
        Ok(())
    }

    /// Removes the element at `index` and returns it, or `None` if it is beyond the end. The elements after it are moved: O(n - index).
    pub fn remove(&mut self, index: usize) -> Option<T> {
        if index >= self.len {
            return None;
        }
        (index + 1..self.len).for_each(|at| self.swap(at - 1, at));
        self.pop_back()
    }

    /// Removes the element at `index` and returns it, or `None` if it is beyond the end. The first element takes its place. O(1).
    pub fn swap_remove_front(&mut self, index: usize) -> Option<T> {
        if index >= self.len {
            return None;
        }
        self.swap(index, 0);
        self.pop_front()
    }

    /// Removes the element at `index` and returns it, or `None` if it is beyond the end. The last element takes its place. O(1).
    pub fn swap_remove_back(&mut self, index: usize) -> Option<T> {
        if index >= self.len {
            return None;
        }
        self.swap(index, self.len - 1);
        self.pop_back()
    }

    /// Rotates the elements so that the one at `count` becomes the first. O(min(`count`, n - `count`)).
    ///
    /// # Panics
    /// If `count` is larger than the length.
    pub fn rotate_left(&mut self, count: usize) {
        assert!(count <= self.len, "the count {count} is larger than the length {}", self.len);
        if count <= self.len - count {
            (0..count).for_each(|_| self.first_becomes_last());
        } else {
            (count..self.len).for_each(|_| self.last_becomes_first());
        }
    }

    /// Rotates the elements so that the last `count` of them become the first. O(min(`count`, n - `count`)).
    ///
    /// # Panics
    /// If `count` is larger than the length.
    pub fn rotate_right(&mut self, count: usize) {
        assert!(count <= self.len, "the count {count} is larger than the length {}", self.len);
        self.rotate_left(self.len - count);
    }

    fn first_becomes_last(&mut self) {
        // In a full ring, the place after the last element is that of the first.
        if self.len < self.capacity() {
            self.move_element(0, self.len);
            // SAFETY: the value has been moved.
            unsafe { self.storage.clear(self.head, 1) };
        }
        self.head = self.place_of(1);
    }

    fn last_becomes_first(&mut self) {
        let last = self.place_of(self.len - 1);
        self.head = self.head.checked_sub(1).unwrap_or(self.capacity() - 1);
        if last != self.head {
            // SAFETY: the place before the first element has no value; then that of the last has none.
            unsafe {
                self.storage.shift(last, self.head, 1);
                self.storage.clear(last, 1);
            }
        }
    }

    /// Keeps the elements for which `keep` returns true, in their order. O(n).
    ///
    /// # Panics
    /// If `keep` does. Then all elements are in the queue, in another order.
    pub fn retain(&mut self, mut keep: impl FnMut(&T) -> bool) {
        self.retain_mut(|value| keep(value));
    }

    /// As [`retain`](Self::retain); `keep` may change the elements.
    ///
    /// # Panics
    /// As [`retain`](Self::retain).
    pub fn retain_mut(&mut self, mut keep: impl FnMut(&mut T) -> bool) {
        let mut kept = 0;
        for index in 0..self.len {
            if keep(&mut self[index]) {
                self.swap(kept, index);
                kept += 1;
            }
        }
        self.truncate(kept);
    }

    /// Removes all elements from `len` on. O(removed elements), as their places are cleared.
    pub fn truncate(&mut self, len: usize) {
        while self.len > len {
            self.pop_back();
        }
    }

    /// Removes all elements, and keeps the storage. O(n).
    pub fn clear(&mut self) {
        self.truncate(0);
        self.head = 0;
    }

    /// Adds the items of an iterator at the back. The iterator may allocate. O(items), with allocations as [`push_back`](Self::push_back).
    ///
    /// # Errors
    /// As [`with_capacity`](Self::with_capacity). The items before the error are added.
    pub fn extend(&mut self, mutator: &Mutator, items: impl IntoIterator<Item = T>) -> Result<(), OutOfMemory> {
        let items = items.into_iter();
        self.reserve(mutator, items.size_hint().0)?;
        for item in items {
            self.push_back(mutator, item)?;
        }
        Ok(())
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

    /// Sets the length: appends results of `make`, which may allocate, or removes elements at the end. O(change), and at most one allocation.
    ///
    /// # Errors
    /// As [`with_capacity`](Self::with_capacity).
    pub fn resize_with(&mut self, mutator: &Mutator, len: usize, make: impl FnMut() -> T) -> Result<(), OutOfMemory> {
        self.truncate(len);
        self.extend(mutator, std::iter::repeat_with(make).take(len - self.len))
    }

    /// Moves all elements of `other` to the back of this queue. O(their number), and at most one allocation. `other` keeps its storage.
    ///
    /// # Errors
    /// As [`with_capacity`](Self::with_capacity); both are unchanged.
    pub fn append(&mut self, mutator: &Mutator, other: &mut Self) -> Result<(), OutOfMemory> {
        self.reserve(mutator, other.len)?;
        while let Some(value) = other.pop_front() {
            // SAFETY: there is room, so the place after the last element has no value.
            unsafe { self.storage.put(self.place_of(self.len), value) };
            self.len += 1;
        }
        Ok(())
    }

    /// Moves the elements from `at` on to a new queue. O(n - at), and one allocation.
    ///
    /// # Errors
    /// As [`with_capacity`](Self::with_capacity); this queue is unchanged.
    ///
    /// # Panics
    /// If `at` is larger than the length.
    pub fn split_off(&mut self, mutator: &Mutator, at: usize) -> Result<Self, OutOfMemory> {
        assert!(at <= self.len, "the index {at} is beyond the length {}", self.len);
        let mut other = Self::with_capacity(mutator, self.len - at)?;
        for run in self.runs(at..self.len) {
            // SAFETY: there is room. The places of this queue have no values afterwards.
            unsafe {
                self.storage.copy_to(run.start, &mut other.storage, other.len, run.len());
                other.len += run.len();
                self.storage.clear(run.start, run.len());
            }
        }
        self.len = at;
        Ok(other)
    }
}

impl<T: Trace> From<GcVec<T>> for GcDeque<T> {
    /// Takes the storage of the vector. O(1).
    fn from(vec: GcVec<T>) -> Self {
        let (storage, len) = vec.into_parts();
        Self { storage, head: 0, len }
    }
}

impl<T: Trace> From<GcDeque<T>> for GcVec<T> {
    /// Takes the storage of the queue. O(n) if the first element is not at its beginning, and otherwise O(1).
    fn from(mut queue: GcDeque<T>) -> Self {
        queue.make_contiguous();
        let (from, len) = (queue.head, queue.len);
        // SAFETY: the elements are in a row, and so are the first ones afterwards. The places after them have no values.
        unsafe {
            if from > 0 {
                queue.storage.shift(from, 0, len);
                let vacated = from.max(len);
                queue.storage.clear(vacated, from + len - vacated);
            }
            Self::from_parts(queue.storage, len)
        }
    }
}

impl<T: Trace> Default for GcDeque<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T: Trace> Index<usize> for GcDeque<T> {
    type Output = T;

    fn index(&self, index: usize) -> &T {
        self.get(index).expect("the index is not below the length")
    }
}

impl<T: Trace> IndexMut<usize> for GcDeque<T> {
    fn index_mut(&mut self, index: usize) -> &mut T {
        self.get_mut(index).expect("the index is not below the length")
    }
}

impl<T: Trace + fmt::Debug> fmt::Debug for GcDeque<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

impl<'a, T: Trace> IntoIterator for &'a GcDeque<T> {
    type Item = &'a T;
    type IntoIter = DequeIter<'a, T>;

    fn into_iter(self) -> DequeIter<'a, T> {
        self.iter()
    }
}

impl<'a, T: Trace> IntoIterator for &'a mut GcDeque<T> {
    type Item = &'a mut T;
    type IntoIter = DequeIterMut<'a, T>;

    fn into_iter(self) -> DequeIterMut<'a, T> {
        self.iter_mut()
    }
}
