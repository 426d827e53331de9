//! Decodes the payload of an event by the fields that the file declares for its type.
//! This works for events of any type. A program that knows the type uses a template of [`clr`](crate::clr) instead, which copies and
//! allocates nothing. Values borrow their text from the payload.
//!
//! `.format.hostile`: an array may claim more elements than there are bytes, and nested fixed arrays of objects without fields
//! have no bytes at all. Decoding ends with the payload. The number of values is limited in proportion to the payload's length, and to
//! [`MOST_VALUES`], so an event of a few bytes is cheap to decode. If a limit or the end is reached, the values decoded before are kept,
//! and the rest is returned as bytes.

use super::bytes::{Bytes, ItemError, decode_utf16};
use super::damage::DamageKind;
use super::metadata::{DEEPEST, FieldType, Type, Utc};

/// The limit for the number of values in one payload, including those in arrays and objects.
pub const MOST_VALUES: usize = 1 << 16;

/// The limit for values without bytes: objects without fields, nested as deep as a type may be.
const FREE_VALUES: usize = 256;
/// The limit for values per byte: a value with bytes, and the arrays and objects around it.
const VALUES_PER_BYTE: usize = DEEPEST as usize + 1;

/// The value of a field.
#[derive(Clone, Debug, PartialEq)]
pub enum Value<'a> {
    /// A Boolean.
    Bool(bool),
    /// A number that may be negative.
    Signed(i64),
    /// A number.
    Unsigned(u64),
    /// A 32-bit floating-point number.
    Single(f32),
    /// A 64-bit floating-point number.
    Double(f64),
    /// A calendar time.
    DateTime(Utc),
    /// A GUID.
    Guid([u8; 16]),
    /// Text, or an array of characters.
    Text(Text<'a>),
    /// Bytes without a known meaning.
    Bytes(&'a [u8]),
    /// The elements of an array.
    List(Vec<Value<'a>>),
    /// A struct.
    Object(Vec<(&'a str, Value<'a>)>),
}

/// A view of text in the payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Text<'a> {
    /// Little-endian UTF-16.
    Utf16(&'a [u8]),
    /// UTF-8.
    Utf8(&'a [u8]),
}

impl std::fmt::Display for Text<'_> {
    /// Invalid units are replaced.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Text::Utf16(bytes) => f.write_str(&decode_utf16(bytes)),
            Text::Utf8(bytes) => f.write_str(&String::from_utf8_lossy(bytes)),
        }
    }
}

/// A payload, decoded.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Decoded<'a> {
    /// The fields that could be decoded, in order.
    pub fields: Vec<(&'a str, Value<'a>)>,
    /// The bytes after the decoded fields: not empty if the payload is longer than its type declares, or if it is damaged or cut. Then
    /// they begin with the first field that can't be read.
    pub rest: &'a [u8],
    /// The first field that can't be read; those after it can't be read either.
    pub ends_in: Option<&'a str>,
}

/// Decodes a payload.
pub fn decode<'a>(fields: &'a [FieldType], payload: &'a [u8]) -> Decoded<'a> {
    let mut decoder = Decoder { payload, left: most_values(payload.len()) };
    let mut bytes = Bytes::new(payload);
    let mut decoded = Decoded::default();
    for field in fields {
        let before = bytes;
        match decoder.value(&field.kind, &mut bytes) {
            Ok(value) => decoded.fields.push((&field.name, value)),
            Err(_) => {
                bytes = before;
                decoded.ends_in = Some(&field.name);
                break;
            }
        }
    }
    decoded.rest = bytes.rest();
    decoded
}

fn most_values(bytes: usize) -> usize {
    bytes.saturating_mul(VALUES_PER_BYTE).saturating_add(FREE_VALUES).min(MOST_VALUES)
}

struct Decoder<'a> {
    payload: &'a [u8],
    /// The number of further values allowed.
    left: usize,
}

