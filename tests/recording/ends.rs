//! Recording in difficult places: in the stopped world, in the child of a fork, under a debugger, and when the process is killed.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::alone;
use crate::hazard;
use crate::hazard::patience::Watchdog;
use crate::tools;
use stopworld::events::clock::Relation;
use stopworld::events::record::{Consumer, FlightRecorder, Policy, Recorded, Recorder};
use stopworld::events::{AfterFork, EventId, Events, Selection};
use stopworld::{SignalStopper, Slot, StopError, StopRequest, ThreadVtable, Tid, World};

/// A consumer that counts records, and blocks while `stalled` is set. It allocates nothing.
#[derive(Debug)]
struct Counting {
    stalled: Arc<AtomicBool>,
    taken: Arc<AtomicU64>,
    lost: Arc<AtomicU64>,
    forked: AfterFork,
}

impl Counting {
    fn new(forked: AfterFork) -> Counting {
        Counting { stalled: Arc::default(), taken: Arc::default(), lost: Arc::default(), forked }
    }
}

impl Consumer for Counting {
    fn record(&mut self, _: &Recorded) -> io::Result<()> {
        while self.stalled.load(Ordering::Relaxed) {
            std::thread::sleep(Duration::from_millis(1));
        }
        self.taken.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    fn lost(&mut self, lost: &stopworld::events::record::Lost) -> io::Result<()> {
        self.lost.fetch_add(lost.count, Ordering::Relaxed);
        Ok(())
    }

    fn forked(&self) -> AfterFork {
        self.forked
    }
}

/// A consumer that writes 32 bytes for each record.
#[derive(Debug)]
struct Plain(File, Vec<u8>);

impl Plain {
    fn create(path: &Path) -> Plain {
        Plain(File::create(path).unwrap(), Vec::with_capacity(1 << 16))
    }
}

impl Consumer for Plain {
    fn record(&mut self, record: &Recorded) -> io::Result<()> {
        if self.1.len() + 32 > self.1.capacity() {
            self.flush()?;
        }
        self.1.extend(record.ticks.to_le_bytes());
        self.1.extend((record.id as u64).to_le_bytes());
        self.1.extend(record.fields().first().copied().unwrap_or_default().to_le_bytes());
        self.1.extend(record.fields().get(1).copied().unwrap_or_default().to_le_bytes());
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        let result = self.0.write_all(&self.1);
        self.1.clear();
        result
    }

    fn close(&mut self, _: &Relation) -> io::Result<()> {
        self.flush()
    }
}

/// Returns the records of a [`Plain`] file, each with its event and both fields. All records are complete, however the process ended.
fn read(path: &Path) -> Vec<[u64; 3]> {
    let mut bytes = Vec::new();
    File::open(path).unwrap().read_to_end(&mut bytes).unwrap();
    assert_eq!(bytes.len() % 32, 0, "a torn record");
    assert_eq!(late_records_in(&bytes), 0, "the records are not in order of time");
    records_in(&bytes)
}

fn word(record: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(record[8 * at..8 * at + 8].try_into().unwrap())
}

/// The complete records.
fn records_in(bytes: &[u8]) -> Vec<[u64; 3]> {
    bytes.chunks_exact(32).map(|record| [word(record, 1), word(record, 2), word(record, 3)]).collect()
}

/// Returns how often a record has an earlier timestamp than the record before it.
fn late_records_in(bytes: &[u8]) -> usize {
    let times: Vec<u64> = bytes.chunks_exact(32).map(|record| word(record, 0)).collect();
    times.windows(2).filter(|pair| pair[1] < pair[0]).count()
}

/// A vtable that fires many events in the stopped world, like a collector whose mark phase fires many events.
struct Chatty {
    signals: SignalStopper,
    events: &'static Events,
    times: u64,
}

// SAFETY: the signal stopper's guarantees; the addition only fires events.
unsafe impl ThreadVtable for Chatty {
    fn name(&self) -> &'static str {
        "chatty"
    }

    fn stop_world(&self, stop: &StopRequest<'_>) -> Result<(), StopError> {
        self.signals.stop_world(stop)?;
        (0..self.times).for_each(|number| self.events.fire_object_freed(number as usize, 0));
        Ok(())
    }

    fn start_world(&self, stop: &StopRequest<'_>) {
        self.signals.start_world(stop);
    }

    fn thread_created(&self, tid: Tid, slot: Slot) {
        self.signals.thread_created(tid, slot);
    }

    fn thread_exited(&self, tid: Tid, slot: Slot) {
        self.signals.thread_exited(tid, slot);
    }
}

