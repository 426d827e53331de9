//! Writes a trace in either container, from what a reader delivers or from any other source.
//!
//! ```text
//!   types ───► rows ──┐
//!   stacks ──► rows ──┼─► threads, types, stacks, labels, events
//!   labels ──► rows ──┤
//!   events ──► blobs ─┘
//!   sequence points: everything before, then the point
//! ```
//! The encoder accepts types at any time. The caller orders the events and numbers them: an event is written with
//! the sequence number, the sorted flag and the ids that the caller passes. Event headers are compressed.
//!
//! **Memory.** All buffers have their final size when the encoder is created, so it allocates only for an item that is longer than a
//! block, and for labels. A program that must not allocate while it writes passes payloads and stacks of less than 64 KB and no labels
//! (the context of its events is `()` or [`OnStack`]), and its types as implementations of [`Describe`].
//!
//! **In version 4 an event without the sorted flag must have the capturing thread of the event before it in the block**: TraceEvent
//! attributes such an event to that thread, whatever its header states. So an event without the flag begins a new block when its capturing
//! thread differs.
//!
//! **What a container cannot express** is omitted and reported: a type with fields for which version 4 has no code is written
//! without fields, and the payloads of its events unchanged ([`Described`]).

mod append;
mod description;
mod header;

use std::io::{self, Write};

use trace_io::bytes::Bytes;

pub use self::description::{Describe, Described, Field, Identity, Texts};
pub use self::header::{Context, EventContext, Header, OnStack};
use super::Container;
use super::block::{BLOCK_HEADER, Block, COMPRESSED, header_bit};
use super::metadata::TraceInfo;
use append::{LONGEST_NAME, utf8, varint};
use description::{description_4, short_row_6};
use header::Previous;

/// A block is written before it would exceed this size in bytes; a longer item gets a block of its own.
pub const BLOCK_BYTES: usize = 100 << 10;
/// The size limit of a block of version 6, in bytes.
const LARGEST_BLOCK: usize = (1 << 24) - 1;
/// A longer payload is not written: with the headers of its event and its block it would exceed [`LARGEST_BLOCK`].
const MOST_PAYLOAD: usize = LARGEST_BLOCK - 160;

/// The result of writing an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Written {
    /// The event was written.
    Yes,
    /// The event was not written: its payload is longer than the largest block.
    TooLong,
}

/// The parts of the trace's description that the container could not express.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TraceDescribed {
    /// The number of key-value pairs omitted.
    pub pairs_left_out: u64,
}

/// Where an encoder writes: any [`Write`], or an output that acts on whole blocks.
pub trait Output {
    /// Appends bytes to the file.
    ///
    /// # Errors
    /// The bytes cannot be written. The encoder must not be used any more.
    fn put(&mut self, bytes: &[u8]) -> io::Result<()>;

    /// Is called after the last byte of each block.
    ///
    /// # Errors
    /// As for [`put`](Self::put).
    fn block_ended(&mut self, block: Block) -> io::Result<()> {
        let _ = block;
        Ok(())
    }
}

impl<W: Write> Output for W {
    fn put(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.write_all(bytes)
    }
}

/// Returns the bytes at the end of a complete file.
pub const fn end_tag(container: Container) -> &'static [u8] {
    match container {
        Container::V4 => &[1],
        Container::V6 => &[0; 4],
    }
}

/// Rows with consecutive numbers.
#[derive(Debug, Default)]
struct Numbered {
    bytes: Vec<u8>,
    first: u32,
    count: u32,
}

/// The file, as a sequence of blocks.
#[derive(Debug)]
struct Blocks<O> {
    out: O,
    offset: u64,
    container: Container,
    /// The beginning of a block.
    head: Bytes,
}

