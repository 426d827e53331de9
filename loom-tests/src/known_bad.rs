//! Runs a model again without a guard, and requires that it fails.

use std::process::Command;
use std::time::Instant;

use crate::sabotage::{Guard, VARIABLE};

/// A fault that a model checker finds.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Fault {
    /// A deadlock: all threads wait.
    Deadlock,
    /// Two unordered accesses to a cell, one of them a write.
    Race,
    /// An assertion of the model fails, with this text.
    Claim(&'static str),
    /// A mutator ran while the collector considered it stopped. Detected by an assertion or as a race, whichever comes first.
    RanInScan,
}

/// Runs the test `name` (its path in this crate) in a new process with the guard removed. The test must fail with
/// that fault.
pub(crate) fn must_fail_without(guard: Guard, name: &str, fault: Fault) {
    must_fail_without_all(&[guard], name, fault);
}

/// Like [`must_fail_without`], with several guards removed, because each of them alone would hide that the others are missing.
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
    assert!(text.contains("running 1 test"), "there is no test {name}:\n{text}");
    assert!(!output.status.success(), "{name} passes without {guard}, so it does not check the guard\n{text}");
    let expected: &[&str] = match fault {
        Fault::Deadlock => &["deadlock"],
        Fault::Race => &["Causality violation"],
        Fault::Claim(claim) => &[claim],
        Fault::RanInScan => &[
            "a mutator ran during a scan whose result is used",
            "the stack pointer of a stopped thread has not been written",
            "Causality violation",
        ],
    };
    assert!(
        expected.iter().any(|fault| text.contains(fault)),
        "{name} without {guard} failed, but not with {fault:?}:\n{text}"
    );
    println!("{name} without {guard}: caught ({fault:?}) in {:.1} s", start.elapsed().as_secs_f64());
}
