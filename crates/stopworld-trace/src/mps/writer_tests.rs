//! Tests of the writer alone: the cost of a record, and the times of records.

use std::path::Path;

use super::*;
use mps_telemetry::Version;
use stopworld::events::record::{RecordingThread, WorldNumber};

const HEAP: u64 = 0x7f00_0000_0000;

fn recorded(id: EventId, ticks: u64, fields: &[u64]) -> Recorded {
    Recorded::new(id, ticks, RecordingThread { tid: 1, index: 0 }, WorldNumber(0), fields)
}

fn file(path: &Path) -> OutputFile {
    OutputFile::new(path.to_owned(), None).unwrap()
}

fn writer(path: &Path, filter: u64) -> Writer {
    let shared_state = Arc::new(SharedState::new(filter));
    Writer::new(shared_state, file(path), Policy::Lossless, History::Followed).unwrap()
}

/// `cargo test --release --lib mps::writer -- --ignored --nocapture`
#[test]
#[ignore = "a measurement"]
fn how_long_a_record_takes() {
    const EACH: u64 = 20_000_000;
    let mut writer = writer(Path::new("/dev/null"), u64::MAX);
    let start = Clock::of_process().now();
    writer.record(&recorded(EventId::WorldCreated, start, &[0x1000, HEAP, 1 << 30, 2 << 20, 16 << 10])).unwrap();
    for space in 0..3 {
        writer.record(&recorded(EventId::PoolCreated, start, &[0x2000 + space * 8, space])).unwrap();
    }
    let kinds: [(EventId, &[u64]); 4] = [
        (EventId::ObjectAllocated, &[HEAP + 8, 32]),
        (EventId::ObjectFreed, &[HEAP + 8, 32]),
        (EventId::ReferenceFixed, &[0x7fff_0000_0000, HEAP + 8, 1]),
        (EventId::CacheRefilled, &[0x3000, 32, HEAP + 8, 4096]),
    ];
    for (id, fields) in kinds {
        let mut record = recorded(id, start, fields);
        // The writer is called as the drain calls it, through `dyn Consumer`.
        let consumer: &mut dyn Consumer = std::hint::black_box(&mut writer);
        let begun = std::time::Instant::now();
        for _ in 0..EACH {
            record.ticks += 20;
            consumer.record(&record).unwrap();
        }
        let ns = begun.elapsed().as_nanos() as f64 / EACH as f64;
        println!("{id:?}: {ns:.2} ns, {:.0} M records/s", 1e3 / ns);
    }
}

/// The late record of a thread that was frozen in the middle of firing keeps the time of its event; later records keep their times, too.
#[test]
fn a_late_record_keeps_its_time() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("t.mps");
    let mut writer = writer(&path, 1 << Category::Ref as u32);
    let start = Clock::of_process().now() + 1_000;
    let clocks = vec![start + 500, start + 100, start + 600, start + 600];
    for ticks in &clocks {
        writer.record(&recorded(EventId::ReferenceFixed, *ticks, &[1, 2, 0])).unwrap();
    }
    writer.flush().unwrap();
    let stream = std::fs::read(path).unwrap();
    // After `EventInit` and its sync.
    let at = 72;
    assert_eq!(stream.len(), at + 4 * 48);
    let written = (0..4).map(|index| word(&stream, at + index * 48 + 8));
    assert_eq!(written.collect::<Vec<_>>(), clocks);
}

/// The count of lost records is written at the place where they are missing, so a reader can add it to the number of records there.
#[test]
fn losses_are_written_where_they_happened() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("t.mps");
    let filter = 1 << Category::Ref as u32 | 1 << Category::Arena as u32;
    let mut writer = writer(&path, filter);
    let start = Clock::of_process().now() + 1_000;
    let thread = RecordingThread { tid: 1, index: 0 };
    writer.record(&recorded(EventId::ReferenceFixed, start, &[1, 2, 0])).unwrap();
    writer.lost(&Lost { ticks: start + 5, thread, count: 7 }).unwrap();
    writer.record(&recorded(EventId::ReferenceFixed, start + 9, &[1, 2, 0])).unwrap();
    writer.flush().unwrap();
    let stream = std::fs::read(path).unwrap();
    let (at, code, size) = (72 + 48, u64::from(mps::MessagesDropped::CODE), 24);
    assert_eq!(stream.len(), at + size + 48);
    assert_eq!((word(&stream, at) & 0xffff_ffff, word(&stream, at + 16)), (code | (size as u64) << 16, 7));
    let times = [at - 48, at, at + size].map(|record| word(&stream, record + 8) - start);
    assert!(times[0] == 0 && times[0] <= times[1] && times[1] <= times[2] && times[2] == 9, "{times:?}");
}

