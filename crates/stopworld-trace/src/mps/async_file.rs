//! An asynchronous file writer: blocks in memory, and an I/O thread that writes them to the file.
//!
//! A stream of everything that a program does may need the full speed of the disk, and the drain must not wait for the disk. So
//! the drain fills a block and hands it over, and the I/O thread writes it. Module `hand_off` has the protocol.
//!
//! **The I/O thread bypasses the page cache** where the file system supports that: blocks begin and end at multiples of their size, so
//! the device reads them directly from the buffer. Copying them to the page cache first costs as much time as assembling them (three
//! times as much if the pages are fresh), evicts the program's own pages, and leaves the device idle until something waits for it.
//! The blocks that the drain has to write itself, above all the last one, go through the page cache; the kernel keeps the two paths
//! coherent. If the device is slow, everything goes through the page cache for a while.
//!
//! **When the drain waits.** If all blocks wait for the device, the drain waits too, and then the threads that fire events. But the
//! I/O thread may be stalled for another reason: a debugger may have stopped it. So the drain waits for progress of the I/O thread, at most
//! [`PATIENCE_NS`]. After one wait without progress it does not wait again until there was some, and writes what it must itself.
//! A flush waits in the same way, because two threads that write the same pages at the same time, one of them with direct I/O,
//! disturb each other and may get errors although nothing is wrong.
//!
//! The I/O thread is not a mutator. All signals are blocked on it, it takes no lock, and it does not allocate. The thread that ends the
//! stream waits for it at most [`END_NS`]. The I/O thread shares ownership of the memory and the files: if it is stalled at the end, both
//! live until it resumes. Its file descriptors are redirected to `/dev/null` then, because the next stream may have the same path, and
//! the I/O thread must not write its old block there. A forked child has no I/O thread and never waits for one.
//!
//! **A killed process** leaves whole records: if the last record of a block ends in the next block, and no other block waits to be
//! written, the I/O thread also writes the beginning of the next block up to the end of that record. A record is cut only by a kill in
//! the middle of a write, or while blocks wait.
//!
//! A file without positions, such as a pipe or a terminal, cannot be written by two threads, so the drain writes all of it. The drain
//! also writes everything when the process is about to exit: any write may be the last one then, and a block ends in the middle of a
//! record.

use std::ffi::CStr;
use std::fmt;
use std::io;
use std::ops::Range;
use std::ptr::NonNull;
use std::sync::Arc;

use super::hand_off::{Filling, HandOff, WriteOutcome};
use crate::os::clock::now_ns;
use crate::os::file::{Cut, Output};
use crate::os::memory::{HUGE_PAGE_BYTES, Reservation};
use crate::os::signals;
use crate::os::spawn::spawn;
use crate::os::thread::getpid;
use crate::sync::notify::Notify;
use crate::sync::{AtomicBool, AtomicU64, Ordering, Semaphore, UnsafeCell};
use stopworld::events::record::is_ending;

/// The unit of writes to the file. A device that is given one block after the other has 1.5 times the throughput with blocks of
/// this size as with blocks of half the size; larger blocks gain little.
pub(super) const BLOCK_BYTES: usize = 1 << 20;
/// Room after the block for the end of its last record.
pub(super) const SLACK_BYTES: usize = 4 << 10;
const PLACE_BYTES: usize = BLOCK_BYTES + SLACK_BYTES;

/// The number of block slots: one for the block being filled, one for the block being written, and two to even out the speeds.
pub(super) const SLOTS: u64 = 4;

/// How long the drain waits for progress of the I/O thread.
const PATIENCE_NS: u64 = 50_000_000;
/// How long the end of a stream waits for the I/O thread to exit.
const END_NS: u64 = 1_000_000_000;

/// The value of `cut` if the file was not cut.
const WHOLE: u64 = u64::MAX;

/// Which thread writes the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WriterThread {
    /// An I/O thread, if one can be started and the file has positions; otherwise the drain.
    IoThread,
    /// Only the drain.
    Drain,
}

/// The file, opened for each of the two paths.
struct Files {
    /// The file, written through the page cache.
    buffered: Output,
    /// The file, written with direct I/O. `None` if the file system does not support that.
    direct: Option<Output>,
}

