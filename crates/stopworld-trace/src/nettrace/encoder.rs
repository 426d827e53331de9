//! The container format: encodes events as blobs in blocks of a file.
//!
//! ```text
//!   version 4                                            version 6
//!   "Nettrace" "!FastSerialization.1"                    "Nettrace" 0 6 0
//!   05 05 01 version least name 06 … 06  per object      size|kind<<24 …          per block
//!     Trace                                                1 Trace
//!     MetadataBlock  StackBlock  EventBlock  SPBlock       6 Thread  3 Metadata  5 Stack  2 Event  4 SequencePoint
//!   01                                                   0 End
//! ```
//!
//! Each kind of block has its own buffer, which is copied to the output when it is full and at each flush. A block comes before the
//! blocks that refer to it: threads, then metadata, then events. Event headers are compressed: a field that equals that of the
//! previous event is left out. Every event has the flag that no older event follows.
//!
//! **Sequence points** are written at each flush after new events, and when many threads have been seen. A sequence point has the last
//! sequence number of each thread with a number since the last point, so a loss is visible even if no event follows it. Every event before
//! a sequence point in the file has its time or an earlier one, and every event after it has a later time.
//!
//! **Stacks.** The collector takes no stack traces: every event has stack 0, which means none, and no stack block is written.

use std::io;
use std::time::{SystemTime, UNIX_EPOCH};

use super::Container;
use super::output::TraceOutput;
use super::schema::{Definition, Kind};
use super::threads::{ThreadLookup, Threads};
use crate::os::thread::{getpid, gettid};
use nettrace::Utc;
use nettrace::block::{BLOCK_HEADER, Block, COMPRESSED, NO_PROCESSOR, header_bit};
use stopworld::events::clock::Clock;
use stopworld::events::record::RecordingThread;
use trace_io::bytes::Bytes;

/// The maximum size of a block.
pub(super) const BLOCK_BYTES: usize = 100 << 10;
/// The maximum size of an event header.
const MOST_HEADER: usize = 64;
/// The maximum size of a payload: some readers store its size in 16 bits.
pub(super) const MOST_PAYLOAD: usize = 64_000;

const END_V4: [u8; 1] = [1];
const END_V6: [u8; 4] = [0; 4];

/// The data for the beginning of a trace.
#[derive(Clone, Copy, Debug)]
pub(super) struct Head {
    /// UTC, in nanoseconds since 1970.
    pub(super) utc_ns: u64,
    /// The value of the events' clock at that time.
    pub(super) ticks: u64,
    pub(super) hz: u64,
    pub(super) pid: u32,
    pub(super) processors: u32,
}

impl Head {
    /// Returns the head of a trace of this process that begins now.
    pub(super) fn now() -> Head {
        let clock = Clock::of_process();
        let utc = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Head {
            utc_ns: utc.as_nanos() as u64,
            ticks: clock.now(),
            hz: clock.hz(),
            pid: getpid() as u32,
            processors: std::thread::available_parallelism().map_or(1, |count| count.get() as u32),
        }
    }
}

/// The header of the previous event in this block.
#[derive(Clone, Copy, Debug, Default)]
struct Previous {
    metadata: u32,
    sequence: u32,
    thread: u64,
    processor: u32,
    time: u64,
    length: u64,
}

/// See the module documentation.
#[derive(Debug)]
pub(super) struct Encoder {
    version: Container,
    head: Head,
    pub(super) out: TraceOutput,
    threads: Threads,
    /// The block of events that is being filled; then the blocks of the other kinds.
    events: Bytes,
    metadata: Bytes,
    thread_rows: Bytes,
    removed: Bytes,
    previous: Previous,
    first_time: u64,
    metadata_time: u64,
    /// Records with events in the current block.
    records: u64,
    /// A bit for each kind of event that is defined in the file.
    defined: [u64; Kind::MOST / 64],
    /// A bit for each foreign event that is defined in the file.
    defined_foreign: u64,
    /// The time of the latest event.
    last: u64,
    /// The earliest time that the next event may have.
    floor: u64,
    /// Whether a sequence number has been assigned since the last sequence point.
    points_due: bool,
    /// Number of events encoded.
    pub(super) count: u64,
}

