//! Places whose value can change: cells and locks.

use std::any::Any;
use std::cell::Cell;

use ::serde::Deserialize;
use ::serde::de::{self, DeserializeOwned, Deserializer};
use ::serde::ser::{self, Serialize, Serializer};

use super::erased::AnyDeserializer;
use super::failure::Failure;
use super::session::{CHANGED, GraphState, Places, Reader, any_mutator, graph};
use super::visitor::{Visitor, with_visitor};
use crate::collections::GcMutexGuard;
use crate::{GcCell, GcMutex, Trace, Word};

/// The error of types whose `Serialize` and `Deserialize` differ.
const OTHER_TYPE: &str = "`Serialize` and `Deserialize` of an object do not agree on the types of its cells and locks";

/// What to do with a place that may hold references.
fn action(may_refer: bool) -> Places {
    if may_refer { graph(|graph| graph.map_or(Places::Inline, |graph| graph.places())) } else { Places::Inline }
}

/// Hands the contents of a place to the visitor, or takes them from it.
fn visit_place<V: 'static>(
    write: impl FnOnce(&mut dyn FnMut(&dyn erased_serde::Serialize) -> Result<(), Failure>) -> Result<(), Failure>,
    set: impl FnOnce(V) -> Result<(), Failure>,
) -> Result<(), Failure> {
    graph(|graph| {
        // Only an object of a graph is visited.
        let Some(graph) = graph else { return Ok(()) };
        with_visitor(graph, |visitor| match visitor {
            Visitor::Write(each) => write(each),
            Visitor::Read(each) => {
                let mut contents: Option<V> = None;
                if !each(&mut contents)? {
                    return Ok(());
                }
                set(contents.ok_or_else(|| Failure(OTHER_TYPE.to_owned()))?)
            }
        })
    })
}

/// Writes the number of a field whose contents follow.
fn write_placeholder<S: Serializer>(serializer: S) -> Result<S::Ok, S::Error> {
    let field = graph(|graph| graph.map_or(Some(0), GraphState::defer_writing));
    serializer.serialize_u32(field.ok_or_else(|| ser::Error::custom(CHANGED))?)
}

/// Reads the contents of a place of type `V`.
fn read_contents<V: DeserializeOwned + 'static>(
    contents: &mut dyn Any,
    deserializer: &mut dyn AnyDeserializer<'_>,
) -> Result<(), Failure> {
    let contents = contents.downcast_mut::<Option<V>>().ok_or_else(|| de::Error::custom(OTHER_TYPE))?;
    *contents = Some(V::deserialize(deserializer)?);
    Ok(())
}

/// Reads a place of type `V`: its value, or a placeholder whose contents follow.
fn read_place<'de, V, D>(may_refer: bool, deserializer: D) -> Result<V, D::Error>
where
    V: Default + DeserializeOwned + 'static,
    D: Deserializer<'de>,
{
    if action(may_refer) == Places::Inline {
        return V::deserialize(deserializer);
    }
    let field = u32::deserialize(deserializer)?;
    graph(|graph| graph.map(|graph| graph.defer_reading(Reader { field, read: read_contents::<V> })));
    Ok(V::default())
}

/// As its value. In a [`Graph`](super::Graph), a cell of an object that may hold a reference is the number of its field,
/// and its value follows later.
impl<W: Word + Serialize + 'static> Serialize for GcCell<W> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match action(W::MAY_REFER) {
            Places::Inline => return self.get().serialize(serializer),
            Places::Deferred => return write_placeholder(serializer),
            Places::Visited => visit_place(
                |each| each(&self.get()),
                |value| {
                    self.set(value);
                    Ok(())
                },
            )
            .map_err(ser::Error::custom)?,
        }
        serializer.serialize_unit()
    }
}

impl<'de, W: Word + Default + DeserializeOwned + 'static> Deserialize<'de> for GcCell<W> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        read_place(W::MAY_REFER, deserializer).map(Self::new)
    }
}

thread_local! {
    /// The number of locks that this thread holds for serialization.
    static HELD: Cell<usize> = const { Cell::new(0) };
}

/// A lock that is held for serialization.
struct Held<'a, T: Trace>(GcMutexGuard<'a, T>);

impl<T: Trace> Drop for Held<'_, T> {
    fn drop(&mut self) {
        HELD.set(HELD.get() - 1);
    }
}

/// Takes a lock. In [`with_mutator`](super::with_mutator) it waits for another thread, unless this thread holds another lock already: the
/// other thread might wait for that.
fn lock<T: Trace>(mutex: &GcMutex<T>) -> Result<Held<'_, T>, &'static str> {
    const OWN: &str = "this thread holds a `GcMutex` that is to be serialized";
    const INSIDE: &str =
        "a `GcMutex` inside another one is locked: serialize a `stopworld::serde::Graph`, which locks one at a time";
    const NO_MUTATOR: &str = "a `GcMutex` is locked: to wait for it, call serde in `stopworld::serde::with_mutator`";
    let guard = any_mutator(|mutator| match mutator {
        Some(mutator) if HELD.get() == 0 => mutex.lock_once(mutator).ok_or(OWN),
        Some(_) => mutex.try_lock().ok_or(INSIDE),
        None => mutex.try_lock().ok_or(NO_MUTATOR),
    })?;
    HELD.set(HELD.get() + 1);
    Ok(Held(guard))
}

/// As its value, which is locked meanwhile. In a [`Graph`](super::Graph), a lock of an object that may hold references is the number of
/// its field, and its value follows later.
impl<T: Trace + Serialize> Serialize for GcMutex<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match action(!T::LAYOUT.is_leaf()) {
            Places::Inline => return lock(self).map_err(ser::Error::custom)?.0.serialize(serializer),
            Places::Deferred => return write_placeholder(serializer),
            Places::Visited => {
                let error = |message| Failure(String::from(message));
                visit_place(
                    |each| each(&*lock(self).map_err(error)?.0),
                    |value| {
                        *lock(self).map_err(error)?.0 = value;
                        Ok(())
                    },
                )
                .map_err(ser::Error::custom)?;
            }
        }
        serializer.serialize_unit()
    }
}

impl<'de, T: Trace + Default + DeserializeOwned> Deserialize<'de> for GcMutex<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        read_place(!T::LAYOUT.is_leaf(), deserializer).map(Self::new)
    }
}
