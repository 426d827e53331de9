//! A file that is written behind those who fill it: blocks in memory, and the carrier, a thread that brings them to the file.
//!
//! A stream of everything that a program does is as long as the disk is fast, and who drains has no time for the disk. So
//! the drain fills a block and hands it over, and the carrier writes it. Which of them writes what is said in `relay`.
//!
//! **The carrier writes past the page cache** where the file system can do that: blocks begin and end at multiples of their
//! size, so the device takes them from where they are. To copy them to the kernel's pages first costs as much as to put them
//! together (three times as much when the pages are fresh), takes the place of what the program itself has in the cache,
//! and leaves the device idle until somebody waits for it. What the drain has to write by itself, the last block above all,
//! goes the usual way; the kernel keeps the two in step. So does everything for a while when the device turns out to be slow.
//!
//! **Whom the drain waits for.** If all blocks wait for the device, so does the drain, and then those who fire. But the
//! carrier may stand still for another reason, in a debugger's hands. So the drain waits for a sign of life and no longer than
//! [`PATIENCE_NS`], and after one wait in vain not again before there was one; what it needs to go on it writes by itself.
//! A flush waits in the same way: two who write the same pages at once, one of them past the cache, are in each other's way, and
//! may be told of errors that are none.
//!
//! The carrier is no mutator, all signals are blocked on it, it takes no lock, and it allocates nothing. Who ends the stream
//! waits for it a moment ([`END_NS`]). It has a share of the memory and of the files: if it stands still at the end both live on until
//! it goes on. But then its files lead nowhere: the next stream may have the same name, and what the carrier was about to write is not
//! of that one. In the child of a fork there is no carrier, and nobody waits for it.
//!
//! **A process that is killed** leaves whole records: when no other block waits, the carrier also writes the rest of the block's last
//! record, which the next block begins with. Only a kill in the middle of a write, or while the device is behind, cuts a record.
//!
//! What has no positions, a pipe or a terminal, can't be written by two. It is never handed over. Neither is anything when the process
//! is about to end: each write may be the last one then, and a block ends in the middle of a record.

use std::ffi::CStr;
use std::fmt;
use std::io;
use std::ops::Range;
use std::ptr::NonNull;
use std::sync::Arc;

use super::relay::{Fate, Filling, Relay};
use crate::events::record::bell::Bell;
use crate::events::record::is_ending;
use crate::os::clock::now_ns;
use crate::os::file::{Cut, Output};
use crate::os::memory::{HUGE_PAGE_BYTES, Reservation};
use crate::os::signals;
use crate::os::spawn::spawn;
use crate::os::thread::getpid;
use crate::sync::{AtomicBool, AtomicU64, Ordering, Semaphore, UnsafeCell};

/// What goes to the file at once. A device that is given one block after the other takes half as many bytes again in
/// blocks of this size as in those of half of it; larger ones gain little.
pub(super) const BLOCK_BYTES: usize = 1 << 20;
/// Behind the block there is room for the end of its last record.
pub(super) const SLACK_BYTES: usize = 4 << 10;
const PLACE_BYTES: usize = BLOCK_BYTES + SLACK_BYTES;

/// How many blocks there are at once: one that is filled, one that is written, and what evens out their paces.
pub(super) const PLACES: u64 = 4;

/// For how long the drain waits for a sign of life.
const PATIENCE_NS: u64 = 50_000_000;
/// For how long the end of a stream waits for the carrier's.
const END_NS: u64 = 1_000_000_000;

/// Nothing was cut.
const WHOLE: u64 = u64::MAX;

/// Who writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum By {
    /// A carrier, where it can and the system gives one.
    Carrier,
    /// Who fills.
    Drain,
}

/// The file, as each of the two writes to it.
struct Files {
    usual: Output,
    /// Past the page cache. `None` where that can't be done.
    direct: Option<Output>,
}

/// What drain and carrier share.
struct Shared {
    memory: Reservation,
    /// Where the block in each place belongs in the file: written by the drain before it hands it over.
    offsets: [UnsafeCell<u64>; PLACES as usize],
    /// How much of its last record is past the end of the block in each place: written likewise.
    tails: [UnsafeCell<usize>; PLACES as usize],
    /// Written by the drain before it hands over the first block.
    files: UnsafeCell<Option<Files>>,
    relay: Relay<PLACES>,
    /// A block waits.
    bell: Bell,
    /// A block is written.
    done: Bell,
    /// The file ends here for ever.
    cut: AtomicU64,
    ends: AtomicBool,
    gone: Semaphore,
}

