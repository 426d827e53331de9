//! The events for a world's objects, references, blocks and names, each tested by itself.

use crate::event_support;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use event_support::{LiveBytes, build, categories, listening, names_emitted, objects, told};
use rstest::rstest;
use stopworld::events::labels::Named;
use stopworld::events::{
    Category, Event, EventId, EventSet, Group, Label, LabelError, Labels, MemorySink, Record, Selection, Sink,
};
use stopworld::untyped::{ObjectPointers, UntypedKind};
use stopworld::{Gc, GcCell, Mutator, Stopper, World, traced};

// ---- Objects -------------------------------------------------------------------------------------------------------

/// Delays the events of some new objects, so that most stops find a thread inside such an event.
#[derive(Debug)]
struct Slow {
    live_bytes: Arc<LiveBytes>,
    /// The number of objects that it delayed.
    objects: AtomicUsize,
}

impl Sink for Slow {
    fn record(&self, record: &Record) {
        if matches!(record.event(), Event::ObjectAllocated(object) if object.addr % 1024 < 32) {
            let begin = Instant::now();
            while begin.elapsed() < Duration::from_micros(50) {
                std::hint::spin_loop();
            }
            self.objects.fetch_add(1, Ordering::Relaxed);
        }
        self.live_bytes.record(record);
    }
}

/// `.event.objects`: the threads do nothing but allocate, and most stops catch one between an object and its event.
#[test]
fn no_object_counts_as_live_before_its_event() {
    let world = build(1, Stopper::Signals);
    let live_bytes = LiveBytes::new();
    let slow = Arc::new(Slow { live_bytes: live_bytes.clone(), objects: AtomicUsize::new(0) });
    world.events().listen(slow.clone(), objects()).unwrap();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for thread in 0..3 {
            let (world, done) = (&world, &done);
            scope.spawn(move || {
                // SAFETY: references are locals here.
                let m = unsafe { world.attach(&format!("t{thread}")) }.unwrap();
                while !done.load(Ordering::Relaxed) {
                    assert!(list(&m, 1_000).is_some());
                    m.alloc_array::<u64>(2_000, |_| 0).unwrap();
                }
            });
        }
        while slow.objects.load(Ordering::Relaxed) < 2_000 || live_bytes.ends.lock().unwrap().len() <= 100 {
            world.collect().unwrap();
        }
        done.store(true, Ordering::Relaxed);
    });
    let ends = live_bytes.ends.lock().unwrap();
    assert!(ends.len() > 100, "{} collections", ends.len());
    let wrong: Vec<_> = ends.iter().filter(|(told, live)| *told != i128::from(*live)).take(10).collect();
    assert_eq!(wrong, [&(0, 0); 0], "live bytes by the events and by the collection, in {} collections", ends.len());
}

/// The listener starts while the thread is making a list of objects, which is then reported from the listener's first collection on.
#[test]
fn a_list_of_objects_that_was_begun_before_the_listener_counts_as_far_as_it_was_reported() {
    let world = World::builder().untyped(ObjectPointers::Bases).heap_limit(256 << 20).build().unwrap();
    let kind = UntypedKind::leaf("listed");
    let done = AtomicBool::new(false);
    let mut wrong = Vec::new();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            // SAFETY: no object is used.
            let m = unsafe { world.attach("lists") }.unwrap();
            while !done.load(Ordering::Relaxed) {
                m.alloc_untyped(16, kind).unwrap();
                m.list_untyped(16, kind, usize::MAX, None);
            }
        });
        for _ in 0..15_000 {
            let live_bytes = LiveBytes::new();
            let listener = world.events().listen(live_bytes.clone(), objects()).unwrap();
            (0..3).for_each(|_| _ = world.collect().unwrap());
            world.events().unlisten(listener).unwrap();
            let ends = live_bytes.ends.lock().unwrap();
            let unreported: Vec<i128> = ends.iter().map(|(told, live)| i128::from(*live) - told).collect();
            if unreported.iter().any(|bytes| *bytes != unreported[0]) {
                wrong.push(unreported);
            }
        }
        done.store(true, Ordering::Relaxed);
    });
    assert!(wrong.is_empty(), "live bytes that no event has reported, in successive collections: {wrong:?}");
}

