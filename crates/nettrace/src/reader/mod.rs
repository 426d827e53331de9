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

mod definitions;
mod events;

use std::io::Read;

use super::Container;
use super::bytes::Stuck;
use super::container::{File, Kind, Trouble};
use super::damage::{Damage, DamageKind};
use super::header::Layout;
use super::labels::{Label, Labels};
use super::metadata::{EventType, TraceInfo};
use super::order::{Fixed, Order};
use super::tables::{Ids, Rows, Threads};
use super::visitor::{Aside, Interest, NetEvent, Stack, Summary, Visitor};

/// The processor of an event whose processor is not known.
const NO_PROCESSOR: u32 = u32::MAX;

/// Reads a trace.
#[derive(Debug)]
pub struct Reader<R> {
    input: R,
    order: Delivery,
    stacks: Stacks,
    asides: Asides,
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

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Asides {
    Tell,
    KeepToOneself,
}

impl<R: Read> Reader<R> {
    /// Nothing is read yet. The input need not be buffered.
    pub fn new(input: R) -> Reader<R> {
        Reader { input, order: Delivery::ByTime, stacks: Stacks::LeaveOut, asides: Asides::KeepToOneself }
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

    /// Tells what the file says beside its events, too, each thing where it stands: for who reads in the file's order.
    #[must_use]
    pub fn with_asides(self) -> Reader<R> {
        Reader { asides: Asides::Tell, ..self }
    }

    /// Reads the file to its end, or to where it can't be read on.
    pub fn read<V: Visitor>(self, visitor: &mut V) -> Summary {
        let (mut file, opened) = File::open(self.input);
        let mut reading = Reading::new(self.order, self.stacks, self.asides, file.container(), visitor);
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
    asides: Asides,
    container: Container,
    tables: Tables,
    /// The types by their ids.
    by_id: Ids,
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

impl<'v, V: Visitor> Reading<'v, V> {
    fn new(
        delivery: Delivery,
        keeps_stacks: Stacks,
        asides: Asides,
        container: Container,
        visitor: &'v mut V,
    ) -> Reading<'v, V> {
        Reading {
            visitor,
            delivery,
            keeps_stacks,
            asides,
            container,
            tables: Tables { types: Vec::new(), stacks: Rows::default(), labels: Rows::default(), pointer_bytes: 8 },
            by_id: Ids::default(),
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

    fn tell(&mut self, aside: &Aside<'_>) {
        if self.asides == Asides::Tell {
            self.visitor.aside(aside);
        }
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

    /// Shows what has been waiting: all of it, or what is not newer than this.
    fn release(&mut self, until: Option<i64>) {
        let (visitor, tables, newest, summary) =
            (&mut *self.visitor, &self.tables, &mut self.newest, &mut self.summary);
        self.order.release(until, |fixed, payload| show(visitor, tables, newest, summary, fixed, payload));
    }
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
        in_file: fixed.in_file,
    });
}
