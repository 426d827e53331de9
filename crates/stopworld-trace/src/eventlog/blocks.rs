//! Assembles events into the blocks of an eventlog.
//!
//! The head of a block has its length and the capability to which all its events belong. Here a block ends where the capability
//! changes, and at each flush. So the whole file is ordered by time, not only each block, and a reader does not need to sort.
//! GHC, whose threads have separate buffers, writes long blocks that overlap in time. The cost is 24 bytes for each change.
//!
//! Times never go back. If a thread was frozen in the middle of firing, its record gets the time at which it arrives.

use std::io;

use crate::outlet::Outlet;
use ghc_eventlog::format::{
    BLOCK_HEAD, DATA_BEGIN, DATA_END, EventType, HEADER_BEGIN, HEADER_END, MOST_PAYLOAD, Size, TYPE_BEGIN, TYPE_END,
    TYPES_BEGIN, TYPES_END, VARIABLE, id,
};
use trace_io::bytes::Bytes;

/// The bytes after the last event of a file.
const END: [u8; 2] = DATA_END.to_be_bytes();

/// The event types that this writer uses.
const WRITTEN: [u16; 45] = [
    id::CREATE_THREAD,
    id::RUN_THREAD,
    id::STOP_THREAD,
    id::GC_START,
    id::GC_END,
    id::REQUEST_SEQ_GC,
    id::REQUEST_PAR_GC,
    id::LOG_MSG,
    id::BLOCK_MARKER,
    id::USER_MSG,
    id::GC_IDLE,
    id::GC_WORK,
    id::GC_DONE,
    id::CAPSET_CREATE,
    id::CAPSET_DELETE,
    id::CAPSET_ASSIGN_CAP,
    id::CAPSET_REMOVE_CAP,
    id::RTS_IDENTIFIER,
    id::PROGRAM_ARGS,
    id::OSPROCESS_PID,
    id::OSPROCESS_PPID,
    id::WALL_CLOCK_TIME,
    id::THREAD_LABEL,
    id::CAP_CREATE,
    id::CAP_DELETE,
    id::HEAP_ALLOCATED,
    id::HEAP_SIZE,
    id::HEAP_LIVE,
    id::HEAP_INFO_GHC,
    id::GC_STATS_GHC,
    id::GC_GLOBAL_SYNC,
    id::TASK_CREATE,
    id::TASK_DELETE,
    id::USER_MARKER,
    id::MEM_RETURN,
    id::BLOCKS_SIZE,
    id::HEAP_PROF_BEGIN,
    id::HEAP_PROF_COST_CENTRE,
    id::HEAP_PROF_SAMPLE_BEGIN,
    id::HEAP_PROF_SAMPLE_COST_CENTRE,
    id::HEAP_PROF_SAMPLE_STRING,
    id::HEAP_PROF_SAMPLE_END,
    id::HEAP_BIO_PROF_SAMPLE_BEGIN,
    id::PROF_SAMPLE_COST_CENTRE,
    id::PROF_BEGIN,
];

/// A block that is being filled.
#[derive(Clone, Copy, Debug)]
struct Open {
    capability: u16,
    /// Its offset in the buffer.
    at: usize,
}

/// Writes events in blocks. See the module documentation.
#[derive(Debug)]
pub(super) struct Blocks {
    out: Outlet,
    open: Option<Open>,
    /// The time of the next event.
    time: u64,
    /// The time of the last event.
    last: u64,
    /// Number of events written, without the block markers.
    pub(super) events: u64,
}

impl Blocks {
    /// Begins a file with the head of an eventlog.
    pub(super) fn new(mut out: Outlet) -> Blocks {
        head(out.bytes());
        Blocks { out, open: None, time: 0, last: 0, events: 0 }
    }

    /// Sets the time of the following events, unless it is before the current time.
    pub(super) fn set_time(&mut self, ns: u64) {
        self.time = self.time.max(ns);
    }

