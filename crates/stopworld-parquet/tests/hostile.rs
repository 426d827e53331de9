//! Traces that are damaged, that change while they are read, or that only a test would write.

#[path = "../../../tests/nettrace_support/mod.rs"]
mod nettrace_support;

use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use ghc_eventlog::events::{
    CreateThread, GcEnd, GcStart, HeapLive, RequestSeqGc, RtsIdentifier, RunThread, StopReason, StopThread,
    WallClockTime,
};
use ghc_eventlog::write::Log;
use nettrace_support::{Block, Event, Form, Type, file};
use parquet::file::reader::SerializedFileReader;
use parquet::record::{Field, Row};
use rstest::rstest;
use stopworld_analysis::convert::{ConvertError, ConvertOptions};
use stopworld_analysis::tables::{Cell, ProcessFacts, RowSink, read};
use stopworld_parquet::{Dataset, FleetError, FleetOptions, Inputs, TRACES, Table, Written, convert};

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures").join(name)
}

/// Converts one trace.
fn converted(trace: &Path, dataset: &Path) -> Result<Written, FleetError> {
    let inputs = Inputs::find(&[trace.to_owned()], dataset, TRACES);
    let mut outcomes = Vec::new();
    convert(&inputs, &Dataset::open(dataset).unwrap(), &FleetOptions::default(), |outcome| outcomes.push(outcome));
    assert_eq!(outcomes.len(), 1);
    outcomes.remove(0).result
}

fn part_files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).map(|entries| entries.map(|entry| entry.unwrap().path()).collect::<Vec<_>>());
    let mut files: Vec<PathBuf> = entries
        .unwrap_or_default()
        .into_iter()
        .flat_map(|path| if path.is_dir() { part_files(&path) } else { vec![path] })
        .collect();
    files.sort();
    files
}

/// The values of these columns in all rows of a table.
fn columns<const N: usize>(dataset: &Path, table: Table, names: [&str; N]) -> Vec<[Field; N]> {
    let pick = |row: Row| {
        names.map(|name| {
            row.get_column_iter().find(|(known, _)| *known == name).map(|(_, field)| field.clone()).unwrap()
        })
    };
    let parts = part_files(&dataset.join(table.name())).into_iter();
    parts
        .flat_map(|part| {
            SerializedFileReader::new(File::open(part).unwrap())
                .unwrap()
                .into_iter()
                .map(|row| pick(row.unwrap()))
                .collect::<Vec<_>>()
        })
        .collect()
}

/// Cuts the trace in half when the row of the first wanted table arrives.
struct Cutting<'a> {
    trace: &'a Path,
    at: Option<Table>,
}

impl Cutting<'_> {
    fn cut(&self) -> io::Result<()> {
        let file = OpenOptions::new().write(true).open(self.trace)?;
        file.set_len(file.metadata()?.len() / 2)
    }
}

impl RowSink for Cutting<'_> {
    fn process(&mut self, _: &ProcessFacts) -> io::Result<()> {
        if self.at.is_none() { self.cut() } else { Ok(()) }
    }

    fn row(&mut self, table: Table, _: &[Cell<'_>]) -> io::Result<()> {
        if self.at == Some(table) { self.cut() } else { Ok(()) }
    }
}

#[rstest]
#[case::events_of_dotnet("nettrace/gcapp-3.1-gc-info.nettrace", None)]
#[case::bands_of_ghc("eventlog/leak.hT.eventlog", Some(Table::Traces))]
fn a_trace_that_shrinks_between_two_readings_is_an_error(#[case] name: &str, #[case] at: Option<Table>) {
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("trace");
    fs::copy(fixture(name), &trace).unwrap();
    let mut sink = Cutting { trace: &trace, at };
    let result = read(&File::open(&trace).unwrap(), &Table::ALL, &ConvertOptions::default(), &mut sink);
    assert!(matches!(result, Err(ConvertError::Changed)), "{result:?}");
}

