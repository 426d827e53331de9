//! The promise of `attach`, checked: a search for references that marking does not see.
//!
//! ```text
//!   prepare    before the locks of a collection      maps and allocates what the search needs; finds the statics
//!   run        the world is stopped, after marking   notes each hidden reference; then marks the objects that shall be kept
//!   report     the collection is over                names, prints, panics
//! ```
//!
//! # Where it belongs
//! The search comes after all objects that roots reach are marked, and after the check that the stop still holds: a collection that is discarded
//! reports nothing. What it reports is exact (`.promise.search`): the objects that would be freed now, if a word of the searched memory is an address
//! in them. It comes before weak references are cleared, entries of weak maps removed and finalizers queued. For these, an object
//! that is kept is alive like any other: a weak reference to it stays, its finalizer does not run (`.promise.keep`). An object that
//! is about to be finalized and has a hidden reference is reported too: the code that has the reference does not expect the finalizer.
//! The same holds for what such an object reaches. All memory is searched before the first object is kept, so an object that only a kept one
//! refers to is reported if a word refers to it. A binding marks objects after the search, and so cannot be used together with it.
//!
//! A search notes at most [`MOST_FOUND`] words. Words that an earlier collection has noted do not count: their objects are kept again, and no more.
//! So the next collection notes the next ones.
//!
//! # Memory that changes
//! Threads that are not attached run on. They free and unmap blocks while the collector reads them. So the collector reads by a system
//! call that copies, and that fails at an address that is not mapped. What cannot be read is left out, a page at a time. A word of a block that
//! has left its slot of the table meanwhile is no reference: the memory may belong to the collector, or to another block.
//!
//! The search allocates nothing (`.stop.no-malloc`): its lists have the room that `prepare` gave them, and what exceeds that is counted.

mod sites;

use std::io;
use std::sync::Arc;

use self::sites::Sites;
use super::ephemerons;
use super::live_heap::{LiveHeap, Object};
use super::parallel::Marking;
pub(crate) use crate::check::MayPanic;
use crate::check::{
    self, Block, CheckPromise, Found, Known, OwnMemory, Place, Reporter, TraceId, for_each_block, is_still_listed,
};
use crate::events::{EventId, EventSet, Events, ListenError, Selection};
use crate::heap::Heap;
use crate::heap::array::ARRAY_HEAD_BYTES;
use crate::heap::trace::{Shape, TypeInfo};
use crate::os::loaded::{self, thread_pointer};
use crate::os::memory::{conservative_word, page_size};
use crate::os::own_memory::{MOST_RANGES, Range, copy_to};
use crate::os::{Errno, thread};
use crate::sabotage::{Guard, removed};
use crate::sync::{AtomicUsize, Ordering::Relaxed};
use crate::world::registry::Threads;

const WORD: usize = size_of::<usize>();
/// The number of words that are copied at once.
const COPIED_WORDS: usize = 1 << 15;
/// The largest number of hidden references that one search notes.
const MOST_FOUND: usize = 4096;
/// The largest number of objects that are kept without a second search.
const MOST_KEPT: usize = 1 << 16;

/// Why a world cannot check the promise.
#[derive(Debug)]
pub(crate) enum CannotCheck {
    /// The process cannot copy its own memory.
    Copy,
    System(io::Error),
    Listen(ListenError),
}

/// The check of a world.
pub(crate) struct Promise {
    reporter: Reporter,
    sites: Arc<Sites>,
    /// The main thread's thread pointer; 0 if that thread has not attached.
    main_thread: AtomicUsize,
}

impl Promise {
    /// Prepares the check of a world with this heap.
    pub(crate) fn new(settings: CheckPromise, heap: &Heap) -> Result<Self, CannotCheck> {
        let (word, mut copy) = (1_u64, [0]);
        let range = Range { low: &raw const word as usize, bytes: WORD };
        if copy_to(&[range], &mut copy) != Ok(WORD) || copy[0] != word {
            return Err(CannotCheck::Copy);
        }
        let sites = Sites::new(heap.blocks.base(), heap.blocks.reserved_bytes()).map_err(CannotCheck::System)?;
        check::map_stores().map_err(CannotCheck::System)?;
        // In the child of a fork, this list may be the last one.
        loaded::files();
        Ok(Self { reporter: Reporter::new(settings), sites: Arc::new(sites), main_thread: AtomicUsize::new(0) })
    }