traced! {
    struct Large {
        next: GcCell<Option<Gc<Large>>>,
        bytes: [u64; 200],
    }
}

/// Objects in every space have these events, each with the object's address and size, and no others.
#[test]
fn each_object_has_one_event_at_its_allocation_and_one_at_its_death() {
    let world = build(1, Stopper::Signals);
    let sink = listening(&world, categories(&[Category::Object]));
    std::thread::scope(|scope| {
        for thread in 0..3 {
            let world = &world;
            scope.spawn(move || {
                // SAFETY: references are local variables here and fields of collected objects.
                let m = unsafe { world.attach(&format!("t{thread}")) }.unwrap();
                let mut kept: Option<Gc<Large>> = None;
                for step in 0..3_000_u64 {
                    let large = Large { next: GcCell::new(kept), bytes: [step; 200] };
                    let large = if step % 3 == 0 { m.alloc_pinned(large) } else { m.alloc(large) }.unwrap();
                    let array = m.alloc_array::<u64>((step as usize * 37) % 6_000, |index| index as u64).unwrap();
                    assert_eq!(array.len(), (step as usize * 37) % 6_000);
                    kept = (step % 50 != 0).then_some(large);
                    if step % 500 == 0 {
                        m.collect().unwrap();
                    }
                }
                assert!(kept.is_none_or(|large| large.bytes[0] > 0));
            });
        }
    });
    world.collect().unwrap();
    let report = world.collect().unwrap();
    let mut living = HashMap::new();
    for record in told(&sink) {
        match record.event() {
            Event::ObjectAllocated(object) => assert_eq!(living.insert(object.addr, object.bytes), None),
            Event::ObjectFreed(object) => assert_eq!(living.remove(&object.addr), Some(object.bytes)),
            _ => {}
        }
    }
    assert_eq!(living.len() as u64, report.live_objects);
    assert_eq!(living.values().sum::<usize>() as u64, report.live.total());
}

// ---- Blocks, roots and references ----------------------------------------------------------------------------------

traced! {
    struct Pair {
        left: GcCell<Option<Gc<Pair>>>,
        right: GcCell<Option<Gc<Pair>>>,
    }
}

fn list(m: &Mutator, length: usize) -> Option<Gc<Pair>> {
    let mut list = None;
    for _ in 0..length {
        list = Some(m.alloc(Pair { left: GcCell::new(list), right: GcCell::new(None) }).unwrap());
    }
    list
}

#[rstest]
#[case::alone(1)]
#[case::together(2)]
fn each_reference_that_the_marker_follows_is_reported_with_its_slot(#[case] markers: usize) {
    const LENGTH: usize = 50_000;
    let world = build(markers, Stopper::Signals);
    // SAFETY: references are locals here.
    let m = unsafe { world.attach("main") }.unwrap();
    let list = list(&m, LENGTH);
    let root = m.root(list.unwrap());
    let sink = listening(&world, categories(&[Category::Ref]));
    m.collect().unwrap();
    let (mut exact, mut from_root) = (HashSet::new(), 0);
    for record in told(&sink) {
        let Event::ReferenceFixed(fixed) = record.event() else { panic!("{:?} is of another category", record.id) };
        match fixed.rank {
            1 if fixed.reference == Gc::addr(list.unwrap()) => from_root += 1,
            1 => {
                // SAFETY: the slot of an exact reference is a word of a live object or of a handle.
                assert_eq!(unsafe { *(fixed.slot_addr as *const usize) }, fixed.reference);
                exact.insert((fixed.slot_addr, fixed.reference));
            }
            rank => assert_eq!(rank, 0),
        }
    }
    let mut at = list;
    while let Some(pair) = at {
        if let Some(next) = pair.left.get() {
            assert!(
                exact.remove(&(std::ptr::from_ref(&pair.left) as usize, Gc::addr(next))),
                "a reference was not reported"
            );
        }
        at = pair.left.get();
    }
    assert_eq!(exact.len(), 0, "references were reported that do not exist");
    assert_eq!(from_root, 1);
    drop(root);
}

