//! The description of an event type, as a row of a metadata block.
//!
//! | | version 4 | version 6 |
//! |---|---|---|
//! | text | UTF-16 with a NUL | UTF-8 after its length |
//! | fields | type and name of each, without arrays; or, as a tag, with arrays | name and type of each |
//! | opcode | a tag | an option |
//! | message, description, GUID, key-value pairs | not possible | options |
//!
//! A row is appended to a buffer of the caller. Nothing else is allocated, so a caller whose buffer has room may describe types
//! where it must not allocate.

use std::borrow::Cow;

use super::append::{LONGEST_NAME, utf8, utf16, varint};
use crate::metadata::{EventType, FieldType, Type};

/// The name and the type of a field.
pub type Field<'a> = (&'a str, Cow<'a, Type>);

/// An event type, as the encoder describes it: an [`EventType`], or a type that a program declares itself.
pub trait Describe {
    /// Returns what identifies and classifies the event type.
    fn identity(&self) -> Identity<'_>;

    /// Iterates over the names and types of the fields.
    fn fields(&self) -> impl Iterator<Item = Field<'_>>;

    /// Returns the parts that most event types do not have. They exist in version 6 only.
    fn texts(&self) -> Texts<'_> {
        Texts::default()
    }
}

/// What identifies and classifies an event type.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Identity<'a> {
    /// Its provider.
    pub provider: &'a str,
    /// Its number within the provider.
    pub event: u32,
    /// Its name.
    pub name: &'a str,
    /// The version of its payload's layout.
    pub version: u32,
    /// Its level.
    pub level: u32,
    /// Its keywords, a bit set.
    pub keywords: u64,
    /// Its opcode, if it has one.
    pub opcode: Option<u8>,
}

/// The parts of a description that most event types do not have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Texts<'a> {
    /// The provider's GUID.
    pub provider_guid: Option<[u8; 16]>,
    /// A message template.
    pub message: Option<&'a str>,
    /// Its meaning.
    pub description: Option<&'a str>,
    /// Key-value pairs.
    pub pairs: &'a [(String, String)],
}

/// The parts of a type's description that the container could not express.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Described {
    /// The fields were omitted: the container has no code for one of them, or no room.
    pub without_fields: bool,
    /// Message, description, GUID or key-value pairs were omitted.
    pub without_texts: bool,
    /// Level or version were truncated to a byte.
    pub cut_numbers: bool,
}

impl Describe for EventType {
    fn identity(&self) -> Identity<'_> {
        Identity {
            provider: &self.provider,
            event: self.event,
            name: &self.name,
            version: self.version,
            level: self.level,
            keywords: self.keywords,
            opcode: self.opcode,
        }
    }

    fn fields(&self) -> impl Iterator<Item = Field<'_>> {
        borrowed(&self.fields)
    }

    fn texts(&self) -> Texts<'_> {
        Texts {
            provider_guid: self.provider_guid,
            message: self.message.as_deref(),
            description: self.description.as_deref(),
            pairs: &self.pairs,
        }
    }
}

fn borrowed(fields: &[FieldType]) -> impl Iterator<Item = Field<'_>> {
    fields.iter().map(|field| (&*field.name, Cow::Borrowed(&field.kind)))
}

/// Fills in a length, count or size that precedes what it describes: `bytes` are at `at`.
fn set<const N: usize>(to: &mut [u8], at: usize, bytes: [u8; N]) {
    to[at..at + N].copy_from_slice(&bytes);
}

// ---- Version 4 ---------------------------------------------------------------------------------------------------------

/// Appends a version 4 description.
pub(super) fn description_4(to: &mut Vec<u8>, id: u32, kind: &impl Describe) -> Described {
    let Identity { provider, event, name, version, level, keywords, opcode } = kind.identity();
    to.extend(id.to_le_bytes());
    utf16(to, provider);
    to.extend(event.to_le_bytes());
    utf16(to, name);
    to.extend(keywords.to_le_bytes());
    to.extend(version.to_le_bytes());
    to.extend(level.to_le_bytes());
    let before = to.len();
    let mut without_fields = false;
    if fields_4(to, kind.fields()).is_none() {
        // The fields are in a tag, after an empty list.
        to.truncate(before);
        to.extend([0; 4]);
        let tag = to.len();
        to.extend([0, 0, 0, 0, 2]);
        if fields_5(to, kind.fields()).is_some() {
            let length = (to.len() - tag - 5) as u32;
            set(to, tag, length.to_le_bytes());
        } else {
            to.truncate(tag);
            without_fields = true;
        }
    }
    if let Some(opcode) = opcode {
        to.extend([1, 0, 0, 0, 1, opcode]);
    }
    Described { without_fields, without_texts: kind.texts() != Texts::default(), cut_numbers: false }
}

/// Appends the number of fields, and the type and the name of each. There are no arrays.
fn fields_4<'a>(to: &mut Vec<u8>, fields: impl Iterator<Item = Field<'a>>) -> Option<()> {
    let at = to.len();
    to.extend([0; 4]);
    let mut count = 0_u32;
    for (name, kind) in fields {
        match &*kind {
            Type::Object(fields) => {
                to.extend(1_u32.to_le_bytes());
                fields_4(to, borrowed(fields))?;
            }
            kind => to.extend(u32::from(kind.code()?).to_le_bytes()),
        }
        utf16(to, name);
        count += 1;
    }
    set(to, at, count.to_le_bytes());
    Some(())
}

