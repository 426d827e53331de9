//! From a file to events: who visits, what is told, in which order.
//!
//! The reader goes through the file once, from any [`io::Read`](std::io::Read), and calls a [`Visitor`]. Events are shown where
//! they stand: an event is a view of the buffer, valid during the call, and nothing is allocated for it. What a visitor is
//! not interested in it says once per type, and is then asked no more; so who counts three types of a file pays for
//! the headers of the others and for nothing else.
//!
//! What is wrong with a file is in the [`Summary`]: the first [`Damage`] with its byte, and how many there were. All that was
//! readable has been delivered by then.
//!
//! Losses are counted as the numbers say that each capturing thread gives to its events: a step of more than one is
//! that many lost, and a sequence point that knows a higher number than was seen tells of losses at the end. In version 4 a
//! thread has no beginning, so its first event is one, whatever its number; and a thread whose last number is 0 is
//! another with the same id. A step back is no number of events at all: it is counted as such.

use std::collections::{BTreeMap, HashMap};
use std::io::Read;

use super::Container;
use super::bytes::{Bytes, Stuck};
use super::container::{File, Kind, Trouble};
use super::damage::{Damage, DamageKind};
use super::header::{Header, LONGEST, Layout};
use super::labels::{Label, Labels};
use super::metadata::{EventType, TraceInfo};
use super::order::{Fixed, Order};
use super::tables::{Rows, Threads};

/// The most bytes of a description, and of all of them as they are kept.
const LARGEST_TYPE: u32 = 1 << 20;
const ALL_TYPES: usize = 16 << 20;
/// Threads whose losses are counted one by one.
const MOST_LOSERS: usize = 1 << 16;
/// The processor of an event whose processor is not known.
const NO_PROCESSOR: u32 = u32::MAX;

/// Whether events of a type are wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interest {
    /// They are delivered.
    Deliver,
    /// They are counted in the summary and otherwise left out.
    Skip,
}

/// Who is told what a trace has.
pub trait Visitor {
    /// The trace, before anything else.
    fn trace(&mut self, _trace: &TraceInfo) {}

    /// A type of event, before its first event. Asked once for each description in the file.
    fn event_type(&mut self, _kind: &EventType) -> Interest {
        Interest::Deliver
    }

    /// A thread (version 6), before its first event.
    fn thread(&mut self, _thread: &ThreadInfo<'_>) {}

    /// An event.
    fn event(&mut self, event: &NetEvent<'_>);

    /// So many events of this capturing thread are not in the file. Told when the file says so, which may be before older
    /// events of other threads.
    fn lost(&mut self, _thread: u64, _count: u64) {}

    /// Whether enough has been seen. Asked before each block; the summary's `ended_orderly` is false then.
    fn is_done(&self) -> bool {
        false
    }
}

/// An event, as it stands in the file.
#[derive(Clone, Copy, Debug)]
pub struct NetEvent<'a> {
    /// What it is.
    pub kind: &'a EventType,
    /// When it happened, in ticks; [`TraceInfo::milliseconds`] makes a time of it.
    pub time: i64,
    /// Whose event it is: the system's id of the thread. 0 if it is not known.
    pub thread: u64,
    /// The system's id of the thread that wrote it, which is nearly always the same.
    pub capture_thread: u64,
    /// The process, 0 if it is not known.
    pub process: u64,
    /// Where it ran.
    pub processor: Option<u32>,
    /// The number that the capturing thread gave it.
    pub sequence: u32,
    /// Where in the program it happened.
    pub stack: Stack<'a>,
    /// To what it belongs. All zero if to nothing.
    pub activity: [u8; 16],
    /// What that was started by. All zero if by nothing.
    pub related: [u8; 16],
    /// What else is said of it (version 6).
    pub labels: Labels<'a>,
    /// What it says.
    pub payload: &'a [u8],
    /// Where in the file its header begins.
    pub offset: u64,
}

impl NetEvent<'_> {
    /// Its opcode: its own, if it has one, or its type's.
    pub fn opcode(&self) -> Option<u8> {
        let own =
            self.labels.into_iter().find_map(|label| if let Label::Opcode(own) = label { Some(own) } else { None });
        own.or(self.kind.opcode)
    }

