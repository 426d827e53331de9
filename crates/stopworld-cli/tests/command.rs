//! The `stopworld` command, as a new user runs it.

#[path = "../../../tests/otlp_export/mod.rs"]
mod otlp_export;
#[path = "../../../tests/promtool/mod.rs"]
mod promtool;
#[path = "../../../tests/skipped/mod.rs"]
mod skipped;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Output, Stdio};
use std::time::{Duration, Instant};

use assert_cmd::Command;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use otlp_export::{decoded, metrics, number, point};
use rstest::rstest;

/// A time limit far longer than any of these runs takes, even on a busy machine.
const LIMIT: Duration = Duration::from_secs(120);
const STOPWORLD: &str = env!("CARGO_BIN_EXE_stopworld");

fn stopworld(arguments: &str) -> Output {
    Command::new(STOPWORLD).args(arguments.split_whitespace()).timeout(LIMIT).output().expect("stopworld starts")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Returns the second cell of the row `name` in the table of figures.
fn row(stdout: &str, name: &str) -> String {
    let cells = |line: &str| line.split(['│', '┆']).map(|cell| cell.trim().to_owned()).collect::<Vec<_>>();
    let mut rows = stdout.lines().map(cells).filter(|cells| cells.len() > 2 && cells[1] == name);
    rows.next().unwrap_or_else(|| panic!("no row '{name}' in\n{stdout}"))[2].clone()
}

fn collections(stdout: &str) -> u64 {
    row(stdout, "collections").parse().expect("the row `collections` is a number")
}

#[rstest]
#[case("binary-trees --depth 12 --threads 2")]
#[case("gcbench --depth 10")]
#[case("churn --threads 4")]
#[case("graph --threads 2")]
#[case("hammer --threads 2")]
fn each_workload_does_its_work_under_each_stopper(
    #[case] workload: &str,
    #[values("signals", "safepoints", "mock-debugger")] stop: &str,
) {
    let output = stopworld(&format!("run {workload} --stop {stop} --collections 5 --paranoid"));
    let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(0), "{stderr}\n{stdout}");
    assert!(stdout.contains("verified="), "{stdout}");
    assert!(collections(&stdout) >= 5, "{stdout}");
}

/// The second output would replace the first one at the end of the run.
#[rstest]
#[case("gcbench --depth 10 --trace run.json --alloc-stacks run.json", "--alloc-stacks run.json: --trace writes")]
#[case("graph --snapshot s.hprof --trace ./s.hprof --format mps", "--snapshot s.hprof: --trace writes")]
#[case("graph --alloc-stacks there.txt --trace link.txt --format nettrace", "--alloc-stacks there.txt: --trace writes")]
fn two_outputs_with_one_name_are_refused(#[case] arguments: &str, #[case] why: &str) {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("there.txt"), "what was there").unwrap();
    std::os::unix::fs::symlink("there.txt", directory.path().join("link.txt")).unwrap();
    let mut run = Command::new(STOPWORLD);
    let output =
        run.arg("run").args(arguments.split(' ')).current_dir(directory.path()).timeout(LIMIT).output().unwrap();
    let stderr = text(&output.stderr);
    assert_eq!((output.status.code(), stderr.lines().count()), (Some(2), 1), "{stderr}");
    assert!(stderr.contains(why) && stderr.contains("name another one"), "{stderr}");
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 2);
}

/// A report that could not be written is not lost in silence.
#[rstest]
#[case("run churn --collections 2 --stops")]
#[case("workloads")]
#[case("events")]
#[case("gdb-script")]
#[case("--help")]
#[case("run --help")]
#[case("--version")]
fn a_full_standard_output_is_a_failure(#[case] arguments: &str) {
    let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
    let mut command = std::process::Command::new(STOPWORLD);
    let output = command.args(arguments.split(' ')).stdout(full).stderr(Stdio::piped()).output().unwrap();
    let stderr = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    let line = "error: can't write to standard output: No space left on device (os error 28); make room";
    assert_eq!(stderr.lines().filter(|said| *said == line).count(), 1, "{stderr}");
}

#[test]
fn the_table_has_a_row_for_each_figure_and_each_phase_of_the_pauses() {
    let stdout = text(&stopworld("run churn --threads 2 --collections 3").stdout);
    for figure in ["collections", "allocated", "live after last GC", "committed", "threads", "slowest to stop"] {
        assert!(!row(&stdout, figure).is_empty());
    }
    assert!(stdout.contains("min ┆ median ┆"), "{stdout}");
    for phase in ["stop", "mark", "weak", "sweep set-up", "restart", "total"] {
        row(&stdout, phase).parse::<f64>().unwrap_or_else(|_| panic!("the row '{phase}' holds no time:\n{stdout}"));
    }
}