impl Encoder {
    pub(super) fn new(version: Container, head: Head, out: TraceOutput) -> io::Result<Encoder> {
        Ok(Encoder {
            version,
            head,
            out,
            threads: Threads::new()?,
            events: Bytes::with_capacity(BLOCK_BYTES),
            metadata: Bytes::with_capacity(BLOCK_BYTES),
            thread_rows: Bytes::with_capacity(BLOCK_BYTES),
            removed: Bytes::with_capacity(BLOCK_BYTES),
            previous: Previous::default(),
            first_time: 0,
            metadata_time: 0,
            records: 0,
            defined: [0; _],
            defined_foreign: 0,
            last: 0,
            floor: 0,
            points_due: false,
            count: 0,
        })
    }

    pub(super) fn head(&self) -> Head {
        self.head
    }

    // ---- Events --------------------------------------------------------------------------------------------------------

    /// Returns the time that an event with this time gets in the file. A late event cannot be placed before events that are already
    /// written.
    #[inline(always)]
    pub(super) fn time(&self, ticks: u64) -> u64 {
        ticks.max(self.floor)
    }

    /// Writes an event. Returns its time in the file, which is not before that of the previous event.
    #[inline]
    pub(super) fn event(&mut self, kind: Kind, ticks: u64, thread: RecordingThread, payload: &[u8]) -> io::Result<u64> {
        self.make_room(ticks, thread, payload.len())?;
        let id = kind.id();
        if self.defined[id as usize / 64] & 1 << (id % 64) == 0 {
            self.define(kind)?;
        }
        Ok(self.put_event(id, ticks, thread, payload))
    }

    /// Writes a foreign event, one that is not in the event table. Only for version 4. `definition` is the part of a metadata blob
    /// that follows the id. It must always be the same for the same `number`, which is below 64.
    #[cold]
    pub(super) fn foreign(
        &mut self,
        number: u32,
        definition: &[u8],
        ticks: u64,
        thread: RecordingThread,
        payload: &[u8],
    ) -> io::Result<()> {
        debug_assert!(number < 64 && self.version == Container::V4);
        self.make_room(ticks, thread, payload.len())?;
        let id = Kind::MOST as u32 + number;
        if self.defined_foreign & 1 << number == 0 {
            self.defined_foreign |= 1 << number;
            let length = 4 + definition.len();
            self.begin_definition(length)?;
            self.begin_blob(id, length);
            self.metadata.put(definition);
        }
        self.put_event(id, ticks, thread, payload);
        Ok(())
    }

    #[inline(always)]
    fn make_room(&mut self, ticks: u64, thread: RecordingThread, payload: usize) -> io::Result<()> {
        debug_assert!(payload <= MOST_PAYLOAD);
        if self.events.room() < payload + MOST_HEADER {
            self.end_block()?;
        }
        if self.threads.is_full() {
            self.sequence_point(ticks)?;
        }
        self.know(thread)
    }

    #[inline(always)]
    fn put_event(&mut self, id: u32, ticks: u64, thread: RecordingThread, payload: &[u8]) -> u64 {
        let time = self.time(ticks);
        let sequence = self.threads.advance(thread.tid, 1);
        self.header(id, sequence, thread, time, payload.len() as u64);
        self.events.put(payload);
        (self.last, self.floor) = (time, time);
        self.count += 1;
        self.points_due = true;
        time
    }

    #[inline(always)]
    fn header(&mut self, id: u32, sequence: u32, thread: RecordingThread, time: u64, length: u64) {
        if self.events.is_empty() {
            self.first_time = time;
            self.previous = Previous::default();
            block_header(&mut self.events);
        }
        let thread = self.thread_name(thread);
        let before = self.previous;
        // A reader adds 1 by itself: in version 6 always, in version 4 for an event. The header has the rest of the difference.
        let step = sequence.wrapping_sub(before.sequence).wrapping_sub(1);
        let mut flags = header_bit::SORTED;
        flags |= if id != before.metadata { header_bit::KIND } else { 0 };
        let moved = thread != before.thread || step != 0 || before.processor != NO_PROCESSOR;
        flags |= if moved { header_bit::CAPTURE } else { 0 };
        flags |= if thread != before.thread { header_bit::THREAD } else { 0 };
        flags |= if length != before.length { header_bit::LENGTH } else { 0 };
        let events = &mut self.events;
        events.u8(flags);
        if flags & header_bit::KIND != 0 {
            events.varint(u64::from(id));
        }
        if flags & header_bit::CAPTURE != 0 {
            events.varint(u64::from(step));
            events.varint(thread);
            events.varint(u64::from(NO_PROCESSOR));
        }
        if flags & header_bit::THREAD != 0 {
            events.varint(thread);
        }
        events.varint(time - before.time);
        if flags & header_bit::LENGTH != 0 {
            events.varint(length);
        }
        self.previous = Previous { metadata: id, sequence, thread, processor: NO_PROCESSOR, time, length };
    }

