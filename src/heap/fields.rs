//! The types of the language and of the standard library that can be fields of collected objects ([`Trace`]), and those that a
//! [`GcCell`](crate::GcCell) can hold ([`Word`]).

use std::cmp;
use std::marker::PhantomData;
use std::mem::{offset_of, size_of};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::num;
use std::ops;
use std::sync::atomic::AtomicPtr;
use std::time::{Duration, Instant, SystemTime};

use super::array::ArrayName;
use super::trace::{Layout, Trace, UsedWords, Word};
use crate::sync;

// SAFETY: the elements lie `size_of::<T>()` apart, each with the layout of `T`.
unsafe impl<T: Trace, const N: usize> Trace for [T; N] {
    const NAME: &'static str = ArrayName::<T, N>::NAME;
    const LAYOUT: Layout = T::LAYOUT.repeated(N, size_of::<T>());
    const MUTABLE: bool = T::MUTABLE;
    const ZERO_IS_READABLE: bool = T::ZERO_IS_READABLE;

    unsafe fn clear_unused(value: *mut Self) {
        if T::LAYOUT.is_any_word() {
            // SAFETY: the caller's promise, for each element.
            (0..N).for_each(|index| unsafe { T::clear_unused(value.cast::<T>().add(index)) });
        }
    }
}

// SAFETY: a value without references has the layout of a leaf. Where `None` takes no word of its own and `T` is one word, the word of
// `None` is the one value that no `T` has: null for a reference. Every other layout is that any word may be a reference.
unsafe impl<T: Trace> Trace for Option<T> {
    const NAME: &'static str = "Option";
    const LAYOUT: Layout = if T::LAYOUT.is_leaf() || (size_of::<T>() == 8 && size_of::<Self>() == 8) {
        T::LAYOUT
    } else {
        Layout::any_word(size_of::<Self>())
    };
    const MUTABLE: bool = T::MUTABLE;
    const ZERO_IS_READABLE: bool = T::ZERO_IS_READABLE;

    unsafe fn clear_unused(value: *mut Self) {
        if !Self::LAYOUT.is_any_word() {
            return;
        }
        let mut used = UsedWords::of(value);
        // SAFETY: the caller's promise, and the constant.
        unsafe {
            if let Some(inner) = &mut *value {
                used.add(inner);
                T::clear_unused(inner);
            }
            if Self::ZERO_IS_READABLE {
                used.clear();
            }
        }
    }
}

// SAFETY: a value without references has the layout of a leaf. In every other, any word may be a reference.
unsafe impl<T: Trace, E: Trace> Trace for Result<T, E> {
    const NAME: &'static str = "Result";
    const LAYOUT: Layout =
        if T::LAYOUT.is_leaf() && E::LAYOUT.is_leaf() { Layout::LEAF } else { Layout::any_word(size_of::<Self>()) };
    const MUTABLE: bool = T::MUTABLE || E::MUTABLE;
    const ZERO_IS_READABLE: bool = T::ZERO_IS_READABLE && E::ZERO_IS_READABLE;

    unsafe fn clear_unused(value: *mut Self) {
        if !Self::LAYOUT.is_any_word() {
            return;
        }
        let mut used = UsedWords::of(value);
        // SAFETY: the caller's promise, and the constant.
        unsafe {
            match &mut *value {
                Ok(inner) => {
                    used.add(inner);
                    T::clear_unused(inner);
                }
                Err(inner) => {
                    used.add(inner);
                    E::clear_unused(inner);
                }
            }
            if Self::ZERO_IS_READABLE {
                used.clear();
            }
        }
    }
}

