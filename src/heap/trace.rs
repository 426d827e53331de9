//! The descriptions of types for the collector: tracing is data, not code.
//!
//! A thread may be stopped anywhere, also inside a function that a tracing callback would call. So no user code
//! runs while the world is stopped: a type *describes* its references by a constant [`Layout`], a set of the words
//! that may hold one, and the mark loop reads that. Every such word is checked through the address map before it
//! is used, so a word may also hold something else (a tagged integer) as long as it is not the address of an
//! object.
//!
//! [`#[derive(Trace)]`](macro@crate::Trace) writes the layout of a type from its fields. Types that hold no reference are
//! leaves; [`Leaf`] wraps any `Send + Sync` value, a `String` say, and runs its `Drop` as a finalizer.
//!
//! A bitmap cannot describe every type. Which words of an enum are references depends on the variant, and a type may be larger than
//! the bitmaps. Such a layout says that any word may be a reference, and the object is scanned as an untyped one is.

use std::any::type_name;
use std::fmt;
use std::marker::PhantomData;
use std::mem::{MaybeUninit, align_of, discriminant, needs_drop, offset_of, size_of};
use std::ops::Deref;

use crate::os::memory::read_carefully;

/// The number of words that one bitmap of a [`Layout`] covers.
const WORD_BITS: usize = u64::BITS as usize;
/// The number of bitmaps in a layout.
pub(crate) const BITMAPS: usize = 4;

/// Which words of a value may hold references: one bit for each 8-byte word of its first 2 KiB, or [any word](Self::any_word).
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Layout {
    pub(super) bits: [u64; BITMAPS],
    /// Any word may hold a reference, whatever the bits say.
    any_word: bool,
}

impl Layout {
    /// No word holds a reference.
    pub const LEAF: Self = Self { bits: [0; BITMAPS], any_word: false };
    /// A single word that may hold a reference.
    pub const WORD: Self = Self { bits: [1, 0, 0, 0], any_word: false };

    /// The layout of a value of `bytes` bytes in which each word may hold a reference, or anything else. All words of an object that
    /// contains the value are scanned; a word that equals the address of an object keeps that object alive, whatever it means.
    pub const fn any_word(bytes: usize) -> Self {
        Self { any_word: bytes >= 8, ..Self::LEAF }
    }

    /// The number of words that the bits of a layout cover.
    pub const WORDS: usize = BITMAPS * WORD_BITS;

    /// The last word that may hold a reference.
    pub(crate) fn last_word(&self) -> Option<usize> {
        self.words().checked_sub(1)
    }

    /// One more than the last word that may hold a reference; 0 if none does.
    pub(super) const fn words(&self) -> usize {
        let mut words = Self::WORDS;
        while words > 0 && !self.may_refer(words - 1) {
            words -= 1;
        }
        words
    }

    pub(crate) const fn bitmaps(&self) -> [u64; BITMAPS] {
        self.bits
    }

    /// Returns this layout with a field added at `offset` bytes. `field` is the layout of the field. If one of its references lies beyond
    /// the first 2 KiB, the result is that [any word](Self::any_word) may hold one.
    ///
    /// # Panics
    /// At compile time, when a reference is not aligned to 8 bytes.
    #[must_use]
    pub const fn with(mut self, offset: usize, field: Self) -> Self {
        if field.any_word {
            assert!(offset.is_multiple_of(8), "a field with references must be aligned to 8 bytes");
            self.any_word = true;
        }
        let mut word = 0;
        while word < BITMAPS * WORD_BITS {
            if field.may_refer(word) {
                assert!(offset.is_multiple_of(8), "a field with references must be aligned to 8 bytes");
                let at = offset / 8 + word;
                if at < Self::WORDS {
                    self.bits[at / WORD_BITS] |= 1 << (at % WORD_BITS);
                } else {
                    self.any_word = true;
                }
            }
            word += 1;
        }
        self
    }

    /// The layout of `count` values of this layout, `stride` bytes apart.
    #[must_use]
    pub const fn repeated(self, count: usize, stride: usize) -> Self {
        let mut all = Self::LEAF;
        let mut index = 0;
        // One reference beyond the bits stands for all that follow.
        while index < count && !self.is_leaf() && !all.any_word {
            all = all.with(index * stride, self);
            index += 1;
        }
        all
    }

