//! The heap.
//!
//! A non-moving mark-sweep heap in one reserved range of addresses. Small objects are in blocks of 16 KiB, each divided into
//! cells of one size ([`layout`]); objects above 8 KiB have blocks of their own ([`large`]); pinned objects have their own
//! blocks of cells, so that reports can distinguish them. Side tables map any address to its object in constant time and hold
//! the marks ([`blocks`]). Each thread allocates from runs of free cells of its own ([`cache`]), which lazy sweeping provides
//! ([`sweep`]).
//!
//! The heap does not depend on the collector. Its slow path, [`Heap::refill`], returns [`Refill::NeedsCollection`] when the
//! budget that the collector set is spent or the limit is reached; the collector does the rest.
//!
//! # Which thread may access what
//! * `HeapState` (free blocks, lists, counts of bytes): any thread that holds the allocation lock; its functions require the lock's
//!   guard as proof. The collecting thread holds that lock through the whole stop, and functions that only it may call require a
//!   [`WorldStopped`].
//! * A block that a thread owns, and its runs: the owner. In the stopped world the collector, which changes nothing but the headers
//!   of dead cells.
//! * Mark bytes: the markers write them in the stopped world; the thread that sweeps the block reads them.

pub(crate) mod arena_thread;
pub(crate) mod array;
mod bin_set;
pub(crate) mod blocks;
pub(crate) mod cache;
pub(crate) mod cell;
pub(crate) mod charges;
pub(crate) mod compact;
pub(crate) mod description;
pub(crate) mod ephemerons;
mod fields;
pub(crate) mod free;
mod free_blocks;
mod freed;
mod freed_cells;
pub(crate) mod gate;
mod huge_pages;
pub(crate) mod large;
pub(crate) mod layout;
mod list;
pub(crate) mod local;
pub(crate) mod places;
pub(crate) mod pointer;
pub(crate) mod ranges;
pub(crate) mod references;
mod sample_points;
mod sampled_cells;
pub(crate) mod slots;
pub(crate) mod std_traits;
pub(crate) mod stopped;
pub(crate) mod sweep;
pub(crate) mod trace;
pub(crate) mod uses;
pub(crate) mod verify;
pub(crate) mod window;
#[cfg(test)]
pub(crate) mod windows;

use std::cell::{RefCell, RefMut};
use std::io;
use std::sync::Arc;

use blocks::{BlockIndex, BlockState, Blocks, NO_BLOCK};
use cache::AllocationCache;
use charges::{Account, Charges, Charging};
use free_blocks::{BlockRun, FreeBlocks};
use gate::{SweepGate, Sweeping};
use huge_pages::{Choice, Copying};
use layout::{
    BINS, BLOCK_BYTES, BLOCK_SHIFT, CELL_BYTES, CHUNK_BLOCKS, CHUNK_BYTES, CLASSES, SPACES, Space, cells_per_block,
};
use references::{Displacements, ObjectPointers, References};
use sample_points::SamplePoints;
use stopped::WorldStopped;
use window::window;

use crate::os::clock::Budget;
use crate::sabotage::{Guard, removed};
use crate::sync::{
    AtomicBool, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, CurrentId, Guarded, LockGuard, Ordering,
    Ordering::Relaxed, SharedLock, compiler_fence,
};

/// Value of [`Heap::requested`]: collect at once.
const NOW: u32 = 1;
/// Value of [`Heap::requested`]: when the next collection is due anyway, its cause is reported as "requested".
const WHEN_DUE: u32 = 2;

/// The maximum number of blocks that a thread takes at once: 512 KiB, which fits into its processor's own cache.
const MOST_RESERVED: u64 = 32;
/// A thread takes at most the remaining budget divided by this.
const RESERVE_PARTS: usize = 16;

/// The difference between the seeds of two threads' sample points: odd, and far from the step of the generator.
const SEED_STEP: u64 = 0xd1b5_4a32_d192_ed03;

/// Whether freed cells are poisoned and the heap is verified after each collection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Paranoid {
    /// No checks beyond the cheap ones.
    #[default]
    Off,
    /// Freed cells are overwritten, and every collection ends with a verification of the whole heap.
    On,
}

