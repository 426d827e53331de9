//! Allocation caches: how a thread allocates without a lock.
//!
//! A thread owns one block for each bin that it allocates from, and takes cells from one free *run* of it at a
//! time, by bumping a cursor:
//!
//! ```text
//!   block   | live | live | free free free free | live | free free | live |
//!                           ^cursor             ^limit   ^next run: (length, next) in its first payload word
//! ```
//!
//! A thread may be stopped between any two instructions of an allocation (`.stop.mid-alloc`). This is safe because of the order of
//! the stores in the fast path: payload, then header, then cursor.
//!
//! - If the thread is stopped before the cursor moves, the partially initialised cell is the one *at* the cursor. The collector
//!   scans it as a root (references in it may not be in registers any more) and does not change it.
//! - If the thread is stopped after that, the cell is an object like any other, and its address is in a register.
//!
//! When a thread has used up its block it takes the next block from its *reserve*: adjacent free blocks, which it has taken under
//! the allocation lock all at once. It may be stopped in the middle of that too. A collection takes back the blocks that it finds
//! in the reserve. It does not touch a block that is *on its way*, that is, taken from the reserve but not yet in the cache: the
//! block has no objects yet. A block that is in no cache any more has no owner, even if its state is still `Owned`.
//!
//! The collector therefore never moves a cursor, and never gives a thread's run to another thread: the block stays its owner's
//! across collections.

use super::arena_thread::ArenaThread;
use super::bin_set::BinSet;
use super::blocks::{BlockIndex, Blocks, NO_BLOCK, NO_CELL};
use super::charges::Account;
use super::compact::{KindBytes, KindNumber, in_register};
use super::free_blocks::BlockRun;
use super::freed::FreedLists;
use super::layout::{BINS, BLOCK_BYTES, CELL_BYTES, CLASSES, HEADER_BYTES, is_compact, payload_bytes};
use super::sample_points::{NO_SAMPLE, SamplePoints};
use super::stopped::WorldStopped;
use super::window::window;
use crate::sabotage::{Guard, removed};
use crate::sync::{AtomicU32, AtomicU64, AtomicUsize, Ordering, compiler_fence};

/// The free cells that a thread takes next, `[cursor, limit)`. In a bin that is closed (`charges.rs`) the limit is at the
/// cursor, and in one with a cell to sample at that cell; the bin's [`OwnedBlock`] has the real end of the cells.
#[derive(Debug)]
pub(crate) struct Run {
    pub(super) cursor: AtomicUsize,
    limit: AtomicUsize,
}

/// A thread's runs and blocks, by bin. Written by the thread itself; read by the collector when it is stopped.
pub(crate) struct AllocationCache {
    pub(super) runs: [Run; BINS],
    /// The cells that the thread has freed.
    pub(super) freed: FreedLists,
    pub(super) blocks: [OwnedBlock; BINS],
    /// One more than the index of the block that the thread is sweeping inside the sweep gate; 0 outside the gate. It identifies the
    /// thread that keeps a collection from beginning, and the block that a thread was sweeping when the process forked.
    pub(super) sweeping: AtomicU32,
    /// The thread's number in this heap, which is stored for the spans that it used (`FreeBlocks`). Not 0.
    tag: u8,
    /// Free blocks that the thread may take without the allocation lock: a [`Reserve`] in one word, so that one step takes a block and
    /// notes which block it was. The collector takes the blocks back.
    reserve: AtomicU64,
    /// The number of blocks taken from the reserve that had never been touched, until a thread that has the allocation lock
    /// counts them.
    pub(crate) freshly_touched: AtomicU32,
    /// Bytes of blocks taken from the reserve that no cell covers, until the next collection counts them.
    pub(crate) uncovered_bytes: AtomicUsize,
    /// A large object that the thread has made and no event has reported; 0 if there is none.
    large_to_tell: AtomicUsize,
    /// A block that the thread has taken and no event has reported, or `NO_BLOCK`.
    block_to_tell: AtomicU32,
    /// The heap's kind bytes: of the objects in compact cells.
    kinds: KindBytes,
    /// In a world that charges its allocations: the table of charges, and the word with the number to charge to.
    account: Option<Account>,
    /// In a world that samples its allocations: where.
    pub(super) points: Option<SamplePoints>,
    /// The bins with a block or a run. A bin is in the set before it has a block, and until it has no run.
    filled: BinSet,
    /// In a world that charges its allocations: the bins in which the thread may allocate without a check.
    open: BinSet,
    /// The bins of `open` that the thread has used lately.
    used: BinSet,
    /// In a world that charges its allocations: how often the number that the thread charges to has changed.
    changes: AtomicU32,
    pub(crate) arena: ArenaThread,
}

