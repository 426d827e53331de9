//! What the records of each dialect consist of, as data.
//!
//! An event is declared by code, name, category and the sorts and names of its parameters. Where each parameter lies
//! follows by the rule of C structures (natural alignment, from byte 16), and is computed here, at compile time; so a
//! layout can't disagree with its declaration, and a writer that fills parameters in order and a reader that looks at
//! offsets use the same places.
//!
//! Two of the stream's habits are not C's:
//!
//! * A **string** ends its record, which is then as long as the string needs *plus four*: the writer reserves
//!   `sizeof('\0')` bytes for the end, and in C that is an `int`.
//! * A **Boolean** is a byte in 2.0.0. In 1.0.0 it is a bit: neighbours share a byte, and since the bit-field was declared
//!   signed, true reads back as −1.

use crate::Category;

use super::layouts_v1::V1_0_0;
use super::layouts_v2::V2_0_0;

/// The bytes before the parameters: code, size, padding, clock.
pub const HEADER: usize = 16;
/// The largest record: an interned string of 255 bytes.
pub const LARGEST_RECORD: usize = align_up(24 + 255 + STRING_END, 8);
/// The code of `EventInit`, which tells a stream's version. In 1.0.0 it is no event.
pub const EVENT_INIT: u16 = 0x1D;
/// What the end of a string adds to its record's size before alignment.
const STRING_END: usize = 4;

/// Which table of events a stream follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Version {
    /// Event version 1.0.0: October 2012, the days of `eventcnv -S`.
    V1,
    /// Event version 2.0.0: release 1.118 and later, read by `mpseventcnv`.
    V2,
}

/// The sorts of parameters, by the letters that the MPS uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Sort {
    /// A pointer of the memory manager's own.
    P,
    /// An address of the client's.
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

/// A parameter, and where it lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Param {
    /// Its sort.
    pub sort: Sort,
    /// Its name.
    pub name: &'static str,
    /// Its first byte, counted from the record's.
    pub offset: u16,
    /// Which bit of that byte, for a Boolean of 1.0.0.
    pub bit: Option<u8>,
}

/// An event: what its record consists of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// The first word of each such record.
    pub code: u16,
    /// The MPS's name of the event.
    pub name: &'static str,
    /// The category whose bit in the filter lets it into the stream.
    pub category: Category,
    /// Its parameters, in order.
    pub params: &'static [Param],
    /// The bytes up to the end of the last parameter, whose string (if it is one) is empty and without its NUL.
    pub(super) needs: u16,
}

impl Version {
    /// All that are known, the oldest first.
    pub const ALL: [Version; 2] = [Version::V1, Version::V2];

    /// The events of this version, by rising code.
    pub const fn layouts(self) -> &'static [Layout] {
        match self {
            Version::V1 => &V1_0_0,
            Version::V2 => &V2_0_0,
        }
    }

    /// The event that has this code.
    #[inline]
    pub fn layout(self, code: u16) -> Option<&'static Layout> {
        let by_code = match self {
            Version::V1 => &BY_CODE_V1,
            Version::V2 => &BY_CODE_V2,
        };
        by_code.get(usize::from(code)).copied().flatten()
    }

    /// The largest code that is an event.
    pub fn max_code(self) -> u16 {
        self.layouts().last().map_or(0, |layout| layout.code)
    }

    /// As `EventInit` says it.
    pub const fn numbers(self) -> [u32; 3] {
        match self {
            Version::V1 => [1, 0, 0],
            Version::V2 => [2, 0, 0],
        }
    }
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

    /// The size of a record whose string (if it has one) has this many bytes before its NUL.
    pub const fn size(&self, string: usize) -> usize {
        let string = match self.params.last() {
            Some(Param { sort: Sort::S, .. }) => string + STRING_END,
            _ => 0,
        };
        align_up(self.needs as usize + string, 8)
    }

    /// The parameter of this name.
    pub fn param(&self, name: &str) -> Option<&'static Param> {
        self.params.iter().find(|param| param.name == name)
    }
}

impl Param {
    /// The byte after it (for a string: after its first).
    pub const fn end(&self) -> usize {
        self.offset as usize + self.sort.size()
    }
}

impl Sort {
    /// Bytes, and at the same time the alignment; for a string those of its first byte.
    pub const fn size(self) -> usize {
        match self {
            Sort::P | Sort::A | Sort::W | Sort::D => 8,
            Sort::U => 4,
            Sort::B | Sort::S => 1,
        }
    }
}

const fn align_up(n: usize, to: usize) -> usize {
    n.div_ceil(to) * to
}

/// How a version stores Booleans.
#[derive(Clone, Copy)]
pub(super) enum Booleans {
    Bytes,
    Bits,
}

