//! The event interface from outside: the table compared with the facts of the three families of tools, firing where nothing else is allowed
//! (`.event.gate`), exact switching (`.event.exact`), and consistent figures.

use crate::event_support;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Barrier};

use ghc_eventlog::events::EventType;
use rstest::rstest;
use stopworld::events::{
    Category, Chain, DESCRIPTORS, Event, EventId, EventSet, Events, Group, Keywords, Level, ListenError, MAX_LISTENERS,
    MemorySink, NullSink, Phase, Provider, Record, Selection, Settled, Sink, Statistics,
};

/// Counts the calls of the allocator in each thread.
struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

// SAFETY: every call is passed unchanged to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.with(|count| count.set(count.get() + 1));
        // SAFETY: the caller's contract, passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, address: *mut u8, layout: Layout) {
        ALLOCATIONS.with(|count| count.set(count.get() + 1));
        // SAFETY: the caller's contract, passed on.
        unsafe { System.dealloc(address, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn now_ns() -> u64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `now` is a valid place for a timespec.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut now) };
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// Fires one event of each kind, each field with its own value: 1, 2, 3 …
fn fire_everything(events: &Events) {
    let mut last = 0;
    event_support::fire_everything(events, || {
        last += 1;
        last
    });
}

fn listening(selection: Selection, capacity: usize) -> (Events, Arc<MemorySink>) {
    let events = Events::new();
    let sink = Arc::new(MemorySink::with_capacity(capacity).unwrap());
    events.listen(sink.clone(), selection).unwrap();
    (events, sink)
}

// ---- The table -----------------------------------------------------------------------------------------------------

/// The .NET runtime's manifest: id, name, newest version, opcode, provider, keyword, level.
const MANIFEST: &[(u16, &str, u8, u8, Provider, u64, Level)] = &[
    (1, "GCStart", 2, 1, Provider::Default, 0x1, Level::Informational),
    (2, "GCEnd", 1, 2, Provider::Default, 0x1, Level::Informational),
    (3, "GCRestartEEEnd", 1, 132, Provider::Default, 0x1, Level::Informational),
    (4, "GCHeapStats", 2, 133, Provider::Default, 0x1, Level::Informational),
    (5, "GCCreateSegment", 1, 134, Provider::Default, 0x1, Level::Informational),
    (6, "GCFreeSegment", 1, 135, Provider::Default, 0x1, Level::Informational),
    (7, "GCRestartEEBegin", 1, 136, Provider::Default, 0x1, Level::Informational),
    (8, "GCSuspendEEEnd", 1, 137, Provider::Default, 0x1, Level::Informational),
    (9, "GCSuspendEEBegin", 1, 10, Provider::Default, 0x1, Level::Informational),
    (10, "GCAllocationTick", 4, 11, Provider::Default, 0x1, Level::Verbose),
    (13, "GCFinalizersEnd", 1, 15, Provider::Default, 0x1, Level::Informational),
    (14, "GCFinalizersBegin", 1, 19, Provider::Default, 0x1, Level::Informational),
    (29, "FinalizeObject", 0, 32, Provider::Default, 0x1, Level::Verbose),
    (30, "SetGCHandle", 0, 33, Provider::Default, 0x2, Level::Informational),
    (31, "DestroyGCHandle", 0, 34, Provider::Default, 0x2, Level::Informational),
    (35, "GCTriggered", 0, 35, Provider::Default, 0x1, Level::Informational),
    (39, "GCDynamicEvent", 0, 41, Provider::Default, 0x1, Level::Informational),
    (202, "GCMarkWithType", 0, 202, Provider::Default, 0x1, Level::Informational),
    (204, "GCPerHeapHistory", 3, 204, Provider::Default, 0x1, Level::Informational),
    (205, "GCGlobalHeapHistory", 4, 205, Provider::Default, 0x1, Level::Informational),
    (20, "GCSampledObjectAllocation", 0, 24, Provider::Default, 0x20_0000, Level::Informational),
    (32, "GCSampledObjectAllocation", 0, 24, Provider::Default, 0x200_0000, Level::Informational),
    (33, "PinObjectAtGCTime", 0, 36, Provider::Default, 0x1, Level::Verbose),
    (203, "GCJoin", 2, 203, Provider::Default, 0x1, Level::Verbose),
    (38, "GCBulkRootStaticVar", 0, 40, Provider::Default, 0x10_0000, Level::Informational),
    (15, "BulkType", 0, 10, Provider::Default, 0x8_0000, Level::Informational),
    (16, "GCBulkRootEdge", 0, 20, Provider::Default, 0x10_0000, Level::Informational),
    (18, "GCBulkNode", 0, 22, Provider::Default, 0x10_0000, Level::Informational),
    (19, "GCBulkEdge", 0, 23, Provider::Default, 0x10_0000, Level::Informational),
    (2, "Settings", 1, 14, Provider::Private, 0x1, Level::Informational),
];

