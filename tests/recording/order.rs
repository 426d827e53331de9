//! Recording, from outside: order, exact switching (`.event.exact`, `.event.recheck`, `.event.barrier`), consistent figures, handlers
//! (`.event.nested`), the stopped world (`.event.no-block-in-handler`), and ends.

use std::collections::HashMap;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Barrier, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use crate::alone;
use crate::hazard::patience::patience;
use rstest::rstest;
use stopworld::events::clock::Relation;
use stopworld::events::record::{
    Consumer, FlightRecorder, Lost, MAX_CONSUMERS, Policy, RecordError, Recorded, Recorder,
};
use stopworld::events::{Categories, Category, EventId, EventSet, Events, Keywords, Level, MemorySink, Selection};
use stopworld::profile::census::{Breakdown, HeapProfile};
use stopworld::{Description, World, traced};

/// The records that a consumer received.
#[derive(Debug, Default)]
struct Got {
    records: Vec<Recorded>,
    lost: u64,
    flushes: u64,
    closed: bool,
}

/// Keeps everything. (It allocates. A consumer may do that only if no drain happens in the stopped world, as in these tests.)
#[derive(Clone, Debug, Default)]
struct StoringConsumer(Arc<Mutex<Got>>);

impl StoringConsumer {
    fn got(&self) -> MutexGuard<'_, Got> {
        self.0.lock().unwrap()
    }

    fn take(&self) -> Vec<Recorded> {
        std::mem::take(&mut self.got().records)
    }
}

impl Consumer for StoringConsumer {
    fn record(&mut self, record: &Recorded) -> io::Result<()> {
        self.got().records.push(*record);
        Ok(())
    }

    fn lost(&mut self, lost: &Lost) -> io::Result<()> {
        self.got().lost += lost.count;
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.got().flushes += 1;
        Ok(())
    }

    fn close(&mut self, _: &Relation) -> io::Result<()> {
        self.got().closed = true;
        Ok(())
    }
}

fn set(events: impl IntoIterator<Item = EventId>) -> EventSet {
    events.into_iter().collect()
}

fn now() -> u64 {
    Recorder::of_process().clock().now()
}

fn is_in_order(records: &[Recorded]) -> bool {
    records.is_sorted_by_key(|record| record.ticks)
}

#[test]
fn a_record_arrives_with_its_fields_thread_world_and_time() {
    let _alone = alone();
    let events = Events::new();
    let keeper = StoringConsumer::default();
    let consumer = events.record_to(Box::new(keeper.clone()), Selection::everything()).unwrap();
    let before = now();
    events.fire_world_created(1, 2, 3, 4, 5);
    events.fire_object_allocated(31, 32);
    events.fire_heap_stats(1, 14, 15, 16, 17, 18);
    let after = now();
    Recorder::of_process().flush().unwrap();
    let got = keeper.take();
    assert_eq!(got.len(), 3);
    assert!(got.iter().all(|record| (before..=after).contains(&record.ticks)));
    assert!(got.iter().all(|record| record.thread.tid == nix::unistd::gettid().as_raw() as u32));
    assert!(got.iter().all(|record| (record.thread, record.world) == (got[0].thread, got[0].world)));
    assert_eq!(got[0].fields(), [1, 2, 3, 4, 5]);
    assert_eq!((got[1].id, got[1].fields()), (EventId::ObjectAllocated, &[31, 32][..]));
    assert_eq!(got[2].fields(), [1, 14, 15, 16, 17, 18]);
    assert!(keeper.got().flushes > 0);
    let ended = events.end_recording(consumer).unwrap();
    assert_eq!((ended.totals.fired, ended.totals.written), (3, 3));
    assert!(keeper.got().closed && ended.error.is_none());
    assert!(!events.is_enabled(EventId::ObjectAllocated));
    assert!(matches!(events.end_recording(consumer), Err(RecordError::Ended)));
}