/// Gives each parameter its place.
pub(super) const fn place<const N: usize>(booleans: Booleans, declared: [(Sort, &'static str); N]) -> [Param; N] {
    let mut placed = [Param { sort: Sort::W, name: "", offset: 0, bit: None }; N];
    let mut end = HEADER;
    let mut next_bit = 0;
    let mut i = 0;
    while i < N {
        let (sort, name) = declared[i];
        let (offset, bit) = match (sort, booleans) {
            (Sort::B, Booleans::Bits) if next_bit > 0 => (end - 1, Some(next_bit)),
            (Sort::B, Booleans::Bits) => (end, Some(0)),
            _ => (align_up(end, sort.size()), None),
        };
        next_bit = match bit {
            Some(bit) => (bit + 1) % 8,
            None => 0,
        };
        placed[i] = Param { sort, name, offset: offset as u16, bit };
        end = placed[i].end();
        i += 1;
    }
    placed
}

/// Layouts by code, so that finding one is one load. Codes are dense and below 128 in both versions.
type ByCode = [Option<&'static Layout>; 128];

static BY_CODE_V1: ByCode = by_code(&V1_0_0);
static BY_CODE_V2: ByCode = by_code(&V2_0_0);

const fn by_code(layouts: &'static [Layout]) -> ByCode {
    let mut table: ByCode = [None; 128];
    let mut i = 0;
    while i < layouts.len() {
        table[layouts[i].code as usize] = Some(&layouts[i]);
        i += 1;
    }
    table
}

/// Declares the events of one version, a line each.
macro_rules! layouts {
    (
        $(#[$doc:meta])* $table:ident: $booleans:ident
        $($code:literal $name:ident $category:ident($($sort:ident $param:ident),* $(,)?);)+
    ) => {
        $(#[$doc])*
        pub(super) static $table: [Layout; [$($code),+].len()] = [$(Layout::new(
            $code,
            stringify!($name),
            $crate::Category::$category,
            &const {
                $crate::format::place(
                    layouts!(@$booleans),
                    [$(($crate::format::Sort::$sort, stringify!($param))),*],
                )
            },
        )),+];
    };
    (@bytes) => { $crate::format::Booleans::Bytes };
    (@bits) => { $crate::format::Booleans::Bits };
}
pub(super) use layouts;

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    /// Sort, name, first byte, bit.
    type Declared<'a> = (&'a str, &'a str, u16, Option<u8>);

    /// A row of the tables that were made from the MPS's own headers.
    fn row(line: &str) -> (u16, &str, &str, &str, Vec<Declared<'_>>) {
        let cells: Vec<&str> = line.split('\t').collect();
        let code = u16::from_str_radix(cells[0].trim_start_matches("0x"), 16).unwrap();
        let params = cells[5].split_whitespace().map(|param| {
            let (sort, rest) = param.split_once(':').unwrap();
            let (name, place) = rest.split_once('@').unwrap();
            let (offset, bit) = place.split_once('.').map_or((place, None), |(o, b)| (o, Some(b.parse().unwrap())));
            (sort, name, offset.parse().unwrap(), bit)
        });
        (code, cells[1], cells[2], cells[4], params.collect())
    }

    #[rstest]
    #[case(Version::V2, include_str!("../testdata/events-v2.0.0.tsv"), 92)]
    #[case(Version::V1, include_str!("../testdata/events-v1.0.0-seed.tsv"), 86)]
    fn the_layouts_are_those_of_the_mps(#[case] version: Version, #[case] tsv: &str, #[case] count: usize) {
        let rows: Vec<_> = tsv.lines().filter(|line| !line.starts_with('#')).map(row).collect();
        assert_eq!(rows.len(), count);
        assert_eq!(version.layouts().len(), count);
        for (layout, (code, name, category, size, params)) in version.layouts().iter().zip(rows) {
            assert_eq!((layout.code, layout.name), (code, name));
            assert_eq!(format!("{:?}", layout.category), category, "{name}");
            match size.parse::<usize>() {
                Ok(size) => assert_eq!(layout.size(0), size, "{name}"),
                Err(_) => {
                    assert_eq!(size, "align8(24+len+4)");
                    assert_eq!(layout.size(7), 40, "the specification's own example");
                }
            }
            let ours = layout.params.iter().map(|p| (format!("{:?}", p.sort), p.name, p.offset, p.bit));
            let theirs = params.into_iter().map(|(sort, name, offset, bit)| (sort.to_owned(), name, offset, bit));
            assert!(ours.eq(theirs), "{name}: {:?}", layout.params);
        }
    }

    #[rstest]
    fn an_event_is_found_by_its_code(#[values(Version::V1, Version::V2)] version: Version) {
        for code in 0..=u16::MAX {
            let searched = version.layouts().iter().find(|layout| layout.code == code);
            assert_eq!(version.layout(code), searched);
        }
        let longest = version.layouts().iter().map(|layout| layout.size(255)).max();
        assert_eq!(longest, Some(LARGEST_RECORD));
        assert!(version.layouts().is_sorted_by_key(|layout| layout.code));
    }
}
