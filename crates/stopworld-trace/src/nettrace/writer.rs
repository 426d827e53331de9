//! Translates events to .NET events, and to own events under the provider `stopworld`.
//!
//! **Order.** Events are strictly in the order of time. If a thread was frozen in the middle of firing, its record comes late and gets
//! the time at which it arrives, because the flag of every event states that no older event follows. The events of a collection have the
//! thread that fired them, which is the thread that stopped the world. The end of a collection is at least one tick after its start,
//! because some readers ignore a collection without duration.
//!
//! **What comes first**: the process, its version and its settings, at the beginning of the trace; the settings of a world, before
//! its first event.
//!
//! **The selection** is computed once for each kind of event ([`Providers`](super::Providers)). One event may become several .NET
//! events of which only some are selected.
//!
//! **What comes last**: the functions on the call stacks, and their files. See [`rundown`](super::rundown).
//!
//! The writer runs in the drain (the step in which the rings are emptied), so it does not allocate, takes no lock, and writes only to
//! memory allocated in advance.

use std::io;
use std::sync::Arc;

use super::collection::{CONDEMNED, Collection, Spaces, reason};
use super::dump::Dump;
use super::event_writer::EventWriter;
use super::output::TraceOutput;
use super::providers::{Providers, belongs_to};
use super::rundown::Rundown;
use super::schema::{Kind, Net, Written, type_of};
use super::sequencer::{Head, MOST_PAYLOAD, Sequencer};
use super::shared_state::SharedState;
use super::types::Names;
use super::{Container, process};
use nettrace::EventType;
use nettrace::clr::write::{
    DestroyGCHandle, FinalizeObject, GCAllocationTick, GCCreateSegment, GCDynamicEvent, GCEnd, GCFinalizersBegin,
    GCFinalizersEnd, GCFreeSegment, GCJoin, GCMarkWithType, GCRestartEEBegin, GCRestartEEEnd,
    GCSampledObjectAllocationHigh, GCSampledObjectAllocationLow, GCStart, GCSuspendEEBegin, GCSuspendEEEnd,
    GCTriggered, PinObjectAtGCTime, SetGCHandle, Settings,
};
use nettrace::clr::{
    AllocationKind, CollectionType, HandleKind, JoinTime, JoinType, Kind as FieldType, MarkRoot, SegmentKind,
    SuspendReason, Text,
};
use stopworld::events::clock::Relation;
use stopworld::events::record::{Consumer, Lost, MAX_WORLDS, Policy, Recorded, RecordingThread};
use stopworld::events::table::MAX_PAYLOAD_BYTES;
use stopworld::events::{Event, EventId, EventSet, Label, Labels, payload};
use stopworld::profile::allocations::CallStack;
use trace_io::bytes::Bytes;

/// Names and texts are cut to this many UTF-16 units.
const MOST_NAME: usize = 1_000;

#[derive(Clone, Debug, Default)]
struct World {
    introduced: bool,
    /// The world's position among the worlds of the trace, in the order of their first records.
    ordinal: u16,
    collection: Collection,
}

/// Writes a trace.
#[derive(Debug)]
pub(super) struct Writer {
    event_writer: EventWriter,
    own: EventSet,
    shared_state: Arc<SharedState>,
    policy: Policy,
    worlds: Box<[World]>,
    /// Number of worlds in the trace so far.
    introduced: u16,
    names: Names,
    /// The number of notes of threads that were read.
    noted: u64,
    dump: Option<Dump>,
    /// The latest time seen, in ticks.
    reached: u64,
    rundown: bool,
    opener: RecordingThread,
}

/// The settings of a writer.
#[derive(Debug)]
pub(super) struct WriterSettings<'a> {
    pub(super) container: Container,
    pub(super) providers: &'a Providers,
    pub(super) policy: Policy,
    pub(super) head: Head,
    /// The thread that started the trace.
    pub(super) opener: RecordingThread,
    /// The number of notes of threads to ignore.
    pub(super) noted: u64,
}

impl Writer {
    /// Allocates everything that the writer will need, so this must not be called in a drain.
    pub(super) fn new(
        settings: &WriterSettings<'_>,
        shared_state: Arc<SharedState>,
        trace_output: TraceOutput,
    ) -> io::Result<Writer> {
        let mut writer = Writer::without_head(settings, shared_state, trace_output)?;
        writer.begin()?;
        Ok(writer)
    }

