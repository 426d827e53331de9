//! How an event is declared, once, for its accessors and for listings.
//!
//! A declaration names provider, numbers, versions, the name that listings show, and the fields in order, each with the
//! version that brought it:
//!
//! ```text
//!   /// What the heap is like after a collection.
//!   HeapStats = Runtime [4] 0.. "GC/HeapStats" {
//!       0 generation_size0 "GenerationSize0" U64;
//!       1 clr_instance_id "ClrInstanceID" U16;
//!       …
//!   }
//! ```
//!
//! Where a field lies is computed at compile time as far as it can be: so many bytes and so many pointers. After a text,
//! whose length the payload tells, counting begins anew (`Z16 then after_name`).
//!
//! `rows { … }` at the end declares what is repeated: as often as the field `Count` says, or as far as the bytes go.

use std::ops::RangeInclusive;

use super::labels::Labels;
use super::{Payload, Provider, Z16};

/// The sorts of fields.
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
    /// As wide as a pointer.
    Word,
    /// Sixteen bytes.
    Guid,
    /// Text in UTF-16 with a NUL.
    Z16,
    /// Bytes, as many as the number before says.
    Bytes,
    /// Numbers of eight bytes, as many as the number before says.
    U64s,
    /// Nothing: what C puts before a pointer that follows an odd number of four-byte fields.
    Pad,
}

impl Kind {
    /// Bytes that it takes beside those of `words`; 0 for what has no fixed length.
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

    /// Pointers that it takes.
    pub(super) const fn words(self) -> usize {
        matches!(self, Kind::Word) as usize
    }
}

/// A field of an event.
#[derive(Debug)]
pub struct Field {
    /// Its name in the runtime's manifest.
    pub name: &'static str,
    /// The version of the event that brought it.
    pub since: u32,
    /// Its sort.
    pub kind: Kind,
    /// The names of its values, if they have names.
    pub(super) labels: Option<&'static Labels>,
}

impl Field {
    /// The name of this value of the field, if its values have names: `AllocSmall`, or `Compaction, Promotion`.
    pub fn label(&self, value: &FieldValue<'_>) -> Option<String> {
        let number = match *value {
            FieldValue::Unsigned(number) => u32::try_from(number).ok()?,
            _ => return None,
        };
        Some(self.labels?.of(number as i32))
    }
}

/// What a field holds.
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

/// An event, as data.
#[derive(Debug)]
pub struct Template {
    /// Who fires it.
    pub providers: &'static [Provider],
    /// Its numbers; more than one where several events have one layout.
    pub events: &'static [u32],
    /// The versions that it reads.
    pub versions: RangeInclusive<u32>,
    /// Its name, as the real readers list it: `GC/HeapStats`.
    pub name: &'static str,
    /// Its fields, in order.
    pub fields: &'static [Field],
    /// The fields that are repeated after them.
    pub rows: &'static [Field],
}

