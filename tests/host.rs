//! A host receives events one after the other, on a thread on which it may call any function.

mod patience;

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, mpsc};
use std::time::{Duration, Instant};

use patience::Watchdog;
use stopworld::events::host::{Host, HostConnection, HostError, HostOptions, Stamp};
use stopworld::events::{
    Categories, Category, EventId, Events, Keywords, Level, NullSink, Provider, Selection, Statistics, templates,
};
use stopworld::{BuildError, Described, DescribedType, Gc, Layout, Mutator, Paranoid, World};

const LONG: Duration = Duration::from_secs(120);
/// A time limit far longer than a whole test takes.
const WHOLE: Duration = Duration::from_secs(300);
/// A host that is only slow, on a busy machine, loses nothing.
const PATIENT: HostOptions = HostOptions { queue_bytes: 4 << 20, patience: WHOLE };

/// A host that records the events that it receives.
#[derive(Default)]
struct StoringHost {
    got: Mutex<Vec<(EventId, Vec<u8>, Stamp)>>,
    lost: AtomicU64,
}

impl StoringHost {
    fn ids(&self) -> Vec<EventId> {
        self.got.lock().unwrap().iter().map(|(id, ..)| *id).collect()
    }
}

impl Host for StoringHost {
    fn fire_event(&self, _: u32, _: &[u8]) {
        unreachable!("the host uses the variant with the stamp")
    }

    fn fire_stamped_event(&self, event_id: u32, payload: &[u8], stamp: &Stamp) {
        let id = EventId::try_from(event_id).unwrap();
        self.got.lock().unwrap().push((id, payload.to_vec(), *stamp));
    }

    fn events_lost(&self, count: u64) {
        self.lost.fetch_add(count, Ordering::Relaxed);
    }
}

/// A host that is a function.
struct Calls<F>(F);

impl<F: Fn(u32, &[u8]) + Send + Sync + 'static> Host for Calls<F> {
    fn fire_event(&self, event_id: u32, payload: &[u8]) {
        (self.0)(event_id, payload);
    }
}

fn gc() -> Selection {
    Selection::provider(Provider::Default, Keywords::GC, Level::Informational)
}

#[test]
fn a_host_gets_the_events_of_collections_in_order_with_the_payloads_of_the_table() {
    let world = World::builder().build().unwrap();
    let keeper = Arc::new(StoringHost::default());
    let host = world.events().serve(keeper.clone(), gc(), PATIENT).unwrap();
    // SAFETY: this thread keeps no reference.
    let m = unsafe { world.attach("main") }.unwrap();
    let reports: Vec<_> = (0..3).map(|_| m.collect().unwrap()).collect();
    host.flush(LONG).unwrap();

    let got = keeper.got.lock().unwrap();
    assert!(got.windows(2).all(|pair| pair[0].2.ns <= pair[1].2.ns), "events must be in time order");
    let number = |(id, payload, stamp): &(EventId, Vec<u8>, Stamp)| match id {
        EventId::GcStart => Some(("start", templates::GcStart::at(payload, stamp.version).number().unwrap())),
        EventId::GcEnd => Some(("end", templates::GcEnd::at(payload, stamp.version).number().unwrap())),
        _ => None,
    };
    let numbers: Vec<_> = got.iter().filter_map(number).collect();
    let expected = reports.iter().flat_map(|report| [("start", report.number), ("end", report.number)]);
    assert_eq!(numbers, expected.collect::<Vec<_>>());
    for (id, payload, stamp) in &*got {
        assert_eq!(payload.len(), id.descriptor().payload_bytes(stamp.version), "{id:?} is compact and whole");
        assert!(gc().selects(*id), "{id:?} was not asked for");
    }
    drop(got);
    let totals = host.end(world.events(), LONG).unwrap();
    assert_eq!((totals.delivered, totals.lost), (totals.taken, 0));
    assert_eq!(keeper.ids().len() as u64, totals.delivered);
}

