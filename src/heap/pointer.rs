//! The references that programs use: `Gc<T>`, mutable fields, arrays, weak references.
//!
//! A [`Gc`] is one word, the address of an object's payload, and is `Copy`: copying it needs no count, no registration and no
//! barrier. This is sound because of the safety requirement of [`World::attach`](crate::World::attach): while the object is
//! needed, some copy is in a place that the collector scans. `Gc` is neither `Send` nor `Sync`, so it cannot leave its thread
//! through a channel or a captured closure; a [`Root`](crate::Root) can.

use std::fmt;
use std::marker::PhantomData;
use std::ops::Deref;
use std::ptr::NonNull;

use super::layout::HEADER_BYTES;
use std::mem::needs_drop;

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
/// assert_eq!(second.next.get(), Some(first)); // `==` compares identity
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Gc<T> {
    payload: NonNull<T>,
    _neither_send_nor_sync: PhantomData<*mut T>,
}

impl<T> Gc<T> {
    /// # Safety
    /// `payload` is the payload of a live object of type `T`.
    #[inline(always)]
    pub(crate) unsafe fn from_payload(payload: NonNull<T>) -> Self {
        Self { payload, _neither_send_nor_sync: PhantomData }
    }

    /// Returns the address of the object. The number alone does not keep the object alive, unless it is in scanned memory.
    #[inline(always)]
    pub fn addr(self) -> usize {
        self.payload.as_ptr() as usize
    }

    /// Returns a pointer to the object. It keeps the object alive in the same places as the `Gc` does.
    #[inline(always)]
    pub fn as_ptr(self) -> *const T {
        self.payload.as_ptr()
    }

    /// Makes a `Gc` from an address that [`addr`](Self::addr) returned.
    ///
    /// # Safety
    /// `addr` is the address of a live object of type `T`.
    #[inline(always)]
    pub unsafe fn from_addr(addr: usize) -> Self {
        // SAFETY: the caller's promise; an object's address is not null.
        unsafe { Self::from_payload(NonNull::new_unchecked(addr as *mut T)) }
    }

    /// Returns the description of the object's type. Costs one load, of the object's header.
    pub fn type_info(self) -> &'static TypeInfo {
        // SAFETY: a live object's header is the address of a `TypeInfo`, which is never freed.
        unsafe { *self.payload.as_ptr().byte_sub(HEADER_BYTES).cast::<&'static TypeInfo>() }
    }
}

impl<T> Clone for Gc<T> {
    #[inline(always)]
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Gc<T> {}

impl<T> Deref for Gc<T> {
    type Target = T;

    #[inline(always)]
    fn deref(&self) -> &T {
        #[cfg(feature = "biography")]
        super::uses::note(self.addr());
        // SAFETY: this `Gc` is in a place that the collector scans (the requirement of `attach`), so the object is live.
        unsafe { self.payload.as_ref() }
    }
}

impl<T> PartialEq for Gc<T> {
    /// Compares identity: returns whether both refer to the same object.
    fn eq(&self, other: &Self) -> bool {
        self.payload == other.payload
    }
}

impl<T> Eq for Gc<T> {}

impl<T> fmt::Debug for Gc<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Gc({:#x})", self.addr())
    }
}

// SAFETY: the word is the object's address, and a `Gc` is never anything else.
unsafe impl<T: Trace> Word for Gc<T> {
    const MAY_REFER: bool = true;
    #[inline(always)]
    fn to_bits(self) -> usize {
        self.addr()
    }
    #[inline(always)]
    unsafe fn from_bits(bits: usize) -> Self {
        // SAFETY: the bits came from `to_bits` of a `Gc` that the holder of this word keeps alive.
        unsafe { Self::from_addr(bits) }
    }
}

// SAFETY: as `Gc`; `None` is null, which is no object's address.
unsafe impl<T: Trace> Word for Option<Gc<T>> {
    const MAY_REFER: bool = true;
    #[inline(always)]
    fn to_bits(self) -> usize {
        self.map_or(0, Gc::addr)
    }
    #[inline(always)]
    unsafe fn from_bits(bits: usize) -> Self {
        NonNull::new(bits as *mut T)
            // SAFETY: not null, so the bits came from a `Gc`.
            .map(|payload| unsafe { Gc::from_payload(payload) })
    }
}

/// A mutable field of a collected object: one atomic word. It holds a `Gc`, an `Option<Gc>`, a number, or another [`Word`].
///
/// It is an atomic because a thread may be stopped at any instruction, and other threads may read the field: a word is written
/// completely or not at all. There is no write barrier: the collector always traces the whole heap.
#[repr(transparent)]
pub struct GcCell<W: Word> {
    bits: AtomicUsize,
    _holds: PhantomData<W>,
}

impl<W: Word> GcCell<W> {
    /// Makes a field with its first value.
    #[inline(always)]
    pub fn new(value: W) -> Self {
        Self { bits: AtomicUsize::new(value.to_bits()), _holds: PhantomData }
    }

