//! The real tools of GHC read stopworld's logs: the library ghc-events, ThreadScope, hp2ps. A test prints `skipped` if its tool is not
//! installed.

use crate::command_support;
use crate::eventlog_rules;
use crate::skipped;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use command_support::{begin, directory, run, signal, size, text, wait_until};
use eventlog_rules::{Log, check};
use ghc_eventlog::events::id;
use nix::sys::signal::Signal;
use rstest::rstest;
use stopworld::World;
use stopworld_trace::eventlog;

/// The names that ghc-events gives to the events whose numbers are checked.
const NAMES: [(&str, u16); 30] = [
    ("BlocksSize", id::BLOCKS_SIZE),
    ("CapCreate", id::CAP_CREATE),
    ("CapDelete", id::CAP_DELETE),
    ("CapsetAssignCap", id::CAPSET_ASSIGN_CAP),
    ("CreateThread", id::CREATE_THREAD),
    ("EndGC", id::GC_END),
    ("GCDone", id::GC_DONE),
    ("GCIdle", id::GC_IDLE),
    ("GCStatsGHC", id::GC_STATS_GHC),
    ("GCWork", id::GC_WORK),
    ("GlobalSyncGC", id::GC_GLOBAL_SYNC),
    ("HeapAllocated", id::HEAP_ALLOCATED),
    ("HeapBioProfSampleBegin", id::HEAP_BIO_PROF_SAMPLE_BEGIN),
    ("HeapInfoGHC", id::HEAP_INFO_GHC),
    ("HeapLive", id::HEAP_LIVE),
    ("HeapProfBegin", id::HEAP_PROF_BEGIN),
    ("HeapProfCostCentre", id::HEAP_PROF_COST_CENTRE),
    ("HeapProfSampleBegin", id::HEAP_PROF_SAMPLE_BEGIN),
    ("HeapProfSampleCostCentre", id::HEAP_PROF_SAMPLE_COST_CENTRE),
    ("HeapProfSampleEnd", id::HEAP_PROF_SAMPLE_END),
    ("HeapProfSampleString", id::HEAP_PROF_SAMPLE_STRING),
    ("HeapSize", id::HEAP_SIZE),
    ("ProfSampleCostCentre", id::PROF_SAMPLE_COST_CENTRE),
    ("RunThread", id::RUN_THREAD),
    ("StartGC", id::GC_START),
    ("StopThread", id::STOP_THREAD),
    ("ThreadLabel", id::THREAD_LABEL),
    // A type of stopworld, which the library does not know.
    ("UnknownEvent", id::HEAP_PROF_SAMPLE_OBJECTS),
    ("UserMarker", id::USER_MARKER),
    ("UserMessage", id::USER_MSG),
];

/// Whether a tool is installed; reports a skipped test if not.
fn has(tool: &str) -> bool {
    let found = Command::new("sh").args(["-c", &format!("command -v {tool}")]).stdout(Stdio::null()).status();
    let is_there = found.unwrap().success();
    if !is_there {
        skipped::skipped(tool);
    }
    is_there
}