/// The records of each thread arrive in the order in which it fired them, the records of all threads in time order; none is missing.
#[rstest]
#[case::one(1, 200_000)]
#[case::eight(8, 50_000)]
#[case::forty(40, 4_000)]
fn all_threads_records_arrive_in_time_order_and_none_is_lost(#[case] threads: u64, #[case] each: u64) {
    let _alone = alone();
    let events = Events::new();
    let keeper = StoringConsumer::default();
    let consumer = events.record_to(Box::new(keeper.clone()), Selection::everything()).unwrap();
    std::thread::scope(|scope| {
        for thread in 0..threads {
            let events = &events;
            scope.spawn(move || {
                for number in 0..each {
                    match number % 3 {
                        0 => events.fire_object_allocated(thread as usize, number as usize),
                        1 => events.fire_heap_stats(thread as u32, number as usize, 1, 2, 3, 4),
                        _ => events.fire_allocation_tick(thread as usize, number as usize, 5, 6, 7),
                    }
                }
            });
        }
    });
    let ended = events.end_recording(consumer).unwrap();
    let got = keeper.take();
    assert_eq!(got.len() as u64, threads * each);
    assert_eq!((ended.totals.fired, ended.totals.written, ended.totals.dropped), (threads * each, threads * each, 0));
    assert!(is_in_order(&got));
    let mut next: HashMap<u64, (u64, u32)> = HashMap::new();
    for record in &got {
        let (number, index) = next.entry(record.fields()[0]).or_insert((0, record.thread.index));
        assert_eq!((record.fields()[1], record.thread.index), (*number, *index));
        *number += 1;
    }
    let indices: std::collections::HashSet<u32> = next.values().map(|(_, index)| *index).collect();
    assert_eq!(indices.len() as u64, threads, "each thread has an index of its own");
}

#[test]
fn no_consumer_gets_more_than_it_selected_and_listeners_are_called_at_once() {
    let _alone = alone();
    let events = Events::new();
    let sink = Arc::new(MemorySink::with_capacity(16).unwrap());
    events.listen(sink.clone(), Selection::of(set([EventId::GcStart]))).unwrap();
    let (all, some) = (StoringConsumer::default(), StoringConsumer::default());
    let first = events.record_to(Box::new(all.clone()), Selection::everything()).unwrap();
    let second = events.record_to(Box::new(some.clone()), Selection::of(set([EventId::GcEnd]))).unwrap();
    events.fire_gc_start(1, 2);
    events.fire_gc_end(3);
    assert_eq!(sink.stored(), 1);
    Recorder::of_process().flush().unwrap();
    assert_eq!(all.take().len(), 2);
    assert_eq!(some.take().iter().map(|record| record.id).collect::<Vec<_>>(), [EventId::GcEnd]);
    let ended = events.end_recording(first).unwrap();
    assert_eq!(ended.totals.written, 2);
    assert!(events.is_enabled(EventId::GcStart) && events.is_enabled(EventId::GcEnd));
    assert!(!events.is_enabled(EventId::ObjectAllocated), "only the two remaining consumers count");
    assert_eq!(events.end_recording(second).unwrap().totals.fired, 1);
    assert!(events.is_enabled(EventId::GcStart) && !events.is_enabled(EventId::GcEnd));
}

#[test]
fn one_consumer_takes_the_events_of_several_worlds_and_each_record_names_its_world() {
    let _alone = alone();
    let worlds = [const { Events::new() }; 3];
    let keeper = StoringConsumer::default();
    let consumer = worlds[0].record_to(Box::new(keeper.clone()), Selection::everything()).unwrap();
    for world in &worlds[1..] {
        assert!(matches!(world.recorded_selection(consumer), Err(RecordError::Ended)));
        world.record_also_to(consumer, Selection::everything()).unwrap();
    }
    for number in 0..300_u32 {
        worlds[number as usize % 3].fire_gc_end(number);
    }
    Recorder::of_process().flush().unwrap();
    let got = keeper.take();
    assert_eq!(got.len(), 300);
    assert!(got.iter().enumerate().all(|(index, record)| record.world == got[index % 3].world));
    assert_ne!(got[0].world, got[1].world);
    let [first, second, third] = worlds;
    drop(first);
    third.fire_gc_end(7);
    drop(second);
    drop(third);
    assert_eq!(keeper.take().len(), 1, "the last world's event precedes its end");
    assert!(keeper.got().closed, "a consumer of no world is closed");
}

#[test]
fn places_are_limited_and_free_again() {
    let _alone = alone();
    let events = Events::new();
    let record = || events.record_to(Box::new(StoringConsumer::default()), Selection::nothing());
    let all: Vec<_> = (0..MAX_CONSUMERS).map(|_| record().unwrap()).collect();
    assert!(matches!(record(), Err(RecordError::TooManyConsumers)));
    for consumer in all {
        events.end_recording(consumer).unwrap();
    }
    let again = record().unwrap();
    events.end_recording(again).unwrap();
}