/// The block that a thread allocates from in one bin.
pub(super) struct OwnedBlock {
    pub(super) block: AtomicUsize,
    /// Bytes in the block's further runs.
    rest: AtomicUsize,
    /// Cells of the run below this address are settled: an allocation event has reported them, or will never report them.
    settled: AtomicUsize,
    /// Cells of the run below this address are charged.
    charged: AtomicUsize,
    /// The header of the next cell that is sampled, or [`NO_SAMPLE`].
    pub(super) sample_at: AtomicUsize,
    /// The end of the run's cells.
    pub(super) end: AtomicUsize,
}

/// The description of a free run, stored in the heap: it is the first payload word of the run's first cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RunLink {
    /// Index of the first cell of the next run, or `NO_CELL`.
    pub(crate) next: u32,
    /// The number of cells in this run.
    pub(crate) cells: u32,
}

impl RunLink {
    /// # Safety
    /// `header` is the header of a free cell, in memory that the caller owns.
    pub(crate) unsafe fn write(self, header: usize) {
        // SAFETY: every cell has at least one payload word; the caller owns it.
        unsafe { ((header + HEADER_BYTES) as *mut Self).write(self) };
    }

    /// # Safety
    /// `header` is the first cell of a free run of a swept block.
    pub(crate) unsafe fn read(header: usize) -> Self {
        // SAFETY: the sweep wrote the link there, and the run has not been used since.
        unsafe { ((header + HEADER_BYTES) as *const Self).read() }
    }
}

/// A thread's reserve, decoded from its word.
///
/// ```text
///    63           32  31      30        0
///   +---------------+--------+-----------+
///   | first block   | taking | blocks    |
///   +---------------+--------+-----------+
/// ```
///
/// *Taking* means that the thread is moving the first block from the reserve into the cache: the block is not in the reserve any
/// more, and may not be in the cache yet. The thread may be stopped, or vanish in a fork's child, at any instruction. If a separate
/// word named the block being moved, there would be a moment at which both the word and the reserve have the block, or at which
/// the word has it although a collection has taken it back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Reserve {
    first: u32,
    count: u32,
    taking: bool,
}

/// The bit *taking* in the low half of the word: see [`Reserve`].
const TAKING: u32 = 1 << 31;

impl Reserve {
    const EMPTY: Reserve = Reserve { first: 0, count: 0, taking: false };

    const fn of(word: u64) -> Self {
        let low = word as u32;
        Self { first: (word >> 32) as u32, count: low & !TAKING, taking: low & TAKING != 0 }
    }

    const fn word(self) -> u64 {
        (self.first as u64) << 32 | (self.count | if self.taking { TAKING } else { 0 }) as u64
    }

    /// Returns the blocks in the reserve, without the block that is on its way.
    const fn run(self) -> BlockRun {
        match self.taking {
            true => BlockRun { first: self.first + 1, count: self.count - 1 },
            false => BlockRun { first: self.first, count: self.count },
        }
    }
}

impl AllocationCache {
    pub(crate) fn new(tag: u8, kinds: KindBytes, account: Option<Account>, points: Option<SamplePoints>) -> Self {
        Self {
            tag,
            kinds,
            reserve: AtomicU64::new(0),
            freshly_touched: AtomicU32::new(0),
            uncovered_bytes: AtomicUsize::new(0),
            runs: [const { Run { cursor: AtomicUsize::new(0), limit: AtomicUsize::new(0) } }; BINS],
            blocks: [const {
                OwnedBlock {
                    block: AtomicUsize::new(NO_BLOCK as usize),
                    rest: AtomicUsize::new(0),
                    settled: AtomicUsize::new(0),
                    charged: AtomicUsize::new(0),
                    sample_at: AtomicUsize::new(NO_SAMPLE),
                    end: AtomicUsize::new(0),
                }
            }; BINS],
            freed: FreedLists::new(),
            sweeping: AtomicU32::new(0),
            large_to_tell: AtomicUsize::new(0),
            block_to_tell: AtomicU32::new(NO_BLOCK),
            account,
            points,
            filled: BinSet::new(),
            open: BinSet::new(),
            used: BinSet::new(),
            changes: AtomicU32::new(0),
            arena: ArenaThread::new(),
        }
    }

