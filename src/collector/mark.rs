//! Marking: from the roots to everything that they reach.
//!
//! # The loop
//! A marker has a stack of *tasks* and beside it two short queues:
//!
//! ```text
//!   roots ──push word──▶ stack ──pop object──▶ prefetch header, fields ──▶ objects (64) ──▶ scan
//!                        ▲   │                                                               │
//!      push marked object│   │pop word                                   words of the object │
//!                        │   ▼                                                               │
//!   marked already ◀── references (32) ◀── prefetch mark byte ◀──────────────────────────────┘
//!   (nothing to do)
//! ```
//!
//! To mark a random graph is mostly to wait for memory: each object is a cache miss, and with a stack alone each miss begins only
//! when the previous one is over. Memory whose address has gone through a queue was prefetched many steps before it is read. There
//! are two queues, because most references lead to objects that are marked already: only the mark bytes of these are read, not the objects.
//! Measured on the random graph of `benches/peers/pause.c`, in million objects per second: 9 without a queue, 28 with one queue
//! of 16 for both purposes, 62 with two queues, of 16 and 64; on the tree 89 with the one queue and 200 with the two. When the stack is
//! empty, the items of both queues are taken out one by one. So a list, where there is only one task at a time, does not pass
//! through empty queue slots (44 with one queue that has empty slots, 270 with these).
//!
//! A task is a word that may be a reference, an object that is marked already, or a slice of a long object; two bits above all addresses
//! distinguish them. An object's words go straight into the queue of references, so that the stack has only objects that were not marked
//! before ([`scan`](super::scan)). On a processor of the generation Zen 4, a stack with a task for each word reached 37 in the random graph,
//! 104 in the tree and 154 in the list; this one reaches 47, 107 and 185.
//!
//! The hot loop keeps its data in local variables ([`Tasks`], [`AddressMap`]). Otherwise each store through a pointer, and there
//! is one for each reference, would make it load these data again. That took a sixth of the time.
//!
//! Every word is checked: it must be the address of a payload (the block table shows that in constant time), and its
//! header must not be 0. Nothing recurses (`.mark.deep`): a list of a million cells keeps one task on the stack.
//!
//! # Memory
//! The stack is mapped memory with a limit. When it is full, an object is marked but its fields are not scanned, and the
//! marker notes that there is such an object. Marking then walks over the heap and scans all marked objects again, until
//! the stack has not overflowed any more (`.mark.overflow`). Nothing here allocates: the world is stopped (`.stop.no-malloc`).
//!
//! Long arrays and untyped objects are scanned in slices, so that one object does not fill the stack and several markers can share it.
//!
//! # Untyped objects
//! Their words may be anything (`.mark.untyped`). Those of a short object are looked up at once, as in a typed object: most are no
//! addresses of the heap, and most others are the addresses of payloads, which the processor predicts. The words of a long object that
//! lie within the heap become tasks as they are ([`select`](super::select) finds them, many at a time), and the loop looks up what each
//! refers to when it takes the task. Which words refer to an object is a constant in each copy of the loop ([`FindTarget`]): a world
//! without such objects has the loop that it had before.
//!
//! # Reporting each reference
//! There is an event for each reference that marking examines. So there are two loops, made from one source: whether references
//! are reported is a constant in each, chosen when the marker is made. The usual loop contains no code for these events.

use std::ops::Range;

use super::linked_objects::LinkedObjects;
use super::mark_byte::{Epochs, unmark};
use super::mark_stack::{MarkStack, Tasks};
use super::root_areas::{Area, RootAreas, Words};
use super::scan::{
    ArraySlice, MARKED_TAG, MOST_SLICES, Marks, Queue, REFERENCES, Reference, SLICE_TAG, TypedScan, for_each_word,
    reference_to, slice_of, slice_task,
};
use super::select::{Avx2, Avx512, Bounds, ByWord, OVERRUN, Select, Width};
use super::sharing::Shared;
use crate::events::{EventId, Events};
use crate::heap::Heap;
use crate::heap::blocks::{AddressMap, BlockIndex, BlockState, Cell, Target};
use crate::heap::ephemerons::Ephemerons;
use crate::heap::layout::{CELL_BYTES, HEADER_BYTES, Space, cells_per_block};
use crate::heap::references::{Bases, Exact, FindTarget, Interior, References};
use crate::heap::trace::{Shape, TypeInfo};
use crate::os::memory::conservative_word;
use crate::sabotage::{Guard, removed};
use crate::sync::{Ordering::Relaxed, prefetch};

