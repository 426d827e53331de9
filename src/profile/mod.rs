//! Cost centres and profiles: which part of the program allocates what, and where the time goes.
//!
//! A program names its parts as *cost centres*. Costs are charged to them: each allocated object, and each tick of a clock.
//! GHC's profiler works the same way, and GHC's tools can show these profiles.
//!
//! ```text
//!   cost_centre!("parse")        a scope of the program: pushes a centre, and pops it at the end of the scope
//!        │
//!        ▼
//!   the thread's current stack   one word in the thread's record, which any thread may read
//!        │              │
//!        │ allocates    │ ticks
//!        ▼              ▼
//!   charges           Tick events
//! ```
//!
//! | question | read |
//! |---|---|
//! | what a centre is, and where its texts are stored | `centres.rs` |
//! | what a stack is, and how recursion is compressed | `tree.rs`, `stacks.rs` |
//! | how a thread gets its stack | `scope.rs` |
//! | which stack an object was allocated under | `charge.rs`, `heap/charges.rs` |
//! | which stack the time is charged to | `ticker.rs` |
//! | allocation profiles with call stacks, from samples | `allocations.rs`, `heap/sample_points.rs`, `collector/samples.rs` |
//!
//! Live objects are counted in [`census`]es, in the stopped world, exact to the byte. A census can count by allocating stack, by
//! type or description, by retainers (`retainers.rs`), or by use (`biography.rs`).
//!
//! Centres and stacks belong to the process, as [labels](crate::events::labels) do: a number has the same meaning in every world
//! and in every file, and never changes it. Their stores are read without a lock, also in the stopped world.

pub mod allocations;
pub(crate) mod biography;
pub mod census;
mod centres;
mod charge;
mod numbers;
pub(crate) mod retainers;
mod scope;
mod stacks;
pub(crate) mod ticker;
mod tree;

pub use numbers::{CentreId, StackId};
pub use scope::{CentrePlace, Scope, centre, current_stack};
pub use ticker::{TickClock, TickError, TimeProfile};

pub(crate) use charge::{charge_of, charged_to};
pub(crate) use scope::change;

use centres::Centres;
use stacks::Stacks;

/// Returns all cost centres of the process, in the order of their numbers: for a consumer that starts late. A centre that is
/// defined during the iteration may or may not be included; an event reports it in any case.
pub fn centres() -> impl Iterator<Item = CentreId> {
    Centres::of_the_process().prepare();
    Centres::of_the_process().iter()
}

/// Returns all cost centre stacks except the empty one, each after its parent.
pub fn stacks() -> impl Iterator<Item = StackId> {
    Stacks::of_the_process().prepare();
    Stacks::of_the_process().iter()
}
