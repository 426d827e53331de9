//! Zeroed memory for the model checker: the thread that maps it creates the checker's own atomics, initialized to 0.

use std::io;
use std::ops::Deref;

use super::{AtomicU32, AtomicU64};

/// Types whose initial value is 0.
///
/// # Safety
/// As for the shipped trait.
pub(crate) unsafe trait Zeroed: Sync + 'static {
    fn zero() -> Self;
}

// SAFETY: zero is a valid number.
unsafe impl Zeroed for AtomicU32 {
    fn zero() -> Self {
        AtomicU32::new(0)
    }
}

// SAFETY: as above.
unsafe impl Zeroed for AtomicU64 {
    fn zero() -> Self {
        AtomicU64::new(0)
    }
}

// SAFETY: all elements are valid when they are zero.
unsafe impl<T: Zeroed, const COUNT: usize> Zeroed for [T; COUNT] {
    fn zero() -> Self {
        std::array::from_fn(|_| T::zero())
    }
}

/// Like the shipped type. Memory that was kept is never freed, which is a small leak for each execution.
pub(crate) struct ZeroedMapping<T>(Box<T>);

impl<T: Zeroed> ZeroedMapping<T> {
    pub(crate) fn map() -> io::Result<Self> {
        Ok(ZeroedMapping(Box::new(T::zero())))
    }

    pub(crate) fn as_ptr(&self) -> *mut T {
        std::ptr::from_ref(&*self.0).cast_mut()
    }

    pub(crate) fn keep(self) -> &'static T {
        Box::leak(self.0)
    }
}

impl<T> Deref for ZeroedMapping<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

/// Like the shipped macro.
macro_rules! zeroed {
    ($(#[$attribute:meta])* $visibility:vis struct $name:ident $(<$(const $size:ident: usize),+>)? {
        $($(#[$field_attribute:meta])* $field:ident: $type:ty,)+
    }) => {
        $(#[$attribute])* $visibility struct $name $(<$(const $size: usize),+>)? {
            $($(#[$field_attribute])* $field: $type,)+
        }

        // SAFETY: all fields are valid when they are zero.
        unsafe impl $(<$(const $size: usize),+>)? $crate::sync::Zeroed for $name $(<$($size),+>)? {
            fn zero() -> Self {
                $name { $($field: $crate::sync::Zeroed::zero()),+ }
            }
        }
    };
}
pub(crate) use zeroed;
