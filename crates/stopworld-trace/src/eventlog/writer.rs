//! Translates the collector's events to those of the GHC runtime.
//!
//! **What comes first**: the process, at the beginning of the log; the settings of a world, before its first event.
//!
//! **Capability sets.** Set 0 is the process. Heap figures refer to it as long as there is only one world. Another world at the same
//! time gets a set of its own.
//!
//! It runs in the drain, so it does not allocate, takes no lock, and writes only to memory allocated in advance.

use std::fmt;
use std::io;
use std::ptr;
use std::sync::Arc;

use super::blocks::Blocks;
use super::board::{Board, Note};
use super::capabilities::{Capabilities, Meeting, Seat};
use super::classes::Classes;
use super::collection::Collection;
use super::payload::Payload;
use super::process::{self, CLOCK, FIRST_SET, Head, PROCESS};
use super::profile::{Profile, text};
use crate::outlet::Outlet;
use ghc_eventlog::format::{NO_CAPABILITY, capset, id, stop};
use stopworld::events::EventId;
use stopworld::events::clock::Relation;
use stopworld::events::record::{Consumer, Lost, MAX_WORLDS, Policy, Recorded, RecordingThread};

const BLOCK_BYTES: u64 = stopworld::World::BLOCK_BYTES as u64;
const CHUNK_BYTES: u64 = stopworld::World::CHUNK_BYTES as u64;
/// The reason of a stop: the pacing of the collector requested it.
const BY_ALLOCATION: u64 = 0;
/// The second field of `MarkerJoined`: a marker begins.
const BEGINS: u64 = 0;

#[derive(Clone, Copy, Debug, Default)]
struct World {
    met: bool,
    /// Its capability set.
    set: u32,
    collection: Collection,
    /// Bytes that its heap has committed, if known.
    committed: Option<u64>,
    /// Whether its ticks are left out because they are not as long as those of the log.
    ticks_differ: bool,
}

/// The settings of a writer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Plan {
    pub(super) head: Head,
    pub(super) classes: Classes,
    pub(super) policy: Policy,
}

/// Writes a log.
#[derive(Debug)]
pub(super) struct Writer {
    blocks: Blocks,
    plan: Plan,
    board: Arc<Board>,
    capabilities: Capabilities,
    worlds: Box<[World]>,
    /// The next capability set.
    next_set: u32,
    /// The world whose collection the log has begun and not ended.
    collecting: Option<usize>,
    profile: Profile,
    /// The newest note that was read.
    read: *const Note,
    /// The latest time seen, in ticks.
    reached: u64,
}

// SAFETY: the pointer refers to a note of the board, which the writer shares by an `Arc`; notes do not change.
unsafe impl Send for Writer {}

impl Writer {
    /// Allocates everything that it will need, so it must not run in a drain.
    pub(super) fn new(plan: Plan, board: Arc<Board>, outlet: Outlet) -> io::Result<Writer> {
        Writer::after(ptr::null(), plan, board, outlet)
    }

    /// As [`new`](Self::new), but ignores the notes up to `read`.
    pub(super) fn after(read: *const Note, plan: Plan, board: Arc<Board>, outlet: Outlet) -> io::Result<Writer> {
        let mut blocks = Blocks::new(outlet);
        process::introduce(&mut blocks, &plan.head)?;
        Ok(Writer {
            blocks,
            plan,
            board,
            capabilities: Capabilities::new()?,
            worlds: vec![World::default(); MAX_WORLDS].into(),
            next_set: FIRST_SET,
            collecting: None,
            profile: Profile::new(),
            read,
            reached: 0,
        })
    }

    // ---- Threads -------------------------------------------------------------------------------------------------------

    /// Returns the capability of a thread, and assigns one if it has none. `None` if all are in use.
    fn capability(&mut self, thread: RecordingThread, ticks: u64) -> io::Result<Option<u16>> {
        match self.capabilities.meet(thread) {
            Meeting::Has(seat) => Ok(Some(seat)),
            Meeting::New => self.appoint(thread.tid),
            Meeting::InPlaceOf(gone) => {
                self.dismiss(gone, ticks)?;
                self.appoint(thread.tid)
            }
        }
    }

