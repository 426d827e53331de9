//! A deserializer of any type, as a trait object. It is used where the type of what is read and the type of the deserializer meet at run time.
//!
//! The crate erased-serde has one, too, which keeps what was read in memory of malloc on the way. There the collector does not look, so
//! an object that was read could be freed before it is referred to. Here each value stays on the stack: the side that wants a value makes a
//! *slot* for it, and the other side fills the slot.

use std::fmt::{self, Display};

use ::serde::de::{self, DeserializeSeed, Deserializer, EnumAccess, MapAccess, SeqAccess, VariantAccess, Visitor};

use super::failure::Failure;

type Outcome = Result<(), Failure>;

fn failure<E: Display>(error: E) -> Failure {
    Failure(error.to_string())
}

/// A value that is used once.
struct Once<T>(Option<T>);

impl<T> Once<T> {
    fn new(value: T) -> Self {
        Self(Some(value))
    }

    fn take(&mut self) -> Result<T, Failure> {
        self.0.take().ok_or_else(|| Failure("a deserializer asks twice for a value".to_owned()))
    }
}

/// What is left in a slot that the other side should have filled.
fn filled<T>(value: Option<T>) -> Result<T, Failure> {
    value.ok_or_else(|| Failure("a deserializer gives no value".to_owned()))
}

/// A visitor and the place of its value.
struct VisitorSlot<'de, V: Visitor<'de>> {
    visitor: Once<V>,
    value: Option<V::Value>,
}

/// A seed and the place of its value.
struct SeedSlot<'de, S: DeserializeSeed<'de>> {
    seed: Once<S>,
    value: Option<S::Value>,
}

impl<'de, S: DeserializeSeed<'de>> SeedSlot<'de, S> {
    fn new(seed: S) -> Self {
        Self { seed: Once::new(seed), value: None }
    }
}

pub(super) trait AnySeed<'de> {
    fn fill(&mut self, deserializer: &mut dyn AnyDeserializer<'de>) -> Outcome;
}

impl<'de, S: DeserializeSeed<'de>> AnySeed<'de> for SeedSlot<'de, S> {
    fn fill(&mut self, deserializer: &mut dyn AnyDeserializer<'de>) -> Outcome {
        self.value = Some(self.seed.take()?.deserialize(deserializer)?);
        Ok(())
    }
}

impl<'de> DeserializeSeed<'de> for &mut (dyn AnySeed<'de> + '_) {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        self.fill(&mut Once::new(deserializer)).map_err(de::Error::custom)
    }
}

pub(super) trait AnySeq<'de> {
    /// Fills the seed from the next element. Returns whether there was one.
    fn next(&mut self, seed: &mut dyn AnySeed<'de>) -> Result<bool, Failure>;
    fn hint(&self) -> Option<usize>;
}

impl<'de, A: SeqAccess<'de>> AnySeq<'de> for A {
    fn next(&mut self, seed: &mut dyn AnySeed<'de>) -> Result<bool, Failure> {
        Ok(self.next_element_seed(seed).map_err(failure)?.is_some())
    }

    fn hint(&self) -> Option<usize> {
        self.size_hint()
    }
}

/// The sequence for the visitor that wants it.
struct Seq<'a, 'de>(&'a mut dyn AnySeq<'de>);

impl<'de> SeqAccess<'de> for Seq<'_, 'de> {
    type Error = Failure;

    fn next_element_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<Option<S::Value>, Failure> {
        let mut slot = SeedSlot::new(seed);
        if self.0.next(&mut slot)? { filled(slot.value).map(Some) } else { Ok(None) }
    }

    fn size_hint(&self) -> Option<usize> {
        self.0.hint()
    }
}

pub(super) trait AnyMap<'de> {
    /// Fills the seed from the next key. Returns whether there was one.
    fn next_key(&mut self, seed: &mut dyn AnySeed<'de>) -> Result<bool, Failure>;
    fn next_value(&mut self, seed: &mut dyn AnySeed<'de>) -> Outcome;
    fn hint(&self) -> Option<usize>;
}

impl<'de, A: MapAccess<'de>> AnyMap<'de> for A {
    fn next_key(&mut self, seed: &mut dyn AnySeed<'de>) -> Result<bool, Failure> {
        Ok(self.next_key_seed(seed).map_err(failure)?.is_some())
    }

    fn next_value(&mut self, seed: &mut dyn AnySeed<'de>) -> Outcome {
        self.next_value_seed(seed).map_err(failure)
    }

    fn hint(&self) -> Option<usize> {
        self.size_hint()
    }
}

