//! The live blocks of the checked allocator: a table that is read while threads change it.
//!
//! A thread that allocates takes a free *slot* of the table, and gives it back when the block is freed. The block has the number of its slot
//! in front of it, so that a free needs no search. The collector reads all slots in the stopped world. Then each other thread may be
//! stopped at any instruction of this file, and threads that are not attached to the world still run: the collector waits for neither.
//!
//! ```text
//!   slot    | address | about: bytes and trace |      the address is 0 while the slot is free, or is being filled
//!   free    | changes | first free slot | ──► about of a free slot: the next free slot
//!   used    the number of slots that were ever taken
//! ```
//!
//! **What a reader sees is whole** (`.promise.whole`). A thread that fills a slot stores `about` first, and then the address. A reader loads the
//! address, then `about`, then the address again: if the slot was given back and taken again in between, the second load finds another address, or
//! 0, and the reader skips the slot. If it finds the same address, the block at that address may have been freed and allocated again in between. Then
//! `about` is that of one of the two, or the link of the slot while it was free. The size in a link is 0, which no block has: the reader skips such
//! a slot, whose block was listed during the walk. A thread that is stopped between the allocation of its block and the store of the address has a block that no reader
//! sees. The program has not received that block yet, so no reference is in it. A block is taken out of the table before it is freed, when the
//! program has given up what is in it. And a block that grows is a new block for a moment together with the old one (the allocator
//! copies). So each block that the program can use is in the table.
//!
//! **A slot belongs to one block** (`.promise.slot`). The free slots are a stack, whose first slot is changed by compare-exchange. A thread that is
//! stopped after it has read which slot is the next one must not succeed if the stack has changed meanwhile, even if the first slot is the
//! same again: so each removal changes a number beside it. (That number has 32 bits. A thread would have to miss a multiple of 2^32 removals.)
//!
//! A thread that vanishes in the child of a fork between two steps loses at most one slot. A full table is no error here: the block is not listed,
//! and counted.
//!
//! This file is a protocol that is model-checked. The size is a parameter, so that the models can use a small table.

use std::io;

use crate::sabotage::{Guard, removed};
use crate::sync::{AtomicU32, AtomicU64, Mapped, Ordering, const_new, zeroed};

zeroed! {
    /// A slot.
    struct Slot {
        address: AtomicU64,
        about: AtomicU64,
    }
}

zeroed! {
    /// The table itself.
    struct Table<const SLOTS: usize> {
        slots: [Slot; SLOTS],
        /// The first free slot, plus 1, in the lower half; the number of removals in the upper half.
        free: AtomicU64,
        used: AtomicU32,
        unlisted: AtomicU32,
    }
}

/// What is known of a block, in one word.
///
/// ```text
///    63           24 23        0
///   +---------------+-----------+
///   | bytes         | trace     |
///   +---------------+-----------+
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct About {
    /// The size that the program has asked for, not 0. At most 2^40 - 1; a larger block counts as one of that size.
    pub(crate) bytes: u64,
    /// The number of the backtrace of its allocation; below 2^24.
    pub(crate) trace: u32,
}

const TRACE_BITS: u32 = 24;
const MOST_BYTES: u64 = (1 << (64 - TRACE_BITS)) - 1;

impl About {
    fn word(self) -> u64 {
        self.bytes.min(MOST_BYTES) << TRACE_BITS | u64::from(self.trace & ((1 << TRACE_BITS) - 1))
    }

    fn of(word: u64) -> Self {
        Self { bytes: word >> TRACE_BITS, trace: word as u32 & ((1 << TRACE_BITS) - 1) }
    }
}

/// The number of a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SlotId(pub(crate) u32);

/// A block that a reader has found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Block {
    pub(crate) slot: SlotId,
    pub(crate) address: u64,
    pub(crate) about: About,
}

/// The table of live blocks, mapped on first use. See the module's text.
pub(crate) struct Blocks<const SLOTS: usize>(Mapped<Table<SLOTS>>);

impl<const SLOTS: usize> Blocks<SLOTS> {
    const_new! {
        /// Creates a table that is not mapped yet.
        pub(crate) fn new() -> Self {
            // A link, the number of a slot plus 1, is below 2^24: its size is 0.
            const { assert!(SLOTS < 1 << TRACE_BITS) };
            Self(Mapped::new())
        }
    }

    /// Maps the table, if that was not done yet.
    pub(crate) fn map(&self) -> io::Result<()> {
        self.0.map(|_| {}).map(drop)
    }

