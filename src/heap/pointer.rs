//! The references that programs use: `Gc<T>` and weak references.
//!
//! A [`Gc`] is one word, the address of an object's payload, and is `Copy`: copying it needs no count, no registration and no
//! barrier. This is sound because of the safety requirement of [`World::attach`](crate::World::attach): while the object is
//! needed, some copy is in a place that the collector scans. `Gc` is neither `Send` nor `Sync`, so it cannot leave its thread
//! through a channel or a captured closure; a [`Root`](crate::Root) can.
//!
//! # References to types without a size
//! The marker reads words, so a `Gc<str>`, a `Gc<[T]>` or a `Gc<dyn Trait>` is one word too. A reference of the language to such a type
//! has two: the address, and the length or the table of the methods. The second is in the object, before the value:
//!
//! ```text
//!   Gc<T>                 -> value
//!   Gc<str>, Gc<[T]>      -> length         | elements
//!   Gc<dyn Trait>         -> method table   | value
//! ```
//!
//! So dereferencing loads one word more. `size_of::<&T>()` shows which kind `T` is.

use std::fmt;
use std::marker::PhantomData;
use std::mem::{size_of, transmute_copy};
use std::ops::Deref;
use std::ptr::NonNull;

use super::layout::HEADER_BYTES;
use super::trace::{Layout, Shape, Trace, TypeInfo, Word};
use crate::sync::{AtomicUsize, Ordering};

/// A reference to a collected object. One word, `Copy`, never null; `Option<Gc<T>>` is one word too.
///
/// [`Mutator::alloc`](crate::Mutator::alloc) returns one. It keeps its object alive while a copy is on the stack of an attached
/// thread, in its registers, in a live collected object, or in a registered range. Copying is a copy of one word, and
/// dereferencing is a plain load: there is no count and no barrier. Dereferencing is safe because of the safety requirement of
/// [`World::attach`](crate::World::attach). Objects never move.
///
/// ```
/// use stopworld::{Gc, GcCell, World, traced};
///
/// traced! {
///     struct Node { next: GcCell<Option<Gc<Node>>>, value: u64 }
/// }
///
/// let world = World::builder().build()?;
/// // SAFETY: this thread keeps every `Gc` in local variables and in collected objects.
/// let mutator = unsafe { world.attach("main") }?;
/// let last = mutator.alloc(Node { next: GcCell::new(None), value: 2 })?;
/// let first = mutator.alloc(Node { next: GcCell::new(Some(last)), value: 1 })?;
/// last.next.set(Some(first)); // a cycle, which a collection can free
/// mutator.collect()?;
/// let second = first.next.get().unwrap();
/// assert_eq!(second.value, 2);
/// assert!(Gc::ptr_eq(second.next.get().unwrap(), first));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # The usual traits
/// They are those of [`Rc`](std::rc::Rc): `==`, `<`, `Hash`, `Debug` and `Display` look at the value, and a `Gc<str>` can be looked up by
/// a `&str`. [`ptr_eq`](Self::ptr_eq) compares identity; [`ByAddress`](crate::ByAddress) is a key that does. As for `Rc`, `Debug` and `==`
/// do not return if objects refer to each other in a cycle, unless the type ends the recursion.
///
/// Its own functions are not methods, as those of `Rc`: `Gc::as_ptr(text)` is a pointer to the `str`, and `text.as_ptr()` what `str` makes of it.
///
/// # Types without a size
/// `Gc<str>` ([`alloc_str`](crate::Mutator::alloc_str)), `Gc<[T]>` ([`alloc_slice`](crate::Mutator::alloc_slice)) and `Gc<dyn Trait>`
/// ([`alloc_dyn`](crate::Mutator::alloc_dyn)) are one word as well: the length, or the address of the method table, is the first word of
/// the object. Dereferencing costs one more load, and the object is 8 bytes larger than its value.
pub struct Gc<T: ?Sized> {
    payload: NonNull<u8>,
    _neither_send_nor_sync: PhantomData<*mut T>,
}

/// A reference of the language to a type without a size, as it is in memory.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct Wide {
    pub(super) data: *const u8,
    /// The length of a slice or a `str`, or the address of a method table.
    pub(super) metadata: *const (),
}

/// Bytes before the value of an object whose type has no size: see the documentation of this module.
pub(crate) const METADATA_BYTES: usize = size_of::<*const ()>();

