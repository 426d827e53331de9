//! [`GcCell`], a mutable field of a collected object.

use std::cmp;
use std::fmt;
use std::marker::PhantomData;

use super::trace::{Layout, Trace, Word, bits_of};
use crate::sync::{AtomicUsize, Ordering};

/// A mutable field of a collected object: one atomic word. It holds a `Gc`, an `Option<Gc>`, a number, or another [`Word`].
///
/// It is an atomic because a thread may be stopped at any instruction, and other threads may read the field: a word is written
/// completely or not at all. There is no write barrier: the collector always traces the whole heap.
/// Each function is O(1), one or two atomic instructions unless it says otherwise, and allocates nothing.
///
/// ```
/// use stopworld::{Gc, GcCell};
///
/// // `new` is `const`, so an array of fields needs no `Copy`.
/// let children: [GcCell<Option<Gc<u64>>>; 16] = [const { GcCell::new(None) }; 16];
/// let count = GcCell::new(7);
/// count.set(count.get() + 1);
/// assert_eq!((count.get(), children[3].get()), (8, None));
/// ```
///
/// The type of the value can't change by subtyping, as for std's `Cell`:
///
/// ```compile_fail,E0308
/// use stopworld::GcCell;
///
/// fn narrow(cell: &GcCell<for<'a> fn(&'a str)>) -> &GcCell<fn(&'static str)> {
///     cell
/// }
/// ```
#[repr(transparent)]
pub struct GcCell<W: Word> {
    bits: AtomicUsize,
    _holds: PhantomData<W>,
    /// `set` takes what `get` returns.
    _invariant: PhantomData<fn(W) -> W>,
}

impl<W: Word> GcCell<W> {
    /// Makes a field with its first value. In a constant, the value can't be a function: its address is not known when the program is
    /// compiled.
    #[inline(always)]
    pub const fn new(value: W) -> Self {
        Self { bits: AtomicUsize::new(bits_of(value)), _holds: PhantomData, _invariant: PhantomData }
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

    /// Sets the field to the default value of the type, and returns its previous value.
    #[inline]
    pub fn take(&self) -> W
    where
        W: Default,
    {
        self.replace(W::default())
    }

    /// Sets the field to what `change` makes of its value, and returns the previous value. No other thread's change gets lost: if there is one
    /// meanwhile, `change` is called again, with the new value. The function may allocate.
    ///
    /// # Panics
    /// If `change` does. The field is unchanged.
    #[inline]
    pub fn update(&self, mut change: impl FnMut(W) -> W) -> W {
        // Acquire and AcqRel: as `get` and `replace`.
        let mut before = self.bits.load(Ordering::Acquire);
        loop {
            // SAFETY: as in `get`.
            let new = change(unsafe { W::from_bits(before) });
            match self.bits.compare_exchange(before, new.to_bits(), Ordering::AcqRel, Ordering::Acquire) {
                // SAFETY: as in `get`.
                Ok(before) => return unsafe { W::from_bits(before) },
                Err(other) => before = other,
            }
        }
    }

    /// Exchanges the values of two fields. Each is read and written by atomic operations, but not both at once: another thread can see the
    /// same value in both, and a value that another thread sets meanwhile may get lost.
    #[inline]
    pub fn swap(&self, other: &Self) {
        self.set(other.replace(self.get()));
    }

    /// Returns the field's value. No atomic operation is needed: the field has one owner.
    #[inline]
    pub fn into_inner(mut self) -> W {
        let bits = *self.bits.get_mut();
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

impl<W: Word> Clone for GcCell<W> {
    fn clone(&self) -> Self {
        Self::new(self.get())
    }
}

impl<W: Word + Default> Default for GcCell<W> {
    fn default() -> Self {
        Self::new(W::default())
    }
}

impl<W: Word> From<W> for GcCell<W> {
    fn from(value: W) -> Self {
        Self::new(value)
    }
}

impl<W: Word + PartialEq> PartialEq for GcCell<W> {
    /// Compares the values that the fields have now.
    fn eq(&self, other: &Self) -> bool {
        self.get() == other.get()
    }
}

impl<W: Word + Eq> Eq for GcCell<W> {}

impl<W: Word + PartialOrd> PartialOrd for GcCell<W> {
    fn partial_cmp(&self, other: &Self) -> Option<cmp::Ordering> {
        self.get().partial_cmp(&other.get())
    }
}

impl<W: Word + Ord> Ord for GcCell<W> {
    fn cmp(&self, other: &Self) -> cmp::Ordering {
        self.get().cmp(&other.get())
    }
}

// SAFETY: one atomic word; what it may hold is what its `Word` type promises.
unsafe impl<W: Word + 'static> Trace for GcCell<W> {
    const NAME: &'static str = "GcCell";
    const LAYOUT: Layout = if W::MAY_REFER { Layout::WORD } else { Layout::LEAF };
    const ZERO_IS_READABLE: bool = true;
    const MUTABLE: bool = W::MAY_REFER;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::heap::pointer::Gc;

    #[test]
    fn a_field_is_one_word() {
        assert_eq!(size_of::<GcCell<Option<Gc<u64>>>>(), 8);
        assert_eq!(size_of::<GcCell<u8>>(), 8);
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

    #[test]
    fn a_cell_is_taken_swapped_and_consumed_as_that_of_std() {
        let (cell, other) = (GcCell::new(5_u64), GcCell::new(7));
        cell.swap(&other);
        assert_eq!((cell.get(), other.get()), (7, 5));
        cell.swap(&cell);
        assert_eq!((cell.take(), cell.get()), (7, 0));
        assert_eq!((other.update(|value| value * 2), other.into_inner()), (5, 10));
        assert_eq!(GcCell::<Option<Gc<str>>>::default().into_inner(), None);
    }

    #[test]
    fn an_update_is_repeated_if_the_field_has_changed_meanwhile() {
        let cell = GcCell::new(1_u64);
        let mut seen = Vec::new();
        let before = cell.update(|value| {
            seen.push(value);
            if value == 1 {
                cell.set(10);
            }
            value + 1
        });
        assert_eq!((seen, before, cell.get()), (vec![1, 10], 10, 11));
        let panics = std::panic::AssertUnwindSafe(|| cell.update(|_| panic!("no value")));
        assert!(std::panic::catch_unwind(panics).is_err());
        assert_eq!(cell.get(), 11);
    }

    #[test]
    fn a_cell_made_in_a_constant_has_the_word_that_set_stores() {
        let negative = const { GcCell::new(-3_i16) };
        assert_eq!(negative.compare_exchange(-3, 4), Ok(-3));
        let none = const { GcCell::<Option<Gc<str>>>::new(None) };
        assert_eq!(none.replace(None), None);
    }
}