    /// Lists a block. `None` if there is no room: then the block is counted as one that is not listed.
    pub(crate) fn list(&self, address: u64, about: About) -> Option<SlotId> {
        let table = self.0.map(|_| {}).ok()?;
        let Some(id) = take(table) else {
            table.unlisted.fetch_add(1, Ordering::Relaxed);
            return None;
        };
        let slot = &table.slots[id.0 as usize];
        if removed(Guard::PromiseWhole) {
            slot.address.store(address, Ordering::Relaxed);
            slot.about.store(about.word(), Ordering::Relaxed);
            return Some(id);
        }
        // Release: pairs with the Acquire of `about` in `for_each`: a reader that sees this word sees that the slot had no address before.
        slot.about.store(about.word(), Ordering::Release);
        // Release: pairs with the Acquire of the address in `for_each`: a reader that sees it sees this `about`, or a later one.
        slot.address.store(address, Ordering::Release);
        Some(id)
    }

    /// Removes the block that was listed in this slot, if it is the one at this address. Called once, before the block is freed.
    pub(crate) fn remove(&self, id: SlotId, address: u64) {
        let Some(table) = self.0.get() else { return };
        let Some(slot) = table.slots.get(id.0 as usize) else { return };
        // Relaxed: the thread that frees a block has received it from the thread that listed it.
        if slot.address.load(Ordering::Relaxed) == address {
            // Relaxed: the Release of `about` in `list` comes after it.
            slot.address.store(0, Ordering::Relaxed);
            give(table, id);
        }
    }

    /// Visits each listed block. Takes no lock, and waits for no thread. A block that is listed or removed meanwhile may be left out.
    pub(crate) fn for_each(&self, mut visit: impl FnMut(Block)) {
        let Some(table) = self.0.get() else { return };
        // Relaxed: of a block that was listed before this call began, in the order that the stop establishes, the slot is counted.
        let used = (table.used.load(Ordering::Relaxed) as usize).min(SLOTS);
        for (slot, number) in table.slots[..used].iter().zip(0..) {
            // Acquire: pairs with the Release of the address in `list`.
            let address = slot.address.load(Ordering::Acquire);
            if address == 0 {
                continue;
            }
            // Acquire: pairs with the Release of `about` in `list`.
            let about = About::of(slot.about.load(Ordering::Acquire));
            // Relaxed: ordered by the Acquire before it.
            let is_same = slot.address.load(Ordering::Relaxed) == address;
            if is_same && (about.bytes != 0 || removed(Guard::PromiseWhole)) {
                visit(Block { slot: SlotId(number), address, about });
            }
        }
    }

    /// Returns whether this block, or one of the same size and backtrace at its address, is still in its slot.
    pub(crate) fn has(&self, block: &Block) -> bool {
        let slot = self.0.get().and_then(|table| table.slots.get(block.slot.0 as usize));
        // Relaxed: a change that this thread does not see yet comes after what it has read of the block.
        slot.is_some_and(|slot| {
            slot.address.load(Ordering::Relaxed) == block.address
                && slot.about.load(Ordering::Relaxed) == block.about.word()
        })
    }

    /// Returns how many blocks were not listed because the table was full.
    pub(crate) fn unlisted(&self) -> u32 {
        self.0.get().map_or(0, |table| table.unlisted.load(Ordering::Relaxed))
    }
}

/// Takes a free slot.
fn take<const SLOTS: usize>(table: &Table<SLOTS>) -> Option<SlotId> {
    loop {
        // Acquire: pairs with the Release in `give`: the next slot is stored.
        let free = table.free.load(Ordering::Acquire);
        let Some(first) = (free as u32).checked_sub(1) else { break };
        // Relaxed: if another thread has taken the slot meanwhile, the exchange fails.
        let next = table.slots[first as usize].about.load(Ordering::Relaxed) as u32;
        let removals = if removed(Guard::PromiseSlot) { 0 } else { (free >> 32).wrapping_add(1) };
        let now = removals << 32 | u64::from(next);
        // Relaxed: the slot's words were acquired above.
        if table.free.compare_exchange(free, now, Ordering::Relaxed, Ordering::Relaxed).is_ok() {
            return Some(SlotId(first));
        }
    }
    let more = |used: u32| ((used as usize) < SLOTS).then_some(used + 1);
    table.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).ok().map(SlotId)
}

/// Makes a slot free.
fn give<const SLOTS: usize>(table: &Table<SLOTS>, id: SlotId) {
    // Relaxed: the exchange says whether it is still the first one.
    let mut free = table.free.load(Ordering::Relaxed);
    loop {
        // Relaxed: the exchange publishes the link to `take`, and a reader of blocks skips it.
        table.slots[id.0 as usize].about.store(free & u64::from(u32::MAX), Ordering::Relaxed);
        let now = free >> 32 << 32 | u64::from(id.0 + 1);
        // Release: pairs with the Acquire in `take`.
        match table.free.compare_exchange(free, now, Ordering::Release, Ordering::Relaxed) {
            Ok(_) => return,
            Err(changed) => free = changed,
        }
    }
}
