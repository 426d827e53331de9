//! The objects of a heap that may be in any state.
//!
//! These functions use the collector's rule: a cell is an object if it has a header and, in a block that is not swept yet, a mark of this
//! collection or the last. But they are stricter, because a debugger is used when memory is damaged: a header is accepted only after its
//! `TypeInfo` was read safely and has the magic number, and no word past the end of the cell is read, whatever the length in an array is.

use std::cell::Cell as Remembered;
use std::mem::offset_of;
use std::ops::ControlFlow;

use crate::collector::Collector;
use crate::heap::Heap;
use crate::heap::array::ARRAY_HEAD_BYTES;
use crate::heap::blocks::{BlockIndex, Cell};
use crate::heap::layout::{BLOCK_BYTES, CELL_BYTES, FIRST_CELL, cells_per_block};
use crate::heap::trace::{Shape, TypeInfo};
use crate::os::memory;
use crate::sync::{AtomicUsize, Ordering::Relaxed};
use crate::world::stop_info::ThreadStopInfo;

/// The size of the cache of types that are known to be valid; each type has one slot.
const KNOWN_TYPES: usize = 64;
/// The number of bytes copied at a time. It is small, because the buffer is on the stack of a thread that a debugger has stopped anywhere.
const PIECE_BYTES: usize = 1024;
/// The number of unreadable pages in a range after which the rest of it is skipped.
const MOST_HOLES: usize = 1024;

/// The heap of one world, for a query.
pub(super) struct View<'a> {
    pub(super) collector: &'a Collector,
    pub(super) heap: &'a Heap,
    known: [Remembered<usize>; KNOWN_TYPES],
    /// Whether memory that may not be mapped can be read without a fault.
    careful: bool,
}

/// A live object.
#[derive(Clone, Copy)]
pub(super) struct Object {
    pub(super) info: &'static TypeInfo,
    pub(super) cell: Cell,
    /// The size of the object's cell after the header, in bytes.
    pub(super) room: usize,
}

impl Object {
    pub(super) fn payload(&self) -> usize {
        self.cell.payload()
    }

    /// Returns the word at `offset` of the payload, which must be within it.
    fn word(&self, offset: usize) -> usize {
        debug_assert!(offset + size_of::<usize>() <= self.room);
        // SAFETY: within the cell of a committed block, and aligned: offsets are multiples of 8.
        unsafe { (*((self.payload() + offset) as *const AtomicUsize)).load(Relaxed) }
    }

    /// Returns an array's length, limited to the number of elements that fit into the cell.
    pub(super) fn length(&self, stride: usize) -> usize {
        if self.room < ARRAY_HEAD_BYTES {
            return 0;
        }
        let most = (self.room - ARRAY_HEAD_BYTES).checked_div(stride).unwrap_or(usize::MAX);
        self.word(0).min(most)
    }

    /// Calls `visit` with the offset and the value of each word that the collector traces, in the order of their addresses.
    pub(super) fn for_each_reference<B>(
        &self,
        mut visit: impl FnMut(usize, usize) -> ControlFlow<B>,
    ) -> ControlFlow<B> {
        match self.info.shape {
            Shape::Leaf | Shape::Weak => ControlFlow::Continue(()),
            Shape::Words(bits) => self.words_of(0, &[bits], &mut visit),
            Shape::Wide(ref bitmaps) => self.words_of(0, bitmaps, &mut visit),
            Shape::Array { stride, ref element, .. } => {
                let stride = stride as usize;
                (0..self.length(stride))
                    .try_for_each(|index| self.words_of(ARRAY_HEAD_BYTES + index * stride, element, &mut visit))
            }
            Shape::Untyped | Shape::Bound => {
                let words = self.room / size_of::<usize>();
                (0..words).map(|word| word * size_of::<usize>()).try_for_each(|at| visit(at, self.word(at)))
            }
        }
    }

    fn words_of<B>(
        &self,
        from: usize,
        bitmaps: &[u64],
        visit: &mut impl FnMut(usize, usize) -> ControlFlow<B>,
    ) -> ControlFlow<B> {
        for (index, &bitmap) in bitmaps.iter().enumerate() {
            let mut bits = bitmap;
            while bits != 0 {
                let offset = from + (index * u64::BITS as usize + bits.trailing_zeros() as usize) * size_of::<usize>();
                bits &= bits - 1;
                if offset + size_of::<usize>() > self.room {
                    return ControlFlow::Continue(());
                }
                visit(offset, self.word(offset))?;
            }
        }
        ControlFlow::Continue(())
    }