    /// Like [`new`](Self::new), but the caller must [begin](Self::begin) the trace.
    pub(super) fn without_head(
        settings: &WriterSettings<'_>,
        shared_state: Arc<SharedState>,
        trace_output: TraceOutput,
    ) -> io::Result<Writer> {
        let WriterSettings { container, providers, policy, head, opener, noted } = *settings;
        let is_wanted = |net: &&Net| providers.wants(Kind::Net(**net));
        let wanted = Net::ALL.iter().filter(is_wanted).fold(0, |bits, net| bits | 1 << *net as u64);
        let bulk = [Net::BulkType, Net::GCBulkNode, Net::GCBulkEdge, Net::GCBulkRootEdge, Net::GCBulkRootStaticVar];
        let sequencer = Sequencer::new(container, head, trace_output)?;
        Ok(Writer {
            event_writer: EventWriter { sequencer, payload: Bytes::with_capacity(MOST_PAYLOAD), wanted, world: 0 },
            own: EventId::all().filter(|id| providers.wants_own(*id)).collect(),
            shared_state,
            policy,
            worlds: vec![World::default(); MAX_WORLDS].into(),
            introduced: 0,
            names: Names::new(),
            noted,
            dump: bulk.iter().any(|net| wanted & 1 << *net as u64 != 0).then(Dump::new),
            reached: head.ticks,
            rundown: providers.rundown,
            opener,
        })
    }

    /// Removes the events for which `wants` returns false. Its arguments are an event's provider, number, keywords and level.
    pub(super) fn keep_only(&mut self, wants: impl Fn(&str, u32, u64, u8) -> bool) {
        let wants = |kind: Kind| {
            let of = kind.definition();
            wants(of.provider, of.id, of.keywords, of.level)
        };
        let kept = Net::ALL.iter().filter(|net| wants(Kind::Net(**net))).fold(0, |bits, net| bits | 1 << *net as u64);
        self.event_writer.wanted &= kept;
        let is_kept = |id| {
            let belongs = belongs_to(id, |net| self.event_writer.wants(net));
            belongs || id != EventId::DumpStack && wants(Kind::Own(id))
        };
        self.own = EventId::all().filter(|id| self.own.contains(*id) && is_kept(*id)).collect();
    }

    /// Writes an event that does not come from the collector.
    pub(super) fn foreign(
        &mut self,
        number: u32,
        kind: &EventType,
        ticks: u64,
        thread: RecordingThread,
        payload: &[u8],
    ) -> io::Result<()> {
        self.event_writer.sequencer.foreign(number, kind, ticks, thread, payload)
    }

    /// Writes everything. All records up to the time `ticks` must have been taken.
    pub(super) fn flush_up_to(&mut self, ticks: u64) -> io::Result<()> {
        self.reached = self.reached.max(ticks);
        self.flush()
    }

    /// Ends the trace at this time.
    pub(super) fn close_at(&mut self, ticks: u64) -> io::Result<()> {
        self.reached = self.reached.max(ticks);
        if let Some(dump) = &mut self.dump {
            dump.end(&mut self.event_writer, ticks)?;
        }
        self.name_threads(self.reached)?;
        let is_last = !self.has_rundown();
        let closed = self.event_writer.sequencer.flush(self.reached, is_last);
        self.publish_progress();
        closed
    }

    /// Returns whether the names of functions follow the last event.
    fn has_rundown(&self) -> bool {
        self.event_writer.wants(Net::MethodDCEndVerbose) && !self.event_writer.sequencer.stacks().is_empty()
    }

    /// Writes the names of the functions on call stacks, and ends the trace.
    fn write_rundown(&mut self) -> io::Result<()> {
        let (ticks, thread) = (self.reached, self.opener);
        // The code belongs to the process: its events have the number of the first world.
        self.event_writer.world = 0;
        let rundown = Rundown::of(self.event_writer.sequencer.stacks());
        for module in rundown.modules() {
            self.event_writer.write(&module, ticks, thread)?;
        }
        for function in rundown.functions() {
            self.event_writer.write(&function, ticks, thread)?;
        }
        self.event_writer.sequencer.flush(ticks, true)
    }

