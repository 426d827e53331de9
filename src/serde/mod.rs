//! Serialization of collected objects by serde (feature `serde`).
//!
//! A [`Gc`](crate::Gc), a [`GcCell`](crate::GcCell), a [`GcMutex`](crate::GcMutex), a [`Root`](crate::Root) and the
//! [collections](crate::collections) implement `Serialize` and `Deserialize`, so that structs with such fields can derive them. Objects
//! are allocated while they are read, so reading happens in [`with_mutator`].
//!
//! # Two forms
//! Serialized directly, a `Gc<T>` looks like a `T`, as an `Rc<T>` does: other programs can read the result. An object that is referred to
//! twice is written twice, and read as two objects. A cycle is an error. A `GcMutex` is locked while everything in it is written.
//!
//! In a [`Graph`], an object is written once, and each further reference to it by its number. Shared objects are one object after reading,
//! and cycles are closed.
//!
//! ```
//! use serde::{Deserialize, Serialize};
//! use stopworld::serde::{Graph, with_mutator};
//! use stopworld::{Gc, GcCell, Trace, World};
//!
//! #[derive(Trace, Serialize, Deserialize)]
//! struct Person {
//!     name: Gc<str>,
//!     friend: GcCell<Option<Gc<Person>>>,
//! }
//!
//! let world = World::builder().build()?;
//! // SAFETY: this thread keeps every `Gc` in local variables and in collected objects.
//! let mutator = unsafe { world.attach("main") }?;
//! let ada = mutator.alloc(Person { name: mutator.alloc_str("Ada")?, friend: GcCell::new(None) })?;
//! let bob = mutator.alloc(Person { name: mutator.alloc_str("Bob")?, friend: GcCell::new(Some(ada)) })?;
//! ada.friend.set(Some(bob));
//!
//! let text = with_mutator(&mutator, || serde_json::to_string(&Graph(ada)))?;
//! assert_eq!(
//!     text,
//!     concat!(
//!         r#"{"root":{"object":[0,{"name":"Ada","friend":3416301453}]},"#,
//!         r#""then":[{"object":[1,{"name":"Bob","friend":3416301453}]},{"same":0}]}"#
//!     )
//! );
//!
//! let Graph(ada) = with_mutator(&mutator, || serde_json::from_str::<Graph<Gc<Person>>>(&text))?;
//! let bob = ada.friend.get().unwrap();
//! assert_eq!(&*bob.name, "Bob");
//! assert!(Gc::ptr_eq(bob.friend.get().unwrap(), ada));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # The form of a graph
//! A struct with two fields. `root` is the value. In it, a `Gc` is an enum: `object`, with the object's number and its value, where the object
//! is met first; `same`, with its number, everywhere else. Numbers begin with 0, in the order of the document. A `Gc<str>` is its text,
//! without a number.
//!
//! References that can change, a `GcCell` or a `GcMutex` whose value may refer to objects, are a number in the value of their object. What they
//! contain is written after the objects that contain them: `then` is the sequence of these contents, in the order in which the
//! objects were finished. The number is a hash of the name of the field (FNV-1a with 32 bits; of a field in a field, it begins with the hash of the
//! outer one, combined with the initial value by exclusive or; 0 if there is no name). By it, contents are assigned to fields.
//!
//! So a list whose links are cells is written and read without recursion, however long it is. Objects that refer to each other by unchangeable
//! fields are nested, and use the stack as nested `Box`es do.
//!
//! # Limits
//! - Reading a cell or a lock begins with its `Default`, which its contents replace: a `GcCell<Gc<T>>` has none. Reading a `Gc<T>` needs a `T` that
//!   is `Serialize`, too: the places of its contents are found again by serializing it. `Serialize` and `Deserialize` of a type must find the
//!   same cells and locks under the same names, or reading returns an error. That excludes `skip_serializing_if` and `untagged` for fields
//!   with them.
//! - Named fields with cells and locks may be written in another order than they are read in, and new ones may have a `#[serde(default)]`. One that was
//!   removed, or renamed, makes a graph unreadable. Fields without names are assigned by position. If the order differs in the elements of one
//!   array, reading takes time proportional to the square of its length.
//! - Numbers are given in the order of the document. So a reference in a field with `#[serde(flatten)]` must be in the last fields, and a format
//!   that sorts the fields of a struct, as `serde_json::Value` does, needs structs whose fields with references are sorted.
//! - A text format may limit how deep values are nested, for example serde_json to 128; and the keys of its maps may have to be texts or numbers,
//!   which in a graph a `Gc<T>` is not.
//! - [`Weak`](crate::Weak), [`WeakMap`](crate::WeakMap) and `Gc<dyn Trait>` are not serialized: skip such fields (`#[serde(skip)]`).
//! - A graph is written in two passes, because some formats need the number of contents first. Threads that change it meanwhile cause an
//!   error, or a mixture of old and new references; each of them was there at some time. One lock is held at a time. A thread that holds a lock
//!   itself while it writes may wait for another one that does the same.
//! - Keys of a map should not depend on cells in them, which are read after the map.

mod collections;
mod erased;
mod failure;
mod graph;
mod places;
mod references;
mod scoped;
mod session;
mod visit;
mod visitor;

pub use graph::Graph;
pub use session::with_mutator;
