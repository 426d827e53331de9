//! A GHC eventlog: collections, stops, threads, heap figures, bands of heap profiles, events.
//!
//! In a log of GHC each capability reports the beginning and the end of a collection. A collection begins with the first of these beginnings and
//! ends with the last of these ends. Threads are stopped from the request for a collection (`REQUEST_SEQ_GC`, `REQUEST_PAR_GC`), or from its beginning if
//! there is no request, to its end. They have stopped when the collection begins: GHC writes `GC_GLOBAL_SYNC` only just before the end.
//!
//! In a log of this project all events of a collection are on the capability of the collecting thread, and the threads are restarted after the
//! end: they are stopped until the collecting thread runs again (`RUN_THREAD`). If that thread is not one of the world, they are stopped until any
//! stopped thread runs. Without the events of threads the restart is unknown, and the pause ends with the collection. The log has no collections at
//! the same time, but the next one, of another world, may begin before the threads are restarted; and a request may be followed by none.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs::File;
use std::io::{self, BufReader};

use super::schema::{Cell, Table};
use super::sink::{ProcessFacts, RowSink, TraceRead, clamped, program_of, rewind};
use super::thread_rows::ThreadRows;
use crate::convert::ConvertError;
use crate::profstats::Profiles;
use ghc_eventlog::events::{Record, StopReason};
use ghc_eventlog::read::{Event, Summary, Visitor, by_time, in_file_order, show};
use trace_io::and_more_places;

/// Maximum number of capabilities whose collections are distinguished.
const MOST_CAPABILITIES: usize = 4096;
/// The beginning of the runtime's name in a log of this project.
const OURS: &str = "stopworld ";
/// Maximum length of a text that is kept, in bytes.
const LONGEST_TEXT: usize = 64 << 10;

pub(super) fn read(file: &File, wanted: &[Table], sink: &mut dyn RowSink) -> Result<TraceRead, ConvertError> {
    let mut first = FirstReading::default();
    let summary = in_file_order(BufReader::new(file), &mut first);
    if !first.begun {
        let damage = summary.damage.map_or("the file has no events".to_owned(), |damage| damage.to_string());
        return Err(ConvertError::Unreadable(damage));
    }
    let facts = first.facts;
    sink.process(&facts).map_err(ConvertError::Output)?;
    let mut rows = Rows {
        facts: &facts,
        sink,
        wanted: Table::ALL.map(|table| wanted.contains(&table)),
        threads: ThreadRows::default(),
        is_ours: facts.runtime.as_ref().is_some_and(|runtime| runtime.starts_with(OURS)),
        running: HashMap::new(),
        stopped: HashSet::new(),
        requested: BTreeMap::new(),
        open: BTreeMap::new(),
        restarts_with_any: None,
        collections: 0,
        text: Vec::new(),
        failed: None,
    };
    let summary = by_time(file, &mut rows);
    let failed = rows.finish();
    failed.map_err(ConvertError::Output)?;
    let damage = summary.damage.map(|damage| format!("{damage}{}", and_more_places(summary.damages)));
    if wanted.contains(&Table::Traces) {
        let row = facts.trace_row(summary.events, None, damage.as_deref());
        sink.row(Table::Traces, &row).map_err(ConvertError::Output)?;
    }
    if wanted.contains(&Table::Bands) {
        bands(file, (summary.events, summary.bytes), &facts, sink)?;
    }
    Ok(TraceRead { events: summary.events, damage, notes: Vec::new() })
}

/// Gathers the facts about the program.
struct FirstReading {
    begun: bool,
    facts: ProcessFacts,
}

impl Default for FirstReading {
    fn default() -> FirstReading {
        FirstReading { begun: false, facts: ProcessFacts { format: "eventlog", ..ProcessFacts::default() } }
    }
}

impl Visitor for FirstReading {
    fn begin_events(&mut self) {
        self.begun = true;
    }