    /// Returns the thread's number in this heap, which is stored for the spans that the thread used.
    pub(crate) fn tag(&self) -> u8 {
        self.tag
    }

    /// Fills the reserve, which must be empty.
    pub(crate) fn set_reserve(&self, run: BlockRun) {
        let BlockRun { first, count } = run;
        self.reserve.store(Reserve { first, count, taking: false }.word(), Ordering::Relaxed);
    }

    /// The blocks in the reserve.
    pub(crate) fn reserve(&self) -> BlockRun {
        Reserve::of(self.reserve.load(Ordering::Relaxed)).run()
    }

    /// Empties the reserve, in the stopped world or for a thread that has ended. The returned blocks belong to the caller. A
    /// block that is on its way is not returned, and stays on its way.
    pub(crate) fn take_reserve(&self) -> BlockRun {
        let reserve = Reserve::of(self.reserve.load(Ordering::Relaxed));
        let left = if reserve.taking { Reserve { count: 1, ..reserve } } else { Reserve::EMPTY };
        self.reserve.store(left.word(), Ordering::Relaxed);
        // The known-bad variant takes a block that is on its way too.
        let taken = if removed(Guard::HeapReserve) { Reserve { taking: false, ..reserve } } else { reserve };
        taken.run()
    }

    /// Returns the block that the thread has taken from its reserve and that is not in its cache yet.
    pub(crate) fn on_its_way(&self) -> Option<BlockIndex> {
        let Reserve { first, taking, .. } = Reserve::of(self.reserve.load(Ordering::Relaxed));
        let has_arrived = || self.blocks().any(|block| block == first);
        (taking && !has_arrived()).then_some(first)
    }

    /// Takes a block from the reserve, if there is one. The thread calls [`arrived`](Self::arrived) when the block is in its cache.
    pub(crate) fn take_reserved(&self) -> Option<BlockIndex> {
        loop {
            let word = self.reserve.load(Ordering::Relaxed);
            let reserve = Reserve::of(word);
            debug_assert!(!reserve.taking, "one block at a time");
            if reserve.count == 0 {
                return None;
            }
            window();
            let taking = Reserve { taking: true, ..reserve }.word();
            // One instruction, because a collection may come before or after it and empty the reserve. Relaxed: the
            // stop orders what the collector does.
            if self.reserve.compare_exchange(word, taking, Ordering::Relaxed, Ordering::Relaxed).is_ok() {
                window();
                return Some(reserve.first);
            }
        }
    }

    /// Ends the taking of a block: the block that was on its way, if any, now belongs to the thread, or, after the thread's end, to the
    /// heap.
    pub(crate) fn arrived(&self) {
        compiler_fence(Ordering::SeqCst);
        loop {
            let word = self.reserve.load(Ordering::Relaxed);
            let reserve = Reserve::of(word);
            if !reserve.taking {
                return;
            }
            window();
            let BlockRun { first, count } = reserve.run();
            let rest = Reserve { first, count, taking: false }.word();
            // One instruction, as in `take_reserved`: a collection may have emptied the reserve.
            if self.reserve.compare_exchange(word, rest, Ordering::Relaxed, Ordering::Relaxed).is_ok() {
                return;
            }
        }
    }

    /// Runs `sweep` while the thread is recorded as being in the sweep gate with this block.
    pub(crate) fn while_sweeping<R>(&self, block: BlockIndex, sweep: impl FnOnce() -> R) -> R {
        self.sweeping.store(block + 1, Ordering::Relaxed);
        compiler_fence(Ordering::SeqCst);
        let result = sweep();
        compiler_fence(Ordering::SeqCst);
        self.sweeping.store(0, Ordering::Relaxed);
        result
    }

    /// Returns the block that the thread is sweeping inside the sweep gate. Only a hint, unless the thread does not exist any more.
    pub(crate) fn sweeping(&self) -> Option<BlockIndex> {
        self.sweeping.load(Ordering::Relaxed).checked_sub(1)
    }