    /// Returns the target of a weak cell; 0 if it is cleared.
    pub(super) fn weak_target(&self) -> Option<usize> {
        (self.info.shape == Shape::Weak && self.room >= size_of::<usize>()).then(|| self.word(0))
    }
}

impl<'a> View<'a> {
    pub(super) fn of(collector: &'a Collector) -> Self {
        let mut probe = [0];
        // SAFETY: one byte of a borrowed object, read only to find out whether the system call works.
        let careful = unsafe { memory::read_carefully(std::ptr::from_ref(&collector.heap) as usize, &mut probe) } == 1;
        Self { collector, heap: &collector.heap, known: [const { Remembered::new(0) }; KNOWN_TYPES], careful }
    }

    /// The number of blocks that can be read: every collected object is in one of them.
    pub(super) fn blocks(&self) -> usize {
        self.heap.committed_bytes() as usize / BLOCK_BYTES
    }

    /// Returns the object in a cell.
    pub(super) fn object_in(&self, cell: Cell) -> Option<Object> {
        if cell.block as usize >= self.blocks() || !self.is_possible(cell) || !self.heap.is_alive(cell) {
            return None;
        }
        let info = self.type_of(self.heap.blocks.header_word(cell))?;
        Some(Object { info, cell, room: self.room(cell) })
    }

    /// Returns whether the block's layout can contain this cell, that is, the cell is aligned and inside its block, and its index has a mark
    /// and a slot in the block's tables. If the block's dense word is damaged, this may be false.
    fn is_possible(&self, cell: Cell) -> bool {
        let word = self.heap.blocks.word(cell.block);
        let (bytes, index) = (word.cell_bytes(), cell.index as usize);
        match word.is_large_head() {
            true => index == 0,
            false => is_size_of_cells(bytes) && index < cells_per_block(bytes),
        }
    }

    /// Returns the size of a cell after its header, limited to committed memory.
    pub(super) fn room(&self, cell: Cell) -> usize {
        let blocks = &self.heap.blocks;
        let word = blocks.word(cell.block);
        let memory = (blocks.base() + self.blocks() * BLOCK_BYTES).saturating_sub(cell.payload());
        match word.is_large_head() {
            true => blocks.info(cell.block).tail.large_bytes.load(Relaxed).min(memory),
            false if word.cell_bytes() == 0 => 0,
            false => word.payload_bytes().min(memory),
        }
    }

    /// Returns the object whose payload begins at `word`.
    pub(super) fn object_at(&self, word: usize) -> Option<Object> {
        self.heap.blocks.cell_of_payload(word).and_then(|cell| self.object_in(cell))
    }

    /// Returns the object that a traced word refers to.
    pub(super) fn target_of(&self, word: usize) -> Option<Object> {
        let target = self.heap.references().find(self.heap.blocks.map(), word)?;
        self.object_at(target.payload)
    }

    /// Returns whether a traced word refers to this object.
    pub(super) fn refers_to(&self, word: usize, object: Object) -> bool {
        let references = self.heap.references();
        references.find(self.heap.blocks.map(), word).is_some_and(|target| target.payload == object.payload())
    }

    /// Returns the object that has `address` inside or just past its end.
    pub(super) fn object_around(&self, address: usize) -> Option<Object> {
        self.objects_around(address).into_iter().flatten().next()
    }

    /// Returns the objects that a word on a stack keeps alive (`.stop.interior`): the object into which it points, and the object just past
    /// whose end it points.
    pub(super) fn objects_around(&self, word: usize) -> [Option<Object>; 2] {
        let around = |address| self.heap.blocks.cell_containing(address).and_then(|cell| self.object_in(cell));
        let inside = around(word);
        let before = around(word.wrapping_sub(1));
        let same = inside.is_some() && inside.map(|object| object.cell) == before.map(|object| object.cell);
        [inside, if same { None } else { before }]
    }

