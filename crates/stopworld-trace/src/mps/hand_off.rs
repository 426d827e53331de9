//! The hand-off protocol between the drain, which fills blocks, and an I/O thread that writes them: it decides which of
//! the two writes which block.
//!
//! ```text
//!   block     0 ─ 1 ─ 2 ─ 3 │  4   │ 5 ─ 6 ─ 7 │   8
//!             in the file   │ busy │  wait     │ being filled
//!                                  ▲           ▲
//!                                claims      filled
//! ```
//!
//! Blocks are numbered; block n is in slot n mod `SLOTS`. The drain fills one block after the other and hands it over; the I/O thread
//! claims one block after the other and writes it to its offset in the file.
//!
//! **The drain does not depend on the I/O thread.** The I/O thread may stop at any step, because a debugger may have stopped all other
//! threads (`.event.no-block-in-handler`). So the drain can take over the waiting blocks at any time and write them itself. It also
//! writes the block that the I/O thread had claimed, because it cannot know how far the I/O thread got. That is harmless: both write the
//! same bytes to the same offset, in whichever order. But the block's slot in memory must not be reused before the I/O thread is
//! done with it (`.event.slot`); until then the drain continues in its current slot.
//!
//! **The file has no gap**, whenever the process is killed: a block is written only after all blocks before it (`.event.async-file`).
//! This holds for the I/O thread because it writes in order, and the drain writes the blocks that it has taken over before it hands over
//! the next one.
//!
//! **Only the drain handles errors.** If the I/O thread cannot write a block, it sets a flag and claims no more. The drain then takes
//! over, gets the error itself when it writes the block, and reports it.
//!
//! This file has only the protocol, no memory and no files, so the models run it unchanged.

use std::ops::Range;

use crate::sabotage::{Guard, removed};
use crate::sync::{AtomicU64, Ordering, const_new, interrupt_point};

/// The I/O thread is writing the block before the next one to be claimed; if the drain has taken over since, an earlier one.
const BUSY: u64 = 1;
/// The I/O thread could not write that block.
const FAILED: u64 = 2;
/// The number of the next block to be claimed is in the bits from bit `SHIFT` up.
const SHIFT: u32 = 2;

/// The outcome of writing a block that the I/O thread has claimed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WriteOutcome {
    /// The block is in the file.
    Written,
    /// The block is not in the file, or only a part of it.
    Failed,
}

/// The state shared by drain and I/O thread. See the module documentation.
#[derive(Debug)]
pub(super) struct HandOff<const SLOTS: u64> {
    /// The block that is being filled. All blocks before it have been handed over.
    filled: AtomicU64,
    /// The block to be claimed next, and the flags of the I/O thread.
    claims: AtomicU64,
}

/// The drain's private state.
#[derive(Debug, Default)]
pub(super) struct Filling {
    /// The block that is being filled.
    pub(super) block: u64,
    /// When the drain last took over blocks, it claimed all blocks before this one.
    taken: u64,
    /// The oldest block whose slot was in use when the drain last took over blocks.
    left_busy: u64,
}

impl<const SLOTS: u64> HandOff<SLOTS> {
    const_new! {
        /// Creates the state in which no block has been filled.
        pub(super) fn new() -> Self {
            HandOff { filled: AtomicU64::new(0), claims: AtomicU64::new(0) }
        }
    }

    // ---- The I/O thread's side ---------------------------------------------------------------------------------------------

    /// Claims the next waiting block, if there is one. Call [`finish`](Self::finish) before the next claim.
    pub(super) fn claim(&self) -> Option<u64> {
        let mut seen = self.claims.load(Ordering::Relaxed);
        loop {
            let next = seen >> SHIFT;
            // Acquire: pairs with the release in `hand_over`, so that this thread sees the block's bytes.
            if seen & FAILED != 0 || next >= self.filled.load(Ordering::Acquire) {
                return None;
            }
            interrupt_point();
            let claimed = (next + 1) << SHIFT | BUSY;
            match self.claims.compare_exchange(seen, claimed, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return Some(next),
                Err(now) => seen = now,
            }
        }
    }