    /// Takes a cell from the bin's run and lets `build` write its payload; then publishes header and cell.
    /// `None` when the run is empty: the caller refills and tries again.
    ///
    /// # Safety
    /// The caller is the cache's thread, `cell_bytes` is the bin's cell size, `header_word` is the address of the
    /// `TypeInfo` of what `build` writes, and `build` neither allocates nor unwinds.
    #[inline(always)]
    pub(crate) unsafe fn allocate(
        &self,
        bin: usize,
        cell_bytes: usize,
        header_word: usize,
        build: impl FnOnce(*mut u8),
    ) -> Option<*mut u8> {
        let fill = |cell: usize| {
            let payload = (cell + HEADER_BYTES) as *mut u8;
            build(payload);
            compiler_fence(Ordering::SeqCst);
            // SAFETY: [cursor, limit) is this thread's own free memory within a committed block.
            unsafe { (*(cell as *const AtomicUsize)).store(header_word, Ordering::Relaxed) };
            payload
        };
        // SAFETY: the caller's promise.
        unsafe { self.take_cell(bin, cell_bytes, fill) }
    }

    /// Lets `fill` make an object of the cell at the bin's cursor, and moves the cursor. `fill` publishes the object as its last step, and
    /// returns its payload. `None` when the run is empty.
    ///
    /// # Safety
    /// As for [`allocate`](Self::allocate), with `fill` for `build`.
    #[inline(always)]
    unsafe fn take_cell(&self, bin: usize, cell_bytes: usize, fill: impl FnOnce(usize) -> *mut u8) -> Option<*mut u8> {
        let run = &self.runs[bin];
        // Relaxed everywhere: only this thread writes here while it runs, and the stop orders everything for the
        // collector. What matters is the order of the stores in the program, which `compiler_fence` keeps; x86
        // keeps it for a signal handler on this very thread and for a debugger.
        let cell = run.cursor.load(Ordering::Relaxed);
        let next = cell + cell_bytes;
        if run.limit.load(Ordering::Relaxed) < next {
            return None;
        }
        let payload = fill(cell);
        self.advance(bin, next);
        Some(payload)
    }

    /// Returns the bin's cells that the thread may take now: the address of the first one, and their end.
    #[inline(always)]
    pub(super) fn at_hand(&self, bin: usize) -> (usize, usize) {
        (self.runs[bin].cursor.load(Ordering::Relaxed), self.runs[bin].limit.load(Ordering::Relaxed))
    }

    /// Moves the bin's cursor to the next cell, after the one at the cursor has become an object.
    #[inline(always)]
    pub(super) fn advance(&self, bin: usize, next: usize) {
        compiler_fence(Ordering::SeqCst);
        self.runs[bin].cursor.store(next, Ordering::Relaxed);
    }

    /// The heap's kind bytes.
    #[inline(always)]
    pub(super) fn kinds(&self) -> KindBytes {
        self.kinds
    }

    /// Whether the thread allocates small untyped objects in compact cells.
    #[inline(always)]
    pub(crate) fn has_compact_cells(&self) -> bool {
        self.kinds.exist()
    }

    /// As [`allocate`](Self::allocate), for a bin of compact cells: publishes a kind byte instead of a header.
    ///
    /// # Safety
    /// As for [`allocate`](Self::allocate), and `kind` is that of what `build` writes. The heap has compact cells.
    #[inline(always)]
    pub(crate) unsafe fn allocate_compact(
        &self,
        bin: usize,
        cell_bytes: usize,
        kind: KindNumber,
        build: impl FnOnce(*mut u8),
    ) -> Option<*mut u8> {
        let fill = |cell: usize| {
            let payload = in_register(cell + HEADER_BYTES);
            build(payload as *mut u8);
            compiler_fence(Ordering::SeqCst);
            self.kinds.set(payload, kind);
            payload as *mut u8
        };
        // SAFETY: the caller's promise.
        unsafe { self.take_cell(bin, cell_bytes, fill) }
    }

