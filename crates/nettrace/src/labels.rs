//! What version 6 says of single events beside their payload: words, numbers, and what replaces the type's own.
//!
//! A list is bytes that were checked when their block was read, so that going through it can't fail; each label begins with
//! its kind, and the last one of a list has the highest bit of it set.

use super::bytes::{Bytes, Stuck};
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
    /// To what the event belongs.
    Activity([u8; 16]),
    /// What that was started by.
    Related([u8; 16]),
    /// W3C's trace id.
    TraceId([u8; 16]),
    /// W3C's span id.
    SpanId(u64),
    /// A word and what it means, in UTF-8.
    Text(&'a [u8], &'a [u8]),
    /// A word and a number.
    Number(&'a [u8], i64),
    /// Instead of the type's opcode.
    Opcode(u8),
    /// Instead of the type's keywords.
    Keywords(u64),
    /// Instead of the type's level.
    Level(u8),
    /// Instead of the type's version.
    Version(u8),
}

const LAST: u8 = 0x80;

impl<'a> Labels<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Labels<'a> {
        Labels { bytes }
    }

    /// How many bytes the list has that begins here.
    pub(super) fn length_of_list(window: &[u8]) -> Result<usize, Stuck> {
        let mut bytes = Bytes::new(window);
        while !label(&mut bytes)?.1 {}
        Ok(window.len() - bytes.len())
    }
}

/// The next label, and whether it is the last.
fn label<'a>(bytes: &mut Bytes<'a>) -> Result<(Label<'a>, bool), Stuck> {
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
        unknown => return Err(Stuck::Wrong(DamageKind::LabelKind(unknown))),
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

/// Goes through the labels of an event.
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