/// `.event.no-block-in-handler`: a lossless consumer, a stalled disk, and a stopped world that fires more than all rings can hold. No
/// thread waits, and every lost record is counted.
#[test]
fn firing_in_the_stopped_world_with_a_stalled_drain_drops_and_counts() {
    const FIRED: u64 = 8_000_000;
    static EVENTS: Events = Events::new();
    let _alone = alone();
    let world = World::builder().build().unwrap();
    let counting = Counting::new(AfterFork::Silence);
    let (stalled, taken, lost) = (counting.stalled.clone(), counting.taken.clone(), counting.lost.clone());
    let only = [EventId::ObjectFreed].into_iter().collect();
    let consumer = EVENTS.record_to(Box::new(counting), Selection::of(only)).unwrap();
    let chatty = Chatty { signals: SignalStopper::new(libc::SIGURG).unwrap(), events: &EVENTS, times: FIRED };
    world.set_thread_vtable(Arc::new(chatty)).unwrap();

    stalled.store(true, Ordering::Relaxed);
    EVENTS.fire_object_freed(0, 0);
    std::thread::sleep(Duration::from_millis(200));
    let _watchdog = Watchdog::new("the stopped world waits for a stalled consumer", 600, 30);
    let began = Instant::now();
    world.collect().unwrap();
    assert!(began.elapsed() < Duration::from_secs(300), "the stopped world waited: {:?}", began.elapsed());
    assert_eq!(taken.load(Ordering::Relaxed), 0, "the consumer was stalled all the time");
    assert!(Recorder::of_process().clock().now() > 0);

    stalled.store(false, Ordering::Relaxed);
    let ended = EVENTS.end_recording(consumer).unwrap();
    assert!(ended.totals.dropped > 0, "more than all rings hold: {:?}", ended.totals);
    assert_eq!(ended.totals.fired, FIRED + 1);
    assert_eq!(ended.totals.written + ended.totals.dropped, FIRED + 1);
    assert_eq!(ended.totals.written, taken.load(Ordering::Relaxed));
    assert_eq!(ended.totals.dropped, lost.load(Ordering::Relaxed));
    let ring_bytes = Recorder::of_process().totals().ring_bytes;
    assert!(ring_bytes < 32 << 20, "the additional memory was freed: {ring_bytes}");
}

/// An object and its event are one step (`.event.objects`), in which a thread cannot wait for room; it waits right after it. So nothing is
/// lost, the ring stays small, and a collection need not wait for the waiting thread.
#[test]
fn a_thread_that_reports_each_object_waits_for_a_slow_consumer_and_can_be_stopped_there() {
    const OBJECTS: u64 = 200_000;
    let _alone = alone();
    let world = World::builder().build().unwrap();
    let counting = Counting::new(AfterFork::Silence);
    let stalled = counting.stalled.clone();
    let only = Selection::of([EventId::ObjectAllocated].into_iter().collect());
    let consumer = world.events().record_to(Box::new(counting), only).unwrap();
    stalled.store(true, Ordering::Relaxed);
    // SAFETY: no references are kept.
    let teller = unsafe { world.spawn("teller", |m| (0..OBJECTS).for_each(|number| _ = m.alloc(number).unwrap())) };
    let teller = teller.unwrap();
    std::thread::sleep(Duration::from_millis(300));
    world.collect().unwrap();
    let ring_bytes = Recorder::of_process().ring_bytes();
    assert!(ring_bytes < 8 << 20, "the thread exceeded its quota: {ring_bytes}");
    assert!(!teller.is_finished(), "the objects must exceed the ring");
    stalled.store(false, Ordering::Relaxed);
    teller.join().unwrap();
    let ended = world.events().end_recording(consumer).unwrap();
    assert_eq!((ended.totals.written, ended.totals.dropped), (OBJECTS, 0));
}