/// Writes a trace. See the [module](self).
#[derive(Debug)]
pub struct Encoder<O, C = Context> {
    file: Blocks<O>,
    events: Bytes,
    previous: Previous<C>,
    times: (i64, i64),
    types: Vec<u8>,
    /// The time in the headers of type descriptions.
    types_time: i64,
    threads: Vec<u8>,
    stacks: Numbered,
    labels: Numbered,
    /// The sequence point that is being built, and the number of its rows.
    point: (Vec<u8>, u32),
    /// A row that is being built.
    row: Vec<u8>,
}

impl<O: Output, C: EventContext> Encoder<O, C> {
    /// Creates an encoder that has written nothing. The first call must be [`trace`](Self::trace).
    pub fn new(out: O, container: Container) -> Encoder<O, C> {
        Encoder {
            file: Blocks { out, offset: 0, container, head: Bytes::with_capacity(64) },
            events: Bytes::with_capacity(BLOCK_BYTES),
            previous: Previous::default(),
            times: (0, 0),
            types: Vec::with_capacity(BLOCK_BYTES),
            types_time: 0,
            threads: Vec::with_capacity(BLOCK_BYTES),
            stacks: Numbered { bytes: Vec::with_capacity(BLOCK_BYTES), ..Numbered::default() },
            labels: Numbered::default(),
            point: (Vec::with_capacity(BLOCK_BYTES), 0),
            row: Vec::with_capacity(BLOCK_BYTES),
        }
    }

    /// The container of the file.
    pub fn container(&self) -> Container {
        self.file.container
    }

    /// The output.
    pub fn output(&self) -> &O {
        &self.file.out
    }

    /// The output. What is written to it directly is not part of the trace, unless it is the [`end_tag`].
    pub fn output_mut(&mut self) -> &mut O {
        &mut self.file.out
    }

    // ---- The trace -----------------------------------------------------------------------------------------------------

    /// Writes the beginning of the file.
    pub fn trace(&mut self, info: &TraceInfo) -> io::Result<TraceDescribed> {
        self.types_time = info.start_ticks;
        let mut body = Vec::new();
        info.start.parts().into_iter().for_each(|part| body.extend(part.to_le_bytes()));
        body.extend(info.start_ticks.to_le_bytes());
        body.extend(info.ticks_per_second.to_le_bytes());
        body.extend(u32::from(info.pointer_bytes).to_le_bytes());
        let known = [
            ("ProcessId", info.process_id),
            ("HardwareThreadCount", info.processors),
            ("ExpectedCPUSamplingRate", info.sampling_period_ns),
        ];
        let container = self.container();
        match container {
            Container::V4 => {
                self.file.put(b"Nettrace\x14\0\0\0!FastSerialization.1")?;
                known.into_iter().for_each(|(_, number)| body.extend(number.to_le_bytes()));
            }
            Container::V6 => {
                self.file.put(b"Nettrace\0\0\0\0\x06\0\0\0\0\0\0\0")?;
                let mut pairs: Vec<(&str, String)> =
                    info.pairs.iter().map(|(key, value)| (key.as_str(), value.clone())).collect();
                for (key, number) in known {
                    if number != 0 && pairs.iter().all(|(known, _)| *known != key) {
                        pairs.push((key, number.to_string()));
                    }
                }
                body.extend((pairs.len() as u32).to_le_bytes());
                for (key, value) in pairs {
                    utf8(&mut body, key);
                    utf8(&mut body, &value);
                }
            }
        }
        self.file.block(Block::Trace, &body)?;
        let has_no_place =
            |(key, _): &&(String, String)| container == Container::V4 && !known.iter().any(|(name, _)| key == name);
        Ok(TraceDescribed { pairs_left_out: info.pairs.iter().filter(has_no_place).count() as u64 })
    }

    // ---- What events refer to ------------------------------------------------------------------------------------------

    /// Sets the time of the type descriptions that follow; at first it is the time at which the trace began. Only version 4 has it.
    pub fn describe_at(&mut self, time: i64) {
        self.types_time = time;
    }