impl<'a> Decoder<'a> {
    fn value(&mut self, kind: &'a Type, bytes: &mut Bytes<'a>) -> Result<Value<'a>, ItemError> {
        self.left = self.left.checked_sub(1).ok_or(ItemError::Wrong(DamageKind::TooMany("values")))?;
        Ok(match kind {
            Type::Object(fields) => Value::Object(
                fields
                    .iter()
                    .map(|field| Ok((&*field.name, self.value(&field.kind, bytes)?)))
                    .collect::<Result<_, ItemError>>()?,
            ),
            Type::Bool32 => Value::Bool(bytes.word()? != 0),
            Type::Bool8 => Value::Bool(bytes.byte()? != 0),
            Type::Utf16Unit => Value::Text(Text::Utf16(bytes.take(2)?)),
            Type::Utf8Unit => Value::Text(Text::Utf8(bytes.take(1)?)),
            Type::Unsigned(size) => Value::Unsigned(number(bytes.take(usize::from(*size))?)),
            Type::Signed(size) => {
                let unused = 64 - 8 * u32::from(*size);
                Value::Signed((number(bytes.take(usize::from(*size))?) << unused) as i64 >> unused)
            }
            Type::Single => Value::Single(f32::from_le_bytes(bytes.array()?)),
            Type::Double => Value::Double(f64::from_le_bytes(bytes.array()?)),
            Type::Decimal => Value::Bytes(bytes.take(16)?),
            Type::DateTime => Value::DateTime(Utc::read(bytes)?),
            Type::Guid => Value::Guid(bytes.array()?),
            Type::Utf16 => Value::Text(Text::Utf16(bytes.utf16_units()?)),
            Type::VarUInt => Value::Unsigned(bytes.var64()?),
            Type::VarInt => Value::Signed(unfold(bytes.var64()?)),
            Type::Array(element) => {
                let count = bytes.short()?;
                self.elements(element, usize::from(count), bytes)?
            }
            Type::FixedArray(element, count) => self.elements(element, usize::from(*count), bytes)?,
            Type::RelLoc(element) => {
                let place = bytes.word()?;
                let here = self.payload.len() - bytes.len();
                self.elsewhere(element, here + (place & 0xFFFF) as usize, place >> 16)?
            }
            Type::DataLoc(element) => {
                let place = bytes.word()?;
                self.elsewhere(element, (place & 0xFFFF) as usize, place >> 16)?
            }
        })
    }

    fn elements(&mut self, kind: &'a Type, count: usize, bytes: &mut Bytes<'a>) -> Result<Value<'a>, ItemError> {
        match kind {
            Type::Utf16Unit => return Ok(Value::Text(Text::Utf16(bytes.take(2 * count)?))),
            Type::Utf8Unit => return Ok(Value::Text(Text::Utf8(bytes.take(count)?))),
            Type::Unsigned(1) => return Ok(Value::Bytes(bytes.take(count)?)),
            _ => {}
        }
        let mut elements = Vec::new();
        for _ in 0..count {
            elements.push(self.value(kind, bytes)?);
        }
        Ok(Value::List(elements))
    }

    /// Elements of fixed size at another place of the payload; `size` is their size in bytes.
    fn elsewhere(&mut self, kind: &'a Type, start: usize, size: u32) -> Result<Value<'a>, ItemError> {
        let mut bytes = Bytes::new(self.payload.get(start..).ok_or(ItemError::Short)?).part(size as usize)?;
        match kind {
            Type::Utf16Unit => return self.elements(kind, bytes.len() / 2, &mut bytes),
            Type::Utf8Unit | Type::Unsigned(1) => return self.elements(kind, bytes.len(), &mut bytes),
            _ => {}
        }
        let mut elements = Vec::new();
        while !bytes.is_empty() {
            let before = bytes.len();
            elements.push(self.value(kind, &mut bytes)?);
            if bytes.len() == before {
                break;
            }
        }
        Ok(Value::List(elements))
    }
}

fn number(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |number, &byte| number << 8 | u64::from(byte))
}

