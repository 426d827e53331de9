//! .nettrace files written by the command: its arguments, files that fail, runs that do not end by themselves.

use crate::command_support;
use crate::nettrace_rules;

use command_support::scenarios::{self, figure};
use nettrace_rules::{DEFAULT, OWN, PRIVATE, Trace as Parsed, check, check_collections};
use nix::sys::signal::Signal;
use rstest::rstest;

const VERBOSE: &str = "--providers Microsoft-Windows-DotNETRuntime:3:5,stopworld::5";

// ---- Arguments -----------------------------------------------------------------------------------------------------

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
    let parsed = Parsed::parse(&scenarios::leaves(file, arguments));
    assert_eq!(parsed.version, version);
    check(&parsed);
    for provider in [DEFAULT, PRIVATE, OWN] {
        // The names of threads belong to the collections.
        let mut others = parsed.events.iter().filter(|event| event.kind.name != "ThreadAttached");
        let is_there = others.any(|event| event.kind.provider == provider);
        assert_eq!(is_there, providers.contains(&provider), "{provider}");
    }
    assert!(parsed.events[0].text("CommandLine").contains("run binary-trees --depth 14"));
}

#[rstest]
#[case("--trace t.nettrace --events Arena", "'Arena' is not one of the keywords")]
#[case("--trace t.mps --events GC", "'GC' is none of the categories")]
#[case("--trace t.nettrace --events GC@Loud", "is not a level")]
#[case("--trace t.nettrace --events GC@9", "'9' is not a level: use a number from 0 to 5 or one of LogAlways")]
#[case("--trace t.nettrace --providers :1", "a provider needs a name")]
#[case("--trace t.nettrace --providers a:1:9", "'--providers <LIST>': '9' is not a level: use a number from 0 to 5")]
#[case("--trace t.mps --providers stopworld", "name a FILE.nettrace")]
#[case("--format nettrace", "--trace FILE.nettrace")]
#[case("--trace - --format nettrace", "--trace -: standard output has what the program prints: name a file")]
#[case("--trace t.nettrace --profile hT", "--trace FILE.eventlog or FILE.hp")]
#[case("--trace t.nettrace --format nettrace6 --profile hT", "--trace FILE.eventlog or FILE.hp")]
#[case("--trace t.nettrace --providers stopworld:1 --profile hT", "--trace FILE.eventlog or FILE.hp")]
#[case("--trace t.nettrace --time-profile", "--trace FILE.eventlog or FILE.prof")]
#[case("--trace t.nettrace --events GC --time-profile", "--trace FILE.eventlog or FILE.prof")]
fn conflicting_arguments_are_one_line(#[case] arguments: &str, #[case] why: &str) {
    scenarios::is_refused(arguments, why);
}

/// The profile is among the events of the stopworld provider.
#[test]
fn a_profile_is_in_a_trace_that_asks_for_it() {
    let asked = "--initial-heap 128k --providers stopworld --profile hT --time-profile --tick 0.0005";
    let parsed = Parsed::parse(&scenarios::leaves("t.nettrace", &format!("--trace t.nettrace {asked}")));
    let count =
        |name| parsed.events.iter().filter(|event| event.kind.provider == OWN && event.kind.name == name).count();
    assert!(count("CensusBand") >= count("CensusBegin") && count("CensusBegin") > 0);
    assert!(count("Tick") > 0);
}

/// The README's command: PerfView and dotnet-gcdump read the dump of a collection only if the collection was induced.
#[rstest]
#[case::collects_by_itself("graph --threads 2", 1_000)]
#[case::collects_only_for_the_dump("binary-trees --depth 4", 0)]
fn a_heap_dump_is_one_that_its_readers_find(
    #[case] workload: &str,
    #[case] least: usize,
    #[values("nettrace", "nettrace6")] format: &str,
) {
    let directory = command_support::directory();
    let line = format!("run {workload} --trace heap.nettrace --format {format} --events GC+Type+GCHeapDump");
    let output = command_support::run(directory.path(), &line);
    assert_eq!(output.status.code(), Some(0));
    let parsed = Parsed::read(&directory.path().join("heap.nettrace"));
    match nettrace_rules::readers::heap_dump(&parsed) {
        Ok(found) => assert!(found.nodes >= least && found.unnamed == 0 && found.edges >= least, "{found:?}"),
        // No object was alive.
        Err(error) => assert_eq!((least, error.as_str()), (0, "the file did not include a heap dump")),
    }
    let starts: Vec<_> = parsed.named("GCStart").map(|event| event.number("Reason")).collect();
    assert_eq!(starts.iter().filter(|&&reason| reason == 1).count(), 1, "{starts:?}");
}

// ---- Files that fail -----------------------------------------------------------------------------------------------

/// `.event.full-disk`
#[rstest]
#[case::full("/dev/full", "No space left on device")]
#[case::nowhere("no/such/t.nettrace", "No such file or directory")]
fn a_file_that_fails_is_one_line_and_the_run_goes_on(#[case] file: &str, #[case] why: &str) {
    scenarios::goes_on_without_its_file(file, &[why], &format!("--format nettrace {VERBOSE}"));
}

/// `.event.full-disk`: the part that was written before the failure is a complete trace, which ends as the format requires.
#[test]
fn a_file_that_may_not_grow_stays_whole() {
    let (figures, written) = scenarios::may_write_only(1400, "graph", "t.nettrace", VERBOSE);
    let parsed = Parsed::parse(&written);
    assert!(parsed.events.len() > 1_000, "{}", parsed.events.len());
    // The two events that describe the process are not a world's.
    let of_worlds = parsed.events.len() as u64 - 2;
    assert!(figure(&figures, "events") - figure(&figures, "lost") <= of_worlds, "{figures} <= {of_worlds}");
}

#[test]
fn a_closed_pipe_ends_the_trace_and_not_the_run() {
    let head = scenarios::loses_its_reader("graph", &format!("--format nettrace {VERBOSE}"));
    assert_eq!(&head[..8], b"Nettrace");
}

#[test]
fn a_pipe_has_the_whole_trace() {
    assert!(check(&Parsed::parse(&scenarios::comes_through_a_pipe("nettrace"))).len() >= 3);
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
    let more = format!("--format {format} {VERBOSE}");
    check(&Parsed::parse(&scenarios::ends_when_asked(asked, code, "t.nettrace", &more)));
}

#[test]
fn a_run_that_is_abandoned_is_traced_until_then() {
    check_collections(&Parsed::parse(&scenarios::is_left_behind("t.nettrace", VERBOSE)));
}

/// `.event.crash`: the flushed part of the file is a trace with its end tag, unless the run was killed during a write.
#[rstest]
fn a_run_that_is_killed_leaves_a_trace(#[values("nettrace", "nettrace6")] format: &str) {
    scenarios::most_of_the_killed_have_their_end("t.nettrace", &format!("--format {format}"), |bytes| {
        let mut events = Counting(0);
        let summary = nettrace::Reader::new(bytes).read(&mut events);
        assert!(events.0 >= 2, "{summary:?}");
        let is_whole = summary.damage.is_none();
        if is_whole {
            check(&Parsed::parse(bytes));
        }
        is_whole
    });
}

struct Counting(u64);

impl nettrace::Visitor for Counting {
    fn event(&mut self, _: &nettrace::NetEvent<'_>) {
        self.0 += 1;
    }
}

#[test]
fn the_flight_recorder_is_written_when_asked_and_only_then() {
    assert!(!check(&Parsed::parse(&scenarios::writes_its_recorder_when_asked("t.nettrace"))).is_empty());
}
