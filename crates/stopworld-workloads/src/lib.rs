//! Programs that make garbage on purpose.
//!
//! A [`Workload`] does a fixed piece of work, a *pass*, on as many threads as it is told to, and checks its own
//! results: a tree has the number of nodes that its depth says, a list handed over by a dying thread still counts up.
//! A collector that frees too much is found out by the program that it runs, not only by a verifier.
//!
//! A [`Shift`] says how long to go on: one pass, some seconds, some collections, or until somebody calls
//! [`Shift::end`]. Workloads ask [`Shift::is_over`] between pieces of work that take well under a millisecond (it is
//! one relaxed load), and call [`Mutator::safepoint`](stopworld::Mutator::safepoint) at the same places, so that they can
//! be stopped by polling as well as by signals.
//!
//! | workload | what it is about |
//! |---|---|
//! | [`binary_trees`] | allocation and short lives: the Computer Language Benchmarks Game's program |
//! | [`gcbench`] | Boehm's old benchmark: short-lived trees beside long-lived data |
//! | [`churn`] | threads that are born and die while collections run |
//! | [`graph`] | random links, weak references, finalizers, large and pinned objects |
//! | [`hammer`] | threads that hold every lock of the C library and of Rust's I/O when they are stopped |
//!
//! `binary_trees` and `gcbench` do the same work, allocation by allocation, as their counterparts in C under
//! `benches/peers/`, so that times compare.

pub mod binary_trees;
pub mod churn;
pub mod gcbench;
pub mod graph;
pub mod hammer;
pub mod lisp;
mod shift;
mod workload;

pub use shift::{Plan, Shift, Until};
pub use workload::{Outcome, Workload, WorkloadError};

use stopworld::Mutator;

/// All workloads, in the order in which they are listed.
pub static WORKLOADS: [&Workload; 5] =
    [&binary_trees::WORKLOAD, &gcbench::WORKLOAD, &churn::WORKLOAD, &graph::WORKLOAD, &hammer::WORKLOAD];

/// The workload of this name.
pub fn find(name: &str) -> Option<&'static Workload> {
    WORKLOADS.iter().copied().find(|w| w.name == name)
}

/// Runs a workload until its shift is over.
///
/// # Errors
/// The first error that one of its threads met; the others have ended too when this returns.
pub fn run(m: &Mutator, workload: &Workload, shift: &Shift) -> Result<Outcome, WorkloadError> {
    let _alarm = shift.start();
    let mut outcome = Outcome::default();
    loop {
        outcome.passes += 1;
        outcome.verified += (workload.pass)(m, shift)?;
        if shift.is_over() || shift.plan().until == Until::OnePass {
            return Ok(outcome);
        }
        m.safepoint();
    }
}
