//! Kinds of objects: what the collector scans in them.
//!
//! A program can make kinds of its own, described by a *descriptor*, a word with a tag:
//!
//! | tag | the object's pointers |
//! |---|---|
//! | 0 length | all words, up to this number of bytes |
//! | 1 bitmap | the first 62 words, those whose bit is set; the highest bit is of the first word |
//! | 2 procedure | those that a *mark procedure* of the program passes to `GC_mark_and_push` |
//! | 3 in the object | the object says where its descriptor is |
//!
//! Lengths and bitmaps of up to 64 words are exact here. Others are scanned whole, as an object of the normal kind: that keeps more alive
//! than the program requires. bdwgc calls a mark procedure on any thread that marks. Here it is called on the collecting thread, after the
//! parallel part of marking: the collector lists the objects of such kinds while it marks.

use std::ffi::c_void;
use std::hash::BuildHasherDefault;
use std::ptr;
use std::sync::OnceLock;

use stopworld::TypeInfo;
use stopworld::untyped::UntypedKind;

use super::AddressMap;
use crate::hook::Hook;
use crate::lock::Guarded;

/// A kind of objects, twice: for objects that use the last word of their cell, and for those that leave it unused.
///
/// The payload of a cell with a header is 16n + 8 bytes. bdwgc's sizes are multiples of 16, and `GC_size` returns them; programs and its
/// tests expect that an object of 15 bytes has size 16. So the kind of an object says which of the two sizes is its own. In a cell without a
/// header both are the same.
pub(crate) type SizedKind = [UntypedKind; 2];

/// The two variants of a [`SizedKind`].
pub(crate) const USES_LAST_WORD: usize = 0;
pub(crate) const LEAVES_LAST_WORD: usize = 1;

/// Makes both variants of a kind. They have the same name.
pub(crate) fn sized(make: impl Fn() -> UntypedKind) -> SizedKind {
    [make(), make()]
}

/// Whether objects of this type are of one of the variants of the kind.
pub(crate) fn is_of(variants: &SizedKind, type_info: &'static TypeInfo) -> bool {
    variants.iter().any(|variant| ptr::eq(variant.type_info(), type_info))
}

/// Gets an object, the top and the limit of a mark stack, and the environment of the descriptor; returns the new top.
pub(crate) type Procedure = unsafe extern "C-unwind" fn(*mut usize, *mut c_void, *mut c_void, usize) -> *mut c_void;

/// The number of kinds that a program can have, with the four that every program has.
pub(crate) const MOST_KINDS: usize = 16;
/// The number of the first kind that the program makes.
pub(crate) const FIRST_KIND: usize = 4;
/// The number of procedures that a program can have. bdwgc keeps the first ones for itself.
const MOST_PROCEDURES: usize = 64;
const FIRST_PROCEDURE: usize = 8;
/// The number of bits of a procedure's number in a descriptor, and of a tag.
const PROCEDURE_BITS: u32 = 6;
const TAG_BITS: u32 = 2;

const LENGTH: usize = 0;
const BITMAP: usize = 1;
const PROCEDURE: usize = 2;

/// A kind that the program has made.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Kind {
    pub(crate) variants: SizedKind,
    /// The number of the kind's mark procedure, and its environment.
    procedure: Option<(usize, usize)>,
}

impl Kind {
    /// Whether objects have a mark procedure, and so leave the last word of their cell to the collector.
    pub(crate) fn has_procedure(&self) -> bool {
        self.procedure.is_some()
    }
}

static KINDS: [OnceLock<Kind>; MOST_KINDS] = [const { OnceLock::new() }; MOST_KINDS];
static PROCEDURES: [Hook<Procedure>; MOST_PROCEDURES] = [const { Hook::new(ptr::null()) }; MOST_PROCEDURES];

/// The numbers of kinds and procedures that were made, and the kinds of descriptors.
pub(crate) struct Made {
    kinds: usize,
    procedures: usize,
    /// The kind of each descriptor that an allocation had.
    described: AddressMap<SizedKind>,
}

pub(crate) static MADE: Guarded<Made> = Guarded::new(Made {
    kinds: FIRST_KIND,
    procedures: FIRST_PROCEDURE,
    described: AddressMap::with_hasher(BuildHasherDefault::new()),
});

/// The words that a descriptor calls pointers, if 64 bits can say it: bit *i* is word *i*. `None` if all words may be pointers.
fn words(descriptor: usize) -> Option<u64> {
    match (descriptor & ((1 << TAG_BITS) - 1), descriptor >> TAG_BITS << TAG_BITS) {
        // Lengths are in bytes; the tag's bits are 0 in them.
        (LENGTH, bytes) if bytes / 8 < 64 => Some((1 << (bytes / 8)) - 1),
        (BITMAP, bitmap) => Some(bitmap.reverse_bits() as u64),
        _ => None,
    }
}

/// Makes a bitmap or a length of the words that may be pointers: bit *i* of `bitmap` is word *i*.
pub(crate) fn descriptor(bitmap: &[usize], bits: usize) -> usize {
    let is_set = |index: &usize| bitmap[index / 64] >> (index % 64) & 1 == 1;
    match (0..bits).rfind(is_set) {
        None => LENGTH,
        Some(last) if last < 62 => (bitmap[0] & (usize::MAX >> (63 - last))).reverse_bits() | BITMAP,
        Some(last) => (last + 1) * size_of::<usize>(),
    }
}