    /// Accounts for lost records of a thread, by assigning sequence numbers to them.
    pub(super) fn lose(&mut self, thread: RecordingThread, count: u64) -> io::Result<()> {
        if self.threads.is_full() {
            self.sequence_point(self.last)?;
        }
        self.know(thread)?;
        self.threads.advance(thread.tid, count as u32);
        self.points_due = true;
        Ok(())
    }

    // ---- Threads -------------------------------------------------------------------------------------------------------

    /// Returns the identifier of a thread in events.
    #[inline(always)]
    fn thread_name(&self, thread: RecordingThread) -> u64 {
        match self.version {
            Container::V4 => u64::from(thread.tid),
            Container::V6 => index_of(thread.index),
        }
    }

    #[inline(always)]
    fn know(&mut self, thread: RecordingThread) -> io::Result<()> {
        match self.threads.look_up(thread, self.version == Container::V6) {
            ThreadLookup::Known => Ok(()),
            lookup => self.introduce(thread, lookup),
        }
    }

    #[cold]
    fn introduce(&mut self, thread: RecordingThread, lookup: ThreadLookup) -> io::Result<()> {
        if self.version == Container::V4 {
            return Ok(());
        }
        if let ThreadLookup::InPlaceOf { owner, sequence } = lookup {
            // The last events of the old thread must be written before its removal.
            self.end_block()?;
            self.removed.varint(index_of(owner));
            self.removed.varint(u64::from(sequence));
            self.block(Block::RemoveThread)?;
        }
        if self.thread_rows.room() < 64 {
            self.end_block()?;
        }
        let at = self.thread_rows.len();
        self.thread_rows.u16(0);
        self.thread_rows.varint(index_of(thread.index));
        self.thread_rows.u8(2);
        self.thread_rows.varint(u64::from(self.head.pid));
        self.thread_rows.u8(3);
        self.thread_rows.varint(u64::from(thread.tid));
        let length = self.thread_rows.len() - at - 2;
        self.thread_rows.set(at, &(length as u16).to_le_bytes());
        Ok(())
    }

    // ---- Definitions ---------------------------------------------------------------------------------------------------

    #[cold]
    fn define(&mut self, kind: Kind) -> io::Result<()> {
        let id = kind.id();
        self.defined[id as usize / 64] |= 1 << (id % 64);
        let definition = kind.definition();
        // A row in version 6 is not longer than one in version 4.
        let length = v4_length(&definition);
        self.begin_definition(length)?;
        match self.version {
            Container::V4 => self.define_v4(id, &definition, length),
            Container::V6 => self.define_v6(id, &definition),
        }
        Ok(())
    }

    /// Makes room for a definition of `length` bytes in version 4.
    fn begin_definition(&mut self, length: usize) -> io::Result<()> {
        debug_assert!(length + MOST_HEADER < BLOCK_BYTES);
        if self.metadata.room() < length + MOST_HEADER {
            self.block(Block::Metadata)?;
        }
        if self.metadata.is_empty() {
            self.metadata_time = self.floor.max(self.head.ticks);
            match self.version {
                Container::V4 => block_header(&mut self.metadata),
                // An empty header consists only of its length.
                Container::V6 => self.metadata.u16(0),
            }
        }
        Ok(())
    }

    /// Begins a metadata blob. Its header has the time (a difference, so only the first is not 0) and the length; all else is 0.
    fn begin_blob(&mut self, id: u32, length: usize) {
        let to = &mut self.metadata;
        let is_first = to.len() == usize::from(BLOCK_HEADER);
        to.u8(header_bit::SORTED | header_bit::LENGTH);
        to.varint(if is_first { self.metadata_time } else { 0 });
        to.varint(length as u64);
        to.u32(id);
    }

