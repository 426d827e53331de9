//! From .NET's format to a telemetry stream.
//!
//! What an event becomes the table says, by the row that has both. Events that were made of a stream's records become those records again, exactly;
//! then .NET's events beside them are left out, since they say the same.
//!
//! A stream names things by address, and .NET's events name few. So the arena, its reservation, its pools, its traces have
//! addresses that name nothing else: `n00000`, where n is 1 and the number of the runtime (`ClrInstanceID`), and close by. They are labelled.
//!
//! | record | what is not known, and 0 |
//! |---|---|
//! | ArenaCreateVM | size, grain |
//! | TraceStart | mortality, the times; `condemned` is the heap as GCHeapStats last told |
//! | RootScan, SegScan, SegReclaim | sets, summaries, as our own streams have them |
//!
//! `EventClockSync` gives the microseconds since the trace began instead of processor time. Records whose order matters have clocks a
//! tick apart.

use std::collections::{BTreeMap, HashMap};
use std::io::{self, BufWriter, Read, Write};

use super::containers::name_of;
use super::story::{self, Meaning, Said};
use super::telemetry;
use super::{Conversion, ConvertError, LeftOut};
use mps_telemetry::encode::{Encoder, Value};
use mps_telemetry::{Layout, Version};
use nettrace::{EventType, Interest, NetEvent, Reader, TraceInfo, Visitor};
use stopworld::events::EventId;
use stopworld::formats::mps::CLOCK_TEXT;

const NO_RECORD: &str = "the Memory Pool System has no record for it";
const LESS: &str = "the record has no place for all that the event says";
const NOT_GC: &str = "it is a stop that is not for a collection";
const SAME: &str = "it says what the stream's own records say";
const NO_SIZE: &str = "its segment was never told of, so where it ends is not known";
const CUT: &str = "a string of a record has 255 bytes";

/// A sync of the clocks each so often, in microseconds.
const SYNC_US: u64 = 100_000;
/// Segments and blocks that are remembered, and sixteen times as many as texts are.
const MOST: usize = 1 << 18;
/// Types that are known at once.
const MOST_TYPES: usize = 1 << 17;
/// Why a world is stopped: for a collection, or for its preparation.
const FOR_GC: [u64; 2] = [1, 6];
const WHY_DYNAMIC: u64 = 1;
const WHY_FULL: u64 = 4;
const RANK_EXACT: u64 = 1;
const RANK_WEAK: u64 = 3;
/// The commit limit is reached.
const RES_COMMIT_LIMIT: u64 = 7;
const FULL: u64 = 2;

/// Addresses that name nothing else, by what they are of an arena.
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

/// What a runtime is in the middle of.
#[derive(Debug, Default)]
struct Arena {
    told: bool,
    pools_told: [bool; 3],
    poll_open: bool,
    /// Whether a collection came since.
    worked: bool,
    traces: Vec<u64>,
    /// Whether the trace's roots have been told of: references come in bands after that.
    flipped: bool,
    heap: u64,
}

