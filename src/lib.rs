//! A laboratory for stop-the-world garbage collection on Linux x86-64.
//!
//! A small conservative mark-sweep heap, built for experiments: the mechanism that stops threads is a value that can be
//! replaced while the program runs (signals, safepoints, a debugger), the stopping protocol is model-checked from
//! the shipped source files, and every phase is a typed event.
//!
//! # In twenty lines
//!
//! ```
//! use stopworld::{Gc, GcCell, World, traced};
//!
//! traced! {
//!     struct Node { next: GcCell<Option<Gc<Node>>>, value: u64 }
//! }
//!
//! let world = World::builder().heap_limit(64 << 20).build()?;
//! // SAFETY: this thread keeps every `Gc` in local variables and in collected objects, where the collector looks.
//! let mutator = unsafe { world.attach("main") }?;
//! let mut list = None;
//! for value in 0..1000 {
//!     list = Some(mutator.alloc(Node { next: GcCell::new(list), value })?);
//! }
//! let report = mutator.collect()?;
//! assert!(report.live_objects >= 1000);
//! assert_eq!(list.unwrap().next.get().unwrap().value, 998);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # One collection
//!
//! The source follows the algorithm. These are its steps, with the files that implement them.
//!
//! 1. **A thread allocates.** [`Mutator::alloc`] bumps a cursor through its own run of free cells (`heap/cache.rs`).
//!    When the run is empty, the thread takes the next run, sweeps a block, or takes a fresh block (`Heap::refill` in
//!    `heap/mod.rs`). When the allocation budget is spent (`collector/pacing.rs` has the theory), it must collect first.
//! 2. **A thread collects.** `Collector::collect` (`collector/collection.rs`) is the whole collection from top to bottom. It takes
//!    every lock that the stopped world needs, in one order: collection, allocation, thread list (`world/locks.rs`).
//! 3. **The world stops.** `Threads::stop` (`world/stop.rs`) calls the installed [`ThreadVtable`]. By default each thread
//!    receives a signal. The signal handler (`world/handler.rs`) stores the thread's stack pointer in its [`ThreadStopInfo`],
//!    acknowledges, and waits on the thread's semaphore. The protocol is one word per thread (`world/handshake.rs`), checked in
//!    `loom-tests`. If a thread does not acknowledge, the stop fails with a [`StopError`] that names the thread and the reason,
//!    and the world continues to run.
//! 4. **Roots** (`collector/roots.rs`): stacks including saved registers, partially initialised objects, handles, registered
//!    ranges.
//! 5. **Mark** (`collector/mark.rs`, `collector/parallel.rs`): every word is checked through the address map (`heap/blocks.rs`).
//!    Marking uses an explicit stack, prefetch queues, and one or several markers.
//! 6. **Weak references, finalizers** (`collector/finalize.rs`).
//! 7. **Sweep set-up** (`heap/sweep.rs`): counts the marks of each block, and finds the blocks that are free or have dead cells.
//!    Sweeping itself is lazy: see step 1.
//! 8. **The world restarts**: every thread resumes without waiting for another. Then the listeners receive a
//!    [`CollectionReport`], finalizers run on their own thread, and surplus memory is returned to the kernel.
//!
//! [`events`] report each of these steps. Requirements have tags such as `.stop.no-malloc`; DESIGN.md lists them, the code
//! cites them at each guard, and a test fails when the guard is removed (`sabotage.rs`).

#[cfg(feature = "check")]
pub mod check;
pub mod collections;
mod collector;
pub mod debugger;
pub mod events;
mod heap;
pub mod profile;
mod runtime;
#[cfg(feature = "serde")]
pub mod serde;
#[doc(hidden)]
pub mod testing;
mod world;

/// Objects without a type, for runtimes whose objects the collector must scan conservatively, such as those of C programs.
pub mod untyped {
    pub use crate::collector::binding::{Binding, MarkedHeap, RootScanner};
    pub use crate::heap::references::ObjectPointers;
    pub use crate::runtime::untyped::{NotAllocated, UntypedKind, UntypedObject};
}

/// For code that the derive macro generates.
#[doc(hidden)]
pub mod __private {
    pub use crate::heap::trace::UsedWords;
}

// The derive macro names this crate from outside.
extern crate self as stopworld;

use stopworld_platform::{os, sabotage, sync};

pub use collections::{GcDeque, GcHashMap, GcHashSet, GcMutex, GcString, GcVec, WeakMap};
pub use collector::CollectError;
pub use collector::report::{CollectionReport, Reason};
pub use heap::Paranoid;
pub use heap::cell::GcCell;
pub use heap::charges::Charging;
pub use heap::description::Description;
pub use heap::layout::Space;
pub use heap::local::{Local, Scoped};
pub use heap::pointer::{Gc, Weak, WeakCell, keep_alive};
pub use heap::std_traits::ByAddress;
pub use heap::sweep::SpaceBytes;
pub use heap::trace::{Layout, Leaf, Trace, TypeInfo, Word};
pub use heap::verify::{Verified, VerifyError};
pub use runtime::{
    Arena, ArenaError, BuildError, CloseError, DescribeError, Described, DescribedType, Exhausted, HeldBlock,
    JoinHandle, LimitSetting, Mutator, OutOfMemory, RangeGuard, RecordWorld, Root, Scope, Since, SpawnError,
    StackGuard, Stopper, ThreadInfo, Totals, WeakWorld, World, WorldBuilder, WorldCounters, WorldFacts,
};
pub use stopworld_derive::{Trace, Word};
pub use world::{
    AtFork, AtInstall, AtPhase, AtSwap, AttachError, ByHandshake, DebuggerClient, DebuggerNews, DebuggerPart,
    FalseAnswer, ForkStep, HoldFault, LostStop, OFFSETS, RevocableStop, SafepointStopper, SetupError, SignalStopper,
    SilenceReason, SilentThread, Slot, StopAttempts, StopError, StopInfoOffsets, StopRequest, ThreadDescription,
    ThreadName, ThreadStopInfo, ThreadVtable, Tid,
};

/// A collected array. `Gc<Array<T>>` is `Gc<[T]>`.
pub type Array<T> = [T];

/// Runs the examples of the README as tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}

/// Compiles the examples of the book as tests, and runs those that write no files into the working directory.
#[cfg(doctest)]
mod book {
    macro_rules! pages {
        ($($name:ident: $path:literal)*) => {
            $(
                #[doc = include_str!(concat!("../docs/", $path))]
                mod $name {}
            )*
        };
    }

    pages! {
        write: "tutorial/write.md"
        watch: "tutorial/watch.md"
        break_it: "tutorial/break.md"
        leak: "tutorial/leak.md"
        collections: "how-to/collections.md"
        arenas: "how-to/arenas.md"
        promise: "how-to/promise.md"
        record: "how-to/record.md"
        profile: "how-to/profile.md"
        host: "how-to/host.md"
    }
}
