//! Compares the output of `stopworld heapprof` and `stopworld timeprof` with GHC's own profiles of the same runs.
//!
//! Next to each log under `fixtures/eventlog` that has a heap profile is the `.hp` file that the same run wrote.

use crate::command_support;
use crate::eventlog_support;
use crate::trace_data;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Output;
use std::time::Duration;

use assert_cmd::Command;
use eventlog_support::Log;
use proptest::prelude::*;
use rstest::rstest;
use serde_json::Value;
use stopworld_analysis::profstats::{Breakdown, Profiles, text};
use trace_data::third_party;

const DIRECTORY: &str = "../../tests/fixtures/eventlog";

fn run(arguments: &[&str], file: &Path) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_stopworld"));
    command.args(arguments).arg(file).timeout(Duration::from_secs(300)).output().expect("stopworld starts")
}

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).expect("reports are UTF-8")
}

fn text_of(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn log(name: &str) -> PathBuf {
    Path::new(DIRECTORY).join(format!("{name}.eventlog"))
}

fn of_log(file: &Path) -> Profiles {
    let (profiles, summary) = Profiles::read(fs::File::open(file).unwrap());
    assert_eq!(summary.damage, None);
    profiles
}

/// Returns the bytes by label of each sample that is not empty. `name` returns the label to compare, or `None` to omit a band: GHC's .hp
/// file has a number before each stack, which its log does not have.
fn samples(profiles: &Profiles, name: impl Fn(String) -> Option<String>) -> Vec<BTreeMap<String, u64>> {
    let of_sample = |sample: &stopworld_analysis::profstats::Sample| {
        let mut bands = BTreeMap::new();
        for &(band, bytes) in &sample.values {
            if let Some(name) = name(profiles.heap.name(band, &profiles.stacks, &profiles.centres)) {
                *bands.entry(name).or_default() += bytes;
            }
        }
        bands
    };
    profiles.heap.samples.kept().iter().map(of_sample).filter(|bands| !bands.is_empty()).collect()
}

fn without_number(label: String) -> String {
    match label.strip_prefix('(').and_then(|rest| rest.split_once(')')) {
        Some((number, rest)) if number.bytes().all(|byte| byte.is_ascii_digit()) => rest.to_owned(),
        _ => label,
    }
}

#[rstest]
#[case("leak.hT", Breakdown::ClosureType, 26)]
#[case("leak.hc", Breakdown::CostCentre, 11)]
#[case("leak.hr", Breakdown::Retainer, 12)]
#[case("leak.hyfilt", Breakdown::Type, 9)]
#[case("life2.hb", Breakdown::Biography, 5)]
#[case("trees.p_hc", Breakdown::CostCentre, 8)]
fn the_bands_of_each_sample_are_those_of_ghcs_own_text(
    #[case] name: &str,
    #[case] breakdown: Breakdown,
    #[case] bands_at_least: usize,
) {
    let ours = of_log(&log(name));
    let (theirs, summary) = text::read(fs::read(log(name).with_extension("hp")).unwrap().as_slice());
    assert_eq!(summary.damage, None);
    assert_eq!(ours.heap.breakdown, breakdown);
    let is_stack = breakdown == Breakdown::CostCentre;
    let ours = samples(&ours, Some);
    // GHC writes the contents of a retainer set that exceeds the limit only into the .hp file.
    let theirs = samples(&theirs, |label| {
        let label = if is_stack { without_number(label) } else { label };
        (!label.contains("MANY")).then_some(label)
    });
    assert!(ours.len() > 5 && ours[0].len() >= bands_at_least, "{} samples, {} bands", ours.len(), ours[0].len());
    for (number, (ours, theirs)) in ours.iter().zip(&theirs).enumerate() {
        assert_eq!(ours, theirs, "sample {number}");
    }
    assert_eq!(ours.len(), theirs.len());
}

/// The sets of the case in the specification: objects used at once, later, or never.
#[test]
fn a_biography_has_the_times_that_its_samples_describe() {
    let profiles = of_log(&log("life2.hb"));
    let kept = profiles.heap.samples.kept();
    let names = |band| profiles.heap.name(band, &profiles.stacks, &profiles.centres);
    let all: Vec<_> = kept[0].values.iter().map(|&(band, bytes)| (names(band), bytes)).collect();
    let expected = [("VOID", 3_826_584), ("LAG", 1_121_760), ("USE", 480_144), ("INHERENT_USE", 44_448), ("DRAG", 0)];
    assert_eq!(all, expected.map(|(name, bytes)| (name.to_owned(), bytes)));
    // The samples were written at the end of the program.
    let last = kept.last().unwrap().time_ns;
    assert!(kept.windows(2).all(|pair| pair[0].time_ns < pair[1].time_ns) && last < profiles.end_ns);
    assert!(kept[1].time_ns - kept[0].time_ns > 1_000_000);
}

#[rstest]
fn the_report_of_every_log_and_text_has_its_bands(
    #[values("leak.hT", "leak.hc", "leak.hr", "leak.hyfilt", "life2.hb", "trees.p_hc")] name: &str,
    #[values("eventlog", "hp")] kind: &str,
) {
    let file = log(name).with_extension(kind);
    let output = run(&["heapprof", "--top", "1000"], &file);
    assert_eq!((output.status.code(), output.stderr.len()), (Some(0), 0));
    let report = stdout(&output);
    let profiles = if kind == "hp" { text::read(fs::read(&file).unwrap().as_slice()).0 } else { of_log(&file) };
    for band in 0..profiles.heap.bands.len() as u32 {
        let name = profiles.heap.name(band, &profiles.stacks, &profiles.centres);
        assert!(report.contains(&name), "{name}");
    }
    // One line per band, whatever the names contain.
    let few = stdout(&run(&["heapprof", "--top", "3"], &file));
    assert!(few.lines().count() < report.lines().count() && few.contains(" more "), "{few}");
}

#[test]
fn csv_has_every_number() {
    let output = stdout(&run(&["heapprof", "--csv"], &log("leak.hc")));
    let mut lines = output.lines();
    assert_eq!(lines.next(), Some("time_s,band,bytes"));
    let sum: u64 = lines.map(|line| line.rsplit_once(',').unwrap().1.parse::<u64>().unwrap()).sum();
    let expected: u64 =
        of_log(&log("leak.hc")).heap.samples.kept().iter().map(stopworld_analysis::profstats::Sample::total).sum();
    assert_eq!(sum, expected);
    assert!(output.contains(",insertAll.step/insertAll/main.m/main,"));
}

/// Our own logs have the number of objects of each band. Logs of GHC have none.
#[test]
fn objects_are_shown_if_the_log_has_them() {
    let directory = command_support::directory();
    let arguments = "run gcbench --depth 10 --collections 5 --profile hy --trace run.eventlog";
    let recorded = command_support::run(directory.path(), arguments);
    assert_eq!(recorded.status.code(), Some(0), "{}", text_of(&recorded.stderr));
    let file = directory.path().join("run.eventlog");
    let csv = stdout(&run(&["heapprof", "--csv"], &file));
    let mut lines = csv.lines();
    assert_eq!(lines.next(), Some("time_s,band,bytes,objects"));
    let nodes: Vec<[u64; 2]> = lines
        .map(|line| line.rsplitn(3, ',').collect::<Vec<_>>())
        .filter(|cells| cells[2].ends_with(",Node"))
        .map(|cells| [cells[0].parse().unwrap(), cells[1].parse().unwrap()])
        .collect();
    // A node takes a cell of 32 bytes.
    assert!(nodes.iter().all(|[objects, bytes]| *objects > 0 && *bytes == 32 * objects), "{nodes:?}");
    let last = nodes.last().expect("there are nodes")[0];
    let cells = |report: &str, name: &str| {
        let line = report.lines().find(|line| line.contains(name)).unwrap_or_else(|| panic!("no {name} in {report}"));
        line.split('┆').map(|cell| cell.trim_matches([' ', '│']).to_owned()).collect::<Vec<_>>()
    };
    let report = stdout(&run(&["heapprof"], &file));
    let column = cells(&report, " mean ").iter().position(|head| head == "objects").expect("there is a column");
    assert_eq!(cells(&report, " Node ")[column], last.to_string(), "{report}");
    let page = stdout(&run(&["heapprof", "--html"], &file));
    let of_node = page.rsplit("Node</th>").next().expect("a text has a last part");
    let row: Vec<&str> = of_node.split("</tr>").next().unwrap().split("<td>").skip(1).collect();
    assert_eq!(row[4].trim_end_matches("</td>").replace(',', ""), last.to_string(), "{row:?}");

    for form in [&["heapprof"][..], &["heapprof", "--html"], &["heapprof", "--csv"]] {
        let report = stdout(&run(form, &log("leak.hc")));
        assert!(!report.contains("objects"), "{report}");
    }
}

/// More samples than are kept in memory: the CSV has a line for each, also when the input is a pipe.
#[rstest]
fn csv_has_every_sample_of_many(#[values("hp", "eventlog")] kind: &str) {
    const SAMPLES: u64 = 70_000;
    let bytes = if kind == "hp" { many_samples_as_text(SAMPLES) } else { many_samples(SAMPLES) };
    let file = tempfile::NamedTempFile::new().unwrap();
    fs::write(file.path(), &bytes).unwrap();
    let of_file = run(&["heapprof", "--csv"], file.path());
    let mut command = Command::new(env!("CARGO_BIN_EXE_stopworld"));
    let of_pipe = command.args(["heapprof", "--csv", "-"]).write_stdin(bytes).output().unwrap();
    for output in [of_file, of_pipe] {
        assert_eq!((output.status.code(), text_of(&output.stderr)), (Some(0), String::new()));
        let csv = stdout(&output);
        let expected = (0..SAMPLES).map(|number| format!("{number}.000000000,band {},{number}", number % 7));
        assert!(csv.lines().eq(["time_s,band,bytes".to_owned()].into_iter().chain(expected)));
    }
}

/// One sample per second, each with one of seven bands.
fn many_samples(count: u64) -> Vec<u8> {
    let mut log = Log::new(&[(162, Some(8), "b"), (164, None, "s"), (165, Some(8), "e")]);
    for number in 0..count {
        let time = number * 1_000_000_000;
        log.fixed(162, time, &number.to_be_bytes());
        log.variable(
            164,
            time,
            &[&[0], &number.to_be_bytes()[..], format!("band {}\0", number % 7).as_bytes()].concat(),
        );
        log.fixed(165, time, &number.to_be_bytes());
    }
    log.end()
}

fn many_samples_as_text(count: u64) -> Vec<u8> {
    let of_sample =
        |number: u64| format!("BEGIN_SAMPLE {number}.0\nband {}\t{number}\nEND_SAMPLE {number}.0\n", number % 7);
    let samples: String = (0..count).map(of_sample).collect();
    format!("JOB \"many\"\n{samples}").into_bytes()
}

/// More names than are kept: the report says which band takes the rest, and no bytes are lost.
#[test]
fn bands_without_a_name_of_their_own_are_reported() {
    const BANDS: u64 = 262_200;
    let bands: String = (0..BANDS).map(|number| format!("band{number}\t1\n")).collect();
    let file = tempfile::NamedTempFile::new().unwrap();
    fs::write(file.path(), format!("JOB \"many\"\nBEGIN_SAMPLE 1\n{bands}END_SAMPLE 1\n")).unwrap();
    let output = run(&["heapprof", "--csv"], file.path());
    let said = text_of(&output.stderr);
    assert_eq!((output.status.code(), said.lines().count()), (Some(0), 1), "{said}");
    assert!(said.contains("the profile has more than 262144 bands: the rest are summed under (others)"), "{said}");
    assert!(stdout(&output).ends_with("1.000000000,(others),56\n"));
}

#[rstest]
#[case(
    "heapprof",
    "threads.l",
    "the file has no heap profile: record one with `stopworld run … --profile hy --trace FILE.eventlog`"
)]
#[case(
    "timeprof",
    "leak.hT",
    "the file has no time profile: record one with `stopworld run … --time-profile --trace FILE.eventlog`"
)]
fn a_log_without_a_profile_is_one_clear_line(#[case] command: &str, #[case] name: &str, #[case] told: &str) {
    let output = run(&[command], &log(name));
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr.lines().count() == 1 && stderr.contains(told), "{stderr}");
}

