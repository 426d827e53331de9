//! Tests of the output buffer. The test plays the I/O thread, so it can stall it anywhere.

use std::fs::{self, File};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::Path;

use mps_telemetry::v2 as mps;
use rstest::rstest;

use super::super::async_file::IoThread;
use super::super::hand_off::WriteOutcome;
use super::*;

/// The size of a record with three parameters. It does not divide the size of a block.
const SIZE: usize = 40;
const IN_A_BLOCK: u64 = (BLOCK_BYTES / SIZE) as u64;

fn played(path: &Path) -> (Buffer, IoThread) {
    let (async_file, io_thread) = AsyncFile::with_manual_io_thread();
    (Buffer::over(async_file, OutputFile::new(path.to_owned(), None).unwrap()), io_thread)
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

/// `.event.slot`, `.event.no-block-in-handler`: a debugger stops the I/O thread (here played by the test) and flushes the stream. That
/// flush, and the writing of many more blocks, need no I/O thread.
#[rstest]
fn a_stalled_io_thread_does_not_stop_the_stream(#[values(false, true)] in_a_block: bool) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("t.mps");
    let (mut buffer, mut io_thread) = played(&path);
    let many = 20 * IN_A_BLOCK;
    put(&mut buffer, 0..3 * IN_A_BLOCK);
    let block = in_a_block.then(|| io_thread.claim().unwrap());
    put(&mut buffer, 3 * IN_A_BLOCK..many);
    buffer.write_out().unwrap();
    check(&path, many);
    assert_eq!((buffer.written_bytes(), buffer.records), (many * SIZE as u64, many));

    // The I/O thread resumes: what it writes now is in the file already.
    if let Some(block) = block {
        io_thread.write(block);
    }
    check(&path, many);
    put(&mut buffer, many..2 * many);
    while let Some(block) = io_thread.claim() {
        io_thread.write(block);
    }
    buffer.write_out().unwrap();
    check(&path, 2 * many);
}

#[test]
fn an_io_thread_that_keeps_up_writes_all_whole_blocks() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("t.mps");
    let (mut buffer, mut io_thread) = played(&path);
    let many = 10 * IN_A_BLOCK + 5;
    for number in 0..many {
        put(&mut buffer, number..number + 1);
        // Flush now and then, in the middle of a block.
        if number % 20_000 == 19_999 {
            buffer.write_out().unwrap();
            check(&path, number + 1);
        }
        if let Some(block) = io_thread.claim() {
            io_thread.write(block);
        }
    }
    buffer.write_out().unwrap();
    check(&path, many);
}

/// `.event.crash`: if the process is killed at this point, its file ends with a whole record although the block does not.
#[test]
fn the_io_thread_writes_the_end_of_the_last_record_after_its_last_block() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("t.mps");
    let (mut buffer, mut io_thread) = played(&path);
    let mut next = 0;
    for block in 1..4_usize {
        let until = (block * BLOCK_BYTES).div_ceil(SIZE) as u64;
        // The first record of the next block hands over this block.
        put(&mut buffer, next..until + 1);
        next = until + 1;
        let claimed = io_thread.claim().unwrap();
        io_thread.write(claimed);
        check(&path, until);
    }
}