    /// Describes a type of event and assigns it this id.
    pub fn event_type(&mut self, id: u32, kind: &impl Describe) -> io::Result<Described> {
        let mut row = std::mem::take(&mut self.row);
        row.clear();
        let described = match self.container() {
            Container::V4 => description_4(&mut row, id, kind),
            Container::V6 => short_row_6(&mut row, id, kind),
        };
        let written = self.put_type(&row);
        self.row = row;
        written.map(|()| described)
    }

    fn put_type(&mut self, row: &[u8]) -> io::Result<()> {
        self.make_room_in(self.types.len(), row.len())?;
        let to = &mut self.types;
        let begins = to.is_empty();
        match self.file.container {
            Container::V4 => {
                if begins {
                    to.extend(block_header((self.types_time, self.types_time)));
                }
                // All fields of the header but time and length are 0; the time is that of the previous event.
                to.push(header_bit::SORTED | header_bit::LENGTH);
                varint(to, if begins { self.types_time } else { 0 } as u64);
                varint(to, row.len() as u64);
            }
            Container::V6 => {
                if begins {
                    // The header of the block is empty.
                    to.extend([0; 2]);
                }
                to.extend((row.len() as u16).to_le_bytes());
            }
        }
        to.extend(row);
        Ok(())
    }

    /// Introduces a thread. Version 6 only.
    pub fn thread(
        &mut self,
        index: u64,
        (process, thread): (u64, u64),
        name: &str,
        pairs: &[(String, String)],
    ) -> io::Result<()> {
        debug_assert!(self.container() == Container::V6);
        let row = &mut self.row;
        row.clear();
        varint(row, index);
        if !name.is_empty() {
            row.push(1);
            utf8(row, &name[..name.floor_char_boundary(LONGEST_NAME)]);
        }
        row.push(2);
        varint(row, process);
        row.push(3);
        varint(row, thread);
        for (key, value) in pairs {
            let before = row.len();
            row.push(4);
            utf8(row, key);
            utf8(row, value);
            if row.len() > usize::from(u16::MAX) {
                row.truncate(before);
            }
        }
        self.make_room_in(self.threads.len(), self.row.len())?;
        self.threads.extend((self.row.len() as u16).to_le_bytes());
        self.threads.extend(&self.row);
        Ok(())
    }

    /// Records the end of a thread with its last sequence number. Version 6 only.
    pub fn thread_ended(&mut self, index: u64, sequence: u32) -> io::Result<()> {
        debug_assert!(self.container() == Container::V6);
        self.flush()?;
        self.row.clear();
        varint(&mut self.row, index);
        varint(&mut self.row, u64::from(sequence));
        self.file.block(Block::RemoveThread, &self.row)
    }

    /// Adds a stack: return addresses as wide as the trace's pointers.
    pub fn stack(&mut self, id: u32, addresses: &[u8]) -> io::Result<()> {
        self.make_room_in(self.stacks.bytes.len(), addresses.len())?;
        if self.stacks.count > 0 && id != self.stacks.first.wrapping_add(self.stacks.count) {
            self.flush()?;
        }
        let rows = &mut self.stacks;
        rows.begin(id);
        rows.bytes.extend((addresses.len() as u32).to_le_bytes());
        rows.bytes.extend_from_slice(addresses);
        Ok(())
    }

    /// Adds a label list, encoded as in a file. Version 6 only.
    pub fn labels(&mut self, id: u32, list: &[u8]) -> io::Result<()> {
        debug_assert!(self.container() == Container::V6);
        self.make_room_in(self.labels.bytes.len(), list.len())?;
        if self.labels.count > 0 && id != self.labels.first.wrapping_add(self.labels.count) {
            self.flush()?;
        }
        self.labels.begin(id);
        self.labels.bytes.extend_from_slice(list);
        Ok(())
    }

    // ---- Events --------------------------------------------------------------------------------------------------------

