//! The references of arenas: [`Local`], a `Gc` with the lifetime of a scope, and [`Scoped`], the types that may contain one.

use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::marker::PhantomData;
use std::ops::Deref;
use std::slice;
use std::time::{Duration, Instant};

use super::cell::GcCell;
use super::pointer::Gc;
use super::trace::{Layout, Leaf, Trace, Word};
use crate::sync;

/// A reference to a collected object, for the time of one scope of an [`Arena`](crate::Arena). One word, `Copy`, never null;
/// `Option<Local<T>>` is one word too.
///
/// It may be kept anywhere in the scope, also in a `Vec` or a `Box`, because no object is freed while the scope lasts. Its lifetime keeps it
/// from leaving. Objects refer to each other by `Local` fields; [`Arena`](crate::Arena) has an example.
///
/// The traits are those of [`Gc`]: `==`, `Hash` and `Debug` look at the value, [`ptr_eq`](Self::ptr_eq) compares identity.
pub struct Local<'gc, T: ?Sized> {
    gc: Gc<T>,
    _scope: InScope<'gc>,
}

/// A lifetime that the compiler can neither shorten nor lengthen.
pub(crate) type InScope<'gc> = PhantomData<fn(&'gc ()) -> &'gc ()>;

impl<'gc, T: ?Sized> Local<'gc, T> {
    /// # Safety
    /// The object is not freed before the end of `'gc`, a lifetime that belongs to one scope.
    pub(crate) unsafe fn from_gc(gc: Gc<T>) -> Self {
        Self { gc, _scope: PhantomData }
    }

    /// Returns a reference to the value that is valid until the end of the scope. `Deref` borrows from the `Local` instead. Costs nothing; one load
    /// if `T` has no size.
    ///
    /// This is not a method, so that `local.as_ref()` calls one of the value.
    #[expect(
        clippy::should_implement_trait,
        reason = "`AsRef::as_ref` borrows from the `Local`; this function is for what `Deref` does not give"
    )]
    pub fn as_ref(this: Self) -> &'gc T
    where
        T: 'gc,
    {
        // SAFETY: no object is freed before the end of the scope (`from_gc`), and values are only shared.
        unsafe { &*Gc::as_ptr(this.gc) }
    }

    /// Returns whether both refer to the same object. (`==` compares the values.) Costs a comparison of two words.
    pub fn ptr_eq(this: Self, other: Self) -> bool {
        Gc::ptr_eq(this.gc, other.gc)
    }

    /// Returns the address of the object, which does not keep it alive. Costs nothing.
    pub fn addr(this: Self) -> usize {
        Gc::addr(this.gc)
    }
}

impl<T: ?Sized> Clone for Local<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T: ?Sized> Copy for Local<'_, T> {}

impl<T: ?Sized> Deref for Local<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.gc
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for Local<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

impl<T: ?Sized + fmt::Display> fmt::Display for Local<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

impl<T: ?Sized + PartialEq> PartialEq for Local<'_, T> {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl<T: ?Sized + Eq> Eq for Local<'_, T> {}

impl<T: ?Sized + PartialOrd> PartialOrd for Local<'_, T> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        (**self).partial_cmp(&**other)
    }
}

impl<T: ?Sized + Ord> Ord for Local<'_, T> {
    fn cmp(&self, other: &Self) -> Ordering {
        (**self).cmp(&**other)
    }
}

impl<T: ?Sized + Hash> Hash for Local<'_, T> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (**self).hash(state);
    }
}

/// A loop over the elements of an array, which are valid until the end of the scope.
impl<'gc, T: 'gc> IntoIterator for &Local<'gc, [T]> {
    type Item = &'gc T;
    type IntoIter = slice::Iter<'gc, T>;

    fn into_iter(self) -> slice::Iter<'gc, T> {
        Local::as_ref(*self).iter()
    }
}

// SAFETY: one word, the address of an object, as a `Gc`.
unsafe impl<T: ?Sized + 'static> Trace for Local<'static, T> {
    const NAME: &'static str = "Local";
    const LAYOUT: Layout = Layout::WORD;
    const ZERO_IS_READABLE: bool = true;
}

