//! References to objects.

use std::any::type_name;
use std::cell::RefCell;
use std::collections::HashSet;
use std::fmt;
use std::marker::PhantomData;

use ::serde::Deserialize;
use ::serde::de::{self, DeserializeSeed, Deserializer, EnumAccess, SeqAccess, VariantAccess};
use ::serde::ser::{self, Serialize, SerializeTupleVariant, Serializer};

use super::session::{GraphState, Meeting, Places, VisitObject, graph, mutator};
use crate::{ByAddress, Gc, GcVec, Leaf, Root, Trace};

const NAME: &str = "Gc";
const VARIANTS: &[&str] = &["object", "same"];

thread_local! {
    /// The objects that are being serialized without numbers, each inside the one before it.
    static OUTER: RefCell<HashSet<usize>> = RefCell::default();
}

/// Serializes an object as its value.
fn write_value<T: ?Sized + Serialize, S: Serializer>(object: Gc<T>, serializer: S) -> Result<S::Ok, S::Error> {
    struct Remove(usize);
    impl Drop for Remove {
        fn drop(&mut self) {
            let _ = OUTER.try_with(|outer| outer.borrow_mut().remove(&self.0));
        }
    }
    // In the destructor of another thread-local variable there may be no set: then a cycle is not found.
    let is_new = OUTER.try_with(|outer| outer.borrow_mut().insert(Gc::addr(object)));
    if is_new == Ok(false) {
        return Err(ser::Error::custom(format!(
            "an object of type `{}` is part of itself, by a cycle of references: serialize a `stopworld::serde::Graph`",
            type_name::<T>()
        )));
    }
    let _remove = Remove(Gc::addr(object));
    object.as_ref().serialize(serializer)
}

/// Serializes a reference as the module says.
fn write<T, S>(object: Gc<T>, serializer: S) -> Result<S::Ok, S::Error>
where
    T: ?Sized + Serialize + 'static,
    S: Serializer,
{
    graph(|graph| {
        let Some(graph) = graph else { return write_value(object, serializer) };
        if graph.places() == Places::Visited {
            // The object has a visit of its own.
            return serializer.serialize_unit();
        }
        let meeting = mutator(|mutator| graph.meet(mutator, object).map_err(ser::Error::custom), ser::Error::custom)?;
        match meeting {
            Meeting::First(number) => graph.write(number, object, || {
                let mut variant = serializer.serialize_tuple_variant(NAME, 0, VARIANTS[0], 2)?;
                variant.serialize_field(&number)?;
                variant.serialize_field(object.as_ref())?;
                variant.end()
            }),
            Meeting::Again(number) => serializer.serialize_newtype_variant(NAME, 1, VARIANTS[1], &number),
            Meeting::Cycle => Err(ser::Error::custom(format!(
                "an object of type `{}` refers to itself by fields that cannot change",
                type_name::<T>()
            ))),
        }
    })
}

/// As the value of the object; in a [`Graph`](super::Graph), with its number, or as its number.
impl<T: Serialize + 'static> Serialize for Gc<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        write(*self, serializer)
    }
}

/// As the elements of the array; in a [`Graph`](super::Graph), with its number, or as its number.
impl<T: Serialize + 'static> Serialize for Gc<[T]> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        write(*self, serializer)
    }
}

/// As the text, also in a [`Graph`](super::Graph).
impl Serialize for Gc<str> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self)
    }
}

/// Reads the value of an object, and allocates it.
trait Allocate<'de>: VisitObject + Sized {
    fn allocate<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error>;
}

impl<'de, T: Trace + Serialize + Deserialize<'de>> Allocate<'de> for Gc<T> {
    fn allocate<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = T::deserialize(deserializer)?;
        mutator(|mutator| mutator.alloc(value).map_err(de::Error::custom), de::Error::custom)
    }
}

impl<'de, T: Trace + Serialize + Deserialize<'de>> Allocate<'de> for Gc<[T]> {
    fn allocate<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let elements = GcVec::<T>::deserialize(deserializer)?;
        mutator(|mutator| elements.into_slice(mutator).map_err(de::Error::custom), de::Error::custom)
    }
}

