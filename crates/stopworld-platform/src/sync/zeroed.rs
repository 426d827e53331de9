//! ZeroedMapping memory for a value of a type: mapped, and all zeros.
//!
//! The model checker has its own version, whose words it tracks: see `loom-tests`.

use std::io;
use std::marker::PhantomData;
use std::ops::Deref;

use super::{AtomicU32, AtomicU64};
use crate::os::memory::{Reservation, page_size};

/// Types that are valid when all their bytes are 0, and may then be shared. Declared by `zeroed!`.
///
/// # Safety
/// All zero bytes are a valid value of the type.
pub unsafe trait Zeroed: Sync + 'static {}

// SAFETY: zero is a valid number.
unsafe impl Zeroed for AtomicU32 {}
// SAFETY: as above.
unsafe impl Zeroed for AtomicU64 {}
// SAFETY: an array consists only of its elements.
unsafe impl<T: Zeroed, const COUNT: usize> Zeroed for [T; COUNT] {}

/// A `T` of zeros in its own mapping, where a page costs nothing until it is touched. [`map`](Self::map) makes two system calls, which
/// are allowed in every context. Dropping unmaps the value.
#[derive(Debug)]
pub struct ZeroedMapping<T> {
    memory: Reservation,
    _of: PhantomData<T>,
}

impl<T: Zeroed> ZeroedMapping<T> {
    /// Maps a `T` of zeros.
    ///
    /// # Errors
    /// The system provides no memory.
    pub fn map() -> io::Result<Self> {
        const { assert!(align_of::<T>() <= page_size(), "a mapping is aligned to a page only") };
        let memory = Reservation::new(size_of::<T>(), page_size())?;
        memory.commit(0, memory.len())?;
        Ok(Self { memory, _of: PhantomData })
    }

    /// The address of the value.
    pub fn as_ptr(&self) -> *mut T {
        self.memory.base().cast()
    }

    /// Keeps it mapped for the rest of the process's life.
    pub fn keep(self) -> &'static T {
        let place = self.as_ptr();
        std::mem::forget(self);
        // SAFETY: mapped, large enough, and at a multiple of a page; zeros are a valid `T`; nothing unmaps it any more.
        unsafe { &*place }
    }
}

impl<T: Zeroed> Deref for ZeroedMapping<T> {
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
            /// Does not compile if an attribute has added a field to the struct.
            #[allow(dead_code, reason = "checked, never called")]
            fn has_these_fields $(<$(const $size: usize),+>)? (value: &$name $(<$($size),+>)?) {
                let $name { $($field),+ } = value;
                $(let _: &$type = $field;)+
            }
        };

        // SAFETY: each field is valid when it is all zeros, and may be shared, as the bounds say; the function above shows that there are
        // no other fields.
        unsafe impl $(<$(const $size: usize),+>)? $crate::sync::Zeroed for $name $(<$($size),+>)?
        where $($type: $crate::sync::Zeroed),+ {}
    };
}
pub use crate::__zeroed as zeroed;
