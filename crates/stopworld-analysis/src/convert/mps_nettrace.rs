//! From a telemetry stream to the .NET format.
//!
//! Every record becomes an event that describes itself ([`telemetry`](super::telemetry)), with its exact ticks. For the .NET tools,
//! the events that the table of events pairs with the record are written as well:
//!
//! | record | .NET event | fields that are unknown, and 0 |
//! |---|---|---|
//! | ArenaPollBegin | GCSuspendEEBegin V1: Reason 1, Count the traces before | |
//! | TraceCreate | GCSuspendEEEnd V1, if none has come since the ArenaPollBegin; GCStart V2: Count from 1; Depth 0 if generation 0 was the reason, else 2; Reason 1 if the program requested the trace or a heap walk, else 0; Type 0 | ClientSequenceNumber |
//! | TraceDestroy | GCEnd V1; GCHeapStats V2 with the bytes held by the arena's pools as generation 2, if the stream has ArenaAlloc | all other sizes, all counts |
//! | ArenaPollEnd | GCSuspendEEEnd V1, likewise; GCRestartEEEnd V1 | |
//! | VMMap, VMUnmap | GCCreateSegment V1 (Type 0), GCFreeSegment V1 | |
//!
//! `ClrInstanceID` is the number of the arena in the stream. A stream contains neither process nor thread nor date: process and
//! thread are 1, and the trace begins in 1970. Events are sorted by time, and all flagged as sorted.

use std::collections::HashMap;
use std::io::{self, BufWriter, Read, Write};

use super::stream::{self, Stream};
use super::telemetry::{self, LACKS, UNKNOWN_CODE, leave_out};
use super::{Conversion, ConvertError, ConvertOptions, LeftOut};
use mps_telemetry::reader::Record;
use mps_telemetry::v2::{self, Event};
use mps_telemetry::{Layout, TraceStartWhy, Version};
use nettrace::clr::write::{
    GCCreateSegment, GCEnd, GCFreeSegment, GCHeapStats, GCRestartEEEnd, GCStart, GCSuspendEEBegin, GCSuspendEEEnd,
};
use nettrace::clr::{CollectionType, Encode, Reason, SegmentKind, SuspendReason};
use nettrace::encode::{Encoder, Header};
use nettrace::{Container, EventType, TraceInfo, Utc};

/// Placeholders for the unknown process and thread.
const PROCESS: u32 = 1;
const THREAD: u64 = 1;
/// The maximum numbers of arenas and of segments that are remembered.
const MOST_ARENAS: usize = 1 << 12;
/// The generation number of a full collection.
const FULL: u32 = 2;
/// The first type id of a .NET event. The type id of a record is its code plus one.
const NET_IDS: u32 = 0x1_0000;

pub(super) fn convert<R: Read, W: Write>(
    input: R,
    output: W,
    container: Container,
    options: &ConvertOptions,
    to: &mut Conversion,
) -> Result<(), ConvertError> {
    let stream = stream::read(input, options, to)?;
    let output = BufWriter::with_capacity(64 << 10, output);
    let mut writing = Writing::begin(&stream, Encoder::new(output, container)).map_err(ConvertError::Output)?;
    let (version, last) = (stream.version, stream.last);
    stream.finish(|record, layout| {
        to.carried += u64::from(writing.take(record, layout, version, &mut to.left_out)?);
        Ok(())
    })?;
    writing.end(last).map_err(ConvertError::Output)
}

/// The state of an arena.
#[derive(Clone, Copy, Debug, Default)]
struct Arena {
    number: u16,
    collections: u32,
    depth: u32,
    is_collecting: bool,
    /// Whether a GCSuspendEEBegin was written without a GCSuspendEEEnd so far.
    is_suspending: bool,
    /// The bytes held by its pools, if the stream contains them.
    held: Option<u64>,
}

struct Writing<W> {
    encoder: Encoder<W>,
    defined: HashMap<u32, ()>,
    payload: Vec<u8>,
    sequence: u32,
    arenas: HashMap<u64, Arena>,
}

