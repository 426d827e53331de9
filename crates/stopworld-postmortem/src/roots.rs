//! The roots of a heap: the words outside of it that kept its objects alive, as the collector itself finds them.
//!
//! | root | from where |
//! |---|---|
//! | the stack of a thread that ran | its stack pointer in the core, less the red zone; and all its registers |
//! | the stack of a thread that was parked or in a blocking region | the stack pointer that it published, and its save area |
//! | registered stacks and ranges, handles, objects that wait for their finalizers | the tables of the world |
//! | the cell that a thread was building | the cursor of its allocation cache |
//!
//! What the binding of a language runtime adds is known to its code only, and is missing.

use std::collections::{BTreeMap, HashMap};

use heap_snapshot::{RootGroup, RootKind};

use super::heap::Heap;
use super::library::{ThreadPlace, ThreadRecord};
use super::memory::{StoppedThread, array, for_each_word, word};

/// The bytes below the stack pointer that a thread may use.
const RED_ZONE: u64 = 128;
/// The maximum number of entries of a table of roots that are read.
const MOST_ENTRIES: u64 = 1 << 26;
/// The maximum number of registered stacks and ranges.
const MOST_RANGES: u64 = 1 << 16;

/// A word outside the heap that refers to an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FoundRoot {
    pub(crate) group: usize,
    /// The address of the word; 0 if it was in a register.
    pub(crate) address: u64,
    pub(crate) object: u32,
}

/// The roots of a heap.
#[derive(Debug, Default)]
pub(crate) struct Roots {
    pub(crate) groups: Vec<RootGroup>,
    pub(crate) found: Vec<FoundRoot>,
    /// What could not be read.
    pub(crate) gaps: Vec<String>,
    /// The ranges that were scanned: end by beginning. They do not overlap.
    scanned: BTreeMap<u64, u64>,
}

impl Roots {
    /// Finds the roots of a heap whose threads were these.
    pub(crate) fn of(heap: &Heap<'_>, records: &[ThreadRecord], threads: &[StoppedThread]) -> Roots {
        let mut roots = Roots::default();
        let by_id: HashMap<i32, &StoppedThread> = threads.iter().rev().map(|thread| (thread.tid, thread)).collect();
        for record in records {
            roots.thread(heap, record, by_id.get(&record.tid).copied());
        }
        roots.registered_stacks(heap);
        roots.ranges(heap);
        roots.handles(heap);
        roots.ready(heap);
        roots
    }

    fn group(&mut self, group: RootGroup) -> usize {
        self.groups.push(group);
        self.groups.len() - 1
    }

    fn keep(&mut self, group: usize, address: u64, object: u32) {
        self.found.push(FoundRoot { group, address, object });
    }

    fn conservatively(&mut self, heap: &Heap<'_>, group: usize, address: u64, word: u64) {
        for object in heap.around(word).into_iter().flatten() {
            self.keep(group, address, object);
        }
    }

    /// Scans the parts of a range that were not scanned yet. Returns the number of bytes that are not known.
    fn scan(&mut self, heap: &Heap<'_>, low: u64, high: u64, mut visit: impl FnMut(&mut Self, u64, u64)) -> u64 {
        let mut at = self.scanned.range(..=low).next_back().map_or(low, |(_, end)| low.max(*end));
        let mut unknown = 0;
        while at < high {
            let next = self.scanned.range(at..).next().map(|(start, end)| (*start, *end));
            let end = next.map_or(high, |(start, _)| start.min(high));
            unknown += for_each_word(heap.memory, at, end, |at, word| visit(self, at, word));
            if at < end {
                self.scanned.insert(at, end);
            }
            at = next.map_or(high, |(_, end)| end);
        }
        unknown
    }

    fn thread(&mut self, heap: &Heap<'_>, record: &ThreadRecord, thread: Option<&StoppedThread>) {
        if record.place == ThreadPlace::Detached || record.is_gone {
            return;
        }
        let (tid, name) = (record.tid as u32, record.name.as_str());
        let shown = RootGroup::thread_name(tid, name);
        let has_arena = self.building(heap, record);
        if has_arena {
            return;
        }
        let Some(thread) = thread else {
            self.gaps.push(format!("{shown} is not in the core: its stack and its registers are not searched"));
            return;
        };
        let group = self.group(RootGroup::stack_of(tid, name));
        let runs = record.place == ThreadPlace::Running;
        let from = if runs { thread.rsp.wrapping_sub(RED_ZONE) } else { record.saved_sp };
        let (low, high) = record.stack;
        let is_own = |at: u64| (low..high).contains(&at);
        let is_alternate = |at: u64| (record.alternate.0..record.alternate.1).contains(&at);
        let mut ranges = Vec::new();
        match from {
            at if is_own(at) => ranges.push((at, high)),
            // The main thread's stack may have grown below its bounds of the time when it attached.
            at if at < low && low - at < 1 << 30 && heap.memory.read_some(at, &mut [0]) == 1 => ranges.push((at, high)),
            at if is_alternate(at) => ranges.extend([(at, record.alternate.1), (low, high)]),
            _ => ranges.push((low, high)),
        }
        ranges.push(record.saved);
        let is_whole = ranges[0].0 == low;
        for (low, high) in ranges {
            let unknown = self.scan(heap, low, high, |roots, at, word| roots.conservatively(heap, group, at, word));
            // The lowest part of a stack that is scanned as a whole may never have been mapped.
            if unknown > 0 && !is_whole {
                self.gaps.push(format!("{unknown} bytes of the stack of {shown} are not in the core"));
            }
        }
        if runs {
            for &word in thread.general.iter().chain(&thread.extended) {
                self.conservatively(heap, group, 0, word);
            }
        }
    }

