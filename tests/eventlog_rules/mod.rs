//! A simple reader of eventlogs, and the rules that stopworld's eventlogs must obey: those of the format, and those on which ThreadScope's
//! figures rely.
#![allow(dead_code, reason = "not every test needs all of it")]

use std::collections::BTreeMap;
use std::path::Path;

use ghc_eventlog::events::{EventType, id};

/// An event of a file.
#[derive(Clone, Debug)]
pub struct Event {
    pub id: u16,
    pub time: u64,
    /// The capability of its block.
    pub capability: Option<u16>,
    pub payload: Vec<u8>,
}

impl Event {
    pub fn name(&self) -> &'static str {
        EventType::of(self.id).map_or("unknown", |known| known.description)
    }

    pub fn u16(&self, at: usize) -> u16 {
        u16::from_be_bytes(self.payload[at..at + 2].try_into().unwrap())
    }

    pub fn u32(&self, at: usize) -> u32 {
        u32::from_be_bytes(self.payload[at..at + 4].try_into().unwrap())
    }

    pub fn u64(&self, at: usize) -> u64 {
        u64::from_be_bytes(self.payload[at..at + 8].try_into().unwrap())
    }

    /// The payload from this offset on.
    pub fn text(&self, at: usize) -> &str {
        std::str::from_utf8(&self.payload[at..]).unwrap()
    }

    /// The zero-terminated texts from this offset on.
    pub fn texts(&self, at: usize) -> Vec<&str> {
        let text = self.text(at);
        assert!(text.is_empty() || text.ends_with('\0'), "{self:?}");
        text.split_terminator('\0').collect()
    }

    /// The texts from this offset up to the last byte, which has flags.
    pub fn texts_before_flags(&self, at: usize) -> Vec<&str> {
        let texts = std::str::from_utf8(&self.payload[at..self.payload.len() - 1]).unwrap();
        assert!(texts.ends_with('\0'), "{self:?}");
        texts.split_terminator('\0').collect()
    }
}

/// A complete log.
#[derive(Debug)]
pub struct Log {
    /// Sizes of the declared types, `None` for variable ones.
    pub types: BTreeMap<u16, Option<u16>>,
    /// In file order, without the events of blocks.
    pub events: Vec<Event>,
    pub blocks: usize,
    pub has_end: bool,
}

struct Input<'a>(&'a [u8]);

impl<'a> Input<'a> {
    fn take(&mut self, count: usize) -> &'a [u8] {
        let (taken, rest) = self.0.split_at(count);
        self.0 = rest;
        taken
    }

    fn u16(&mut self) -> u16 {
        u16::from_be_bytes(self.take(2).try_into().unwrap())
    }

    fn u32(&mut self) -> u32 {
        u32::from_be_bytes(self.take(4).try_into().unwrap())
    }

    fn u64(&mut self) -> u64 {
        u64::from_be_bytes(self.take(8).try_into().unwrap())
    }
}

impl Log {
    pub fn read(path: &Path) -> Log {
        Log::parse(&std::fs::read(path).unwrap())
    }