    /// Begins to note where objects are allocated.
    pub(crate) fn listen(&self, events: &Events) -> Result<(), CannotCheck> {
        let mut allocations = EventSet::NONE;
        allocations.insert(EventId::ObjectAllocated);
        let sites: Arc<Sites> = Arc::clone(&self.sites);
        events.listen(sites, Selection::of(allocations)).map(drop).map_err(CannotCheck::Listen)
    }

    /// Called on each thread that has attached.
    pub(crate) fn attached(&self) {
        if thread::is_main() {
            self.main_thread.store(thread_pointer(), Relaxed);
        }
    }

    /// Prepares a search. Called before a collection takes its locks.
    pub(super) fn prepare(&self) -> Search<'_> {
        let _own = OwnMemory::begin();
        let mut areas = Vec::new();
        let main_thread = self.main_thread.load(Relaxed);
        for file in &*loaded::files() {
            let writable = file.segments.iter().filter(|(_, _, is_writable)| *is_writable);
            areas.extend(writable.map(|&(low, high, _)| (low, high, Place::Static)));
            if let Some((low, high)) = file.thread_locals
                && main_thread != 0
            {
                areas.push((main_thread - low, main_thread - high, Place::ThreadLocal));
            }
        }
        Search {
            promise: self,
            number: 0,
            areas,
            known: self.reporter.known(),
            found: Vec::with_capacity(MOST_FOUND),
            more: 0,
            hidden: Vec::with_capacity(MOST_KEPT),
            has_more_hidden: false,
            pieces: Vec::with_capacity(MOST_RANGES),
            queued_bytes: 0,
            copy: vec![0; COPIED_WORDS],
            refused: None,
        }
    }

    pub(crate) fn fork_prepare(&self) {
        self.reporter.lock().acquire();
    }

    /// # Safety
    /// Ends what [`fork_prepare`](Self::fork_prepare) has begun, in the parent.
    pub(crate) unsafe fn fork_parent(&self) {
        // SAFETY: the caller's promise.
        unsafe { self.reporter.lock().release() };
    }

    /// # Safety
    /// Ends what [`fork_prepare`](Self::fork_prepare) has begun, in the child.
    pub(crate) unsafe fn fork_child(&self) {
        // SAFETY: the caller's promise.
        unsafe { self.reporter.lock().reset_in_child() };
        if self.main_thread.load(Relaxed) != thread_pointer() {
            // The main thread of the parent does not exist. The variables of the only thread are at the end of its stack.
            self.main_thread.store(0, Relaxed);
        }
    }
}

/// A part of memory that is searched, of at most [`COPIED_WORDS`] words.
#[derive(Clone, Copy)]
struct Piece {
    range: Range,
    place: Place,
    /// The block, if it comes from the allocator.
    block: Option<Block>,
}

impl Piece {
    /// Returns whether the memory still belongs to what it was listed for.
    fn is_valid(&self) -> bool {
        self.block.is_none_or(|block| is_still_listed(&block))
    }
}

/// The search of one collection.
pub(crate) struct Search<'a> {
    promise: &'a Promise,
    /// The number of the collection.
    number: u32,
    /// Memory that does not come from the allocator: beginning, end, and what it is.
    areas: Vec<(usize, usize, Place)>,
    /// The words that were noted by earlier collections.
    known: Known,
    found: Vec<Found>,
    /// The number of hidden references that had no room in `found`.
    more: u64,
    /// The objects of all hidden references, also of known ones, as far as there is room.
    hidden: Vec<usize>,
    has_more_hidden: bool,
    /// The pieces that are copied next.
    pieces: Vec<Piece>,
    /// The sum of their bytes.
    queued_bytes: usize,
    copy: Vec<u64>,
    /// Why the memory could not be read.
    refused: Option<Errno>,
}