    /// Returns the field's value, by an acquire load.
    #[inline(always)]
    pub fn get(&self) -> W {
        // Acquire: pairs with the Release of `set` and `compare_exchange`: a thread that reads a reference written by another
        // thread sees the object that it refers to as it was then.
        let bits = self.bits.load(Ordering::Acquire);
        // SAFETY: only `to_bits` of this type was ever stored here.
        unsafe { W::from_bits(bits) }
    }

    /// Sets the field, by a release store.
    #[inline(always)]
    pub fn set(&self, value: W) {
        // Release: pairs with the Acquire of `get`.
        self.bits.store(value.to_bits(), Ordering::Release);
    }

    /// Sets the field and returns its previous value.
    #[inline]
    pub fn replace(&self, value: W) -> W {
        // AcqRel: Release pairs with `get`, Acquire with the `set` whose value this takes.
        let bits = self.bits.swap(value.to_bits(), Ordering::AcqRel);
        // SAFETY: as in `get`.
        unsafe { W::from_bits(bits) }
    }

    /// Sets the field to `new` if its value is `current`, and returns the previous value.
    ///
    /// # Errors
    /// The field's actual value, if that is not `current`; the field is unchanged.
    #[inline]
    pub fn compare_exchange(&self, current: W, new: W) -> Result<W, W> {
        // AcqRel and Acquire: as `replace` and `get`.
        let result = self.bits.compare_exchange(current.to_bits(), new.to_bits(), Ordering::AcqRel, Ordering::Acquire);
        // SAFETY: as in `get`.
        result.map(|bits| unsafe { W::from_bits(bits) }).map_err(|bits| unsafe { W::from_bits(bits) })
    }
}

impl<W: Word + fmt::Debug> fmt::Debug for GcCell<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.get().fmt(f)
    }
}

impl<W: Word + Default> Default for GcCell<W> {
    fn default() -> Self {
        Self::new(W::default())
    }
}

/// A collected array: its length, then the elements. [`Mutator::alloc_array`](crate::Mutator::alloc_array) makes one; it
/// dereferences to a slice. `Gc<Array<T>>` is one word.
#[repr(C)]
pub struct Array<T> {
    length: usize,
    elements: [T; 0],
}

/// Bytes before the first element: the length.
pub(crate) const ARRAY_HEAD_BYTES: usize = 8;

impl<T> Deref for Array<T> {
    type Target = [T];

    #[inline(always)]
    fn deref(&self) -> &[T] {
        // SAFETY: an `Array` exists only inside an object whose payload has room for `length` elements after it,
        // each written before the `Gc<Array<T>>` was given out.
        unsafe { std::slice::from_raw_parts((&raw const self.elements).cast::<T>(), self.length) }
    }
}

impl<T: fmt::Debug> fmt::Debug for Array<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

/// The collected object to which a [`Weak`] points: the weak cell, not the target.
///
/// Two words: the address of the target, and a link in which a marker chains the weak cells that it has found.
#[repr(C)]
pub struct WeakCell<T> {
    target: AtomicUsize,
    link: AtomicUsize,
    _refers: PhantomData<Gc<T>>,
}

