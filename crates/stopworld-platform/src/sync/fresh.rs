//! Fresh memory of a type: mapped, and all zeros.
//!
//! The model checker has its own, with words that it knows: see `loom-tests`.

use std::io;
use std::marker::PhantomData;
use std::ops::Deref;

use super::{AtomicU32, AtomicU64};
use crate::os::memory::{Reservation, page_size};

/// What is valid when all its bytes are 0, and may then be shared. Declared by [`zeroed!`](super::zeroed).
///
/// # Safety
/// It is.
pub unsafe trait Zeroed: Sync + 'static {}

// SAFETY: zero is a valid number.
unsafe impl Zeroed for AtomicU32 {}
// SAFETY: as above.
unsafe impl Zeroed for AtomicU64 {}
// SAFETY: an array is its elements.
unsafe impl<T: Zeroed, const COUNT: usize> Zeroed for [T; COUNT] {}

/// A `T` of zeros in memory of its own, of which a page costs nothing until it is touched. Two system calls, legal everywhere. Dropping
/// unmaps it.
#[derive(Debug)]
pub struct Fresh<T> {
    memory: Reservation,
    _of: PhantomData<T>,
}

impl<T: Zeroed> Fresh<T> {
    /// # Errors
    /// The system gives no memory.
    pub fn map() -> io::Result<Self> {
        const { assert!(align_of::<T>() <= page_size(), "a mapping begins at a page") };
        let memory = Reservation::new(size_of::<T>(), page_size())?;
        memory.commit(0, memory.len())?;
        Ok(Self { memory, _of: PhantomData })
    }

    /// Where it is.
    pub fn as_ptr(&self) -> *mut T {
        self.memory.base().cast()
    }

    /// Never unmaps it: it is the process's from now on.
    pub fn keep(self) -> &'static T {
        let place = self.as_ptr();
        std::mem::forget(self);
        // SAFETY: mapped, large enough, and at a multiple of a page; zeros are a valid `T`; nobody is left who unmaps it.
        unsafe { &*place }
    }
}

impl<T: Zeroed> Deref for Fresh<T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: as in `keep`; mapped as long as `self`.
        unsafe { &*self.as_ptr() }
    }
}

/// Declares a struct that is valid when all its bytes are 0, because each of its fields is.
#[doc(hidden)]
#[macro_export]
macro_rules! __zeroed {
    ($(#[$attribute:meta])* $visibility:vis struct $name:ident $(<$(const $size:ident: usize),+>)? {
        $($(#[$field_attribute:meta])* $field:ident: $type:ty,)+
    }) => {
        $(#[$attribute])* $visibility struct $name $(<$(const $size: usize),+>)? {
            $($(#[$field_attribute])* $field: $type,)+
        }

        const _: () = {
            /// Does not compile if the struct has other fields than these, which an attribute could have given it.
            #[allow(dead_code, reason = "checked, never called")]
            fn has_these_fields $(<$(const $size: usize),+>)? (value: &$name $(<$($size),+>)?) {
                let $name { $($field),+ } = value;
                $(let _: &$type = $field;)+
            }
        };

        // SAFETY: each field is valid when it is all zeros, and may be shared, as the bounds say; there are no others, see above.
        unsafe impl $(<$(const $size: usize),+>)? $crate::sync::Zeroed for $name $(<$($size),+>)?
        where $($type: $crate::sync::Zeroed),+ {}
    };
}
pub use crate::__zeroed as zeroed;
