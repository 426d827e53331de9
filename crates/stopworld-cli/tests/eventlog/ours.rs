//! stopworld's eventlogs, read by stopworld: `eventlog show`, `heapprof` and `timeprof` report what `run --profile` writes.

use crate::command_support;

use std::collections::HashSet;
use std::fs;

use command_support::{directory, run, text};
use ghc_eventlog::events::Record;
use ghc_eventlog::read::{Event, Visitor, in_file_order};
use rstest::rstest;
use stopworld_analysis::profstats::{Breakdown, Profiles};

/// The format's number for events without a capability.
const NO_CAPABILITY: u32 = 0xffff;

/// The live bytes after each collection, in file order.
#[derive(Default)]
struct Live(Vec<u64>);

impl Visitor for Live {
    fn event(&mut self, event: &Event<'_>) {
        if let Some(Record::HeapLive(heap)) = Record::of(event) {
            self.0.push(heap.bytes);
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
    // The run takes a few milliseconds.
    let settings = format!("--initial-heap 512k --profile {profile} --time-profile --tick 0.0001");
    let arguments = format!("run gcbench --depth 12 {settings} --trace o.eventlog");
    let output = run(directory.path(), &arguments);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let log = fs::read(directory.path().join("o.eventlog")).unwrap();
    let (profiles, summary) = Profiles::read(&log[..]);
    assert_eq!(summary.damage, None);
    assert_eq!(profiles.heap.breakdown, breakdown);
    let mut live = Live::default();
    in_file_order(&log[..], &mut live);
    let samples: Vec<u64> =
        profiles.heap.samples.kept().iter().map(stopworld_analysis::profstats::Sample::total).collect();
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

/// The samples of a log by cost centre, each with its bands in file order.
#[derive(Default)]
struct Stacks(Vec<Vec<(Vec<u32>, u64)>>);

impl Visitor for Stacks {
    fn event(&mut self, event: &Event<'_>) {
        match Record::of(event) {
            Some(Record::HeapProfSampleBegin(_)) => self.0.push(Vec::new()),
            Some(Record::HeapProfSampleCostCentre(band)) => {
                self.0.last_mut().unwrap().push((band.stack.centres().collect(), band.residency));
            }
            _ => {}
        }
    }
}

/// The format has room for 255 centres. Stacks with the same innermost 255 centres are one band, and no byte is lost.
#[test]
fn stacks_that_are_cut_alike_are_one_band() {
    let directory = directory();
    let mut program = String::new();
    for number in 0..300 {
        program += &format!("(define (c{number} n) (let ((r (c{} n))) r))\n", number + 1);
    }
    program += "(define (c300 n) (if (= n 0) '() (cons n (c300 (- n 1)))))\n";
    for (name, count) in [("p", 1000), ("q", 500), ("r", 250)] {
        program += &format!("(define ({name}) (let ((r (c0 {count}))) r))\n(define kept-{name} ({name}))\n");
        // The bytes of the short stacks are between those of the deep stacks.
        program += &format!("(define (short-{name}) (let ((r (c290 {}))) r))\n", count - 100);
        program += &format!("(define kept-short-{name} (short-{name}))\n");
    }
    program += "(define (garbage n) (if (> n 0) (begin (cons 1 2) (garbage (- n 1)))))\n(garbage 200000)\n";
    fs::write(directory.path().join("deep.scm"), program).unwrap();
    let output = run(directory.path(), "run lisp deep.scm --initial-heap 1m --profile hc --trace o.eventlog");
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let log = fs::read(directory.path().join("o.eventlog")).unwrap();
    let (mut stacks, mut live) = (Stacks::default(), Live::default());
    in_file_order(&log[..], &mut stacks);
    in_file_order(&log[..], &mut live);
    let sums: Vec<u64> = stacks.0.iter().map(|bands| bands.iter().map(|(_, bytes)| bytes).sum()).collect();
    assert_eq!(sums, live.0);
    for bands in &stacks.0 {
        let different: HashSet<_> = bands.iter().map(|(stack, _)| stack).collect();
        assert_eq!(different.len(), bands.len());
    }
    let deepest = stacks.0.last().unwrap().iter().filter(|(stack, _)| stack.len() == 255);
    // The merged band has the objects that the three programs keep and the cells of the recursion, one entry for each depth beyond the
    // 255th.
    let most = deepest.map(|(_, bytes)| *bytes).max().unwrap();
    assert!(most >= (1000 + 500 + 250) * 24, "{most}");
}

/// One capability for each thread, and one for threads that belong to no world.
#[test]
fn a_time_profile_has_the_capabilities_of_the_threads() {
    let directory = directory();
    // A few milliseconds of processor time belong to no mutator: to the collector's own threads, and to the start of the process.
    let arguments = "run graph --threads 2 --time-profile --tick 0.0001 --trace o.eventlog";
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

/// The kind of the filter, and its value. The name of a module is its whole path; a part of it matches nothing.
#[rstest]
#[case("type=Vertex,Node", "type Vertex,Node", true)]
#[case("module=graph", "module graph", false)]
#[case(
    "module=stopworld_workloads::graph --only centre=vertices",
    "module stopworld_workloads::graph; centre vertices",
    true
)]
fn a_profile_says_what_it_is_limited_to(#[case] only: &str, #[case] shown: &str, #[case] passes: bool) {
    let directory = directory();
    let output = run(directory.path(), &format!("run graph --profile hT --only {only} --trace o.eventlog"));
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let heapprof = run(directory.path(), "heapprof o.eventlog");
    let (report, refusal) = (text(&heapprof.stdout), text(&heapprof.stderr));
    assert_eq!(heapprof.status.code(), Some(i32::from(!passes)), "{refusal}");
    assert_eq!(report.contains(&format!("┆ {shown} ")) && report.contains("SMALL"), passes, "{report}");
    assert_eq!(refusal.contains("its filters matched nothing"), !passes, "{refusal}");
    // If the profile is empty, the run has reported that.
    let said = text(&output.stderr);
    assert_eq!(said.lines().count(), usize::from(!passes), "{said}");
    assert_eq!(said.contains("--only matched nothing in "), !passes, "{said}");
}

/// The .hp file of the same run gives the same report.
#[test]
fn a_hp_file_of_stopworld_is_read_like_one_of_ghc() {
    let directory = directory();
    let output = run(directory.path(), "run gcbench --depth 12 --initial-heap 512k --profile hy --trace o.hp");
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let report = run(directory.path(), "heapprof o.hp");
    assert_eq!((report.status.code(), text(&report.stderr).as_str()), (Some(0), ""));
    assert!(text(&report.stdout).contains("Node"), "{}", text(&report.stdout));
}