/// The number of objects that are processed between the prefetch of an object's header and fields and its scan.
const OBJECTS: usize = 64;
/// The number of words that [`Shape::Words`] describes: an object of that shape pushes at most this many references.
const WORDS: usize = u64::BITS as usize;
/// The size of the largest cells whose untyped objects are scanned word by word.
const SHORT_BYTES: usize = 128;
/// The smallest number of words of an untyped object that are scanned at once.
const UNTYPED_SLICE: usize = 2048;

/// One marker, for one mark phase.
pub(crate) struct Marker<'a> {
    pub(super) heap: &'a Heap,
    pub(super) stack: &'a mut MarkStack,
    /// The state shared with other markers, through which this one gives work away, while several threads mark.
    pub(crate) share: Option<&'a Shared>,
    pub(crate) events: &'a Events,
    /// Whether each reference is reported as an event.
    pub(super) tells: bool,
    base: usize,
    bytes: usize,
    epochs: Epochs,
    pub(super) map: AddressMap,
    /// Which words refer to objects.
    pub(super) references: References,
    width: Width,
    /// The number of objects that this marker has marked. An object for which two markers raced is counted by both.
    pub(crate) marked: u64,
    /// Whether objects were marked whose fields were not scanned, because the stack was full.
    pub(crate) overflowed: bool,
    /// Whether an object was marked at once, because the stack was full.
    pub(super) lacked_room: bool,
    /// The weak cells found so far, linked through their link words.
    pub(crate) weak_cells: LinkedObjects,
    /// The objects found so far whose references the binding finds, linked through their last words.
    pub(crate) bound_objects: LinkedObjects,
    /// The tables of weak maps found so far.
    pub(crate) tables: LinkedObjects,
}

/// How certain it is that an examined word is a reference, as events report it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum Rank {
    /// A word of a stack or a range.
    Ambiguous = 0,
    /// A word of an object or of a handle.
    Exact = 1,
    /// A finalizer's reference.
    Final = 2,
}

/// The number of tasks after which a marker offers work again.
const OFFER_EVERY: u64 = 256;

impl<'a> Marker<'a> {
    pub(crate) fn new(heap: &'a Heap, stack: &'a mut MarkStack, share: Option<&'a Shared>, events: &'a Events) -> Self {
        Self {
            events,
            tells: events.is_enabled(EventId::ReferenceFixed),
            base: heap.blocks.base(),
            bytes: heap.blocks.reserved_bytes(),
            epochs: Epochs { epoch: heap.epoch(), swept_epoch: heap.swept_epoch() },
            heap,
            stack,
            share,
            map: heap.blocks.map(),
            references: heap.references(),
            width: Width::of_processor(),
            marked: 0,
            overflowed: false,
            lacked_room: false,
            weak_cells: LinkedObjects::EMPTY,
            bound_objects: LinkedObjects::EMPTY,
            tables: LinkedObjects::EMPTY,
        }
    }

    /// Examines a word that may be anything, from a stack or a register. An interior pointer keeps its object alive, and so
    /// does one that points just past the object's end (`.stop.interior`).
    #[inline]
    pub(crate) fn conservative(&mut self, slot: usize, word: usize) {
        if word.wrapping_sub(self.base) <= self.bytes {
            self.events.fire_reference_fixed(slot, word, Rank::Ambiguous as u32);
            self.conservative_in_heap(word);
        }
    }