/// A host and a listener registered before the first event both get the creation event. If a registration fails, the world is not built.
#[test]
fn a_host_that_is_served_before_the_first_event_gets_the_worlds_creation() {
    let (keeper, heard) = (Arc::new(StoringHost::default()), Arc::new(Statistics::new()));
    let arena = || Selection::categories(Categories::of(&[Category::Arena]));
    let connection: Arc<OnceLock<HostConnection>> = Arc::default();
    let (host, place) = (keeper.clone(), connection.clone());
    let world = World::builder()
        .listen(heard.clone(), arena())
        .before_first_event(move |world| {
            place.set(world.events().serve(host, arena(), HostOptions::default())?).unwrap();
            Ok(())
        })
        .build()
        .unwrap();
    connection.get().unwrap().flush(LONG).unwrap();
    assert_eq!(keeper.ids().first(), Some(&EventId::WorldCreated));
    assert_eq!(keeper.ids().len() as u64, EventId::all().map(|id| heard.count(id)).sum::<u64>());
    connection.get().unwrap().end(world.events(), LONG).unwrap();

    let refused = World::builder()
        .before_first_event(|world| {
            let listen = || world.events().listen(Arc::new(NullSink), Selection::nothing());
            while listen().is_ok() {}
            listen()?;
            Ok(())
        })
        .build();
    assert!(matches!(refused, Err(BuildError::Listen(_))), "{refused:?}");
}

#[test]
fn a_host_switches_keywords_levels_and_categories_and_gets_nothing_of_what_is_off() {
    let world = World::builder().build().unwrap();
    let events = world.events();
    let keeper = Arc::new(StoringHost::default());
    let host = events.serve(keeper.clone(), Selection::nothing(), HostOptions::default()).unwrap();
    let provider = Provider::Default;
    let after_a_collection = || {
        keeper.got.lock().unwrap().clear();
        world.collect().unwrap();
        host.flush(LONG).unwrap();
        keeper.ids()
    };
    assert_eq!(after_a_collection(), []);
    host.set_event_keyword_state(events, provider, Keywords::GC, true).unwrap();
    assert_eq!(after_a_collection(), [], "a keyword without a level selects nothing");
    host.set_event_level_state(events, provider, Level::Informational, true).unwrap();
    assert!(after_a_collection().contains(&EventId::GcStart));
    host.set_event_level_state(events, provider, Level::Informational, false).unwrap();
    assert_eq!(after_a_collection(), []);
    host.set_event_level_state(events, provider, Level::Informational, true).unwrap();
    host.set_event_keyword_state(events, provider, Keywords::GC, false).unwrap();
    assert_eq!(after_a_collection(), []);
    let trace = Categories::of(&[Category::Trace]);
    assert_eq!(host.telemetry_control(events, trace, trace).unwrap(), Categories::NONE);
    assert!(after_a_collection().contains(&EventId::GcStart));
    assert_eq!(host.telemetry_control(events, trace, Categories::NONE).unwrap(), trace);
    assert_eq!(after_a_collection(), []);
    host.end(events, LONG).unwrap();
    let ended = host.set_event_keyword_state(events, provider, Keywords::GC, true);
    assert!(matches!(ended, Err(HostError::Record(_))), "{ended:?}");
}

/// `.host.own-thread`: a thread that is stopped again and again holds the lock; the host takes the lock for each event, and allocates.
#[test]
fn a_host_may_take_a_lock_whose_holder_is_stopped_and_allocate() {
    let world = World::builder().build().unwrap();
    let lock = Arc::new(Mutex::new(Vec::new()));
    let hosts = Arc::clone(&lock);
    let host = Calls(move |id, payload: &[u8]| hosts.lock().unwrap().push((id, payload.to_vec())));
    let host = world.events().serve(Arc::new(host), Selection::everything(), PATIENT).unwrap();
    let begun = Instant::now();
    let its_lock = Arc::clone(&lock);
    let body = move |m: &Mutator| {
        for round in 0..300_u64 {
            let mut kept = its_lock.lock().unwrap();
            kept.clear();
            for value in 0..100 {
                m.alloc(value + round).unwrap();
            }
        }
    };
    // SAFETY: the body keeps no reference.
    let holder = unsafe { world.spawn("holder", body) }.unwrap();
    while !holder.is_finished() {
        world.collect().unwrap();
    }
    holder.join().unwrap();
    let totals = host.end(world.events(), LONG).unwrap();
    assert_eq!((totals.delivered, totals.lost), (totals.taken, 0));
    assert!(totals.taken > 30_000, "{totals:?}");
    assert!(begun.elapsed() < WHOLE);
}

