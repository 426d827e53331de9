//! The writer by itself: what a record costs, and whose time it bears.

use super::*;
use crate::events::record::{RecordingThread, WorldNumber};

const HEAP: u64 = 0x7f00_0000_0000;

fn recorded(id: EventId, ticks: u64, fields: &[u64]) -> Recorded {
    Recorded::new(id, ticks, RecordingThread { tid: 1, index: 0 }, WorldNumber(0), fields)
}

fn writer(path: CString, filter: u64) -> Writer {
    let board = Arc::new(Switchboard::new(filter));
    Writer::new(board, path, Complaint::Returned, History::Followed).unwrap()
}

/// `cargo test --release --lib mps::writer -- --ignored --nocapture`
#[test]
#[ignore = "a measurement"]
fn how_long_a_record_takes() {
    const EACH: u64 = 20_000_000;
    let mut writer = writer(c"/dev/null".to_owned(), u64::MAX);
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

/// A record of a thread that was frozen in the middle of firing keeps its time; those of others go on from theirs.
#[test]
fn who_is_late_keeps_its_time() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("t.mps");
    let mut writer = writer(CString::new(path.to_str().unwrap()).unwrap(), 1 << Category::Ref as u32);
    let start = Clock::of_process().now() + 1_000;
    let clocks = vec![start + 500, start + 100, start + 600, start + 600];
    for ticks in &clocks {
        writer.record(&recorded(EventId::ReferenceFixed, *ticks, &[1, 2, 0])).unwrap();
    }
    writer.flush().unwrap();
    let stream = std::fs::read(path).unwrap();
    // Behind `EventInit` and its sync.
    let at = 72;
    assert_eq!(stream.len(), at + 4 * 48);
    let written = (0..4).map(|index| word(&stream, at + index * 48 + 8));
    assert_eq!(written.collect::<Vec<_>>(), clocks);
}

/// What is missing is told of where it is missing: a reader can add it to what is there.
#[test]
fn losses_stand_where_they_happened() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("t.mps");
    let filter = 1 << Category::Ref as u32 | 1 << Category::Arena as u32;
    let mut writer = writer(CString::new(path.to_str().unwrap()).unwrap(), filter);
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

fn word(stream: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(stream[at..at + 8].try_into().unwrap())
}
