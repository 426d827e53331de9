//! The declaration of an event, from which its reader, its writer, its metadata and its listing are generated.
//!
//! A declaration gives provider, numbers, versions, the name in listings, and the fields in order, each with the
//! version that added it:
//!
//! ```text
//!   /// The heap after a collection.
//!   HeapStats = Runtime [4] 0 "GC/HeapStats" written GCHeapStats(Runtime 4 v 2 op 133 GC Informational) {
//!       0 generation_size0 "GenerationSize0" U64 ([Bytes] "generation 0, with free space");
//!       1 clr_instance_id "ClrInstanceID" U16;
//!       …
//!   }
//! ```
//!
//! *Reading.* `HeapStats` is a view with an accessor for each field. The offset of a field is a base, a number of bytes, and a number
//! of pointers; the two numbers are computed at compile time. The base is the start of the payload, or, if a text or byte array precedes
//! the field, the end of the last of them (`Z16 then after_name`), because the length of a text or byte array is known only at run time.
//!
//! *Writing.* `written` adds a struct with the name that the event has in files: provider, number, version, opcode, keywords and level
//! are those of its metadata. See `encode`.
//!
//! After the type of a field, in parentheses and in this order, all optional:
//!
//! | part | meaning |
//! |---|---|
//! | `counts other` | the length of another field, or of the rows; a writer does not set it |
//! | `as Reason` | an enumeration: its names are listed, and a writer uses it |
//! | `like Sku` | an enumeration for writers; listings show the number |
//! | `file U32`, `file "Name"`, `file ("Name" U32)` | name or type in the metadata, where the common readers have another |
//! | `[Bytes]` | the unit |
//! | `"…"` | one line of documentation |
//!
//! `rows Row { … }` at the end declares the fields of the rows, whose number is the field `Count`: `Row` is a view with an accessor for
//! each field of a row, and the event's view iterates over its rows. With `rows Row ["Gen0" "Gen1"] { … }` a writer has exactly these
//! rows, and metadata list the fields of each.

/// The type that the accessor of a field of this type returns.
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

/// The payload's accessor for a field of this type.
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

/// Extracts a part of a field's declaration from the tokens in its parentheses.
macro_rules! part {
    (@labels as $labels:ident $($rest:tt)*) => { Some($crate::clr::values::$labels::LABELS) };
    (@labels $skipped:tt $($rest:tt)*) => { part!(@labels $($rest)*) };
    (@labels) => { None };
    (@name $label:literal; file ($name:literal $kind:ident) $($rest:tt)*) => { $name };
    (@name $label:literal; file $name:literal $($rest:tt)*) => { $name };
    (@name $label:literal; $skipped:tt $($rest:tt)*) => { part!(@name $label; $($rest)*) };
    (@name $label:literal;) => { $label };
    (@kind $own:ident; file ($name:literal $kind:ident) $($rest:tt)*) => { $crate::clr::Kind::$kind };
    (@kind $own:ident; file $kind:ident $($rest:tt)*) => { $crate::clr::Kind::$kind };
    (@kind $own:ident; $skipped:tt $($rest:tt)*) => { part!(@kind $own; $($rest)*) };
    (@kind $own:ident;) => { $crate::clr::Kind::$own };
    (@unit [$unit:ident] $($rest:tt)*) => { Some($crate::clr::Unit::$unit) };
    (@unit $skipped:tt $($rest:tt)*) => { part!(@unit $($rest)*) };
    (@unit) => { None };
    (@unit_text [$unit:ident] $($rest:tt)*) => { concat!(" (", stringify!($unit), ")") };
    (@unit_text $skipped:tt $($rest:tt)*) => { part!(@unit_text $($rest)*) };
    (@unit_text) => { "" };
    (@doc $doc:literal) => { $doc };
    (@doc $skipped:tt $($rest:tt)*) => { part!(@doc $($rest)*) };
    (@doc) => { "" };
    (@text $doc:literal) => { concat!(": ", $doc) };
    (@text $skipped:tt $($rest:tt)*) => { part!(@text $($rest)*) };
    (@text) => { "" };
}

