//! `run --trace FILE.json`: a timeline for Perfetto and Chrome, written during the run, and valid however the run ends.

use crate::command_support;
use crate::timeline_rules;

use std::fs;

use command_support::{directory, run, scenarios, text};
use nix::sys::signal::Signal;
use rstest::rstest;
use timeline_rules::{Timeline, check, check_killed, check_rows};

/// Returns the number of collections. Each is a slice with its phases inside it, in sequence.
fn collections(timeline: &Timeline) -> usize {
    let collections = timeline.named("collection");
    for collection in &collections {
        let phases: Vec<&str> =
            timeline.inside(collection).filter(|slice| slice.depth == 1).map(|slice| slice.name.as_str()).collect();
        assert_eq!(phases, ["suspend", "roots", "mark", "weak", "sweep", "restart"], "{collection:?}");
        assert!(collection.args["number"].is_u64());
    }
    collections.len()
}

#[rstest]
#[case("signals", "churn --collections 4 --threads 2")]
#[case("safepoints", "churn --collections 4")]
#[case("mock-debugger", "graph --collections 3")]
#[case("signals", "binary-trees --depth 14 --heap-limit 64m --initial-heap 2m")]
fn a_run_draws_its_collections(#[case] stopper: &str, #[case] workload: &str) {
    let directory = directory();
    let output = run(directory.path(), &format!("run {workload} --stop {stopper} --trace t.json --json"));
    assert_eq!((output.status.code(), text(&output.stderr).as_str()), (Some(0), ""));
    let timeline = check(&fs::read(directory.path().join("t.json")).unwrap());
    let printed: serde_json::Value =
        serde_json::from_str(text(&output.stdout).lines().find(|line| line.starts_with('{')).unwrap()).unwrap();
    let drawn = collections(&timeline);
    assert_eq!(printed["collections"].as_u64(), Some(drawn as u64));
    assert_eq!(printed["trace"]["records"].as_u64(), Some(timeline.rows.len() as u64));
    assert_eq!(printed["trace"]["lost"].as_u64(), Some(0));
    let [name] = &timeline.processes.values().collect::<Vec<_>>()[..] else { panic!("{:?}", timeline.processes) };
    assert!(name.contains("run") && name.contains("t.json"), "{name}");
    assert!(timeline.threads.values().any(|name| name == "main"), "{:?}", timeline.threads);
    // There is a sample before each collection and one after it. In the sample after it, the newly allocated bytes are 0.
    let heap = &timeline.counters["heap"];
    assert_eq!(heap.len(), 2 * drawn);
    for pair in heap.chunks(2) {
        assert!(pair[0]["new"].as_u64() > Some(0) && pair[1]["new"].as_u64() == Some(0), "{pair:?}");
    }
    assert_eq!(timeline.counters["memory of the heap"].len(), drawn);
    assert!(timeline.instants["WorldCreated"] == 1 && timeline.instants["WorldClosed"] == 1);
    assert!(!timeline.instants.contains_key("DumpNode"), "a timeline wants no heap dump");
    // The instants are in time order, except for a thread that was interrupted while it fired an event.
    assert!(timeline.rows.iter().skip(1).all(|row| row.get("ts").is_none_or(|ts| ts.as_f64() >= Some(0.0))));
}

/// A .nettrace has the names of threads in the events of our provider, and in heap dumps.
#[rstest]
#[case::own_events("--providers stopworld", &["main", "graph-0", "graph-1"])]
#[case::heap_dumps("--events GC+Type+GCHeapDump", &["graph-0", "graph-1"])]
fn a_timeline_of_a_net_trace_names_the_threads(#[case] selection: &str, #[case] expected: &[&str]) {
    let directory = directory();
    let output =
        run(directory.path(), &format!("run graph --threads 2 --collections 3 --trace t.nettrace {selection}"));
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    run(directory.path(), "convert t.nettrace t.json");
    let timeline = check(&fs::read(directory.path().join("t.json")).unwrap());
    for name in expected {
        assert!(timeline.threads.values().any(|found| found == name), "{name}: {:?}", timeline.threads);
    }
    // Each dump has the names again.
    let names = timeline.rows.iter().filter(|row| row.get("name").is_some_and(|name| name == "thread_name")).count();
    assert_eq!(names, timeline.threads.len());
}

#[test]
fn only_what_is_asked_for_is_drawn() {
    let directory = directory();
    run(directory.path(), "run churn --collections 2 --trace t.json --events memory");
    let timeline = check(&fs::read(directory.path().join("t.json")).unwrap());
    assert!(timeline.named("collection").is_empty() && timeline.counters.is_empty());
    assert!(timeline.instants.contains_key("SegmentCreated"), "{:?}", timeline.instants);
    assert!(timeline.threads.values().any(|name| name == "main"), "threads have names whatever is asked for");
}

#[rstest]
#[case("--trace t.json --events Memry", "did you mean 'Memory'?")]
#[case("--trace t.json --events GC", "not one of the groups")]
#[case("--trace t.json --providers stopworld", "name a FILE.nettrace")]
#[case("--format json", "--trace FILE.json")]
fn conflicting_arguments_are_one_line(#[case] arguments: &str, #[case] why: &str) {
    scenarios::is_refused(arguments, why);
}

#[rstest]
#[case(Signal::SIGTERM, 143)]
#[case(Signal::SIGINT, 130)]
fn a_run_that_is_asked_to_end_closes_the_array_and_its_slices(#[case] asked: Signal, #[case] code: i32) {
    collections(&check(&scenarios::ends_when_asked(asked, code, "t.json", "")));
}

/// `.event.crash`: the flushed part of the file is valid JSON, unless the run was killed during a write.
#[test]
fn a_run_that_is_killed_leaves_json() {
    scenarios::most_of_the_killed_have_their_end("t.json", "", |bytes| {
        assert!(check_rows(bytes).rows.len() > 3);
        let is_whole = serde_json::from_slice::<serde_json::Value>(bytes).is_ok();
        if is_whole {
            check_killed(bytes);
        }
        is_whole
    });
}

/// `.event.full-disk`
#[rstest]
#[case::full("/dev/full", "No space left on device")]
#[case::nowhere("no/such/t.json", "No such file or directory")]
fn a_file_that_fails_is_one_line_and_the_run_goes_on(#[case] file: &str, #[case] why: &str) {
    scenarios::goes_on_without_its_file(file, &[why], "--format json");
}

/// `.event.full-disk`: the part that was written before the failure is valid JSON.
#[test]
fn a_file_that_may_not_grow_stays_whole() {
    let (_, written) = scenarios::may_write_only(1400, "graph", "t.json", "--events all");
    assert!(check_killed(&written).rows.len() > 1_000);
}

#[test]
fn a_pipe_has_the_whole_timeline() {
    assert!(collections(&check(&scenarios::comes_through_a_pipe("json"))) >= 3);
}

#[test]
fn the_flight_recorder_is_drawn_when_asked_and_only_then() {
    assert!(!check(&scenarios::writes_its_recorder_when_asked("t.json")).named("collection").is_empty());
}
