//! From a telemetry stream to a timeline.
//!
//! A stream contains no threads. Each arena has two tracks: one on which its polls are slices, and one for its traces, because a trace
//! spans many polls. On the second track each trace is a slice that contains the flip, the bands of references, and the reclaim phase. All
//! other records are instants, with their parameters by name; a labelled address is followed by its label. The bytes held by an arena's
//! pools are a counter.

use std::collections::HashMap;
use std::io::{self, Read, Write};

use super::pages::{self, Page};
use super::stream;
use super::telemetry::{self, LACKS, UNKNOWN_CODE, leave_out};
use super::{Conversion, ConvertError, ConvertOptions, LeftOut};
use mps_telemetry::Category;
use mps_telemetry::labels::{Label, Labels, Namespace};
use mps_telemetry::reader::Record;
use mps_telemetry::v2::{self, Event};
use mps_telemetry::{Layout, Param, Sort, TypedRecord, Version};
use stopworld_trace::perfetto::phases::{self, CollectorTimeline, Slice};
use trace_event::Track;
use trace_event::{Args, Output};

/// Placeholder for the unknown process.
const PROCESS: u64 = 1;
/// The track for records that belong to no arena; the tracks of arenas and their traces follow.
const STREAM: u64 = 1;
/// The maximum number of arenas that have tracks of their own.
const MOST_ARENAS: usize = 1 << 12;

/// The name of a trace or a phase for which the stream has a number without a meaning.
const NAMELESS: &str = "trace";

pub(super) fn convert<R: Read, W: Write>(
    input: R,
    output: W,
    options: &ConvertOptions,
    to: &mut Conversion,
) -> Result<(), ConvertError> {
    let stream = stream::read(input, options, to)?;
    let (first, last) = (stream.first as i64, stream.last as i64);
    let timeline = pages::begin(output, first, stream.ticks_per_second).map_err(ConvertError::Output)?;
    let version = stream.version;
    let mut drawing = Drawing { version, timeline, labels: Labels::default(), arenas: HashMap::new() };
    drawing.names().map_err(ConvertError::Output)?;
    stream.finish(|record, layout| {
        to.carried += 1;
        drawing.take(record, layout, &mut to.left_out).map_err(ConvertError::Output)
    })?;
    pages::end(drawing.timeline, last).map_err(ConvertError::Output)
}

/// The tracks of an arena, and the bytes held by its pools.
#[derive(Clone, Copy, Debug)]
struct Arena {
    polls: Track,
    traces: Track,
    held: u64,
}

struct Drawing<W: Write> {
    version: Version,
    timeline: CollectorTimeline<Page<W>>,
    labels: Labels,
    arenas: HashMap<u64, Arena>,
}

impl<W: Write> Drawing<W> {
    fn names(&mut self) -> io::Result<()> {
        self.timeline.name_process(PROCESS, "Memory Pool System")?;
        self.timeline.name_thread(Track { process: PROCESS, thread: STREAM }, "stream")
    }

    /// Returns the arena at this address. If the arena is new, its tracks are named first.
    fn arena(&mut self, address: u64) -> io::Result<Arena> {
        if let Some(arena) = self.arenas.get(&address) {
            return Ok(*arena);
        }
        let place = self.arenas.len().min(MOST_ARENAS) as u64;
        let track = |which| Track { process: PROCESS, thread: STREAM + 1 + 2 * place + which };
        let arena = Arena { polls: track(0), traces: track(1), held: 0 };
        if self.arenas.len() < MOST_ARENAS {
            self.arenas.insert(address, arena);
            self.timeline.name_thread(arena.polls, &format!("arena {address:#x}"))?;
            self.timeline.name_thread(arena.traces, &format!("traces of arena {address:#x}"))?;
        }
        Ok(arena)
    }

    fn take(&mut self, record: &Record<'_>, layout: Option<&'static Layout>, left_out: &mut LeftOut) -> io::Result<()> {
        let ticks = record.clock() as i64;
        let stream = Track { process: PROCESS, thread: STREAM };
        let Some(layout) = layout else {
            leave_out(left_out, record, None, UNKNOWN_CODE);
            let code = record.code();
            return self.timeline.instant(stream, ticks, ("unknown", "unknown code".into()), |args| {
                args.number("code", code.into());
            });
        };
        if !record.has_all(layout) {
            leave_out(left_out, record, Some(layout), LACKS);
        }
        self.labels.learn(self.version, record);
        let word = |name: &str| layout.param(name).and_then(|param| record.word(usize::from(param.offset)));
        // In this record the names of the parameters do not match the values that the Memory Pool System writes.
        let is_reclaim = self.version == Version::V2 && layout.code == v2::SegReclaim::CODE;
        let arena = word(if is_reclaim { "seg" } else { "arena" });
        let arena = match arena {
            Some(address) => Some((address, self.arena(address)?)),
            None => None,
        };
        let track = arena.map_or(stream, |(_, arena)| arena.polls);
        let is_drawn = match arena {
            Some((address, arena)) => self.slice(record, layout, (address, arena), ticks)?,
            None => false,
        };
        if is_drawn {
            return Ok(());
        }
        let track = match arena {
            Some((_, arena)) if layout.category == Category::Trace => arena.traces,
            _ => track,
        };
        let Drawing { timeline, labels, .. } = self;
        timeline.instant(track, ticks, (layout.category.name(), layout.name.into()), |args| {
            params(args, layout, record, labels);
        })
    }

