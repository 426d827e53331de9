//! Eventlogs through the command, as a stranger sees it: what can be asked for, files that fail, runs that do not end by themselves.

mod command_support;
mod eventlog_rules;

use std::fs;
use std::io::Read;
use std::process::{Command, Stdio};
use std::time::Duration;

use command_support::{STOPWORLD, begin, directory, run, signal, size, stopworld, text, wait_until};
use eventlog_rules::{Log, check, check_beginning, ticks_by_number, ticks_by_order};
use nix::sys::signal::Signal;
use rstest::rstest;
use stopworld::formats::eventlog::format::id;

// ---- What is asked for ---------------------------------------------------------------------------------------------

#[rstest]
#[case::by_its_name("--trace t.eventlog", "t.eventlog", true, true)]
#[case::by_word("--trace t.out --format eventlog", "t.out", true, true)]
#[case::threads("--trace t.eventlog --events s", "t.eventlog", true, false)]
#[case::without_threads("--trace t.eventlog --events -s", "t.eventlog", false, true)]
fn the_arguments_say_what_is_in_a_log(
    #[case] arguments: &str,
    #[case] file: &str,
    #[case] threads: bool,
    #[case] collections: bool,
) {
    let directory = directory();
    let mut command = stopworld(directory.path(), &format!("run binary-trees --depth 14 {arguments}"));
    // The environment of another format says nothing here.
    let output = command.env("MPS_TELEMETRY_CONTROL", "all").output().unwrap();
    assert_eq!((output.status.code(), text(&output.stderr).as_str()), (Some(0), ""));
    let files: Vec<_> = fs::read_dir(directory.path()).unwrap().map(|file| file.unwrap().file_name()).collect();
    assert_eq!(files, [file]);
    let log = Log::read(&directory.path().join(file));
    let seen = check(&log);
    assert_eq!((log.count(id::CREATE_THREAD) > 0, !seen.is_empty()), (threads, collections));
    let arguments = log.all(id::PROGRAM_ARGS).next().unwrap().texts(4);
    assert_eq!(arguments[1..5], ["run", "binary-trees", "--depth", "14"]);
    assert!(text(&output.stdout).contains(&format!("{file}: ")), "the table tells of the log");
}

#[rstest]
#[case("--trace t.eventlog --events Arena", "'A' is none of the classes")]
#[case("--trace t.mps --events gu", "'gu' is none of the categories")]
#[case("--trace t.eventlog --providers stopworld", "name a FILE.nettrace")]
#[case("--format eventlog", "--trace FILE.eventlog")]
#[case("--profile hq --trace t.eventlog", "hc hm hd hy hr hb hT")]
#[case("--profile hc", "--trace FILE.eventlog or FILE.hp")]
#[case("--profile hc --trace t.mps", "--trace FILE.eventlog or FILE.hp")]
#[case("--profile hc --trace t.prof", "--trace FILE.eventlog or FILE.hp")]
#[case("--time-profile --trace t.hp", "--trace FILE.eventlog or FILE.prof")]
#[case("--trace t.hp", "without --profile")]
#[case("--trace t.prof", "without --time-profile")]
#[case("--profile hc --trace t.hp --flight-recorder 1m", "name a FILE.eventlog")]
#[case("--profile hT --only colour=red --trace t.hp", "'colour' is none of module")]
#[case("--interval 5gc --trace t.eventlog", "--profile")]
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
#[case::nowhere("no/such/t.eventlog", "No such file or directory")]
fn a_file_that_fails_is_told_of_in_one_line_and_the_run_goes_on(#[case] file: &str, #[case] why: &str) {
    let directory = directory();
    let output = run(directory.path(), &format!("run graph --trace {file} --format eventlog"));
    let (said, printed) = (text(&output.stderr), text(&output.stdout));
    assert_eq!(said.lines().count(), 1, "{said}");
    assert!(said.contains(file) && said.contains(why) && said.contains("--trace"), "{said}");
    assert_eq!(output.status.code(), Some(1));
    assert!(printed.contains("verified="), "the workload has done its work");
    assert!(printed.contains("events are lost"), "{printed}");
}

