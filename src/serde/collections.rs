//! The collections, as those of std.

use std::fmt;
use std::hash::{BuildHasher, Hash};
use std::marker::PhantomData;

use ::serde::Deserialize;
use ::serde::de::{self, Deserializer, MapAccess, SeqAccess};
use ::serde::ser::{Serialize, Serializer};

use super::session::mutator;
use crate::{Gc, GcDeque, GcHashMap, GcHashSet, GcString, GcVec, Trace};

/// A collection that is a sequence: how it is written, and how an element is added.
macro_rules! sequences {
    ($($name:ident<T $(, $hasher:ident)?> ($($bound:tt)*) $add:ident;)+) => {
        $(
            impl<T: Trace + Serialize $(, $hasher)?> Serialize for $name<T $(, $hasher)?> {
                fn serialize<Out: Serializer>(&self, serializer: Out) -> Result<Out::Ok, Out::Error> {
                    serializer.collect_seq(self.iter())
                }
            }

            impl<'de, T: Trace + Deserialize<'de> $($bound)* $(, $hasher: BuildHasher + Default)?> Deserialize<'de>
                for $name<T $(, $hasher)?>
            {
                fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                    struct Elements<C>(PhantomData<C>);
                    impl<'de, T: Trace + Deserialize<'de> $($bound)* $(, $hasher: BuildHasher + Default)?>
                        de::Visitor<'de> for Elements<$name<T $(, $hasher)?>>
                    {
                        type Value = $name<T $(, $hasher)?>;

                        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                            f.write_str("a sequence")
                        }

                        fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<Self::Value, A::Error> {
                            mutator(
                                |mutator| {
                                    let mut all = Self::Value::default();
                                    while let Some(element) = elements.next_element()? {
                                        all.$add(mutator, element).map_err(de::Error::custom)?;
                                    }
                                    Ok(all)
                                },
                                de::Error::custom,
                            )
                        }
                    }
                    deserializer.deserialize_seq(Elements(PhantomData))
                }
            }
        )+
    };
}

sequences! {
    GcVec<T> () push;
    GcDeque<T> () push_back;
    GcHashSet<T, S> (+ Eq + Hash) insert;
}

impl<K: Trace + Serialize, V: Trace + Serialize, S> Serialize for GcHashMap<K, V, S> {
    fn serialize<Out: Serializer>(&self, serializer: Out) -> Result<Out::Ok, Out::Error> {
        serializer.collect_map(self.iter())
    }
}

impl<'de, K, V, S> Deserialize<'de> for GcHashMap<K, V, S>
where
    K: Trace + Eq + Hash + Deserialize<'de>,
    V: Trace + Deserialize<'de>,
    S: BuildHasher + Default,
{
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Entries<C>(PhantomData<C>);
        impl<'de, K, V, S> de::Visitor<'de> for Entries<GcHashMap<K, V, S>>
        where
            K: Trace + Eq + Hash + Deserialize<'de>,
            V: Trace + Deserialize<'de>,
            S: BuildHasher + Default,
        {
            type Value = GcHashMap<K, V, S>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a map")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Self::Value, A::Error> {
                mutator(
                    |mutator| {
                        let mut map = Self::Value::default();
                        while let Some(key) = entries.next_key()? {
                            map.insert(mutator, key, entries.next_value()?).map_err(de::Error::custom)?;
                        }
                        Ok(map)
                    },
                    de::Error::custom,
                )
            }
        }
        deserializer.deserialize_map(Entries(PhantomData))
    }
}

impl Serialize for GcString {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self)
    }
}

impl<'de> Deserialize<'de> for GcString {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Gc::<str>::deserialize(deserializer)?;
        mutator(|mutator| Self::from_str(mutator, &text).map_err(de::Error::custom), de::Error::custom)
    }
}
