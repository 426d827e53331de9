//! Charging: which cost centre stack an object was allocated under.
//!
//! The mechanism is in the heap ([`charges`](crate::heap::charges)): a table with one number for each cell, and one word for each
//! thread that holds the current number. Here the numbers are stacks. A world has the table if it was built with
//! [`Charging::On`](crate::heap::charges::Charging::On).
//!
//! Every object (small, large or pinned) is charged to the stack that its thread is in at the allocation. GHC cannot do this for
//! pinned objects and charges them to its centre `PINNED`; here they are charged to their stack as well.

use super::numbers::StackId;
use crate::heap::Heap;
use crate::heap::blocks::Cell;

/// Returns the cost centre stack that an object was allocated under, given the address of its payload. `None` if there is no such
/// object, or if the world does not charge allocations. Call it in the stopped world, after the collector has charged the
/// allocations that the stopped threads had not charged yet (it does so before it marks). Takes no lock and does not allocate.
pub(crate) fn charged_to(heap: &Heap, payload: usize) -> Option<StackId> {
    charge_of(heap, heap.blocks.cell_of_payload(payload)?)
}

/// Like [`charged_to`], for a cell that is already known.
#[inline]
pub(crate) fn charge_of(heap: &Heap, cell: Cell) -> Option<StackId> {
    Some(StackId(heap.charges()?.get(cell.block, cell.index)))
}
