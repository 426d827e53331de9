//! Reads the events of a block, each with its type, its thread and its place in the order, and detects lost events from
//! sequence numbers.

use std::io::Read;

use super::super::Container;
use super::super::bytes::{Bytes, ItemError};
use super::super::container::{BlockError, File};
use super::super::damage::{Damage, DamageKind};
use super::super::header::{Header, LONGEST, Layout};
use super::super::order::Fixed;
use super::super::tables::Thread;
use super::super::visitor::{InFile, Interest, Visitor};
use super::{Delivery, Reading, show};

/// The limit for threads whose losses are counted one by one.
const MOST_LOSERS: usize = 1 << 16;

/// The state of reading a block of events.
struct BlockPosition {
    layout: Layout,
    header: Header,
    /// If a payload is next: the offset at which the header of its event began.
    began: Option<u64>,
}

/// The threads of an event, by the numbers of the system, and their process.
struct Owner {
    /// The thread that wrote it.
    capture: u64,
    /// The thread that it is about.
    thread: u64,
    process: u64,
}

impl<V: Visitor> Reading<'_, V> {
    pub(super) fn events<R: Read>(&mut self, file: &mut File<R>) -> Result<(), BlockError> {
        let layout = self.block_header(file)?;
        let mut place = BlockPosition { layout, header: Header::default(), began: None };
        while file.window("an event", |window, offset, left| self.some_events(window, offset, left, &mut place))? {}
        if place.began.is_some() {
            let kind = DamageKind::Overrun("the payload of an event");
            return Err(BlockError::Block(Damage { offset: file.offset(), kind }));
        }
        Ok(())
    }

    /// Reads the whole events of a window, and the header of the next if it is complete.
    fn some_events(
        &mut self,
        window: &[u8],
        offset: u64,
        left: u64,
        place: &mut BlockPosition,
    ) -> Result<usize, ItemError> {
        let mut at = 0;
        while at < window.len() {
            let stuck = match self.one_event(window, at, offset, left, place) {
                Ok(next) if next == at => ItemError::Short,
                Ok(next) => {
                    at = next;
                    continue;
                }
                Err(stuck) => stuck,
            };
            // Damage is reported when it is the first item of its window, so that its offset is known.
            return if at > 0 { Ok(at) } else { Err(stuck) };
        }
        if at > 0 { Ok(at) } else { Err(ItemError::Short) }
    }

    /// Reads the event that begins here, or the rest of it. Returns the offset of the next one.
    #[inline]
    fn one_event(
        &mut self,
        window: &[u8],
        at: usize,
        offset: u64,
        left: u64,
        place: &mut BlockPosition,
    ) -> Result<usize, ItemError> {
        let mut at = at;
        let (began, is_new) = match place.began {
            Some(began) => (began, false),
            None => {
                let mut bytes = Bytes::new(&window[at..]);
                if bytes.len() >= LONGEST {
                    place.header.read(place.layout, &mut bytes)?;
                } else {
                    // The header may be incomplete; it is then read again from its beginning.
                    let mut header = place.header.clone();
                    header.read(place.layout, &mut bytes)?;
                    place.header = header;
                }
                let began = offset + at as u64;
                at = window.len() - bytes.len();
                place.began = Some(began);
                (began, true)
            }
        };
        let size = u64::from(place.header.payload) + u64::from(place.header.padding);
        if size > left - at as u64 {
            // The damage is reported only after everything before the payload has been consumed, so that its offset is the payload's.
            return if is_new { Ok(at) } else { Err(ItemError::Wrong(DamageKind::Overrun("the payload of an event"))) };
        }
        let Some(payload) = window[at..].get(..size as usize) else {
            return Ok(at);
        };
        place.began = None;
        self.event(&place.header, began, &payload[..place.header.payload as usize]);
        Ok(at + payload.len())
    }

    #[inline]
    fn event(&mut self, header: &Header, offset: u64, payload: &[u8]) {
        // The sequence number is followed first: it counts even if the event's type is unknown.
        let capture = self.capture(header, offset);
        let kind = match self.last_type {
            Some((id, kind)) if id == header.kind => kind,
            _ => match self.by_id.get(header.kind) {
                Some(kind) => {
                    self.last_type = Some((header.kind, kind));
                    kind
                }
                None => return self.damaged(Damage { offset, kind: DamageKind::UnknownType(header.kind) }),
            },
        };
        self.summary.events += 1;
        let wanted = self.tables.types[kind as usize].interest == Interest::Deliver;
        if self.delivery == Delivery::ByTime && header.sorted && !self.order.is_empty() {
            self.release(Some(header.time));
        }
        // A file has the same damage for every visitor, whatever it wants.
        let owner = self.owner(header, capture, offset);
        if !wanted {
            return;
        }
        let fixed = fixed(header, kind, owner, offset);
        if self.delivery == Delivery::AsInFile || header.sorted {
            show(self.visitor, &self.tables, &mut self.newest, &mut self.summary, &fixed, payload);
            return;
        }
        if self.order.is_full() {
            let (visitor, tables, newest, summary) =
                (&mut *self.visitor, &self.tables, &mut self.newest, &mut self.summary);
            self.order.release_half(|fixed, payload| show(visitor, tables, newest, summary, fixed, payload));
        }
        self.order.push(capture, fixed, payload);
    }

    /// Returns the thread that wrote an event; this event may reveal losses of that thread.
    #[inline]
    fn capture(&mut self, header: &Header, offset: u64) -> u32 {
        let expected = header.sequence.wrapping_sub(1);
        let found = self.threads.find(header.capture);
        let place = found.unwrap_or_else(|| self.unknown_thread(header.capture, expected, offset));
        self.follow(place, expected, header.sequence);
        place
    }

    /// Updates a thread's sequence number: its last one should have been `expected`, and is now `now`.
    #[inline]
    pub(super) fn follow(&mut self, place: u32, expected: u32, now: u32) {
        let thread = self.threads.at(place);
        let before = std::mem::replace(&mut thread.sequence, now);
        if expected != before && (before != 0 || self.container == Container::V6) {
            let thread = thread.thread;
            self.gap(thread, expected.wrapping_sub(before) as i32);
        }
    }

    #[cold]
    fn gap(&mut self, thread: u64, step: i32) {
        let Ok(count) = u64::try_from(step) else {
            self.summary.steps_back += 1;
            return;
        };
        self.summary.lost += count;
        let losers = &mut self.summary.lost_by_thread;
        if losers.len() < MOST_LOSERS || losers.contains_key(&thread) {
            *losers.entry(thread).or_default() += count;
        }
        self.visitor.lost(thread, count);
    }

    /// Adds a thread that is seen for the first time. In version 6 it should have been introduced.
    #[cold]
    pub(super) fn unknown_thread(&mut self, id: u64, sequence: u32, offset: u64) -> u32 {
        if self.threads.is_full() {
            self.release(None);
            self.threads.forget_half();
        }
        let (thread, process) = match self.container {
            Container::V4 => (id, self.process),
            Container::V6 => {
                self.damaged(Damage { offset, kind: DamageKind::UnknownThread(id) });
                (0, 0)
            }
        };
        self.threads.add(id, thread, process, sequence)
    }

    /// Returns the threads of an event. Damage is reported if the file has not introduced its thread, or its labels.
    #[inline]
    fn owner(&mut self, header: &Header, capture: u32, offset: u64) -> Owner {
        let &mut Thread { thread: capture_thread, process, .. } = self.threads.at(capture);
        let (thread, process) = match self.container {
            Container::V4 => (header.thread, self.process),
            Container::V6 if header.thread == header.capture => (capture_thread, process),
            Container::V6 => match self.threads.find(header.thread) {
                Some(place) => {
                    let thread = self.threads.at(place);
                    (thread.thread, thread.process)
                }
                None => {
                    self.damaged(Damage { offset, kind: DamageKind::UnknownThread(header.thread) });
                    (0, 0)
                }
            },
        };
        if header.labels != 0 && self.tables.labels.get(header.labels).is_none() {
            self.damaged(Damage { offset, kind: DamageKind::UnknownLabels(header.labels) });
        }
        Owner { capture: capture_thread, thread, process }
    }
}

fn fixed(header: &Header, kind: u32, owner: Owner, offset: u64) -> Fixed {
    Fixed {
        time: header.time,
        offset,
        thread: owner.thread,
        capture: owner.capture,
        process: owner.process,
        kind,
        sequence: header.sequence,
        processor: header.processor,
        stack: header.stack,
        labels: header.labels,
        activity: header.activity,
        related: header.related,
        in_file: InFile {
            thread: header.thread,
            capture: header.capture,
            labels: header.labels,
            sorted: header.sorted,
        },
    }
}
