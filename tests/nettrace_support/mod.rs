//! A simple writer of .nettrace files of versions 4 and 6: everything is in memory, each layout is written field by field, and nothing is
//! shared with the reader under test.

#![allow(dead_code, reason = "each test uses a part of it")]

use nettrace::{EventType, Interest, NetEvent, Reader, Summary, ThreadInfo, TraceInfo, Visitor};

/// The format variants of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    V4,
    V4Fixed,
    V6,
    V6Fixed,
}

pub const FORMS: [Form; 4] = [Form::V4, Form::V4Fixed, Form::V6, Form::V6Fixed];

impl Form {
    pub fn is_v6(self) -> bool {
        matches!(self, Form::V6 | Form::V6Fixed)
    }

    fn is_compressed(self) -> bool {
        matches!(self, Form::V4 | Form::V6)
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Type {
    pub id: u32,
    pub provider: String,
    pub event: u32,
    pub name: String,
    pub version: u32,
    pub level: u32,
    pub keywords: u64,
    pub opcode: Option<u8>,
    /// Name and type code.
    pub fields: Vec<(String, u8)>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Event {
    pub kind: u32,
    pub sequence: u32,
    /// The system's id; in version 6 a thread's index is one less than half of its id.
    pub thread: u64,
    pub capture: u64,
    pub processor: u32,
    pub stack: u32,
    pub time: i64,
    pub labels: u32,
    pub activity: [u8; 16],
    pub related: [u8; 16],
    pub sorted: bool,
    pub payload: Vec<u8>,
}

#[derive(Clone, Debug)]
pub enum Block {
    Types(Vec<Type>),
    Events(Vec<Event>),
    Stacks(u32, Vec<Vec<u8>>),
    /// Time, flags (version 6), threads and their sequence numbers.
    Point(i64, u32, Vec<(u64, u32)>),
    /// Index, name, process, thread (version 6 only).
    Threads(Vec<(u64, String, u64, u64)>),
    /// Version 6 only.
    Ended(Vec<(u64, u32)>),
    /// Version 6 only: each list as it is written.
    Labels(u32, Vec<Vec<u8>>),
    /// A block of an unknown kind (version 6 only).
    Unknown(u8, Vec<u8>),
}

/// The index of a thread in version 6.
pub fn index_of(thread: u64) -> u64 {
    thread / 2 + 1
}

pub fn var(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

pub fn utf8(out: &mut Vec<u8>, text: &str) {
    var(out, text.len() as u64);
    out.extend_from_slice(text.as_bytes());
}

pub fn utf16(out: &mut Vec<u8>, text: &str) {
    text.encode_utf16().chain([0]).for_each(|unit| out.extend(unit.to_le_bytes()));
}

/// A file under construction.
pub struct Writer {
    pub bytes: Vec<u8>,
    form: Form,
}

impl Writer {
    pub fn new(form: Form, pointer_bytes: u8) -> Writer {
        let mut bytes = b"Nettrace".to_vec();
        let mut trace = Vec::new();
        for field in [2026u16, 1, 3, 7, 12, 0, 0, 0] {
            trace.extend(field.to_le_bytes());
        }
        trace.extend(1000u64.to_le_bytes());
        trace.extend(1_000_000_000u64.to_le_bytes());
        trace.extend(u32::from(pointer_bytes).to_le_bytes());
        if form.is_v6() {
            bytes.extend([0u32, 6, 0].map(u32::to_le_bytes).concat());
            trace.extend(3u32.to_le_bytes());
            for (key, value) in [("ProcessId", "7"), ("HardwareThreadCount", "4"), ("Host", "here")] {
                utf8(&mut trace, key);
                utf8(&mut trace, value);
            }
        } else {
            bytes.extend(20u32.to_le_bytes());
            bytes.extend(b"!FastSerialization.1");
            trace.extend([7u32, 4, 1_000_000].map(u32::to_le_bytes).concat());
        }
        let mut writer = Writer { bytes, form };
        writer.block("Trace", 1, &trace);
        writer
    }

    /// Writes a block of version 6, or an object of version 4.
    pub fn block(&mut self, name: &str, kind: u8, body: &[u8]) {
        if self.form.is_v6() {
            assert!(body.len() < 1 << 24);
            self.bytes.extend((body.len() as u32 | u32::from(kind) << 24).to_le_bytes());
            self.bytes.extend_from_slice(body);
            return;
        }
        let version = if name == "Trace" { 4u32 } else { 2 };
        self.bytes.extend([5, 5, 1]);
        self.bytes.extend([version, version, name.len() as u32].map(u32::to_le_bytes).concat());
        self.bytes.extend(name.as_bytes());
        self.bytes.push(6);
        if name != "Trace" {
            self.bytes.extend((body.len() as u32).to_le_bytes());
            while !self.bytes.len().is_multiple_of(4) {
                self.bytes.push(0);
            }
        }
        self.bytes.extend_from_slice(body);
        self.bytes.push(6);
    }

    pub fn add(&mut self, block: &Block) {
        match block {
            Block::Types(types) => self.types(types),
            Block::Events(events) => {
                let body = self.events(events);
                self.block("EventBlock", 2, &body);
            }
            Block::Stacks(first, stacks) => {
                let mut body = [first.to_le_bytes(), (stacks.len() as u32).to_le_bytes()].concat();
                for stack in stacks {
                    body.extend((stack.len() as u32).to_le_bytes());
                    body.extend_from_slice(stack);
                }
                self.block("StackBlock", 5, &body);
            }
            Block::Point(time, flags, threads) => {
                let mut body = time.to_le_bytes().to_vec();
                if self.form.is_v6() {
                    body.extend(flags.to_le_bytes());
                }
                body.extend((threads.len() as u32).to_le_bytes());
                for &(thread, sequence) in threads {
                    if self.form.is_v6() {
                        var(&mut body, index_of(thread));
                        var(&mut body, sequence.into());
                    } else {
                        body.extend(thread.to_le_bytes());
                        body.extend(sequence.to_le_bytes());
                    }
                }
                self.block("SPBlock", 4, &body);
            }
            Block::Threads(threads) => {
                let mut body = Vec::new();
                for (index, name, process, thread) in threads {
                    let mut row = Vec::new();
                    var(&mut row, *index);
                    row.push(3);
                    var(&mut row, *thread);
                    row.push(4);
                    utf8(&mut row, "key");
                    utf8(&mut row, "value");
                    row.push(1);
                    utf8(&mut row, name);
                    row.push(2);
                    var(&mut row, *process);
                    body.extend((row.len() as u16).to_le_bytes());
                    body.extend(row);
                }
                self.block("", 6, &body);
            }
            Block::Ended(threads) => {
                let mut body = Vec::new();
                for &(index, sequence) in threads {
                    var(&mut body, index);
                    var(&mut body, sequence.into());
                }
                self.block("", 7, &body);
            }
            Block::Labels(first, lists) => {
                let head = [first.to_le_bytes(), (lists.len() as u32).to_le_bytes()].concat();
                self.block("", 8, &[head, lists.concat()].concat());
            }
            Block::Unknown(kind, body) => self.block("", *kind, body),
        }
    }

    pub fn end(mut self) -> Vec<u8> {
        if self.form.is_v6() {
            self.bytes.extend([0; 4]);
        } else {
            self.bytes.push(1);
        }
        self.bytes
    }

    fn types(&mut self, types: &[Type]) {
        if !self.form.is_v6() {
            let blobs: Vec<Event> = types
                .iter()
                .map(|kind| Event { payload: description_4(kind), sorted: true, ..Event::default() })
                .collect();
            let body = self.events(&blobs);
            return self.block("MetadataBlock", 3, &body);
        }
        // Two bytes of a header that no reader interprets.
        let mut body = vec![2, 0, 0xAA, 0xBB];
        for kind in types {
            let row = description_6(kind);
            body.extend((row.len() as u16).to_le_bytes());
            body.extend(row);
        }
        self.block("", 3, &body);
    }

    fn events(&self, events: &[Event]) -> Vec<u8> {
        let times = events.iter().map(|event| event.time);
        // Four bytes more than any reader knows.
        let mut body = 24u16.to_le_bytes().to_vec();
        body.extend(u16::from(self.form.is_compressed()).to_le_bytes());
        body.extend(times.clone().min().unwrap_or(0).to_le_bytes());
        body.extend(times.max().unwrap_or(0).to_le_bytes());
        body.extend([0xEE; 4]);
        let mut before = Event::default();
        let mut size = 0;
        for event in events {
            if self.form.is_compressed() {
                self.compressed(&mut body, &before, size, event);
            } else {
                self.fixed(&mut body, event);
            }
            size = event.payload.len();
            before = event.clone();
        }
        body
    }

    fn id(&self, thread: u64) -> u64 {
        if self.form.is_v6() { index_of(thread) } else { thread }
    }

    fn compressed(&self, out: &mut Vec<u8>, before: &Event, size: usize, event: &Event) {
        let is_first_of_block = *before == Event::default();
        let old = |thread: u64| if is_first_of_block { 0 } else { self.id(thread) };
        let (capture, thread) = (self.id(event.capture), self.id(event.thread));
        let (capture, thread) = if event.kind == 0 { (0, 0) } else { (capture, thread) };
        let (old_capture, old_thread) =
            if event.kind == 0 { (0, 0) } else { (old(before.capture), old(before.thread)) };
        let next = before.sequence.wrapping_add(u32::from(event.kind != 0));
        let mut flags = 0;
        let mut fields = Vec::new();
        if event.kind != before.kind {
            flags |= 0x01;
            var(&mut fields, event.kind.into());
        }
        if capture != old_capture || event.processor != before.processor || event.sequence != next {
            flags |= 0x02;
            var(&mut fields, event.sequence.wrapping_sub(before.sequence).wrapping_sub(1).into());
            var(&mut fields, capture);
            var(&mut fields, event.processor.into());
        }
        if thread != old_thread {
            flags |= 0x04;
            var(&mut fields, thread);
        }
        if event.stack != before.stack {
            flags |= 0x08;
            var(&mut fields, event.stack.into());
        }
        var(&mut fields, event.time.wrapping_sub(before.time) as u64);
        if self.form.is_v6() {
            if event.labels != before.labels {
                flags |= 0x10;
                var(&mut fields, event.labels.into());
            }
        } else {
            if event.activity != before.activity {
                flags |= 0x10;
                fields.extend(event.activity);
            }
            if event.related != before.related {
                flags |= 0x20;
                fields.extend(event.related);
            }
        }
        if event.sorted {
            flags |= 0x40;
        }
        if event.payload.len() != size {
            flags |= 0x80;
            var(&mut fields, event.payload.len() as u64);
        }
        out.push(flags);
        out.extend(fields);
        out.extend_from_slice(&event.payload);
    }

    fn fixed(&self, out: &mut Vec<u8>, event: &Event) {
        let mut blob = Vec::new();
        blob.extend((event.kind | u32::from(!event.sorted) << 31).to_le_bytes());
        blob.extend(event.sequence.to_le_bytes());
        blob.extend(self.id(event.thread).to_le_bytes());
        blob.extend(self.id(event.capture).to_le_bytes());
        blob.extend(event.processor.to_le_bytes());
        blob.extend(event.stack.to_le_bytes());
        blob.extend(event.time.to_le_bytes());
        if self.form.is_v6() {
            blob.extend(event.labels.to_le_bytes());
        } else {
            blob.extend(event.activity);
            blob.extend(event.related);
        }
        blob.extend((event.payload.len() as u32).to_le_bytes());
        blob.extend_from_slice(&event.payload);
        if !self.form.is_v6() {
            while !blob.len().is_multiple_of(4) {
                blob.push(0);
            }
        }
        out.extend((blob.len() as u32).to_le_bytes());
        out.extend(blob);
    }
}

fn description_4(kind: &Type) -> Vec<u8> {
    let mut out = kind.id.to_le_bytes().to_vec();
    utf16(&mut out, &kind.provider);
    out.extend(kind.event.to_le_bytes());
    utf16(&mut out, &kind.name);
    out.extend(kind.keywords.to_le_bytes());
    out.extend(kind.version.to_le_bytes());
    out.extend(kind.level.to_le_bytes());
    out.extend((kind.fields.len() as u32).to_le_bytes());
    for (name, code) in &kind.fields {
        out.extend(u32::from(*code).to_le_bytes());
        utf16(&mut out, name);
    }
    if let Some(opcode) = kind.opcode {
        out.extend(1u32.to_le_bytes());
        out.extend([1, opcode]);
        // This is an unknown tag.
        out.extend(3u32.to_le_bytes());
        out.extend([77, 1, 2, 3]);
    }
    out
}

fn description_6(kind: &Type) -> Vec<u8> {
    let mut out = Vec::new();
    var(&mut out, kind.id.into());
    utf8(&mut out, &kind.provider);
    var(&mut out, kind.event.into());
    utf8(&mut out, &kind.name);
    out.extend((kind.fields.len() as u16).to_le_bytes());
    for (name, code) in &kind.fields {
        let mut field = Vec::new();
        utf8(&mut field, name);
        // A byte more than the type has.
        field.extend([*code, 0xCC]);
        out.extend((field.len() as u16).to_le_bytes());
        out.extend(field);
    }
    let mut more = vec![8, kind.level as u8, 9, kind.version as u8, 3];
    more.extend(kind.keywords.to_le_bytes());
    if let Some(opcode) = kind.opcode {
        more.extend([1, opcode]);
    }
    more.push(4);
    utf8(&mut more, "message");
    more.push(6);
    utf8(&mut more, "key");
    utf8(&mut more, "value");
    more.push(7);
    more.extend([9; 16]);
    out.extend((more.len() as u16).to_le_bytes());
    out.extend(more);
    // Bytes that a later version may have.
    out.extend([1, 2, 3]);
    out
}

/// Returns a complete file.
pub fn file(form: Form, pointer_bytes: u8, blocks: &[Block]) -> Vec<u8> {
    let mut writer = Writer::new(form, pointer_bytes);
    blocks.iter().for_each(|block| writer.add(block));
    writer.end()
}

/// A delivered event, with everything copied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeliveredEvent {
    pub kind: u32,
    pub time: i64,
    pub thread: u64,
    pub capture: u64,
    pub process: u64,
    pub processor: Option<u32>,
    pub sequence: u32,
    pub addresses: Vec<u64>,
    pub activity: [u8; 16],
    pub related: [u8; 16],
    pub payload: Vec<u8>,
    pub offset: u64,
}

/// A visitor that copies everything that it receives.
#[derive(Default)]
pub struct Record {
    pub trace: Option<TraceInfo>,
    pub types: Vec<EventType>,
    pub events: Vec<DeliveredEvent>,
    pub lost: Vec<(u64, u64)>,
    pub threads: Vec<(u64, u64, u64, String)>,
}

impl Visitor for Record {
    fn trace(&mut self, trace: &TraceInfo) {
        assert!(self.trace.replace(trace.clone()).is_none());
    }

    fn event_type(&mut self, kind: &EventType) -> Interest {
        assert_eq!(kind.index as usize, self.types.len());
        self.types.push(kind.clone());
        Interest::Deliver
    }

    fn thread(&mut self, thread: &ThreadInfo<'_>) {
        self.threads.push((thread.index, thread.thread, thread.process, thread.name.to_string()));
    }

    fn event(&mut self, event: &NetEvent<'_>) {
        assert_eq!(self.types[event.kind.index as usize], *event.kind);
        self.events.push(DeliveredEvent {
            kind: event.kind.id,
            time: event.time,
            thread: event.thread,
            capture: event.capture_thread,
            process: event.process,
            processor: event.processor,
            sequence: event.sequence,
            addresses: event.stack.addresses().collect(),
            activity: event.activity,
            related: event.related,
            payload: event.payload.to_vec(),
            offset: event.offset,
        });
    }

    fn lost(&mut self, thread: u64, count: u64) {
        self.lost.push((thread, count));
    }
}

pub fn read(file: &[u8]) -> (Record, Summary) {
    let mut record = Record::default();
    let summary = Reader::new(file).with_stacks().read(&mut record);
    (record, summary)
}

pub fn read_in_file_order(file: &[u8]) -> (Record, Summary) {
    let mut record = Record::default();
    let summary = Reader::new(file).with_stacks().in_file_order().read(&mut record);
    (record, summary)
}

/// An input that returns one byte per read, so that every field is split.
pub struct Drops<'a>(pub &'a [u8]);

impl std::io::Read for Drops<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let count = buffer.len().min(1).min(self.0.len());
        buffer[..count].copy_from_slice(&self.0[..count]);
        self.0 = &self.0[count..];
        Ok(count)
    }
}