    /// Finds what the cells refer to that a thread was building (`.stop.mid-alloc`). Returns whether the thread has an arena.
    fn building(&mut self, heap: &Heap<'_>, record: &ThreadRecord) -> bool {
        let offsets = heap.layout.cache;
        if record.cache == 0 {
            return false;
        }
        let at = |offset: usize| record.cache.wrapping_add(offset as u64);
        if array::<1>(heap.memory, at(offsets.has_arena)).is_ok_and(|[has_arena]| has_arena != 0) {
            return true;
        }
        let cells = half_built(heap, record);
        if cells.is_empty() {
            return false;
        }
        let place = self.group(RootGroup::unfinished_of(record.tid as u32, &record.name));
        for cell in cells {
            // A compact cell ends as far after the next header address as it begins after its own.
            let bytes = heap.cell_bytes_at(cell) + heap.layout.blocks.header_bytes as u64;
            self.scan(heap, cell, cell.saturating_add(bytes), |roots, at, word| {
                roots.conservatively(heap, place, at, word)
            });
        }
        false
    }

    fn registered_stacks(&mut self, heap: &Heap<'_>) {
        let tables = heap.tables;
        let list = word(heap.memory, tables.stacks as u64).unwrap_or(0);
        let count = word(heap.memory, (tables.stacks as u64).wrapping_add(8)).unwrap_or(0);
        if count == 0 {
            return;
        }
        let group = self.group(RootGroup::registered_stacks());
        for index in 0..count.min(MOST_RANGES) {
            let entry = list.wrapping_add(index.wrapping_mul(tables.stack_bytes as u64));
            let bound = |offset: usize| word(heap.memory, entry.wrapping_add(offset as u64));
            let (Ok(low), Ok(high)) = (bound(tables.stack_low), bound(tables.stack_high)) else { break };
            self.scan(heap, low, high, |roots, at, word| roots.conservatively(heap, group, at, word));
        }
    }

    fn ranges(&mut self, heap: &Heap<'_>) {
        let tables = heap.tables;
        let used = word(heap.memory, tables.ranges_used as u64).unwrap_or(0);
        let count = used.min(tables.ranges_most as u64).min(MOST_RANGES);
        let group = self.group(RootGroup::of(RootKind::Static));
        let mut unknown = 0_u64;
        for index in 0..count {
            let entry = (tables.ranges as u64).wrapping_add(index * 16);
            let (low, high) = (word(heap.memory, entry), word(heap.memory, entry.wrapping_add(8)));
            let (Ok(low), Ok(high)) = (low, high) else { break };
            unknown += self.scan(heap, low, high, |roots, at, word| {
                if let Some(object) = heap.target(word) {
                    roots.keep(group, at, object);
                }
            });
        }
        if unknown > 0 {
            self.gaps.push(format!("{unknown} bytes of registered ranges are not in the core"));
        }
    }

    fn handles(&mut self, heap: &Heap<'_>) {
        let tables = heap.tables;
        let used = word(heap.memory, tables.handles_used as u64).unwrap_or(0);
        let count = used.min(tables.handles_most as u64).min(MOST_ENTRIES);
        let group = self.group(RootGroup::of(RootKind::Handle));
        let low = tables.handles as u64;
        let unknown = for_each_word(heap.memory, low, low.saturating_add(count * 8), |at, word| {
            if let Some(object) = heap.at(word) {
                self.keep(group, at, object);
            }
        });
        if unknown > 0 {
            self.gaps.push(format!("{} of {count} handles are not in the core", unknown / 8));
        }
    }

    fn ready(&mut self, heap: &Heap<'_>) {
        let tables = heap.tables;
        let number = |at: usize| word(heap.memory, at as u64).unwrap_or(0);
        let (first, end) = (number(tables.ready_first), number(tables.ready_end));
        let group = self.group(RootGroup::of(RootKind::Finalizer));
        for index in first..end.min(tables.ready_most as u64).min(MOST_ENTRIES) {
            let entry = (tables.ready as u64).wrapping_add(index.wrapping_mul(tables.ready_bytes as u64));
            let slot = entry.wrapping_add(tables.ready_object as u64);
            let Ok(word) = word(heap.memory, slot) else { break };
            if let Some(object) = heap.at(word) {
                self.keep(group, slot, object);
            }
        }
    }
}

/// Returns the header addresses of the cells that a thread may have been building.
pub(crate) fn half_built(heap: &Heap<'_>, record: &ThreadRecord) -> Vec<u64> {
    let offsets = heap.layout.cache;
    let at = |offset: usize, bin: usize, stride: usize| {
        record.cache.wrapping_add(offset as u64).wrapping_add(bin.wrapping_mul(stride) as u64)
    };
    (0..offsets.bins)
        .filter_map(|bin| {
            let block = word(heap.memory, at(offsets.block, bin, offsets.block_stride)).ok()? as u32;
            let cursor = word(heap.memory, at(offsets.cursor, bin, offsets.cursor_stride)).ok()?;
            let end = word(heap.memory, at(offsets.end, bin, offsets.block_stride)).ok()?;
            (block != u32::MAX && cursor != 0 && cursor < end).then_some(cursor)
        })
        .collect()
}
