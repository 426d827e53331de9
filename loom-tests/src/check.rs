//! Explores a model.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

pub(crate) use crate::known_bad::{Fault, must_fail_without, must_fail_without_all};

/// The maximum number of preemptions in each execution: switches away from a thread that could continue.
/// Switches at waits are not counted.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Preemptions {
    /// Explores all executions.
    Unbounded,
    /// Explores all executions with at most this many preemptions.
    AtMost(usize),
}

/// Explores a model and prints the number of executions.
pub(crate) fn explore(name: &str, preemptions: Preemptions, model: impl Fn() + Send + Sync + 'static) {
    let executions = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&executions);
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = match preemptions {
        Preemptions::Unbounded => None,
        Preemptions::AtMost(n) => Some(n),
    };
    builder.max_branches = 20_000;
    builder.max_duration = None;
    builder.max_permutations = None;
    let start = Instant::now();
    builder.check(move || {
        count.fetch_add(1, Ordering::Relaxed);
        model();
    });
    let executions = executions.load(Ordering::Relaxed);
    println!("{name}: {executions} executions ({preemptions:?}) in {:.1} s", start.elapsed().as_secs_f64());
}