/// The result of a request for more cells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refill {
    /// The bin's run has cells again.
    Ready,
    /// The budget is spent, or the limit is reached: collect, then try again.
    NeedsCollection(Need),
}

/// Why the heap needs a collection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Need {
    /// The allocation budget between two collections is used up.
    Budget,
    /// There is no room below the heap limit.
    Room,
    /// A debugger requested one.
    Request,
}

/// The part of the heap that the allocation lock guards.
pub(crate) struct HeapState {
    /// The number of blocks that can be read and written: a prefix of the reservation.
    pub(crate) committed_blocks: usize,
    /// The number of committed blocks that are not fresh: the memory that the heap really uses.
    pub(crate) resident_blocks: usize,
    pub(crate) free: FreeBlocks,
    /// Head of each bin's list of unswept blocks.
    pub(crate) lists: [BlockIndex; BINS],
    /// Bytes handed to threads since the last collection, used or not.
    pub(crate) acquired_bytes: u64,
    /// Bytes that threads which have detached since the last collection left unused.
    pub(crate) returned_bytes: u64,
    /// The bytes that may be handed out before the next collection.
    pub(crate) budget_bytes: u64,
}

/// One world's heap.
pub(crate) struct Heap {
    pub(crate) blocks: Blocks,
    /// The allocation lock.
    lock: SharedLock,
    state: Guarded<RefCell<HeapState>>,
    /// Committed blocks may not exceed this.
    limit_blocks: AtomicUsize,
    /// The size up to which the heap may grow before a collection, whatever is alive.
    minimum_bytes: AtomicU64,
    gate: SweepGate,
    /// The mark byte of the present collection, or of the last one if none is under way.
    epoch: AtomicU8,
    /// The epoch of the last finished collection.
    swept_epoch: AtomicU8,
    pub(crate) paranoid: bool,
    /// The tags of threads that are in use: one bit for each.
    tags: AtomicU64,
    committed_bytes: AtomicU64,
    /// How many of the committed bytes events have reported.
    announced_bytes: AtomicU64,
    /// Nanoseconds of marking in the collections that count for the choice of huge pages ([`huge_pages::choose`]);
    /// [`huge_pages::MOVED`] when they are used.
    large_marking_ns: AtomicU64,
    /// What of the heap is still to be copied into huge pages.
    copying: Copying,
    /// 0, [`NOW`] or [`WHEN_DUE`]; reset when a collection begins.
    requested: AtomicU32,
    /// Only their addresses are used: events identify the spaces by them.
    pools: [u64; SPACES],
    /// Whether each bin's list may have blocks. A hint, so that a thread need not take the lock to find the list empty.
    listed: [AtomicBool; BINS],
    /// What each object is charged to, in a world that charges its allocations.
    charges: Option<Arc<Charges>>,
    /// Which words refer to untyped objects; `None` if the world has no untyped objects.
    untyped: Option<ObjectPointers>,
    pub(crate) displacements: Displacements,
    sampling: Option<Sampling>,
}

/// How a heap samples its allocations: see [`sample_points`].
struct Sampling {
    interval_bytes: u64,
    /// The seed of the next thread's points.
    seed: AtomicU64,
}

impl Heap {
    /// Reserves a heap that may grow to `limit` bytes. `lock` is the allocation lock.
    pub(crate) fn new(
        limit: usize,
        paranoid: Paranoid,
        charging: Charging,
        untyped: Option<ObjectPointers>,
        lock: SharedLock,
    ) -> io::Result<Self> {
        let limit_blocks = (limit / BLOCK_BYTES).max(1);
        let count = limit_blocks.next_multiple_of(CHUNK_BLOCKS);
        let mut blocks = Blocks::reserve(count)?;
        if untyped == Some(ObjectPointers::Bases) {
            blocks.have_compact_cells()?;
        }
        let charges = match charging {
            Charging::Off => None,
            Charging::On => Some(Arc::new(Charges::new(&blocks)?)),
        };
        Ok(Self {
            lock,
            state: Guarded::new(RefCell::new(HeapState {
                committed_blocks: 0,
                resident_blocks: 0,
                free: FreeBlocks::new(count)?,
                lists: [NO_BLOCK; BINS],
                acquired_bytes: 0,
                returned_bytes: 0,
                budget_bytes: u64::MAX,
            })),
            limit_blocks: AtomicUsize::new(limit_blocks),
            minimum_bytes: AtomicU64::new(0),
            blocks,
            gate: SweepGate::new(),
            epoch: AtomicU8::new(1),
            swept_epoch: AtomicU8::new(1),
            paranoid: paranoid == Paranoid::On,
            tags: AtomicU64::new(0),
            committed_bytes: AtomicU64::new(0),
            announced_bytes: AtomicU64::new(0),
            large_marking_ns: AtomicU64::new(0),
            copying: Copying::default(),
            requested: AtomicU32::new(0),
            pools: [0; SPACES],
            listed: [const { AtomicBool::new(false) }; BINS],
            charges,
            untyped,
            displacements: Displacements::new(),
            sampling: None,
        })
    }

