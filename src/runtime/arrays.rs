//! Allocation of objects whose types have no size: arrays, texts, trait objects.

use std::convert::Infallible;
use std::mem::{align_of, size_of};
use std::ptr::NonNull;

use super::{Mutator, OutOfMemory};
use crate::heap::array::{ARRAY_HEAD_BYTES, Array, Buffer, Dyn, Text};
use crate::heap::ephemerons::{ELEMENT_BYTES, Ephemerons};
use crate::heap::pointer::Gc;
use crate::heap::trace::{Described, Trace};

impl Mutator {
    /// Allocates an array of `length` elements. `element` returns each one from its index, in order; it may allocate.
    ///
    /// ```
    /// use stopworld::World;
    ///
    /// let world = World::builder().build()?;
    /// // SAFETY: this thread keeps every `Gc` in local variables and in collected objects.
    /// let mutator = unsafe { world.attach("main") }?;
    /// let squares = mutator.alloc_array(5, |index| index * index)?;
    /// assert_eq!(*squares, [0, 1, 4, 9, 16]);
    /// assert_eq!(squares.iter().sum::<usize>(), 30);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`alloc`](Self::alloc); also if the array is larger than any heap can be.
    pub fn alloc_array<T: Trace>(
        &self,
        length: usize,
        mut element: impl FnMut(usize) -> T,
    ) -> Result<Gc<[T]>, OutOfMemory> {
        let payload = self.empty_array::<T>(length)?;
        let Ok(array) = self.fill_array(payload, length, |index| Ok::<T, Infallible>(element(index)));
        Ok(array)
    }

    /// [`alloc_array`](Self::alloc_array) under the name of std's constructors that take a function.
    ///
    /// # Errors
    /// As [`alloc_array`](Self::alloc_array).
    pub fn alloc_array_with<T: Trace>(
        &self,
        length: usize,
        element: impl FnMut(usize) -> T,
    ) -> Result<Gc<[T]>, OutOfMemory> {
        self.alloc_array(length, element)
    }

    /// [`alloc_array`](Self::alloc_array) with a function that may fail, for example because it allocates.
    ///
    /// ```
    /// use stopworld::{Gc, World};
    ///
    /// let world = World::builder().build()?;
    /// // SAFETY: this thread keeps every `Gc` in local variables and in collected objects.
    /// let mutator = unsafe { world.attach("main") }?;
    /// let words = ["one", "two", "three"];
    /// let texts: Gc<[Gc<str>]> = mutator.try_alloc_array_with(words.len(), |index| mutator.alloc_str(words[index]))?;
    /// assert_eq!(&*texts[2], "three");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// The first error of `element`, or that of the allocation, as [`alloc_array`](Self::alloc_array) returns it.
    pub fn try_alloc_array_with<T: Trace, E: From<OutOfMemory>>(
        &self,
        length: usize,
        element: impl FnMut(usize) -> Result<T, E>,
    ) -> Result<Gc<[T]>, E> {
        let payload = self.empty_array::<T>(length)?;
        self.fill_array(payload, length, element)
    }

    /// Allocates a copy of a slice.
    ///
    /// ```
    /// use stopworld::World;
    ///
    /// let world = World::builder().build()?;
    /// // SAFETY: this thread keeps every `Gc` in local variables and in collected objects.
    /// let mutator = unsafe { world.attach("main") }?;
    /// let numbers = mutator.alloc_slice(&[3, 1, 2])?;
    /// assert_eq!(numbers.iter().max(), Some(&3));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`alloc_array`](Self::alloc_array).
    pub fn alloc_slice<T: Trace + Clone>(&self, elements: &[T]) -> Result<Gc<[T]>, OutOfMemory> {
        self.alloc_array(elements.len(), |index| elements[index].clone())
    }

    /// Allocates a copy of a text.
    ///
    /// ```
    /// use stopworld::{Gc, World};
    ///
    /// let world = World::builder().build()?;
    /// // SAFETY: this thread keeps every `Gc` in local variables and in collected objects.
    /// let mutator = unsafe { world.attach("main") }?;
    /// let name: Gc<str> = mutator.alloc_str("λ")?;
    /// assert_eq!((name.len(), name.to_string()), (2, "λ".to_string()));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`alloc_array`](Self::alloc_array).
    pub fn alloc_str(&self, text: &str) -> Result<Gc<str>, OutOfMemory> {
        let bytes = self.array_bytes(text.len(), 1)?;
        let payload = self.zeroed(bytes, align_of::<Text>(), Text::INFO, text.len())?;
        // SAFETY: the payload has room for the text after its length; no other thread has a reference to it yet.
        unsafe { payload.add(ARRAY_HEAD_BYTES).copy_from_nonoverlapping(text.as_ptr(), text.len()) };
        // SAFETY: the length and the bytes of a `str` are in place.
        Ok(unsafe { Gc::from_payload(NonNull::new_unchecked(payload)) })
    }