/// Structs of the standard library whose fields are public.
macro_rules! structs {
    ($($type:ident::$name:ident: $($field:tt),+;)+) => {$(
        // SAFETY: the layout is the union of the fields' own layouts at their real offsets, and each field is `Trace`.
        unsafe impl<T: Trace> Trace for $type::$name<T> {
            const NAME: &'static str = stringify!($name);
            const LAYOUT: Layout = Layout::LEAF $(.with(offset_of!(Self, $field), T::LAYOUT))+;
            const MUTABLE: bool = T::MUTABLE;
            const ZERO_IS_READABLE: bool = T::ZERO_IS_READABLE;

            unsafe fn clear_unused(value: *mut Self) {
                // SAFETY: the caller's promise, for each field.
                $(unsafe { T::clear_unused(&raw mut (*value).$field) };)+
            }
        }
    )+};
}

structs! {
    num::Wrapping: 0;
    num::Saturating: 0;
    cmp::Reverse: 0;
    ops::Range: start, end;
    ops::RangeFrom: start;
    ops::RangeTo: end;
}

// SAFETY: it has no bytes. Whether a type may be shared by threads depends on its markers, too, and what `T: Trace` marks may be shared. A marker
// for any type `T` is `PhantomData<fn() -> T>`.
unsafe impl<T: ?Sized + Trace> Trace for PhantomData<T> {
    const NAME: &'static str = "PhantomData";
    const LAYOUT: Layout = Layout::LEAF;
    const ZERO_IS_READABLE: bool = true;
}

// SAFETY: a `Sync` type contains no `Gc`. The collector frees nothing that a reference for ever refers to.
unsafe impl<T: ?Sized + Sync + 'static> Trace for &'static T {
    const NAME: &'static str = "&'static T";
    const LAYOUT: Layout = Layout::LEAF;
    const ZERO_IS_READABLE: bool = true;
}

macro_rules! tuples {
    ($(($($type:ident $index:tt),+))+) => {$(
        // SAFETY: the layout is the union of the fields' own layouts at their real offsets, and each field is `Trace`.
        unsafe impl<$($type: Trace),+> Trace for ($($type,)+) {
            const NAME: &'static str = "tuple";
            const LAYOUT: Layout = Layout::LEAF $(.with(offset_of!(Self, $index), $type::LAYOUT))+;
            const MUTABLE: bool = false $(|| $type::MUTABLE)+;
            const ZERO_IS_READABLE: bool = true $(&& $type::ZERO_IS_READABLE)+;

            unsafe fn clear_unused(value: *mut Self) {
                // SAFETY: the caller's promise, for each field.
                $(unsafe { $type::clear_unused(&raw mut (*value).$index) };)+
            }
        }
    )+};
}

tuples! {
    (A 0)
    (A 0, B 1)
    (A 0, B 1, C 2)
    (A 0, B 1, C 2, D 3)
    (A 0, B 1, C 2, D 3, E 4)
    (A 0, B 1, C 2, D 3, E 4, F 5)
    (A 0, B 1, C 2, D 3, E 4, F 5, G 6)
    (A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7)
}

macro_rules! functions {
    ($($($parameter:ident)*;)+) => {$(
        functions!(@kinds [fn($($parameter),*) -> R] [$($parameter)*]);
        functions!(@kinds [unsafe fn($($parameter),*) -> R] [$($parameter)*]);
        functions!(@kinds [extern "C" fn($($parameter),*) -> R] [$($parameter)*]);
        functions!(@kinds [unsafe extern "C" fn($($parameter),*) -> R] [$($parameter)*]);
    )+};
    (@kinds [$($type:tt)+] [$($parameter:ident)*]) => {
        // SAFETY: a pointer to code, which is no reference to an object.
        unsafe impl<R: 'static $(, $parameter: 'static)*> Trace for $($type)+ {
            const NAME: &'static str = "fn";
            const LAYOUT: Layout = Layout::LEAF;
            const ZERO_IS_READABLE: bool = true;
        }

        // SAFETY: a pointer to code is a word, the same for all threads, and no reference to an object.
        unsafe impl<R: 'static $(, $parameter: 'static)*> Word for $($type)+ {
            const MAY_REFER: bool = false;
        }

        // SAFETY: as for the pointer itself; `None` is 0.
        unsafe impl<R: 'static $(, $parameter: 'static)*> Word for Option<$($type)+> {
            const MAY_REFER: bool = false;
        }
    };
}

