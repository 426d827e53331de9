//! A .nettrace file: the facts of its processes, and their collections as [`gcstats`](crate::gcstats) reports them.
//!
//! The file is read once for the facts and the collections. Events, stops, threads, heap samples and the phases that have events of their own come from a
//! second reading for each process (see `nettrace_events`), because a process's command line may be at the end of the file.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io;

use super::nettrace_events::{self, Clock};
use super::schema::{Cell, Table};
use super::sink::{ProcessFacts, RowSink, TraceRead, clamped, program_of, rewind};
use crate::convert::ConvertError;
use crate::gcstats::collection::{Collection, Kind, Marks, Phases};
use crate::gcstats::{Analysis, Figures, Process, Rules};
use nettrace::clr::{MarkRoot, Reason};
use nettrace::{NetEvent, Reader, Summary, TraceInfo, Visitor};
use trace_io::and_more_places;

/// The maximum number of processes of a trace that have rows.
const MOST_PROCESSES: usize = 1024;
/// The tables that come from the first reading.
const FROM_FIRST: [Table; 3] = [Table::Traces, Table::Collections, Table::Phases];

pub(super) fn read(mut file: &File, wanted: &[Table], sink: &mut dyn RowSink) -> Result<TraceRead, ConvertError> {
    let mut first = FirstReading::default();
    let summary = Reader::new(&mut file).in_file_order().read(&mut first);
    let Some(clock) = first.clock else {
        let damage = summary.damage.as_ref().map_or("the file has no trace".to_owned(), |damage| damage.to_string());
        return Err(ConvertError::Unreadable(damage));
    };
    let damage = summary.damage.as_ref().map(|damage| format!("{damage}{}", and_more_places(summary.damages)));
    let mut outcome = TraceRead { events: summary.events, damage, notes: Vec::new() };
    if first.without > 0 {
        let without = first.without;
        outcome.notes.push(format!("{without} events are left out: they are of more than {MOST_PROCESSES} processes"));
    }
    let room = |error| ConvertError::Room { directory: std::env::temp_dir().display().to_string(), error };
    let (analysed, again) = analyse(file, wanted)?;
    unchanged(&summary, &again)?;
    let analysed = analysed.map_err(room)?;
    let by_id: BTreeMap<u64, &Process> = analysed.iter().map(|process| (process.identity.process, process)).collect();
    // A trace without events has a row in the table of traces, too.
    if first.processes.is_empty() {
        first.processes.insert(0);
    }
    // A process that only the analysis knows has no events: it is an artefact.
    for &process in &first.processes {
        let known = by_id.get(&process).copied();
        let facts = facts_of(process, known, clock);
        sink.process(&facts).map_err(ConvertError::Output)?;
        if wanted.contains(&Table::Traces) {
            let row = facts.trace_row(summary.events, Some(summary.lost), outcome.damage.as_deref());
            sink.row(Table::Traces, &row).map_err(ConvertError::Output)?;
        }
        if let Some(known) = known {
            collections(known, &facts, wanted, sink)?;
        }
        if wanted.iter().any(|table| !FROM_FIRST.contains(table) || *table == Table::Phases) {
            rewind(file)?;
            let again = nettrace_events::read(file, process, (clock, &facts), wanted, sink, &mut outcome.notes)
                .map_err(ConvertError::Output)?;
            unchanged(&summary, &again)?;
        }
    }
    Ok(outcome)
}

/// Checks that a later reading found the same trace as the first.
fn unchanged(first: &Summary, again: &Summary) -> Result<(), ConvertError> {
    let found = |summary: &Summary| (summary.bytes, summary.events, summary.damages);
    if found(first) == found(again) { Ok(()) } else { Err(ConvertError::Changed) }
}

/// Reads the collections, in the order of time.
fn analyse(mut file: &File, wanted: &[Table]) -> Result<(io::Result<Vec<Process>>, Summary), ConvertError> {
    rewind(file)?;
    let mut analysis = Analysis::new(Rules::Ours);
    // Without collections only the identities are needed, which do not depend on the order.
    let reader = Reader::new(&mut file);
    let needs_order = wanted.iter().any(|table| matches!(table, Table::Collections | Table::Phases));
    let reader = if needs_order { reader } else { reader.in_file_order() };
    let summary = reader.read(&mut analysis);
    Ok((analysis.finish(), summary))
}

/// Gathers the processes of a file.
#[derive(Default)]
struct FirstReading {
    clock: Option<Clock>,
    processes: BTreeSet<u64>,
    without: u64,
    /// The latest process, which is nearly always that of the next event, too.
    latest: Option<u64>,
}

impl Visitor for FirstReading {
    fn trace(&mut self, trace: &TraceInfo) {
        self.clock = Some(Clock::of(trace));
    }

