//! Eventlogs of ours, read by ours: what `run --profile` writes is what `eventlog show`, `heapprof` and `timeprof` say.

mod command_support;

use std::fs;

use command_support::{directory, run, text};
use rstest::rstest;
use stopworld::formats::eventlog::read::record::Record;
use stopworld::formats::eventlog::read::{Event, Visitor, in_file_order};
use stopworld::profstats::{Breakdown, Profiles};

/// The format's number for what is of no capability.
const NO_CAPABILITY: u32 = 0xffff;

/// The live bytes after each collection, in the order of the file.
#[derive(Default)]
struct Live(Vec<u64>);

impl Visitor for Live {
    fn event(&mut self, event: &Event<'_>) {
        if let Some(Record::HeapLive(bytes)) = Record::of(event) {
            self.0.push(bytes);
        }
    }
}

#[rstest]
#[case("hc", Breakdown::CostCentre)]
#[case("hm", Breakdown::Module)]
#[case("hd", Breakdown::Closure)]
#[case("hy", Breakdown::Type)]
#[case("hr", Breakdown::Retainer)]
#[case("hT", Breakdown::ClosureType)]
fn the_samples_of_a_profile_are_the_live_bytes(#[case] profile: &str, #[case] breakdown: Breakdown) {
    let directory = directory();
    let arguments =
        format!("run gcbench --depth 12 --initial-heap 512k --profile {profile} --time-profile --trace o.eventlog");
    let output = run(directory.path(), &arguments);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let log = fs::read(directory.path().join("o.eventlog")).unwrap();
    let (profiles, summary) = Profiles::read(&log[..]);
    assert_eq!(summary.damage, None);
    assert_eq!(profiles.heap.breakdown, breakdown);
    let mut live = Live::default();
    in_file_order(&log[..], &mut live);
    let samples: Vec<u64> = profiles.heap.samples.kept().iter().map(stopworld::profstats::Sample::total).collect();
    assert!(!samples.is_empty());
    assert_eq!(samples, live.0);
    assert_eq!(profiles.heap.collections.seen(), live.0.len() as u64);
    for command in
        ["eventlog show o.eventlog", "heapprof o.eventlog", "heapprof --html o.eventlog", "timeprof o.eventlog"]
    {
        let output = run(directory.path(), command);
        assert_eq!((output.status.code(), text(&output.stderr).as_str()), (Some(0), ""), "{command}");
    }
    let report = text(&run(directory.path(), "timeprof --folded o.eventlog").stdout);
    assert!(report.lines().any(|line| line.starts_with("MAIN")), "{report}");
}

/// One for each thread, and those of threads that are none of the world's by themselves.
#[test]
fn a_time_profile_has_the_capabilities_of_the_threads() {
    let directory = directory();
    // Of the processor's time some is no mutator's: the collector's own threads have it, and the process's first steps.
    let arguments = "run graph --threads 2 --time-profile --tick 0.001 --trace o.eventlog";
    let output = run(directory.path(), arguments);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let log = fs::read(directory.path().join("o.eventlog")).unwrap();
    let (profiles, _) = Profiles::read(&log[..]);
    let of_threads = profiles.time.runs.keys().filter(|cap| **cap != NO_CAPABILITY).count();
    assert!(of_threads > 0 && profiles.time.runs.contains_key(&NO_CAPABILITY), "{:?}", profiles.time.runs.keys());
    let report = text(&run(directory.path(), "timeprof o.eventlog").stdout);
    let row = report.lines().find(|line| line.contains("capabilities")).unwrap();
    assert!(row.contains(&format!("┆ {of_threads} ")), "{row}");
    let speedscope = text(&run(directory.path(), "timeprof --speedscope o.eventlog").stdout);
    assert!(["\"capability ", "\"no capability\""].iter().all(|name| speedscope.contains(name)), "{speedscope}");
    assert!(!speedscope.contains("65535"), "{speedscope}");
}

/// By what, and which. The name of a module is its whole path; a part of it lets nothing pass.
#[rstest]
#[case("type=Vertex,Node", "type Vertex,Node", true)]
#[case("module=graph", "module graph", false)]
#[case(
    "module=stopworld::workloads::graph --only centre=vertices",
    "module stopworld::workloads::graph; centre vertices",
    true
)]
fn a_profile_says_what_it_counts_only(#[case] only: &str, #[case] shown: &str, #[case] passes: bool) {
    let directory = directory();
    let output = run(directory.path(), &format!("run graph --profile hT --only {only} --trace o.eventlog"));
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let report = text(&run(directory.path(), "heapprof o.eventlog").stdout);
    assert!(report.contains(&format!("┆ {shown} ")), "{report}");
    assert_eq!(report.contains("SMALL"), passes, "{report}");
}

/// The same run's text says the same.
#[test]
fn a_text_of_ours_is_read_as_one_of_ghcs() {
    let directory = directory();
    let output = run(directory.path(), "run gcbench --depth 12 --initial-heap 512k --profile hy --trace o.hp");
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let report = run(directory.path(), "heapprof o.hp");
    assert_eq!((report.status.code(), text(&report.stderr).as_str()), (Some(0), ""));
    assert!(text(&report.stdout).contains("Node"), "{}", text(&report.stdout));
}
