//! Reads a file and delivers its events to a visitor.
//!
//! The reader reads the file once, from any [`io::Read`](std::io::Read), and calls a [`Visitor`]. An event
//! is a view of the buffer, valid during the call; nothing is allocated for it. The visitor decides once per type
//! whether it wants the type's events; the payloads of other types are skipped, so a program that counts three types pays for
//! the headers of the others and for nothing else.
//!
//! Damage is reported in the [`Summary`]: the first [`Damage`] with its byte offset, and the number of damaged places. All that was
//! readable has been delivered by then.
//!
//! Losses are counted from the sequence numbers that each capturing thread gives to its events: a step of more than one means
//! lost events, and a sequence point with a higher number than the last one seen means losses at the end. In version 4 a
//! thread's beginning is not recorded, so no loss is counted before its first event, whatever that event's number is; and if a sequence
//! point states 0 as the last number of a thread, a new thread has reused the id. A step back of the sequence numbers can't be converted to
//! a number of lost events; it is counted as a step back.

mod definitions;
mod events;

use std::io::Read;

use super::Container;
use super::bytes::ItemError;
use super::container::{BlockError, File, Kind};
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
    /// Creates a reader that has read nothing. The input need not be buffered.
    pub fn new(input: R) -> Reader<R> {
        Reader { input, order: Delivery::ByTime, stacks: Stacks::LeaveOut, asides: Asides::KeepToOneself }
    }

    /// Delivers events in file order instead of by time: faster, for a visitor to which order does not matter.
    #[must_use]
    pub fn in_file_order(self) -> Reader<R> {
        Reader { order: Delivery::AsInFile, ..self }
    }

    /// Keeps stacks, so that events can return theirs.
    #[must_use]
    pub fn with_stacks(self) -> Reader<R> {
        Reader { stacks: Stacks::Keep, ..self }
    }

    /// Also delivers what the file contains besides events ([`Aside`]), in file order.
    #[must_use]
    pub fn with_asides(self) -> Reader<R> {
        Reader { asides: Asides::Tell, ..self }
    }

    /// Reads the file to its end, or to where reading fails.
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
struct TypeEntry {
    kind: EventType,
    interest: Interest,
}

/// The tables that are needed to deliver an event.
#[derive(Debug)]
struct Tables {
    types: Vec<TypeEntry>,
    stacks: Rows,
    labels: Rows,
    pointer_bytes: u8,
}

/// The state of reading a file.
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
    /// The number of types that sequence points have made invalid.
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

    /// Reads block after block.
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
                Err(BlockError::Block(damage)) => self.damaged(damage),
                Err(BlockError::File(damage)) => return Err(damage),
            }
        }
        Ok(())
    }

    #[cold]
    fn damaged(&mut self, damage: Damage) {
        self.summary.damages += 1;
        self.summary.damage.get_or_insert(damage);
    }

    fn trace<R: Read>(&mut self, file: &mut File<R>, began: u64) -> Result<(), BlockError> {
        if self.has_trace {
            return Err(BlockError::Block(Damage { offset: began, kind: DamageKind::SecondTrace }));
        }
        let container = self.container;
        let offset = file.offset();
        // Without the description of the trace, the times of events have no meaning.
        let info = file.fixed("the description of the trace", |bytes| TraceInfo::read(container, bytes)).map_err(
            |trouble| match trouble {
                BlockError::Block(Damage { kind, .. }) => BlockError::File(Damage { offset, kind }),
                file => file,
            },
        )?;
        self.tables.pointer_bytes = info.pointer_bytes;
        self.process = u64::from(info.process_id);
        self.has_trace = true;
        self.visitor.trace(&info);
        Ok(())
    }

    fn visit_aside(&mut self, aside: &Aside<'_>) {
        if self.asides == Asides::Tell {
            self.visitor.aside(aside);
        }
    }

    /// Reads the header of a block of events or descriptions, which states the layout of their headers.
    fn block_header<R: Read>(&mut self, file: &mut File<R>) -> Result<Layout, BlockError> {
        let container = self.container;
        file.fixed("a block's header", |bytes| {
            let size = bytes.short()?;
            if size < 20 {
                return Err(ItemError::Wrong(DamageKind::BlockHeader(size)));
            }
            let flags = bytes.short()?;
            // Skip the oldest and the newest time, and fields of later versions.
            bytes.take(usize::from(size) - 4)?;
            Ok(Layout { container, compressed: flags & 1 != 0 })
        })
    }

    /// Delivers queued events: all of them, or those that are not newer than this.
    fn release(&mut self, until: Option<i64>) {
        let (visitor, tables, newest, summary) =
            (&mut *self.visitor, &self.tables, &mut self.newest, &mut self.summary);
        self.order.release(until, |fixed, payload| show(visitor, tables, newest, summary, fixed, payload));
    }
}

/// Delivers an event to the visitor.
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