    /// Moves `value` into the collected heap, and returns a reference to it as a trait object. `as_dyn` is the conversion, which the
    /// language does not offer for types of other crates: `|value| value as &dyn Trait`.
    ///
    /// The reference is one word. The object has one word more than the value, the address of the method table; calling a method loads
    /// that word, and then calls through the table as for a `Box<dyn Trait>`. A `Gc<T>` can't become a `Gc<dyn Trait>` later, nor the
    /// other way round: decide when the object is made. ([`Any::downcast_ref`](std::any::Any) works.)
    ///
    /// ```
    /// use stopworld::{Gc, Trace, World};
    ///
    /// trait Shape {
    ///     fn area(&self) -> f64;
    /// }
    ///
    /// #[derive(Trace)]
    /// struct Square(f64);
    ///
    /// impl Shape for Square {
    ///     fn area(&self) -> f64 {
    ///         self.0 * self.0
    ///     }
    /// }
    ///
    /// let world = World::builder().build()?;
    /// // SAFETY: this thread keeps every `Gc` in local variables and in collected objects.
    /// let mutator = unsafe { world.attach("main") }?;
    /// let shape: Gc<dyn Shape> = mutator.alloc_dyn(Square(3.0), |square| square as &dyn Shape)?;
    /// let shapes = mutator.alloc_slice(&[shape, shape])?;
    /// assert_eq!(shapes.iter().map(|shape| shape.area()).sum::<f64>(), 18.0);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`alloc`](Self::alloc).
    ///
    /// # Panics
    /// If `as_dyn` returns a reference to something else than its argument. `T` must not be aligned to more than 8 bytes, or this does not
    /// compile.
    pub fn alloc_dyn<T: Trace, U: ?Sized + 'static>(
        &self,
        value: T,
        as_dyn: impl for<'a> FnOnce(&'a T) -> &'a U,
    ) -> Result<Gc<U>, OutOfMemory> {
        let object = self.alloc(Dyn::new(value))?;
        let payload = Gc::as_ptr(object).cast_mut();
        // SAFETY: the object is live, and no other thread has a reference to it. `as_dyn` works for every lifetime of its argument, so its
        // result is valid as long as the value stays where it is, unchanged but for what shared references allow: as long as the object
        // lives. The metadata is checked to be that of a reference to the value.
        unsafe {
            Dyn::set_metadata(payload, as_dyn(object.value()));
            Ok(Gc::from_payload(NonNull::new_unchecked(payload.cast())))
        }
    }

    /// Allocates the storage of a collection, all places without an element.
    pub(crate) fn alloc_buffer<T: Trace>(&self, capacity: usize) -> Result<Gc<Buffer<T>>, OutOfMemory> {
        let bytes = self.array_bytes(capacity, size_of::<T>())?;
        let payload = self.zeroed(bytes, align_of::<Buffer<T>>(), <Buffer<T> as Described>::INFO, capacity)?;
        // SAFETY: a fresh object of this type, whose length is in place.
        Ok(unsafe { Gc::from_payload(NonNull::new_unchecked(payload)) })
    }

    /// Allocates the table of a weak map, without entries. `places` is a power of two.
    pub(crate) fn alloc_ephemerons(&self, places: usize) -> Result<Gc<Ephemerons>, OutOfMemory> {
        let bytes = self.array_bytes(places + 1, ELEMENT_BYTES)?;
        // A collection that reaches the table needs this.
        self.world().collector().markers.prepare_for_weak_maps().map_err(|_| self.out_of_memory(bytes))?;
        let payload = self.zeroed(bytes, align_of::<Ephemerons>(), Ephemerons::INFO, places + 1)?;
        // SAFETY: a fresh object of this type: the number of elements, and otherwise zeros.
        Ok(unsafe { Gc::from_payload(NonNull::new_unchecked(payload)) })
    }

    /// Allocates an array whose elements are zero words, which can be traced.
    fn empty_array<T: Trace>(&self, length: usize) -> Result<*mut u8, OutOfMemory> {
        let bytes = self.array_bytes(length, size_of::<T>())?;
        self.zeroed(bytes, align_of::<Array<T>>(), <Array<T> as Described>::INFO, length)
    }

    /// Writes the elements of a fresh [`empty_array`](Self::empty_array).
    fn fill_array<T: Trace, E>(
        &self,
        payload: *mut u8,
        length: usize,
        mut element: impl FnMut(usize) -> Result<T, E>,
    ) -> Result<Gc<[T]>, E> {
        for index in 0..length {
            let value = element(index)?;
            // SAFETY: within the array's payload. A reference to the array is on this stack, so it is live. It can be traced at
            // any moment: elements that are not written yet are zero words.
            unsafe {
                let element = payload.add(ARRAY_HEAD_BYTES).cast::<T>().add(index);
                element.write(value);
                T::clear_unused(element);
            }
        }
        // SAFETY: length and all elements are in place.
        Ok(unsafe { Gc::from_payload(NonNull::new_unchecked(payload)) })
    }

    /// Returns the payload bytes of an array, or an error with that number if no heap can hold them.
    pub(super) fn array_bytes(&self, length: usize, element_bytes: usize) -> Result<usize, OutOfMemory> {
        // Both factors are below 2^64, so this does not overflow.
        let wanted = length as u128 * element_bytes as u128 + ARRAY_HEAD_BYTES as u128;
        let requested = usize::try_from(wanted).unwrap_or(OutOfMemory::BEYOND);
        if requested < isize::MAX as usize / 2 { Ok(requested) } else { Err(self.out_of_memory(requested)) }
    }
}
