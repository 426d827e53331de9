//! Any event with its payload.

use super::descriptor::{MAX_PAYLOAD_BYTES, PAYLOAD_WORDS};
use super::id::EventId;
use super::payload;

macro_rules! any_event {
    ({$(
        $(#[doc = $doc:literal])+
        $name:ident / $fire:ident in $group:ident $row:tt
    )+}) => {
        /// Any event with its payload: what a consumer matches on.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[non_exhaustive]
        pub enum Event {$(
            $(#[doc = $doc])+
            $name(payload::$name),
        )+}

        impl Event {
            pub(in crate::events) fn from_words(id: EventId, words: &[u64; PAYLOAD_WORDS]) -> Event {
                match id {
                    $(EventId::$name => Event::$name(payload::$name::from_words(words)),)+
                }
            }

            /// Which event it is.
            pub fn id(&self) -> EventId {
                match self {
                    $(Event::$name(_) => EventId::$name,)+
                }
            }

            /// Its payload in order, little-endian, without padding, at the beginning of `buffer`.
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
