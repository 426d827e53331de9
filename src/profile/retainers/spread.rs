//! The propagation of sets: two passes over the heap, then a work list for the remaining objects.
//!
//! ```text
//!   1  upwards     every mutable cell adds itself to the objects it refers to       final at once
//!   2  downwards   every other object adds its set to the objects it refers to      newer objects come first
//!   3  work list   objects whose set has grown since they were processed
//! ```
//!
//! What a mutable cell passes on does not depend on its own retainers. So the references of mutable cells, which are most
//! references of a program, need no traversal: the first pass processes them in the order of addresses, with sequential reads. An
//! object that cannot change refers only to objects that were created before it, and memory is usually allocated upwards. So when
//! the second pass, downwards, reaches an object, most of its referrers have been processed, and its set is final. If it is not
//! final, because the object is in a reused cell between older objects, the object is put on the work list when its set grows.
//!
//! For each reference the word of its target is needed, which may be anywhere in memory. So the passes only record *steps*, up to
//! some hundred, and prefetch those words; then the steps are executed in order. Selecting the set to pass on is a step, too: an
//! object's set is read only when this step is executed. So a chain of neighbouring objects, each of which gets its set from the
//! previous one, is processed correctly.

use super::words::{LOOKED_AT, PENDING, SET, Words};
use super::{NOBODY, Retainers};
use crate::collector::live_heap::{Cells, LiveHeap};
use crate::collector::scan::for_each_word;
use crate::heap::array::ARRAY_HEAD_BYTES;
use crate::heap::blocks::AddressMap;
use crate::heap::layout::HEADER_BYTES;
use crate::heap::trace::{Shape, TypeInfo};
use crate::profile::census::band_key::BandKey;
use crate::sync::{AtomicUsize, Ordering::Relaxed, prefetch};

const WORD: usize = size_of::<usize>();
/// The number of words that one bitmap covers.
const WORDS: usize = u64::BITS as usize;
/// Capacity of the list of recorded steps.
const STEPS: usize = 256;
/// The maximum number of steps recorded for one object at a time: selecting its set, and a bitmap of references.
const AT_ONCE: usize = 1 + WORDS;
/// The number of objects of the work list that are prefetched together.
const OBJECTS: usize = 32;

/// The recorded steps. A step either selects the current set, or is the number of a cell to whose set the current set is added.
struct Steps {
    steps: [usize; STEPS],
    count: usize,
    set: u32,
}

/// Selects the set of the cell with this number, and marks the cell as processed.
const OF_CELL: usize = 1 << 63;
/// Selects the set with this number.
const OF_SET: usize = 1 << 62;

impl Steps {
    const fn new() -> Steps {
        Steps { steps: [0; STEPS], count: 0, set: NOBODY }
    }

    #[inline(always)]
    const fn has_room(&self) -> bool {
        self.count + AT_ONCE <= STEPS
    }

    /// Records a step. The list must not be full.
    #[inline(always)]
    fn put(&mut self, step: usize) {
        self.steps[self.count % STEPS] = step;
        self.count += 1;
    }

    /// Records the targets of these words and prefetches their entries. The list must have room for all of them.
    #[inline(always)]
    fn put_references(&mut self, map: AddressMap, words: Words, address: usize, bits: u64) {
        let mut count = self.count;
        for_each_word(address, bits, |_, word| {
            if let Some(cell) = map.number_of_payload(word) {
                words.prefetch(cell);
                self.steps[count % STEPS] = cell;
                count += 1;
            }
        });
        self.count = count;
    }

    /// As [`put_references`](Self::put_references), for words of an untyped object.
    fn put_untyped(&mut self, live_heap: &LiveHeap<'_>, words: Words, address: usize, bits: u64) {
        let (map, references) = (live_heap.map(), live_heap.heap().references());
        for_each_word(address, bits, |_, word| {
            if let Some(target) = references.find(map, word) {
                words.prefetch(target.number);
                self.put(target.number);
            }
        });
    }
}

/// Divides adjacent words that may all be references into bitmaps, each with its address.
fn runs_of_words(start: usize, length: usize) -> impl Iterator<Item = (usize, u64)> {
    (0..length).step_by(WORDS).map(move |first| {
        let count = WORDS.min(length - first);
        (start + first * WORD, u64::MAX >> (WORDS - count))
    })
}

/// Whether objects of this type contain references.
#[inline(always)]
fn refers(info: &TypeInfo) -> bool {
    !matches!(info.shape, Shape::Leaf | Shape::Weak)
}

