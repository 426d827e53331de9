//! What a mutator does with roots: makes them, and reads their objects.

use super::handles::Root;
use super::mutator::Mutator;
use crate::heap::pointer::Gc;
use crate::os::callback::refuse_inside;

impl Mutator {
    /// Returns whether this thread is in its own [blocking](Self::blocking) region, where a stop does not wait for it: it must not use an object.
    pub(crate) fn is_in_blocking_region(&self) -> bool {
        self.record.is_blocking()
    }

    /// Returns a handle that keeps the object alive, and that can be stored anywhere. Takes a lock.
    ///
    /// # Panics
    /// If the table of roots is full; see [`Root`].
    pub fn root<T: ?Sized + 'static>(&self, gc: Gc<T>) -> Root<T> {
        Root::new(self.world(), gc)
    }
}

impl<T: ?Sized + 'static> Root<T> {
    /// Returns the object. Costs a few loads.
    ///
    /// # Panics
    /// If `mutator` belongs to another world than this root, and inside the thread's own [blocking](Mutator::blocking) region, where a stop does
    /// not wait for it.
    #[inline]
    pub fn get(&self, mutator: &Mutator) -> Gc<T> {
        refuse_inside("Root::get");
        assert!(std::ptr::eq(&*self.world, &**mutator.world().inner()), "the root belongs to another world");
        assert!(
            !mutator.is_in_blocking_region(),
            "a thread uses a root inside its own blocking region, where a stop does not wait for it: take the object before or after the region"
        );
        // SAFETY: the slot holds the address of a `T`, and keeps that object alive.
        unsafe { Gc::from_addr(self.world.collector.roots.get(self.slot)) }
    }
}
