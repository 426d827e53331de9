//! The standard library's traits for [`Gc`], by the conventions of `Rc`: they look at the value.

use std::borrow::Borrow;
use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::ops::Deref;
use std::slice;

use super::pointer::Gc;
use super::trace::{Layout, Trace, Word};

impl<T: ?Sized + fmt::Debug> fmt::Debug for Gc<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

impl<T: ?Sized + fmt::Display> fmt::Display for Gc<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

impl<T: ?Sized> fmt::Pointer for Gc<T> {
    /// Formats the address of the object.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Pointer::fmt(&(Gc::addr(*self) as *const u8), f)
    }
}

impl<T: ?Sized + PartialEq> PartialEq for Gc<T> {
    /// Compares the values. [`Gc::ptr_eq`] compares identity.
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl<T: ?Sized + Eq> Eq for Gc<T> {}

impl<T: ?Sized + PartialOrd> PartialOrd for Gc<T> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        (**self).partial_cmp(&**other)
    }
}

impl<T: ?Sized + Ord> Ord for Gc<T> {
    fn cmp(&self, other: &Self) -> Ordering {
        (**self).cmp(&**other)
    }
}

impl<T: ?Sized + Hash> Hash for Gc<T> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (**self).hash(state);
    }
}

impl<T: ?Sized> AsRef<T> for Gc<T> {
    fn as_ref(&self) -> &T {
        self
    }
}

impl<T: ?Sized> Borrow<T> for Gc<T> {
    fn borrow(&self) -> &T {
        self
    }
}

/// A loop over the elements of an array, as over those of a `&Rc<[T]>`.
impl<'a, T> IntoIterator for &'a Gc<[T]> {
    type Item = &'a T;
    type IntoIter = slice::Iter<'a, T>;

    fn into_iter(self) -> slice::Iter<'a, T> {
        self.iter()
    }
}

/// A reference that is compared and hashed by its address: a key for "this very object". The collector does not move objects, so the
/// hash of a live object never changes.
///
/// ```
/// use std::collections::HashSet;
/// use stopworld::{ByAddress, World};
///
/// let world = World::builder().build()?;
/// // SAFETY: the objects of this thread are in local variables too, until the set is gone.
/// let mutator = unsafe { world.attach("main") }?;
/// let (one, other) = (mutator.alloc_str("text")?, mutator.alloc_str("text")?);
/// assert_eq!(one, other);
/// assert_ne!(ByAddress(one), ByAddress(other));
/// let seen = HashSet::from([ByAddress(one)]);
/// assert!(seen.contains(&ByAddress(one)) && !seen.contains(&ByAddress(other)));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[repr(transparent)]
pub struct ByAddress<T: ?Sized>(pub Gc<T>);

impl<T: ?Sized> Clone for ByAddress<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T: ?Sized> Copy for ByAddress<T> {}

impl<T: ?Sized> Deref for ByAddress<T> {
    type Target = Gc<T>;

    fn deref(&self) -> &Gc<T> {
        &self.0
    }
}

impl<T: ?Sized> PartialEq for ByAddress<T> {
    fn eq(&self, other: &Self) -> bool {
        Gc::ptr_eq(self.0, other.0)
    }
}

impl<T: ?Sized> Eq for ByAddress<T> {}

impl<T: ?Sized> PartialOrd for ByAddress<T> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<T: ?Sized> Ord for ByAddress<T> {
    fn cmp(&self, other: &Self) -> Ordering {
        Gc::addr(self.0).cmp(&Gc::addr(other.0))
    }
}

impl<T: ?Sized> Hash for ByAddress<T> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        Gc::addr(self.0).hash(state);
    }
}

impl<T: ?Sized> fmt::Debug for ByAddress<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Pointer::fmt(&self.0, f)
    }
}

// SAFETY: the reference that it contains.
unsafe impl<T: ?Sized + 'static> Trace for ByAddress<T> {
    const NAME: &'static str = "ByAddress";
    const LAYOUT: Layout = Layout::WORD;
    const ZERO_IS_READABLE: bool = true;
}

// SAFETY: the reference that it contains.
unsafe impl<T: ?Sized + 'static> Word for ByAddress<T> {
    const MAY_REFER: bool = true;
}