/// The map for the visitor that wants it.
struct Map<'a, 'de>(&'a mut dyn AnyMap<'de>);

impl<'de> MapAccess<'de> for Map<'_, 'de> {
    type Error = Failure;

    fn next_key_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<Option<S::Value>, Failure> {
        let mut slot = SeedSlot::new(seed);
        if self.0.next_key(&mut slot)? { filled(slot.value).map(Some) } else { Ok(None) }
    }

    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, Failure> {
        let mut slot = SeedSlot::new(seed);
        self.0.next_value(&mut slot)?;
        filled(slot.value)
    }

    fn size_hint(&self) -> Option<usize> {
        self.0.hint()
    }
}

/// An enum of which nothing is read, or the name of the variant.
enum Progress<A, V> {
    Enum(A),
    Variant(V),
}

pub(super) trait AnyEnum<'de> {
    fn variant(&mut self, seed: &mut dyn AnySeed<'de>) -> Outcome;
    fn unit(&mut self) -> Outcome;
    fn newtype(&mut self, seed: &mut dyn AnySeed<'de>) -> Outcome;
    fn tuple(&mut self, length: usize, visitor: &mut dyn AnyVisitor<'de>) -> Outcome;
    fn structure(&mut self, fields: &'static [&'static str], visitor: &mut dyn AnyVisitor<'de>) -> Outcome;
}

impl<'de, A: EnumAccess<'de>> Once<Progress<A, A::Variant>> {
    fn take_variant(&mut self) -> Result<A::Variant, Failure> {
        match self.take()? {
            Progress::Variant(variant) => Ok(variant),
            Progress::Enum(_) => Err(Failure("the value of a variant is read before its name".to_owned())),
        }
    }
}

impl<'de, A: EnumAccess<'de>> AnyEnum<'de> for Once<Progress<A, A::Variant>> {
    fn variant(&mut self, seed: &mut dyn AnySeed<'de>) -> Outcome {
        let Progress::Enum(of) = self.take()? else {
            return Err(Failure("the name of a variant is read twice".to_owned()));
        };
        let ((), variant) = of.variant_seed(seed).map_err(failure)?;
        self.0 = Some(Progress::Variant(variant));
        Ok(())
    }

    fn unit(&mut self) -> Outcome {
        self.take_variant()?.unit_variant().map_err(failure)
    }

    fn newtype(&mut self, seed: &mut dyn AnySeed<'de>) -> Outcome {
        self.take_variant()?.newtype_variant_seed(seed).map_err(failure)
    }

    fn tuple(&mut self, length: usize, visitor: &mut dyn AnyVisitor<'de>) -> Outcome {
        self.take_variant()?.tuple_variant(length, visitor).map_err(failure)
    }

    fn structure(&mut self, fields: &'static [&'static str], visitor: &mut dyn AnyVisitor<'de>) -> Outcome {
        self.take_variant()?.struct_variant(fields, visitor).map_err(failure)
    }
}

/// The enum for the visitor that wants it, then its variant.
struct Enum<'a, 'de>(&'a mut dyn AnyEnum<'de>);

impl<'de> EnumAccess<'de> for Enum<'_, 'de> {
    type Error = Failure;
    type Variant = Self;

    fn variant_seed<S: DeserializeSeed<'de>>(self, seed: S) -> Result<(S::Value, Self), Failure> {
        let mut slot = SeedSlot::new(seed);
        self.0.variant(&mut slot)?;
        Ok((filled(slot.value)?, self))
    }
}

impl<'de> VariantAccess<'de> for Enum<'_, 'de> {
    type Error = Failure;

    fn unit_variant(self) -> Outcome {
        self.0.unit()
    }