    /// Parses a log; panics if it violates the format anywhere, up to the last byte.
    pub fn parse(bytes: &[u8]) -> Log {
        let mut input = Input(bytes);
        let types = types(&mut input);
        let (mut events, mut blocks, mut has_end) = (Vec::<Event>::new(), 0, false);
        // The block's end, its end time, and its capability.
        let mut block: Option<(usize, u64, Option<u16>)> = None;
        while !input.0.is_empty() {
            if let Some((end, time, _)) = block
                && input.0.len() == end
            {
                assert_eq!(events.last().map(|event| event.time), Some(time), "a block ends with its last event");
                block = None;
            }
            let left = input.0.len();
            let number = input.u16();
            if number == 0xffff {
                assert!(input.0.is_empty() && block.is_none(), "something follows the end");
                has_end = true;
                break;
            }
            let time = input.u64();
            let length = match types.get(&number).unwrap_or_else(|| panic!("type {number} is not declared")) {
                Some(size) => usize::from(*size),
                None => usize::from(input.u16()),
            };
            let payload = input.take(length).to_vec();
            if number == id::BLOCK_MARKER {
                assert!(block.is_none(), "a block in a block");
                let mut payload = Input(&payload);
                let (size, end, capability) = (payload.u32() as usize, payload.u64(), payload.u16());
                assert!(size > 24 && size <= left, "a block of {size} with {left} left");
                block = Some((left - size, end, Some(capability).filter(|number| *number != 0xffff)));
                blocks += 1;
            } else {
                let (end, _, capability) = block.expect("every event is in a block");
                assert!(input.0.len() >= end, "a block ends between events");
                events.push(Event { id: number, time, capability, payload });
            }
        }
        Log { types, events, blocks, has_end }
    }

    pub fn count(&self, id: u16) -> usize {
        self.all(id).count()
    }

    pub fn all(&self, id: u16) -> impl Iterator<Item = &Event> {
        self.events.iter().filter(move |event| event.id == id)
    }

    /// The number of events of each kind, by the names that the tests' Haskell program uses.
    pub fn counts(&self) -> BTreeMap<&'static str, usize> {
        let mut counts = BTreeMap::new();
        for event in &self.events {
            *counts.entry(event.name()).or_insert(0) += 1;
        }
        counts
    }
}

fn types(input: &mut Input<'_>) -> BTreeMap<u16, Option<u16>> {
    assert_eq!(input.take(8), b"hdrbhetb");
    let mut types = BTreeMap::new();
    loop {
        match input.take(4) {
            b"hete" => break,
            mark => assert_eq!(mark, b"etb\0"),
        }
        let (number, size) = (input.u16(), input.u16());
        let length = input.u32() as usize;
        let description = std::str::from_utf8(input.take(length)).unwrap();
        assert_eq!(EventType::of(number).unwrap().description, description);
        let extra = input.u32();
        assert_eq!((extra, input.take(4)), (0, &b"ete\0"[..]));
        assert!(types.insert(number, Some(size).filter(|size| *size != 0xffff)).is_none(), "{number} twice");
    }
    assert_eq!(input.take(8), b"hdredatb");
    types
}

/// A collection as it is logged.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LoggedCollection {
    pub capability: u16,
    pub start: u64,
    pub end: u64,
    /// Threads that marked.
    pub markers: u32,
    pub live: u64,
    pub size: u64,
    /// The bytes that its capability has counted so far.
    pub allocated: u64,
}

/// Checks the rules for a log that was ended in order. Returns its collections.
pub fn check(log: &Log) -> Vec<LoggedCollection> {
    assert!(log.has_end);
    check_times(log);
    check_threads(log, End::InOrder);
    let seen = check_collections(log);
    assert_eq!(threadscope(log), seen.len(), "ThreadScope counts them all");
    seen
}

/// Checks the rules for a log that has only the end marker that was in the file when its process died. Returns its collections.
pub fn check_beginning(log: &Log) -> Vec<LoggedCollection> {
    check_times(log);
    check_threads(log, End::Anyhow);
    let seen = check_collections(log);
    assert!(threadscope(log) <= seen.len() + 1, "{} and {}", threadscope(log), seen.len());
    seen
}

fn check_times(log: &Log) {
    assert!(log.events.is_sorted_by_key(|event| event.time), "times never decrease");
    let first: Vec<u16> = log.events.iter().map(|event| event.id).take(7).collect();
    let head = [id::CAPSET_CREATE, id::CAPSET_CREATE, id::WALL_CLOCK_TIME, id::OSPROCESS_PID, id::OSPROCESS_PPID];
    assert_eq!(first, [&head[..], &[id::RTS_IDENTIFIER, id::PROGRAM_ARGS]].concat());
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    InOrder,
    Anyhow,
}

