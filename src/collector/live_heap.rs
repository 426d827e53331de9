//! The live objects: the heap as marking has left it, for observers that look at it before the sweep.
//!
//! Between the end of marking and the sweep, the mark bytes are the list of live objects, every marked cell has its header, and
//! nothing moves. So an observer walks over the blocks, and the sweep later counts as alive exactly what the observer has seen,
//! byte for byte. A heap dump is such an observer, a census another.
//!
//! Nothing here allocates, and the collecting thread already has all locks that are needed (`.stop.no-malloc`, `.stop.locks`).

use super::binding::{Binding, RootScanner, RootSink};
use super::finalize::Finalizers;
use super::masks::Masks;
use super::roots::{Ranges, RootKind};
use super::scan::for_each_word;
use crate::heap::Heap;
use crate::heap::array::ARRAY_HEAD_BYTES;
use crate::heap::blocks::{AddressMap, BlockIndex, BlockState, Cell};
use crate::heap::compact::KindBytes;
use crate::heap::layout::{CELL_BYTES, FIRST_CELL, MARKS_PER_BLOCK, Space, cells_per_block, is_compact};
use crate::heap::slots::SlotTable;
use crate::heap::trace::{Shape, TypeInfo};
use crate::os::memory::conservative_word;
use crate::sync::{AtomicUsize, LockGuard, Ordering::Relaxed};
use crate::world::stop::StoppedWorld;
use crate::world::stop_info::ThreadStopInfo;

const WORD: usize = size_of::<usize>();

/// The heap of a stopped world whose marking is over and whose sweep has not begun.
pub(crate) struct LiveHeap<'a> {
    pub(super) heap: &'a Heap,
    pub(super) stopped: &'a StoppedWorld<'a>,
    pub(super) ranges: &'a Ranges,
    pub(super) handles: &'a SlotTable,
    pub(super) binding: Option<&'a dyn Binding>,
    pub(super) finalizers: &'a Finalizers,
    pub(super) finalizer_tables: &'a LockGuard<'a>,
    pub(super) epoch: u8,
    pub(super) number: u32,
}

/// An object, alive or just found dead.
#[derive(Clone, Copy)]
pub(crate) struct Object {
    pub(crate) cell: Cell,
    pub(crate) info: &'static TypeInfo,
    /// The bytes of the heap that it takes: its cell, or its blocks.
    pub(crate) bytes: usize,
    pub(crate) space: Space,
}

impl Object {
    /// The address in a `Gc`.
    #[inline(always)]
    pub(crate) fn payload(&self) -> usize {
        self.cell.payload()
    }
}

/// A reference from outside the heap that keeps an object alive.
#[derive(Clone, Copy)]
pub(crate) struct Root {
    /// The object's payload.
    pub(crate) object: usize,
    pub(crate) kind: RootKind,
    /// The address of the root itself, or of the table that contains it.
    pub(crate) place: usize,
    /// The thread, if the root is on its stack or in a cell that it has not finished.
    pub(crate) thread: Option<&'static ThreadStopInfo>,
    /// The beginning of the range or stack that contains the root, if the program registered it.
    pub(crate) range: usize,
}

/// The cells of one block.
pub(crate) struct Cells {
    block: BlockIndex,
    /// The address of the first cell's header.
    start: usize,
    count: usize,
    /// The distance from one cell to the next; 0 for a large object.
    stride: usize,
    /// The bytes of the heap that an object in one of these cells takes.
    pub(crate) bytes: usize,
    space: Space,
    /// The types of the objects, if the cells have no headers.
    kinds: Option<KindBytes>,
}

impl Cells {
    /// Returns the cell with this index.
    #[inline(always)]
    pub(crate) fn cell(&self, index: usize) -> Cell {
        Cell { header: self.start + index * self.stride, block: self.block, index: index as u32 }
    }

