//! What the project's own tests see from inside. Not part of the interface: it changes without notice.

pub use crate::world::inside::is_inside as is_inside_the_stopped_world;

use crate::profile::StackId;
use crate::{Gc, Mutator, OutOfMemory, Trace};

/// Allocates as [`Mutator::alloc`] does, with `meanwhile` run at the moment at which a stop hurts most: the value is in
/// its cell and nowhere else, and the cell is not an object yet (`.stop.mid-alloc`).
///
/// # Errors
/// As [`Mutator::alloc`].
///
/// # Safety
/// `build` writes a whole value of type `T` to the place that it is given. Neither `build` nor `meanwhile` allocates with this
/// mutator or unwinds.
pub unsafe fn alloc_with_a_pause<T: Trace>(
    mutator: &Mutator,
    build: impl Fn(*mut T),
    meanwhile: impl Fn(),
) -> Result<Gc<T>, OutOfMemory> {
    // SAFETY: the caller's promise.
    unsafe { mutator.alloc_with_a_pause(build, meanwhile) }
}

/// The cost centre stack that an object is charged to, if its world charges: one that this very thread has allocated, or any
/// if a collection has ended since and nobody allocates.
pub fn charged_to<T: Trace>(mutator: &Mutator, gc: Gc<T>) -> Option<StackId> {
    charged_to_address(mutator, gc.addr())
}

/// The same of the object at an address.
pub fn charged_to_address(mutator: &Mutator, address: usize) -> Option<StackId> {
    mutator.charged_to(address)
}
