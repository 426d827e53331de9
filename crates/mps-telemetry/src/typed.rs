//! Records with named fields: a struct for each event, generated from the table of its version.
//!
//! [`Layout`] describes a record to a program that handles all events alike. A program that knows what it writes or looks for uses
//! the structs of [`v2`](crate::v2) and [`v1`](crate::v1) instead. Both come from one line of a table:
//!
//! ```text
//! 0x38 SegAlloc Seg(P arena, P seg, A base, W size [Bytes], P pool);
//!  │      │      │   │  └ name                  └ unit, where it is known
//!  code   name   │   └ sort        a type in place of the unit, `U rank: Rank`: the numbers have names
//!                category
//! ```
//!
//! The places of the parameters are constants: encoding a record of known kind is a store for each parameter, and two for the header.
//! Reading one is a check of its code and size, and a load for each parameter that is used.

use super::layout::{HEADER, LARGEST_RECORD, Layout, Param, Sort};
use super::record::Record;
use super::values::{Rank, Res, TraceStartWhy};

/// The longest string of a record, in bytes.
pub const LONGEST_STRING: usize = 255;

/// Seals [`TypedRecord`]: the trait is not exported.
pub trait Declared {}

/// An event of a known kind: its parameters by name. Only the structs of this crate implement it.
///
/// ```
/// use mps_telemetry::{TypedRecord, v2};
///
/// let alloc = v2::SegAlloc { arena: 0x10, seg: 0x20, base: 0x4000, size: 8192, pool: 0x30 };
/// assert_eq!((v2::SegAlloc::CODE, v2::SegAlloc::LAYOUT.name), (0x38, "SegAlloc"));
/// assert_eq!(alloc.words(), [0x10, 0x20, 0x4000, 8192, 0x30]);
/// ```
pub trait TypedRecord<'a>: Copy + Declared {
    /// The declaration of the event.
    const LAYOUT: Layout;
    /// The code of the event.
    const CODE: u16 = Self::LAYOUT.code;
    /// An array of the words of the parameters.
    type Words: AsRef<[u64]>;

    /// Returns the parameters as they are in the record after its header: words with padding of 0, without a string.
    fn words(&self) -> Self::Words;

    /// Returns the string that ends the record, if the event has one.
    fn text(&self) -> Option<&'a [u8]>;

    /// Reads the parameters of a record of the version that declares the event. Returns `None` if the record is of another event, or
    /// too short.
    fn decode(record: &Record<'a>) -> Option<Self>;

    /// Writes the record into the buffer and returns its bytes. A string ends at its first NUL, or after [`LONGEST_STRING`] bytes.
    #[inline]
    fn encode<'b>(&self, clock: u64, buffer: &'b mut [u8; LARGEST_RECORD]) -> &'b [u8] {
        buffer.fill(0);
        let (words, text) = (self.words(), fitting(self.text().unwrap_or_default()));
        let (size, mut end) = (Self::LAYOUT.size(text.len()), HEADER);
        for word in words.as_ref() {
            buffer[end..end + 8].copy_from_slice(&word.to_le_bytes());
            end += 8;
        }
        buffer[end..end + text.len()].copy_from_slice(text);
        buffer[..2].copy_from_slice(&Self::CODE.to_le_bytes());
        buffer[2..4].copy_from_slice(&(size as u16).to_le_bytes());
        buffer[8..HEADER].copy_from_slice(&clock.to_le_bytes());
        &buffer[..size]
    }
}

/// Returns the part of a string that fits a record: up to the first NUL, and at most [`LONGEST_STRING`] bytes.
pub(super) fn fitting(text: &[u8]) -> &[u8] {
    let end = text.iter().position(|byte| *byte == 0).unwrap_or(text.len());
    &text[..end.min(LONGEST_STRING)]
}

/// The type of a parameter.
pub(super) trait Field<'a>: Sized {
    /// Stores the parameter in its place in the words.
    fn store(self, words: &mut [u64], at: Param);
    /// Loads the parameter from its place in the record.
    fn load(record: &Record<'a>, at: Param) -> Option<Self>;
    /// Returns the parameter if it is a string.
    #[inline(always)]
    fn text(self) -> Option<&'a [u8]> {
        None
    }
}

impl<'a> Field<'a> for u64 {
    #[inline(always)]
    fn store(self, words: &mut [u64], at: Param) {
        let bits = 8 * at.sort.size();
        let value = self & u64::MAX >> (64 - bits);
        let bit = usize::from(at.bit.unwrap_or(0));
        words[(usize::from(at.offset) - HEADER) / 8] |= value << (8 * (usize::from(at.offset) % 8) + bit);
    }

    #[inline(always)]
    fn load(record: &Record<'a>, at: Param) -> Option<u64> {
        match at.sort {
            Sort::U => record.unsigned(at.offset.into()).map(u64::from),
            Sort::B => record.boolean(&at).map(u64::from),
            _ => record.word(at.offset.into()),
        }
    }
}

