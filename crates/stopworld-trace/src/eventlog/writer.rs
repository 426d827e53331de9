//! Translates the collector's events to those of the GHC runtime.
//!
//! **What comes first**: the process, at the beginning of the log; the settings of a world, before its first event.
//!
//! **Capability sets.** Set 0 is the process. Heap figures refer to it as long as there is only one world. Another world at the same
//! time gets a set of its own.
//!
//! The writer runs in the drain, so it does not allocate, takes no lock, and writes only to memory allocated in advance.

use std::fmt;
use std::io;
use std::sync::Arc;

use super::blocks::Blocks;
use super::capabilities::{Capabilities, CapabilityState, ThreadLookup};
use super::classes::Classes;
use super::collection::Collection;
use super::process::{self, CLOCK, FIRST_SET, Head, PROCESS};
use super::profile::Profile;
use super::shared_state::SharedState;
use super::text::{self, Line};
use crate::trace_output::TraceOutput;
use ghc_eventlog::events::{self as ghc, CapsetKind, StopReason, Text};
use ghc_eventlog::format::NO_CAPABILITY;
use stopworld::events::Event;
use stopworld::events::clock::Relation;
use stopworld::events::payload::Tick;
use stopworld::events::record::{Consumer, Lost, MAX_WORLDS, Policy, Recorded, RecordingThread};

const BLOCK_BYTES: u64 = stopworld::World::BLOCK_BYTES as u64;
const CHUNK_BYTES: u64 = stopworld::World::CHUNK_BYTES as u64;
/// The reason of a stop that the collector's pacing requested.
const BY_ALLOCATION: u32 = 0;
/// The value of `moment` in a `MarkerJoined` event if a marker begins.
const BEGINS: u32 = 0;

#[derive(Clone, Copy, Debug, Default)]
struct World {
    introduced: bool,
    /// Its capability set.
    set: u32,
    collection: Collection,
    /// Bytes that its heap has committed, if known.
    committed: Option<u64>,
    /// Whether its ticks are left out because their interval differs from that of the log's ticks.
    ticks_differ: bool,
}

/// The settings of a writer.
#[derive(Clone, Copy, Debug)]
pub(super) struct WriterSettings {
    pub(super) head: Head,
    pub(super) classes: Classes,
    pub(super) policy: Policy,
}

/// Writes a log.
#[derive(Debug)]
pub(super) struct Writer {
    blocks: Blocks,
    settings: WriterSettings,
    shared_state: Arc<SharedState>,
    capabilities: Capabilities,
    worlds: Box<[World]>,
    /// The next capability set.
    next_set: u32,
    /// The world with a collection of which the log has the beginning but not the end.
    collecting: Option<usize>,
    profile: Profile,
    /// The number of notes that were read.
    read: u64,
    /// The latest time seen, in ticks.
    reached: u64,
    /// The message that is being written.
    line: Line,
}

impl Writer {
    /// Allocates everything that the writer will need, so this must not be called in a drain.
    pub(super) fn new(
        settings: WriterSettings,
        shared_state: Arc<SharedState>,
        trace_output: TraceOutput,
    ) -> io::Result<Writer> {
        Writer::after(0, settings, shared_state, trace_output)
    }

    /// Like [`new`](Self::new), but ignores the first `read` notes.
    pub(super) fn after(
        read: u64,
        settings: WriterSettings,
        shared_state: Arc<SharedState>,
        trace_output: TraceOutput,
    ) -> io::Result<Writer> {
        let mut blocks = Blocks::new(trace_output);
        process::introduce(&mut blocks, &settings.head)?;
        Ok(Writer {
            blocks,
            settings,
            shared_state,
            capabilities: Capabilities::new()?,
            worlds: vec![World::default(); MAX_WORLDS].into(),
            next_set: FIRST_SET,
            collecting: None,
            profile: Profile::new(),
            read,
            reached: 0,
            line: Line::new(),
        })
    }

    // ---- Threads -------------------------------------------------------------------------------------------------------

    /// Returns the capability of a thread, and assigns one if it has none. `None` if all are in use.
    fn capability(&mut self, thread: RecordingThread, ticks: u64) -> io::Result<Option<u16>> {
        match self.capabilities.look_up(thread) {
            ThreadLookup::Has(cap) => Ok(Some(cap)),
            ThreadLookup::New => self.assign_capability(thread.tid),
            ThreadLookup::InPlaceOf(gone) => {
                self.release(gone, ticks)?;
                self.assign_capability(thread.tid)
            }
        }
    }