// SAFETY: the relay says whose the places and offsets are; the files are written once, before it is shared, and writing to
// them takes no more than a number. Everything else is atomic.
unsafe impl Sync for Shared {}

/// The carrier, from the side of who fills blocks.
#[derive(Debug)]
struct Hired {
    /// The process that it belongs to.
    pid: i32,
    /// Where it writes when it has been given up.
    nowhere: Output,
}

/// A file, from the side of who fills its blocks.
pub(super) struct Behind {
    shared: Arc<Shared>,
    filling: Filling,
    carrier: Option<Hired>,
    patience: u64,
    /// It was waited for in vain, and has given no sign of life since.
    stands_still: bool,
    /// The file is open, and has positions.
    has_positions: bool,
}

impl Behind {
    /// A file that is not there yet.
    pub(super) fn new(by: By) -> io::Result<Behind> {
        let memory = Reservation::new(PLACE_BYTES * PLACES as usize, HUGE_PAGE_BYTES)?;
        memory.commit(0, memory.len())?;
        // The device gets a list of pages: of small ones it takes a third less in the same time.
        memory.huge_pages(0, memory.len());
        let shared = Arc::new(Shared {
            memory,
            offsets: std::array::from_fn(|_| UnsafeCell::new(0)),
            tails: std::array::from_fn(|_| UnsafeCell::new(0)),
            files: UnsafeCell::new(None),
            relay: Relay::new(),
            bell: Bell::new(),
            done: Bell::new(),
            cut: AtomicU64::new(WHOLE),
            ends: AtomicBool::new(false),
            gone: Semaphore::new(),
        });
        let carrier = (by == By::Carrier).then(|| start_carrier(&shared).ok()).flatten();
        let filling = Filling::default();
        Ok(Behind { shared, filling, carrier, patience: PATIENCE_NS, stands_still: false, has_positions: false })
    }

    /// Makes the file, unless that is done.
    pub(super) fn open(&mut self, path: &CStr) -> io::Result<()> {
        if self.shared.files().is_some() {
            return Ok(());
        }
        let usual = Output::create(path)?;
        self.has_positions = usual.has_positions();
        let direct = if self.carrier.is_some() && self.has_positions { usual.past_the_cache(path) } else { None };
        // SAFETY: nothing has been handed over, so the carrier does not look at it.
        self.shared.files.with_mut(|place| unsafe { *place = Some(Files { usual, direct }) });
        Ok(())
    }

    /// The block that is being filled: its number.
    pub(super) fn block(&self) -> u64 {
        self.filling.block
    }

    /// Where a block lies: that which is being filled, or one that was handed over last and not written.
    pub(super) fn place(&self, block: u64) -> NonNull<u8> {
        self.shared.place(block)
    }

    /// Hands over the block that is full, which goes to the file here; its last record ends `tail` bytes past it. False if
    /// the carrier has no time for it, or there is none.
    pub(super) fn hand_over(&mut self, at: u64, tail: usize) -> bool {
        if !self.may_hand_over() {
            return false;
        }
        self.shared.set_offset(self.filling.block, at, tail);
        let is_handed_over = self.shared.relay.hand_over(&mut self.filling);
        if is_handed_over {
            self.shared.bell.ring();
        }
        is_handed_over
    }

    /// Waits until the carrier may have time. False if there is no use in that.
    pub(super) fn wait(&mut self) -> bool {
        self.may_hand_over() && !self.shared.relay.has_failed() && self.gets_a_sign()
    }

    fn may_hand_over(&self) -> bool {
        self.has_positions && !is_ending() && self.carrier.as_ref().is_some_and(Hired::is_here)
    }

    /// Waits for a sign of life of the carrier's. False if it stands still.
    fn gets_a_sign(&mut self) -> bool {
        self.stands_still &= !self.shared.relay.has_claimed_since(&self.filling);
        if !self.stands_still {
            self.stands_still = !self.shared.done.wait(Some(self.patience));
        }
        !self.stands_still
    }

    /// The blocks that the caller writes now, one after the other: what the carrier does not get to.
    pub(super) fn take_over(&mut self) -> Range<u64> {
        while self.shared.relay.lags(&self.filling) && self.gets_a_sign() {}
        self.shared.relay.take_over(&mut self.filling)
    }

    /// Writes a block that was taken over, from this byte of it on: what is before is in the file.
    pub(super) fn write(&self, block: u64, from: usize) -> Result<(), Cut> {
        self.shared.files().map_or(Ok(()), |files| self.shared.write(&files.usual, block, from))
    }