    fn appoint(&mut self, tid: u32) -> io::Result<Option<u16>> {
        let Some(seat) = self.capabilities.appoint(tid) else { return Ok(None) };
        let blocks = &mut self.blocks;
        blocks.put(NO_CAPABILITY, id::CAP_CREATE, |to| to.word16(seat))?;
        for set in [PROCESS, CLOCK] {
            blocks.put(NO_CAPABILITY, id::CAPSET_ASSIGN_CAP, |to| {
                to.word32(set);
                to.word16(seat);
            })?;
        }
        if self.plan.classes.threads {
            blocks.put(NO_CAPABILITY, id::TASK_CREATE, |to| {
                to.word64(tid.into());
                to.word16(seat);
                to.word64(tid.into());
            })?;
        }
        Ok(Some(seat))
    }

    fn dismiss(&mut self, seat: u16, ticks: u64) -> io::Result<()> {
        self.halt(seat, stop::FINISHED)?;
        let Seat { tid, .. } = self.capabilities[seat];
        self.capabilities.dismiss(seat, ticks);
        let blocks = &mut self.blocks;
        if self.plan.classes.threads {
            blocks.put(NO_CAPABILITY, id::TASK_DELETE, |to| to.word64(tid.into()))?;
        }
        for set in [PROCESS, CLOCK] {
            blocks.put(NO_CAPABILITY, id::CAPSET_REMOVE_CAP, |to| {
                to.word32(set);
                to.word16(seat);
            })?;
        }
        blocks.put(NO_CAPABILITY, id::CAP_DELETE, |to| to.word16(seat))
    }

    /// Attaches a thread to a world.
    fn attach(&mut self, seat: u16, world: usize, label: u64) -> io::Result<()> {
        self.capabilities[seat].worlds |= 1 << world;
        if self.capabilities[seat].thread != 0 || !self.plan.classes.threads {
            return Ok(());
        }
        let thread = self.capabilities.next_thread();
        self.capabilities[seat].thread = thread;
        self.blocks.put(seat, id::CREATE_THREAD, |to| to.word32(thread))?;
        if label != 0 {
            self.blocks.put(seat, id::THREAD_LABEL, |to| {
                to.word32(thread);
                to.text(text(label));
            })?;
        }
        self.run(seat)
    }

    /// Detaches a thread from a world.
    fn detach(&mut self, record: &Recorded, world: usize) -> io::Result<()> {
        let seat = match self.capabilities.meet(record.thread) {
            Meeting::Has(seat) => seat,
            Meeting::InPlaceOf(gone) => return self.dismiss(gone, record.ticks),
            Meeting::New => {
                self.capabilities.forget(record.thread.tid, record.ticks);
                return Ok(());
            }
        };
        let of = &mut self.capabilities[seat];
        of.worlds &= !(1 << world);
        of.stopped_for &= !(1 << world);
        if of.worlds == 0 { self.dismiss(seat, record.ticks) } else { Ok(()) }
    }

    /// Writes that the thread on this capability runs, unless it runs already or is stopped for a world.
    fn run(&mut self, seat: u16) -> io::Result<()> {
        let of = &mut self.capabilities[seat];
        if of.thread == 0 || of.runs != 0 || of.stopped_for != 0 {
            return Ok(());
        }
        of.runs = 1;
        let thread = of.thread;
        self.blocks.put(seat, id::RUN_THREAD, |to| to.word32(thread))
    }

    /// Writes that the thread on this capability has stopped, if it ran.
    fn halt(&mut self, seat: u16, status: u16) -> io::Result<()> {
        let of = &mut self.capabilities[seat];
        if of.runs == 0 {
            return Ok(());
        }
        of.runs = 0;
        let thread = of.thread;
        self.blocks.put(seat, id::STOP_THREAD, |to| {
            to.word32(thread);
            to.word16(status);
            to.word32(0);
        })
    }

    /// Stops all threads of a world.
    fn halt_world(&mut self, world: usize) -> io::Result<()> {
        for seat in self.capabilities.all() {
            if self.capabilities[seat].worlds & 1 << world != 0 {
                self.capabilities[seat].stopped_for |= 1 << world;
                self.halt(seat, stop::YIELDING)?;
            }
        }
        Ok(())
    }

    /// Restarts all threads of a world.
    fn restart_world(&mut self, world: usize) -> io::Result<()> {
        for seat in self.capabilities.all() {
            self.capabilities[seat].stopped_for &= !(1 << world);
            self.run(seat)?;
        }
        Ok(())
    }

