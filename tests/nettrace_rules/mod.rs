//! An independent reader of .nettrace for tests of the writer: it shares no code with the product's, and trusts nothing.
//!
//! [`Trace::parse`] reads a whole file and panics, with the byte offset, at anything that the format forbids or for which this project
//! guarantees more: alignments, the sizes and times of blocks, definitions before uses, times that never decrease, sequence gaps that are
//! reported, sequence points that hold. [`check_collections`] then reads the events as a reader of collections does.

#![allow(dead_code, reason = "each test program uses its part")]

mod checks;
pub mod readers;

#[allow(unused_imports, reason = "each test program uses its part")]
pub use checks::*;

use std::collections::{BTreeMap, HashMap};

pub const DEFAULT: &str = "Microsoft-Windows-DotNETRuntime";
pub const PRIVATE: &str = "Microsoft-Windows-DotNETRuntimePrivate";
pub const RUNDOWN: &str = "Microsoft-Windows-DotNETRuntimeRundown";
pub const EVENT_PIPE: &str = "Microsoft-DotNETCore-EventPipe";
pub const OWN: &str = "stopworld";

const MOST_BLOCK: usize = 100 << 10;

/// A type of event, as the file describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kind {
    pub provider: String,
    pub id: u32,
    pub name: String,
    pub version: u32,
    pub level: u32,
    pub keywords: u64,
    pub opcode: Option<u8>,
    pub fields: Vec<(String, u32)>,
}

/// An event.
#[derive(Clone, Debug)]
pub struct Event {
    pub kind: std::rc::Rc<Kind>,
    pub time: u64,
    pub thread: u64,
    pub sequence: u32,
    /// The addresses of its stack; empty if it has none.
    pub stack: Vec<u64>,
    pub payload: Vec<u8>,
    pub offset: usize,
}

/// A field's value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    Number(u64),
    Text(String),
    Guid([u8; 16]),
}

impl Event {
    pub fn is(&self, name: &str) -> bool {
        self.kind.name == name
    }

    /// Returns the fields by their description, and the bytes after them.
    pub fn fields(&self) -> (Vec<(String, Value)>, &[u8]) {
        let mut rest = Bytes { all: &self.payload, at: 0, base: self.offset };
        let fields = self.kind.fields.iter().map(|(name, kind)| {
            let value = match kind {
                6 => Value::Number(rest.u8().into()),
                8 => Value::Number(rest.u16().into()),
                9 | 10 => Value::Number(rest.u32().into()),
                11 | 12 => Value::Number(rest.u64()),
                17 => Value::Guid(rest.take(16).try_into().unwrap()),
                18 => Value::Text(rest.utf16()),
                other => panic!("{}.{name} has the type {other}", self.kind.name),
            };
            (name.clone(), value)
        });
        let fields = fields.collect();
        (fields, &rest.all[rest.at..])
    }

    /// Returns a number by its field's name.
    pub fn number(&self, name: &str) -> u64 {
        match self.value(name) {
            Value::Number(number) => number,
            other => panic!("{}.{name} is {other:?}", self.kind.name),
        }
    }

    pub fn text(&self, name: &str) -> String {
        match self.value(name) {
            Value::Text(text) => text,
            other => panic!("{}.{name} is {other:?}", self.kind.name),
        }
    }

    fn value(&self, name: &str) -> Value {
        let (fields, _) = self.fields();
        let found = fields.into_iter().find(|(field, _)| field == name);
        found.unwrap_or_else(|| panic!("{} has no field {name}", self.kind.name)).1
    }

    /// Returns the world's number: by the event's last two bytes, or by the field.
    pub fn world(&self) -> u16 {
        let (fields, _) = self.fields();
        let clr = fields.iter().find(|(name, _)| name == "ClrInstanceID");
        match clr {
            Some((_, Value::Number(world))) => *world as u16,
            _ => u16::from_le_bytes(self.payload[self.payload.len() - 2..].try_into().unwrap()),
        }
    }
}

/// A complete trace.
#[derive(Debug, Default)]
pub struct Trace {
    pub version: u32,
    pub utc: [u16; 8],
    pub start: u64,
    pub hz: u64,
    pub pid: u32,
    pub processors: u32,
    pub kinds: HashMap<u32, std::rc::Rc<Kind>>,
    pub events: Vec<Event>,
    pub points: usize,
    pub lost: u64,
    pub lost_by_thread: BTreeMap<u64, u64>,
    pub blocks: usize,
}