/// Whether a reference to a `T` is one word.
const fn is_thin<T: ?Sized>() -> bool {
    assert!(size_of::<*const T>() == size_of::<usize>() || size_of::<*const T>() == size_of::<Wide>());
    size_of::<*const T>() == size_of::<usize>()
}

impl<T: ?Sized> Gc<T> {
    /// # Safety
    /// `payload` is the payload of a live object of type `T`. If `T` has no size, the object begins with the metadata of a reference to it.
    #[inline(always)]
    pub(crate) unsafe fn from_payload(payload: NonNull<u8>) -> Self {
        Self { payload, _neither_send_nor_sync: PhantomData }
    }

    /// Returns the address of the object. The number alone does not keep the object alive, unless it is in scanned memory. Costs nothing: it is
    /// the word itself.
    #[inline(always)]
    pub fn addr(this: Self) -> usize {
        this.payload.as_ptr() as usize
    }

    /// Returns whether both refer to the same object. (`==` compares the values.) Objects never move, and two live objects never have the
    /// same address. Costs a comparison of two words.
    #[inline(always)]
    pub fn ptr_eq(this: Self, other: Self) -> bool {
        this.payload == other.payload
    }

    /// Returns a pointer to the value. It keeps the object alive in the same places as the `Gc` does. Costs nothing; one load if `T` has no size.
    #[inline(always)]
    pub fn as_ptr(this: Self) -> *const T {
        if const { is_thin::<T>() } {
            // SAFETY: a pointer of one word is an address.
            return unsafe { transmute_copy::<NonNull<u8>, *const T>(&this.payload) };
        }
        // SAFETY: the object is live, and begins with its metadata, which never changes.
        let metadata = unsafe { this.payload.as_ptr().cast::<*const ()>().read() };
        let wide = Wide { data: this.payload.as_ptr().wrapping_add(METADATA_BYTES), metadata };
        // SAFETY: a pointer of two words is the address of the value and its metadata; `alloc_dyn` has checked the order.
        unsafe { transmute_copy::<Wide, *const T>(&wide) }
    }

    /// Makes a `Gc` from an address that [`addr`](Self::addr) returned.
    ///
    /// # Safety
    /// `addr` is the address of a live object of type `T`.
    #[inline(always)]
    pub unsafe fn from_addr(addr: usize) -> Self {
        // SAFETY: the caller's promise; an object's address is not null.
        unsafe { Self::from_payload(NonNull::new_unchecked(addr as *mut u8)) }
    }

    /// Returns the description of the object's type. Costs one load, of the object's header.
    pub fn type_info(this: Self) -> &'static TypeInfo {
        // SAFETY: a live object's header is the address of a `TypeInfo`, which is never freed.
        unsafe { *this.payload.as_ptr().byte_sub(HEADER_BYTES).cast::<&'static TypeInfo>() }
    }
}

impl<T: ?Sized> Clone for Gc<T> {
    #[inline(always)]
    fn clone(&self) -> Self {
        *self
    }
}

impl<T: ?Sized> Copy for Gc<T> {}

impl<T: ?Sized> Deref for Gc<T> {
    type Target = T;

    #[inline(always)]
    fn deref(&self) -> &T {
        #[cfg(feature = "biography")]
        super::uses::note(Gc::addr(*self));
        // SAFETY: this `Gc` is in a place that the collector scans (the requirement of `attach`), so the object is live.
        unsafe { &*Gc::as_ptr(*self) }
    }
}

// SAFETY: one word, the object's address.
unsafe impl<T: ?Sized + 'static> Word for Gc<T> {
    const MAY_REFER: bool = true;
}

// SAFETY: as `Gc`; `None` is null, which is no object's address.
unsafe impl<T: ?Sized + 'static> Word for Option<Gc<T>> {
    const MAY_REFER: bool = true;
}

/// The collected object to which a [`Weak`] points: the weak cell, not the target.
///
/// Two words: the address of the target, and a link in which a marker chains the weak cells that it has found.
#[repr(C)]
pub struct WeakCell<T: ?Sized> {
    target: AtomicUsize,
    link: AtomicUsize,
    _refers: PhantomData<Gc<T>>,
}