    /// Which words in objects and registered ranges refer to objects.
    pub(crate) fn references(&self) -> References {
        match self.untyped {
            // `.mark.untyped`: the known-bad variant knows only addresses of payloads.
            _ if removed(Guard::MarkUntyped) => References::Exact,
            None => References::Exact,
            Some(ObjectPointers::Interior) => References::Interior,
            Some(ObjectPointers::Bases) => References::Bases { displacements: self.displacements.bits() },
        }
    }

    /// Returns the size in bytes of the payload at this address: that of its cell, or what a large object was allocated with.
    pub(crate) fn room_of(&self, payload: usize) -> usize {
        let block = ((payload - self.blocks.base()) >> BLOCK_SHIFT) as BlockIndex;
        match self.blocks.word(block) {
            word if word.cell_bytes() == 0 => self.blocks.info(block).tail.large_bytes.load(Relaxed),
            word => word.payload_bytes(),
        }
    }

    /// The address by which events identify this space. Valid as long as the heap stays where it is.
    pub(crate) fn pool(&self, space: Space) -> usize {
        std::ptr::from_ref(&self.pools[space as usize]) as usize
    }

    /// Visits every block that a space holds, with address and size; the blocks of a large object together.
    pub(crate) fn for_each_held(&self, held: &LockGuard<'_>, mut visit: impl FnMut(usize, usize, Space)) {
        let committed = self.state(held).committed_blocks;
        for block in 0..committed as BlockIndex {
            let info = self.blocks.info(block);
            match info.state() {
                BlockState::Free | BlockState::Reserved | BlockState::LargeTail => {}
                BlockState::LargeHead => {
                    visit(self.blocks.start(block), self.large_footprint(block) as usize, Space::Large);
                }
                BlockState::Owned | BlockState::Full | BlockState::Unswept => {
                    let is_pinned = info.head.space.load(Relaxed) == Space::Pinned as u8;
                    let space = if is_pinned { Space::Pinned } else { Space::Small };
                    visit(self.blocks.start(block), BLOCK_BYTES, space);
                }
            }
        }
    }