    /// Appends an event of a capability. `fill` must write a payload of the size that the type has, and below 64 KiB in any case.
    pub(super) fn put(&mut self, capability: u16, id: u16, fill: impl FnOnce(&mut Bytes)) -> io::Result<()> {
        if self.out.is_full() {
            self.write_out(false)?;
        }
        self.turn_to(capability);
        let (time, bytes) = (self.time, self.out.bytes());
        self.last = time;
        bytes.put(&id.to_be_bytes());
        bytes.put(&time.to_be_bytes());
        match EventType::of(id).map(|known| known.size) {
            Some(Size::Fixed(size)) => {
                let begin = bytes.len();
                fill(bytes);
                debug_assert_eq!(bytes.len() - begin, usize::from(size), "the payload of {id}");
            }
            _ => {
                bytes.put(&[0; 2]);
                let begin = bytes.len();
                fill(bytes);
                debug_assert!(bytes.len() - begin <= MOST_PAYLOAD, "the payload of {id}");
                let length = (bytes.len() - begin) as u16;
                bytes.set(begin - 2, &length.to_be_bytes());
            }
        }
        self.events += 1;
        Ok(())
    }

    /// Begins a block of this capability, unless one is open.
    fn turn_to(&mut self, capability: u16) {
        if self.open.is_some_and(|open| open.capability == capability) {
            return;
        }
        self.end_block();
        let (time, bytes) = (self.time, self.out.bytes());
        self.open = Some(Open { capability, at: bytes.len() });
        bytes.put(&id::BLOCK_MARKER.to_be_bytes());
        bytes.put(&time.to_be_bytes());
        // Filled in when the block ends: its size, and the time of its end.
        bytes.put(&[0; 4 + 8]);
        bytes.put(&capability.to_be_bytes());
    }

    fn end_block(&mut self) {
        let Some(Open { at, .. }) = self.open.take() else { return };
        let (last, bytes) = (self.last, self.out.bytes());
        let size = (bytes.len() - at) as u32;
        bytes.set(at + BLOCK_HEAD - 14, &size.to_be_bytes());
        bytes.set(at + BLOCK_HEAD - 10, &last.to_be_bytes());
    }

    /// Writes the buffer and the end of the file after it. Unless `is_last`, the next write overwrites that end (`.event.crash`).
    pub(super) fn write_out(&mut self, is_last: bool) -> io::Result<()> {
        self.end_block();
        self.out.write_out(&END, is_last)
    }

    /// Returns whether the buffer is empty.
    pub(super) fn is_out(&self) -> bool {
        self.out.is_empty()
    }

    /// As [`write_out`](Self::write_out), with additional events before the end of the file. `put` appends them and `bytes` is
    /// their size. They belong to the end: the next write overwrites them too. If their size is unknown or too large for one
    /// write, they are written only if `is_last`, and left out otherwise.
    pub(super) fn write_out_with(
        &mut self,
        bytes: Option<usize>,
        is_last: bool,
        put: impl FnOnce(&mut Blocks) -> io::Result<()>,
    ) -> io::Result<()> {
        let fits = |blocks: &Blocks| bytes.is_some_and(|bytes| blocks.out.room() > bytes + BLOCK_HEAD);
        if !fits(self) {
            self.write_out(false)?;
        }
        if !fits(self) && !is_last {
            return Ok(());
        }
        self.end_block();
        let (whole, events, belongs_to_end) = (self.out.bytes().len(), self.events, fits(self));
        let put = put(self);
        self.end_block();
        if !is_last {
            self.events = events;
        }
        let whole = if belongs_to_end { whole } else { self.out.bytes().len() };
        put.and(self.out.write_out_up_to(whole, &END, is_last))
    }

    /// Counts a record whose events are all in the buffer or in the file.
    pub(super) fn count_record(&mut self) {
        self.out.count_records(1);
    }

    /// Returns the number of records lost because of an error.
    pub(super) fn lost(&self) -> u64 {
        self.out.lost()
    }

    /// Returns the size of the file in bytes, without its end.
    pub(super) fn written(&self) -> u64 {
        self.out.written
    }
}

/// Writes the head of a file: the event types that it may use.
fn head(to: &mut Bytes) {
    to.put(&HEADER_BEGIN);
    to.put(&TYPES_BEGIN);
    for known in WRITTEN.iter().filter_map(|id| EventType::of(*id)) {
        let size = match known.size {
            Size::Fixed(bytes) => bytes,
            Size::Variable => VARIABLE,
        };
        to.put(&TYPE_BEGIN);
        to.put(&known.id.to_be_bytes());
        to.put(&size.to_be_bytes());
        to.put(&(known.description.len() as u32).to_be_bytes());
        to.put(known.description.as_bytes());
        to.put(&0_u32.to_be_bytes());
        to.put(&TYPE_END);
    }
    to.put(&TYPES_END);
    to.put(&HEADER_END);
    to.put(&DATA_BEGIN);
}