    /// Whether no word may hold a reference.
    pub const fn is_leaf(&self) -> bool {
        let mut index = 0;
        while index < BITMAPS {
            if self.bits[index] != 0 {
                return false;
            }
            index += 1;
        }
        !self.any_word
    }

    /// Whether any word may hold a reference, so that the bits do not describe the value.
    pub(crate) const fn is_any_word(&self) -> bool {
        self.any_word
    }

    const fn may_refer(&self, word: usize) -> bool {
        self.bits[word / WORD_BITS] >> (word % WORD_BITS) & 1 == 1
    }
}

impl fmt::Debug for Layout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.any_word {
            return f.write_str("any word");
        }
        f.debug_set()
            .entries((0..BITMAPS * WORD_BITS).filter(|&word| self.may_refer(word)).map(|word| word * 8))
            .finish()
    }
}

/// A type whose values can live in the collected heap. [`#[derive(Trace)]`](macro@crate::Trace) implements it.
///
/// # Safety
/// - Every word of a value that holds a `Gc`, a weak reference or a tagged pointer to a collected object is in
///   [`LAYOUT`](Self::LAYOUT), and is read and written as one aligned word.
/// - Words in the layout that hold anything else are never equal to the address of a collected object (odd values
///   and null never are), unless the layout is that [any word](Layout::any_word) may hold a reference.
/// - Values may be shared by the threads of the world, and dropped on another one: there is no unsynchronised interior mutability.
/// - A type with references has no drop glue.
/// - If [`DESCRIPTION`](Self::DESCRIPTION) is `Some`, the value has a [`Description`](crate::Description) at that offset.
#[diagnostic::on_unimplemented(
    message = "`{Self}` can't be part of a collected object",
    label = "not `Trace`",
    note = "for a type of your own, write `#[derive(stopworld::Trace)]`",
    note = "in an object, use `GcCell<T>` in place of `Cell<T>` or `RefCell<T>`, and `Gc<T>` in place of `Root<T>`",
    note = "for a collection, use `Gc<[T]>`, `GcVec`, `GcDeque`, `GcHashMap` or `GcHashSet`; for a text, `Gc<str>` or `GcString`",
    note = "another value without references (`Vec<u8>`, a `Uuid`) is an object of its own, `Gc<Leaf<T>>`; if it has no drop glue, also a field, `Leaf<T>`",
    note = "a field that the collector need not scan: `#[trace(skip = \"reason\")]`"
)]
pub unsafe trait Trace: 'static {
    /// The type's name, as traces and heap profiles show it.
    const NAME: &'static str;
    /// The words that may hold references.
    const LAYOUT: Layout;
    /// How the collector scans an object of this type. Only arrays and weak cells define their own.
    #[doc(hidden)]
    const SHAPE: Shape = Shape::of_layout(&Self::LAYOUT);
    /// Whether references in a value may change. If so, heap profiles count the object among the retainers.
    const MUTABLE: bool = false;
    /// The offset in bytes of the value's own [`Description`](crate::Description), if it has one.
    const DESCRIPTION: Option<usize> = None;
    /// Whether this is an array.
    #[doc(hidden)]
    const IS_ARRAY: bool = false;
    /// Whether the variant of an enum in a value, or of one that contains the value, can be read while the word with the variant's number is 0.
    /// An enum without explicit numbers has a variant 0. The number may also be a bit pattern that a field never has: for a reference or
    /// a `NonZero` that is 0 itself, and a `bool` or a `char` may be 0. A type like `Leaf<T>`
    /// may have no value at all, so nothing is known of it.
    #[doc(hidden)]
    const ZERO_IS_READABLE: bool = false;
    /// Clears the words of a value in which any word may be a reference, and which no field of its variant uses. Otherwise a word that was on
    /// the stack where the value was made could keep an object alive. Neither allocates nor unwinds.
    ///
    /// # Safety
    /// `value` is valid, and this thread alone uses it.
    #[doc(hidden)]
    unsafe fn clear_unused(value: *mut Self)
    where
        Self: Sized,
    {
        let _ = value;
    }
}

/// The words of an enum that the fields of its variant use, of the first [`Layout::WORDS`]. For [`Trace::clear_unused`].
#[doc(hidden)]
pub struct UsedWords<T> {
    value: *mut T,
    bits: [u64; BITMAPS],
}