    /// The version of its payload: its own, if it has one, or its type's.
    pub fn version(&self) -> u32 {
        let own =
            self.labels.into_iter().find_map(|label| if let Label::Version(own) = label { Some(own) } else { None });
        own.map_or(self.kind.version, u32::from)
    }

    /// Its level: its own, if it has one, or its type's.
    pub fn level(&self) -> u32 {
        let own =
            self.labels.into_iter().find_map(|label| if let Label::Level(own) = label { Some(own) } else { None });
        own.map_or(self.kind.level, u32::from)
    }

    /// Its groups: its own, if it has them, or its type's.
    pub fn keywords(&self) -> u64 {
        let own =
            self.labels.into_iter().find_map(|label| if let Label::Keywords(own) = label { Some(own) } else { None });
        own.unwrap_or(self.kind.keywords)
    }
}

/// The return addresses of a stack, innermost first.
#[derive(Clone, Copy, Debug, Default)]
pub struct Stack<'a> {
    /// Its number in the file until the next sequence point. 0 is no stack.
    pub id: u32,
    bytes: &'a [u8],
    pointer_bytes: u8,
}

impl<'a> Stack<'a> {
    /// The addresses; none if there is no stack, or if the reader does [not keep them](Reader::with_stacks).
    pub fn addresses(&self) -> impl Iterator<Item = u64> + use<'a> {
        self.bytes.chunks_exact(usize::from(self.pointer_bytes.max(1))).map(|word| {
            let mut bytes = [0; 8];
            bytes[..word.len()].copy_from_slice(word);
            u64::from_le_bytes(bytes)
        })
    }
}

/// What version 6 says of a thread.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ThreadInfo<'a> {
    /// What events of the file refer to it by.
    pub index: u64,
    /// The system's id, 0 if it is not known.
    pub thread: u64,
    /// Its process, 0 if it is not known.
    pub process: u64,
    /// Its name, empty if it has none.
    pub name: std::borrow::Cow<'a, str>,
}

/// What there was in a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// All events, also those that were not wanted.
    pub events: u64,
    /// Events that are not in the file though their threads numbered them.
    pub lost: u64,
    /// The same by capturing thread.
    pub lost_by_thread: BTreeMap<u64, u64>,
    /// How often a thread's numbers went back, so that nothing can be said about losses.
    pub steps_back: u64,
    /// Events that were delivered after a newer one, because the file breaks its promises or has too many events between two.
    /// 0 if the file's order was asked for.
    pub late: u64,
    /// Blocks of all kinds.
    pub blocks: u64,
    /// Bytes of the file that were read.
    pub bytes: u64,
    /// What is wrong first.
    pub damage: Option<Damage>,
    /// How many things are wrong.
    pub damages: u64,
    /// The mark of the end was there.
    pub ended_orderly: bool,
}