    /// The state that the allocation lock guards. `held` is the lock's guard.
    ///
    /// # Panics
    /// If `held` is a guard of another lock, or the state is borrowed already.
    pub(crate) fn state<'a>(&'a self, held: &'a LockGuard<'_>) -> RefMut<'a, HeapState> {
        // SAFETY: always this heap's lock.
        unsafe { self.state.get(&self.lock, held) }.borrow_mut()
    }

    /// Checks that the stopped world is this heap's.
    fn check(&self, stopped: WorldStopped<'_>) {
        assert!(stopped.allocation().is_of(&self.lock), "another world is stopped");
    }

    /// The number of blocks, from the first on, that may hold objects: all that are committed.
    pub(crate) fn committed_blocks(&self) -> BlockIndex {
        (self.committed_bytes() as usize / BLOCK_BYTES) as BlockIndex
    }

    /// Enters the sweep gate with a block that the thread has just taken under the allocation lock.
    fn enter_gate(&self, held: &LockGuard<'_>) -> Sweeping<'_> {
        debug_assert!(held.is_of(&self.lock));
        self.gate.enter(held)
    }

    /// Waits until no thread is in the sweep gate. While the allocation lock is held, none can enter. Returns false if the
    /// budget ran out first.
    pub(crate) fn wait_for_sweeps(&self, held: &LockGuard<'_>, budget: &mut Budget) -> bool {
        assert!(held.is_of(&self.lock), "the guard of another lock");
        self.gate.wait_until_empty(held, budget)
    }

    /// Called in the child of a fork, where the threads that were sweeping do not exist.
    pub(crate) fn forget_sweeps_in_child(&self) {
        self.gate.reset();
    }

    /// The epoch of the collection that is under way, or else of the last one.
    #[inline(always)]
    pub(crate) fn epoch(&self) -> u8 {
        self.epoch.load(Relaxed)
    }

    #[inline(always)]
    pub(crate) fn swept_epoch(&self) -> u8 {
        self.swept_epoch.load(Relaxed)
    }

    /// Begins a mark phase: from now on cells are marked with a new epoch.
    pub(crate) fn begin_marking(&self, stopped: WorldStopped<'_>) -> u8 {
        self.check(stopped);
        if self.epoch() == u8::MAX {
            self.forget_old_marks(stopped);
        }
        let epoch = self.epoch() % u8::MAX + 1;
        self.epoch.store(epoch, Relaxed);
        epoch
    }

    /// Undoes a mark phase of a collection that is discarded: all objects that were alive stay alive.
    pub(crate) fn discard_marks(&self, stopped: WorldStopped<'_>) {
        self.check(stopped);
        // The next mark phase must not find the marks of this phase, and `is_alive` needs the marks of the phase before. So the cells that
        // this phase has marked get their old mark back.
        let (old, new) = (self.swept_epoch(), self.epoch());
        for block in 0..self.committed_blocks() {
            let info = self.blocks.info(block);
            let cells = match info.state() {
                BlockState::Free | BlockState::Reserved | BlockState::LargeTail => 0,
                BlockState::LargeHead => 1,
                _ => cells_per_block(CELL_BYTES[usize::from(info.head.class.load(Relaxed))]),
            };
            for mark in self.blocks.marks(block, cells) {
                if mark.load(Relaxed) == new {
                    mark.store(old, Relaxed);
                }
            }
        }
        self.epoch.store(old, Relaxed);
    }

    /// Ends a collection, after [`set_up_sweep`](Self::set_up_sweep): the marked objects are the live ones.
    pub(crate) fn end_collection(&self, stopped: WorldStopped<'_>, budget_bytes: u64) {
        self.swept_epoch.store(self.epoch(), Relaxed);
        let mut state = self.state(stopped.allocation());
        state.acquired_bytes = 0;
        state.budget_bytes = budget_bytes;
    }

    /// Provides a thread with more cells of one bin: the next run of its block, or a block to sweep, or a fresh one. `lock`
    /// takes the allocation lock in the way that the caller needs.
    pub(crate) fn refill<'a>(
        &'a self,
        cache: &AllocationCache,
        bin: usize,
        lock: impl Fn() -> LockGuard<'a>,
    ) -> Refill {
        let class = bin % CLASSES;
        let cell_bytes = CELL_BYTES[class];
        if self.is_collection_requested() {
            return Refill::NeedsCollection(Need::Request);
        }
        loop {
            if cache.next_run(&self.blocks, bin, cell_bytes) {
                return Refill::Ready;
            }
            // Blocks with free cells come before empty ones: with the other order, a program whose objects have changing sizes keeps the
            // remains of old blocks and touches new ones.
            if !self.listed[bin].load(Relaxed)
                && let Some(block) = cache.take_reserved()
            {
                self.install_empty(cache, bin, block);
                continue;
            }
            let guard = lock();
            let mut state = self.state(&guard);
            if state.acquired_bytes >= state.budget_bytes {
                return Refill::NeedsCollection(Need::Budget);
            }
            let listed = state.lists[bin];
            if listed == NO_BLOCK {
                self.listed[bin].store(false, Relaxed);
                if cache.reserve().count > 0 {
                    continue;
                }
                if !self.fill_reserve(&mut state, cache) {
                    return Refill::NeedsCollection(Need::Room);
                }
                continue;
            }
            let info = self.blocks.info(listed);
            state.lists[bin] = info.tail.next.load(Relaxed);
            if let Some(used_up) = cache.block(bin) {
                cache.retire(bin);
                self.blocks.info(used_up).set_state(BlockState::Full);
            }
            let free_cells = cells_per_block(cell_bytes) - info.head.live.load(Relaxed) as usize;
            state.acquired_bytes += (free_cells * cell_bytes) as u64;
            drop(state);
            info.set_state(BlockState::Owned);
            cache.while_sweeping(listed, || {
                let sweeping = self.enter_gate(&guard);
                drop(guard);
                window();
                // SAFETY: the block was taken from its list, so no other thread can take it any more.
                let free_bytes = unsafe { self.sweep_block(listed, class) };
                window();
                cache.install(bin, listed, free_bytes);
                window();
                drop(sweeping);
            });
        }
    }

    /// Puts free blocks into the cache's reserve, from which its thread takes them without the lock. Returns false if there is
    /// no room.
    fn fill_reserve(&self, state: &mut HeapState, cache: &AllocationCache) -> bool {
        state.resident_blocks += cache.freshly_touched.swap(0, Relaxed) as usize;
        // Near the end of the budget a thread takes few blocks at a time, so that it does not keep blocks that other threads need.
        let left = state.budget_bytes.saturating_sub(state.acquired_bytes) / (BLOCK_BYTES * RESERVE_PARTS) as u64;
        let most = left.clamp(1, MOST_RESERVED) as u32;
        let run = match state.free.take_some(cache.tag(), most, state.committed_blocks) {
            Some(run) => run,
            None => match self.take_free_blocks(state, 1) {
                Some(first) => BlockRun { first, count: 1 },
                None => return false,
            },
        };
        state.acquired_bytes += (run.count as usize * BLOCK_BYTES) as u64;
        for block in run.iter() {
            self.blocks.info(block).set_state(BlockState::Reserved);
        }
        cache.set_reserve(run);
        true
    }

    /// Divides a block from the thread's own reserve into cells and makes it the one that the thread allocates from. No lock is
    /// held: the thread may be stopped anywhere in here, and a collection leaves the block alone until the cache names it.
    fn install_empty(&self, cache: &AllocationCache, bin: usize, block: BlockIndex) {
        let class = bin % CLASSES;
        let info = self.blocks.info(block);
        info.head.class.store(class as u8, Relaxed);
        info.head.space.store((bin / CLASSES) as u8, Relaxed);
        info.set_live(0);
        window();
        let fresh = info.head.fresh.load(Relaxed) == 1;
        if fresh {
            // The block is counted first: if the thread vanishes in between, one block too many counts as resident. In the other order it
            // could be one too few, and more memory could be returned to the kernel than there is.
            cache.freshly_touched.fetch_add(1, Relaxed);
            compiler_fence(Ordering::SeqCst);
            window();
            info.head.fresh.store(0, Relaxed);
            // The first write to a page of mark bytes makes the kernel provide it: better here than in the stopped world. 0 is no epoch.
            self.blocks.mark(block, 0).store(0, Relaxed);
        }
        window();
        if let Some(charges) = &self.charges {
            charges.blank(block);
        }
        // SAFETY: the block was taken from the thread's own reserve, and nothing lives in it.
        let free_bytes = unsafe { self.sweep_empty_block(block, class, fresh) };
        window();
        // The used-up block keeps the state `Owned`; the next collection recognises that it has no owner because it is in no cache.
        cache.install(bin, block, free_bytes);
        window();
        cache.took_block(block);
        compiler_fence(Ordering::SeqCst);
        info.set_state(BlockState::Owned);
        window();
        cache.uncovered_bytes.fetch_add(BLOCK_BYTES - free_bytes, Relaxed);
        cache.arrived();
        window();
    }

    /// Takes back the blocks that a thread has reserved and not used. The thread is stopped or has ended. Returns the number of bytes that
    /// had been counted as handed out.
    pub(crate) fn take_back_reserve(&self, state: &mut HeapState, cache: &AllocationCache) -> u64 {
        state.resident_blocks += cache.freshly_touched.swap(0, Relaxed) as usize;
        let run = cache.take_reserve();
        for block in run.iter() {
            self.blocks.info(block).set_state(BlockState::Free);
            state.free.insert(block);
        }
        (run.count as usize * BLOCK_BYTES + cache.uncovered_bytes.swap(0, Relaxed)) as u64
    }

    /// Takes `count` adjacent blocks, and commits more memory if necessary. `None` when the limit is reached.
    pub(crate) fn take_free_blocks(&self, state: &mut HeapState, count: usize) -> Option<BlockIndex> {
        loop {
            if let Some(block) = state.free.take(count, state.committed_blocks) {
                return Some(block);
            }
            let limit = if removed(Guard::HeapLimit) {
                self.blocks.reserved_bytes() / BLOCK_BYTES
            } else {
                self.limit_blocks.load(Relaxed)
            };
            let tail = state.free.free_before(state.committed_blocks, count);
            if state.committed_blocks - tail + count > limit {
                // The request would not fit even if the heap grew to its limit: no memory is committed for it.
                return None;
            }
            let wanted = state.committed_blocks + (count - tail).max(CHUNK_BLOCKS);
            let target = wanted.next_multiple_of(CHUNK_BLOCKS).min(limit);
            if target <= state.committed_blocks {
                return None;
            }
            let (from, to) = (state.committed_blocks, target);
            self.blocks.commit(from, to).ok()?;
            for block in from..to {
                self.blocks.info(block as BlockIndex).head.fresh.store(1, Relaxed);
                state.free.insert(block as BlockIndex);
            }
            state.committed_blocks = to;
            self.committed_bytes.store((to * BLOCK_BYTES) as u64, Relaxed);
        }
    }

    /// Returns whether a block that was just taken reads as zero, and marks it as not fresh any more.
    pub(crate) fn take_fresh(&self, state: &mut HeapState, block: BlockIndex) -> bool {
        let fresh = self.blocks.info(block).head.fresh.swap(0, Relaxed) == 1;
        state.resident_blocks += usize::from(fresh);
        fresh
    }

    /// Returns memory of free blocks to the kernel if more than `target_bytes` are resident: the highest piece below block
    /// `below`. Sets `below` to the block below which to search for the next piece. Returns the address and the size of the piece in
    /// bytes; `None` if no memory was returned to the kernel.
    pub(crate) fn give_back(
        &self,
        held: &LockGuard<'_>,
        target_bytes: u64,
        below: &mut usize,
    ) -> Option<(usize, usize)> {
        let state = &mut *self.state(held);
        let is_ours = |state: &mut HeapState, block: usize| {
            state.free.contains(block) && self.blocks.info(block as BlockIndex).head.fresh.load(Relaxed) == 0
        };
        let mut end = state.committed_blocks.min(*below);
        while end > 0 && !is_ours(state, end - 1) {
            end -= 1;
        }
        let mut first = end;
        while first > 0 && end - first < CHUNK_BLOCKS && is_ours(state, first - 1) {
            first -= 1;
        }
        *below = first;
        let bytes = (end - first) * BLOCK_BYTES;
        if bytes == 0 || (state.resident_blocks * BLOCK_BYTES) as u64 <= target_bytes {
            return None;
        }
        // SAFETY: free blocks, which only the holder of the allocation lock hands out: there is no reference into them.
        unsafe { self.blocks.memory().release(first * BLOCK_BYTES, bytes) }.ok()?;
        for block in first..end {
            self.blocks.info(block as BlockIndex).head.fresh.store(1, Relaxed);
        }
        state.resident_blocks -= end - first;
        Some((self.blocks.start(first as BlockIndex), bytes))
    }

    /// Called after each collection, in the running world, with the bytes that it left alive and the time that it marked: chooses between
    /// small and huge pages. The copy into huge pages runs here, on the thread that collected and outside of the pause: about 2 ns for each
    /// committed byte, once, after each collection for about as long as it marked.
    pub(crate) fn choose_pages(&self, live_bytes: u64, mark_ns: u64) {
        // Relaxed: if two threads come here at once, the time of one collection may not count, or the advice is given twice.
        let (marked_ns, committed) = (self.large_marking_ns.load(Relaxed), self.committed_bytes());
        match huge_pages::choose(marked_ns, mark_ns, live_bytes, committed) {
            Choice::Stay => {}
            Choice::Count(marked_ns) => self.large_marking_ns.store(marked_ns, Relaxed),
            Choice::Move => {
                self.large_marking_ns.store(huge_pages::MOVED, Relaxed);
                self.copying.begin(self.blocks.use_huge_pages(committed as usize));
            }
        }
        if let Some(part) = self.copying.take(mark_ns) {
            self.blocks.copy_to_huge_pages(part);
        }
    }

    /// Bytes of memory that the heap really uses.
    pub(crate) fn resident_bytes(&self, held: &LockGuard<'_>) -> u64 {
        (self.state(held).resident_blocks * BLOCK_BYTES) as u64
    }

    /// The memory that was committed since the last call: start and bytes.
    pub(crate) fn take_news_of_growth(&self) -> Option<(usize, usize)> {
        let committed = self.committed_bytes();
        if self.announced_bytes.load(Relaxed) == committed {
            return None;
        }
        let before = self.announced_bytes.swap(committed, Relaxed);
        (committed > before).then(|| (self.blocks.base() + before as usize, (committed - before) as usize))
    }

    /// Returns the table of charges, if this heap has one.
    #[inline]
    pub(crate) fn charges(&self) -> Option<&Charges> {
        self.charges.as_deref()
    }

    /// Creates a cache for a thread that attaches. Its allocations are charged to the number in `word`, if the heap charges
    /// allocations.
    pub(crate) fn new_cache(&self, word: &'static CurrentId) -> AllocationCache {
        let lowest = |tags: u64| (tags != u64::MAX).then(|| tags | (tags + 1));
        // Relaxed: a tag is a hint. Threads that attach when all tags are in use share the last one.
        let before = self.tags.fetch_update(Relaxed, Relaxed, lowest).unwrap_or(u64::MAX >> 1);
        let account = self.charges.clone().map(|charges| Account { charges, word });
        let points = self.sampling.as_ref().map(|sampling| {
            let seed = sampling.seed.fetch_add(SEED_STEP, Relaxed);
            SamplePoints::new(sampling.interval_bytes, seed)
        });
        AllocationCache::new(before.trailing_ones() as u8 + 1, self.blocks.kinds(), account, points)
    }

    /// Takes back everything that the cache's thread owned, when the thread detaches or no longer exists.
    pub(crate) fn release_cache(&self, held: &LockGuard<'_>, cache: &AllocationCache) {
        let state = &mut *self.state(held);
        state.returned_bytes += self.take_back_reserve(state, cache);
        // A thread that ended without detaching may have been in the middle of taking a block.
        if let Some(block) = cache.on_its_way() {
            self.blocks.set_none(block);
            self.blocks.info(block).set_state(BlockState::Free);
            state.free.insert(block);
            state.returned_bytes += BLOCK_BYTES as u64;
        }
        cache.arrived();
        self.tags.fetch_and(!(1 << (cache.tag() - 1)), Relaxed);
        for bin in cache.filled_bins() {
            if let Some(block) = cache.block(bin) {
                // The unused cells of its runs can be allocated again after the next collection.
                state.returned_bytes += cache.unused_bytes(bin) as u64;
                cache.retire(bin);
                self.blocks.info(block).set_state(BlockState::Full);
            }
        }
    }

    /// Finishes the sweep of a thread that does not exist any more. The thread had taken the block from its list, so no other thread would
    /// ever find it (`.stop.fork`). A sweep that was interrupted at any point can be started again.
    ///
    /// # Safety
    /// The cache's thread does not exist any more, or is the calling one.
    pub(crate) unsafe fn finish_sweep_of(&self, held: &LockGuard<'_>, cache: &AllocationCache) {
        let Some(block) = cache.sweeping() else { return };
        let info = self.blocks.info(block);
        let class = usize::from(info.head.class.load(Relaxed));
        let bin = usize::from(info.head.space.load(Relaxed)) * CLASSES + class;
        // A large object has no header until it is complete, and so is free after the next collection.
        if info.state() != BlockState::Owned || cache.block(bin) == Some(block) {
            return;
        }
        // SAFETY: the block belonged to its thread, which does not use it any more, and no list contains it.
        let free_bytes = unsafe { self.sweep_block(block, class) };
        self.state(held).returned_bytes += free_bytes as u64;
        info.set_state(BlockState::Full);
    }

    /// Sets how much may be allocated before the first collection.
    pub(crate) fn set_first_budget(&mut self, budget_bytes: u64) {
        self.state.own().get_mut().budget_bytes = budget_bytes;
    }

    /// Samples allocations, on average one for each `interval_bytes`. For a heap that no thread uses yet.
    pub(crate) fn set_sampling(&mut self, interval_bytes: u64, seed: u64) {
        self.sampling = Some(Sampling { interval_bytes, seed: AtomicU64::new(seed) });
    }

    /// Requests a collection, without a lock: the next thread that needs cells, or the finalizer thread, collects.
    pub(crate) fn request_collection(&self) {
        self.requested.store(NOW, Relaxed);
    }

    /// Makes the next collection that pacing causes count as requested. Requests no additional collection.
    pub(crate) fn induce_next_collection(&self) {
        self.requested.store(WHEN_DUE, Relaxed);
    }

    /// Whether the next collection that pacing causes counts as requested.
    pub(crate) fn is_next_collection_induced(&self) -> bool {
        self.requested.load(Relaxed) == WHEN_DUE
    }

    /// Whether a collection was requested, and none has begun since.
    #[inline]
    pub(crate) fn is_collection_requested(&self) -> bool {
        self.requested.load(Relaxed) == NOW
    }

    /// Clears the request: a collection begins, or cannot happen.
    pub(crate) fn forget_request(&self) {
        self.requested.store(0, Relaxed);
    }

    /// Doubles the budget. Called when a due collection could not happen.
    pub(crate) fn postpone_collection(&self, held: &LockGuard<'_>) {
        let mut state = self.state(held);
        state.budget_bytes = state.budget_bytes.saturating_mul(2);
    }

    /// Whether the object at this payload address was marked by the current mark phase, or by the last one if none is in progress.
    pub(crate) fn is_marked(&self, payload: usize) -> bool {
        self.blocks
            .cell_of_payload(payload)
            .is_some_and(|cell| self.blocks.mark(cell.block, cell.index).load(Relaxed) == self.epoch())
    }

    /// Sets the heap limit, to at most the blocks that are reserved. Blocks beyond a lower limit stay in use.
    pub(crate) fn set_limit(&self, bytes: usize) {
        let reserved = self.blocks.reserved_bytes() / BLOCK_BYTES;
        // Relaxed: the next request for blocks sees it soon.
        self.limit_blocks.store((bytes / BLOCK_BYTES).clamp(1, reserved), Relaxed);
    }

    /// The heap limit in bytes.
    pub(crate) fn limit_bytes(&self) -> u64 {
        (self.limit_blocks.load(Relaxed) * BLOCK_BYTES) as u64
    }

    /// Sets the minimum size of the heap, for the next budget.
    pub(crate) fn set_minimum(&self, bytes: u64) {
        // Relaxed: the next collection sees it, or the one after it.
        self.minimum_bytes.store(bytes, Relaxed);
    }

    /// The minimum size of the heap in bytes.
    pub(crate) fn minimum_bytes(&self) -> u64 {
        self.minimum_bytes.load(Relaxed)
    }

    /// Raises the budget of the time up to the next collection to at least `budget_bytes`.
    pub(crate) fn raise_budget(&self, held: &LockGuard<'_>, budget_bytes: u64) {
        let mut state = self.state(held);
        state.budget_bytes = state.budget_bytes.max(budget_bytes);
    }

    /// Bytes of all blocks that are in use or can be used without a request to the kernel.
    pub(crate) fn committed_bytes(&self) -> u64 {
        self.committed_bytes.load(Relaxed)
    }
}

const _: () = assert!(CHUNK_BYTES.is_multiple_of(BLOCK_BYTES) && CHUNK_BLOCKS.is_multiple_of(64));