impl<'a> Field<'a> for &'a [u8] {
    /// Stores nothing: a string follows the words.
    #[inline(always)]
    fn store(self, _: &mut [u64], _: Param) {}

    #[inline(always)]
    fn load(record: &Record<'a>, at: Param) -> Option<&'a [u8]> {
        record.string(at.offset.into())
    }

    #[inline(always)]
    fn text(self) -> Option<&'a [u8]> {
        Some(self)
    }
}

/// Types that are stored as a number.
macro_rules! as_number {
    ($($type:ty: $into:expr, $from:expr;)+) => {$(
        impl<'a> Field<'a> for $type {
            #[inline(always)]
            fn store(self, words: &mut [u64], at: Param) {
                let into: fn($type) -> u64 = $into;
                into(self).store(words, at);
            }

            #[inline(always)]
            fn load(record: &Record<'a>, at: Param) -> Option<$type> {
                <u64 as Field<'a>>::load(record, at).map($from)
            }
        }
    )+};
}

as_number! {
    u32: u64::from, |number| number as u32;
    bool: u64::from, |number| number != 0;
    f64: f64::to_bits, f64::from_bits;
    Rank: Rank::number, Rank::from_number;
    Res: Res::number, Res::from_number;
    TraceStartWhy: TraceStartWhy::number, TraceStartWhy::from_number;
}