struct Bytes<'a> {
    all: &'a [u8],
    at: usize,
    base: usize,
}

impl<'a> Bytes<'a> {
    fn take(&mut self, count: usize) -> &'a [u8] {
        let end = self.at + count;
        assert!(end <= self.all.len(), "byte {}: {count} bytes expected, but the data end", self.base + self.at);
        let taken = &self.all[self.at..end];
        self.at = end;
        taken
    }

    fn is_over(&self) -> bool {
        self.at == self.all.len()
    }

    fn offset(&self) -> usize {
        self.base + self.at
    }

    fn u8(&mut self) -> u8 {
        self.take(1)[0]
    }

    fn u16(&mut self) -> u16 {
        u16::from_le_bytes(self.take(2).try_into().unwrap())
    }

    fn u32(&mut self) -> u32 {
        u32::from_le_bytes(self.take(4).try_into().unwrap())
    }

    fn u64(&mut self) -> u64 {
        u64::from_le_bytes(self.take(8).try_into().unwrap())
    }

    fn varint(&mut self) -> u64 {
        let (mut value, mut shift) = (0, 0);
        loop {
            let byte = self.u8();
            assert!(shift < 64, "byte {}: a number of more than 64 bits", self.offset());
            value |= u64::from(byte & 0x7f) << shift;
            shift += 7;
            if byte & 0x80 == 0 {
                return value;
            }
        }
    }

    fn utf16(&mut self) -> String {
        let mut units = Vec::new();
        loop {
            match self.u16() {
                0 => return String::from_utf16(&units).expect("UTF-16"),
                unit => units.push(unit),
            }
        }
    }

    fn utf8(&mut self) -> String {
        let length = self.varint() as usize;
        String::from_utf8(self.take(length).to_vec()).expect("UTF-8")
    }

    fn part(&mut self, count: usize) -> Bytes<'a> {
        let base = self.offset();
        Bytes { all: self.take(count), at: 0, base }
    }
}

/// The state of the parser.
#[derive(Default)]
struct State {
    trace: Trace,
    /// The time of the last event or sequence point, and whether it was a sequence point.
    time: u64,
    after_point: bool,
    /// The last sequence number of each thread, by the file's id of the thread.
    sequences: HashMap<u64, u32>,
    /// Version 6: the kernel's ids of the threads that the file knows.
    threads: HashMap<u64, u64>,
    /// The stacks since the last sequence point. Their ids are consecutive, from 1.
    stacks: Vec<Vec<u64>>,
}

impl Trace {
    /// Reads a complete file.
    pub fn parse(bytes: &[u8]) -> Trace {
        let mut file = Bytes { all: bytes, at: 0, base: 0 };
        assert_eq!(file.take(8), b"Nettrace");
        let mut state = State::default();
        match file.u32() {
            20 => {
                assert_eq!(file.take(20), b"!FastSerialization.1");
                state.trace.version = 4;
                state.objects(&mut file);
            }
            0 => {
                assert_eq!((file.u32(), file.u32()), (6, 0));
                state.trace.version = 6;
                state.blocks(&mut file);
            }
            other => panic!("byte 8: {other:#x}"),
        }
        assert!(file.is_over(), "byte {}: bytes after the end", file.offset());
        state.trace
    }

    pub fn read(path: &std::path::Path) -> Trace {
        let bytes = std::fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        Trace::parse(&bytes)
    }

    pub fn named<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a Event> {
        self.events.iter().filter(move |event| event.is(name))
    }

    /// The number of events by provider and name.
    pub fn counts(&self) -> BTreeMap<(String, String), usize> {
        let mut counts = BTreeMap::new();
        for event in &self.events {
            *counts.entry((event.kind.provider.clone(), event.kind.name.clone())).or_default() += 1;
        }
        counts
    }

    pub fn ns(&self, ticks: u64) -> u64 {
        (u128::from(ticks) * 1_000_000_000 / u128::from(self.hz)) as u64
    }
}

impl State {
    // ---- Version 4 -----------------------------------------------------------------------------------------------------