/// State shared by the drain and the I/O thread.
struct Shared {
    memory: Reservation,
    /// The file offset of the block in each slot. The drain writes it before it hands over the block.
    offsets: [UnsafeCell<u64>; SLOTS as usize],
    /// How many bytes of its last record are past the end of the block in each slot. Written like `offsets`.
    tails: [UnsafeCell<usize>; SLOTS as usize],
    /// The drain writes it before it hands over the first block.
    files: UnsafeCell<Option<Files>>,
    hand_off: HandOff<SLOTS>,
    /// Notifies the I/O thread that a block waits.
    wakeup: Notify,
    /// Notifies the drain that the I/O thread has finished a block.
    done: Notify,
    /// The final size of the file, or [`WHOLE`].
    cut: AtomicU64,
    /// The I/O thread is to exit.
    ends: AtomicBool,
    /// Posted when the I/O thread has exited.
    gone: Semaphore,
}

// SAFETY: the hand-off decides which thread owns a slot and its offset. The files are written once, before the I/O thread reads them, and
// writing to them only needs their descriptors. Everything else is atomic.
unsafe impl Sync for Shared {}

/// The I/O thread, as the drain sees it.
#[derive(Debug)]
struct IoThreadHandle {
    /// The process that it belongs to.
    pid: i32,
    /// The output to which the I/O thread's descriptors are redirected when that thread is abandoned.
    dev_null: Output,
}

/// A file, as the drain sees it.
pub(super) struct AsyncFile {
    shared: Arc<Shared>,
    filling: Filling,
    io_thread: Option<IoThreadHandle>,
    patience: u64,
    /// Whether the last wait for the I/O thread timed out and it has made no progress since.
    is_stalled: bool,
    /// Whether the file is open and has positions.
    has_positions: bool,
}

impl AsyncFile {
    /// Prepares the blocks and the I/O thread. [`open`](Self::open) creates the file.
    pub(super) fn new(by: WriterThread) -> io::Result<AsyncFile> {
        let memory = Reservation::new(PLACE_BYTES * SLOTS as usize, HUGE_PAGE_BYTES)?;
        memory.commit(0, memory.len())?;
        // The kernel passes a list of pages to the device; with small pages the device's throughput is a third lower.
        memory.huge_pages(0, memory.len());
        let shared = Arc::new(Shared {
            memory,
            offsets: std::array::from_fn(|_| UnsafeCell::new(0)),
            tails: std::array::from_fn(|_| UnsafeCell::new(0)),
            files: UnsafeCell::new(None),
            hand_off: HandOff::new(),
            wakeup: Notify::new(),
            done: Notify::new(),
            cut: AtomicU64::new(WHOLE),
            ends: AtomicBool::new(false),
            gone: Semaphore::new(),
        });
        let io_thread = (by == WriterThread::IoThread).then(|| start_io_thread(&shared).ok()).flatten();
        let filling = Filling::default();
        Ok(AsyncFile { shared, filling, io_thread, patience: PATIENCE_NS, is_stalled: false, has_positions: false })
    }

    /// Creates the file, if it is not open yet.
    pub(super) fn open(&mut self, path: &CStr) -> io::Result<()> {
        if self.shared.files().is_some() {
            return Ok(());
        }
        let buffered = Output::create(path)?;
        self.has_positions = buffered.has_positions();
        let direct = if self.io_thread.is_some() && self.has_positions { buffered.past_the_cache(path) } else { None };
        // SAFETY: nothing has been handed over, so the I/O thread does not look at it.
        self.shared.files.with_mut(|place| unsafe { *place = Some(Files { buffered, direct }) });
        Ok(())
    }

    /// Returns the number of the block that is being filled.
    pub(super) fn block(&self) -> u64 {
        self.filling.block
    }

    /// Returns the address of a block: the one being filled, or one that was handed over and is not written yet.
    pub(super) fn place(&self, block: u64) -> NonNull<u8> {
        self.shared.place(block)
    }

    /// Hands over the full block to be written at file offset `at`. Its last record ends `tail` bytes past the block. Returns false
    /// if all slots are in use, the I/O thread has failed, or there is no I/O thread to use.
    pub(super) fn hand_over(&mut self, at: u64, tail: usize) -> bool {
        if !self.may_hand_over() {
            return false;
        }
        self.shared.set_offset(self.filling.block, at, tail);
        let is_handed_over = self.shared.hand_off.hand_over(&mut self.filling);
        if is_handed_over {
            self.shared.wakeup.notify();
        }
        is_handed_over
    }

