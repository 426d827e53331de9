//! Labels of single events in version 6: keys with texts or numbers, and overrides of the type's values.
//!
//! A list is validated when its block is read, so iterating over it can't fail. Each label begins with
//! its kind; the highest bit of the kind is set in the last label of a list.

use super::bytes::{Bytes, ItemError};
use super::damage::DamageKind;
use super::fields::unfold;

/// The labels of an event.
#[derive(Clone, Copy, Debug, Default)]
pub struct Labels<'a> {
    bytes: &'a [u8],
}

/// One label.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Label<'a> {
    /// The activity that the event belongs to.
    Activity([u8; 16]),
    /// The activity that started that activity.
    Related([u8; 16]),
    /// A W3C trace id.
    TraceId([u8; 16]),
    /// A W3C span id.
    SpanId(u64),
    /// A key and its text, in UTF-8.
    Text(&'a [u8], &'a [u8]),
    /// A key and its number.
    Number(&'a [u8], i64),
    /// Replaces the type's opcode.
    Opcode(u8),
    /// Replaces the type's keywords.
    Keywords(u64),
    /// Replaces the type's level.
    Level(u8),
    /// Replaces the type's version.
    Version(u8),
}

const LAST: u8 = 0x80;

impl<'a> Labels<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Labels<'a> {
        Labels { bytes }
    }

    /// The length in bytes of the list that begins here.
    pub(super) fn length_of_list(window: &[u8]) -> Result<usize, ItemError> {
        let mut bytes = Bytes::new(window);
        while !label(&mut bytes)?.1 {}
        Ok(window.len() - bytes.len())
    }
}

/// Reads the next label, and whether it is the last.
fn label<'a>(bytes: &mut Bytes<'a>) -> Result<(Label<'a>, bool), ItemError> {
    let kind = bytes.byte()?;
    let word = |bytes: &mut Bytes<'a>| {
        let length = bytes.var32()?;
        bytes.take(length as usize)
    };
    let label = match kind & !LAST {
        1 => Label::Activity(bytes.array()?),
        2 => Label::Related(bytes.array()?),
        3 => Label::TraceId(bytes.array()?),
        4 => Label::SpanId(bytes.long()?),
        5 => Label::Text(word(bytes)?, word(bytes)?),
        6 => {
            let key = word(bytes)?;
            Label::Number(key, unfold(bytes.var64()?))
        }
        7 => Label::Opcode(bytes.byte()?),
        8 => Label::Keywords(bytes.long()?),
        9 => Label::Level(bytes.byte()?),
        10 => Label::Version(bytes.byte()?),
        unknown => return Err(ItemError::Wrong(DamageKind::LabelKind(unknown))),
    };
    Ok((label, kind & LAST != 0))
}

impl<'a> IntoIterator for Labels<'a> {
    type Item = Label<'a>;
    type IntoIter = LabelsIter<'a>;

    fn into_iter(self) -> LabelsIter<'a> {
        LabelsIter { bytes: Bytes::new(self.bytes) }
    }
}

/// Iterates over the labels of an event.
#[derive(Clone, Debug)]
pub struct LabelsIter<'a> {
    bytes: Bytes<'a>,
}

impl<'a> Iterator for LabelsIter<'a> {
    type Item = Label<'a>;

    fn next(&mut self) -> Option<Label<'a>> {
        label(&mut self.bytes).ok().map(|(label, _)| label)
    }
}