    /// Reads the new notes: threads and profiles that existed before the log joined their world.
    #[cold]
    #[inline(never)]
    fn read_notes(&mut self) -> io::Result<()> {
        let board = Arc::clone(&self.board);
        let last = board.last_note();
        let read = std::mem::replace(&mut self.read, last);
        for note in board.notes(last, read) {
            if let Some(begun) = note.profiled.heap {
                self.profile.runs(note.world, begun, &mut self.blocks)?;
            }
            if let Some(interval_ns) = note.profiled.ticks_ns {
                self.begin_ticks(interval_ns, note.world)?;
            }
        }
        let unread = board.notes(last, read);
        if !self.plan.classes.threads {
            return Ok(());
        }
        for (present, note) in unread.flat_map(|note| note.threads.iter().map(move |present| (present, note))) {
            if !self.capabilities.know(present.tid, note.ticks) {
                continue;
            }
            if let Some(seat) = self.appoint(present.tid)? {
                self.attach(seat, note.world, present.label)?;
            }
        }
        Ok(())
    }

    // ---- Worlds --------------------------------------------------------------------------------------------------------

    /// Introduces a world, before its first event in the log.
    #[cold]
    fn meet(&mut self, number: usize) -> io::Result<()> {
        let has_process = self.worlds.iter().any(|world| world.met && world.set == PROCESS);
        let set = if has_process {
            let set = self.next_set;
            self.next_set += 1;
            self.blocks.put(NO_CAPABILITY, id::CAPSET_CREATE, |to| {
                to.word32(set);
                to.word16(capset::CUSTOM);
            })?;
            set
        } else {
            PROCESS
        };
        self.worlds[number] = World { met: true, set, ..World::default() };
        let limit = self.board.facts(number).limit;
        self.blocks.put(NO_CAPABILITY, id::HEAP_INFO_GHC, |to| {
            const GENERATIONS: u16 = 1;
            to.word32(set);
            to.word16(GENERATIONS);
            [limit, BLOCK_BYTES, CHUNK_BYTES, BLOCK_BYTES].into_iter().for_each(|bytes| to.word64(bytes));
        })
    }

    fn closed(&mut self, number: usize) -> io::Result<()> {
        let set = self.worlds[number].set;
        self.end_collection(number);
        self.worlds[number] = World::default();
        self.profile.end(number);
        self.board.progress.a_world_ended();
        if set == PROCESS {
            return Ok(());
        }
        self.blocks.put(NO_CAPABILITY, id::CAPSET_DELETE, |to| to.word32(set))
    }

    /// Writes a figure of a world's heap on a capability.
    fn figure(&mut self, seat: u16, event: u16, number: usize, bytes: u64) -> io::Result<()> {
        let set = self.worlds[number].set;
        self.blocks.put(seat, event, |to| {
            to.word32(set);
            to.word64(bytes);
        })
    }

    /// Handles memory obtained from the system or returned to it.
    fn memory(&mut self, record: &Recorded, number: usize) -> io::Result<()> {
        let bytes = record.field::<1>();
        let is_freed = record.id == EventId::SegmentFreed;
        let World { committed: Some(before), set, .. } = self.worlds[number] else { return Ok(()) };
        let committed = if is_freed { before.saturating_sub(bytes) } else { before + bytes };
        self.worlds[number].committed = Some(committed);
        let Some(seat) = self.capability(record.thread, record.ticks)? else { return Ok(()) };
        if is_freed {
            let chunks = |bytes: u64| (bytes / CHUNK_BYTES) as u32;
            self.blocks.put(seat, id::MEM_RETURN, |to| {
                [set, chunks(committed), chunks(committed), chunks(bytes)].into_iter().for_each(|word| to.word32(word));
            })?;
        }
        self.heap_size(seat, number, committed)
    }

    fn heap_size(&mut self, seat: u16, number: usize, committed: u64) -> io::Result<()> {
        self.figure(seat, id::HEAP_SIZE, number, committed)?;
        self.figure(seat, id::BLOCKS_SIZE, number, committed)
    }

    // ---- Messages ------------------------------------------------------------------------------------------------------

    /// Writes a message of the collector on a thread's capability.
    fn log(&mut self, thread: RecordingThread, ticks: u64, line: fmt::Arguments<'_>) -> io::Result<()> {
        let seat = self.capability(thread, ticks)?.unwrap_or(NO_CAPABILITY);
        self.blocks.put(seat, id::LOG_MSG, |to| to.line(line))
    }