    fn assign_capability(&mut self, tid: u32) -> io::Result<Option<u16>> {
        let Some(cap) = self.capabilities.assign_capability(tid) else { return Ok(None) };
        let blocks = &mut self.blocks;
        blocks.write(NO_CAPABILITY, &ghc::CapCreate { cap })?;
        for capset in [PROCESS, CLOCK] {
            blocks.write(NO_CAPABILITY, &ghc::CapsetAssignCap { capset, cap })?;
        }
        if self.settings.classes.threads {
            let (task, kernel_thread) = (tid.into(), tid.into());
            blocks.write(NO_CAPABILITY, &ghc::TaskCreate { task, cap, kernel_thread })?;
        }
        Ok(Some(cap))
    }

    fn release(&mut self, cap: u16, ticks: u64) -> io::Result<()> {
        self.halt(cap, StopReason::FINISHED)?;
        let CapabilityState { tid, .. } = self.capabilities[cap];
        self.capabilities.release(cap, ticks);
        let blocks = &mut self.blocks;
        if self.settings.classes.threads {
            blocks.write(NO_CAPABILITY, &ghc::TaskDelete { task: tid.into() })?;
        }
        for capset in [PROCESS, CLOCK] {
            blocks.write(NO_CAPABILITY, &ghc::CapsetRemoveCap { capset, cap })?;
        }
        blocks.write(NO_CAPABILITY, &ghc::CapDelete { cap })
    }

    /// Attaches a thread to a world.
    fn attach(&mut self, cap: u16, world: usize, label: u64) -> io::Result<()> {
        self.capabilities[cap].worlds |= 1 << world;
        if self.capabilities[cap].thread != 0 || !self.settings.classes.threads {
            return Ok(());
        }
        let thread = self.capabilities.next_thread();
        self.capabilities[cap].thread = thread;
        self.blocks.write(cap, &ghc::CreateThread { thread })?;
        if label != 0 {
            self.blocks.write(cap, &ghc::ThreadLabel { thread, label: text::of_label(label).into() })?;
        }
        self.run(cap)
    }

    /// Detaches a thread from a world.
    fn detach(&mut self, record: &Recorded, world: usize) -> io::Result<()> {
        let cap = match self.capabilities.look_up(record.thread) {
            ThreadLookup::Has(cap) => cap,
            ThreadLookup::InPlaceOf(gone) => return self.release(gone, record.ticks),
            ThreadLookup::New => {
                self.capabilities.note_detached(record.thread.tid, record.ticks);
                return Ok(());
            }
        };
        let of = &mut self.capabilities[cap];
        of.worlds &= !(1 << world);
        of.stopped_for &= !(1 << world);
        if of.worlds == 0 { self.release(cap, record.ticks) } else { Ok(()) }
    }

    /// Writes that the thread on this capability runs, unless it runs already or is stopped for a world.
    fn run(&mut self, cap: u16) -> io::Result<()> {
        let of = &mut self.capabilities[cap];
        if of.thread == 0 || of.runs != 0 || of.stopped_for != 0 {
            return Ok(());
        }
        of.runs = 1;
        let thread = of.thread;
        self.blocks.write(cap, &ghc::RunThread { thread })
    }

    /// Writes that the thread on this capability has stopped, if it ran.
    fn halt(&mut self, cap: u16, reason: StopReason) -> io::Result<()> {
        let of = &mut self.capabilities[cap];
        if of.runs == 0 {
            return Ok(());
        }
        of.runs = 0;
        let thread = of.thread;
        self.blocks.write(cap, &ghc::StopThread { thread, reason, info: 0 })
    }

    /// Stops all threads of a world.
    fn halt_world(&mut self, world: usize) -> io::Result<()> {
        for cap in self.capabilities.all() {
            if self.capabilities[cap].worlds & 1 << world != 0 {
                self.capabilities[cap].stopped_for |= 1 << world;
                self.halt(cap, StopReason::YIELDING)?;
            }
        }
        Ok(())
    }

    /// Restarts all threads of a world.
    fn restart_world(&mut self, world: usize) -> io::Result<()> {
        for cap in self.capabilities.all() {
            self.capabilities[cap].stopped_for &= !(1 << world);
            self.run(cap)?;
        }
        Ok(())
    }