impl Template {
    /// Shows each field that the payload has, in order, with the number of its row if it is one of those repeated.
    ///
    /// Ends where the payload does, and at the fields of versions that the event doesn't have; returns how many bytes were shown.
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

/// A place in a payload.
struct Cursor<'a> {
    payload: Payload<'a>,
    at: usize,
    /// The number that was read last: how many bytes follow, where some do.
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

/// The type that an accessor of a field of this sort returns.
macro_rules! value_of {
    (U8) => { u8 };
    (U16) => { u16 };
    (U32) => { u32 };
    (I32) => { i32 };
    (U64) => { u64 };
    (I64) => { i64 };
    (Word) => { u64 };
    (Guid) => { [u8; 16] };
    (Z16) => { $crate::clr::Z16<'a> };
}

/// The payload's accessor for a field of this sort.
macro_rules! read {
    (U8, $payload:expr, $at:expr) => {
        $payload.u8($at)
    };
    (U16, $payload:expr, $at:expr) => {
        $payload.u16($at)
    };
    (U32, $payload:expr, $at:expr) => {
        $payload.u32($at)
    };
    (I32, $payload:expr, $at:expr) => {
        $payload.i32($at)
    };
    (U64, $payload:expr, $at:expr) => {
        $payload.u64($at)
    };
    (I64, $payload:expr, $at:expr) => {
        $payload.i64($at)
    };
    (Word, $payload:expr, $at:expr) => {
        $payload.word($at)
    };
    (Guid, $payload:expr, $at:expr) => {
        $payload.guid($at)
    };
    (Z16, $payload:expr, $at:expr) => {
        $payload.z16($at)
    };
}

/// The accessors of the fields that follow the given place: a method that finds the last text's end, and then so many
/// bytes and so many pointers.
macro_rules! accessors {
    ($base:ident, $bytes:expr, $words:expr;) => {};
    ($base:ident, $bytes:expr, $words:expr; rows { $($row:tt)* }) => {
        /// Where the rows begin.
        #[allow(dead_code)]
        fn rows_at(&self) -> Option<usize> {
            Some(self.$base()? + $bytes + $words * self.payload.pointer())
        }
    };
    ($base:ident, $bytes:expr, $words:expr; $since:literal $name:ident $label:literal Z16 then $after:ident; $($rest:tt)*) => {
        accessors!(@one $base, $bytes, $words; $since $name $label Z16);
        fn $after(&self) -> Option<usize> {
            let at = self.$base()? + $bytes + $words * self.payload.pointer();
            Some(at + self.payload.z16(at)?.extent())
        }
        accessors!($after, 0, 0; $($rest)*);
    };
    ($base:ident, $bytes:expr, $words:expr; $since:literal $name:ident $label:literal Bytes then $after:ident; $($rest:tt)*) => {
        #[doc = concat!("Where `", $label, "` begins.")]
        fn $name(&self) -> Option<usize> {
            Some(self.$base()? + $bytes + $words * self.payload.pointer())
        }
        accessors!($after, 0, 0; $($rest)*);
    };
    ($base:ident, $bytes:expr, $words:expr; $since:literal $name:ident $label:literal $kind:ident $(as $labels:ident)?; $($rest:tt)*) => {
        accessors!(@one $base, $bytes, $words; $since $name $label $kind);
        accessors!(
            $base,
            $bytes + const { $crate::clr::Kind::$kind.bytes() },
            $words + const { $crate::clr::Kind::$kind.words() };
            $($rest)*
        );
    };
    (@one $base:ident, $bytes:expr, $words:expr; $since:literal $name:ident $label:literal $kind:ident) => {
        #[doc = concat!("`", $label, "`; since version ", $since, ".")]
        pub fn $name(&self) -> Option<value_of!($kind)> {
            let at = self.since($since)? + self.$base()? + $bytes + ($words) * self.payload.pointer();
            read!($kind, self.payload, at)
        }
    };
}

/// The table's rows of some fields.
macro_rules! fields {
    (@as) => { None };
    (@as $labels:ident) => { Some(&$crate::clr::labels::$labels) };
    ($($since:literal $name:ident $label:literal $kind:ident $(then $after:ident)? $(as $labels:ident)?;)*) => {
        &[$($crate::clr::Field {
            name: $label,
            since: $since,
            kind: $crate::clr::Kind::$kind,
            labels: fields!(@as $($labels)?),
        }),*]
    };
}

/// Declares events; see the module's beginning.
macro_rules! templates {
    ($(
        $(#[$doc:meta])*
        $view:ident = $($provider:ident)|+ [$($event:literal),+] $first:literal $(to $last:literal)? $title:literal {
            $($since:literal $name:ident $label:literal $kind:ident $(then $after:ident)? $(as $labels:ident)?;)*
            $(rows {
                $($row_since:literal $row_name:ident $row_label:literal $row_kind:ident $(as $row_labels:ident)?;)*
            })?
        }
    )*) => {
        $(
            $(#[$doc])*
            #[derive(Clone, Copy, Debug)]
            pub struct $view<'a> {
                version: u32,
                payload: $crate::clr::Payload<'a>,
            }

            impl<'a> $view<'a> {
                /// The event as data.
                pub const TEMPLATE: &'static $crate::clr::Template =
                    &$crate::clr::Template {
                        providers: &[$($crate::clr::Provider::$provider),+],
                        events: &[$($event),+],
                        versions: templates!(@versions $first $($last)?),
                        name: $title,
                        fields: fields!($($since $name $label $kind $(then $after)? $(as $labels)?;)*),
                        rows: fields!($($($row_since $row_name $row_label $row_kind $(as $row_labels)?;)*)?),
                    };

                /// Lays the template over a payload.
                pub fn new(version: u32, payload: $crate::clr::Payload<'a>) -> $view<'a> {
                    $view { version, payload }
                }

                /// Where the payload begins.
                #[allow(dead_code)]
                fn head(&self) -> Option<usize> {
                    Some(0)
                }

                /// Nothing to add to an offset, if the event has the fields of this version.
                fn since(&self, version: u32) -> Option<usize> {
                    (self.version >= version).then_some(0)
                }

                accessors!(
                    head, 0, 0;
                    $($since $name $label $kind $(then $after)? $(as $labels)?;)*
                    $(rows { $($row_since $row_name $row_label $row_kind $(as $row_labels)?;)* })?
                );
            }
        )*

        /// The events of this file.
        pub(super) const TEMPLATES: &[&$crate::clr::Template] = &[$($view::TEMPLATE),*];
    };
    (@versions $first:literal) => { $first..=u32::MAX };
    (@versions $first:literal $last:literal) => { $first..=$last };
}

pub(super) use {accessors, fields, read, templates, value_of};
