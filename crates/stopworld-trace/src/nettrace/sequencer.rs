//! Assigns times, ids and sequence numbers to events, and passes them to the encoder of the format ([`nettrace::encode`]).
//!
//! The encoder has a buffer for each kind of block, which is copied to the output when it is full and at each flush. All memory is
//! allocated when the sequencer is created. Every event has the flag that no older event follows.
//!
//! **Types and threads** are described before their first event, in the same flush or an earlier one. A type has a fixed id
//! ([`Kind::id`]).
//!
//! **Sequence points** are written at each flush after new events, and when many threads have been seen. A sequence point has the last
//! sequence number of each thread with a number since the last point, so a loss is visible even if no event follows it. Every event before
//! a sequence point in the file has its time or an earlier one, and every event after it has a later time.
//!
//! **Stacks** are written before their first event after a sequence point ([`Stacks`]). An event without a call stack has stack 0.

use std::io;
use std::time::{SystemTime, UNIX_EPOCH};

use super::Container;
use super::output::TraceOutput;
use super::schema::Kind;
use super::stacks::Stacks;
use super::threads::{ThreadLookup, Threads};
use crate::os::thread::{getpid, gettid};
use nettrace::block::Block;
use nettrace::encode::{Describe, Encoder, Header, OnStack, Output, Written, end_tag};
use nettrace::{EventType, TraceInfo, Utc};
use stopworld::events::clock::Clock;
use stopworld::events::record::RecordingThread;
use stopworld::profile::allocations::CallStack;

/// The maximum size of a payload: some readers store its size in 16 bits.
pub(super) const MOST_PAYLOAD: usize = 64_000;

/// The data for the beginning of a trace.
#[derive(Clone, Copy, Debug)]
pub(super) struct Head {
    /// UTC, in nanoseconds since 1970.
    pub(super) utc_ns: u64,
    /// The value of the events' clock at that time.
    pub(super) ticks: u64,
    pub(super) hz: u64,
    pub(super) pid: u32,
    pub(super) processors: u32,
}

impl Head {
    /// Returns the head of a trace of this process that begins now.
    pub(super) fn now() -> Head {
        let clock = Clock::of_process();
        let utc = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Head {
            utc_ns: utc.as_nanos() as u64,
            ticks: clock.now(),
            hz: clock.hz(),
            pid: getpid() as u32,
            processors: std::thread::available_parallelism().map_or(1, |count| count.get() as u32),
        }
    }

    fn info(self, container: Container) -> TraceInfo {
        TraceInfo {
            container,
            start: Utc::at(self.utc_ns),
            start_ticks: self.ticks as i64,
            ticks_per_second: self.hz as i64,
            pointer_bytes: 8,
            process_id: self.pid,
            processors: self.processors,
            sampling_period_ns: match container {
                // Version 4 has the number in every file. This is the default of the .NET runtime.
                Container::V4 => 1_000_000,
                Container::V6 => 0,
            },
            pairs: Vec::new(),
        }
    }
}

/// The output of a trace, which is written whenever a block has filled its buffer.
#[derive(Debug)]
struct BlockOutput {
    trace_output: TraceOutput,
    /// The number of records with events in the current block.
    records: u64,
    end: &'static [u8],
}

impl Output for BlockOutput {
    fn put(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.trace_output.bytes().put(bytes);
        Ok(())
    }

    fn block_ended(&mut self, block: Block) -> io::Result<()> {
        if block == Block::Event {
            self.trace_output.count_records(std::mem::take(&mut self.records));
        }
        if self.trace_output.is_full() { self.trace_output.write_out(self.end, false) } else { Ok(()) }
    }
}

/// See the module documentation.
#[derive(Debug)]
pub(super) struct Sequencer {
    head: Head,
    encoder: Encoder<BlockOutput, OnStack>,
    threads: Threads,
    stacks: Stacks,
    /// A bit for each kind of event that is described in the file.
    described: [u64; Kind::MOST / 64],
    /// A bit for each foreign event that is described in the file.
    described_foreign: u64,
    /// The time of the latest event.
    last: u64,
    /// The earliest time that the next event may have.
    floor: u64,
    /// Whether a sequence number has been assigned since the last sequence point.
    points_due: bool,
    /// Number of events written.
    pub(super) count: u64,
}