#[test]
fn the_stops_of_a_background_collection_have_its_number() {
    let dataset = tempfile::tempdir().unwrap();
    converted(&fixture("nettrace/bgc-srv.nettrace"), dataset.path()).unwrap();
    let collections = columns(dataset.path(), Table::Collections, ["number", "kind"]);
    let background: Vec<&Field> = collections
        .iter()
        .filter(|[_, kind]| *kind == Field::Str("background".to_owned()))
        .map(|[number, _]| number)
        .collect();
    let stops = columns(dataset.path(), Table::Stops, ["number", "reason"]);
    let preparing: Vec<&Field> = stops
        .iter()
        .filter(|[_, reason]| *reason == Field::Str("SuspendForGCPrep".to_owned()))
        .map(|[number, _]| number)
        .collect();
    assert!(!preparing.is_empty());
    assert!(preparing.iter().all(|number| background.contains(number)), "{preparing:?} of {background:?}");
}

/// Type codes for integers of 16 and 32 bits.
const U16: u8 = 8;
const U32: u8 = 10;

fn runtime_type(id: u32, event: u32, fields: &[(&str, u8)]) -> Type {
    let fields = fields.iter().map(|(name, code)| ((*name).to_owned(), *code)).collect();
    let provider = "Microsoft-Windows-DotNETRuntime".to_owned();
    Type { id, provider, event, version: 1, level: 4, keywords: 1, fields, ..Type::default() }
}

fn event(kind: u32, thread: u64, sequence: u32, time: i64, payload: Vec<u8>) -> Event {
    Event { kind, sequence, thread, capture: thread, time, sorted: true, payload, ..Event::default() }
}

fn suspend(reason: u32, count: u32) -> Vec<u8> {
    [&reason.to_le_bytes()[..], &count.to_le_bytes(), &[0; 2]].concat()
}

fn runtime_types() -> Block {
    let instance = [("ClrInstanceID", U16)];
    Block::Types(vec![
        runtime_type(1, 9, &[("Reason", U32), ("Count", U32), ("ClrInstanceID", U16)]),
        runtime_type(2, 8, &instance),
        runtime_type(3, 3, &instance),
    ])
}

#[test]
fn a_stop_ends_when_its_own_thread_restarts_the_others() {
    let (collecting, other) = (2, 4);
    let none = || vec![0; 2];
    let events = vec![
        event(1, collecting, 1, 1_000, suspend(1, 0)),
        event(1, other, 1, 1_100, suspend(0, 0)),
        event(2, collecting, 2, 1_200, none()),
        event(2, other, 2, 1_300, none()),
        event(3, other, 3, 1_400, none()),
        event(3, collecting, 3, 2_000, none()),
    ];
    let folder = tempfile::tempdir().unwrap();
    let (trace, dataset) = (folder.path().join("trace.nettrace"), folder.path().join("dataset"));
    fs::write(&trace, file(Form::V4, 8, &[runtime_types(), Block::Events(events)])).unwrap();
    converted(&trace, &dataset).unwrap();
    let mut stops = columns(&dataset, Table::Stops, ["number", "stop_ns", "duration_ns"]);
    stops.sort_by_key(|[number, ..]| *number == Field::Null);
    let expected =
        [[Field::Long(1), Field::Long(200), Field::Long(1_000)], [Field::Null, Field::Long(200), Field::Long(300)]];
    assert_eq!(stops, expected);
}

/// Two worlds have collections with the same number, one of them during the other.
#[test]
fn stops_and_collections_have_the_number_of_their_world() {
    let of = |world: u16, words: &[u32]| {
        let words: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        [&words[..], &world.to_le_bytes()].concat()
    };
    let numbers = ["Count", "Depth", "Reason", "Type"].map(|name| (name, U32));
    let types = Block::Types(vec![
        runtime_type(4, 1, &[&numbers[..], &[("ClrInstanceID", U16)]].concat()),
        runtime_type(5, 2, &[&numbers[..2], &[("ClrInstanceID", U16)]].concat()),
    ]);
    let step = |at: i64, sequence: u32, kind: u32, world: u16, words: &[u32]| {
        event(kind, 2 + 2 * u64::from(world), sequence, at, of(world, words))
    };
    let events = [(1_000, 0), (1_050, 1)].into_iter().flat_map(|(start, world)| {
        [
            step(start, 1, 1, world, &[1, 0]),
            step(start + 100, 2, 2, world, &[]),
            step(start + 200, 3, 4, world, &[1, 0, 0, 0]),
            step(start + 300, 4, 5, world, &[1, 0]),
            step(start + 400, 5, 3, world, &[]),
        ]
    });
    let mut events: Vec<Event> = events.collect();
    events.sort_by_key(|event| event.time);
    let folder = tempfile::tempdir().unwrap();
    let (trace, dataset) = (folder.path().join("trace.nettrace"), folder.path().join("dataset"));
    fs::write(&trace, file(Form::V4, 8, &[runtime_types(), types, Block::Events(events)])).unwrap();
    converted(&trace, &dataset).unwrap();
    let expected = [[1, 0, 0], [1, 50, 1]].map(|row| row.map(Field::Long));
    assert_eq!(columns(&dataset, Table::Stops, ["number", "start_ns", "world"]), expected);
    assert_eq!(columns(&dataset, Table::Collections, ["number", "start_ns", "world"]), expected);
}

