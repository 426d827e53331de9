//! The compressed header of an event: each field that equals that of the previous event in the block is left out.
//!
//! Most programs fire events without a stack, labels and activities. For these, the context of an event is `()`, and the encoder has no code
//! for what is never there. [`OnStack`] is the context of a program whose events have nothing but a stack.

use trace_io::bytes::Bytes;

use crate::Container;
use crate::block::{NO_PROCESSOR, header_bit};

/// The header of an event: everything but its payload. All ids are those of the written file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Header<C = Context> {
    /// The id of its type.
    pub kind: u32,
    /// Its sequence number within its capturing thread.
    pub sequence: u32,
    /// The thread: the operating system's id in version 4, an index in version 6.
    pub thread: u64,
    /// The thread that wrote the event to its buffer; usually the same as `thread`.
    pub capture: u64,
    /// The processor, if known.
    pub processor: Option<u32>,
    /// Its time, in ticks of the trace's clock.
    pub time: i64,
    /// No later event in the file has an earlier time.
    pub sorted: bool,
    /// Its stack, labels and activities; [`OnStack`] if events have only stacks, and `()` if no event of the file has any.
    pub context: C,
}

/// The stack, the labels and the activities of an event.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Context {
    /// The id of its stack; 0 is the empty stack.
    pub stack: u32,
    /// The id of its labels; version 6 only.
    pub labels: u32,
    /// The activity; version 4 only.
    pub activity: [u8; 16],
    /// The related activity; version 4 only.
    pub related: [u8; 16],
}

/// The id of the stack of an event that has neither labels nor activities; 0 is the empty stack.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OnStack(pub u32);

/// The context of the events of a file: [`Context`], [`OnStack`] if no event has labels or activities, or `()` if none has a stack either.
pub trait EventContext: Copy + Default {
    /// The room reserved for the header of an event, in bytes.
    #[doc(hidden)]
    const HEADER_BYTES: usize;

    /// Returns the bits of the parts that differ from those of the previous event.
    #[doc(hidden)]
    fn changes(&self, before: &Self, container: Container) -> u8;

    /// Appends the stack.
    #[doc(hidden)]
    fn put_stack(&self, to: &mut Bytes);

    /// Appends the parts with these bits that follow the time.
    #[doc(hidden)]
    fn put_rest(&self, changes: u8, container: Container, to: &mut Bytes);
}

impl EventContext for () {
    const HEADER_BYTES: usize = 64;

    #[inline(always)]
    fn changes(&self, _: &(), _: Container) -> u8 {
        0
    }

    fn put_stack(&self, _: &mut Bytes) {}

    fn put_rest(&self, _: u8, _: Container, _: &mut Bytes) {}
}

impl EventContext for OnStack {
    const HEADER_BYTES: usize = 72;

    #[inline(always)]
    fn changes(&self, before: &OnStack, _: Container) -> u8 {
        if self == before { 0 } else { header_bit::STACK }
    }

    fn put_stack(&self, to: &mut Bytes) {
        to.varint(u64::from(self.0));
    }

    fn put_rest(&self, _: u8, _: Container, _: &mut Bytes) {}
}

impl EventContext for Context {
    const HEADER_BYTES: usize = 160;

    fn changes(&self, before: &Context, container: Container) -> u8 {
        let bit = |is_set: bool, bit: u8| if is_set { bit } else { 0 };
        let rest = match container {
            Container::V4 => {
                bit(self.activity != before.activity, header_bit::ACTIVITY)
                    | bit(self.related != before.related, header_bit::RELATED)
            }
            Container::V6 => bit(self.labels != before.labels, header_bit::ACTIVITY),
        };
        rest | bit(self.stack != before.stack, header_bit::STACK)
    }

    fn put_stack(&self, to: &mut Bytes) {
        to.varint(u64::from(self.stack));
    }

    fn put_rest(&self, changes: u8, container: Container, to: &mut Bytes) {
        match container {
            Container::V4 => {
                to.put(if changes & header_bit::ACTIVITY != 0 { &self.activity } else { &[] });
                to.put(if changes & header_bit::RELATED != 0 { &self.related } else { &[] });
            }
            Container::V6 if changes & header_bit::ACTIVITY != 0 => to.varint(u64::from(self.labels)),
            Container::V6 => {}
        }
    }
}

/// The header of the previous event in the block.
#[derive(Clone, Copy, Debug)]
pub(super) struct Previous<C> {
    kind: u32,
    sequence: u32,
    pub(super) capture: u64,
    processor: u32,
    thread: u64,
    time: i64,
    length: u64,
    context: C,
}

impl<C: EventContext> Default for Previous<C> {
    /// What the first header of a block is relative to.
    fn default() -> Previous<C> {
        let context = C::default();
        Previous { kind: 0, sequence: 0, capture: 0, processor: 0, thread: 0, time: 0, length: 0, context }
    }
}

impl<C: EventContext> Previous<C> {
    /// Appends the header of an event whose payload has this length, and keeps it for the next event.
    #[inline(always)]
    pub(super) fn put(&mut self, header: &Header<C>, length: u64, container: Container, to: &mut Bytes) {
        let before = *self;
        let &Header { kind, sequence, thread, capture, time, context, .. } = header;
        let processor = header.processor.unwrap_or(NO_PROCESSOR);
        // A reader adds 1 by itself. The header has the rest of the difference.
        let step = sequence.wrapping_sub(before.sequence).wrapping_sub(1);
        let moved = step != 0 || capture != before.capture || processor != before.processor;
        let mut flags = context.changes(&before.context, container);
        flags |= if header.sorted { header_bit::SORTED } else { 0 };
        flags |= if kind != before.kind { header_bit::KIND } else { 0 };
        flags |= if moved { header_bit::CAPTURE } else { 0 };
        flags |= if thread != before.thread { header_bit::THREAD } else { 0 };
        flags |= if length != before.length { header_bit::LENGTH } else { 0 };
        to.u8(flags);
        if flags & header_bit::KIND != 0 {
            to.varint(u64::from(kind));
        }
        if flags & header_bit::CAPTURE != 0 {
            to.varint(u64::from(step));
            to.varint(capture);
            to.varint(u64::from(processor));
        }
        if flags & header_bit::THREAD != 0 {
            to.varint(thread);
        }
        if flags & header_bit::STACK != 0 {
            context.put_stack(to);
        }
        // A step back in time is a difference that wraps.
        to.varint(time.wrapping_sub(before.time) as u64);
        if flags & (header_bit::ACTIVITY | header_bit::RELATED) != 0 {
            context.put_rest(flags, container, to);
        }
        if flags & header_bit::LENGTH != 0 {
            to.varint(length);
        }
        *self = Previous { kind, sequence, capture, processor, thread, time, length, context };
    }
}
