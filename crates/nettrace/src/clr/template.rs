//! The template of an event, from which any of its payloads can be listed. Templates are generated from the declarations: see
//! `declare`.

use std::ops::RangeInclusive;

use super::labels::Labels;
use super::{Payload, Provider, Z16};
use crate::metadata::Type;

/// The types of fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A byte.
    U8,
    /// Two bytes.
    U16,
    /// Four bytes.
    U32,
    /// Four bytes with a sign.
    I32,
    /// Eight bytes.
    U64,
    /// Eight bytes with a sign.
    I64,
    /// A pointer-sized number.
    Word,
    /// Sixteen bytes.
    Guid,
    /// UTF-16 text with a NUL.
    Z16,
    /// Bytes; the number before them is their length.
    Bytes,
    /// Numbers of eight bytes; the number before them is their count.
    U64s,
    /// The padding that C inserts before a pointer that follows an odd number of four-byte fields.
    Pad,
}

impl Kind {
    /// The number of bytes that a field takes in addition to `words`; 0 for a variable length.
    pub(super) const fn bytes(self) -> usize {
        match self {
            Kind::U8 => 1,
            Kind::U16 => 2,
            Kind::U32 | Kind::I32 => 4,
            Kind::U64 | Kind::I64 => 8,
            Kind::Guid => 16,
            Kind::Word | Kind::Z16 | Kind::Bytes | Kind::U64s | Kind::Pad => 0,
        }
    }

    /// The number of pointers that a field takes.
    pub(super) const fn words(self) -> usize {
        matches!(self, Kind::Word) as usize
    }

    /// Its type in metadata, if it has one. Pointers have eight bytes there.
    pub fn declared(self) -> Option<Type> {
        Some(match self {
            Kind::U8 => Type::Unsigned(1),
            Kind::U16 => Type::Unsigned(2),
            Kind::U32 => Type::Unsigned(4),
            Kind::I32 => Type::Signed(4),
            Kind::U64 | Kind::Word => Type::Unsigned(8),
            Kind::I64 => Type::Signed(8),
            Kind::Guid => Type::Guid,
            Kind::Z16 => Type::Utf16,
            Kind::Bytes | Kind::U64s | Kind::Pad => return None,
        })
    }

    /// The code of this type in metadata; 0 if it has none.
    pub fn code(self) -> u8 {
        self.declared().and_then(|of| of.code()).unwrap_or(0)
    }
}

/// The units of fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// A number of bytes.
    Bytes,
    /// A count.
    Count,
    /// An address, or an identifier that is one.
    Address,
    /// The number of a collection, a heap, or a thread.
    Ordinal,
    /// Microseconds.
    Microseconds,
    /// Percent.
    Percent,
}

/// A field of an event.
#[derive(Debug)]
pub struct Field {
    /// Its name in the runtime's manifest.
    pub name: &'static str,
    /// The version of the event in which the field was added.
    pub since: u32,
    /// Its type.
    pub kind: Kind,
    /// Its name in metadata, which may differ from `name`.
    pub file_name: &'static str,
    /// Its type in metadata, which may differ from `kind`.
    pub file_kind: Kind,
    /// The unit of its values, if it has one.
    pub unit: Option<Unit>,
    /// A line of documentation; may be empty.
    pub doc: &'static str,
    /// The names of its values, if its values have names.
    pub(super) labels: Option<&'static Labels>,
}

impl Field {
    /// The name of this value, if the field's values have names: `AllocSmall`, or `Compaction, Promotion`.
    pub fn label(&self, value: &FieldValue<'_>) -> Option<String> {
        let number = match *value {
            FieldValue::Unsigned(number) => u32::try_from(number).ok()?,
            _ => return None,
        };
        Some(self.labels?.of(number as i32))
    }
}