    /// Moves on to the next run of the block that this thread owns. False when there is none.
    ///
    /// The collector may stop the thread anywhere in here: it changes neither the runs nor their links.
    pub(crate) fn next_run(&self, blocks: &Blocks, bin: usize, cell_bytes: usize) -> bool {
        let Some(block) = self.block(bin) else { return false };
        self.charge(bin);
        let info = blocks.info(block);
        let first = info.tail.first_run.load(Ordering::Relaxed);
        if first == NO_CELL {
            return false;
        }
        let header = blocks.cell(block, cell_bytes, first).header;
        // SAFETY: `first_run` of a block that this thread owns and swept is a free run.
        let link = unsafe { RunLink::read(header) };
        let bytes = link.cells as usize * cell_bytes;
        window();
        let owned = &self.blocks[bin];
        owned.rest.store(owned.rest.load(Ordering::Relaxed).saturating_sub(bytes), Ordering::Relaxed);
        info.tail.first_run.store(link.next, Ordering::Relaxed);
        let run = &self.runs[bin];
        window();
        // A cursor of 0 means that the thread is building no cell, whatever the limit is.
        run.cursor.store(0, Ordering::Relaxed);
        compiler_fence(Ordering::SeqCst);
        window();
        let end = header + bytes;
        let sample_at = self.points.as_ref().map_or(NO_SAMPLE, |points| points.first_in(header..end, cell_bytes));
        owned.sample_at.store(sample_at, Ordering::Relaxed);
        run.limit.store(end.min(sample_at), Ordering::Relaxed);
        owned.end.store(end, Ordering::Relaxed);
        owned.settled.store(header, Ordering::Relaxed);
        owned.charged.store(header, Ordering::Relaxed);
        compiler_fence(Ordering::SeqCst);
        run.cursor.store(header, Ordering::Relaxed);
        self.note_open(bin);
        true
    }

    /// Returns the bin's present run: the address of its first free cell, and its size in bytes.
    pub(crate) fn run(&self, bin: usize) -> (usize, usize) {
        let (cursor, end) =
            (self.runs[bin].cursor.load(Ordering::Relaxed), self.blocks[bin].end.load(Ordering::Relaxed));
        (cursor, end.saturating_sub(cursor))
    }

    /// The address of the bin's run, by which events identify the thread's buffer.
    pub(crate) fn buffer(&self, bin: usize) -> usize {
        std::ptr::from_ref(&self.runs[bin]) as usize
    }

    /// Returns the cells of the bin's run that were allocated and are not settled: from the header of the first cell to the end of the
    /// last. For the thread itself, and for the collector.
    pub(crate) fn unsettled(&self, bin: usize) -> std::ops::Range<usize> {
        let cursor = self.runs[bin].cursor.load(Ordering::Relaxed);
        self.blocks[bin].settled.load(Ordering::Relaxed).min(cursor)..cursor
    }

    /// Returns whether the cell with this header, in the bin's run, is settled.
    pub(crate) fn is_settled(&self, bin: usize, header: usize) -> bool {
        header < self.blocks[bin].settled.load(Ordering::Relaxed)
    }

    /// Records that all cells of the run below this address are settled.
    pub(crate) fn settle(&self, bin: usize, below: usize) {
        self.blocks[bin].settled.store(below, Ordering::Relaxed);
    }

    /// Records a block that had no owner and that no event has reported.
    pub(crate) fn took_block(&self, block: BlockIndex) {
        self.block_to_tell.store(block, Ordering::Relaxed);
    }

    /// Takes the record of the block that no event has reported, if there is one. For the thread itself.
    pub(crate) fn take_block_to_report(&self) -> Option<BlockIndex> {
        let block = self.block_to_tell.load(Ordering::Relaxed);
        self.block_to_tell.store(NO_BLOCK, Ordering::Relaxed);
        (block != NO_BLOCK).then_some(block)
    }

    /// Records a large object that no event has reported. Its header is not written yet.
    pub(crate) fn made_large(&self, payload: usize) {
        self.large_to_tell.store(payload, Ordering::Relaxed);
    }

    /// Takes the record of the large object that no event has reported, if there is one.
    pub(crate) fn take_large(&self) -> Option<usize> {
        let payload = self.large_to_tell.load(Ordering::Relaxed);
        self.large_to_tell.store(0, Ordering::Relaxed);
        (payload != 0).then_some(payload)
    }

