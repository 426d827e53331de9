//! Datasets of real traces, read back by the `parquet` crate: their values are those of our own readers and reports.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use ghc_eventlog::read::in_file_order;
use mps_telemetry::reader::Reader as MpsReader;
use nettrace::Reader;
use parquet::file::reader::SerializedFileReader;
use parquet::record::Field;
use rstest::rstest;
use stopworld_analysis::gcstats::{Rules, analyse};
use stopworld_analysis::profstats::Profiles;
use stopworld_parquet::{Dataset, FileOutcome, FleetOptions, Inputs, PathFacts, TRACES, Table, Written, convert};
use tempfile::TempDir;

fn fixtures(folder: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures").join(folder)
}

fn convert_all(paths: &[PathBuf], to: &Path, options: &FleetOptions) -> Vec<FileOutcome> {
    let dataset = Dataset::open(to).unwrap();
    let mut outcomes = Vec::new();
    convert(&Inputs::find(paths, to, TRACES), &dataset, options, |outcome| outcomes.push(outcome));
    outcomes
}

/// Converts one trace, which must not fail.
fn converted(path: &Path) -> (TempDir, Written) {
    let folder = tempfile::tempdir().unwrap();
    let mut outcomes = convert_all(&[path.to_owned()], folder.path(), &FleetOptions::default());
    assert_eq!(outcomes.len(), 1);
    let written = outcomes.remove(0).result.unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    (folder, written)
}

/// The part files below a folder, sorted.
fn parts(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let mut parts: Vec<PathBuf> = entries
        .map(|entry| entry.unwrap().path())
        .flat_map(|path| if path.is_dir() { parts(&path) } else { vec![path] })
        .collect();
    parts.sort();
    parts
}

type Row = BTreeMap<String, Field>;

/// All rows of a table.
fn rows(dataset: &Path, table: Table) -> Vec<Row> {
    let rows = parts(&dataset.join(table.name())).into_iter().flat_map(|part| {
        let reader = SerializedFileReader::new(File::open(part).unwrap()).unwrap();
        let rows: Vec<Row> = reader.into_iter().map(|row| row.unwrap().into_columns().into_iter().collect()).collect();
        rows
    });
    rows.collect()
}

fn int(row: &Row, name: &str) -> Option<i64> {
    match &row[name] {
        Field::Long(value) => Some(*value),
        Field::Null => None,
        other => panic!("{name} is {other:?}"),
    }
}

fn text<'r>(row: &'r Row, name: &str) -> Option<&'r str> {
    match &row[name] {
        Field::Str(value) => Some(value),
        Field::Null => None,
        other => panic!("{name} is {other:?}"),
    }
}

fn files(folder: &str, extension: &str) -> Vec<PathBuf> {
    let mut files = parts(&fixtures(folder));
    files.retain(|file| file.extension().is_some_and(|end| end == extension));
    assert!(files.len() > 3, "{folder} has {} files", files.len());
    files
}

#[test]
fn collections_of_dotnet_traces_have_the_figures_of_gcstats() {
    let mut compared = 0;
    for file in files("nettrace", "nettrace") {
        let (dataset, written) = converted(&file);
        let (processes, summary) = analyse(Reader::new(File::open(&file).unwrap()), Rules::Ours).unwrap();
        assert_eq!(written.events, summary.events, "{}", file.display());
        let mut expected = BTreeSet::new();
        for process in &processes {
            let id = (process.identity.process != 0).then_some(process.identity.process as i64);
            let each = process.for_each(|collection, figures| {
                let ns = |ms: f64| (ms * 1e6).round() as i64;
                let known = |value: i64| collection.complete.then_some(value);
                let after = collection.stats.as_ref().map(|stats| stats.sizes.iter().sum::<i64>());
                let promoted = collection.stats.as_ref().map(|stats| stats.promoted.iter().sum::<i64>());
                let before = (figures.heap_before * 1e6).round() as i64;
                expected.insert((
                    (id, i64::from(collection.number), i64::from(collection.generation)),
                    (known(ns(collection.pause)), known(ns(collection.suspend)), known(ns(collection.duration))),
                    (known(before).filter(|_| !collection.heaps.is_empty()), after, promoted),
                    ns(collection.pause_start),
                ));
                Ok::<_, io::Error>(())
            });
            each.unwrap();
        }
        let found: BTreeSet<_> = rows(dataset.path(), Table::Collections)
            .iter()
            .map(|row| {
                (
                    (int(row, "process_id"), int(row, "number").unwrap(), int(row, "generation").unwrap()),
                    (int(row, "pause_ns"), int(row, "stop_ns"), int(row, "duration_ns")),
                    (int(row, "heap_before_bytes"), int(row, "heap_after_bytes"), int(row, "promoted_bytes")),
                    int(row, "start_ns").unwrap(),
                )
            })
            .collect();
        compared += found.len();
        assert_eq!(found, expected, "{}", file.display());
    }
    assert!(compared > 50, "{compared} collections");
}