impl Retainers {
    /// Propagates the sets of the roots, then the sets of all objects.
    pub(super) fn spread(&mut self, live_heap: &LiveHeap<'_>) {
        let mut steps = Steps::new();
        self.roots(live_heap);
        if self.mutable_cells(live_heap, &mut steps) {
            self.others(live_heap, &mut steps);
            self.work_off(live_heap, &mut steps);
        }
    }

    fn roots(&mut self, live_heap: &LiveHeap<'_>) {
        let (map, words) = (live_heap.map(), self.table.words());
        live_heap.for_each_root(|root| {
            let set = self.set_of_root(live_heap, &root);
            if let Some(cell) = map.number_of_payload(root.object) {
                self.arrive(words, cell, set);
            }
        });
    }

    /// Runs the first pass. Returns whether there are immutable objects with references, which pass on their sets.
    fn mutable_cells(&mut self, live_heap: &LiveHeap<'_>, steps: &mut Steps) -> bool {
        let words = self.table.words();
        let mut some_pass = false;
        live_heap.for_each_block(|cells| {
            if self.mutable_cells_of(live_heap, &cells, steps) {
                words.note_passing(&cells);
                some_pass = true;
            }
        });
        self.take(words, steps);
        some_pass
    }

    fn mutable_cells_of(&mut self, live_heap: &LiveHeap<'_>, cells: &Cells, steps: &mut Steps) -> bool {
        let (map, words) = (live_heap.map(), self.table.words());
        // Neighbouring objects mostly have one type, and use the same set.
        let mut said: *const TypeInfo = std::ptr::null();
        let mut some_pass = false;
        live_heap.masks_with_headers(cells).for_each(|index| {
            let info = cells.type_of(index);
            if !refers(info) {
                return;
            }
            if !info.mutable {
                some_pass = true;
                return;
            }
            if !steps.has_room() {
                self.take(words, steps);
            }
            let payload = cells.cell(index).payload();
            if said != std::ptr::from_ref(info) || info.description.is_some() {
                said = info;
                steps.put(OF_SET | self.set_of_cell(BandKey::description(payload, info)) as usize);
            }
            match info.shape {
                Shape::Words(bits) => steps.put_references(map, words, payload, bits),
                _ => self.put_all_references(live_heap, payload, info, steps),
            }
        });
        some_pass
    }

    /// Runs the second pass, which visits all other objects in descending address order.
    fn others(&mut self, live_heap: &LiveHeap<'_>, steps: &mut Steps) {
        let words = self.table.words();
        live_heap.for_each_block_downwards(|cells| {
            if words.has_passing(&cells) {
                self.others_of(live_heap, &cells, steps);
            }
        });
        self.take(words, steps);
    }

    fn others_of(&mut self, live_heap: &LiveHeap<'_>, cells: &Cells, steps: &mut Steps) {
        let (map, words) = (live_heap.map(), self.table.words());
        // Neighbouring objects mostly have one type.
        let mut last: (*const TypeInfo, u64) = (std::ptr::null(), 0);
        live_heap.masks_with_headers(cells).for_each_downwards(|index| {
            let (info, cell) = (cells.type_of(index), cells.cell(index));
            if last.0 != std::ptr::from_ref(info) {
                match info.shape {
                    _ if info.mutable => return,
                    Shape::Leaf | Shape::Weak => return,
                    Shape::Words(bits) => last = (info, bits),
                    _ => return self.look_at(live_heap, cell.number(), cell.payload(), info, steps),
                }
            }
            if !steps.has_room() {
                self.take(words, steps);
            }
            let before = steps.count;
            steps.put(OF_CELL | cell.number());
            steps.put_references(map, words, cell.payload(), last.1);
            // The object has no targets, so it is like a leaf.
            steps.count -= usize::from(steps.count == before + 1);
        });
    }

    /// Records the steps by which an object passes on its set.
    #[inline(never)]
    fn look_at(&mut self, live_heap: &LiveHeap<'_>, number: usize, payload: usize, info: &TypeInfo, steps: &mut Steps) {
        if !steps.has_room() {
            self.take(self.table.words(), steps);
        }
        steps.put(OF_CELL | number);
        self.put_all_references(live_heap, payload, info, steps);
    }

