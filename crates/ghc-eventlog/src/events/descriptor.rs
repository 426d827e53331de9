//! The description of each type of event, as data.

use crate::format::{FILTERS, Size, VARIABLE};

/// A type of event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EventType {
    /// Its number.
    pub id: u16,
    /// Its name in GHC's sources, without the prefix `EVENT_`.
    pub name: &'static str,
    /// The description that a log's header contains and that tools print.
    pub description: &'static str,
    /// The layouts of its payload, oldest first.
    pub layouts: &'static [&'static Layout],
}

impl EventType {
    /// Returns the newest layout.
    pub const fn layout(&self) -> &'static Layout {
        self.layouts[self.layouts.len() - 1]
    }

    /// Returns the payload size that a header declares for the newest layout.
    pub const fn declared_size(&self) -> u16 {
        match self.layout().size {
            Size::Fixed(bytes) => bytes,
            Size::Variable => VARIABLE,
        }
    }
}

/// A layout of a payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// The number of the type.
    pub id: u16,
    /// The name of its struct.
    pub name: &'static str,
    /// The payload.
    pub size: Size,
    /// The shortest payload, in bytes.
    pub least: u16,
    /// The fields.
    pub fields: &'static [Field],
    /// The text that `ghc-events show` prints, if that is more than the description. Braces enclose the name of a field, and its notation
    /// if that is not the usual one.
    pub(crate) text: Option<&'static str>,
}

/// A field of a payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field {
    /// Its name.
    pub name: &'static str,
    /// Its type.
    pub kind: FieldKind,
    /// Its unit.
    pub unit: Unit,
    /// Its meaning.
    pub doc: &'static str,
}

/// The type of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FieldKind {
    /// A byte.
    U8,
    /// Two bytes.
    U16,
    /// Four bytes.
    U32,
    /// Eight bytes.
    U64,
    /// [`StopReason`](super::StopReason).
    StopReason,
    /// [`CapsetKind`](super::CapsetKind).
    CapsetKind,
    /// [`Breakdown`](super::Breakdown).
    Breakdown,
    /// [`MessageTag`](super::MessageTag).
    MessageTag,
    /// [`Text`](super::Text).
    Text,
    /// [`Raw`](super::Raw).
    Raw,
    /// [`Items`](super::Items).
    Items,
    /// [`Ended`](super::Ended).
    Ended,
    /// [`Leading`](super::Leading).
    Leading,
    /// [`Filters`](super::Filters).
    Filters,
    /// [`CentreFlags`](super::CentreFlags).
    CentreFlags,
    /// Eight bytes, unless the event ends before them.
    OptionalU64,
    /// [`Stack`](super::Stack).
    Stack,
}

impl FieldKind {
    /// Returns the smallest number of bytes that a field can have.
    pub const fn least(self) -> u16 {
        match self {
            FieldKind::Text | FieldKind::Raw | FieldKind::Items | FieldKind::Leading | FieldKind::OptionalU64 => 0,
            FieldKind::U8 | FieldKind::MessageTag | FieldKind::Ended | FieldKind::CentreFlags | FieldKind::Stack => 1,
            FieldKind::U16 | FieldKind::StopReason | FieldKind::CapsetKind => 2,
            FieldKind::U32 | FieldKind::Breakdown => 4,
            FieldKind::Filters => FILTERS as u16,
            FieldKind::U64 => 8,
        }
    }

    /// Returns whether all fields of this type have the same size.
    pub const fn is_fixed(self) -> bool {
        use FieldKind::{Breakdown, CapsetKind, MessageTag, StopReason, U8, U16, U32, U64};
        matches!(self, U8 | U16 | U32 | U64 | StopReason | CapsetKind | Breakdown | MessageTag)
    }

    /// Returns whether the field itself shows where it ends: it has a fixed size, a terminating zero, or a depth.
    pub const fn ends_itself(self) -> bool {
        !matches!(
            self,
            FieldKind::Text | FieldKind::Raw | FieldKind::Items | FieldKind::Leading | FieldKind::OptionalU64
        )
    }
}

/// The unit of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Unit {
    /// An identifier, or several, by which events refer to something.
    Id,
    /// A count.
    Count,
    /// A position in a sequence.
    Ordinal,
    /// A code: each number has a defined meaning.
    Code,
    /// Bytes.
    Bytes,
    /// Seconds.
    Seconds,
    /// Nanoseconds.
    Nanoseconds,
    /// An address in the program.
    Address,
    /// Text.
    Text,
}

/// Returns the size of the shortest payload with these fields.
pub(super) const fn least_of(fields: &[Field]) -> u16 {
    let (mut bytes, mut next) = (0, 0);
    while next < fields.len() {
        bytes += fields[next].kind.least();
        next += 1;
    }
    bytes
}

/// Returns the size of a payload with these fields.
pub(super) const fn size_of_fields(fields: &[Field]) -> Size {
    let mut next = 0;
    while next < fields.len() {
        if !fields[next].kind.is_fixed() {
            return Size::Variable;
        }
        next += 1;
    }
    Size::Fixed(least_of(fields))
}