    fn objects(&mut self, file: &mut Bytes<'_>) {
        loop {
            let at = file.offset();
            match file.u8() {
                1 => return,
                5 => assert_eq!(file.take(2), [5, 1], "byte {at}"),
                other => panic!("byte {at}: tag {other}"),
            }
            let numbers = (file.u32(), file.u32());
            let length = file.u32() as usize;
            let name = String::from_utf8(file.take(length).to_vec()).unwrap();
            assert_eq!(file.u8(), 6, "byte {}", file.offset());
            if name == "Trace" {
                assert_eq!(numbers, (4, 4));
                let mut body = file.part(48);
                self.head(&mut body);
                self.trace.pid = body.u32();
                self.trace.processors = body.u32();
                assert!(body.u32() > 0);
            } else {
                assert!(self.trace.hz > 0, "byte {at}: {name} before the trace's own object");
                assert_eq!(numbers, (2, 2), "{name}");
                let size = file.u32() as usize;
                assert!(size <= MOST_BLOCK, "byte {at}: a block of {size}");
                while !file.offset().is_multiple_of(4) {
                    assert_eq!(file.u8(), 0, "byte {}: padding", file.offset());
                }
                let mut body = file.part(size);
                match name.as_str() {
                    "EventBlock" => self.events(&mut body),
                    "MetadataBlock" => self.metadata_v4(&mut body),
                    "SPBlock" => self.point_v4(&mut body),
                    "StackBlock" => self.stacks(&mut body),
                    other => panic!("byte {at}: {other}"),
                }
                assert!(body.is_over(), "byte {}: more in {name} than it holds", body.offset());
            }
            assert_eq!(file.u8(), 6, "byte {}: the object's end", file.offset());
            self.trace.blocks += 1;
        }
    }

    fn head(&mut self, body: &mut Bytes<'_>) {
        assert_eq!(self.trace.hz, 0, "the trace's own object twice");
        self.trace.utc = std::array::from_fn(|_| body.u16());
        let [year, month, weekday, day, hour, minute, second, ms] = self.trace.utc;
        assert!(year > 2000 && (1..=12).contains(&month) && weekday < 7 && (1..=31).contains(&day));
        assert!(hour < 24 && minute < 60 && second < 60 && ms < 1000);
        self.trace.start = body.u64();
        self.trace.hz = body.u64();
        assert!(self.trace.hz > 0);
        assert_eq!(body.u32(), 8, "the size of a pointer");
    }

    fn metadata_v4(&mut self, body: &mut Bytes<'_>) {
        let (first, last) = block_head(body);
        let mut time = 0_u64;
        while !body.is_over() {
            assert_eq!(body.u8(), 0xc0, "byte {}: sorted, with a length", body.offset());
            time += body.varint();
            assert!((first..=last).contains(&time), "byte {}: time {time}", body.offset());
            let length = body.varint() as usize;
            let mut blob = body.part(length);
            let id = blob.u32();
            let provider = blob.utf16();
            let event = blob.u32();
            let name = blob.utf16();
            let keywords = blob.u64();
            let (version, level, count) = (blob.u32(), blob.u32(), blob.u32());
            let fields = (0..count)
                .map(|_| {
                    let kind = blob.u32();
                    (blob.utf16(), kind)
                })
                .collect();
            let mut opcode = None;
            while !blob.is_over() {
                let length = blob.u32() as usize;
                let kind = blob.u8();
                assert_eq!((length, kind), (1, 1), "the opcode's tag is the only one");
                opcode = Some(blob.u8());
            }
            self.define(id, Kind { provider, id: event, name, version, level, keywords, opcode, fields });
        }
    }

    fn define(&mut self, id: u32, kind: Kind) {
        assert!(id >= 1);
        assert!(!kind.name.is_empty() && !kind.provider.is_empty());
        let before = self.trace.kinds.insert(id, kind.into());
        assert_eq!(before, None, "{id} is defined twice");
    }

    fn point_v4(&mut self, body: &mut Bytes<'_>) {
        let time = body.u64();
        let count = body.u32();
        let threads: Vec<_> = (0..count).map(|_| (body.u64(), body.u32())).collect();
        self.point(time, &threads);
    }