    /// Waits until a slot may be free. Returns false if waiting is useless.
    pub(super) fn wait(&mut self) -> bool {
        self.may_hand_over() && !self.shared.hand_off.has_failed() && self.wait_for_progress()
    }

    fn may_hand_over(&self) -> bool {
        self.has_positions && !is_ending() && self.io_thread.as_ref().is_some_and(IoThreadHandle::is_here)
    }

    /// Waits for progress of the I/O thread. Returns false if it is stalled.
    fn wait_for_progress(&mut self) -> bool {
        self.is_stalled &= !self.shared.hand_off.has_claimed_since(&self.filling);
        if !self.is_stalled {
            self.is_stalled = !self.shared.done.wait(Some(self.patience));
        }
        !self.is_stalled
    }

    /// Takes over the blocks that the I/O thread does not write in time. Returns their numbers; the caller must write them now, in order.
    pub(super) fn take_over(&mut self) -> Range<u64> {
        while self.shared.hand_off.lags(&self.filling) && self.wait_for_progress() {}
        self.shared.hand_off.take_over(&mut self.filling)
    }

    /// Writes a block that was taken over, from byte `from` on; the bytes before that are in the file already.
    pub(super) fn write(&self, block: u64, from: usize) -> Result<(), Cut> {
        self.shared.files().map_or(Ok(()), |files| self.shared.write(&files.buffered, block, from))
    }

    /// Writes a part of the block that is being filled at file offset `at`. Everything before it must be in the file.
    pub(super) fn write_filled(&self, part: Range<usize>, at: u64) -> Result<(), Cut> {
        let Some(Files { buffered, .. }) = self.shared.files() else { return Ok(()) };
        // SAFETY: the caller fills this block, and has written `part.end` bytes of the slot.
        let bytes = unsafe { std::slice::from_raw_parts(self.place(self.filling.block).as_ptr(), part.end) };
        let bytes = &bytes[part];
        if self.has_positions { buffered.write_all_at(bytes, at) } else { buffered.write_all(bytes) }
    }

    /// Truncates the file for good: nothing more is written, not even by an I/O thread that is just about to write.
    pub(super) fn cut(&self, at: u64) {
        let Some(Files { buffered, .. }) = self.shared.files() else { return };
        // Release: pairs with the acquire in `write`. Either the I/O thread sees this store after its own write, or its write comes
        // before the next line.
        self.shared.cut.store(at, Ordering::Release);
        buffered.truncate(at);
    }

    /// Returns a file and an I/O thread that the test runs step by step.
    #[cfg(test)]
    pub(super) fn with_manual_io_thread() -> (AsyncFile, IoThread) {
        let mut async_file = AsyncFile::new(WriterThread::Drain).unwrap();
        let io_thread = IoThread { shared: Arc::clone(&async_file.shared), pace: Some(Pace::default()) };
        async_file.io_thread = Some(IoThreadHandle::new().unwrap());
        (async_file, io_thread)
    }

    /// Pretends that this is a forked child of the process that has the I/O thread.
    #[cfg(test)]
    pub(super) fn pretend_forked(&mut self) {
        self.io_thread.as_mut().unwrap().pid = 0;
    }

    #[cfg(test)]
    pub(super) fn set_patience(&mut self, ns: u64) {
        self.patience = ns;
    }

    /// Redirects the file descriptors to another file.
    #[cfg(test)]
    pub(super) fn redirect_to(&self, other: &CStr) {
        self.shared.files().unwrap().redirect_to(&Output::create(other).unwrap());
    }
}

impl Drop for AsyncFile {
    fn drop(&mut self) {
        let Some(io_thread) = self.io_thread.take().filter(IoThreadHandle::is_here) else { return };
        // Release: pairs with the acquire of `run`.
        self.shared.ends.store(true, Ordering::Release);
        self.shared.wakeup.notify();
        let end = now_ns() + END_NS;
        while !self.shared.gone.wait_slice(end.saturating_sub(now_ns())) {
            if now_ns() >= end {
                return self.shared.files().map_or((), |files| files.redirect_to(&io_thread.dev_null));
            }
        }
    }
}