impl Sequencer {
    pub(super) fn new(container: Container, head: Head, trace_output: TraceOutput) -> io::Result<Sequencer> {
        let output = BlockOutput { trace_output, records: 0, end: end_tag(container) };
        Ok(Sequencer {
            head,
            encoder: Encoder::new(output, container),
            threads: Threads::new()?,
            stacks: Stacks::new(),
            described: [0; _],
            described_foreign: 0,
            last: 0,
            floor: 0,
            points_due: false,
            count: 0,
        })
    }

    pub(super) fn head(&self) -> Head {
        self.head
    }

    /// Writes the beginning of the file. Allocates.
    pub(super) fn begin(&mut self) -> io::Result<()> {
        self.encoder.trace(&self.head.info(self.encoder.container())).map(drop)
    }

    // ---- Events --------------------------------------------------------------------------------------------------------

    /// Returns the time that an event with this time gets in the file. A late event cannot be placed before events that are already
    /// written.
    #[inline(always)]
    pub(super) fn time(&self, ticks: u64) -> u64 {
        ticks.max(self.floor)
    }

    /// Writes an event. Returns its time in the file, which is not before that of the previous event.
    #[inline]
    pub(super) fn event(&mut self, kind: Kind, ticks: u64, thread: RecordingThread, payload: &[u8]) -> io::Result<u64> {
        self.event_on(None, kind, ticks, thread, payload)
    }

    /// Like [`event`](Self::event), for an event with a call stack.
    #[inline(always)]
    pub(super) fn event_on(
        &mut self,
        stack: Option<CallStack>,
        kind: Kind,
        ticks: u64,
        thread: RecordingThread,
        payload: &[u8],
    ) -> io::Result<u64> {
        self.know(ticks, thread, payload.len())?;
        let id = kind.id();
        if self.described[id as usize / 64] & 1 << (id % 64) == 0 {
            self.describe(kind, payload.len())?;
        }
        let stack = match stack {
            Some(stack) => self.stack(stack)?,
            None => OnStack::default(),
        };
        self.put_event(id, ticks, thread, payload, stack)
    }

    /// Writes a foreign event, one that is not in the event table. `kind` must always be the same for the same `number`, which is
    /// below 64.
    #[cold]
    pub(super) fn foreign(
        &mut self,
        number: u32,
        kind: &EventType,
        ticks: u64,
        thread: RecordingThread,
        payload: &[u8],
    ) -> io::Result<()> {
        debug_assert!(number < 64);
        self.know(ticks, thread, payload.len())?;
        let id = Kind::MOST as u32 + number;
        if self.described_foreign & 1 << number == 0 {
            self.described_foreign |= 1 << number;
            self.describe_as(id, kind, payload.len())?;
        }
        self.put_event(id, ticks, thread, payload, OnStack::default()).map(drop)
    }

    #[inline(always)]
    fn put_event(
        &mut self,
        id: u32,
        ticks: u64,
        thread: RecordingThread,
        payload: &[u8],
        stack: OnStack,
    ) -> io::Result<u64> {
        let time = self.time(ticks);
        let sequence = self.threads.advance(thread.tid, 1);
        let thread = self.thread_name(thread);
        let header = Header {
            kind: id,
            sequence,
            thread,
            capture: thread,
            processor: None,
            time: time as i64,
            sorted: true,
            context: stack,
        };
        let written = self.encoder.event(&header, payload)?;
        debug_assert_eq!(written, Written::Yes);
        (self.last, self.floor) = (time, time);
        self.count += 1;
        self.points_due = true;
        Ok(time)
    }

    /// Accounts for lost records of a thread, by assigning sequence numbers to them.
    pub(super) fn lose(&mut self, thread: RecordingThread, count: u64) -> io::Result<()> {
        self.know(self.last, thread, 0)?;
        self.threads.advance(thread.tid, count as u32);
        self.points_due = true;
        Ok(())
    }

    /// Returns the id of a stack, which is written first if the file does not have it since the last sequence point.
    #[cold]
    fn stack(&mut self, stack: CallStack) -> io::Result<OnStack> {
        let (id, new) = self.stacks.id(stack);
        if let Some(addresses) = new {
            self.encoder.stack(id, addresses)?;
        }
        Ok(OnStack(id))
    }

    /// Returns the stacks of the events so far.
    pub(super) fn stacks(&self) -> &Stacks {
        &self.stacks
    }

    // ---- Threads and types ---------------------------------------------------------------------------------------------