    /// The type of the object that lives in the cell of this index, or has just died there.
    #[inline(always)]
    pub(crate) fn type_of(&self, index: usize) -> &'static TypeInfo {
        if let Some(kinds) = self.kinds {
            // SAFETY: as below; a kind byte takes the place of the header.
            return unsafe { &*(kinds.header_word(self.cell(index).payload()) as *const TypeInfo) };
        }
        // SAFETY: a header that is not 0 is the address of a description, which is never freed. Marking leaves no cell marked
        // whose header is 0. A cell that was marked in the last collection has its header until the sweep after this one. No
        // thread writes a header while the world is stopped. The read is a plain one, so that it is omitted for callers that do
        // not use it.
        unsafe { *(self.cell(index).header as *const &'static TypeInfo) }
    }

    /// The object in the cell of this index.
    #[inline(always)]
    pub(crate) fn object(&self, index: usize) -> Object {
        Object { cell: self.cell(index), info: self.type_of(index), bytes: self.bytes, space: self.space }
    }
}

/// A cell, with or without a live object.
pub(crate) struct CellView<'a> {
    cells: &'a Cells,
    index: usize,
    /// Whether an object lives in it.
    pub(crate) lives: bool,
}

impl CellView<'_> {
    /// The payload address of the cell.
    pub(crate) fn payload(&self) -> usize {
        self.cells.cell(self.index).payload()
    }

    /// The object that lives here, or that lived here at the end of the last collection. In either case its header is valid,
    /// because no sweep has been here since.
    pub(crate) fn object(&self) -> Object {
        self.cells.object(self.index)
    }
}

impl<'a> LiveHeap<'a> {
    /// The number of this collection.
    pub(crate) fn number(&self) -> u32 {
        self.number
    }

    /// The heap.
    pub(crate) fn heap(&self) -> &Heap {
        self.heap
    }

    /// The address map, by value: a loop keeps its copy in registers.
    pub(crate) fn map(&self) -> AddressMap {
        self.heap.blocks.map()
    }

    /// The number of blocks, from the beginning of the heap, that may hold objects.
    pub(crate) fn committed_blocks(&self) -> BlockIndex {
        self.heap.committed_blocks()
    }

    /// Visits every block that may hold objects, in address order.
    #[inline(always)]
    pub(crate) fn for_each_block(&self, visit: impl FnMut(Cells)) {
        (0..self.committed_blocks()).filter_map(|block| self.cells_of(block)).for_each(visit);
    }

    /// Visits every block that may hold objects, in descending address order.
    #[inline(always)]
    pub(crate) fn for_each_block_downwards(&self, visit: impl FnMut(Cells)) {
        (0..self.committed_blocks()).rev().filter_map(|block| self.cells_of(block)).for_each(visit);
    }

    /// The cells of a block, if objects may be there.
    fn cells_of(&self, block: BlockIndex) -> Option<Cells> {
        let start = self.heap.blocks.start(block) + FIRST_CELL;
        let info = self.heap.blocks.info(block);
        match info.state() {
            BlockState::Free | BlockState::Reserved | BlockState::LargeTail => None,
            BlockState::LargeHead => {
                let bytes = self.heap.large_footprint(block) as usize;
                Some(Cells { block, start, count: 1, stride: 0, bytes, space: Space::Large, kinds: None })
            }
            BlockState::Owned | BlockState::Full | BlockState::Unswept => {
                let class = usize::from(info.head.class.load(Relaxed));
                let bytes = CELL_BYTES[class];
                let kinds = is_compact(class).then(|| self.heap.blocks.kinds());
                let is_pinned = info.head.space.load(Relaxed) == Space::Pinned as u8;
                let space = if is_pinned { Space::Pinned } else { Space::Small };
                Some(Cells { block, start, count: cells_per_block(bytes), stride: bytes, bytes, space, kinds })
            }
        }
    }

    /// Visits every live object, in address order.
    #[inline(always)]
    pub(crate) fn for_each_object(&self, mut visit: impl FnMut(Object)) {
        self.for_each_block(|cells| {
            let live = self.masks_with_headers(&cells);
            live.for_each(|index| visit(cells.object(index)));
        });
    }