#[rstest]
#[case("heapprof", "expected an eventlog, which begins with \"hdrb\", or a .hp file, which begins with \"JOB\"")]
#[case(
    "timeprof",
    "this is not an eventlog: expected it to begin with \"hdrb\": record one with `stopworld run … --time-profile"
)]
fn a_file_of_another_kind_is_one_clear_line(#[case] command: &str, #[case] told: &str) {
    let output = run(&[command], Path::new("Cargo.toml"));
    let stderr = text_of(&output.stderr);
    assert_eq!((output.status.code(), output.stdout.len()), (Some(1), 0));
    assert!(stderr.lines().count() == 1 && stderr.contains(told), "{stderr}");
}

/// A run that ended before the first tick. Its table has no rows.
#[test]
fn without_ticks_nothing_is_drawn() {
    let mut log = Log::new(&[(168, Some(8), "p")]);
    log.fixed(168, 1, &1_000_000u64.to_be_bytes());
    let file = tempfile::NamedTempFile::new().unwrap();
    fs::write(file.path(), log.end()).unwrap();
    let code = run(&["timeprof"], file.path()).status.code();
    for form in ["--svg", "--folded"] {
        let output = run(&["timeprof", form], file.path());
        let stderr = text_of(&output.stderr);
        assert_eq!((output.status.code(), output.stdout.len()), (code, 0));
        assert!(stderr.lines().count() == 1 && stderr.contains("no ticks"), "{stderr}");
    }
    // An empty output would not be a file of pprof.
    let output = run(&["timeprof", "--pprof"], file.path());
    let stderr = text_of(&output.stderr);
    assert_eq!((output.status.code(), output.stdout.len()), (Some(1), 0));
    assert!(stderr.contains("no ticks") && stderr.contains("record it again"), "{stderr}");
}

