//! Reads the header: the types of the log's events.

use std::io::Read;

use super::damage::{Damage, DamageKind};
use super::types::{EventType, Types};
use crate::format::{DATA_BEGIN, HEADER_BEGIN, HEADER_END, TYPE_BEGIN, TYPE_END, TYPES_BEGIN, TYPES_END, VARIABLE};
use trace_io::source::Source;

/// The longest description that is accepted, in bytes: a thousand times the longest one that GHC writes.
const LONGEST_DESCRIPTION: u32 = 64 << 10;

/// A header that is being read.
struct Header<'a, R> {
    source: &'a mut Source<R>,
    /// The item that is being read, for messages, and the byte offset at which it begins.
    what: &'static str,
    began: u64,
}

/// Reads the header up to the first event. Passes on each type as soon as it is complete.
pub(super) fn read<R: Read>(
    source: &mut Source<R>,
    types: &mut Types,
    tell: &mut dyn FnMut(&EventType),
    minor: &mut dyn FnMut(Damage),
) -> Result<(), Damage> {
    let mut header = Header { source, what: "the header", began: 0 };
    header.magic()?;
    header.marker(&TYPES_BEGIN, "the begin marker of the types")?;
    loop {
        header.began = header.source.offset();
        let mark = header.take::<4>()?;
        if mark == TYPES_END {
            break;
        }
        if mark != TYPE_BEGIN {
            return Err(damage(
                header.began,
                DamageKind::Marker { what: "the begin marker of a type or the end marker of the types" },
            ));
        }
        header.what = "the declaration of a type";
        let kind = header.kind(minor)?;
        tell(&kind);
        if !types.declare(kind) {
            return Err(damage(header.began, DamageKind::TooMany("descriptions of types")));
        }
        header.what = "the header";
    }
    header.marker(&HEADER_END, "its end")?;
    header.marker(&DATA_BEGIN, "the begin marker of the events")
}

fn damage(offset: u64, kind: DamageKind) -> Damage {
    Damage { offset, kind, last_good: None }
}

impl<R: Read> Header<'_, R> {
    fn magic(&mut self) -> Result<(), Damage> {
        self.has(4)?;
        let bytes = self.source.bytes();
        if bytes.is_empty() || !HEADER_BEGIN.starts_with(&bytes[..bytes.len().min(4)]) {
            return Err(damage(0, DamageKind::Magic));
        }
        self.take::<4>().map(|_| ())
    }

    fn marker(&mut self, expected: &[u8; 4], what: &'static str) -> Result<(), Damage> {
        let offset = self.source.offset();
        if self.take::<4>()? == *expected { Ok(()) } else { Err(damage(offset, DamageKind::Marker { what })) }
    }

    /// Reads a type, after its begin marker.
    fn kind(&mut self, minor: &mut dyn FnMut(Damage)) -> Result<EventType, Damage> {
        let id = u16::from_be_bytes(self.take()?);
        let size = u16::from_be_bytes(self.take()?);
        let length = u32::from_be_bytes(self.take()?);
        if length > LONGEST_DESCRIPTION {
            return Err(damage(self.began, DamageKind::Description { id, bytes: length }));
        }
        let length = length as usize;
        if !self.has(length)? {
            return Err(self.cut(length));
        }
        let description = match std::str::from_utf8(&self.source.bytes()[..length]) {
            Ok(text) => text.to_owned(),
            Err(_) => {
                minor(damage(self.source.offset(), DamageKind::Text(id)));
                String::from_utf8_lossy(&self.source.bytes()[..length]).into_owned()
            }
        };
        self.source.take(length);
        let extra = u64::from(u32::from_be_bytes(self.take()?));
        let missing = self.source.skip(extra).map_err(|error| self.input(&error))?;
        if missing > 0 {
            return Err(self.cut(missing as usize));
        }
        self.marker(&TYPE_END, "the end marker of a type")?;
        Ok(EventType::declared(id, (size != VARIABLE).then_some(size), description))
    }

    fn take<const N: usize>(&mut self) -> Result<[u8; N], Damage> {
        if !self.has(N)? {
            return Err(self.cut(N));
        }
        let taken = *self.source.bytes().first_chunk().ok_or_else(|| self.cut(N))?;
        self.source.take(N);
        Ok(taken)
    }

    fn has(&mut self, count: usize) -> Result<bool, Damage> {
        self.source.has(count).map_err(|error| self.input(&error))
    }

    fn input(&self, error: &std::io::Error) -> Damage {
        damage(self.source.offset(), DamageKind::Input(error.kind()))
    }

    /// Makes the damage for a file that ends here although `needed` bytes were expected.
    fn cut(&self, needed: usize) -> Damage {
        let here = self.source.bytes().len();
        let kind = DamageKind::Cut { what: self.what, began: self.began, missing: (needed - here) as u64 };
        damage(self.source.offset() + here as u64, kind)
    }
}
