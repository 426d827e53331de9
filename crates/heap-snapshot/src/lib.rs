//! Heap snapshots: all objects of a heap, their references, and the roots that keep them alive.
//!
//! ```
//! use heap_snapshot::{Builder, Dominators, Label, RootGroup, RootKind, v8};
//!
//! # fn main() -> heap_snapshot::Result<()> {
//! let mut builder = Builder::default();
//! let list = builder.object(0x7f00_0000_1000, "List", 32)?;
//! builder.reference(Label::Offset(8), 1);
//! builder.object(0x7f00_0000_1020, "Node", 24)?;
//! builder.root(RootGroup { kind: RootKind::Stack, thread: Some("main".into()) }, 0x7ffd_0000_2000, list);
//! let graph = builder.finish().0;
//! assert_eq!(Dominators::of(&graph).retained(list), 56);
//! let mut file = Vec::new();
//! v8::write(&graph, &mut file)?; // and hprof::write(&graph, &mut file)
//! assert_eq!(v8::read(file.as_slice())?.size(list), 32);
//! # Ok(())
//! # }
//! ```
//!
//! A writer takes any [`Heap`]: a [`Graph`] in memory, or a source that delivers its objects one by one, as often as the writer visits it.
//! Both readers return a [`Graph`]. Errors name the byte at which a file is damaged.
//!
//! | module | part |
//! |---|---|
//! | `heap` | the model: objects, references, roots; the trait of heaps |
//! | `addresses` | from the address of an object to its index |
//! | `graph` | a heap in memory |
//! | `dominators`, [`paths`] | retained sizes; why an object is alive |
//! | [`v8`], [`hprof`] | the formats |
//! | `error` | what can fail |

mod addresses;
mod dominators;
mod error;
mod graph;
mod heap;
pub mod hprof;
pub mod paths;
pub mod v8;

pub use addresses::{Addresses, AddressesBuilder};
pub use dominators::Dominators;
pub use error::{Error, Result};
pub use graph::{Builder, Graph};
pub use heap::{Heap, Label, Object, Reference, Root, RootGroup, RootKind};

/// Runs the examples of the README as tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