impl Search<'_> {
    /// Searches all memory for hidden references. Called in the stopped world, after marking.
    pub(super) fn run(&mut self, live_heap: &LiveHeap<'_>, marking: &mut Marking<'_>) {
        self.number = live_heap.number();
        self.search(live_heap, None);
        if !self.promise.reporter.keeps() || self.hidden.is_empty() || removed(Guard::PromiseKeep) {
            return;
        }
        for &object in &self.hidden {
            marking.marker.keep(object);
        }
        if self.has_more_hidden {
            self.search(live_heap, Some(marking));
        }
        marking.run_on();
        ephemerons::mark_values(marking);
    }

    /// Reports what was found. Called when the collection is over, without a lock.
    ///
    /// # Panics
    /// If the settings say so, and a reference was reported.
    pub(super) fn report(self, threads: &Threads, may_panic: MayPanic) {
        let Self { promise: Promise { reporter, .. }, number, found, more, refused, .. } = self;
        // Reading debugging information takes long. Stops do not wait for it.
        let named = threads.as_blocking(|| reporter.name(number, &found));
        drop(found);
        reporter.deliver(number, &named, more, refused, may_panic);
    }

    /// Searches all memory. Notes what it finds, or, with `keeping`, keeps it.
    fn search(&mut self, live_heap: &LiveHeap<'_>, mut keeping: Option<&mut Marking<'_>>) {
        let heap = live_heap.heap();
        for index in 0..self.areas.len() {
            let (low, high, place) = self.areas[index];
            self.add(heap, &mut keeping, low, high, place, None);
        }
        for_each_block(|block| {
            let (address, bytes) = (block.address as usize, block.about.bytes as usize);
            let place = Place::Block { address, bytes, trace: TraceId(block.about.trace) };
            self.add(heap, &mut keeping, address, address + bytes, place, Some(block));
        });
        self.look(heap, &mut keeping);
        live_heap.for_each_cell(|cell| {
            if cell.lives {
                self.look_at_object(heap, &mut keeping, &cell.object());
            }
        });
    }

    /// Looks at the words of a live object that marking does not read.
    fn look_at_object(&mut self, heap: &Heap, keeping: &mut Option<&mut Marking<'_>>, object: &Object) {
        let (info, address) = (object.info, object.payload());
        for_each_unscanned_word(address, info, |slot| {
            // SAFETY: a word of a live object.
            let word = unsafe { conservative_word(slot) };
            if is_in_heap(heap, word) {
                let place =
                    Place::Object { address, type_name: info.rust_name(), trace: self.promise.sites.of(address) };
                let piece = Piece { range: Range { low: slot, bytes: WORD }, place, block: None };
                self.examine(heap, keeping, slot, word, &piece);
            }
        });
    }

    /// Adds a range to what is searched. Reads what was added before if there is no room.
    fn add(
        &mut self,
        heap: &Heap,
        keeping: &mut Option<&mut Marking<'_>>,
        low: usize,
        high: usize,
        place: Place,
        block: Option<Block>,
    ) {
        let mut low = low.next_multiple_of(WORD);
        let high = high / WORD * WORD;
        while low < high && self.refused.is_none() {
            let room = COPIED_WORDS * WORD - self.queued_bytes;
            if room == 0 || self.pieces.len() == MOST_RANGES {
                self.look(heap, keeping);
                continue;
            }
            let bytes = room.min(high - low);
            self.pieces.push(Piece { range: Range { low, bytes }, place, block });
            self.queued_bytes += bytes;
            low += bytes;
        }
    }

    /// Copies the pieces and looks at their words.
    fn look(&mut self, heap: &Heap, keeping: &mut Option<&mut Marking<'_>>) {
        let mut first = 0;
        while first < self.pieces.len() {
            let mut ranges = [Range { low: 0, bytes: 0 }; MOST_RANGES];
            let count = self.pieces.len() - first;
            for (range, piece) in ranges.iter_mut().zip(&self.pieces[first..]) {
                *range = piece.range;
            }
            let mut copied = match copy_to(&ranges[..count], &mut self.copy) {
                Ok(copied) => copied,
                Err(error) => {
                    self.refused = Some(error);
                    break;
                }
            };
            let mut at = 0;
            while let Some(&piece) = self.pieces.get(first) {
                let Range { low, bytes } = piece.range;
                let readable = bytes.min(copied) / WORD * WORD;
                for index in 0..readable / WORD {
                    let word = self.copy[at + index] as usize;
                    if is_in_heap(heap, word) {
                        self.examine(heap, keeping, low + index * WORD, word, &piece);
                    }
                }
                at += readable / WORD;
                copied -= readable;
                if readable < bytes {
                    // The next page cannot be read. Unless the block was freed, read on after that page.
                    let (next, end) = ((low + readable + 1).next_multiple_of(page_size()), low + bytes);
                    if next < end && piece.is_valid() {
                        self.pieces[first].range = Range { low: next, bytes: end - next };
                    } else {
                        first += 1;
                    }
                    break;
                }
                first += 1;
            }
        }
        self.pieces.clear();
        self.queued_bytes = 0;
    }

    /// Notes a word that lies in the heap, if it refers to an object that is not marked.
    fn examine(
        &mut self,
        heap: &Heap,
        keeping: &mut Option<&mut Marking<'_>>,
        slot: usize,
        word: usize,
        piece: &Piece,
    ) {
        let Some(cell) = heap.blocks.cell_containing(word) else { return };
        let object = cell.payload();
        // A pointer to a header refers to no object: allocation caches have some.
        if word < object || heap.is_marked(object) || !heap.is_alive(cell) || !piece.is_valid() {
            return;
        }
        if let Some(marking) = keeping {
            marking.marker.keep(object);
            return;
        }
        if self.hidden.len() < MOST_KEPT {
            self.hidden.push(object);
        } else {
            self.has_more_hidden = true;
        }
        // SAFETY: the header of an object is the address of a `TypeInfo`, which lives for ever.
        let info = unsafe { &*(heap.blocks.header_word(cell) as *const TypeInfo) };
        let found = Found {
            slot,
            place: piece.place,
            object,
            offset: word - object,
            bytes: heap.room_of(object),
            type_name: info.name(),
            allocated: self.promise.sites.of(object),
        };
        if self.known.contains(&found) {
            return;
        }
        if self.found.len() < MOST_FOUND {
            self.found.push(found);
        } else {
            self.more += 1;
        }
    }
}

