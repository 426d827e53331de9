//! A telemetry stream of the Memory Pool System: events, traces as collections, polls as stops, the bytes held by pools.
//!
//! A trace of the Memory Pool System is incremental: it proceeds in polls of its arena, during which the polling thread does not run the program. The
//! pause of a collection is the sum of the polls that it was part of. A stream has no threads, no process, and no time of day.

use std::collections::HashMap;
use std::fmt::Write;
use std::io::{self, Read};

use super::schema::{Cell, Table};
use super::sink::{ProcessFacts, RowSink, TraceRead, clamped};
use crate::convert::{Conversion, ConvertError, ConvertOptions, LeftOut, Source};
use crate::convert::{stream, telemetry};
use mps_telemetry::reader::Record;
use mps_telemetry::v2::{self, Event};
use mps_telemetry::{Layout, Param, Sort, Version};
use trace_io::json::Quoted;

/// The maximum number of arenas, and of traces in progress, that are known at once.
const MOST: usize = 1 << 12;

pub(super) fn read<R: Read>(
    input: R,
    wanted: &[Table],
    options: &ConvertOptions,
    sink: &mut dyn RowSink,
) -> Result<TraceRead, ConvertError> {
    let mut conversion =
        Conversion { source: Source::Mps, carried: 0, left_out: LeftOut::default(), notes: Vec::new(), damage: None };
    let stream = stream::read(input, options, &mut conversion)?;
    let version = stream.version;
    let [major, median, minor] = version.numbers();
    let facts = ProcessFacts {
        format: "mps",
        runtime: Some(format!("Memory Pool System, event version {major}.{median}.{minor}")),
        ..ProcessFacts::default()
    };
    sink.process(&facts).map_err(ConvertError::Output)?;
    let mut rows = Rows {
        version,
        first: stream.first,
        ticks_per_second: stream.ticks_per_second,
        wanted: Table::ALL.map(|table| wanted.contains(&table)),
        arenas: HashMap::new(),
        collections: 0,
        fields: String::new(),
        sink,
    };
    let mut events = 0;
    stream.finish(|record, layout| {
        events += 1;
        rows.take(record, layout).map_err(ConvertError::Output)
    })?;
    rows.finish().map_err(ConvertError::Output)?;
    let Conversion { damage, notes, .. } = conversion;
    if wanted.contains(&Table::Traces) {
        sink.row(Table::Traces, &facts.trace_row(events, None, damage.as_deref())).map_err(ConvertError::Output)?;
    }
    Ok(TraceRead { events, damage, notes })
}

/// A trace that has begun.
struct Trace {
    address: u64,
    number: i64,
    why: Option<&'static str>,
    start: i64,
    end: Option<i64>,
    pause: Option<i64>,
    /// The phase that has begun, and its start.
    phase: Option<(&'static str, i64)>,
}

#[derive(Default)]
struct Arena {
    poll: Option<i64>,
    traces: Vec<Trace>,
    held: u64,
}

struct Rows<'a> {
    version: Version,
    first: u64,
    ticks_per_second: u64,
    sink: &'a mut dyn RowSink,
    wanted: [bool; Table::ALL.len()],
    arenas: HashMap<u64, Arena>,
    collections: i64,
    fields: String,
}