functions! {
    ;
    A;
    A B;
    A B C;
    A B C D;
    A B C D E;
    A B C D E F;
}

macro_rules! leaves {
    ($($type:ty),* $(,)?) => {$(
        // SAFETY: a plain value without references, `Sync` and without drop glue.
        unsafe impl Trace for $type {
            const NAME: &'static str = stringify!($type);
            const LAYOUT: Layout = Layout::LEAF;
            const ZERO_IS_READABLE: bool = true;
        }
    )*};
}

leaves!(
    (),
    bool,
    char,
    u8,
    u16,
    u32,
    u64,
    u128,
    usize,
    i8,
    i16,
    i32,
    i64,
    i128,
    isize,
    f32,
    f64,
    Duration,
    Instant,
    SystemTime,
    sync::AtomicBool,
    sync::AtomicI8,
    sync::AtomicI16,
    sync::AtomicI32,
    sync::AtomicI64,
    sync::AtomicIsize,
    sync::AtomicU8,
    sync::AtomicU16,
    sync::AtomicU32,
    sync::AtomicU64,
    sync::AtomicUsize,
    cmp::Ordering,
    ops::RangeFull,
    Ipv4Addr,
    Ipv6Addr,
    IpAddr,
    SocketAddr,
    num::NonZeroU128,
    num::NonZeroI128,
);

// SAFETY: a word that safe code can't use as a reference to an object, `Sync` and without drop glue.
unsafe impl<T: 'static> Trace for AtomicPtr<T> {
    const NAME: &'static str = "AtomicPtr";
    const LAYOUT: Layout = Layout::LEAF;
    const ZERO_IS_READABLE: bool = true;
}

/// Numbers that are not zero.
macro_rules! not_zero {
    ($($type:ident),* $(,)?) => {$(
        // SAFETY: a plain value without references, `Sync` and without drop glue.
        unsafe impl Trace for num::$type {
            const NAME: &'static str = stringify!($type);
            const LAYOUT: Layout = Layout::LEAF;
            const ZERO_IS_READABLE: bool = true;
        }

        // SAFETY: a number of at most 8 bytes, which is no reference.
        unsafe impl Word for num::$type {
            const MAY_REFER: bool = false;
        }

        // SAFETY: as for the number itself; `None` is 0.
        unsafe impl Word for Option<num::$type> {
            const MAY_REFER: bool = false;
        }
    )*};
}

not_zero!(
    NonZeroU8,
    NonZeroU16,
    NonZeroU32,
    NonZeroU64,
    NonZeroUsize,
    NonZeroI8,
    NonZeroI16,
    NonZeroI32,
    NonZeroI64,
    NonZeroIsize,
);

macro_rules! plain_words {
    ($($type:ty),* $(,)?) => {$(
        // SAFETY: a value of at most 8 bytes without padding, which is no reference.
        unsafe impl Word for $type {
            const MAY_REFER: bool = false;
        }
    )*};
}

plain_words!(
    (),
    bool,
    char,
    f32,
    f64,
    usize,
    isize,
    u64,
    i64,
    u32,
    i32,
    u16,
    i16,
    u8,
    i8,
    cmp::Ordering,
    Option<bool>,
    Option<char>,
    Option<cmp::Ordering>,
);

// The numbers of `None` are among the values that the type itself does not have, so no byte is padding.
const _: () = assert!(size_of::<Option<bool>>() == 1 && size_of::<Option<char>>() == 4);
const _: () = assert!(size_of::<Option<cmp::Ordering>>() == 1);

// SAFETY: a pointer that is valid for ever, the same for all threads. The collector frees nothing to which a reference for ever refers.
unsafe impl<T: Sync + 'static> Word for &'static T {
    const MAY_REFER: bool = false;
}

// SAFETY: as above; `None` is 0.
unsafe impl<T: Sync + 'static> Word for Option<&'static T> {
    const MAY_REFER: bool = false;
}