impl IoThreadHandle {
    fn new() -> io::Result<IoThreadHandle> {
        Ok(IoThreadHandle { pid: getpid(), dev_null: Output::create(c"/dev/null")? })
    }

    /// Returns whether this process has the I/O thread; false in a forked child.
    fn is_here(&self) -> bool {
        self.pid == getpid()
    }
}

impl Files {
    fn redirect_to(&self, other: &Output) {
        [Some(&self.buffered), self.direct.as_ref()].into_iter().flatten().for_each(|file| file.lead_to(other));
    }
}

impl fmt::Debug for AsyncFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AsyncFile").field("filling", &self.filling).finish_non_exhaustive()
    }
}

impl Shared {
    fn files(&self) -> Option<&Files> {
        // SAFETY: the drain stores `files` once, before it hands over a block, so before another thread can read them; they never change
        // after that.
        self.files.with(|files| unsafe { &*files }).as_ref()
    }

    fn place(&self, block: u64) -> NonNull<u8> {
        // SAFETY: `SLOTS` slots were mapped, and no mapping is at address 0.
        unsafe { NonNull::new_unchecked(self.memory.base().add((block % SLOTS) as usize * PLACE_BYTES)) }
    }

    fn set_offset(&self, block: u64, at: u64, tail: usize) {
        debug_assert!(tail <= SLACK_BYTES);
        // SAFETY: the caller fills the block, so it owns the slot.
        self.offsets[(block % SLOTS) as usize].with_mut(|place| unsafe { *place = at });
        // SAFETY: as above.
        self.tails[(block % SLOTS) as usize].with_mut(|place| unsafe { *place = tail });
    }

    /// Writes the part of a block's last record that is past its end, so that the file ends with a whole record if the process is
    /// killed before the next block. The same bytes are written again to the same offset as the beginning of that block.
    fn write_tail(&self, file: &Output, block: u64) {
        // Relaxed: the load below is the one that must see it.
        if self.cut.load(Ordering::Relaxed) != WHOLE {
            return;
        }
        // SAFETY: the block was handed over, and its slot is not reused before it is finished.
        let at = self.offsets[(block % SLOTS) as usize].with(|at| unsafe { *at });
        // SAFETY: as above.
        let tail = self.tails[(block % SLOTS) as usize].with(|tail| unsafe { *tail });
        // SAFETY: as above; the caller of `set_offset` has written `tail` bytes past the block, in the slack of the slot.
        let bytes = unsafe { std::slice::from_raw_parts(self.place(block).as_ptr().add(BLOCK_BYTES), tail) };
        // If this write fails, the write of the next block at the same place fails too, and that failure is reported.
        let _ = file.write_all_at(bytes, at + BLOCK_BYTES as u64);
        // Acquire: pairs with the release of `cut`.
        let cut = self.cut.load(Ordering::Acquire);
        if cut != WHOLE {
            file.truncate(cut);
        }
    }

    /// Writes a block that was handed over, from byte `from` on.
    fn write(&self, file: &Output, block: u64, from: usize) -> Result<(), Cut> {
        // Relaxed: the load below is the one that must see it.
        if self.cut.load(Ordering::Relaxed) != WHOLE {
            return Ok(());
        }
        // SAFETY: the block was handed over, and its slot is not reused before it is finished.
        let at = self.offsets[(block % SLOTS) as usize].with(|at| unsafe { *at });
        // SAFETY: as above; the block is full.
        let bytes = unsafe { std::slice::from_raw_parts(self.place(block).as_ptr(), BLOCK_BYTES) };
        let result = file.write_all_at(&bytes[from..], at + from as u64);
        // Acquire: pairs with the release of `cut`.
        let cut = self.cut.load(Ordering::Acquire);
        if cut != WHOLE {
            file.truncate(cut);
        }
        result
    }
}

/// The I/O thread, which writes blocks to the file.
pub(super) struct IoThread {
    shared: Arc<Shared>,
    /// `None` if direct I/O is not used.
    pace: Option<Pace>,
}

/// Decides between direct I/O and the page cache. If the device is slow, the threads that fire events should not wait for it: the page
/// cache then absorbs data that arrive faster than the device writes them, as long as there is free memory. After some blocks direct I/O is
/// tried again.
#[derive(Debug, Default)]
struct Pace {
    slow_in_a_row: u32,
    /// Number of blocks still to be written through the page cache.
    buffered_left: u32,
}