impl Rows<'_> {
    fn wants(&self, table: Table) -> bool {
        Table::ALL.iter().position(|known| *known == table).is_some_and(|index| self.wanted[index])
    }

    /// Returns nanoseconds since the first record.
    fn ns(&self, clock: u64) -> i64 {
        let since = u128::from(clock.saturating_sub(self.first));
        i64::try_from(since * 1_000_000_000 / u128::from(self.ticks_per_second)).unwrap_or(i64::MAX)
    }

    fn take(&mut self, record: &Record<'_>, layout: Option<&'static Layout>) -> io::Result<()> {
        let at = self.ns(record.clock());
        if self.wants(Table::Events) {
            self.event_row(record, layout, at)?;
        }
        match telemetry::event(self.version, record) {
            Some(event) => self.step(&event, at),
            None => Ok(()),
        }
    }

    fn event_row(&mut self, record: &Record<'_>, layout: Option<&'static Layout>, at: i64) -> io::Result<()> {
        self.fields.clear();
        if let Some(layout) = layout {
            object(&mut self.fields, layout, record);
        }
        let cells = [
            Cell::Int(at),
            Cell::Null,
            Cell::Null,
            Cell::Null,
            layout.map(|layout| layout.category.name()).into(),
            Cell::Text(layout.map_or("unknown", |layout| layout.name)),
            Cell::Int(record.code().into()),
            if self.fields.is_empty() { Cell::Null } else { Cell::Text(&self.fields) },
        ];
        self.sink.row(Table::Events, &cells)
    }

    fn arena(&mut self, address: u64) -> Option<&mut Arena> {
        if self.arenas.len() >= MOST && !self.arenas.contains_key(&address) {
            return None;
        }
        Some(self.arenas.entry(address).or_default())
    }

    fn trace(&mut self, arena: u64, address: u64) -> Option<&mut Trace> {
        let traces = &mut self.arena(arena)?.traces;
        traces.iter_mut().find(|trace| trace.address == address && trace.end.is_none())
    }

    fn step(&mut self, event: &Event<'_>, at: i64) -> io::Result<()> {
        match *event {
            Event::ArenaPollBegin(v2::ArenaPollBegin { arena }) => {
                if let Some(arena) = self.arena(arena) {
                    arena.poll = Some(at);
                }
            }
            Event::ArenaPollEnd(v2::ArenaPollEnd { arena, .. }) => self.poll_end(arena, at)?,
            Event::TraceCreate(v2::TraceCreate { trace, arena, why }) => {
                let number = self.collections + 1;
                let Some(known) = self.arena(arena).filter(|arena| arena.traces.len() < MOST) else { return Ok(()) };
                let why = why.meaning();
                let begun = Trace { address: trace, number, why, start: at, end: None, pause: None, phase: None };
                known.traces.push(begun);
                self.collections = number;
            }
            Event::TraceFlipBegin(v2::TraceFlipBegin { trace, arena }) => {
                self.phase(arena, trace, Some("flip"), at)?;
            }
            Event::TraceFlipEnd(v2::TraceFlipEnd { trace, arena }) => self.phase(arena, trace, None, at)?,
            Event::TraceBandAdvance(v2::TraceBandAdvance { arena, trace, rank }) => {
                self.phase(arena, trace, rank.meaning(), at)?;
            }
            Event::TraceReclaim(v2::TraceReclaim { trace, arena }) => {
                self.phase(arena, trace, Some("reclaim"), at)?;
            }
            Event::TraceDestroy(v2::TraceDestroy { arena, trace }) => {
                self.phase(arena, trace, None, at)?;
                if let Some(trace) = self.trace(arena, trace) {
                    trace.end = Some(at);
                }
                if self.arena(arena).is_some_and(|arena| arena.poll.is_none()) {
                    self.pass_on(arena)?;
                }
            }
            Event::ArenaAlloc(v2::ArenaAlloc { arena, size, .. }) => {
                self.held(arena, at, |held| held.saturating_add(size))?
            }
            Event::ArenaFree(v2::ArenaFree { arena, size, .. }) => {
                self.held(arena, at, |held| held.saturating_sub(size))?
            }
            _ => {}
        }
        Ok(())
    }

    fn held(&mut self, arena: u64, at: i64, change: impl Fn(u64) -> u64) -> io::Result<()> {
        let Some(known) = self.arena(arena) else { return Ok(()) };
        known.held = change(known.held);
        let held = known.held;
        if !self.wants(Table::HeapSamples) {
            return Ok(());
        }
        let figure = format!("held by the pools of arena {arena:#x}");
        let cells = [Cell::Int(at), Cell::Null, Cell::Text(&figure), Cell::Int(clamped(held))];
        self.sink.row(Table::HeapSamples, &cells)
    }

    fn poll_end(&mut self, address: u64, at: i64) -> io::Result<()> {
        let Some(arena) = self.arena(address) else { return Ok(()) };
        let Some(begun) = arena.poll.take() else { return Ok(()) };
        let length = at - begun;
        for trace in &mut arena.traces {
            trace.pause = Some(trace.pause.unwrap_or(0) + length);
        }
        let number = arena.traces.first().map(|trace| trace.number);
        if self.wants(Table::Stops) {
            let cells = [
                number.into(),
                Cell::Text("poll"),
                Cell::Null,
                Cell::Int(begun),
                Cell::Null,
                Cell::Null,
                Cell::Int(length),
                Cell::Null,
            ];
            self.sink.row(Table::Stops, &cells)?;
        }
        self.pass_on(address)
    }

    /// Begins a phase of a trace, or none, and passes on the one that it ends.
    fn phase(&mut self, arena: u64, trace: u64, name: Option<&'static str>, at: i64) -> io::Result<()> {
        let Some(trace) = self.trace(arena, trace) else { return Ok(()) };
        let number = Cell::Int(trace.number);
        let ended = std::mem::replace(&mut trace.phase, name.map(|name| (name, at)));
        match ended.filter(|_| self.wants(Table::Phases)) {
            Some((name, start)) => {
                let cells = [number, Cell::Text(name), Cell::Null, Cell::Int(start), Cell::Int(at - start)];
                self.sink.row(Table::Phases, &cells)
            }
            None => Ok(()),
        }
    }

    /// Passes on the traces of an arena that have ended.
    fn pass_on(&mut self, address: u64) -> io::Result<()> {
        let Some(arena) = self.arena(address) else { return Ok(()) };
        let (ended, open) = std::mem::take(&mut arena.traces).into_iter().partition(|trace| trace.end.is_some());
        arena.traces = open;
        let ended: Vec<Trace> = ended;
        ended.iter().try_for_each(|trace| self.collection_row(trace))
    }

    fn collection_row(&mut self, trace: &Trace) -> io::Result<()> {
        if !self.wants(Table::Collections) {
            return Ok(());
        }
        let mut cells = [Cell::Null; 16];
        cells[0] = Cell::Int(trace.number);
        cells[1] = Cell::Int(trace.start);
        cells[3] = trace.pause.filter(|_| trace.end.is_some()).into();
        cells[5] = trace.end.map(|end| end - trace.start).into();
        cells[8] = trace.why.into();
        cells[14] = Cell::Bool(trace.end.is_some());
        self.sink.row(Table::Collections, &cells)
    }

    /// Passes on the traces that never ended.
    fn finish(&mut self) -> io::Result<()> {
        let mut open: Vec<Trace> = self.arenas.drain().flat_map(|(_, arena)| arena.traces).collect();
        open.sort_by_key(|trace| trace.number);
        open.iter().try_for_each(|trace| self.collection_row(trace))
    }
}

