//! Translates events to .NET events, and to own events under the provider `stopworld`.
//!
//! **Order.** Events are strictly in the order of time. If a thread was frozen in the middle of firing, its record comes late and gets
//! the time at which it arrives, because every event promises that no older one follows. The events of a collection have the thread
//! that fired them, the one that stopped the world. The end of a collection is at least one tick after its start, because some
//! readers ignore a collection without duration.
//!
//! **What comes first**: the process, its version and its settings, at the beginning of the trace; the settings of a world, before
//! its first event.
//!
//! **The selection** is computed once for each kind of event ([`Providers`](super::Providers)). One event may become several .NET
//! events of which only some are selected.
//!
//! The writer runs in the drain (the step in which the rings are emptied), so it does not allocate, takes no lock, and writes only to
//! memory allocated in advance.

use std::io;
use std::sync::Arc;

use super::board::Board;
use super::collection::{CONDEMNED, Collection, Spaces, reason};
use super::dump::Dump;
use super::encoder::{Encoder, Head, MOST_PAYLOAD};
use super::output::Outlet;
use super::pen::Pen;
use super::providers::Providers;
use super::schema::{Kind, Net, Type, type_of};
use super::types::Names;
use super::{Container, process};
use stopworld::events::clock::Relation;
use stopworld::events::record::{Consumer, Lost, MAX_WORLDS, Policy, Recorded, RecordingThread};
use stopworld::events::table::MAX_PAYLOAD_BYTES;
use stopworld::events::{EventId, EventSet, Label, Labels};
use trace_io::bytes::Bytes;

/// Names and texts are cut to this many UTF-16 units.
const MOST_NAME: usize = 1_000;
/// The reason of a suspension: a collection.
const FOR_GC: u32 = 1;
/// The kind of a handle that keeps its object alive.
const STRONG: u32 = 2;

/// The kinds of roots in GCMarkWithType.
const MARKED_FROM_STACKS: u32 = 0;
const MARKED_FROM_FINALIZERS: u32 = 1;
const MARKED_FROM_HANDLES: u32 = 2;
const MARKED_FROM_NEW_FINALIZERS: u32 = 7;

#[derive(Clone, Debug, Default)]
struct World {
    met: bool,
    /// Its position among the worlds of the trace, in the order of their first records.
    ordinal: u16,
    collection: Collection,
}

/// Writes a trace.
#[derive(Debug)]
pub(super) struct Writer {
    pen: Pen,
    own: EventSet,
    board: Arc<Board>,
    policy: Policy,
    worlds: Box<[World]>,
    /// Number of worlds in the trace so far.
    met: u16,
    names: Names,
    dump: Option<Dump>,
    /// The latest time seen, in ticks.
    reached: u64,
    rundown: bool,
    opener: RecordingThread,
}

/// The settings of a writer.
#[derive(Debug)]
pub(super) struct Plan<'a> {
    pub(super) container: Container,
    pub(super) providers: &'a Providers,
    pub(super) policy: Policy,
    pub(super) head: Head,
    /// The thread that started the trace.
    pub(super) opener: RecordingThread,
}

impl Writer {
    /// Allocates everything that it will need, so it must not run in a drain.
    pub(super) fn new(plan: &Plan<'_>, board: Arc<Board>, outlet: Outlet) -> io::Result<Writer> {
        let mut writer = Writer::without_head(plan, board, outlet)?;
        writer.begin()?;
        Ok(writer)
    }

