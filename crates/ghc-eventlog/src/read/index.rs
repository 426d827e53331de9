//! An index of fixed size: the ranges of times in the segments of a file.
//!
//! A *segment* is a range of the file that contains whole events. The index keeps the times of its first and last events and the
//! block in which it begins. A segment ends at a block marker once it has [`LEAST`] bytes, anywhere once it has the target size. The target is 64 KiB;
//! when there are more segments than [`MOST_SEGMENTS`], neighbours are joined and the target doubles. So the index of a log of
//! 8 GiB takes about 7 MiB, and the index of a larger log takes no more.

use super::block::Block;
use super::scan::Raw;

const FIRST_TARGET: u64 = 64 << 10;
const LEAST: u64 = 16 << 10;
const MOST_SEGMENTS: usize = 128 << 10;

/// An event's place in the order: by time, then by file offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Key {
    pub(super) time: u64,
    pub(super) offset: u64,
}

impl Key {
    pub(super) const FIRST: Key = Key { time: 0, offset: 0 };
    /// After all events: no event begins at this offset.
    pub(super) const END: Key = Key { time: u64::MAX, offset: u64::MAX };
}

/// A range of the file that contains whole events.
#[derive(Clone, Copy, Debug)]
pub(super) struct Segment {
    pub(super) start: u64,
    pub(super) end: u64,
    pub(super) first: Key,
    pub(super) last: Key,
    pub(super) events: u64,
    /// The block that contains the segment's first event.
    pub(super) block: Block,
    /// Whether bytes between this segment and the previous one were skipped.
    is_resumed: bool,
    /// Whether the segment is a single event whose correct length is that of the segment, and not the one stored in its head.
    pub(super) is_mended: bool,
}

/// Collects segments while a file is read.
#[derive(Debug)]
pub(super) struct Index {
    segments: Vec<Segment>,
    target: u64,
    most: usize,
}

impl Default for Index {
    fn default() -> Index {
        Index { segments: Vec::new(), target: FIRST_TARGET, most: MOST_SEGMENTS }
    }
}

impl Index {
    #[cfg(test)]
    pub(super) fn of_size(target: u64, most: usize) -> Index {
        Index { segments: Vec::new(), target, most }
    }

    #[inline]
    pub(super) fn add(&mut self, raw: &Raw<'_>) {
        let key = Key { time: raw.time(), offset: raw.offset };
        let end = raw.offset + raw.bytes.len() as u64;
        if let Some(segment) = self.segments.last_mut() {
            let enough = if raw.is_marker() { LEAST.min(self.target) } else { self.target };
            if raw.offset - segment.start < enough && !raw.is_resumed {
                segment.end = end;
                segment.events += 1;
                segment.first = segment.first.min(key);
                segment.last = segment.last.max(key);
                return;
            }
        }
        self.begin(raw, key, end);
    }

    #[cold]
    fn begin(&mut self, raw: &Raw<'_>, key: Key, end: u64) {
        if self.segments.len() >= self.most {
            self.halve();
        }
        let Raw { offset: start, before: block, is_resumed, is_mended, .. } = *raw;
        self.segments.push(Segment { start, end, first: key, last: key, events: 1, block, is_resumed, is_mended });
    }

    /// Joins pairs of neighbours, except where bytes between them were skipped.
    fn halve(&mut self) {
        self.target *= 2;
        let mut merged: Vec<Segment> = Vec::with_capacity(self.segments.len());
        let mut is_pair = true;
        for segment in &self.segments {
            match merged.last_mut() {
                Some(before) if !is_pair && !segment.is_resumed => {
                    before.end = segment.end;
                    before.first = before.first.min(segment.first);
                    before.last = before.last.max(segment.last);
                    before.events += segment.events;
                    is_pair = true;
                }
                _ => {
                    merged.push(*segment);
                    is_pair = false;
                }
            }
        }
        merged.shrink_to_fit();
        self.segments = merged;
    }

    /// Returns the segments in the order of the file.
    pub(super) fn finish(self) -> Vec<Segment> {
        self.segments
    }
}
