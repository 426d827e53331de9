//! Readers of serialized payloads, with a method for each field. Nothing is copied. Reading a field that the payload's version does not
//! have, or that lies beyond the end of the bytes, is an error.

use super::descriptor::{FIELDS, FieldType, index_of};
use super::id::EventId;
pub use super::view::{FieldError, View};

macro_rules! templates {
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
        #[derive(Clone, Copy, Debug)]
        pub struct $name<'a>(View<'a>);

        impl<'a> $name<'a> {
            /// Creates a reader of the bytes of a payload of this version.
            #[inline]
            pub fn at(bytes: &'a [u8], version: u8) -> $name<'a> {
                $name(View::at(EventId::$name, bytes, version))
            }

            $(
                #[doc = $fdoc]
                ///
                /// # Errors
                /// The version has no such field, or the bytes end before it.
                #[inline]
                pub fn $field(&self) -> Result<$type, FieldError> {
                    const INDEX: usize = index_of(FIELDS[EventId::$name as usize], stringify!($field));
                    self.0.field(INDEX).map(<$type as FieldType>::from_word)
                }
            )*

            /// Returns the same payload as a [`View`], whose fields are read by index or name.
            pub fn view(&self) -> View<'a> {
                self.0
            }
        }
    )+};
}

for_each_event!(templates);
