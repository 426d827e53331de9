//! All events in the order of the file, and over what is damaged.

use std::io::{self, Read};

use super::block::Block;
use super::damage::{Damage, DamageKind, LastGood, Resumed};
use super::header;
use super::layout::{self, BLOCK_MARKER, bytes_at};
use super::types::{EventType, Row, Step, Types};
use super::visitor::{Event, Summary};
use crate::formats::eventlog::format::{BLOCK_HEAD, DATA_END, FIXED_HEAD};
use crate::formats::source::Source;

/// The bytes that are read at once: four events of the largest kind, and no system call shows. Asked for are an event (65547 at
/// most) or a description in the header, whose length is bounded there (`.format.hostile`).
const BUFFER: usize = 256 << 10;

/// The least size of a block.
const MARKER: u32 = BLOCK_HEAD as u32;

/// How often reading goes on at the next block, before a file is given up.
const MOST_RESUMPTIONS: u64 = 4096;

/// A log that is being read.
#[derive(Debug)]
pub(super) struct Scan<R> {
    source: Source<R>,
    types: Types,
    block: Block,
    /// Where the block ends, if one has begun since the last mark of the end.
    block_end: Option<u64>,
    resumptions: u64,
    has_left_out: bool,
    has_header: bool,
    last_good: Option<LastGood>,
    summary: Summary,
}

/// An event as it stands in the file.
#[derive(Clone, Copy, Debug)]
pub(super) struct Raw<'a> {
    pub(super) offset: u64,
    pub(super) bytes: &'a [u8],
    head: usize,
    row: Row,
    pub(super) cap: Option<u16>,
    /// The block that it was found in, before it.
    pub(super) before: Block,
    /// Between it and the event before lies something that was left out.
    pub(super) is_resumed: bool,
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

/// How the scan goes on.
enum Next {
    Event {
        length: usize,
        head: usize,
        row: Row,
    },
    /// There was something else than an event, which is gone through.
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
        // A header has as many descriptions as there may be, so what is told of them is bounded, too.
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

    /// Counts damage, and keeps what is first.
    pub(super) fn damaged(&mut self, damage: Damage) {
        self.summary.damages += 1;
        self.summary.damage.get_or_insert(damage);
    }

    fn damaged_at(&mut self, offset: u64, kind: DamageKind) {
        let last_good = self.last_good;
        self.damaged(Damage { offset, kind, last_good });
    }

    /// Goes through the events, until `each` has seen enough.
    pub(super) fn events(&mut self, mut each: impl FnMut(&Types, &Raw<'_>) -> bool) {
        while self.has_header {
            let (length, head, row) = match self.next() {
                Ok(Next::Event { length, head, row }) => (length, head, row),
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
                let size = u32::from_be_bytes(bytes_at(payload, layout::BLOCK_SIZE));
                self.block_end = (size >= MARKER).then_some(offset + u64::from(size));
            }
            let cap = self.block.pass(length, marker);
            let is_resumed = std::mem::take(&mut self.has_left_out);
            let raw = Raw { offset, bytes, head, row, cap, before, is_resumed };
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
            let size = u32::from_be_bytes(bytes_at(self.source.bytes(), FIXED_HEAD + layout::BLOCK_SIZE));
            self.damaged_at(offset, DamageKind::BlockSize(size));
        }
    }

    /// What is next in the file.
    #[inline]
    fn next(&mut self) -> io::Result<Next> {
        let mut step = self.types.step(self.source.bytes());
        if let Step::More(count) = step {
            if !self.source.has(count)? {
                return Ok(self.at_end_of_file());
            }
            step = self.types.step(self.source.bytes());
        }
        match step {
            Step::Event { length, row, .. } if !row.is_declared && !self.is_plausible(length)? => {
                self.unknown(u16::from_be_bytes(bytes_at(self.source.bytes(), 0)))
            }
            Step::Event { length, head, row } => {
                let end = self.source.offset() + length as u64;
                match self.block_end {
                    Some(block_end) if block_end < end && !row.is_marker => {
                        self.over_the_end(length, head, row, block_end)
                    }
                    _ => Ok(Next::Event { length, head, row }),
                }
            }
            // Something that is longer than it seemed when less of it was here.
            Step::More(_) => Ok(Next::Again),
            Step::End => self.mark_of_the_end(),
            Step::Unknown(id) => self.unknown(id),
        }
    }

    /// The file has no whole event any more.
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
            // A file may consist of such marks: told once.
            if !self.summary.ended_orderly {
                self.damaged_at(offset, DamageKind::AfterEnd);
            }
        }
        self.summary.ended_orderly = true;
        Ok(Next::Again)
    }

    /// An event that is longer than the rest of its block: if a block begins where its own ends, it is no event.
    #[cold]
    fn over_the_end(&mut self, length: usize, head: usize, row: Row, block_end: u64) -> io::Result<Next> {
        let offset = self.source.offset();
        self.block_end = None;
        if block_end <= offset {
            return Ok(Next::Event { length, head, row });
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
        Ok(Next::Event { length, head, row })
    }

    /// An event whose length nobody knows: the rest of its block is left out, if a block begins behind it.
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

    /// Whether an event of a type that is not declared may be one: if so, one of a known type follows, or nothing.
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

    /// Whether a block, or the mark of the end and nothing behind it, begins so many bytes from here.
    fn block_begins_at(&mut self, distance: usize) -> io::Result<bool> {
        let whole = self.source.has(distance + BLOCK_HEAD)?;
        let bytes = self.source.bytes().get(distance..).unwrap_or_default();
        if !whole {
            return Ok(bytes == DATA_END.to_be_bytes());
        }
        let Step::Event { row, head, .. } = self.types.step(bytes) else { return Ok(false) };
        let size = u32::from_be_bytes(bytes_at(bytes, head + layout::BLOCK_SIZE));
        Ok(row.is_marker && size >= MARKER && u16::from_be_bytes(bytes_at(bytes, 0)) == BLOCK_MARKER)
    }
}