#[test]
fn a_process_with_id_0_has_rows() {
    let threads =
        [(2, 7), (4, 0)].map(|(thread, process)| (nettrace_support::index_of(thread), String::new(), process, thread));
    let events = [2, 4].map(|thread| event(2, thread, 1, 1_000, vec![0; 2])).to_vec();
    let blocks = [Block::Threads(threads.to_vec()), runtime_types(), Block::Events(events)];
    let folder = tempfile::tempdir().unwrap();
    let (trace, dataset) = (folder.path().join("trace.nettrace"), folder.path().join("dataset"));
    fs::write(&trace, file(Form::V6, 8, &blocks)).unwrap();
    let written = converted(&trace, &dataset).unwrap();
    assert_eq!((written.events, written.rows[&Table::Events], written.rows[&Table::Traces]), (2, 2, 2));
    let processes = columns(&dataset, Table::Events, ["process_id"]);
    assert_eq!(processes.iter().filter(|[id]| *id == Field::Null).count(), 1, "{processes:?}");
}

/// Writes an eventlog with these events.
fn log(trace: &Path, write: impl FnOnce(&mut Log<Vec<u8>>) -> io::Result<()>) {
    let mut log = Log::new(Vec::new());
    write(&mut log).unwrap();
    fs::write(trace, log.finish().unwrap()).unwrap();
}

/// An event of an eventlog, with its capability. Threads have the numbers of their capabilities.
#[derive(Clone, Copy, Debug)]
enum Logged {
    Request(u16),
    Stop(u16),
    Start(u16),
    End(u16),
    Live(u16, u64),
    Attach(u16),
    Run(u16),
}

/// Writes an eventlog of this runtime, with these events at their times.
fn timed_log(trace: &Path, runtime: &str, events: &[(u64, Logged)]) {
    log(trace, |log| {
        log.write(None, &RtsIdentifier { capset: 0, name: runtime.into() })?;
        for &(at, event) in events {
            log.set_time(at);
            match event {
                Logged::Request(cap) => log.write(Some(cap), &RequestSeqGc {}),
                Logged::Stop(cap) => {
                    let reason = StopReason::YIELDING;
                    log.write(Some(cap), &StopThread { thread: cap.into(), reason, info: 0 })
                }
                Logged::Start(cap) => log.write(Some(cap), &GcStart {}),
                Logged::End(cap) => log.write(Some(cap), &GcEnd {}),
                Logged::Live(cap, bytes) => log.write(Some(cap), &HeapLive { capset: 0, bytes }),
                Logged::Attach(cap) => {
                    log.write(Some(cap), &CreateThread { thread: cap.into() })?;
                    log.write(Some(cap), &RunThread { thread: cap.into() })
                }
                Logged::Run(cap) => log.write(Some(cap), &RunThread { thread: cap.into() }),
            }?;
        }
        Ok(())
    });
}

const OURS: &str = "stopworld 0.1.0";

