//! From the .NET format to a telemetry stream.
//!
//! The table of events defines which record an event becomes: the row that contains both. Events that were made from a stream's records are
//! converted back to exactly those records; the other .NET events in such a file are left out, since they contain the same information.
//! A stream identifies objects by address, and few .NET events contain an address. So the arena, its reservation, its pools and its traces
//! get unique addresses: `n00000`, where n is 1 plus the number of the runtime (`ClrInstanceID`), and addresses near it. These addresses are
//! labelled.
//!
//! | record | parameters that are unknown, and 0 |
//! |---|---|
//! | ArenaCreateVM | size, grain |
//! | TraceStart | mortality, the times; `condemned` is the heap size of the latest GCHeapStats |
//! | RootScan, SegScan, SegReclaim | sets, summaries, as in streams written by stopworld |
//!
//! `EventClockSync` contains the microseconds since the start of the trace instead of processor time. Records whose order matters
//! have clocks one tick apart.

use std::collections::{BTreeMap, HashMap};
use std::io::{self, BufWriter, Read, Write};

use super::containers::name_of;
use super::decoded::{self, DecodedFields, EventMeaning};
use super::telemetry::{self, CLOCKS_PER_SECOND};
use super::{Conversion, ConvertError, LeftOut};
use mps_telemetry::encode::Encoder;
use mps_telemetry::{Layout, Rank, Res, TraceStartWhy, TypedRecord, Version, v2 as mps};
use nettrace::clr::Reason;
use nettrace::{EventType, Interest, NetEvent, Reader, TraceInfo, Visitor};
use stopworld::events::EventId;
use stopworld_trace::mps::CLOCK_TEXT;

const NO_RECORD: &str = "the Memory Pool System has no record for it";
const LESS: &str = "the record has no place for all fields of the event";
const NOT_GC: &str = "this stop is not for a collection";
const SAME: &str = "it repeats records of the original stream";
const NO_SIZE: &str = "the trace does not contain the segment's creation, so its end is not known";
const CUT: &str = "a string in a record has at most 255 bytes";

/// The time between two clock syncs, in microseconds.
const SYNC_US: u64 = 100_000;
/// The maximum numbers of segments and of blocks that are remembered; for texts the limit is a sixteenth of this.
const MOST: usize = 1 << 18;
/// The maximum number of event types that are known at once.
const MOST_TYPES: usize = 1 << 17;
/// The generation number of a full collection.
const FULL: u64 = 2;
/// The set of traces that contains the only trace.
const TRACE_SET: u32 = 1;

/// The unique addresses of a runtime's objects: the base of its arena, and offsets from it.
const ARENA: u64 = 0x10_0000;
const VM: u64 = 0x8;
const TRACES: u64 = 0x100;
const POOLS: u64 = 0x200;
const SCAN: u64 = 0x300;
const CLASS: u64 = 0x400;

pub(super) fn convert<R: Read, W: Write>(input: R, output: W, to: &mut Conversion) -> Result<(), ConvertError> {
    let encoder = Encoder::new(BufWriter::with_capacity(64 << 10, output));
    let mut writing = Writing {
        encoder,
        left_out: &mut to.left_out,
        info: None,
        meanings: HashMap::new(),
        has_records: false,
        arenas: HashMap::new(),
        segments: HashMap::new(),
        blocks: BTreeMap::new(),
        texts: HashMap::new(),
        next_text: 1,
        last: 0,
        synced_us: 0,
        begun: false,
        carried: 0,
        failed: None,
    };
    let summary = Reader::new(input).read(&mut writing);
    let has_trace = writing.info.is_some();
    if writing.failed.is_none() && writing.begun && !writing.has_records {
        let now = writing.last;
        writing.failed = writing.sync(now).err();
    }
    if let Some(error) = writing.failed {
        return Err(ConvertError::Output(error));
    }
    to.carried = writing.carried;
    writing.encoder.end().map_err(ConvertError::Output)?;
    to.take_summary(&summary, has_trace)
}

/// The state of a runtime.
#[derive(Debug, Default)]
struct Arena {
    announced: bool,
    pools_announced: [bool; 3],
    poll_open: bool,
    /// Whether a collection has run during the poll.
    worked: bool,
    traces: Vec<u64>,
    /// Whether the roots of the trace have been scanned. After that, references are reported in bands.
    flipped: bool,
    heap: u64,
}