#[test]
fn a_run_ends_after_the_seconds_it_was_given() {
    let begun = Instant::now();
    let output = stopworld("run graph --seconds 0.5");
    assert_eq!(output.status.code(), Some(0));
    assert!(begun.elapsed() >= Duration::from_millis(500));
    assert!(begun.elapsed() < LIMIT / 2);
}

#[test]
fn the_flexowriter_types_mccarthys_report_at_each_collection() {
    let stdout = text(&stopworld("run churn --collections 3 --flexowriter").stdout);
    let called = "THE GARBAGE COLLECTOR HAS BEEN CALLED. SOME INTERESTING STATISTICS ARE AS FOLLOWS:";
    assert_eq!(stdout.matches(called).count() as u64, collections(&stdout));
    assert!(stdout.contains("NUMBER OF WORDS MARKED"), "{stdout}");
}

#[test]
fn the_figures_come_as_one_json_object_if_asked_for() {
    let stdout = text(&stopworld("run churn --collections 2 --json").stdout);
    let object = stdout.lines().last().expect("there is output");
    assert!(object.starts_with("{\"collections\":") && object.ends_with("}}"), "{object}");
    assert!(!stdout.contains('│'), "{stdout}");
}

#[rstest]
#[case::signals("signals")]
#[case::safepoints("safepoints")]
fn the_stops_are_reported_by_thread(#[case] stop: &str) {
    let stdout =
        text(&stopworld(&format!("run graph --threads 3 --collections 40 --stop {stop} --stops --json")).stdout);
    let figures: serde_json::Value = serde_json::from_str(stdout.lines().last().expect("there is output")).unwrap();
    let stops = &figures["stops_ns"];
    let number = |value: &serde_json::Value| value.as_u64().unwrap();
    let count = number(&stops["count"]);
    assert_eq!((count, number(&stops["omitted"])), (number(&figures["collections"]), 0));
    let threads = stops["threads"].as_array().unwrap();
    let mut names: Vec<&str> = threads.iter().map(|thread| thread["name"].as_str().unwrap()).collect();
    names.sort_unstable();
    names.retain(|name| *name != "finalizer");
    assert_eq!(names, ["graph-0", "graph-1", "graph-2", "main"]);
    let sum = |key: &str, of: &str| threads.iter().map(|thread| number(&thread[key][of])).sum::<u64>();
    // In each stop one thread collects. The others wait for it in regions, or the stop waits for them.
    assert_eq!(sum("activities", "collecting"), count);
    assert_eq!(sum("activities", "running") + sum("activities", "entering"), sum("waited", "count"));
    assert!(sum("waited", "count") > 0, "{stops}");
    let stops_that_waited = sum("last", "running") + sum("last", "entering");
    assert!((1..=count).contains(&stops_that_waited), "{stops}");
    let slowest = &stops["slowest"][0];
    let longest = threads.iter().map(|thread| number(&thread["waited"]["max"])).max().unwrap();
    assert_eq!(number(&slowest["ns"]), longest);
    // The collector itself measures from the same moment.
    assert!(longest > 0 && longest == number(&figures["slowest_to_stop"]["ns"]), "{figures}");
    let last = threads.iter().find(|thread| thread["name"] == slowest["thread"]).unwrap();
    assert!(number(&last["last"][slowest["activity"].as_str().unwrap()]) > 0, "{stops}");
}

/// The report and the event ThreadStopped measure from the same request, so they are equal to the nanosecond.
#[test]
fn the_slowest_stops_are_those_of_the_trace() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("run.nettrace").display().to_string();
    let line = format!("run graph --threads 3 --collections 8 --stops --json --trace {file} --providers stopworld");
    let stdout = text(&stopworld(&line).stdout);
    let figures: serde_json::Value = serde_json::from_str(stdout.lines().last().expect("there is output")).unwrap();
    assert_eq!((&figures["collections"], &figures["trace"]["lost"]), (&8.into(), &0.into()), "{figures}");
    // By collection.
    let mut longest = std::collections::BTreeMap::new();
    for line in text(&stopworld(&format!("dump {file} --event stopworld/ThreadStopped --json")).stdout).lines() {
        let fields = &serde_json::from_str::<serde_json::Value>(line).unwrap()["fields"];
        let [number, ns] = ["number", "ns"].map(|name| fields[name].as_u64().unwrap());
        let known = longest.entry(number).or_insert(0);
        *known = ns.max(*known);
    }
    assert_eq!(longest.len(), 8, "{longest:?}");
    let slowest = figures["stops_ns"]["slowest"].as_array().unwrap();
    let reported: Vec<_> = slowest.iter().map(|stop| ["stop", "ns"].map(|name| stop[name].as_u64().unwrap())).collect();
    let mut expected: Vec<_> = longest.into_iter().filter(|(_, ns)| *ns > 0).map(|(number, ns)| [number, ns]).collect();
    expected.sort_by_key(|[_, ns]| std::cmp::Reverse(*ns));
    expected.truncate(reported.len());
    assert!(!reported.is_empty() && reported == expected, "{reported:?} and {expected:?}");
}