    /// Draws a record that begins or ends a slice. Returns false if the record does neither.
    fn slice(
        &mut self,
        record: &Record<'_>,
        layout: &Layout,
        (address, arena): (u64, Arena),
        ticks: i64,
    ) -> io::Result<bool> {
        let Some(event) = telemetry::event(self.version, record) else { return Ok(false) };
        let Drawing { timeline, labels, arenas, .. } = self;
        let fill = |args: &mut Args<'_, Page<W>>| params(args, layout, record, labels);
        let name = layout.category.name();
        match event {
            Event::ArenaPollBegin(_) => {
                timeline.end(arena.polls, Slice::Pause, ticks, |_| {})?;
                timeline.begin(arena.polls, Slice::Pause, ticks, (name, "poll".into()), fill)?;
            }
            Event::ArenaPollEnd(_) if timeline.is_open(arena.polls, Slice::Pause) => {
                timeline.end(arena.polls, Slice::Pause, ticks, fill)?;
            }
            Event::TraceCreate(create) => {
                timeline.end(arena.traces, Slice::Pause, ticks, |_| {})?;
                let why = format!("trace: {}", create.why.meaning().unwrap_or(NAMELESS));
                timeline.begin(arena.traces, Slice::Pause, ticks, (name, why.as_str().into()), fill)?;
            }
            Event::TraceFlipBegin(_) if timeline.is_open(arena.traces, Slice::Pause) => {
                phases::phase(timeline, arena.traces, ticks, "flip")?;
            }
            Event::TraceFlipEnd(_) if timeline.is_open(arena.traces, Slice::Phase) => {
                timeline.end(arena.traces, Slice::Phase, ticks, fill)?;
            }
            Event::TraceBandAdvance(band) if timeline.is_open(arena.traces, Slice::Pause) => {
                phases::phase(timeline, arena.traces, ticks, band.rank.meaning().unwrap_or(NAMELESS))?;
            }
            Event::TraceReclaim(_) if timeline.is_open(arena.traces, Slice::Pause) => {
                phases::phase(timeline, arena.traces, ticks, "reclaim")?;
            }
            Event::TraceDestroy(_) if timeline.is_open(arena.traces, Slice::Pause) => {
                timeline.end(arena.traces, Slice::Pause, ticks, fill)?;
            }
            Event::ArenaAlloc(v2::ArenaAlloc { size, .. }) | Event::ArenaFree(v2::ArenaFree { size, .. }) => {
                let is_more = matches!(event, Event::ArenaAlloc(_));
                let held = if is_more { arena.held.saturating_add(size) } else { arena.held.saturating_sub(size) };
                if let Some(known) = arenas.get_mut(&address) {
                    known.held = held;
                }
                let what = format!("held by the pools of arena {address:#x}");
                timeline.counter(arena.polls, ticks, (name, what.as_str().into()), |args| args.count("bytes", held))?;
                return Ok(false);
            }
            _ => return Ok(false),
        }
        Ok(true)
    }
}

/// Writes the parameters that the record has.
fn params<S: Output>(args: &mut Args<'_, S>, layout: &Layout, record: &Record<'_>, labels: &Labels) {
    for param in layout.params {
        let name = param.name;
        let at = usize::from(param.offset);
        match param.sort {
            Sort::P => address(args, param, record.word(at), |of| labels.of(Namespace::Pointers, of)),
            Sort::A => address(args, param, record.word(at), |of| labels.of(Namespace::Addresses, of)),
            Sort::W => record.word(at).into_iter().for_each(|value| args.number(name, value)),
            Sort::U => record.unsigned(at).into_iter().for_each(|value| args.number(name, value.into())),
            Sort::B => record.boolean(param).into_iter().for_each(|value| args.number(name, value.into())),
            Sort::D => {
                let value = record.word(at).map(f64::from_bits);
                value.into_iter().for_each(|value| match value.is_finite() {
                    true => args.json(name, &format!("{value:?}")),
                    // JSON cannot represent infinities and NaN.
                    false => args.text(name, &value.to_string()),
                });
            }
            Sort::S => {
                let text = record.string(at).map(String::from_utf8_lossy);
                text.into_iter().for_each(|text| args.text(name, &text));
            }
        }
    }
}

fn address<'l, S: Output>(
    args: &mut Args<'_, S>,
    param: &Param,
    value: Option<u64>,
    label_of: impl FnOnce(u64) -> Option<Label<'l>>,
) {
    let Some(value) = value else { return };
    match label_of(value) {
        Some(Label::Text(text)) => args.text(param.name, &format!("{value:#x} {}", String::from_utf8_lossy(text))),
        _ => args.address(param.name, value),
    }
}