impl<T> UsedWords<T> {
    pub fn of(value: *mut T) -> Self {
        Self { value, bits: [0; BITMAPS] }
    }

    /// Adds a field of the variant.
    pub fn add<F>(&mut self, field: *const F) {
        let from = field as usize - self.value as usize;
        for word in from / 8..(from + size_of::<F>()).div_ceil(8).min(Layout::WORDS) {
            self.bits[word / WORD_BITS] |= 1 << (word % WORD_BITS);
        }
    }

    /// Clears the other words, but for the one that tells which variant it is.
    ///
    /// # Safety
    /// The value is valid, and this thread alone uses it. It is an enum without explicit numbers, and the types of all fields have
    /// [`Trace::ZERO_IS_READABLE`]. So each variant has values, and 0 is the number of the first, or what the field that holds the
    /// number may be: the variant can be read while the word is 0.
    pub unsafe fn clear(self) {
        for word in 0..(size_of::<T>() / 8).min(Layout::WORDS) {
            if self.bits[word / WORD_BITS] >> (word % WORD_BITS) & 1 == 1 {
                continue;
            }
            // SAFETY: a word of the value, which no field uses: it is padding, or has the number of the variant, or both.
            unsafe {
                let variant = discriminant(&*self.value);
                let place = self.value.cast::<MaybeUninit<usize>>().add(word);
                let before = place.replace(MaybeUninit::new(0));
                if discriminant(&*self.value) != variant {
                    place.write(before);
                }
            }
        }
    }
}

/// How an object is scanned. Decided at compile time, stored in its [`TypeInfo`]. `repr(u8)`, because a debugger reads it from outside;
/// the number and the two small fields of an array share a word, so it is no larger than Rust would make it.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Shape {
    /// No references.
    Leaf,
    /// References among the first 64 words.
    Words(u64),
    /// References among the first 256 words.
    Wide([u64; BITMAPS]),
    /// An array: a length word, then elements `stride` bytes apart, each with these reference words.
    Array {
        /// Whether this is the [table of a weak map](super::ephemerons), which marking does not scan.
        ephemerons: bool,
        /// Bytes from one element to the next.
        stride: u32,
        /// Reference words of an element.
        element: [u64; BITMAPS],
    },
    /// A weak cell: its target is not traced, and is cleared when nothing else keeps it alive.
    Weak,
    /// Any word of the cell may be a reference: [`crate::untyped`], or [`Layout::any_word`].
    Untyped,
    /// The world's [binding](crate::untyped::Binding) finds the references. The last word of the cell is the collector's.
    Bound,
}

impl Shape {
    /// The shape of an ordinary value with this layout.
    pub const fn of_layout(layout: &Layout) -> Self {
        let [first, second, third, fourth] = layout.bits;
        if layout.any_word {
            Self::Untyped
        } else if second | third | fourth != 0 {
            Self::Wide(layout.bits)
        } else if first != 0 {
            Self::Words(first)
        } else {
            Self::Leaf
        }
    }
}

/// A word that marks a [`TypeInfo`], so that the verifier and a debugger can distinguish a header from garbage.
pub(crate) const TYPE_INFO_MAGIC: u64 = 0x6f66_6e69_7077_7473;

/// The result of [`TypeInfo::rust_name`] for a type that was described at run time.
const DESCRIBED_AT_RUN_TIME: &str = "described at run time";

/// The offsets in a [`TypeInfo`] that a reader outside the process needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct TypeOffsets {
    /// Size of the structure in bytes.
    pub size: usize,
    /// The number that marks the description of a type, 64 bits.
    pub magic: usize,
    /// Pointer to the name.
    pub name: usize,
    /// The length of the name in bytes, 64 bits.
    pub name_bytes: usize,
    /// The size of a value in bytes, 64 bits; of an array, that of its length word; 0 if objects differ in size.
    pub value_bytes: usize,
    /// The number of the shape, 8 bits: 0 no references, 1 one bitmap, 2 four bitmaps, 3 array, 4 weak, 5 untyped, 6 bound.
    pub shape: usize,
    /// The first bitmap of shapes 1 and 2: a bit for each word of the value.
    pub bitmaps: usize,
    /// The distance between elements of an array in bytes, 32 bits.
    pub stride: usize,
    /// The first of four bitmaps of an array's element.
    pub element: usize,
    /// 1 if the type is an array, 8 bits.
    pub is_array: usize,
    /// The function that drops a value, or 0, 64 bits.
    pub drop_in_place: usize,
}