/// The second thread gets the record of the first one, and its name can't be stored, because it contains a byte 0.
#[test]
fn no_thread_has_the_name_of_the_previous_one() {
    let world = build(1, Stopper::Signals);
    let mut wants = categories(&[]);
    wants.events = [EventId::DumpStack, EventId::DumpRoot].into_iter().collect();
    let sink = listening(&world, wants);
    let names_in_dump = |thread: &str| {
        // SAFETY: references are locals here.
        let m = unsafe { world.attach(thread) }.unwrap();
        let list = list(&m, 10);
        m.collect().unwrap();
        let label = world.with_threads(|threads| threads[0].label);
        assert_eq!(
            label.and_then(|label| Labels::of_the_process().text(label)),
            Some(thread).filter(|name| *name == "old")
        );
        stopworld::keep_alive(list.unwrap());
        let name = |record: &Record| match record.event() {
            Event::DumpStack(stack) if stack.kind == 0 => Some(Label::from_raw(stack.label)),
            _ => None,
        };
        let labels: Vec<Option<Label>> = told(&sink).iter().filter_map(name).collect();
        labels.iter().map(|label| label.and_then(|label| Labels::of_the_process().text(label))).collect::<Vec<_>>()
    };
    assert_eq!(names_in_dump("old"), [Some("old")]);
    assert_eq!(names_in_dump("a\0b"), [None]);
}

#[test]
fn blocks_are_acquired_before_they_are_released_and_roots_and_refills_are_reported() {
    let world = build(1, Stopper::Signals);
    let sink = listening(&world, categories(&[Category::Seg, Category::Arena]));
    {
        // SAFETY: references are locals here.
        let m = unsafe { world.attach("main") }.unwrap();
        let kept = list(&m, 20_000);
        m.alloc_array::<u64>(100_000, |_| 0).unwrap();
        m.collect().unwrap();
        assert!(kept.is_some());
    }
    // The collecting thread is not the one whose stack had the list.
    std::thread::scope(|scope| scope.spawn(|| world.collect().unwrap()).join().unwrap());
    let mut blocks: HashMap<usize, usize> = HashMap::new();
    let mut counts: HashMap<EventId, usize> = HashMap::new();
    for record in told(&sink) {
        *counts.entry(record.id).or_default() += 1;
        match record.event() {
            Event::BlockAcquired(block) => assert_eq!(blocks.insert(block.addr, block.bytes), None),
            Event::BlockReleased(block) => assert_eq!(blocks.remove(&block.addr), Some(block.bytes)),
            Event::BlockReclaimed(block) => assert!(blocks.contains_key(&block.addr)),
            Event::BlockScanned(block) => assert!(blocks.contains_key(&block.addr) && block.objects > 0),
            Event::AreaScanned(area) => assert!(area.base_addr <= area.limit_addr),
            _ => {}
        }
    }
    assert_eq!(blocks.len(), 0, "no thread is left, so nothing is alive");
    assert!(counts[&EventId::CacheRefilled] >= 20_000 * 24 / (16 << 10));
    assert!(counts[&EventId::BlockScanned] > 20);
    assert!(counts[&EventId::RootScanned] > 1 && counts[&EventId::AreaScanned] > 1, "{counts:?}");
}

#[test]
fn an_allocation_that_fails_is_an_emergency_that_ends() {
    let world = World::builder().heap_limit(1 << 20).build().unwrap();
    let sink =
        listening(&world, Selection::of([EventId::EmergencySet, EventId::AllocationFailed].into_iter().collect()));
    // SAFETY: references are locals here.
    let m = unsafe { world.attach("main") }.unwrap();
    assert!(m.alloc_array::<u64>(1 << 20, |_| 0).is_err());
    let fields: Vec<(EventId, u64)> = told(&sink).iter().map(|record| (record.id, record.fields()[0])).collect();
    let asked = (8 << 20) + 8;
    assert_eq!(fields, [(EventId::EmergencySet, 1), (EventId::AllocationFailed, asked), (EventId::EmergencySet, 0)]);
}