/// `.event.full-disk`: what was written until then is a log with an end, and with what belongs to it.
#[rstest]
fn a_file_that_may_not_grow_stays_whole(#[values("", "--time-profile")] profile: &str) {
    let directory = directory();
    let line = format!(
        "ulimit -f 640; trap '' XFSZ; exec {STOPWORLD} run churn --threads 4 --seconds 4 --trace t.eventlog --json {profile}"
    );
    let output = Command::new("sh").args(["-c", &line]).current_dir(directory.path()).output().unwrap();
    let said = text(&output.stderr);
    assert!(said.contains("t.eventlog: File too large") && said.lines().count() == 1, "{said}");
    assert_eq!(output.status.code(), Some(1));
    let log = Log::read(&directory.path().join("t.eventlog"));
    assert!(log.has_end && log.events.len() > 100, "{}", log.events.len());
    check_beginning(&log);
    let ticks = ticks_by_number(&log);
    assert_eq!((ticks.is_empty(), &ticks), (profile.is_empty(), &ticks_by_order(&log)));
    let printed = text(&output.stdout);
    let numbers = |name: &str| -> u64 {
        let trace = &printed[printed.find("\"trace\"").unwrap()..];
        let rest = &trace[trace.find(&format!("\"{name}\":")).unwrap() + name.len() + 3..];
        rest.trim_start().split(|c: char| !c.is_ascii_digit()).next().unwrap().parse().unwrap()
    };
    assert!(numbers("lost") > 0 && numbers("lost") < numbers("events"), "{printed}");
}

#[test]
fn a_closed_pipe_ends_the_log_and_not_the_run() {
    let directory = directory();
    let arguments = "run churn --seconds 2 --trace /dev/stdout --format eventlog";
    let mut child =
        stopworld(directory.path(), arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut head = [0; 100];
    child.stdout.take().unwrap().read_exact(&mut head).unwrap();
    let output = child.wait_with_output().unwrap();
    let said = text(&output.stderr);
    assert_eq!((output.status.code(), said.lines().count()), (Some(1), 1), "{said}");
    assert!(said.contains("/dev/stdout: Broken pipe; its reader has gone"), "{said}");
    assert_eq!(&head[..8], b"hdrbhetb");
}

/// A pipe can't be written over, so it gets its end at the end.
#[test]
fn a_pipe_has_the_whole_log() {
    let directory = directory();
    let line =
        format!("{STOPWORLD} run churn --collections 3 --trace /dev/fd/3 --format eventlog 3>&1 >/dev/null | cat > t");
    let output = Command::new("sh").args(["-c", &line]).current_dir(directory.path()).output().unwrap();
    assert_eq!(text(&output.stderr), "");
    assert!(check(&Log::read(&directory.path().join("t"))).len() >= 3);
}

// ---- Runs that end otherwise ---------------------------------------------------------------------------------------

#[rstest]
#[case(Signal::SIGTERM, 143)]
#[case(Signal::SIGINT, 130)]
fn a_run_that_is_asked_to_end_writes_its_end(#[case] asked: Signal, #[case] code: i32) {
    let directory = directory();
    let file = directory.path().join("t.eventlog");
    let child = begin(directory.path(), "run churn --seconds 60 --trace t.eventlog");
    wait_until("something is written", || size(&file) > 0);
    signal(&child, asked);
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), text(&output.stderr).as_str()), (Some(code), ""));
    check(&Log::read(&file));
}

/// A program that does not notice that it is to end.
#[test]
fn a_run_that_has_to_be_left_behind_is_logged_to_there() {
    let directory = directory();
    let file = directory.path().join("t.eventlog");
    fs::write(directory.path().join("loop.scm"), "(define (loop n) (cons n n) (loop (+ n 1))) (loop 0)").unwrap();
    let child = begin(directory.path(), "run lisp loop.scm --trace t.eventlog");
    wait_until("something is written", || size(&file) > 0);
    signal(&child, Signal::SIGTERM);
    std::thread::sleep(Duration::from_millis(50));
    signal(&child, Signal::SIGTERM);
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(143));
    let log = Log::read(&file);
    assert!(log.has_end);
    check_beginning(&log);
}