// SAFETY: one word, the object's address.
unsafe impl<T: ?Sized> Word for Local<'_, T> {
    const MAY_REFER: bool = true;
}

// SAFETY: as `Local`; `None` is null, which is no object's address.
unsafe impl<T: ?Sized> Word for Option<Local<'_, T>> {
    const MAY_REFER: bool = true;
}

/// A type whose values can be objects of an [`Arena`](crate::Arena). [`#[derive(Trace)]`](macro@crate::Trace) implements it, also for a type
/// with one lifetime, which is that of the scope.
///
/// # Safety
/// - `In<'gc>` and `Static` are this type with another lifetime for the scope, and are this type itself if it has none.
/// - Where that lifetime occurs in a value, it is that of a [`Local`]; it is never that of a reference of the language. So a value that
///   outlives its scope refers to nothing that ends with it.
#[diagnostic::on_unimplemented(
    message = "`{Self}` can't be part of an object in an arena",
    label = "not `Scoped`",
    note = "an object outlives the scope, so it can't borrow: refer to other objects by `Local<'gc, T>`, to text by `Local<'gc, str>`",
    note = "for a type of your own, write `#[derive(stopworld::Trace)]`"
)]
pub unsafe trait Scoped {
    /// This type in the scope `'gc`.
    type In<'gc>;
    /// This type with `'static` as the lifetime: so the heap knows it.
    type Static;
}

// SAFETY: the lifetime is that of a `Local`, and the target's type changes with it.
unsafe impl<T: Scoped> Scoped for Local<'_, T> {
    type In<'gc> = Local<'gc, T::In<'gc>>;
    type Static = Local<'static, T::Static>;
}

// SAFETY: as above.
unsafe impl<T: Scoped> Scoped for Local<'_, [T]> {
    type In<'gc> = Local<'gc, [T::In<'gc>]>;
    type Static = Local<'static, [T::Static]>;
}

// SAFETY: as above.
unsafe impl Scoped for Local<'_, str> {
    type In<'gc> = Local<'gc, str>;
    type Static = Local<'static, str>;
}

// SAFETY: it contains the lifetime where its content does.
unsafe impl<T: Scoped> Scoped for Option<T> {
    type In<'gc> = Option<T::In<'gc>>;
    type Static = Option<T::Static>;
}

// SAFETY: as above.
unsafe impl<T: Scoped, const N: usize> Scoped for [T; N] {
    type In<'gc> = [T::In<'gc>; N];
    type Static = [T::Static; N];
}

// SAFETY: as above.
unsafe impl<T: Scoped + Word> Scoped for GcCell<T>
where
    for<'gc> T::In<'gc>: Word,
    T::Static: Word,
{
    type In<'gc> = GcCell<T::In<'gc>>;
    type Static = GcCell<T::Static>;
}

// SAFETY: it has no lifetime but `'static`.
unsafe impl<T: Send + Sync + 'static> Scoped for Leaf<T> {
    type In<'gc> = Self;
    type Static = Self;
}

macro_rules! without_lifetime {
    ($($type:ty),* $(,)?) => {$(
        // SAFETY: it has no lifetime but `'static`.
        unsafe impl Scoped for $type {
            type In<'gc> = Self;
            type Static = Self;
        }
    )*};
}

without_lifetime! {
    (), bool, char, u8, u16, u32, u64, u128, usize, i8, i16, i32, i64, i128, isize, f32, f64, &'static str,
    sync::AtomicBool, sync::AtomicU32, sync::AtomicU64, sync::AtomicUsize, Duration, Instant,
}

macro_rules! tuples {
    ($(($($type:ident),+))+) => {$(
        // SAFETY: it contains the lifetime where its fields do.
        unsafe impl<$($type: Scoped),+> Scoped for ($($type,)+) {
            type In<'gc> = ($($type::In<'gc>,)+);
            type Static = ($($type::Static,)+);
        }
    )+};
}

tuples! {
    (A)
    (A, B)
    (A, B, C)
    (A, B, C, D)
}