    /// Writes some of the block that is being filled, which goes to the file here. All before it is written.
    pub(super) fn write_filled(&self, part: Range<usize>, at: u64) -> Result<(), Cut> {
        let Some(Files { usual, .. }) = self.shared.files() else { return Ok(()) };
        // SAFETY: it is being filled by the caller, and so many bytes of the place have been written.
        let bytes = unsafe { std::slice::from_raw_parts(self.place(self.filling.block).as_ptr(), part.end) };
        let bytes = &bytes[part];
        if self.has_positions { usual.write_all_at(bytes, at) } else { usual.write_all(bytes) }
    }

    /// The file ends here, and nothing more will be written: also not by a carrier that is just about to.
    pub(super) fn cut(&self, at: u64) {
        let Some(Files { usual, .. }) = self.shared.files() else { return };
        // Release: pairs with the acquire in `write`. Either the carrier sees it after its own write, or that comes before
        // the next line.
        self.shared.cut.store(at, Ordering::Release);
        usual.truncate(at);
    }

    /// A carrier that the test plays.
    #[cfg(test)]
    pub(super) fn with_carrier_played() -> (Behind, Carrier) {
        let mut behind = Behind::new(By::Drain).unwrap();
        let carrier = Carrier { shared: Arc::clone(&behind.shared), pace: Some(Pace::default()) };
        behind.carrier = Some(Hired::new().unwrap());
        (behind, carrier)
    }

    /// As if this were the child of the process that has the carrier.
    #[cfg(test)]
    pub(super) fn is_forked(&mut self) {
        self.carrier.as_mut().unwrap().pid = 0;
    }

    #[cfg(test)]
    pub(super) fn has_patience(&mut self, ns: u64) {
        self.patience = ns;
    }

    /// As if something had happened to the file.
    #[cfg(test)]
    pub(super) fn lead_to(&self, other: &CStr) {
        self.shared.files().unwrap().lead_to(&Output::create(other).unwrap());
    }
}

impl Drop for Behind {
    fn drop(&mut self) {
        let Some(carrier) = self.carrier.take().filter(Hired::is_here) else { return };
        // Release: pairs with the acquire of `run`.
        self.shared.ends.store(true, Ordering::Release);
        self.shared.bell.ring();
        let end = now_ns() + END_NS;
        while !self.shared.gone.wait_slice(end.saturating_sub(now_ns())) {
            if now_ns() >= end {
                return self.shared.files().map_or((), |files| files.lead_to(&carrier.nowhere));
            }
        }
    }
}

impl Hired {
    fn new() -> io::Result<Hired> {
        Ok(Hired { pid: getpid(), nowhere: Output::create(c"/dev/null")? })
    }

    /// Not in the child of a fork.
    fn is_here(&self) -> bool {
        self.pid == getpid()
    }
}

impl Files {
    fn lead_to(&self, other: &Output) {
        [Some(&self.usual), self.direct.as_ref()].into_iter().flatten().for_each(|file| file.lead_to(other));
    }
}

impl fmt::Debug for Behind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Behind").field("filling", &self.filling).finish_non_exhaustive()
    }
}

impl Shared {
    fn files(&self) -> Option<&Files> {
        // SAFETY: written once, by the drain, before anybody else can look; never changed.
        self.files.with(|files| unsafe { &*files }).as_ref()
    }

    fn place(&self, block: u64) -> NonNull<u8> {
        // SAFETY: so many places were mapped, and nothing is at 0.
        unsafe { NonNull::new_unchecked(self.memory.base().add((block % PLACES) as usize * PLACE_BYTES)) }
    }

    fn set_offset(&self, block: u64, at: u64, tail: usize) {
        debug_assert!(tail <= SLACK_BYTES);
        // SAFETY: the caller fills the block, so the place is its own.
        self.offsets[(block % PLACES) as usize].with_mut(|place| unsafe { *place = at });
        // SAFETY: as above.
        self.tails[(block % PLACES) as usize].with_mut(|place| unsafe { *place = tail });
    }

    /// Writes what of a block's last record is past its end, so that the file ends with a whole record if the process is
    /// killed before the next block. The drain writes the same bytes to the same place as the beginning of that block.
    fn write_tail(&self, file: &Output, block: u64) {
        // Relaxed: it is not late to see it below.
        if self.cut.load(Ordering::Relaxed) != WHOLE {
            return;
        }
        // SAFETY: the block was handed over, and its place is not used for another one before it is finished.
        let at = self.offsets[(block % PLACES) as usize].with(|at| unsafe { *at });
        // SAFETY: as above.
        let tail = self.tails[(block % PLACES) as usize].with(|tail| unsafe { *tail });
        // SAFETY: as above; `set_offset`'s caller has written `tail` bytes past the block, where the place has slack.
        let bytes = unsafe { std::slice::from_raw_parts(self.place(block).as_ptr().add(BLOCK_BYTES), tail) };
        // If it fails, the next block fails there, too, and that is reported.
        let _ = file.write_all_at(bytes, at + BLOCK_BYTES as u64);
        // Acquire: pairs with the release of `cut`.
        let cut = self.cut.load(Ordering::Acquire);
        if cut != WHOLE {
            file.truncate(cut);
        }
    }

