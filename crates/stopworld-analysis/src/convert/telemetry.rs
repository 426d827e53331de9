//! Records of a telemetry stream as events that describe themselves, and back.
//!
//! In a .nettrace file a record is an event of the provider `MPS-Telemetry`. Its number is the record's code, its version the major
//! event version (1 or 2), its keyword the category's bit, and its fields the parameters. The event of a known record contains everything
//! in the record: converting it back yields the same record.

use std::collections::BTreeMap;

use super::LeftOut;
use mps_telemetry::Category;
use mps_telemetry::encode::Value;
use mps_telemetry::reader::Record;
use mps_telemetry::{Layout, Sort, Version, v1, v2};
use nettrace::{EventType, FieldType, Type};

/// The provider's name.
pub(crate) const PROVIDER: &str = "MPS-Telemetry";

pub(crate) const UNKNOWN_CODE: &str = "unknown event code: its parameters are not known";
pub(crate) const LACKS: &str = "the record lacks parameters";

/// Ticks per second of the processor time in the `EventClockSync` records that are written here.
pub(crate) const CLOCKS_PER_SECOND: u64 = 1_000_000;

/// Returns the event version that represents a stream version.
pub(crate) fn number_of(version: Version) -> u32 {
    version.numbers()[0]
}

/// Returns the record layout of an event type of this provider.
pub(crate) fn layout_of(kind: &EventType) -> Option<&'static Layout> {
    let version = Version::ALL.into_iter().find(|version| number_of(*version) == kind.version)?;
    version.layout(u16::try_from(kind.event).ok()?)
}

/// Returns the event type that describes a kind of record.
pub(crate) fn described(layout: &Layout, version: Version) -> EventType {
    let field = |param: &mps_telemetry::Param| FieldType {
        name: param.name.to_owned(),
        kind: match param.sort {
            Sort::P | Sort::A | Sort::W => Type::Unsigned(8),
            Sort::U => Type::Unsigned(4),
            Sort::D => Type::Double,
            Sort::B => Type::Unsigned(1),
            Sort::S => Type::Utf16,
        },
    };
    const INFORMATIONAL: u32 = 4;
    const VERBOSE: u32 = 5;
    EventType {
        provider: PROVIDER.to_owned(),
        event: layout.code.into(),
        name: layout.name.to_owned(),
        version: number_of(version),
        level: if matches!(layout.category, Category::Ref | Category::Object) { VERBOSE } else { INFORMATIONAL },
        keywords: 1 << layout.category as u64,
        fields: layout.params.iter().map(field).collect(),
        ..EventType::default()
    }
}

/// Encodes a record's parameters as a payload. Returns false if some are missing.
pub(crate) fn payload(to: &mut Vec<u8>, layout: &Layout, record: &Record<'_>) -> bool {
    to.clear();
    fill(to, layout, record).is_some()
}

fn fill(to: &mut Vec<u8>, layout: &Layout, record: &Record<'_>) -> Option<()> {
    for param in layout.params {
        let at = usize::from(param.offset);
        match param.sort {
            Sort::P | Sort::A | Sort::W | Sort::D => to.extend(record.word(at)?.to_le_bytes()),
            Sort::U => to.extend(record.unsigned(at)?.to_le_bytes()),
            Sort::B => to.push(record.boolean(param)?),
            Sort::S => to.extend(units(record.string(at)?).into_iter().chain([0]).flat_map(u16::to_le_bytes)),
        }
    }
    Some(())
}

/// Converts a string to UTF-16. A byte that is not valid UTF-8 becomes a private-use character for that byte. The bytes of such a
/// character in the input are encoded in the same way, so that the conversion is reversible.
fn units(text: &[u8]) -> Vec<u16> {
    let mut units = Vec::new();
    for chunk in text.utf8_chunks() {
        for letter in chunk.valid().chars() {
            let (mut bytes, mut pair) = ([0; 4], [0; 2]);
            if is_stray(letter) {
                units.extend(letter.encode_utf8(&mut bytes).bytes().map(stray));
            } else {
                units.extend_from_slice(letter.encode_utf16(&mut pair));
            }
        }
        units.extend(chunk.invalid().iter().copied().map(stray));
    }
    units
}