/// Appends the number of fields, and the size, the name and the type of each. The type may be an array.
fn fields_5<'a>(to: &mut Vec<u8>, fields: impl Iterator<Item = Field<'a>>) -> Option<()> {
    let at = to.len();
    to.extend([0; 4]);
    let mut count = 0_u32;
    for (name, kind) in fields {
        let field = to.len();
        to.extend([0; 4]);
        utf16(to, name);
        type_5(to, &kind)?;
        let size = (to.len() - field) as u32;
        set(to, field, size.to_le_bytes());
        count += 1;
    }
    set(to, at, count.to_le_bytes());
    Some(())
}

fn type_5(to: &mut Vec<u8>, kind: &Type) -> Option<()> {
    match kind {
        Type::Object(fields) => {
            to.extend(1_u32.to_le_bytes());
            fields_5(to, borrowed(fields))
        }
        Type::Array(element) => {
            to.extend(19_u32.to_le_bytes());
            type_5(to, element)
        }
        kind => {
            to.extend(u32::from(kind.code()?).to_le_bytes());
            Some(())
        }
    }
}

// ---- Version 6 ---------------------------------------------------------------------------------------------------------

/// Appends a row of a type block of version 6, without the 16-bit length that precedes the row. Parts with which the row would be too
/// long for that length are omitted.
pub(super) fn short_row_6(to: &mut Vec<u8>, id: u32, kind: &impl Describe) -> Described {
    const MOST: usize = u16::MAX as usize;
    let begin = to.len();
    let mut described = Described::default();
    let mut identity = kind.identity();
    let mut texts = kind.texts();
    row_6(to, id, identity, texts, kind.fields(), &mut described);
    if to.len() - begin > MOST {
        described.without_texts = true;
        texts = Texts { provider_guid: texts.provider_guid, ..Texts::default() };
        to.truncate(begin);
        row_6(to, id, identity, texts, kind.fields(), &mut described);
    }
    if to.len() - begin > MOST {
        described.without_fields = true;
        to.truncate(begin);
        row_6(to, id, identity, texts, std::iter::empty(), &mut described);
    }
    if to.len() - begin > MOST {
        let cut = |text: &str| text.floor_char_boundary(LONGEST_NAME / 2);
        identity.name = &identity.name[..cut(identity.name)];
        identity.provider = &identity.provider[..cut(identity.provider)];
        to.truncate(begin);
        row_6(to, id, identity, texts, std::iter::empty(), &mut described);
    }
    described
}

/// Appends a row of any length.
fn row_6<'a>(
    to: &mut Vec<u8>,
    id: u32,
    identity: Identity<'_>,
    texts: Texts<'_>,
    fields: impl Iterator<Item = Field<'a>>,
    described: &mut Described,
) {
    let Identity { provider, event, name, version, level, keywords, opcode } = identity;
    let Texts { provider_guid, message, description, pairs } = texts;
    varint(to, u64::from(id));
    utf8(to, provider);
    varint(to, u64::from(event));
    utf8(to, name);
    let before = to.len();
    if fields_6(to, fields).is_none() {
        described.without_fields = true;
        to.truncate(before);
        to.extend([0; 2]);
    }
    let options = to.len();
    to.extend([0; 2]);
    if let Some(opcode) = opcode {
        to.extend([1, opcode]);
    }
    to.push(3);
    to.extend(keywords.to_le_bytes());
    for (code, text) in [(4, message), (5, description)] {
        if let Some(text) = text {
            to.push(code);
            utf8(to, text);
        }
    }
    for (key, value) in pairs {
        to.push(6);
        utf8(to, key);
        utf8(to, value);
    }
    if let Some(guid) = provider_guid {
        to.push(7);
        to.extend(guid);
    }
    let byte = |number: u32| u8::try_from(number).unwrap_or(u8::MAX);
    described.cut_numbers |= level > 255 || version > 255;
    to.extend([8, byte(level), 9, byte(version)]);
    // The caller discards a row that is too long, so the truncated length is not used.
    let length = (to.len() - options - 2) as u16;
    set(to, options, length.to_le_bytes());
}

/// Appends the number of fields, and the size, the name and the type of each.
fn fields_6<'a>(to: &mut Vec<u8>, fields: impl Iterator<Item = Field<'a>>) -> Option<()> {
    let at = to.len();
    to.extend([0; 2]);
    let mut count = 0_u16;
    for (name, kind) in fields {
        let field = to.len();
        to.extend([0; 2]);
        utf8(to, name);
        type_6(to, &kind)?;
        let size = u16::try_from(to.len() - field - 2).ok()?;
        set(to, field, size.to_le_bytes());
        count = count.checked_add(1)?;
    }
    set(to, at, count.to_le_bytes());
    Some(())
}

fn type_6(to: &mut Vec<u8>, kind: &Type) -> Option<()> {
    match kind {
        Type::Object(fields) => {
            to.push(1);
            return fields_6(to, borrowed(fields));
        }
        Type::Array(element) => {
            to.push(19);
            return type_6(to, element);
        }
        Type::VarInt => to.push(20),
        Type::VarUInt => to.push(21),
        Type::FixedArray(element, count) => {
            to.push(22);
            type_6(to, element)?;
            to.extend(count.to_le_bytes());
        }
        Type::Utf8Unit => to.push(23),
        Type::RelLoc(element) => {
            to.push(24);
            return type_6(to, element);
        }
        Type::DataLoc(element) => {
            to.push(25);
            return type_6(to, element);
        }
        Type::Bool8 => to.push(26),
        kind => to.push(kind.code()?),
    }
    Some(())
}
