//! The sizes of the address space that a world reserves.
//!
//! A world reserves everything at once: the heap at its limit, its tables, a mark stack for each marker, the tables of
//! handles and finalizers. A reservation costs no memory before it is used, but counts against a limit of the process's
//! address space (RLIMIT_AS, `ulimit -v`). So the sizes that the program did not set are halved until they fit:
//!
//! ```text
//!   halvings   heap (default)   mark stack   handles     finalizers
//!       0      memory / 2       1 GiB        4 Mi        16 Mi
//!       1      memory / 4       512 MiB      2 Mi        8 Mi
//!       …      … 16 MiB         … 1 MiB      … 16 Ki     … 16 Ki
//! ```
//! The first attempt uses the first row that takes at most half of the free address space, since threads, rings and traces
//! also need address space. If the address space has no limit, the first attempt uses row 0. Each time the system refuses, the next row is
//! tried. A heap limit or mark stack limit that the program set is never reduced: if nothing fits next to it, the error names that setting.

use std::io;

use crate::collector::finalize::Finalizers;
use crate::collector::parallel::Markers;
use crate::collector::roots::Ranges;
use crate::heap::charges::Charging;
use crate::heap::layout::{BLOCK_BYTES, MARKS_PER_BLOCK};
use crate::heap::references::ObjectPointers;
use crate::heap::slots::SlotTable;
use crate::heap::{Heap, Paranoid};
use crate::os::memory::{self, AddressSpace};
use crate::sync::SharedLock;

use super::build_error::{BuildError, LEAST_HEAP_BYTES, LimitSetting};

/// The default size of a mark stack.
const MARK_STACK_BYTES: usize = 1 << 30;
/// The smallest mark stack that is reserved if the program set none.
const LEAST_MARK_STACK_BYTES: usize = 1 << 20;
/// The default capacities of the tables of handles and of registered finalizers, and the smallest of both.
const HANDLES: usize = 1 << 22;
const FINALIZERS: usize = 1 << 24;
const LEAST_ENTRIES: usize = 1 << 14;
/// The number of halvings after which no size gets smaller.
const MOST_HALVINGS: u32 = 24;

/// Address space of a handle: a word.
const HANDLE_BYTES: u64 = 8;
/// Address space of a finalizer: one entry in each of the two queues.
const FINALIZER_BYTES: u64 = 2 * 32;
/// The words, heads and tails of a block, and its part of the map of free blocks.
const BLOCK_TABLES_BYTES: u64 = 8 + 8 + 24 + 2;
/// The charge words of a block and of its cells.
const CHARGES_BYTES: u64 = 4 + 4 * MARKS_PER_BLOCK as u64;

/// The requested sizes. A size that the program did not set is `None`.
#[derive(Clone, Copy, Debug)]
pub(super) struct RequestedSizes {
    pub(super) heap: Option<usize>,
    pub(super) default_heap: usize,
    pub(super) mark_stack: Option<usize>,
    pub(super) markers: usize,
    pub(super) paranoid: Paranoid,
    pub(super) charging: Charging,
    pub(super) untyped: Option<ObjectPointers>,
}

/// The result of a reservation.
pub(super) struct Reserved {
    pub(super) heap: Heap,
    pub(super) markers: Markers,
    pub(super) handles: SlotTable,
    pub(super) ranges: Ranges,
    pub(super) finalizers: Finalizers,
}

/// A row of the table in the module documentation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Sizes {
    heap: usize,
    mark_stack: usize,
    handles: usize,
    finalizers: usize,
}

impl RequestedSizes {
    /// Reserves the largest sizes that fit. `allocation` is the world's allocation lock.
    pub(super) fn reserve(&self, allocation: &SharedLock) -> Result<Reserved, BuildError> {
        let space = memory::address_space();
        let mut halvings = self.first_row(&space);
        loop {
            let sizes = self.sizes(halvings);
            let next = halvings + 1;
            match self.try_to_reserve(sizes, allocation.clone()) {
                Ok(reserved) => return Ok(reserved),
                Err(error) if error.kind() != io::ErrorKind::OutOfMemory => return Err(error.into()),
                Err(_) if next < MOST_HALVINGS => halvings = next,
                Err(_) => return Err(self.refused(sizes, space)),
            }
        }
    }

    fn first_row(&self, space: &AddressSpace) -> u32 {
        let Some(free) = space.free() else { return 0 };
        let fits = |halvings: &u32| self.bytes(self.sizes(*halvings)) <= free / 2;
        (0..MOST_HALVINGS).find(fits).unwrap_or(MOST_HALVINGS - 1)
    }