#[test]
fn the_table_of_stops_has_a_row_for_each_thread() {
    let stdout = text(&stopworld("run graph --threads 2 --collections 20 --stops").stdout);
    for part in ["time to stop, µs", "slowest stops", "graph-0", "graph-1", "main"] {
        assert!(stdout.contains(part), "{part}: {stdout}");
    }
    let without = text(&stopworld("run graph --threads 2 --collections 2").stdout);
    assert!(!without.contains("time to stop"), "{without}");
}

#[test]
fn a_debugged_stop_is_reported_without_times() {
    let stdout = text(&stopworld("run graph --threads 2 --collections 100 --stop mock-debugger --stops --json").stdout);
    let figures: serde_json::Value = serde_json::from_str(stdout.lines().last().expect("there is output")).unwrap();
    let threads = figures["stops_ns"]["threads"].as_array().unwrap();
    assert!(threads.iter().any(|thread| thread["activities"]["suspended"].as_u64().unwrap() > 0), "{figures}");
    assert!(threads.iter().all(|thread| thread["waited"]["max"] == 0), "{figures}");
}

/// The body of an HTTP response.
fn get(url: &str) -> String {
    let (address, path) = url.strip_prefix("http://").unwrap().split_once('/').unwrap();
    let mut stream = TcpStream::connect(address).unwrap();
    write!(stream, "GET /{path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n").unwrap();
    let mut response = String::new();
    stream.read_to_string(&mut response).unwrap();
    response.split_once("\r\n\r\n").unwrap().1.to_owned()
}

#[test]
fn metrics_are_served_during_a_run() {
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_stopworld"));
    command.args("run churn --threads 2 --seconds 600 --metrics 0".split(' ')).stdout(Stdio::null());
    let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
    let mut stderr = BufReader::new(child.stderr.take().unwrap());
    let mut line = String::new();
    stderr.read_line(&mut line).unwrap();
    let url = line.trim().strip_prefix("stopworld: metrics at ").unwrap_or_else(|| panic!("{line}")).to_owned();
    let collections = || {
        let metrics = get(&url);
        let line = metrics.lines().find(|line| line.starts_with("stopworld_pause_seconds_count ")).unwrap().to_owned();
        let count = line.rsplit_once(' ').unwrap().1.parse::<u64>().unwrap();
        // The server starts before the world does.
        assert!(count == 0 || metrics.contains("stopworld_worlds 1\n"), "{metrics}");
        count
    };
    let first = collections();
    let begun = Instant::now();
    while collections() < first + 3 {
        assert!(begun.elapsed() < LIMIT, "the run collects, and its metrics show it");
        std::thread::sleep(Duration::from_millis(20));
    }
    kill(Pid::from_raw(child.id() as i32), Signal::SIGINT).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130));
    let address = url.trim_start_matches("http://").trim_end_matches("/metrics");
    assert!(TcpStream::connect(address).is_err(), "the server ends with the run");
}

/// A scrape of a program that waits for input, so that nothing changes until it ends: promtool accepts it, and its values are those of the table.
#[test]
fn a_scrape_of_a_run_is_accepted_by_promtool_and_has_the_figures_of_the_table() {
    const PROGRAM: &str =
        "(define (work n) (if (= n 0) 0 (begin (cons n n) (work (- n 1)))))\n(work 300000)\n\"ready\"\n";
    let mut command = std::process::Command::new(STOPWORLD);
    command.args("repl --initial-heap 1m --metrics 0 --json".split(' ')).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
    let (mut stdout, mut stderr) =
        (BufReader::new(child.stdout.take().unwrap()), BufReader::new(child.stderr.take().unwrap()));
    let (mut url, mut line) = (String::new(), String::new());
    stderr.read_line(&mut url).unwrap();
    let url = url.trim().strip_prefix("stopworld: metrics at ").unwrap_or_else(|| panic!("{url}")).to_owned();
    child.stdin.as_mut().unwrap().write_all(PROGRAM.as_bytes()).unwrap();
    while !line.contains("ready") {
        line.clear();
        assert!(stdout.read_line(&mut line).unwrap() > 0, "the program evaluates all");
    }
    let scrape = get(&url);
    drop(child.stdin.take());
    let mut rest = String::new();
    stdout.read_to_string(&mut rest).unwrap();
    assert!(child.wait().unwrap().success());
    let figures: serde_json::Value = serde_json::from_str(rest.lines().last().unwrap()).unwrap();
    let sample = |name: &str| {
        let line = scrape.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        line.unwrap_or_else(|| panic!("no {name} in {scrape}")).parse::<f64>().unwrap()
    };
    let collections = figures["collections"].as_f64().unwrap();
    assert!(collections > 3.0, "{figures}");
    assert_eq!(sample("stopworld_pause_seconds_count"), collections, "{scrape}");
    let nanoseconds = figures["pauses_ns"]["total"]["sum"].as_f64().unwrap();
    assert!((sample("stopworld_pause_seconds_sum") * 1e9 - nanoseconds).abs() < 1.0, "{scrape} {figures}");
    for (name, figure) in [
        ("stopworld_freed_bytes_total", &figures["freed_bytes"]),
        ("stopworld_live_objects", &figures["live_objects"]),
        ("stopworld_live_bytes{space=\"small\"}", &figures["live_bytes"]["small"]),
        ("stopworld_live_bytes{space=\"large\"}", &figures["live_bytes"]["large"]),
    ] {
        assert_eq!(Some(sample(name)), figure.as_f64(), "{name}: {scrape} {figures}");
    }
    let Some(output) = promtool::check_metrics(&scrape) else { return };
    let said = format!("{}{}", text(&output.stdout), text(&output.stderr));
    assert!(output.status.success() && said.is_empty(), "{said}");
}

