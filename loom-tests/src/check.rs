//! Runs a model, and runs it again without a guard.

use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use crate::sabotage::{Guard, VARIABLE};

/// How many preemptions each execution may have: how often a thread that could run on is set aside for another one.
/// Switches at waits are not counted.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Preemptions {
    /// All executions.
    Unbounded,
    /// All executions with at most this many.
    AtMost(usize),
}

/// Explores a model and prints what was explored.
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

/// How loom words what it finds.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Fault {
    /// No thread can go on.
    Deadlock,
    /// Two accesses to a cell, one of them a write, that nothing orders.
    Race,
    /// An assertion of the model.
    Claim(&'static str),
    /// A mutator ran while the collector believed that it stood: it is seen at an assertion, or as a race, whichever comes first.
    RanInScan,
}

/// Runs the test `name` (its path in this crate) in a process of its own with the guard taken out: it must fail, and
/// with that fault.
pub(crate) fn must_fail_without(guard: Guard, name: &str, fault: Fault) {
    let me = std::env::current_exe().expect("a running test has an executable");
    let start = Instant::now();
    let output = Command::new(me)
        .args([name, "--exact", "--nocapture", "--test-threads=1"])
        .env(VARIABLE, format!("{guard:?}"))
        .output()
        .expect("the test executable can be run again");
    let text = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(text.contains("running 1 test"), "no test is called {name}:\n{text}");
    assert!(!output.status.success(), "{name} passes without {guard:?}: it proves nothing\n{text}");
    let expected: &[&str] = match fault {
        Fault::Deadlock => &["deadlock"],
        Fault::Race => &["Causality violation"],
        Fault::Claim(claim) => &[claim],
        Fault::RanInScan => &[
            "a mutator ran during a scan whose result is used",
            "nobody has written the stack pointer of a standing thread",
            "Causality violation",
        ],
    };
    assert!(
        expected.iter().any(|fault| text.contains(fault)),
        "{name} without {guard:?} failed, but not by {fault:?}:\n{text}"
    );
    println!("{name} without {guard:?}: caught ({fault:?}) in {:.1} s", start.elapsed().as_secs_f64());
}