struct Writing<'l, W: Write> {
    encoder: Encoder<BufWriter<W>>,
    left_out: &'l mut LeftOut,
    info: Option<TraceInfo>,
    meanings: HashMap<u32, (Meaning, String)>,
    has_records: bool,
    arenas: HashMap<u64, Arena>,
    /// The sizes of segments.
    segments: HashMap<u64, u64>,
    /// Blocks: size, and the space that a block is of.
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

    fn put(&mut self, name: &str, clock: u64, words: &[u64]) -> io::Result<()> {
        let values: Vec<Value<'_>> = words.iter().copied().map(Value::Word).collect();
        self.put_values(name, clock, &values)
    }

    fn put_values(&mut self, name: &str, clock: u64, values: &[Value<'_>]) -> io::Result<()> {
        let Some(layout) = Version::V2.layouts().iter().find(|layout| layout.name == name) else { return Ok(()) };
        // Past the last number there is no later clock.
        let clock = if clock > self.last { clock } else { self.last.saturating_add(1) };
        self.last = clock;
        let is_whole = self.encoder.record(layout, clock, values)?;
        self.left_out.add(layout.name, CUT, u64::from(!is_whole));
        Ok(())
    }

    fn us(&self, clock: u64) -> u64 {
        let Some(info) = &self.info else { return 0 };
        let since = i128::from(clock) - i128::from(info.start_ticks);
        u64::try_from(since * 1_000_000 / i128::from(info.ticks_per_second)).unwrap_or(0)
    }

    fn sync(&mut self, clock: u64) -> io::Result<()> {
        self.synced_us = self.us(clock).max(self.synced_us.saturating_add(1));
        self.put("EventClockSync", clock, &[self.synced_us])
    }

    fn begin(&mut self, clock: u64) -> io::Result<()> {
        let version = Version::V2.numbers().map(u64::from);
        let words = [version[0], version[1], version[2], Version::V2.max_code().into(), 19, 64, 1_000_000];
        self.begun = true;
        self.put("EventInit", clock, &words)?;
        self.put("EventClockSync", clock, &[0])?;
        let ticks_per_second = self.info.as_ref().map_or(0, |info| info.ticks_per_second);
        self.intern(&format!("{CLOCK_TEXT}{ticks_per_second}"), clock).map(drop)
    }

    /// The number of a text, which is told when it is new.
    fn intern(&mut self, text: &str, clock: u64) -> io::Result<u64> {
        if let Some(number) = self.texts.get(text) {
            return Ok(*number);
        }
        let number = self.next_text;
        self.next_text += 1;
        if self.texts.len() < MOST / 16 {
            self.texts.insert(text.to_owned(), number);
        }
        self.put_values("Intern", clock, &[Value::Word(number), Value::Text(text.as_bytes())])?;
        Ok(number)
    }

    fn label(&mut self, address: u64, text: &str, clock: u64) -> io::Result<()> {
        let number = self.intern(text, clock)?;
        self.put("LabelPointer", clock, &[address, number])?;
        self.put("Label", clock, &[address, number])
    }

    // ---- What there is -------------------------------------------------------------------------------------------------

    /// The arena of a runtime, told of.
    fn arena(&mut self, number: u64, clock: u64) -> io::Result<u64> {
        let address = ARENA * (1 + number);
        let arena = self.arenas.entry(number).or_default();
        if !std::mem::replace(&mut arena.told, true) {
            self.label(address + CLASS, "Converted", clock)?;
            self.put("VMInit", clock, &[address + VM, 0, 0])?;
            self.put("ArenaCreateVM", clock, &[address, 0, 0, 0, address + CLASS, 0, number + 1])?;
        }
        Ok(address)
    }

    /// A pool of it: 0 small, 1 pinned, 2 large objects.
    fn pool(&mut self, number: u64, space: u64, clock: u64) -> io::Result<u64> {
        let space = space.min(2);
        let arena = self.arena(number, clock)?;
        let pool = arena + POOLS + 8 * space;
        let known = self.arenas.entry(number).or_default();
        if !std::mem::replace(&mut known.pools_told[space as usize], true) {
            self.label(pool, ["small objects", "pinned objects", "large objects"][space as usize], clock)?;
            self.put("PoolInit", clock, &[pool, arena, arena + CLASS, space + 1])?;
        }
        Ok(pool)
    }

    /// The trace of a collection, or of the one that is under way.
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
        self.put("ArenaPollEnd", clock, &[arena, worked.into()])?;
        Ok(true)
    }

    fn end_trace(&mut self, number: u64, collection: u64, clock: u64) -> io::Result<bool> {
        let Some(trace) = self.trace(number, Some(collection)) else { return Ok(false) };
        let arena = self.arena(number, clock)?;
        self.arenas.entry(number).or_default().traces.retain(|open| *open != collection);
        self.put("TraceDestroy", clock, &[arena, trace])?;
        Ok(true)
    }

    // ---- Events --------------------------------------------------------------------------------------------------------

    /// An event; why it is not carried over, if it isn't.
    fn take(&mut self, event: &NetEvent<'_>, meaning: Meaning) -> io::Result<Option<&'static str>> {
        let clock = event.time as u64;
        if let Meaning::Telemetry(layout) = meaning {
            return self.record(event, layout, clock);
        }
        if self.has_records {
            return Ok(Some(if matches!(meaning, Meaning::Net(_)) { SAME } else { NO_RECORD }));
        }
        let pointer_bytes = self.info.as_ref().map_or(8, |info| info.pointer_bytes);
        let said = story::said(event, pointer_bytes);
        let Some(id) = story::id_of(meaning, event.kind, &said) else { return Ok(Some(NO_RECORD)) };
        if !self.begun {
            let start = self.info.as_ref().map_or(clock, |info| info.start_ticks as u64);
            self.begin(start.min(clock))?;
        }
        if self.us(clock) >= self.synced_us.saturating_add(SYNC_US) {
            self.sync(clock)?;
        }
        if let Meaning::Own(id) = meaning {
            self.of_ours(id, &said, clock)
        } else {
            let dynamic =
                if meaning == Meaning::Dynamic { story::dynamic_fields(id, event.payload) } else { Vec::new() };
            self.of_the_runtime(id, &said, &dynamic, clock)
        }
    }

    /// A record that was an event for a while.
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
            return Ok(Some("it is a record of version 1.0.0: convert the stream itself"));
        }
        self.last = self.last.max(clock);
        self.encoder.record(layout, clock, &values).map(|_| None)
    }

    /// An event of .NET's.
    fn of_the_runtime(
        &mut self,
        id: EventId,
        said: &Said,
        dynamic: &[(&str, u64)],
        clock: u64,
    ) -> io::Result<Option<&'static str>> {
        // The template has 16 bits for it. The file's own description of the event may have more; what they say is no runtime's number.
        let number = said.number("ClrInstanceID").and_then(|number| u16::try_from(number).ok()).unwrap_or(0).into();
        let word = |name: &str| said.number(name).unwrap_or(0);
        let also = |name: &str| dynamic.iter().find(|(known, _)| *known == name).map_or(0, |(_, value)| *value);
        let carried = Ok(None);
        match id {
            EventId::SuspendBegin if FOR_GC.contains(&word("Reason")) => {
                self.end_poll(number, true, clock)?;
                let arena = self.arena(number, clock)?;
                self.arenas.entry(number).or_default().poll_open = true;
                self.put("ArenaPollBegin", clock, &[arena])?;
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
                let why = if word("Reason") == 1 { WHY_FULL } else { WHY_DYNAMIC };
                let why = if word("Depth") < FULL { 0 } else { why };
                self.put("TraceCreate", clock, &[trace, arena, why])?;
                if word("Depth") >= FULL {
                    self.put("TraceCondemnAll", clock, &[arena, trace])?;
                }
                self.put("TraceStart", clock, &[arena, trace, 0, 0, heap, 0, 0, u64::MAX, 0])?;
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
                self.put("TraceBandAdvance", clock, &[arena, trace, RANK_WEAK])?;
                carried
            }
            EventId::HeapStats => {
                let sizes =
                    ["GenerationSize0", "GenerationSize1", "GenerationSize2", "GenerationSize3", "GenerationSize4"];
                self.arenas.entry(number).or_default().heap =
                    sizes.iter().fold(0, |sum: u64, name| sum.saturating_add(word(name)));
                Ok(Some("the heap's size goes into the next TraceStart, and nothing else of it"))
            }
            EventId::SegmentCreated => {
                let (base, bytes) = (word("Address"), word("Size"));
                if self.segments.len() < MOST {
                    self.segments.insert(base, bytes);
                }
                let arena = self.arena(number, clock)?;
                self.put("VMMap", clock, &[arena + VM, base, base.wrapping_add(bytes)])?;
                self.put("ArenaExtend", clock, &[arena, base, bytes])?;
                carried
            }
            EventId::SegmentFreed => {
                let base = word("Address");
                let Some(bytes) = self.segments.remove(&base) else { return Ok(Some(NO_SIZE)) };
                let arena = self.arena(number, clock)?;
                self.put("VMUnmap", clock, &[arena + VM, base, base.wrapping_add(bytes)])?;
                carried
            }
            EventId::AllocationFailed => {
                let (pool, arena) = (self.pool(number, 0, clock)?, self.arena(number, clock)?);
                for name in ["ArenaAllocFail", "SegAllocFail"] {
                    self.put(name, clock, &[arena, also("bytes"), pool, RES_COMMIT_LIMIT])?;
                }
                carried
            }
            // The arena is told of, and nothing of its settings.
            EventId::WorldCreated => {
                self.arena(number, clock)?;
                Ok(Some(LESS))
            }
            _ => Ok(Some(NO_RECORD)),
        }
    }

    /// An event of our own provider, which does not say of which world it is.
    fn of_ours(&mut self, id: EventId, said: &Said, clock: u64) -> io::Result<Option<&'static str>> {
        const NUMBER: u64 = 0;
        if id.descriptor().mps.is_empty() && !matches!(id, EventId::ThreadAttached) {
            return Ok(Some(NO_RECORD));
        }
        let word = |name: &str| said.number(name).unwrap_or(0);
        let arena = self.arena(NUMBER, clock)?;
        let open = self.trace(NUMBER, None);
        match (id, open) {
            (EventId::RootsBegin, Some(trace)) => self.put("TraceFlipBegin", clock, &[trace, arena])?,
            (EventId::RootsEnd, Some(trace)) => {
                self.arenas.entry(NUMBER).or_default().flipped = true;
                self.put("TraceFlipEnd", clock, &[trace, arena])?;
            }
            (EventId::MarkBegin, Some(trace)) => self.put("TraceBandAdvance", clock, &[arena, trace, RANK_EXACT])?,
            (EventId::SweepBegin, Some(trace)) => self.put("TraceReclaim", clock, &[trace, arena])?,
            (EventId::RootsBegin | EventId::RootsEnd | EventId::MarkBegin | EventId::SweepBegin, None) => {
                return Ok(Some("it is of a collection that the trace does not begin"));
            }
            (EventId::RootScanned, _) => self.put("RootScan", clock, &[word("root_addr"), 1, u64::MAX])?,
            (EventId::AreaScanned, _) => {
                self.put("TraceScanArea", clock, &[arena + SCAN, word("base_addr"), word("limit_addr")])?;
            }
            (EventId::ReferenceFixed, _) => {
                let words = [arena + SCAN, word("slot_addr"), word("reference"), word("rank")];
                self.put("TraceFix", clock, &words)?;
            }
            (EventId::BlockScanned, _) => {
                let pool = self.pool(NUMBER, word("space"), clock)?;
                self.put("SegScan", clock, &[word("addr"), pool, arena, 1, RANK_EXACT])?;
            }
            (EventId::BlockReclaimed, _) => {
                let pool = self.pool(NUMBER, word("space"), clock)?;
                // Its parameters are called seg, pool, arena, trace. This is what the MPS puts there.
                self.put("SegReclaim", clock, &[arena, pool, open.unwrap_or(0), word("addr")])?;
            }
            (EventId::BlockAcquired, _) => {
                let (base, bytes, space) = (word("addr"), word("bytes"), word("space"));
                self.remember(base, bytes, space);
                let pool = self.pool(NUMBER, space, clock)?;
                self.put("ArenaAlloc", clock, &[arena, base, base, bytes, pool])?;
                self.put("SegAlloc", clock, &[arena, base, base, bytes, pool])?;
            }
            (EventId::BlockReleased, _) => {
                self.blocks.remove(&word("addr"));
                self.release(word("addr"), (word("bytes"), word("space")), clock)?;
            }
            (EventId::CacheRefilled, _) => {
                let words = [word("buffer_addr"), word("asked_bytes"), word("addr"), word("bytes")];
                self.put("BufferFill", clock, &words)?;
            }
            (EventId::EmergencySet, _) => self.put("ArenaSetEmergency", clock, &[arena, word("emergency")])?,
            (EventId::ObjectAllocated, _) => self.object("PoolAlloc", said, clock)?,
            (EventId::ObjectFreed, _) => self.object("PoolFree", said, clock)?,
            (EventId::FinalizersDue, _) => self.put("MessagesExist", clock, &[])?,
            (EventId::CommitLimitSet, _) => self.put("CommitLimitSet", clock, &[arena, word("limit_bytes"), 0])?,
            (EventId::PoolCreated, _) => drop(self.pool(NUMBER, word("space"), clock)?),
            (EventId::PoolClosed, _) => {
                let space = word("space");
                // Its blocks go with it.
                let blocks: Vec<(u64, (u64, u64))> = self.blocks.extract_if(.., |_, (_, of)| *of == space).collect();
                for (base, block) in blocks {
                    self.release(base, block, clock)?;
                }
                let pool = self.pool(NUMBER, space, clock)?;
                self.put("PoolFinish", clock, &[pool, arena])?;
                self.arenas.entry(NUMBER).or_default().pools_told[space.min(2) as usize] = false;
            }
            (EventId::WorldClosed, _) => {
                self.put("ArenaDestroy", clock, &[arena])?;
                self.put("VMFinish", clock, &[arena + VM])?;
                self.arenas.remove(&NUMBER);
            }
            (EventId::Interned, _) => drop(self.intern(said.text("label").unwrap_or_default(), clock)?),
            (EventId::Labelled, _) => self.label(word("address"), said.text("label").unwrap_or_default(), clock)?,
            (EventId::ThreadAttached, _) => {
                let name = said.text("label").unwrap_or_default().to_owned();
                self.label(word("record_addr"), &name, clock)?;
                return Ok(Some("the thread's record is labelled with its name; whose id it is has no place"));
            }
            _ => return Ok(Some(NO_RECORD)),
        }
        Ok(None)
    }

    fn release(&mut self, base: u64, (bytes, space): (u64, u64), clock: u64) -> io::Result<()> {
        let (pool, arena) = (self.pool(0, space, clock)?, self.arena(0, clock)?);
        self.put("SegFree", clock, &[arena, base])?;
        self.put("ArenaFree", clock, &[arena, base, bytes, pool])
    }

    /// An object, in the pool of the block that it lies in.
    fn object(&mut self, name: &str, said: &Said, clock: u64) -> io::Result<()> {
        let (address, bytes) = (said.number("addr").unwrap_or(0), said.number("bytes").unwrap_or(0));
        let block = self.blocks.range(..=address).next_back();
        let space = block.filter(|(base, (bytes, _))| address - **base < *bytes).map_or(0, |(_, (_, space))| *space);
        let pool = self.pool(0, space, clock)?;
        self.put(name, clock, &[pool, address, bytes])
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
        let meaning = story::meaning(kind);
        if self.meanings.len() >= MOST_TYPES {
            // The oldest have been forgotten by the file: it has let so many come.
            self.meanings.retain(|index, _| *index as usize + MOST_TYPES / 2 > kind.index as usize);
        }
        self.meanings.insert(kind.index, (meaning, name_of(kind)));
        Interest::Deliver
    }

    fn event(&mut self, event: &NetEvent<'_>) {
        if self.failed.is_some() {
            return;
        }
        let meaning = self.meanings.get(&event.kind.index).map_or(Meaning::Unknown, |(meaning, _)| *meaning);
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