impl<W: Write> Writing<W> {
    fn begin(stream: &Stream, mut encoder: Encoder<W>) -> io::Result<Writing<W>> {
        let info = TraceInfo {
            container: encoder.container(),
            start: Utc { year: 1970, month: 1, day_of_week: 4, day: 1, ..Utc::default() },
            start_ticks: stream.first as i64,
            ticks_per_second: stream.ticks_per_second as i64,
            pointer_bytes: 8,
            process_id: PROCESS,
            processors: 0,
            sampling_period_ns: 0,
            pairs: Vec::new(),
        };
        encoder.trace(&info)?;
        if encoder.container() == Container::V6 {
            encoder.thread(THREAD, (PROCESS.into(), THREAD), "", &[])?;
        }
        Ok(Writing { encoder, defined: HashMap::new(), payload: Vec::new(), sequence: 0, arenas: HashMap::new() })
    }

    fn end(mut self, last: u64) -> io::Result<()> {
        self.encoder.last_number(THREAD, self.sequence);
        self.encoder.sequence_point(last as i64, 0)?;
        self.encoder.end().map(drop)
    }

    /// Writes a record, and the .NET events that correspond to it. Returns false if the record cannot be carried over.
    fn take(
        &mut self,
        record: &Record<'_>,
        layout: Option<&'static Layout>,
        version: Version,
        left_out: &mut LeftOut,
    ) -> Result<bool, ConvertError> {
        let Some(layout) = layout else {
            leave_out(left_out, record, None, UNKNOWN_CODE);
            return Ok(false);
        };
        let mut payload = std::mem::take(&mut self.payload);
        if !telemetry::payload(&mut payload, layout, record) {
            leave_out(left_out, record, Some(layout), LACKS);
            self.payload = payload;
            return Ok(false);
        }
        let id = u32::from(layout.code) + 1;
        let described = || telemetry::described(layout, version);
        let written = self.event(id, described, record.clock(), &payload);
        self.payload = payload;
        written.and_then(|()| self.phases(record, version)).map_err(ConvertError::Output)?;
        Ok(true)
    }

    fn event(&mut self, id: u32, described: impl FnOnce() -> EventType, clock: u64, payload: &[u8]) -> io::Result<()> {
        if self.defined.insert(id, ()).is_none() {
            let _ = self.encoder.event_type(id, &described())?;
        }
        self.sequence = self.sequence.wrapping_add(1);
        let header = Header {
            kind: id,
            sequence: self.sequence,
            thread: THREAD,
            capture: THREAD,
            time: clock as i64,
            sorted: true,
            ..Header::default()
        };
        // No record is longer than a block.
        self.encoder.event(&header, payload).map(drop)
    }

    // ---- .NET's events -------------------------------------------------------------------------------------------------