/// `.event.exact`, `.event.recheck`, `.event.barrier`: levels, keywords and categories are switched at full speed while eight threads fire.
#[test]
fn after_a_change_no_disabled_record_is_later_and_what_stayed_on_is_complete() {
    const THREADS: usize = 8;
    const FLIPS: usize = 1200;
    let _alone = alone();
    let events = Events::new();
    let keeper = StoringConsumer::default();
    let kept = set([EventId::ObjectFreed]);
    let consumer = events.record_to(Box::new(keeper.clone()), Selection::of(kept)).unwrap();
    let done = AtomicBool::new(false);
    let kept_fired = AtomicU64::new(0);
    // (event, off since, on from): no record of the event may have a time in between.
    let mut off: HashMap<EventId, Vec<(u64, u64)>> = HashMap::new();
    let fired_before = Recorder::of_process().totals();
    std::thread::scope(|scope| {
        for thread in 0..THREADS as u64 {
            let (events, done, kept_fired) = (&events, &done, &kept_fired);
            scope.spawn(move || {
                let mut number = 0;
                let mut rounds = 0;
                while !done.load(Ordering::Relaxed) {
                    // Every record is kept; a machine that takes minutes to switch must not fire for ever.
                    rounds += 1;
                    if rounds > 100_000 {
                        std::thread::sleep(Duration::from_micros(100));
                    }
                    events.fire_object_allocated(thread as usize, !thread as usize);
                    events.fire_gc_start(thread as u32, !thread as u32);
                    events.fire_allocation_tick(thread as usize, !thread as usize, thread as usize, 0, 0);
                    if number < 20_000 {
                        events.fire_object_freed(thread as usize, number as usize);
                        number += 1;
                    }
                }
                kept_fired.fetch_add(number, Ordering::Relaxed);
            });
        }
        let mut state: HashMap<EventId, u64> = HashMap::new();
        let flipped = [EventId::ObjectAllocated, EventId::GcStart, EventId::AllocationTick];
        let start = now();
        state.extend(flipped.map(|id| (id, start)));
        for flip in 0..FLIPS {
            let before = now();
            events
                .change_recorded(consumer, |selection| match flip % 6 {
                    0 => selection.default_provider.set(Keywords::GC, Some(Level::Informational)),
                    1 => selection.categories = Categories::of(&[Category::Object]),
                    2 => selection.default_provider.enable_level(Level::Verbose),
                    3 => selection.default_provider.disable_keyword(Keywords::GC),
                    4 => drop(selection.categories.control(Categories::ALL, Categories::NONE)),
                    _ => selection.default_provider = Default::default(),
                })
                .unwrap();
            let after = now();
            let selected = events.recorded_selection(consumer).unwrap().selected();
            for id in flipped {
                // The category also contains the event that stays on.
                match (selected.contains(id), state.get(&id)) {
                    (true, Some(since)) => {
                        off.entry(id).or_default().push((*since, before));
                        state.remove(&id);
                    }
                    (false, None) => {
                        state.insert(id, after);
                    }
                    _ => {}
                }
            }
            if flip % 64 == 0 {
                std::thread::sleep(Duration::from_millis(1));
            }
        }
        done.store(true, Ordering::Relaxed);
    });
    let ended = events.end_recording(consumer).unwrap();
    let totals = Recorder::of_process().totals();
    let records = keeper.take();
    for id in [EventId::ObjectAllocated, EventId::GcStart, EventId::AllocationTick] {
        assert!(records.iter().any(|record| record.id == id), "{id:?} was never on for long enough");
        for record in records.iter().filter(|record| record.id == id) {
            let before = off[&id].partition_point(|(begin, _)| *begin < record.ticks);
            if let Some((begin, end)) = before.checked_sub(1).map(|index| off[&id][index]) {
                assert!(record.ticks >= end, "{record:?} while off, {begin}..{end}");
            }
        }
    }
    let kept: Vec<_> = records.iter().filter(|record| record.id == EventId::ObjectFreed).collect();
    assert_eq!(kept.len() as u64, kept_fired.load(Ordering::Relaxed), "lost one that was on all the time");
    for record in &records {
        let fields = record.fields();
        match record.id {
            EventId::ObjectFreed => assert!(fields[0] < THREADS as u64),
            EventId::GcStart => assert_eq!(fields[1], u64::from(!fields[0] as u32), "torn"),
            _ => assert_eq!(fields[1], !fields[0], "torn"),
        }
    }
    assert_eq!(ended.totals.written, records.len() as u64);
    // Exactly the events that the checks found enabled, counted by the threads that fired them.
    assert_eq!(totals.fired - fired_before.fired, ended.totals.fired + totals.unclaimed - fired_before.unclaimed);
    assert_eq!(totals.unclaimed - fired_before.unclaimed, 0);
    assert_eq!(ended.totals.dropped, 0);
}