/// MPS event version 2.0.0: code, name, category.
const MPS: &[(u16, &str, Category)] = &[
    (0x06, "ArenaAlloc", Category::Arena),
    (0x07, "ArenaAllocFail", Category::Arena),
    (0x09, "ArenaCreateVM", Category::Arena),
    (0x0A, "ArenaDestroy", Category::Arena),
    (0x0B, "ArenaExtend", Category::Arena),
    (0x0C, "ArenaFree", Category::Arena),
    (0x0D, "ArenaPollBegin", Category::Arena),
    (0x0E, "ArenaPollEnd", Category::Arena),
    (0x0F, "ArenaSetEmergency", Category::Arena),
    (0x14, "BufferFill", Category::Seg),
    (0x1B, "CommitLimitSet", Category::Arena),
    (0x1D, "EventInit", Category::Arena),
    (0x21, "Intern", Category::User),
    (0x22, "Label", Category::User),
    (0x23, "LabelPointer", Category::User),
    (0x25, "MessagesDropped", Category::Arena),
    (0x26, "MessagesExist", Category::Arena),
    (0x2A, "PoolAlloc", Category::Object),
    (0x2B, "PoolFinish", Category::Pool),
    (0x2C, "PoolFree", Category::Object),
    (0x2D, "PoolInit", Category::Pool),
    (0x37, "RootScan", Category::Seg),
    (0x38, "SegAlloc", Category::Seg),
    (0x39, "SegAllocFail", Category::Seg),
    (0x3A, "SegFree", Category::Seg),
    (0x3C, "SegReclaim", Category::Seg),
    (0x3D, "SegScan", Category::Seg),
    (0x42, "TraceBandAdvance", Category::Trace),
    (0x43, "TraceCondemnAll", Category::Trace),
    (0x44, "TraceCreate", Category::Trace),
    (0x46, "TraceDestroy", Category::Trace),
    (0x49, "TraceFix", Category::Ref),
    (0x4B, "TraceFlipBegin", Category::Trace),
    (0x4C, "TraceFlipEnd", Category::Trace),
    (0x4D, "TraceReclaim", Category::Trace),
    (0x4E, "TraceScanArea", Category::Seg),
    (0x51, "TraceStart", Category::Trace),
    (0x59, "VMFinish", Category::Arena),
    (0x5A, "VMInit", Category::Arena),
    (0x5B, "VMMap", Category::Seg),
    (0x5C, "VMUnmap", Category::Seg),
];

#[test]
fn every_net_id_means_what_the_manifest_says_and_nothing_else() {
    let mut versions = HashMap::new();
    for net in DESCRIPTORS.iter().flat_map(|descriptor| descriptor.net) {
        let row = (net.id, net.name, net.version, net.opcode, net.provider, net.keyword.0, net.level);
        assert!(MANIFEST.contains(&row), "not in the manifest: {row:?}");
        assert_eq!(*versions.entry((net.provider, net.id)).or_insert(row), row, "one id with two meanings");
    }
    assert_eq!(versions.len(), MANIFEST.len(), "the manifest here has rows that no event uses");
}

#[test]
fn every_mps_code_has_the_name_and_the_category_of_version_2_0_0() {
    for mps in DESCRIPTORS.iter().flat_map(|descriptor| descriptor.mps) {
        assert!((0x01..=0x5C).contains(&mps.code));
        assert!(MPS.contains(&(mps.code, mps.name, mps.category)), "not an MPS event: {mps:?}");
    }
}

#[test]
fn every_ghc_event_has_the_name_that_the_format_gives_its_number() {
    for ghc in DESCRIPTORS.iter().flat_map(|descriptor| descriptor.ghc) {
        assert_eq!(EventType::of(ghc.tag).map(|known| known.name), Some(ghc.name));
    }
}