    fn sizes(&self, halvings: u32) -> Sizes {
        let halved = |bytes: usize, least: usize| (bytes >> halvings).max(least.min(bytes));
        Sizes {
            heap: self.heap.unwrap_or_else(|| halved(self.default_heap, LEAST_HEAP_BYTES)),
            mark_stack: self.mark_stack.unwrap_or_else(|| halved(MARK_STACK_BYTES, LEAST_MARK_STACK_BYTES)),
            handles: halved(HANDLES, LEAST_ENTRIES),
            finalizers: halved(FINALIZERS, LEAST_ENTRIES),
        }
    }

    /// Returns the bytes of address space that these sizes take.
    fn bytes(&self, sizes: Sizes) -> u64 {
        let charges = if self.charging == Charging::On { CHARGES_BYTES } else { 0 };
        let blocks = (sizes.heap / BLOCK_BYTES) as u64 + 1;
        let of_blocks = blocks * (BLOCK_BYTES as u64 + MARKS_PER_BLOCK as u64 + BLOCK_TABLES_BYTES + charges);
        let stacks = (sizes.mark_stack as u64).saturating_mul(self.markers as u64);
        let entries = sizes.handles as u64 * HANDLE_BYTES + sizes.finalizers as u64 * FINALIZER_BYTES;
        of_blocks.saturating_add(stacks).saturating_add(entries)
    }

    fn try_to_reserve(&self, sizes: Sizes, allocation: SharedLock) -> io::Result<Reserved> {
        Ok(Reserved {
            heap: Heap::new(sizes.heap, self.paranoid, self.charging, self.untyped, allocation)?,
            markers: Markers::new(self.markers, sizes.mark_stack)?,
            handles: SlotTable::new(sizes.handles)?,
            ranges: Ranges::new()?,
            finalizers: Finalizers::new(sizes.finalizers)?,
        })
    }

    fn refused(&self, sizes: Sizes, space: AddressSpace) -> BuildError {
        let asked = self.bytes(sizes);
        // If the program set both limits, the error names that of the mark stacks only if they take at least half of the address space.
        let stacks = (sizes.mark_stack as u64).saturating_mul(self.markers as u64);
        let is_heap = self.heap.is_some() && (self.mark_stack.is_none() || stacks < asked / 2);
        let setting = match (is_heap, self.mark_stack) {
            (true, _) => LimitSetting::HeapLimit(sizes.heap),
            (false, Some(bytes)) => LimitSetting::MarkStackLimit(bytes),
            (false, None) => LimitSetting::Least(sizes.heap),
        };
        BuildError::AddressSpace { asked, setting, limit: space.limit, used: space.used }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    fn requested(heap: Option<usize>) -> RequestedSizes {
        RequestedSizes {
            heap,
            default_heap: 12 << 30,
            mark_stack: None,
            markers: 2,
            paranoid: Paranoid::Off,
            charging: Charging::Off,
            untyped: None,
        }
    }

    fn space(limit_mib: u64) -> AddressSpace {
        AddressSpace { limit: Some(limit_mib << 20), used: 20 << 20 }
    }

    #[rstest]
    fn the_first_row_takes_at_most_half_of_what_is_left(
        #[values(160, 256, 512, 1024, 2048, 8192, 1 << 20)] limit_mib: u64,
        #[values(Charging::Off, Charging::On)] charging: Charging,
    ) {
        let requested = RequestedSizes { charging, ..requested(None) };
        let space = space(limit_mib);
        let row = requested.first_row(&space);
        let bytes = requested.bytes(requested.sizes(row));
        assert!(bytes <= space.free().unwrap() / 2, "{bytes}");
        // The row is no smaller than necessary.
        assert!(row == 0 || requested.bytes(requested.sizes(row - 1)) > space.free().unwrap() / 2);
    }

    #[test]
    fn without_a_limit_nothing_is_halved_and_sizes_that_the_program_set_never_are() {
        assert_eq!(requested(None).first_row(&AddressSpace { limit: None, used: 0 }), 0);
        let set = requested(Some(4 << 30));
        let row = set.first_row(&space(256));
        assert_eq!(set.sizes(row).heap, 4 << 30);
        assert_eq!(set.sizes(row).mark_stack, LEAST_MARK_STACK_BYTES);
    }

    /// The computed sum is what is really mapped, up to alignment.
    #[rstest]
    fn the_sum_of_the_sizes_is_what_a_world_maps(#[values(Charging::Off, Charging::On)] charging: Charging) {
        let requested = RequestedSizes { charging, ..requested(Some(256 << 20)) };
        let sizes = requested.sizes(6);
        let before = memory::address_space().used;
        let reserved = requested.try_to_reserve(sizes, SharedLock::alone()).unwrap();
        let mapped = memory::address_space().used.saturating_sub(before);
        drop(reserved);
        let sum = requested.bytes(sizes);
        // Tests that run at the same time map and unmap memory too, but less than this.
        assert!(mapped.abs_diff(sum) < sum / 4, "{mapped} bytes are mapped, expected {sum}");
    }
}