/// The private-use characters for the bytes 0x80 to 0xFF begin at U+F780.
const STRAY: u16 = 0xF700;

fn stray(byte: u8) -> u16 {
    STRAY + u16::from(byte)
}

fn is_stray(letter: char) -> bool {
    (u32::from(stray(0x80))..=u32::from(stray(0xFF))).contains(&u32::from(letter))
}

/// Converts such a UTF-16 string back to bytes.
fn bytes(units: &[u8]) -> Vec<u8> {
    let units = units.as_chunks::<2>().0.iter().map(|unit| u16::from_le_bytes(*unit));
    let mut bytes = Vec::new();
    for letter in char::decode_utf16(units) {
        match letter {
            Ok(letter) if is_stray(letter) => bytes.push((u32::from(letter) - u32::from(STRAY)) as u8),
            letter => {
                let mut buffer = [0; 4];
                let letter = letter.unwrap_or(char::REPLACEMENT_CHARACTER);
                bytes.extend_from_slice(letter.encode_utf8(&mut buffer).as_bytes());
            }
        }
    }
    bytes
}

/// Decodes the parameters in a payload; `None` if it is too short.
pub(crate) fn values<'a>(layout: &Layout, mut payload: &'a [u8], string: &'a mut Vec<u8>) -> Option<Vec<Value<'a>>> {
    let mut values = Vec::with_capacity(layout.params.len());
    for param in layout.params {
        match param.sort {
            Sort::S => {
                let length = payload.as_chunks::<2>().0.iter().position(|unit| *unit == [0, 0])?;
                *string = bytes(&payload[..2 * length]);
                values.push(Value::Text(string));
                // A string is always the last parameter.
                break;
            }
            sort => {
                let (taken, rest) = payload.split_at_checked(sort.size())?;
                let mut word = [0; 8];
                word[..taken.len()].copy_from_slice(taken);
                values.push(Value::Word(u64::from_le_bytes(word)));
                payload = rest;
            }
        }
    }
    Some(values)
}

/// Maps records of version 1.0.0 to records of 2.0.0 by name, and their parameters by name.
#[derive(Debug)]
pub(crate) struct Newer {
    places: BTreeMap<u16, Option<Counterpart>>,
}

/// The layout of the new record, and for each of its parameters the index of the old one.
type Counterpart = (&'static Layout, Vec<Option<usize>>);

impl Newer {
    pub(crate) fn new() -> Newer {
        Newer { places: BTreeMap::new() }
    }

    /// Returns the counterpart of a record of 1.0.0 in 2.0.0, if there is one.
    pub(crate) fn of(&mut self, old: &'static Layout) -> Option<&Counterpart> {
        let entry = self.places.entry(old.code).or_insert_with(|| {
            let new = Version::V2.layouts().iter().find(|new| new.name == old.name)?;
            let place = |param: &mps_telemetry::Param| {
                old.params.iter().position(|known| {
                    let is_string = |sort| sort == Sort::S;
                    known.name == param.name && is_string(known.sort) == is_string(param.sort)
                })
            };
            Some((new, new.params.iter().map(place).collect()))
        });
        entry.as_ref()
    }
}

/// Returns the event of a record as an event of version 2.0.0. For a record of version 1.0.0 this works only for the events that a
/// conversion does not just copy. Returns `None` if the record lacks parameters.
pub(crate) fn event<'a>(version: Version, record: &Record<'a>) -> Option<v2::Event<'a>> {
    use v1::Event;
    if version == Version::V2 {
        return v2::Event::decode(record);
    }
    Some(match Event::decode(record)? {
        Event::ArenaAlloc(v1::ArenaAlloc { arena, baseTract, base, size, pool }) => {
            v2::Event::ArenaAlloc(v2::ArenaAlloc { arena, baseTract, base, size, pool })
        }
        // The pool is 0, because the old record does not contain the pool.
        Event::ArenaFree(v1::ArenaFree { arena, base, size }) => {
            v2::Event::ArenaFree(v2::ArenaFree { arena, base, size, pool: 0 })
        }
        Event::Intern(v1::Intern { stringId, string }) => v2::Event::Intern(v2::Intern { stringId, string }),
        Event::VMMap(v1::VMMap { vm, base, limit }) => v2::Event::VMMap(v2::VMMap { vm, base, limit }),
        Event::VMUnmap(v1::VMUnmap { vm, base, limit }) => v2::Event::VMUnmap(v2::VMUnmap { vm, base, limit }),
        _ => return None,
    })
}