    /// Writes a block that was handed over, from this byte of it on.
    fn write(&self, file: &Output, block: u64, from: usize) -> Result<(), Cut> {
        // Relaxed: it is not late to see it below.
        if self.cut.load(Ordering::Relaxed) != WHOLE {
            return Ok(());
        }
        // SAFETY: the block was handed over, and its place is not used for another one before it is finished.
        let at = self.offsets[(block % PLACES) as usize].with(|at| unsafe { *at });
        // SAFETY: as above; it is full.
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

/// Brings blocks to the file.
pub(super) struct Carrier {
    shared: Arc<Shared>,
    /// `None` if there is only one way.
    pace: Option<Pace>,
}

/// Which way blocks go. A device that is slower than this is one that those who fire should not wait for: the kernel's pages
/// take up what comes faster than it takes it, as long as there are some. From time to time it is tried again.
#[derive(Debug, Default)]
struct Pace {
    slow_in_a_row: u32,
    the_usual_way: u32,
}

/// For a block; the scheduler may have let one wait, but not so many.
const SLOW_NS: u64 = 8_000_000;
const SLOW_IN_A_ROW: u32 = 4;
/// Blocks: 128 MiB.
const THE_USUAL_WAY: u32 = 128;

impl Pace {
    /// Whether the next block goes past the cache.
    fn is_direct(&mut self) -> bool {
        let is_direct = self.the_usual_way == 0;
        self.the_usual_way = self.the_usual_way.saturating_sub(1);
        is_direct
    }

    /// A block that went past the cache took so long.
    fn note(&mut self, ns: u64) {
        self.slow_in_a_row = if ns > SLOW_NS { self.slow_in_a_row + 1 } else { 0 };
        if self.slow_in_a_row == SLOW_IN_A_ROW {
            *self = Pace { slow_in_a_row: 0, the_usual_way: THE_USUAL_WAY };
        }
    }
}

impl Carrier {
    fn run(mut self) {
        loop {
            while let Some(block) = self.claim() {
                self.write(block);
            }
            // Acquire: pairs with the release of `drop`. What was handed over before that was taken over before it.
            if self.shared.ends.load(Ordering::Acquire) {
                break;
            }
            self.shared.bell.wait(None);
        }
    }

    pub(super) fn claim(&self) -> Option<u64> {
        self.shared.relay.claim()
    }

    /// Writes a block that it has claimed.
    pub(super) fn write(&mut self, block: u64) {
        let fate = if self.is_written(block) { Fate::Written } else { Fate::Failed };
        if fate == Fate::Written
            && !self.shared.relay.has_more()
            && let Some(files) = self.shared.files()
        {
            self.shared.write_tail(&files.usual, block);
        }
        self.say(fate);
    }

    /// What became of it.
    pub(super) fn say(&self, fate: Fate) {
        self.shared.relay.finish(fate);
        self.shared.done.ring();
    }

    fn is_written(&mut self, block: u64) -> bool {
        let Some(Files { usual, direct }) = self.shared.files() else { return false };
        if let (Some(direct), Some(pace)) = (direct, &mut self.pace)
            && pace.is_direct()
        {
            let begin = now_ns();
            if self.shared.write(direct, block, 0).is_ok() {
                pace.note(now_ns().saturating_sub(begin));
                return true;
            }
            // It may be that file system's affair, and the usual way is open.
            self.pace = None;
        }
        self.shared.write(usual, block, 0).is_ok()
    }
}

impl Drop for Carrier {
    fn drop(&mut self) {
        self.shared.gone.post();
    }
}

fn start_carrier(shared: &Arc<Shared>) -> io::Result<Hired> {
    let hired = Hired::new()?;
    let carrier = Carrier { shared: Arc::clone(shared), pace: Some(Pace::default()) };
    // The new thread has this one's mask from its first instruction on.
    let _blocked = signals::block_all();
    spawn("stopworld-file", move || carrier.run())?;
    Ok(hired)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_waits_for_a_slow_device_for_long() {
        let mut pace = Pace::default();
        let mut ways = [0, 0];
        // Others had the processor now and then: that is no reason.
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
