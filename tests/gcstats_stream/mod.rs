//! A trace of any length, generated while it is read: blocks of collections that differ only in times and numbers.

#![allow(dead_code, reason = "each user needs a part of it")]

use std::io::{self, Read};

const THREAD: u64 = 1234;
/// Nanoseconds from one event to the next.
const STEP: u64 = 500;
const RUNTIME: &str = "Microsoft-Windows-DotNETRuntime";

/// The .NET events that are written: number, version.
const TYPES: [(u32, u32); 12] =
    [(9, 1), (8, 1), (35, 0), (1, 2), (202, 0), (205, 3), (204, 3), (2, 1), (4, 2), (7, 1), (3, 1), (10, 4)];

/// A generated trace.
pub struct Stream {
    /// The bytes being read.
    chunk: Vec<u8>,
    at: usize,
    block: Block,
    next: u64,
    blocks: u64,
}

/// An event block, and the positions in it that differ from block to block.
struct Block {
    bytes: Vec<u8>,
    /// The position of the first event's sequence number minus one, in 5 bytes.
    sequence_at: usize,
    /// The position of the first event's time, in 10 bytes.
    time_at: usize,
    /// The positions of the collections' numbers.
    numbers_at: Vec<usize>,
    events: u64,
    collections: u64,
}

impl Stream {
    /// A trace of at least `bytes` bytes, with `ticks` allocation ticks for each collection.
    pub fn new(bytes: u64, ticks: usize) -> Stream {
        let head = head();
        let block = Block::new(head.len(), ticks);
        let blocks = bytes.div_ceil(block.bytes.len() as u64);
        Stream { chunk: head, at: 0, block, next: 0, blocks }
    }

    /// The number of collections.
    pub fn collections(&self) -> u64 {
        self.blocks * self.block.collections
    }

    /// The number of bytes in event blocks.
    pub fn event_bytes(&self) -> u64 {
        self.blocks * self.block.bytes.len() as u64
    }

    fn refill(&mut self) {
        self.at = 0;
        self.chunk.clear();
        if self.next < self.blocks {
            self.block.number(self.next);
            self.chunk.extend_from_slice(&self.block.bytes);
        } else if self.next == self.blocks {
            self.chunk.push(1);
        }
        self.next += 1;
    }
}

impl Read for Stream {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        if self.at == self.chunk.len() {
            self.refill();
        }
        let part = &self.chunk[self.at..];
        let length = part.len().min(to.len());
        to[..length].copy_from_slice(&part[..length]);
        self.at += length;
        Ok(length)
    }
}

fn u16s(numbers: &[u16]) -> Vec<u8> {
    numbers.iter().flat_map(|number| number.to_le_bytes()).collect()
}

fn u32s(numbers: &[u32]) -> Vec<u8> {
    numbers.iter().flat_map(|number| number.to_le_bytes()).collect()
}

fn u64s(numbers: &[u64]) -> Vec<u8> {
    numbers.iter().flat_map(|number| number.to_le_bytes()).collect()
}

fn z16(text: &str) -> Vec<u8> {
    text.encode_utf16().chain([0]).flat_map(u16::to_le_bytes).collect()
}