/// `.fork.services`: the child neither writes into the parent's file nor waits for a writer that does not exist; a consumer that continues
/// in the child gets the child's events.
#[test]
fn the_child_of_a_fork_leaves_the_parents_file_alone_and_does_not_wait() {
    let _alone = alone();
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("trace");
    let world = World::builder().build().unwrap();
    let file = world.events().record_to(Box::new(Plain::create(&path)), Selection::everything()).unwrap();
    let counting = Counting::new(AfterFork::GoOn);
    let taken = counting.taken.clone();
    let only = Selection::of([EventId::ObjectAllocated].into_iter().collect());
    let lasting = world.events().record_to(Box::new(counting), only).unwrap();
    // SAFETY: no references.
    let mutator = unsafe { world.attach("main") }.unwrap();
    for round in 0..5 {
        let fired = 1000 * (round + 1);
        (0..1000).for_each(|number| world.events().fire_object_allocated(number, round));
        let code = hazard::fork(|| {
            let (events, before) = (world.events(), taken.load(Ordering::Relaxed));
            if events.is_enabled(EventId::GcEnd) {
                return 2;
            }
            // These are more records than a ring holds. This thread itself drains, because there is no writer thread.
            (0..100_000).for_each(|number| events.fire_object_allocated(number, 77));
            if Recorder::of_process().flush().is_err() || events.end_recording(file).is_ok() {
                return 3;
            }
            let got = taken.load(Ordering::Relaxed) - before;
            // Events that the parent had fired but not drained belong to the parent.
            if got != 100_000 {
                return 4;
            }
            let Ok(again) = events.record_to(Box::new(Counting::new(AfterFork::Silence)), Selection::everything())
            else {
                return 5;
            };
            if world.collect().is_err() {
                return 6;
            }
            i32::from(events.end_recording(again).is_err() || events.end_recording(lasting).is_err())
        });
        assert_eq!(code, 0, "the child of the fork still records for its parent");
        Recorder::of_process().flush().unwrap();
        assert_eq!(taken.load(Ordering::Relaxed), fired as u64);
    }
    drop(mutator);
    world.events().end_recording(lasting).unwrap();
    let ended = world.events().end_recording(file).unwrap();
    let records = read(&path);
    assert_eq!(ended.totals.written, records.len() as u64);
    let objects: Vec<_> = records.iter().filter(|record| record[0] == EventId::ObjectAllocated as u64).collect();
    assert_eq!(objects.len(), 5000);
    assert!(objects.iter().all(|record| record[2] < 5), "a record of a child");
}

// ---- Processes of their own ----------------------------------------------------------------------------------------

const PART: &str = "STOPWORLD_RECORDING_PART";

/// The program of the other process: fires numbered events from two threads for ever, and reports when a thousand were fired.
#[test]
fn part_of_other_tests() {
    let Ok(path) = std::env::var(PART) else { return };
    static EVENTS: Events = Events::new();
    let consumer = EVENTS.record_to(Box::new(Plain::create(Path::new(&path))), Selection::everything()).unwrap();
    let flight = FlightRecorder::with_capacity(1 << 16).unwrap();
    assert_eq!(flight.policy(), Policy::Dropping);
    EVENTS.record_to(Box::new(flight), Selection::everything()).unwrap();
    let paced = |thread: usize| {
        for number in 0.. {
            EVENTS.fire_object_allocated(number, thread);
            if number % 1000 == 0 {
                std::thread::sleep(Duration::from_millis(1));
            }
            if number == 1000 && thread == 0 {
                println!("fired");
            }
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(|| paced(1));
        paced(0);
    });
    drop(EVENTS.end_recording(consumer));
}

/// Kills the process when it is dropped.
struct Part(Child, PathBuf);

