//! Writes logs: the header, blocks of events, the end.
//!
//! [`Log`] writes a whole log to any output. A program that has a buffer of its own, or that may not allocate, uses its parts:
//! [`header`], [`Blocks`] and [`END`].
//!
//! ```
//! use ghc_eventlog::events::{GcEnd, GcStart, HeapLive};
//! use ghc_eventlog::write::Log;
//!
//! let mut log = Log::new(Vec::new());
//! log.set_time(1_000);
//! log.write(Some(0), &GcStart {})?;
//! log.set_time(5_000);
//! log.write(Some(0), &GcEnd {})?;
//! log.write(Some(0), &HeapLive { capset: 0, bytes: 1 << 20 })?;
//! let file: Vec<u8> = log.finish()?;
//! # assert!(file.starts_with(b"hdrb") && file.ends_with(&[0xff, 0xff]));
//! # Ok::<(), std::io::Error>(())
//! ```
//!
//! The head of a block has its length and the capability to which all its events belong. Here a block ends where the capability changes,
//! and where the caller ends it. So the whole file is ordered by time, not only each block, and a reader does not need to sort. GHC, whose
//! threads have separate buffers, writes long blocks that overlap in time. The cost is 24 bytes for each change.

use std::io::{self, Write};

use crate::events::{BlockMarker, EVENT_TYPES, EventType, Payload, id};
use crate::format::{
    BLOCK_HEAD, DATA_BEGIN, DATA_END, FIXED_HEAD, HEADER_BEGIN, HEADER_END, MOST_PAYLOAD, NO_CAPABILITY, Size,
    TYPE_BEGIN, TYPE_END, TYPES_BEGIN, TYPES_END, VARIABLE_HEAD,
};
use trace_io::bytes::Bytes;

/// The end marker, which follows the last event of a file.
pub const END: [u8; 2] = DATA_END.to_be_bytes();

/// The most bytes that [`Blocks::put`] appends.
pub const MOST_BYTES: usize = BLOCK_HEAD + VARIABLE_HEAD + MOST_PAYLOAD;

/// Appends the header of a log that uses these types.
pub fn header<'t>(to: &mut Bytes, types: impl IntoIterator<Item = &'t EventType>) {
    to.put(&HEADER_BEGIN);
    to.put(&TYPES_BEGIN);
    for known in types {
        to.put(&TYPE_BEGIN);
        to.put(&known.id.to_be_bytes());
        to.put(&known.declared_size().to_be_bytes());
        to.put(&(known.description.len() as u32).to_be_bytes());
        to.put(known.description.as_bytes());
        to.put(&0_u32.to_be_bytes());
        to.put(&TYPE_END);
    }
    to.put(&TYPES_END);
    to.put(&HEADER_END);
    to.put(&DATA_BEGIN);
}

const _: () = assert!(BLOCK_HEAD == FIXED_HEAD + BlockMarker::BYTES);

/// A block that is being filled.
#[derive(Clone, Copy, Debug)]
struct Open {
    capability: u16,
    /// The time of its first event.
    began: u64,
    /// Its offset in the buffer.
    at: usize,
}

/// Assembles events into blocks, in a buffer that belongs to the caller. Does not allocate.
/// Times never decrease: an event with an earlier time than the previous event gets the time of the previous event.
#[derive(Debug, Default)]
pub struct Blocks {
    open: Option<Open>,
    /// The time of the next event.
    time: u64,
    /// The time of the last event.
    last: u64,
}

impl Blocks {
    /// Sets the time of the following events, in nanoseconds since the program began, unless it is before the current time.
    #[inline]
    pub fn set_time(&mut self, ns: u64) {
        self.time = self.time.max(ns);
    }

    /// Appends an event of a capability. `to` must have room for [`MOST_BYTES`], and its contents may change only after [`end`](Self::end).
    /// The type must be in the header. A payload of variable size must have at most [`MOST_PAYLOAD`] bytes.
    #[inline]
    pub fn put<P: Payload>(&mut self, to: &mut Bytes, capability: u16, payload: &P) {
        self.turn_to(to, capability);
        self.last = self.time;
        to.put(&P::LAYOUT.id.to_be_bytes());
        to.put(&self.time.to_be_bytes());
        match P::LAYOUT.size {
            Size::Fixed(_) => payload.encode(to),
            Size::Variable => {
                to.put(&[0; 2]);
                let begin = to.len();
                payload.encode(to);
                debug_assert!(to.len() - begin <= MOST_PAYLOAD, "the payload of {}", P::LAYOUT.name);
                let length = (to.len() - begin) as u16;
                to.set(begin - 2, &length.to_be_bytes());
            }
        }
    }