/// The records of a flight recorder begin in the middle of a world's life and may end in the middle of a collection.
#[test]
fn a_stream_from_a_flight_recorder_has_all_pools_and_the_end_of_each_trace() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("t.mps");
    let shared_state = Arc::new(SharedState::new(u64::MAX));
    let pools = [0x2000, 0x2008, 0x2010];
    let facts = Facts { world: 0x1000, heap: HEAP, reserved: 1 << 30, pools, serial: 1, ..Facts::default() };
    drop(shared_state.introduce(0, Facts { chunk: 2 << 20, block: 16 << 10, ..facts }, Box::default()));
    let mut writer = Writer::new(shared_state, file(&path), Policy::Lossless, History::Ignored).unwrap();
    let start = Clock::of_process().now();
    writer.record(&recorded(EventId::SuspendBegin, start, &[1, 0])).unwrap();
    writer.record(&recorded(EventId::GcStart, start + 100, &[1, 0])).unwrap();
    writer.close(&Relation { ticks: start + 200, ns: 0, hz: 1_000_000_000 }).unwrap();
    let stream = std::fs::read(path).unwrap();
    let (mut codes, mut at) = (Vec::new(), 0);
    while at < stream.len() {
        let head = word(&stream, at);
        codes.push(head as u16);
        at += (head >> 16 & 0xffff) as usize;
    }
    let count = |code: u16| codes.iter().filter(|&&one| one == code).count();
    assert_eq!((count(mps::ArenaCreateVM::CODE), count(mps::PoolInit::CODE)), (1, 3), "{codes:?}");
    assert_eq!((count(mps::TraceCreate::CODE), count(mps::TraceDestroy::CODE)), (1, 1), "{codes:?}");
    assert_eq!((count(mps::ArenaPollBegin::CODE), count(mps::ArenaPollEnd::CODE)), (1, 1), "{codes:?}");
}