fn varint(mut value: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    while value >= 0x80 {
        bytes.push(value as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
    bytes
}

/// Encodes a number in exactly `bytes.len()` bytes.
fn wide(mut value: u64, bytes: &mut [u8]) {
    let last = bytes.len() - 1;
    for (index, byte) in bytes.iter_mut().enumerate() {
        *byte = (value & 0x7F) as u8 | if index < last { 0x80 } else { 0 };
        value >>= 7;
    }
}

/// Object begin, type, size, padding; the body follows.
fn object(name: &str, at: usize, body: &[u8]) -> Vec<u8> {
    let mut bytes = [vec![5, 5, 1], u32s(&[2, 2, name.len() as u32]), name.as_bytes().to_vec(), vec![6]].concat();
    bytes.extend(u32s(&[body.len() as u32]));
    bytes.resize((at + bytes.len()).next_multiple_of(4) - at, 0);
    bytes.extend(body);
    bytes.push(6);
    bytes
}

fn head() -> Vec<u8> {
    let mut bytes = [b"Nettrace".to_vec(), u32s(&[20]), b"!FastSerialization.1".to_vec()].concat();
    bytes.extend([vec![5, 5, 1], u32s(&[4, 4, 5]), b"Trace\x06".to_vec()].concat());
    bytes.extend(u16s(&[2026, 1, 3, 7, 12, 0, 0, 0]));
    bytes.extend(u64s(&[0, 1_000_000_000]));
    bytes.extend(u32s(&[8, 7, 4, 1_000_000]));
    bytes.push(6);
    let mut body = [u16s(&[20, 1]), u64s(&[0, 0])].concat();
    for (index, (event, version)) in TYPES.iter().enumerate() {
        let names = [u32s(&[index as u32 + 1]), z16(RUNTIME), u32s(&[*event]), z16("")].concat();
        let blob = [names, u64s(&[1]), u32s(&[*version, 4, 0])].concat();
        // The header states that the event is sorted, and contains its length.
        body.extend([vec![0xC0, 0], varint(blob.len() as u64), blob].concat());
    }
    bytes.extend(object("MetadataBlock", bytes.len(), &body));
    bytes
}

impl Block {
    fn new(at: usize, ticks: usize) -> Block {
        const BYTES: usize = 96 << 10;
        let mut block = Block {
            bytes: [u16s(&[20, 1]), u64s(&[0, 0])].concat(),
            sequence_at: 0,
            time_at: 0,
            numbers_at: Vec::new(),
            events: 0,
            collections: 0,
        };
        while block.bytes.len() < BYTES {
            block.collection(ticks);
        }
        block.fill_up(at);
        let body_at = object("EventBlock", at, &[]).len() - 1;
        let body = std::mem::take(&mut block.bytes);
        block.bytes = object("EventBlock", at, &body);
        block.sequence_at += body_at;
        block.time_at += body_at;
        block.numbers_at.iter_mut().for_each(|place| *place += body_at);
        block
    }

    /// Adds an event with an unknown tail whose length makes the next block begin at a multiple of four bytes.
    fn fill_up(&mut self, at: usize) {
        let with_tail = |tail: usize| [u16s(&[0]), vec![0xEE; tail]].concat();
        // Flags, type, time (two bytes) and length precede the payload.
        let length = object("EventBlock", at, &self.bytes).len() + 5 + with_tail(0).len();
        self.event(7, &with_tail(length.next_multiple_of(4) - length));
        assert!(object("EventBlock", at, &self.bytes).len().is_multiple_of(4));
    }

    fn event(&mut self, event: u32, payload: &[u8]) -> usize {
        let kind = TYPES.iter().position(|(number, _)| *number == event).expect("the event is in TYPES") as u64 + 1;
        if self.events == 0 {
            // Type, sequence with capture thread and processor, thread, sorted, length.
            self.bytes.extend([vec![0x01 | 0x02 | 0x04 | 0x40 | 0x80], varint(kind)].concat());
            self.sequence_at = self.bytes.len();
            self.bytes.extend([0; 5]);
            self.bytes.extend([varint(THREAD), varint(3), varint(THREAD)].concat());
            self.time_at = self.bytes.len();
            self.bytes.extend([0; 10]);
        } else {
            self.bytes.extend([vec![0x01 | 0x40 | 0x80], varint(kind), varint(STEP)].concat());
        }
        self.bytes.extend(varint(payload.len() as u64));
        self.events += 1;
        let payload_at = self.bytes.len();
        self.bytes.extend(payload);
        payload_at
    }

    fn collection(&mut self, ticks: usize) {
        let tick =
            [u32s(&[106_000, 0]), u16s(&[0]), u64s(&[106_000, 0xABCD]), z16("System.Collections.Generic.List`1")];
        let tick = [tick.concat(), u32s(&[0]), u64s(&[0xDEAD_BEEF, 64])].concat();
        for _ in 0..ticks {
            self.event(10, &tick);
        }
        self.event(9, &[u32s(&[1, 0]), u16s(&[0])].concat());
        self.event(8, &u16s(&[0]));
        self.event(35, &[u32s(&[0]), u16s(&[0])].concat());
        let start = [u32s(&[0, 0, 0, 0]), u16s(&[0]), u64s(&[0])].concat();
        let number_at = self.event(1, &start);
        self.numbers_at.push(number_at);
        for sort in 0..4 {
            self.event(202, &[u32s(&[0]), u16s(&[0]), u32s(&[sort]), u64s(&[12_345])].concat());
        }
        let global = [u64s(&[4 << 20]), u32s(&[1, 0, 0, 0, 6]), u16s(&[0]), u32s(&[1, 40, 0, 0])].concat();
        self.event(205, &global);
        let generation = u64s(&[4_200_000, 100, 200, 1_000_000, 300, 400, 10, 20_000, 900_000, 4 << 20]);
        let heap = [u16s(&[0]), u64s(&[0; 6]), u32s(&[0; 6]), u64s(&[0]), u32s(&[5]), generation.repeat(5)].concat();
        self.event(204, &heap);
        let number_at = self.event(2, &[u32s(&[0, 0]), u16s(&[0])].concat());
        self.numbers_at.push(number_at);
        let stats = [u64s(&[1_000_000; 8]), u64s(&[0, 0]), u32s(&[3, 0, 40]), u16s(&[0]), u64s(&[5_000, 50])].concat();
        self.event(4, &stats);
        self.event(7, &u16s(&[0]));
        self.event(3, &u16s(&[0]));
        self.collections += 1;
    }

    /// Changes the block into the one with this index.
    fn number(&mut self, index: u64) {
        let events = index * self.events;
        wide(events, &mut self.bytes[self.sequence_at..][..5]);
        wide((events + 1) * STEP, &mut self.bytes[self.time_at..][..10]);
        for (place, at) in self.numbers_at.iter().enumerate() {
            let number = index * self.collections + place as u64 / 2 + 1;
            self.bytes[*at..][..4].copy_from_slice(&(number as u32).to_le_bytes());
        }
    }
}