    /// Ends the I/O thread's claim.
    pub(super) fn finish(&self, outcome: WriteOutcome) {
        let change = match outcome {
            WriteOutcome::Written => BUSY,
            WriteOutcome::Failed => BUSY | FAILED,
        };
        // Release: pairs with the acquires on the drain's side: the drain refills the slot only after the I/O thread has read it.
        self.claims.fetch_xor(change, Ordering::Release);
    }

    // ---- The drain's side -----------------------------------------------------------------------------------------------

    /// Hands over the current block and begins the next one. Returns false if the next slot is in use or the I/O thread has failed: then
    /// the drain must take over.
    pub(super) fn hand_over(&self, filling: &mut Filling) -> bool {
        // Acquire: pairs with the release in `finish`.
        let seen = self.claims.load(Ordering::Acquire);
        let next = filling.block + 1;
        let is_in_use = next - filling.oldest_in_use(seen) >= SLOTS && !removed(Guard::EventSlot);
        if seen & FAILED != 0 || is_in_use {
            return false;
        }
        filling.block = next;
        // Release: pairs with the acquire in `claim`.
        self.filled.store(next, Ordering::Release);
        true
    }

    /// Returns whether there are blocks that were handed over and not claimed. Only a hint, for the I/O thread.
    pub(super) fn has_more(&self) -> bool {
        self.claims.load(Ordering::Relaxed) >> SHIFT < self.filled.load(Ordering::Relaxed)
    }

    /// Returns whether the I/O thread could not write a block.
    pub(super) fn has_failed(&self) -> bool {
        self.claims.load(Ordering::Relaxed) & FAILED != 0
    }

    /// Returns whether there is a block that the I/O thread may still write.
    pub(super) fn lags(&self, filling: &Filling) -> bool {
        let seen = self.claims.load(Ordering::Relaxed);
        seen & FAILED == 0 && (seen >> SHIFT < filling.block || filling.doubtful(seen).is_some())
    }

    /// Returns whether the I/O thread has claimed a block since the drain last took over.
    pub(super) fn has_claimed_since(&self, filling: &Filling) -> bool {
        self.claims.load(Ordering::Relaxed) >> SHIFT > filling.taken
    }

    /// Takes over all blocks that have been handed over. The caller must write the returned blocks now, in order, before any later
    /// one.
    pub(super) fn take_over(&self, filling: &mut Filling) -> Range<u64> {
        let mut seen = self.claims.load(Ordering::Relaxed);
        loop {
            interrupt_point();
            let claimed = filling.block << SHIFT | seen & BUSY;
            // Acquire: pairs with the release in `finish`. Only the successful exchange matters.
            match self.claims.compare_exchange(seen, claimed, Ordering::Acquire, Ordering::Relaxed) {
                Ok(_) => break,
                Err(now) => seen = now,
            }
        }
        let next = seen >> SHIFT;
        let first = filling.doubtful(seen).filter(|_| !removed(Guard::EventAsyncFile)).unwrap_or(next);
        filling.left_busy = filling.oldest_in_use(seen);
        filling.taken = filling.block;
        first..filling.block
    }
}

impl Filling {
    /// Returns the block that the I/O thread has claimed, if the drain does not know whether it is in the file.
    fn doubtful(&self, seen: u64) -> Option<u64> {
        let next = seen >> SHIFT;
        // If the I/O thread claimed nothing since the drain took over, the drain took over this block too and has written it.
        (seen & (BUSY | FAILED) != 0 && next > self.taken).then(|| next - 1)
    }

    /// Returns the oldest block whose slot is still in use.
    fn oldest_in_use(&self, seen: u64) -> u64 {
        let next = seen >> SHIFT;
        match self.doubtful(seen) {
            Some(block) => block,
            None if seen & BUSY != 0 => self.left_busy,
            None => next,
        }
    }
}