/// `.event.crash`: what was flushed is a log with an end, unless the kernel was in the middle of a write.
#[test]
fn a_run_that_is_killed_leaves_a_log() {
    let directory = directory();
    let file = directory.path().join("t.eventlog");
    let mut whole = 0;
    for round in 0..5 {
        let _ = fs::remove_file(&file);
        let arguments = "run churn --seconds 60 --threads 2 --trace t.eventlog";
        let mut child = stopworld(directory.path(), arguments).stdout(Stdio::null()).spawn().unwrap();
        wait_until("something is written", || size(&file) > 0);
        std::thread::sleep(Duration::from_millis(50 * round));
        signal(&child, Signal::SIGKILL);
        child.wait().unwrap();
        let bytes = fs::read(&file).unwrap();
        if bytes.ends_with(&[0xff, 0xff]) {
            whole += 1;
            check_beginning(&Log::parse(&bytes));
        }
        assert!(bytes.len() > 2_000, "round {round}");
    }
    assert!(whole >= 3, "of five files {whole} have their end");
}

#[test]
fn the_flight_recorder_is_written_when_asked_and_only_then() {
    let directory = directory();
    let file = directory.path().join("t.eventlog");
    let child = begin(directory.path(), "run churn --seconds 60 --trace t.eventlog --flight-recorder 1m");
    std::thread::sleep(Duration::from_millis(500));
    assert!(!file.exists());
    signal(&child, Signal::SIGUSR2);
    wait_until("the recorder is written", || size(&file) > 0);
    signal(&child, Signal::SIGTERM);
    let output = child.wait_with_output().unwrap();
    let said = text(&output.stderr);
    assert!(output.status.code() == Some(143) && said.contains("events are in t.eventlog"), "{said}");
    assert!(!check(&Log::read(&file)).is_empty());
}

/// Nor does a panic of one of its threads keep a run from writing: it is told of, and what was fired before is there.
#[test]
fn a_run_that_fails_ends_its_log() {
    let directory = directory();
    let output = run(directory.path(), "run binary-trees --depth 16 --heap-limit 4m --trace t.eventlog");
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stderr));
    let log = Log::read(&directory.path().join("t.eventlog"));
    check(&log);
    assert!(log.all(id::LOG_MSG).any(|event| event.text(0).contains("no room for")));
}

/// A run that is killed leaves the censuses that were taken, as a file that has no half sample.
#[test]
fn a_heap_profile_of_a_killed_run_ends_with_a_sample() {
    let directory = directory();
    let file = directory.path().join("t.hp");
    let mut child = begin(directory.path(), "run churn --seconds 60 --threads 2 --profile hT --trace t.hp");
    let samples = || fs::read_to_string(&file).unwrap_or_default().matches("END_SAMPLE").count();
    wait_until("there are samples", || samples() > 10);
    signal(&child, Signal::SIGKILL);
    child.wait().unwrap();
    let written = fs::read_to_string(&file).unwrap();
    assert!(written.lines().last().unwrap().starts_with("END_SAMPLE "), "{written}");
    assert!(written.ends_with('\n'));
}

#[test]
fn a_filter_and_an_interval_are_those_of_the_profile() {
    let directory = directory();
    let arguments = "run graph --profile hy --only type=Vertex --interval 2gc --trace t.eventlog";
    let output = run(directory.path(), arguments);
    assert_eq!((output.status.code(), text(&output.stderr).as_str()), (Some(0), ""));
    let log = Log::read(&directory.path().join("t.eventlog"));
    let collections = check(&log).len();
    assert_eq!(log.count(id::HEAP_PROF_SAMPLE_BEGIN), collections / 2);
    let begin = log.all(id::HEAP_PROF_BEGIN).next().unwrap();
    assert_eq!(begin.texts(13), ["", "", "Vertex", "", "", "", ""]);
}