    /// Whether a word may point into the heap.
    pub(super) fn may_lead_here(&self, word: usize) -> bool {
        word.wrapping_sub(self.heap.blocks.base()) <= self.heap.blocks.reserved_bytes()
    }

    /// Calls `visit` with every object, in the order of addresses.
    pub(super) fn for_each_object<B>(&self, mut visit: impl FnMut(Object) -> ControlFlow<B>) -> ControlFlow<B> {
        let blocks = &self.heap.blocks;
        for block in 0..self.blocks() as BlockIndex {
            let word = blocks.word(block);
            if !word.has_objects() {
                continue;
            }
            let cells = if word.is_large_head() { 1 } else { cells_per_block(word.cell_bytes().max(CELL_BYTES[0])) };
            for index in 0..cells as u32 {
                let header = blocks.start(block) + FIRST_CELL + index as usize * word.cell_bytes();
                if let Some(object) = self.object_in(Cell { header, block, index }) {
                    visit(object)?;
                }
            }
        }
        ControlFlow::Continue(())
    }

    /// Calls `visit` with the record of every thread of the world.
    pub(super) fn for_each_record(&self, visit: impl FnMut(&'static ThreadStopInfo)) {
        self.collector.threads.published().for_each_record(visit);
    }

    /// Returns the type that a header refers to, if it is valid.
    fn type_of(&self, header: usize) -> Option<&'static TypeInfo> {
        if header == 0 || !header.is_multiple_of(align_of::<TypeInfo>()) {
            return None;
        }
        let place = &self.known[(header >> 5) % KNOWN_TYPES];
        if place.get() != header {
            if self.careful && !is_sound(header) {
                return None;
            }
            place.set(header);
        }
        // SAFETY: the whole descriptor could be read, and it has the magic number; type descriptors live for ever. Where memory cannot be
        // read safely, headers are trusted, as the collector does.
        let info = unsafe { &*(header as *const TypeInfo) };
        info.is_sound().then_some(info)
    }

    /// Calls `visit` with the address and the value of each word of a range, as far as it can be read.
    pub(super) fn for_each_word(&self, low: usize, high: usize, mut visit: impl FnMut(usize, usize)) {
        const WORD: usize = size_of::<usize>();
        let mut at = low.saturating_add(WORD - 1) / WORD * WORD;
        let mut holes = 0;
        let mut piece = [0_u8; PIECE_BYTES];
        while at.saturating_add(WORD) <= high && holes < MOST_HOLES {
            let wanted = ((high - at) / WORD * WORD).min(PIECE_BYTES);
            let read = if self.careful {
                // SAFETY: all other threads are stopped, and each word is only compared with addresses of objects.
                unsafe { memory::read_carefully(at, &mut piece[..wanted]) }
            } else {
                believe(at, &mut piece[..wanted])
            };
            for (index, word) in piece[..read].as_chunks::<WORD>().0.iter().enumerate() {
                visit(at + index * WORD, usize::from_ne_bytes(*word));
            }
            at += read / WORD * WORD;
            if read < WORD {
                at = (at | (memory::page_size() - 1)).saturating_add(1);
                holes += 1;
            }
        }
    }
}

/// Whether a block may be divided into cells of this size.
fn is_size_of_cells(bytes: usize) -> bool {
    bytes >= CELL_BYTES[0] && bytes.is_multiple_of(size_of::<usize>())
}

/// Reads a word directly, where the system provides no safe way.
fn believe(address: usize, into: &mut [u8]) -> usize {
    // SAFETY: a stack of an attached thread, or memory that the program promised to be readable.
    unsafe { std::ptr::copy_nonoverlapping(address as *const u8, into.as_mut_ptr(), into.len()) };
    into.len()
}

/// Whether there is a type descriptor at this address that can be read completely.
fn is_sound(header: usize) -> bool {
    let mut bytes = [0_u8; size_of::<TypeInfo>()];
    // SAFETY: the bytes are only compared with the magic number.
    if unsafe { memory::read_carefully(header, &mut bytes) } != bytes.len() {
        return false;
    }
    let magic = bytes.first_chunk().map(|first| u64::from_ne_bytes(*first));
    const { assert!(offset_of!(TypeInfo, magic) == 0) };
    magic == Some(crate::heap::trace::TYPE_INFO_MAGIC)
}
