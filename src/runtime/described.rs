//! Types that are known only at run time, such as those of a runtime for another language.
//!
//! The collector traces objects by data ([`TypeInfo`]), so a type need not be a Rust type. A description gives the size of the
//! objects and the words that may hold references; the collector ignores the other words. Objects are allocated zeroed. They
//! have no `Drop`.
//!
//! ```
//! use stopworld::{DescribedType, Gc, Layout, World};
//!
//! let pair = DescribedType::new("pair", 16, Layout::WORD)?;      // the first word is a reference, the second is not
//! let world = World::builder().build()?;
//! // SAFETY: this thread keeps every reference in local variables.
//! let mutator = unsafe { world.attach("main") }?;
//! let (one, other) = (mutator.alloc_described(pair)?, mutator.alloc_described(pair)?);
//! // SAFETY: the object has 16 bytes, and its first word is a reference; no other code has a reference to it yet.
//! unsafe { Gc::as_ptr(one).cast::<usize>().cast_mut().write(Gc::addr(other)) };
//! assert_eq!(Gc::type_info(one).name(), "pair");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use super::{Mutator, OutOfMemory};
use crate::heap::array::ARRAY_HEAD_BYTES;
use crate::heap::pointer::Gc;
use crate::heap::trace::{Layout, Shape, Trace, TypeInfo};

/// An object whose type was described at run time. Its contents are opaque here: the program reads and writes them through
/// [`Gc::as_ptr`].
#[derive(Debug)]
#[repr(C, align(8))]
pub struct Described(());

// SAFETY: only `alloc_described…` makes such objects, and gives each its real description; this layout is never used.
unsafe impl Trace for Described {
    const NAME: &'static str = "Described";
    const LAYOUT: Layout = Layout::LEAF;
}

/// A type that was described at run time, and the type of its arrays. This is a `Copy` handle; the description itself is never freed.
#[derive(Clone, Copy, Debug)]
pub struct DescribedType {
    object: &'static TypeInfo,
    array: Option<&'static TypeInfo>,
}

/// Why a description of a type is invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DescribeError {
    /// A reference is described beyond the end of the object.
    #[error("word {word} is described as a reference, but objects of the type have only {words} whole words")]
    ReferenceBeyondTheEnd {
        /// The word's index, from 0.
        word: usize,
        /// The number of whole words in an object.
        words: usize,
    },
    /// A reference is described beyond the words that a [`Layout`] covers.
    #[error(
        "word {word} is described as a reference, but only the first {most} words of a type can hold references: use an array"
    )]
    ReferenceTooFar {
        /// The word's index, from 0.
        word: usize,
        /// The number of words that can hold references.
        most: usize,
    },
    /// The object's size, in bytes, is larger than any heap.
    #[error("objects of {0} bytes are larger than any heap")]
    TooLarge(usize),
}

/// The largest size of an object in bytes.
const LARGEST: usize = isize::MAX as usize / 2;

impl DescribedType {
    /// Describes a type: `bytes` is the size of an object, and `references` has the words that may hold references. The name and
    /// the description are never freed, so make each type once.
    ///
    /// # Errors
    /// A reference lies beyond the end of the object, or the object is larger than any heap.
    pub fn new(name: &str, bytes: usize, references: Layout) -> Result<DescribedType, DescribeError> {
        if bytes > LARGEST {
            return Err(DescribeError::TooLarge(bytes));
        }
        let words = bytes / size_of::<usize>();
        if let Some(word) = references.last_word().filter(|word| *word >= words) {
            return Err(DescribeError::ReferenceBeyondTheEnd { word, words });
        }
        // The description is leaked: an object's header points to its description, and the collector may read it at any time.
        let make = |name: String, size, shape| {
            &*Box::leak(Box::new(TypeInfo::of_described(Box::leak(name.into_boxed_str()), size, 8, shape)))
        };
        let object = make(name.to_owned(), bytes, Shape::of_layout(&references));
        let stride = u32::try_from(bytes).ok().filter(|_| bytes.is_multiple_of(8) || references.is_leaf());
        let shape = |stride| match references.is_leaf() {
            true => Shape::Leaf,
            false => Shape::Array { stride, element: references.bitmaps(), ephemerons: false },
        };
        Ok(DescribedType {
            object,
            array: stride.map(|stride| make(format!("{name}[]"), ARRAY_HEAD_BYTES, shape(stride))),
        })
    }

    /// Makes a [`Layout`] from bitmaps: bit `b` of `references[i]` is set if word `64 * i + b` of the object may hold a reference.
    ///
    /// # Errors
    /// A bit is set beyond the [`Layout::WORDS`] words that can hold references.
    pub fn layout(references: &[u64]) -> Result<Layout, DescribeError> {
        let mut layout = Layout::LEAF;
        for (index, bits) in references.iter().enumerate() {
            for bit in (0..u64::BITS as usize).filter(|bit| bits >> bit & 1 == 1) {
                let word = index * u64::BITS as usize + bit;
                if word >= Layout::WORDS {
                    return Err(DescribeError::ReferenceTooFar { word, most: Layout::WORDS });
                }
                layout = layout.with(word * size_of::<usize>(), Layout::WORD);
            }
        }
        Ok(layout)
    }

    /// Returns the name given to [`new`](Self::new).
    pub fn name(&self) -> &'static str {
        self.object.name()
    }

    /// Returns the size of an object in bytes.
    pub fn bytes(&self) -> usize {
        self.object.size()
    }
}

/// The type of plain bytes without references.
static BYTES: TypeInfo = TypeInfo::of_described("bytes", 0, 16, Shape::Leaf);

impl Mutator {
    /// Allocates an object of a described type, zeroed and aligned to 8 bytes.
    ///
    /// # Errors
    /// The heap limit is reached and collections did not free enough.
    pub fn alloc_described(&self, described: DescribedType) -> Result<Gc<Described>, OutOfMemory> {
        self.described(described.object.size(), described.object, 0)
    }

    /// Allocates an array of `length` elements of a described type, zeroed: one word with the length, then the elements.
    ///
    /// # Errors
    /// As [`alloc_described`](Self::alloc_described). Also if the array is larger than any heap, or if the elements hold
    /// references and their size is not a multiple of 8 bytes.
    pub fn alloc_described_array(&self, element: DescribedType, length: usize) -> Result<Gc<Described>, OutOfMemory> {
        let bytes = self.array_bytes(length, element.bytes())?;
        match element.array {
            Some(array) => self.described(bytes, array, length),
            None => Err(self.out_of_memory(bytes)),
        }
    }

    /// Allocates `bytes` bytes that hold no references, zeroed and aligned to 16 bytes.
    ///
    /// # Errors
    /// As [`alloc_described`](Self::alloc_described).
    pub fn alloc_bytes(&self, bytes: usize) -> Result<Gc<Described>, OutOfMemory> {
        self.described(bytes, &BYTES, 0)
    }

    fn described(&self, bytes: usize, info: &'static TypeInfo, first: usize) -> Result<Gc<Described>, OutOfMemory> {
        if bytes > LARGEST {
            return Err(self.out_of_memory(bytes));
        }
        // `zeroed` writes the first word, so there must be one; every cell has room for it.
        let payload = self.zeroed(bytes.max(size_of::<usize>()), info.align(), info, first)?;
        // SAFETY: a fresh object of this description.
        Ok(unsafe { Gc::from_addr(payload as usize) })
    }
}
