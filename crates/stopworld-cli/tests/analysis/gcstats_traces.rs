//! Compares the output of `stopworld gcstats` with PerfView's exports of the same traces.
//!
//! The traces under `fixtures/nettrace` were written by real runtimes or by hand; next to each are PerfView's exports, with the process in their
//! names. More such traces, which this repository may not distribute, are in `../shared/data/third-party`.

use crate::nettrace_support;
use crate::trace_data;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Output;
use std::time::Duration;

use assert_cmd::Command;
use nettrace_support::{Block, Event, Form, Type, Writer, index_of};
use rstest::rstest;
use trace_data::third_party;

const LIMIT: Duration = Duration::from_secs(120);
const OURS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/fixtures/nettrace");

fn gcstats(trace: &Path, options: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_stopworld"));
    command.arg("gcstats").arg(trace).args(options).timeout(LIMIT).output().expect("stopworld starts")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The exports in a folder: trace, option, and PerfView's output.
fn exports(folder: &Path) -> Vec<(PathBuf, &'static str, String)> {
    let mut exports = Vec::new();
    for entry in fs::read_dir(folder).expect("the folder exists") {
        let path = entry.expect("the folder can be listed").path();
        let name = path.file_name().expect("the file has a name").to_string_lossy().into_owned();
        let kinds = [(".pergen.csv", "--pergen-csv"), (".csv", "--csv"), (".xml", "--xml")];
        let Some((stem, option)) =
            kinds.iter().find_map(|(ending, option)| name.strip_suffix(ending).map(|stem| (stem, *option)))
        else {
            continue;
        };
        // An export's name is that of the trace; the process may follow it.
        let traces = [stem, stem.rsplit_once('.').map_or(stem, |(stem, _)| stem)];
        let trace = traces.iter().map(|stem| folder.join(format!("{stem}.nettrace"))).find(|trace| trace.is_file());
        let trace = trace.unwrap_or_else(|| panic!("no trace for {name}"));
        let said = text(&fs::read(&path).expect("the file can be read")).replace('\r', "");
        exports.push((trace, option, said.trim_start_matches('\u{feff}').to_owned()));
    }
    exports.sort();
    exports
}

#[track_caller]
fn assert_same(found: &str, expected: &str, what: &str) {
    for (number, (found, expected)) in found.lines().zip(expected.lines()).enumerate() {
        assert_eq!(found, expected, "{what}, line {}", number + 1);
    }
    assert_eq!(found.len(), expected.len(), "{what}");
}

fn exports_are_those_of_perfview(folder: &Path, expected: usize) {
    let exports = exports(folder);
    assert_eq!(exports.len(), expected, "exports in {}", folder.display());
    for (trace, option, expected) in exports {
        let what = format!("{} {option}", trace.display());
        let output = gcstats(&trace, &[option, "--like-perfview"]);
        assert_eq!(text(&output.stderr), "", "{what}");
        assert_same(&text(&output.stdout), &expected, &what);
        let right = text(&gcstats(&trace, &[option]).stdout);
        match option {
            // PerfView's ratio column is always 2.
            "--csv" => assert_same(&without_column(&right, 10), &without_column(&expected, 10), &what),
            // The name of a program that was started with quotes ends with a quote.
            _ => assert_same(&right.replacen("\"CoreConsoleAp\"", "\"CoreConsoleAp.exe\"\"", 1), &expected, &what),
        }
    }
}

fn without_column(csv: &str, column: usize) -> String {
    let lines = csv.lines().map(|line| {
        let cells = line.split(',').enumerate().filter(|(index, _)| *index != column).map(|(_, cell)| cell);
        cells.collect::<Vec<_>>().join(",") + "\n"
    });
    lines.collect()
}

#[test]
fn exports_of_our_traces_are_those_of_perfview() {
    exports_are_those_of_perfview(Path::new(OURS), 14);
}

#[test]
fn exports_of_third_party_traces_are_those_of_perfview() {
    if let Some(folder) = third_party("nettrace") {
        exports_are_those_of_perfview(&folder, 9);
    }
}

#[rstest]
#[case::only_samples("only_managed_samples", 0, "0.0000")]
#[case::one_in_the_background("Jacobh2_RobotCleaner__27058b75", 2, "1.9402")]
#[case::of_windows("eventpipe-dotnetcore3.0-win-x64-objver4", 478, "7,730.3399")]
fn third_party_traces_have_their_number_of_collections(#[case] name: &str, #[case] count: u64, #[case] paused: &str) {
    let Some(folder) = third_party("nettrace") else { return };
    let output = gcstats(&folder.join(format!("{name}.nettrace")), &[]);
    let table = text(&output.stdout);
    let figure = |name: &str| {
        let line = table.lines().find(|line| line.contains(name)).unwrap_or_else(|| panic!("no {name}: {table}"));
        line.split('┆').nth(1).expect("a second column").trim_matches([' ', '│']).to_owned()
    };
    assert_eq!(figure("collections"), count.to_string());
    assert!(figure("paused").starts_with(&format!("{paused} ms")), "{}", figure("paused"));
}

#[test]
fn a_trace_that_breaks_off_is_reported_as_far_as_it_goes() {
    let whole = fs::read(format!("{OURS}/gcapp-3.1-gc-info.nettrace")).expect("the fixture exists");
    let folder = tempfile::tempdir().expect("a folder");
    let broken = folder.path().join("broken.nettrace");
    fs::write(&broken, &whole[..whole.len() * 2 / 3]).expect("the file can be written");
    let all = text(&gcstats(Path::new(&format!("{OURS}/gcapp-3.1-gc-info.nettrace")), &["--csv"]).stdout);
    let output = gcstats(&broken, &["--csv"]);
    let told = text(&output.stdout);
    assert!(told.lines().count() > 5 && all.starts_with(&told), "{told}");
    assert!(text(&output.stderr).contains("at byte "), "{}", text(&output.stderr));
    assert_eq!(output.status.code(), Some(1));
}

/// The server collector reports a background collection's effect on each heap after the collection's statistics.
#[test]
fn no_figure_of_a_background_collection_of_the_server_collector_is_missing() {
    let csv = text(&gcstats(Path::new(&format!("{OURS}/bgc-srv.nettrace")), &["--csv"]).stdout);
    let background: Vec<&str> = csv.lines().filter(|line| line.contains(",2Bi,")).collect();
    assert_eq!(background.len(), 2, "{csv}");
    for line in background {
        // This is the processor time, which no trace of this kind contains.
        let missing = line.split(',').filter(|cell| *cell == "NaN").count();
        assert_eq!(missing, 1, "{line}");
    }
}

#[rstest]
#[case::no_runtime(&[])]
#[case::no_collections(&[9])]
fn an_intact_trace_without_collections_is_no_failure(#[case] events: &[u32]) {
    let mut writer = Writer::new(Form::V6, 8);
    let provider = "Microsoft-Windows-DotNETRuntime".to_owned();
    for &event in events {
        let kind = Type { id: 900, provider: provider.clone(), event, version: 1, ..Type::default() };
        let threads = Block::Threads(vec![(index_of(4_000), String::new(), 7, 4_000)]);
        let event = Event { kind: 900, thread: 4_000, capture: 4_000, time: 1, ..Event::default() };
        [Block::Types(vec![kind]), threads, Block::Events(vec![event])].iter().for_each(|block| writer.add(block));
    }
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("intact.nettrace");
    fs::write(&file, writer.end()).expect("the file can be written");
    let output = gcstats(&file, &[]);
    let said = text(&output.stderr);
    assert!(
        output.status.code() == Some(0) && said.contains("no collections") && said.contains("keyword GC"),
        "{said}"
    );
}

/// Damage can create processes: events of a thread that was never introduced are attributed to process 0.
#[rstest]
fn a_process_that_never_collected_does_no_harm(#[values("--csv", "--xml", "--html")] form: &str) {
    let whole = format!("{OURS}/handmade-v6-3gcs.nettrace");
    let mut damaged = fs::read(&whole).expect("the fixture exists");
    let mut writer = Writer::new(Form::V6, 8);
    let begin = writer.bytes.len();
    let provider = "Microsoft-Windows-DotNETRuntime".to_owned();
    writer.add(&Block::Types(vec![Type { id: 900, provider, event: 9, version: 1, ..Type::default() }]));
    writer.add(&Block::Events(vec![Event { kind: 900, thread: 4_000, capture: 4_000, time: 1, ..Event::default() }]));
    let end = damaged.split_off(damaged.len() - 4);
    assert_eq!(end, [0; 4], "the end marker");
    damaged.extend([&writer.bytes[begin..], &end].concat());
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("damaged.nettrace");
    fs::write(&file, damaged).expect("the file can be written");

    let output = gcstats(&file, &[form]);
    let said = text(&output.stderr);
    assert!(output.status.code() == Some(1) && said.contains("which was not introduced before"), "{said}");
    assert_eq!(text(&output.stdout), text(&gcstats(Path::new(&whole), &[form]).stdout));
    let said = text(&gcstats(&file, &["--process", "12", form]).stderr);
    assert!(said.contains("it has 0 (Process(0), 0 collections), "), "{said}");
}

#[rstest]
#[case::empty(b"", "at byte 0: this is not a .nettrace file")]
#[case::of_another_format(b"hdrb\0\0\0\0", "at byte 0: this is not a .nettrace file")]
#[case::of_a_version_to_come(b"Nettrace\0\0\0\0\x63\0\0\0\0\0\0\0", "version 99 of the format is not known")]
#[case::cut(b"Nettrace", "at byte 8: the file ends here")]
fn a_file_that_is_no_trace_is_one_line(#[case] bytes: &[u8], #[case] said: &str) {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("file");
    fs::write(&file, bytes).expect("the file can be written");
    let output = gcstats(&file, &[]);
    let error = text(&output.stderr);
    assert_eq!((output.status.code(), error.lines().count(), output.stdout.len()), (Some(1), 1, 0), "{error}");
    assert!(error.contains(said), "{error}");
}

#[rstest]
#[case::no_such_file(&["no-such.nettrace"], 1, "can't open no-such.nettrace")]
#[case::two_forms(&["x", "--csv", "--xml"], 2, "cannot be used with")]
#[case::another_process(&["../../tests/fixtures/nettrace/tiny.nettrace", "--process", "8"], 2, "it has 7 (Process(7), 0 collections)")]
fn wrong_arguments_are_reported(#[case] arguments: &[&str], #[case] code: i32, #[case] said: &str) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_stopworld"));
    command.current_dir(env!("CARGO_MANIFEST_DIR"));
    let output = command.arg("gcstats").args(arguments).timeout(LIMIT).output().expect("stopworld starts");
    let error = text(&output.stderr);
    assert!(error.contains(said), "{error}");
    assert_eq!(output.status.code(), Some(code), "{error}");
}
