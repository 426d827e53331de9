//! Inputs on which a command once panicked or overflowed, found by the fuzz targets in `fuzz/` or by reading. Each file of
//! tests/fixtures/fuzz is passed to every command that reads files: no command panics, all end soon, and a command that fails reports the
//! reason (`.format.hostile`).

use crate::command_support;
use crate::nettrace_support;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use command_support::{directory, run, text};
use mps_telemetry::decode::{Form, decode};
use nettrace_support::{Block, Event, FORMS, Type, file};
use rstest::rstest;
use stopworld_analysis::convert::{ConvertOptions, Target, convert};

/// A time limit far longer than any command takes, even on a busy machine.
const SOON: Duration = Duration::from_secs(300);

const COMMANDS: [&str; 21] = [
    "eventcnv -f INPUT --cnv",
    "eventcnv -f INPUT --txt",
    "eventcnv -f INPUT -SC",
    "dump INPUT",
    "dump INPUT --json",
    "dump INPUT --counts",
    "gcstats INPUT",
    "gcstats INPUT --like-perfview --xml",
    "gcstats INPUT --html",
    "convert INPUT out.mps",
    "convert INPUT out.nettrace",
    "convert INPUT --format nettrace6 out.six",
    "convert INPUT out.json",
    "convert INPUT out.parquet",
    "eventlog show INPUT",
    "eventlog show --inc INPUT",
    "heapprof INPUT --top 2",
    "heapprof INPUT --csv",
    "heapprof INPUT --html",
    "timeprof INPUT",
    "timeprof INPUT --speedscope",
];

#[rstest]
fn no_command_panics(#[files("../../tests/fixtures/fuzz/*")] input: PathBuf) {
    let directory = directory();
    for command in COMMANDS {
        let command = command.replace("INPUT", &input.display().to_string());
        let begun = Instant::now();
        let output = run(directory.path(), &command);
        let said = text(&output.stderr);
        // 2: the trace has several processes, and the command names none.
        assert!(matches!(output.status.code(), Some(0..=2)), "{command}: {:?}\n{said}", output.status);
        assert!(output.status.success() || !said.trim().is_empty(), "{command} fails without a message");
        assert!(begun.elapsed() < SOON, "{command} took {:?}", begun.elapsed());
    }
}

const RUNTIME: &str = "Microsoft-Windows-DotNETRuntime";

/// Type codes for integers of 16, 32 and 64 bits.
const U16: u8 = 8;
const U64: u8 = 12;

fn kind(id: u32, event: u32, version: u32, fields: &[(&str, u8)]) -> Type {
    let fields = fields.iter().map(|(name, code)| ((*name).to_owned(), *code)).collect();
    Type { id, provider: RUNTIME.to_owned(), event, version, level: 4, keywords: 1, fields, ..Type::default() }
}

fn event(kind: u32, time: i64, payload: Vec<u8>) -> Event {
    Event { kind, sequence: 1, thread: 1, capture: 1, time, sorted: true, payload, ..Event::default() }
}

/// Returns the lines of the stream that a trace is converted to.
fn stream(types: Vec<Type>, events: Vec<Event>) -> String {
    let trace = file(FORMS[0], 8, &[Block::Types(types), Block::Events(events)]);
    let (mut stream, mut lines) = (Vec::new(), Vec::new());
    convert(&trace[..], &mut stream, Target::Mps, &ConvertOptions::default()).unwrap();
    decode(&stream[..], &mut lines, Form::Named, None, &mut |_| {}).unwrap();
    text(&lines)
}

/// A file may declare fields of its own for any event.
#[test]
fn a_runtime_with_a_64_bit_number_counts_as_one_without_a_number() {
    let start = kind(1, 9, 1, &[("Reason", U64), ("ClrInstanceID", U64)]);
    let payload = [1u64.to_le_bytes(), u64::MAX.to_le_bytes()].concat();
    let lines = stream(vec![start], vec![event(1, 5, payload)]);
    assert!(lines.contains("ArenaPollBegin      arena:0000000000100000"), "{lines}");
}

/// A time before the clock's zero is converted to the last time that a stream can express, because a stream's clocks are unsigned.
#[test]
fn records_at_the_last_time_have_that_time() {
    let segment = kind(1, 5, 1, &[("Address", U64), ("Size", U64), ("Type", U16), ("ClrInstanceID", U16)]);
    let payload = [&[0x10; 8][..], &[0xff; 8], &[0; 4]].concat();
    let lines = stream(vec![segment], vec![event(1, -1, payload)]);
    let last = lines.lines().filter(|line| line.starts_with("FFFFFFFFFFFFFFFF")).count();
    assert!(last > 0 && lines.contains("ArenaExtend"), "{lines}");
}

/// Fixtures stay small: minimize a failing input first.
#[test]
fn cases_are_small() {
    for entry in std::fs::read_dir(Path::new("../../tests/fixtures/fuzz")).unwrap() {
        let entry = entry.unwrap();
        let size = entry.metadata().unwrap().len();
        assert!(size <= 4 << 10, "{} has {size} bytes", entry.path().display());
    }
}
