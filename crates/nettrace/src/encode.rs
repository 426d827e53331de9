//! Writes a trace in either container, from what a reader delivers or from any other source.
//!
//! ```text
//!   types ───► rows ──┐
//!   types ───► rows ──┐
//!   stacks ──► rows ──┼─► threads, types, stacks, labels, events
//!   labels ──► rows ──┤
//!   events ──► blobs ─┘
//!   sequence points: everything before, then the point
//! ```
//! The encoder may allocate, and accepts types at any time. The caller orders the events and numbers them: an event is written with
//! the sequence number, the sorted flag and the ids that the caller passes. Event headers are compressed.
//!
//! **In version 4 an event without the sorted flag must have the capturing thread of the event before it in the block**: TraceEvent
//! attributes such an event to that thread, whatever its header states. So an event without the flag begins a new block when its capturing
//! thread differs.
//!
//! **What a container cannot express** is omitted and reported: a type with fields for which version 4 has no code is written
//! without fields, and the payloads of its events unchanged ([`Described`]).

use std::io::{self, Write};

use super::Container;
use super::block::{BLOCK_HEADER, Block, COMPRESSED, NO_PROCESSOR, header_bit};
use super::metadata::{EventType, FieldType, TraceInfo, Type};

/// A block is written before it would exceed this size in bytes; a longer item gets a block of its own.
const BLOCK: usize = 100 << 10;
/// The size limit of a block of version 6, in bytes.
const LARGEST_BLOCK: usize = (1 << 24) - 1;
/// Bytes reserved for an event's header and a block's header.
const HEADERS: usize = 160;
/// The limit for the name of a thread, in bytes.
const LONGEST_NAME: usize = 1 << 15;

/// The header of an event: everything but its payload. All ids are those of the written file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Header {
    /// The id of its type.
    pub kind: u32,
    /// Its sequence number within its capturing thread.
    pub sequence: u32,
    /// The thread: the operating system's id in version 4, an index in version 6.
    pub thread: u64,
    /// The thread that wrote the event to its buffer; usually the same as `thread`.
    pub capture: u64,
    /// The processor, if known.
    pub processor: Option<u32>,
    /// The id of its stack; 0 is the empty stack.
    pub stack: u32,
    /// Its time, in ticks of the trace's clock.
    pub time: i64,
    /// No later event in the file has an earlier time.
    pub sorted: bool,
    /// The id of its labels; version 6 only.
    pub labels: u32,
    /// The activity; version 4 only.
    pub activity: [u8; 16],
    /// The related activity; version 4 only.
    pub related: [u8; 16],
}

/// The result of writing an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Written {
    /// The event was written.
    Yes,
    /// The event was not written: its payload is longer than the largest block.
    TooLong,
}

/// The parts of a type's description that the container could not express.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Described {
    /// The fields were omitted: the container has no code for one of them, or no room.
    pub without_fields: bool,
    /// Message, description, GUID or key-value pairs were omitted.
    pub without_texts: bool,
    /// Level or version were truncated to a byte.
    pub cut_numbers: bool,
}

/// The parts of the trace's description that the container could not express.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TraceDescribed {
    /// The number of key-value pairs omitted.
    pub pairs_left_out: u64,
}

/// Rows with consecutive numbers.
#[derive(Debug, Default)]
struct Numbered {
    bytes: Vec<u8>,
    first: u32,
    count: u32,
}

/// Writes a trace. See the [module](self).
#[derive(Debug)]
pub struct Encoder<W> {
    out: W,
    offset: u64,
    container: Container,
    events: Vec<u8>,
    previous: Header,
    previous_length: u64,
    times: (i64, i64),
    types: Vec<u8>,
    threads: Vec<u8>,
    stacks: Numbered,
    labels: Numbered,
    /// The rows of the sequence point that is being built, and their number.
    point: (Vec<u8>, u32),
    start: i64,
}

