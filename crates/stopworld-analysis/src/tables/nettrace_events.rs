//! The events of one process in a .nettrace file: events, stops, phases with events of their own, threads, heap samples.

use std::collections::HashMap;
use std::fs::File;
use std::io;

use super::schema::{Cell, Table};
use super::sink::{ProcessFacts, RowSink, clamped};
use super::thread_rows::ThreadRows;
use crate::convert::decoded::{self, DecodedFields, EventMeaning};
use nettrace::clr::{Provider, SuspendReason};
use nettrace::shown;
use nettrace::{EventType, Interest, NetEvent, Reader, Summary, ThreadInfo, TraceInfo, Utc, Visitor};
use stopworld::events::EventId;
use trace_io::json::Quoted;

/// The maximum number of threads that have begun a stop, or a phase, at once.
const MOST_STOPS: usize = 1 << 12;
/// The maximum number of event types that are known at once.
const MOST_TYPES: usize = 1 << 17;

/// The clock of a trace.
#[derive(Clone, Copy, Debug)]
pub(super) struct Clock {
    start_ticks: i64,
    ticks_per_second: i64,
    /// When the trace began, in microseconds since 1970.
    pub(super) start_us: Option<i64>,
}

impl Clock {
    pub(super) fn of(trace: &TraceInfo) -> Clock {
        let TraceInfo { start_ticks, ticks_per_second, .. } = *trace;
        Clock { start_ticks, ticks_per_second, start_us: microseconds(&trace.start) }
    }

    /// Returns nanoseconds since the start of the trace; earlier times count as the start.
    fn ns(&self, ticks: i64) -> i64 {
        let since = i128::from(ticks.saturating_sub(self.start_ticks).max(0));
        i64::try_from(since * 1_000_000_000 / i128::from(self.ticks_per_second)).unwrap_or(i64::MAX)
    }
}

/// Returns a time in microseconds since 1970; `None` if it is not a date.
fn microseconds(utc: &Utc) -> Option<i64> {
    let is_date = utc.year >= 1970 && (1..=12).contains(&utc.month) && (1..=31).contains(&utc.day);
    is_date.then(|| {
        // Years begin in March, so that a leap day is the last day of a year.
        let (month, day) = (i64::from(utc.month), i64::from(utc.day));
        let year = i64::from(utc.year) - i64::from(month <= 2);
        let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
        let days = 365 * year + year / 4 - year / 100 + year / 400 + day_of_year - 719_468;
        let seconds = ((days * 24 + i64::from(utc.hour)) * 60 + i64::from(utc.minute)) * 60 + i64::from(utc.second);
        (seconds * 1000 + i64::from(utc.millisecond)) * 1000
    })
}

/// Reads the rows of a process. Returns the summary of this reading, which differs from that of another if the file has changed.
pub(super) fn read(
    mut file: &File,
    process: u64,
    (clock, facts): (Clock, &ProcessFacts),
    wanted: &[Table],
    sink: &mut dyn RowSink,
    notes: &mut Vec<String>,
) -> io::Result<Summary> {
    let mut rows = Rows {
        process,
        clock,
        facts,
        sink,
        wanted: Table::ALL.map(|table| wanted.contains(&table)),
        pointer_bytes: 8,
        types: HashMap::new(),
        threads: ThreadRows::default(),
        stops: HashMap::new(),
        phases: HashMap::new(),
        fields: String::new(),
        failed: None,
    };
    let summary = Reader::new(&mut file).read(&mut rows);
    let Rows { threads, failed, sink, .. } = rows;
    if let Some(error) = failed {
        return Err(error);
    }
    if wanted.contains(&Table::Threads) {
        threads.finish(sink)?;
        if threads.without > 0 {
            notes.push(format!("{} events are not counted in `threads`: there are too many threads", threads.without));
        }
    }
    Ok(summary)
}

/// What is known about a type of event.
struct Known {
    meaning: EventMeaning,
    title: String,
    /// Whether the event begins or ends a stop or a phase, measures the heap, or names a thread.
    is_step: bool,
}

/// A stop that has begun.
#[derive(Clone, Copy)]
struct Stop {
    start: i64,
    stopped: Option<i64>,
    number: Option<i64>,
    reason: Option<&'static str>,
    world: Option<i64>,
}

struct Rows<'a> {
    process: u64,
    clock: Clock,
    facts: &'a ProcessFacts,
    sink: &'a mut dyn RowSink,
    wanted: [bool; Table::ALL.len()],
    pointer_bytes: u8,
    types: HashMap<u32, Known>,
    threads: ThreadRows,
    /// The stops that have begun, by the thread that began them and will end them.
    stops: HashMap<i64, Stop>,
    /// The phase that has begun in the collection of each thread: its name, the number of the collection, and its start. Several worlds may be
    /// collected at once.
    phases: HashMap<i64, (&'static str, i64, i64)>,
    fields: String,
    failed: Option<io::Error>,
}