/// Accepts one request, answers it, and returns its first line and its body.
fn answer_one(listener: &TcpListener) -> (String, Vec<u8>) {
    let (mut stream, _) = listener.accept().unwrap();
    let mut request = BufReader::new(stream.try_clone().unwrap());
    let (mut first, mut length) = (String::new(), 0);
    request.read_line(&mut first).unwrap();
    loop {
        let mut line = String::new();
        request.read_line(&mut line).unwrap();
        match line.trim().to_ascii_lowercase().strip_prefix("content-length: ") {
            Some(number) => length = number.parse().unwrap(),
            None if line.trim().is_empty() => break,
            None => {}
        }
    }
    let mut body = vec![0; length];
    request.read_exact(&mut body).unwrap();
    write!(stream, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n").unwrap();
    (first, body)
}

#[test]
fn metrics_are_sent_by_otlp_at_the_end_of_a_run() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let arguments = format!("run churn --collections 3 --otlp http://{}", listener.local_addr().unwrap());
    let collector = std::thread::spawn(move || answer_one(&listener));
    let output = stopworld(&arguments);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let (first, body) = collector.join().unwrap();
    assert_eq!(first, "POST /v1/metrics HTTP/1.1\r\n");
    let Some(export) = decoded(&body) else { return };
    let metrics = metrics(&export);
    assert_eq!(number(&point(&metrics["stopworld.pause"], "histogram", "")["count"]), 3);
    // The world is measured before it ends.
    for gauge in ["worlds", "heap.committed", "heap.limit"] {
        assert!(number(&point(&metrics[&format!("stopworld.{gauge}")], "gauge", "")["asInt"]) > 0, "{gauge}");
    }
}

#[test]
fn a_collector_that_is_not_there_fails_the_run_after_its_table() {
    // Any other port that is free now may be given to another test.
    let unused = "127.0.0.1:1";
    let output = stopworld(&format!("run churn --collections 1 --otlp http://{unused}"));
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stdout).contains("slowest to stop"));
    let message = text(&output.stderr);
    assert!(message.contains("--otlp") && message.contains(unused), "{message}");
    assert!(message.contains("Connection refused"), "{message}");
}

#[test]
fn a_wrong_url_of_a_collector_is_a_wrong_argument() {
    let output = stopworld("run churn --collections 1 --otlp http://127.0.0.1:99999");
    assert_eq!(output.status.code(), Some(2));
    assert!(output.stdout.is_empty());
}

#[test]
fn a_client_that_stalls_does_not_keep_a_run_from_ending() {
    let mut command = std::process::Command::new(STOPWORLD);
    command.args("run churn --seconds 600 --metrics 0".split(' ')).stdout(Stdio::null());
    let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
    // Open until the end, because the run still writes to it.
    let mut stderr = BufReader::new(child.stderr.take().unwrap());
    let mut line = String::new();
    stderr.read_line(&mut line).unwrap();
    let url = line.trim().strip_prefix("stopworld: metrics at ").unwrap_or_else(|| panic!("{line}")).to_owned();
    let mut stalled = TcpStream::connect(url.trim_start_matches("http://").trim_end_matches("/metrics")).unwrap();
    stalled.write_all(b"GET /metrics HTTP/1.1\r\nContent-Length: 100000\r\n\r\n").unwrap();
    stalled.read_exact(&mut [0]).unwrap();
    // The server starts before the world does.
    let begun = Instant::now();
    while get(&url).contains("stopworld_pause_seconds_count 0\n") {
        assert!(begun.elapsed() < LIMIT, "the run collects, and its metrics show it");
        std::thread::sleep(Duration::from_millis(20));
    }
    kill(Pid::from_raw(child.id() as i32), Signal::SIGINT).unwrap();
    let begun = Instant::now();
    let code = loop {
        match child.try_wait().unwrap() {
            Some(status) => break status.code(),
            None if begun.elapsed() > LIMIT => {
                child.kill().unwrap();
                panic!("the run does not end");
            }
            None => std::thread::sleep(Duration::from_millis(20)),
        }
    };
    assert_eq!(code, Some(130));
}

