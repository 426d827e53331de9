//! An event of any kind with its payload.

use super::descriptor::{MAX_PAYLOAD_BYTES, PAYLOAD_WORDS};
use super::id::EventId;
use super::payload;

macro_rules! any_event {
    ({$(
        $(#[doc = $doc:literal])+
        $name:ident / $fire:ident in $group:ident $row:tt
    )+}) => {
        /// An event of any kind with its payload, for a consumer to match on.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[non_exhaustive]
        pub enum Event {$(
            $(#[doc = $doc])+
            $name(payload::$name),
        )+}

        impl Event {
            #[inline(always)]
            pub(in crate::events) fn from_words(id: EventId, words: &[u64; PAYLOAD_WORDS]) -> Event {
                match id {
                    $(EventId::$name => Event::$name(payload::$name::from_words(words)),)+
                }
            }

            /// Returns which event it is.
            pub fn id(&self) -> EventId {
                match self {
                    $(Event::$name(_) => EventId::$name,)+
                }
            }

            /// Writes the payload to the beginning of `buffer`, its fields in order, little-endian, without padding. Returns the bytes
            /// written.
            pub fn serialize<'b>(&self, buffer: &'b mut [u8; MAX_PAYLOAD_BYTES]) -> &'b [u8] {
                let length = match self {
                    $(Event::$name(payload) => {
                        buffer[..payload::$name::BYTES].copy_from_slice(&payload.serialize());
                        payload::$name::BYTES
                    })+
                };
                &buffer[..length]
            }
        }
    };
}

for_each_event!(any_event);