/// The offsets of [`TypeInfo`].
pub(crate) const TYPE_OFFSETS: TypeOffsets = {
    let shape = offset_of!(TypeInfo, shape);
    TypeOffsets {
        size: size_of::<TypeInfo>(),
        magic: offset_of!(TypeInfo, magic),
        name: offset_of!(TypeInfo, name),
        name_bytes: offset_of!(TypeInfo, name) + size_of::<usize>(),
        value_bytes: offset_of!(TypeInfo, size),
        // `repr(u8)`: each variant is a C structure that begins with the number.
        shape,
        bitmaps: shape + 8,
        stride: shape + 4,
        element: shape + 8,
        is_array: offset_of!(TypeInfo, is_array),
        drop_in_place: offset_of!(TypeInfo, drop_in_place),
    }
};

/// The description of a type for the collector and the tools; each object's header points to one. `repr(C)`, because a debugger
/// reads it from outside.
#[repr(C)]
pub struct TypeInfo {
    pub(crate) magic: u64,
    name: &'static str,
    rust_name: fn() -> &'static str,
    size: usize,
    align: usize,
    pub(crate) shape: Shape,
    pub(crate) drop_in_place: Option<unsafe fn(*mut u8)>,
    /// The offset of an object's own description, if it has one.
    pub(crate) description: Option<usize>,
    /// Whether the references in objects of this type may change.
    pub(crate) mutable: bool,
    pub(crate) is_array: bool,
    _not_constructible: PhantomData<()>,
}

impl TypeInfo {
    /// Makes the description of a type that is known only at run time. Its objects are not dropped.
    pub(crate) const fn of_described(name: &'static str, size: usize, align: usize, shape: Shape) -> Self {
        let rust_name = || DESCRIBED_AT_RUN_TIME;
        Self {
            magic: TYPE_INFO_MAGIC,
            name,
            rust_name,
            size,
            align,
            shape,
            drop_in_place: None,
            description: None,
            // The code that described the type may write the words of its objects at any time.
            mutable: !matches!(shape, Shape::Leaf),
            is_array: matches!(shape, Shape::Array { .. }),
            _not_constructible: PhantomData,
        }
    }

    /// Returns whether the type was described at run time, and has no Rust type.
    pub(crate) fn is_described(&self) -> bool {
        self.rust_name() == DESCRIBED_AT_RUN_TIME
    }

    /// The type's name, as traces and heap profiles show it.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// The full Rust path of the type.
    pub fn rust_name(&self) -> &'static str {
        (self.rust_name)()
    }

    /// Size of a value in bytes; of an array, the size of its length word.
    pub fn size(&self) -> usize {
        self.size
    }

    /// Alignment of a value in bytes.
    pub fn align(&self) -> usize {
        self.align
    }

    /// Returns the description at this address, as events carry it, or `None` if there is none. Costs a system call.
    ///
    /// # Safety
    /// If the memory at `address` begins like a description of a type, it must be one: nothing may have forged it.
    pub unsafe fn at(address: usize) -> Option<&'static TypeInfo> {
        if address == 0 || !address.is_multiple_of(align_of::<TypeInfo>()) {
            return None;
        }
        let mut magic = [0; 8];
        // SAFETY: the bytes are only compared with the magic number.
        let read = unsafe { read_carefully(address, &mut magic) };
        if read != magic.len() || u64::from_ne_bytes(magic) != TYPE_INFO_MAGIC {
            return None;
        }
        // SAFETY: the memory is readable and begins with the magic number, so by the caller's promise it is a description, and
        // each description is a static.
        Some(unsafe { &*(address as *const TypeInfo) })
    }

    /// Returns whether this is the description of a type, and not other memory at a wrong address.
    pub(crate) fn is_sound(&self) -> bool {
        self.magic == TYPE_INFO_MAGIC
    }
}

impl fmt::Debug for TypeInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TypeInfo")
            .field("name", &self.name)
            .field("size", &self.size)
            .field("shape", &self.shape)
            .finish()
    }
}