/// Returns the values of a record, in the order of its parameters; `None` if some are missing.
pub(crate) fn values_of<'a>(layout: &Layout, record: &Record<'a>) -> Option<Vec<Value<'a>>> {
    let value = |param: &mps_telemetry::Param| {
        let at = usize::from(param.offset);
        Some(match param.sort {
            Sort::S => Value::Text(record.string(at)?),
            Sort::U => Value::Word(record.unsigned(at)?.into()),
            Sort::B => Value::Word(record.boolean(param)?.into()),
            _ => Value::Word(record.word(at)?),
        })
    };
    layout.params.iter().map(value).collect()
}

/// Counts a record that cannot be carried over.
pub(crate) fn leave_out(left_out: &mut LeftOut, record: &Record<'_>, layout: Option<&Layout>, why: &'static str) {
    match layout {
        Some(layout) => left_out.add(layout.name, why, 1),
        None => left_out.add(&format!("code {:#06X}", record.code()), why, 1),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use mps_telemetry::encode::Encoder;
    use mps_telemetry::reader::Reader;

    proptest! {
        /// Every known record of either version is unchanged after its conversion to an event and back, with any string.
        #[test]
        fn records_survive_the_conversion_to_events_and_back(
            newer in any::<bool>(),
            place in any::<prop::sample::Index>(),
            words in prop::collection::vec(any::<u64>(), 14),
            text in prop_oneof![prop::collection::vec(1..=255u8, 0..250), "[\u{F770}-\u{F810}a\u{e4}]{0,40}".prop_map(String::into_bytes)],
        ) {
            let version = if newer { Version::V2 } else { Version::V1 };
            let layout = place.get(version.layouts());
            let value = |(param, word): (&mps_telemetry::Param, &u64)| match param.sort {
                Sort::S => Value::Text(&text),
                Sort::B => Value::Word(word & 1),
                Sort::U => Value::Word(u64::from(*word as u32)),
                _ => Value::Word(*word),
            };
            let values: Vec<_> = layout.params.iter().zip(&words).map(value).collect();
            // In the layouts of 1.0.0 Booleans are bits, which this encoder does not support: its output is right only if there is at most
            // one Boolean.
            prop_assume!(newer || layout.params.iter().filter(|param| param.sort == Sort::B).count() <= 1);
            let mut encoder = Encoder::new(Vec::new());
            encoder.record(layout, 7, &values).unwrap();
            let stream = encoder.end().unwrap();
            let mut reader = Reader::new(&stream[..]);
            reader.fill().unwrap();
            let record = reader.buffered().unwrap().unwrap();
            prop_assert_eq!(values_of(layout, &record), Some(values.clone()));
            let (mut payload, mut string) = (Vec::new(), Vec::new());
            prop_assert!(super::payload(&mut payload, layout, &record));
            prop_assert_eq!(super::values(layout, &payload, &mut string), Some(values.clone()));
            // A payload that is one byte shorter is not a complete record.
            prop_assert!(payload.is_empty() || super::values(layout, &payload[..payload.len() - 1], &mut Vec::new()).is_none());
            prop_assert_eq!(layout_of(&described(layout, version)).copied(), Some(*layout));
        }
    }
}