    /// Writes the head of the file, and the events that describe the process.
    pub(super) fn begin(&mut self) -> io::Result<()> {
        self.event_writer.sequencer.begin()?;
        if !self.rundown {
            return Ok(());
        }
        let (ticks, opener) = (self.reached, self.opener);
        let about = process::About::this_process();
        self.event_writer.write(&about.process_info(), ticks, opener)?;
        self.event_writer.write(&about.runtime_start(), ticks, opener)?;
        Ok(())
    }

    /// Introduces a world, before its first event in the trace.
    #[cold]
    fn introduce_world(&mut self, record: &Recorded, number: usize) -> io::Result<()> {
        let world = &mut self.worlds[number];
        (world.introduced, world.ordinal) = (true, self.introduced);
        self.event_writer.world = self.introduced;
        self.introduced = self.introduced.wrapping_add(1);
        if !self.rundown {
            return Ok(());
        }
        self.net(record, &process::settings(self.shared_state.limit(number)))
    }

    /// Writes a .NET event with the time and the thread of this record.
    #[inline(always)]
    fn net<E: Written>(&mut self, record: &Recorded, event: &E) -> io::Result<()> {
        self.event_writer.write(event, record.ticks, record.thread).map(drop)
    }

    /// Writes an own event.
    fn own(&mut self, record: &Recorded) -> io::Result<()> {
        self.own_with(record.id, record.ticks, record.thread, record.fields())
    }

    /// Writes an own event with these fields.
    fn own_with(&mut self, id: EventId, ticks: u64, thread: RecordingThread, fields: &[u64]) -> io::Result<()> {
        let fill = |to: &mut Bytes| {
            for (field, value) in id.descriptor().fields.iter().zip(fields) {
                match type_of(field) {
                    FieldType::Z16 => {
                        let text = Label::from_raw(*value).and_then(|label| Labels::of_the_process().text(label));
                        to.utf16(text.unwrap_or_default(), MOST_NAME);
                    }
                    FieldType::U32 => to.u32(*value as u32),
                    _ => to.u64(*value),
                }
            }
        };
        self.event_writer.own(id, ticks, thread, fill).map(drop)
    }

    /// Writes the names of the threads that attached before the trace joined their world, if there are new notes of such threads.
    fn name_threads(&mut self, ticks: u64) -> io::Result<()> {
        let count = self.shared_state.threads.count();
        let noted = std::mem::replace(&mut self.noted, count);
        if noted == count || !self.own.contains(EventId::ThreadAttached) {
            return Ok(());
        }
        let shared_state = Arc::clone(&self.shared_state);
        for thread in shared_state.threads.between(noted, count).flatten() {
            // The address of its stop record is not known.
            self.own_with(EventId::ThreadAttached, ticks, self.opener, &[thread.tid.into(), 0, thread.label])?;
        }
        Ok(())
    }

    /// Writes an event without a specific .NET counterpart as a GCDynamicEvent, which takes a name and bytes: the event's name, and
    /// its payload as the event table serializes it.
    #[cold]
    fn dynamic(&mut self, record: &Recorded) -> io::Result<()> {
        let mut buffer = [0; MAX_PAYLOAD_BYTES];
        let event = record.event();
        let data = event.serialize(&mut buffer);
        let name = Text::cut(record.id.descriptor().name, MOST_NAME);
        self.net(record, &GCDynamicEvent { name, data })
    }

    /// Passes a record to the heap dump, if the trace has one.
    #[inline(always)]
    fn dumped(&mut self, take: impl FnOnce(&mut Dump, &mut EventWriter) -> io::Result<()>) -> io::Result<()> {
        match &mut self.dump {
            Some(dump) => take(dump, &mut self.event_writer),
            None => Ok(()),
        }
    }