    fn point(&mut self, time: u64, threads: &[(u64, u32)]) {
        assert!(
            time >= self.time && !(self.after_point && time == self.time),
            "a sequence point that precedes an earlier event"
        );
        (self.time, self.after_point) = (time, true);
        for (thread, sequence) in threads {
            let last = self.sequences.entry(*thread).or_insert(*sequence);
            let lost = sequence.wrapping_sub(*last);
            assert!(lost < 1 << 31, "thread {thread}: {sequence} after {last}");
            self.trace.lost += u64::from(lost);
            *self.trace.lost_by_thread.entry(*thread).or_default() += u64::from(lost);
            *last = *sequence;
        }
        self.trace.points += 1;
        self.stacks.clear();
    }

    fn stacks(&mut self, body: &mut Bytes<'_>) {
        assert_eq!(body.u32() as usize, self.stacks.len() + 1, "byte {}: the first id", body.offset());
        for _ in 0..body.u32() {
            let length = body.u32() as usize;
            assert!(length.is_multiple_of(8) && length < 65_528);
            self.stacks.push((0..length / 8).map(|_| body.u64()).collect());
        }
    }

    // ---- Version 6 -----------------------------------------------------------------------------------------------------

    fn blocks(&mut self, file: &mut Bytes<'_>) {
        loop {
            let at = file.offset();
            let head = file.u32();
            let (size, kind) = ((head & 0xff_ffff) as usize, head >> 24);
            assert!(size <= MOST_BLOCK, "byte {at}: a block of {size}");
            let mut body = file.part(size);
            match kind {
                0 => {
                    assert_eq!(size, 0);
                    return;
                }
                1 => {
                    self.head(&mut body);
                    for _ in 0..body.u32() {
                        let (key, value) = (body.utf8(), body.utf8());
                        match key.as_str() {
                            "ProcessId" => self.trace.pid = value.parse().unwrap(),
                            "HardwareThreadCount" => self.trace.processors = value.parse().unwrap(),
                            // Version 4 always contains this, and a conversion keeps it.
                            "ExpectedCPUSamplingRate" => assert_eq!(value, "1000000"),
                            other => panic!("{other}"),
                        }
                    }
                }
                2 => self.events(&mut body),
                3 => self.metadata_v6(&mut body),
                5 => self.stacks(&mut body),
                4 => {
                    let time = body.u64();
                    assert_eq!(body.u32(), 0, "flags");
                    let count = body.u32();
                    let threads: Vec<_> = (0..count).map(|_| (body.varint(), body.varint() as u32)).collect();
                    assert!(threads.iter().all(|(index, _)| self.threads.contains_key(index)), "byte {at}: a stranger");
                    self.point(time, &threads);
                }
                6 => self.threads(&mut body),
                7 => {
                    let (index, sequence) = (body.varint(), body.varint() as u32);
                    assert!(self.threads.remove(&index).is_some(), "byte {at}: thread {index} is not known");
                    let last = self.sequences.remove(&index);
                    let lost = last.map_or(0, |last| sequence.wrapping_sub(last));
                    self.trace.lost += u64::from(lost);
                }
                other => panic!("byte {at}: a block of the kind {other}"),
            }
            assert!(body.is_over(), "byte {}: more in the block than it holds", body.offset());
            self.trace.blocks += 1;
        }
    }

    fn threads(&mut self, body: &mut Bytes<'_>) {
        while !body.is_over() {
            let length = body.u16() as usize;
            let mut row = body.part(length);
            let index = row.varint();
            assert!(index >= 1);
            let (mut pid, mut tid) = (0, 0);
            while !row.is_over() {
                match row.u8() {
                    2 => pid = row.varint(),
                    3 => tid = row.varint(),
                    other => panic!("byte {}: {other}", row.offset()),
                }
            }
            assert_eq!(pid, u64::from(self.trace.pid));
            assert_eq!(self.threads.insert(index, tid), None, "thread {index} twice");
        }
    }

