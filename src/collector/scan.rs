//! What the mark loop's steps work on: references whose mark bytes are being prefetched, slices of arrays, and the scan of typed objects.
//!
//! # Without a branch
//! In a random graph, whether a reference leads to an object that is marked already is a matter of chance, so a branch that depends on it is
//! often predicted wrongly, and costs as much as twenty instructions. So [`TypedScan`] has no such branch: it pushes each
//! reference that leaves the queue, and then counts it or not. [`mark`](super::mark) has the picture.

use super::mark_byte::Epochs;
use super::mark_stack::Tasks;
use crate::heap::array::ARRAY_HEAD_BYTES;
use crate::heap::blocks::{AddressMap, Target};
use crate::heap::layout::CACHE_LINE_BYTES;
use crate::heap::references::FindTarget;
use crate::heap::trace::{BITMAPS, Shape, TypeInfo};
use crate::sync::{AtomicU8, AtomicUsize, Ordering::Relaxed, prefetch};

/// The number of references that are processed between the prefetch of a reference's mark byte and its test.
pub(super) const REFERENCES: usize = 32;
/// The smallest number of elements of an array that are scanned at once.
const SLICE: usize = 256;
/// A task with this bit is a slice of an array or of an untyped object. It is above every address, and the number of the slice is
/// below both tags: any word of an untyped object may be a task.
pub(super) const SLICE_TAG: usize = 1 << 63;
/// A task with this bit is an object that is marked already, and has yet to be scanned.
pub(super) const MARKED_TAG: usize = 1 << 62;
/// Where the number of a slice begins in its task.
const SLICE_SHIFT: usize = 48;
/// The maximum number of slices of one object: their numbers lie below both tags.
pub(super) const MOST_SLICES: usize = 1 << 14;

/// A reference whose mark byte is being prefetched.
#[derive(Clone, Copy)]
pub(super) struct Reference {
    pub(super) payload: usize,
    pub(super) mark: *const AtomicU8,
}

/// A first-in-first-out queue of at most `N` items. `N` is a power of two.
pub(super) struct Queue<T, const N: usize> {
    slots: [T; N],
    first: usize,
    len: usize,
}

impl<T: Copy, const N: usize> Queue<T, N> {
    pub(super) const fn new(nothing: T) -> Self {
        assert!(N.is_power_of_two());
        Self { slots: [nothing; N], first: 0, len: 0 }
    }

    #[inline(always)]
    pub(super) const fn is_empty(&self) -> bool {
        self.len == 0
    }

    #[inline(always)]
    pub(super) const fn is_full(&self) -> bool {
        self.len == N
    }

    /// Appends an item. The queue must not be full.
    #[inline(always)]
    pub(super) fn put(&mut self, item: T) {
        self.slots[(self.first + self.len) % N] = item;
        self.len += 1;
    }

    /// Takes the oldest item and appends another one. The queue must be full.
    #[inline(always)]
    pub(super) fn exchange(&mut self, item: T) -> T {
        let oldest = std::mem::replace(&mut self.slots[self.first % N], item);
        self.first += 1;
        oldest
    }

    #[inline(always)]
    pub(super) fn take(&mut self) -> Option<T> {
        if self.is_empty() {
            return None;
        }
        let item = self.slots[self.first % N];
        self.first += 1;
        self.len -= 1;
        Some(item)
    }
}

/// The values that marking a cell needs. The hot loop keeps a copy in local variables.
#[derive(Clone, Copy)]
pub(super) struct Marks {
    pub(super) map: AddressMap,
    pub(super) epochs: Epochs,
}

impl Marks {
    /// Marks the cell that a reference points to, without a branch on whether it was marked before. See [`Epochs::mark`].
    #[inline(always)]
    pub(super) fn mark(self, reference: Reference, nowhere: &AtomicU8) -> bool {
        self.epochs.mark(self.byte(&reference), nowhere, || self.map.word_at(reference.payload).is_unswept())
    }

    /// Does the same with a branch. Faster where references are taken one by one, as in a list.
    #[inline(always)]
    pub(super) fn mark_if_new(self, reference: Reference) -> bool {
        self.epochs.mark_if_new(self.byte(&reference), || self.map.word_at(reference.payload).is_unswept())
    }

    #[inline(always)]
    fn byte(self, reference: &Reference) -> &AtomicU8 {
        // SAFETY: made by `reference_to` from the mark table of the heap, which outlives the markers and their references.
        unsafe { &*reference.mark }
    }
}

/// How the mark loop scans words that are references or nothing. Each goes into the queue of references; the reference that leaves the queue
/// is marked, and pushed as a marked object.
#[derive(Clone, Copy)]
pub(super) struct TypedScan<'a, F> {
    pub(super) find: F,
    pub(super) marks: Marks,
    /// See [`Epochs::mark`].
    pub(super) nowhere: &'a AtomicU8,
}