    fn conservative_in_heap(&mut self, word: usize) {
        let mut first = 0;
        // A pointer just past the end of one object is the header address of the next object, and a thread that was stopped in the
        // middle of an allocation may hold only the header address of its object. So both objects are kept alive.
        for probe in [word, word.wrapping_sub(1)] {
            if probe != word && removed(Guard::StopOnePastEnd) {
                continue;
            }
            if let Some(cell) = self.heap.blocks.cell_containing(probe)
                && cell.payload() != first
                && !(removed(Guard::StopInterior) && self.is_interior(word, cell.payload()))
                && self.heap.is_alive(cell)
            {
                first = cell.payload();
                self.push(first);
            }
        }
        if self.stack.is_half_full() {
            self.drain();
        }
    }

    /// Whether a word points into the object, after its first byte and before its end.
    fn is_interior(&self, word: usize, payload: usize) -> bool {
        let same = |cell: Cell| cell.payload() == payload;
        word != payload && self.heap.blocks.cell_containing(word).is_some_and(same)
    }

    /// Examines a word that is a reference or nothing; `slot` is its address.
    #[inline(always)]
    pub(crate) fn precise(&mut self, slot: usize, word: usize, rank: Rank) {
        if word.wrapping_sub(self.base) < self.bytes {
            self.events.fire_reference_fixed(slot, word, rank as u32);
            self.push(word);
        }
    }

    /// Examines a finalizer's reference, the last one to its object.
    pub(crate) fn last_reference(&mut self, object: usize) {
        self.precise(0, object, Rank::Final);
    }

    /// Examines the address of an object in a table of the program.
    pub(super) fn handle(&mut self, object: usize) {
        self.precise(0, object, Rank::Exact);
    }

    /// Examines the address of an object that shall live although no root refers to it.
    #[cfg(feature = "check")]
    pub(super) fn keep(&mut self, object: usize) {
        self.precise(0, object, Rank::Ambiguous);
        if self.stack.is_half_full() {
            self.drain();
        }
    }

    /// Pushes what an object refers to, without marking the object.
    ///
    /// # Safety
    /// There is an object at this payload address.
    pub(super) unsafe fn referents(&mut self, payload: usize) {
        // SAFETY: the header of an object is the address of a `TypeInfo`, which lives for ever.
        let info = unsafe { &*(self.map.header_word(payload, true) as *const TypeInfo) };
        match self.tells {
            true => self.scan::<true>(payload, info),
            false => self.scan::<false>(payload, info),
        }
    }

    /// Pushes what an untyped object refers to, except itself, without marking the object.
    ///
    /// # Safety
    /// There is an untyped object at this payload address.
    pub(super) unsafe fn other_referents(&mut self, payload: usize) {
        // SAFETY: the header of an object is the address of a `TypeInfo`, which lives for ever.
        let info = unsafe { &*(self.map.header_word(payload, true) as *const TypeInfo) };
        if info.shape != Shape::Untyped {
            return;
        }
        for slot in (payload..payload + self.heap.room_of(payload) / 8 * 8).step_by(size_of::<usize>()) {
            // SAFETY: a word of the object, in a stopped world.
            let word = unsafe { conservative_word(slot) };
            let is_other = |target: Target| target.payload != payload;
            if self.bounds().contain(word) && self.references.find(self.map, word).is_some_and(is_other) {
                self.untyped_word(word);
            }
        }
    }

    /// Returns the object that contains an address after its first byte.
    pub(super) fn object_of(&self, address: usize) -> Option<usize> {
        self.map.cell_pointed_into(address).map(|target| target.payload)
    }

    /// Examines a word as a word of an untyped object is examined.
    #[inline]
    pub(super) fn untyped_word(&mut self, word: usize) {
        if self.bounds().contain(word) {
            self.events.fire_reference_fixed(0, word, Rank::Ambiguous as u32);
            self.push(word);
            if self.stack.is_half_full() {
                self.drain();
            }
        }
    }