fn described(name: &str, descriptor: usize) -> SizedKind {
    match words(descriptor) {
        Some(words) => sized(|| UntypedKind::with_words(name, words)),
        None => sized(|| UntypedKind::scanned(name)),
    }
}

impl Made {
    /// Makes a kind. Returns its number, or `None` if there are too many. `adds_size`: the descriptor is a length to which an object's
    /// size is added.
    pub(crate) fn make_kind(&mut self, descriptor: usize, adds_size: bool) -> Option<usize> {
        let number = self.kinds;
        let place = KINDS.get(number)?;
        let name = format!("kind {number}");
        let tag = descriptor & ((1 << TAG_BITS) - 1);
        let procedure = (tag == PROCEDURE).then(|| {
            let rest = descriptor >> TAG_BITS;
            (rest & (MOST_PROCEDURES - 1), rest >> PROCEDURE_BITS)
        });
        let variants = match procedure {
            Some(_) => sized(|| UntypedKind::bound(&name)),
            None if adds_size => sized(|| UntypedKind::scanned(&name)),
            None => described(&name, descriptor),
        };
        place.set(Kind { variants, procedure }).ok()?;
        self.kinds += 1;
        Some(number)
    }

    /// Registers a mark procedure. Returns its number, or `None` if there are too many.
    pub(crate) fn make_procedure(&mut self, procedure: Option<Procedure>) -> Option<usize> {
        let number = self.procedures;
        PROCEDURES.get(number)?.set(procedure);
        self.procedures += 1;
        Some(number)
    }

    /// Returns the kind of the objects with this descriptor.
    pub(crate) fn kind_of_descriptor(&mut self, descriptor: usize) -> SizedKind {
        let make = || described(&format!("typed {descriptor:#x}"), descriptor);
        *self.described.entry(descriptor).or_insert_with(make)
    }

    /// Returns the kind of typed objects to which this description belongs.
    pub(crate) fn described_kind(&self, type_info: &'static TypeInfo) -> Option<SizedKind> {
        self.described.values().find(|variants| is_of(variants, type_info)).copied()
    }
}

/// Returns the kind of the program with this number.
pub(crate) fn own_kind(number: usize) -> Option<&'static Kind> {
    KINDS.get(number)?.get()
}

/// Returns the program's own kind to which this description belongs, and its number.
pub(crate) fn own_kind_of(type_info: &'static TypeInfo) -> Option<(usize, &'static Kind)> {
    let mut made = KINDS.iter().enumerate().skip(FIRST_KIND).map_while(|(number, kind)| Some((number, kind.get()?)));
    made.find(|(_, kind)| is_of(&kind.variants, type_info))
}

/// A mark procedure, and the environment in its kind's descriptor.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BoundProcedure {
    function: Procedure,
    environment: usize,
}

impl BoundProcedure {
    /// Returns the procedure of the objects with this description.
    pub(crate) fn of(type_info: &'static TypeInfo) -> Option<Self> {
        let (_, kind) = own_kind_of(type_info)?;
        let (number, environment) = kind.procedure?;
        let function = PROCEDURES.get(number).and_then(Hook::get)?;
        Some(Self { function, environment })
    }

    /// Calls the procedure with an object, in the stopped world.
    ///
    /// # Safety
    /// The object is alive, and of the procedure's kind.
    pub(crate) unsafe fn call(self, object: usize) {
        /// The stack that the procedure believes to have: it only passes the addresses on.
        static STACK: [usize; 2] = [0; 2];
        let (top, limit) = ((&raw const STACK[0]).cast_mut().cast(), (&raw const STACK[1]).cast_mut().cast());
        // SAFETY: the program's function, with an object of its kind.
        unsafe { (self.function)(object as *mut usize, top, limit, self.environment) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    #[rstest]
    #[case::none(&[0], 10, 0)]
    #[case::one(&[0b101], 3, 0b101)]
    #[case::last(&[1 << 61], 62, 1 << 61)]
    #[case::bits_beyond_the_count_are_none(&[0b111], 2, 0b11)]
    fn a_bitmap_is_exact(#[case] bitmap: &[usize], #[case] bits: usize, #[case] expected: u64) {
        let made = descriptor(bitmap, bits);
        assert_eq!(words(made), Some(expected), "{made:#x}");
    }

    #[rstest]
    #[case::length(40, Some(0b11111))]
    #[case::no_length(0, Some(0))]
    #[case::long(64 * 8, None)]
    #[case::first_word(1 << 63 | BITMAP, Some(1))]
    #[case::procedure(PROCEDURE, None)]
    #[case::in_the_object(3, None)]
    fn the_words_of_a_descriptor(#[case] descriptor: usize, #[case] expected: Option<u64>) {
        assert_eq!(words(descriptor), expected);
    }

    #[test]
    fn a_long_bitmap_becomes_a_length() {
        assert_eq!(descriptor(&[1, 1 << 3], 128), 68 * 8);
    }
}