/// Builds the reader over GHC's library.
fn reader(directory: &Path) -> Option<PathBuf> {
    if !has("ghc") {
        return None;
    }
    let (source, program) = (directory.join("Counts.hs"), directory.join("counts"));
    fs::copy(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/eventlog_tools/counts.hs"), &source).unwrap();
    let mut ghc = Command::new("ghc");
    ghc.args(["-v0", "-package", "ghc-events", "-o"]).arg(&program).arg(&source);
    let output = ghc.output().unwrap();
    let said = text(&output.stderr);
    if said.contains("cannot satisfy -package") {
        skipped::skipped("libghc-ghc-events-dev");
        return None;
    }
    assert!(output.status.success(), "{said}");
    Some(program)
}

/// The number of events of each kind that GHC's library finds.
fn counted(reader: &Path, log: &Path) -> BTreeMap<String, usize> {
    let output = Command::new(reader).arg(log).output().unwrap();
    assert!(output.status.success(), "{}: {}", log.display(), text(&output.stderr));
    let line = |line: &str| {
        let (name, count) = line.split_once(' ').unwrap();
        (name.to_owned(), count.parse().unwrap())
    };
    text(&output.stdout).lines().map(line).collect()
}

fn is_what_we_wrote(reader: &Path, file: &Path) -> Log {
    let log = Log::read(file);
    let counts = counted(reader, file);
    for (name, id) in NAMES {
        assert_eq!(counts.get(name).copied().unwrap_or(0), log.count(id), "{name} in {}", file.display());
    }
    assert_eq!(counts.values().sum::<usize>(), log.events.len(), "{counts:?}");
    log
}

/// Every workload, and events that only some runs write.
#[test]
fn the_library_of_ghc_reads_every_log_and_counts_as_we_do() {
    let directory = directory();
    let Some(reader) = reader(directory.path()) else { return };
    fs::write(
        directory.path().join("list.scm"),
        "(define (up n) (if (= n 0) '() (cons n (up (- n 1))))) (length (up 9999))",
    )
    .unwrap();
    let runs = [
        "binary-trees --depth 14 --threads 2",
        "gcbench --depth 14 --threads 2",
        "churn --threads 3 --collections 20",
        "graph --threads 2",
        "hammer --seconds 0.3",
        "lisp list.scm --initial-heap 1m",
        "churn --threads 3 --collections 20 --events -s",
        "churn --threads 3 --collections 5 --events u",
    ];
    for (number, arguments) in runs.iter().enumerate() {
        let name = format!("{number}.eventlog");
        let output = run(directory.path(), &format!("run {arguments} --trace {name}"));
        assert_eq!((output.status.code(), text(&output.stderr).as_str()), (Some(0), ""), "{arguments}");
        let log = is_what_we_wrote(&reader, &directory.path().join(name));
        check(&log);
    }
}

/// A profile by this breakdown, with ticks.
fn is_a_profile_that_the_library_reads(by: &str) {
    let directory = directory();
    let Some(reader) = reader(directory.path()) else { return };
    let arguments = format!("run graph --threads 2 --profile {by} --time-profile --trace t.eventlog");
    let output = run(directory.path(), &arguments);
    assert_eq!((output.status.code(), text(&output.stderr).as_str()), (Some(0), ""), "{arguments}");
    let log = is_what_we_wrote(&reader, &directory.path().join("t.eventlog"));
    let (collections, is_biography) = (check(&log).len(), by == "hb");
    let samples = [log.count(id::HEAP_PROF_SAMPLE_BEGIN), log.count(id::HEAP_BIO_PROF_SAMPLE_BEGIN)];
    // The last collection of a biography, in which all objects end, is not a sample.
    assert_eq!(samples, if is_biography { [0, collections - 1] } else { [collections, 0] });
    assert_eq!((log.count(id::HEAP_PROF_BEGIN), log.count(id::HEAP_PROF_SAMPLE_END)), (1, samples[0] + samples[1]));
    let by_stack = log.count(id::HEAP_PROF_SAMPLE_COST_CENTRE);
    assert!(collections > 0 && (by_stack > 0) == (by == "hc"), "{by}: {by_stack}");
}

#[rstest]
fn the_library_of_ghc_reads_every_profile_and_counts_as_we_do(#[values("hc", "hm", "hd", "hy", "hr", "hT")] by: &str) {
    is_a_profile_that_the_library_reads(by);
}

/// Messages of a program, in any script.
#[test]
fn the_library_of_ghc_reads_messages_and_markers() {
    let directory = directory();
    let Some(reader) = reader(directory.path()) else { return };
    let file = directory.path().join("t.eventlog");
    let trace = eventlog::Options::new(&file).start().unwrap();
    let world = World::builder().heap_limit(64 << 20).record_to(&trace).build().unwrap();
    for text in ["begin", "größe → 3", "a \"quoted\" thing,\non two lines"] {
        world.events().telemetry_message(text).unwrap();
        world.collect().unwrap();
        world.events().telemetry_marker(text).unwrap();
    }
    world.close(Duration::from_secs(10)).unwrap();
    drop(world);
    trace.finish().unwrap();
    let log = is_what_we_wrote(&reader, &file);
    assert_eq!((log.count(id::USER_MSG), log.count(id::USER_MARKER)), (3, 3));
    if has("ghc-events") {
        is_shown_alike(directory.path());
    }
}

/// Whether uses are recorded; reports a skipped test if not.
fn has_biography() -> bool {
    let has = cfg!(feature = "biography");
    if !has {
        skipped::skipped("a build with the feature biography");
    }
    has
}

#[test]
fn the_library_of_ghc_reads_a_biography_and_counts_as_we_do() {
    if has_biography() {
        is_a_profile_that_the_library_reads("hb");
    }
}

/// This also holds for a profile by another breakdown that is filtered by the stages of a biography.
#[rstest]
fn our_reader_shows_a_biography_as_ghc_events_does(#[values("hb", "hy --only biography=drag,void")] by: &str) {
    if has_biography() {
        is_shown_as_ghc_events_does(&format!("churn --collections 12 --profile {by}"));
    }
}

#[test]
fn hp2ps_draws_a_biography() {
    if has_biography() {
        is_drawn_by_hp2ps("hb", "graph --threads 2");
    }
}

/// stopworld's reader on its own logs, compared with the command of ghc-events. This version of the command omits the events of blocks.
#[rstest]
#[case("churn --threads 3 --collections 20")]
#[case("graph --threads 2 --profile hc --time-profile")]
#[case("graph --threads 2 --profile hr")]
fn our_reader_shows_our_logs_as_ghc_events_does(#[case] arguments: &str) {
    is_shown_as_ghc_events_does(arguments);
}

/// The numbers of objects have a type of event that ghc-events does not know: it prints the type's description for each, and all bands.
#[test]
fn ghc_events_shows_bands_with_and_without_numbers_of_objects() {
    if !has("ghc-events") {
        return;
    }
    let directory = directory();
    let output = run(directory.path(), "run graph --threads 2 --profile hy --trace t.eventlog");
    assert_eq!(output.status.code(), Some(0));
    let shown = Command::new("ghc-events").args(["show", "t.eventlog"]).current_dir(directory.path()).output().unwrap();
    assert!(shown.status.success() && shown.stderr.is_empty(), "{}", text(&shown.stderr));
    let shown = text(&shown.stdout);
    let count = |what: &str| shown.lines().filter(|line| line.contains(what)).count();
    let log = Log::read(&directory.path().join("t.eventlog"));
    let bands = log.count(id::HEAP_PROF_SAMPLE_STRING);
    assert!(bands > 0 && log.count(id::HEAP_PROF_SAMPLE_OBJECTS) == bands, "{bands}");
    assert_eq!((count("heap prof sample 0, residency "), count(": Heap profile object count")), (bands, bands + 1));
}

fn is_shown_as_ghc_events_does(arguments: &str) {
    if has("ghc-events") {
        let directory = directory();
        let output = run(directory.path(), &format!("run {arguments} --trace t.eventlog"));
        assert_eq!(output.status.code(), Some(0));
        is_shown_alike(directory.path());
    }
}

/// Shows the log in a directory with both.
fn is_shown_alike(directory: &Path) {
    let ours = run(directory, "eventlog show t.eventlog");
    assert_eq!((ours.status.code(), text(&ours.stderr).as_str()), (Some(0), ""));
    let ghc_events = |arguments: &[&str]| {
        let output = Command::new("ghc-events")
            .args(arguments)
            .arg("t.eventlog")
            .env("LC_ALL", "C.UTF-8")
            .current_dir(directory)
            .output();
        let output = output.unwrap();
        assert!(output.status.success(), "{arguments:?}: {}", text(&output.stderr));
        output
    };
    // ghc-events validates sequences of events by rules of its own.
    for machine in ["threads", "threadpool", "threadrun", "tasks", "sparks"] {
        let said = text(&ghc_events(&["validate", machine]).stdout);
        assert!(said.starts_with("Valid event log"), "{machine}: {said}");
    }
    let theirs = ghc_events(&["show"]);
    let lines = |output: &[u8]| -> Vec<String> {
        let is_event = |line: &&str| !line.is_empty() && !line.contains("event block: cap ");
        text(output).lines().filter(is_event).map(str::to_owned).collect()
    };
    assert_eq!(lines(&ours.stdout), lines(&theirs.stdout));
}

#[rstest]
fn hp2ps_draws_our_heap_profiles(
    #[values("hc", "hm", "hd", "hy", "hr", "hT")] by: &str,
    #[values("graph --threads 2", "churn --collections 15")] workload: &str,
) {
    is_drawn_by_hp2ps(by, workload);
}

fn is_drawn_by_hp2ps(by: &str, workload: &str) {
    if !has("hp2ps") {
        return;
    }
    let directory = directory();
    let output = run(directory.path(), &format!("run {workload} --profile {by} --trace t.hp"));
    assert_eq!((output.status.code(), text(&output.stderr).as_str()), (Some(0), ""));
    let output = Command::new("hp2ps").arg("t.hp").current_dir(directory.path()).output().unwrap();
    assert!(output.status.success() && output.stderr.is_empty(), "{}", text(&output.stderr));
    let picture = fs::read_to_string(directory.path().join("t.ps")).unwrap();
    assert!(picture.starts_with("%!PS") && picture.contains("showpage"));
}

/// The library also reads the log of a run that was killed.
#[test]
fn the_library_of_ghc_reads_what_a_killed_run_has_left() {
    let directory = directory();
    let Some(reader) = reader(directory.path()) else { return };
    let file = directory.path().join("t.eventlog");
    let mut child = begin(directory.path(), "run churn --seconds 600 --trace t.eventlog");
    wait_until("something is written", || size(&file) > 10_000);
    signal(&child, Signal::SIGKILL);
    child.wait().unwrap();
    assert!(counted(&reader, &file)["StartGC"] > 0);
}

/// ThreadScope on a display of its own. It is ended when this is dropped.
struct Shown {
    threadscope: Child,
    server: Child,
    display: String,
}

impl Shown {
    fn open(directory: &Path, file: &str) -> Option<Shown> {
        if !["threadscope", "Xvfb", "xwininfo"].into_iter().all(has) {
            return None;
        }
        // Xvfb prints the display that it has taken.
        let mut server = Command::new("Xvfb");
        server.args(["-displayfd", "1", "-screen", "0", "1280x900x24"]).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut server = server.spawn().unwrap();
        let mut line = String::new();
        std::io::BufRead::read_line(&mut std::io::BufReader::new(server.stdout.take().unwrap()), &mut line).unwrap();
        let display = format!(":{}", line.trim());
        let threadscope = Command::new("threadscope")
            .arg(file)
            .current_dir(directory)
            .env("DISPLAY", &display)
            .env("HOME", directory)
            .stdout(Stdio::null())
            .stderr(fs::File::create(directory.join("said")).unwrap())
            .spawn()
            .unwrap();
        Some(Shown { threadscope, server, display })
    }

    /// The titles of its windows.
    fn titles(&self) -> Vec<String> {
        let output = Command::new("xwininfo").args(["-root", "-tree", "-display", &self.display]).output().unwrap();
        let title = |line: &str| Some(line.split_once('"')?.1.split_once("\":")?.0.to_owned());
        text(&output.stdout).lines().filter_map(title).collect()
    }
}

impl Drop for Shown {
    fn drop(&mut self) {
        for child in [&mut self.threadscope, &mut self.server] {
            // The process may have ended already.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// ThreadScope shows the file's name in its title after it has read the file, and opens an error window if it cannot read the file. The
/// number of collections that it counts follows the rule of [`eventlog_rules::threadscope`], which [`check`] compares with what was written.
#[rstest]
#[case::threads("churn --threads 3 --collections 20")]
#[case::markers("gcbench --depth 15 --threads 2 --markers 2")]
#[case::profiles("graph --threads 2 --profile hc --time-profile")]
fn threadscope_opens_our_logs(#[case] arguments: &str) {
    let directory = directory();
    let output = run(directory.path(), &format!("run {arguments} --trace t.eventlog"));
    assert_eq!(output.status.code(), Some(0));
    assert!(!check(&Log::read(&directory.path().join("t.eventlog"))).is_empty());
    let Some(mut shown) = Shown::open(directory.path(), "t.eventlog") else { return };
    let begun = Instant::now();
    loop {
        let said = fs::read_to_string(directory.path().join("said")).unwrap();
        assert!(shown.threadscope.try_wait().unwrap().is_none(), "ThreadScope ended: {said}");
        let titles = shown.titles();
        if titles.iter().any(|title| title == "t.eventlog - ThreadScope") {
            // ThreadScope shows errors only when it draws.
            std::thread::sleep(Duration::from_secs(1));
            assert!(shown.threadscope.try_wait().unwrap().is_none(), "ThreadScope ended");
            let titles = shown.titles();
            assert!(!titles.iter().any(|title| title.to_lowercase().contains("error")), "{titles:?}");
            return;
        }
        assert!(begun.elapsed() < Duration::from_secs(600), "{titles:?} {said}");
        std::thread::sleep(Duration::from_millis(100));
    }
}