/// A consumer that keeps no records, but checks that objects are numbered and in order, and that the handler's records have the fields that
/// it fired.
#[derive(Clone, Debug, Default)]
struct Looker(Arc<Mutex<(u64, u64)>>);

impl Consumer for Looker {
    fn record(&mut self, record: &Recorded) -> io::Result<()> {
        let (objects, handlers) = &mut *self.0.lock().unwrap();
        match record.id {
            EventId::ObjectAllocated if record.fields() == [*objects, !*objects] => *objects += 1,
            EventId::ObjectFreed if record.fields() == [7, 8] => *handlers += 1,
            _ => {
                TORN.store(true, Ordering::Relaxed);
                return Err(io::Error::other(format!("torn, or out of order: {record:?} after {objects}")));
            }
        }
        Ok(())
    }
}

static INTERRUPTED: Events = Events::new();
static FROM_HANDLER: AtomicU64 = AtomicU64::new(0);
/// Set when the test has failed. Continuing with a torn stream would crash, which would hide the reason.
static TORN: AtomicBool = AtomicBool::new(false);

extern "C" fn fire_in_handler(_: i32) {
    INTERRUPTED.fire_object_freed(7, 8);
    FROM_HANDLER.fetch_add(1, Ordering::Relaxed);
}

/// `.event.nested`: the handler interrupts fires at any instruction.
#[test]
fn a_handler_that_interrupts_a_fire_fires_and_nothing_is_torn() {
    use nix::sys::pthread::{pthread_kill, pthread_self};
    use nix::sys::signal::{SaFlags, SigAction, SigHandler, SigSet, Signal, sigaction};

    let _alone = alone();
    FROM_HANDLER.store(0, Ordering::Relaxed);
    let looker = Looker::default();
    let consumer = INTERRUPTED.record_to(Box::new(looker.clone()), Selection::everything()).unwrap();
    let action = SigAction::new(SigHandler::Handler(fire_in_handler), SaFlags::SA_RESTART, SigSet::empty());
    // SAFETY: the handler only fires an event and counts, and both are made for that.
    unsafe { sigaction(Signal::SIGUSR2, &action) }.unwrap();
    let victim = pthread_self();
    let done = AtomicBool::new(false);
    let mut fired = 0_u64;
    std::thread::scope(|scope| {
        scope.spawn(|| {
            // The number of signals that a loaded machine handles in this time.
            let began = Instant::now();
            for sent in 0..5_000 {
                let is_enough = sent >= 1_000 && began.elapsed() > Duration::from_secs(20);
                if is_enough || TORN.load(Ordering::Relaxed) {
                    break;
                }
                pthread_kill(victim, Signal::SIGUSR2).unwrap();
                while FROM_HANDLER.load(Ordering::Relaxed) <= sent {
                    std::thread::yield_now();
                }
            }
            done.store(true, Ordering::Relaxed);
        });
        while !done.load(Ordering::Relaxed) {
            INTERRUPTED.fire_object_allocated(fired as usize, !fired as usize);
            fired += 1;
        }
    });
    let ended = INTERRUPTED.end_recording(consumer).unwrap();
    assert!(ended.error.is_none(), "{:?}", ended.error);
    let (objects, handlers) = *looker.0.lock().unwrap();
    assert_eq!(handlers, FROM_HANDLER.load(Ordering::Relaxed));
    assert_eq!(objects, fired);
    assert_eq!(ended.totals.fired, fired + FROM_HANDLER.load(Ordering::Relaxed));
}

/// The flag of the processor that raises SIGTRAP after each instruction.
const TRAP_FLAG: u64 = 0x100;
/// The instructions since the flag was set, and the one after which the handler fires.
static STEPS: AtomicU64 = AtomicU64::new(0);
static TARGET: AtomicU64 = AtomicU64::new(0);
/// Set when the fire that is stepped through is over.
static IS_OVER: AtomicBool = AtomicBool::new(false);

