//! Tests of the output buffer. The test plays the carrier, so it can stall it anywhere.

use std::fs::{self, File};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::Path;

use mps_telemetry::v2 as mps;
use rstest::rstest;

use super::super::behind::Carrier;
use super::super::relay::Fate;
use super::*;

/// The size of a record with three parameters. It does not divide the size of a block.
const SIZE: usize = 40;
const IN_A_BLOCK: u64 = (BLOCK_BYTES / SIZE) as u64;

fn played(path: &Path) -> (Buffer, Carrier) {
    let (behind, carrier) = Behind::with_carrier_played();
    (Buffer::over(behind, OutputFile::new(path.to_owned(), None).unwrap()), carrier)
}

/// Writes records with these numbers.
fn put(buffer: &mut Buffer, numbers: std::ops::Range<u64>) {
    for number in numbers {
        buffer.count_event();
        buffer.put(number, &mps::PoolAlloc { pool: number, pReturn: !number, size: 0 }).unwrap();
    }
}

fn check(path: &Path, records: u64) {
    let bytes = fs::read(path).unwrap();
    assert_eq!(bytes.len() as u64, records * SIZE as u64);
    for (record, number) in bytes.chunks_exact(SIZE).zip(0..) {
        let word = |at: usize| u64::from_ne_bytes(record[at * 8..at * 8 + 8].try_into().unwrap());
        assert_eq!(
            [word(0), word(1), word(2), word(3)],
            [u64::from(mps::PoolAlloc::CODE) | (SIZE as u64) << 16, number, number, !number]
        );
    }
}

/// `.event.place`, `.event.no-block-in-handler`: a debugger stops the I/O thread (here played by the test) and flushes the stream. That
/// flush, and the writing of many more blocks, need no I/O thread.
#[rstest]
fn a_stalled_carrier_does_not_stop_the_stream(#[values(false, true)] in_a_block: bool) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("t.mps");
    let (mut buffer, mut carrier) = played(&path);
    let many = 20 * IN_A_BLOCK;
    put(&mut buffer, 0..3 * IN_A_BLOCK);
    let block = in_a_block.then(|| carrier.claim().unwrap());
    put(&mut buffer, 3 * IN_A_BLOCK..many);
    buffer.write_out().unwrap();
    check(&path, many);
    assert_eq!((buffer.written_bytes(), buffer.records), (many * SIZE as u64, many));

    // The carrier resumes: what it writes now is in the file already.
    if let Some(block) = block {
        carrier.write(block);
    }
    check(&path, many);
    put(&mut buffer, many..2 * many);
    while let Some(block) = carrier.claim() {
        carrier.write(block);
    }
    buffer.write_out().unwrap();
    check(&path, 2 * many);
}

#[test]
fn a_carrier_that_keeps_up_writes_all_whole_blocks() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("t.mps");
    let (mut buffer, mut carrier) = played(&path);
    let many = 10 * IN_A_BLOCK + 5;
    for number in 0..many {
        put(&mut buffer, number..number + 1);
        // Flush now and then, in the middle of a block.
        if number % 20_000 == 19_999 {
            buffer.write_out().unwrap();
            check(&path, number + 1);
        }
        if let Some(block) = carrier.claim() {
            carrier.write(block);
        }
    }
    buffer.write_out().unwrap();
    check(&path, many);
}

/// `.event.crash`: the file of a process that is killed here ends with a whole record, though the block does not.
#[test]
fn the_carrier_writes_the_end_of_the_last_record_after_its_last_block() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("t.mps");
    let (mut buffer, mut carrier) = played(&path);
    let mut next = 0;
    for block in 1..4_usize {
        let until = (block * BLOCK_BYTES).div_ceil(SIZE) as u64;
        // The first record of the next block hands this one over.
        put(&mut buffer, next..until + 1);
        next = until + 1;
        let claimed = carrier.claim().unwrap();
        carrier.write(claimed);
        check(&path, until);
    }
}

#[test]
fn the_drain_writes_a_block_that_the_carrier_could_not_write() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("t.mps");
    let (mut buffer, carrier) = played(&path);
    put(&mut buffer, 0..3 * IN_A_BLOCK);
    carrier.claim().unwrap();
    carrier.say(Fate::Failed);
    assert_eq!(carrier.claim(), None, "it writes nothing until the drain has taken over");
    put(&mut buffer, 3 * IN_A_BLOCK..5 * IN_A_BLOCK);
    assert!(carrier.claim().is_some(), "then it continues");
    buffer.write_out().unwrap();
    check(&path, 5 * IN_A_BLOCK);
}

