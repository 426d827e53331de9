//! Reads what events refer to: types, threads, stacks, labels; and the sequence points, which end the validity of ids.

use std::io::Read;

use super::super::Container;
use super::super::bytes::{Bytes, ItemError};
use super::super::container::{BlockError, File};
use super::super::damage::{Damage, DamageKind};
use super::super::header::Header;
use super::super::labels::Labels;
use super::super::metadata::EventType;
use super::super::visitor::{Aside, ThreadInfo, Visitor};
use super::{Asides, Reading, Stacks, TypeEntry};

/// The limit for one description, in bytes.
const LARGEST_TYPE: u32 = 1 << 20;
const ALL_TYPES: usize = 16 << 20;

impl<V: Visitor> Reading<'_, V> {
    /// In version 4, descriptions have the headers of events.
    pub(super) fn types_4<R: Read>(&mut self, file: &mut File<R>) -> Result<(), BlockError> {
        let layout = self.block_header(file)?;
        let mut header = Header::default();
        while file.window("a description", |window, offset, left| {
            let mut bytes = Bytes::new(window);
            let mut next = header.clone();
            next.read(layout, &mut bytes)?;
            let size = next.payload;
            if u64::from(size) + (window.len() - bytes.len()) as u64 > left {
                return Err(ItemError::Wrong(DamageKind::Overrun("a description")));
            }
            if size > LARGEST_TYPE {
                return Err(ItemError::Wrong(DamageKind::Type("it is too long")));
            }
            let payload = bytes.take(size as usize)?;
            bytes.take(next.padding as usize)?;
            header = next;
            self.described(EventType::read_4(&mut Bytes::new(payload)), offset);
            Ok(window.len() - bytes.len())
        })? {}
        Ok(())
    }

    pub(super) fn types_6<R: Read>(&mut self, file: &mut File<R>) -> Result<(), BlockError> {
        file.fixed("a block's header", |bytes| {
            let size = bytes.short()?;
            bytes.take(usize::from(size)).map(|_| ())
        })?;
        while file.window("a description", |window, offset, _| {
            let mut bytes = Bytes::new(window);
            let size = bytes.short()?;
            let mut row = bytes.part(usize::from(size))?;
            self.described(EventType::read_6(&mut row), offset);
            Ok(window.len() - bytes.len())
        })? {}
        Ok(())
    }

    /// Adds an event type that the file describes, or reports the damage in its description.
    fn described(&mut self, read: Result<(EventType, Option<DamageKind>), ItemError>, offset: u64) {
        let (mut kind, wrong) = match read {
            Ok(read) => read,
            Err(ItemError::Wrong(kind)) => return self.damaged(Damage { offset, kind }),
            Err(ItemError::Short) => {
                let kind = DamageKind::Type("it ends before it has said what it is");
                return self.damaged(Damage { offset, kind });
            }
        };
        if let Some(wrong) = wrong {
            self.damaged(Damage { offset, kind: wrong });
        }
        let cost = kind.cost();
        if self.types_cost + cost > ALL_TYPES {
            return self.damaged(Damage { offset, kind: DamageKind::TooMany("descriptions of types") });
        }
        self.types_cost += cost;
        let place = self.tables.types.len() as u32;
        kind.index = self.forgotten.wrapping_add(place);
        if self.by_id.insert(kind.id, place).is_some() {
            self.damaged(Damage { offset, kind: DamageKind::TypeAgain(kind.id) });
        }
        self.last_type = None;
        let interest = self.visitor.event_type(&kind);
        self.tables.types.push(TypeEntry { kind, interest });
    }

    pub(super) fn stacks<R: Read>(&mut self, file: &mut File<R>) -> Result<(), BlockError> {
        if self.keeps_stacks == Stacks::LeaveOut && self.asides == Asides::KeepToOneself {
            return Ok(());
        }
        let (mut id, mut count) = file.fixed("a block's header", |bytes| Ok((bytes.word()?, bytes.word()?)))?;
        while count > 0
            && file.window("a stack", |window, offset, left| {
                let mut bytes = Bytes::new(window);
                let size = bytes.word()?;
                if u64::from(size) + 4 > left {
                    return Err(ItemError::Wrong(DamageKind::Overrun("a stack")));
                }
                let row = bytes.take(size as usize)?;
                self.visit_aside(&Aside::Stack { id, addresses: row });
                if self.keeps_stacks == Stacks::Keep && !self.tables.stacks.add(id, row) {
                    self.damaged(Damage { offset, kind: DamageKind::TooMany("stacks") });
                }
                (id, count) = (id.wrapping_add(1), count - 1);
                Ok(window.len() - bytes.len())
            })?
        {}
        Ok(())
    }

    pub(super) fn label_lists<R: Read>(&mut self, file: &mut File<R>) -> Result<(), BlockError> {
        let (mut id, mut count) = file.fixed("a block's header", |bytes| Ok((bytes.word()?, bytes.word()?)))?;
        while count > 0
            && file.window("a label list", |window, offset, _| {
                let length = Labels::length_of_list(window)?;
                self.visit_aside(&Aside::Labels { id, bytes: &window[..length] });
                if !self.tables.labels.add(id, &window[..length]) {
                    self.damaged(Damage { offset, kind: DamageKind::TooMany("label lists") });
                }
                (id, count) = (id.wrapping_add(1), count - 1);
                Ok(length)
            })?
        {}
        Ok(())
    }

    pub(super) fn new_threads<R: Read>(&mut self, file: &mut File<R>) -> Result<(), BlockError> {
        while file.window("a thread", |window, offset, _| {
            let mut bytes = Bytes::new(window);
            let size = bytes.short()?;
            let mut row = bytes.part(usize::from(size))?;
            match thread_row(&mut row, self.process) {
                Ok(info) => self.introduce(&info, offset),
                Err(_) => self.damaged(Damage { offset, kind: DamageKind::Overrun("a thread") }),
            }
            Ok(window.len() - bytes.len())
        })? {}
        Ok(())
    }

    fn introduce(&mut self, info: &ThreadInfo<'_>, offset: u64) {
        if self.threads.find(info.index).is_some() {
            self.damaged(Damage { offset, kind: DamageKind::ThreadAgain(info.index) });
        } else if self.threads.is_full() {
            self.release(None);
            self.threads.forget_half();
        }
        self.threads.add(info.index, info.thread, info.process, 0);
        self.visitor.thread(info);
    }

    pub(super) fn ended_threads<R: Read>(&mut self, file: &mut File<R>) -> Result<(), BlockError> {
        while file.window("an ended thread", |window, offset, _| {
            let mut bytes = Bytes::new(window);
            let (index, sequence) = (bytes.var64()?, bytes.var32()?);
            self.visit_aside(&Aside::ThreadEnded { id: index, sequence });
            match self.threads.find(index) {
                Some(place) => {
                    self.follow(place, sequence, sequence);
                    self.threads.remove(index);
                }
                None => self.damaged(Damage { offset, kind: DamageKind::UnknownThread(index) }),
            }
            Ok(window.len() - bytes.len())
        })? {}
        Ok(())
    }

    /// Reads a sequence point. All earlier events of the file belong before it, so all queued events are released. Ids become invalid.
    pub(super) fn sequence_point<R: Read>(&mut self, file: &mut File<R>) -> Result<(), BlockError> {
        self.release(None);
        self.threads.settle();
        self.tables.stacks.clear();
        self.tables.labels.clear();
        let container = self.container;
        let (time, flags, mut count) = file.fixed("a sequence point", |bytes| {
            let time = bytes.long()? as i64;
            let flags = if container == Container::V6 { bytes.word()? } else { 0 };
            Ok((time, flags, bytes.word()?))
        })?;
        self.visit_aside(&Aside::PointBegins { time, flags });
        while count > 0
            && file.window("a thread's number", |window, offset, _| {
                let mut bytes = Bytes::new(window);
                let (id, sequence) = match container {
                    Container::V4 => (bytes.long()?, bytes.word()?),
                    Container::V6 => (bytes.var64()?, bytes.var32()?),
                };
                let found = self.threads.find(id);
                let place = found.unwrap_or_else(|| self.unknown_thread(id, sequence, offset));
                self.follow(place, sequence, sequence);
                self.visit_aside(&Aside::LastNumber { id, sequence });
                count -= 1;
                Ok(window.len() - bytes.len())
            })?
        {}
        self.visit_aside(&Aside::PointEnds);
        if flags & 1 != 0 {
            self.threads.clear();
        }
        if flags & 2 != 0 {
            self.forgotten = self.forgotten.wrapping_add(self.tables.types.len() as u32);
            self.tables.types.clear();
            self.by_id.clear();
            self.last_type = None;
            self.types_cost = 0;
        }
        Ok(())
    }
}

/// Reads the row of a thread.
fn thread_row<'a>(row: &mut Bytes<'a>, process: u64) -> Result<ThreadInfo<'a>, ItemError> {
    let mut info = ThreadInfo { index: row.var64()?, process, ..ThreadInfo::default() };
    while !row.is_empty() {
        match row.byte()? {
            1 => info.name = row.utf8()?.into(),
            2 => info.process = row.var64()?,
            3 => info.thread = row.var64()?,
            4 => info.pairs.push((row.utf8()?, row.utf8()?)),
            // The length of an item of an unknown kind is unknown, so reading ends here; everything read before is kept.
            _ => break,
        }
    }
    Ok(info)
}