struct Writing<'l, W: Write> {
    encoder: Encoder<BufWriter<W>>,
    left_out: &'l mut LeftOut,
    info: Option<TraceInfo>,
    meanings: HashMap<u32, (EventMeaning, String)>,
    has_records: bool,
    arenas: HashMap<u64, Arena>,
    /// The size of each segment.
    segments: HashMap<u64, u64>,
    /// The size and the space of each block.
    blocks: BTreeMap<u64, (u64, u64)>,
    texts: HashMap<String, u64>,
    next_text: u64,
    last: u64,
    synced_us: u64,
    begun: bool,
    carried: u64,
    failed: Option<io::Error>,
}

impl<W: Write> Writing<'_, W> {
    // ---- Records -------------------------------------------------------------------------------------------------------

    fn put<'a, E: TypedRecord<'a>>(&mut self, clock: u64, event: E) -> io::Result<()> {
        // A clock of the largest value can't be increased.
        let clock = if clock > self.last { clock } else { self.last.saturating_add(1) };
        self.last = clock;
        let is_whole = self.encoder.event(clock, &event)?;
        self.left_out.add(E::LAYOUT.name, CUT, u64::from(!is_whole));
        Ok(())
    }

    fn us(&self, clock: u64) -> u64 {
        let Some(info) = &self.info else { return 0 };
        let since = i128::from(clock) - i128::from(info.start_ticks);
        u64::try_from(since * 1_000_000 / i128::from(info.ticks_per_second)).unwrap_or(0)
    }

    fn sync(&mut self, clock: u64) -> io::Result<()> {
        self.synced_us = self.us(clock).max(self.synced_us.saturating_add(1));
        self.put(clock, mps::EventClockSync { clock: self.synced_us })
    }

    fn begin(&mut self, clock: u64) -> io::Result<()> {
        self.begun = true;
        self.put(clock, mps::EventInit::new(CLOCKS_PER_SECOND))?;
        self.put(clock, mps::EventClockSync { clock: 0 })?;
        let ticks_per_second = self.info.as_ref().map_or(0, |info| info.ticks_per_second);
        self.intern(&format!("{CLOCK_TEXT}{ticks_per_second}"), clock).map(drop)
    }

    /// Returns the number of a text. If the text is new, it is written first.
    fn intern(&mut self, text: &str, clock: u64) -> io::Result<u64> {
        if let Some(number) = self.texts.get(text) {
            return Ok(*number);
        }
        let number = self.next_text;
        self.next_text += 1;
        if self.texts.len() < MOST / 16 {
            self.texts.insert(text.to_owned(), number);
        }
        self.put(clock, mps::Intern { stringId: number, string: text.as_bytes() })?;
        Ok(number)
    }

    fn label(&mut self, address: u64, text: &str, clock: u64) -> io::Result<()> {
        let number = self.intern(text, clock)?;
        self.put(clock, mps::LabelPointer { pointer: address, stringId: number })?;
        self.put(clock, mps::Label { address, stringId: number })
    }

    // ---- Arenas, pools and traces --------------------------------------------------------------------------------------

    /// Returns the address of a runtime's arena. If the arena is new, it is written first.
    fn arena(&mut self, number: u64, clock: u64) -> io::Result<u64> {
        let address = ARENA * (1 + number);
        let arena = self.arenas.entry(number).or_default();
        if !std::mem::replace(&mut arena.announced, true) {
            self.label(address + CLASS, "Converted", clock)?;
            self.put(clock, mps::VMInit { vm: address + VM, base: 0, limit: 0 })?;
            self.put(
                clock,
                mps::ArenaCreateVM {
                    arena: address,
                    arenaClass: address + CLASS,
                    serial: number as u32 + 1,
                    ..mps::ArenaCreateVM::default()
                },
            )?;
        }
        Ok(address)
    }

    /// Returns a pool of the arena: 0 small, 1 pinned, 2 large objects. If the pool is new, it is written first.
    fn pool(&mut self, number: u64, space: u64, clock: u64) -> io::Result<u64> {
        let space = space.min(2);
        let arena = self.arena(number, clock)?;
        let pool = arena + POOLS + 8 * space;
        let known = self.arenas.entry(number).or_default();
        if !std::mem::replace(&mut known.pools_announced[space as usize], true) {
            self.label(pool, ["small objects", "pinned objects", "large objects"][space as usize], clock)?;
            self.put(clock, mps::PoolInit { pool, arena, poolClass: arena + CLASS, serial: space as u32 + 1 })?;
        }
        Ok(pool)
    }

    /// Returns the trace of this collection, or the trace in progress.
    fn trace(&mut self, number: u64, collection: Option<u64>) -> Option<u64> {
        let open = &self.arenas.entry(number).or_default().traces;
        let collection = collection.filter(|one| open.contains(one)).or(open.last().copied())?;
        Some(ARENA * (1 + number) + TRACES + 8 * (collection % 16))
    }

    fn end_poll(&mut self, number: u64, worked: bool, clock: u64) -> io::Result<bool> {
        let arena = self.arena(number, clock)?;
        let known = self.arenas.entry(number).or_default();
        if !std::mem::take(&mut known.poll_open) {
            return Ok(false);
        }
        let worked = worked && std::mem::take(&mut known.worked);
        self.put(clock, mps::ArenaPollEnd { arena, workWasDone: worked })?;
        Ok(true)
    }

    fn end_trace(&mut self, number: u64, collection: u64, clock: u64) -> io::Result<bool> {
        let Some(trace) = self.trace(number, Some(collection)) else { return Ok(false) };
        let arena = self.arena(number, clock)?;
        self.arenas.entry(number).or_default().traces.retain(|open| *open != collection);
        self.put(clock, mps::TraceDestroy { arena, trace })?;
        Ok(true)
    }

    // ---- Events --------------------------------------------------------------------------------------------------------

    /// Converts an event. Returns the reason if it is not carried over.
    fn take(&mut self, event: &NetEvent<'_>, meaning: EventMeaning) -> io::Result<Option<&'static str>> {
        let clock = event.time as u64;
        if let EventMeaning::Telemetry(layout) = meaning {
            return self.record(event, layout, clock);
        }
        if self.has_records {
            return Ok(Some(if matches!(meaning, EventMeaning::Net(_)) { SAME } else { NO_RECORD }));
        }
        let pointer_bytes = self.info.as_ref().map_or(8, |info| info.pointer_bytes);
        let fields = decoded::fields(event, pointer_bytes);
        let Some(id) = decoded::id_of(meaning, event.kind, &fields) else { return Ok(Some(NO_RECORD)) };
        if !self.begun {
            let start = self.info.as_ref().map_or(clock, |info| info.start_ticks as u64);
            self.begin(start.min(clock))?;
        }
        if self.us(clock) >= self.synced_us.saturating_add(SYNC_US) {
            self.sync(clock)?;
        }
        if let EventMeaning::Own(id) = meaning {
            self.of_ours(id, &fields, clock)
        } else {
            let dynamic =
                if meaning == EventMeaning::Dynamic { decoded::dynamic_fields(id, event.payload) } else { Vec::new() };
            self.of_the_runtime(id, &fields, &dynamic, clock)
        }
    }

    /// Converts an event that was made from a record back to the record.
    fn record(
        &mut self,
        event: &NetEvent<'_>,
        layout: &'static Layout,
        clock: u64,
    ) -> io::Result<Option<&'static str>> {
        self.has_records = true;
        self.begun = true;
        let mut string = Vec::new();
        let Some(values) = telemetry::values(layout, event.payload, &mut string) else {
            return Ok(Some("its payload is too short for the record"));
        };
        if event.kind.version != telemetry::number_of(Version::V2) {
            return Ok(Some("it is a record of version 1.0.0: convert the original stream instead"));
        }
        self.last = self.last.max(clock);
        self.encoder.record(layout, clock, &values).map(|_| None)
    }

    /// Converts an event of the .NET runtime.
    fn of_the_runtime(
        &mut self,
        id: EventId,
        fields: &DecodedFields,
        dynamic: &[(&str, u64)],
        clock: u64,
    ) -> io::Result<Option<&'static str>> {
        // In the template this field has 16 bits. The file's own description may have more bits; a larger number belongs to no runtime.
        let number = fields.number("ClrInstanceID").and_then(|number| u16::try_from(number).ok()).unwrap_or(0).into();
        let word = |name: &str| fields.number(name).unwrap_or(0);
        let also = |name: &str| dynamic.iter().find(|(known, _)| *known == name).map_or(0, |(_, value)| *value);
        let carried = Ok(None);
        match id {
            EventId::SuspendBegin if decoded::is_for_collection(word("Reason")) => {
                self.end_poll(number, true, clock)?;
                let arena = self.arena(number, clock)?;
                self.arenas.entry(number).or_default().poll_open = true;
                self.put(clock, mps::ArenaPollBegin { arena })?;
                carried
            }
            EventId::SuspendBegin => Ok(Some(NOT_GC)),
            EventId::RestartEnd => Ok(if self.end_poll(number, true, clock)? { None } else { Some(NOT_GC) }),
            EventId::StopAbandoned => {
                self.end_poll(number, false, clock)?;
                carried
            }
            EventId::GcStart => {
                let arena = self.arena(number, clock)?;
                let known = self.arenas.entry(number).or_default();
                (known.worked, known.flipped) = (true, false);
                known.traces.truncate(8);
                known.traces.push(word("Count"));
                let heap = known.heap;
                let trace = self.trace(number, Some(word("Count"))).unwrap_or(0);
                let is_induced = word("Reason") == u64::from(Reason::Induced.code());
                let why = match word("Depth") {
                    ..FULL => TraceStartWhy::Generation0,
                    _ if is_induced => TraceStartWhy::Full,
                    _ => TraceStartWhy::Dynamic,
                };
                self.put(clock, mps::TraceCreate { trace, arena, why })?;
                if word("Depth") >= FULL {
                    self.put(clock, mps::TraceCondemnAll { arena, trace })?;
                }
                let (condemned, white) = (heap, u64::MAX);
                self.put(clock, mps::TraceStart { arena, trace, condemned, white, ..mps::TraceStart::default() })?;
                carried
            }
            EventId::GcEnd => Ok(if self.end_trace(number, word("Count"), clock)? { None } else { Some(NO_RECORD) }),
            EventId::CollectionDiscarded => {
                self.end_trace(number, also("number"), clock)?;
                carried
            }
            EventId::WeakEnd => {
                let flipped = self.arenas.entry(number).or_default().flipped;
                let Some(trace) = self.trace(number, None).filter(|_| flipped) else { return Ok(Some(NO_RECORD)) };
                let arena = self.arena(number, clock)?;
                self.put(clock, mps::TraceBandAdvance { arena, trace, rank: Rank::Weak })?;
                carried
            }
            EventId::HeapStats => {
                let sizes =
                    ["GenerationSize0", "GenerationSize1", "GenerationSize2", "GenerationSize3", "GenerationSize4"];
                self.arenas.entry(number).or_default().heap =
                    sizes.iter().fold(0, |sum: u64, name| sum.saturating_add(word(name)));
                Ok(Some("only the heap size is used, in the next TraceStart"))
            }
            EventId::SegmentCreated => {
                let (base, size) = (word("Address"), word("Size"));
                if self.segments.len() < MOST {
                    self.segments.insert(base, size);
                }
                let arena = self.arena(number, clock)?;
                self.put(clock, mps::VMMap { vm: arena + VM, base, limit: base.wrapping_add(size) })?;
                self.put(clock, mps::ArenaExtend { arena, base, size })?;
                carried
            }
            EventId::SegmentFreed => {
                let base = word("Address");
                let Some(size) = self.segments.remove(&base) else { return Ok(Some(NO_SIZE)) };
                let arena = self.arena(number, clock)?;
                self.put(clock, mps::VMUnmap { vm: arena + VM, base, limit: base.wrapping_add(size) })?;
                carried
            }
            EventId::AllocationFailed => {
                let (pool, arena) = (self.pool(number, 0, clock)?, self.arena(number, clock)?);
                let (size, res) = (also("bytes"), Res::CommitLimit);
                self.put(clock, mps::ArenaAllocFail { arena, size, pool, res })?;
                self.put(clock, mps::SegAllocFail { arena, size, pool, res })?;
                carried
            }
            // The arena is written, but none of its settings.
            EventId::WorldCreated => {
                self.arena(number, clock)?;
                Ok(Some(LESS))
            }
            _ => Ok(Some(NO_RECORD)),
        }
    }

    /// Converts an event of the stopworld provider. Such an event does not state its world, so all of them go to one arena.
    fn of_ours(&mut self, id: EventId, fields: &DecodedFields, clock: u64) -> io::Result<Option<&'static str>> {
        const NUMBER: u64 = 0;
        let word = |name: &str| fields.number(name).unwrap_or(0);
        // A thread that attached before its trace began has no address to which a label could belong.
        let has_label = id == EventId::ThreadAttached && word("record_addr") != 0;
        if id.descriptor().mps.is_empty() && !has_label {
            return Ok(Some(NO_RECORD));
        }
        let arena = self.arena(NUMBER, clock)?;
        let open = self.trace(NUMBER, None);
        match (id, open) {
            (EventId::RootsBegin, Some(trace)) => self.put(clock, mps::TraceFlipBegin { trace, arena })?,
            (EventId::RootsEnd, Some(trace)) => {
                self.arenas.entry(NUMBER).or_default().flipped = true;
                self.put(clock, mps::TraceFlipEnd { trace, arena })?;
            }
            (EventId::MarkBegin, Some(trace)) => {
                self.put(clock, mps::TraceBandAdvance { arena, trace, rank: Rank::Exact })?
            }
            (EventId::SweepBegin, Some(trace)) => self.put(clock, mps::TraceReclaim { trace, arena })?,
            (EventId::RootsBegin | EventId::RootsEnd | EventId::MarkBegin | EventId::SweepBegin, None) => {
                return Ok(Some("the start of its collection is not in the trace"));
            }
            (EventId::RootScanned, _) => {
                self.put(clock, mps::RootScan { root: word("root_addr"), ts: TRACE_SET.into(), summary: u64::MAX })?
            }
            (EventId::AreaScanned, _) => {
                let (base, limit) = (word("base_addr"), word("limit_addr"));
                self.put(clock, mps::TraceScanArea { ss: arena + SCAN, base, limit })?;
            }
            (EventId::ReferenceFixed, _) => {
                let (slot, reference) = (word("slot_addr"), word("reference"));
                let rank = Rank::from_number(word("rank"));
                self.put(clock, mps::TraceFix { ss: arena + SCAN, refIO: slot, r#ref: reference, rank })?;
            }
            (EventId::BlockScanned, _) => {
                let pool = self.pool(NUMBER, word("space"), clock)?;
                self.put(clock, mps::SegScan { seg: word("addr"), pool, arena, ts: TRACE_SET, rank: Rank::Exact })?;
            }
            (EventId::BlockReclaimed, _) => {
                let pool = self.pool(NUMBER, word("space"), clock)?;
                // The names of the parameters are wrong: the MPS writes arena, pool, trace, segment, in this order.
                let trace = open.unwrap_or(0);
                self.put(clock, mps::SegReclaim { seg: arena, pool, arena: trace, trace: word("addr") })?;
            }
            (EventId::BlockAcquired, _) => {
                let (base, size, space) = (word("addr"), word("bytes"), word("space"));
                self.remember(base, size, space);
                let pool = self.pool(NUMBER, space, clock)?;
                self.put(clock, mps::ArenaAlloc { arena, baseTract: base, base, size, pool })?;
                self.put(clock, mps::SegAlloc { arena, seg: base, base, size, pool })?;
            }
            (EventId::BlockReleased, _) => {
                self.blocks.remove(&word("addr"));
                self.release(word("addr"), (word("bytes"), word("space")), clock)?;
            }
            (EventId::CacheRefilled, _) => {
                let (buffer, size) = (word("buffer_addr"), word("asked_bytes"));
                self.put(clock, mps::BufferFill { buffer, size, base: word("addr"), filled: word("bytes") })?;
            }
            (EventId::EmergencySet, _) => {
                self.put(clock, mps::ArenaSetEmergency { arena, emergency: word("emergency") != 0 })?;
            }
            (EventId::ObjectAllocated, _) => {
                let (pool, address, size) = self.object(fields, clock)?;
                self.put(clock, mps::PoolAlloc { pool, pReturn: address, size })?;
            }
            (EventId::ObjectFreed, _) => {
                let (pool, address, size) = self.object(fields, clock)?;
                self.put(clock, mps::PoolFree { pool, old: address, size })?;
            }
            (EventId::FinalizersDue, _) => self.put(clock, mps::MessagesExist {})?,
            (EventId::CommitLimitSet, _) => {
                self.put(clock, mps::CommitLimitSet { arena, limit: word("limit_bytes"), res: Res::Ok })?;
            }
            (EventId::PoolCreated, _) => drop(self.pool(NUMBER, word("space"), clock)?),
            (EventId::PoolClosed, _) => {
                let space = word("space");
                // The blocks of a pool are freed with it.
                let blocks: Vec<(u64, (u64, u64))> = self.blocks.extract_if(.., |_, (_, of)| *of == space).collect();
                for (base, block) in blocks {
                    self.release(base, block, clock)?;
                }
                let pool = self.pool(NUMBER, space, clock)?;
                self.put(clock, mps::PoolFinish { pool, arena })?;
                self.arenas.entry(NUMBER).or_default().pools_announced[space.min(2) as usize] = false;
            }
            (EventId::WorldClosed, _) => {
                self.put(clock, mps::ArenaDestroy { arena })?;
                self.put(clock, mps::VMFinish { vm: arena + VM })?;
                self.arenas.remove(&NUMBER);
            }
            (EventId::Interned, _) => drop(self.intern(fields.text("label").unwrap_or_default(), clock)?),
            (EventId::Labelled, _) => self.label(word("address"), fields.text("label").unwrap_or_default(), clock)?,
            (EventId::ThreadAttached, _) => {
                let name = fields.text("label").unwrap_or_default().to_owned();
                self.label(word("record_addr"), &name, clock)?;
                return Ok(Some("the thread's record is labelled with its name; there is no place for its thread id"));
            }
            _ => return Ok(Some(NO_RECORD)),
        }
        Ok(None)
    }

    fn release(&mut self, base: u64, (size, space): (u64, u64), clock: u64) -> io::Result<()> {
        let (pool, arena) = (self.pool(0, space, clock)?, self.arena(0, clock)?);
        self.put(clock, mps::SegFree { arena, seg: base })?;
        self.put(clock, mps::ArenaFree { arena, base, size, pool })
    }

    /// Returns the pool of an object, which is that of the block that contains it, and the object's address and size.
    fn object(&mut self, fields: &DecodedFields, clock: u64) -> io::Result<(u64, u64, u64)> {
        let (address, bytes) = (fields.number("addr").unwrap_or(0), fields.number("bytes").unwrap_or(0));
        let block = self.blocks.range(..=address).next_back();
        let space = block.filter(|(base, (bytes, _))| address - **base < *bytes).map_or(0, |(_, (_, space))| *space);
        let pool = self.pool(0, space, clock)?;
        Ok((pool, address, bytes))
    }

    fn remember(&mut self, base: u64, bytes: u64, space: u64) {
        if self.blocks.len() < MOST {
            self.blocks.insert(base, (bytes, space));
        }
    }
}

impl<W: Write> Visitor for Writing<'_, W> {
    fn trace(&mut self, trace: &TraceInfo) {
        self.info = Some(trace.clone());
    }

    fn event_type(&mut self, kind: &EventType) -> Interest {
        let meaning = decoded::meaning(kind);
        if self.meanings.len() >= MOST_TYPES {
            // The file describes too many types to keep all: its reader has forgotten the oldest as well.
            self.meanings.retain(|index, _| *index as usize + MOST_TYPES / 2 > kind.index as usize);
        }
        self.meanings.insert(kind.index, (meaning, name_of(kind)));
        Interest::Deliver
    }

    fn event(&mut self, event: &NetEvent<'_>) {
        if self.failed.is_some() {
            return;
        }
        let meaning = self.meanings.get(&event.kind.index).map_or(EventMeaning::Unknown, |(meaning, _)| *meaning);
        match self.take(event, meaning) {
            Ok(None) => self.carried += 1,
            Ok(Some(why)) => {
                let name = self.meanings.get(&event.kind.index).map_or("other types", |(_, name)| name);
                self.left_out.add(name, why, 1);
            }
            Err(error) => self.failed = Some(error),
        }
    }

    fn is_done(&self) -> bool {
        self.failed.is_some()
    }
}