/// `.host.bounded`, `.host.own-thread`: the thread that fires holds a lock that the host waits for, and the queue is full.
#[test]
fn a_host_that_waits_for_a_firing_thread_loses_events_and_learns_how_many_and_where() {
    const EVENTS_FIRED: u64 = 200_000;
    let world = World::builder().build().unwrap();
    let events = world.events();
    let lock = Arc::new(Mutex::new(()));
    let keeper = Arc::new(StoringHost::default());
    struct Waits(Arc<Mutex<()>>, Arc<StoringHost>);
    impl Host for Waits {
        fn fire_event(&self, _: u32, _: &[u8]) {
            drop(self.0.lock());
        }
        fn fire_stamped_event(&self, event_id: u32, payload: &[u8], stamp: &Stamp) {
            drop(self.0.lock());
            assert!(
                self.1.got.lock().unwrap().len() < 10_000 || self.1.lost.load(Ordering::Relaxed) > 0,
                "a loss must be reported where it happened"
            );
            self.1.fire_stamped_event(event_id, payload, stamp);
        }
        fn events_lost(&self, count: u64) {
            self.1.events_lost(count);
        }
    }
    let options = HostOptions { queue_bytes: 64 << 10, patience: Duration::from_millis(100) };
    let host = Arc::new(Waits(lock.clone(), keeper.clone()));
    let host = events.serve(host, Selection::everything(), options).unwrap();
    let held = lock.lock().unwrap();
    let _watchdog = Watchdog::new("a thread that fires waits for the host", 300, 10);
    let begun = Instant::now();
    for step in 0..EVENTS_FIRED {
        events.fire_object_allocated(step as usize, 32);
    }
    // The result is that of all consumers of the process, and another test has a host that fails.
    let _ = stopworld::events::record::Recorder::of_process().flush();
    assert!(begun.elapsed() < WHOLE, "{:?}", begun.elapsed());
    drop(held);
    host.flush(LONG).unwrap();
    events.fire_gc_end(7);
    let totals = host.end(events, LONG).unwrap();
    assert_eq!(totals.taken, EVENTS_FIRED + 1);
    assert_eq!(totals.taken, totals.delivered + totals.lost);
    assert_eq!(keeper.lost.load(Ordering::Relaxed), totals.lost, "every lost event was reported");
    assert!(totals.lost > 0 && totals.delivered > 1000, "{totals:?}");
    assert_eq!(keeper.ids().last(), Some(&EventId::GcEnd), "the host gets events again");
}

#[test]
fn a_slow_host_loses_nothing() {
    static EVENTS: Events = Events::new();
    let calls = Arc::new(AtomicUsize::new(0));
    let its = Arc::clone(&calls);
    let slow = Calls(move |_, _: &[u8]| {
        if its.fetch_add(1, Ordering::Relaxed).is_multiple_of(1000) {
            std::thread::sleep(Duration::from_millis(1));
        }
    });
    let options = HostOptions { queue_bytes: 16 << 10, ..PATIENT };
    let host = EVENTS.serve(Arc::new(slow), Selection::everything(), options).unwrap();
    for step in 0..100_000 {
        EVENTS.fire_object_allocated(step, 32);
    }
    let totals = host.end(&EVENTS, LONG).unwrap();
    assert_eq!((totals.taken, totals.delivered, totals.lost), (100_000, 100_000, 0));
    assert_eq!(calls.load(Ordering::Relaxed), 100_000);
}

#[test]
fn a_host_that_panics_gets_no_more_and_the_program_goes_on() {
    let world = World::builder().build().unwrap();
    let host = Calls(|_, _: &[u8]| panic!("on purpose"));
    let host = world.events().serve(Arc::new(host), gc(), HostOptions::default()).unwrap();
    world.collect().unwrap();
    assert!(matches!(host.flush(LONG), Err(HostError::Panicked)));
    world.collect().unwrap();
    let totals = host.end(world.events(), LONG).unwrap();
    assert_eq!((totals.delivered, totals.lost), (0, totals.taken));
    assert!(totals.taken > 0);
}