    fn metadata_v6(&mut self, body: &mut Bytes<'_>) {
        assert_eq!(body.u16(), 0);
        while !body.is_over() {
            let length = body.u16() as usize;
            let mut row = body.part(length);
            let id = row.varint() as u32;
            let provider = row.utf8();
            let event = row.varint() as u32;
            let name = row.utf8();
            let fields = (0..row.u16())
                .map(|_| {
                    let length = row.u16() as usize;
                    let mut field = row.part(length);
                    let (name, kind) = (field.utf8(), field.u8());
                    assert!(field.is_over());
                    (name, u32::from(kind))
                })
                .collect();
            let length = row.u16() as usize;
            let mut options = row.part(length);
            let (mut opcode, mut keywords, mut level, mut version) = (None, 0, 0, 0);
            while !options.is_over() {
                match options.u8() {
                    1 => opcode = Some(options.u8()),
                    3 => keywords = options.u64(),
                    8 => level = options.u8().into(),
                    9 => version = options.u8().into(),
                    other => panic!("byte {}: {other}", options.offset()),
                }
            }
            assert!(row.is_over());
            self.define(id, Kind { provider, id: event, name, version, level, keywords, opcode, fields });
        }
    }

    // ---- Events --------------------------------------------------------------------------------------------------------

    fn events(&mut self, body: &mut Bytes<'_>) {
        let (first, last) = block_head(body);
        let is_v6 = self.trace.version == 6;
        let (mut id, mut sequence, mut capture, mut thread, mut time, mut length) = (0, 0_u32, 0, 0, 0_u64, 0);
        let mut stack = 0;
        let mut times = (u64::MAX, 0);
        assert!(!body.is_over(), "byte {}: a block without events", body.offset());
        while !body.is_over() {
            let offset = body.offset();
            let flags = body.u8();
            assert_eq!(flags & 0x40, 0x40, "byte {offset}: every event is sorted");
            assert_eq!(flags & 0x30, 0, "byte {offset}: no activities");
            if flags & 1 != 0 {
                id = body.varint() as u32;
            }
            if flags & 2 != 0 {
                sequence = sequence.wrapping_add(body.varint() as u32);
                capture = body.varint();
                assert_eq!(body.varint(), 0xffff_ffff, "byte {offset}: no processor is known");
            }
            if id != 0 || is_v6 {
                sequence = sequence.wrapping_add(1);
            }
            if flags & 4 != 0 {
                thread = body.varint();
            }
            if flags & 8 != 0 {
                stack = body.varint() as usize;
            }
            time += body.varint();
            if flags & 0x80 != 0 {
                length = body.varint() as usize;
            }
            assert_eq!(capture, thread, "byte {offset}");
            assert!(length <= 64_000, "byte {offset}");
            let payload = body.take(length).to_vec();
            let kind = self.trace.kinds.get(&id).unwrap_or_else(|| panic!("byte {offset}: {id} is not defined"));
            assert!(
                if self.after_point { time > self.time } else { time >= self.time },
                "byte {offset}: {} at {time} after {}",
                kind.name,
                self.time
            );
            (self.time, self.after_point) = (time, false);
            times = (times.0.min(time), times.1.max(time));
            let kind = kind.clone();
            self.number(thread, sequence, offset);
            let thread = if is_v6 {
                *self.threads.get(&thread).unwrap_or_else(|| panic!("byte {offset}: thread {thread} is not known"))
            } else {
                thread
            };
            assert!(thread > 0);
            let known =
                || self.stacks.get(stack - 1).unwrap_or_else(|| panic!("byte {offset}: no stack {stack}")).clone();
            let stack = if stack == 0 { Vec::new() } else { known() };
            self.trace.events.push(Event { kind, time, thread, sequence, stack, payload, offset });
        }
        assert_eq!((first, last), times, "the block's times");
    }

    fn number(&mut self, thread: u64, sequence: u32, offset: usize) {
        match self.sequences.insert(thread, sequence) {
            None => assert_eq!(sequence, 1, "byte {offset}: a thread's first event"),
            Some(last) => {
                let lost = sequence.wrapping_sub(last).wrapping_sub(1);
                assert!(lost < 1 << 31, "byte {offset}: number {sequence} after {last}");
                self.trace.lost += u64::from(lost);
                *self.trace.lost_by_thread.entry(thread).or_default() += u64::from(lost);
            }
        }
    }
}

/// Reads the times at the head of a block of events or metadata.
fn block_head(body: &mut Bytes<'_>) -> (u64, u64) {
    assert_eq!((body.u16(), body.u16()), (20, 1));
    (body.u64(), body.u64())
}