    #[inline(always)]
    fn write_record(&mut self, record: &Recorded, number: usize) -> io::Result<()> {
        let ticks = record.ticks;
        match record.event() {
            Event::SuspendBegin(of) => {
                self.worlds[number].collection = Collection { stopped_for: of.number, ..Collection::default() };
                let count = of.number.wrapping_sub(1);
                self.net(record, &GCSuspendEEBegin { reason: SuspendReason::SuspendForGC, count })
            }
            Event::SuspendEnd(of) if self.is_stopped_for(number, of.number) => self.net(record, &GCSuspendEEEnd {}),
            Event::GcStart(of) if self.is_stopped_for(number, of.number) => self.started(record, number, of),
            Event::RestartBegin(of) if self.is_stopped_for(number, of.number) => self.net(record, &GCRestartEEBegin {}),
            Event::RestartEnd(of) if self.is_stopped_for(number, of.number) => {
                self.worlds[number].collection = Collection::default();
                self.net(record, &GCRestartEEEnd {})
            }
            Event::RootsBegin(of) => self.note(number, of.number, |collection| collection.roots_begin = ticks),
            Event::MarkEnd(of) if self.is_collecting(number, of.number) => {
                self.worlds[number].collection.mark_end = ticks;
                for kind in [MarkRoot::MarkStack, MarkRoot::MarkFQ, MarkRoot::MarkHandles] {
                    self.marked(record, kind)?;
                }
                Ok(())
            }
            Event::WeakEnd(of) if self.is_collecting(number, of.number) => {
                let collection = &mut self.worlds[number].collection;
                (collection.weak_end, collection.queued) = (ticks, of.finalizers_queued as u64);
                if collection.queued > 0 { self.marked(record, MarkRoot::MarkNewFQ) } else { Ok(()) }
            }
            Event::SweepBegin(of) => self.note(number, of.number, |collection| collection.sweep_begin = ticks),
            Event::HeapBefore(of) => self.note(number, of.number, |collection| {
                let (small, large, pinned) = (of.small_bytes as u64, of.large_bytes as u64, of.pinned_bytes as u64);
                collection.before = Spaces { small, large, pinned };
                (collection.allocated, collection.budget) = (of.allocated_bytes as u64, of.budget_bytes as u64);
            }),
            Event::HeapAfter(of) => self.note(number, of.number, |collection| {
                let (small, large, pinned) = (of.small_bytes as u64, of.large_bytes as u64, of.pinned_bytes as u64);
                collection.after = Spaces { small, large, pinned };
                (collection.pinned_objects, collection.handles) = (of.pinned_objects as u64, of.handles as u64);
            }),
            Event::SweepEnd(of) if self.is_collecting(number, of.number) => {
                self.worlds[number].collection.sweep_end = ticks;
                let (collection, hz) = (self.worlds[number].collection, self.event_writer.sequencer.head().hz);
                self.net(record, &collection.global_history(hz))?;
                self.net(record, &collection.heap_history())
            }
            Event::GcEnd(of) if self.is_collecting(number, of.number) => {
                // Readers ignore a collection that ends at the time at which it starts.
                let at = ticks.max(self.worlds[number].collection.started_at + 1);
                self.event_writer.write(&GCEnd { count: of.number, depth: CONDEMNED }, at, record.thread).map(drop)
            }
            Event::HeapStats(of) if self.is_collecting(number, of.number) => {
                let stats = self.worlds[number].collection.heap_stats();
                self.net(record, &stats)
            }
            Event::CollectionDiscarded(_) => {
                self.worlds[number].collection.discarded = true;
                self.dynamic(record)
            }
            Event::StopAbandoned(_) => {
                self.worlds[number].collection = Collection::default();
                self.dynamic(record)
            }
            Event::VtableSwapped(_)
            | Event::AllocationFailed(_)
            | Event::DebuggerAttached(_)
            | Event::DebuggerDetached(_)
            | Event::DebuggerLost(_) => self.dynamic(record),
            Event::WorldCreated(of) => {
                let size = of.chunk_bytes as u64;
                self.net(record, &Settings { segment_size: size, large_segment_size: size, server: 0 })
            }
            Event::WorldClosed(_) => {
                self.worlds[number] = World::default();
                self.shared_state.progress.count_ended_world();
                Ok(())
            }
            Event::SegmentCreated(of) => self.net(
                record,
                &GCCreateSegment {
                    address: of.addr as u64,
                    size: of.bytes as u64,
                    // All spaces share one reservation.
                    kind: SegmentKind::SmallObjectHeap,
                },
            ),
            Event::SegmentFreed(of) => self.net(record, &GCFreeSegment { address: of.addr as u64 }),
            Event::AllocationTick(of) => self.allocation_tick(record, number, of),
            Event::AllocationSampled(of) => {
                let type_name = self.names.of(of.type_addr as u64);
                let tick = allocation(of.bytes, of.space, (of.type_addr, type_name), (of.object_addr, of.object_bytes));
                self.event_writer.write_on(CallStack::from_raw(of.stack), &tick, ticks, record.thread)
            }
            Event::ObjectSampled(of) => self.net(
                record,
                &GCSampledObjectAllocationHigh {
                    address: of.addr as u64,
                    type_id: of.type_addr as u64,
                    object_count: of.objects.max(1) as u32,
                    total_size: of.bytes as u64,
                },
            ),
            Event::FinalizerBegin(_) => self.net(record, &GCFinalizersBegin {}),
            Event::FinalizerEnd(of) => self.net(record, &GCFinalizersEnd { count: of.count }),
            Event::FinalizeObject(of) => {
                self.net(record, &FinalizeObject { type_id: of.type_addr as u64, object_id: of.addr as u64 })
            }
            Event::RootCreated(of) => self.net(
                record,
                &SetGCHandle {
                    handle_id: of.slot_addr as u64,
                    object_id: of.object_addr as u64,
                    kind: HandleKind::Strong,
                    generation: 0,
                    app_domain_id: 0,
                },
            ),
            Event::RootDropped(of) => self.net(record, &DestroyGCHandle { handle_id: of.slot_addr as u64 }),
            Event::ObjectPinned(of) => {
                let name = self.names.of(of.type_addr as u64);
                self.net(
                    record,
                    &PinObjectAtGCTime {
                        handle_id: 0,
                        object_id: of.addr as u64,
                        object_size: of.bytes as u64,
                        type_name: Text::cut(name, MOST_NAME),
                    },
                )
            }
            Event::MarkerJoined(of) => self.joined(record, of),
            Event::DumpNode(node) => self.dumped(|dump, event_writer| dump.node(event_writer, record, node)),
            Event::DumpEdge(edge) => self.dumped(|dump, event_writer| dump.edge(event_writer, record, edge)),
            Event::DumpRoot(root) => self.dumped(|dump, event_writer| dump.root(event_writer, record, root)),
            Event::DumpEnd(heap) => self.dumped(|dump, event_writer| dump.end_heap(event_writer, record, heap)),
            _ => Ok(()),
        }
    }