/// Reads a trace.
#[derive(Debug)]
pub struct Reader<R> {
    input: R,
    order: Delivery,
    stacks: Stacks,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Delivery {
    ByTime,
    AsInFile,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stacks {
    Keep,
    LeaveOut,
}

impl<R: Read> Reader<R> {
    /// Nothing is read yet. The input need not be buffered.
    pub fn new(input: R) -> Reader<R> {
        Reader { input, order: Delivery::ByTime, stacks: Stacks::LeaveOut }
    }

    /// Delivers events as they stand in the file instead of by time: for who counts.
    #[must_use]
    pub fn in_file_order(self) -> Reader<R> {
        Reader { order: Delivery::AsInFile, ..self }
    }

    /// Keeps the stacks, so that events can show theirs.
    #[must_use]
    pub fn with_stacks(self) -> Reader<R> {
        Reader { stacks: Stacks::Keep, ..self }
    }

    /// Reads the file to its end, or to where it can't be read on.
    pub fn read<V: Visitor>(self, visitor: &mut V) -> Summary {
        let (mut file, opened) = File::open(self.input);
        let mut reading = Reading::new(self.order, self.stacks, file.container(), visitor);
        let read = opened.and_then(|()| reading.blocks(&mut file));
        reading.release(None);
        if let Err(damage) = read {
            reading.damaged(damage);
        }
        let late = if reading.delivery == Delivery::ByTime { reading.summary.late } else { 0 };
        Summary { late, blocks: file.blocks, bytes: file.offset(), ..reading.summary }
    }
}

/// A type, and whether its events are wanted.
#[derive(Debug)]
struct Known {
    kind: EventType,
    interest: Interest,
}

/// All that must be known to show an event.
#[derive(Debug)]
struct Tables {
    types: Vec<Known>,
    stacks: Rows,
    labels: Rows,
    pointer_bytes: u8,
}

/// A file that is being read.
struct Reading<'v, V> {
    visitor: &'v mut V,
    delivery: Delivery,
    keeps_stacks: Stacks,
    container: Container,
    tables: Tables,
    /// The types by their ids.
    by_id: HashMap<u32, u32>,
    last_type: Option<(u32, u32)>,
    types_cost: usize,
    /// Types whose numbers are used up, because the file has told to forget them.
    forgotten: u32,
    threads: Threads,
    process: u64,
    order: Order,
    newest: i64,
    has_trace: bool,
    summary: Summary,
}

/// Where the reading of a block of events is.
struct Place {
    layout: Layout,
    header: Header,
    /// The header of the event whose payload comes next began here.
    began: Option<u64>,
}

impl<'v, V: Visitor> Reading<'v, V> {
    fn new(delivery: Delivery, keeps_stacks: Stacks, container: Container, visitor: &'v mut V) -> Reading<'v, V> {
        Reading {
            visitor,
            delivery,
            keeps_stacks,
            container,
            tables: Tables { types: Vec::new(), stacks: Rows::default(), labels: Rows::default(), pointer_bytes: 8 },
            by_id: HashMap::new(),
            last_type: None,
            types_cost: 0,
            forgotten: 0,
            threads: Threads::default(),
            process: 0,
            order: Order::default(),
            newest: i64::MIN,
            has_trace: false,
            summary: Summary::default(),
        }
    }

    /// Block after block.
    fn blocks<R: Read>(&mut self, file: &mut File<R>) -> Result<(), Damage> {
        while !self.visitor.is_done() {
            let Some(block) = file.next()? else {
                self.summary.ended_orderly = true;
                if !self.has_trace {
                    return Err(Damage { offset: file.offset(), kind: DamageKind::NoTrace });
                }
                return Ok(());
            };
            if !self.has_trace && block.kind != Kind::Trace {
                return Err(Damage { offset: block.began, kind: DamageKind::NoTrace });
            }
            let read = match block.kind {
                Kind::Trace => self.trace(file, block.began),
                Kind::Event => self.events(file),
                Kind::Metadata if self.container == Container::V4 => self.types_4(file),
                Kind::Metadata => self.types_6(file),
                Kind::SequencePoint => self.sequence_point(file),
                Kind::Stack => self.stacks(file),
                Kind::Thread => self.new_threads(file),
                Kind::RemoveThread => self.ended_threads(file),
                Kind::LabelList => self.label_lists(file),
                Kind::Unknown => Ok(()),
            };
            match read {
                Ok(()) => {}
                Err(Trouble::Block(damage)) => self.damaged(damage),
                Err(Trouble::File(damage)) => return Err(damage),
            }
        }
        Ok(())
    }

    #[cold]
    fn damaged(&mut self, damage: Damage) {
        self.summary.damages += 1;
        self.summary.damage.get_or_insert(damage);
    }

    fn trace<R: Read>(&mut self, file: &mut File<R>, began: u64) -> Result<(), Trouble> {
        if self.has_trace {
            return Err(Trouble::Block(Damage { offset: began, kind: DamageKind::SecondTrace }));
        }
        let container = self.container;
        let offset = file.offset();
        // Without it no time of an event is one.
        let info = file.fixed("the description of the trace", |bytes| TraceInfo::read(container, bytes)).map_err(
            |trouble| match trouble {
                Trouble::Block(Damage { kind, .. }) => Trouble::File(Damage { offset, kind }),
                file => file,
            },
        )?;
        self.tables.pointer_bytes = info.pointer_bytes;
        self.process = u64::from(info.process_id);
        self.has_trace = true;
        self.visitor.trace(&info);
        Ok(())
    }

    /// The header of a block of events or descriptions: how their headers are written.
    fn block_header<R: Read>(&mut self, file: &mut File<R>) -> Result<Layout, Trouble> {
        let container = self.container;
        file.fixed("a block's header", |bytes| {
            let size = bytes.short()?;
            if size < 20 {
                return Err(Stuck::Wrong(DamageKind::BlockHeader(size)));
            }
            let flags = bytes.short()?;
            // The oldest and the newest time, and what later versions add.
            bytes.take(usize::from(size) - 4)?;
            Ok(Layout { container, compressed: flags & 1 != 0 })
        })
    }

    fn events<R: Read>(&mut self, file: &mut File<R>) -> Result<(), Trouble> {
        let layout = self.block_header(file)?;
        let mut place = Place { layout, header: Header::default(), began: None };
        while file.window("an event", |window, offset, left| self.some_events(window, offset, left, &mut place))? {}
        Ok(())
    }

    /// The events of a window, as many as are in it as a whole; and the header of the next if it is.
    fn some_events(&mut self, window: &[u8], offset: u64, left: u64, place: &mut Place) -> Result<usize, Stuck> {
        let mut at = 0;
        while at < window.len() {
            let stuck = match self.one_event(window, at, offset, left, place) {
                Ok(next) if next == at => Stuck::Short,
                Ok(next) => {
                    at = next;
                    continue;
                }
                Err(stuck) => stuck,
            };
            // What is wrong is told when it is the first of its window, so that its offset is known.
            return if at > 0 { Ok(at) } else { Err(stuck) };
        }
        if at > 0 { Ok(at) } else { Err(Stuck::Short) }
    }

    /// The event that begins here, or the rest of it. Where the next one begins.
    #[inline]
    fn one_event(
        &mut self,
        window: &[u8],
        at: usize,
        offset: u64,
        left: u64,
        place: &mut Place,
    ) -> Result<usize, Stuck> {
        let mut at = at;
        let began = match place.began {
            Some(began) => began,
            None => {
                let mut bytes = Bytes::new(&window[at..]);
                if bytes.len() >= LONGEST {
                    place.header.read(place.layout, &mut bytes)?;
                } else {
                    // It may be cut, and then it is read again from its beginning.
                    let mut header = place.header.clone();
                    header.read(place.layout, &mut bytes)?;
                    place.header = header;
                }
                let began = offset + at as u64;
                at = window.len() - bytes.len();
                place.began = Some(began);
                began
            }
        };
        let size = u64::from(place.header.payload) + u64::from(place.header.padding);
        if size > left - at as u64 {
            return Err(Stuck::Wrong(DamageKind::Overrun("the payload of an event")));
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
        let kind = match self.last_type {
            Some((id, kind)) if id == header.kind => kind,
            _ => match self.by_id.get(&header.kind) {
                Some(&kind) => {
                    self.last_type = Some((header.kind, kind));
                    kind
                }
                None => return self.damaged(Damage { offset, kind: DamageKind::UnknownType(header.kind) }),
            },
        };
        self.summary.events += 1;
        let Some(capture) = self.capture(header, offset) else { return };
        let wanted = self.tables.types[kind as usize].interest == Interest::Deliver;
        if self.delivery == Delivery::ByTime && header.sorted && !self.order.is_empty() {
            self.release(Some(header.time));
        }
        if !wanted {
            return;
        }
        let fixed = self.fixed(header, kind, capture, offset);
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

    /// The thread that wrote an event, whose losses this event may tell of.
    #[inline]
    fn capture(&mut self, header: &Header, offset: u64) -> Option<u32> {
        let place = match self.threads.find(header.capture) {
            Some(place) => place,
            None => self.unknown_thread(header.capture, header.sequence.wrapping_sub(1), offset)?,
        };
        self.follow(place, header.sequence.wrapping_sub(1), header.sequence);
        Some(place)
    }

    /// A thread's numbers have come this far: its last one should have been `expected`, and is `now` from here on.
    #[inline]
    fn follow(&mut self, place: u32, expected: u32, now: u32) {
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

    /// A thread that is met for the first time. In version 6 it should have been introduced.
    #[cold]
    fn unknown_thread(&mut self, id: u64, sequence: u32, offset: u64) -> Option<u32> {
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
        Some(self.threads.add(id, thread, process, sequence))
    }

    #[inline]
    fn fixed(&mut self, header: &Header, kind: u32, capture: u32, offset: u64) -> Fixed {
        let &mut super::tables::Thread { thread: capture_thread, process, .. } = self.threads.at(capture);
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
        Fixed {
            time: header.time,
            offset,
            thread,
            capture: capture_thread,
            process,
            kind,
            sequence: header.sequence,
            processor: header.processor,
            stack: header.stack,
            labels: header.labels,
            activity: header.activity,
            related: header.related,
        }
    }

    /// Shows what has been waiting: all of it, or what is not newer than this.
    fn release(&mut self, until: Option<i64>) {
        let (visitor, tables, newest, summary) =
            (&mut *self.visitor, &self.tables, &mut self.newest, &mut self.summary);
        self.order.release(until, |fixed, payload| show(visitor, tables, newest, summary, fixed, payload));
    }

    /// Descriptions in version 4 have the headers of events.
    fn types_4<R: Read>(&mut self, file: &mut File<R>) -> Result<(), Trouble> {
        let layout = self.block_header(file)?;
        let mut header = Header::default();
        while file.window("a description", |window, offset, left| {
            let mut bytes = Bytes::new(window);
            let mut next = header.clone();
            next.read(layout, &mut bytes)?;
            let size = next.payload;
            if u64::from(size) + (window.len() - bytes.len()) as u64 > left {
                return Err(Stuck::Wrong(DamageKind::Overrun("a description")));
            }
            if size > LARGEST_TYPE {
                return Err(Stuck::Wrong(DamageKind::Type("it is too long")));
            }
            let payload = bytes.take(size as usize)?;
            bytes.take(next.padding as usize)?;
            header = next;
            self.described(EventType::read_4(&mut Bytes::new(payload)), offset);
            Ok(window.len() - bytes.len())
        })? {}
        Ok(())
    }

    fn types_6<R: Read>(&mut self, file: &mut File<R>) -> Result<(), Trouble> {
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

    /// A type was described, well or not.
    fn described(&mut self, read: Result<(EventType, Option<DamageKind>), Stuck>, offset: u64) {
        let (mut kind, wrong) = match read {
            Ok(read) => read,
            Err(Stuck::Wrong(kind)) => return self.damaged(Damage { offset, kind }),
            Err(Stuck::Short) => {
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
        kind.index = self.forgotten + place;
        if self.by_id.insert(kind.id, place).is_some() {
            self.damaged(Damage { offset, kind: DamageKind::TypeAgain(kind.id) });
        }
        self.last_type = None;
        let interest = self.visitor.event_type(&kind);
        self.tables.types.push(Known { kind, interest });
    }

    fn stacks<R: Read>(&mut self, file: &mut File<R>) -> Result<(), Trouble> {
        if self.keeps_stacks == Stacks::LeaveOut {
            return Ok(());
        }
        let (mut id, mut count) = file.fixed("a block's header", |bytes| Ok((bytes.word()?, bytes.word()?)))?;
        while count > 0
            && file.window("a stack", |window, offset, left| {
                let mut bytes = Bytes::new(window);
                let size = bytes.word()?;
                if u64::from(size) + 4 > left {
                    return Err(Stuck::Wrong(DamageKind::Overrun("a stack")));
                }
                let row = bytes.take(size as usize)?;
                if !self.tables.stacks.add(id, row) {
                    self.damaged(Damage { offset, kind: DamageKind::TooMany("stacks") });
                }
                (id, count) = (id.wrapping_add(1), count - 1);
                Ok(window.len() - bytes.len())
            })?
        {}
        Ok(())
    }

    fn label_lists<R: Read>(&mut self, file: &mut File<R>) -> Result<(), Trouble> {
        let (mut id, mut count) = file.fixed("a block's header", |bytes| Ok((bytes.word()?, bytes.word()?)))?;
        while count > 0
            && file.window("a label list", |window, offset, _| {
                let length = Labels::length_of_list(window)?;
                if !self.tables.labels.add(id, &window[..length]) {
                    self.damaged(Damage { offset, kind: DamageKind::TooMany("label lists") });
                }
                (id, count) = (id.wrapping_add(1), count - 1);
                Ok(length)
            })?
        {}
        Ok(())
    }

    fn new_threads<R: Read>(&mut self, file: &mut File<R>) -> Result<(), Trouble> {
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

    fn ended_threads<R: Read>(&mut self, file: &mut File<R>) -> Result<(), Trouble> {
        while file.window("an ended thread", |window, offset, _| {
            let mut bytes = Bytes::new(window);
            let (index, sequence) = (bytes.var64()?, bytes.var32()?);
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

    /// Nothing before this belongs behind it: all that waits goes, and what was numbered is forgotten.
    fn sequence_point<R: Read>(&mut self, file: &mut File<R>) -> Result<(), Trouble> {
        self.release(None);
        self.threads.settle();
        self.tables.stacks.clear();
        self.tables.labels.clear();
        let container = self.container;
        let (flags, mut count) = file.fixed("a sequence point", |bytes| {
            let _time = bytes.long()?;
            let flags = if container == Container::V6 { bytes.word()? } else { 0 };
            Ok((flags, bytes.word()?))
        })?;
        while count > 0
            && file.window("a thread's number", |window, offset, _| {
                let mut bytes = Bytes::new(window);
                let (id, sequence) = match container {
                    Container::V4 => (bytes.long()?, bytes.word()?),
                    Container::V6 => (bytes.var64()?, bytes.var32()?),
                };
                let place = self.threads.find(id).or_else(|| self.unknown_thread(id, sequence, offset));
                if let Some(place) = place {
                    self.follow(place, sequence, sequence);
                }
                count -= 1;
                Ok(window.len() - bytes.len())
            })?
        {}
        if flags & 1 != 0 {
            self.threads.clear();
        }
        if flags & 2 != 0 {
            self.forgotten += self.tables.types.len() as u32;
            self.tables.types.clear();
            self.by_id.clear();
            self.last_type = None;
            self.types_cost = 0;
        }
        Ok(())
    }
}

/// What stands in the row of a thread.
fn thread_row<'a>(row: &mut Bytes<'a>, process: u64) -> Result<ThreadInfo<'a>, Stuck> {
    let mut info = ThreadInfo { index: row.var64()?, process, ..ThreadInfo::default() };
    while !row.is_empty() {
        match row.byte()? {
            1 => info.name = row.utf8()?.into(),
            2 => info.process = row.var64()?,
            3 => info.thread = row.var64()?,
            4 => drop((row.utf8()?, row.utf8()?)),
            // How long it is nobody knows; what was read counts.
            _ => break,
        }
    }
    Ok(info)
}

/// Shows an event to the visitor.
#[inline]
fn show<V: Visitor>(
    visitor: &mut V,
    tables: &Tables,
    newest: &mut i64,
    summary: &mut Summary,
    fixed: &Fixed,
    payload: &[u8],
) {
    if fixed.time < *newest {
        summary.late += 1;
    } else {
        *newest = fixed.time;
    }
    let stack = match fixed.stack {
        0 => Stack::default(),
        id => Stack { id, bytes: tables.stacks.get(id).unwrap_or_default(), pointer_bytes: tables.pointer_bytes },
    };
    let labels = match fixed.labels {
        0 => Labels::default(),
        id => Labels::new(tables.labels.get(id).unwrap_or_default()),
    };
    let activity = labels.into_iter().find_map(|label| if let Label::Activity(id) = label { Some(id) } else { None });
    let related = labels.into_iter().find_map(|label| if let Label::Related(id) = label { Some(id) } else { None });
    visitor.event(&NetEvent {
        kind: &tables.types[fixed.kind as usize].kind,
        time: fixed.time,
        thread: fixed.thread,
        capture_thread: fixed.capture,
        process: fixed.process,
        processor: (fixed.processor != NO_PROCESSOR).then_some(fixed.processor),
        sequence: fixed.sequence,
        stack,
        activity: activity.unwrap_or(fixed.activity),
        related: related.unwrap_or(fixed.related),
        labels,
        payload,
        offset: fixed.offset,
    });
}
