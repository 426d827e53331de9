//! Writes the events of an eventlog to its file, in blocks.
//!
//! [`ghc_eventlog::write`] assembles the blocks: a block ends where the capability changes, and at each flush. Times never decrease. If a
//! thread was frozen in the middle of firing, its record gets the time at which it arrives.

use std::io;

use crate::trace_output::TraceOutput;
use ghc_eventlog::events::{EventType, Payload, id};
use ghc_eventlog::format::BLOCK_HEAD;
use ghc_eventlog::write::{self, END};

/// The event types that this writer uses.
const WRITTEN: [u16; 46] = [
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
    id::HEAP_PROF_SAMPLE_OBJECTS,
];

/// Returns whether the header declares this type.
const fn is_declared(id: u16) -> bool {
    let mut next = 0;
    while next < WRITTEN.len() {
        if WRITTEN[next] == id {
            return true;
        }
        next += 1;
    }
    false
}

/// Writes events in blocks. See the module documentation.
#[derive(Debug)]
pub(super) struct Blocks {
    out: TraceOutput,
    blocks: write::Blocks,
    /// Number of events written, without the block markers.
    pub(super) events: u64,
}

impl Blocks {
    /// Begins a file with the head of an eventlog.
    pub(super) fn new(mut out: TraceOutput) -> Blocks {
        write::header(out.bytes(), WRITTEN.iter().filter_map(|id| EventType::of(*id)));
        Blocks { out, blocks: write::Blocks::default(), events: 0 }
    }

    /// Sets the time of the following events, unless it is before the current time.
    pub(super) fn set_time(&mut self, ns: u64) {
        self.blocks.set_time(ns);
    }

    /// Writes an event of a capability.
    pub(super) fn write<P: Payload>(&mut self, capability: u16, payload: &P) -> io::Result<()> {
        const { assert!(is_declared(P::LAYOUT.id), "the header does not declare this type") };
        if self.out.is_full() {
            self.write_out(false)?;
        }
        self.blocks.put(self.out.bytes(), capability, payload);
        self.events += 1;
        Ok(())
    }

    /// Writes the buffer, and the end of the file after it. If `is_last` is false, the next write overwrites that end (`.event.crash`).
    pub(super) fn write_out(&mut self, is_last: bool) -> io::Result<()> {
        self.blocks.end(self.out.bytes());
        self.out.write_out(&END, is_last)
    }

    /// Returns whether the buffer is empty.
    pub(super) fn is_out(&self) -> bool {
        self.out.is_empty()
    }

    /// Like [`write_out`](Self::write_out), with additional events before the end of the file. `put` appends these events, and `bytes` is
    /// their size. They are part of the end: the next write overwrites them too. If their size is unknown or too large for one write, they
    /// are written only if `is_last` is true.
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
        self.blocks.end(self.out.bytes());
        let (whole, events, belongs_to_end) = (self.out.bytes().len(), self.events, fits(self));
        let put = put(self);
        self.blocks.end(self.out.bytes());
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