    /// Writes a message or marker of the program.
    fn said(&mut self, record: &Recorded, event: u16) -> io::Result<()> {
        let seat = self.capability(record.thread, record.ticks)?.unwrap_or(NO_CAPABILITY);
        self.blocks.put(seat, event, |to| to.text(text(record.field::<0>())))
    }

    /// Writes a message for an event without a GHC counterpart.
    #[cold]
    fn happened(&mut self, record: &Recorded) -> io::Result<()> {
        let [first, second, third] = [record.field::<0>(), record.field::<1>(), record.field::<2>()];
        let (thread, ticks) = (record.thread, record.ticks);
        match record.id {
            EventId::StopAbandoned => self.log(
                thread,
                ticks,
                format_args!(
                    "stopworld: the stop for collection {first} was abandoned: {second} threads did not acknowledge it"
                ),
            ),
            EventId::CollectionDiscarded => self.log(
                thread,
                ticks,
                format_args!("stopworld: the marks of collection {first} were discarded; the collection is repeated"),
            ),
            EventId::AllocationFailed => self.log(
                thread,
                ticks,
                format_args!("stopworld: no room for {first} bytes: {second} are live, and the heap limit is {third}"),
            ),
            EventId::VtableSwapped => {
                let name = |kind: u64| ["signals", "safepoints", "the mock debugger"].get(kind as usize).copied();
                let [old, new] = [first, second].map(|kind| name(kind).unwrap_or("another vtable"));
                self.log(thread, ticks, format_args!("stopworld: threads are now stopped by {new} instead of {old}"))
            }
            EventId::DebuggerAttached => {
                self.log(thread, ticks, format_args!("stopworld: a debugger is in control ({first:#x})"))
            }
            EventId::DebuggerDetached => {
                self.log(thread, ticks, format_args!("stopworld: the debugger is no longer in control ({first:#x})"))
            }
            _ => self.log(
                thread,
                ticks,
                format_args!("stopworld: the debugger was lost ({first:#x}), in phase {second}"),
            ),
        }
    }

    // ---- Collections ---------------------------------------------------------------------------------------------------

    fn of_collection(&mut self, record: &Recorded, number: usize) -> io::Result<()> {
        let count = record.field::<0>() as u32;
        if record.id == EventId::SuspendBegin {
            return self.suspend(record, number, count);
        }
        if self.worlds[number].collection.stopped_for != count {
            // It began before the log joined the world.
            return Ok(());
        }
        match record.id {
            EventId::SuspendEnd if self.plan.classes.threads => self.halt_world(number),
            EventId::GcStart => self.start(record, number, count),
            EventId::RestartEnd => {
                self.end_collection(number);
                self.worlds[number].collection = Collection::default();
                if self.plan.classes.threads { self.restart_world(number) } else { Ok(()) }
            }
            _ if self.worlds[number].collection.number == count => self.in_collection(record, number),
            _ => Ok(()),
        }
    }

    fn suspend(&mut self, record: &Recorded, number: usize, count: u32) -> io::Result<()> {
        let capability = self.capability(record.thread, record.ticks)?;
        self.worlds[number].collection = Collection { stopped_for: count, capability, ..Collection::default() };
        let Some(seat) = capability else { return Ok(()) };
        if self.plan.classes.collections {
            let several = self.board.facts(number).markers > 1;
            self.blocks.put(seat, if several { id::REQUEST_PAR_GC } else { id::REQUEST_SEQ_GC }, |_| {})?;
        }
        let by_itself = record.field::<1>() == BY_ALLOCATION;
        self.capabilities[seat].stopped_for |= 1 << number;
        self.halt(seat, if by_itself { stop::HEAP_OVERFLOW } else { stop::YIELDING })
    }

    fn start(&mut self, record: &Recorded, number: usize, count: u32) -> io::Result<()> {
        let overlaps = self.collecting.is_some();
        let collection = &mut self.worlds[number].collection;
        (collection.number, collection.overlaps) = (count, overlaps);
        let Some(seat) = collection.capability else { return Ok(()) };
        if overlaps {
            let set = self.worlds[number].set;
            return self.log(
                record.thread,
                record.ticks,
                format_args!("stopworld: collection {count} of heap {set} starts while another heap is collected"),
            );
        }
        self.collecting = Some(number);
        self.blocks.put(seat, id::GC_START, |_| {})
    }

    /// The world's collection has no further events.
    fn end_collection(&mut self, number: usize) {
        if self.collecting == Some(number) {
            self.collecting = None;
        }
    }