/// `.event.full-disk`: the device takes only `written` bytes of the second block.
#[rstest]
fn after_an_error_the_file_has_whole_records(
    #[values(0, 1, 31, 32, 63, 64, 65, 100_000, BLOCK_BYTES - 1)] written: usize,
) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("t.mps");
    let (mut buffer, mut carrier) = played(&path);
    let all = 3 * IN_A_BLOCK;
    put(&mut buffer, 0..all);
    let first = carrier.claim().unwrap();
    carrier.write(first);
    buffer.note_contents();
    let blocks = buffer.behind.take_over();
    let block = blocks.start;
    assert_eq!(block, 1);
    // SAFETY: the block is full, and no thread writes to it.
    let bytes = unsafe { std::slice::from_raw_parts(buffer.behind.place(block).as_ptr(), written) };
    File::options().write(true).open(&path).unwrap().write_all_at(bytes, BLOCK_BYTES as u64).unwrap();

    let error = io::Error::from_raw_os_error(libc::ENOSPC);
    assert_eq!(buffer.give_up(block, Cut { written, error }).unwrap_err().raw_os_error(), Some(libc::ENOSPC));
    let left = ((BLOCK_BYTES + written) / SIZE) as u64;
    check(&path, left);
    assert_eq!((buffer.written_bytes(), buffer.records), (left * SIZE as u64, left));
    assert_eq!(buffer.lost(), all - left, "each record is an event here");
}

/// `.event.full-disk`: flushed records stay in the file, even if the rest of their block cannot be written.
#[test]
fn flushed_records_are_not_lost_with_the_rest_of_their_block() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("t.mps");
    let (mut buffer, carrier) = played(&path);
    put(&mut buffer, 0..1000);
    buffer.write_out().unwrap();
    put(&mut buffer, 1000..3 * IN_A_BLOCK);
    carrier.claim().unwrap();
    carrier.say(Fate::Failed);
    buffer.behind.lead_to(c"/dev/full");
    assert_eq!(buffer.write_out().unwrap_err().raw_os_error(), Some(libc::ENOSPC));
    check(&path, 1000);
    assert_eq!((buffer.records, buffer.lost()), (1000, 3 * IN_A_BLOCK - 1000));
}

/// Two threads that write the same pages, one of them with direct I/O, disturb each other.
#[test]
fn a_flush_waits_for_the_block_that_the_carrier_is_writing() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("t.mps");
    let (mut buffer, carrier) = played(&path);
    buffer.behind.has_patience(60_000_000_000);
    put(&mut buffer, 0..2 * IN_A_BLOCK);
    // The carrier only claims to have written its block, so zeroes show that the drain has not written it.
    let (written, left) = (carrier.claim().unwrap(), IN_A_BLOCK * 2 * SIZE as u64 - BLOCK_BYTES as u64);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            // Enough time for a flush that does not wait.
            std::thread::sleep(std::time::Duration::from_millis(20));
            carrier.say(Fate::Written);
        });
        buffer.write_out().unwrap();
    });
    assert_eq!(written, 0);
    let bytes = fs::read(&path).unwrap();
    assert_eq!(bytes.len() as u64, BLOCK_BYTES as u64 + left);
    assert!(bytes[..BLOCK_BYTES].iter().all(|byte| *byte == 0), "the flush has written the carrier's block");
    assert!(bytes[BLOCK_BYTES..].iter().any(|byte| *byte != 0));
}

/// The next stream may have the same path.
#[test]
fn an_abandoned_carrier_no_longer_writes_to_the_path() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("t.mps");
    let (mut buffer, mut carrier) = played(&path);
    put(&mut buffer, 0..2 * IN_A_BLOCK);
    let block = carrier.claim().unwrap();
    buffer.write_out().unwrap();
    drop(buffer);
    fs::write(&path, "the next one").unwrap();
    carrier.write(block);
    assert_eq!(fs::read(&path).unwrap(), b"the next one");
}

#[test]
fn a_late_carrier_writes_nothing_after_the_file_was_cut() {
    let directory = tempfile::tempdir().unwrap();
    let (path, other) = (directory.path().join("t.mps"), directory.path().join("other"));
    let (mut buffer, mut carrier) = played(&path);
    put(&mut buffer, 0..2 * IN_A_BLOCK);
    let block = carrier.claim().unwrap();
    buffer.write_out().unwrap();
    buffer.behind.cut(400);
    // From now on any write goes to `other`, where the test sees it.
    buffer.behind.lead_to(&CString::new(other.as_os_str().as_bytes()).unwrap());
    carrier.write(block);
    assert_eq!((fs::metadata(&path).unwrap().len(), fs::metadata(&other).unwrap().len()), (400, 0));
}

/// `.fork.services`
#[test]
fn a_forked_child_does_not_wait_for_the_carrier() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("t.mps");
    let (mut buffer, carrier) = played(&path);
    buffer.behind.has_patience(u64::MAX);
    buffer.behind.is_forked();
    put(&mut buffer, 0..10 * IN_A_BLOCK);
    assert_eq!(carrier.claim(), None);
    buffer.write_out().unwrap();
    check(&path, 10 * IN_A_BLOCK);
    // Nor at the end, although the carrier of this test is dropped later.
    drop(buffer);
    drop(carrier);
}