    /// Writes an event. The type, thread, stack and labels that it refers to must have been added.
    #[inline]
    pub fn event(&mut self, header: &Header<C>, payload: &[u8]) -> io::Result<Written> {
        if payload.len() > MOST_PAYLOAD {
            return Ok(Written::TooLong);
        }
        let is_torn = !header.sorted && header.capture != self.previous.capture;
        if is_torn && !self.events.is_empty() {
            self.flush()?;
        }
        self.make_room(payload.len())?;
        if self.events.is_empty() {
            self.begin_events(header.time);
        }
        self.times = (self.times.0.min(header.time), self.times.1.max(header.time));
        self.previous.put(header, payload.len() as u64, self.file.container, &mut self.events);
        self.events.put(payload);
        Ok(Written::Yes)
    }

    /// Makes room for an event with a payload of this length: if the block has no room for it, writes all blocks that have contents.
    /// [`event`](Self::event) does this too. A caller that describes the type of the event first calls it before, so that the description is
    /// not written earlier than needed.
    #[inline(always)]
    pub fn make_room(&mut self, payload: usize) -> io::Result<()> {
        if self.events.len() + payload + C::HEADER_BYTES > BLOCK_BYTES {
            return self.make_new_room(payload);
        }
        Ok(())
    }

    #[cold]
    fn make_new_room(&mut self, payload: usize) -> io::Result<()> {
        if !self.events.is_empty() {
            self.flush()?;
        }
        self.events.reserve(payload + C::HEADER_BYTES + usize::from(BLOCK_HEADER));
        Ok(())
    }

    fn begin_events(&mut self, time: i64) {
        self.events.put(&block_header((0, 0)));
        self.previous = Previous::default();
        self.times = (time, time);
    }

    // ---- Sequence points -----------------------------------------------------------------------------------------------

    /// Adds a row to the next sequence point: a thread's last sequence number.
    pub fn last_number(&mut self, thread: u64, sequence: u32) {
        let container = self.container();
        let (rows, count) = &mut self.point;
        if rows.is_empty() {
            rows.resize(point_head(container), 0);
        }
        match container {
            Container::V4 => {
                rows.extend(thread.to_le_bytes());
                rows.extend(sequence.to_le_bytes());
            }
            Container::V6 => {
                varint(rows, thread);
                varint(rows, u64::from(sequence));
            }
        }
        *count += 1;
    }

    /// Returns whether the rows of the sequence point fill a block. Then write the sequence point; another one with the same time may
    /// follow.
    pub fn point_is_full(&self) -> bool {
        self.point.0.len() >= point_head(self.container()) + BLOCK_BYTES
    }

    /// Writes the sequence point. Only version 6 has the flags.
    pub fn sequence_point(&mut self, time: i64, flags: u32) -> io::Result<()> {
        self.flush()?;
        let head = point_head(self.container());
        let (body, count) = &mut self.point;
        body.resize(body.len().max(head), 0);
        body[..8].copy_from_slice(&time.to_le_bytes());
        body[8..12].copy_from_slice(&flags.to_le_bytes());
        body[head - 4..head].copy_from_slice(&std::mem::take(count).to_le_bytes());
        put_block(&mut self.file, Block::SequencePoint, body)
    }

    // ---- Blocks --------------------------------------------------------------------------------------------------------

    /// Makes room for a row of this length in a block that has `taken` bytes.
    fn make_room_in(&mut self, taken: usize, row: usize) -> io::Result<()> {
        if taken > 0 && taken + row + C::HEADER_BYTES > BLOCK_BYTES { self.flush() } else { Ok(()) }
    }

