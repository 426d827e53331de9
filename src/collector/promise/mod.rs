//! The promise of `attach`, checked: a search for references that marking does not see.
//!
//! ```text
//!   prepare    before the locks of a collection      maps and allocates what the search needs; finds the statics
//!   run        the world is stopped, after marking   notes each hidden reference; marks the objects that shall be kept
//!   report     the world runs, no lock is held       names, prints, panics
//! ```
//!
//! # Where it belongs
//! The search comes after all objects that roots reach are marked, and after the check that the stop still holds: a collection that is discarded
//! reports nothing. What it reports is exact (`.promise.search`): the objects that would be freed now, if a word of the searched memory is an address
//! in them. It comes before weak references are cleared, entries of weak maps removed and finalizers queued. For these, an object
//! that is kept is alive like any other: a weak reference to it stays, its finalizer does not run (`.promise.keep`). An object that
//! is about to be finalized and has a hidden reference is reported too: the code that has the reference does not expect the finalizer.
//!
//! # Memory that changes
//! Threads that are not attached run on. They free and unmap blocks while the collector reads them. So the collector reads by a system
//! call that copies, and that fails at an address that is not mapped. A block that such a thread has freed and allocated again meanwhile may be
//! searched with the new words; the report then names the old block.
//!
//! The search allocates nothing (`.stop.no-malloc`): its lists have the room that `prepare` gave them, and what exceeds that is counted.

mod sites;

use std::io;
use std::sync::Arc;

use self::sites::Sites;
use super::ephemerons;
use super::parallel::Marking;
use crate::check::{CheckPromise, Found, OwnMemory, Place, Reporter, TraceId, for_each_block};
use crate::events::{EventId, EventSet, Events, ListenError, Selection};
use crate::heap::Heap;
use crate::heap::trace::TypeInfo;
use crate::os::loaded::{self, thread_pointer};
use crate::os::own_memory::{self, MOST_RANGES, Range, copy_to};
use crate::os::thread;
use crate::sabotage::{Guard, removed};
use crate::sync::{AtomicUsize, Ordering::Relaxed};

const WORD: usize = size_of::<usize>();
/// The number of words that are copied at once.
const COPIED_WORDS: usize = 1 << 15;
/// The largest number of hidden references that one search notes.
const MOST_FOUND: usize = 4096;
/// How far below the thread pointer the thread-local variables of a library that was loaded with the program may be.
const MOST_THREAD_LOCAL_BYTES: usize = 16 << 20;

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
        if copy_to(&[range], &mut copy) != WORD || copy[0] != word {
            return Err(CannotCheck::Copy);
        }
        let sites = Sites::new(heap.blocks.base(), heap.blocks.reserved_bytes()).map_err(CannotCheck::System)?;
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
        let (own_thread, main_thread) = (thread_pointer(), self.main_thread.load(Relaxed));
        loaded::for_each(|file| {
            let writable = file.segments().filter(|(_, _, is_writable)| *is_writable);
            areas.extend(writable.map(|(low, high, _)| (low, high, Place::Static)));
            // Below the thread pointer are the variables of the files that were loaded with the program, at the same distance in each thread.
            let distance =
                |address: usize| own_thread.checked_sub(address).filter(|bytes| *bytes <= MOST_THREAD_LOCAL_BYTES);
            if let Some((low, high)) = file.thread_locals()
                && let (Some(low), Some(high)) = (distance(low), distance(high))
                && main_thread != 0
            {
                areas.push((main_thread - low, main_thread - high, Place::ThreadLocal));
            }
        });
        Search {
            promise: self,
            areas,
            found: Vec::with_capacity(MOST_FOUND),
            more: 0,
            pieces: Vec::with_capacity(MOST_RANGES),
            copy: vec![0; COPIED_WORDS],
        }
    }

    /// Reports what a search has found. Called when the world runs, without a lock.
    ///
    /// # Panics
    /// If the settings say so, and a reference was reported.
    pub(super) fn report(&self, collection: u32, search: Search<'_>) {
        if !search.found.is_empty() {
            self.reporter.report(collection, &search.found, search.more);
        }
    }
}

/// A part of memory that is searched, of at most [`COPIED_WORDS`] words.
#[derive(Clone, Copy)]
struct Piece {
    range: Range,
    place: Place,
}