    /// Reads the new notes: threads and profiles that existed before the log joined their world.
    #[cold]
    #[inline(never)]
    fn read_notes(&mut self) -> io::Result<()> {
        let shared_state = Arc::clone(&self.shared_state);
        let last = shared_state.notes.count();
        let read = std::mem::replace(&mut self.read, last);
        for note in shared_state.notes.between(read, last) {
            if let Some(begun) = note.profiled.heap {
                self.profile.runs(note.world, begun, &mut self.blocks)?;
            }
            if let Some(interval_ns) = note.profiled.ticks_ns {
                self.begin_ticks(interval_ns, note.world)?;
            }
        }
        let unread = shared_state.notes.between(read, last);
        if !self.settings.classes.threads {
            return Ok(());
        }
        for (present, note) in unread.flat_map(|note| note.threads.iter().map(move |present| (present, note))) {
            if !self.capabilities.note_attached(present.tid, note.ticks) {
                continue;
            }
            if let Some(cap) = self.assign_capability(present.tid)? {
                self.attach(cap, note.world, present.label)?;
            }
        }
        Ok(())
    }

    // ---- Worlds --------------------------------------------------------------------------------------------------------

    /// Introduces a world, before its first event in the log.
    #[cold]
    fn introduce_world(&mut self, number: usize) -> io::Result<()> {
        let has_process = self.worlds.iter().any(|world| world.introduced && world.set == PROCESS);
        let set = if has_process {
            let set = self.next_set;
            self.next_set += 1;
            self.blocks.write(NO_CAPABILITY, &ghc::CapsetCreate { capset: set, kind: CapsetKind::CUSTOM })?;
            set
        } else {
            PROCESS
        };
        self.worlds[number] = World { introduced: true, set, ..World::default() };
        let heap = ghc::HeapInfo {
            capset: set,
            generations: 1,
            max_bytes: self.shared_state.facts(number).limit,
            allocation_area_bytes: BLOCK_BYTES,
            megablock_bytes: CHUNK_BYTES,
            block_bytes: BLOCK_BYTES,
        };
        self.blocks.write(NO_CAPABILITY, &heap)
    }

    fn closed(&mut self, number: usize) -> io::Result<()> {
        let set = self.worlds[number].set;
        self.end_collection(number);
        self.worlds[number] = World::default();
        self.profile.end(number);
        self.shared_state.progress.count_ended_world();
        if set == PROCESS {
            return Ok(());
        }
        self.blocks.write(NO_CAPABILITY, &ghc::CapsetDelete { capset: set })
    }

    /// Handles memory obtained from the system.
    fn segment_created(&mut self, record: &Recorded, number: usize, bytes: u64) -> io::Result<()> {
        let World { committed: Some(before), .. } = self.worlds[number] else { return Ok(()) };
        let committed = before + bytes;
        self.worlds[number].committed = Some(committed);
        let Some(cap) = self.capability(record.thread, record.ticks)? else { return Ok(()) };
        self.heap_size(cap, number, committed)
    }

    /// Handles memory returned to the system.
    fn segment_freed(&mut self, record: &Recorded, number: usize, bytes: u64) -> io::Result<()> {
        let World { committed: Some(before), set, .. } = self.worlds[number] else { return Ok(()) };
        let committed = before.saturating_sub(bytes);
        self.worlds[number].committed = Some(committed);
        let Some(cap) = self.capability(record.thread, record.ticks)? else { return Ok(()) };
        let chunks = |bytes: u64| (bytes / CHUNK_BYTES) as u32;
        let (current, needed, returned) = (chunks(committed), chunks(committed), chunks(bytes));
        self.blocks.write(cap, &ghc::MemReturn { capset: set, current, needed, returned })?;
        self.heap_size(cap, number, committed)
    }

    fn heap_size(&mut self, cap: u16, number: usize, bytes: u64) -> io::Result<()> {
        let capset = self.worlds[number].set;
        self.blocks.write(cap, &ghc::HeapSize { capset, bytes })?;
        self.blocks.write(cap, &ghc::BlocksSize { capset, bytes })
    }

    // ---- Messages ------------------------------------------------------------------------------------------------------

    /// Writes a message of the collector on a thread's capability.
    fn log(&mut self, thread: RecordingThread, ticks: u64, line: fmt::Arguments<'_>) -> io::Result<()> {
        let cap = self.capability_of_message(thread, ticks)?;
        self.blocks.write(cap, &ghc::LogMsg { text: Text(self.line.format(line)) })
    }

