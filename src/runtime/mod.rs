//! The interface for programs: the world, its mutators, and handles.
//!
//! A [`World`] is a heap, the threads that use it, and the mechanism that stops them. Several may live in one process. A
//! thread becomes a [`Mutator`] by [`World::attach`]. A program that satisfies the safety requirement of that function can allocate
//! and follow references in safe code.

mod arena;
mod arrays;
mod build_error;
mod builder;
mod described;
mod facts;
mod finalizer;
mod finalizer_end;
mod handles;
mod heap_profile;
mod hooks;
mod inner;
mod mutator;
mod out_of_memory;
mod own_walker;
mod profiling;
mod recording;
mod registration;
mod reserve;
mod roots;
mod samples;
mod spawn;
pub(crate) mod untyped;
mod weak;
mod world;

pub use crate::collector::CloseError;
pub use arena::{Arena, ArenaError, Scope};
pub use build_error::{BuildError, LimitSetting};
pub use builder::{Stopper, WorldBuilder};
pub use described::{DescribeError, Described, DescribedType};
pub use facts::{HeldBlock, WorldCounters, WorldFacts};
pub use handles::{RangeGuard, Root, StackGuard};
pub use mutator::Mutator;
pub use out_of_memory::{Exhausted, OutOfMemory};
pub use recording::{RecordWorld, Since};
pub use spawn::{JoinHandle, SpawnError};
pub use weak::WeakWorld;
pub use world::{ThreadInfo, Totals, World};
