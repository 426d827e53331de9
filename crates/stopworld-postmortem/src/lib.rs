//! Reads the collected heap of a stopworld program from outside, without a call into it: from a core file, or from a stopped process.
//!
//! ```no_run
//! use stopworld_postmortem::{CoreFile, Process};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let core = CoreFile::open("core".as_ref(), None)?;
//! let process = Process::of_core(&core)?;
//! for world in process.worlds().0 {
//!     let heap = process.heap(&world)?;
//!     println!("world {}: {} objects", world.number, heap.objects());
//!     let (graph, missing) = process.graph(&world, &heap)?; // and then heap_snapshot::hprof::write(&graph, …)
//! }
//! # Ok(())
//! # }
//! ```
//!
//! Everything is read through one interface, [`Memory`]. What is where in it says the process itself: the descriptor that the collector
//! publishes to debuggers ends with the layout of its heaps (`stopworld::debugger::heap_layout`), so a stripped program can be read, too.
//! A layout of another version is refused.
//!
//! ```text
//!   memory               the interface: bytes at addresses; a stopped thread
//!   core_file            ELF cores: segments, notes, the files that were mapped
//!   image, library       finding the collector; its descriptor, its worlds, the records of threads
//!   types, heap          the types and the objects of a heap
//!   roots                what kept the objects alive
//!   facts                one object, and those that refer to it
//!   verify, damage       what cannot be
//!   process              all of it together, and the heap as a graph
//! ```
//!
//! # Bounds
//! A core may be damaged, or made to do harm. Nothing in it is believed: lists have a maximum length, sizes are compared with the memory
//! that is there, and each byte is read a fixed number of times. What cannot be read is reported, and the rest is read.

mod core_file;
mod damage;
mod facts;
mod heap;
mod image;
mod library;
mod memory;
mod process;
mod roots;
mod types;
mod verify;

pub use core_file::{Bytes, CoreError, CoreFile, MappedFile};
pub use damage::{Damage, Damages, OutsideWords};
pub use facts::{Field, ObjectFacts, Referrer};
pub use heap::{Heap, Space};
pub use library::{Library, LibraryError, ThreadPlace, ThreadRecord, World};
pub use memory::{Memory, StoppedThread, Unreadable};
pub use process::Process;

/// Runs the examples of the README as tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