/// The search of one collection.
pub(super) struct Search<'a> {
    promise: &'a Promise,
    /// Memory that does not come from the allocator: beginning, end, and what it is.
    areas: Vec<(usize, usize, Place)>,
    found: Vec<Found>,
    /// The number of hidden references that had no room in `found`.
    more: u64,
    /// The pieces that are copied next.
    pieces: Vec<Piece>,
    copy: Vec<u64>,
}

impl Search<'_> {
    /// Searches all memory for hidden references. Called in the stopped world, after marking.
    pub(super) fn run(&mut self, heap: &Heap, marking: &mut Marking<'_>) {
        let mut areas = std::mem::take(&mut self.areas);
        for &(low, high, place) in &areas {
            self.add(heap, marking, low, high, place);
        }
        areas.clear();
        // The list keeps its memory, which is freed when the world runs again.
        self.areas = areas;
        for_each_block(|block| {
            let (address, bytes) = (block.address as usize, block.about.bytes as usize);
            let place = Place::Block { address, bytes, trace: TraceId(block.about.trace) };
            self.add(heap, marking, address, address + bytes, place);
        });
        self.look(heap, marking);
        if self.promise.reporter.keeps() && !self.found.is_empty() {
            marking.run_on();
            ephemerons::mark_values(marking);
        }
    }

    /// Adds a range to what is searched. Reads what was added before if there is no room.
    fn add(&mut self, heap: &Heap, marking: &mut Marking<'_>, low: usize, high: usize, place: Place) {
        let mut low = low.next_multiple_of(WORD);
        let high = high / WORD * WORD;
        while low < high {
            let used: usize = self.pieces.iter().map(|piece| piece.range.bytes).sum();
            let room = COPIED_WORDS * WORD - used;
            if room == 0 || self.pieces.len() == MOST_RANGES {
                self.look(heap, marking);
                continue;
            }
            let bytes = room.min(high - low);
            self.pieces.push(Piece { range: Range { low, bytes }, place });
            low += bytes;
        }
    }

    /// Copies the pieces and looks at their words.
    fn look(&mut self, heap: &Heap, marking: &mut Marking<'_>) {
        let mut first = 0;
        while first < self.pieces.len() {
            let mut ranges = [Range { low: 0, bytes: 0 }; own_memory::MOST_RANGES];
            let count = self.pieces.len() - first;
            for (range, piece) in ranges.iter_mut().zip(&self.pieces[first..]) {
                *range = piece.range;
            }
            let mut copied = copy_to(&ranges[..count], &mut self.copy);
            let mut at = 0;
            while let Some(&Piece { range, place }) = self.pieces.get(first) {
                let readable = range.bytes.min(copied) / WORD;
                for index in 0..readable {
                    let word = self.copy[at + index] as usize;
                    if word.wrapping_sub(heap.blocks.base()) < heap.blocks.reserved_bytes() {
                        self.examine(heap, marking, range.low + index * WORD, word, place);
                    }
                }
                first += 1;
                at += readable;
                copied -= range.bytes.min(copied);
                if readable < range.bytes / WORD {
                    // The rest of this piece cannot be read: it was freed meanwhile. Continue with the next piece.
                    break;
                }
            }
        }
        self.pieces.clear();
    }

    /// Notes a word that lies in the heap, if it refers to an object that is not marked.
    fn examine(&mut self, heap: &Heap, marking: &mut Marking<'_>, slot: usize, word: usize, place: Place) {
        let Some(cell) = heap.blocks.cell_containing(word) else { return };
        let object = cell.payload();
        // A pointer to a header refers to no object: allocation caches have some.
        if word < object || heap.is_marked(object) || !heap.is_alive(cell) {
            return;
        }
        if self.found.len() == MOST_FOUND {
            self.more += 1;
        } else {
            // SAFETY: the header of an object is the address of a `TypeInfo`, which lives for ever.
            let info = unsafe { &*(heap.blocks.header_word(cell) as *const TypeInfo) };
            self.found.push(Found {
                slot,
                place,
                object,
                offset: word - object,
                bytes: heap.room_of(object),
                type_name: info.name(),
                allocated: self.promise.sites.of(object),
            });
        }
        if self.promise.reporter.keeps() && !removed(Guard::PromiseKeep) {
            marking.marker.keep(object);
        }
    }
}
