//! Eventlogs written by the command: its arguments, files that fail, runs that do not end by themselves.

use crate::command_support;
use crate::eventlog_rules;

use std::fs;

use command_support::{begin, directory, run, scenarios, signal, text, wait_until};
use eventlog_rules::{Log, check, check_beginning, ticks_by_number, ticks_by_order};
use ghc_eventlog::events::id;
use nix::sys::signal::Signal;
use rstest::rstest;

// ---- Arguments -----------------------------------------------------------------------------------------------------

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
    let log = Log::parse(&scenarios::leaves(file, arguments));
    let seen = check(&log);
    assert_eq!((log.count(id::CREATE_THREAD) > 0, !seen.is_empty()), (threads, collections));
    let arguments = log.all(id::PROGRAM_ARGS).next().unwrap().texts(4);
    assert_eq!(arguments[1..5], ["run", "binary-trees", "--depth", "14"]);
}

#[rstest]
#[case("--trace t.eventlog --events Arena", "'A' is not a class")]
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
#[case("--profile hT --only colour=red --trace t.hp", "'colour' is not one of module")]
#[case("--interval 5gc --trace t.eventlog", "--interval: it configures a profile: request one with --profile")]
#[case("--only type=Tree --trace t.eventlog", "--only: it configures a profile: request one with --profile")]
#[case("--tick 0.001 --trace t.eventlog", "--tick: it configures a profile: request one with --time-profile")]
#[case("--profile hc --interval -5gc --trace t.hp", "the number of collections must be a whole number from 1 on")]
#[case("--time-profile --tick 1e-12 --trace t.prof", "a tick must be at least 0.00002 seconds long")]
fn conflicting_arguments_are_one_line(#[case] arguments: &str, #[case] why: &str) {
    scenarios::is_refused(arguments, why);
}

/// A refused run leaves the file of its trace unchanged.
#[rstest]
#[case::heap("--heap-limit 1 --profile hT", 1, "--heap-limit")]
#[case::biography("--profile hb", 2, "--profile: this build does not track")]
#[case::stages("--profile hT --only biography=lag", 2, "--only: this build does not track")]
#[case::dead("--profile hb --only retainer=x", 2, "--only: ")]
fn a_refused_run_leaves_its_file(
    #[case] arguments: &str,
    #[case] code: i32,
    #[case] why: &str,
    #[values("t.hp", "t.eventlog")] file: &str,
) {
    if cfg!(feature = "biography") && why.contains("this build") {
        return;
    }
    let directory = directory();
    fs::write(directory.path().join(file), "precious").unwrap();
    let output = run(directory.path(), &format!("run gcbench --depth 4 {arguments} --trace {file}"));
    let said = text(&output.stderr);
    assert_eq!((output.status.code(), said.lines().count()), (Some(code), 1), "{said}");
    assert!(said.contains(why), "{said}");
    assert_eq!(fs::read_to_string(directory.path().join(file)).unwrap(), "precious");
}

// ---- Files that fail -----------------------------------------------------------------------------------------------

/// `.event.full-disk`
#[rstest]
#[case::full("/dev/full", "No space left on device")]
#[case::nowhere("no/such/t.eventlog", "No such file or directory")]
fn a_file_that_fails_is_one_line_and_the_run_goes_on(#[case] file: &str, #[case] why: &str) {
    scenarios::goes_on_without_its_file(file, &[why], "--format eventlog");
}

/// `.event.full-disk`: the part that was written before the failure is a complete log, with everything to which its events refer.
#[rstest]
fn a_file_that_may_not_grow_stays_whole(#[values("", "--time-profile")] profile: &str) {
    let (_, written) = scenarios::may_write_only(640, "churn --threads 4 --collections 800", "t.eventlog", profile);
    let log = Log::parse(&written);
    assert!(log.has_end && log.events.len() > 100, "{}", log.events.len());
    check_beginning(&log);
    let ticks = ticks_by_number(&log);
    assert_eq!((ticks.is_empty(), &ticks), (profile.is_empty(), &ticks_by_order(&log)));
}