/// A weak reference: it does not keep its target alive. [`WeakCell::get`] returns the target, or `None` after a collection has
/// found the target unreachable. The reference is cleared before the target's finalizer runs.
///
/// It is itself a collected object, made by [`Mutator::alloc_weak`](crate::Mutator::alloc_weak), and lives as long as it is
/// referenced. Stacks are scanned conservatively, so a stale word can keep a target alive longer.
///
/// ```
/// use stopworld::World;
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
/// assert_eq!(to_kept.get(), Some(kept));
/// assert_eq!(to_dead.get(&mutator).get(), None);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub type Weak<T> = Gc<WeakCell<T>>;

impl<T: Trace> WeakCell<T> {
    pub(crate) fn new(target: Gc<T>) -> Self {
        Self { target: AtomicUsize::new(target.addr()), link: AtomicUsize::new(0), _refers: PhantomData }
    }

    /// Returns the target, or `None` if it has been cleared. The returned `Gc` keeps the target alive.
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

/// Keeps `gc` alive up to this point of the program (`.root.derived`, `.final.early`). Costs at most a move of one word.
///
/// Optimised code may keep only a pointer derived from a `Gc`, or overwrite the `Gc` after its last visible use, although the program
/// still depends on the object in a way that the compiler cannot see (by a raw pointer, or by the effect of a finalizer).
#[inline(always)]
pub fn keep_alive<T>(gc: Gc<T>) {
    // The value must exist, in a register or in memory, when this point is reached.
    std::hint::black_box(gc.payload);
}

// SAFETY: a `Gc` is one word, which holds the address of an object; it is `Copy`, so it has no drop glue.
unsafe impl<T: Trace> Trace for Gc<T> {
    const NAME: &'static str = "Gc";
    const LAYOUT: Layout = Layout::WORD;
    const ZERO_IS_READABLE: bool = true;
}

// SAFETY: one atomic word; what it may hold is what its `Word` type promises.
unsafe impl<W: Word> Trace for GcCell<W> {
    const NAME: &'static str = "GcCell";
    const LAYOUT: Layout = if W::MAY_REFER { Layout::WORD } else { Layout::LEAF };
    const ZERO_IS_READABLE: bool = true;
    const MUTABLE: bool = W::MAY_REFER;
}

// SAFETY: the shape makes the collector scan the elements that follow the length word, which is no reference.
unsafe impl<T: Trace> Trace for Array<T> {
    const NAME: &'static str = T::NAME;
    const LAYOUT: Layout = Layout::LEAF;
    const MUTABLE: bool = T::MUTABLE;
    const IS_ARRAY: bool = true;
    const SHAPE: Shape = {
        assert!(!needs_drop::<T>(), "the elements of a collected array can't have drop glue");
        assert!(size_of::<T>() <= u32::MAX as usize && align_of::<T>() <= 8, "array elements are aligned to at most 8");
        if T::LAYOUT.is_leaf() {
            Shape::Leaf
        } else {
            // The marker reads aligned words, and no word beyond the last element.
            assert!(
                align_of::<T>() == 8 && size_of::<T>().is_multiple_of(8),
                "array elements with references are whole words, aligned to 8 bytes"
            );
            assert!(
                T::LAYOUT.words() <= size_of::<T>() / 8,
                "an array element's layout has a reference beyond its end"
            );
            if T::LAYOUT.is_any_word() {
                Shape::Untyped
            } else {
                Shape::Array { stride: size_of::<T>() as u32, element: T::LAYOUT.bits }
            }
        }
    };
}

// SAFETY: the target is deliberately not traced; the collector clears it before the target's memory is reused.
unsafe impl<T: Trace> Trace for WeakCell<T> {
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
        assert_eq!(size_of::<GcCell<Option<Gc<u64>>>>(), 8);
        assert_eq!(std::mem::offset_of!(Array<u64>, elements), ARRAY_HEAD_BYTES);
    }

    #[test]
    fn a_cell_returns_its_value_bit_for_bit() {
        let cell = GcCell::new(-5_i32);
        assert_eq!(cell.compare_exchange(-5, 7), Ok(-5));
        assert_eq!(cell.get(), 7);
        let cell = GcCell::new(1.5_f64);
        assert_eq!(cell.get(), 1.5);
        cell.set(-0.0);
        assert_eq!(cell.get().to_bits(), (-0.0_f64).to_bits());
    }
}
