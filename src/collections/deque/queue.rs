//! [`GcDeque`], a queue with two ends.

use std::cmp;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::mem;
use std::ops::{Index, IndexMut};
use std::slice;

use crate::collections::buffer::Storage;
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
    storage: Storage<T>,
    /// The place of the first element; less than the capacity, or 0.
    head: usize,
    len: usize,
}

impl<T: Trace> GcDeque<T> {
    /// Creates an empty queue, without storage.
    pub const fn new() -> Self {
        Self { storage: Storage::EMPTY, head: 0, len: 0 }
    }

    /// Creates an empty queue with room for `capacity` elements.
    ///
    /// # Errors
    /// There is no room in the heap, here and in all functions that take a mutator. The queue is unchanged.
    pub fn with_capacity(mutator: &Mutator, capacity: usize) -> Result<Self, OutOfMemory> {
        Ok(Self { storage: Storage::new(mutator, capacity)?, head: 0, len: 0 })
    }

    /// Creates a queue of the items of an iterator. The iterator may allocate.
    ///
    /// # Errors
    /// As [`with_capacity`](Self::with_capacity).
    pub fn from_iter(mutator: &Mutator, items: impl IntoIterator<Item = T>) -> Result<Self, OutOfMemory> {
        let mut queue = Self::new();
        queue.extend(mutator, items)?;
        Ok(queue)
    }

    /// Returns the number of elements.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns whether there is no element.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the number of elements for which there is room.
    pub fn capacity(&self) -> usize {
        self.storage.capacity()
    }

    /// Makes room for `additional` more elements.
    ///
    /// # Errors
    /// As [`with_capacity`](Self::with_capacity).
    pub fn reserve(&mut self, mutator: &Mutator, additional: usize) -> Result<(), OutOfMemory> {
        let wanted = self.len.saturating_add(additional);
        if wanted <= self.capacity() {
            return Ok(());
        }
        let mut storage = Storage::new(mutator, self.storage.grown(wanted))?;
        let (first, second) = self.parts();
        // SAFETY: there is room. The old storage is dropped.
        unsafe {
            self.storage.copy_to(self.head, &mut storage, 0, first);
            self.storage.copy_to(0, &mut storage, first, second);
        }
        (self.storage, self.head) = (storage, 0);
        Ok(())
    }

    /// The number of elements from the head to the end of the storage, and from its beginning.
    fn parts(&self) -> (usize, usize) {
        let first = self.len.min(self.capacity() - self.head);
        (first, self.len - first)
    }

    /// The place of the element with this index. There is storage.
    fn place_of(&self, index: usize) -> usize {
        let place = self.head + index;
        if place < self.capacity() { place } else { place - self.capacity() }
    }

    /// Adds an element before the first.
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

    /// Adds an element after the last.
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

    /// Removes the first element and returns it.
    pub fn pop_front(&mut self) -> Option<T> {
        self.len = self.len.checked_sub(1)?;
        let place = self.head;
        self.head = self.place_of(1);
        // SAFETY: it was the place of the first element.
        Some(unsafe { self.storage.take(place) })
    }

    /// Removes the last element and returns it.
    pub fn pop_back(&mut self) -> Option<T> {
        self.len = self.len.checked_sub(1)?;
        // SAFETY: it was the place of the last element.
        Some(unsafe { self.storage.take(self.place_of(self.len)) })
    }

    /// Returns the first element.
    pub fn front(&self) -> Option<&T> {
        self.get(0)
    }

    /// Returns the last element.
    pub fn back(&self) -> Option<&T> {
        self.get(self.len.checked_sub(1)?)
    }

    /// Returns a mutable reference to the first element.
    pub fn front_mut(&mut self) -> Option<&mut T> {
        self.get_mut(0)
    }

    /// Returns a mutable reference to the last element.
    pub fn back_mut(&mut self) -> Option<&mut T> {
        self.get_mut(self.len.checked_sub(1)?)
    }

    /// Returns the element with this index, counted from the front.
    pub fn get(&self, index: usize) -> Option<&T> {
        // SAFETY: an element's place. The result borrows the owner.
        (index < self.len).then(|| unsafe { &*self.storage.place(self.place_of(index)) })
    }

    /// Returns a mutable reference to the element with this index.
    pub fn get_mut(&mut self, index: usize) -> Option<&mut T> {
        // SAFETY: an element's place. The result borrows the only owner.
        (index < self.len).then(|| unsafe { &mut *self.storage.place(self.place_of(index)) })
    }