// ---- Worlds and threads --------------------------------------------------------------------------------------------

#[test]
fn a_listener_from_the_beginning_gets_the_world_its_spaces_its_threads_and_its_end() {
    let sink = Arc::new(MemorySink::with_capacity(1 << 10).unwrap());
    let wants = Selection::of(EventSet::group(Group::World));
    let world = World::builder().heap_limit(32 << 20).listen(sink.clone(), wants).build().unwrap();
    std::thread::scope(|scope| {
        // SAFETY: no references.
        let attach = || drop(unsafe { world.attach("a worker") }.unwrap());
        scope.spawn(attach).join().unwrap();
    });
    drop(world);
    let records = told(&sink);
    let ids: Vec<EventId> = records.iter().map(|record| record.id).collect();
    let (created, closed) = ([EventId::PoolCreated; 3], [EventId::PoolClosed; 3]);
    let lives = [EventId::ThreadAttached, EventId::ThreadDetached];
    let expected =
        [&[EventId::WorldCreated, EventId::CommitLimitSet][..], &created, &lives, &closed, &[EventId::WorldClosed]];
    assert_eq!(ids, expected.concat());
    let Event::WorldCreated(world) = records[0].event() else { panic!("{:?}", records[0]) };
    let Event::WorldClosed(gone) = records[records.len() - 1].event() else { panic!("no end") };
    assert_eq!((world.world_addr, world.heap_addr), (gone.world_addr, gone.heap_addr));
    assert_eq!(records[1].fields(), [32 << 20]);
    let pools: HashSet<u64> = records[2..5].iter().map(|record| record.fields()[0]).collect();
    assert_eq!(pools.len(), 3, "each space has an address of its own");
    let Event::ThreadAttached(thread) = records[5].event() else { panic!("{:?}", records[5]) };
    assert_eq!(Labels::of_the_process().text(Label::from_raw(thread.label).unwrap()), Some("a worker"));
}

// ---- Names ---------------------------------------------------------------------------------------------------------

#[test]
fn threads_types_and_data_structures_have_names_when_user_is_on() {
    let world = build(1, Stopper::Signals);
    let sink = listening(&world, categories(&[Category::User]));
    // SAFETY: references are locals here.
    let m = unsafe { world.attach("a thread of this test") }.unwrap();
    let list = list(&m, 10).unwrap();
    m.name_object(list, "the list");
    let label = world.telemetry_intern("mine").unwrap();
    world.telemetry_label(0x1234, label).unwrap();
    assert_eq!(world.telemetry_label(0, label), Err(LabelError::Nowhere));
    assert!(matches!(world.telemetry_intern(&"x".repeat(256)), Err(LabelError::TooLong { bytes: 256 })));
    let names = names_emitted(&sink);
    let has = |name: &str| names.iter().any(|(_, text)| text.ends_with(name));
    assert!(has("a thread of this test") && has("::Pair"), "{names:?}");
    assert!(names.contains(&(Gc::addr(list), "the list")) && names.contains(&(0x1234, "mine")));
}

#[test]
fn names_given_while_user_was_off_are_emitted_to_later_listeners() {
    let world = build(1, Stopper::Signals);
    // SAFETY: no references.
    let m = unsafe { world.attach("an early thread") }.unwrap();
    let label = world.telemetry_intern("an early label").unwrap();
    world.telemetry_label(0x9876_5432, label).unwrap();
    let labels = Labels::of_the_process();
    let named: Vec<Named> = labels.iter().collect();
    assert!(named.contains(&Named::Text { label, text: "an early label" }));
    assert!(named.contains(&Named::Address { address: 0x9876_5432, label }));
    for name in ["an early thread", "small objects", "pinned objects", "large objects", "world"] {
        let is_named =
            |named: &Named| matches!(named, Named::Address { label, .. } if labels.text(*label) == Some(name));
        assert!(named.iter().any(is_named), "{name}");
    }
    drop(m);
}