    fn event(&mut self, event: &Event<'_>) {
        let facts = &mut self.facts;
        let text = |bytes: &[u8]| String::from_utf8_lossy(&bytes[..bytes.len().min(LONGEST_TEXT)]).into_owned();
        match Record::of(event) {
            Some(Record::OsProcessPid(process)) => facts.process_id = Some(process.pid.into()),
            Some(Record::RtsIdentifier(rts)) => facts.runtime = Some(text(&rts.name)),
            Some(Record::ProgramArgs(program)) => {
                let words: Vec<String> = program.args.texts().map(text).collect();
                facts.program = words.first().and_then(|word| program_of(word));
                facts.command_line = Some(words.join(" ").trim_end().to_owned());
            }
            Some(Record::WallClockTime(clock)) => {
                // The event has the time of day of its own time.
                let since_start = clamped(event.time / 1000);
                let us = i64::try_from(clock.seconds).ok().and_then(|seconds| seconds.checked_mul(1_000_000));
                let us = us.and_then(|us| us.checked_add(i64::from(clock.nanoseconds) / 1000));
                facts.start_us = us.and_then(|us| us.checked_sub(since_start));
            }
            _ => {}
        }
    }

    fn is_done(&self) -> bool {
        let ProcessFacts { process_id, runtime, command_line, start_us, .. } = &self.facts;
        process_id.is_some() && runtime.is_some() && command_line.is_some() && start_us.is_some()
    }
}

/// A collection that has begun.
#[derive(Default)]
struct Collection {
    number: i64,
    start: i64,
    /// The request for it, and its kind.
    requested: Option<(i64, &'static str)>,
    /// The capabilities that collect.
    caps: HashSet<u16>,
    /// The oldest generation, and the bytes copied.
    stats: Option<(i64, i64)>,
    /// The end, as soon as no capability collects.
    end: Option<i64>,
    /// When threads ran again.
    restart: Option<i64>,
    live: Option<i64>,
}

struct Rows<'a> {
    facts: &'a ProcessFacts,
    sink: &'a mut dyn RowSink,
    wanted: [bool; Table::ALL.len()],
    threads: ThreadRows,
    /// Whether this project wrote the log.
    is_ours: bool,
    /// The thread that runs on each capability.
    running: HashMap<u16, u32>,
    /// The capabilities whose threads have stopped and may be restarted.
    stopped: HashSet<u16>,
    /// The requests, by [key](Rows::key).
    requested: BTreeMap<u16, (i64, &'static str)>,
    /// The current collections, and those that have ended, whose figures or restart may follow, by [key](Rows::key).
    open: BTreeMap<u16, Collection>,
    /// The key of the collection that has ended and whose threads run again as soon as any thread does.
    restarts_with_any: Option<u16>,
    collections: i64,
    text: Vec<u8>,
    failed: Option<io::Error>,
}

impl Rows<'_> {
    fn wants(&self, table: Table) -> bool {
        Table::ALL.iter().position(|known| *known == table).is_some_and(|index| self.wanted[index])
    }

    fn take(&mut self, event: &Event<'_>) -> io::Result<()> {
        let at = i64::try_from(event.time).unwrap_or(i64::MAX);
        if self.wants(Table::Events) {
            self.event_row(event, at)?;
        }
        let Some(record) = Record::of(event) else { return Ok(()) };
        let cap = event.cap.unwrap_or(u16::MAX);
        match record {
            Record::RequestSeqGc(_) => self.request(at, cap, "sequential"),
            Record::RequestParGc(_) => self.request(at, cap, "parallel"),
            Record::GcStart(_) => self.begin(at, cap)?,
            Record::GcEnd(_) => self.end(at, cap),
            Record::GcStats(stats) => {
                if let Some(collection) = self.open.get_mut(&self.key(cap)) {
                    collection.stats = Some((stats.generation.into(), clamped(stats.copied)));
                }
            }
            Record::HeapLive(heap) => {
                if let Some(collection) = self.open.get_mut(&self.key(cap)) {
                    collection.live = collection.live.or(Some(clamped(heap.bytes)));
                }
                self.heap_sample(at, "live bytes", heap.bytes)?;
            }
            Record::HeapSize(heap) => self.heap_sample(at, "heap size", heap.bytes)?,
            Record::BlocksSize(heap) => self.heap_sample(at, "blocks size", heap.bytes)?,
            Record::RunThread(run) => {
                self.threads.event(run.thread.into(), at);
                if self.running.len() < MOST_CAPABILITIES {
                    self.running.insert(cap, run.thread);
                }
                self.run(at, cap)?;
            }
            Record::StopThread(stop) => {
                self.threads.event(stop.thread.into(), at);
                self.running.remove(&cap);
                // The thread of a capability that has finished does not run again.
                if stop.reason != StopReason::FINISHED {
                    self.stopped.insert(cap);
                }
            }
            Record::CreateThread(create) => {
                self.threads.event(create.thread.into(), at);
                self.stopped.remove(&cap);
            }
            Record::ThreadLabel(named) => {
                let label = &named.label[..named.label.len().min(LONGEST_TEXT)];
                self.threads.name(named.thread.into(), &String::from_utf8_lossy(label));
            }
            _ => {}
        }
        Ok(())
    }