#[test]
fn the_table_describes_each_event_once_and_in_its_place() {
    let mut names = HashMap::new();
    let mut bits = HashMap::new();
    for (index, descriptor) in DESCRIPTORS.iter().enumerate() {
        assert_eq!(EventId::from_index(index), Some(descriptor.id));
        assert!(std::ptr::eq(descriptor.id.descriptor(), descriptor));
        assert_eq!(descriptor.name, format!("{:?}", descriptor.id));
        assert_eq!(names.insert(descriptor.fire, descriptor.name), None);
        assert!(descriptor.fire.starts_with("fire_"));
        assert!(descriptor.doc.trim().len() > 10, "{} has no documentation", descriptor.name);
        assert_eq!(descriptor.group, descriptor.id.group());
        assert_eq!(descriptor.id.mask().count_ones(), 1);
        assert_eq!(
            bits.insert((descriptor.group, descriptor.id.mask()), descriptor.id),
            None,
            "two events share a bit"
        );
    }
    assert_eq!(EventId::from_index(EventId::COUNT), None);
    assert_eq!(EventId::all().len(), EventId::COUNT);
}

// ---- Firing --------------------------------------------------------------------------------------------------------

#[test]
fn each_event_arrives_once_with_its_own_fields_thread_and_time() {
    let (events, sink) = listening(Selection::everything(), 256);
    let before = now_ns();
    fire_everything(&events);
    let after = now_ns();
    let records: Vec<Record> = sink.drain().collect();
    assert_eq!(records.len(), EventId::COUNT);
    assert!(records.iter().map(|record| record.id).eq(EventId::all()), "the order of the table");
    let mut seen = EventSet::NONE;
    let mut last = before;
    for record in &records {
        assert!(!seen.contains(record.id), "{:?} was recorded twice", record.id);
        seen.insert(record.id);
        assert!((last..=after).contains(&record.timestamp));
        last = record.timestamp;
        let own = if record.id.group() == Group::Object { 0 } else { nix::unistd::gettid().as_raw() as u32 };
        assert_eq!(record.tid, own);
        assert_eq!(record.fields().len(), record.id.descriptor().fields.len());
    }
    assert_eq!(seen, EventSet::all());

    let fields: Vec<u64> = records.iter().flat_map(|record| record.fields().iter().copied()).collect();
    assert_eq!(fields, (1..=fields.len() as u64).collect::<Vec<_>>(), "a field is in the wrong place");
    let heap = records.iter().find(|record| record.id == EventId::HeapStats).unwrap();
    let first = heap.fields()[0];
    let Event::HeapStats(heap) = heap.event() else { panic!("not its own payload") };
    assert_eq!(u64::from(heap.number), first);
    let bytes = [heap.small_bytes, heap.large_bytes, heap.pinned_bytes, heap.committed_bytes, heap.live_objects];
    assert_eq!(bytes.map(|bytes| bytes as u64), [1, 2, 3, 4, 5].map(|field| first + field));
}

/// `.stop.no-malloc`: the collecting thread fires while another thread may hold malloc's lock.
#[test]
fn firing_never_allocates() {
    let events = Events::new();
    let memory = Arc::new(MemorySink::with_capacity(1024).unwrap());
    let statistics = Arc::new(Statistics::new());
    events.listen(memory.clone(), Selection::everything()).unwrap();
    events.listen(Arc::new(Chain(NullSink, statistics.clone())), Selection::everything()).unwrap();
    // On a new thread, so that lazy initialisation on first use is tested as well.
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            let before = ALLOCATIONS.with(Cell::get);
            (0..1000).for_each(|_| fire_everything(&events));
            assert_eq!(memory.drain().take(100).count(), 100);
            ALLOCATIONS.with(Cell::get) - before
        });
        assert_eq!(thread.join().unwrap(), 0);
    });
    let fired = 1000 * EventId::COUNT as u64;
    assert_eq!(memory.stored() + memory.dropped(), fired);
    assert_eq!(100 + memory.drain().count() as u64 + memory.dropped(), fired);
    assert_eq!(EventId::all().map(|id| statistics.count(id)).sum::<u64>(), fired);
    assert_eq!(statistics.phase(Phase::Pause).count, 1000);
}

static INTERRUPTED: Events = Events::new();
static FROM_HANDLER: AtomicU64 = AtomicU64::new(0);
static ENTERED: AtomicU64 = AtomicU64::new(0);

extern "C" fn fire_in_handler(_: i32) {
    ENTERED.fetch_add(1, Ordering::Relaxed);
    INTERRUPTED.fire_object_freed(1, 2);
    FROM_HANDLER.fetch_add(1, Ordering::Relaxed);
}

