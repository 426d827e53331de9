//! The objects behind references to types without a size: arrays, and values with a method table.

use std::marker::PhantomData;
use std::mem::{align_of, needs_drop, offset_of, size_of};

use super::pointer::{METADATA_BYTES, Wide};
use super::trace::{Layout, Shape, Trace};

/// The description of a collected array: its length, then the elements. Programs see a `Gc<[T]>`.
#[repr(C)]
pub(crate) struct Array<T> {
    length: usize,
    elements: [T; 0],
}

/// Bytes before the first element: the length.
pub(crate) const ARRAY_HEAD_BYTES: usize = METADATA_BYTES;

const _: () = assert!(offset_of!(Array<u64>, elements) == ARRAY_HEAD_BYTES);

/// The description of a `str`: its length, then its bytes.
#[repr(C)]
pub(crate) struct Text {
    length: usize,
    bytes: [u8; 0],
}

/// A value behind a `Gc<dyn Trait>`: the second word of a reference to it, then the value.
#[repr(C)]
pub(crate) struct Dyn<T> {
    metadata: *const (),
    value: T,
}

impl<T> Dyn<T> {
    /// The metadata must be set before the object is used as a `Gc<dyn Trait>`.
    pub(crate) fn new(value: T) -> Self {
        const {
            assert!(
                align_of::<T>() <= METADATA_BYTES,
                "a value behind a `Gc<dyn Trait>` can't be aligned to more than 8 bytes, as a `u128` is: store it as two `u64`, or as a `Gc` in the value"
            )
        };
        Self { metadata: std::ptr::null(), value }
    }

    pub(crate) fn value(&self) -> &T {
        &self.value
    }

    /// Stores the metadata of `as_dyn`, a reference to the value of the object at `this`.
    ///
    /// # Panics
    /// If `as_dyn` refers to something else.
    ///
    /// # Safety
    /// `this` is a valid object, and only the calling thread uses it.
    pub(crate) unsafe fn set_metadata<U: ?Sized>(this: *mut Self, as_dyn: &U) {
        const { assert!(size_of::<&U>() == size_of::<Wide>(), "only a type without a size needs `alloc_dyn`") };
        // SAFETY: such a reference has the size of `Wide`, and any words are a valid `Wide`.
        let wide = unsafe { std::mem::transmute_copy::<&U, Wide>(&as_dyn) };
        // SAFETY: the caller's promise.
        let value = unsafe { &raw const (*this).value };
        assert!(
            std::ptr::addr_eq(wide.data, value),
            "the function given to `alloc_dyn` returned a reference to something else than its argument"
        );
        // SAFETY: the caller's promise.
        unsafe { (&raw mut (*this).metadata).write(wide.metadata) };
    }
}

/// The name of an array of elements of the type `T`, in traces and heap profiles: `Node[]`, or `Node[8]` if all have this length. Rust's
/// spelling, `[Node]`, is not used, because a name that begins with a bracket is a signature in heap dumps of Java.
pub(crate) struct ArrayName<T, const N: usize>(PhantomData<T>);

/// The length of an array whose type does not have it.
const ANY: usize = usize::MAX;

/// The longest name of an array. An array whose name would be longer has the name of its elements.
const LONGEST_NAME: usize = 256;

impl<T: Trace, const N: usize> ArrayName<T, N> {
    const BYTES: &'static ([u8; LONGEST_NAME], usize) = &with_brackets(T::NAME, N);
    pub(crate) const NAME: &'static str = match str::from_utf8(Self::BYTES.0.split_at(Self::BYTES.1).0) {
        Ok(name) if !name.is_empty() => name,
        _ => T::NAME,
    };
}

