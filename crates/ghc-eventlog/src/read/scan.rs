//! Delivers all events in file order, resuming after damage.

use std::io::{self, Read};

use super::block::Block;
use super::damage::{Damage, DamageKind, LastGood, Resumed};
use super::event::Event;
use super::header;
use super::layout::{self, bytes_at};
use super::types::{EventType, Row, Step, Types};
use super::visitor::Summary;
use crate::events::{BlockMarker, id};
use crate::format::{BLOCK_HEAD, DATA_END, FIXED_HEAD, VARIABLE_HEAD};
use trace_io::source::Source;

/// The number of bytes read at once: four events of the largest size, so many that the time of the system calls is negligible. An item that
/// must be in the buffer as a whole is at most an event (65547 bytes) with the head of the next one, or a description in the header, whose
/// length the header's reader limits (`.format.hostile`).
const BUFFER: usize = 256 << 10;

/// The smallest size of a block.
const MARKER: u32 = BLOCK_HEAD as u32;

/// The longest event, in bytes.
const LONGEST: usize = VARIABLE_HEAD + u16::MAX as usize;
/// Bytes whose time as an event would be more than this after the previous event's are not accepted as an event: 13 days.
const NOT_LONG_NS: u64 = 1 << 50;

/// How often reading may resume at a later block.
const MOST_RESUMPTIONS: u64 = 4096;

/// A log that is being read.
#[derive(Debug)]
pub(super) struct Scan<R> {
    source: Source<R>,
    types: Types,
    block: Block,
    /// The end of the current block, if one has begun since the last end marker.
    block_end: Option<u64>,
    resumptions: u64,
    has_left_out: bool,
    has_header: bool,
    last_good: Option<LastGood>,
    summary: Summary,
}

/// An event as it is in the file.
#[derive(Clone, Copy, Debug)]
pub(super) struct Raw<'a> {
    pub(super) offset: u64,
    pub(super) bytes: &'a [u8],
    head: usize,
    row: Row,
    pub(super) cap: Option<u16>,
    /// The block before this event.
    pub(super) before: Block,
    /// Whether bytes between this event and the previous one were skipped, or the length of one of the two was corrected.
    pub(super) is_resumed: bool,
    /// Whether the length is that of the event's fields, and not the one stored in its head.
    pub(super) is_mended: bool,
}

impl<'a> Raw<'a> {
    #[inline]
    pub(super) fn time(&self) -> u64 {
        u64::from_be_bytes(bytes_at(self.bytes, 2))
    }

    #[inline]
    pub(super) fn is_marker(&self) -> bool {
        self.row.is_marker
    }

    #[inline]
    pub(super) fn event(&self, types: &'a Types) -> Event<'a> {
        Event {
            kind: types.kind(self.row),
            time: self.time(),
            cap: self.cap,
            payload: &self.bytes[self.head..],
            offset: self.offset,
        }
    }
}

/// The result of a step of the scan.
enum Next {
    Event {
        length: usize,
        head: usize,
        row: Row,
        is_mended: bool,
    },
    /// The step has skipped something other than an event.
    Again,
    Over,
}

impl<R: Read> Scan<R> {
    /// Reads the header.
    pub(super) fn open(input: R, tell: &mut dyn FnMut(&EventType)) -> Scan<R> {
        let mut scan = Scan {
            source: Source::new(input, BUFFER),
            types: Types::new(),
            block: Block::default(),
            block_end: None,
            resumptions: 0,
            has_left_out: false,
            has_header: false,
            last_good: None,
            summary: Summary::default(),
        };
        let (mut count, mut minor) = (0, Vec::new());
        let mut tell = |kind: &EventType| {
            count += 1;
            tell(kind);
        };
        // A header may have any number of descriptions, so the number of damages that are kept for them is limited, too.
        let read = header::read(&mut scan.source, &mut scan.types, &mut tell, &mut |damage| minor.push(damage));
        scan.summary.types = count;
        minor.into_iter().for_each(|damage| scan.damaged(damage));
        match read {
            Ok(()) => scan.has_header = true,
            Err(damage) => scan.damaged(damage),
        }
        scan
    }

