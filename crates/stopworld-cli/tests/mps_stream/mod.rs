//! A checker of MPS telemetry streams that this library writes. It checks the form of every record, and the order of the records by the
//! rules of the strictest reader. It shares nothing with the writer: layouts come from the table that was generated from the MPS's headers.

#![allow(dead_code, reason = "each test program uses its part")]

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::LazyLock;

pub struct Param {
    pub sort: char,
    pub name: String,
    pub offset: usize,
}

pub struct Layout {
    pub name: String,
    pub category: usize,
    pub size: Option<usize>,
    pub params: Vec<Param>,
}

pub const CATEGORIES: [&str; 7] = ["Arena", "Pool", "Trace", "Seg", "Ref", "Object", "User"];

static LAYOUTS: LazyLock<HashMap<u16, Layout>> = LazyLock::new(layouts);

fn layouts() -> HashMap<u16, Layout> {
    let row = |line: &str| {
        let cells: Vec<&str> = line.split('\t').collect();
        let param = |text: &str| {
            let (sort, rest) = text.split_once(':').unwrap();
            let (name, offset) = rest.split_once('@').unwrap();
            Param { sort: sort.chars().next().unwrap(), name: name.to_owned(), offset: offset.parse().unwrap() }
        };
        let layout = Layout {
            name: cells[1].to_owned(),
            category: CATEGORIES.iter().position(|name| *name == cells[2]).unwrap(),
            size: cells[4].parse().ok(),
            params: cells[5].split_whitespace().map(param).collect(),
        };
        (u16::from_str_radix(cells[0].trim_start_matches("0x"), 16).unwrap(), layout)
    };
    include_str!("../../../mps-telemetry/testdata/events-v2.0.0.tsv")
        .lines()
        .filter(|line| !line.starts_with('#'))
        .map(row)
        .collect()
}

/// A parsed record.
#[derive(Debug, Clone)]
pub struct Entry {
    pub at: usize,
    pub size: usize,
    pub clock: u64,
    pub name: &'static str,
    pub category: usize,
    pub numbers: Vec<(&'static str, u64)>,
    pub text: Option<String>,
}

impl Entry {
    pub fn get(&self, name: &str) -> u64 {
        self.find(name).unwrap_or_else(|| panic!("{self:?} has no {name}"))
    }

