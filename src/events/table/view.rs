//! Reads a serialized payload in place, field by field.
//!
//! A trace holds millions of payloads, and a program that reads one typically needs two of its fields. So nothing is parsed: a
//! [`View`] is the bytes, the event and the version, and a field is a load from a constant offset, after two checks. *Does this version
//! have the field?* Payloads grow at the end, so an older one ends before it. *Are there enough bytes?* A header may be wrong: the
//! reader of a well-known tool accepts "version 2" for a payload of the length of version 1, and shows two petabytes of pinned objects.

use super::descriptor::{Descriptor, Field, offset_in};
use super::id::EventId;

/// Why a field of a payload cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FieldError {
    /// The payload is older than the field.
    #[error("{event} has the field `{field}` since version {since}, and this payload is of version {version}")]
    NotInVersion {
        /// The event's name.
        event: &'static str,
        /// The field's name.
        field: &'static str,
        /// The version that added it.
        since: u8,
        /// The payload's version.
        version: u8,
    },
    /// The payload is shorter than its version requires.
    #[error("the payload of {event} ends after {have} bytes, and its field `{field}` lies in bytes {from} to {to}")]
    Short {
        /// The event's name.
        event: &'static str,
        /// The field's name.
        field: &'static str,
        /// The offset of the field's first byte.
        from: usize,
        /// The offset of the byte after the field.
        to: usize,
        /// Number of bytes in the payload.
        have: usize,
    },
    /// The event has no such field in any version.
    #[error("{event} has no such field")]
    Unknown {
        /// The event's name.
        event: &'static str,
    },
}

/// The bytes of a payload, seen as fields.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    id: EventId,
    version: u8,
    bytes: &'a [u8],
}

impl<'a> View<'a> {
    /// Creates a view of the bytes of a payload of this event and this version. There may be too few or too many bytes.
    #[inline]
    pub fn at(id: EventId, bytes: &'a [u8], version: u8) -> View<'a> {
        View { id, version, bytes }
    }

    /// Returns the event's entry in the table.
    pub fn descriptor(&self) -> &'static Descriptor {
        self.id.descriptor()
    }

    /// Returns the field of this index, as a number.
    ///
    /// # Errors
    /// The event has no such field, the version does not have it, or the payload is too short.
    #[inline]
    pub fn field(&self, index: usize) -> Result<u64, FieldError> {
        let Descriptor { name: event, fields, .. } = *self.descriptor();
        let field = fields.get(index).ok_or(FieldError::Unknown { event })?;
        let &Field { name, kind, since, .. } = field;
        if since > self.version {
            return Err(FieldError::NotInVersion { event, field: name, since, version: self.version });
        }
        let from = offset_in(self.id, index);
        let to = from + kind.bytes();
        match self.bytes.get(from..to) {
            Some(bytes) => Ok(word_from(bytes)),
            None => Err(FieldError::Short { event, field: name, from, to, have: self.bytes.len() }),
        }
    }

    /// Returns the field of this name, as a number.
    ///
    /// # Errors
    /// The errors of [`field`](Self::field).
    pub fn named(&self, name: &str) -> Result<u64, FieldError> {
        let fields = self.descriptor().fields;
        self.field(fields.iter().position(|field| field.name == name).unwrap_or(fields.len()))
    }

    /// Returns every field that this version has, in order.
    pub fn fields(self) -> impl Iterator<Item = (&'static Field, Result<u64, FieldError>)> + 'a {
        let has = move |(_, field): &(usize, &'static Field)| field.since <= self.version;
        self.descriptor().fields.iter().enumerate().filter(has).map(move |(index, field)| (field, self.field(index)))
    }
}

/// Returns the number in the bytes of a field, at most eight.
#[inline]
fn word_from(bytes: &[u8]) -> u64 {
    let mut word = [0; size_of::<u64>()];
    word[..bytes.len()].copy_from_slice(bytes);
    u64::from_le_bytes(word)
}