    fn phases(&mut self, record: &Record<'_>, version: Version) -> io::Result<()> {
        let Some(event) = telemetry::event(version, record) else { return Ok(()) };
        let of = match event {
            Event::ArenaPollBegin(v2::ArenaPollBegin { arena })
            | Event::TraceCreate(v2::TraceCreate { arena, .. })
            | Event::TraceDestroy(v2::TraceDestroy { arena, .. })
            | Event::ArenaPollEnd(v2::ArenaPollEnd { arena, .. })
            | Event::ArenaAlloc(v2::ArenaAlloc { arena, .. })
            | Event::ArenaFree(v2::ArenaFree { arena, .. }) => Some(arena),
            Event::VMMap(_) | Event::VMUnmap(_) => None,
            _ => return Ok(()),
        };
        let address = of.unwrap_or(0);
        let mut arena = match self.arenas.get(&address) {
            Some(arena) => *arena,
            None => Arena { number: self.arenas.len() as u16, ..Arena::default() },
        };
        let clock = record.clock();
        match event {
            Event::ArenaPollBegin(_) => {
                arena.is_suspending = true;
                let (reason, count) = (SuspendReason::SuspendForGC, arena.collections);
                self.net(arena, clock, &GCSuspendEEBegin { reason, count })?;
            }
            Event::TraceCreate(v2::TraceCreate { why, .. }) => {
                self.suspended(&mut arena, clock)?;
                arena.depth = if why == TraceStartWhy::Generation0 { 0 } else { FULL };
                arena.collections = arena.collections.wrapping_add(1);
                arena.is_collecting = true;
                // The reason is a request by the program, or a heap walk.
                let is_requested =
                    matches!(why, TraceStartWhy::FullIncremental | TraceStartWhy::Full | TraceStartWhy::Walk);
                let start = GCStart {
                    count: arena.collections,
                    depth: arena.depth,
                    reason: if is_requested { Reason::Induced } else { Reason::AllocSmall },
                    kind: CollectionType::NonConcurrentGC,
                    client_sequence_number: 0,
                };
                self.net(arena, clock, &start)?;
            }
            Event::TraceDestroy(_) if arena.is_collecting => {
                arena.is_collecting = false;
                self.net(arena, clock, &GCEnd { count: arena.collections, depth: arena.depth })?;
                if let Some(held) = arena.held {
                    self.net(arena, clock, &heap_of(held))?;
                }
            }
            Event::ArenaPollEnd(_) => {
                self.suspended(&mut arena, clock)?;
                self.net(arena, clock, &GCRestartEEEnd {})?;
            }
            Event::VMMap(v2::VMMap { base, limit, .. }) => {
                let (size, kind) = (limit.wrapping_sub(base), SegmentKind::SmallObjectHeap);
                self.net(arena, clock, &GCCreateSegment { address: base, size, kind })?;
            }
            Event::VMUnmap(e) => self.net(arena, clock, &GCFreeSegment { address: e.base })?,
            Event::ArenaAlloc(e) => arena.held = Some(arena.held.unwrap_or(0).saturating_add(e.size)),
            Event::ArenaFree(e) => arena.held = arena.held.map(|held| held.saturating_sub(e.size)),
            _ => return Ok(()),
        }
        if of.is_some() && (self.arenas.len() < MOST_ARENAS || self.arenas.contains_key(&address)) {
            self.arenas.insert(address, arena);
        }
        Ok(())
    }

    /// Ends the suspension, if it has not ended yet. A stream has no record of the end of a suspension, so the end is taken to be the start
    /// of the first trace, or the end of a poll that starts no trace. Without an end, PerfView shows a negative length.
    fn suspended(&mut self, arena: &mut Arena, clock: u64) -> io::Result<()> {
        if std::mem::take(&mut arena.is_suspending) { self.net(*arena, clock, &GCSuspendEEEnd {}) } else { Ok(()) }
    }

    /// Writes an event of the runtime. The metadata leave out the fields, as the runtime's own metadata do.
    fn net<E: Encode>(&mut self, arena: Arena, clock: u64, event: &E) -> io::Result<()> {
        let mut payload = std::mem::take(&mut self.payload);
        payload.clear();
        event.encode(arena.number, &mut payload);
        let described = || EventType { fields: Vec::new(), ..E::DEFINITION.event_type() };
        let written = self.event(NET_IDS + E::DEFINITION.event, described, clock, &payload);
        self.payload = payload;
        written
    }
}

/// Returns the statistics of a heap of which only the total size is known.
fn heap_of(bytes: u64) -> GCHeapStats {
    GCHeapStats {
        generation_size0: 0,
        total_promoted_size0: 0,
        generation_size1: 0,
        total_promoted_size1: 0,
        generation_size2: bytes,
        total_promoted_size2: 0,
        generation_size3: 0,
        total_promoted_size3: 0,
        finalization_promoted_size: 0,
        finalization_promoted_count: 0,
        pinned_object_count: 0,
        sink_block_count: 0,
        gc_handle_count: 0,
        generation_size4: 0,
        total_promoted_size4: 0,
    }
}