impl<W: Write> Encoder<W> {
    /// Creates an encoder that has written nothing. The first call must be [`trace`](Self::trace).
    pub fn new(out: W, container: Container) -> Encoder<W> {
        Encoder {
            out,
            offset: 0,
            container,
            events: Vec::new(),
            previous: Header::default(),
            previous_length: 0,
            times: (0, 0),
            types: Vec::new(),
            threads: Vec::new(),
            stacks: Numbered::default(),
            labels: Numbered::default(),
            point: (Vec::new(), 0),
            start: 0,
        }
    }

    /// The container of the file.
    pub fn container(&self) -> Container {
        self.container
    }

    // ---- The trace -----------------------------------------------------------------------------------------------------

    /// Writes the beginning of the file.
    pub fn trace(&mut self, info: &TraceInfo) -> io::Result<TraceDescribed> {
        self.start = info.start_ticks;
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
        match self.container {
            Container::V4 => {
                self.put(b"Nettrace\x14\0\0\0!FastSerialization.1")?;
                known.into_iter().for_each(|(_, number)| body.extend(number.to_le_bytes()));
            }
            Container::V6 => {
                self.put(b"Nettrace\0\0\0\0\x06\0\0\0\0\0\0\0")?;
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
        self.block(Block::Trace, &body)?;
        let has_no_place = |(key, _): &&(String, String)| {
            self.container == Container::V4 && !known.iter().any(|(name, _)| key == name)
        };
        Ok(TraceDescribed { pairs_left_out: info.pairs.iter().filter(has_no_place).count() as u64 })
    }

    /// Writes the end of the file. Flushes and returns the output.
    pub fn end(mut self) -> io::Result<W> {
        self.flush()?;
        match self.container {
            Container::V4 => self.put(&[1])?,
            Container::V6 => self.put(&[0; 4])?,
        }
        self.out.flush()?;
        Ok(self.out)
    }

    // ---- What events refer to ------------------------------------------------------------------------------------------

    /// Describes a type of event and assigns it this id.
    pub fn event_type(&mut self, id: u32, kind: &EventType) -> io::Result<Described> {
        let mut described = Described::default();
        match self.container {
            Container::V4 => {
                let mut description = id.to_le_bytes().to_vec();
                described = description_4(&mut description, kind);
                self.make_room(self.types.len(), description.len())?;
                let to = &mut self.types;
                if to.is_empty() {
                    begin_block(to);
                    set_times(to, (self.start, self.start));
                }
                // All fields of the header but time and length are 0; the time is that of the previous event.
                let time = if to.len() == usize::from(BLOCK_HEADER) { self.start } else { 0 };
                to.push(header_bit::SORTED | header_bit::LENGTH);
                varint(to, time as u64);
                varint(to, description.len() as u64);
                to.extend(description);
            }
            Container::V6 => {
                let row = short_row_6(id, kind, &mut described);
                self.make_room(self.types.len(), row.len())?;
                if self.types.is_empty() {
                    self.types.extend([0; 2]);
                }
                self.types.extend((row.len() as u16).to_le_bytes());
                self.types.extend(row);
            }
        }
        Ok(described)
    }

    /// Introduces a thread. Version 6 only.
    pub fn thread(
        &mut self,
        index: u64,
        (process, thread): (u64, u64),
        name: &str,
        pairs: &[(String, String)],
    ) -> io::Result<()> {
        debug_assert!(self.container == Container::V6);
        let mut row = Vec::new();
        varint(&mut row, index);
        if !name.is_empty() {
            row.push(1);
            utf8(&mut row, &name[..name.floor_char_boundary(LONGEST_NAME)]);
        }
        row.push(2);
        varint(&mut row, process);
        row.push(3);
        varint(&mut row, thread);
        for (key, value) in pairs {
            let before = row.len();
            row.push(4);
            utf8(&mut row, key);
            utf8(&mut row, value);
            if row.len() > usize::from(u16::MAX) {
                row.truncate(before);
            }
        }
        self.make_room(self.threads.len(), row.len())?;
        self.threads.extend((row.len() as u16).to_le_bytes());
        self.threads.extend(row);
        Ok(())
    }

    /// Records the end of a thread with its last sequence number. Version 6 only.
    pub fn thread_ended(&mut self, index: u64, sequence: u32) -> io::Result<()> {
        debug_assert!(self.container == Container::V6);
        self.flush()?;
        let mut row = Vec::new();
        varint(&mut row, index);
        varint(&mut row, u64::from(sequence));
        self.block(Block::RemoveThread, &row)
    }

    /// Adds a stack: return addresses as wide as the trace's pointers.
    pub fn stack(&mut self, id: u32, addresses: &[u8]) -> io::Result<()> {
        self.make_room(self.stacks.bytes.len(), addresses.len())?;
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
        debug_assert!(self.container == Container::V6);
        self.make_room(self.labels.bytes.len(), list.len())?;
        if self.labels.count > 0 && id != self.labels.first.wrapping_add(self.labels.count) {
            self.flush()?;
        }
        self.labels.begin(id);
        self.labels.bytes.extend_from_slice(list);
        Ok(())
    }

    // ---- Events --------------------------------------------------------------------------------------------------------

    /// Writes an event. The type, thread, stack and labels that it refers to must have been added.
    pub fn event(&mut self, header: &Header, payload: &[u8]) -> io::Result<Written> {
        if payload.len() + HEADERS > LARGEST_BLOCK {
            return Ok(Written::TooLong);
        }
        if !self.events.is_empty() {
            let is_torn = !header.sorted && header.capture != self.previous.capture;
            if is_torn || self.events.len() + payload.len() + HEADERS > BLOCK {
                self.flush()?;
            }
        }
        if self.events.is_empty() {
            begin_block(&mut self.events);
            self.previous = Header { processor: Some(0), ..Header::default() };
            (self.previous_length, self.times) = (0, (header.time, header.time));
        }
        self.times = (self.times.0.min(header.time), self.times.1.max(header.time));
        self.header(header, payload.len() as u64);
        self.events.extend_from_slice(payload);
        Ok(Written::Yes)
    }

    fn header(&mut self, header: &Header, length: u64) {
        let (before, to) = (self.previous, &mut self.events);
        let step = header.sequence.wrapping_sub(before.sequence).wrapping_sub(1);
        let moved = step != 0 || header.capture != before.capture || header.processor != before.processor;
        let is_4 = self.container == Container::V4;
        let mut flags = if header.sorted { header_bit::SORTED } else { 0 };
        let mut flag = |is_set: bool, bit: u8| {
            flags |= if is_set { bit } else { 0 };
            is_set
        };
        let kind = flag(header.kind != before.kind, header_bit::KIND);
        let moved = flag(moved, header_bit::CAPTURE);
        let thread = flag(header.thread != before.thread, header_bit::THREAD);
        let stack = flag(header.stack != before.stack, header_bit::STACK);
        let activity = flag(
            if is_4 { header.activity != before.activity } else { header.labels != before.labels },
            header_bit::ACTIVITY,
        );
        let related = flag(is_4 && header.related != before.related, header_bit::RELATED);
        let has_length = flag(length != self.previous_length, header_bit::LENGTH);
        to.push(flags);
        if kind {
            varint(to, u64::from(header.kind));
        }
        if moved {
            varint(to, u64::from(step));
            varint(to, header.capture);
            varint(to, u64::from(header.processor.unwrap_or(NO_PROCESSOR)));
        }
        if thread {
            varint(to, header.thread);
        }
        if stack {
            varint(to, u64::from(header.stack));
        }
        // A step back in time is a difference that wraps.
        varint(to, header.time.wrapping_sub(before.time) as u64);
        match self.container {
            Container::V4 => {
                to.extend_from_slice(if activity { &header.activity } else { &[] });
                to.extend_from_slice(if related { &header.related } else { &[] });
            }
            Container::V6 if activity => varint(to, u64::from(header.labels)),
            Container::V6 => {}
        }
        if has_length {
            varint(to, length);
        }
        (self.previous, self.previous_length) = (*header, length);
    }

    // ---- Sequence points -----------------------------------------------------------------------------------------------

    /// Adds a row to the next sequence point: a thread's last sequence number.
    pub fn last_number(&mut self, thread: u64, sequence: u32) {
        let (rows, count) = &mut self.point;
        match self.container {
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
        self.point.0.len() >= BLOCK
    }

    /// Writes the sequence point. Only version 6 has the flags.
    pub fn sequence_point(&mut self, time: i64, flags: u32) -> io::Result<()> {
        self.flush()?;
        let (rows, count) = std::mem::take(&mut self.point);
        let mut body = time.to_le_bytes().to_vec();
        if self.container == Container::V6 {
            body.extend(flags.to_le_bytes());
        }
        body.extend(count.to_le_bytes());
        body.extend(rows);
        self.block(Block::SequencePoint, &body)
    }

    // ---- Blocks --------------------------------------------------------------------------------------------------------

    /// Makes room for a row of this length in a block that has `taken` bytes.
    fn make_room(&mut self, taken: usize, row: usize) -> io::Result<()> {
        if taken > 0 && taken + row + HEADERS > BLOCK { self.flush() } else { Ok(()) }
    }

    /// Writes all blocks that have contents.
    pub fn flush(&mut self) -> io::Result<()> {
        let threads = std::mem::take(&mut self.threads);
        self.rows(Block::Thread, threads, |encoder, emptied| encoder.threads = emptied)?;
        let types = std::mem::take(&mut self.types);
        self.rows(Block::Metadata, types, |encoder, emptied| encoder.types = emptied)?;
        let stacks = self.stacks.end();
        self.rows(Block::Stack, stacks, |encoder, emptied| encoder.stacks.bytes = emptied)?;
        let labels = self.labels.end();
        self.rows(Block::LabelList, labels, |encoder, emptied| encoder.labels.bytes = emptied)?;
        let mut events = std::mem::take(&mut self.events);
        if !events.is_empty() {
            set_times(&mut events, self.times);
        }
        self.rows(Block::Event, events, |encoder, emptied| encoder.events = emptied)
    }

    /// Writes a block, if it has contents, and keeps its memory for the next.
    fn rows(&mut self, block: Block, mut body: Vec<u8>, keep: impl FnOnce(&mut Self, Vec<u8>)) -> io::Result<()> {
        if !body.is_empty() {
            self.block(block, &body)?;
            body.clear();
            // A block that was once long is not kept at that size.
            body.shrink_to(4 * BLOCK);
        }
        keep(self, body);
        Ok(())
    }

    fn block(&mut self, block: Block, body: &[u8]) -> io::Result<()> {
        match self.container {
            Container::V4 => {
                let is_trace = matches!(block, Block::Trace);
                let version = if is_trace { 4_u32 } else { 2 };
                let name = block.name();
                let mut head = vec![5, 5, 1];
                head.extend([version, version, name.len() as u32].into_iter().flat_map(u32::to_le_bytes));
                head.extend(name.bytes());
                head.push(6);
                if !is_trace {
                    head.extend((body.len() as u32).to_le_bytes());
                    while !(self.offset + head.len() as u64).is_multiple_of(4) {
                        head.push(0);
                    }
                }
                self.put(&head)?;
                self.put(body)?;
                self.put(&[6])
            }
            Container::V6 => {
                debug_assert!(body.len() <= LARGEST_BLOCK);
                self.put(&(body.len() as u32 | (block as u32) << 24).to_le_bytes())?;
                self.put(body)
            }
        }
    }

    fn put(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.out.write_all(bytes)?;
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

    fn end(&mut self) -> Vec<u8> {
        let mut bytes = std::mem::take(&mut self.bytes);
        if self.count > 0 {
            bytes[..4].copy_from_slice(&self.first.to_le_bytes());
            bytes[4..8].copy_from_slice(&self.count.to_le_bytes());
        }
        self.count = 0;
        bytes
    }
}

fn begin_block(to: &mut Vec<u8>) {
    to.extend(BLOCK_HEADER.to_le_bytes());
    to.extend(COMPRESSED.to_le_bytes());
    to.extend([0; 16]);
}

fn set_times(block: &mut [u8], (first, last): (i64, i64)) {
    block[4..12].copy_from_slice(&first.to_le_bytes());
    block[12..20].copy_from_slice(&last.to_le_bytes());
}

fn varint(to: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        to.push(value as u8 | 0x80);
        value >>= 7;
    }
    to.push(value as u8);
}

fn utf8(to: &mut Vec<u8>, text: &str) {
    varint(to, text.len() as u64);
    to.extend_from_slice(text.as_bytes());
}

/// Writes UTF-16 and a NUL; a NUL in the text ends it.
fn utf16(to: &mut Vec<u8>, text: &str) {
    to.extend(text.encode_utf16().filter(|unit| *unit != 0).chain([0]).flat_map(u16::to_le_bytes));
}

// ---- Descriptions ------------------------------------------------------------------------------------------------------

/// Appends a version 4 description of an event type, without the type's number, which precedes the description.
fn description_4(to: &mut Vec<u8>, kind: &EventType) -> Described {
    utf16(to, &kind.provider);
    to.extend(kind.event.to_le_bytes());
    utf16(to, &kind.name);
    to.extend(kind.keywords.to_le_bytes());
    to.extend(kind.version.to_le_bytes());
    to.extend(kind.level.to_le_bytes());
    let mut plain = Vec::new();
    let mut tagged = Vec::new();
    let is_plain = fields_4(&mut plain, &kind.fields).is_some();
    let is_tagged = !is_plain && fields_5(&mut tagged, &kind.fields).is_some();
    to.extend_from_slice(if is_plain { &plain } else { &[0; 4] });
    if is_tagged {
        tag(to, 2, &tagged);
    }
    if let Some(opcode) = kind.opcode {
        tag(to, 1, &[opcode]);
    }
    let has_texts = kind.message.is_some() || kind.description.is_some() || !kind.pairs.is_empty();
    Described {
        without_fields: !is_plain && !is_tagged,
        without_texts: has_texts || kind.provider_guid.is_some(),
        cut_numbers: false,
    }
}

fn tag(to: &mut Vec<u8>, number: u8, body: &[u8]) {
    to.extend((body.len() as u32).to_le_bytes());
    to.push(number);
    to.extend_from_slice(body);
}

/// Appends the type and the name of each field. There are no arrays.
fn fields_4(to: &mut Vec<u8>, fields: &[FieldType]) -> Option<()> {
    to.extend((fields.len() as u32).to_le_bytes());
    for field in fields {
        match &field.kind {
            Type::Object(fields) => {
                to.extend(1_u32.to_le_bytes());
                fields_4(to, fields)?;
            }
            kind => to.extend(u32::from(kind.code()?).to_le_bytes()),
        }
        utf16(to, &field.name);
    }
    Some(())
}

/// Appends the size, the name and the type of each field. The type may be an array.
fn fields_5(to: &mut Vec<u8>, fields: &[FieldType]) -> Option<()> {
    to.extend((fields.len() as u32).to_le_bytes());
    for field in fields {
        let mut body = Vec::new();
        utf16(&mut body, &field.name);
        type_5(&mut body, &field.kind)?;
        to.extend((body.len() as u32 + 4).to_le_bytes());
        to.extend(body);
    }
    Some(())
}

fn type_5(to: &mut Vec<u8>, kind: &Type) -> Option<()> {
    match kind {
        Type::Object(fields) => {
            to.extend(1_u32.to_le_bytes());
            fields_5(to, fields)
        }
        Type::Array(element) => {
            to.extend(19_u32.to_le_bytes());
            type_5(to, element)
        }
        kind => {
            to.extend(u32::from(kind.code()?).to_le_bytes());
            Some(())
        }
    }
}

/// Returns a row of a type block of version 6, without the 16-bit length that precedes the row. Parts with which the row would be too
/// long for that length are omitted.
fn short_row_6(id: u32, kind: &EventType, described: &mut Described) -> Vec<u8> {
    const MOST: usize = u16::MAX as usize;
    let row = row_6(id, kind, described);
    if row.len() <= MOST {
        return row;
    }
    described.without_texts = true;
    let silent = EventType { message: None, description: None, pairs: Vec::new(), ..kind.clone() };
    let row = row_6(id, &silent, described);
    if row.len() <= MOST {
        return row;
    }
    described.without_fields = true;
    let bare = EventType { fields: Vec::new(), ..silent };
    let row = row_6(id, &bare, described);
    if row.len() <= MOST {
        return row;
    }
    let name = kind.name[..kind.name.floor_char_boundary(LONGEST_NAME / 2)].to_owned();
    let provider = kind.provider[..kind.provider.floor_char_boundary(LONGEST_NAME / 2)].to_owned();
    row_6(id, &EventType { name, provider, ..bare }, described)
}

/// Returns a row of any length.
fn row_6(id: u32, kind: &EventType, described: &mut Described) -> Vec<u8> {
    let mut to = Vec::new();
    varint(&mut to, u64::from(id));
    utf8(&mut to, &kind.provider);
    varint(&mut to, u64::from(kind.event));
    utf8(&mut to, &kind.name);
    let before = to.len();
    if fields_6(&mut to, &kind.fields).is_none() {
        described.without_fields = true;
        to.truncate(before);
        to.extend([0; 2]);
    }
    let options = to.len();
    to.extend([0; 2]);
    if let Some(opcode) = kind.opcode {
        to.extend([1, opcode]);
    }
    to.push(3);
    to.extend(kind.keywords.to_le_bytes());
    for (code, text) in [(4, &kind.message), (5, &kind.description)] {
        if let Some(text) = text {
            to.push(code);
            utf8(&mut to, text);
        }
    }
    for (key, value) in &kind.pairs {
        to.push(6);
        utf8(&mut to, key);
        utf8(&mut to, value);
    }
    if let Some(guid) = kind.provider_guid {
        to.push(7);
        to.extend(guid);
    }
    let byte = |number: u32| u8::try_from(number).unwrap_or(u8::MAX);
    described.cut_numbers |= kind.level > 255 || kind.version > 255;
    to.extend([8, byte(kind.level), 9, byte(kind.version)]);
    let length = to.len() - options - 2;
    // The caller discards a row that is too long, so the truncated length is not used.
    to[options..options + 2].copy_from_slice(&(length as u16).to_le_bytes());
    to
}

fn fields_6(to: &mut Vec<u8>, fields: &[FieldType]) -> Option<()> {
    to.extend(u16::try_from(fields.len()).ok()?.to_le_bytes());
    for field in fields {
        let mut body = Vec::new();
        utf8(&mut body, &field.name);
        type_6(&mut body, &field.kind)?;
        to.extend(u16::try_from(body.len()).ok()?.to_le_bytes());
        to.extend(body);
    }
    Some(())
}

fn type_6(to: &mut Vec<u8>, kind: &Type) -> Option<()> {
    match kind {
        Type::Object(fields) => {
            to.push(1);
            return fields_6(to, fields);
        }
        Type::Array(element) => {
            to.push(19);
            return type_6(to, element);
        }
        Type::VarInt => to.push(20),
        Type::VarUInt => to.push(21),
        Type::FixedArray(element, count) => {
            to.push(22);
            type_6(to, element)?;
            to.extend(count.to_le_bytes());
        }
        Type::Utf8Unit => to.push(23),
        Type::RelLoc(element) => {
            to.push(24);
            return type_6(to, element);
        }
        Type::DataLoc(element) => {
            to.push(25);
            return type_6(to, element);
        }
        Type::Bool8 => to.push(26),
        kind => to.push(kind.code()?),
    }
    Some(())
}
