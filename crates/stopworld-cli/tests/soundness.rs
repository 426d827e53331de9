//! Every workload under every stopper with 1, 2, 8 and 64 threads, with freed cells poisoned and the whole heap verified after each
//! collection: no verifier error, no wrong result, no crash, no hang.
//!
//! Each cell of the table is a process of its own, which runs for `STOPWORLD_SOUNDNESS_SECONDS` (default 2; 60 for a thorough check: an
//! hour of machine time for the 72 cells). The test runner starts one per core at a time, so that threads are also descheduled in odd
//! places. A process that hangs is examined by gdb, if installed, before it is killed.

use std::fs::File;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rstest::rstest;

/// The time that a process may take beyond its run time, because its 64 threads finish and verify the work that they have begun.
const GRACE: Duration = Duration::from_secs(600);

const SCHEME: [&str; 6] = ["nqueens", "metacircular", "strings", "gc-bench", "tour", "continuations"];

fn seconds() -> f64 {
    let asked = std::env::var("STOPWORLD_SOUNDNESS_SECONDS").ok();
    asked.map_or(2.0, |seconds| seconds.parse().expect("STOPWORLD_SOUNDNESS_SECONDS is a number of seconds"))
}

#[rstest]
#[case::binary_trees("binary-trees", &["--depth", "14"])]
#[case::gcbench("gcbench", &["--depth", "14"])]
#[case::churn("churn", &[])]
#[case::graph("graph", &[])]
#[case::hammer("hammer", &[])]
#[case::lisp("lisp", &[])]
fn sound(
    #[case] workload: &str,
    #[case] more: &[&str],
    #[values("signals", "safepoints", "mock-debugger")] stop: &str,
    #[values(1, 2, 8, 64)] threads: u32,
) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_stopworld"));
    command.args(["run", workload]).args(more);
    if workload == "lisp" {
        let programs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/scheme");
        command.args(SCHEME.map(|name| programs.join(name).with_extension("scm")));
    }
    // The number of markers alternates between one and several. The heap is small, so that collections are frequent.
    let markers = if threads == 1 || threads == 8 { "1" } else { "3" };
    command.args(["--threads", &threads.to_string(), "--stop", stop, "--markers", markers]);
    command.args(["--paranoid", "--initial-heap", "256k", "--json", "--seconds", &seconds().to_string()]);

    let directory = tempfile::tempdir().unwrap();
    let [out, err] = ["out", "err"].map(|name| directory.path().join(name));
    let file = |path: &Path| Stdio::from(File::create(path).unwrap());
    let child = command.stdin(Stdio::null()).stdout(file(&out)).stderr(file(&err)).spawn().unwrap();
    let outcome = wait(child, Duration::from_secs_f64(seconds()) + GRACE);

    let [out, err] = [out, err].map(|path| String::from_utf8_lossy(&std::fs::read(path).unwrap()).into_owned());
    let tail = |text: &str| text[text.floor_char_boundary(text.len().saturating_sub(4000))..].to_owned();
    let told = format!("{command:?}\nstandard output: {}\nstandard error: {}", tail(&out), tail(&err));
    match outcome {
        Ok(status) => assert!(status.success(), "{status}\n{told}"),
        Err(stacks) => panic!("it hung\n{told}\n{stacks}"),
    }
    assert!(!err.contains("did not happen"), "a collection failed\n{told}");
    let collections = out.rsplit_once("{\"collections\":").and_then(|(_, rest)| rest.split(',').next());
    let collections: u32 = collections.and_then(|number| number.parse().ok()).unwrap_or(0);
    assert!(collections > 0, "it never collected\n{told}");
}

/// Waits for the end of a process; if that takes too long, returns what its threads were doing when it was killed.
fn wait(mut child: Child, at_most: Duration) -> Result<ExitStatus, String> {
    let deadline = Instant::now() + at_most;
    while Instant::now() < deadline {
        if let Some(status) = child.try_wait().unwrap() {
            return Ok(status);
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    let pid = child.id().to_string();
    let gdb = Command::new("gdb").args(["-p", &pid, "-batch", "-ex", "thread apply all backtrace 12"]).output();
    child.kill().unwrap();
    child.wait().unwrap();
    Err(gdb.map_or_else(|_| "(no gdb)".to_owned(), |gdb| String::from_utf8_lossy(&gdb.stdout).into_owned()))
}