    /// Returns the elements as two slices, the first ones in the first.
    pub fn as_slices(&self) -> (&[T], &[T]) {
        let (first, second) = self.parts();
        // SAFETY: both parts have values, and the results borrow the owner.
        unsafe {
            let front = slice::from_raw_parts(self.storage.place(self.head), first);
            (front, slice::from_raw_parts(self.storage.places(), second))
        }
    }

    /// Iterates over the elements, from the front to the back.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &T> + Clone {
        let (front, back) = self.as_slices();
        front.iter().chain(back)
    }

    /// Iterates over mutable references to the elements.
    pub fn iter_mut(&mut self) -> impl DoubleEndedIterator<Item = &mut T> {
        let (first, second) = self.parts();
        // SAFETY: both parts have values and do not overlap, and the result borrows the only owner.
        unsafe {
            let front = slice::from_raw_parts_mut(self.storage.place(self.head), first);
            front.iter_mut().chain(slice::from_raw_parts_mut(self.storage.places(), second))
        }
    }

    /// Returns whether an element equals `value`.
    pub fn contains(&self, value: &T) -> bool
    where
        T: PartialEq,
    {
        self.iter().any(|element| element == value)
    }

    /// Exchanges two elements.
    ///
    /// # Panics
    /// If an index is beyond the end.
    pub fn swap(&mut self, one: usize, other: usize) {
        assert!(one < self.len && other < self.len, "{one} or {other} is not below the length {}", self.len);
        let (one, other) = (self.place_of(one), self.place_of(other));
        // SAFETY: both places have values, and this is their only owner.
        unsafe { std::ptr::swap(self.storage.place(one), self.storage.place(other)) };
    }

    /// Inserts an element before the one at `index`, or at the end. The elements after it are moved.
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

    /// Removes the element at `index` and returns it, or `None` if it is beyond the end. The elements after it are moved.
    pub fn remove(&mut self, index: usize) -> Option<T> {
        if index >= self.len {
            return None;
        }
        (index + 1..self.len).for_each(|at| self.swap(at - 1, at));
        self.pop_back()
    }

    /// Keeps the elements for which `keep` returns true, in their order.
    pub fn retain(&mut self, mut keep: impl FnMut(&T) -> bool) {
        let mut kept = 0;
        for index in 0..self.len {
            if keep(&self[index]) {
                self.swap(kept, index);
                kept += 1;
            }
        }
        self.truncate(kept);
    }

    /// Removes all elements from `len` on.
    pub fn truncate(&mut self, len: usize) {
        while self.len > len {
            self.pop_back();
        }
    }

    /// Removes all elements, and keeps the storage.
    pub fn clear(&mut self) {
        self.truncate(0);
        self.head = 0;
    }

    /// Adds the items of an iterator at the back. The iterator may allocate.
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

    /// Removes all elements, and returns an iterator over them, which takes the storage with it.
    pub fn drain(&mut self) -> impl DoubleEndedIterator<Item = T> + use<T> {
        Drain(mem::take(self))
    }
}

/// An iterator over the elements by value.
struct Drain<T: Trace>(GcDeque<T>);

impl<T: Trace> Iterator for Drain<T> {
    type Item = T;

    fn next(&mut self) -> Option<T> {
        self.0.pop_front()
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.0.len, Some(self.0.len))
    }
}

impl<T: Trace> DoubleEndedIterator for Drain<T> {
    fn next_back(&mut self) -> Option<T> {
        self.0.pop_back()
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

impl<T: Trace + PartialEq> PartialEq for GcDeque<T> {
    fn eq(&self, other: &Self) -> bool {
        self.len == other.len && self.iter().eq(other.iter())
    }
}

impl<T: Trace + Eq> Eq for GcDeque<T> {}

impl<T: Trace + PartialOrd> PartialOrd for GcDeque<T> {
    fn partial_cmp(&self, other: &Self) -> Option<cmp::Ordering> {
        self.iter().partial_cmp(other.iter())
    }
}

impl<T: Trace + Ord> Ord for GcDeque<T> {
    fn cmp(&self, other: &Self) -> cmp::Ordering {
        self.iter().cmp(other.iter())
    }
}

impl<T: Trace + Hash> Hash for GcDeque<T> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.len.hash(state);
        self.iter().for_each(|element| element.hash(state));
    }
}

impl<'a, T: Trace> IntoIterator for &'a GcDeque<T> {
    type Item = &'a T;
    type IntoIter = std::iter::Chain<slice::Iter<'a, T>, slice::Iter<'a, T>>;

    fn into_iter(self) -> Self::IntoIter {
        let (front, back) = self.as_slices();
        front.iter().chain(back)
    }
}