    /// Examines every word of a range conservatively.
    ///
    /// # Safety
    /// The range is readable, and no running thread writes it.
    pub(crate) unsafe fn conservative_range(&mut self, low: usize, high: usize) {
        let low = low.next_multiple_of(size_of::<usize>());
        let mut address = low;
        while address + size_of::<usize>() <= high {
            // SAFETY: the caller's promise.
            self.conservative(address, unsafe { conservative_word(address) });
            address += size_of::<usize>();
        }
        self.events.fire_area_scanned(low, high);
    }

    /// Scans a range of memory with words of this kind.
    ///
    /// # Safety
    /// As for [`conservative_range`](Self::conservative_range).
    pub(super) unsafe fn memory(&mut self, words: Words, low: usize, high: usize) {
        // SAFETY: the caller's promise.
        unsafe {
            match words {
                Words::Stack => self.conservative_range(low, high),
                Words::Registered => self.registered_range(low, high),
            }
        }
    }

    /// Scans these pieces of large roots. Marks what a piece leads to before it scans the next one.
    pub(super) fn pieces(&mut self, areas: &RootAreas<'_>, pieces: Range<usize>) {
        for piece in pieces {
            let (area, part) = areas.part(piece);
            match area {
                Area::Memory(words, low) => {
                    // SAFETY: a part of a range for which the caller of `RootAreas::add` has promised this as long as the list exists.
                    unsafe { self.memory(words, low + part.start, low + part.end) }
                }
                Area::Handles => areas.for_each_handle(part, |slot, object| self.precise(slot, object, Rank::Exact)),
            }
            self.drain();
        }
    }

    /// Returns the largest number of bytes that the marker's stack used since the last call.
    pub(crate) fn take_high_water(&mut self) -> usize {
        self.stack.take_high_water()
    }

    /// Takes over tasks that another marker gave away. This marker's stack is empty, and has room for them: they are at most half of
    /// what a stack of the same size had.
    pub(crate) fn adopt(&mut self, tasks: &[usize]) {
        for &task in tasks {
            let has_room = self.stack.push(task);
            debug_assert!(has_room);
        }
    }

    #[inline(always)]
    fn push(&mut self, task: usize) {
        if !self.stack.push(task) {
            self.mark_without_room(task);
        }
    }

    /// Called when the stack is full: marks the object now, and leaves its fields to [`recover_from_overflow`].
    ///
    /// [`recover_from_overflow`]: Self::recover_from_overflow
    #[cold]
    #[inline(never)]
    fn mark_without_room(&mut self, task: usize) {
        self.lacked_room = true;
        if let Some(target) = self.references.find(self.map, task)
            && self.mark(reference_to(self.map, target))
            && let Some(info) = self.info(target.payload, true)
        {
            self.marked += 1;
            match info.shape {
                Shape::Leaf => {}
                Shape::Weak => self.weak_cells.add(link_of_weak(target.payload)),
                Shape::Bound => self.add_bound(target.payload),
                Shape::Array { ephemerons: true, .. } => self.tables.add(Ephemerons::link_of(target.payload)),
                _ => self.overflowed = true,
            }
        }
    }

    /// Marks until nothing is left to do.
    pub(crate) fn drain(&mut self) {
        match self.references {
            References::Exact => self.drain_exact(),
            References::Interior => self.drain_untyped(Interior),
            References::Bases { displacements } => self.drain_untyped(Bases { displacements }),
        }
    }

    /// Without untyped objects there is nothing to select.
    fn drain_exact(&mut self) {
        if self.tells {
            self.drain_as::<true, _, _>(Exact, ByWord);
        } else {
            self.drain_as::<false, _, _>(Exact, ByWord);
        }
    }

    fn drain_untyped(&mut self, find: impl FindTarget) {
        match self.width {
            _ if self.tells => self.drain_as::<true, _, _>(find, ByWord),
            Width::Word => self.drain_as::<false, _, _>(find, ByWord),
            // SAFETY: the processor has these instructions.
            Width::Avx2 => unsafe { self.drain_with_avx2(find) },
            // SAFETY: as above.
            Width::Avx512 => unsafe { self.drain_with_avx512(find) },
        }
    }