    /// The block that this thread owns in a bin.
    pub(crate) fn block(&self, bin: usize) -> Option<BlockIndex> {
        let block = self.blocks[bin].block.load(Ordering::Relaxed) as BlockIndex;
        (block != NO_BLOCK).then_some(block)
    }

    /// The bins with a block or a run: for all others there is nothing to do in a stop.
    pub(crate) fn filled_bins(&self) -> impl Iterator<Item = usize> {
        self.filled.iter()
    }

    /// The blocks that this thread owns.
    pub(crate) fn blocks(&self) -> impl Iterator<Item = BlockIndex> {
        self.filled_bins().filter_map(|bin| self.block(bin))
    }

    /// Makes a swept block the one to allocate from; its runs have `free_bytes`.
    pub(crate) fn install(&self, bin: usize, block: BlockIndex, free_bytes: usize) {
        self.retire(bin);
        self.filled.insert(bin);
        self.blocks[bin].rest.store(free_bytes, Ordering::Relaxed);
        compiler_fence(Ordering::SeqCst);
        window();
        self.blocks[bin].block.store(block as usize, Ordering::Relaxed);
    }

    /// Forgets the bin's block and the rest of its run.
    pub(crate) fn retire(&self, bin: usize) {
        self.charge(bin);
        self.blocks[bin].block.store(NO_BLOCK as usize, Ordering::Relaxed);
        compiler_fence(Ordering::SeqCst);
        window();
        self.runs[bin].cursor.store(0, Ordering::Relaxed);
        compiler_fence(Ordering::SeqCst);
        self.runs[bin].limit.store(0, Ordering::Relaxed);
        self.blocks[bin].end.store(0, Ordering::Relaxed);
        self.blocks[bin].sample_at.store(NO_SAMPLE, Ordering::Relaxed);
        self.blocks[bin].rest.store(0, Ordering::Relaxed);
        compiler_fence(Ordering::SeqCst);
        self.filled.remove(bin);
    }

    /// Returns the header address of the cell that the thread may be building now; 0 if there is none.
    pub(crate) fn building(&self, bin: usize) -> usize {
        let cursor = self.runs[bin].cursor.load(Ordering::Relaxed);
        if cursor < self.blocks[bin].end.load(Ordering::Relaxed) { cursor } else { 0 }
    }