/// Returns whether a word may be an address in this heap.
fn is_in_heap(heap: &Heap, word: usize) -> bool {
    word.wrapping_sub(heap.blocks.base()) < heap.blocks.reserved_bytes()
}

/// Visits the address of each aligned word of a live object that belongs to its value and that marking does not read. Not the words of an
/// array whose elements have no references: the size of an element is not known.
fn for_each_unscanned_word(payload: usize, info: &TypeInfo, mut visit: impl FnMut(usize)) {
    let mut visit_others = |value: usize, bytes: usize, bitmaps: &[u64]| {
        for word in 0..bytes / WORD {
            let is_scanned =
                bitmaps.get(word / u64::BITS as usize).is_some_and(|bits| bits >> (word % u64::BITS as usize) & 1 == 1);
            if !is_scanned {
                visit(value + word * WORD);
            }
        }
    };
    match info.shape {
        Shape::Leaf if info.is_array => {}
        Shape::Leaf => visit_others(payload, info.size(), &[]),
        Shape::Words(bits) => visit_others(payload, info.size(), &[bits]),
        Shape::Wide(ref bitmaps) => visit_others(payload, info.size(), bitmaps),
        Shape::Array { ephemerons: false, stride, ref element } => {
            // SAFETY: a live array's first word is its length.
            let length = unsafe { conservative_word(payload) };
            for index in 0..length {
                visit_others(payload + ARRAY_HEAD_BYTES + index * stride as usize, stride as usize, element);
            }
        }
        // A weak reference does not keep its target, nor a weak map its keys; marking reads each word of the others.
        Shape::Array { ephemerons: true, .. } | Shape::Weak | Shape::Untyped | Shape::Bound => {}
    }
}