/// Provides the [`TypeInfo`] of each collected type.
pub(crate) trait Described: Trace + Sized {
    const INFO: &'static TypeInfo = &TypeInfo {
        magic: TYPE_INFO_MAGIC,
        name: Self::NAME,
        rust_name: type_name::<Self>,
        size: size_of::<Self>(),
        align: align_of::<Self>(),
        shape: {
            // The layout of an array type has no references, so this check always passes for it. The references of its elements are
            // in its shape, which is checked where it is made.
            assert!(Self::LAYOUT.words() <= size_of::<Self>() / 8, "a layout has a reference beyond its type's end");
            Self::SHAPE
        },
        drop_in_place: if needs_drop::<Self>() {
            assert!(Self::LAYOUT.is_leaf(), "a type with references can't have drop glue: use a finalizer");
            Some(drop_erased::<Self>)
        } else {
            None
        },
        description: Self::DESCRIPTION,
        mutable: Self::MUTABLE,
        is_array: Self::IS_ARRAY,
        _not_constructible: PhantomData,
    };
}

impl<T: Trace> Described for T {}

/// # Safety
/// `payload` is a valid `T` that no code can reach any more.
unsafe fn drop_erased<T>(payload: *mut u8) {
    // SAFETY: passed on from the caller.
    unsafe { payload.cast::<T>().drop_in_place() }
}

/// A type of one word that a [`GcCell`](crate::GcCell) can hold: a `Gc` or an `Option` of one, a number, a `bool`, a `char`, a function.
/// [`#[derive(Word)]`](macro@crate::Word) implements it for an enum without fields.
///
/// # Safety
/// - The type has at most 8 bytes, and each byte of a value is initialised: there is no padding.
/// - The methods are not overridden, or do what the ones here do.
/// - A field is shared by the threads of the world, so values may be sent and shared, apart from the references in them.
/// - If [`MAY_REFER`](Self::MAY_REFER) is false, no value is a reference. If it is true, the type has 8 bytes, and values that are not
///   references are never equal to the address of a collected object.
#[diagnostic::on_unimplemented(
    message = "a `GcCell` can't hold `{Self}`",
    label = "not one word that the collector knows",
    note = "a `GcCell` is one atomic word: a `Gc`, an `Option<Gc>`, a number, a `bool`, a `char`, a function, or a `&'static T`",
    note = "for an `Option` of a number, use `Option<NonZeroU32>` and its like, or a number that stands for `None`",
    note = "for an enum without fields, write `#[derive(Clone, Copy, stopworld::Word)]`",
    note = "for a larger value, allocate it and store the reference: `GcCell<Gc<T>>`"
)]
pub unsafe trait Word: Copy {
    /// Whether the word may hold a reference to a collected object.
    const MAY_REFER: bool;
    /// Returns the value's bytes as a word; the bytes beyond them are 0.
    #[inline(always)]
    fn to_bits(self) -> usize {
        bits_of(self)
    }
    /// Converts a word back to the value.
    ///
    /// # Safety
    /// `bits` came from [`to_bits`](Self::to_bits) of this type.
    #[inline(always)]
    unsafe fn from_bits(bits: usize) -> Self {
        // SAFETY: the bytes of a value, by the caller's promise.
        unsafe { Bits { bits }.value }
    }
}

/// A value in the low bytes of a word.
#[repr(C)]
union Bits<W: Copy> {
    bits: usize,
    value: W,
}

/// [`Word::to_bits`], also in constants.
pub const fn bits_of<W: Word>(value: W) -> usize {
    const { assert!(size_of::<W>() <= size_of::<usize>(), "a `Word` has at most 8 bytes") };
    let mut bits = Bits { bits: 0 };
    bits.value = value;
    // SAFETY: each byte of a `Word` is initialised, and the bytes beyond it are those of the 0.
    unsafe { bits.bits }
}

/// A value without references to collected objects, as an object of its own.
///
/// `T: Send + Sync` keeps every `Gc` out: it is neither. A wrapper that claims to be both, because only one thread can open it, may hide one:
/// that breaks the promise of [`World::attach`](crate::World::attach), and the checker (feature `check`) finds it. If `T` has drop glue, it runs once, on the finalizer thread, after the
/// restart of a collection that found the object dead; if the world closes first, it does not run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(transparent)]
pub struct Leaf<T: Send + Sync + 'static>(pub T);