/// A block whose write takes longer than this is slow.
const SLOW_NS: u64 = 8_000_000;
/// After this many slow blocks in a row the device counts as slow; fewer may be due to the scheduler.
const SLOW_IN_A_ROW: u32 = 4;
/// The number of blocks (128 MiB) that are then written through the page cache.
const BUFFERED_BLOCKS: u32 = 128;

impl Pace {
    /// Returns whether the next block is written with direct I/O.
    fn is_direct(&mut self) -> bool {
        let is_direct = self.buffered_left == 0;
        self.buffered_left = self.buffered_left.saturating_sub(1);
        is_direct
    }

    /// Notes that writing a block with direct I/O took `ns`.
    fn note(&mut self, ns: u64) {
        self.slow_in_a_row = if ns > SLOW_NS { self.slow_in_a_row + 1 } else { 0 };
        if self.slow_in_a_row == SLOW_IN_A_ROW {
            *self = Pace { slow_in_a_row: 0, buffered_left: BUFFERED_BLOCKS };
        }
    }
}

impl IoThread {
    fn run(mut self) {
        loop {
            while let Some(block) = self.claim() {
                self.write(block);
            }
            // Acquire: pairs with the release in `drop`. All blocks that were handed over before that store have been claimed or taken
            // over.
            if self.shared.ends.load(Ordering::Acquire) {
                break;
            }
            self.shared.wakeup.wait(None);
        }
    }

    pub(super) fn claim(&self) -> Option<u64> {
        self.shared.hand_off.claim()
    }

    /// Writes a block that the I/O thread has claimed.
    pub(super) fn write(&mut self, block: u64) {
        let outcome = if self.is_written(block) { WriteOutcome::Written } else { WriteOutcome::Failed };
        if outcome == WriteOutcome::Written
            && !self.shared.hand_off.has_more()
            && let Some(files) = self.shared.files()
        {
            self.shared.write_tail(&files.buffered, block);
        }
        self.finish(outcome);
    }

    /// Finishes the claimed block with this result.
    pub(super) fn finish(&self, outcome: WriteOutcome) {
        self.shared.hand_off.finish(outcome);
        self.shared.done.notify();
    }

    fn is_written(&mut self, block: u64) -> bool {
        let Some(Files { buffered, direct }) = self.shared.files() else { return false };
        if let (Some(direct), Some(pace)) = (direct, &mut self.pace)
            && pace.is_direct()
        {
            let begin = now_ns();
            if self.shared.write(direct, block, 0).is_ok() {
                pace.note(now_ns().saturating_sub(begin));
                return true;
            }
            // The file system may support direct I/O only partly; the page cache may still work.
            self.pace = None;
        }
        self.shared.write(buffered, block, 0).is_ok()
    }
}

impl Drop for IoThread {
    fn drop(&mut self) {
        self.shared.gone.post();
    }
}

fn start_io_thread(shared: &Arc<Shared>) -> io::Result<IoThreadHandle> {
    let handle = IoThreadHandle::new()?;
    let io_thread = IoThread { shared: Arc::clone(shared), pace: Some(Pace::default()) };
    // The new thread inherits this thread's signal mask.
    let _blocked = signals::block_all();
    spawn("stopworld-file", move || io_thread.run())?;
    Ok(handle)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slow_device_is_written_through_the_page_cache() {
        let mut pace = Pace::default();
        let mut ways = [0, 0];
        // Fewer than four slow blocks in a row are attributed to the scheduler.
        for block in 0..1000 {
            assert!(pace.is_direct());
            pace.note(if block % 4 == 3 { SLOW_NS / 8 } else { 2 * SLOW_NS });
        }
        pace.note(SLOW_NS / 8);
        for _ in 0..1000 {
            let is_direct = pace.is_direct();
            ways[usize::from(is_direct)] += 1;
            if is_direct {
                pace.note(2 * SLOW_NS);
            }
        }
        assert!(ways[1] < 40, "{ways:?}");
        while !pace.is_direct() {}
        pace.note(SLOW_NS / 8);
        assert!((0..1000).all(|_| {
            pace.note(SLOW_NS / 8);
            pace.is_direct()
        }));
    }
}
