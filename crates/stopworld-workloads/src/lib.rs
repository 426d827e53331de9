//! Programs that produce garbage, for tests, examples and measurements.
//!
//! A [`Workload`] does a fixed amount of work, a *pass*, on a given number of threads, and checks its own results: a tree
//! must have the number of nodes of its depth, a list left by a thread that has ended must be complete. So the program
//! itself, and not only a verifier, detects a collector that frees live objects.
//!
//! A [`RunControl`] determines how long a workload runs: one pass, some seconds, some collections, or until a thread calls
//! [`RunControl::end`]. Workloads check [`RunControl::is_over`] between pieces of work that take well under a millisecond (the check is
//! one relaxed load), and call [`Mutator::safepoint`](stopworld::Mutator::safepoint) at the same places, so that they can
//! be stopped by polling as well as by signals.
//!
//! | workload | subject |
//! |---|---|
//! | [`binary_trees`] | allocation of short-lived objects: the program of the Computer Language Benchmarks Game |
//! | [`gcbench`] | Boehm's benchmark: short-lived trees, with long-lived data |
//! | [`churn`] | threads that start and end during collections |
//! | [`graph`] | random links, weak references, finalizers, large and pinned objects |
//! | [`hammer`] | threads that hold the locks of the C library and of Rust's I/O when they are stopped |
//!
//! `binary_trees` and `gcbench` do the same work, allocation by allocation, as their counterparts in C under
//! `benches/peers/`, so that their times can be compared.

pub mod binary_trees;
pub mod churn;
pub mod gcbench;
pub mod graph;
pub mod hammer;
pub mod lisp;
mod run_control;
mod workload;

pub use run_control::{RunControl, RunPlan, Until};
pub use workload::{Outcome, Workload, WorkloadError};

use stopworld::Mutator;

/// All workloads, in the order of the list that the command prints.
pub static WORKLOADS: [&Workload; 5] =
    [&binary_trees::WORKLOAD, &gcbench::WORKLOAD, &churn::WORKLOAD, &graph::WORKLOAD, &hammer::WORKLOAD];

/// Returns the workload with this name.
pub fn find(name: &str) -> Option<&'static Workload> {
    WORKLOADS.iter().copied().find(|w| w.name == name)
}

/// Runs a workload until its [`RunControl`] ends: the plan is done, or something else has ended it.
///
/// # Errors
/// The first error of one of the workload's threads. All threads have ended when this returns.
pub fn run(m: &Mutator, workload: &Workload, run_control: &RunControl) -> Result<Outcome, WorkloadError> {
    let _alarm = run_control.start();
    let mut outcome = Outcome::default();
    loop {
        outcome.passes += 1;
        outcome.verified += (workload.pass)(m, run_control)?;
        if run_control.is_over() || run_control.plan().until == Until::OnePass {
            return Ok(outcome);
        }
        m.safepoint();
    }
}

/// Runs the examples of the README as tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