extern "C" fn fire_at_the_target(_: i32, _: *mut libc::siginfo_t, context: *mut libc::c_void) {
    let (step, target) = (STEPS.fetch_add(1, Ordering::Relaxed), TARGET.load(Ordering::Relaxed));
    if step < target && !IS_OVER.load(Ordering::Relaxed) {
        return;
    }
    // SAFETY: the kernel passes a context to a handler that was registered with SA_SIGINFO.
    let flags = unsafe { &mut (*context.cast::<libc::ucontext_t>()).uc_mcontext.gregs[libc::REG_EFL as usize] };
    *flags &= !(TRAP_FLAG as i64);
    if step == target {
        INTERRUPTED.fire_object_freed(7, 8);
        FROM_HANDLER.fetch_add(1, Ordering::Relaxed);
    }
}

/// `.event.nested`: a handler interrupts a fire after its first instruction, another fire after its second, and so on.
#[test]
fn a_handler_after_each_instruction_of_a_fire_fires_and_nothing_is_torn() {
    use nix::sys::signal::{SaFlags, SigAction, SigHandler, SigSet, Signal, sigaction};

    let _alone = alone();
    FROM_HANDLER.store(0, Ordering::Relaxed);
    let looker = Looker::default();
    let consumer = INTERRUPTED.record_to(Box::new(looker.clone()), Selection::everything()).unwrap();
    let action = SigAction::new(SigHandler::SigAction(fire_at_the_target), SaFlags::empty(), SigSet::empty());
    // SAFETY: the handler fires an event, counts, and changes the flag of its own thread.
    let before = unsafe { sigaction(Signal::SIGTRAP, &action) }.unwrap();
    let mut fired = 0_u64;
    for target in 0.. {
        STEPS.store(0, Ordering::Relaxed);
        TARGET.store(target, Ordering::Relaxed);
        IS_OVER.store(false, Ordering::Relaxed);
        // SAFETY: sets the trap flag, whose signal has a handler.
        unsafe { std::arch::asm!("pushfq", "or qword ptr [rsp], {flag}", "popfq", flag = const TRAP_FLAG) };
        INTERRUPTED.fire_object_allocated(fired as usize, !fired as usize);
        IS_OVER.store(true, Ordering::Relaxed);
        fired += 1;
        if STEPS.load(Ordering::Relaxed) <= target || TORN.load(Ordering::Relaxed) {
            break;
        }
    }
    // SAFETY: the action that was there before.
    unsafe { sigaction(Signal::SIGTRAP, &before) }.unwrap();
    let ended = INTERRUPTED.end_recording(consumer).unwrap();
    assert!(ended.error.is_none(), "{:?}", ended.error);
    let handled = FROM_HANDLER.load(Ordering::Relaxed);
    assert!(handled > 50, "a fire has more than {handled} instructions");
    assert_eq!(*looker.0.lock().unwrap(), (fired, handled));
}

/// A consumer that takes no records until it is released.
#[derive(Debug)]
struct Stalled {
    gate: Arc<(Barrier, Barrier)>,
    first: bool,
    policy: Policy,
    keeper: StoringConsumer,
}

impl Stalled {
    fn new(policy: Policy) -> (Stalled, Arc<(Barrier, Barrier)>, StoringConsumer) {
        let (gate, keeper) = (Arc::new((Barrier::new(2), Barrier::new(2))), StoringConsumer::default());
        (Stalled { gate: Arc::clone(&gate), first: true, policy, keeper: keeper.clone() }, gate, keeper)
    }
}

impl Consumer for Stalled {
    fn record(&mut self, record: &Recorded) -> io::Result<()> {
        if std::mem::take(&mut self.first) {
            self.gate.0.wait();
            self.gate.1.wait();
        }
        if self.keeper.got().records.len() < 10_000 {
            self.keeper.record(record)?;
        }
        Ok(())
    }

    fn lost(&mut self, lost: &Lost) -> io::Result<()> {
        self.keeper.lost(lost)
    }

    fn policy(&self) -> Policy {
        self.policy
    }
}

