//! Damage in a heap: what cannot be, wherever the process was stopped.

use std::collections::{HashMap, HashSet};

use super::damage::{Damage, Damages, OutsideWords};
use super::heap::{BlockWord, Heap, Object};
use super::library::ThreadRecord;
use super::memory::{array, read, u32_at, word};
use super::types::{Shape, Type};

/// No cell.
const NO_CELL: u32 = u32::MAX;

impl Heap<'_> {
    /// Checks all invariants of the heap that hold at any instruction of the process: blocks, headers, sizes, references, and free cells.
    pub fn verify(&self, threads: &[ThreadRecord]) -> Damages {
        let mut damages = self.damages.clone();
        // A block that a thread was sweeping may be between two states.
        let unsettled: HashSet<u32> = threads.iter().filter_map(|thread| self.swept_block(thread)).collect();
        for (block, dense) in self.used_blocks().filter(|(block, _)| !unsettled.contains(block)) {
            let offsets = &self.layout.blocks;
            let head = (self.tables.heads as u64).wrapping_add(u64::from(block) * offsets.head_bytes as u64);
            let Ok([state]) = array::<1>(self.memory, head.wrapping_add(offsets.head_state as u64)) else { continue };
            let is_wrong = match state {
                0 => dense.has_cells() || dense.is_large_head(),
                1..=3 => dense.is_large_head() || dense.is_large_tail(),
                4 | 5 => dense.has_cells(),
                6 => false,
                _ => true,
            };
            if is_wrong && !self.is_freeing() {
                damages.add(self.start(block), || {
                    Damage::Block(format!("in state {state}, but its word is {:#x}", dense.0))
                });
            } else if state == 1 && dense.has_cells() && self.is_sound(dense) {
                self.verify_runs(block, dense, &mut damages);
            }
        }
        let mut outside = HashMap::new();
        self.for_each_object(|_, object| {
            let of_type = self.types.get(object.type_number);
            self.verify_object(object, &of_type, &mut damages, &mut outside);
        });
        damages.places.sort_by_key(|(address, _)| *address);
        damages.outside = outside.into_values().collect();
        damages.outside.sort_by_key(|words| (words.count, words.object));
        damages
    }

    /// Returns the address of the block that a thread was sweeping, or of the large object that it was making.
    pub fn sweeping(&self, thread: &ThreadRecord) -> Option<u64> {
        self.swept_block(thread).map(|block| self.start(block))
    }

    fn swept_block(&self, thread: &ThreadRecord) -> Option<u32> {
        if thread.cache == 0 {
            return None;
        }
        let at = thread.cache.wrapping_add(self.layout.cache.sweeping as u64);
        let sweeping = array::<4>(self.memory, at).map_or(0, u32::from_le_bytes);
        sweeping.checked_sub(1)
    }

    fn verify_object(
        &self,
        object: &Object,
        of_type: &Type,
        damages: &mut Damages,
        outside: &mut HashMap<u32, OutsideWords>,
    ) {
        let length = word(self.memory, object.address).unwrap_or(0);
        let bytes = match of_type.stride {
            Some(stride) => length.saturating_mul(stride).saturating_add(8),
            None => of_type.value_bytes,
        };
        // The size of a type of objects that differ in size is that of the smallest.
        if bytes > object.room {
            let (type_name, room) = (of_type.name.clone(), object.room);
            damages.add(object.address, || Damage::Size { type_name, bytes, room });
            return;
        }
        // Where words may be anything, none of them is wrong.
        if of_type.shape == Shape::Any || self.tables.pointers != 0 {
            return;
        }
        self.for_each_reference(object, of_type, |offset, target| {
            if target == 0 || target % 2 == 1 {
                return;
            }
            let type_name = || of_type.name.clone();
            if !self.contains(target) {
                let first =
                    || OutsideWords { type_name: type_name(), count: 0, object: object.address, offset, value: target };
                outside.entry(object.type_number).or_insert_with(first).count += 1;
            } else if self.at(target).is_none() {
                damages.add(object.address, || Damage::Dangling { type_name: type_name(), offset, target });
            }
        });
    }

    /// Checks the lists of free cells of a block that a thread owns.
    fn verify_runs(&self, block: u32, dense: BlockWord, damages: &mut Damages) {
        let offsets = &self.layout.blocks;
        let (cell_bytes, start) = (dense.cell_bytes(), self.start(block));
        let cells = self.cells_per_block(cell_bytes) as u32;
        let (headers, _) = self.headers(block, dense, cells as usize);
        let tail = (self.tables.tails as u64).wrapping_add(u64::from(block) * offsets.tail_bytes as u64);
        let mut first = array::<4>(self.memory, tail.wrapping_add(offsets.tail_first_run as u64))
            .map_or(NO_CELL, u32::from_le_bytes);
        while first != NO_CELL {
            let mut broken =
                |what: &str| damages.add(start, || Damage::FreeRun(format!("the run at cell {first} {what}")));
            if first >= cells {
                return broken("is outside of the block");
            }
            let mut link = [0; 8];
            let at = start + (offsets.first_cell + offsets.header_bytes) as u64 + u64::from(first) * cell_bytes;
            if read(self.memory, at, &mut link).is_err() {
                return;
            }
            let (next, count) = (u32_at(&link, 0), u32_at(&link, 4));
            let end = first.saturating_add(count);
            if count == 0 || end > cells || (next != NO_CELL && next < end) {
                return broken("has no valid length or successor");
            }
            if headers[first as usize..end as usize].iter().any(|header| *header != 0) {
                return broken("has an object");
            }
            first = next;
        }
    }
}