/// Each event, and the records that the writer makes of it, word by word. The expected lines were written by a writer that put each
/// word in its place by hand.
#[test]
fn each_event_becomes_exactly_its_records() {
    const BLOCK: u64 = HEAP + (4 << 14);
    const LARGE: u64 = HEAP + (8 << 14);
    const NAMED: u64 = 0x1234_5678;
    const TEXT: &[u8] = b"a name of this test alone";
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("t.mps");
    // User is turned on later.
    let shared_state = Arc::new(SharedState::new(!(1 << Category::User as u32)));
    let mut writer = Writer::new(Arc::clone(&shared_state), file(&path), Policy::Lossless, History::Followed).unwrap();
    // This time is before the writer was created, so the clocks of the prologue are derived from the clock of the first record.
    let start = 1 << 30;
    let label = Labels::of_the_process().intern(str::from_utf8(TEXT).unwrap()).unwrap().get();
    let events: &[(EventId, &[u64])] = &[
        (EventId::WorldCreated, &[0x1000, HEAP, 1 << 30, 2 << 20, 16 << 10]),
        (EventId::PoolCreated, &[0x2000, 0]),
        (EventId::PoolCreated, &[0x2008, 1]),
        (EventId::PoolCreated, &[0x2010, 2]),
        (EventId::CommitLimitSet, &[64 << 20]),
        (EventId::SegmentCreated, &[HEAP, 2 << 20]),
        (EventId::BlockAcquired, &[BLOCK, 16 << 10, 0]),
        (EventId::BlockAcquired, &[LARGE, 48 << 10, 2]),
        (EventId::CacheRefilled, &[0x3000, 32, BLOCK, 4096]),
        (EventId::ObjectAllocated, &[BLOCK + 8, 24]),
        (EventId::ObjectAllocated, &[LARGE + 8, 40_000]),
        (EventId::SuspendBegin, &[1, 0]),
        (EventId::StopAbandoned, &[1, 2]),
        (EventId::SuspendBegin, &[1, 1]),
        (EventId::GcStart, &[1, 1]),
        (EventId::RootsBegin, &[1]),
        (EventId::RootScanned, &[0x4000, 0, 512]),
        (EventId::AreaScanned, &[0x7fff_0000, 0x7fff_1000]),
        (EventId::ReferenceFixed, &[0x7fff_0008, BLOCK + 8, 0]),
        (EventId::RootsEnd, &[1, 4096, 3]),
        (EventId::MarkBegin, &[1]),
        (EventId::ReferenceFixed, &[BLOCK + 16, LARGE + 8, 1]),
        (EventId::BlockScanned, &[BLOCK, 0, 1]),
        (EventId::ReferenceFixed, &[LARGE + 16, BLOCK + 8, 2]),
        (EventId::WeakEnd, &[1, 2, 3]),
        (EventId::SweepBegin, &[1]),
        (EventId::BlockReclaimed, &[BLOCK, 0, 24]),
        (EventId::SweepEnd, &[1, 3_000, 1_000]),
        (EventId::HeapStats, &[1, 24, 40_000, 0, 1 << 20, 2]),
        (EventId::RestartEnd, &[1]),
        (EventId::ObjectFreed, &[BLOCK + 8, 24]),
        (EventId::BlockReleased, &[BLOCK, 16 << 10, 0]),
        (EventId::EmergencySet, &[1, 100]),
        (EventId::AllocationFailed, &[100, 2_000, 3_000]),
        (EventId::AllocationFailed, &[100_000, 2_000, 3_000]),
        (EventId::EmergencySet, &[0, 100]),
        (EventId::GcStart, &[2, 0]),
        (EventId::CollectionDiscarded, &[2, 0]),
        (EventId::FinalizersDue, &[3]),
        (EventId::Interned, &[label]),
        (EventId::Labelled, &[NAMED, label]),
        (EventId::Labelled, &[BLOCK, label]),
        (EventId::SegmentFreed, &[HEAP, 2 << 20]),
        (EventId::PoolClosed, &[0x2010, 2]),
        (EventId::PoolClosed, &[0x2000, 0]),
        (EventId::WorldClosed, &[0x1000, HEAP]),
    ];
    let thread = RecordingThread { tid: 1, index: 0 };
    for (index, (id, fields)) in events.iter().enumerate() {
        if *id == EventId::Interned {
            shared_state.begin(start + 100 * index as u64 - 50, u64::MAX);
        }
        writer.record(&recorded(*id, start + 100 * index as u64, fields)).unwrap();
    }
    writer.lost(&Lost { ticks: start + 9_000, thread, count: 7 }).unwrap();
    writer.close(&Relation { ticks: start + 10_000, ns: 0, hz: 1_000_000_000 }).unwrap();

    let name_of = |word: u64| match word {
        word if word == address(&CLASSES[0]) => "arena class".to_owned(),
        word if word == address(&CLASSES[1]) => "pool class".to_owned(),
        word if word == address(&TRACES[0]) => "trace".to_owned(),
        word if word == address(&SCANS[0]) => "scan".to_owned(),
        word => format!("{word:x}"),
    };
    let (stream, mut at, mut lines) = (std::fs::read(path).unwrap(), 0, String::new());
    while at < stream.len() {
        let head = word(&stream, at);
        let record = &stream[at..at + (head >> 16 & 0xffff) as usize];
        at += record.len();
        let words = record.chunks_exact(8).skip(2).map(|word| u64::from_le_bytes(word.try_into().unwrap()));
        let mut shown: Vec<String> = words.map(name_of).collect();
        let layout = Version::V2.layout(head as u16).unwrap();
        match layout.name {
            // The processor time that the process has used.
            "EventClockSync" => shown[0] = "cpu".to_owned(),
            "Intern" if record[24..].starts_with(TEXT) => shown[0] = "label".to_owned(),
            "Label" | "LabelPointer" if [NAMED, BLOCK].contains(&word(record, 16)) => shown[1] = "label".to_owned(),
            // The names of other tests.
            "Intern" | "Label" | "LabelPointer" => continue,
            _ => {}
        }
        let ticks = word(record, 8) as i64 - start as i64;
        let line = format!("{ticks} {head:x} {}: {}", layout.name, shown.join(", "));
        lines += &format!("{}\n", line.trim_end());
    }
    assert_eq!(lines, include_str!("each_event.txt"));
}

fn word(stream: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(stream[at..at + 8].try_into().unwrap())
}
