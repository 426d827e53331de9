//! Functions of the program that the library calls.

use std::marker::PhantomData;

use crate::sync::{AtomicPtr, Ordering};

/// A variable that holds the address of a function of type `F` (an `extern "C"` function pointer), or null. The program may read and
/// write it as a variable of C.
#[repr(transparent)]
pub(crate) struct Hook<F>(AtomicPtr<()>, PhantomData<F>);

impl<F: Copy> Hook<F> {
    const SIZE: () = assert!(size_of::<F>() == size_of::<*mut ()>(), "a hook holds a function pointer");

    /// `initial` is the address of a function of type `F`, or null.
    pub(crate) const fn new(initial: *const ()) -> Self {
        let () = Self::SIZE;
        Self(AtomicPtr::new(initial.cast_mut()), PhantomData)
    }

    /// Returns the function, if there is one.
    pub(crate) fn get(&self) -> Option<F> {
        // Relaxed: a program that sets the function while other threads use it has to synchronise itself, as with bdwgc.
        let address = self.0.load(Ordering::Relaxed);
        // SAFETY: `F` has the size of a pointer. The variable holds what `set` or the program has stored: by the interface, a function
        // of this type, or null, which is `None`.
        unsafe { std::mem::transmute_copy::<*mut (), Option<F>>(&address) }
    }

    /// Sets the function. Returns the one before.
    pub(crate) fn set(&self, function: Option<F>) -> Option<F> {
        let before = self.get();
        // SAFETY: an optional function pointer has the size of a pointer, and `None` is null.
        let address = unsafe { std::mem::transmute_copy::<Option<F>, *mut ()>(&function) };
        self.0.store(address, Ordering::Relaxed);
        before
    }
}
