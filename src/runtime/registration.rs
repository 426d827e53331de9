//! Registration of finalizers.

use super::{Exhausted, Mutator, OutOfMemory};
use crate::collector::finalize::{Action, Entry};
use crate::heap::pointer::Gc;
use crate::heap::trace::{Described, Trace};
use crate::os::callback::refuse_inside;

impl Mutator {
    /// Registers `finalizer`, to be called with the object after a collection has found it otherwise unreachable. The finalizer runs on the
    /// world's finalizer thread, once for each registration. It may resurrect the object, and may panic: the panic is counted in
    /// [`Totals::finalizers_panicked`](crate::Totals::finalizers_panicked).
    ///
    /// A closure that captures something costs one allocation of malloc. `Send` keeps every `Gc` out of it. The closure is dropped after the
    /// call, or, if the world closes first, without a call when the world closes. Until then it keeps alive what it captures: a
    /// closure with a [`World`](crate::World) keeps the world open, and one with a [`Root`](crate::Root) to its own object keeps that object alive.
    ///
    /// ```
    /// use std::sync::mpsc;
    /// use stopworld::World;
    ///
    /// let world = World::builder().build()?;
    /// let (closed, all_closed) = mpsc::channel();
    /// // SAFETY: this thread keeps every `Gc` in local variables.
    /// let maker = unsafe {
    ///     world.spawn("maker", move |mutator| {
    ///         for file in 0..3_u32 {
    ///             let closed = closed.clone();
    ///             let object = mutator.alloc(file).unwrap();
    ///             mutator.set_finalizer(object, move |_, object| closed.send(*object).unwrap()).unwrap();
    ///         }
    ///     })
    /// };
    /// maker?.join().unwrap();
    /// world.collect()?;
    /// assert_eq!(all_closed.iter().take(3).sum::<u32>(), 3);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// Too many finalizers are registered (16,777,216, or fewer if the process's address space is limited), or the finalizer
    /// thread could not be started. `finalizer` is dropped.
    pub fn set_finalizer<T: ?Sized + 'static, F>(&self, gc: Gc<T>, finalizer: F) -> Result<(), OutOfMemory>
    where
        F: FnOnce(&Mutator, Gc<T>) + Send + 'static,
    {
        /// # Safety
        /// `closure` is the address of a boxed `F`, which is used up. In `call`, the first is a `Mutator`, the second the payload of a live
        /// object of type `T`.
        unsafe fn call_or_drop<T: ?Sized, F: FnOnce(&Mutator, Gc<T>)>(
            closure: *mut (),
            call: Option<(*const (), usize)>,
        ) {
            // SAFETY: the caller's promise.
            let closure = unsafe { *Box::from_raw(closure.cast::<F>()) };
            if let Some((mutator, payload)) = call {
                // SAFETY: the caller's promise.
                unsafe { closure(&*mutator.cast::<Mutator>(), Gc::from_addr(payload)) };
            }
        }
        let closure = Box::into_raw(Box::new(finalizer)).cast();
        let action = Action::Call { trampoline: call_or_drop::<T, F>, closure };
        let registered = self.register(Entry { object: Gc::addr(gc), action });
        if registered.is_err() {
            // SAFETY: the table does not contain the entry.
            unsafe { action.discard() };
        }
        registered
    }

    #[cold]
    #[inline(never)]
    pub(super) fn register_drop<T: Trace>(&self, gc: Gc<T>) -> Result<(), OutOfMemory> {
        // The function is always present, because the caller has checked `needs_drop`.
        let Some(drop_in_place) = T::INFO.drop_in_place else { return Ok(()) };
        let registered = self.register(Entry { object: Gc::addr(gc), action: Action::Drop(drop_in_place) });
        if registered.is_err() {
            // SAFETY: no other code has a reference to the object or gets one.
            unsafe { Gc::as_ptr(gc).cast_mut().drop_in_place() };
        }
        registered
    }

    fn register(&self, entry: Entry) -> Result<(), OutOfMemory> {
        refuse_inside("Mutator::set_finalizer");
        let finalizers = &self.world().collector().finalizers;
        // The thread first: after an error the table must not contain the entry. Otherwise the value, which the caller then
        // drops, would be dropped again.
        let exhausted = if self.world().inner().start_finalizers().is_err() {
            Exhausted::FinalizerThread
        } else if !finalizers.register(entry, || self.lock(&finalizers.lock)) {
            Exhausted::Finalizers { entries: finalizers.capacity() as u64 }
        } else {
            return Ok(());
        };
        Err(OutOfMemory { exhausted, ..self.out_of_memory(size_of::<Entry>()) })
    }
}