/// A collection from 200 to 300 that was requested at 100, with what happens to threads.
#[rstest]
#[case::ghc("GHC-9.0.2 rts_l", &[0, 1], &[(310, Logged::Run(1)), (320, Logged::Run(0))], 200)]
#[case::the_collecting_thread(OURS, &[0, 1], &[(310, Logged::Run(1)), (320, Logged::Run(0))], 220)]
#[case::not_one_that_attaches(OURS, &[0, 1], &[(310, Logged::Attach(2)), (320, Logged::Run(0))], 220)]
#[case::collected_by_another_thread(OURS, &[1], &[(310, Logged::Attach(2)), (330, Logged::Run(1))], 230)]
#[case::no_threads(OURS, &[], &[(900, Logged::Attach(2)), (950, Logged::Stop(2)), (990, Logged::Run(2))], 200)]
#[case::without_the_restart(OURS, &[0, 1], &[], 200)]
#[case::of_a_thread_that_has_left(OURS, &[0, 1], &[(310, Logged::Attach(0)), (320, Logged::Run(1))], 200)]
fn a_pause_of_our_logs_lasts_until_threads_run(
    #[case] runtime: &str,
    #[case] stopped: &[u16],
    #[case] restart: &[(u64, Logged)],
    #[case] pause: i64,
) {
    let folder = tempfile::tempdir().unwrap();
    let (trace, dataset) = (folder.path().join("trace.eventlog"), folder.path().join("dataset"));
    let mut events = vec![(100, Logged::Request(0))];
    events.extend(stopped.iter().map(|cap| (150, Logged::Stop(*cap))));
    events.extend([(200, Logged::Start(0)), (300, Logged::End(0)), (305, Logged::Live(0, 7))]);
    events.extend(restart);
    timed_log(&trace, runtime, &events);
    converted(&trace, &dataset).unwrap();
    let rows = columns(&dataset, Table::Collections, ["pause_ns", "stop_ns", "duration_ns", "heap_after_bytes"]);
    assert_eq!(rows, [[pause, 100, 100, 7].map(Field::Long)]);
    assert_eq!(columns(&dataset, Table::Stops, ["duration_ns"]), [[Field::Long(pause)]]);
    let phases: i64 = columns(&dataset, Table::Phases, ["duration_ns"])
        .iter()
        .map(|[duration]| if let Field::Long(ns) = duration { *ns } else { panic!("{duration}") })
        .sum();
    assert_eq!(phases, pause);
}

/// The second collection is requested during the first, and begins before the threads of the first run again.
#[test]
fn collections_of_two_worlds_are_not_mixed_up() {
    let folder = tempfile::tempdir().unwrap();
    let (trace, dataset) = (folder.path().join("trace.eventlog"), folder.path().join("dataset"));
    let events = [
        // No collection follows this request.
        (10, Logged::Request(1)),
        (100, Logged::Request(0)),
        (100, Logged::Stop(0)),
        (150, Logged::Request(1)),
        (150, Logged::Stop(1)),
        (200, Logged::Start(0)),
        (300, Logged::End(0)),
        (310, Logged::Start(1)),
        (320, Logged::Live(0, 7)),
        (330, Logged::Run(0)),
        (400, Logged::End(1)),
        (410, Logged::Live(1, 8)),
        (450, Logged::Run(1)),
    ];
    timed_log(&trace, OURS, &events);
    converted(&trace, &dataset).unwrap();
    let rows = columns(
        &dataset,
        Table::Collections,
        ["number", "start_ns", "pause_ns", "stop_ns", "duration_ns", "heap_after_bytes"],
    );
    assert_eq!(rows, [[1, 100, 230, 100, 100, 7], [2, 150, 300, 160, 90, 8]].map(|row| row.map(Field::Long)));
}

/// Phases of collections at the same time, each by a thread of its own.
#[test]
fn the_phases_of_two_worlds_are_not_mixed_up() {
    /// The type code for integers of 64 bits.
    const U64: u8 = 12;
    let own_type = |(id, name): (u32, &str)| Type {
        id,
        provider: "stopworld".to_owned(),
        event: 60_000 + id,
        name: name.to_owned(),
        version: 0,
        level: 4,
        keywords: 2,
        fields: vec![("number".to_owned(), U64)],
        ..Type::default()
    };
    let types = Block::Types([(1, "MarkBegin"), (2, "MarkEnd"), (3, "WeakEnd")].map(own_type).to_vec());
    let number = |number: u64| number.to_le_bytes().to_vec();
    let events = vec![
        event(1, 2, 1, 1_000, number(5)),
        event(1, 4, 1, 1_100, number(6)),
        event(2, 2, 2, 1_300, number(5)),
        event(2, 4, 2, 1_700, number(6)),
        event(3, 2, 3, 1_900, number(5)),
        event(3, 4, 3, 2_800, number(6)),
    ];
    let folder = tempfile::tempdir().unwrap();
    let (trace, dataset) = (folder.path().join("trace.nettrace"), folder.path().join("dataset"));
    fs::write(&trace, file(Form::V4, 8, &[types, Block::Events(events)])).unwrap();
    converted(&trace, &dataset).unwrap();
    let phases = columns(&dataset, Table::Phases, ["number", "phase", "duration_ns"]);
    let expected = [(5, "mark", 300), (6, "mark", 600), (5, "weak", 600), (6, "weak", 1_100)];
    assert_eq!(
        phases,
        expected.map(|(number, phase, ns)| [Field::Long(number), Field::Str(phase.to_owned()), Field::Long(ns)])
    );
}