/// A weak reference: it does not keep its target alive. [`WeakCell::upgrade`] returns the target, or `None` after a collection has
/// found the target unreachable. The reference is cleared before the target's finalizer runs.
///
/// It is itself a collected object, made by [`Mutator::alloc_weak`](crate::Mutator::alloc_weak), and lives as long as it is
/// referenced. Stacks are scanned conservatively, so a stale word can keep a target alive longer.
///
/// ```
/// use stopworld::{Gc, World};
///
/// let world = World::builder().build()?;
/// // SAFETY: this thread keeps every `Gc` in local variables.
/// let mutator = unsafe { world.attach("main") }?;
/// let kept = mutator.alloc(1_u64)?;
/// let to_kept = mutator.alloc_weak(kept)?;
/// // SAFETY: as above. The target is only on the stack of this thread, which ends.
/// let to_dead = unsafe { world.spawn("maker", |m| m.root(m.alloc_weak(m.alloc(2_u64).unwrap()).unwrap())) }?;
/// let to_dead = to_dead.join().unwrap();
/// world.collect()?;
/// assert!(to_kept.upgrade().is_some_and(|target| Gc::ptr_eq(target, kept)));
/// assert_eq!(to_dead.get(&mutator).upgrade(), None);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub type Weak<T> = Gc<WeakCell<T>>;

impl<T: ?Sized + 'static> WeakCell<T> {
    pub(crate) fn new(target: Gc<T>) -> Self {
        Self { target: AtomicUsize::new(Gc::addr(target)), link: AtomicUsize::new(0), _refers: PhantomData }
    }

    /// Returns the target, or `None` if it has been cleared. The returned `Gc` keeps the target alive. Costs one load and a comparison with 0.
    #[inline]
    pub fn upgrade(&self) -> Option<Gc<T>> {
        self.get()
    }

    /// The same as [`upgrade`](Self::upgrade).
    #[inline]
    pub fn get(&self) -> Option<Gc<T>> {
        // Acquire: pairs with the Release by which the weak cell itself was published. If another thread initialised the
        // target, this thread sees it as it was when the weak cell was made. A collection between this load and the use of its
        // result keeps the target alive, because the stopped thread has the address in a register.
        let bits = self.target.load(Ordering::Acquire);
        // SAFETY: not cleared, so the target is live, and from here on the caller's stack keeps it alive.
        unsafe { Option::<Gc<T>>::from_bits(bits) }
    }
}

impl<T: ?Sized> fmt::Debug for WeakCell<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("(Weak)")
    }
}

/// Keeps `gc` alive up to this point of the program (`.root.derived`, `.final.early`). Costs at most a move of one word.
///
/// Optimised code may keep only a pointer derived from a `Gc`, or overwrite the `Gc` after its last visible use, although the program
/// still depends on the object in a way that the compiler cannot see (by a raw pointer, or by the effect of a finalizer).
#[inline(always)]
pub fn keep_alive<T: ?Sized>(gc: Gc<T>) {
    // The value must exist, in a register or in memory, when this point is reached.
    std::hint::black_box(gc.payload);
}

// SAFETY: a `Gc` is one word, which holds the address of an object; it is `Copy`, so it has no drop glue.
unsafe impl<T: ?Sized + 'static> Trace for Gc<T> {
    const NAME: &'static str = "Gc";
    const LAYOUT: Layout = Layout::WORD;
    const ZERO_IS_READABLE: bool = true;
}

// SAFETY: the target is deliberately not traced; the collector clears it before the target's memory is reused.
unsafe impl<T: ?Sized + 'static> Trace for WeakCell<T> {
    const NAME: &'static str = "Weak";
    const LAYOUT: Layout = Layout::LEAF;
    const SHAPE: Shape = Shape::Weak;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reference_and_an_optional_reference_are_one_word() {
        assert_eq!(size_of::<Gc<u64>>(), 8);
        assert_eq!(size_of::<Option<Gc<u64>>>(), 8);
        assert_eq!(size_of::<Gc<str>>(), 8);
        assert_eq!(size_of::<Option<Gc<dyn fmt::Debug>>>(), 8);
    }

    /// `as_ptr` makes such references of their two words.
    #[test]
    fn a_reference_to_a_type_without_a_size_is_an_address_and_its_metadata() {
        let text = "three words here";
        // SAFETY: a reference to a `str` has the size of `Wide`, and any words are a valid `Wide`.
        let wide = unsafe { transmute_copy::<&str, Wide>(&text) };
        assert_eq!((wide.data, wide.metadata as usize), (text.as_ptr(), text.len()));
        let number = 7_u64;
        let shown: &dyn fmt::Debug = &number;
        // SAFETY: as above.
        let wide = unsafe { transmute_copy::<&dyn fmt::Debug, Wide>(&shown) };
        assert_eq!(wide.data, (&raw const number).cast());
    }
}