    fn in_collection(&mut self, record: &Recorded, number: usize) -> io::Result<()> {
        let Collection { capability, overlaps, .. } = self.worlds[number].collection;
        let Some(seat) = capability else { return Ok(()) };
        let collection = &mut self.worlds[number].collection;
        match record.id {
            EventId::HeapBefore => collection.allocated = record.field::<4>(),
            EventId::SweepEnd => self.swept(seat, number)?,
            EventId::HeapStats => {
                let [live, committed] =
                    [record.field::<1>() + record.field::<2>() + record.field::<3>(), record.field::<4>()];
                self.figure(seat, id::HEAP_LIVE, number, live)?;
                self.worlds[number].committed = Some(committed);
                self.heap_size(seat, number, committed)?;
            }
            _ if overlaps => {}
            EventId::RootsBegin => self.blocks.put(seat, id::GC_WORK, |_| {})?,
            EventId::MarkEnd => {
                self.blocks.put(seat, id::GC_IDLE, |_| {})?;
                self.blocks.put(seat, id::GC_DONE, |_| {})?;
            }
            EventId::GcEnd => {
                self.blocks.put(seat, id::GC_END, |_| {})?;
                self.end_collection(number);
            }
            _ => {}
        }
        Ok(())
    }

    /// Writes the figures that are known after the sweep.
    fn swept(&mut self, seat: u16, number: usize) -> io::Result<()> {
        let World { collection, set, .. } = self.worlds[number];
        let of = &mut self.capabilities[seat];
        of.allocated += collection.allocated;
        let allocated = of.allocated;
        self.figure(seat, id::HEAP_ALLOCATED, number, allocated)?;
        if collection.overlaps {
            return Ok(());
        }
        self.blocks.put(seat, id::GC_GLOBAL_SYNC, |_| {})?;
        self.blocks.put(seat, id::GC_STATS_GHC, |to| {
            const THE_GENERATION: u16 = 0;
            to.word32(set);
            to.word16(THE_GENERATION);
            // Copied, slop, fragmentation: nothing moves.
            [0, 0, 0].into_iter().for_each(|bytes| to.word64(bytes));
            to.word32(collection.markers.max(1));
            [0, 0, 0].into_iter().for_each(|bytes| to.word64(bytes));
        })
    }

    // ---- Every record --------------------------------------------------------------------------------------------------

    fn told(&mut self, record: &Recorded, number: usize) -> io::Result<()> {
        match record.id {
            EventId::SuspendBegin
            | EventId::SuspendEnd
            | EventId::GcStart
            | EventId::RootsBegin
            | EventId::MarkEnd
            | EventId::HeapBefore
            | EventId::SweepEnd
            | EventId::GcEnd
            | EventId::HeapStats
            | EventId::RestartEnd => self.of_collection(record, number),
            EventId::MarkerJoined => {
                self.worlds[number].collection.markers += u32::from(record.field::<1>() == BEGINS);
                Ok(())
            }
            EventId::ThreadAttached => match self.capability(record.thread, record.ticks)? {
                Some(seat) => self.attach(seat, number, record.field::<2>()),
                None => Ok(()),
            },
            EventId::ThreadDetached => self.detach(record, number),
            EventId::SegmentCreated | EventId::SegmentFreed => self.memory(record, number),
            EventId::UserMessage => self.said(record, id::USER_MSG),
            EventId::UserMarker => self.said(record, id::USER_MARKER),
            EventId::StopAbandoned => {
                self.worlds[number].collection = Collection::default();
                self.happened(record)?;
                if self.plan.classes.threads { self.restart_world(number) } else { Ok(()) }
            }
            EventId::CollectionDiscarded
            | EventId::VtableSwapped
            | EventId::AllocationFailed
            | EventId::DebuggerAttached
            | EventId::DebuggerDetached
            | EventId::DebuggerLost => self.happened(record),
            EventId::WorldCreated => {
                self.worlds[number].committed = Some(0);
                Ok(())
            }
            EventId::WorldClosed => self.closed(number),
            EventId::TickerBegin => self.begin_ticks(record.field::<0>(), number),
            EventId::Tick if self.worlds[number].ticks_differ => Ok(()),
            EventId::Tick => self.tick(record),
            EventId::CensusProfileBegin
            | EventId::CensusFilter
            | EventId::CostCentre
            | EventId::CensusBegin
            | EventId::CensusBand
            | EventId::CensusEnd => self.profiled(record, number),
            _ => Ok(()),
        }
    }