    pub fn find(&self, name: &str) -> Option<u64> {
        self.numbers.iter().find(|(known, _)| *known == name).map(|(_, number)| *number)
    }
}

fn number(bytes: &[u8]) -> u64 {
    let mut word = [0; 8];
    word[..bytes.len()].copy_from_slice(bytes);
    u64::from_le_bytes(word)
}

/// Parses a stream. Sizes are exact, padding is zero, Booleans are 0 or 1, texts are terminated, and no bytes are left over.
pub fn parse(stream: &[u8]) -> Vec<Entry> {
    entries(stream).collect()
}

/// Parses a stream one record at a time.
pub fn entries(stream: &[u8]) -> impl Iterator<Item = Entry> {
    let mut at = 0;
    std::iter::from_fn(move || {
        let entry = (at < stream.len()).then(|| entry_at(stream, at));
        at += entry.as_ref().map_or(0, |entry| entry.size);
        entry
    })
}

fn entry_at(stream: &[u8], at: usize) -> Entry {
    assert!(stream.len() - at >= 16, "{} bytes are left over at {at}", stream.len() - at);
    let code = number(&stream[at..at + 2]) as u16;
    let size = number(&stream[at + 2..at + 4]) as usize;
    let layout = LAYOUTS.get(&code).unwrap_or_else(|| panic!("code {code:#x} at {at}"));
    assert!(size.is_multiple_of(8) && at + size <= stream.len(), "{}: size {size} at {at}", layout.name);
    let record = &stream[at..at + size];
    // 0: header, parameter; 1: padding.
    let mut padding = vec![true; size];
    padding[..4].fill(false);
    padding[8..16].fill(false);
    let mut entry = Entry {
        at,
        clock: number(&record[8..16]),
        name: &layout.name,
        size,
        category: layout.category,
        numbers: Vec::new(),
        text: None,
    };
    let mut exact = layout.size;
    for param in &layout.params {
        let bytes = match param.sort {
            'U' => 4,
            'B' => 1,
            'S' => {
                let rest = &record[param.offset..];
                let len = rest.iter().position(|byte| *byte == 0).expect("a text without an end");
                assert!(len <= 255);
                exact = Some((param.offset + len + 4).div_ceil(8) * 8);
                entry.text = Some(String::from_utf8(rest[..len].to_vec()).unwrap());
                padding[param.offset..param.offset + len].fill(false);
                continue;
            }
            _ => 8,
        };
        let value = number(&record[param.offset..param.offset + bytes]);
        assert!(param.sort != 'B' || value <= 1, "{}: a Boolean of {value}", layout.name);
        padding[param.offset..param.offset + bytes].fill(false);
        entry.numbers.push((&param.name, value));
    }
    assert_eq!(Some(size), exact, "{} at {at}", layout.name);
    let dirty = padding.iter().zip(record).any(|(is_padding, byte)| *is_padding && *byte != 0);
    assert!(!dirty, "{} at {at} has padding that is not zero", layout.name);
    entry
}

/// The contents of a stream.
#[derive(Debug, Default)]
pub struct StreamSummary {
    /// The number of records of each kind.
    pub counts: BTreeMap<&'static str, u64>,
    /// The live bytes at the end of each trace, computed from PoolAlloc and PoolFree.
    pub live: Vec<u64>,
    /// The names that were given.
    pub names: BTreeSet<String>,
    pub syncs: usize,
}

impl StreamSummary {
    pub fn count(&self, name: &str) -> u64 {
        self.counts.get(name).copied().unwrap_or(0)
    }
}

/// Records that may be in a stream although their category is off: those that each stream begins and ends with, and introductions.
const FRAME: [&str; 4] = ["EventInit", "EventClockSync", "ArenaCreateVM", "PoolInit"];

#[derive(Default)]
struct Arena {
    trace: Option<Phase>,
    polls: bool,
    traces: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Phase {
    Created,
    Condemned,
    Started,
    Flips,
    Flipped,
    Band,
    Reclaims,
}

/// Checks a stream in which nothing is missing from its first event on, which may be during a run; `filter` has the categories that it may
/// contain.
pub fn check(stream: &[u8], filter: u64) -> StreamSummary {
    if are_in_order(stream) {
        return check_entries(entries(stream), filter);
    }
    let mut sorted: Vec<Entry> = entries(stream).collect();
    sorted.sort_by_key(|entry| entry.clock);
    check_entries(sorted.into_iter(), filter)
}

/// Checks a stream in which any event may be missing: the form of each record, and their times. Returns the number of records.
pub fn check_gappy(stream: &[u8]) -> u64 {
    are_in_order(stream);
    entries(stream).count() as u64
}

/// Returns whether all records are in time order. If a thread was interrupted while it fired, that record is late and has its own time. On
/// a busy machine a few such records are allowed.
fn are_in_order(stream: &[u8]) -> bool {
    let mut clock = 0;
    let is_late = |entry: &Entry| {
        clock = clock.max(entry.clock);
        entry.clock < clock
    };
    let late: Vec<Entry> = entries(stream).filter(is_late).collect();
    assert!(late.len() <= 4, "{} records are not in time order: {late:x?}", late.len());
    late.is_empty()
}

pub fn check_entries(entries: impl Iterator<Item = Entry>, filter: u64) -> StreamSummary {
    let mut told = StreamSummary::default();
    let mut entries = entries.peekable();
    let Some(first) = entries.peek() else { return told };
    assert_eq!(first.name, "EventInit");
    let version = ["major", "median", "minor", "maxCode", "maxNameLen", "wordWidth", "clocksPerSec"];
    assert_eq!(version.map(|name| first.get(name)), [2, 0, 0, 0x5c, 19, 64, 1_000_000]);
    let mut last = "";

    let (mut clock, mut mps_clock) = (0, None);
    let mut texts: HashMap<u64, String> = HashMap::new();
    let mut arenas: HashMap<u64, Arena> = HashMap::new();
    let mut pools: HashMap<u64, u64> = HashMap::new();
    let mut tracts: HashMap<u64, (u64, u64)> = HashMap::new();
    let mut segs: HashSet<u64> = HashSet::new();
    let mut traces: HashMap<u64, u64> = HashMap::new();
    let mut objects: HashMap<u64, (u64, u64)> = HashMap::new();
    let mut live = 0;

    for entry in entries {
        let say = || format!("{entry:x?}");
        last = entry.name;
        *told.counts.entry(entry.name).or_default() += 1;
        let is_frame = FRAME.contains(&entry.name);
        assert!(is_frame || filter & (1 << entry.category) != 0, "{} although its category is off", say());
        assert!(entry.clock >= clock, "{}: the clock was {clock:x} before", say());
        clock = entry.clock;

        // The objects to which a record refers have been introduced. (The names of SegReclaim's parameters do not match their values.)
        if entry.name != "ArenaCreateVM" && entry.name != "SegReclaim" {
            if let Some(arena) = entry.find("arena") {
                assert!(arenas.contains_key(&arena), "{}: no such arena", say());
            }
            if let Some(pool) = entry.find("pool").filter(|_| entry.name != "PoolInit") {
                assert!(pools.contains_key(&pool), "{}: no such pool", say());
            }
        }
        if let Some(rank) = entry.find("rank") {
            assert!(rank <= 3, "{}", say());
        }
        let arena = entry.find("arena").unwrap_or_default();
        let enter = |arenas: &mut HashMap<u64, Arena>, from: &[Phase], to: Phase| {
            let phase = &mut arenas.get_mut(&arena).unwrap().trace;
            assert!(phase.is_some_and(|phase| from.contains(&phase)), "{} in {phase:?}", say());
            *phase = Some(to);
        };
        if entry.category == 2 && entry.name != "TraceCreate" {
            assert_eq!(traces.get(&entry.get("trace")), Some(&arena), "{}: no such trace", say());
        }
        match entry.name {
            "EventInit" => assert_eq!(entry.at, 0, "EventInit occurs twice"),
            "EventClockSync" => {
                let now = Some(entry.get("clock"));
                assert!(now > mps_clock, "{}: it was {mps_clock:?}", say());
                mps_clock = now;
                told.syncs += 1;
            }
            "ArenaCreateVM" => assert!(arenas.insert(arena, Arena::default()).is_none(), "{}", say()),
            "ArenaDestroy" => {
                let arena_was = arenas.remove(&arena).unwrap();
                assert!(arena_was.trace.is_none() && !arena_was.polls, "{}", say());
                assert!(tracts.is_empty() || !arenas.is_empty(), "{}: tracts are left", say());
            }
            "ArenaPollBegin" | "ArenaPollEnd" => {
                let arena = arenas.get_mut(&arena).unwrap();
                let begins = entry.name == "ArenaPollBegin";
                assert!(arena.polls != begins && arena.trace.is_none(), "{}", say());
                arena.polls = begins;
            }
            "PoolInit" => {
                assert!(pools.insert(entry.get("pool"), arena).is_none(), "{}", say());
            }
            "PoolFinish" => {
                assert!(pools.remove(&entry.get("pool")).is_some(), "{}", say());
                // The objects in the pool are freed without records of their own.
                objects.retain(|_, (_, pool)| *pool != entry.get("pool"));
            }
            "ArenaAlloc" => {
                let what = (entry.get("size"), entry.get("pool"));
                assert_eq!(tracts.insert(entry.get("base"), what), None, "{}", say());
            }
            "ArenaFree" => {
                let what = (entry.get("size"), entry.get("pool"));
                assert_eq!(tracts.remove(&entry.get("base")), Some(what), "{}", say());
            }
            "SegAlloc" => assert!(segs.insert(entry.get("seg")), "{}", say()),
            "SegFree" => assert!(segs.remove(&entry.get("seg")), "{}", say()),
            "TraceCreate" => {
                assert!(entry.get("why") <= 6, "{}", say());
                assert!(traces.insert(entry.get("trace"), arena).is_none(), "{}: not destroyed", say());
                let arena = arenas.get_mut(&arena).unwrap();
                assert!(arena.trace.is_none());
                (arena.trace, arena.traces) = (Some(Phase::Created), arena.traces + 1);
            }
            "TraceCondemnAll" => enter(&mut arenas, &[Phase::Created], Phase::Condemned),
            "TraceStart" => enter(&mut arenas, &[Phase::Condemned], Phase::Started),
            "TraceFlipBegin" => enter(&mut arenas, &[Phase::Started], Phase::Flips),
            "TraceFlipEnd" => enter(&mut arenas, &[Phase::Flips], Phase::Flipped),
            "TraceBandAdvance" => enter(&mut arenas, &[Phase::Flipped, Phase::Band], Phase::Band),
            "TraceReclaim" => enter(&mut arenas, &[Phase::Band], Phase::Reclaims),
            "TraceDestroy" => {
                traces.remove(&entry.get("trace"));
                arenas.get_mut(&arena).unwrap().trace = None;
                told.live.push(live);
            }
            "PoolAlloc" => {
                let what = (entry.get("size"), entry.get("pool"));
                assert_eq!(objects.insert(entry.get("pReturn"), what), None, "{}: not freed in between", say());
                // An object that was allocated before the stream began may be freed in it.
                live = live.wrapping_add(what.0);
            }
            "PoolFree" => {
                let size = entry.get("size");
                if let Some(what) = objects.remove(&entry.get("old")) {
                    assert_eq!(what, (size, entry.get("pool")), "{}", say());
                }
                live = live.wrapping_sub(size);
            }
            "Intern" => {
                let text = entry.text.clone().unwrap();
                assert!(entry.get("stringId") > 0);
                assert_eq!(texts.insert(entry.get("stringId"), text), None, "{}: twice", say());
            }
            "Label" | "LabelPointer" => {
                let text = texts.get(&entry.get("stringId"));
                told.names.insert(text.unwrap_or_else(|| panic!("{} does not resolve", say())).clone());
            }
            _ => {}
        }
    }
    assert_eq!(last, "EventClockSync", "a stream must end with a sync");
    assert!(told.syncs >= 2, "a reader needs two syncs to tell the time");
    told
}