#[test]
fn a_closed_pipe_ends_the_log_and_not_the_run() {
    let head = scenarios::loses_its_reader("churn --seconds 2", "--format eventlog");
    assert_eq!(&head[..8], b"hdrbhetb");
}

#[test]
fn a_pipe_has_the_whole_log() {
    assert!(check(&Log::parse(&scenarios::comes_through_a_pipe("eventlog"))).len() >= 3);
}

// ---- Runs that end otherwise ---------------------------------------------------------------------------------------

#[rstest]
#[case(Signal::SIGTERM, 143)]
#[case(Signal::SIGINT, 130)]
fn a_run_that_is_asked_to_end_writes_its_end(#[case] asked: Signal, #[case] code: i32) {
    check(&Log::parse(&scenarios::ends_when_asked(asked, code, "t.eventlog", "")));
}

#[test]
fn a_run_that_is_abandoned_is_logged_until_then() {
    let log = Log::parse(&scenarios::is_left_behind("t.eventlog", ""));
    assert!(log.has_end);
    check_beginning(&log);
}

/// `.event.crash`: the flushed part of the file is a log with its end marker, unless the run was killed during a write.
#[test]
fn a_run_that_is_killed_leaves_a_log() {
    scenarios::most_of_the_killed_have_their_end("t.eventlog", "", |bytes| {
        assert!(bytes.len() > 2_000, "{}", bytes.len());
        let is_whole = bytes.ends_with(&[0xff, 0xff]);
        if is_whole {
            check_beginning(&Log::parse(bytes));
        }
        is_whole
    });
}

#[test]
fn the_flight_recorder_is_written_when_asked_and_only_then() {
    assert!(!check(&Log::parse(&scenarios::writes_its_recorder_when_asked("t.eventlog"))).is_empty());
}

/// A run in which a thread panics still writes its log: the panic is reported, and the earlier events are in the log.
#[test]
fn a_run_that_fails_ends_its_log() {
    let directory = directory();
    let output = run(directory.path(), "run binary-trees --depth 16 --heap-limit 4m --trace t.eventlog");
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stderr));
    let log = Log::read(&directory.path().join("t.eventlog"));
    check(&log);
    assert!(log.all(id::LOG_MSG).any(|event| event.text(0).contains("no room for")));
}

/// A killed run leaves the censuses taken so far, in a file without an incomplete sample.
#[test]
fn a_heap_profile_of_a_killed_run_ends_with_a_sample() {
    let directory = directory();
    let file = directory.path().join("t.hp");
    let mut child = begin(directory.path(), "run churn --seconds 600 --threads 2 --profile hT --trace t.hp");
    let samples = || fs::read_to_string(&file).unwrap_or_default().matches("END_SAMPLE").count();
    wait_until("there are samples", || samples() > 10);
    signal(&child, Signal::SIGKILL);
    child.wait().unwrap();
    let written = fs::read_to_string(&file).unwrap();
    assert!(written.lines().last().unwrap().starts_with("END_SAMPLE "), "{written}");
    assert!(written.ends_with('\n'));
}

#[test]
fn a_filter_and_an_interval_apply_to_the_profile() {
    let directory = directory();
    let arguments = "run graph --collections 5 --profile hy --only type=Vertex --interval 2gc --trace t.eventlog";
    let output = run(directory.path(), arguments);
    assert_eq!((output.status.code(), text(&output.stderr).as_str()), (Some(0), ""));
    let log = Log::read(&directory.path().join("t.eventlog"));
    let collections = check(&log).len();
    assert_eq!(log.count(id::HEAP_PROF_SAMPLE_BEGIN), collections / 2);
    let begin = log.all(id::HEAP_PROF_BEGIN).next().unwrap();
    assert_eq!(begin.texts(13), ["", "", "Vertex", "", "", "", ""]);
}
