//! The layout of a record: its parameters and their offsets.
//!
//! An event is declared by code, name, category, and the sorts and names of its parameters. The offset of each parameter
//! follows from the rule for C structures (natural alignment, from byte 16) and is computed here at compile time. So a layout can't
//! disagree with its declaration, and a writer that fills parameters in order uses the same places as a reader that uses offsets.
//!
//! Two rules differ from C:
//!
//! * A **string** ends its record, which is four bytes longer than the string needs: the writer reserves
//!   `sizeof('\0')` bytes for the NUL, which in C is the size of an `int`.
//! * A **Boolean** is a byte in 2.0.0. In 1.0.0 it is a bit: neighbours share a byte, and since the bit-field was declared
//!   signed, true reads as −1.

use crate::Category;

/// The bytes before the parameters: code, size, padding, clock.
pub const HEADER: usize = 16;
/// The largest record: an interned string of 255 bytes.
pub const LARGEST_RECORD: usize = align_up(24 + 255 + STRING_END, 8);
/// The bytes that the end of a string adds to its record's size before alignment.
const STRING_END: usize = 4;

/// The sorts of parameters, named by the letters that the MPS uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Sort {
    /// A pointer to a structure of the memory manager.
    P,
    /// An address of the client.
    A,
    /// A word.
    W,
    /// An unsigned 32-bit number.
    U,
    /// A double.
    D,
    /// A Boolean.
    B,
    /// A string with a NUL at its end; always the last parameter.
    S,
}

/// The unit of a number, which the sort of its parameter does not state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Unit {
    /// A size in bytes.
    Bytes,
    /// A length in bits.
    Bits,
    /// A count.
    Count,
    /// A set of zones or of traces: a bit for each.
    Set,
    /// A fraction, from 0 to 1.
    Fraction,
    /// A time in seconds.
    Seconds,
    /// Processor time, of which `EventInit` gives the ticks per second.
    Clocks,
}

/// A parameter and its offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Param {
    /// Its sort.
    pub sort: Sort,
    /// Its name.
    pub name: &'static str,
    /// The unit of its number, if that is known.
    pub unit: Option<Unit>,
    /// Its offset from the record's first byte.
    pub offset: u16,
    /// The bit in the byte at that offset, for a Boolean of 1.0.0.
    pub bit: Option<u8>,
}

/// An event: the contents of its records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// The code that identifies its records; the first field of each.
    pub code: u16,
    /// The MPS's name of the event.
    pub name: &'static str,
    /// The category whose bit in the filter enables it.
    pub category: Category,
    /// Its parameters, in order.
    pub params: &'static [Param],
    /// The offset at which the last parameter ends. If that is a string, it is counted as an empty one without its NUL.
    pub(super) needs: u16,
}

impl Layout {
    pub(super) const fn new(code: u16, name: &'static str, category: Category, params: &'static [Param]) -> Layout {
        let needs = match params.last() {
            None => HEADER as u16,
            Some(Param { sort: Sort::S, offset, .. }) => *offset,
            Some(last) => last.end() as u16,
        };
        Layout { code, name, category, params, needs }
    }

    /// Returns the size of a record whose string, if it has one, has this many bytes before its NUL.
    pub const fn size(&self, string: usize) -> usize {
        let string = match self.params.last() {
            Some(Param { sort: Sort::S, .. }) => string + STRING_END,
            _ => 0,
        };
        align_up(self.needs as usize + string, 8)
    }

    /// Returns the number of words of the parameters, without a string.
    pub(super) const fn words(&self) -> usize {
        (self.needs as usize - HEADER).div_ceil(8)
    }

    /// Returns the parameter with this name, which must be declared. Evaluated at compile time.
    pub(super) const fn find(&self, name: &str) -> &'static Param {
        let mut i = 0;
        while !is_same(self.params[i].name.as_bytes(), name.as_bytes()) {
            i += 1;
        }
        &self.params[i]
    }

    /// Returns the parameter with this name.
    pub fn param(&self, name: &str) -> Option<&'static Param> {
        self.params.iter().find(|param| param.name == name)
    }
}

impl Param {
    /// Returns the offset of the first byte after the parameter (for a string, after its first byte).
    pub const fn end(&self) -> usize {
        self.offset as usize + self.sort.size()
    }
}

impl Sort {
    /// Returns its size in bytes, which is also its alignment; for a string, that of its first byte.
    pub const fn size(self) -> usize {
        match self {
            Sort::P | Sort::A | Sort::W | Sort::D => 8,
            Sort::U => 4,
            Sort::B | Sort::S => 1,
        }
    }
}

/// Returns the name of a parameter without the prefix `r#`, which the table needs for names that are keywords of Rust.
pub(super) const fn unraw(name: &'static str) -> &'static str {
    match name.as_bytes() {
        [b'r', b'#', ..] => name.split_at(2).1,
        _ => name,
    }
}

/// Returns whether two names are the same. `==` can't be evaluated at compile time.
const fn is_same(a: &[u8], b: &[u8]) -> bool {
    let mut i = 0;
    while i < a.len() && i < b.len() && a[i] == b[i] {
        i += 1;
    }
    i == a.len() && i == b.len()
}

const fn align_up(n: usize, to: usize) -> usize {
    n.div_ceil(to) * to
}

/// The storage of Booleans in a version.
#[derive(Clone, Copy)]
pub(super) enum Booleans {
    Bytes,
    Bits,
}

/// Assigns each parameter its offset.
pub(super) const fn place<const N: usize>(
    booleans: Booleans,
    declared: [(Sort, &'static str, Option<Unit>); N],
) -> [Param; N] {
    let mut placed = [Param { sort: Sort::W, name: "", unit: None, offset: 0, bit: None }; N];
    let mut end = HEADER;
    let mut next_bit = 0;
    let mut i = 0;
    while i < N {
        let (sort, name, unit) = declared[i];
        let (offset, bit) = match (sort, booleans) {
            (Sort::B, Booleans::Bits) if next_bit > 0 => (end - 1, Some(next_bit)),
            (Sort::B, Booleans::Bits) => (end, Some(0)),
            _ => (align_up(end, sort.size()), None),
        };
        next_bit = match bit {
            Some(bit) => (bit + 1) % 8,
            None => 0,
        };
        placed[i] = Param { sort, name, unit, offset: offset as u16, bit };
        end = placed[i].end();
        i += 1;
    }
    placed
}
