//! Who writes which block of a file: what the drain, which fills blocks, agrees on with the carrier, a thread that writes them.
//!
//! ```text
//!   block     0 ─ 1 ─ 2 ─ 3 │  4   │ 5 ─ 6 ─ 7 │   8
//!             in the file   │ busy │  wait     │ being filled
//!                                  ▲           ▲
//!                                claims      filled
//! ```
//!
//! Blocks are numbered; block n lies in place n mod `PLACES`. The drain fills one after the other and hands it over; the
//! carrier claims one after the other and writes it where it belongs in the file.
//!
//! **The drain needs nobody.** The carrier may stand still at any step, for a debugger may have stopped all other threads
//! (`.event.no-block-in-handler`). So the drain can take over what waits, at any time, and write it by itself; and the
//! block that the carrier was about to write too, for nobody knows how far it came. That does no harm: it is the same bytes
//! at the same place of the file, whoever is the last to write them. What must not be is that the block's place in memory
//! gets other bytes before the carrier is done with it (`.event.place`): there the drain goes on in the place that it has.
//!
//! **What is in the file has no gap**, whenever the process is killed: who writes a block knows that all before it are
//! written (`.event.behind`). The carrier does, for it writes in order, and what it no longer finds to claim, the drain has
//! written before it handed over the next one.
//!
//! **Errors are the drain's.** A block that the carrier could not write is one that it leaves: it says so and claims no
//! more, and the drain takes over, sees for itself what the matter is, and tells of it.
//!
//! This file is a protocol: it knows no memory and no files, and the models run it as it is.

use std::ops::Range;

use crate::sabotage::{Guard, removed};
use crate::sync::{AtomicU64, Ordering, const_new, interrupt_point};

/// The carrier writes the block before the next one to be claimed, or, if the drain has claimed since, an earlier one.
const BUSY: u64 = 1;
/// It could not write that block.
const FAILED: u64 = 2;
/// The number of the next block to be claimed lies above these.
const SHIFT: u32 = 2;

/// What became of a block that the carrier has claimed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// It is in the file.
    Written,
    /// It is not, or not all of it.
    Failed,
}

/// What drain and carrier share. See the module's text.
#[derive(Debug)]
pub(super) struct Relay<const PLACES: u64> {
    /// The block that is being filled: those before it have been handed over.
    filled: AtomicU64,
    /// Which block is claimed next, and what the carrier does.
    claims: AtomicU64,
}

/// What the drain knows by itself.
#[derive(Debug, Default)]
pub(super) struct Filling {
    /// The block that is being filled.
    pub(super) block: u64,
    /// Up to here it has claimed when it took over the last time.
    taken: u64,
    /// What the carrier was busy with then.
    left_busy: u64,
}

impl<const PLACES: u64> Relay<PLACES> {
    const_new! {
        /// Nothing is filled.
        pub(super) fn new() -> Self {
            Relay { filled: AtomicU64::new(0), claims: AtomicU64::new(0) }
        }
    }

    // ---- The carrier's side ---------------------------------------------------------------------------------------------

    /// The block to be written now, if one waits. [`finish`](Self::finish) comes before the next.
    pub(super) fn claim(&self) -> Option<u64> {
        let mut seen = self.claims.load(Ordering::Relaxed);
        loop {
            let next = seen >> SHIFT;
            // Acquire: pairs with the release of `hand_over`, so that the block's bytes are seen.
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

    /// The carrier is done with the block that it has claimed.
    pub(super) fn finish(&self, fate: Fate) {
        let change = match fate {
            Fate::Written => BUSY,
            Fate::Failed => BUSY | FAILED,
        };
        // Release: pairs with the acquires of the drain's side, which writes to the place after this was read from it.
        self.claims.fetch_xor(change, Ordering::Release);
    }

    // ---- The drain's side -----------------------------------------------------------------------------------------------

    /// Hands over the block that is filled, and goes on in the next. False if there is no place for that, or something for
    /// the drain to look at: then it takes over.
    pub(super) fn hand_over(&self, filling: &mut Filling) -> bool {
        // Acquire: pairs with the release of `finish`.
        let seen = self.claims.load(Ordering::Acquire);
        let next = filling.block + 1;
        let is_in_use = next - filling.oldest_in_use(seen) >= PLACES && !removed(Guard::EventPlace);
        if seen & FAILED != 0 || is_in_use {
            return false;
        }
        filling.block = next;
        // Release: pairs with the acquire of `claim`.
        self.filled.store(next, Ordering::Release);
        true
    }

    /// Whether blocks were handed over that the carrier has not claimed. Only the carrier asks, and only to save work.
    pub(super) fn has_more(&self) -> bool {
        self.claims.load(Ordering::Relaxed) >> SHIFT < self.filled.load(Ordering::Relaxed)
    }

    /// Whether there is a block that the carrier could not write.
    pub(super) fn has_failed(&self) -> bool {
        self.claims.load(Ordering::Relaxed) & FAILED != 0
    }

    /// Whether there is a block that the carrier may yet bring to the file by itself.
    pub(super) fn lags(&self, filling: &Filling) -> bool {
        let seen = self.claims.load(Ordering::Relaxed);
        seen & FAILED == 0 && (seen >> SHIFT < filling.block || filling.doubtful(seen).is_some())
    }

    /// Whether the carrier has claimed a block since the drain took over the last time.
    pub(super) fn has_claimed_since(&self, filling: &Filling) -> bool {
        self.claims.load(Ordering::Relaxed) >> SHIFT > filling.taken
    }

    /// Takes over everything that has been handed over: the blocks that the caller writes now, in this order, before
    /// anything that is later.
    pub(super) fn take_over(&self, filling: &mut Filling) -> Range<u64> {
        let mut seen = self.claims.load(Ordering::Relaxed);
        loop {
            interrupt_point();
            let claimed = filling.block << SHIFT | seen & BUSY;
            // Acquire: pairs with the release of `finish`. Only the exchange that succeeds decides.
            match self.claims.compare_exchange(seen, claimed, Ordering::Acquire, Ordering::Relaxed) {
                Ok(_) => break,
                Err(now) => seen = now,
            }
        }
        let next = seen >> SHIFT;
        let first = filling.doubtful(seen).filter(|_| !removed(Guard::EventBehind)).unwrap_or(next);
        filling.left_busy = filling.oldest_in_use(seen);
        filling.taken = filling.block;
        first..filling.block
    }
}

impl Filling {
    /// A block that the carrier has claimed, and of which the drain does not know that it is in the file.
    fn doubtful(&self, seen: u64) -> Option<u64> {
        let next = seen >> SHIFT;
        // If nothing was claimed since the drain took over, it was in doubt then, and the drain has written it.
        (seen & (BUSY | FAILED) != 0 && next > self.taken).then(|| next - 1)
    }

    /// The oldest block whose place has bytes that somebody needs.
    fn oldest_in_use(&self, seen: u64) -> u64 {
        let next = seen >> SHIFT;
        match self.doubtful(seen) {
            Some(block) => block,
            None if seen & BUSY != 0 => self.left_busy,
            None => next,
        }
    }
}