    /// Returns the capability for a thread's message, or [`NO_CAPABILITY`] if all capabilities are in use.
    fn capability_of_message(&mut self, thread: RecordingThread, ticks: u64) -> io::Result<u16> {
        Ok(self.capability(thread, ticks)?.unwrap_or(NO_CAPABILITY))
    }

    /// Writes a message for an event without a GHC counterpart.
    #[cold]
    fn happened(&mut self, record: &Recorded, event: &Event) -> io::Result<()> {
        let (thread, ticks) = (record.thread, record.ticks);
        match event {
            Event::StopAbandoned(stop) => self.log(
                thread,
                ticks,
                format_args!(
                    "stopworld: the stop for collection {} was abandoned: {} threads did not acknowledge it",
                    stop.number, stop.unanswered
                ),
            ),
            Event::CollectionDiscarded(collection) => self.log(
                thread,
                ticks,
                format_args!(
                    "stopworld: the marks of collection {} were discarded; the collection is repeated",
                    collection.number
                ),
            ),
            Event::AllocationFailed(failed) => self.log(
                thread,
                ticks,
                format_args!(
                    "stopworld: no room for {} bytes: {} are live, and the heap limit is {}",
                    failed.bytes, failed.live_bytes, failed.limit_bytes
                ),
            ),
            Event::VtableSwapped(swap) => {
                let name = |kind: u32| ["signals", "safepoints", "the mock debugger"].get(kind as usize).copied();
                let [old, new] = [swap.old_kind, swap.new_kind].map(|kind| name(kind).unwrap_or("another vtable"));
                self.log(thread, ticks, format_args!("stopworld: threads are now stopped by {new} instead of {old}"))
            }
            Event::DebuggerAttached(debugger) => {
                self.log(thread, ticks, format_args!("stopworld: a debugger is in control ({:#x})", debugger.control))
            }
            Event::DebuggerDetached(debugger) => self.log(
                thread,
                ticks,
                format_args!("stopworld: the debugger is no longer in control ({:#x})", debugger.control),
            ),
            Event::DebuggerLost(debugger) => self.log(
                thread,
                ticks,
                format_args!("stopworld: the debugger was lost ({:#x}), in phase {}", debugger.control, debugger.phase),
            ),
            _ => Ok(()),
        }
    }

    // ---- Collections ---------------------------------------------------------------------------------------------------

    /// Handles an event of the collection with this number.
    fn of_collection(&mut self, record: &Recorded, event: &Event, number: usize, count: u32) -> io::Result<()> {
        if self.worlds[number].collection.stopped_for != count {
            // The collection began before the log joined the world.
            return Ok(());
        }
        match event {
            Event::SuspendEnd(_) if self.settings.classes.threads => self.halt_world(number),
            Event::GcStart(_) => self.start(record, number, count),
            Event::RestartEnd(_) => {
                self.end_collection(number);
                self.worlds[number].collection = Collection::default();
                if self.settings.classes.threads { self.restart_world(number) } else { Ok(()) }
            }
            _ if self.worlds[number].collection.number == count => self.in_collection(event, number),
            _ => Ok(()),
        }
    }

    fn suspend(&mut self, record: &Recorded, number: usize, count: u32, reason: u32) -> io::Result<()> {
        let capability = self.capability(record.thread, record.ticks)?;
        self.worlds[number].collection = Collection { stopped_for: count, capability, ..Collection::default() };
        let Some(cap) = capability else { return Ok(()) };
        if self.settings.classes.collections {
            match self.shared_state.facts(number).markers {
                0 | 1 => self.blocks.write(cap, &ghc::RequestSeqGc {})?,
                _ => self.blocks.write(cap, &ghc::RequestParGc {})?,
            }
        }
        self.capabilities[cap].stopped_for |= 1 << number;
        self.halt(cap, if reason == BY_ALLOCATION { StopReason::HEAP_OVERFLOW } else { StopReason::YIELDING })
    }

    fn start(&mut self, record: &Recorded, number: usize, count: u32) -> io::Result<()> {
        let overlaps = self.collecting.is_some();
        let collection = &mut self.worlds[number].collection;
        (collection.number, collection.overlaps) = (count, overlaps);
        let Some(cap) = collection.capability else { return Ok(()) };
        if overlaps {
            let set = self.worlds[number].set;
            return self.log(
                record.thread,
                record.ticks,
                format_args!("stopworld: collection {count} of heap {set} starts while another heap is collected"),
            );
        }
        self.collecting = Some(number);
        self.blocks.write(cap, &ghc::GcStart {})
    }