impl<T: Send + Sync> Deref for Leaf<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

// SAFETY: `Send + Sync` types hold no `Gc` (it is neither; a wrapper that claims to be both breaks the promise of `attach`), so there is nothing to
// trace, and they may be shared.
unsafe impl<T: Send + Sync + 'static> Trace for Leaf<T> {
    const NAME: &'static str = "Leaf";
    const LAYOUT: Layout = Layout::LEAF;
}

/// Declares types whose values can live in the collected heap: writes [`#[derive(Trace)]`](macro@crate::Trace) to each.
///
/// ```
/// use stopworld::{Gc, GcCell, traced};
///
/// traced! {
///     /// A node of a tree.
///     #[derive(Debug)]
///     pub struct Node {
///         pub left: GcCell<Option<Gc<Node>>>,
///         pub right: GcCell<Option<Gc<Node>>>,
///         pub key: u64,
///     }
/// }
/// ```
///
/// A packed struct does not compile: its references would not be aligned, and a stopped thread could be in the middle of writing one.
///
/// ```compile_fail
/// use stopworld::{Gc, traced};
///
/// traced! {
///     #[repr(C, packed)]
///     struct Packed {
///         next: Option<Gc<u64>>,
///         flag: u8,
///     }
/// }
/// ```
///
/// An array whose elements have references and are not whole words does not compile either, also if their
/// [`Trace`](trait@crate::Trace) was written by hand:
///
/// ```compile_fail,E0080
/// use stopworld::{Gc, Layout, Trace, World};
///
/// #[repr(C, packed)]
/// struct Packed(Option<Gc<u64>>, u8);
///
/// // SAFETY: not sound on purpose: the reference is not an aligned word in each element of an array.
/// unsafe impl Trace for Packed {
///     const NAME: &'static str = "Packed";
///     const LAYOUT: Layout = Layout::WORD;
/// }
///
/// let world = World::builder().build().unwrap();
/// // SAFETY: this thread keeps every `Gc` in local variables.
/// let mutator = unsafe { world.attach("main") }.unwrap();
/// let array = mutator.alloc_array(2, |_| Packed(None, 0)).unwrap();
/// # drop(array);
/// ```
#[macro_export]
macro_rules! traced {
    ($($item:item)+) => {$(
        #[derive($crate::Trace)]
        $item
    )+};
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::heap::array::Array;
    use crate::heap::cell::GcCell;
    use crate::heap::pointer::Gc;

    #[derive(crate::Trace)]
    struct Mixed {
        head: u32,
        tail: GcCell<Option<Gc<Mixed>>>,
        count: GcCell<u64>,
        pair: [GcCell<Option<Gc<Mixed>>>; 2],
    }

    #[test]
    fn the_layout_of_a_struct_names_exactly_its_reference_words() {
        let expected = [
            std::mem::offset_of!(Mixed, tail),
            std::mem::offset_of!(Mixed, pair),
            std::mem::offset_of!(Mixed, pair) + 8,
        ];
        let mut layout = Layout::LEAF;
        for offset in expected {
            layout = layout.with(offset, Layout::WORD);
        }
        assert_eq!(Mixed::LAYOUT, layout);
        let mixed = Mixed {
            head: 1,
            tail: GcCell::new(None),
            count: GcCell::new(2),
            pair: [GcCell::new(None), GcCell::new(None)],
        };
        assert_eq!((mixed.head, mixed.count.get()), (1, 2));
        assert!(mixed.tail.get().is_none() && mixed.pair[0].get().is_none());
    }

    #[test]
    fn only_a_type_with_drop_glue_has_a_drop_function() {
        assert!(Leaf::<String>::INFO.drop_in_place.is_some());
        assert!(Leaf::<u64>::INFO.drop_in_place.is_none());
        assert!(Mixed::INFO.is_sound());
        assert!(Mixed::INFO.name().ends_with("trace::tests::Mixed"));
    }

    #[test]
    fn an_array_of_integers_is_a_leaf_and_one_of_references_is_not() {
        assert_eq!(<Array<u64> as Trace>::SHAPE, Shape::Leaf);
        assert_eq!(
            <Array<Option<Gc<Mixed>>> as Trace>::SHAPE,
            Shape::Array { stride: 8, element: [1, 0, 0, 0], ephemerons: false }
        );
    }
}