    #[target_feature(enable = "avx2,popcnt")]
    fn drain_with_avx2(&mut self, find: impl FindTarget) {
        self.drain_as::<false, _, _>(find, Avx2);
    }

    #[target_feature(enable = "avx512f,popcnt")]
    fn drain_with_avx512(&mut self, find: impl FindTarget) {
        self.drain_as::<false, _, _>(find, Avx512);
    }

    /// The mark loop. It is inlined, so that it is compiled for the instructions of its caller.
    #[inline(always)]
    fn drain_as<const TELLS: bool, F: FindTarget, S: Select>(&mut self, find: F, select: S) {
        let mut references = Queue::<Reference, REFERENCES>::new(Reference { payload: 0, mark: std::ptr::null() });
        let mut objects = Queue::<usize, OBJECTS>::new(0);
        let mut marked = 0;
        let (map, bounds) = (self.map, self.bounds());
        self.stack.note_height();
        let initial = self.stack.tasks;
        let typed = TypedScan { find, marks: self.marks(), nowhere: initial.nowhere() };
        let mut tasks = initial;
        loop {
            // What is scanned soon: an object that has just been marked.
            let newest = if let Some(task) = tasks.pop() {
                if task & MARKED_TAG != 0 {
                    Some(task & !MARKED_TAG)
                } else if task & SLICE_TAG != 0 {
                    let (payload, slice) = slice_of(task);
                    let Some(info) = self.info(payload, F::HAS_COMPACT) else { continue };
                    if TELLS || !typed.scan_array(payload, info, slice, &mut references, &mut tasks) {
                        self.with_stack(&mut tasks, |marker| marker.scan_slice_task::<TELLS>(task));
                    }
                    continue;
                } else {
                    let Some(target) = find.find(map, task) else { continue };
                    let reference = reference_to(map, target);
                    prefetch(reference.mark as usize);
                    if !references.is_full() {
                        references.put(reference);
                        continue;
                    }
                    let oldest = references.exchange(reference);
                    if !typed.marks.mark_if_new(oldest) {
                        continue;
                    }
                    Some(oldest.payload)
                }
            } else if let Some(reference) = references.take() {
                if !typed.marks.mark_if_new(reference) {
                    continue;
                }
                Some(reference.payload)
            } else {
                None
            };
            let payload = if let Some(newest) = newest {
                // The header and the first words of the payload, which may lie on two lines. A third prefetch would make the
                // random graph a tenth slower.
                prefetch(newest - HEADER_BYTES);
                if F::HAS_COMPACT {
                    prefetch(map.kinds.address(newest));
                }
                prefetch(newest + F::PREFETCHED);
                if objects.is_full() {
                    objects.exchange(newest)
                } else if tasks.len() > 0 || !references.is_empty() {
                    objects.put(newest);
                    continue;
                } else if let Some(oldest) = objects.take() {
                    objects.put(newest);
                    oldest
                } else {
                    newest
                }
            } else {
                // There is no reference left, so if there is no object either, marking is done.
                let Some(oldest) = objects.take() else { break };
                oldest
            };
            let Some(info) = self.info(payload, F::HAS_COMPACT) else { continue };
            marked += 1;
            match info.shape {
                Shape::Words(bits) if !TELLS && tasks.has_room_for(WORDS) => {
                    for_each_word(payload, bits, |_, word| typed.examine(word, &mut references, &mut tasks));
                }
                Shape::Array { ephemerons: false, .. }
                    if !TELLS && typed.scan_array(payload, info, 0, &mut references, &mut tasks) => {}
                Shape::Untyped
                    if !TELLS && is_short(map.word_at(payload).cell_bytes()) && tasks.has_room_for(WORDS) =>
                {
                    for index in 0..map.word_at(payload).payload_bytes() / size_of::<usize>() {
                        // SAFETY: a word of a live object in a stopped world.
                        let word = unsafe { conservative_word(payload + index * size_of::<usize>()) };
                        typed.examine(word, &mut references, &mut tasks);
                    }
                }
                Shape::Untyped if !TELLS && fits(map.word_at(payload).cell_bytes(), tasks) => {
                    let words = map.word_at(payload).payload_bytes() / size_of::<usize>();
                    // SAFETY: the words of a live object in a stopped world, and room on the stack. The caller chose the way to
                    // select by the processor.
                    tasks.fill(|to| unsafe { select.select(payload as *const usize, words, bounds, to) });
                }
                _ => self.with_stack(&mut tasks, |marker| marker.scan::<TELLS>(payload, info)),
            }
            if marked % OFFER_EVERY == 0 {
                self.with_stack(&mut tasks, Self::offer);
            }
        }
        self.marked += marked;
        (tasks.bottom, tasks.top) = (0, 0);
        self.stack.tasks = tasks;
    }