#[test]
fn an_address_in_use_is_an_error_that_names_it() {
    let used = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = used.local_addr().unwrap();
    let output = stopworld(&format!("run churn --collections 1 --metrics {}", address.port()));
    assert_eq!(output.status.code(), Some(1));
    let message = text(&output.stderr);
    assert!(message.contains("--metrics") && message.contains(&address.to_string()), "{message}");
    assert_eq!(message.matches("Address already in use").count(), 1, "{message}");
}

#[test]
fn help_and_the_list_of_workloads_go_to_standard_output() {
    let help = stopworld("run --help");
    assert_eq!(help.status.code(), Some(0));
    for option in ["--threads", "--heap-limit", "--stop", "--markers", "--paranoid", "--seconds", "--flexowriter"] {
        assert!(text(&help.stdout).contains(option), "{option}");
    }
    let list = text(&stopworld("workloads").stdout);
    for workload in ["binary-trees", "gcbench", "churn", "graph", "hammer", "lisp"] {
        assert!(list.lines().any(|line| line.starts_with(workload)), "{list}");
    }
}

#[test]
fn the_events_are_listed_explained_and_written_as_documented() {
    let list = text(&stopworld("events").stdout);
    assert!(
        list.lines().any(|line| line.trim_start().starts_with("GcStart") && line.contains("TraceCreate/44")),
        "{list}"
    );
    let one = text(&stopworld("events gc-start").stdout);
    for part in [
        "GcStart (version 1",
        "GCStart 1 v2",
        "probe stopworld:gc_start",
        "break stopworld_fire_gc_start",
        "number",
        "reason",
    ] {
        assert!(one.contains(part), "{one}");
    }
    assert_eq!(text(&stopworld("events --markdown").stdout), include_str!("../../../docs/events.md"));
}

#[rstest]
#[case("events GcStrat", "did you mean 'GcStart'?")]
#[case("events quux", "`stopworld events` lists them")]
#[case("events GcStart --markdown", "cannot be used with")]
#[case("", "stopworld --help")]
#[case("run", "stopworld workloads")]
#[case("run binary-tree", "did you mean 'binary-trees'?")]
#[case("run sort", "`stopworld workloads` lists them")]
#[case("rum churn", "'run'")]
#[case("run churn --thread 2", "'--threads'")]
#[case("run churn --threads 0", "from 1 to")]
#[case("run churn --threads two", "from 1 to")]
#[case("run churn --threads 99999999999999999999", "from 1 to")]
#[case("run churn --markers 0", "from 1 to")]
#[case("run churn --stop sgnals", "'signals'")]
#[case("run churn --heap-limit 64parsecs", "unknown unit 'parsecs'")]
#[case("run churn --heap-limit lots", "64MiB")]
#[case("run churn --heap-limit -1", "64MiB")]
#[case("run churn --heap-limit 0", "at least one byte")]
#[case("run churn --initial-heap 4x", "unknown unit 'x'")]
#[case("run churn --heap-limit 99999999t", "largest")]
#[case("run churn --seconds 0", "above 0")]
#[case("run churn --seconds inf", "above 0")]
#[case("run churn --collections 0", "from 1 to")]
#[case("run churn --seconds 1 --collections 1", "cannot be used with")]
#[case("run churn --depth 3", "binary-trees and gcbench")]
#[case("run binary-trees --depth 99", "from 1 to 30")]
#[case("run churn program.scm", "run lisp program.scm")]
#[case("run lisp no-such-file.scm", "no-such-file.scm")]
fn wrong_arguments_get_one_clear_line_and_exit_code_2(#[case] arguments: &str, #[case] remedy: &str) {
    let output = stopworld(arguments);
    let stderr = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{stderr}");
    assert_eq!(stderr.lines().count(), 1, "{stderr}");
    assert!(stderr.starts_with("error: ") && stderr.contains(remedy), "'{stderr}' does not say '{remedy}'");
    assert!(output.stdout.is_empty());
}