    /// Ends the collection of a world, which has no further events.
    fn end_collection(&mut self, number: usize) {
        if self.collecting == Some(number) {
            self.collecting = None;
        }
    }

    fn in_collection(&mut self, event: &Event, number: usize) -> io::Result<()> {
        let World { collection: Collection { capability, overlaps, .. }, set, .. } = self.worlds[number];
        let Some(cap) = capability else { return Ok(()) };
        match event {
            Event::HeapBefore(heap) => self.worlds[number].collection.allocated = heap.allocated_bytes as u64,
            Event::SweepEnd(_) => self.swept(cap, number)?,
            Event::HeapStats(heap) => {
                let (live, committed) =
                    (heap.small_bytes + heap.large_bytes + heap.pinned_bytes, heap.committed_bytes as u64);
                self.blocks.write(cap, &ghc::HeapLive { capset: set, bytes: live as u64 })?;
                self.worlds[number].committed = Some(committed);
                self.heap_size(cap, number, committed)?;
            }
            _ if overlaps => {}
            Event::RootsBegin(_) => self.blocks.write(cap, &ghc::GcWork {})?,
            Event::MarkEnd(_) => {
                self.blocks.write(cap, &ghc::GcIdle {})?;
                self.blocks.write(cap, &ghc::GcDone {})?;
            }
            Event::GcEnd(_) => {
                self.blocks.write(cap, &ghc::GcEnd {})?;
                self.end_collection(number);
            }
            _ => {}
        }
        Ok(())
    }

    /// Writes the figures that are known after the sweep.
    fn swept(&mut self, cap: u16, number: usize) -> io::Result<()> {
        let World { collection, set, .. } = self.worlds[number];
        let of = &mut self.capabilities[cap];
        of.allocated += collection.allocated;
        let bytes = of.allocated;
        self.blocks.write(cap, &ghc::HeapAllocated { capset: set, bytes })?;
        if collection.overlaps {
            return Ok(());
        }
        self.blocks.write(cap, &ghc::GcGlobalSync {})?;
        // Objects are never moved, so no bytes are copied; and there is only one generation, 0.
        let stats = ghc::GcStats { capset: set, threads: collection.markers.max(1), ..ghc::GcStats::default() };
        self.blocks.write(cap, &stats)
    }

    // ---- Every record --------------------------------------------------------------------------------------------------

    fn write_record(&mut self, record: &Recorded, number: usize) -> io::Result<()> {
        let event = &record.event();
        match event {
            Event::SuspendBegin(stop) => self.suspend(record, number, stop.number, stop.reason),
            Event::SuspendEnd(stop) => self.of_collection(record, event, number, stop.number),
            Event::GcStart(gc) => self.of_collection(record, event, number, gc.number),
            Event::RootsBegin(roots) => self.of_collection(record, event, number, roots.number),
            Event::MarkEnd(mark) => self.of_collection(record, event, number, mark.number),
            Event::HeapBefore(heap) => self.of_collection(record, event, number, heap.number),
            Event::SweepEnd(sweep) => self.of_collection(record, event, number, sweep.number),
            Event::GcEnd(gc) => self.of_collection(record, event, number, gc.number),
            Event::HeapStats(heap) => self.of_collection(record, event, number, heap.number),
            Event::RestartEnd(stop) => self.of_collection(record, event, number, stop.number),
            Event::MarkerJoined(marker) => {
                self.worlds[number].collection.markers += u32::from(marker.moment == BEGINS);
                Ok(())
            }
            Event::ThreadAttached(thread) => match self.capability(record.thread, record.ticks)? {
                Some(cap) => self.attach(cap, number, thread.label),
                None => Ok(()),
            },
            Event::ThreadDetached(_) => self.detach(record, number),
            Event::SegmentCreated(segment) => self.segment_created(record, number, segment.bytes as u64),
            Event::SegmentFreed(segment) => self.segment_freed(record, number, segment.bytes as u64),
            Event::UserMessage(message) => {
                let cap = self.capability_of_message(record.thread, record.ticks)?;
                self.blocks.write(cap, &ghc::UserMsg { text: text::of_label(message.text).into() })
            }
            Event::UserMarker(marker) => {
                let cap = self.capability_of_message(record.thread, record.ticks)?;
                self.blocks.write(cap, &ghc::UserMarker { name: text::of_label(marker.text).into() })
            }
            Event::StopAbandoned(_) => {
                self.worlds[number].collection = Collection::default();
                self.happened(record, event)?;
                if self.settings.classes.threads { self.restart_world(number) } else { Ok(()) }
            }
            Event::CollectionDiscarded(_)
            | Event::VtableSwapped(_)
            | Event::AllocationFailed(_)
            | Event::DebuggerAttached(_)
            | Event::DebuggerDetached(_)
            | Event::DebuggerLost(_) => self.happened(record, event),
            Event::WorldCreated(_) => {
                self.worlds[number].committed = Some(0);
                Ok(())
            }
            Event::WorldClosed(_) => self.closed(number),
            Event::TickerBegin(ticker) => self.begin_ticks(ticker.interval_ns, number),
            Event::Tick(_) if self.worlds[number].ticks_differ => Ok(()),
            Event::Tick(tick) => self.tick(tick, record.ticks),
            Event::CensusProfileBegin(_)
            | Event::CensusFilter(_)
            | Event::CostCentre(_)
            | Event::CensusBegin(_)
            | Event::CensusBand(_)
            | Event::CensusEnd(_) => self.profiled(record, event, number),
            _ => Ok(()),
        }
    }