    /// Records all references of an object of any shape.
    #[inline(never)]
    fn put_all_references(&mut self, live_heap: &LiveHeap<'_>, payload: usize, info: &TypeInfo, steps: &mut Steps) {
        let (map, words) = (live_heap.map(), self.table.words());
        let is_untyped = matches!(info.shape, Shape::Untyped | Shape::Bound);
        let mut put = |address: usize, bits: u64| {
            if !steps.has_room() {
                self.take(words, steps);
            }
            match is_untyped {
                true => steps.put_untyped(live_heap, words, address, bits),
                false => steps.put_references(map, words, address, bits),
            }
        };
        let mut put_each = |address: usize, bitmaps: &[u64]| {
            for (index, &bits) in bitmaps.iter().enumerate().filter(|(_, bits)| **bits != 0) {
                put(address + index * WORDS * WORD, bits);
            }
        };
        match info.shape {
            Shape::Leaf | Shape::Weak => {}
            Shape::Words(bits) => put_each(payload, &[bits]),
            Shape::Wide(ref bitmaps) => put_each(payload, bitmaps),
            Shape::Array { stride, ref element, .. } => {
                // SAFETY: a live array's first word is its length.
                let length = unsafe { (*(payload as *const AtomicUsize)).load(Relaxed) };
                let (start, stride) = (payload + ARRAY_HEAD_BYTES, stride as usize);
                if (stride, element[0]) == (WORD, 1) {
                    // The elements consist only of references, as in most arrays.
                    runs_of_words(start, length).for_each(|(address, bits)| put(address, bits));
                } else {
                    (0..length).for_each(|index| put_each(start + index * stride, element));
                }
            }
            Shape::Untyped | Shape::Bound => {
                let length = live_heap.heap().room_of(payload) / WORD;
                runs_of_words(payload, length).for_each(|(address, bits)| put(address, bits));
            }
        }
    }

    /// Executes all recorded steps.
    #[inline(never)]
    fn take(&mut self, words: Words, steps: &mut Steps) {
        let mut set = steps.set;
        for &step in &steps.steps[..steps.count] {
            if step & (OF_CELL | OF_SET) == 0 {
                self.arrive(words, step, set);
            } else if step & OF_SET != 0 {
                set = (step & !OF_SET) as u32;
            } else {
                let cell = step & !OF_CELL;
                let word = words.get(cell);
                words.put(cell, word & !PENDING | LOOKED_AT);
                set = word & SET;
            }
        }
        (steps.count, steps.set) = (0, set);
    }

    /// Adds a set to that of a cell. A word may look like a reference to a dead cell; then this does no harm.
    ///
    /// No branch depends on the cell's old set until the cell has been processed: such a branch cannot be predicted, and a misprediction
    /// costs more than the rest.
    #[inline(always)]
    fn arrive(&mut self, words: Words, cell: usize, set: u32) {
        let word = words.get(cell);
        let old = word & SET;
        let new = self.sets.join(old, set);
        let grown = word & !SET | new;
        words.put(cell, grown);
        if word & (LOOKED_AT | PENDING) == LOOKED_AT && new != old {
            words.put(cell, grown | PENDING);
            self.overflowed |= !self.work.push(cell);
        }
    }

    /// Processes the work list until it is empty.
    fn work_off(&mut self, live_heap: &LiveHeap<'_>, steps: &mut Steps) {
        let (map, words) = (live_heap.map(), self.table.words());
        let mut some = [0; OBJECTS];
        loop {
            // The list is processed in batches: all objects of a batch are prefetched before the first is processed.
            let mut count = 0;
            while count < OBJECTS
                && let Some(cell) = self.work.pop()
            {
                prefetch(map.payload_of_number(cell) - HEADER_BYTES);
                some[count] = cell;
                count += 1;
            }
            for &cell in &some[..count] {
                self.look_again(live_heap, cell, steps);
            }
            self.take(words, steps);
            if count == 0 && self.work.len() == 0 {
                if !std::mem::take(&mut self.overflowed) {
                    return;
                }
                // Objects for which the list had no room have PENDING set.
                live_heap.for_each_block_downwards(|cells| {
                    if words.has_passing(&cells) {
                        live_heap.masks(&cells).for_each_downwards(|index| {
                            self.look_again(live_heap, cells.cell(index).number(), steps);
                        });
                    }
                });
            }
        }
    }

    /// Processes an object of the work list, unless it has been processed since it was added.
    fn look_again(&mut self, live_heap: &LiveHeap<'_>, cell: usize, steps: &mut Steps) {
        if self.table.words().get(cell) & PENDING != 0 {
            let payload = live_heap.map().payload_of_number(cell);
            self.look_at(live_heap, cell, payload, live_heap.type_of(payload), steps);
        }
    }
}