    fn allocation_tick(&mut self, record: &Recorded, world: usize, of: payload::AllocationTick) -> io::Result<()> {
        let (bytes, type_id) = (of.bytes as u64, of.type_addr as u64);
        let type_name = self.names.of(type_id);
        let tick = allocation(bytes, of.space, (of.type_addr, type_name), (of.object_addr, of.object_bytes));
        // Readers add up the amounts. In a world that samples its allocations, the samples have them.
        if !self.shared_state.samples_allocations(world) {
            self.net(record, &tick)?;
        }
        let objects = bytes / (of.object_bytes as u64).max(1);
        let sample = GCSampledObjectAllocationLow {
            address: tick.address,
            type_id,
            object_count: objects.max(1) as u32,
            total_size: bytes,
        };
        self.net(record, &sample)
    }

    /// A marker leaves a join (restart) when it begins, and enters a join when it has no more work.
    fn joined(&mut self, record: &Recorded, of: payload::MarkerJoined) -> io::Result<()> {
        let (join_time, join_type) = match of.moment {
            0 => (JoinTime::End, JoinType::Restart),
            1 => (JoinTime::Start, JoinType::Join),
            _ => (JoinTime::End, JoinType::LastJoin),
        };
        self.net(record, &GCJoin { heap: of.marker, join_time, join_type, join_id: 0 })
    }

    /// Returns whether the world is stopped for this collection. False if the stop began before the trace joined the world.
    fn is_stopped_for(&self, world: usize, collection: u32) -> bool {
        self.worlds[world].collection.stopped_for == collection
    }