    /// Runs `work` on the stack itself, while the hot loop has a copy of the stack's [`Tasks`].
    #[inline(always)]
    fn with_stack(&mut self, tasks: &mut Tasks, work: impl FnOnce(&mut Self)) {
        self.stack.tasks = *tasks;
        work(self);
        *tasks = self.stack.tasks;
    }

    fn offer(&mut self) {
        self.stack.note_height();
        if let Some(shared) = self.share {
            shared.offer(self.stack);
        }
    }

    /// What marking a cell needs.
    #[inline(always)]
    fn marks(&self) -> Marks {
        Marks { map: self.map, epochs: self.epochs }
    }

    /// See [`Marks::mark_if_new`]. After that, [`info`](Self::info) finds out whether the cell contains an object at all.
    #[inline(always)]
    pub(super) fn mark(&self, reference: Reference) -> bool {
        self.marks().mark_if_new(reference)
    }

    /// Returns the type of the object in a cell that has just been marked. If there is no object in it, unmarks the cell and returns `None`.
    #[inline(always)]
    pub(super) fn info(&self, payload: usize, has_compact: bool) -> Option<&'static TypeInfo> {
        // SAFETY: the payload of a cell in a committed block.
        let header = unsafe { self.map.header_word(payload, has_compact) };
        if header == 0 {
            self.unmark(payload);
            return None;
        }
        // SAFETY: a header that is not 0 is the address of a `TypeInfo`, which lives for ever.
        Some(unsafe { &*(header as *const TypeInfo) })
    }

    /// Unmarks a free cell, which was marked because of a word that is no reference. 0 is not an epoch.
    #[cold]
    fn unmark(&self, payload: usize) {
        if let Some(target) = Exact.find(self.map, payload) {
            // SAFETY: the address map made the number, so the byte is in the mark table, which lives as long as the heap.
            unmark(unsafe { &*self.map.mark_of_number(target.number) });
        }
    }

    /// Pushes every word of an object that may be a reference.
    #[inline(always)]
    pub(super) fn scan<const TELLS: bool>(&mut self, payload: usize, info: &TypeInfo) {
        match info.shape {
            Shape::Leaf => {}
            Shape::Words(bits) => self.scan_words::<TELLS>(payload, bits),
            Shape::Wide(ref bitmaps) => self.scan_bitmaps::<TELLS>(payload, bitmaps),
            Shape::Array { ephemerons: true, .. } => self.tables.add(Ephemerons::link_of(payload)),
            Shape::Array { .. } => self.scan_slice::<TELLS>(payload, info, 0),
            Shape::Weak => self.weak_cells.add(link_of_weak(payload)),
            Shape::Bound => self.add_bound(payload),
            Shape::Untyped => self.scan_untyped::<TELLS>(payload, 0),
        }
    }

    /// Adds an object to those whose references the binding finds. They are linked through their last words.
    fn add_bound(&mut self, payload: usize) {
        self.bound_objects.add(payload + self.heap.room_of(payload) - size_of::<usize>());
    }

    /// Scans one slice of an untyped object. The next slice is pushed as a task first, below the words of this slice.
    fn scan_untyped<const TELLS: bool>(&mut self, payload: usize, slice: usize) {
        let words = self.heap.room_of(payload) / size_of::<usize>();
        let at_once = UNTYPED_SLICE.max(words.div_ceil(MOST_SLICES));
        let first = slice * at_once;
        let mut end = words.min(first + at_once);
        if end < words && !self.stack.push(slice_task(payload, slice + 1)) {
            end = words;
        }
        // SAFETY: the words of an object of the stopped world.
        unsafe { self.push_words::<TELLS>(payload + first * size_of::<usize>(), end - first) };
    }

    /// Pushes those of the words at `address` that may refer to objects.
    ///
    /// # Safety
    /// The words are readable, and no running thread writes them.
    unsafe fn push_words<const TELLS: bool>(&mut self, address: usize, words: usize) {
        let bounds = self.bounds();
        let mut done = 0;
        while done < words {
            let (from, count) = (address + done * size_of::<usize>(), (words - done).min(UNTYPED_SLICE));
            if TELLS || !self.stack.tasks.has_room_for(count + OVERRUN) || is_near_here(from, count) {
                for index in 0..count {
                    let slot = from + index * size_of::<usize>();
                    // SAFETY: the caller's promise.
                    let word = unsafe { conservative_word(slot) };
                    if bounds.contain(word) {
                        if TELLS {
                            self.events.fire_reference_fixed(slot, word, Rank::Ambiguous as u32);
                        }
                        self.push(word);
                    }
                }
            } else {
                let (width, from) = (self.width, from as *const usize);
                // SAFETY: the caller's promise, and the stack has room. The processor has the instructions of `width`.
                self.stack.tasks.fill(|to| unsafe {
                    match width {
                        Width::Word => ByWord.select(from, count, bounds, to),
                        Width::Avx2 => Avx2.select(from, count, bounds, to),
                        Width::Avx512 => Avx512.select(from, count, bounds, to),
                    }
                });
            }
            done += count;
        }
    }

    /// The words that may refer to untyped objects. The last address just past the end of an object is that of the heap's end.
    #[inline(always)]
    fn bounds(&self) -> Bounds {
        Bounds { low: self.base + 1, bytes: self.bytes }
    }

    /// Scans a range of ordinary memory that the program registered: as untyped objects are scanned, if there can be any.
    ///
    /// # Safety
    /// As for [`conservative_range`](Self::conservative_range).
    pub(crate) unsafe fn registered_range(&mut self, low: usize, high: usize) {
        if self.references == References::Exact {
            // SAFETY: the caller's promise.
            return unsafe { self.conservative_range(low, high) };
        }
        let mut from = low.next_multiple_of(size_of::<usize>());
        let end = high / size_of::<usize>() * size_of::<usize>();
        while from < end {
            let words = ((end - from) / size_of::<usize>()).min(UNTYPED_SLICE);
            // SAFETY: the caller's promise.
            unsafe {
                match self.tells {
                    true => self.push_words::<true>(from, words),
                    false => self.push_words::<false>(from, words),
                }
            }
            if self.stack.is_half_full() {
                self.drain();
            }
            from += words * size_of::<usize>();
        }
        self.events.fire_area_scanned(low, high);
    }

    #[inline(always)]
    fn scan_words<const TELLS: bool>(&mut self, address: usize, bits: u64) {
        for_each_word(address, bits, |slot, word| {
            if word.wrapping_sub(self.base) < self.bytes {
                if TELLS {
                    self.events.fire_reference_fixed(slot, word, Rank::Exact as u32);
                }
                self.push(word);
            }
        });
    }

    fn scan_bitmaps<const TELLS: bool>(&mut self, address: usize, bitmaps: &[u64]) {
        for (index, &bits) in bitmaps.iter().enumerate() {
            self.scan_words::<TELLS>(address + index * 64 * 8, bits);
        }
    }

    pub(super) fn scan_slice_task<const TELLS: bool>(&mut self, task: usize) {
        let (payload, slice) = slice_of(task);
        let Some(info) = self.info(payload, true) else { return };
        match info.shape {
            Shape::Untyped => self.scan_untyped::<TELLS>(payload, slice),
            _ => self.scan_slice::<TELLS>(payload, info, slice),
        }
    }

    /// Scans one slice of an array. The next slice is pushed as a task first, below the references of this slice.
    fn scan_slice<const TELLS: bool>(&mut self, payload: usize, info: &TypeInfo, slice: usize) {
        let Some(mut elements) = ArraySlice::of(payload, info, slice) else { return };
        if elements.has_next && !self.stack.push(slice_task(payload, slice + 1)) {
            elements = elements.with_all_others();
        }
        elements.prefetch_next();
        let one_bitmap = elements.has_one_bitmap();
        for address in elements.addresses() {
            if one_bitmap {
                self.scan_words::<TELLS>(address, elements.bitmaps[0]);
            } else {
                self.scan_bitmaps::<TELLS>(address, elements.bitmaps);
            }
        }
    }

    /// After an overflow: scans every marked object again, and repeats that while the stack overflows. This ends, because each overflow
    /// means that an object was newly marked.
    pub(crate) fn recover_from_overflow(&mut self) {
        while std::mem::take(&mut self.overflowed) {
            if removed(Guard::MarkOverflow) {
                return;
            }
            for block in 0..self.heap.committed_blocks() {
                self.rescan_block(block);
            }
        }
    }

    fn rescan_block(&mut self, block: BlockIndex) {
        let info = self.heap.blocks.info(block);
        let (space, cells, cell_bytes) = match info.state() {
            BlockState::Free | BlockState::Reserved | BlockState::LargeTail => return,
            BlockState::LargeHead => (Space::Large as u32, 1, 0),
            _ => {
                let cell_bytes = CELL_BYTES[usize::from(info.head.class.load(Relaxed))];
                (u32::from(info.head.space.load(Relaxed)), cells_per_block(cell_bytes), cell_bytes)
            }
        };
        let mut objects = 0;
        for index in 0..cells as u32 {
            if self.heap.blocks.mark(block, index).load(Relaxed) == self.epochs.epoch {
                let cell = self.heap.blocks.cell(block, cell_bytes, index);
                // SAFETY: marked cells have headers.
                let info = unsafe { &*(self.heap.blocks.header_word(cell) as *const TypeInfo) };
                if !matches!(info.shape, Shape::Weak | Shape::Bound | Shape::Array { ephemerons: true, .. }) {
                    match self.tells {
                        true => self.scan::<true>(cell.payload(), info),
                        false => self.scan::<false>(cell.payload(), info),
                    }
                    self.drain();
                }
                objects += 1;
            }
        }
        if objects > 0 {
            self.events.fire_block_scanned(self.heap.blocks.start(block), space, objects);
        }
    }
}

/// The link word of a weak cell: its second.
fn link_of_weak(payload: usize) -> usize {
    payload + size_of::<usize>()
}

/// Whether some of the words are near the caller's own frame, as on the stack of a coroutine that the program has registered, and that
/// collects. Vectors of words are copied there, and source and destination must not overlap.
#[inline]
fn is_near_here(from: usize, count: usize) -> bool {
    /// More than the frames of a selection take.
    const NEAR: usize = 4096;
    let here = 0_u8;
    let here = &raw const here as usize;
    from < here + NEAR && here - NEAR < from + count * size_of::<usize>()
}

/// Returns whether an untyped object in a cell of this size has so few words that each is examined, as in a typed object. A large object's
/// cells have size 0.
#[inline(always)]
fn is_short(cell_bytes: usize) -> bool {
    cell_bytes > 0 && cell_bytes <= SHORT_BYTES
}

/// Returns whether the words of an untyped object in a cell of this size can be pushed at once. A large object's cells have size 0.
#[inline(always)]
fn fits(cell_bytes: usize, tasks: Tasks) -> bool {
    cell_bytes > 0 && tasks.has_room_for(cell_bytes / size_of::<usize>() + OVERRUN)
}