/// Declares the events of one version, one line each: the table of their layouts, a struct for each, and an enum of all.
macro_rules! events {
    (
        $(#[$doc:meta])* $table:ident $version:literal $booleans:ident
        $(
            $code:literal $name:ident $(<$life:lifetime>)? $category:ident(
                $($sort:ident $param:ident $([$unit:ident])? $(: $type:ident)?),* $(,)?
            );
        )+
    ) => {
        $(#[$doc])*
        pub(super) static $table: [Layout; [$($code),+].len()] = [$(<$name as TypedRecord<'_>>::LAYOUT),+];

        $(
            #[doc = concat!(
                "Event ", stringify!($code), " of version ", $version, ", category ", stringify!($category), ": `",
                stringify!($name), "(", stringify!($($sort $param),*), ")`."
            )]
            #[derive(Clone, Copy, Debug, Default, PartialEq)]
            #[allow(non_camel_case_types, non_snake_case, reason = "the names in the MPS")]
            pub struct $name $(<$life>)? {$(
                #[doc = events!(@doc $sort $($unit)?)]
                pub $param: events!(@type $sort $($type)?),
            )*}

            impl $(<$life>)? $crate::typed::Declared for $name $(<$life>)? {}

            #[allow(unused_mut, unused_variables, reason = "an event may have no parameters")]
            impl<'a> TypedRecord<'a> for $name $(<$life>)? {
                const LAYOUT: Layout = Layout::new(
                    $code,
                    stringify!($name),
                    $crate::Category::$category,
                    &const {
                        $crate::layout::place(
                            events!(@$booleans),
                            [$((
                                $crate::layout::Sort::$sort,
                                $crate::layout::unraw(stringify!($param)),
                                events!(@unit $($unit)?),
                            )),*],
                        )
                    },
                );

                type Words = [u64; <$name as TypedRecord<'_>>::LAYOUT.words()];

                #[inline(always)]
                fn words(&self) -> Self::Words {
                    let mut words = [0; <$name as TypedRecord<'_>>::LAYOUT.words()];
                    $(self.$param.store(
                        &mut words,
                        const { *<$name as TypedRecord<'_>>::LAYOUT.find($crate::layout::unraw(stringify!($param))) },
                    );)*
                    words
                }

                #[inline(always)]
                fn text(&self) -> Option<&'a [u8]> {
                    None$(.or(Field::text(self.$param)))*
                }

                #[inline]
                fn decode(record: &Record<'a>) -> Option<Self> {
                    if record.code() != Self::CODE || !record.has_all(&Self::LAYOUT) {
                        return None;
                    }
                    Some($name {$(
                        $param: Field::load(
                            record,
                            const { *<$name as TypedRecord<'_>>::LAYOUT.find($crate::layout::unraw(stringify!($param))) },
                        )?,
                    )*})
                }
            }
        )+

        #[doc = concat!("Any event of version ", $version, ", with its parameters.")]
        #[derive(Clone, Copy, Debug, PartialEq)]
        #[allow(non_camel_case_types, reason = "the names in the MPS")]
        pub enum Event<'a> {$(
            #[doc = concat!("Event ", stringify!($code), ", category ", stringify!($category), ".")]
            $name($name $(<$life>)?),
        )+}

        impl<'a> Event<'a> {
            /// Reads a record of this version. Returns `None` if its code is unknown, or if it lacks parameters.
            #[inline]
            pub fn decode(record: &Record<'a>) -> Option<Event<'a>> {
                match record.code() {
                    $($code => $name::decode(record).map(Event::$name),)+
                    _ => None,
                }
            }

            /// Writes the record into the buffer and returns its bytes, as [`TypedRecord::encode`] does.
            pub fn encode<'b>(&self, clock: u64, buffer: &'b mut [u8; $crate::layout::LARGEST_RECORD]) -> &'b [u8] {
                match self {
                    $(Event::$name(event) => event.encode(clock, buffer),)+
                }
            }
        }
    };
    (@bytes) => { $crate::layout::Booleans::Bytes };
    (@bits) => { $crate::layout::Booleans::Bits };
    (@unit) => { None };
    (@unit $unit:ident) => { Some($crate::layout::Unit::$unit) };
    (@type $sort:ident $type:ident) => { $crate::values::$type };
    (@type P) => { u64 };
    (@type A) => { u64 };
    (@type W) => { u64 };
    (@type U) => { u32 };
    (@type D) => { f64 };
    (@type B) => { bool };
    (@type S) => { &'a [u8] };
    (@doc P) => { "The address of a structure of the memory manager." };
    (@doc A) => { "An address of the client." };
    (@doc W) => { "A word." };
    (@doc U) => { "A number of 32 bits." };
    (@doc D) => { "A double." };
    (@doc B) => { "A Boolean." };
    (@doc S) => { "A string, without a NUL." };
    (@doc $sort:ident Bytes) => { "A size in bytes." };
    (@doc $sort:ident Count) => { "A number of things." };
    (@doc $sort:ident Set) => { "A set of zones or of traces: a bit for each." };
    (@doc $sort:ident Fraction) => { "A fraction, from 0 to 1." };
    (@doc $sort:ident Seconds) => { "A time in seconds." };
    (@doc $sort:ident Clocks) => { "Processor time, or its unit: see `EventInit::clocksPerSec`." };
    (@doc $sort:ident Bits) => { "A number of bits." };
}
pub(super) use events;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::encode::{Encoder, Value};
    use crate::{Version, v1, v2};

    /// The encoder that follows a layout computes the same bytes independently.
    #[test]
    fn a_typed_record_has_the_bytes_that_its_layout_gives_it() {
        for layout in Version::V2.layouts() {
            let value = |(index, param): (usize, &Param)| match param.sort {
                Sort::S => Value::Text(b"text"),
                Sort::B => Value::Word(1),
                _ => Value::Word(0x8182_8384_8586_8700 + index as u64),
            };
            let values: Vec<_> = layout.params.iter().enumerate().map(value).collect();
            let mut encoder = Encoder::new(Vec::new());
            encoder.record(layout, 0x1234, &values).unwrap();
            let bytes = encoder.end().unwrap();
            let event = v2::Event::decode(&Record::kept(&bytes)).unwrap();
            assert_eq!(event.encode(0x1234, &mut [0xff; LARGEST_RECORD]), bytes, "{event:?}");
            if layout.needs as usize > HEADER {
                let short = Record::kept(&bytes[..layout.needs as usize - 1]);
                assert_eq!(v2::Event::decode(&short), None, "{}", layout.name);
            }
        }
    }

    #[test]
    fn each_parameter_of_an_old_record_is_read_from_its_place_and_written_to_it() {
        for layout in Version::V1.layouts() {
            // Some of the neighbouring Booleans, which are bits, are true.
            let mut bytes = [0xA5; LARGEST_RECORD];
            bytes[..2].copy_from_slice(&layout.code.to_le_bytes());
            let read = Record::kept(&bytes[..layout.size(255)]);
            let event = v1::Event::decode(&read).unwrap();
            let mut written = [0; LARGEST_RECORD];
            let written = Record::kept(event.encode(read.clock(), &mut written));
            assert_eq!((written.code(), written.clock()), (read.code(), read.clock()));
            for param in layout.params {
                let at = usize::from(param.offset);
                match param.sort {
                    Sort::S => assert_eq!(written.string(at).unwrap()[..], read.string(at).unwrap()[..LONGEST_STRING]),
                    Sort::B => assert_eq!(written.boolean(param), read.boolean(param), "{event:?}"),
                    Sort::U => assert_eq!(written.unsigned(at), read.unsigned(at), "{event:?}"),
                    _ => assert_eq!(written.word(at), read.word(at), "{event:?}"),
                }
            }
        }
    }

    #[test]
    fn a_string_ends_at_its_first_nul_or_where_a_record_is_full() {
        let mut buffer = [0; LARGEST_RECORD];
        for (string, length) in [(&b"a\0b"[..], 1), (b"", 0), (&[b'x'; 300], LONGEST_STRING)] {
            let bytes = v2::Intern { stringId: 1, string }.encode(0, &mut buffer);
            assert_eq!(bytes.len(), v2::Intern::LAYOUT.size(length));
            assert_eq!(v2::Intern::decode(&Record::kept(bytes)).unwrap().string, &string[..length]);
        }
    }

    #[test]
    fn the_first_record_describes_the_table() {
        let v2::EventInit { maxCode, maxNameLen, .. } = v2::EventInit::new(1_000_000);
        assert_eq!(u16::try_from(maxCode).unwrap(), Version::V2.max_code());
        let longest = Version::V2.layouts().iter().map(|layout| layout.name.len()).max();
        assert_eq!((longest, maxNameLen), (Some(19), 19));
    }
}
