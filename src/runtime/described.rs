//! Types that are known at run time only: those of a host in another language.
//!
//! Tracing is data here ([`TypeInfo`]), so a type need not be a Rust type. Whoever describes one says how large its
//! objects are and which of their words may hold references; what lies in the other words is none of the collector's
//! business. Objects come zeroed. There is no `Drop`.
//!
//! ```
//! use stopworld::{DescribedType, Layout, World};
//!
//! let pair = DescribedType::new("pair", 16, Layout::WORD)?;      // the first word refers, the second does not
//! let world = World::builder().build()?;
//! // SAFETY: this thread keeps every reference in local variables.
//! let mutator = unsafe { world.attach("main") }?;
//! let (one, other) = (mutator.alloc_described(pair)?, mutator.alloc_described(pair)?);
//! // SAFETY: 16 bytes, of which the first word is a reference; nobody else knows the object yet.
//! unsafe { one.as_ptr().cast::<usize>().cast_mut().write(other.addr()) };
//! assert_eq!(one.type_info().name(), "pair");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use super::{Mutator, OutOfMemory};
use crate::heap::pointer::{ARRAY_HEAD_BYTES, Gc};
use crate::heap::trace::{Layout, Shape, Trace, TypeInfo};

/// An object whose type was described at run time. What it consists of is the describer's knowledge: it is read and written
/// through [`Gc::as_ptr`].
#[derive(Debug)]
#[repr(C, align(8))]
pub struct Described(());

// SAFETY: only `alloc_described…` makes such objects, and gives each its own description; this layout is never used.
unsafe impl Trace for Described {
    const NAME: &'static str = "Described";
    const LAYOUT: Layout = Layout::LEAF;
}

/// A type that was described at run time, and the type of arrays of it. Lives as long as the process.
#[derive(Clone, Copy, Debug)]
pub struct DescribedType {
    object: &'static TypeInfo,
    array: Option<&'static TypeInfo>,
}

/// Why a description makes no type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DescribeError {
    /// Beyond the object's end.
    #[error("word {word} of the type is said to hold a reference, and its objects have {words} whole words")]
    ReferenceBeyondTheEnd {
        /// The word's index.
        word: usize,
        /// How many there are.
        words: usize,
    },
    /// Beyond what a description covers.
    #[error(
        "word {word} of the type is said to hold a reference: only the first {most} words of a type can; use an array"
    )]
    ReferenceTooFar {
        /// The word's index.
        word: usize,
        /// How many words can.
        most: usize,
    },
    /// Larger than any heap.
    #[error("objects of {0} bytes are larger than any heap")]
    TooLarge(usize),
}

/// No object is larger.
const LARGEST: usize = isize::MAX as usize / 2;

impl DescribedType {
    /// Objects of so many bytes, whose references lie in these words.
    ///
    /// # Errors
    /// The description contradicts itself.
    pub fn new(name: &str, bytes: usize, references: Layout) -> Result<DescribedType, DescribeError> {
        if bytes > LARGEST {
            return Err(DescribeError::TooLarge(bytes));
        }
        let words = bytes / size_of::<usize>();
        if let Some(word) = references.last_word().filter(|word| *word >= words) {
            return Err(DescribeError::ReferenceBeyondTheEnd { word, words });
        }
        let name: &'static str = Box::leak(Box::from(name));
        // Objects live for ever as far as headers know, and so do types: the collector may look at a description at any time.
        let make = |size, shape| &*Box::leak(Box::new(TypeInfo::of_described(name, size, 8, shape)));
        let object = make(bytes, Shape::of_layout(&references));
        let stride = u32::try_from(bytes).ok().filter(|_| bytes.is_multiple_of(8) || references.is_leaf());
        let shape = |stride| match references.is_leaf() {
            true => Shape::Leaf,
            false => Shape::Array { stride, element: references.bitmaps() },
        };
        Ok(DescribedType { object, array: stride.map(|stride| make(ARRAY_HEAD_BYTES, shape(stride))) })
    }

    /// As words of bits, 64 of the object's words each, lowest bits first: what [`new`](Self::new) takes as a layout.
    ///
    /// # Errors
    /// A bit is set beyond the words that can hold references.
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

    /// The name it was given.
    pub fn name(&self) -> &'static str {
        self.object.name()
    }

    /// How many bytes an object has.
    pub fn bytes(&self) -> usize {
        self.object.size()
    }
}

/// Memory of which nothing is known.
static BYTES: TypeInfo = TypeInfo::of_described("bytes", 0, 16, Shape::Leaf);

impl Mutator {
    /// An object of a described type, zeroed, aligned to 8.
    ///
    /// # Errors
    /// The heap limit is reached and a collection made no room.
    pub fn alloc_described(&self, described: DescribedType) -> Result<Gc<Described>, OutOfMemory> {
        self.described(described.object.size(), described.object, 0)
    }

    /// An array of so many elements of a described type, zeroed: a word that holds the length, then the elements.
    ///
    /// # Errors
    /// As [`alloc_described`](Self::alloc_described); also if the array is larger than any heap, or if elements have references
    /// and would not be aligned to 8.
    pub fn alloc_described_array(&self, element: DescribedType, length: usize) -> Result<Gc<Described>, OutOfMemory> {
        let bytes = self.array_bytes(length, element.bytes())?;
        match element.array {
            Some(array) => self.described(bytes, array, length),
            None => Err(self.out_of_memory(bytes)),
        }
    }

    /// So many bytes without references, zeroed, aligned to 16.
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
        // The first word is written at once; a cell or a block has always one.
        let payload = self.zeroed(bytes.max(size_of::<usize>()), info.align(), info, first)?;
        // SAFETY: a fresh object of this description.
        Ok(unsafe { Gc::from_addr(payload as usize) })
    }
}