    fn event_row(&mut self, event: &Event<'_>, at: i64) -> io::Result<()> {
        self.text.clear();
        show::text(&mut self.text, event.kind, event.payload);
        let text = String::from_utf8_lossy(&self.text);
        let thread = event.cap.and_then(|cap| self.running.get(&cap)).map(|thread| i64::from(*thread));
        let cells = [
            Cell::Int(at),
            self.facts.time_of(at),
            thread.into(),
            event.cap.map(i64::from).into(),
            Cell::Null,
            Cell::Text(&event.kind.description),
            Cell::Int(event.kind.id.into()),
            Cell::Text(&text),
        ];
        self.sink.row(Table::Events, &cells)
    }

    /// Returns the key of a collection whose events are on this capability: GHC has one collection at a time, on all of them.
    fn key(&self, cap: u16) -> u16 {
        if self.is_ours { cap } else { 0 }
    }

    fn request(&mut self, at: i64, cap: u16, kind: &'static str) {
        let key = self.key(cap);
        // In a log of this project a thread whose request was followed by no collection may make another.
        if self.is_ours || !self.requested.contains_key(&key) {
            self.requested.insert(key, (at, kind));
        }
    }

    fn begin(&mut self, at: i64, cap: u16) -> io::Result<()> {
        let key = self.key(cap);
        if self.open.get(&key).is_some_and(|collection| self.is_ours || collection.end.is_some()) {
            self.pass_on(key)?;
        }
        let requested = self.requested.remove(&key);
        let collections = &mut self.collections;
        let collection = self.open.entry(key).or_insert_with(|| {
            *collections += 1;
            Collection { number: *collections, start: at, requested, ..Collection::default() }
        });
        if collection.caps.len() < MOST_CAPABILITIES {
            collection.caps.insert(cap);
        }
        Ok(())
    }

    fn end(&mut self, at: i64, cap: u16) {
        let key = self.key(cap);
        if let Some(collection) = self.open.get_mut(&key)
            && collection.caps.remove(&cap)
            && collection.caps.is_empty()
        {
            collection.end = Some(at.max(collection.start));
            if !self.stopped.contains(&cap) && !self.stopped.is_empty() {
                self.restarts_with_any = Some(key);
            }
        }
    }

    /// A thread runs on this capability.
    fn run(&mut self, at: i64, cap: u16) -> io::Result<()> {
        // A thread that did not stop has attached just now.
        if !self.stopped.remove(&cap) || !self.is_ours {
            return Ok(());
        }
        let has_ended = |key: &u16| self.open.get(key).is_some_and(|collection| collection.end.is_some());
        let Some(key) = Some(cap).filter(has_ended).or_else(|| self.restarts_with_any.take().filter(has_ended)) else {
            return Ok(());
        };
        if let Some(collection) = self.open.get_mut(&key) {
            collection.restart = Some(at.max(collection.start));
        }
        self.pass_on(key)
    }

    fn heap_sample(&mut self, at: i64, figure: &str, bytes: u64) -> io::Result<()> {
        if !self.wants(Table::HeapSamples) {
            return Ok(());
        }
        let cells = [Cell::Int(at), self.facts.time_of(at), Cell::Text(figure), Cell::Int(clamped(bytes))];
        self.sink.row(Table::HeapSamples, &cells)
    }