    fn define_v4(&mut self, id: u32, definition: &Definition, length: usize) {
        self.begin_blob(id, length);
        let to = &mut self.metadata;
        let begin = to.len() - 4;
        to.utf16(definition.provider, usize::MAX);
        to.u32(definition.id);
        to.utf16(definition.name, usize::MAX);
        to.u64(definition.keywords);
        to.u32(definition.version.into());
        to.u32(definition.level.into());
        to.u32(definition.fields.count() as u32);
        definition.fields.each(|name, kind| {
            to.u32(kind.code().into());
            to.utf16(name, usize::MAX);
        });
        if definition.opcode != 0 {
            to.u32(1);
            to.u8(1);
            to.u8(definition.opcode);
        }
        debug_assert_eq!(to.len() - begin, length, "{}", definition.name);
    }

    fn define_v6(&mut self, id: u32, definition: &Definition) {
        let to = &mut self.metadata;
        let row = to.len();
        to.u16(0);
        to.varint(u64::from(id));
        to.utf8(definition.provider);
        to.varint(u64::from(definition.id));
        to.utf8(definition.name);
        to.u16(definition.fields.count() as u16);
        definition.fields.each(|name, kind| {
            to.u16((name.len() + 2) as u16);
            to.utf8(name);
            to.u8(kind.code());
        });
        let options = to.len();
        to.u16(0);
        if definition.opcode != 0 {
            to.u8(1);
            to.u8(definition.opcode);
        }
        to.u8(3);
        to.u64(definition.keywords);
        to.u8(8);
        to.u8(definition.level);
        to.u8(9);
        to.u8(definition.version);
        let end = to.len();
        to.set(options, &((end - options - 2) as u16).to_le_bytes());
        to.set(row, &((end - row - 2) as u16).to_le_bytes());
    }

    // ---- Blocks --------------------------------------------------------------------------------------------------------

    /// Writes the beginning of the file. Allocates.
    pub(super) fn begin(&mut self) {
        let Head { ticks, hz, pid, processors, .. } = self.head;
        let out = self.out.bytes();
        out.put(b"Nettrace");
        match self.version {
            Container::V4 => {
                out.u32(20);
                out.put(b"!FastSerialization.1");
            }
            Container::V6 => [0, 6, 0].into_iter().for_each(|word| out.u32(word)),
        }
        let mut body = Bytes::with_capacity(256);
        Utc::at(self.head.utc_ns).parts().into_iter().for_each(|part| body.u16(part));
        body.u64(ticks);
        body.u64(hz);
        body.u32(8);
        match self.version {
            Container::V4 => {
                body.u32(pid);
                body.u32(processors);
                body.u32(1_000_000);
            }
            Container::V6 => {
                body.u32(2);
                for (key, value) in [("ProcessId", pid), ("HardwareThreadCount", processors)] {
                    body.utf8(key);
                    body.utf8(&value.to_string());
                }
            }
        }
        self.put_block(Block::Trace, body.as_slice());
    }

    /// Copies the current block of this kind to the output.
    fn block(&mut self, kind: Block) -> io::Result<()> {
        let source = match kind {
            Block::Event => &mut self.events,
            Block::Metadata => &mut self.metadata,
            Block::Thread => &mut self.thread_rows,
            Block::RemoveThread => &mut self.removed,
            _ => return Ok(()),
        };
        if source.is_empty() {
            return Ok(());
        }
        match kind {
            Block::Event => {
                source.set(4, &self.first_time.to_le_bytes());
                source.set(12, &self.last.to_le_bytes());
                self.out.count_records(std::mem::take(&mut self.records));
            }
            Block::Metadata if self.version == Container::V4 => {
                source.set(4, &self.metadata_time.to_le_bytes());
                source.set(12, &self.metadata_time.to_le_bytes());
            }
            _ => {}
        }
        let body = std::mem::replace(source, Bytes::with_capacity(0));
        self.put_block(kind, body.as_slice());
        let source = match kind {
            Block::Event => &mut self.events,
            Block::Metadata => &mut self.metadata,
            Block::Thread => &mut self.thread_rows,
            _ => &mut self.removed,
        };
        *source = body;
        source.clear();
        if self.out.is_full() { self.out.write_out(self.end(), false) } else { Ok(()) }
    }

