//! The speed of reading .nettrace files: `cargo bench --bench nettrace -- --quick`.
//! The file is generated in memory: 64 MiB of events with payloads of 40 to 100 bytes (like the collector's events), from eight
//! threads that take turns, in blocks of 100 KiB as the runtime writes them. `counting` reads in file order and ignores the
//! payloads; its requirement is 1 GB/s on one core. `by time` delivers events ordered by time: `flagged` from a file that
//! is already sorted and flagged as such, `in runs` from a file as the runtime writes it, where only the first event of each
//! thread's turn is flagged and the others must be sorted. `peak` is the additional memory used for a file ten times as long.

use std::hint::black_box;
use std::io::{self, Read};

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use nettrace::{EventType, Interest, NetEvent, Reader, Visitor};

const FILE: usize = 64 << 20;
const BLOCK: usize = 100 << 10;
const THREADS: u64 = 8;
/// The number of consecutive events of one thread.
const TURN: u64 = 64;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Flags {
    All,
    FirstOfRun,
}

fn var(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Appends a block of version 6, which needs no padding.
fn block(out: &mut Vec<u8>, kind: u8, body: &[u8]) {
    out.extend((body.len() as u32 | u32::from(kind) << 24).to_le_bytes());
    out.extend_from_slice(body);
}

/// Appends an object of version 4.
fn object(out: &mut Vec<u8>, name: &str, body: &[u8]) {
    out.extend([5, 5, 1]);
    out.extend([2, 2, name.len() as u32].map(u32::to_le_bytes).concat());
    out.extend(name.as_bytes());
    out.push(6);
    out.extend((body.len() as u32).to_le_bytes());
    while !out.len().is_multiple_of(4) {
        out.push(0);
    }
    out.extend_from_slice(body);
    out.push(6);
}

fn begin(version_6: bool) -> Vec<u8> {
    let mut out = b"Nettrace".to_vec();
    let mut trace = [2026u16, 1, 3, 7, 12, 0, 0, 0].map(u16::to_le_bytes).concat();
    trace.extend([0u64, 1_000_000_000].map(u64::to_le_bytes).concat());
    trace.extend(8u32.to_le_bytes());
    if version_6 {
        out.extend([0u32, 6, 0].map(u32::to_le_bytes).concat());
        trace.extend(0u32.to_le_bytes());
        block(&mut out, 1, &trace);
    } else {
        out.extend(20u32.to_le_bytes());
        out.extend(b"!FastSerialization.1\x05\x05\x01\x04\0\0\0\x04\0\0\0\x05\0\0\0Trace\x06");
        trace.extend([7u32, 4, 1_000_000].map(u32::to_le_bytes).concat());
        out.extend(trace);
        out.push(6);
    }
    out
}

fn types(out: &mut Vec<u8>, version_6: bool) {
    let mut body = if version_6 { vec![0, 0] } else { header(1) };
    for id in 1..=8u8 {
        let mut row = Vec::new();
        if version_6 {
            row.extend([id, 1, b'P', id, 0, 0, 0, 0, 0]);
            body.extend((row.len() as u16).to_le_bytes());
        } else {
            row.extend(u32::from(id).to_le_bytes());
            row.extend(b"P\0\0\0");
            row.extend(u32::from(id).to_le_bytes());
            row.extend([0; 2 + 8 + 4 + 4 + 4]);
            body.extend([0xC0, 0, row.len() as u8]);
        }
        body.extend(row);
    }
    if version_6 {
        block(out, 3, &body);
        let row = |thread: u64| [4, 0, 1 + thread as u8, 3, 0x80 | thread as u8, 1];
        block(out, 6, &(0..THREADS).flat_map(row).collect::<Vec<u8>>());
    } else {
        object(out, "MetadataBlock", &body);
    }
}

fn header(flags: u16) -> Vec<u8> {
    let mut header = [20u16, flags].map(u16::to_le_bytes).concat();
    header.resize(20, 0);
    header
}

/// Makes the file. Returns it and its number of events.
fn file(version_6: bool, flags: Flags) -> (Vec<u8>, u64) {
    let mut out = begin(version_6);
    types(&mut out, version_6);
    let mut sequences = [0u64; THREADS as usize];
    let mut body = header(1);
    let (mut count, mut time, mut before) = (0u64, 0, (0, 0, 0, 0));
    let mut random = 0x5EED_u64;
    while out.len() < FILE {
        let turn = count / TURN;
        let thread = turn % THREADS;
        let first = count.is_multiple_of(TURN);
        // In runs, the turns of all eight threads cover the same stretch of time, as when the threads run concurrently.
        let now = match flags {
            Flags::All => count * 20,
            Flags::FirstOfRun => (turn - thread) * TURN * 20 + thread * 20 + count % TURN * 20 * THREADS,
        };
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let kind = 1 + (random >> 40) % 8;
        let size = 40 + (random >> 50) % 61;
        let sequence = &mut sequences[thread as usize];
        *sequence += 1;
        let (kind_before, size_before, sequence_before, thread_before) = before;
        let id = if version_6 { 1 + thread } else { 1000 + thread };
        let mut bits = if flags == Flags::All || first { 0x40 } else { 0 };
        bits |= if kind == kind_before { 0 } else { 0x01 };
        bits |= if id == thread_before { 0 } else { 0x06 };
        bits |= if size == size_before { 0 } else { 0x80 };
        body.push(bits);
        if bits & 0x01 != 0 {
            var(&mut body, kind);
        }
        if bits & 0x02 != 0 {
            var(&mut body, u64::from((*sequence as u32).wrapping_sub(sequence_before).wrapping_sub(1)));
            var(&mut body, id);
            var(&mut body, 3);
            var(&mut body, id);
        }
        var(&mut body, now.wrapping_sub(time));
        if bits & 0x80 != 0 {
            var(&mut body, size);
        }
        body.resize(body.len() + size as usize, random as u8);
        (time, before) = (now, (kind, size, *sequence as u32, id));
        count += 1;
        if body.len() > BLOCK {
            if version_6 {
                block(&mut out, 2, &body);
            } else {
                object(&mut out, "EventBlock", &body);
            }
            body = header(1);
            (time, before) = (0, (0, 0, 0, 0));
        }
    }
    if version_6 {
        out.extend([0; 4]);
    } else {
        out.push(1);
    }
    // The loop ends right after a block is written, so the file has all counted events.
    (out, count)
}

#[derive(Default)]
struct Count([u64; 8]);

impl Visitor for Count {
    fn event(&mut self, event: &NetEvent<'_>) {
        self.0[event.kind.index as usize & 7] += 1;
    }
}

/// A visitor that reads a word of each payload, and checks the order of the events.
#[derive(Default)]
struct Look(u64, i64);

impl Visitor for Look {
    fn event(&mut self, event: &NetEvent<'_>) {
        let word = event.payload.first_chunk::<8>().map_or(0, |word| u64::from_le_bytes(*word));
        self.0 = self.0.wrapping_add(word);
        assert!(self.1 <= event.time);
        self.1 = event.time;
    }
}

/// A visitor that wants one of the eight event types.
#[derive(Default)]
struct One(u64);

impl Visitor for One {
    fn event_type(&mut self, kind: &EventType) -> Interest {
        if kind.event == 1 { Interest::Deliver } else { Interest::Skip }
    }

    fn event(&mut self, _event: &NetEvent<'_>) {
        self.0 += 1;
    }
}

/// A stream that repeats the events of a file for a number of rounds.
struct Repeated<'a> {
    bytes: &'a [u8],
    blocks: &'a [u8],
    rounds: u32,
}

