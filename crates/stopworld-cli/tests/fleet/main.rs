//! Datasets of many traces: `stopworld convert` and `stopworld gcstats --parquet`, queried by DuckDB and by Spark; databases of telemetry streams.

#[path = "../command_support/mod.rs"]
mod command_support;
#[path = "../../../../tests/skipped/mod.rs"]
mod skipped;

mod engines;
mod robust;
mod sqlite;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use command_support::{STOPWORLD, directory, run, text};
use mps_telemetry::encode::Encoder;
use mps_telemetry::v2;
use nettrace::Reader;
use rstest::rstest;
use stopworld_analysis::gcstats::{Rules, analyse};

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures").join(name)
}

/// The number of collections of a trace, the sum of their pauses, and the longest, in nanoseconds: what gcstats reports.
fn reported(trace: &Path) -> [i64; 3] {
    let (processes, _) = analyse(Reader::new(fs::File::open(trace).unwrap()), Rules::Ours).unwrap();
    let mut pauses = Vec::new();
    for process in &processes {
        let each = process.for_each(|collection, _| {
            pauses.extend(collection.complete.then_some((collection.pause * 1e6).round() as i64));
            Ok::<_, io::Error>(())
        });
        each.unwrap();
    }
    [pauses.len() as i64, pauses.iter().sum(), pauses.iter().copied().max().unwrap_or(0)]
}

fn succeeded(output: &Output) {
    assert!(output.status.success(), "{}{}", text(&output.stdout), text(&output.stderr));
}

#[test]
fn traces_that_fail_are_listed_and_the_others_are_converted() {
    let here = directory();
    fs::create_dir(here.path().join("traces")).unwrap();
    let whole = fs::read(fixture("nettrace/gcapp-3.1-gc-info.nettrace")).unwrap();
    fs::write(here.path().join("traces/whole.nettrace"), &whole).unwrap();
    fs::write(here.path().join("traces/cut.nettrace"), &whole[..whole.len() / 2]).unwrap();
    fs::write(here.path().join("traces/text.mps"), "not a trace").unwrap();
    let output = run(here.path(), "convert traces missing.mps out.parquet");
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    for expected in [
        "traces/cut.nettrace: at byte",
        "everything that could be read is in the dataset",
        "2 of 4 traces were not converted:\n  missing.mps: can't open it: ",
        "\n  traces/text.mps: unknown format",
        " of 2 traces",
    ] {
        assert!(said.contains(expected), "no {expected:?} in {said}");
    }
    let parts = |table: &str| {
        let folder = here.path().join("out.parquet").join(table).join("host=__HIVE_DEFAULT_PARTITION__");
        fs::read_dir(folder).unwrap().count()
    };
    assert!(parts("collections") > 0 && parts("events") > 0);
    // The part that can be read is one whole trace if the damaged ones are removed.
    fs::remove_file(here.path().join("traces/cut.nettrace")).unwrap();
    fs::remove_file(here.path().join("traces/text.mps")).unwrap();
    succeeded(&run(here.path(), "convert traces out.parquet"));
}

#[rstest]
#[case::several_for_one_file(
    "convert a.mps b.mps out.nettrace",
    "2 traces are only converted to a Parquet dataset: name it DIR.parquet"
)]
#[case::an_option_for_datasets("convert a.mps out.nettrace --host web-1", "--host")]
#[case::tables_of_a_file("convert a.mps out.nettrace --tables events", "--tables")]
#[case::no_such_table("convert a.mps out.parquet --tables event", "'event'")]
#[case::standard_input("convert - out.parquet", "standard input can't be converted to a Parquet dataset")]
#[case::no_jobs("convert a.mps out.parquet --jobs 0", "--jobs")]
#[case::an_export_of_several("gcstats a.nettrace b.nettrace --csv", "an export is of one trace, but there are 2")]
#[case::a_host_of_a_report("gcstats a.nettrace --host web-1", "add --parquet DIR")]
#[case::a_process_of_a_dataset("gcstats a.nettrace --parquet out --process 7", "--process")]
fn wrong_arguments_get_one_line(#[case] arguments: &str, #[case] expected: &str) {
    let here = directory();
    let output = run(here.path(), arguments);
    let said = text(&output.stderr);
    assert_eq!((output.status.code(), said.lines().count()), (Some(2), 1), "{said}");
    assert!(said.contains(expected), "{said}");
    assert_eq!(fs::read_dir(here.path()).unwrap().count(), 0, "something was written");
}

#[test]
fn a_folder_without_traces_is_an_error() {
    let here = directory();
    for arguments in ["convert . out.parquet", "gcstats . --parquet out.parquet", "gcstats ."] {
        let output = run(here.path(), arguments);
        assert_eq!(output.status.code(), Some(1), "{arguments}");
        assert!(text(&output.stderr).contains("no traces: the folders contain no file that ends in "), "{arguments}");
        assert!(!here.path().join("out.parquet").exists());
    }
}

#[test]
fn gcstats_reports_several_traces_one_after_the_other() {
    let here = directory();
    let names = ["bgc-srv.nettrace", "gcapp-3.1-gc-info.nettrace"];
    for name in names {
        fs::copy(fixture("nettrace").join(name), here.path().join(name)).unwrap();
    }
    fs::write(here.path().join("broken.nettrace"), "Nettrace").unwrap();
    let output = run(here.path(), "gcstats .");
    let printed = text(&output.stdout);
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stderr));
    let single: Vec<String> =
        names.iter().map(|name| text(&run(here.path(), &format!("gcstats {name}")).stdout)).collect();
    let expected = format!("./{}:\n{}./broken.nettrace:\n./{}:\n{}", names[0], single[0], names[1], single[1]);
    assert_eq!(printed, expected);
    assert!(text(&output.stderr).contains("broken.nettrace"));
}

/// Writes a stream of this many records, each with a text of 200 bytes.
fn stream(path: &Path, records: u64) {
    let mut encoder = Encoder::new(io::BufWriter::new(fs::File::create(path).unwrap()));
    for number in 0..records {
        encoder.event(number * 100, &v2::Intern { stringId: number, string: &[b'x'; 200] }).unwrap();
    }
    encoder.end().unwrap();
}

/// Two traces at the same time, whose rows would take 250 MB.
#[test]
fn memory_is_bounded() {
    let here = directory();
    for name in ["a.mps", "b.mps"] {
        stream(&here.path().join(name), 400_000);
    }
    const CONVERT: &str = "ulimit -d 200000 && exec \"$0\" convert --jobs 2 --tables events a.mps b.mps out.parquet";
    let mut shell = Command::new("sh");
    let output = shell.args(["-c", CONVERT, STOPWORLD]).current_dir(here.path()).stdin(Stdio::null()).output().unwrap();
    succeeded(&output);
    assert!(text(&output.stderr).contains("events 800,000"), "{}", text(&output.stderr));
}