    pub(super) fn has_header(&self) -> bool {
        self.has_header
    }

    pub(super) fn types(&self) -> &Types {
        &self.types
    }

    pub(super) fn summary(self) -> Summary {
        Summary { bytes: self.source.offset(), ..self.summary }
    }

    /// Counts damage, and keeps the first.
    pub(super) fn damaged(&mut self, damage: Damage) {
        self.summary.damages += 1;
        self.summary.damage.get_or_insert(damage);
    }

    fn damaged_at(&mut self, offset: u64, kind: DamageKind) {
        let last_good = self.last_good;
        self.damaged(Damage { offset, kind, last_good });
    }

    /// Delivers events until `each` returns true.
    pub(super) fn events(&mut self, mut each: impl FnMut(&Types, &Raw<'_>) -> bool) {
        while self.has_header {
            let (length, head, row, is_mended) = match self.next() {
                Ok(Next::Event { length, head, row, is_mended }) => (length, head, row, is_mended),
                Ok(Next::Again) => continue,
                Ok(Next::Over) => return,
                Err(error) => {
                    let offset = self.source.offset() + self.source.bytes().len() as u64;
                    return self.damaged_at(offset, DamageKind::Input(error.kind()));
                }
            };
            let (offset, before) = (self.source.offset(), self.block);
            let bytes = &self.source.bytes()[..length];
            let payload = &bytes[head..];
            let marker = row.is_marker.then_some(payload);
            if let Some(payload) = marker {
                let BlockMarker { size, .. } = BlockMarker::decode(payload).unwrap_or_default();
                self.block_end = (size >= MARKER).then_some(offset + u64::from(size));
            }
            let cap = self.block.pass(length, marker);
            // A segment that is read again relies on the lengths in it.
            let is_resumed = std::mem::replace(&mut self.has_left_out, is_mended) || is_mended;
            let raw = Raw { offset, bytes, head, row, cap, before, is_resumed, is_mended };
            let (time, id) = (raw.time(), u16::from_be_bytes(bytes_at(bytes, 0)));
            let goes_on = each(&self.types, &raw);
            self.summary.events += 1;
            self.last_good = Some(LastGood { number: self.summary.events, offset, id, time });
            if row.is_marker {
                self.marker_passed(offset);
            }
            self.source.take(length);
            if !goes_on {
                return;
            }
        }
    }

    fn marker_passed(&mut self, offset: u64) {
        self.summary.blocks += 1;
        if self.block_end.is_none() {
            let marker = self.source.bytes().get(FIXED_HEAD..).and_then(BlockMarker::decode);
            let BlockMarker { size, .. } = marker.unwrap_or_default();
            self.damaged_at(offset, DamageKind::BlockSize(size));
        }
    }

    /// Reads what is next in the file.
    #[inline]
    fn next(&mut self) -> io::Result<Next> {
        let mut step = self.types.step(self.source.bytes());
        if let Step::More(count) = step {
            if !self.source.has(count)? {
                return self.past_the_file();
            }
            step = self.types.step(self.source.bytes());
        }
        match step {
            Step::Event { length, row, .. } if !row.is_declared && !self.is_plausible(length)? => {
                self.unknown(u16::from_be_bytes(bytes_at(self.source.bytes(), 0)))
            }
            Step::Event { length, head, row } => {
                if row.ends_itself
                    && self.is_length_wrong(length, head, row)
                    && let Some(mended) = self.mended(head, row, length - head)?
                {
                    return Ok(mended);
                }
                let end = self.source.offset() + length as u64;
                match self.block_end {
                    Some(block_end) if block_end < end && !row.is_marker => {
                        self.over_the_end(length, head, row, block_end)
                    }
                    _ => Ok(Next::Event { length, head, row, is_mended: false }),
                }
            }
            // More bytes have arrived since the first attempt.
            Step::More(_) => Ok(Next::Again),
            Step::End => self.mark_of_the_end(),
            Step::Unknown(id) => self.unknown(id),
        }
    }

    #[inline]
    fn is_length_wrong(&self, length: usize, head: usize, row: Row) -> bool {
        let payload = &self.source.bytes()[head..length];
        let own_length = self.types.kind(row).layout.and_then(|layout| layout::own_length(layout, payload));
        own_length != Some(length - head)
    }

    /// Handles an event whose stored length differs from the length of its fields. The length of the fields is the right one if an event
    /// begins where they end. Otherwise the stored length may be right: a newer GHC may have added fields that are unknown here.
    #[cold]
    fn mended(&mut self, head: usize, row: Row, said: usize) -> io::Result<Option<Next>> {
        // Buffers as many bytes as the event may have, as far as the file has them.
        self.source.has(LONGEST + VARIABLE_HEAD)?;
        let (kind, bytes) = (self.types.kind(row), self.source.bytes());
        let payload = bytes.get(head..).unwrap_or_default();
        let payload = &payload[..payload.len().min(usize::from(u16::MAX))];
        let Some(found) = kind.layout.and_then(|layout| layout::own_length(layout, payload)) else {
            return Ok(None);
        };
        let id = kind.id;
        let time = u64::from_be_bytes(bytes_at(bytes, 2));
        if found == said || !self.event_begins_at(head + found, time) || !self.may_resume() {
            return Ok(None);
        }
        let said = u16::try_from(said).unwrap_or(u16::MAX);
        self.damaged_at(self.source.offset(), DamageKind::Length { id, said, found });
        Ok(Some(Next::Event { length: head + found, head, row, is_mended: true }))
    }

    /// Returns whether a declared event begins at this distance with a time not long after this one, or the file ends there.
    fn event_begins_at(&self, distance: usize, time: u64) -> bool {
        let rest = self.source.bytes().get(distance..).unwrap_or_default();
        if rest.is_empty() || *rest == DATA_END.to_be_bytes() {
            return true;
        }
        let Some((row, size)) = self.types.head(rest) else { return false };
        let at = self.source.offset() + distance as u64;
        let fits = self.block_end.is_none_or(|end| at + (FIXED_HEAD + size) as u64 <= end);
        let later = u64::from_be_bytes(bytes_at(rest, 2)).wrapping_sub(time);
        row.is_declared && (row.is_marker || (fits && later < NOT_LONG_NS))
    }

    /// Handles an event that extends past the end of the file: its length is wrong, or the file was cut.
    #[cold]
    fn past_the_file(&mut self) -> io::Result<Next> {
        let bytes = self.source.bytes();
        let (here, offset) = (bytes.len() as u64, self.source.offset());
        let Some((row, said)) = self.types.head(bytes) else { return Ok(self.at_end_of_file()) };
        if row.ends_itself
            && let Some(mended) = self.mended(VARIABLE_HEAD, row, said)?
        {
            return Ok(mended);
        }
        match self.block_end {
            // The block is complete, so the file was not cut here.
            Some(end) if offset < end && end <= offset + here => self.over_a_whole_block(end),
            _ => Ok(self.at_end_of_file()),
        }
    }

    /// Handles an event that extends past the end of the file, in a block that does not.
    fn over_a_whole_block(&mut self, block_end: u64) -> io::Result<Next> {
        let offset = self.source.offset();
        let id = u16::from_be_bytes(bytes_at(self.source.bytes(), 0));
        self.block_end = None;
        let resumed = self.block_begins_at((block_end - offset) as usize)? && self.may_resume();
        let what_follows = if resumed { Resumed::AtBlock(block_end) } else { Resumed::Nowhere };
        self.damaged_at(offset, DamageKind::Overrun { id, what_follows });
        if !resumed {
            self.source.take(self.source.bytes().len());
            return Ok(Next::Over);
        }
        self.has_left_out = true;
        self.source.skip(block_end - offset)?;
        Ok(Next::Again)
    }

    /// Handles a rest of the file that is shorter than an event.
    #[cold]
    fn at_end_of_file(&mut self) -> Next {
        let here = self.source.bytes().len();
        let (began, end) = (self.source.offset(), self.source.offset() + here as u64);
        let needed = match self.types.step(self.source.bytes()) {
            Step::More(needed) => needed,
            _ => here,
        };
        if here > 0 {
            let missing = needed.saturating_sub(here) as u64;
            self.damaged_at(end, DamageKind::Cut { what: "an event", began, missing });
        } else if !self.summary.ended_orderly {
            self.damaged_at(end, DamageKind::NoEnd);
        }
        self.source.take(here);
        Next::Over
    }

    #[cold]
    fn mark_of_the_end(&mut self) -> io::Result<Next> {
        self.source.take(2);
        self.block_end = None;
        if self.source.has(1)? {
            let offset = self.source.offset();
            // A file may consist of many end markers, so the damage is reported once.
            if !self.summary.ended_orderly {
                self.damaged_at(offset, DamageKind::AfterEnd);
            }
        }
        self.summary.ended_orderly = true;
        Ok(Next::Again)
    }

    /// Handles an event that crosses the end of its block. If another block begins where its own block ends, the bytes are not an event.
    #[cold]
    fn over_the_end(&mut self, length: usize, head: usize, row: Row, block_end: u64) -> io::Result<Next> {
        let offset = self.source.offset();
        self.block_end = None;
        if block_end <= offset {
            return Ok(Next::Event { length, head, row, is_mended: false });
        }
        let id = u16::from_be_bytes(bytes_at(self.source.bytes(), 0));
        let resumed = self.block_begins_at((block_end - offset) as usize)? && self.may_resume();
        let what_follows = if resumed { Resumed::AtBlock(block_end) } else { Resumed::AtOnce };
        self.damaged_at(offset, DamageKind::Overrun { id, what_follows });
        if resumed {
            self.has_left_out = true;
            self.source.skip(block_end - offset)?;
            return Ok(Next::Again);
        }
        Ok(Next::Event { length, head, row, is_mended: false })
    }

    /// Handles an event of unknown length: skips the rest of its block, if another block begins after that.
    #[cold]
    fn unknown(&mut self, id: u16) -> io::Result<Next> {
        let (offset, last_good) = (self.source.offset(), self.last_good);
        let block_end = self.block_end.take().filter(|&end| end > offset);
        let mut what_follows = Resumed::Nowhere;
        if let Some(end) = block_end
            && self.may_resume()
            && self.source.skip(end - offset)? == 0
            && self.block_begins_at(0)?
        {
            what_follows = Resumed::AtBlock(end);
            self.has_left_out = true;
        }
        self.damaged(Damage { offset, kind: DamageKind::Unknown { id, what_follows }, last_good });
        Ok(if what_follows == Resumed::Nowhere { Next::Over } else { Next::Again })
    }

    /// Returns whether the next bytes may be an event of an undeclared type with this length: an event of a known type, or the end of the
    /// file, must follow.
    #[cold]
    fn is_plausible(&mut self, length: usize) -> io::Result<bool> {
        let is_last = !self.source.has(length + 2)?;
        let behind = &self.source.bytes()[length..];
        let is_event = !is_last && !matches!(self.types.step(behind), Step::Unknown(_));
        if is_event || behind.is_empty() {
            let id = u16::from_be_bytes(bytes_at(self.source.bytes(), 0));
            self.damaged_at(self.source.offset(), DamageKind::Undeclared(id));
            return Ok(true);
        }
        Ok(false)
    }

    fn may_resume(&mut self) -> bool {
        self.resumptions += 1;
        self.resumptions <= MOST_RESUMPTIONS
    }

    /// Returns whether a block, or the end marker and nothing after it, begins at this distance in bytes.
    fn block_begins_at(&mut self, distance: usize) -> io::Result<bool> {
        let whole = self.source.has(distance + BLOCK_HEAD)?;
        let bytes = self.source.bytes().get(distance..).unwrap_or_default();
        if !whole {
            return Ok(bytes == DATA_END.to_be_bytes());
        }
        let Step::Event { row, head, .. } = self.types.step(bytes) else { return Ok(false) };
        let BlockMarker { size, .. } = BlockMarker::decode(&bytes[head..]).unwrap_or_default();
        Ok(row.is_marker && size >= MARKER && u16::from_be_bytes(bytes_at(bytes, 0)) == id::BLOCK_MARKER)
    }
}