    /// Returns the cells that the thread may be building now (`.stop.mid-alloc`): the address of each cell's header, and the bytes from
    /// there to the end of the payload. In a bin without a block no cell is being built.
    pub(crate) fn half_built(&self) -> impl Iterator<Item = (usize, usize)> + '_ {
        let bins = self.filled_bins().filter(|&bin| self.block(bin).is_some());
        bins.map(|bin| (self.building(bin), HEADER_BYTES + payload_bytes(bin % CLASSES))).filter(|&(cell, _)| cell != 0)
    }

    /// Returns whether there is an object in a cell of a class.
    ///
    /// # Safety
    /// `header` is the header address of a cell of this class that the thread owns.
    unsafe fn has_object(&self, header: usize, class: usize) -> bool {
        if is_compact(class) {
            return self.kinds.header_word(header + HEADER_BYTES) != 0;
        }
        // SAFETY: the caller's promise.
        unsafe { (*(header as *const AtomicUsize)).load(Ordering::Relaxed) != 0 }
    }

    /// Bytes that the thread may still allocate in this bin without the allocation lock.
    pub(crate) fn unused_bytes(&self, bin: usize) -> usize {
        let cursor = self.runs[bin].cursor.load(Ordering::Relaxed);
        let left = if cursor == 0 { 0 } else { self.blocks[bin].end.load(Ordering::Relaxed).saturating_sub(cursor) };
        left + self.blocks[bin].rest.load(Ordering::Relaxed)
    }

    /// The [`unused_bytes`](Self::unused_bytes) of all bins, and of a block that is on its way.
    pub(crate) fn all_unused_bytes(&self) -> usize {
        let on_its_way = if self.on_its_way().is_some() { BLOCK_BYTES } else { 0 };
        self.filled_bins().map(|bin| self.unused_bytes(bin)).sum::<usize>() + on_its_way
    }

    /// Returns the number of bytes that the thread has acquired and not used, including its reserve, whatever it is doing. The caller
    /// holds the allocation lock, so that the thread acquires nothing more. Exact if the thread is stopped or is the calling one;
    /// otherwise wrong by up to a block.
    pub(crate) fn unused_by_now(&self) -> usize {
        loop {
            let reserve = self.reserve();
            // While the thread replaces a run by the next one, cursor and limit may be of different runs: the difference is bounded.
            let in_bins: usize = self.filled_bins().map(|bin| self.unused_bytes(bin).min(BLOCK_BYTES)).sum();
            let on_its_way = if self.on_its_way().is_some() { BLOCK_BYTES } else { 0 };
            let uncovered = self.uncovered_bytes.load(Ordering::Relaxed);
            // A block that went from the reserve into a bin meanwhile was counted twice, or not at all. The reserve is not
            // refilled meanwhile, so this ends.
            if self.reserve() == reserve {
                return in_bins + on_its_way + uncovered + reserve.count as usize * BLOCK_BYTES;
            }
        }
    }

    // ---- charges: see `charges.rs`

    /// The cells of the bin's run that are allocated and not charged.
    fn uncharged(&self, bin: usize) -> std::ops::Range<usize> {
        let cursor = self.runs[bin].cursor.load(Ordering::Relaxed);
        self.blocks[bin].charged.load(Ordering::Relaxed).min(cursor)..cursor
    }

    /// Charges what was allocated in a bin since it was charged last. Returns whether there was any.
    #[inline(always)]
    fn charge(&self, bin: usize) -> bool {
        let Some(account) = &self.account else { return false };
        // The word with the number is read first. A thread in a blocking region may change it while the collector is here; a
        // thread that reads the new word sees that everything is charged.
        let charge = account.charge();
        let cells = self.uncharged(bin);
        if cells.is_empty() {
            return false;
        }
        let end = cells.end;
        account.charges.fill(cells, bin % CLASSES, charge);
        compiler_fence(Ordering::SeqCst);
        self.blocks[bin].charged.store(end, Ordering::Relaxed);
        true
    }

    /// Records that the thread takes cells from this bin.
    fn note_open(&self, bin: usize) {
        if self.account.is_some() {
            self.open.insert(bin);
        }
    }

    /// Called before the number that allocations are charged to changes: charges what was allocated.
    #[inline(always)]
    pub(crate) fn settle_charges(&self) {
        if !self.open.is_empty() {
            self.charge_open_bins();
        }
    }

    #[inline(never)]
    fn charge_open_bins(&self) {
        for bin in self.open.iter() {
            if self.charge(bin) {
                self.used.insert(bin);
            }
        }
        let changes = self.changes.load(Ordering::Relaxed).wrapping_add(1);
        self.changes.store(changes, Ordering::Relaxed);
        if changes.is_multiple_of(CHANGES_TO_CLOSE) {
            self.close_unused_bins();
        }
    }

    /// Closes the bins in which nothing was allocated since the last time.
    #[cold]
    fn close_unused_bins(&self) {
        for bin in self.open.iter().filter(|&bin| !self.used.contains(bin)) {
            let run = &self.runs[bin];
            run.limit.store(run.cursor.load(Ordering::Relaxed), Ordering::Relaxed);
            self.open.remove(bin);
        }
        self.used.clear();
    }

    /// Closes all bins: the thread's next allocation of any size takes the slow path (`.stop.no-mutator`), which
    /// [reopens](Self::reopen) the bin. For the thread itself, between two allocations.
    pub(crate) fn close(&self) {
        for run in self.filled_bins().map(|bin| &self.runs[bin]) {
            run.limit.store(run.cursor.load(Ordering::Relaxed), Ordering::Relaxed);
        }
    }

    /// Opens a bin that is closed. Returns false if its run is used up.
    pub(crate) fn reopen(&self, bin: usize) -> bool {
        let (run, end) = (&self.runs[bin], self.blocks[bin].end.load(Ordering::Relaxed));
        if run.cursor.load(Ordering::Relaxed) + CELL_BYTES[bin % CLASSES] > end {
            return false;
        }
        run.limit.store(end.min(self.blocks[bin].sample_at.load(Ordering::Relaxed)), Ordering::Relaxed);
        self.note_open(bin);
        true
    }

    /// Opens a bin for one cell: the next allocation but one takes the slow path. Returns false if the bin's run is used up.
    pub(crate) fn open_for_one(&self, bin: usize) -> bool {
        let (run, end) = (&self.runs[bin], self.blocks[bin].end.load(Ordering::Relaxed));
        let limit = run.cursor.load(Ordering::Relaxed) + CELL_BYTES[bin % CLASSES];
        if limit > end {
            return false;
        }
        run.limit.store(limit, Ordering::Relaxed);
        self.note_open(bin);
        true
    }

    /// Charges everything that a stopped thread has allocated and not charged, and the cell that it is building if the cell is an
    /// object already (`.profile.charge`, `.stop.mid-alloc`).
    pub(crate) fn charge_for_the_stopped(&self, _stopped: WorldStopped<'_>) {
        let Some(account) = &self.account else { return };
        if removed(Guard::ProfileCharge) {
            return;
        }
        for bin in self.filled_bins().filter(|&bin| self.block(bin).is_some()) {
            self.charge(bin);
            let (cell, class) = (self.building(bin), bin % CLASSES);
            // SAFETY: the cell at the cursor of a stopped thread's run, in its own block.
            if cell != 0 && unsafe { self.has_object(cell, class) } {
                account.charges.fill(cell..cell + CELL_BYTES[class], class, account.charge());
            }
        }
    }

    /// Charges a freed cell that is about to be allocated again.
    #[inline(always)]
    pub(super) fn charge_cell(&self, header: usize, class: usize) {
        if let Some(account) = &self.account {
            account.charges.fill(header..header + CELL_BYTES[class], class, account.charge());
        }
    }

    /// Charges a large object that is about to be made.
    pub(crate) fn charge_large(&self, head: BlockIndex) {
        if let Some(account) = &self.account {
            account.charges.set(head, account.charge());
        }
    }
}