#[derive(Clone, Copy, Default)]
struct Lane {
    /// The thread that was created on it.
    thread: Option<u32>,
    runs: bool,
}

/// Capabilities are created before they are used and deleted at the end; a thread is created once, and alternately runs and stops.
fn check_threads(log: &Log, end: End) {
    let mut lanes: BTreeMap<u16, Lane> = BTreeMap::new();
    let mut threads = 0;
    for event in &log.events {
        if let Some(capability) = event.capability {
            assert!(lanes.contains_key(&capability), "{event:?} on a capability that does not exist");
        }
        let lane = event.capability.and_then(|capability| lanes.get_mut(&capability));
        match (event.id, lane) {
            (id::CAP_CREATE, None) => assert!(lanes.insert(event.u16(0), Lane::default()).is_none()),
            (id::CAP_DELETE, None) => {
                let lane = lanes.remove(&event.u16(0)).expect("the capability exists");
                assert!(!lane.runs, "{event:?}");
            }
            (id::CREATE_THREAD, Some(lane)) => {
                threads += 1;
                assert_eq!((lane.thread.replace(event.u32(0)), event.u32(0)), (None, threads));
            }
            (id::THREAD_LABEL, Some(lane)) => assert_eq!(lane.thread, Some(event.u32(0))),
            (id::RUN_THREAD, Some(lane)) => {
                assert_eq!((lane.thread, lane.runs), (Some(event.u32(0)), false), "{event:?}");
                lane.runs = true;
            }
            (id::STOP_THREAD, Some(lane)) => {
                assert_eq!((lane.thread, lane.runs), (Some(event.u32(0)), true), "{event:?}");
                assert!([1, 3, 5].contains(&event.u16(4)) && event.u32(6) == 0, "{event:?}");
                lane.runs = false;
            }
            (id::GC_START, Some(lane)) => assert!(!lane.runs, "{event:?}"),
            _ => {}
        }
    }
    assert!(end == End::Anyhow || lanes.is_empty(), "{} capabilities are left", lanes.len());
}

