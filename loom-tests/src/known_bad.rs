//! Runs a model again without a guard: it must fail.

use std::process::Command;
use std::time::Instant;

use crate::sabotage::{Guard, VARIABLE};

/// How model checkers word what they find.
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
    must_fail_without_all(&[guard], name, fault);
}

/// The same for guards each of which hides that another one is missing.
pub(crate) fn must_fail_without_all(guards: &[Guard], name: &str, fault: Fault) {
    let names: Vec<String> = guards.iter().map(|guard| format!("{guard:?}")).collect();
    let guard = names.join(",");
    let me = std::env::current_exe().expect("a running test has an executable");
    let start = Instant::now();
    let output = Command::new(me)
        .args([name, "--exact", "--nocapture", "--test-threads=1", "--include-ignored"])
        .env(VARIABLE, &guard)
        .output()
        .expect("the test executable can be run again");
    let text = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(text.contains("running 1 test"), "no test is called {name}:\n{text}");
    assert!(!output.status.success(), "{name} passes without {guard}: it proves nothing\n{text}");
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
        "{name} without {guard} failed, but not by {fault:?}:\n{text}"
    );
    println!("{name} without {guard}: caught ({fault:?}) in {:.1} s", start.elapsed().as_secs_f64());
}