/// `.event.no-block-in-handler`: the handler interrupts an event being fired, a read of the ring, and itself.
#[test]
fn a_handler_that_interrupts_a_fire_may_fire() {
    use nix::sys::pthread::{pthread_kill, pthread_self};
    use nix::sys::signal::{SaFlags, SigAction, SigHandler, SigSet, Signal, sigaction};

    let sink = Arc::new(MemorySink::with_capacity(128).unwrap());
    INTERRUPTED.listen(sink.clone(), Selection::everything()).unwrap();
    let action = SigAction::new(SigHandler::Handler(fire_in_handler), SaFlags::SA_NODEFER, SigSet::empty());
    // SAFETY: the handler only fires an event and counts, and both are made for that.
    unsafe { sigaction(Signal::SIGUSR2, &action) }.unwrap();
    let victim = pthread_self();
    let done = AtomicBool::new(false);
    let (mut fired, mut seen) = (0_u64, 0_u64);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for sent in 0..5_000 {
                // Handlers may nest, but must not fill the stack: waits until the last handler has begun, and until only a few handlers are
                // unfinished.
                while ENTERED.load(Ordering::Relaxed) < sent || sent - FROM_HANDLER.load(Ordering::Relaxed) > 8 {
                    std::thread::yield_now();
                }
                pthread_kill(victim, Signal::SIGUSR2).unwrap();
            }
            done.store(true, Ordering::Relaxed);
        });
        while !done.load(Ordering::Relaxed) || fired < 100_000 {
            INTERRUPTED.fire_object_allocated(3, 4);
            fired += 1;
            if fired % 64 == 0 {
                seen += sink.drain().count() as u64;
            }
        }
    });
    seen += sink.drain().count() as u64;
    assert_eq!(FROM_HANDLER.load(Ordering::Relaxed), 5_000);
    assert_eq!(seen + sink.dropped(), fired + FROM_HANDLER.load(Ordering::Relaxed));
}

// ---- Selections ----------------------------------------------------------------------------------------------------

#[test]
fn no_listener_gets_more_than_it_selected_because_of_another() {
    let events = Events::new();
    let ring = || Arc::new(MemorySink::with_capacity(256).unwrap());
    let selections = [
        Selection::provider(Provider::Default, Keywords::GC, Level::Informational),
        Selection::provider(Provider::Default, Keywords::GC_HANDLE, Level::Verbose),
        Selection::of([EventId::GcEnd].into_iter().collect()),
        Selection::nothing(),
    ];
    let sinks = selections.map(|selection| {
        let sink = ring();
        events.listen(sink.clone(), selection).unwrap();
        sink
    });
    fire_everything(&events);
    for (sink, selection) in sinks.iter().zip(selections) {
        let got: EventSet = sink.drain().map(|record| record.id).collect();
        assert_eq!(got, selection.selected());
    }
    assert!(!events.is_enabled(EventId::AllocationTick), "GC is Informational only, Verbose is for handles only");
    assert!(events.is_enabled(EventId::RootCreated));
}

#[rstest]
fn an_event_that_no_listener_selects_makes_no_record(#[values(0, 1, 2)] others: usize) {
    let events = Events::new();
    let everything_but = EventSet::all().without([EventId::GcStart].into_iter().collect());
    for _ in 0..others {
        events.listen(Arc::new(NullSink), Selection::of(everything_but)).unwrap();
    }
    assert!(!events.is_enabled(EventId::GcStart));
    assert_eq!(events.is_enabled(EventId::GcEnd), others > 0);
}

#[test]
fn a_listener_that_has_ended_is_gone_and_its_place_is_free() {
    let events = Events::new();
    let mut last = None;
    for _ in 0..3 * MAX_LISTENERS {
        let sink = Arc::new(Statistics::new());
        let weak = Arc::downgrade(&sink);
        let listener = events.listen(sink, Selection::everything()).unwrap();
        events.fire_gc_end(1);
        assert_eq!(weak.upgrade().unwrap().count(EventId::GcEnd), 1);
        assert_eq!(events.unlisten(listener), Ok(Settled::Quiet));
        assert!(weak.upgrade().is_none(), "the sink is dropped");
        assert!(!events.is_enabled(EventId::GcEnd));
        assert_eq!(events.unlisten(listener), Err(ListenError::Ended));
        assert_ne!(last.replace(listener), Some(listener), "an old id never means a new listener");
    }
    let all: Vec<_> =
        (0..MAX_LISTENERS).map(|_| events.listen(Arc::new(NullSink), Selection::everything()).unwrap()).collect();
    assert_eq!(events.listen(Arc::new(NullSink), Selection::everything()), Err(ListenError::TooMany));
    assert_eq!(events.unlisten(all[3]), Ok(Settled::Quiet));
    assert!(events.listen(Arc::new(NullSink), Selection::everything()).is_ok());
}