/// The phases of each collection, in order and on one capability.
fn check_collections(log: &Log) -> Vec<LoggedCollection> {
    let phases = [
        id::GC_START,
        id::GC_WORK,
        id::GC_IDLE,
        id::GC_DONE,
        id::HEAP_ALLOCATED,
        id::GC_GLOBAL_SYNC,
        id::GC_STATS_GHC,
        id::GC_END,
        id::HEAP_LIVE,
        id::HEAP_SIZE,
    ];
    let of_collections = phases.iter().copied().chain([id::BLOCKS_SIZE]);
    let of_collections: Vec<u16> = of_collections.collect();
    let mut told = log.events.iter().filter(|event| of_collections.contains(&event.id)).peekable();
    let mut seen = Vec::new();
    while let Some(start) = told.next() {
        if [id::HEAP_SIZE, id::BLOCKS_SIZE].contains(&start.id) {
            // Memory was committed or released between collections.
            continue;
        }
        assert_eq!(start.id, id::GC_START, "{start:?}");
        let mut of = LoggedCollection {
            capability: start.capability.unwrap(),
            start: start.time,
            ..LoggedCollection::default()
        };
        for phase in &phases[1..] {
            let Some(event) = told.next() else { return seen };
            assert_eq!((event.id, event.capability), (*phase, start.capability), "{}", event.name());
            match event.id {
                id::HEAP_ALLOCATED => of.allocated = event.u64(4),
                id::GC_STATS_GHC => of.markers = event.u32(30),
                id::GC_END => of.end = event.time,
                id::HEAP_LIVE => of.live = event.u64(4),
                id::HEAP_SIZE => of.size = event.u64(4),
                _ => {}
            }
        }
        seen.push(of);
    }
    seen
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Mode {
    Started,
    Synchronised,
    Counted,
    Ended,
    Idle,
}

/// Returns the number of collections that ThreadScope counts. It rounds times up to microseconds and sorts by them. It counts a collection
/// if it sees, on one capability, the start, the stop of all threads, the figures, and the end. A sequence that it considers impossible
/// makes it fail with an error.
pub fn threadscope(log: &Log) -> usize {
    let mut events: Vec<&Event> = log.events.iter().collect();
    events.sort_by_key(|event| event.time.div_ceil(1_000));
    let mut modes: BTreeMap<u16, Mode> = BTreeMap::new();
    let mut counted = 0;
    for event in events {
        let of_collections = [id::GC_START, id::GC_GLOBAL_SYNC, id::GC_STATS_GHC, id::GC_END];
        if !of_collections.contains(&event.id) {
            continue;
        }
        let capability = event.capability.expect("ThreadScope ends with \"missing cap\"");
        match event.id {
            id::GC_START => {
                modes.insert(capability, Mode::Started);
            }
            id::GC_GLOBAL_SYNC => {
                for mode in modes.values_mut() {
                    *mode = match *mode {
                        Mode::Started => Mode::Synchronised,
                        Mode::Ended | Mode::Idle => Mode::Idle,
                        Mode::Synchronised | Mode::Counted => panic!("ThreadScope ends with an error at {event:?}"),
                    };
                }
            }
            id::GC_STATS_GHC => {
                for (of, mode) in &mut modes {
                    *mode = match *mode {
                        Mode::Synchronised => {
                            counted += usize::from(*of == capability);
                            Mode::Counted
                        }
                        Mode::Idle => Mode::Idle,
                        _ => panic!("ThreadScope ends with an error at {event:?}"),
                    };
                }
            }
            _ => {
                let mode = modes.insert(capability, Mode::Ended);
                assert!(!matches!(mode, Some(Mode::Ended | Mode::Idle)), "ThreadScope ends with an error at {event:?}");
            }
        }
    }
    counted
}

/// A tick as a tool shows it: its capability, and the centres of the stack by name, innermost first.
pub type Shown = (u32, Vec<String>);

fn ticks(log: &Log) -> impl Iterator<Item = (u32, Vec<u32>)> {
    log.all(id::PROF_SAMPLE_COST_CENTRE).map(|event| {
        let depth = usize::from(event.payload[12]);
        (event.u32(0), (0..depth).map(|index| event.u32(13 + 4 * index)).collect())
    })
}

/// The ticks with the names of their numbers; those of the runtime's own centres are omitted.
pub fn ticks_by_number(log: &Log) -> Vec<Shown> {
    let texts = |event: &Event| {
        let texts = event.texts_before_flags(4);
        (event.u32(0), (texts[0].to_owned(), texts[2] == "<built-in>"))
    };
    let names: BTreeMap<u32, (String, bool)> = log.all(id::HEAP_PROF_COST_CENTRE).map(texts).collect();
    let of_program = ticks(log).filter(|(_, stack)| !stack.first().is_some_and(|number| names[number].1));
    of_program
        .map(|(capability, stack)| (capability, stack.iter().map(|number| names[number].0.clone()).collect()))
        .collect()
}

/// The ticks as hs-speedscope 0.3.0 shows them. It ignores the numbers in definitions: it omits the first seven and numbers the others from
/// 1, starting with the last one. A stack of a single number that is not below their count is taken for the runtime's own, and omitted; any
/// other number without a definition makes it fail with an error.
pub fn ticks_by_order(log: &Log) -> Vec<Shown> {
    let name = |event: &Event| event.texts_before_flags(4)[0].to_owned();
    let names: Vec<String> = log.all(id::HEAP_PROF_COST_CENTRE).skip(7).map(name).collect();
    let named = |number: &u32| names[names.len() - *number as usize].clone();
    let of_program = ticks(log).filter(|(_, stack)| !matches!(stack[..], [alone] if alone as usize >= names.len()));
    of_program.map(|(capability, stack)| (capability, stack.iter().map(named).collect())).collect()
}