/// `.format.hostile`: everything readable in a damaged file is reported, and so is the damage.
#[rstest]
#[case("eventlog", "at byte 60000: the file ends here")]
#[case("hp", "the file ends inside a sample")]
fn what_is_readable_in_a_cut_file_is_reported(#[case] kind: &str, #[case] told: &str) {
    let whole = fs::read(log("leak.hT").with_extension(kind)).unwrap();
    let length = if kind == "hp" { 3000 } else { 60_000 };
    let file = tempfile::NamedTempFile::new().unwrap();
    fs::write(file.path(), &whole[..length]).unwrap();
    let output = run(&["heapprof"], file.path());
    let stderr = String::from_utf8(output.stderr.clone()).unwrap();
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    assert!(stderr.contains(told), "{stderr}");
    if kind == "hp" {
        assert!(stdout(&output).contains("ghc-prim:GHC.Types.:"));
    }
}

/// The time profile of the run whose ticks the specification counts.
#[test]
fn the_ticks_of_a_time_profile_are_consistent() {
    let profiles = of_log(&log("trees.p_hc"));
    let time = &profiles.time;
    assert_eq!(time.interval_ns, 1_000_000);
    let outside_activities: u64 =
        time.outside_activities(&profiles.stacks, &profiles.centres).iter().map(|(_, ticks)| ticks).sum();
    let program = time.program_ticks(&profiles.stacks, &profiles.centres);
    assert_eq!(program + outside_activities, time.samples);
    assert_eq!(time.ticks.iter().sum::<u64>(), time.samples);
    let runs: u64 = time.runs.values().flatten().map(|(_, ticks)| ticks).sum();
    assert_eq!(runs, time.samples);
    let own: u64 = time.centres(&profiles.stacks, &profiles.centres).iter().map(|row| row.own).sum();
    assert_eq!(own, program);
    assert_eq!(time.inherited(&profiles.stacks)[0], time.samples);
    let report = stdout(&run(&["timeprof"], &log("trees.p_hc")));
    assert!(report.contains("build") && report.contains("inherited, %"), "{report}");
}