    /// Returns which cells of a block hold live objects.
    #[inline(always)]
    pub(crate) fn masks(&self, cells: &Cells) -> Masks {
        let marks = self.heap.blocks.marks(cells.block, MARKS_PER_BLOCK);
        // SAFETY: the block has this many mark bytes, and no thread writes them between the end of marking and the sweep.
        let marks = unsafe { &*marks.as_ptr().cast::<[u8; MARKS_PER_BLOCK]>() };
        Masks::new(marks, cells.count, self.epoch)
    }

    /// Like [`masks`](Self::masks), and prefetches the headers of the live objects, for a caller that will read them.
    #[inline(always)]
    pub(crate) fn masks_with_headers(&self, cells: &Cells) -> Masks {
        let masks = self.masks(cells);
        masks.ask_for_headers(cells.start, cells.stride);
        masks
    }

    /// Visits every cell in which an object lives, may live, or has just died.
    pub(crate) fn for_each_cell(&self, mut visit: impl FnMut(CellView<'_>)) {
        self.for_each_block(|cells| {
            for (index, mark) in self.heap.blocks.marks(cells.block, cells.count).iter().enumerate() {
                let lives = mark.load(Relaxed) == self.epoch;
                visit(CellView { cells: &cells, index, lives });
            }
        });
    }

    /// Whether `payload` is the payload address of a live object.
    pub(crate) fn lives(&self, payload: usize) -> bool {
        self.heap.blocks.cell_of_payload(payload).is_some_and(|cell| self.is_marked(cell))
    }

    /// The type of a live object of which only the address is known.
    pub(crate) fn type_of(&self, payload: usize) -> &'static TypeInfo {
        debug_assert!(self.lives(payload));
        // SAFETY: as in `object`.
        unsafe { &*(self.map().header_word(payload, true) as *const TypeInfo) }
    }

    /// Visits each word of a live object that may refer to another, with its address. Weak references do not count.
    #[inline(always)]
    pub(crate) fn for_each_word(&self, payload: usize, info: &TypeInfo, mut visit: impl FnMut(usize, usize)) {
        match info.shape {
            Shape::Leaf | Shape::Weak => {}
            Shape::Words(bits) => words(payload, &[bits], &mut visit),
            Shape::Wide(ref bitmaps) => words(payload, bitmaps, &mut visit),
            Shape::Array { stride, ref element, .. } => {
                // SAFETY: a live array's first word is its length.
                let length = unsafe { (*(payload as *const AtomicUsize)).load(Relaxed) };
                for index in 0..length {
                    words(payload + ARRAY_HEAD_BYTES + index * stride as usize, element, &mut visit);
                }
            }
            Shape::Untyped | Shape::Bound => {
                let end = payload + self.heap.room_of(payload) / WORD * WORD;
                for slot in (payload..end).step_by(WORD) {
                    // SAFETY: a word of a live object's cell.
                    visit(slot, unsafe { conservative_word(slot) });
                }
            }
        }
    }

    /// Visits each reference from a live object to another live object: its address, and the payload address of the other object.
    pub(crate) fn for_each_reference(&self, payload: usize, info: &TypeInfo, mut visit: impl FnMut(usize, usize)) {
        let (map, references) = (self.map(), self.heap.references());
        self.for_each_word(payload, info, |slot, word| {
            if let Some(target) = references.find(map, word)
                && self.is_marked_number(target.number)
            {
                visit(slot, target.payload);
            }
        });
    }

    fn is_marked_number(&self, number: usize) -> bool {
        // SAFETY: the mark byte of a cell, in a table that lives as long as the heap.
        unsafe { &*self.map().mark_of_number(number) }.load(Relaxed) == self.epoch
    }

    fn is_marked(&self, cell: Cell) -> bool {
        self.heap.blocks.mark(cell.block, cell.index).load(Relaxed) == self.epoch
    }