#[test]
fn each_event_is_a_row() {
    for file in files("nettrace", "nettrace") {
        let (dataset, written) = converted(&file);
        let events = rows(dataset.path(), Table::Events);
        assert_eq!(events.len() as u64, written.events, "{}", file.display());
        let by_thread: i64 = rows(dataset.path(), Table::Threads).iter().map(|row| int(row, "events").unwrap()).sum();
        let with_thread = events.iter().filter(|row| int(row, "thread_id").is_some()).count();
        assert_eq!(by_thread as usize, with_thread, "{}", file.display());
    }
    let mut streams = 0;
    for file in files("mps", "bin") {
        let dataset = tempfile::tempdir().unwrap();
        let mut outcomes = convert_all(std::slice::from_ref(&file), dataset.path(), &FleetOptions::default());
        if let Err(error) = outcomes.remove(0).result {
            let error = error.to_string();
            assert!(error.contains("empty") || error.contains("unknown format"), "{}: {error}", file.display());
            continue;
        }
        streams += 1;
        let mut reader = MpsReader::new(File::open(&file).unwrap());
        let version = reader.detect().unwrap();
        let mut expected: BTreeMap<String, usize> = BTreeMap::new();
        loop {
            match reader.buffered() {
                Ok(Some(record)) => {
                    let name = version.layout(record.code()).map_or("unknown", |layout| layout.name);
                    *expected.entry(name.to_owned()).or_default() += 1;
                }
                Ok(None) => {
                    if !reader.fill().unwrap() {
                        break;
                    }
                }
                Err(_) => break,
            }
        }
        let mut found: BTreeMap<String, usize> = BTreeMap::new();
        for row in rows(dataset.path(), Table::Events) {
            *found.entry(text(&row, "event").unwrap().to_owned()).or_default() += 1;
        }
        assert_eq!(found, expected, "{}", file.display());
        let traces = rows(dataset.path(), Table::Collections).len();
        assert_eq!(traces, expected.get("TraceCreate").copied().unwrap_or(0), "{}", file.display());
    }
    assert!(streams > 10, "{streams} streams");
}

/// Counts the events of a log.
struct Count(u64);

impl ghc_eventlog::read::Visitor for Count {
    fn event(&mut self, _: &ghc_eventlog::read::Event<'_>) {
        self.0 += 1;
    }
}

#[test]
fn eventlogs_have_the_bands_and_collections_of_heapprof() {
    let mut with_bands = 0;
    for file in files("eventlog", "eventlog") {
        let outcome = {
            let folder = tempfile::tempdir().unwrap();
            let mut outcomes = convert_all(std::slice::from_ref(&file), folder.path(), &FleetOptions::default());
            (folder, outcomes.remove(0).result)
        };
        let mut count = Count(0);
        let summary = in_file_order(File::open(&file).unwrap(), &mut count);
        let (dataset, Ok(written)) = outcome else {
            assert_eq!(count.0, 0, "{}: {:?}", file.display(), outcome.1.err());
            continue;
        };
        assert_eq!(written.damage.is_some(), summary.damage.is_some(), "{}", file.display());
        assert_eq!(rows(dataset.path(), Table::Events).len() as u64, count.0, "{}", file.display());
        let (profiles, _) = Profiles::read(File::open(&file).unwrap());
        let mut expected: BTreeMap<(i64, String), i64> = BTreeMap::new();
        for sample in profiles.heap.samples.kept() {
            for &(band, bytes) in &sample.values {
                let name = profiles.heap.name(band, &profiles.stacks, &profiles.centres);
                *expected.entry((sample.time_ns as i64, name)).or_default() += bytes as i64;
            }
        }
        let mut found: BTreeMap<(i64, String), i64> = BTreeMap::new();
        for row in rows(dataset.path(), Table::Bands) {
            let key = (int(&row, "at_ns").unwrap(), text(&row, "band").unwrap().to_owned());
            *found.entry(key).or_default() += int(&row, "bytes").unwrap();
        }
        with_bands += usize::from(!found.is_empty());
        assert_eq!(found, expected, "{}", file.display());
        let caps: BTreeSet<_> = rows(dataset.path(), Table::Events).iter().map(|row| int(row, "processor")).collect();
        if caps.iter().flatten().count() <= 1 {
            let complete = rows(dataset.path(), Table::Collections);
            let complete = complete.iter().filter(|row| row["is_complete"] == Field::Bool(true));
            assert_eq!(complete.count(), profiles.heap.collections.kept().len(), "{}", file.display());
        }
    }
    assert!(with_bands > 3, "{with_bands} logs have bands");
}