/// The value of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldValue<'a> {
    /// A number.
    Unsigned(u64),
    /// A number that may be negative.
    Signed(i64),
    /// Text.
    Text(Z16<'a>),
    /// An identifier of sixteen bytes.
    Guid([u8; 16]),
    /// Bytes.
    Bytes(&'a [u8]),
    /// Numbers of eight bytes each, little-endian.
    U64s(&'a [u8]),
}

/// The declaration of an event, as data.
#[derive(Debug)]
pub struct Template {
    /// The providers that fire it.
    pub providers: &'static [Provider],
    /// Its numbers; more than one if several events have the same fields.
    pub events: &'static [u32],
    /// The versions of the event that the template can read.
    pub versions: RangeInclusive<u32>,
    /// Its name, as TraceEvent lists it: `GC/HeapStats`.
    pub name: &'static str,
    /// Its fields, in order.
    pub fields: &'static [Field],
    /// The fields of its rows, which follow the other fields.
    pub rows: &'static [Field],
}

impl Template {
    /// Passes each field that the payload has, in order, with the index of its row for fields of rows.
    ///
    /// Stops at the end of the payload, or at the first field that was added after the event's version. Returns the number of bytes
    /// decoded.
    pub fn decode<'a>(
        &self,
        version: u32,
        payload: Payload<'a>,
        mut each: impl FnMut(Option<u32>, &'static Field, FieldValue<'a>),
    ) -> usize {
        let mut cursor = Cursor { payload, at: 0, number: 0 };
        let mut count = 0;
        for field in self.fields {
            if field.since > version {
                return cursor.at;
            }
            if field.kind == Kind::Pad {
                cursor.pad();
                continue;
            }
            let Some(value) = cursor.next(field.kind) else { return cursor.at };
            if field.name == "Count" {
                count = cursor.number;
            }
            each(None, field, value);
        }
        for row in 0..count {
            let before = cursor.at;
            for field in self.rows {
                if field.kind == Kind::Pad {
                    cursor.pad();
                    continue;
                }
                let Some(value) = cursor.next(field.kind) else { return cursor.at };
                each(Some(row), field, value);
            }
            if cursor.at == before {
                break;
            }
        }
        cursor.at
    }
}

/// A position in a payload.
struct Cursor<'a> {
    payload: Payload<'a>,
    at: usize,
    /// The last number read, which is the length of the variable field that follows it.
    number: u32,
}

impl<'a> Cursor<'a> {
    fn next(&mut self, kind: Kind) -> Option<FieldValue<'a>> {
        let Cursor { payload, at, number } = *self;
        let value = match kind {
            Kind::U8 => FieldValue::Unsigned(payload.u8(at)?.into()),
            Kind::U16 => FieldValue::Unsigned(payload.u16(at)?.into()),
            Kind::U32 => FieldValue::Unsigned(payload.u32(at)?.into()),
            Kind::I32 => FieldValue::Signed(payload.i32(at)?.into()),
            Kind::U64 => FieldValue::Unsigned(payload.u64(at)?),
            Kind::I64 => FieldValue::Signed(payload.i64(at)?),
            Kind::Word => FieldValue::Unsigned(payload.word(at)?),
            Kind::Guid => FieldValue::Guid(payload.guid(at)?),
            Kind::Z16 if at < payload.bytes().len() => FieldValue::Text(payload.z16(at)?),
            Kind::Bytes => FieldValue::Bytes(payload.slice(at, number as usize)?),
            Kind::U64s => FieldValue::U64s(payload.slice(at, (number as usize).checked_mul(8)?)?),
            Kind::Z16 | Kind::Pad => return None,
        };
        self.at += match value {
            FieldValue::Text(text) => text.extent(),
            FieldValue::Bytes(bytes) | FieldValue::U64s(bytes) => bytes.len(),
            _ => kind.bytes() + kind.words() * payload.pointer(),
        };
        if let FieldValue::Unsigned(value) = value {
            self.number = u32::try_from(value).unwrap_or(u32::MAX);
        }
        Some(value)
    }

    fn pad(&mut self) {
        self.at += self.payload.pointer() - 4;
    }
}