    fn newtype_variant_seed<S: DeserializeSeed<'de>>(self, seed: S) -> Result<S::Value, Failure> {
        let mut slot = SeedSlot::new(seed);
        self.0.newtype(&mut slot)?;
        filled(slot.value)
    }

    fn tuple_variant<V: Visitor<'de>>(self, length: usize, visitor: V) -> Result<V::Value, Failure> {
        visited(visitor, |slot| self.0.tuple(length, slot))
    }

    fn struct_variant<V: Visitor<'de>>(self, fields: &'static [&'static str], visitor: V) -> Result<V::Value, Failure> {
        visited(visitor, |slot| self.0.structure(fields, slot))
    }
}

/// Returns the value of a visitor that `read` visits.
fn visited<'de, V: Visitor<'de>>(
    visitor: V,
    read: impl FnOnce(&mut dyn AnyVisitor<'de>) -> Outcome,
) -> Result<V::Value, Failure> {
    let mut slot = VisitorSlot { visitor: Once::new(visitor), value: None };
    read(&mut slot)?;
    filled(slot.value)
}

/// The visitor's functions for simple values: `visit_NAME(TYPE)`.
macro_rules! simple_values {
    ($($name:ident($type:ty);)*) => {
        pub(super) trait AnyVisitor<'de> {
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result;
            $(fn $name(&mut self, value: $type) -> Outcome;)*
            fn visit_none(&mut self) -> Outcome;
            fn visit_unit(&mut self) -> Outcome;
            fn visit_some(&mut self, deserializer: &mut dyn AnyDeserializer<'de>) -> Outcome;
            fn visit_newtype_struct(&mut self, deserializer: &mut dyn AnyDeserializer<'de>) -> Outcome;
            fn visit_seq(&mut self, sequence: &mut dyn AnySeq<'de>) -> Outcome;
            fn visit_map(&mut self, map: &mut dyn AnyMap<'de>) -> Outcome;
            fn visit_enum(&mut self, of: &mut dyn AnyEnum<'de>) -> Outcome;
        }

        impl<'de, V: Visitor<'de>> AnyVisitor<'de> for VisitorSlot<'de, V> {
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.visitor.0.as_ref().map_or(Ok(()), |visitor| visitor.expecting(f))
            }

            $(fn $name(&mut self, value: $type) -> Outcome {
                self.value = Some(self.visitor.take()?.$name(value)?);
                Ok(())
            })*

            fn visit_none(&mut self) -> Outcome {
                self.value = Some(self.visitor.take()?.visit_none()?);
                Ok(())
            }

            fn visit_unit(&mut self) -> Outcome {
                self.value = Some(self.visitor.take()?.visit_unit()?);
                Ok(())
            }

            fn visit_some(&mut self, deserializer: &mut dyn AnyDeserializer<'de>) -> Outcome {
                self.value = Some(self.visitor.take()?.visit_some(deserializer)?);
                Ok(())
            }

            fn visit_newtype_struct(&mut self, deserializer: &mut dyn AnyDeserializer<'de>) -> Outcome {
                self.value = Some(self.visitor.take()?.visit_newtype_struct(deserializer)?);
                Ok(())
            }

            fn visit_seq(&mut self, sequence: &mut dyn AnySeq<'de>) -> Outcome {
                self.value = Some(self.visitor.take()?.visit_seq(Seq(sequence))?);
                Ok(())
            }

            fn visit_map(&mut self, map: &mut dyn AnyMap<'de>) -> Outcome {
                self.value = Some(self.visitor.take()?.visit_map(Map(map))?);
                Ok(())
            }

            fn visit_enum(&mut self, of: &mut dyn AnyEnum<'de>) -> Outcome {
                self.value = Some(self.visitor.take()?.visit_enum(Enum(of))?);
                Ok(())
            }
        }

        impl<'de> Visitor<'de> for &mut (dyn AnyVisitor<'de> + '_) {
            type Value = ();

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                AnyVisitor::expecting(&**self, f)
            }

            $(fn $name<E: de::Error>(self, value: $type) -> Result<(), E> {
                AnyVisitor::$name(self, value).map_err(E::custom)
            })*

            fn visit_none<E: de::Error>(self) -> Result<(), E> {
                AnyVisitor::visit_none(self).map_err(E::custom)
            }

            fn visit_unit<E: de::Error>(self) -> Result<(), E> {
                AnyVisitor::visit_unit(self).map_err(E::custom)
            }

            fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
                AnyVisitor::visit_some(self, &mut Once::new(deserializer)).map_err(de::Error::custom)
            }

            fn visit_newtype_struct<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
                AnyVisitor::visit_newtype_struct(self, &mut Once::new(deserializer)).map_err(de::Error::custom)
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut sequence: A) -> Result<(), A::Error> {
                AnyVisitor::visit_seq(self, &mut sequence).map_err(de::Error::custom)
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
                AnyVisitor::visit_map(self, &mut map).map_err(de::Error::custom)
            }

            fn visit_enum<A: EnumAccess<'de>>(self, of: A) -> Result<(), A::Error> {
                AnyVisitor::visit_enum(self, &mut Once::new(Progress::Enum(of))).map_err(de::Error::custom)
            }
        }
    };
}