impl<F: FindTarget> TypedScan<'_, F> {
    /// Examines a word. `tasks` has room for one more.
    #[inline(always)]
    pub(super) fn examine(self, word: usize, references: &mut Queue<Reference, REFERENCES>, tasks: &mut Tasks) {
        let Some(target) = self.find.find(self.marks.map, word) else { return };
        let reference = reference_to(self.marks.map, target);
        prefetch(reference.mark as usize);
        if references.is_full() {
            let oldest = references.exchange(reference);
            tasks.push_if(oldest.payload | MARKED_TAG, self.marks.mark(oldest, self.nowhere));
        } else {
            references.put(reference);
        }
    }

    /// Scans one slice of an object of this type, if it is an array. Returns false, having done nothing, if it is none, if the stack has no
    /// room, or if an element has references beyond its first 64 words.
    #[inline(always)]
    pub(super) fn scan_array(
        self,
        payload: usize,
        info: &TypeInfo,
        slice: usize,
        references: &mut Queue<Reference, REFERENCES>,
        tasks: &mut Tasks,
    ) -> bool {
        let Some(elements) = ArraySlice::of(payload, info, slice) else { return false };
        let bits = elements.bitmaps[0];
        let most = elements.len() * bits.count_ones() as usize + 1;
        if !elements.has_one_bitmap() || !tasks.has_room_for(most) {
            return false;
        }
        if elements.has_next {
            tasks.push(slice_task(payload, slice + 1));
        }
        elements.prefetch_next();
        for address in elements.addresses() {
            for_each_word(address, bits, |_, word| self.examine(word, references, tasks));
        }
        true
    }
}

/// The elements of one slice of an array.
#[derive(Clone, Copy)]
pub(super) struct ArraySlice<'a> {
    /// Address of the array's first element.
    start: usize,
    stride: usize,
    /// The number of the array's elements.
    length: usize,
    first: usize,
    end: usize,
    /// Whether other slices follow.
    pub(super) has_next: bool,
    /// Which words of an element are references.
    pub(super) bitmaps: &'a [u64; BITMAPS],
}

impl<'a> ArraySlice<'a> {
    /// Returns a slice of the object of this type at `payload`; `None` if it is no array.
    #[inline(always)]
    pub(super) fn of(payload: usize, info: &'a TypeInfo, slice: usize) -> Option<Self> {
        let Shape::Array { stride, ref element, .. } = info.shape else { return None };
        // SAFETY: the first payload word of a live array is its length; marking passes live objects with their types.
        let length = unsafe { &*(payload as *const AtomicUsize) }.load(Relaxed);
        let at_once = SLICE.max(length.div_ceil(MOST_SLICES));
        let first = slice * at_once;
        let end = length.min(first + at_once);
        let start = payload + ARRAY_HEAD_BYTES;
        Some(Self { start, stride: stride as usize, length, first, end, has_next: end < length, bitmaps: element })
    }

    /// These elements and all that follow.
    pub(super) fn with_all_others(self) -> Self {
        Self { end: self.length, has_next: false, ..self }
    }

    #[inline(always)]
    fn len(self) -> usize {
        self.end - self.first
    }

    #[inline(always)]
    pub(super) fn has_one_bitmap(self) -> bool {
        self.bitmaps[1..].iter().all(|&bits| bits == 0)
    }

    #[inline(always)]
    pub(super) fn addresses(self) -> impl Iterator<Item = usize> {
        (self.first..self.end).map(move |index| self.start + index * self.stride)
    }

    /// Prefetches the elements of the next slice: it is scanned after everything that this one references is marked.
    #[inline(always)]
    pub(super) fn prefetch_next(self) {
        let next_end = self.length.min(self.end + self.len());
        for ahead in
            (self.start + self.end * self.stride..self.start + next_end * self.stride).step_by(CACHE_LINE_BYTES)
        {
            prefetch(ahead);
        }
    }
}

/// The mark byte of the cell that a word refers to.
#[inline(always)]
pub(super) fn reference_to(map: AddressMap, target: Target) -> Reference {
    Reference { payload: target.payload, mark: map.mark_of_number(target.number) }
}

/// The payload address and the number of the slice that is this task.
#[inline(always)]
pub(super) fn slice_of(task: usize) -> (usize, usize) {
    (task & ((1 << SLICE_SHIFT) - 1), (task & !SLICE_TAG) >> SLICE_SHIFT)
}

/// The task of a slice of an object.
#[inline(always)]
pub(super) fn slice_task(payload: usize, slice: usize) -> usize {
    payload | SLICE_TAG | slice << SLICE_SHIFT
}

/// Calls `visit` with each word of an object whose bit is set: first its address, then its value.
#[inline(always)]
pub(crate) fn for_each_word(address: usize, mut bits: u64, mut visit: impl FnMut(usize, usize)) {
    while bits != 0 {
        let word = bits.trailing_zeros() as usize;
        bits &= bits - 1;
        let slot = address + word * size_of::<usize>();
        // SAFETY: the layout of a live object names words within its payload. Relaxed: the world is stopped.
        visit(slot, unsafe { (*(slot as *const AtomicUsize)).load(Relaxed) });
    }
}