impl Part {
    fn start(directory: &Path) -> Part {
        let path = directory.join("trace");
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["ends::part_of_other_tests", "--exact", "--nocapture", "--test-threads=1"])
            .env(PART, &path)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let part = Part(child, path);
        assert!(
            lines.map_while(Result::ok).any(|line| line.contains("fired")),
            "the process must report that it fires"
        );
        part
    }

    /// Waits until the file's records satisfy this. The file grows meanwhile, so its last record may be incomplete.
    fn until(&self, what: &str, holds: impl Fn(&[[u64; 3]]) -> bool) {
        let begun = Instant::now();
        while !holds(&records_in(&std::fs::read(&self.1).unwrap())) {
            assert!(begun.elapsed() < Duration::from_secs(60), "{what}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn are_numbered(records: &[[u64; 3]], thread: u64) -> u64 {
    let of_thread = records.iter().filter(|record| record[2] == thread);
    of_thread.zip(0..).map(|(record, number)| assert_eq!(record[1], number)).count() as u64
}

/// `.event.crash`: the requirement as far as it concerns the recorder.
#[test]
fn a_killed_process_leaves_whole_records_up_to_a_moment_before() {
    let directory = tempfile::tempdir().unwrap();
    let mut part = Part::start(directory.path());
    part.until("both threads have written many records", |records| {
        are_numbered(records, 0) > 1000 && are_numbered(records, 1) > 1000
    });
    part.0.kill().unwrap();
    assert_eq!(part.0.wait().unwrap().signal(), Some(libc::SIGKILL));
    let records = read(&part.1);
    assert!(are_numbered(&records, 0) > 1000 && are_numbered(&records, 1) > 1000, "{} records", records.len());
}

/// A debugger has stopped all threads, and calls `stopworld_telemetry_flush` on one of them.
#[test]
fn a_debugger_can_flush_while_all_threads_are_stopped() {
    if !tools::has("gdb") {
        return;
    }
    // SAFETY: allows gdb to trace a child of this process, where a security module requires that.
    unsafe { libc::prctl(libc::PR_SET_PTRACER, libc::PR_SET_PTRACER_ANY, 0, 0, 0) };
    let directory = tempfile::tempdir().unwrap();
    let part = Part::start(directory.path());
    // A thread may be stopped while it holds the recorder's lock: then the call returns 1, and is repeated later.
    for _ in 0..20 {
        let output = Command::new("gdb")
            .args(["-batch", "-nx", "-iex", "set debuginfod enabled off", "-p", &part.0.id().to_string()])
            .args(["-ex", "set scheduler-locking on"])
            // The thread may be in a Rust function, whose language the expression is not.
            .args(["-ex", "set language c"])
            .args(["-ex", "printf \"flushed: %d\\n\", ((int (*)(void)) stopworld_telemetry_flush)()"])
            .args(["-ex", "printf \"again: %d\\n\", ((int (*)(void)) stopworld_telemetry_flush)()"])
            .args(["-ex", &format!("shell cp {} {}.then", part.1.display(), part.1.display())])
            .args(["-ex", "detach"])
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        if text.contains("flushed: 1") {
            std::thread::sleep(Duration::from_millis(20));
            continue;
        }
        let told = format!("{text}{}", String::from_utf8_lossy(&output.stderr));
        assert!(text.contains("flushed: 0") && text.contains("again: 0"), "{told}");
        let then = read(&part.1.with_extension("then"));
        assert!(are_numbered(&then, 0) > 1000 && are_numbered(&then, 1) > 0);
        part.until("the process continues", |records| records.len() > then.len());
        // A thread that was stopped in the middle of a fire has its record written late: this flush does not wait for it.
        let late = late_records_in(&std::fs::read(&part.1).unwrap());
        assert!(late <= 2, "{late} records are late, and the process has two threads");
        return;
    }
    panic!("20 times the recorder's lock was held");
}

/// A hundred million events: everything arrives, in constant memory. `cargo test --release --test recording -- --ignored volume`
#[test]
#[ignore = "takes a minute"]
fn volume_of_a_hundred_million() {
    volume(100_000_000);
}

#[test]
fn volume_of_two_million() {
    volume(2_000_000);
}

fn volume(events: u64) {
    static EVENTS: Events = Events::new();
    const THREADS: u64 = 4;
    let _alone = alone();
    let counting = Counting::new(AfterFork::Silence);
    let taken = counting.taken.clone();
    let before = resident();
    let consumer = EVENTS.record_to(Box::new(counting), Selection::everything()).unwrap();
    let began = Instant::now();
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            scope.spawn(move || {
                (0..events / THREADS).for_each(|number| EVENTS.fire_object_allocated(number as usize, thread as usize));
            });
        }
    });
    let grown = resident().saturating_sub(before);
    let ended = EVENTS.end_recording(consumer).unwrap();
    let seconds = began.elapsed().as_secs_f64();
    println!(
        "{events} events in {seconds:.2} s, {:.1} ns each, {} KiB more",
        seconds * 1e9 / events as f64,
        grown >> 10
    );
    assert_eq!((ended.totals.fired, ended.totals.written), (events, events));
    assert_eq!(taken.load(Ordering::Relaxed), events);
    assert!(grown < 256 << 20, "{grown} bytes");
}

fn resident() -> u64 {
    let pages = std::fs::read_to_string("/proc/self/statm").unwrap();
    pages.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() * 4096
}

/// `.event.exact`: a trace of several worlds is ended through one of them. The others compute nothing for it from their next collection on.
#[test]
fn a_world_forgets_what_an_ended_consumer_wanted() {
    /// Wants no record.
    #[derive(Debug)]
    struct Ignores;

    impl Consumer for Ignores {
        fn record(&mut self, _: &Recorded) -> io::Result<()> {
            Ok(())
        }
    }

    static ANCHOR: Events = Events::new();
    let _alone = alone();
    let world = World::builder().build().unwrap();
    let events = world.events();
    let dumps = Selection::of([EventId::DumpNode].into_iter().collect());
    let ids = [EventId::DumpNode, EventId::ObjectAllocated, EventId::GcStart];
    let enabled = || ids.map(|id| events.is_enabled(id));
    let listener = events.listen(Arc::new(stopworld::events::NullSink), dumps).unwrap();
    let consumer = ANCHOR.record_to(Box::new(Ignores), Selection::nothing()).unwrap();
    events.record_also_to(consumer, Selection::everything()).unwrap();
    world.collect().unwrap();
    assert_eq!(enabled(), [true; 3]);
    ANCHOR.end_recording(consumer).unwrap();
    world.collect().unwrap();
    assert_eq!(enabled(), [true, false, false]);
    events.unlisten(listener).unwrap();
    assert_eq!(enabled(), [false; 3]);
}