#[rstest]
#[case("binary-trees --depth 14", "1")]
#[case("binary-trees --depth 14", "4KiB")]
#[case("binary-trees --depth 16 --threads 2", "4MiB")]
#[case("gcbench --depth 14 --threads 2", "3MiB")]
fn a_heap_limit_that_is_too_small_is_reported_with_one_that_works(#[case] workload: &str, #[case] limit: &str) {
    let output = stopworld(&format!("run {workload} --heap-limit {limit}"));
    let stderr = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    assert_eq!(stderr.lines().count(), 1, "{stderr}");
    let works = stderr.split("--heap-limit ").nth(1).and_then(|rest| rest.split_whitespace().next());
    let works = works.unwrap_or_else(|| panic!("no limit in '{stderr}'"));
    let again = stopworld(&format!("run {workload} --heap-limit {works}"));
    assert_eq!(again.status.code(), Some(0), "{}", text(&again.stderr));
}

/// The flexowriter's message for a collection.
const CALLED: &str = "THE GARBAGE COLLECTOR HAS BEEN CALLED";

/// Starts an endless run and waits for its first collection.
fn endless() -> (Child, BufReader<std::process::ChildStdout>) {
    let (child, mut stdout) = begin("run churn --threads 2 --seconds 100000 --flexowriter");
    wait_for(&mut stdout, CALLED);
    (child, stdout)
}

/// Starts a run; returns it and its output.
fn begin(arguments: &str) -> (Child, BufReader<std::process::ChildStdout>) {
    let mut child = std::process::Command::new(STOPWORLD)
        .args(arguments.split_whitespace())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("stopworld starts");
    let stdout = BufReader::new(child.stdout.take().expect("stdout is piped"));
    (child, stdout)
}

fn catches(child: &Child, signal: Signal) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{}/status", child.id())).expect("the child exists");
    let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:")).unwrap_or_default();
    u64::from_str_radix(caught.trim(), 16).is_ok_and(|caught| caught & 1 << (signal as u32 - 1) != 0)
}

fn wait_for(stdout: &mut impl BufRead, wanted: &str) {
    let mut line = String::new();
    while !line.contains(wanted) {
        line.clear();
        assert_ne!(stdout.read_line(&mut line).expect("stdout is readable"), 0, "the output ended before '{wanted}'");
    }
}

/// Sends a signal as soon as the process has a handler for it.
fn send(child: &Child, signal: Signal) {
    let begun = Instant::now();
    while !catches(child, signal) {
        assert!(begun.elapsed() < Duration::from_secs(600), "no handler for {signal}");
        std::thread::sleep(Duration::from_millis(5));
    }
    kill(Pid::from_raw(child.id() as i32), signal).expect("the child exists");
}

#[rstest]
#[case(Signal::SIGINT, 130)]
#[case(Signal::SIGTERM, 143)]
fn a_signal_ends_the_run_and_the_table_is_still_printed(#[case] signal: Signal, #[case] code: i32) {
    let (mut child, mut stdout) = endless();
    send(&child, signal);
    let mut rest = String::new();
    stdout.read_to_string(&mut rest).expect("stdout is text");
    assert_eq!(child.wait().expect("the child ends").code(), Some(code), "{rest}");
    assert!(collections(&rest) >= 1, "{rest}");
}

#[test]
fn sigusr1_asks_for_a_collection() {
    // The initial heap is so large that nothing else requests a collection for a long time.
    let (mut child, mut stdout) =
        begin("run churn --threads 2 --seconds 100000 --initial-heap 2g --heap-limit 4g --flexowriter");
    send(&child, Signal::SIGUSR1);
    // The collection runs on the thread that handles signals, which is not a mutator.
    wait_for(&mut stdout, CALLED);
    send(&child, Signal::SIGINT);
    let mut rest = String::new();
    stdout.read_to_string(&mut rest).expect("stdout is text");
    assert_eq!(child.wait().expect("the child ends").code(), Some(130));
    assert!(row(&rest, "requested by").contains("explicit"), "{rest}");
}

#[test]
fn a_closed_standard_output_ends_the_run_quietly() {
    let (mut child, stdout) = endless();
    drop(stdout);
    std::thread::sleep(Duration::from_millis(200));
    send(&child, Signal::SIGTERM);
    let mut stderr = String::new();
    child.stderr.take().expect("stderr is piped").read_to_string(&mut stderr).expect("stderr is text");
    assert_eq!(child.wait().expect("the child ends").code(), Some(143), "{stderr}");
    assert!(stderr.is_empty(), "{stderr}");
}

/// Writes a Scheme program into a temporary file.
fn program(text: &str) -> tempfile::NamedTempFile {
    let file = tempfile::Builder::new().suffix(".scm").tempfile().expect("there is room for a file");
    std::fs::write(&file, text).expect("the file can be written");
    file
}

