//! Traces of .NET's format through the command, as a stranger sees it: what can be asked for, files that fail, runs that do not end by
//! themselves.

mod command_support;
mod nettrace_rules;

use std::fs;
use std::io::Read;
use std::process::{Command, Stdio};
use std::time::Duration;

use command_support::{STOPWORLD, begin, directory, run, signal, size, stopworld, text, wait_until};
use nettrace_rules::{DEFAULT, OWN, PRIVATE, Trace as Parsed, check, check_collections};
use nix::sys::signal::Signal;
use rstest::rstest;

const VERBOSE: &str = "--providers Microsoft-Windows-DotNETRuntime:3:5,stopworld::5";

// ---- What is asked for ---------------------------------------------------------------------------------------------

#[rstest]
#[case::by_its_name("--trace t.nettrace", "t.nettrace", 4, &[DEFAULT, PRIVATE])]
#[case::by_word("--trace t.out --format nettrace", "t.out", 4, &[DEFAULT, PRIVATE])]
#[case::version_6("--trace t.nettrace --format nettrace6", "t.nettrace", 6, &[DEFAULT, PRIVATE])]
#[case::keywords("--trace t.nettrace --events GC+GCHandle@Verbose", "t.nettrace", 4, &[DEFAULT, PRIVATE])]
#[case::providers("--trace t.nettrace --providers stopworld", "t.nettrace", 4, &[OWN])]
#[case::both("--trace t.nettrace --events gc --providers stopworld", "t.nettrace", 4, &[DEFAULT, PRIVATE, OWN])]
fn the_arguments_say_what_is_in_a_trace(
    #[case] arguments: &str,
    #[case] file: &str,
    #[case] version: u32,
    #[case] providers: &[&str],
) {
    let directory = directory();
    // The environment of the other format says nothing here.
    let mut command = stopworld(directory.path(), &format!("run binary-trees --depth 14 {arguments}"));
    let output = command.env("MPS_TELEMETRY_CONTROL", "all").output().unwrap();
    assert_eq!((output.status.code(), text(&output.stderr).as_str()), (Some(0), ""));
    let files: Vec<_> = fs::read_dir(directory.path()).unwrap().map(|file| file.unwrap().file_name()).collect();
    assert_eq!(files, [file]);
    let parsed = Parsed::read(&directory.path().join(file));
    assert_eq!(parsed.version, version);
    check(&parsed);
    for provider in [DEFAULT, PRIVATE, OWN] {
        let is_there = parsed.events.iter().any(|event| event.kind.provider == provider);
        assert_eq!(is_there, providers.contains(&provider), "{provider}");
    }
    assert!(parsed.events[0].text("CommandLine").contains("run binary-trees --depth 14"));
    assert!(text(&output.stdout).contains(&format!("{file}: ")), "the table tells of the trace");
}

#[rstest]
#[case("--trace t.nettrace --events Arena", "'Arena' is none of the keywords")]
#[case("--trace t.mps --events GC", "'GC' is none of the categories")]
#[case("--trace t.nettrace --events GC@Loud", "is no level")]
#[case("--trace t.nettrace --providers :1", "a provider needs a name")]
#[case("--trace t.mps --providers stopworld", "name a FILE.nettrace")]
#[case("--format nettrace", "--trace FILE.nettrace")]
fn what_does_not_fit_together_is_told_in_a_line(#[case] arguments: &str, #[case] why: &str) {
    let directory = directory();
    let output = run(directory.path(), &format!("run binary-trees --depth 4 {arguments}"));
    let said = text(&output.stderr);
    assert_eq!((output.status.code(), said.lines().count()), (Some(2), 1), "{said}");
    assert!(said.contains(why), "{said}");
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
}

// ---- Files that fail -----------------------------------------------------------------------------------------------

/// `.event.full-disk`
#[rstest]
#[case::full("/dev/full", "No space left on device")]
#[case::nowhere("no/such/t.nettrace", "No such file or directory")]
fn a_file_that_fails_is_told_of_in_one_line_and_the_run_goes_on(#[case] file: &str, #[case] why: &str) {
    let directory = directory();
    let output = run(directory.path(), &format!("run graph --trace {file} --format nettrace {VERBOSE}"));
    let (said, printed) = (text(&output.stderr), text(&output.stdout));
    assert_eq!(said.lines().count(), 1, "{said}");
    assert!(said.contains(file) && said.contains(why) && said.contains("--trace"), "{said}");
    assert_eq!(output.status.code(), Some(1));
    assert!(printed.contains("verified="), "the workload has done its work");
    assert!(printed.contains("events are lost"), "{printed}");
}

/// `.event.full-disk`: what was written until then is a trace with an end.
#[test]
fn a_file_that_may_not_grow_stays_whole() {
    let directory = directory();
    let line = format!("ulimit -f 1400; trap '' XFSZ; exec {STOPWORLD} run graph --trace t.nettrace {VERBOSE} --json");
    let output = Command::new("sh").args(["-c", &line]).current_dir(directory.path()).output().unwrap();
    let said = text(&output.stderr);
    assert!(said.contains("t.nettrace: File too large") && said.lines().count() == 1, "{said}");
    assert_eq!(output.status.code(), Some(1));
    let parsed = Parsed::read(&directory.path().join("t.nettrace"));
    assert!(parsed.events.len() > 1_000, "{}", parsed.events.len());
    let printed = text(&output.stdout);
    let numbers = |name: &str| -> u64 {
        let trace = &printed[printed.find("\"trace\"").unwrap()..];
        let rest = &trace[trace.find(&format!("\"{name}\":")).unwrap() + name.len() + 3..];
        rest.trim_start().split(|c: char| !c.is_ascii_digit()).next().unwrap().parse().unwrap()
    };
    assert!(numbers("lost") > 0 && numbers("lost") < numbers("events"));
    // Who the process is is no event of a world's, and the world's end is none of the trace's.
    let of_worlds = parsed.events.len() as u64 - 3;
    assert!(
        numbers("events") - numbers("lost") <= of_worlds,
        "{} - {} <= {of_worlds}",
        numbers("events"),
        numbers("lost")
    );
}