    fn profiled(&mut self, record: &Recorded, number: usize) -> io::Result<()> {
        if self.profile.take(record, number, &self.plan.head, &mut self.blocks)? {
            return Ok(());
        }
        let set = self.worlds[number].set;
        self.log(
            record.thread,
            record.ticks,
            format_args!("stopworld: heap {set} is profiled too, but this log has the profile of another heap"),
        )
    }

    fn begin_ticks(&mut self, interval_ns: u64, number: usize) -> io::Result<()> {
        let fit = self.profile.begin_ticks(interval_ns, &mut self.blocks)?;
        self.worlds[number].ticks_differ = !fit;
        if fit {
            return Ok(());
        }
        let set = self.worlds[number].set;
        self.blocks.put(NO_CAPABILITY, id::LOG_MSG, |to| {
            to.line(format_args!(
                "stopworld: the ticks of heap {set} are left out: their interval is {interval_ns} ns, unlike this log's"
            ));
        })
    }

    fn tick(&mut self, record: &Recorded) -> io::Result<()> {
        let [tick, tid, stack] = [record.field::<0>(), record.field::<1>(), record.field::<2>()];
        let seat = match self.capabilities.of_tid(tid as u32) {
            // Threads that are not attached to the world.
            _ if tid == 0 => None,
            Some(seat) => Some(seat),
            None if self.capabilities.know(tid as u32, record.ticks) => self.appoint(tid as u32)?,
            // It has detached since.
            None => None,
        };
        self.profile.tick(seat, tick, stack as u32, &mut self.blocks)
    }

    fn tell_the_board(&self) {
        self.board.progress.is(self.blocks.events, self.blocks.written());
    }

    /// Writes the end of a log: stops the threads, and deletes capabilities and capability sets.
    fn end_everything(&mut self) -> io::Result<()> {
        for seat in self.capabilities.all() {
            self.halt(seat, stop::YIELDING)?;
        }
        for seat in self.capabilities.all() {
            if self.capabilities[seat].tid != 0 {
                self.dismiss(seat, self.reached)?;
            }
        }
        for set in [PROCESS, CLOCK] {
            self.blocks.put(NO_CAPABILITY, id::CAPSET_DELETE, |to| to.word32(set))?;
        }
        Ok(())
    }

    /// Writes the buffer, followed by what belongs at the end of a log.
    fn write_out(&mut self, is_last: bool) -> io::Result<()> {
        match self.profile.last_definitions() {
            Some(definitions) if is_last || !self.blocks.is_out() => {
                self.blocks.write_out_with(definitions.bytes_for_a_flush(), is_last, |to| definitions.put(to))
            }
            _ => self.blocks.write_out(is_last),
        }
    }
}

impl Consumer for Writer {
    fn record(&mut self, record: &Recorded) -> io::Result<()> {
        self.blocks.set_time(self.plan.head.time(record.ticks));
        let number = usize::from(record.world.0) % MAX_WORLDS;
        if !self.worlds[number].met {
            self.meet(number)?;
        }
        if self.board.last_note() != self.read {
            self.read_notes()?;
        }
        self.told(record, number)?;
        self.blocks.count_record();
        Ok(())
    }

    fn lost(&mut self, lost: &Lost) -> io::Result<()> {
        self.blocks.set_time(self.plan.head.time(lost.ticks));
        let count = lost.count;
        self.log(
            lost.thread,
            lost.ticks,
            format_args!("stopworld: {count} events of this thread were lost before this"),
        )
    }

    fn drained(&mut self, now: &Relation) -> io::Result<()> {
        self.reached = self.reached.max(now.ticks);
        Ok(())
    }

    /// `.event.crash`: the file is a log with an end after each flush.
    fn flush(&mut self) -> io::Result<()> {
        let flushed = self.write_out(false);
        self.tell_the_board();
        flushed
    }

    fn close(&mut self, now: &Relation) -> io::Result<()> {
        self.reached = self.reached.max(now.ticks);
        self.blocks.set_time(self.plan.head.time(self.reached));
        let ended = self.end_everything();
        let closed = ended.and_then(|()| self.write_out(true));
        self.tell_the_board();
        closed
    }

    fn unwritten(&self) -> u64 {
        self.tell_the_board();
        self.blocks.lost()
    }

    fn policy(&self) -> Policy {
        self.plan.policy
    }
}