    /// Returns whether this collection has started.
    fn is_collecting(&self, world: usize, collection: u32) -> bool {
        self.is_stopped_for(world, collection) && self.worlds[world].collection.number == collection
    }

    /// Stores a figure of this collection, if the collection has started.
    fn note(&mut self, world: usize, collection: u32, note: impl FnOnce(&mut Collection)) -> io::Result<()> {
        if self.is_collecting(world, collection) {
            note(&mut self.worlds[world].collection);
        }
        Ok(())
    }

    fn started(&mut self, record: &Recorded, world: usize, of: payload::GcStart) -> io::Result<()> {
        let reason = reason(of.reason);
        self.net(record, &GCTriggered { reason })?;
        let start = GCStart {
            count: of.number,
            depth: CONDEMNED,
            reason,
            kind: CollectionType::NonConcurrentGC,
            client_sequence_number: 0,
        };
        let at = self.event_writer.write(&start, record.ticks, record.thread)?;
        let collection = &mut self.worlds[world].collection;
        (collection.number, collection.reason, collection.started_at) = (of.number, reason, at);
        Ok(())
    }

    /// Writes that roots of this kind were marked. All roots are marked in one phase, so the number of bytes is not known (0).
    fn marked(&mut self, record: &Recorded, kind: MarkRoot) -> io::Result<()> {
        self.net(record, &GCMarkWithType { heap_num: 0, kind, promoted: 0 })
    }

    fn publish_progress(&self) {
        self.shared_state.progress.publish(self.event_writer.sequencer.count, self.event_writer.sequencer.written());
    }
}

/// Returns the event about allocations of this many bytes in a space, with the last object: the address and the name of its type, its own
/// address, and its size.
fn allocation<'a>(
    bytes: u64,
    space: u32,
    (type_addr, type_name): (usize, &'a str),
    (address, object_bytes): (usize, usize),
) -> GCAllocationTick<'a> {
    GCAllocationTick {
        amount: u32::try_from(bytes).unwrap_or(u32::MAX),
        kind: match space {
            1 => AllocationKind::Pinned,
            2 => AllocationKind::Large,
            _ => AllocationKind::Small,
        },
        amount64: bytes,
        type_id: type_addr as u64,
        type_name: Text::cut(type_name, MOST_NAME),
        heap_index: 0,
        address: address as u64,
        object_size: object_bytes as u64,
    }
}

impl Consumer for Writer {
    #[inline]
    fn record(&mut self, record: &Recorded) -> io::Result<()> {
        self.event_writer.sequencer.count_record();
        let number = usize::from(record.world.0) % MAX_WORLDS;
        self.event_writer.world = self.worlds[number].ordinal;
        if !self.worlds[number].introduced {
            self.introduce_world(record, number)?;
        }
        if self.own.contains(record.id) {
            match record.id {
                // The roots before it are on another stack.
                EventId::DumpStack => self.dumped(|dump, event_writer| dump.end_stack(event_writer, record))?,
                // The thread may have the kernel id of an earlier one.
                EventId::ThreadAttached => self.name_threads(record.ticks)?,
                _ => {}
            }
            self.own(record)?;
        }
        self.write_record(record, number)
    }

    fn lost(&mut self, lost: &Lost) -> io::Result<()> {
        self.event_writer.sequencer.lose(lost.thread, lost.count)
    }

    fn drained(&mut self, now: &Relation) -> io::Result<()> {
        self.reached = self.reached.max(now.ticks);
        Ok(())
    }

    /// `.event.crash`: after each flush, the file is a complete trace with its end tag.
    fn flush(&mut self) -> io::Result<()> {
        self.name_threads(self.reached)?;
        let flushed = self.event_writer.sequencer.flush(self.reached, false);
        self.publish_progress();
        flushed
    }

    fn close(&mut self, now: &Relation) -> io::Result<()> {
        self.close_at(now.ticks)
    }

    fn closed(&mut self) -> io::Result<()> {
        if !self.has_rundown() {
            return Ok(());
        }
        let written = self.write_rundown();
        self.publish_progress();
        written
    }

    fn unwritten(&self) -> u64 {
        self.publish_progress();
        self.event_writer.sequencer.lost()
    }

    fn policy(&self) -> Policy {
        self.policy
    }
}