/// After this many changes of the charged number, the bins that were not used meanwhile are closed.
const CHANGES_TO_CLOSE: u32 = 16;

#[cfg(test)]
mod tests {
    use super::*;

    /// `.stop.no-mutator`
    #[test]
    fn a_closed_cache_allocates_nothing_until_a_bin_is_reopened_and_loses_nothing() {
        let cache = AllocationCache::new(1, KindBytes::NONE, None, None);
        let mut cells = [0_usize; 16];
        let first = cells.as_mut_ptr() as usize;
        let (bin, bytes) = (0, CELL_BYTES[0]);
        cache.filled.insert(bin);
        cache.runs[bin].cursor.store(first, Ordering::Relaxed);
        cache.runs[bin].limit.store(first + 2 * bytes, Ordering::Relaxed);
        cache.blocks[bin].end.store(first + 2 * bytes, Ordering::Relaxed);
        // SAFETY: the run is this test's own memory.
        let allocate = || unsafe { cache.allocate(bin, bytes, 8, |_| {}) }.map(|payload| payload as usize);
        assert_eq!(allocate(), Some(first + HEADER_BYTES));
        cache.close();
        assert_eq!((allocate(), cache.run(bin)), (None, (first + bytes, bytes)));
        assert!(cache.reopen(bin));
        assert_eq!(allocate(), Some(first + bytes + HEADER_BYTES));
        assert!(allocate().is_none() && !cache.reopen(bin), "the run is used up");
    }

    /// `.stop.mid-alloc`
    #[test]
    fn nothing_is_half_built_in_a_bin_without_a_block() {
        let cache = AllocationCache::new(1, KindBytes::NONE, None, None);
        cache.filled.insert(4);
        for bin in [3, 3 + CLASSES] {
            cache.filled.insert(bin);
            cache.runs[bin].cursor.store(4096 + bin, Ordering::Relaxed);
            cache.blocks[bin].end.store(8192, Ordering::Relaxed);
        }
        assert_eq!(cache.half_built().count(), 0, "its thread is giving up the block, or getting one");
        cache.blocks[3].block.store(7, Ordering::Relaxed);
        cache.blocks[3 + CLASSES].block.store(8, Ordering::Relaxed);
        cache.blocks[4].block.store(9, Ordering::Relaxed);
        let found: Vec<_> = cache.half_built().collect();
        assert_eq!(found, [(4099, CELL_BYTES[3]), (4099 + CLASSES, CELL_BYTES[3])]);
    }
}