    /// Begins a block of this capability, unless one is open.
    #[inline]
    fn turn_to(&mut self, to: &mut Bytes, capability: u16) {
        if self.open.is_some_and(|open| open.capability == capability) {
            return;
        }
        self.end(to);
        self.open = Some(Open { capability, began: self.time, at: to.len() });
        // Filled in when the block ends.
        to.put(&[0; BLOCK_HEAD]);
    }

    /// Ends the open block, if there is one. The next event begins a block.
    pub fn end(&mut self, to: &mut Bytes) {
        let Some(Open { capability, began, at }) = self.open.take() else { return };
        let marker = BlockMarker { size: (to.len() - at) as u32, end_time: self.last, cap: capability };
        to.set(at, &id::BLOCK_MARKER.to_be_bytes());
        to.set(at + 2, &began.to_be_bytes());
        to.set(at + FIXED_HEAD, &marker.to_bytes());
    }
}

/// The buffer of a [`Log`] is written when it holds at least this many bytes.
const WRITE_BYTES: usize = 64 << 10;

/// Writes a log to any output. Its header declares all types that are known.
#[derive(Debug)]
pub struct Log<W> {
    output: W,
    bytes: Bytes,
    blocks: Blocks,
}

impl<W: Write> Log<W> {
    /// Begins a log. `output` need not be buffered.
    pub fn new(output: W) -> Log<W> {
        let mut bytes = Bytes::with_capacity(WRITE_BYTES + MOST_BYTES);
        let mut types: Vec<_> = EVENT_TYPES.iter().collect();
        types.sort_by_key(|known| known.id);
        header(&mut bytes, types);
        Log { output, bytes, blocks: Blocks::default() }
    }

    /// Sets the time of the following events, in nanoseconds since the program began, unless it is before the current time.
    pub fn set_time(&mut self, ns: u64) {
        self.blocks.set_time(ns);
    }

    /// Writes an event of a capability; `None` for an event of the whole program.
    ///
    /// # Errors
    /// The payload is longer than [`MOST_PAYLOAD`], so it was not written; or writing the output failed.
    pub fn write<P: Payload>(&mut self, capability: Option<u16>, payload: &P) -> io::Result<()> {
        if payload.size() > MOST_PAYLOAD {
            let message = format!("{} has {} bytes; expected at most {MOST_PAYLOAD}", P::LAYOUT.name, payload.size());
            return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
        }
        self.blocks.put(&mut self.bytes, capability.unwrap_or(NO_CAPABILITY), payload);
        if self.bytes.len() >= WRITE_BYTES { self.write_out() } else { Ok(()) }
    }

    /// Ends the log, and returns the output.
    ///
    /// # Errors
    /// Writing the output failed.
    pub fn finish(mut self) -> io::Result<W> {
        self.write_out()?;
        self.output.write_all(&END)?;
        self.output.flush()?;
        Ok(self.output)
    }

