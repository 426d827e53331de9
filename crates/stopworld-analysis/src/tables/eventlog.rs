//! A GHC eventlog: collections, stops, threads, heap figures, bands of heap profiles, events.
//!
//! With several capabilities each of them reports the beginning and the end of a collection. A collection begins with the first of these beginnings and
//! ends with the last of these ends. Threads are stopped from the request for a collection (`REQUEST_SEQ_GC`, `REQUEST_PAR_GC`), or from its beginning if
//! there is no request, to its end. They have stopped when the collection begins: GHC writes `GC_GLOBAL_SYNC` only just before the end.

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io::{self, BufReader};

use super::schema::{Cell, Table};
use super::sink::{ProcessFacts, RowSink, TraceRead, clamped, program_of, rewind};
use super::thread_rows::ThreadRows;
use crate::convert::ConvertError;
use crate::profstats::Profiles;
use ghc_eventlog::events::Record;
use ghc_eventlog::read::{Event, Summary, Visitor, by_time, in_file_order, show};
use trace_io::and_more_places;

/// Maximum number of capabilities whose collections are distinguished.
const MOST_CAPABILITIES: usize = 4096;
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
        running: HashMap::new(),
        requested: None,
        collection: None,
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
    start: i64,
    /// The request for it, and its kind.
    requested: Option<(i64, &'static str)>,
    /// The capabilities that collect.
    caps: HashSet<u16>,
    /// The oldest generation, and the bytes copied.
    stats: Option<(i64, i64)>,
    /// The end, as soon as no capability collects.
    end: Option<i64>,
    live: Option<i64>,
}

struct Rows<'a> {
    facts: &'a ProcessFacts,
    sink: &'a mut dyn RowSink,
    wanted: [bool; Table::ALL.len()],
    threads: ThreadRows,
    /// The thread that runs on each capability.
    running: HashMap<u16, u32>,
    requested: Option<(i64, &'static str)>,
    /// The current collection, or the last one, whose figures may follow its end.
    collection: Option<Collection>,
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
            Record::RequestSeqGc(_) => self.request(at, "sequential"),
            Record::RequestParGc(_) => self.request(at, "parallel"),
            Record::GcStart(_) => self.begin(at, cap)?,
            Record::GcEnd(_) => self.end(at, cap),
            Record::GcStats(stats) => self.stats(stats.generation, stats.copied),
            Record::HeapLive(heap) => {
                if let Some(collection) = &mut self.collection {
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
            }
            Record::StopThread(stop) => {
                self.threads.event(stop.thread.into(), at);
                self.running.remove(&cap);
            }
            Record::CreateThread(create) => self.threads.event(create.thread.into(), at),
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

    fn request(&mut self, at: i64, kind: &'static str) {
        self.requested = self.requested.or(Some((at, kind)));
    }

    fn begin(&mut self, at: i64, cap: u16) -> io::Result<()> {
        if self.collection.as_ref().is_some_and(|collection| collection.end.is_some()) {
            self.pass_on()?;
        }
        let requested = self.requested.take();
        let collection =
            self.collection.get_or_insert_with(|| Collection { start: at, requested, ..Collection::default() });
        if collection.caps.len() < MOST_CAPABILITIES {
            collection.caps.insert(cap);
        }
        Ok(())
    }

    fn end(&mut self, at: i64, cap: u16) {
        if let Some(collection) = &mut self.collection
            && collection.caps.remove(&cap)
            && collection.caps.is_empty()
        {
            collection.end = Some(at.max(collection.start));
        }
    }

    fn stats(&mut self, generation: u16, copied: u64) {
        if let Some(collection) = &mut self.collection {
            collection.stats = Some((generation.into(), clamped(copied)));
        }
    }

    fn heap_sample(&mut self, at: i64, figure: &str, bytes: u64) -> io::Result<()> {
        if !self.wants(Table::HeapSamples) {
            return Ok(());
        }
        let cells = [Cell::Int(at), self.facts.time_of(at), Cell::Text(figure), Cell::Int(clamped(bytes))];
        self.sink.row(Table::HeapSamples, &cells)
    }

    /// Passes on the rows of the collection, which is complete or will never be.
    fn pass_on(&mut self) -> io::Result<()> {
        let Some(collection) = self.collection.take() else { return Ok(()) };
        self.collections += 1;
        let number = Cell::Int(self.collections);
        let asked = collection.requested.map_or(collection.start, |(at, _)| at);
        let pause = collection.end.map(|end| end - asked);
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
            ];
            self.sink.row(Table::Stops, &cells)?;
        }
        if self.wants(Table::Phases) {
            let collect = collection.end.map(|end| end - collection.start);
            for (phase, from, length) in [("stop", asked, stop), ("collect", collection.start, collect)] {
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
        self.pass_on()?;
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