/// Blocks inside `record`, like a thread that a debugger froze there.
#[derive(Debug)]
struct Frozen(Barrier, Barrier);

impl Sink for Frozen {
    fn record(&self, _: &Record) {
        self.0.wait();
        self.1.wait();
    }
}

/// `.event.gate`
#[test]
fn a_sink_outlives_the_thread_that_is_frozen_inside_and_no_thread_waits_for_it() {
    let events = Events::new();
    let sink = Arc::new(Frozen(Barrier::new(2), Barrier::new(2)));
    let weak = Arc::downgrade(&sink);
    let listener = events.listen(sink, Selection::everything()).unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| events.fire_gc_end(1));
        weak.upgrade().unwrap().0.wait();
        assert_eq!(events.unlisten(listener), Ok(Settled::Busy(1)));
        events.fire_gc_end(2);
        let held = weak.upgrade().expect("the sink is still in use");
        held.1.wait();
    });
    events.listen(Arc::new(NullSink), Selection::nothing()).unwrap();
    assert!(weak.upgrade().is_none(), "dropped when the next listener was added");
}

/// `.event.exact`
#[test]
fn after_select_has_returned_no_disabled_record_has_a_later_timestamp_and_what_stayed_on_is_complete() {
    const THREADS: usize = 4;
    const FLIPS: usize = 100;
    let events = Events::new();
    let sink = Arc::new(MemorySink::with_capacity(1 << 20).unwrap());
    let kept: EventSet = [EventId::ObjectFreed].into_iter().collect();
    let flipped: EventSet = [EventId::ObjectAllocated, EventId::GcStart].into_iter().collect();
    let listener = events.listen(sink.clone(), Selection::of(kept)).unwrap();
    let done = AtomicBool::new(false);
    let kept_fired = AtomicU64::new(0);
    let rounds = AtomicU64::new(0);
    let mut off: Vec<(u64, u64)> = Vec::new();
    let mut records: Vec<Record> = Vec::new();
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                let mut fired = 0;
                while !done.load(Ordering::Relaxed) {
                    events.fire_object_allocated(1, 2);
                    events.fire_gc_start(3, 4);
                    rounds.fetch_add(1, Ordering::Relaxed);
                    if fired < 20_000 {
                        events.fire_object_freed(5, 6);
                        fired += 1;
                    }
                }
                kept_fired.fetch_add(fired, Ordering::Relaxed);
            });
        }
        let mut since = now_ns();
        for flip in 0..FLIPS {
            std::thread::yield_now();
            off.push((since, now_ns()));
            events.select(listener, Selection::of(kept | flipped)).unwrap();
            // Some of the waits are long enough for a thread to complete a round.
            let before = rounds.load(Ordering::Relaxed);
            while flip % 16 == 0 && rounds.load(Ordering::Relaxed) <= before + THREADS as u64 {
                std::thread::yield_now();
            }
            events.select(listener, Selection::of(kept)).unwrap();
            since = now_ns();
            records.extend(sink.drain());
        }
        done.store(true, Ordering::Relaxed);
    });
    records.extend(sink.drain());
    assert_eq!(sink.dropped(), 0, "the ring is too small for this test");
    assert_eq!(sink.stored(), records.len() as u64);
    let of = |wanted: EventSet| records.iter().filter(move |record| wanted.contains(record.id));
    assert!(of(flipped).count() > 0, "switched on long enough for an event to fire");
    for record in of(flipped) {
        let after = off.partition_point(|(begin, _)| *begin < record.timestamp);
        if let Some((begin, end)) = after.checked_sub(1).map(|index| off[index]) {
            assert!(!(begin < record.timestamp && record.timestamp < end), "{record:?} while off, {begin}..{end}");
        }
    }
    assert_eq!(of(kept).count() as u64, kept_fired.load(Ordering::Relaxed));
    assert!(records.iter().all(|record| match record.id {
        EventId::ObjectAllocated => record.fields() == [1, 2],
        EventId::GcStart => record.fields() == [3, 4],
        EventId::ObjectFreed => record.fields() == [5, 6],
        _ => false,
    }));
}