#[test]
fn with_the_dropping_policy_no_thread_waits_and_losses_are_counted_where_they_happened() {
    const FIRED: u64 = 200_000;
    let _alone = alone();
    let events = Events::new();
    let (stalled, gate, keeper) = Stalled::new(Policy::Dropping);
    let consumer = events.record_to(Box::new(stalled), Selection::everything()).unwrap();
    let before = Recorder::of_process().totals();
    events.fire_gc_end(0);
    gate.0.wait();
    let began = Instant::now();
    (0..FIRED).for_each(|number| events.fire_object_allocated(number as usize, 0));
    assert!(began.elapsed() < Duration::from_secs(300), "it waited for a stalled consumer");
    gate.1.wait();
    Recorder::of_process().flush().unwrap();
    // Now there is room again, and the next record follows the report of the loss.
    events.fire_gc_end(1);
    let ended = events.end_recording(consumer).unwrap();
    let totals = Recorder::of_process().totals();
    assert!(ended.totals.dropped > FIRED / 2, "a ring holds less: {:?}", ended.totals);
    assert_eq!(ended.totals.fired, FIRED + 2);
    assert_eq!(ended.totals.written + ended.totals.dropped, FIRED + 2);
    assert_eq!(keeper.got().lost, ended.totals.dropped);
    assert_eq!(totals.dropped - before.dropped, ended.totals.dropped);
    assert_eq!(totals.fired - before.fired, FIRED + 2);
    assert_eq!(totals.waits, before.waits);
}

#[test]
fn with_the_lossless_policy_a_thread_waits_and_a_collection_does_not_wait_for_it() {
    const FIRED: u64 = 200_000;
    let _alone = alone();
    let world = World::builder().stop_timeout(Duration::from_secs(60)).build().unwrap();
    let (stalled, gate, _) = Stalled::new(Policy::Lossless);
    let consumer = world.events().record_to(Box::new(stalled), Selection::of(set([EventId::ObjectAllocated]))).unwrap();
    let started = Arc::new(Barrier::new(2));
    let firing = {
        let (its_world, started) = (world.clone(), Arc::clone(&started));
        // SAFETY: the thread has no references.
        let spawned = unsafe {
            world.spawn("firing", move |_| {
                its_world.events().fire_object_allocated(0, 0);
                started.wait();
                (0..FIRED).for_each(|number| its_world.events().fire_object_allocated(number as usize, 0));
            })
        };
        spawned.unwrap()
    };
    started.wait();
    gate.0.wait();
    let begun = Instant::now();
    while !world.threads().iter().any(|thread| thread.blocking) {
        assert!(
            begun.elapsed() < Duration::from_secs(60) && !firing.is_finished(),
            "the events do not fit into a ring"
        );
        std::thread::sleep(Duration::from_millis(1));
    }
    let report = world.collect().expect("the waiting thread is in a blocking region");
    assert_eq!((report.threads_stopped, report.threads_blocking), (1, 1));
    gate.1.wait();
    firing.join().unwrap();
    let ended = world.events().end_recording(consumer).unwrap();
    assert_eq!((ended.totals.written, ended.totals.dropped), (FIRED + 1, 0));
}

/// A consumer that fails after a number of records.
#[derive(Debug)]
struct Failing {
    takes: u64,
    buffered: u64,
}

impl Consumer for Failing {
    fn record(&mut self, _: &Recorded) -> io::Result<()> {
        if self.takes == 0 {
            return Err(io::Error::from_raw_os_error(libc::ENOSPC));
        }
        self.takes -= 1;
        Ok(())
    }

    fn unwritten(&self) -> u64 {
        self.buffered
    }
}

/// `.event.full-disk`: the requirement as far as it concerns the recorder.
#[test]
fn a_failing_consumer_is_reported_once_its_loss_is_counted_and_no_thread_waits_for_it() {
    let _alone = alone();
    let events = Events::new();
    let consumer = events.record_to(Box::new(Failing { takes: 1000, buffered: 300 }), Selection::everything()).unwrap();
    let keeper = StoringConsumer::default();
    let other = events.record_to(Box::new(keeper.clone()), Selection::of(set([EventId::GcEnd]))).unwrap();
    (0..500_000).for_each(|number| events.fire_object_allocated(number, 0));
    events.fire_gc_end(1);
    let flushed = Recorder::of_process().flush();
    assert_eq!(flushed.unwrap_err().raw_os_error(), Some(libc::ENOSPC));
    assert!(Recorder::of_process().flush().is_ok(), "one error, reported once");
    assert_eq!(keeper.take().len(), 1, "the other consumer continues");
    let ended = events.end_recording(consumer).unwrap();
    assert_eq!(ended.error.unwrap().raw_os_error(), Some(libc::ENOSPC));
    assert_eq!(ended.totals.written, 700);
    assert_eq!(ended.totals.written + ended.totals.lost + ended.totals.dropped, 500_001);
    assert_eq!(ended.totals.fired, 500_001);
    events.end_recording(other).unwrap();
}