#[test]
fn stacks_are_folded_outermost_first() {
    let folded = stdout(&run(&["timeprof", "--folded"], &log("trees.p_hc")));
    assert!(folded.lines().any(|line| line.starts_with("MAIN;Main.main;")), "{folded}");
    let sum: u64 = folded.lines().map(|line| line.rsplit_once(' ').unwrap().1.parse::<u64>().unwrap()).sum();
    assert_eq!(sum, of_log(&log("trees.p_hc")).time.samples);
}

#[test]
fn a_flame_graph_has_the_names() {
    let svg = stdout(&run(&["timeprof", "--svg"], &log("trees.p_hc")));
    assert!(svg.starts_with("<?xml") && svg.trim_end().ends_with("</svg>"));
    assert!(svg.contains("Main.build"));
}

#[test]
fn speedscope_gets_every_tick_of_each_capability() {
    let json: Value = serde_json::from_str(&stdout(&run(&["timeprof", "--speedscope"], &log("trees.p_hc")))).unwrap();
    let frames = json["shared"]["frames"].as_array().unwrap();
    let profiles = json["profiles"].as_array().unwrap();
    let time = of_log(&log("trees.p_hc")).time;
    assert_eq!(profiles.len(), time.runs.len());
    let mut all = 0;
    for profile in profiles {
        let (samples, weights) = (profile["samples"].as_array().unwrap(), profile["weights"].as_array().unwrap());
        assert_eq!(samples.len(), weights.len());
        let sum: u64 = weights.iter().map(|weight| weight.as_u64().unwrap()).sum();
        assert_eq!(profile["endValue"].as_u64(), Some(sum));
        all += sum;
        for frame in samples.iter().flat_map(|sample| sample.as_array().unwrap()) {
            assert!((frame.as_u64().unwrap() as usize) < frames.len());
        }
    }
    assert_eq!(all, time.samples * time.interval_ns);
    assert!(frames.iter().any(|frame| frame["name"] == "Main.build"));
}