    fn event(&mut self, event: &NetEvent<'_>) {
        if self.latest == Some(event.process) {
            return;
        }
        if self.processes.len() < MOST_PROCESSES || self.processes.contains(&event.process) {
            self.processes.insert(event.process);
            self.latest = Some(event.process);
        } else {
            self.without += 1;
        }
    }
}

fn facts_of(process: u64, known: Option<&Process>, clock: Clock) -> ProcessFacts {
    let identity = known.map(|known| &known.identity);
    let command_line = identity.and_then(|identity| identity.command_line.clone()).filter(|line| !line.is_empty());
    let program = identity.filter(|_| command_line.is_some()).and_then(|known| program_of(&known.name(Rules::Ours)));
    let runtime = identity.filter(|known| known.version != [0; 4]).map(|known| {
        let [major, minor, build, revision] = known.version;
        format!("{major}.{minor}.{build}.{revision}")
    });
    ProcessFacts {
        format: "nettrace",
        process_id: (process != 0).then(|| clamped(process)),
        program,
        command_line,
        runtime,
        start_us: clock.start_us,
    }
}

/// Converts milliseconds to nanoseconds.
fn ns(milliseconds: f64) -> i64 {
    (milliseconds * 1e6).round() as i64
}

/// Converts a figure in MB to bytes; `None` if it is unknown.
fn bytes(megabytes: f64) -> Option<i64> {
    (megabytes >= 0.0).then(|| (megabytes * 1e6).round() as i64)
}

fn collections(
    process: &Process,
    facts: &ProcessFacts,
    wanted: &[Table],
    sink: &mut dyn RowSink,
) -> Result<(), ConvertError> {
    let [rows, phases] = [Table::Collections, Table::Phases].map(|table| wanted.contains(&table));
    if !rows && !phases {
        return Ok(());
    }
    let passed = process.for_each(|collection, figures| {
        if rows {
            sink.row(Table::Collections, &row(collection, figures, facts))?;
        }
        if phases {
            phases_of(collection, sink)?;
        }
        Ok::<_, io::Error>(())
    });
    passed.map_err(ConvertError::Output)
}

fn row<'a>(collection: &Collection, figures: &Figures, facts: &ProcessFacts) -> [Cell<'a>; 16] {
    let start = ns(collection.pause_start);
    let kind = match collection.kind {
        Kind::BLOCKING => Cell::Text("blocking"),
        Kind::BACKGROUND => Cell::Text("background"),
        Kind::FOREGROUND => Cell::Text("foreground"),
        _ => Cell::Null,
    };
    let known = |value: Option<i64>| -> Cell<'a> { value.filter(|_| collection.complete).into() };
    let stats = collection.stats.as_ref();
    // The size of the heap before it is known only from the histories of its generations.
    let before = (!collection.heaps.is_empty()).then(|| bytes(figures.heap_before)).flatten();
    [
        Cell::Int(collection.number.into()),
        Cell::Int(start),
        facts.time_of(start),
        known(Some(ns(collection.pause))),
        known(Some(ns(collection.suspend))),
        known(Some(ns(collection.duration))),
        Cell::Int(collection.generation.into()),
        kind,
        Reason::NAMES.get(collection.reason.0 as usize).copied().into(),
        known(before),
        stats.and_then(|_| bytes(collection.after_mb())).into(),
        stats.and_then(|_| bytes(collection.promoted_mb())).into(),
        known(bytes(figures.allocated)),
        stats.map(|stats| i64::from(stats.pinned_objects)).into(),
        Cell::Bool(collection.complete),
        Cell::Int(collection.world.into()),
    ]
}

/// The phases of which the runtime reports the times: those of its history, and the marking of each heap by kind of roots.
fn phases_of(collection: &Collection, sink: &mut dyn RowSink) -> io::Result<()> {
    let number = Cell::Int(collection.number.into());
    if let Some(phases) = collection.global.as_ref().and_then(|global| global.phases.as_ref()) {
        let Phases { roots, short_weak, finalization, long_weak, plan, relocate, compact, sweep } = phases;
        let all = [
            ("history: mark roots", Some(*roots)),
            ("history: mark short weak", Some(*short_weak)),
            ("history: mark finalization", Some(*finalization)),
            ("history: mark long weak", Some(*long_weak)),
            ("history: plan", *plan),
            ("history: relocate", *relocate),
            ("history: compact", *compact),
            ("history: sweep", *sweep),
        ];
        for (name, us) in all {
            let Some(us) = us else { continue };
            let cells = [number, Cell::Text(name), Cell::Null, Cell::Null, Cell::Int(i64::from(us) * 1000)];
            sink.row(Table::Phases, &cells)?;
        }
    }
    for Marks { heap, times, .. } in &collection.marks {
        for (kind, time) in MarkRoot::NAMES.iter().zip(times) {
            let Some(time) = time else { continue };
            let heap = Cell::Int((*heap).into());
            sink.row(Table::Phases, &[number, Cell::Text(kind), heap, Cell::Null, Cell::Int(ns(*time))])?;
        }
    }
    Ok(())
}