#[test]
fn a_closed_pipe_ends_the_trace_and_not_the_run() {
    let directory = directory();
    let arguments = format!("run graph --trace /dev/stdout --format nettrace {VERBOSE}");
    let mut child =
        stopworld(directory.path(), &arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut head = [0; 100];
    child.stdout.take().unwrap().read_exact(&mut head).unwrap();
    let output = child.wait_with_output().unwrap();
    let said = text(&output.stderr);
    assert_eq!((output.status.code(), said.lines().count()), (Some(1), 1), "{said}");
    assert!(said.contains("/dev/stdout: Broken pipe; its reader has gone"), "{said}");
    assert_eq!(&head[..8], b"Nettrace");
}

/// A pipe can't be written over, so it gets its end at the end.
#[test]
fn a_pipe_has_the_whole_trace() {
    let directory = directory();
    let line =
        format!("{STOPWORLD} run churn --collections 3 --trace /dev/fd/3 --format nettrace 3>&1 >/dev/null | cat > t");
    let output = Command::new("sh").args(["-c", &line]).current_dir(directory.path()).output().unwrap();
    assert_eq!(text(&output.stderr), "");
    assert!(check(&Parsed::read(&directory.path().join("t"))).len() >= 3);
}

// ---- Runs that end otherwise ---------------------------------------------------------------------------------------

#[rstest]
#[case(Signal::SIGTERM, 143)]
#[case(Signal::SIGINT, 130)]
fn a_run_that_is_asked_to_end_writes_its_end(
    #[case] asked: Signal,
    #[case] code: i32,
    #[values("nettrace", "nettrace6")] format: &str,
) {
    let directory = directory();
    let file = directory.path().join("t.nettrace");
    let child =
        begin(directory.path(), &format!("run churn --seconds 60 --trace t.nettrace --format {format} {VERBOSE}"));
    wait_until("something is written", || size(&file) > 0);
    signal(&child, asked);
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), text(&output.stderr).as_str()), (Some(code), ""));
    check(&Parsed::read(&file));
}

/// A program that does not notice that it is to end.
#[test]
fn a_run_that_has_to_be_left_behind_is_traced_to_there() {
    let directory = directory();
    let file = directory.path().join("t.nettrace");
    fs::write(directory.path().join("loop.scm"), "(define (loop n) (cons n n) (loop (+ n 1))) (loop 0)").unwrap();
    let child = begin(directory.path(), &format!("run lisp loop.scm --trace t.nettrace {VERBOSE}"));
    wait_until("something is written", || size(&file) > 0);
    signal(&child, Signal::SIGTERM);
    std::thread::sleep(Duration::from_millis(50));
    signal(&child, Signal::SIGTERM);
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(143));
    check_collections(&Parsed::read(&file));
}

/// `.event.crash`: what was flushed is a trace with an end, unless the kernel was in the middle of a write.
#[rstest]
fn a_run_that_is_killed_leaves_a_trace(#[values("nettrace", "nettrace6")] format: &str) {
    let directory = directory();
    let file = directory.path().join("t.nettrace");
    let mut whole = 0;
    for round in 0..5 {
        let _ = fs::remove_file(&file);
        let arguments = format!("run churn --seconds 60 --threads 2 --trace t.nettrace --format {format}");
        let mut child = stopworld(directory.path(), &arguments).stdout(Stdio::null()).spawn().unwrap();
        wait_until("something is written", || size(&file) > 0);
        std::thread::sleep(Duration::from_millis(50 * round));
        signal(&child, Signal::SIGKILL);
        child.wait().unwrap();
        let bytes = fs::read(&file).unwrap();
        let mut events = Counting(0);
        let summary = stopworld::formats::nettrace::Reader::new(&bytes[..]).read(&mut events);
        if summary.damage.is_none() {
            whole += 1;
            check(&Parsed::parse(&bytes));
        }
        assert!(events.0 >= 2, "round {round}: {summary:?}");
    }
    assert!(whole >= 3, "of five files {whole} have their end");
}

struct Counting(u64);

impl stopworld::formats::nettrace::Visitor for Counting {
    fn event(&mut self, _: &stopworld::formats::nettrace::NetEvent<'_>) {
        self.0 += 1;
    }
}

#[test]
fn the_flight_recorder_is_written_when_asked_and_only_then() {
    let directory = directory();
    let file = directory.path().join("t.nettrace");
    let child = begin(directory.path(), "run churn --seconds 60 --trace t.nettrace --flight-recorder 1m");
    std::thread::sleep(Duration::from_millis(500));
    assert!(!file.exists());
    signal(&child, Signal::SIGUSR2);
    wait_until("the recorder is written", || size(&file) > 0);
    signal(&child, Signal::SIGTERM);
    let output = child.wait_with_output().unwrap();
    let said = text(&output.stderr);
    assert!(output.status.code() == Some(143) && said.contains("events are in t.nettrace"), "{said}");
    assert!(!check(&Parsed::read(&file)).is_empty());
}