/// Deserializes a reference as the module says.
fn read<'de, T, D>(deserializer: D) -> Result<Gc<T>, D::Error>
where
    T: ?Sized + 'static,
    Gc<T>: Allocate<'de>,
    D: Deserializer<'de>,
{
    graph(|graph| match graph {
        None => Gc::allocate(deserializer),
        Some(graph) => deserializer.deserialize_enum(NAME, VARIANTS, ReadReference { graph, object: PhantomData }),
    })
}

impl<'de, T: Trace + Serialize + Deserialize<'de>> Deserialize<'de> for Gc<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        read(deserializer)
    }
}

impl<'de, T: Trace + Serialize + Deserialize<'de>> Deserialize<'de> for Gc<[T]> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        read(deserializer)
    }
}

impl<'de> Deserialize<'de> for Gc<str> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Text;
        impl de::Visitor<'_> for Text {
            type Value = Gc<str>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a text")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Gc<str>, E> {
                mutator(|mutator| mutator.alloc_str(text).map_err(E::custom), E::custom)
            }
        }
        deserializer.deserialize_str(Text)
    }
}

/// The variants of a reference in a graph.
#[derive(::serde::Deserialize)]
#[serde(variant_identifier, rename_all = "lowercase")]
enum Variant {
    Object,
    Same,
}

struct ReadReference<'a, T: ?Sized> {
    graph: &'a GraphState,
    object: PhantomData<Gc<T>>,
}

impl<'de, T: ?Sized + 'static> de::Visitor<'de> for ReadReference<'_, T>
where
    Gc<T>: Allocate<'de>,
{
    type Value = Gc<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a reference of a graph, `object` or `same`")
    }

    fn visit_enum<A: EnumAccess<'de>>(self, reference: A) -> Result<Gc<T>, A::Error> {
        match reference.variant()? {
            (Variant::Object, object) => object.tuple_variant(2, ReadObject { graph: self.graph, object: self.object }),
            (Variant::Same, number) => self.graph.same(number.newtype_variant()?).map_err(de::Error::custom),
        }
    }
}

/// Reads the number of an object and its value.
struct ReadObject<'a, T: ?Sized> {
    graph: &'a GraphState,
    object: PhantomData<Gc<T>>,
}

impl<'de, T: ?Sized + 'static> de::Visitor<'de> for ReadObject<'_, T>
where
    Gc<T>: Allocate<'de>,
{
    type Value = Gc<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the number of an object and its value")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut parts: A) -> Result<Gc<T>, A::Error> {
        let number = parts.next_element()?.ok_or_else(|| de::Error::invalid_length(0, &self))?;
        let read = || {
            let value = parts.next_element_seed(ReadValue(PhantomData))?;
            value.ok_or_else(|| de::Error::invalid_length(1, &self))
        };
        self.graph.read(number, read, |problem| de::Error::custom(problem))
    }
}

struct ReadValue<T: ?Sized>(PhantomData<Gc<T>>);

impl<'de, T: ?Sized> DeserializeSeed<'de> for ReadValue<T>
where
    Gc<T>: Allocate<'de>,
{
    type Value = Gc<T>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Gc<T>, D::Error> {
        Gc::allocate(deserializer)
    }
}

/// As the reference.
impl<T: ?Sized> Serialize for ByAddress<T>
where
    Gc<T>: Serialize,
{
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

impl<'de, T: ?Sized> Deserialize<'de> for ByAddress<T>
where
    Gc<T>: Deserialize<'de>,
{
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Gc::deserialize(deserializer).map(Self)
    }
}

/// As the reference. In [`with_mutator`](super::with_mutator) only, or this is an error.
impl<T: ?Sized + 'static> Serialize for Root<T>
where
    Gc<T>: Serialize,
{
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        mutator(|mutator| self.get(mutator).serialize(serializer), ser::Error::custom)
    }
}

impl<'de, T: ?Sized + 'static> Deserialize<'de> for Root<T>
where
    Gc<T>: Deserialize<'de>,
{
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let object = Gc::deserialize(deserializer)?;
        mutator(|mutator| Ok(mutator.root(object)), de::Error::custom)
    }
}

/// As its value.
impl<T: Send + Sync + Serialize> Serialize for Leaf<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

impl<'de, T: Send + Sync + Deserialize<'de>> Deserialize<'de> for Leaf<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        T::deserialize(deserializer).map(Self)
    }
}