/// Generates the accessors of the fields after a given position. A position is a method that finds the end of the last text, a number of
/// bytes, and a number of pointers.
macro_rules! accessors {
    ($base:ident, $bytes:expr, $words:expr;) => {};
    ($base:ident, $bytes:expr, $words:expr; end) => {
        /// The offset of the next row.
        fn end(&self) -> Option<usize> {
            Some(self.$base()? + $bytes + $words * self.payload.pointer())
        }
    };
    ($base:ident, $bytes:expr, $words:expr; rows $row:ident $($rest:tt)*) => {
        /// The offset of the rows.
        fn rows_at(&self) -> Option<usize> {
            Some(self.$base()? + $bytes + $words * self.payload.pointer())
        }

        /// Iterates over the rows that the payload has whole.
        pub fn rows(&self) -> impl Iterator<Item = $row<'a>> + use<'a> {
            let (version, payload) = (self.version, self.payload);
            let mut next = self.rows_at();
            (0..self.count().unwrap_or(0)).map_while(move |_| {
                let row = $row { version, payload, at: next? };
                next = row.end().filter(|end| *end <= payload.bytes().len());
                next.map(|_| row)
            })
        }
    };
    ($base:ident, $bytes:expr, $words:expr; $since:literal $name:ident $label:literal Pad; $($rest:tt)*) => {
        // With pointers of four bytes there is no padding.
        accessors!($base, $bytes - 4, $words + 1; $($rest)*);
    };
    ($base:ident, $bytes:expr, $words:expr; $since:literal $name:ident $label:literal U64s of $count:ident then $after:ident $(($($part:tt)*))?; $($rest:tt)*) => {
        #[doc = concat!("`", $label, "`", part!(@text $($($part)*)?), "; since version ", $since, ".")]
        pub fn $name(&self) -> Option<impl ExactSizeIterator<Item = u64> + use<'a>> {
            let at = self.since($since)? + self.$base()? + $bytes + $words * self.payload.pointer();
            let bytes = self.payload.slice(at, (self.$count()? as usize).checked_mul(8)?)?;
            Some(bytes.as_chunks().0.iter().map(|number| u64::from_le_bytes(*number)))
        }
        fn $after(&self) -> Option<usize> {
            Some(self.$base()? + $bytes + $words * self.payload.pointer() + 8 * self.$name()?.len())
        }
        accessors!($after, 0, 0; $($rest)*);
    };
    ($base:ident, $bytes:expr, $words:expr; $since:literal $name:ident $label:literal Z16 then $after:ident $(($($part:tt)*))?; $($rest:tt)*) => {
        accessors!(@one $base, $bytes, $words; $since $name $label Z16 ($($($part)*)?));
        fn $after(&self) -> Option<usize> {
            let at = self.$base()? + $bytes + $words * self.payload.pointer();
            Some(at + self.payload.z16(at)?.extent())
        }
        accessors!($after, 0, 0; $($rest)*);
    };
    ($base:ident, $bytes:expr, $words:expr; $since:literal $name:ident $label:literal Bytes of $length:ident then $after:ident $(($($part:tt)*))?; $($rest:tt)*) => {
        #[doc = concat!("`", $label, "`", part!(@text $($($part)*)?), "; since version ", $since, ".")]
        pub fn $name(&self) -> Option<&'a [u8]> {
            let at = self.since($since)? + self.$base()? + $bytes + $words * self.payload.pointer();
            self.payload.slice(at, self.$length()? as usize)
        }
        fn $after(&self) -> Option<usize> {
            Some(self.$base()? + $bytes + $words * self.payload.pointer() + self.$name()?.len())
        }
        accessors!($after, 0, 0; $($rest)*);
    };
    ($base:ident, $bytes:expr, $words:expr; $since:literal $name:ident $label:literal $kind:ident $(($($part:tt)*))?; $($rest:tt)*) => {
        accessors!(@one $base, $bytes, $words; $since $name $label $kind ($($($part)*)?));
        accessors!(
            $base,
            $bytes + const { $crate::clr::Kind::$kind.bytes() },
            $words + const { $crate::clr::Kind::$kind.words() };
            $($rest)*
        );
    };
    (@one $base:ident, $bytes:expr, $words:expr; $since:literal $name:ident $label:literal $kind:ident ($($part:tt)*)) => {
        #[doc = concat!("`", $label, "`", part!(@unit_text $($part)*), part!(@text $($part)*), "; since version ", $since, ".")]
        pub fn $name(&self) -> Option<value_of!($kind)> {
            let at = self.since($since)? + self.$base()? + $bytes + ($words) * self.payload.pointer();
            read!($kind, self.payload, at)
        }
    };
}

/// Generates the table of the fields of an event, and of its rows.
macro_rules! fields {
    (@head {
        $($since:literal $name:ident $label:literal $kind:ident $(of $length:ident)? $(then $after:ident)? $(($($part:tt)*))?;)*
        $(rows $($row:tt)*)?
    }) => {
        &[$($crate::clr::Field {
            name: $label,
            since: $since,
            kind: $crate::clr::Kind::$kind,
            file_name: part!(@name $label; $($($part)*)?),
            file_kind: part!(@kind $kind; $($($part)*)?),
            unit: part!(@unit $($($part)*)?),
            doc: part!(@doc $($($part)*)?),
            labels: part!(@labels $($($part)*)?),
        }),*]
    };
    (@rows { $since:literal $name:ident $label:literal $kind:ident $(of $length:ident)? $(then $after:ident)? $(($($part:tt)*))?; $($rest:tt)* }) => {
        fields!(@rows { $($rest)* })
    };
    (@rows { rows $row:ident $(<$life:lifetime>)? $([$($place:literal)+])? { $($field:tt)* } }) => {
        fields!(@head { $($field)* })
    };
    (@rows {}) => { &[] };
}

