//! Tests of the writer alone: the cost of a record, and the times of records.

use std::path::Path;

use super::*;
use stopworld::events::record::{RecordingThread, WorldNumber};

const HEAP: u64 = 0x7f00_0000_0000;

fn recorded(id: EventId, ticks: u64, fields: &[u64]) -> Recorded {
    Recorded::new(id, ticks, RecordingThread { tid: 1, index: 0 }, WorldNumber(0), fields)
}

fn file(path: &Path) -> OutputFile {
    OutputFile::new(path.to_owned(), None).unwrap()
}

fn writer(path: &Path, filter: u64) -> Writer {
    let board = Arc::new(Switchboard::new(filter));
    Writer::new(board, file(path), Policy::Lossless, History::Followed).unwrap()
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
        // As the drain calls it.
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

/// The late record of a thread that was frozen in the middle of firing keeps its time; later records keep theirs.
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

/// The count of lost records is written where they are missing, so a reader can add it to the records there.
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
    let (at, code, size) = (72 + 48, u64::from(event::MessagesDropped), 24);
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
    let board = Arc::new(Switchboard::new(u64::MAX));
    let pools = [0x2000, 0x2008, 0x2010];
    let facts = Facts { world: 0x1000, heap: HEAP, reserved: 1 << 30, pools, serial: 1, ..Facts::default() };
    drop(board.introduce(0, Facts { chunk: 2 << 20, block: 16 << 10, ..facts }, Box::default()));
    let mut writer = Writer::new(board, file(&path), Policy::Lossless, History::Ignored).unwrap();
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
    assert_eq!((count(event::ArenaCreateVM), count(event::PoolInit)), (1, 3), "{codes:?}");
    assert_eq!((count(event::TraceCreate), count(event::TraceDestroy)), (1, 1), "{codes:?}");
    assert_eq!((count(event::ArenaPollBegin), count(event::ArenaPollEnd)), (1, 1), "{codes:?}");
}

fn word(stream: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(stream[at..at + 8].try_into().unwrap())
}