simple_values! {
    visit_bool(bool);
    visit_i8(i8);
    visit_i16(i16);
    visit_i32(i32);
    visit_i64(i64);
    visit_i128(i128);
    visit_u8(u8);
    visit_u16(u16);
    visit_u32(u32);
    visit_u64(u64);
    visit_u128(u128);
    visit_f32(f32);
    visit_f64(f64);
    visit_char(char);
    visit_str(&str);
    visit_borrowed_str(&'de str);
    visit_string(String);
    visit_bytes(&[u8]);
    visit_borrowed_bytes(&'de [u8]);
    visit_byte_buf(Vec<u8>);
}

/// The functions of a deserializer: `deserialize_NAME(ARGUMENTS)`.
macro_rules! functions {
    ($($name:ident($($argument:ident: $type:ty),*);)*) => {
        /// A deserializer that is used once.
        pub(super) trait AnyDeserializer<'de> {
            $(fn $name(&mut self, $($argument: $type,)* visitor: &mut dyn AnyVisitor<'de>) -> Outcome;)*
            fn human_readable(&self) -> bool;
        }

        impl<'de, D: Deserializer<'de>> AnyDeserializer<'de> for Once<D> {
            $(fn $name(&mut self, $($argument: $type,)* visitor: &mut dyn AnyVisitor<'de>) -> Outcome {
                self.take()?.$name($($argument,)* visitor).map_err(failure)
            })*

            fn human_readable(&self) -> bool {
                self.0.as_ref().is_none_or(|deserializer| deserializer.is_human_readable())
            }
        }

        impl<'de> Deserializer<'de> for &mut (dyn AnyDeserializer<'de> + '_) {
            type Error = Failure;

            $(fn $name<V: Visitor<'de>>(self, $($argument: $type,)* visitor: V) -> Result<V::Value, Failure> {
                visited(visitor, |slot| AnyDeserializer::$name(self, $($argument,)* slot))
            })*

            fn is_human_readable(&self) -> bool {
                self.human_readable()
            }
        }
    };
}

functions! {
    deserialize_any();
    deserialize_bool();
    deserialize_i8();
    deserialize_i16();
    deserialize_i32();
    deserialize_i64();
    deserialize_i128();
    deserialize_u8();
    deserialize_u16();
    deserialize_u32();
    deserialize_u64();
    deserialize_u128();
    deserialize_f32();
    deserialize_f64();
    deserialize_char();
    deserialize_str();
    deserialize_string();
    deserialize_bytes();
    deserialize_byte_buf();
    deserialize_option();
    deserialize_unit();
    deserialize_unit_struct(name: &'static str);
    deserialize_newtype_struct(name: &'static str);
    deserialize_seq();
    deserialize_tuple(length: usize);
    deserialize_tuple_struct(name: &'static str, length: usize);
    deserialize_map();
    deserialize_struct(name: &'static str, fields: &'static [&'static str]);
    deserialize_enum(name: &'static str, variants: &'static [&'static str]);
    deserialize_identifier();
    deserialize_ignored_any();
}

/// Calls `read` with a deserializer whose type is not known there.
pub(super) fn with_erased<'de, D: Deserializer<'de>>(
    deserializer: D,
    read: impl FnOnce(&mut dyn AnyDeserializer<'de>) -> Result<(), Failure>,
) -> Result<(), D::Error> {
    read(&mut Once::new(deserializer)).map_err(de::Error::custom)
}
