//! The heap as it is: every live object, what it refers to, and the roots, told as events in the stopped world.
//!
//! Between the end of marking and the sweep the mark bytes are the list of what lives, every cell that is marked has its
//! header, and nothing moves. So a dump is a walk over the blocks: each object's event, then one for each reference in it. What the
//! sweep then counts as alive is what was told of, byte for byte; and a reference is told of only if it leads to an object that is
//! told of too.
//!
//! A heap has more objects than any ring has room. Nobody can be waited for in the stopped world, but the rings can be drained in
//! it: the walk stops every few thousand events and brings them to their consumers ([`record::keep_up`]). So a dump takes no
//! more memory than any other stretch of events.

use std::cell::Cell as Counter;

use super::caches;
use super::finalize::Finalizers;
use super::roots::{Ranges, RootKind};
use crate::events::{EventId, Events, record};
use crate::heap::Heap;
use crate::heap::blocks::{BlockIndex, BlockState, Cell};
use crate::heap::layout::{CELL_BYTES, cells_per_block};
use crate::heap::pointer::ARRAY_HEAD_BYTES;
use crate::heap::slots::SlotTable;
use crate::heap::trace::{Shape, TypeInfo};
use crate::sync::{AtomicUsize, Ordering::Relaxed};
use crate::world::stop::StoppedWorld;

/// So many events at most between two drains: a ring holds twice as many.
const BETWEEN_DRAINS: u32 = 2_048;
const WORD: usize = size_of::<usize>();

/// A dump of a heap whose marking is over and whose sweep has not begun.
pub(super) struct Dump<'a> {
    heap: &'a Heap,
    events: &'a Events,
    epoch: u8,
    fired: Counter<u32>,
    /// Somebody who is frozen has what a drain needs: the rings grow, and then records are dropped and counted.
    gave_up: Counter<bool>,
}

impl<'a> Dump<'a> {
    /// Whether anybody wants one.
    pub(super) fn is_wanted(events: &Events) -> bool {
        [EventId::DumpNode, EventId::DumpEdge, EventId::DumpRoot].into_iter().any(|event| events.is_enabled(event))
    }