#[test]
fn inside_fire_event_a_host_may_switch_and_end_but_not_flush() {
    let world = World::builder().build().unwrap();
    let connection: Arc<OnceLock<HostConnection>> = Arc::default();
    let (said, says) = mpsc::channel();
    let (its_world, its_connection) = (world.clone(), Arc::clone(&connection));
    let host = Calls(move |id, _: &[u8]| {
        let (events, host) = (its_world.events(), its_connection.wait());
        let flushed = matches!(host.flush(LONG), Err(HostError::InFireEvent));
        let switched = host.set_event_keyword_state(events, Provider::Default, Keywords::GC_HANDLE, true).is_ok();
        let ended = id != EventId::GcEnd as u32 || host.end(events, LONG).is_ok();
        let _ = said.send((id, flushed, switched, ended));
    });
    let host = world.events().serve(Arc::new(host), gc(), HostOptions::default()).unwrap();
    connection.set(host.clone()).unwrap();
    world.collect().unwrap();
    loop {
        let (id, flushed, switched, ended) = says.recv_timeout(LONG).unwrap();
        assert!(flushed && switched && ended, "event {id}");
        if id == EventId::GcEnd as u32 {
            break;
        }
    }
    assert!(host.flush(LONG).is_err(), "a host that has ended must refuse a flush");
}

#[test]
fn a_world_that_is_dropped_has_delivered_everything_to_its_host() {
    let keeper = Arc::new(StoringHost::default());
    let world = World::builder().build().unwrap();
    let wants = [EventId::WorldClosed, EventId::GcEnd].into_iter().collect();
    world.events().serve(keeper.clone(), Selection::of(wants), HostOptions::default()).unwrap();
    world.collect().unwrap();
    drop(world);
    let begun = Instant::now();
    while keeper.ids() != [EventId::GcEnd, EventId::WorldClosed] {
        assert!(begun.elapsed() < LONG, "{:?}", keeper.ids());
        std::thread::sleep(Duration::from_millis(1));
    }
    // The thread drops the host when it ends.
    while Arc::strong_count(&keeper) > 1 {
        assert!(begun.elapsed() < LONG);
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn objects_of_described_types_are_traced_as_described_and_nowhere_else() {
    let world = World::builder().paranoid(Paranoid::On).build().unwrap();
    let references = DescribedType::layout(&[0b10]).unwrap();
    let node = DescribedType::new("node", 24, references).unwrap();
    let element = DescribedType::new("element", 16, Layout::WORD).unwrap();
    let body = move |m: &Mutator| {
        let mut list = 0;
        for value in 0..1000_usize {
            let new = m.alloc_described(node).unwrap();
            let garbage = m.alloc_bytes(40).unwrap();
            // SAFETY: three words, of which only the second is traced; no other thread knows the object.
            unsafe {
                let words = Gc::as_ptr(new).cast::<usize>().cast_mut();
                words.write(value);
                words.add(1).write(list);
                words.add(2).write(Gc::addr(garbage));
            }
            list = Gc::addr(new);
        }
        let array = m.alloc_described_array(element, 5000).unwrap();
        for index in 0..5000 {
            let leaf = m.alloc_bytes(8).unwrap();
            // SAFETY: a length, then pairs of words of which the first is traced.
            unsafe { Gc::as_ptr(array).cast::<usize>().cast_mut().add(1 + 2 * index).write(Gc::addr(leaf)) };
        }
        // SAFETY: the array's first word.
        assert_eq!(unsafe { Gc::as_ptr(array).cast::<usize>().read() }, 5000);
        // SAFETY: the node that was made last.
        let (list, array) = (m.root(unsafe { Gc::<Described>::from_addr(list) }), m.root(array));
        (list, array)
    };
    // SAFETY: references are on the stack and in objects. The thread has ended before they are counted.
    let roots = unsafe { world.spawn("builder", body) }.unwrap().join().unwrap();
    let live = world.collect().unwrap().live_objects;
    assert!((6001..6010).contains(&live), "{live} objects");
    drop(roots);
    let live = world.collect().unwrap().live_objects;
    assert!(live < 10, "{live} objects");
    assert!(DescribedType::new("short", 8, references).is_err());
    assert!(DescribedType::layout(&[0, 0, 0, 0, 1]).is_err());
}