#[test]
fn the_flight_recorder_has_the_latest_records_and_hands_them_on() {
    let _alone = alone();
    let events = Events::new();
    let flight = FlightRecorder::with_capacity(40 * 1000).unwrap();
    let consumer = events.record_to(Box::new(flight), Selection::everything()).unwrap();
    for number in 0..20_000 {
        events.fire_object_allocated(number, 0);
        if number % 1000 == 0 {
            Recorder::of_process().flush().unwrap();
        }
    }
    let mut keeper = StoringConsumer::default();
    assert_eq!(Recorder::of_process().replay(consumer, &mut keeper).unwrap(), 1000);
    let got = keeper.take();
    assert!(got.iter().zip(19_000..).all(|(record, number)| record.fields() == [number, 0]));
    assert!(is_in_order(&got));
    events.end_recording(consumer).unwrap();
    assert!(Recorder::of_process().replay(consumer, &mut keeper).is_err());
}

#[test]
fn threads_that_exit_leave_their_records_and_their_memory_is_reused() {
    let _alone = alone();
    let events = Events::new();
    let keeper = StoringConsumer::default();
    let consumer = events.record_to(Box::new(keeper.clone()), Selection::everything()).unwrap();
    let round = |from: u64, until: u64| {
        for number in from..until {
            std::thread::scope(|scope| drop(scope.spawn(|| events.fire_gc_end(number as u32))));
        }
    };
    let before = Recorder::of_process().totals().ring_bytes;
    for batch in 0..4 {
        round(100 * batch, 100 * (batch + 1));
        // A flush finds the threads that ended without detaching. The kernel lists a thread for a moment after its end.
        std::thread::sleep(Duration::from_millis(50));
        Recorder::of_process().flush().unwrap();
    }
    let grown = Recorder::of_process().totals().ring_bytes.saturating_sub(before);
    assert!(grown < 400 * (64 << 10) / 2, "{grown} bytes for 400 threads, 100 at a time");
    events.end_recording(consumer).unwrap();
    let got = keeper.take();
    assert_eq!(got.iter().map(|record| record.fields()[0]).collect::<Vec<_>>(), (0..400).collect::<Vec<_>>());
    let indices: std::collections::HashSet<u32> = got.iter().map(|record| record.thread.index).collect();
    assert_eq!(indices.len(), 400);
}

/// A collection with every event on: the phases are in order, and the figures are consistent.
#[test]
fn a_world_that_collects_records_every_object_and_every_phase() {
    let _alone = alone();
    let world = World::builder().build().unwrap();
    let keeper = StoringConsumer::default();
    let consumer = world.events().record_to(Box::new(keeper.clone()), Selection::everything()).unwrap();
    // SAFETY: the references do not outlive the loop's body.
    let mutator = unsafe { world.attach("main") }.unwrap();
    for number in 0..10_000_u64 {
        mutator.alloc(number).unwrap();
    }
    mutator.collect().unwrap();
    drop(mutator);
    let ended = world.events().end_recording(consumer).unwrap();
    let got = keeper.take();
    let count = |id: EventId| got.iter().filter(|record| record.id == id).count();
    assert_eq!(count(EventId::ObjectAllocated), 10_000);
    assert!(is_in_order(&got));
    let phases: Vec<_> = got
        .iter()
        .map(|record| record.id)
        .filter(|id| {
            matches!(
                id,
                EventId::SuspendBegin | EventId::GcStart | EventId::MarkEnd | EventId::GcEnd | EventId::RestartEnd
            )
        })
        .collect();
    let expected = [EventId::SuspendBegin, EventId::GcStart, EventId::MarkEnd, EventId::GcEnd, EventId::RestartEnd];
    assert_eq!(phases, expected);
    assert_eq!(ended.totals.fired, got.len() as u64);
}

traced! {
    /// A type that supplies its own description.
    struct Called { called: Description }
}

/// Returns a timeout for a stop that takes long.
fn long() -> Duration {
    patience(60, 3)
}