    /// As [`new`](Self::new), but the caller must [begin](Self::begin) the trace.
    pub(super) fn without_head(plan: &Plan<'_>, board: Arc<Board>, outlet: Outlet) -> io::Result<Writer> {
        let Plan { container, providers, policy, head, opener } = *plan;
        let is_wanted = |net: &&Net| providers.wants(Kind::Net(**net));
        let wanted = Net::ALL.iter().filter(is_wanted).fold(0, |bits, net| bits | 1 << *net as u64);
        let bulk = [Net::BulkType, Net::BulkNode, Net::BulkEdge, Net::BulkRootEdge, Net::BulkRootStaticVar];
        let encoder = Encoder::new(container, head, outlet)?;
        Ok(Writer {
            pen: Pen { encoder, payload: Bytes::with_capacity(MOST_PAYLOAD), wanted, world: 0 },
            own: EventId::all().filter(|id| providers.wants_own(*id)).collect(),
            board,
            policy,
            worlds: vec![World::default(); MAX_WORLDS].into(),
            met: 0,
            names: Names::new(),
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
        self.pen.wanted &= kept;
        self.own = EventId::all().filter(|id| self.own.contains(*id) && wants(Kind::Own(*id))).collect();
    }

    /// Writes an event that does not come from the collector.
    pub(super) fn foreign(
        &mut self,
        number: u32,
        definition: &[u8],
        ticks: u64,
        thread: RecordingThread,
        payload: &[u8],
    ) -> io::Result<()> {
        self.pen.encoder.foreign(number, definition, ticks, thread, payload)
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
            dump.end(&mut self.pen, ticks)?;
        }
        let closed = self.pen.encoder.flush(self.reached, true);
        self.tell_the_board();
        closed
    }

    /// Writes the head of the file, and the events that describe the process.
    pub(super) fn begin(&mut self) -> io::Result<()> {
        self.pen.encoder.begin();
        if !self.rundown {
            return Ok(());
        }
        let (ticks, opener) = (self.reached, self.opener);
        let about = process::About::this_process();
        self.pen.write(Kind::Net(Net::ProcessInfo), ticks, opener, |to| about.process_info(to))?;
        self.pen.write(Kind::Net(Net::RuntimeStart), ticks, opener, |to| about.runtime_start(to))?;
        Ok(())
    }

    /// Introduces a world, before its first event in the trace.
    #[cold]
    fn meet(&mut self, record: &Recorded, number: usize) -> io::Result<()> {
        let world = &mut self.worlds[number];
        (world.met, world.ordinal) = (true, self.met);
        self.pen.world = self.met;
        self.met = self.met.wrapping_add(1);
        if !self.rundown {
            return Ok(());
        }
        let (limit, world) = (self.board.limit(number), self.pen.world);
        self.pen.write(Kind::Net(Net::SettingsRundown), record.ticks, record.thread, |to| {
            process::settings(to, limit, world);
        })?;
        Ok(())
    }

    #[inline(always)]
    fn net(&mut self, net: Net, record: &Recorded, fill: impl FnOnce(&mut Bytes)) -> io::Result<()> {
        let world = self.pen.world;
        self.pen.write(Kind::Net(net), record.ticks, record.thread, |to| {
            fill(to);
            to.u16(world);
        })?;
        Ok(())
    }

    /// Writes an own event.
    fn own(&mut self, record: &Recorded) -> io::Result<()> {
        self.pen.write(Kind::Own(record.id), record.ticks, record.thread, |to| {
            for (field, value) in record.id.descriptor().fields.iter().zip(record.fields()) {
                match type_of(field) {
                    Type::Text => {
                        let text = Label::from_raw(*value).and_then(|label| Labels::of_the_process().text(label));
                        to.utf16(text.unwrap_or_default(), MOST_NAME);
                    }
                    Type::U32 => to.u32(*value as u32),
                    _ => to.u64(*value),
                }
            }
        })?;
        Ok(())
    }

    /// Writes an event without a specific .NET counterpart as a GCDynamicEvent, which takes a name and bytes: the event's name, and
    /// its payload as the event table serializes it.
    #[cold]
    fn dynamic(&mut self, record: &Recorded) -> io::Result<()> {
        let mut buffer = [0; MAX_PAYLOAD_BYTES];
        let event = record.event();
        let data = event.serialize(&mut buffer);
        self.net(Net::Dynamic, record, |to| {
            to.utf16(record.id.descriptor().name, MOST_NAME);
            to.u32(data.len() as u32);
            to.put(data);
        })
    }

    fn dumped(
        &mut self,
        record: &Recorded,
        take: impl FnOnce(&mut Dump, &mut Pen, &Recorded) -> io::Result<()>,
    ) -> io::Result<()> {
        match &mut self.dump {
            Some(dump) => take(dump, &mut self.pen, record),
            None => Ok(()),
        }
    }

    fn told(&mut self, record: &Recorded, number: usize) -> io::Result<()> {
        let [first, second, third] = [record.field::<0>(), record.field::<1>(), record.field::<2>()];
        let [fourth, fifth] = [record.field::<3>(), record.field::<4>()];
        match record.id {
            EventId::SuspendBegin
            | EventId::SuspendEnd
            | EventId::GcStart
            | EventId::RootsBegin
            | EventId::MarkEnd
            | EventId::WeakEnd
            | EventId::SweepBegin
            | EventId::HeapBefore
            | EventId::HeapAfter
            | EventId::SweepEnd
            | EventId::GcEnd
            | EventId::HeapStats
            | EventId::RestartBegin
            | EventId::RestartEnd => self.of_collection(record, number),
            EventId::CollectionDiscarded => {
                self.worlds[number].collection.discarded = true;
                self.dynamic(record)
            }
            EventId::StopAbandoned => {
                self.worlds[number].collection = Collection::default();
                self.dynamic(record)
            }
            EventId::VtableSwapped
            | EventId::AllocationFailed
            | EventId::DebuggerAttached
            | EventId::DebuggerDetached
            | EventId::DebuggerLost => self.dynamic(record),
            EventId::WorldCreated => self.net(Net::Settings, record, |to| {
                to.u64(fourth);
                to.u64(fourth);
                to.u32(0);
            }),
            EventId::WorldClosed => {
                self.worlds[number] = World::default();
                self.board.progress.a_world_ended();
                Ok(())
            }
            EventId::SegmentCreated => self.net(Net::CreateSegment, record, |to| {
                to.u64(first);
                to.u64(second);
                // The type is always 0: all spaces share one reservation.
                to.u32(0);
            }),
            EventId::SegmentFreed => self.net(Net::FreeSegment, record, |to| to.u64(first)),
            EventId::AllocationTick => {
                let sample = (second, third, first / fourth.max(1), first);
                self.allocation_tick(record, [first, second, third, fourth, fifth])?;
                self.sample(Net::SampledLow, record, sample)
            }
            EventId::ObjectSampled => self.sample(Net::SampledHigh, record, (first, second, third, fourth)),
            EventId::FinalizerBegin => self.net(Net::FinalizersBegin, record, |_| {}),
            EventId::FinalizerEnd => self.net(Net::FinalizersEnd, record, |to| to.u32(first as u32)),
            EventId::FinalizeObject => self.net(Net::FinalizeObject, record, |to| {
                to.u64(second);
                to.u64(first);
            }),
            EventId::RootCreated => self.net(Net::SetHandle, record, |to| {
                to.u64(first);
                to.u64(second);
                to.u32(STRONG);
                to.u32(0);
                to.u64(0);
            }),
            EventId::RootDropped => self.net(Net::DestroyHandle, record, |to| to.u64(first)),
            EventId::ObjectPinned => {
                let name = self.names.of(third);
                self.net(Net::PinObject, record, |to| {
                    to.u64(0);
                    to.u64(first);
                    to.u64(second);
                    to.utf16(name, MOST_NAME);
                })
            }
            EventId::MarkerJoined => self.pen_join(record, first as u32, second),
            EventId::DumpNode => self.dumped(record, Dump::node),
            EventId::DumpEdge => self.dumped(record, Dump::edge),
            EventId::DumpRoot => self.dumped(record, Dump::root),
            EventId::DumpEnd => self.dumped(record, |dump, pen, record| dump.end(pen, record.ticks)),
            _ => Ok(()),
        }
    }

    fn allocation_tick(
        &mut self,
        record: &Recorded,
        [bytes, object, of_type, object_bytes, space]: [u64; 5],
    ) -> io::Result<()> {
        // The order of the kinds in .NET is small, large, pinned.
        let kind = [0, 2, 1].get(space as usize).copied().unwrap_or(0);
        let (name, world) = (self.names.of(of_type), self.pen.world);
        self.pen.write(Kind::Net(Net::AllocationTick), record.ticks, record.thread, |to| {
            to.u32(u32::try_from(bytes).unwrap_or(u32::MAX));
            to.u32(kind);
            to.u16(world);
            to.u64(bytes);
            to.u64(of_type);
            to.utf16(name, MOST_NAME);
            to.u32(0);
            to.u64(object);
            to.u64(object_bytes);
        })?;
        Ok(())
    }

    fn sample(
        &mut self,
        net: Net,
        record: &Recorded,
        (object, of_type, objects, bytes): (u64, u64, u64, u64),
    ) -> io::Result<()> {
        self.net(net, record, |to| {
            to.u64(object);
            to.u64(of_type);
            to.u32(objects.max(1) as u32);
            to.u64(bytes);
        })
    }

    /// Writes a GCJoin: a marker leaves the join (restart) when it begins, and enters a join when it has no more work.
    fn pen_join(&mut self, record: &Recorded, marker: u32, moment: u64) -> io::Result<()> {
        const TIME_BEGIN: u32 = 0;
        const TIME_END: u32 = 1;
        const LAST_JOIN: u32 = 0;
        const JOIN: u32 = 1;
        const RESTART: u32 = 2;
        let world = self.pen.world;
        let (time, kind) = match moment {
            0 => (TIME_END, RESTART),
            1 => (TIME_BEGIN, JOIN),
            _ => (TIME_END, LAST_JOIN),
        };
        self.pen.write(Kind::Net(Net::Join), record.ticks, record.thread, |to| {
            to.u32(marker);
            to.u32(time);
            to.u32(kind);
            to.u16(world);
            to.u32(0);
        })?;
        Ok(())
    }

    fn of_collection(&mut self, record: &Recorded, number: usize) -> io::Result<()> {
        let number_of = record.field::<0>() as u32;
        if record.id == EventId::SuspendBegin {
            self.worlds[number].collection = Collection { stopped_for: number_of, ..Collection::default() };
            return self.net(Net::SuspendBegin, record, |to| {
                to.u32(FOR_GC);
                to.u32(number_of.wrapping_sub(1));
            });
        }
        if self.worlds[number].collection.stopped_for != number_of {
            // It began before the trace joined the world.
            return Ok(());
        }
        match record.id {
            EventId::SuspendEnd => self.net(Net::SuspendEnd, record, |_| {}),
            EventId::GcStart => self.started(record, number),
            EventId::RestartBegin => self.net(Net::RestartBegin, record, |_| {}),
            EventId::RestartEnd => {
                self.worlds[number].collection = Collection::default();
                self.net(Net::RestartEnd, record, |_| {})
            }
            _ if self.worlds[number].collection.number == number_of => self.in_collection(record, number),
            _ => Ok(()),
        }
    }

    fn started(&mut self, record: &Recorded, number: usize) -> io::Result<()> {
        let (count, reason, world) = (record.field::<0>() as u32, reason(record.field::<1>()), self.pen.world);
        self.net(Net::Triggered, record, |to| to.u32(reason))?;
        let at = self.pen.write(Kind::Net(Net::Start), record.ticks, record.thread, |to| {
            [count, CONDEMNED, reason, 0].into_iter().for_each(|word| to.u32(word));
            to.u16(world);
            to.u64(0);
        })?;
        let collection = &mut self.worlds[number].collection;
        (collection.number, collection.reason, collection.started_at) = (count, reason, at);
        Ok(())
    }

    fn in_collection(&mut self, record: &Recorded, number: usize) -> io::Result<()> {
        let (ticks, world) = (record.ticks, self.pen.world);
        let collection = &mut self.worlds[number].collection;
        match record.id {
            EventId::RootsBegin => collection.roots_begin = ticks,
            EventId::MarkEnd => {
                collection.mark_end = ticks;
                for from in [MARKED_FROM_STACKS, MARKED_FROM_FINALIZERS, MARKED_FROM_HANDLES] {
                    self.marked(record, from)?;
                }
            }
            EventId::WeakEnd => {
                (collection.weak_end, collection.queued) = (ticks, record.field::<2>());
                if collection.queued > 0 {
                    self.marked(record, MARKED_FROM_NEW_FINALIZERS)?;
                }
            }
            EventId::SweepBegin => collection.sweep_begin = ticks,
            EventId::HeapBefore => {
                let [small, large, pinned] = [record.field::<1>(), record.field::<2>(), record.field::<3>()];
                collection.before = Spaces { small, large, pinned };
                (collection.allocated, collection.budget) = (record.field::<4>(), record.field::<5>());
            }
            EventId::HeapAfter => {
                let [small, large, pinned] = [record.field::<1>(), record.field::<2>(), record.field::<3>()];
                collection.after = Spaces { small, large, pinned };
                (collection.pinned_objects, collection.handles) = (record.field::<4>(), record.field::<5>());
            }
            EventId::SweepEnd => {
                collection.sweep_end = ticks;
                let (of, hz) = (*collection, self.pen.encoder.head().hz);
                let thread = record.thread;
                self.pen
                    .write(Kind::Net(Net::GlobalHeapHistory), ticks, thread, |to| of.global_history(to, world, hz))?;
                self.pen.write(Kind::Net(Net::PerHeapHistory), ticks, thread, |to| of.heap_history(to, world))?;
            }
            EventId::GcEnd => {
                // Readers ignore a collection whose end has the time of its start.
                let at = ticks.max(collection.started_at + 1);
                let count = collection.number;
                self.pen.write(Kind::Net(Net::End), at, record.thread, |to| {
                    to.u32(count);
                    to.u32(CONDEMNED);
                    to.u16(world);
                })?;
            }
            EventId::HeapStats => {
                let of = *collection;
                self.pen.write(Kind::Net(Net::HeapStats), ticks, record.thread, |to| of.heap_stats(to, world))?;
            }
            _ => {}
        }
        Ok(())
    }

    /// Writes that roots of this kind were marked. All roots are marked in one phase, so the number of bytes is not known (0).
    fn marked(&mut self, record: &Recorded, from: u32) -> io::Result<()> {
        let world = self.pen.world;
        self.pen.write(Kind::Net(Net::MarkWithType), record.ticks, record.thread, |to| {
            to.u32(0);
            to.u16(world);
            to.u32(from);
            to.u64(0);
        })?;
        Ok(())
    }

    fn tell_the_board(&self) {
        self.board.progress.is(self.pen.encoder.count, self.pen.encoder.out.written);
    }
}

impl Consumer for Writer {
    #[inline]
    fn record(&mut self, record: &Recorded) -> io::Result<()> {
        self.pen.encoder.count_record();
        let number = usize::from(record.world.0) % MAX_WORLDS;
        self.pen.world = self.worlds[number].ordinal;
        if !self.worlds[number].met {
            self.meet(record, number)?;
        }
        if self.own.contains(record.id) {
            self.own(record)?;
        }
        self.told(record, number)
    }

    fn lost(&mut self, lost: &Lost) -> io::Result<()> {
        self.pen.encoder.lose(lost.thread, lost.count)
    }

    fn drained(&mut self, now: &Relation) -> io::Result<()> {
        self.reached = self.reached.max(now.ticks);
        Ok(())
    }

    /// `.event.crash`: the file is a trace with an end after each flush.
    fn flush(&mut self) -> io::Result<()> {
        let flushed = self.pen.encoder.flush(self.reached, false);
        self.tell_the_board();
        flushed
    }

    fn close(&mut self, now: &Relation) -> io::Result<()> {
        self.close_at(now.ticks)
    }

    fn unwritten(&self) -> u64 {
        self.tell_the_board();
        self.pen.encoder.lost()
    }

    fn policy(&self) -> Policy {
        self.policy
    }
}