/// Generates the view of an event's payload.
macro_rules! view {
    ($(#[$doc:meta])* $view:ident [$($provider:ident)+] [$event:literal $(, $other:literal)*] [$first:literal $($last:literal)?] $title:literal $body:tt) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug)]
        pub struct $view<'a> {
            version: u32,
            payload: $crate::clr::Payload<'a>,
        }

        impl<'a> $view<'a> {
            /// The number of the event; the first one if several events have the same fields.
            pub const EVENT: u32 = $event;

            /// The declaration as data.
            pub const TEMPLATE: &'static $crate::clr::Template = &$crate::clr::Template {
                providers: &[$($crate::clr::Provider::$provider),+],
                events: &[$event $(, $other)*],
                versions: view!(@versions $first $($last)?),
                name: $title,
                fields: fields!(@head $body),
                rows: fields!(@rows $body),
            };

            /// Creates a view of a payload.
            pub fn new(version: u32, payload: $crate::clr::Payload<'a>) -> $view<'a> {
                $view { version, payload }
            }

            /// The offset of the first field.
            #[allow(dead_code)]
            fn head(&self) -> Option<usize> {
                Some(0)
            }

            /// Returns 0, to be added to an offset, if the event has the fields of this version.
            fn since(&self, version: u32) -> Option<usize> {
                (self.version >= version).then_some(0)
            }

            view!(@accessors $body);
        }

        view!(@row $view $body);
    };
    (@row $view:ident {
        $since:literal $name:ident $label:literal $kind:ident $(of $length:ident)? $(then $after:ident)? $(($($part:tt)*))?; $($rest:tt)*
    }) => {
        view!(@row $view { $($rest)* });
    };
    (@row $view:ident { rows $row:ident $(<$life:lifetime>)? $([$($place:literal)+])? { $($field:tt)* } }) => {
        #[doc = concat!("A row of [`", stringify!($view), "`].")]
        #[derive(Clone, Copy, Debug)]
        pub struct $row<'a> {
            version: u32,
            payload: $crate::clr::Payload<'a>,
            /// The offset of its first field.
            at: usize,
        }

        impl<'a> $row<'a> {
            fn head(&self) -> Option<usize> {
                Some(self.at)
            }

            /// Returns 0, to be added to an offset, if the event has the fields of this version.
            fn since(&self, version: u32) -> Option<usize> {
                (self.version >= version).then_some(0)
            }

            accessors!(head, 0, 0; $($field)* end);
        }
    };
    (@row $view:ident {}) => {};
    (@accessors { $($field:tt)* }) => { accessors!(head, 0, 0; $($field)*); };
    (@versions $first:literal) => { $first..=u32::MAX };
    (@versions $first:literal $last:literal) => { $first..=$last };
}

/// Declares events; see the module's documentation.
macro_rules! templates {
    ($(
        $(#[$doc:meta])*
        $view:ident = $($provider:ident)|+ [$($event:literal),+] $first:literal $(to $last:literal)? $title:literal
        $(written $written:ident $(<$life:lifetime>)? ($($place:tt)*))*
        { $($body:tt)* }
    )*) => {
        $(
            view! { $(#[$doc])* $view [$($provider)+] [$($event),+] [$first $($last)?] $title { $($body)* } }
        )*

        /// The structs for writing the events of this file.
        pub(super) mod written {
            $(templates! { @written [$($written [$($life)?] ($($place)*))*] [$(#[$doc])*] $view { $($body)* } })*

            /// The definitions of all these events.
            #[allow(unused_imports, reason = "a file may have none")]
            pub(in crate::clr) const DEFINITIONS: &[&$crate::clr::Definition] = &[
                $($(<$written as $crate::clr::Encode>::DEFINITION,)*)*
            ];
        }

        /// The templates of the events in this source file.
        pub(super) const TEMPLATES: &[&$crate::clr::Template] = &[$($view::TEMPLATE),*];
    };
    (@written [$($written:ident $life:tt $place:tt)*] $doc:tt $view:ident $body:tt) => {
        $(written! { event { $written $life $place $doc $view } $body })*
    };
}