const SUM: &str = "
    (define (count n) (if (= n 0) '() (cons n (count (- n 1)))))
    (define (repeat n) (if (= n 0) 'done (begin (apply + (count 1000)) (repeat (- n 1)))))
    (repeat 100)
    (display (apply + (count 100)))
    (newline)";

#[test]
fn a_scheme_program_prints_its_output_and_then_the_table() {
    let file = program(SUM);
    let output = stopworld(&format!("run lisp {}", file.path().display()));
    let stdout = text(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert!(stdout.starts_with("5050\n"), "{stdout}");
    collections(&stdout);
}

#[rstest]
fn scheme_programs_run_on_several_threads_for_a_number_of_collections(
    #[values("signals", "safepoints", "mock-debugger")] stop: &str,
) {
    let (one, two) = (program(SUM), program("(display \"second\")"));
    let (one, two) = (one.path().display(), two.path().display());
    let output = stopworld(&format!("run lisp {one} {two} --threads 3 --collections 4 --stop {stop}"));
    let stdout = text(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    for thread in 0..3 {
        assert_eq!(stdout.matches(&format!("[lisp-{thread}] 5050\n")).count(), 1, "{stdout}");
        assert_eq!(stdout.matches(&format!("[lisp-{thread}] second\n")).count(), 1, "{stdout}");
    }
    assert!(collections(&stdout) >= 4, "{stdout}");
}

#[rstest]
#[case("(display \"never\")\n  (display (+ 1 2)", 1, ":2:3")]
#[case("(define (f x) (+ 1 (f x)))\n(f 1)", 1, "recursion")]
#[case("(car 1)", 1, "car")]
#[case("(exit 7)", 7, "")]
fn a_scheme_program_that_fails_says_where_and_exits_with_an_error(
    #[case] source: &str,
    #[case] code: i32,
    #[case] told: &str,
) {
    let file = program(source);
    let output = stopworld(&format!("run lisp {}", file.path().display()));
    let stderr = text(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{stderr}");
    assert!(stderr.contains(told), "'{stderr}' does not say '{told}'");
    assert!(!text(&output.stdout).contains("never"));
}

#[test]
fn an_endless_scheme_program_is_ended_by_a_signal() {
    let file = program("(display \"begun\") (newline) (let loop () (loop))");
    let mut child = std::process::Command::new(STOPWORLD)
        .args(["run", "lisp"])
        .arg(file.path())
        .stdout(Stdio::piped())
        .spawn()
        .expect("stopworld starts");
    let mut stdout = BufReader::new(child.stdout.take().expect("stdout is piped"));
    wait_for(&mut stdout, "begun");
    send(&child, Signal::SIGINT);
    let mut rest = String::new();
    stdout.read_to_string(&mut rest).expect("stdout is text");
    assert_eq!(child.wait().expect("the child ends").code(), Some(130));
    collections(&rest);
}

#[test]
fn the_prompt_reads_forms_over_several_lines_and_goes_on_after_an_error() {
    let lines = "(+ 1\n 2)\n(car 1)\n(* 6 7)\n";
    let output =
        Command::new(STOPWORLD).arg("repl").write_stdin(lines).timeout(LIMIT).output().expect("stopworld starts");
    let stdout = text(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let shown: Vec<&str> = stdout.lines().take(3).collect();
    assert_eq!((shown[0], shown[2]), ("3", "42"), "{stdout}");
}

#[test]
fn mccarthys_demonstration_is_interrupted_by_the_garbage_collector() {
    let stdout = text(&stopworld("run lisp ../../examples/scheme/mccarthy.scm --flexowriter").stdout);
    assert!(stdout.contains("THE GARBAGE COLLECTOR HAS BEEN CALLED"), "{stdout}");
    assert!(stdout.contains("(the garbage collector)"), "{stdout}");
}

#[rstest]
#[case("1k", 1)]
#[case("300k", 1)]
#[case("16MiB", 0)]
fn a_heap_that_is_too_small_for_scheme_is_reported_with_one_that_works(#[case] limit: &str, #[case] code: i32) {
    let file = program(SUM);
    let output = stopworld(&format!("run lisp {} --heap-limit {limit}", file.path().display()));
    let stderr = text(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{stderr}");
    assert!(code == 0 || (stderr.lines().count() == 1 && stderr.contains("--heap-limit 16MiB")), "{stderr}");
}

/// Each command: with an unknown option, with a required argument missing, and with an invalid value.
#[rstest]
#[case::no_command("", "--help")]
#[case::unknown_command("rum", "'run'")]
#[case::unknown_workload("run grap", "'graph'")]
#[case::unknown_stopper("run graph --stop signal", "signals")]
#[case::two_ends("run graph --seconds 1 --collections 1", "--seconds")]
#[case::depth_without_trees("run graph --depth 3", "binary-trees")]
#[case::a_file_for_no_reader("run graph x.scm", "run lisp x.scm")]
#[case::unknown_extension("run graph --trace x.perfeto", ".mps, .nettrace, .json, .eventlog, .hp or .prof")]
#[case::unknown_extension_of_the_prompt("repl --trace x.perfeto", ".mps, .nettrace, .json, .eventlog, .hp or .prof")]
#[case::unknown_format("run graph --trace x --format perfeto", "eventlog")]
#[case::categories("run graph --events Bogus", "for a .nettrace, ")]
#[case::keywords("run graph --events Bogus", "GCHandle")]
#[case::classes("run graph --events Bogus", "for an .eventlog, ")]
#[case::groups("run graph --events Bogus", "for a timeline, ")]
#[case::profile_without_provider("run graph --trace x.nettrace --profile hT", "--providers stopworld:0x40")]
#[case::time_without_provider("run graph --trace x.nettrace --time-profile", "--providers stopworld:0x40")]
#[case::interval_alone("run graph --interval 1", "--profile")]
#[case::workloads("workloads x", "'x'")]
#[case::events("events GcStrat", "GcStart")]
#[case::repl("repl --bogus", "--bogus")]
#[case::debug("debug", "PROGRAM")]
#[case::attach("attach x", "usage: stopworld attach")]
#[case::eventcnv("eventcnv -q", "usage: stopworld eventcnv")]
#[case::convert("convert a", "OUT")]
#[case::convert_extension("convert a b.perfeto", ".mps, .nettrace or .json")]
#[case::dump("dump", "FILE")]
#[case::dump_time("dump a --from soon", "milliseconds")]
#[case::gcstats("gcstats a --csv --xml", "--xml")]
#[case::gcstats_process("gcstats ../../tests/fixtures/nettrace/tiny.nettrace --process 4711", "no process 4711")]
#[case::eventlog("eventlog", "stopworld eventlog show")]
#[case::eventlog_show("eventlog show", "FILE")]
#[case::heapprof("heapprof a --top few", "a whole number from 0 to")]
#[case::heapprof_forms("heapprof a --csv --html", "--html")]
#[case::timeprof("timeprof a --svg --folded", "--folded")]
#[case::trace("trace 0", "0")]
#[case::trace_providers("trace 1 --providers :1", "a provider needs a name")]
#[case::counters("counters 1 --interval -1", "above 0")]
#[case::gdb_script("gdb-script x", "'x'")]
#[case::lldb_script("lldb-script x", "'x'")]
fn a_usage_error_is_one_line_with_the_remedy_and_exit_code_2(#[case] arguments: &str, #[case] remedy: &str) {
    let output = stopworld(arguments);
    let said = text(&output.stderr);
    assert_eq!((output.status.code(), text(&output.stdout).as_str()), (Some(2), ""), "{said}");
    assert!(said.lines().count() == 1 && said.contains(remedy), "{said}");
}

#[test]
fn a_profile_of_a_run_that_ends_before_its_first_census_has_one() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("e.hp");
    let file = file.to_str().expect("a name");
    // The run has no collection and takes almost no time.
    let output = stopworld(&format!("run binary-trees --depth 4 --profile hT --interval 100 --trace {file}"));
    let said = text(&output.stderr);
    assert_eq!((output.status.code(), said.lines().count()), (Some(0), 1), "{said}");
    assert!(said.contains("before its first census") && said.contains("--interval"), "{said}");
    let written = std::fs::read_to_string(file).expect("the file exists");
    // The samples are one at the beginning and one at the end, which every such file has, and the census.
    assert_eq!(written.matches("BEGIN_SAMPLE").count(), 3, "{written}");

    // The first collection always takes a census, without waiting for the interval.
    let output = stopworld(&format!("run graph --collections 1 --profile hT --interval 100 --trace {file}"));
    assert_eq!((output.status.code(), text(&output.stderr).as_str()), (Some(0), ""));
    let output = stopworld(&format!("heapprof {file} --csv"));
    assert_eq!(output.status.code(), Some(0));
    assert!(text(&output.stdout).contains("SMALL_MUTABLE"), "{}", text(&output.stdout));
}

#[test]
fn a_heap_profile_without_samples_is_reported_as_one() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("e.hp");
    let empty = "BEGIN_SAMPLE 0.0\nEND_SAMPLE 0.0\n";
    let head = "JOB \"p\"\nDATE \"d\"\nSAMPLE_UNIT \"seconds\"\nVALUE_UNIT \"bytes\"\n";
    std::fs::write(&file, format!("{head}{empty}{empty}")).expect("the file can be written");
    for form in ["", " --csv", " --html"] {
        let output = stopworld(&format!("heapprof {}{form}", file.display()));
        let said = text(&output.stderr);
        assert_eq!((output.status.code(), text(&output.stdout).as_str()), (Some(1), ""), "{said}");
        assert!(said.lines().count() == 1 && said.contains("no non-empty sample"), "{said}");
    }
}