    /// World stopped, collection lock held.
    pub(super) fn new(heap: &'a Heap, events: &'a Events) -> Dump<'a> {
        Dump { heap, events, epoch: heap.epoch(), fired: Counter::new(0), gave_up: Counter::new(false) }
    }

    /// Every object that lives, in the order of addresses, each with its references.
    pub(super) fn objects(&self) {
        // SAFETY: the collector holds the allocation lock.
        let committed = unsafe { self.heap.state() }.committed_blocks;
        let (mut objects, mut bytes) = (0, 0);
        for block in 0..committed as BlockIndex {
            let info = self.heap.blocks.info(block);
            let (cells, cell_bytes, footprint) = match info.state() {
                BlockState::Free | BlockState::Reserved | BlockState::LargeTail => continue,
                BlockState::LargeHead => (1, 0, self.heap.large_footprint(block) as usize),
                _ => {
                    let cell_bytes = CELL_BYTES[usize::from(info.head.class.load(Relaxed))];
                    (cells_per_block(cell_bytes), cell_bytes, cell_bytes)
                }
            };
            for index in 0..cells as u32 {
                if self.heap.blocks.mark(block, index).load(Relaxed) == self.epoch {
                    self.object(self.heap.blocks.cell(block, cell_bytes, index), footprint);
                    objects += 1;
                    bytes += footprint;
                }
            }
        }
        self.events.fire_dump_end(objects, bytes);
    }

    fn object(&self, cell: Cell, footprint: usize) {
        let (payload, header) = (cell.payload(), cell.header_word());
        // SAFETY: marking leaves no cell marked whose header is not the address of a description, which lives for ever.
        let info = unsafe { &*(header as *const TypeInfo) };
        let mut edges = 0;
        self.each_reference(payload, info, |_, _| edges += 1);
        self.events.fire_dump_node(payload, footprint, header, edges);
        self.count();
        self.each_reference(payload, info, |slot, target| {
            self.events.fire_dump_edge(target, (slot - payload) as u32);
            self.count();
        });
    }

    /// Each word of an object that refers to another, with where it stands. A weak reference is none.
    fn each_reference(&self, payload: usize, info: &TypeInfo, mut visit: impl FnMut(usize, usize)) {
        match info.shape {
            Shape::Leaf | Shape::Weak => {}
            Shape::Words(bits) => self.words(payload, &[bits], &mut visit),
            Shape::Wide(ref bitmaps) => self.words(payload, bitmaps, &mut visit),
            Shape::Array { stride, ref element } => {
                // SAFETY: a live array's first word is its length.
                let length = unsafe { (*(payload as *const AtomicUsize)).load(Relaxed) };
                for index in 0..length {
                    self.words(payload + ARRAY_HEAD_BYTES + index * stride as usize, element, &mut visit);
                }
            }
        }
    }

    fn words(&self, address: usize, bitmaps: &[u64], visit: &mut impl FnMut(usize, usize)) {
        for (index, bitmap) in bitmaps.iter().enumerate() {
            let mut bits = *bitmap;
            while bits != 0 {
                let slot = address + (index * 64 + bits.trailing_zeros() as usize) * WORD;
                bits &= bits - 1;
                // SAFETY: the layout of a live object names words within its payload.
                let word = unsafe { (*(slot as *const AtomicUsize)).load(Relaxed) };
                if self.heap.blocks.cell_of_payload(word).is_some_and(|cell| self.is_marked(cell)) {
                    visit(slot, word);
                }
            }
        }
    }

    fn is_marked(&self, cell: Cell) -> bool {
        self.heap.blocks.mark(cell.block, cell.index).load(Relaxed) == self.epoch
    }

    // ---- Roots -----------------------------------------------------------------------------------------------------------

    /// The roots that the collection began with, each that leads to an object. They are looked for again: marking had other things to do.
    pub(super) fn roots(
        &self,
        stopped: &StoppedWorld<'_>,
        ranges: &Ranges,
        handles: &SlotTable,
        finalizers: &Finalizers,
    ) {
        for &record in stopped.live() {
            // SAFETY: as in the root scan: the stop has checked that it can be read.
            stopped.scan_ranges(record, |low, high| unsafe { self.conservative(low, high, RootKind::Stack) });
        }
        stopped.scan_registered_stacks(|low, high| {
            // SAFETY: registered as readable.
            unsafe { self.conservative(low, high, RootKind::RegisteredStack) };
        });
        for cache in caches(stopped) {
            for (cell, bytes) in cache.half_built() {
                // SAFETY: the cell belongs to a stopped thread.
                unsafe { self.conservative(cell, cell + bytes, RootKind::HalfBuilt) };
            }
        }
        ranges.for_each(|low, high| {
            // SAFETY: `register_range` promised that it is readable.
            unsafe { self.conservative(low, high, RootKind::Range) };
        });
        handles.for_each(|slot, object| self.root(object, RootKind::Handles, slot));
        let queue = std::ptr::from_ref(finalizers) as usize;
        finalizers.for_each_ready(|object| self.root(object, RootKind::Finalizers, queue));
    }

    /// # Safety
    /// The range is readable.
    unsafe fn conservative(&self, low: usize, high: usize, kind: RootKind) {
        let mut slot = low.next_multiple_of(WORD);
        while slot + WORD <= high {
            // SAFETY: the caller's promise. Volatile: this is memory that the compiler knows other uses of.
            let word = unsafe { (slot as *const usize).read_volatile() };
            let mut first = 0;
            // As marking reads it: an object's address, one in it, or one just past its end.
            for probe in [word, word.wrapping_sub(1)] {
                if let Some(cell) = self.heap.blocks.cell_containing(probe).filter(|cell| cell.payload() != first) {
                    first = cell.payload();
                    self.root(first, kind, slot);
                }
            }
            slot += WORD;
        }
    }

    fn root(&self, object: usize, kind: RootKind, root: usize) {
        if let Some(cell) = self.heap.blocks.cell_of_payload(object).filter(|cell| self.is_marked(*cell)) {
            self.events.fire_dump_root(object, kind as u32, root, cell.header_word());
            self.count();
        }
    }

    /// An event was fired.
    #[inline(always)]
    fn count(&self) {
        self.fired.set(self.fired.get() + 1);
        if self.fired.get() >= BETWEEN_DRAINS {
            self.fired.set(0);
            if !self.gave_up.get() {
                self.gave_up.set(!record::keep_up());
            }
        }
    }
}
