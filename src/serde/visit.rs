//! [`Visit`], a serializer that writes nothing: with it, an object's `Serialize` finds the object's cells and locks.

use std::cell::Cell;
use std::fmt::Display;

use ::serde::ser::{self, Serialize, Serializer};

use super::failure::Failure;
use super::scoped::scoped;

/// Writes nothing, and descends into each part of a value.
#[derive(Clone, Copy)]
pub(super) struct Visit {
    /// What the serializer or the deserializer says of its format: a type may be written in another way for that.
    pub(super) is_human_readable: bool,
}

thread_local! {
    /// Identifies the field that is being visited: a hash of its name and those of the fields around it.
    static FIELD: Cell<u32> = const { Cell::new(0) };
}

/// Returns the number that identifies the field that is being visited. It depends on names only, not on the order of the fields.
pub(super) fn current_field() -> u32 {
    FIELD.get()
}

/// Calls `body` for the field `name` of the current one; `None` for a new object.
pub(super) fn in_field<R>(name: Option<&str>, body: impl FnOnce() -> R) -> R {
    // FNV-1a. It is part of the format: see the module's text.
    let hash = |hash: u32, byte: u8| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193);
    FIELD.with(|field| {
        let number = name.map_or(0, |name| name.bytes().fold(field.get() ^ 0x811c_9dc5, hash));
        scoped(field, number, body)
    })
}

/// Serializer functions for values without parts.
macro_rules! nothing {
    ($($name:ident($($argument:ty),*);)*) => {
        $(fn $name(self $(, _: $argument)*) -> Result<(), Failure> {
            Ok(())
        })*
    };
}

impl Serializer for Visit {
    type Ok = ();
    type Error = Failure;
    type SerializeSeq = Self;
    type SerializeTuple = Self;
    type SerializeTupleStruct = Self;
    type SerializeTupleVariant = Self;
    type SerializeMap = Self;
    type SerializeStruct = Self;
    type SerializeStructVariant = Self;

    nothing! {
        serialize_bool(bool);
        serialize_i8(i8);
        serialize_i16(i16);
        serialize_i32(i32);
        serialize_i64(i64);
        serialize_i128(i128);
        serialize_u8(u8);
        serialize_u16(u16);
        serialize_u32(u32);
        serialize_u64(u64);
        serialize_u128(u128);
        serialize_f32(f32);
        serialize_f64(f64);
        serialize_char(char);
        serialize_str(&str);
        serialize_bytes(&[u8]);
        serialize_none();
        serialize_unit();
        serialize_unit_struct(&'static str);
        serialize_unit_variant(&'static str, u32, &'static str);
    }

    fn serialize_some<T: ?Sized + Serialize>(self, value: &T) -> Result<(), Failure> {
        value.serialize(self)
    }

    fn serialize_newtype_struct<T: ?Sized + Serialize>(self, _: &'static str, value: &T) -> Result<(), Failure> {
        value.serialize(self)
    }

    fn serialize_newtype_variant<T: ?Sized + Serialize>(
        self,
        _: &'static str,
        _: u32,
        _: &'static str,
        value: &T,
    ) -> Result<(), Failure> {
        value.serialize(self)
    }

    fn serialize_seq(self, _: Option<usize>) -> Result<Self, Failure> {
        Ok(self)
    }

    fn serialize_tuple(self, _: usize) -> Result<Self, Failure> {
        Ok(self)
    }

    fn serialize_tuple_struct(self, _: &'static str, _: usize) -> Result<Self, Failure> {
        Ok(self)
    }

    fn serialize_tuple_variant(self, _: &'static str, _: u32, _: &'static str, _: usize) -> Result<Self, Failure> {
        Ok(self)
    }

    fn serialize_map(self, _: Option<usize>) -> Result<Self, Failure> {
        Ok(self)
    }

    fn serialize_struct(self, _: &'static str, _: usize) -> Result<Self, Failure> {
        Ok(self)
    }

    fn serialize_struct_variant(self, _: &'static str, _: u32, _: &'static str, _: usize) -> Result<Self, Failure> {
        Ok(self)
    }

    fn collect_str<T: ?Sized + Display>(self, _: &T) -> Result<(), Failure> {
        Ok(())
    }

    fn is_human_readable(&self) -> bool {
        self.is_human_readable
    }
}

/// The traits for compound values without names.
macro_rules! parts {
    ($($trait:ident { $($name:ident)+ })+) => {
        $(impl ser::$trait for Visit {
            type Ok = ();
            type Error = Failure;

            $(fn $name<T: ?Sized + Serialize>(&mut self, part: &T) -> Result<(), Failure> {
                part.serialize(*self)
            })+

            fn end(self) -> Result<(), Failure> {
                Ok(())
            }
        })+
    };
}

parts! {
    SerializeSeq { serialize_element }
    SerializeTuple { serialize_element }
    SerializeTupleStruct { serialize_field }
    SerializeTupleVariant { serialize_field }
    SerializeMap { serialize_key serialize_value }
}

/// The traits for values with named fields.
macro_rules! fields {
    ($($trait:ident)+) => {
        $(impl ser::$trait for Visit {
            type Ok = ();
            type Error = Failure;

            fn serialize_field<T: ?Sized + Serialize>(
                &mut self,
                name: &'static str,
                value: &T,
            ) -> Result<(), Failure> {
                in_field(Some(name), || value.serialize(*self))
            }

            fn end(self) -> Result<(), Failure> {
                Ok(())
            }
        })+
    };
}

fields! { SerializeStruct SerializeStructVariant }