impl Read for Repeated<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.bytes.is_empty() && self.rounds > 0 {
            self.rounds -= 1;
            self.bytes = self.blocks;
        }
        let count = buffer.len().min(self.bytes.len());
        buffer[..count].copy_from_slice(&self.bytes[..count]);
        self.bytes = &self.bytes[count..];
        Ok(count)
    }
}

/// Returns the peak memory of the process, in KiB.
fn peak() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap_or_default();
    line.split_whitespace().next().and_then(|number| number.parse().ok()).unwrap_or_default()
}

fn reading(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("nettrace");
    group.sample_size(10);
    for (name, version_6) in [("v4", false), ("v6", true)] {
        let (sorted, count) = file(version_6, Flags::All);
        let (runs, _) = file(version_6, Flags::FirstOfRun);
        println!(
            "{name}: {} bytes, {count} events, {:.1} bytes each",
            sorted.len(),
            sorted.len() as f64 / count as f64
        );
        for file in [&sorted, &runs] {
            let summary = Reader::new(&file[..]).read(&mut Look::default());
            assert!((summary.damage, summary.lost, summary.late) == (None, 0, 0), "{summary:?}");
        }
        group.throughput(Throughput::Bytes(sorted.len() as u64));
        group.bench_function(BenchmarkId::new("counting", name), |bencher| {
            bencher.iter(|| {
                let mut count = Count::default();
                Reader::new(&sorted[..]).in_file_order().read(&mut count);
                black_box(count.0)
            });
        });
        group.bench_function(BenchmarkId::new("one type of eight, by time", name), |bencher| {
            bencher.iter(|| {
                let mut one = One::default();
                Reader::new(&runs[..]).read(&mut one);
                black_box(one.0)
            });
        });
        for (what, file) in [("by time, flagged", &sorted), ("by time, in runs", &runs)] {
            group.bench_function(BenchmarkId::new(what, name), |bencher| {
                bencher.iter(|| {
                    let mut look = Look::default();
                    Reader::new(&file[..]).read(&mut look);
                    black_box(look.0)
                });
            });
        }
        if version_6 {
            flat(&runs);
        }
    }
    group.finish();
}

/// Measures the memory for a file ten times as long. Its times restart with each round, which is invalid: it affects the order,
/// but not the memory.
fn flat(file: &[u8]) {
    // Reset the peak.
    std::fs::write("/proc/self/clear_refs", "5").expect("a process may reset its own peak");
    let before = peak();
    let blocks = begin(true).len();
    let mut all = Count::default();
    let rest = &file[blocks..file.len() - 4];
    // Each round repeats the event descriptions. Repeated descriptions are reported as damage, and the newer ones are used.
    let summary = Reader::new(Repeated { bytes: &file[..file.len() - 4], blocks: rest, rounds: 10 }).read(&mut all);
    println!(
        "peak: {} events, {} MB; {} KiB more than before",
        summary.events,
        summary.bytes / 1_000_000,
        peak() - before
    );
}

criterion_group!(benches, reading);
criterion_main!(benches);
