//! The payloads of the events: a plain struct of fixed size per event.

use super::descriptor::{FIELDS, FieldType, PAYLOAD_WORDS, offset_of};
use super::id::EventId;
use super::template;
use super::view::FieldError;

macro_rules! payloads {
    ({$(
        $(#[doc = $doc:literal])+
        $name:ident / $fire:ident in $group:ident {
            net $net:tt
            mps $mps:tt
            ghc $ghc:tt
            $(usdt $probe:tt)?
            fields {$($field:ident: $type:ident [$unit:ident] $fdoc:literal $(since $since:literal)?),* $(,)?}
        }
    )+}) => {$(
        $(#[doc = $doc])+
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[non_exhaustive]
        pub struct $name {$(
            #[doc = $fdoc]
            pub $field: $type,
        )*}

        impl $name {
            /// Size of the serialized payload.
            pub const BYTES: usize = {
                let fields = FIELDS[EventId::$name as usize];
                offset_of(fields, fields.len())
            };

            /// Returns the fields in order, little-endian, without padding.
            #[allow(unused_mut, unused_variables, unused_assignments, reason = "an event may have no fields")]
            pub fn serialize(&self) -> [u8; Self::BYTES] {
                let mut bytes = [0; Self::BYTES];
                let mut rest = &mut bytes[..];
                $(
                    let (field, behind) = rest.split_at_mut(<$type as FieldType>::KIND.bytes());
                    field.copy_from_slice(&self.$field.to_le_bytes());
                    rest = behind;
                )*
                bytes
            }

            /// Reads a payload of `version`: the inverse of [`serialize`](Self::serialize). Bytes after the last field, which a later
            /// version has, are ignored.
            ///
            /// # Errors
            /// The version does not have all fields yet, or there are too few bytes.
            #[allow(unused_variables, reason = "an event may have no fields")]
            pub fn deserialize(bytes: &[u8], version: u8) -> Result<$name, FieldError> {
                let template = template::$name::at(bytes, version);
                Ok($name { $($field: template.$field()?),* })
            }

            #[inline]
            #[allow(unused_mut, unused_variables, unused_assignments, reason = "an event may have no fields")]
            pub(super) fn from_words(words: &[u64; PAYLOAD_WORDS]) -> $name {
                let mut next = words.iter();
                // The default is never used: no event has more fields than a record has words, as the assertion below checks.
                $(let $field = <$type as FieldType>::from_word(next.next().copied().unwrap_or_default());)*
                $name { $($field),* }
            }
        }

        const _: () = assert!(
            FIELDS[EventId::$name as usize].len() <= PAYLOAD_WORDS,
            "an event has more fields than a record has words"
        );
    )+};
}

for_each_event!(payloads);