    /// Visits the roots with which the collection began, as far as they refer to an object. Searches for them again, because marking
    /// does not record them.
    pub(crate) fn for_each_root(&self, mut visit: impl FnMut(Root)) {
        let outside = |kind| Root { object: 0, kind, place: 0, thread: None, range: 0 };
        for &record in self.stopped.live() {
            let root = Root { thread: Some(record), ..outside(RootKind::Stack) };
            // SAFETY: as in the root scan: the stop has checked that it can be read.
            self.stopped.scan_ranges(record, |low, high| unsafe { self.conservative(low, high, root, &mut visit) });
        }
        self.stopped.scan_registered_stacks(|low, high| {
            let root = Root { range: low, ..outside(RootKind::RegisteredStack) };
            // SAFETY: registered as readable.
            unsafe { self.conservative(low, high, root, &mut visit) };
        });
        for (record, cache) in super::caches::records_and_caches(self.stopped) {
            for (cell, bytes) in cache.half_built() {
                let root = Root { thread: Some(record), ..outside(RootKind::HalfBuilt) };
                // SAFETY: the cell belongs to a stopped thread.
                unsafe { self.conservative(cell, cell + bytes, root, &mut visit) };
            }
        }
        self.ranges.for_each(|low, high| {
            let root = Root { range: low, ..outside(RootKind::Range) };
            // SAFETY: `register_range` promised that it is readable.
            unsafe { self.conservative(low, high, root, &mut visit) };
        });
        if let Some(binding) = self.binding {
            let root = outside(RootKind::Range);
            RootScanner::scan(binding, &mut Visitor { live_heap: self, root, visit: &mut visit });
        }
        let mut exact = |object, root: Root| {
            if self.lives(object) {
                visit(Root { object, ..root });
            }
        };
        self.handles.for_each(|slot, object| exact(object, Root { place: slot, ..outside(RootKind::Handles) }));
        let queue = std::ptr::from_ref(self.finalizers) as usize;
        self.finalizers.for_each_ready(self.finalizer_tables, |object| {
            exact(object, Root { place: queue, ..outside(RootKind::Finalizers) })
        });
    }

    /// # Safety
    /// The range is readable.
    unsafe fn conservative(&self, low: usize, high: usize, root: Root, visit: &mut impl FnMut(Root)) {
        let mut slot = low.next_multiple_of(WORD);
        while slot + WORD <= high {
            // SAFETY: the caller's promise.
            let word = unsafe { conservative_word(slot) };
            let mut first = 0;
            // As marking does: the word may be an object's address, an address inside the object, or the address just past its end.
            for probe in [word, word.wrapping_sub(1)] {
                let found = self.heap.blocks.cell_containing(probe).filter(|cell| cell.payload() != first);
                if let Some(cell) = found {
                    first = cell.payload();
                    if self.is_marked(cell) {
                        visit(Root { object: first, place: slot, ..root });
                    }
                }
            }
            slot += WORD;
        }
    }
}

/// Shows the roots of a binding, as far as they refer to an object.
struct Visitor<'v, 'a, F> {
    live_heap: &'v LiveHeap<'a>,
    root: Root,
    visit: &'v mut F,
}

impl<F: FnMut(Root)> RootSink for Visitor<'_, '_, F> {
    unsafe fn range(&mut self, low: usize, high: usize) {
        let root = Root { range: low, ..self.root };
        // SAFETY: the caller's promise.
        unsafe { self.live_heap.conservative(low, high, root, self.visit) };
    }

    unsafe fn stack(&mut self, low: usize, high: usize) {
        // SAFETY: the caller's promise.
        unsafe { self.range(low, high) };
    }

    fn object(&mut self, address: usize) {
        if self.live_heap.lives(address) {
            (self.visit)(Root { object: address, ..self.root });
        }
    }

    fn word(&mut self, word: usize) {
        let low = &raw const word as usize;
        // SAFETY: the word itself.
        unsafe { self.live_heap.conservative(low, low + size_of::<usize>(), self.root, self.visit) };
    }
}

#[inline(always)]
fn words(address: usize, bitmaps: &[u64], visit: &mut impl FnMut(usize, usize)) {
    for (index, &bits) in bitmaps.iter().enumerate() {
        for_each_word(address + index * u64::BITS as usize * WORD, bits, &mut *visit);
    }
}