/// Appends the parameters of a record as a JSON object; nothing if it has none.
fn object(to: &mut String, layout: &Layout, record: &Record<'_>) {
    for param in layout.params {
        let start = to.len();
        // Writing to a string cannot fail.
        let _ = write!(to, "{}{}:", if start == 0 { '{' } else { ',' }, Quoted(param.name));
        if value(to, param, record).is_none() {
            to.truncate(start);
        }
    }
    if !to.is_empty() {
        to.push('}');
    }
}

/// Appends the value of a parameter as JSON. Returns `None` if the record does not have it.
fn value(to: &mut String, param: &Param, record: &Record<'_>) -> Option<()> {
    let at = usize::from(param.offset);
    let _ = match param.sort {
        Sort::P | Sort::A | Sort::W => write!(to, "{}", record.word(at)?),
        Sort::U => write!(to, "{}", record.unsigned(at)?),
        Sort::B => write!(to, "{}", record.boolean(param)?),
        Sort::D => match f64::from_bits(record.word(at)?) {
            number if number.is_finite() => write!(to, "{number:?}"),
            // JSON cannot represent infinities and NaN.
            number => write!(to, "\"{number}\""),
        },
        Sort::S => write!(to, "{}", Quoted(&String::from_utf8_lossy(record.string(at)?))),
    };
    Some(())
}