    fn put_block(&mut self, kind: Block, body: &[u8]) {
        match self.version {
            Container::V4 => {
                let numbers = if matches!(kind, Block::Trace) { [4, 4] } else { [2, 2] };
                let out = self.out.bytes();
                out.put(&[5, 5, 1]);
                numbers.into_iter().for_each(|number| out.u32(number));
                out.u32(kind.name().len() as u32);
                out.put(kind.name().as_bytes());
                out.u8(6);
                if !matches!(kind, Block::Trace) {
                    out.u32(body.len() as u32);
                    while !self.out.offset().is_multiple_of(4) {
                        self.out.bytes().u8(0);
                    }
                }
                let out = self.out.bytes();
                out.put(body);
                out.u8(6);
            }
            Container::V6 => {
                let out = self.out.bytes();
                out.u32(body.len() as u32 | (kind as u32) << 24);
                out.put(body);
            }
        }
    }

    /// Ends the current blocks.
    fn end_block(&mut self) -> io::Result<()> {
        self.block(Block::Thread)?;
        self.block(Block::Metadata)?;
        self.block(Block::Event)
    }

    /// Writes a sequence point after the current blocks. All records up to the time `ticks` must have been written.
    #[cold]
    fn sequence_point(&mut self, ticks: u64) -> io::Result<()> {
        self.end_block()?;
        let time = self.time(ticks);
        let mut body = [0; 16];
        body[..8].copy_from_slice(&time.to_le_bytes());
        let mut row = Bytes::with_capacity(0);
        std::mem::swap(&mut row, &mut self.removed);
        row.put(&body[..8]);
        if self.version == Container::V6 {
            row.u32(0);
        }
        let touched = self.threads.touched();
        row.u32(touched.len() as u32);
        for (tid, index, sequence) in touched {
            match self.version {
                Container::V4 => {
                    row.u64(u64::from(tid));
                    row.u32(sequence);
                }
                Container::V6 => {
                    row.varint(index_of(index));
                    row.varint(u64::from(sequence));
                }
            }
        }
        self.put_block(Block::SequencePoint, row.as_slice());
        row.clear();
        self.removed = row;
        self.threads.point();
        self.points_due = false;
        self.floor = time + 1;
        if self.out.is_full() { self.out.write_out(self.end(), false) } else { Ok(()) }
    }

    fn end(&self) -> &'static [u8] {
        match self.version {
            Container::V4 => &END_V4,
            Container::V6 => &END_V6,
        }
    }

    /// Writes everything to the file, which is complete then. All records up to the time `ticks` must have been taken.
    pub(super) fn flush(&mut self, ticks: u64, is_last: bool) -> io::Result<()> {
        if self.points_due {
            self.sequence_point(ticks)?;
        }
        self.out.write_out(self.end(), is_last)
    }

    /// Counts a record, before its events.
    #[inline(always)]
    pub(super) fn count_record(&mut self) {
        self.records += 1;
    }

    /// Returns the number of records lost because of an error.
    pub(super) fn lost(&self) -> u64 {
        self.out.lost() + self.records
    }
}

/// The index of the thread that starts a trace; no recording thread has it.
const OPENER_INDEX: u32 = u32::MAX - 1;

/// Returns the calling thread, which starts a trace. The recorder gives an index to each thread that fires an event. The calling thread
/// may never fire one, so its index is [`OPENER_INDEX`].
pub(super) fn opener() -> RecordingThread {
    RecordingThread { tid: gettid().0 as u32, index: OPENER_INDEX }
}

/// Returns the index of a thread in version 6: 1 for the thread that started the trace, 2 and up for those of the recorder.
fn index_of(index: u32) -> u64 {
    if index == OPENER_INDEX { 1 } else { u64::from(index) + 2 }
}

/// Writes the header of a block of events or metadata. Its times are set when the block ends.
fn block_header(to: &mut Bytes) {
    to.u16(BLOCK_HEADER);
    to.u16(COMPRESSED);
    to.u64(0);
    to.u64(0);
}

fn v4_length(definition: &Definition) -> usize {
    let text = |text: &str| 2 * text.encode_utf16().count() + 2;
    let mut length = 4 + text(definition.provider) + 4 + text(definition.name) + 8 + 4 + 4 + 4;
    definition.fields.each(|name, _| length += 4 + text(name));
    length + if definition.opcode != 0 { 6 } else { 0 }
}