/// Returns the name with the length in brackets, and the name's own length, which is 0 if there is no room.
const fn with_brackets(element: &str, length: usize) -> ([u8; LONGEST_NAME], usize) {
    let (mut name, element, mut at) = ([0; LONGEST_NAME], element.as_bytes(), 0);
    let digits = match length {
        ANY => 0,
        0 => 1,
        _ => length.ilog10() as usize + 1,
    };
    if element.len() + digits + 2 > LONGEST_NAME {
        return (name, 0);
    }
    while at < element.len() {
        name[at] = element[at];
        at += 1;
    }
    name[at] = b'[';
    let end = at + 1 + digits;
    let (mut digit, mut rest) = (end, length);
    while digit > at + 1 {
        digit -= 1;
        name[digit] = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
    name[end] = b']';
    (name, end + 1)
}

// SAFETY: the shape makes the collector scan the elements that follow the length word, which is no reference.
unsafe impl<T: Trace> Trace for Array<T> {
    const NAME: &'static str = ArrayName::<T, ANY>::NAME;
    const LAYOUT: Layout = Layout::LEAF;
    const MUTABLE: bool = T::MUTABLE;
    const IS_ARRAY: bool = true;
    const SHAPE: Shape = shape_of_array::<T>();
}

/// Refuses elements with drop glue, and elements aligned to more than 8 bytes, when a constant is computed.
pub(crate) const fn check_elements<T>() {
    assert!(
        !needs_drop::<T>(),
        "the elements of an array or a collection can't have drop glue: make each an object of its own, `Gc<Leaf<T>>`"
    );
    assert!(
        align_of::<T>() <= 8,
        "the elements of an array or a collection can't be aligned to more than 8 bytes, as a `u128` is: make each an object of its own, `Gc<T>`, or store a `u128` as two `u64`"
    );
}

/// The shape of a length word and the elements after it.
pub(crate) const fn shape_of_array<T: Trace>() -> Shape {
    check_elements::<T>();
    assert!(size_of::<T>() <= u32::MAX as usize, "an array element has at most 4 GiB");
    if T::LAYOUT.is_leaf() {
        return Shape::Leaf;
    }
    // The marker reads aligned words, and no word beyond the last element.
    assert!(
        align_of::<T>() == 8 && size_of::<T>().is_multiple_of(8),
        "array elements with references are whole words, aligned to 8 bytes"
    );
    assert!(T::LAYOUT.words() <= size_of::<T>() / 8, "an array element's layout has a reference beyond its end");
    if T::LAYOUT.is_any_word() {
        Shape::Untyped
    } else {
        Shape::Array { stride: size_of::<T>() as u32, element: T::LAYOUT.bits, ephemerons: false }
    }
}

// SAFETY: no references.
unsafe impl Trace for Text {
    const NAME: &'static str = "str";
    const LAYOUT: Layout = Layout::LEAF;
    const IS_ARRAY: bool = true;
}

// SAFETY: the value's own layout, at its offset. The metadata is a length or the address of a static table, and never changes after the
// object was given out.
unsafe impl<T: Trace> Trace for Dyn<T> {
    const NAME: &'static str = T::NAME;
    const LAYOUT: Layout = Layout::LEAF.with(offset_of!(Self, value), T::LAYOUT);
    const MUTABLE: bool = T::MUTABLE;
    const DESCRIPTION: Option<usize> = match T::DESCRIPTION {
        Some(offset) => Some(offset + METADATA_BYTES),
        None => None,
    };
    const ZERO_IS_READABLE: bool = T::ZERO_IS_READABLE;

    unsafe fn clear_unused(value: *mut Self) {
        // SAFETY: the caller's promise.
        unsafe { T::clear_unused(&raw mut (*value).value) };
    }
}

/// The storage of a collection: like an [`Array`], but its elements come and go. Places without an element are 0.
#[repr(C)]
pub(crate) struct Buffer<T> {
    capacity: usize,
    elements: [T; 0],
}

impl<T> Buffer<T> {
    pub(crate) fn capacity(&self) -> usize {
        self.capacity
    }
}

// SAFETY: as for an array.
unsafe impl<T: Trace> Trace for Buffer<T> {
    const NAME: &'static str = ArrayName::<T, ANY>::NAME;
    const LAYOUT: Layout = Layout::LEAF;
    const MUTABLE: bool = !T::LAYOUT.is_leaf();
    const IS_ARRAY: bool = true;
    const SHAPE: Shape = shape_of_array::<T>();
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::heap::pointer::Gc;
    use rstest::rstest;

    #[rstest]
    #[case(Array::<u64>::NAME, "u64[]")]
    #[case(Buffer::<Gc<u64>>::NAME, "Gc[]")]
    #[case(<[u8; 0]>::NAME, "u8[0]")]
    #[case(<[u8; 9]>::NAME, "u8[9]")]
    #[case(<[[u8; 10]; 4096]>::NAME, "u8[10][4096]")]
    #[case(Text::NAME, "str")]
    #[case(Dyn::<u64>::NAME, "u64")]
    fn an_array_is_named_by_its_elements(#[case] name: &str, #[case] expected: &str) {
        assert_eq!(name, expected);
    }

    #[test]
    fn an_array_without_room_for_its_name_has_that_of_its_elements() {
        let longest = "n".repeat(LONGEST_NAME - 2);
        assert_eq!(with_brackets(&longest, ANY).1, LONGEST_NAME);
        assert_eq!((with_brackets(&longest, 0).1, with_brackets(&format!("{longest}n"), ANY).1), (0, 0));
    }
}