#[test]
fn the_third_partys_profiles_are_read() {
    let Some(directory) = third_party("eventlog") else { return };
    let biography = of_log(&directory.join("biographical-samples.eventlog"));
    assert_eq!(biography.heap.breakdown, Breakdown::Biography);
    assert_eq!(biography.heap.bands.len(), 5);
    let last = biography.heap.samples.kept().last().unwrap();
    assert_eq!(last.time_ns, 4_512_086_494);
    assert_eq!(last.total(), 91_410_480 + 1672 + 120 + 37_656);
    let time = of_log(&directory.join("time-prof.eventlog"));
    assert!(time.has_time && time.time.samples > 100);
}

/// `.format.hostile`: long names in a file are cut.
#[test]
fn long_names_are_cut() {
    let mut log = Log::new(&[(58, None, "m"), (161, None, "c")]);
    log.variable(58, 1, &[b'x'; 60_000]);
    log.variable(161, 2, &[&[0, 0, 0, 1][..], &[b'y'; 60_000], &[0, 0, 0, 0]].concat());
    let (profiles, summary) = Profiles::read(&log.end()[..]);
    assert_eq!(summary.damage, None);
    assert_eq!(profiles.heap.marks.kept()[0].text.len(), 512);
    assert_eq!(profiles.centres.get(1).unwrap().label.len(), 512);
}

/// Recursive stacks, a label that occurs twice in a sample, a sample without an end.
#[test]
fn odd_logs_are_read_as_intended() {
    let profiles = of_log(&Path::new(DIRECTORY).join("broken/dup-label.eventlog"));
    let first = profiles.heap.samples.kept().iter().find(|sample| !sample.values.is_empty()).unwrap();
    assert!(first.values.iter().any(|&(_, bytes)| bytes == 123), "{first:?}");
    let profiles = of_log(&Path::new(DIRECTORY).join("broken/no-sample-end.eventlog"));
    assert!(profiles.heap.samples.kept().len() > 1);
    let mut log = Log::new(&[(168, Some(8), "p"), (167, None, "s"), (161, None, "c")]);
    log.fixed(168, 1, &10u64.to_be_bytes());
    log.variable(161, 2, b"\0\0\0\x01a\0M\0f.rs:1\0\0");
    log.variable(161, 2, b"\0\0\0\x02b\0M\0f.rs:2\0\0");
    for _ in 0..3 {
        // The stack a, b, a: the innermost a was called by b, which was called by a.
        log.variable(167, 3, &[&[0; 12][..], &[3], &[0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 1]].concat());
    }
    let (profiles, _) = Profiles::read(&log.end()[..]);
    let rows = profiles.time.centres(&profiles.stacks, &profiles.centres);
    let figures: Vec<_> = rows.iter().map(|row| (row.centre, row.own, row.inherited)).collect();
    assert_eq!(figures, [(Some(1), 3, 3), (None, 0, 3), (Some(2), 0, 3)]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]
    /// `.format.hostile`
    #[test]
    fn random_profiles_cause_no_panic(
        events in prop::collection::vec((prop_oneof![160..169u16, Just(9), Just(10), 49..52u16], 0..50u64, prop::collection::vec(prop_oneof![Just(0u8), Just(1), any::<u8>()], 0..40)), 0..60),
    ) {
        let fixed = |id| match id { 9 | 10 => Some(0), 49..=52 => Some(12), 162 | 165 | 168 => Some(8), 166 => Some(16), _ => None };
        let types: Vec<_> = [9, 10].into_iter().chain(49..53).chain(160..169).map(|id| (id, fixed(id), "t")).collect();
        let mut log = Log::new(&types);
        for (id, time, mut payload) in events {
            match fixed(id) {
                Some(size) => { payload.resize(size.into(), 1); log.fixed(id, time, &payload) }
                None => log.variable(id, time, &payload),
            }
        }
        let (profiles, _) = Profiles::read(&log.end()[..]);
        let _ = (stopworld_analysis::report::heapprof::render(&profiles, 5), stopworld_analysis::report::timeprof::render(&profiles));
        stopworld_analysis::report::heapprof::csv(&profiles, &mut Vec::new()).unwrap();
    }
}