#[test]
fn an_integer_that_is_too_large_is_the_maximum() {
    let folder = tempfile::tempdir().unwrap();
    let (trace, dataset) = (folder.path().join("trace.eventlog"), folder.path().join("dataset"));
    log(&trace, |log| {
        log.write(Some(0), &GcStart {})?;
        log.write(Some(0), &GcEnd {})?;
        log.write(Some(0), &HeapLive { capset: 0, bytes: u64::MAX })
    });
    converted(&trace, &dataset).unwrap();
    assert_eq!(columns(&dataset, Table::HeapSamples, ["bytes"]), [[Field::Long(i64::MAX)]]);
    assert_eq!(columns(&dataset, Table::Collections, ["heap_after_bytes"]), [[Field::Long(i64::MAX)]]);
}

#[rstest]
#[case::seconds(u64::MAX, 0)]
#[case::the_sum((i64::MAX / 1_000_000) as u64, u32::MAX)]
fn a_time_of_day_that_is_too_large_is_unknown(#[case] seconds: u64, #[case] nanoseconds: u32) {
    let folder = tempfile::tempdir().unwrap();
    let (trace, dataset) = (folder.path().join("trace.eventlog"), folder.path().join("dataset"));
    log(&trace, |log| log.write(None, &WallClockTime { capset: 0, seconds, nanoseconds }));
    converted(&trace, &dataset).unwrap();
    assert_eq!(columns(&dataset, Table::Traces, ["start_time"]), [[Field::Null]]);
}

#[test]
fn a_damaged_trace_does_not_replace_more_rows_of_an_earlier_conversion() {
    let folder = tempfile::tempdir().unwrap();
    let (trace, dataset) = (folder.path().join("a.nettrace"), folder.path().join("dataset"));
    let whole = fs::read(fixture("nettrace/gcapp-3.1-gc-info.nettrace")).unwrap();
    let contents =
        || part_files(&dataset).into_iter().map(|part| (part.clone(), fs::read(part).unwrap())).collect::<Vec<_>>();

    // What can be read replaces what is not there.
    fs::write(&trace, &whole[..140]).unwrap();
    let written = converted(&trace, &dataset).unwrap();
    assert_eq!((written.events, written.rows[&Table::Traces]), (0, 1));
    fs::write(&trace, &whole).unwrap();
    converted(&trace, &dataset).unwrap();
    let before = contents();
    assert!(before.len() > 4);

    for length in [140, whole.len() / 2] {
        fs::write(&trace, &whole[..length]).unwrap();
        let error = converted(&trace, &dataset).unwrap_err();
        assert!(matches!(&error, FleetError::Worse { rows, earlier, .. } if rows < earlier), "{error}");
        assert!(error.to_string().contains("at byte") && error.to_string().contains("trace-a-"), "{error}");
        assert!(contents() == before, "the dataset has changed");
    }
}

#[test]
fn a_pipe_is_not_waited_for() {
    let folder = tempfile::tempdir().unwrap();
    let traces = folder.path().join("traces");
    fs::create_dir(&traces).unwrap();
    let pipe = traces.join("pipe.nettrace");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    assert!(Inputs::find(&[traces], Path::new(""), TRACES).is_empty());
    let result = converted(&pipe, &folder.path().join("dataset"));
    assert!(matches!(result, Err(FleetError::NotAFile)), "{result:?}");
}