/// While a thread waits for room in its ring, it holds no lock that a collection of another thread needs. The threads wait before or
/// after a stop; in the second case also where they report the bands of a census, which exceed a chunk of a ring. `more` is a number of
/// collections whose events fit into the ring of the test's own thread.
#[rstest]
#[case::of_everything(0, Selection::everything(), 10)]
#[case::of_a_profile(2_000, Selection::of(set([EventId::CensusBand])), 5)]
fn a_trace_without_a_reader_fails_no_collection(#[case] bands: usize, #[case] selection: Selection, #[case] more: u32) {
    const THREADS: u64 = 4;
    let _alone = alone();
    let world = World::builder().stop_timeout(long()).build().unwrap();
    // SAFETY: the objects are kept by handles.
    let m = unsafe { world.attach("main") }.unwrap();
    let _kept: Vec<_> = (0..bands)
        .map(|number| Description::new(world.telemetry_intern(&format!("called {number}")).unwrap()))
        .map(|called| m.root(m.alloc(Called { called }).unwrap()))
        .collect();
    drop(m);
    if bands > 0 {
        world.profile(HeapProfile::by(Breakdown::Description)).unwrap();
    }
    let (stalled, gate, _) = Stalled::new(Policy::Lossless);
    let consumer = world.events().record_to(Box::new(stalled), selection).unwrap();
    let (enough, collections) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let collecting = || {
        let (its_world, enough, collections) = (world.clone(), Arc::clone(&enough), Arc::clone(&collections));
        std::thread::spawn(move || {
            while !enough.load(Ordering::Relaxed) {
                its_world.collect().expect("no thread waits for room while it holds a lock");
                collections.fetch_add(1, Ordering::Relaxed);
            }
        })
    };
    let threads: Vec<_> = (0..THREADS).map(|_| collecting()).collect();
    gate.0.wait();
    let (mut seen, mut now) = (0, 1);
    // Waits until all of the threads wait.
    while now > seen {
        std::thread::sleep(Duration::from_millis(1000));
        (seen, now) = (now, collections.load(Ordering::Relaxed));
    }
    for _ in 0..more {
        world.collect().expect("they wait without a lock");
    }
    enough.store(true, Ordering::Relaxed);
    gate.1.wait();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    let ended = world.events().end_recording(consumer).unwrap();
    assert_eq!((ended.totals.dropped, ended.totals.lost), (0, 0));
}

/// `.event.no-wait`: the trace contains only events that a collection fires while it holds its locks, so the ring becomes full there.
#[test]
fn a_trace_without_a_reader_fails_no_collection_that_finds_its_ring_full_under_the_locks() {
    /// A label's record is four words: the labels take nearly all of a ring's 1 MiB, so a few thousand collections fill the rest.
    const LABELS: usize = 28_000;
    let _alone = alone();
    let world = World::builder().stop_timeout(long()).build().unwrap();
    let (stalled, gate, _) = Stalled::new(Policy::Lossless);
    let fired = [EventId::Labelled, EventId::SuspendBegin, EventId::RestartEnd];
    let consumer = world.events().record_to(Box::new(stalled), Selection::of(fired.into_iter().collect())).unwrap();
    let (enough, collections) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let (its_world, its_end, count) = (world.clone(), Arc::clone(&enough), Arc::clone(&collections));
    let thread = std::thread::spawn(move || {
        let label = its_world.telemetry_intern("label").unwrap();
        (0..LABELS).for_each(|_| its_world.telemetry_label(0x1000, label).unwrap());
        while !its_end.load(Ordering::Relaxed) {
            its_world.collect().expect("no other thread collects before this thread waits");
            count.fetch_add(1, Ordering::Relaxed);
        }
    });
    gate.0.wait();
    let (mut seen, mut seconds) = (0, 0);
    // Waits until the thread waits for room, and not only for a processor.
    while seconds < 4 {
        std::thread::sleep(Duration::from_secs(1));
        let now = collections.load(Ordering::Relaxed);
        seconds = if now > 0 && now == seen { seconds + 1 } else { 0 };
        seen = now;
    }
    world.collect().expect("it waits without a lock");
    enough.store(true, Ordering::Relaxed);
    gate.1.wait();
    thread.join().unwrap();
    let ended = world.events().end_recording(consumer).unwrap();
    assert_eq!((ended.totals.dropped, ended.totals.lost), (0, 0));
}