#[test]
fn the_drain_writes_a_block_that_the_io_thread_could_not_write() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("t.mps");
    let (mut buffer, io_thread) = played(&path);
    put(&mut buffer, 0..3 * IN_A_BLOCK);
    io_thread.claim().unwrap();
    io_thread.finish(WriteOutcome::Failed);
    assert_eq!(io_thread.claim(), None, "it writes nothing until the drain has taken over");
    put(&mut buffer, 3 * IN_A_BLOCK..5 * IN_A_BLOCK);
    assert!(io_thread.claim().is_some(), "then it continues");
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
    let (mut buffer, mut io_thread) = played(&path);
    let all = 3 * IN_A_BLOCK;
    put(&mut buffer, 0..all);
    let first = io_thread.claim().unwrap();
    io_thread.write(first);
    buffer.note_contents();
    let blocks = buffer.async_file.take_over();
    let block = blocks.start;
    assert_eq!(block, 1);
    // SAFETY: the block is full, and no thread writes to it.
    let bytes = unsafe { std::slice::from_raw_parts(buffer.async_file.place(block).as_ptr(), written) };
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
    let (mut buffer, io_thread) = played(&path);
    put(&mut buffer, 0..1000);
    buffer.write_out().unwrap();
    put(&mut buffer, 1000..3 * IN_A_BLOCK);
    io_thread.claim().unwrap();
    io_thread.finish(WriteOutcome::Failed);
    buffer.async_file.redirect_to(c"/dev/full");
    assert_eq!(buffer.write_out().unwrap_err().raw_os_error(), Some(libc::ENOSPC));
    check(&path, 1000);
    assert_eq!((buffer.records, buffer.lost()), (1000, 3 * IN_A_BLOCK - 1000));
}

/// A flush must wait because two threads that write the same pages, one of them with direct I/O, disturb each other.
#[test]
fn a_flush_waits_for_the_block_that_the_io_thread_is_writing() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("t.mps");
    let (mut buffer, io_thread) = played(&path);
    buffer.async_file.set_patience(60_000_000_000);
    put(&mut buffer, 0..2 * IN_A_BLOCK);
    // The I/O thread only claims to have written its block, so zeroes show that the drain has not written it.
    let (written, left) = (io_thread.claim().unwrap(), IN_A_BLOCK * 2 * SIZE as u64 - BLOCK_BYTES as u64);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            // Enough time for a flush that does not wait.
            std::thread::sleep(std::time::Duration::from_millis(20));
            io_thread.finish(WriteOutcome::Written);
        });
        buffer.write_out().unwrap();
    });
    assert_eq!(written, 0);
    let bytes = fs::read(&path).unwrap();
    assert_eq!(bytes.len() as u64, BLOCK_BYTES as u64 + left);
    assert!(bytes[..BLOCK_BYTES].iter().all(|byte| *byte == 0), "the flush has written the I/O thread's block");
    assert!(bytes[BLOCK_BYTES..].iter().any(|byte| *byte != 0));
}

/// The next stream may have the same path.
#[test]
fn an_abandoned_io_thread_no_longer_writes_to_the_path() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("t.mps");
    let (mut buffer, mut io_thread) = played(&path);
    put(&mut buffer, 0..2 * IN_A_BLOCK);
    let block = io_thread.claim().unwrap();
    buffer.write_out().unwrap();
    drop(buffer);
    fs::write(&path, "the next one").unwrap();
    io_thread.write(block);
    assert_eq!(fs::read(&path).unwrap(), b"the next one");
}

#[test]
fn a_late_io_thread_writes_nothing_after_the_file_was_cut() {
    let directory = tempfile::tempdir().unwrap();
    let (path, other) = (directory.path().join("t.mps"), directory.path().join("other"));
    let (mut buffer, mut io_thread) = played(&path);
    put(&mut buffer, 0..2 * IN_A_BLOCK);
    let block = io_thread.claim().unwrap();
    buffer.write_out().unwrap();
    buffer.async_file.cut(400);
    // From here on every write of the I/O thread goes to `other`, where the test detects it.
    buffer.async_file.redirect_to(&CString::new(other.as_os_str().as_bytes()).unwrap());
    io_thread.write(block);
    assert_eq!((fs::metadata(&path).unwrap().len(), fs::metadata(&other).unwrap().len()), (400, 0));
}

/// `.fork.services`
#[test]
fn a_forked_child_does_not_wait_for_the_io_thread() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("t.mps");
    let (mut buffer, io_thread) = played(&path);
    buffer.async_file.set_patience(u64::MAX);
    buffer.async_file.pretend_forked();
    put(&mut buffer, 0..10 * IN_A_BLOCK);
    assert_eq!(io_thread.claim(), None);
    buffer.write_out().unwrap();
    check(&path, 10 * IN_A_BLOCK);
    // Nor at the end, although the I/O thread of this test is dropped later.
    drop(buffer);
    drop(io_thread);
}