/// Decodes a signed number whose lowest bit is its sign.
pub(super) fn unfold(folded: u64) -> i64 {
    (folded >> 1) as i64 ^ -((folded & 1) as i64)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn field(name: &str, kind: Type) -> FieldType {
        FieldType { name: name.to_owned(), kind }
    }

    #[rstest]
    #[case(Type::Bool32, &[1, 0, 0, 0], Value::Bool(true))]
    #[case(Type::Bool8, &[0], Value::Bool(false))]
    #[case(Type::Signed(1), &[0xFE], Value::Signed(-2))]
    #[case(Type::Signed(2), &[0xFE, 0xFF], Value::Signed(-2))]
    #[case(Type::Signed(4), &[0xFE, 0xFF, 0xFF, 0xFF], Value::Signed(-2))]
    #[case(Type::Signed(8), &[0xFE, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF], Value::Signed(-2))]
    #[case(Type::Unsigned(2), &[0xFE, 0xFF], Value::Unsigned(0xFFFE))]
    #[case(Type::Unsigned(8), &[1, 0, 0, 0, 0, 0, 0, 0x80], Value::Unsigned(1 << 63 | 1))]
    #[case(Type::Single, &[0, 0, 0xC0, 0x3F], Value::Single(1.5))]
    #[case(Type::Double, &[0, 0, 0, 0, 0, 0, 0xF8, 0x3F], Value::Double(1.5))]
    #[case(Type::VarUInt, &[0xAC, 0x02], Value::Unsigned(300))]
    #[case(Type::VarInt, &[0x03], Value::Signed(-2))]
    #[case(Type::Utf16, b"h\0i\0\0\0", Value::Text(Text::Utf16(b"h\0i\0")))]
    #[case(Type::Array(Box::new(Type::Utf16Unit)), b"\x02\0h\0i\0", Value::Text(Text::Utf16(b"h\0i\0")))]
    #[case(Type::FixedArray(Box::new(Type::Utf8Unit), 2), b"hi", Value::Text(Text::Utf8(b"hi")))]
    #[case(Type::Array(Box::new(Type::Unsigned(1))), &[2, 0, 7, 8], Value::Bytes(&[7, 8]))]
    #[case(Type::Array(Box::new(Type::Signed(2))), &[2, 0, 7, 0, 0xFF, 0xFF], Value::List(vec![Value::Signed(7), Value::Signed(-1)]))]
    #[case(Type::DataLoc(Box::new(Type::Utf8Unit)), b"\x04\0\x02\0hi", Value::Text(Text::Utf8(b"hi")))]
    #[case(Type::RelLoc(Box::new(Type::Unsigned(2))), b"\x01\0\x02\0-\x07\0", Value::List(vec![Value::Unsigned(7)]))]
    #[case(
        Type::Object(vec![field("a", Type::Unsigned(1)), field("b", Type::Bool8)]),
        &[7, 1],
        Value::Object(vec![("a", Value::Unsigned(7)), ("b", Value::Bool(true))])
    )]
    fn a_value_is_decoded(#[case] kind: Type, #[case] payload: &[u8], #[case] expected: Value<'_>) {
        let fields = [field("it", kind)];
        let decoded = decode(&fields, payload);
        assert_eq!(format!("{:?}", decoded.fields), format!("{:?}", [("it", expected)]));
        // A truncated payload gives no values made of missing bytes.
        for length in 0..payload.len() {
            let cut = decode(&fields, &payload[..length]);
            assert_eq!((cut.fields.len(), cut.ends_in, cut.rest), (0, Some("it"), &payload[..length]));
        }
    }

    #[test]
    fn what_follows_the_fields_is_there_as_bytes() {
        let fields = [field("a", Type::Unsigned(2))];
        let decoded = decode(&fields, &[1, 0, 9, 9]);
        assert_eq!((decoded.rest, decoded.ends_in), (&[9, 9][..], None));
    }

    #[test]
    fn objects_without_fields_in_arrays_end() {
        let nothing = Type::FixedArray(Box::new(Type::Object(Vec::new())), u16::MAX);
        let fields = [field("a", Type::FixedArray(Box::new(nothing), u16::MAX))];
        assert_eq!(decode(&fields, &[]).ends_in, Some("a"));
    }

    #[test]
    fn an_event_of_a_few_bytes_has_a_few_values() {
        let nothing = Type::FixedArray(Box::new(Type::Object(Vec::new())), 60_000);
        let fields = [field("nothing", nothing), field("a", Type::Unsigned(1))];
        assert_eq!(decode(&fields, &[7]).ends_in, Some("nothing"));
        // The deepest nesting allowed, with one element in each array.
        let deep = (1..DEEPEST).fold(Type::Unsigned(2), |of, _| Type::FixedArray(Box::new(of), 1));
        let many = [field("many", Type::FixedArray(Box::new(deep), 1000))];
        assert_eq!(decode(&many, &[7; 2000]).ends_in, None);
    }
}
