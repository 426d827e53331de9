//! A laboratory for stop-the-world garbage collection on Linux x86-64.

#[cfg(feature = "cli")]
pub mod cli;
mod collector;
pub mod debugger;
pub mod events;
mod heap;
mod os;
#[cfg(feature = "report")]
pub mod report;
mod runtime;
mod sabotage;
mod sync;
#[doc(hidden)]
pub mod testing;
#[cfg(feature = "workloads")]
pub mod workloads;
mod world;

pub use collector::CollectError;
pub use collector::report::{CollectionReport, Reason};
pub use heap::Paranoid;
pub use heap::layout::Space;
pub use heap::pointer::{Array, Gc, GcCell, Weak, WeakCell, keep_alive};
pub use heap::sweep::SpaceBytes;
pub use heap::trace::{Layout, Leaf, Trace, TypeInfo, Word};
pub use heap::verify::{Verified, VerifyError};
pub use runtime::{
    BuildError, CloseError, JoinHandle, Mutator, OutOfMemory, RangeGuard, Root, SpawnError, StackGuard, Stopper,
    ThreadInfo, Totals, World, WorldBuilder,
};
pub use world::{
    AttachError, ForkStep, OFFSETS, SafepointStopper, SetupError, SignalStopper, SilenceReason, SilentThread,
    StopError, StopInfoOffsets, StopRequest, ThreadDescription, ThreadName, ThreadStopInfo, ThreadVtable, Tid,
};