    fn write_out(&mut self) -> io::Result<()> {
        self.blocks.end(&mut self.bytes);
        let written = self.output.write_all(self.bytes.as_slice());
        self.bytes.clear();
        written
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::events::{
        Breakdown, CentreFlags, Ended, Filters, GcStart, HeapLive, HeapProfBegin, HeapProfCostCentre, InternString,
        Items, Leading, LogMsg, ProfSampleCostCentre, ProgramArgs, Raw, Record, Stack, StackBuffer, StopReason,
        StopThread, Text, TickyCounterDef, UserBinaryMsg,
    };
    use crate::read::{Event, Visitor, in_file_order};

    /// Compares each event read with the event written.
    struct Expected<'a>(std::vec::IntoIter<(u64, Option<u16>, Record<'a>)>);

    impl Visitor for Expected<'_> {
        fn event(&mut self, event: &Event<'_>) {
            if !matches!(Record::of(event), Some(Record::BlockMarker(_))) {
                let (time, cap, record) = self.0.next().expect("no more events were written");
                assert_eq!((event.time, event.cap, Record::of(event)), (time, cap, Some(record)));
            }
        }
    }

    /// Writes each payload on a capability, and lists it for the comparison.
    macro_rules! write_all {
        ($log:ident, $expected:ident: $($name:ident { $($fields:tt)* })+) => {$(
            let payload = $name { $($fields)* };
            let cap = [None, Some(0), Some(7)][$expected.len() % 3];
            $log.set_time($expected.len() as u64 / 2);
            $log.write(cap, &payload).unwrap();
            $expected.push(($expected.len() as u64 / 2, cap, Record::$name(payload)));
        )+};
    }

    #[test]
    fn events_are_read_as_they_were_written() {
        let (mut log, mut expected, mut buffer) = (Log::new(Vec::new()), Vec::new(), StackBuffer::default());
        let stack = buffer.fill(1..1000);
        assert_eq!(stack.centres().collect::<Vec<_>>(), (1..=255).collect::<Vec<_>>(), "the depth is a byte");
        for _ in 0..3000 {
            write_all! { log, expected:
                GcStart {}
                HeapLive { capset: 3, bytes: u64::MAX - 1 }
                StopThread { thread: 7, reason: StopReason::BLACK_HOLE, info: 8 }
                LogMsg { text: Text(b"a message") }
                ProgramArgs { capset: 0, args: Items(b"a\0b c\0") }
                InternString { text: Leading(b"text"), id: 9 }
                UserBinaryMsg { bytes: Raw(&[0, 1, 2]) }
                HeapProfBegin {
                    profile: 0,
                    period: 5,
                    breakdown: Breakdown::TYPE,
                    filters: Filters([Ended(b"m"), Ended(b""), Ended(b"t"), Ended(b""), Ended(b""), Ended(b"r"), Ended(b"")]),
                }
                HeapProfCostCentre {
                    id: 1,
                    label: Ended(b"f"),
                    module: Ended(b"M"),
                    place: Ended(b""),
                    flags: CentreFlags::CAF,
                }
                ProfSampleCostCentre { cap: 1, tick: 2, stack }
                ProfSampleCostCentre { cap: 1, tick: 3, stack: Stack::default() }
                TickyCounterDef { counter: 1, arity: 2, kinds: Ended(b"k"), name: Ended(b"n"), info: Some(5) }
                TickyCounterDef { counter: 1, arity: 2, kinds: Ended(b"k"), name: Ended(b"n"), info: None }
            }
        }
        let file = log.finish().unwrap();
        assert!(file.len() > 3 * WRITE_BYTES, "several buffers");
        let mut expected = Expected(expected.into_iter());
        let summary = in_file_order(&file[..], &mut expected);
        assert_eq!((summary.damage, summary.ended_orderly, expected.0.len()), (None, true, 0));
        assert_eq!(summary.types, EVENT_TYPES.len() as u64);
    }

    /// A stored length is two bytes: a longer payload would be read as other events.
    #[test]
    fn a_payload_that_is_too_long_is_refused() {
        let mut log = Log::new(Vec::new());
        let text = vec![b'x'; MOST_PAYLOAD + 1];
        let error = log.write(None, &LogMsg { text: Text(&text) }).unwrap_err();
        assert_eq!(error.to_string(), "LogMsg has 65536 bytes; expected at most 65535");
        log.write(None, &LogMsg { text: Text(&text[1..]) }).unwrap();
        let mut count = Expected(vec![(0, None, Record::LogMsg(LogMsg { text: Text(&text[1..]) }))].into_iter());
        let summary = in_file_order(&log.finish().unwrap()[..], &mut count);
        assert_eq!((summary.damage, count.0.len()), (None, 0));
    }

    /// The size of a payload is announced before it is written, so both must agree; a zero inside a text is left out.
    #[test]
    fn a_terminated_text_has_one_zero() {
        let centre = HeapProfCostCentre { label: Ended(b"a\0b\0"), ..HeapProfCostCentre::default() };
        let mut bytes = Bytes::with_capacity(64);
        centre.encode(&mut bytes);
        assert_eq!(bytes.as_slice(), b"\0\0\0\0ab\0\0\0\0");
        assert_eq!(centre.size(), bytes.len());
    }
}