    /// Passes on the rows of a collection, which is complete or will never be.
    fn pass_on(&mut self, key: u16) -> io::Result<()> {
        let Some(collection) = self.open.remove(&key) else { return Ok(()) };
        let number = Cell::Int(collection.number);
        let asked = collection.requested.map_or(collection.start, |(at, _)| at);
        let pause = collection.restart.or(collection.end).map(|end| end - asked);
        let stop = collection.requested.map(|(at, _)| collection.start - at);
        let is_complete = collection.end.is_some();
        if self.wants(Table::Collections) {
            let cells = [
                number,
                Cell::Int(asked),
                self.facts.time_of(asked),
                pause.into(),
                stop.into(),
                collection.end.map(|end| end - collection.start).into(),
                collection.stats.map(|(generation, _)| generation).into(),
                Cell::Text("blocking"),
                Cell::Null,
                Cell::Null,
                collection.live.into(),
                collection.stats.map(|(_, copied)| copied).into(),
                Cell::Null,
                Cell::Null,
                Cell::Bool(is_complete),
                Cell::Null,
            ];
            self.sink.row(Table::Collections, &cells)?;
        }
        if let Some(pause) = pause.filter(|_| self.wants(Table::Stops)) {
            let cells = [
                number,
                collection.requested.map(|(_, kind)| kind).into(),
                Cell::Null,
                Cell::Int(asked),
                self.facts.time_of(asked),
                stop.into(),
                Cell::Int(pause),
                Cell::Null,
            ];
            self.sink.row(Table::Stops, &cells)?;
        }
        if self.wants(Table::Phases) {
            let collect = collection.end.map(|end| end - collection.start);
            let restart = collection.end.zip(collection.restart).map(|(end, restart)| (end, restart - end));
            let phases = [
                ("stop", asked, stop),
                ("collect", collection.start, collect),
                ("restart", restart.map_or(0, |(end, _)| end), restart.map(|(_, length)| length)),
            ];
            for (phase, from, length) in phases {
                let Some(length) = length else { continue };
                let cells = [number, Cell::Text(phase), Cell::Null, Cell::Int(from), Cell::Int(length)];
                self.sink.row(Table::Phases, &cells)?;
            }
        }
        Ok(())
    }

    fn finish(mut self) -> io::Result<()> {
        if let Some(error) = self.failed.take() {
            return Err(error);
        }
        let mut left: Vec<(i64, u16)> = self.open.iter().map(|(key, collection)| (collection.number, *key)).collect();
        left.sort_unstable();
        for (_, key) in left {
            self.pass_on(key)?;
        }
        if self.wants(Table::Threads) {
            self.threads.finish(self.sink)?;
        }
        Ok(())
    }
}

impl Visitor for Rows<'_> {
    fn event(&mut self, event: &Event<'_>) {
        if self.failed.is_none() {
            self.failed = self.take(event).err();
        }
    }

    fn is_done(&self) -> bool {
        self.failed.is_some()
    }
}

/// The bands of the heap profile. Their names are known after a first reading. Both readings must find the log as it was: this many events and bytes.
fn bands(file: &File, expected: (u64, u64), facts: &ProcessFacts, sink: &mut dyn RowSink) -> Result<(), ConvertError> {
    let unchanged = |summary: &Summary| match (summary.events, summary.bytes) == expected {
        true => Ok(()),
        false => Err(ConvertError::Changed),
    };
    rewind(file)?;
    let (profiles, summary) = Profiles::read(BufReader::new(file));
    unchanged(&summary)?;
    if !profiles.has_heap {
        return Ok(());
    }
    let heap = &profiles.heap;
    let names: Vec<String> =
        (0..heap.bands.len() as u32).map(|band| heap.name(band, &profiles.stacks, &profiles.centres)).collect();
    let mut number = 0;
    rewind(file)?;
    let passed = Profiles::each_sample(BufReader::new(file), |sample| {
        number += 1;
        let at = i64::try_from(sample.time_ns).unwrap_or(i64::MAX);
        sample.values.iter().enumerate().try_for_each(|(index, &(band, bytes))| {
            let name = names.get(band as usize).map_or("", String::as_str);
            let cells = [
                Cell::Int(number),
                Cell::Int(at),
                facts.time_of(at),
                Cell::Text(heap.breakdown.name()),
                Cell::Text(name),
                Cell::Int(clamped(bytes)),
                sample.objects_at(index).map(clamped).into(),
            ];
            sink.row(Table::Bands, &cells)
        })
    });
    unchanged(&passed.map_err(ConvertError::Output)?)
}