    /// Writes all blocks that have contents.
    pub fn flush(&mut self) -> io::Result<()> {
        put_block(&mut self.file, Block::Thread, &mut self.threads)?;
        put_block(&mut self.file, Block::Metadata, &mut self.types)?;
        self.stacks.end();
        put_block(&mut self.file, Block::Stack, &mut self.stacks.bytes)?;
        self.labels.end();
        put_block(&mut self.file, Block::LabelList, &mut self.labels.bytes)?;
        if self.events.is_empty() {
            return Ok(());
        }
        self.events.set(0, &block_header(self.times));
        let written = self.file.block(Block::Event, self.events.as_slice());
        self.events.clear();
        if self.events.room() > 4 * BLOCK_BYTES {
            // A block that was once long is not kept at that size.
            self.events = Bytes::with_capacity(BLOCK_BYTES);
        }
        written
    }
}

impl<W: Write, C: EventContext> Encoder<W, C> {
    /// Writes the end of the file. Flushes and returns the output.
    pub fn end(mut self) -> io::Result<W> {
        self.flush()?;
        self.file.put(end_tag(self.file.container))?;
        self.file.out.flush()?;
        Ok(self.file.out)
    }
}

/// Writes a block, if it has contents, and keeps its memory for the next.
fn put_block<O: Output>(file: &mut Blocks<O>, block: Block, body: &mut Vec<u8>) -> io::Result<()> {
    if body.is_empty() {
        return Ok(());
    }
    let written = file.block(block, body);
    body.clear();
    // A block that was once long is not kept at that size.
    body.shrink_to(4 * BLOCK_BYTES);
    written
}

impl<O: Output> Blocks<O> {
    fn block(&mut self, block: Block, body: &[u8]) -> io::Result<()> {
        let head = &mut self.head;
        head.clear();
        match self.container {
            Container::V4 => {
                let is_trace = matches!(block, Block::Trace);
                let version = if is_trace { 4 } else { 2 };
                let name = block.name();
                head.put(&[5, 5, 1]);
                [version, version, name.len() as u32].into_iter().for_each(|number| head.u32(number));
                head.put(name.as_bytes());
                head.u8(6);
                if !is_trace {
                    head.u32(body.len() as u32);
                    while !(self.offset + head.len() as u64).is_multiple_of(4) {
                        head.u8(0);
                    }
                }
            }
            Container::V6 => {
                debug_assert!(body.len() <= LARGEST_BLOCK);
                head.u32(body.len() as u32 | (block as u32) << 24);
            }
        }
        let tail: &[u8] = if self.container == Container::V4 { &[6] } else { &[] };
        self.out.put(head.as_slice())?;
        self.out.put(body)?;
        self.out.put(tail)?;
        self.offset += (head.len() + body.len() + tail.len()) as u64;
        self.out.block_ended(block)
    }

    fn put(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.out.put(bytes)?;
        self.offset += bytes.len() as u64;
        Ok(())
    }
}

impl Numbered {
    fn begin(&mut self, id: u32) {
        if self.count == 0 {
            self.first = id;
            // Room for the first number and the count, which are set when the block is written.
            self.bytes.extend([0; 8]);
        }
        self.count += 1;
    }

    fn end(&mut self) {
        if self.count > 0 {
            self.bytes[..4].copy_from_slice(&self.first.to_le_bytes());
            self.bytes[4..8].copy_from_slice(&self.count.to_le_bytes());
        }
        self.count = 0;
    }
}

/// The header of a block of events or types: its length, its flags, and the times of its first and last event.
fn block_header((first, last): (i64, i64)) -> [u8; BLOCK_HEADER as usize] {
    let mut header = [0; BLOCK_HEADER as usize];
    header[..2].copy_from_slice(&BLOCK_HEADER.to_le_bytes());
    header[2..4].copy_from_slice(&COMPRESSED.to_le_bytes());
    header[4..12].copy_from_slice(&first.to_le_bytes());
    header[12..].copy_from_slice(&last.to_le_bytes());
    header
}

/// The length of a sequence point before its rows: time, flags in version 6, number of rows.
const fn point_head(container: Container) -> usize {
    match container {
        Container::V4 => 12,
        Container::V6 => 16,
    }
}
