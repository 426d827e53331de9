//! The types of objects: their names, and which of their words are references.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use super::memory::{Memory, read, u32_at, u64_at};
use stopworld::debugger::heap_layout::{HeapLayout, TypeOffsets};

/// The maximum number of types that are distinguished. Further ones share one row.
const MOST_TYPES: usize = 1 << 16;
/// The maximum number of bytes of a name that are read.
const LONGEST_NAME: u64 = 512;

/// Which words of an object may be references.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    /// None, or it is not known which.
    None,
    /// Those whose bits are set, for the first 256 words.
    Words([u64; 4]),
    /// A length, then elements with these words.
    Array { stride: u64, element: [u64; 4] },
    /// All of them.
    Any,
}

impl Shape {
    /// Returns whether the word at an offset is one. `length` is the first word of the object.
    pub(crate) fn refers_at(&self, offset: u64, length: u64) -> bool {
        let bit =
            |bits: &[u64; 4], word: u64| bits.get(word as usize / 64).is_some_and(|map| map >> (word % 64) & 1 == 1);
        match self {
            Shape::None => false,
            Shape::Any => true,
            Shape::Words(bits) => bit(bits, offset / 8),
            Shape::Array { stride, element } => match offset.checked_sub(8) {
                Some(within) => within / stride < length && bit(element, within % stride / 8),
                None => false,
            },
        }
    }
}

/// A type.
#[derive(Clone, Debug)]
pub(crate) struct Type {
    pub(crate) name: String,
    pub(crate) shape: Shape,
    /// The size of a value; of an array, that of its length word; 0 if it is not known.
    pub(crate) value_bytes: u64,
    /// The size of an element of an array.
    pub(crate) stride: Option<u64>,
    /// Whether the first word of an object is a number of elements.
    pub(crate) is_array: bool,
    /// Whether an object is a weak reference.
    pub(crate) is_weak: bool,
    /// Whether objects are dropped when they are unreachable.
    pub(crate) is_dropped: bool,
    pub(crate) is_known: bool,
}

/// The types that were met, by number.
pub(crate) struct Types<'m> {
    memory: &'m dyn Memory,
    layout: TypeOffsets,
    magic: u64,
    known: RefCell<Known>,
}

#[derive(Default)]
struct Known {
    by_address: HashMap<u64, Option<u32>>,
    types: Vec<Rc<Type>>,
}

impl<'m> Types<'m> {
    pub(crate) fn new(memory: &'m dyn Memory, layout: &HeapLayout) -> Types<'m> {
        Types { memory, layout: layout.types, magic: layout.type_magic, known: RefCell::default() }
    }

    /// Returns the number of the type to which a header refers; `None` if there is none.
    pub(crate) fn of_header(&self, header: u64) -> Option<u32> {
        if let Some(known) = self.known.borrow().by_address.get(&header) {
            return *known;
        }
        let found = self.read(header);
        let mut known = self.known.borrow_mut();
        // Wrong headers are not remembered: there may be any number of them.
        let found = found?;
        let number = known.types.len() as u32;
        if known.types.len() >= MOST_TYPES {
            return Some(number - 1);
        }
        let last = known.types.len() + 1 == MOST_TYPES;
        known.types.push(Rc::new(if last { unknown("(other types)".to_owned()) } else { found }));
        known.by_address.insert(header, Some(number));
        Some(number)
    }

    /// Returns a type by its number.
    ///
    /// # Panics
    /// If there is no such type.
    pub(crate) fn get(&self, number: u32) -> Rc<Type> {
        Rc::clone(&self.known.borrow().types[number as usize])
    }

    /// Returns the number of types, and of those of which the process's memory says nothing.
    pub(crate) fn counts(&self) -> (usize, usize) {
        let known = self.known.borrow();
        (known.types.len(), known.types.iter().filter(|found| !found.is_known).count())
    }

    fn read(&self, header: u64) -> Option<Type> {
        if header == 0 || !header.is_multiple_of(8) {
            return None;
        }
        let at = &self.layout;
        let mut bytes = vec![0; at.size];
        if read(self.memory, header, &mut bytes).is_err() {
            return self.memory.is_left_out(header).then(|| unknown(format!("(type {header:#x})")));
        }
        if u64_at(&bytes, at.magic) != self.magic {
            return None;
        }
        let bitmaps = |at: usize| std::array::from_fn(|index| u64_at(&bytes, at.saturating_add(8 * index)));
        let stride = u64::from(u32_at(&bytes, at.stride));
        let number = bytes.get(at.shape).copied().unwrap_or(0);
        let shape = match number {
            1 => Shape::Words([u64_at(&bytes, at.bitmaps), 0, 0, 0]),
            2 => Shape::Words(bitmaps(at.bitmaps)),
            3 if stride >= 8 && stride.is_multiple_of(8) => Shape::Array { stride, element: bitmaps(at.element) },
            5 | 6 => Shape::Any,
            _ => Shape::None,
        };
        let (name, length) = (u64_at(&bytes, at.name), u64_at(&bytes, at.name_bytes));
        let mut text = vec![0; length.min(LONGEST_NAME) as usize];
        let known = read(self.memory, name, &mut text).is_ok() && length > 0;
        let has_stride = number == 3;
        Some(Type {
            name: if known { String::from_utf8_lossy(&text).into_owned() } else { format!("(type {header:#x})") },
            shape,
            value_bytes: u64_at(&bytes, at.value_bytes),
            stride: has_stride.then_some(stride),
            is_array: has_stride || bytes.get(at.is_array) == Some(&1),
            is_weak: number == 4,
            is_dropped: u64_at(&bytes, at.drop_in_place) != 0,
            is_known: known,
        })
    }
}

fn unknown(name: String) -> Type {
    Type {
        name,
        shape: Shape::None,
        value_bytes: 0,
        stride: None,
        is_array: false,
        is_weak: false,
        is_dropped: false,
        is_known: false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    #[rstest]
    #[case::none(Shape::None, &[])]
    #[case::any(Shape::Any, &[0, 8, 16, 24, 32, 40])]
    #[case::words(Shape::Words([0b101, 0, 0, 0]), &[0, 16])]
    #[case::elements(Shape::Array { stride: 16, element: [0b10, 0, 0, 0] }, &[16, 32])]
    fn words_are_references_as_the_shape_says(#[case] shape: Shape, #[case] expected: &[u64]) {
        let found: Vec<u64> = (0..6).map(|word| word * 8).filter(|offset| shape.refers_at(*offset, 2)).collect();
        assert_eq!(found, expected);
    }
}
