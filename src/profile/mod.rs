//! What the heap is made of, and where the time goes.
//!
//! A program names its parts as *cost centres*, and what it costs is charged to them: each allocated object, each tick of
//! a clock. GHC's profiler does the same, and its tools show what ours says.
//!
//! ```text
//!   cost_centre!("parse")        a scope of the program: pushes a centre, and pops it where the scope ends
//!        │
//!        ▼
//!   the thread's present stack   one word in its record, which anybody may read
//!        │              │
//!        │ allocates    │ ticks
//!        ▼              ▼
//!   charges           Tick events
//! ```
//!
//! | to know | read |
//! |---|---|
//! | what a centre is, and where its texts are | `centres.rs` |
//! | what a stack is, and what becomes of recursion | `tree.rs`, `stacks.rs` |
//! | how a thread comes to have one | `scope.rs` |
//! | which stack an object was allocated under | `charge.rs`, `heap/charges.rs` |
//! | which stack the time is charged to | `ticker.rs` |
//!
//! What lives is counted in [`census`]es, in the stopped world, exact to the byte: by whom it was allocated, by what it is, by
//! who keeps it alive (`retainers.rs`), and by whether it is ever used (`biography.rs`).
//!
//! Centres and stacks belong to the process, as [labels](crate::events::labels) do: a number means the same in every world and in
//! every file, from the moment that somebody saw it. Their stores are read without a lock, from the stopped world too.

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

/// Every cost centre that there is, in the order of the numbers: for who comes late. What is defined meanwhile may be among
/// them or not, and is told of by an event in any case.
pub fn centres() -> impl Iterator<Item = CentreId> {
    Centres::of_the_process().prepare();
    Centres::of_the_process().iter()
}

/// Every cost centre stack that there is beside the empty one, each after the one that it was pushed on.
pub fn stacks() -> impl Iterator<Item = StackId> {
    Stacks::of_the_process().prepare();
    Stacks::of_the_process().iter()
}
