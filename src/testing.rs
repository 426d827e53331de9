//! Access to internals for the project's own tests. Not part of the public interface: it changes without notice.

pub use crate::world::inside::is_inside as is_inside_the_stopped_world;

use crate::profile::StackId;
use crate::{Gc, Mutator, OutOfMemory, Trace};

/// Allocates as [`Mutator::alloc`] does, and calls `meanwhile` at the most critical moment for a stop: when the value is only in
/// its cell, and the cell is not an object yet (`.stop.mid-alloc`).
///
/// # Errors
/// As [`Mutator::alloc`].
///
/// # Safety
/// `build` must write a complete value of type `T` to the pointer that it receives. Neither `build` nor `meanwhile` may
/// allocate with this mutator or unwind.
pub unsafe fn alloc_with_a_pause<T: Trace>(
    mutator: &Mutator,
    build: impl Fn(*mut T),
    meanwhile: impl Fn(),
) -> Result<Gc<T>, OutOfMemory> {
    // SAFETY: guaranteed by the caller.
    unsafe { mutator.alloc_with_a_pause(build, meanwhile) }
}

/// Returns the cost centre stack that an object is charged to, if its world charges allocations. The object must have been
/// allocated by the calling thread; or a collection must have ended since its allocation, and no thread may be allocating.
pub fn charged_to<T: ?Sized>(mutator: &Mutator, gc: Gc<T>) -> Option<StackId> {
    charged_to_address(mutator, Gc::addr(gc))
}

/// Does the same as [`charged_to`] for the object at an address.
pub fn charged_to_address(mutator: &Mutator, address: usize) -> Option<StackId> {
    mutator.charged_to(address)
}