#[test]
fn a_trace_that_is_converted_again_replaces_its_rows() {
    let folder = tempfile::tempdir().unwrap();
    let dataset = folder.path().join("dataset");
    let traces = folder.path().join("traces/host=a");
    fs::create_dir_all(&traces).unwrap();
    fs::copy(fixtures("nettrace/bgc-srv.nettrace"), traces.join("run.nettrace")).unwrap();
    let given = [folder.path().join("traces")];
    let bytes = || parts(&dataset).into_iter().map(|part| (part.clone(), fs::read(part).unwrap())).collect::<Vec<_>>();

    convert_all(&given, &dataset, &FleetOptions::default());
    let first = bytes();
    convert_all(&given, &dataset, &FleetOptions::default());
    assert!(first == bytes(), "the same input has other output");

    // Another partition: no row is left in the first.
    let facts = PathFacts { host: Some("b".to_owned()), ..PathFacts::default() };
    convert_all(&given, &dataset, &FleetOptions { facts: facts.clone(), ..FleetOptions::default() });
    assert_eq!(bytes().len(), first.len());
    assert!(bytes().iter().all(|(part, _)| part.to_string_lossy().contains("host=b")));

    // Other tables stay as they are.
    let only =
        FleetOptions { tables: vec![Table::Collections], facts: PathFacts::default(), ..FleetOptions::default() };
    convert_all(&given, &dataset, &only);
    let hosts = |table: Table| parts(&dataset.join(table.name()))[0].to_string_lossy().contains("host=a");
    assert_eq!((bytes().len(), hosts(Table::Collections), hosts(Table::Events)), (first.len(), true, false));
}

#[test]
fn a_trace_that_fails_is_reported_and_the_others_are_written() {
    let folder = tempfile::tempdir().unwrap();
    let dataset = folder.path().join("dataset");
    fs::write(folder.path().join("not.nettrace"), "this is no trace").unwrap();
    fs::write(folder.path().join("empty.mps"), "").unwrap();
    let whole = fs::read(fixtures("nettrace/gcapp-3.1-gc-info.nettrace")).unwrap();
    fs::write(folder.path().join("whole.nettrace"), &whole).unwrap();
    fs::write(folder.path().join("cut.nettrace"), &whole[..whole.len() * 2 / 3]).unwrap();
    let outcomes = convert_all(&[folder.path().to_owned()], &dataset, &FleetOptions::default());
    let outcome = |name: &str| &outcomes.iter().find(|outcome| outcome.path.ends_with(name)).unwrap().result;
    assert_eq!(outcomes.len(), 4);
    assert!(outcome("not.nettrace").as_ref().unwrap_err().to_string().contains("unknown format"));
    assert!(outcome("empty.mps").as_ref().unwrap_err().to_string().contains("empty"));
    let whole = outcome("whole.nettrace").as_ref().unwrap();
    let cut = outcome("cut.nettrace").as_ref().unwrap();
    assert!(whole.damage.is_none() && cut.damage.as_ref().unwrap().contains("at byte"), "{cut:?}");
    assert!(cut.rows[&Table::Events] > 0 && cut.rows[&Table::Events] < whole.rows[&Table::Events]);
    let traces = rows(&dataset, Table::Traces);
    let damage: Vec<_> = traces.iter().map(|row| text(row, "damage")).collect();
    assert_eq!(damage.iter().flatten().collect::<Vec<_>>(), [cut.damage.as_ref().unwrap()]);
    assert_eq!(damage.len(), 2);
    // Nothing but tables is left.
    let names: BTreeSet<_> = fs::read_dir(&dataset).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert!(names.iter().all(|name| Table::ALL.iter().any(|table| name == table.name())), "{names:?}");
}

#[rstest]
#[case::options_first(Some("h"), Some("p"), "host=h/process=p/day=2020-01-01")]
#[case::then_the_path(None, None, "host=web-1/process=orders/day=2020-01-01")]
fn partitions_come_from_options_and_paths(
    #[case] host: Option<&str>,
    #[case] process: Option<&str>,
    #[case] expected: &str,
) {
    let folder = tempfile::tempdir().unwrap();
    let traces = folder.path().join("host=web-1/process=orders/version=7/day=2020-01-01");
    fs::create_dir_all(&traces).unwrap();
    fs::copy(fixtures("nettrace/bgc-srv.nettrace"), traces.join("x.nettrace")).unwrap();
    let [host, process] = [host, process].map(|value| value.map(str::to_owned));
    let options =
        FleetOptions { facts: PathFacts { host, process, ..PathFacts::default() }, ..FleetOptions::default() };
    let dataset = folder.path().join("dataset");
    convert_all(&[folder.path().to_owned()], &dataset, &options);
    for part in parts(&dataset) {
        assert!(part.parent().unwrap().ends_with(expected), "{}", part.display());
    }
    assert!(rows(&dataset, Table::Collections).iter().all(|row| text(row, "program_version") == Some("7")));
}

#[test]
fn the_trace_itself_says_its_process_and_day_otherwise() {
    let (dataset, _) = converted(&fixtures("nettrace/gcapp-3.1-gc-info.nettrace"));
    let part = parts(&dataset.path().join("collections")).remove(0);
    let part = part.strip_prefix(dataset.path().join("collections")).unwrap().to_string_lossy().into_owned();
    assert!(part.starts_with("host=__HIVE_DEFAULT_PARTITION__/process="), "{part}");
    let row = &rows(dataset.path(), Table::Traces)[0];
    let Field::TimestampMicros(start) = row["start_time"] else { panic!("{row:?}") };
    let day = &part[part.find("day=").unwrap()..][4..14];
    assert!((1_500_000_000_000_000..1_900_000_000_000_000).contains(&start) && day.starts_with("20"), "{start} {day}");
}
