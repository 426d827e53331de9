//! Logs for tests.
#![allow(dead_code, reason = "each test needs some of it")]

use std::collections::BTreeMap;
use std::io;

use ghc_eventlog::read::{Event, EventType, ReadAt, Visitor, in_file_order};

/// A log under construction.
pub struct Log(pub Vec<u8>);

impl Log {
    /// Writes the header: number, size (none if variable) and description of each type.
    pub fn new(types: &[(u16, Option<u16>, &str)]) -> Log {
        let mut log = b"hdrbhetb".to_vec();
        for (id, size, description) in types {
            log.extend(b"etb\0");
            log.extend(id.to_be_bytes());
            log.extend(size.unwrap_or(0xffff).to_be_bytes());
            log.extend((description.len() as u32).to_be_bytes());
            log.extend(description.as_bytes());
            log.extend([0; 4]);
            log.extend(b"ete\0");
        }
        log.extend(b"hetehdredatb");
        Log(log)
    }

    pub fn fixed(&mut self, id: u16, time: u64, payload: &[u8]) {
        self.0.extend(id.to_be_bytes());
        self.0.extend(time.to_be_bytes());
        self.0.extend(payload);
    }

    pub fn variable(&mut self, id: u16, time: u64, payload: &[u8]) {
        self.0.extend(id.to_be_bytes());
        self.0.extend(time.to_be_bytes());
        self.0.extend((payload.len() as u16).to_be_bytes());
        self.0.extend(payload);
    }

    /// Writes a block with the events that `inside` adds.
    pub fn block(&mut self, time: u64, end: u64, cap: u16, inside: impl FnOnce(&mut Log)) {
        let began = self.0.len();
        let mut payload = [0; 14];
        payload[4..12].copy_from_slice(&end.to_be_bytes());
        payload[12..].copy_from_slice(&cap.to_be_bytes());
        self.fixed(18, time, &payload);
        inside(self);
        let size = (self.0.len() - began) as u32;
        self.0[began + 10..began + 14].copy_from_slice(&size.to_be_bytes());
    }

    pub fn end(mut self) -> Vec<u8> {
        self.0.extend([0xff; 2]);
        self.0
    }
}

/// The types in constructed logs.
pub const TYPES: &[(u16, Option<u16>, &str)] = &[
    (1, Some(4), "Run thread"),
    (18, Some(14), "Block marker"),
    (9, Some(0), "Starting GC"),
    (10, Some(0), "Finished GC"),
    (19, None, "User message"),
    (50, Some(12), "Current heap size"),
    (900, Some(3), "Three bytes"),
    (901, None, "Some bytes"),
];

/// The events of a log by capability, in file order; block markers are omitted.
#[derive(Default)]
struct Parts {
    types: Vec<(u16, Option<u16>, String)>,
    caps: BTreeMap<u16, Vec<(u64, Vec<u8>)>>,
    last: u64,
}

impl Visitor for Parts {
    fn event_type(&mut self, kind: &EventType) {
        self.types.push((kind.id, kind.size, kind.description.clone()));
    }

    fn event(&mut self, event: &Event<'_>) {
        self.last = self.last.max(event.time);
        if event.kind.id != 18 {
            let mut bytes = event.kind.id.to_be_bytes().to_vec();
            bytes.extend(event.time.to_be_bytes());
            if event.kind.size.is_none() {
                bytes.extend((event.payload.len() as u16).to_be_bytes());
            }
            bytes.extend(event.payload);
            self.caps.entry(event.cap.unwrap_or(0xffff)).or_default().push((event.time, bytes));
        }
    }
}

/// Repeats the events of a log with increasing times, in blocks as GHC writes them; the bytes are generated when they are read.
pub struct Endless {
    header: Vec<u8>,
    /// A block for each capability, and the positions of the times in it.
    lap: Vec<u8>,
    times: Vec<usize>,
    lap_time: u64,
    laps: u64,
}

impl Endless {
    /// The largest size of a block of a lap: the size of the buffers of GHC.
    const BLOCK: usize = 2 << 20;

    /// Creates a log of at least `size` bytes.
    pub fn new(log: &[u8], size: u64) -> Endless {
        let mut parts = Parts::default();
        in_file_order(log, &mut parts);
        let bytes_of = |events: &[(u64, Vec<u8>)]| events.iter().map(|(_, bytes)| bytes.len()).sum::<usize>();
        let largest = parts.caps.values().map(|events| bytes_of(events)).max().expect("there are events");
        let rounds = (Self::BLOCK / largest).max(1) as u64;
        let round_time = parts.last + 1;
        let types: Vec<_> = parts.types.iter().map(|(id, size, text)| (*id, *size, text.as_str())).collect();
        let (header, mut lap, mut times) = (Log::new(&types).0, Log(Vec::new()), Vec::new());
        for (&cap, events) in &parts.caps {
            times.extend([lap.0.len() + 2, lap.0.len() + 14]);
            lap.block(events[0].0, rounds * round_time, cap, |lap| {
                for (round, (time, bytes)) in
                    (0..rounds).flat_map(|round| events.iter().map(move |event| (round, event)))
                {
                    times.push(lap.0.len() + 2);
                    let at = lap.0.len();
                    lap.0.extend(bytes);
                    lap.0[at + 2..at + 10].copy_from_slice(&(time + round * round_time).to_be_bytes());
                }
            });
        }
        let laps = size.div_ceil(lap.0.len() as u64);
        Endless { header, lap: lap.0, times, lap_time: rounds * round_time, laps }
    }

    /// The total size.
    pub fn len(&self) -> u64 {
        self.header.len() as u64 + self.laps * self.lap.len() as u64 + 2
    }

    /// Copies the bytes at this offset, up to the end of the part that contains them.
    fn piece(&self, buffer: &mut [u8], offset: u64) -> usize {
        let copy = |buffer: &mut [u8], from: &[u8]| {
            let count = buffer.len().min(from.len());
            buffer[..count].copy_from_slice(&from[..count]);
            count
        };
        let Some(behind) = offset.checked_sub(self.header.len() as u64) else {
            return copy(buffer, &self.header[offset as usize..]);
        };
        let (lap, at) = (behind / self.lap.len() as u64, (behind % self.lap.len() as u64) as usize);
        if lap >= self.laps {
            return copy(buffer, [0xff; 2].get(at..).unwrap_or_default());
        }
        let count = copy(buffer, &self.lap[at..]);
        let first = self.times.partition_point(|&time| time + 8 <= at);
        for &time in self.times[first..].iter().take_while(|&&time| time < at + count) {
            let old = u64::from_be_bytes(self.lap[time..time + 8].try_into().unwrap());
            for (index, byte) in (old + lap * self.lap_time).to_be_bytes().into_iter().enumerate() {
                if let Some(place) = (time + index).checked_sub(at).and_then(|place| buffer[..count].get_mut(place)) {
                    *place = byte;
                }
            }
        }
        count
    }
}

impl ReadAt for Endless {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let mut filled = 0;
        while filled < buffer.len() {
            match self.piece(&mut buffer[filled..], offset + filled as u64) {
                0 => break,
                count => filled += count,
            }
        }
        Ok(filled)
    }
}

/// Returns such a log in memory.
pub fn repeated(log: &[u8], size: u64) -> Vec<u8> {
    let endless = Endless::new(log, size);
    let mut bytes = vec![0; endless.len() as usize];
    assert_eq!(endless.read_at(&mut bytes, 0).unwrap(), bytes.len());
    bytes
}