impl Rows<'_> {
    fn wants(&self, table: Table) -> bool {
        Table::ALL.iter().position(|known| *known == table).is_some_and(|index| self.wanted[index])
    }

    fn take(&mut self, event: &NetEvent<'_>) -> io::Result<()> {
        let at = self.clock.ns(event.time);
        if self.wants(Table::Threads) && event.thread != 0 {
            self.threads.event(clamped(event.thread), at);
        }
        let Some(known) = self.types.get(&event.kind.index) else { return Ok(()) };
        let (meaning, is_step) = (known.meaning, known.is_step);
        if self.wants(Table::Events) {
            self.event_row(event, at)?;
        }
        if !is_step {
            return Ok(());
        }
        let fields = decoded::fields(event, self.pointer_bytes);
        match (meaning, decoded::id_of(meaning, event.kind, &fields)) {
            (EventMeaning::Own(_), Some(id)) => self.own_step(id, &fields, clamped(event.thread), at),
            (EventMeaning::Net(_), Some(id)) => self.runtime_step(id, &fields, clamped(event.thread), at),
            _ => Ok(()),
        }
    }

    fn event_row(&mut self, event: &NetEvent<'_>, at: i64) -> io::Result<()> {
        let title = self.types.get(&event.kind.index).map_or("", |known| known.title.as_str());
        let shown = shown::shown(event, self.pointer_bytes);
        self.fields.clear();
        let fields = &mut self.fields;
        shown.members(|name, value| {
            fields.push(if fields.is_empty() { '{' } else { ',' });
            // Writing to a string cannot fail.
            let _ = std::fmt::write(fields, format_args!("{}:{value}", Quoted(name)));
        });
        let fields = if fields.is_empty() {
            Cell::Null
        } else {
            fields.push('}');
            Cell::Text(fields)
        };
        let cells = [
            Cell::Int(at),
            self.facts.time_of(at),
            (event.thread != 0).then(|| clamped(event.thread)).into(),
            event.processor.map(i64::from).into(),
            Cell::Text(&event.kind.provider),
            Cell::Text(title),
            Cell::Int(event.kind.event.into()),
            fields,
        ];
        self.sink.row(Table::Events, &cells)
    }

    /// A step of a collection that the runtime reports.
    fn runtime_step(&mut self, id: EventId, fields: &DecodedFields, thread: i64, at: i64) -> io::Result<()> {
        match id {
            EventId::SuspendBegin => {
                let reason = fields.number("Reason");
                let count = fields.number("Count").map(|count| count as u32);
                let code = reason.and_then(|code| u32::try_from(code).ok()).and_then(SuspendReason::of);
                // The runtime counts a collection after it has stopped the threads for it; a background collection, which also stops them later to
                // prepare a phase, is counted by then.
                let number = match code {
                    Some(SuspendReason::SuspendForGC) => count.map(|count| count.wrapping_add(1)),
                    Some(SuspendReason::SuspendForGCPrep) => count,
                    _ => None,
                };
                let reason = reason.and_then(|code| SuspendReason::NAMES.get(code as usize)).copied();
                if self.stops.len() < MOST_STOPS || self.stops.contains_key(&thread) {
                    let (number, world) = (number.map(i64::from), fields.number("ClrInstanceID").map(clamped));
                    self.stops.insert(thread, Stop { start: at, stopped: None, number, reason, world });
                }
            }
            EventId::SuspendEnd => {
                if let Some(stop) = self.stops.get_mut(&thread) {
                    stop.stopped = stop.stopped.or(Some(at));
                }
            }
            EventId::RestartEnd if self.wants(Table::Stops) => {
                let Some(stop) = self.stops.remove(&thread) else { return Ok(()) };
                let cells = [
                    stop.number.into(),
                    stop.reason.into(),
                    Cell::Int(thread),
                    Cell::Int(stop.start),
                    self.facts.time_of(stop.start),
                    stop.stopped.map(|stopped| stopped - stop.start).into(),
                    Cell::Int(at - stop.start),
                    stop.world.into(),
                ];
                self.sink.row(Table::Stops, &cells)?;
            }
            EventId::HeapStats if self.wants(Table::HeapSamples) => {
                let names = ["generation 0", "generation 1", "generation 2", "large objects", "pinned objects"];
                for (place, name) in names.into_iter().enumerate() {
                    if let Some(bytes) = fields.number(&format!("GenerationSize{place}")) {
                        self.heap_sample(at, name, bytes)?;
                    }
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn heap_sample(&mut self, at: i64, figure: &str, bytes: u64) -> io::Result<()> {
        let cells = [Cell::Int(at), self.facts.time_of(at), Cell::Text(figure), Cell::Int(clamped(bytes))];
        self.sink.row(Table::HeapSamples, &cells)
    }

    /// A step that the provider of stopworld reports.
    fn own_step(&mut self, id: EventId, fields: &DecodedFields, thread: i64, at: i64) -> io::Result<()> {
        let number = clamped(fields.number("number").unwrap_or(0));
        let begins = match id {
            EventId::ThreadAttached => {
                if let (Some(tid), Some(name)) = (fields.number("tid"), fields.text("label")) {
                    self.threads.name(clamped(tid), name);
                }
                return Ok(());
            }
            EventId::HeapStats if self.wants(Table::HeapSamples) => {
                for name in ["small_bytes", "large_bytes", "pinned_bytes", "committed_bytes"] {
                    if let Some(bytes) = fields.number(name) {
                        self.heap_sample(at, name.trim_end_matches("_bytes"), bytes)?;
                    }
                }
                return Ok(());
            }
            EventId::SuspendBegin => Some("suspend"),
            EventId::RootsBegin => Some("roots"),
            EventId::MarkBegin => Some("mark"),
            EventId::MarkEnd => Some("weak"),
            EventId::SweepBegin => Some("sweep"),
            EventId::RestartBegin => Some("restart"),
            EventId::SuspendEnd
            | EventId::RootsEnd
            | EventId::WeakEnd
            | EventId::SweepEnd
            | EventId::RestartEnd
            | EventId::StopAbandoned => None,
            _ => return Ok(()),
        };
        let ended = self.phases.remove(&thread);
        if let Some(name) = begins.filter(|_| self.phases.len() < MOST_STOPS) {
            self.phases.insert(thread, (name, number, at));
        }
        match ended.filter(|_| self.wants(Table::Phases)) {
            Some((name, number, start)) => {
                let cells = [Cell::Int(number), Cell::Text(name), Cell::Null, Cell::Int(start), Cell::Int(at - start)];
                self.sink.row(Table::Phases, &cells)
            }
            None => Ok(()),
        }
    }
}

/// Returns whether an event of this meaning may be a step.
fn is_step(meaning: EventMeaning, kind: &EventType) -> bool {
    use EventId::*;
    match meaning {
        EventMeaning::Own(id) => matches!(
            id,
            ThreadAttached
                | HeapStats
                | SuspendBegin
                | SuspendEnd
                | StopAbandoned
                | RootsBegin
                | RootsEnd
                | MarkBegin
                | MarkEnd
                | WeakEnd
                | SweepBegin
                | SweepEnd
                | RestartBegin
                | RestartEnd
        ),
        EventMeaning::Net(id) => {
            Provider::named(&kind.provider) == Some(Provider::Runtime)
                && matches!(id, SuspendBegin | SuspendEnd | RestartEnd | HeapStats)
        }
        EventMeaning::Dynamic | EventMeaning::Telemetry(_) | EventMeaning::Unknown => false,
    }
}

impl Visitor for Rows<'_> {
    fn trace(&mut self, trace: &TraceInfo) {
        self.pointer_bytes = trace.pointer_bytes;
    }

    fn event_type(&mut self, kind: &EventType) -> Interest {
        if self.types.len() >= MOST_TYPES {
            // The file describes too many types to keep all: its reader has forgotten the oldest as well.
            self.types.retain(|index, _| *index as usize + MOST_TYPES / 2 > kind.index as usize);
        }
        let meaning = decoded::meaning(kind);
        let known = Known { meaning, title: kind.title().into_owned(), is_step: is_step(meaning, kind) };
        self.types.insert(kind.index, known);
        Interest::Deliver
    }

    fn thread(&mut self, thread: &ThreadInfo<'_>) {
        if thread.process == self.process {
            self.threads.name(clamped(thread.thread), &thread.name);
        }
    }

    fn event(&mut self, event: &NetEvent<'_>) {
        if event.process == self.process && self.failed.is_none() {
            self.failed = self.take(event).err();
        }
    }

    fn is_done(&self) -> bool {
        self.failed.is_some()
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case([1970, 1, 1, 0, 0, 0, 0], Some(0))]
    #[case([2000, 2, 29, 0, 0, 0, 1], Some(951_782_400_001_000))]
    #[case([2000, 3, 1, 0, 0, 0, 0], Some(951_868_800_000_000))]
    #[case([2026, 11, 26, 22, 16, 14, 0], Some(1_795_731_374_000_000))]
    #[case([2100, 2, 28, 23, 59, 59, 0], Some(4_107_542_399_000_000))]
    #[case([0, 0, 0, 0, 0, 0, 0], None)]
    #[case([2026, 13, 1, 0, 0, 0, 0], None)]
    fn dates_are_microseconds(#[case] parts: [u16; 7], #[case] expected: Option<i64>) {
        let [year, month, day, hour, minute, second, millisecond] = parts;
        let utc = Utc { year, month, day_of_week: 0, day, hour, minute, second, millisecond };
        assert_eq!(microseconds(&utc), expected);
    }
}