    fn profiled(&mut self, record: &Recorded, event: &Event, number: usize) -> io::Result<()> {
        if self.profile.take(event, number, &self.settings.head, &mut self.blocks)? {
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
        let text = Text(self.line.format(format_args!(
            "stopworld: the ticks of heap {set} are left out: their interval is {interval_ns} ns, unlike this log's"
        )));
        self.blocks.write(NO_CAPABILITY, &ghc::LogMsg { text })
    }

    fn tick(&mut self, tick: &Tick, ticks: u64) -> io::Result<()> {
        let Tick { tick, tid, stack, .. } = *tick;
        let cap = match self.capabilities.of_tid(tid) {
            // Threads that are not attached to the world.
            _ if tid == 0 => None,
            Some(cap) => Some(cap),
            None if self.capabilities.note_attached(tid, ticks) => self.assign_capability(tid)?,
            // The thread has detached since then.
            None => None,
        };
        self.profile.tick(cap, tick, stack, &mut self.blocks)
    }

    fn publish_progress(&self) {
        self.shared_state.progress.publish(self.blocks.events, self.blocks.written());
    }

    /// Writes the end of a log: stops the threads, and deletes capabilities and capability sets.
    fn end_everything(&mut self) -> io::Result<()> {
        for cap in self.capabilities.all() {
            self.halt(cap, StopReason::YIELDING)?;
        }
        for cap in self.capabilities.all() {
            if self.capabilities[cap].tid != 0 {
                self.release(cap, self.reached)?;
            }
        }
        for capset in [PROCESS, CLOCK] {
            self.blocks.write(NO_CAPABILITY, &ghc::CapsetDelete { capset })?;
        }
        Ok(())
    }

    /// Writes the buffer, followed by the events that belong at the end of a log.
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
        self.blocks.set_time(self.settings.head.time(record.ticks));
        let number = usize::from(record.world.0) % MAX_WORLDS;
        if !self.worlds[number].introduced {
            self.introduce_world(number)?;
        }
        if self.shared_state.notes.count() != self.read {
            self.read_notes()?;
        }
        self.write_record(record, number)?;
        self.blocks.count_record();
        Ok(())
    }

    fn lost(&mut self, lost: &Lost) -> io::Result<()> {
        self.blocks.set_time(self.settings.head.time(lost.ticks));
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

    /// `.event.crash`: after each flush, the file is a complete log with its end marker.
    fn flush(&mut self) -> io::Result<()> {
        let flushed = self.write_out(false);
        self.publish_progress();
        flushed
    }

    fn close(&mut self, now: &Relation) -> io::Result<()> {
        self.reached = self.reached.max(now.ticks);
        self.blocks.set_time(self.settings.head.time(self.reached));
        let ended = self.end_everything();
        let closed = ended.and_then(|()| self.write_out(true));
        self.publish_progress();
        closed
    }

    fn unwritten(&self) -> u64 {
        self.publish_progress();
        self.blocks.lost()
    }

    fn policy(&self) -> Policy {
        self.settings.policy
    }
}