    /// Returns the identifier of a thread in events.
    #[inline(always)]
    fn thread_name(&self, thread: RecordingThread) -> u64 {
        match self.encoder.container() {
            Container::V4 => u64::from(thread.tid),
            Container::V6 => index_of(thread.index),
        }
    }

    /// Prepares an event with this time and a payload of this length: the file describes its thread, and the next sequence point has a
    /// row for the thread.
    #[inline(always)]
    fn know(&mut self, ticks: u64, thread: RecordingThread, payload: usize) -> io::Result<()> {
        debug_assert!(payload <= MOST_PAYLOAD);
        if self.threads.is_full() {
            self.sequence_point(ticks)?;
        }
        match self.threads.look_up(thread, self.encoder.container() == Container::V6) {
            ThreadLookup::Known => Ok(()),
            lookup => self.introduce(thread, lookup, payload),
        }
    }

    #[cold]
    fn introduce(&mut self, thread: RecordingThread, lookup: ThreadLookup, payload: usize) -> io::Result<()> {
        if self.encoder.container() == Container::V4 {
            return Ok(());
        }
        self.encoder.make_room(payload)?;
        if let ThreadLookup::InPlaceOf { owner, sequence } = lookup {
            // This also writes the last events of the old thread, before its removal.
            self.encoder.thread_ended(index_of(owner), sequence)?;
        }
        self.encoder.thread(index_of(thread.index), (self.head.pid.into(), thread.tid.into()), "", &[])
    }

    #[cold]
    fn describe(&mut self, kind: Kind, payload: usize) -> io::Result<()> {
        let id = kind.id();
        self.described[id as usize / 64] |= 1 << (id % 64);
        self.describe_as(id, &kind.definition(), payload)
    }

    fn describe_as(&mut self, id: u32, kind: &impl Describe, payload: usize) -> io::Result<()> {
        self.encoder.make_room(payload)?;
        self.encoder.describe_at(self.floor.max(self.head.ticks) as i64);
        self.encoder.event_type(id, kind).map(drop)
    }

    // ---- Sequence points -----------------------------------------------------------------------------------------------

    /// Writes a sequence point after the current blocks. All records up to the time `ticks` must have been written.
    #[cold]
    fn sequence_point(&mut self, ticks: u64) -> io::Result<()> {
        let time = self.time(ticks);
        let container = self.encoder.container();
        for (tid, index, sequence) in self.threads.touched() {
            let thread = match container {
                Container::V4 => u64::from(tid),
                Container::V6 => index_of(index),
            };
            self.encoder.last_number(thread, sequence);
        }
        self.encoder.sequence_point(time as i64, 0)?;
        self.threads.point();
        self.stacks.point();
        self.points_due = false;
        self.floor = time + 1;
        Ok(())
    }

    /// Writes everything to the file, which is complete then. All records up to the time `ticks` must have been taken.
    pub(super) fn flush(&mut self, ticks: u64, is_last: bool) -> io::Result<()> {
        if self.points_due {
            self.sequence_point(ticks)?;
        }
        let BlockOutput { trace_output, end, .. } = self.encoder.output_mut();
        trace_output.write_out(end, is_last)
    }

    /// Counts a record, before its events.
    #[inline(always)]
    pub(super) fn count_record(&mut self) {
        self.encoder.output_mut().records += 1;
    }

    /// Returns the number of records lost because of an error.
    pub(super) fn lost(&self) -> u64 {
        let BlockOutput { trace_output, records, .. } = self.encoder.output();
        trace_output.lost() + records
    }

    /// Returns the number of bytes written, without the end tag.
    pub(super) fn written(&self) -> u64 {
        self.encoder.output().trace_output.written
    }
}

/// The index of the thread that starts a trace; no recording thread has it.
const OPENER_INDEX: u32 = u32::MAX - 1;

/// Returns the calling thread, which starts a trace. The recorder gives an index to each thread that fires an event. The calling thread
/// may never fire one, so its index is [`OPENER_INDEX`].
pub(super) fn opener() -> RecordingThread {
    RecordingThread { tid: gettid().0 as u32, index: OPENER_INDEX }
}

/// Returns the index of a thread in version 6: 1 for the thread that started the trace, 2 and up for those of the recorder.
fn index_of(index: u32) -> u64 {
    if index == OPENER_INDEX { 1 } else { u64::from(index) + 2 }
}
