//! A strict reader of streams: it panics at anything that a real reader would reject.

use std::collections::BTreeMap;

/// A definition of an event.
#[derive(Clone, Debug)]
pub struct Kind {
    pub provider: String,
    pub event: u32,
    pub name: String,
    pub keywords: u64,
    pub version: u32,
    pub level: u32,
    /// The fields after the level.
    pub fields: Vec<u8>,
}

#[derive(Clone, Debug)]
pub struct Event {
    pub kind: Kind,
    pub time: u64,
    pub thread: u64,
    pub payload: Vec<u8>,
}

#[derive(Debug, Default)]
pub struct Stream {
    pub pid: u32,
    pub events: Vec<Event>,
    /// For each thread, the number of sequence numbers without an event.
    pub lost: BTreeMap<u64, u64>,
    /// Whether the stream has its end marker.
    pub whole: bool,
}

struct Bytes<'a> {
    all: &'a [u8],
    at: usize,
}

impl<'a> Bytes<'a> {
    fn take(&mut self, count: usize) -> &'a [u8] {
        let taken = &self.all[self.at..self.at + count];
        self.at += count;
        taken
    }

    fn number<const N: usize>(&mut self) -> u64 {
        let mut number = [0; 8];
        number[..N].copy_from_slice(self.take(N));
        u64::from_le_bytes(number)
    }

    fn varint(&mut self) -> u64 {
        let (mut number, mut shift) = (0, 0);
        loop {
            let byte = self.take(1)[0];
            number |= u64::from(byte & 0x7f) << shift;
            shift += 7;
            if byte & 0x80 == 0 {
                return number;
            }
        }
    }

    fn z16(&mut self) -> String {
        let units: Vec<u16> =
            std::iter::from_fn(|| Some(self.number::<2>() as u16).filter(|unit| *unit != 0)).collect();
        String::from_utf16(&units).unwrap()
    }

    fn left(&self) -> usize {
        self.all.len() - self.at
    }
}

#[derive(Default)]
struct Header {
    id: u32,
    sequence: u32,
    capture: u64,
    thread: u64,
    time: u64,
    length: usize,
}

/// Reads a stream up to the last complete block.
pub fn read(bytes: &[u8]) -> Stream {
    let mut stream = Stream::default();
    let mut kinds = BTreeMap::new();
    let mut last: BTreeMap<u64, u32> = BTreeMap::new();
    let mut newest = 0;
    if bytes.len() < 32 {
        return stream;
    }
    let mut bytes = Bytes { all: bytes, at: 0 };
    assert_eq!(bytes.take(32), b"Nettrace\x14\0\0\0!FastSerialization.1");
    while bytes.left() > 0 {
        match bytes.take(1)[0] {
            1 => {
                assert_eq!(bytes.left(), 0, "bytes after the end");
                stream.whole = true;
                return stream;
            }
            begin => assert_eq!(begin, 5),
        }
        // The block was cut off.
        if bytes.left() < 32 {
            return stream;
        }
        assert_eq!(bytes.take(2), [5, 1]);
        let versions = (bytes.number::<4>(), bytes.number::<4>());
        let length = bytes.number::<4>() as usize;
        let name = String::from_utf8(bytes.take(length).to_vec()).unwrap();
        assert_eq!(bytes.take(1), [6]);
        if name == "Trace" {
            assert_eq!(versions, (4, 4));
            let body = bytes.take(48);
            stream.pid = u32::from_le_bytes(body[36..40].try_into().unwrap());
        } else {
            assert_eq!(versions, (2, 2));
            let size = bytes.number::<4>() as usize;
            let padding = (4 - bytes.at % 4) % 4;
            if bytes.left() < padding + size + 1 {
                return stream;
            }
            assert!(bytes.take(padding).iter().all(|byte| *byte == 0));
            let mut block = Bytes { all: bytes.take(size), at: 0 };
            match name.as_str() {
                "MetadataBlock" => blobs(&mut block, |header, mut body| {
                    assert_eq!(header.id, 0);
                    let id = body.number::<4>() as u32;
                    let kind = Kind {
                        provider: body.z16(),
                        event: body.number::<4>() as u32,
                        name: body.z16(),
                        keywords: body.number::<8>(),
                        version: body.number::<4>() as u32,
                        level: body.number::<4>() as u32,
                        fields: body.all[body.at..].to_vec(),
                    };
                    assert!(kinds.insert(id, kind).is_none(), "{id} is defined twice");
                }),
                "EventBlock" => blobs(&mut block, |header, body| {
                    assert!(header.time >= newest, "an event is older than one flagged as time-ordered");
                    newest = header.time;
                    let before = last.insert(header.capture, header.sequence).unwrap_or(0);
                    let gap = header.sequence.checked_sub(before + 1).expect("sequence numbers increase");
                    *stream.lost.entry(header.capture).or_default() += u64::from(gap);
                    let kind = kinds.get(&header.id).expect("definitions precede their events").clone();
                    let (time, thread) = (header.time, header.thread);
                    stream.events.push(Event { kind, time, thread, payload: body.all.to_vec() });
                }),
                "SPBlock" => {
                    let time = block.number::<8>();
                    assert!(time >= newest);
                    newest = time;
                    for _ in 0..block.number::<4>() {
                        let (thread, sequence) = (block.number::<8>(), block.number::<4>() as u32);
                        let before = last.insert(thread, sequence).unwrap_or(0);
                        *stream.lost.entry(thread).or_default() += u64::from(sequence - before);
                    }
                }
                "StackBlock" => {}
                other => panic!("a block called {other}"),
            }
        }
        assert_eq!(bytes.take(1), [6]);
    }
    stream
}

/// Passes each blob of a block with short headers to `each`.
fn blobs(block: &mut Bytes<'_>, mut each: impl FnMut(&Header, Bytes<'_>)) {
    assert_eq!(block.take(4), [20, 0, 1, 0]);
    block.take(16);
    let mut header = Header::default();
    while block.left() > 0 {
        let flags = block.take(1)[0];
        assert_eq!(flags & 0x40, 0x40, "each event is marked as sorted");
        if flags & 0x01 != 0 {
            header.id = block.varint() as u32;
        }
        if flags & 0x02 != 0 {
            header.sequence = header.sequence.wrapping_add(block.varint() as u32);
            header.capture = block.varint();
            block.varint();
        }
        if flags & 0x02 != 0 || header.id != 0 {
            header.sequence = header.sequence.wrapping_add(1);
        }
        if flags & 0x04 != 0 {
            header.thread = block.varint();
        }
        assert_eq!(flags & 0x38, 0, "no stacks, no activities");
        header.time = header.time.wrapping_add(block.varint());
        if flags & 0x80 != 0 {
            header.length = block.varint() as usize;
        }
        each(&header, Bytes { all: block.take(header.length), at: 0 });
    }
}

impl Stream {
    /// The number of events of each id of a provider.
    pub fn counts(&self, provider: &str) -> BTreeMap<u32, usize> {
        let mut counts = BTreeMap::new();
        for event in self.events.iter().filter(|event| event.kind.provider == provider) {
            *counts.entry(event.kind.event).or_default() += 1;
        }
        counts
    }

    /// The providers whose events the stream contains, except the one that describes the process.
    pub fn providers(&self) -> Vec<&str> {
        let mut names: Vec<&str> = self.events.iter().map(|event| event.kind.provider.as_str()).collect();
        names.sort_unstable();
        names.dedup();
        names.retain(|name| *name != "Microsoft-DotNETCore-EventPipe");
        names
    }

    pub fn all_lost(&self) -> u64 {
        self.lost.values().sum()
    }
}
