//! Finds references that the collector does not see: the promise of [`World::attach`](crate::World::attach), checked.
//!
//! A [`Gc`](crate::Gc) in a `Box`, a `Vec`, a `static`, a thread-local or a `Leaf` does not keep its object alive. The object is freed, and a later use
//! reads what has been allocated there since. In a test or a debug build, with the feature `check`, the collector can search for such a
//! reference at the moment when it would free the object:
//!
//! ```
//! use stopworld::World;
//! use stopworld::check::{Allocator, CheckPromise};
//!
//! #[global_allocator]
//! static GLOBAL: Allocator = Allocator::new();
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let world = World::builder().check_promise(CheckPromise::panic()).build()?;
//! # Ok(()) }
//! ```
//!
//! # What is searched
//! After marking, and before weak references are cleared and finalizers queued, each collection reads
//!
//! * every live block of the [`Allocator`], as far as it was not allocated for the collector itself;
//! * the writable segments of the program and its libraries: their statics;
//! * the words of each live object that marking does not read: of a [`Leaf`](crate::Leaf), of a field with `#[trace(skip)]`, of a number; but not of
//!   an array whose elements have no references;
//! * the main thread's thread-local variables, if that thread has attached, in the program and the libraries that were loaded with it. Those of
//!   other threads are at the end of their stacks, which are scanned as roots.
//!
//! Each aligned word there that is an address in an object that is not marked is a *hidden reference*. References that the collector sees are
//! never reported, because their objects are marked. The time is linear in the memory that is searched.
//!
//! An object that waits for its finalizer in this collection, and what that refers to, counts as about to be freed. So a world with a
//! [binding](crate::WorldBuilder::binding), whose code marks more objects later, cannot be checked.
//!
//! One search notes up to 4096 words. The next collection notes the next ones, as far as their objects still exist.
//!
//! # What is not found
//! * Memory that does not come from the allocator: of C's `malloc`, of `mmap`, of another process, and thread-local variables of libraries that
//!   were loaded later.
//! * Stacks and thread-local variables of threads that are not attached, and stacks of coroutines that were mapped. They have no place for a
//!   `Gc`, but a pointer of C code may be there.
//! * Objects of another world. (A reference may not be passed to another world anyway.)
//! * Libraries that were loaded in the child of a fork: it knows those of the parent's last collection. The child of a process without a
//!   checked world may wait for ever for the dynamic loader when it builds one.
//! * Addresses that are stored in another form: xored, compressed, not aligned to 8 bytes.
//!
//! # Stale words
//! A word that the program will not read again looks like a reference. Blocks are zeroed when they are allocated, and left out when they are
//! freed. So capacity that was never used holds nothing. What was removed stays: the element that a `Vec` has popped, the
//! entry that a `HashMap` has removed, the old variant of an enum. And the padding of a value that was moved
//! to a block or to an object may hold a word that was on the stack. Such a word is reported. The report names the block, the offset and
//! the backtrace of its allocation; [`CheckPromise::suppress`] leaves it out. Each word is reported once; a new mistake with the same
//! word, object address and place of the object's allocation is taken for the old one.
//!
//! # Cost
//! In a world without `check_promise`, and in a build with the feature: one branch for each collection. In a checked world each allocation of the
//! heap walks the stack, as each allocation of the allocator does, and each collection reads the memory above.

mod allocator;
pub(crate) mod blocks;
#[cfg(test)]
mod blocks_tests;
mod hidden;
mod report;
mod settings;
mod traces;

pub(crate) use allocator::{OwnMemory, for_each_block, is_installed, is_still_listed, map_stores};
pub(crate) use blocks::Block;
pub(crate) use report::{Found, Known, MayPanic, Place, Reporter};
pub(crate) use traces::TraceId;

pub use allocator::Allocator;
pub use hidden::{HiddenIn, HiddenReference};
pub use settings::CheckPromise;
pub use stopworld_platform::symbols::CodePlace;
