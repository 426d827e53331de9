//! Charging: which cost centre stack an object was allocated under.
//!
//! The mechanism is the heap's ([`charges`](crate::heap::charges)): a table with a number for each cell, and a word for each thread
//! from which the numbers come. Here they are stacks. A world has the table if it was built with
//! [`charge_allocations`](crate::WorldBuilder::charge_allocations).
//!
//! Every object is charged to whom its thread's scopes say at the moment of the allocation, be it small, large or pinned. What
//! GHC charges to its centre `PINNED`, because it can't tell, is charged to its stack here.

use super::numbers::StackId;
use crate::heap::Heap;
use crate::heap::blocks::Cell;

/// The cost centre stack that an object was allocated under, given the address of its payload. `None` if there is no such object, or
/// if the world does not charge. For the stopped world, once the collector has charged for the stopped threads
/// (as it does before it marks); no lock, no allocation.
pub(crate) fn charged_to(heap: &Heap, payload: usize) -> Option<StackId> {
    charge_of(heap, heap.blocks.cell_of_payload(payload)?)
}

/// The same of a cell that was found already.
#[inline]
pub(crate) fn charge_of(heap: &Heap, cell: Cell) -> Option<StackId> {
    Some(StackId(heap.charges()?.get(cell.block, cell.index)))
}
