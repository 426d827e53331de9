//! Translates events to the records of MPS event version 2.0.0.
//!
//! **Order.** Records are strictly in the order of time. The MPS itself writes seven buffers one after the other, each backwards, so
//! its tools sort first; both orders are legal. The order of time is readable without sorting, a sort does not change it, and if a
//! killed process cut the stream, everything before the cut is complete. One event may become several records. Where their order
//! matters, their clocks are one tick apart, so that no sort can swap them. (There is one exception: if a thread was frozen in the
//! middle of firing for longer than a drain waits, its record comes late, with the time at which the event happened.)
//!
//! **What comes first.** `EventInit`, whatever the filter is, and a first `EventClockSync`. A sync ends each drain that wrote
//! something, so each flush and the whole stream end with one. It has the CPU time of the process in microseconds, as `mps_clock`
//! has. This time always increases from one sync to the next, so a reader can interpolate between any two.
//!
//! **The filter decides which records are written** (`.event.introduced`), category by category: if an event becomes two records in
//! two categories and one of these is off, only one record is written. But no record refers to anything that has not been introduced.
//! `ArenaCreateVM` and `PoolInit` come before the first record that refers to an arena or a pool, even if their own categories are off. A
//! text comes before the label that uses it, even if it was interned while User was off. An end without a beginning is not written (for
//! example, of a collection that was running when Trace was turned on). A beginning that is open when its category is turned off is ended.
//!
//! | here | in the stream |
//! |---|---|
//! | a world | an arena; its reservation is the VM |
//! | a space (small, pinned, large objects) | a pool |
//! | a block, or the blocks of a large object | a tract and a segment |
//! | a thread's run of free cells | a buffer |
//! | a collection | a trace that condemns everything; it is created, started and destroyed while the world is stopped |
//!
//! The writer runs in the drain, so it does not allocate, takes no lock, and writes only to memory allocated in advance.

mod events;

use std::io;
use std::sync::Arc;

use super::async_file::WriterThread;
use super::blocks::{ARENA, Blocks, Held, SEG};
use super::buffer::Buffer;
use super::shared_state::{Facts, SharedState};
use super::world::World;
use crate::os::clock::process_cpu_us;
use crate::target::OutputFile;
use mps_telemetry::{Rank, Res, TypedRecord, v2 as mps};
use stopworld::Space;
use stopworld::events::clock::{Clock, Relation};
use stopworld::events::labels::Named;
use stopworld::events::record::{Consumer, Lost, MAX_WORLDS, Policy, Recorded};
use stopworld::events::{Category, Event, EventId, Label, Labels};

/// The frequency of the clock in `EventClockSync`: microseconds.
const CLOCKS_PER_SECOND: u64 = 1_000_000;
/// The stream of a flight recorder begins this many ticks before its first record. So there is time for all names, which are written one
/// tick apart.
const PROLOGUE_TICKS: u64 = 1 << 20;
/// The writer remembers for this many texts whether it has written them.
const MOST_TEXTS: usize = 1 << 20;
/// The writer remembers this many recently written labels.
const RECENT_LABELS: usize = 1 << 12;
/// An object of more bytes is large.
const LARGE_BYTES: u64 = 8 << 10;

/// The traces and scans of the MPS do not exist as objects here. Records refer to them by the addresses of these elements.
static TRACES: [u64; MAX_WORLDS] = [0; MAX_WORLDS];
static SCANS: [u64; MAX_WORLDS] = [0; MAX_WORLDS];
/// The classes of arenas and pools, which do not exist as objects here either.
pub(super) static CLASSES: [u64; 2] = [0; 2];

fn address(of: &'static u64) -> u64 {
    std::ptr::from_ref(of) as u64
}

/// How a writer applies changes of the filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum History {
    /// Each change is applied from the time at which it was made.
    Followed,
    /// Only the newest filter is applied: the records come from a flight recorder.
    Ignored,
}

/// Writes a stream.
#[derive(Debug)]
pub(super) struct Writer {
    buffer: Buffer,
    shared_state: Arc<SharedState>,
    policy: Policy,
    history: History,
    news: u64,
    filter: u64,
    /// The number of the segment whose filter is applied now.
    segment: u64,
    /// The time at which the segment began, and its length, in ticks.
    since: u64,
    span: u64,
    begun: bool,
    /// The clock of the next record.
    now: u64,
    /// The latest clock written. It may be some ticks ahead of the events, because the records of an event are one tick apart.
    last: u64,
    /// The time of the latest event. An event with an earlier time is late.
    reached: u64,
    /// The time at which the writer was created, in ticks, and the CPU time of the process at that time.
    born: (u64, u64),
    hz: u64,
    cpu_us: u64,
    synced: u64,
    arenas: u32,
    worlds: Box<[World]>,
    /// A bit for each text that is in the stream.
    texts: Box<[u64]>,
    /// Recently labelled addresses and their labels. Types are labelled again and again.
    labelled: Box<[(u64, u64)]>,
}

impl Writer {
    pub(super) fn new(
        shared_state: Arc<SharedState>,
        file: OutputFile,
        policy: Policy,
        history: History,
    ) -> io::Result<Writer> {
        let clock = Clock::of_process();
        let segment = match history {
            History::Followed => 0,
            History::Ignored => shared_state.newest(),
        };
        // The records of a flight recorder are written in one go, which needs no I/O thread.
        let by = if history == History::Followed { WriterThread::IoThread } else { WriterThread::Drain };
        let filter = shared_state.segment(segment).map_or(0, |(_, filter)| filter);
        Ok(Writer {
            buffer: Buffer::new(file, by)?,
            shared_state,
            policy,
            history,
            news: 0,
            filter,
            segment,
            since: 0,
            span: 0,
            begun: false,
            now: 0,
            last: 0,
            reached: 0,
            born: (clock.now(), process_cpu_us()),
            hz: clock.hz(),
            cpu_us: 0,
            synced: 0,
            arenas: 0,
            worlds: (0..MAX_WORLDS).map(|_| World::new()).collect(),
            texts: vec![0; MOST_TEXTS / 64].into(),
            labelled: vec![(0, 0); RECENT_LABELS].into(),
        })
    }

    #[inline(always)]
    fn is_on(&self, category: Category) -> bool {
        self.filter & (1 << category as u32) != 0
    }

    #[inline(always)]
    fn put<'a>(&mut self, event: impl TypedRecord<'a>) -> io::Result<()> {
        self.put_along(event)?;
        self.now += 1;
        Ok(())
    }

    /// Writes a record without advancing the clock: for records whose order does not matter, or that a sort by code orders correctly.
    #[inline(always)]
    fn put_along<'a>(&mut self, event: impl TypedRecord<'a>) -> io::Result<()> {
        self.buffer.put(self.now, &event)?;
        self.last = self.last.max(self.now);
        Ok(())
    }

    // ---- Time ----------------------------------------------------------------------------------------------------------

    #[inline(always)]
    fn set_now(&mut self, ticks: u64) {
        if ticks >= self.reached {
            self.reached = ticks;
            self.now = ticks.max(self.last);
        } else {
            self.now = ticks;
        }
    }

    #[inline(always)]
    fn has_changes(&self, ticks: u64) -> bool {
        self.shared_state.news() != self.news || ticks.wrapping_sub(self.since) >= self.span
    }

    /// Applies the changes of the filter and of the worlds up to this time.
    #[cold]
    #[inline(never)]
    fn apply_changes(&mut self, ticks: u64) -> io::Result<()> {
        let news = self.shared_state.news();
        if news != self.news {
            self.news = news;
            self.read_worlds();
        }
        if self.history == History::Ignored {
            (self.since, self.span) = (0, u64::MAX);
            return self.introduce_late_worlds();
        }
        loop {
            let next = self.shared_state.segment(self.segment + 1);
            match next {
                Some((from, filter)) if from <= ticks => {
                    self.segment += 1;
                    self.since = from;
                    self.change_filter(from, filter)?;
                }
                _ => {
                    self.span = next.map_or(u64::MAX, |(from, _)| from) - self.since;
                    break;
                }
            }
        }
        self.shared_state.pass(self.segment);
        self.introduce_late_worlds()
    }

    fn change_filter(&mut self, from: u64, filter: u64) -> io::Result<()> {
        let (added, removed) = (filter & !self.filter, self.filter & !filter);
        // The change may have been stored after later events were written.
        self.set_now(from.max(self.reached));
        if self.begun {
            for number in 0..MAX_WORLDS {
                if removed & (1 << Category::Trace as u32) != 0 {
                    self.end_trace(number)?;
                }
                if removed & (1 << Category::Arena as u32) != 0 {
                    self.end_poll(number, false)?;
                }
            }
        }
        self.filter = filter;
        self.worlds.iter_mut().for_each(|world| world.introduced |= world.facts.is_some());
        if self.begun { self.write_existing_state(added) } else { Ok(()) }
    }

    /// Writes the beginning of the stream, before its first record.
    fn begin(&mut self, ticks: u64) -> io::Result<()> {
        self.begun = true;
        let (mut from, mut cpu_us) = self.born;
        // The stream does not begin before the time from which the filter selects anything.
        from = from.max(self.since);
        if from > ticks {
            // The record is older than the writer: it comes from a flight recorder.
            let us = (u128::from(from - ticks) * u128::from(CLOCKS_PER_SECOND) / u128::from(self.hz)) as u64;
            (from, cpu_us) = (ticks.saturating_sub(PROLOGUE_TICKS), cpu_us.saturating_sub(us));
        }
        self.now = from.saturating_sub(2);
        self.put(mps::EventInit::new(CLOCKS_PER_SECOND))?;
        self.put(mps::EventClockSync { clock: cpu_us })?;
        (self.cpu_us, self.synced) = (cpu_us, self.buffer.records);
        self.write_existing_state(self.filter)
    }

    fn sync(&mut self, ticks: u64) -> io::Result<()> {
        self.reached = self.reached.max(ticks);
        self.now = ticks.max(self.last);
        self.cpu_us = process_cpu_us().max(self.cpu_us + 1);
        self.put(mps::EventClockSync { clock: self.cpu_us })?;
        self.synced = self.buffer.records;
        Ok(())
    }

    // ---- Existing state ------------------------------------------------------------------------------------------------

    fn read_worlds(&mut self) {
        for (number, world) in self.worlds.iter_mut().enumerate() {
            let Some((generation, facts)) = self.shared_state.facts(number, world.generation) else { continue };
            // 0 means the same world as before; only the blocks that it holds are new.
            if facts.serial != 0 {
                *world = World::new();
            }
            world.introduced = false;
            (world.generation, world.facts, world.held_bytes) = (generation, Some(facts), 0);
            world.blocks = Blocks::new(facts.heap, facts.reserved, facts.block).ok();
            if self.history == History::Followed {
                // SAFETY: the writer shares ownership of the shared state, and consumers are called under the recorder's lock.
                for held in unsafe { facts.held() } {
                    world.hold(*held);
                }
            }
        }
    }

    /// Introduces the worlds that existed before they joined the stream.
    fn introduce_late_worlds(&mut self) -> io::Result<()> {
        for number in 0..MAX_WORLDS {
            let world = &mut self.worlds[number];
            let is_late = !world.introduced && world.facts.is_some_and(|facts| facts.late != 0);
            if is_late {
                world.introduced = true;
                if self.begun {
                    self.now = self.now.max(self.last);
                    self.write_world(number)?;
                }
            }
        }
        Ok(())
    }

    /// Introduces the worlds of a flight recorder, whose records rarely include the creation of a world. Each world exists with its pools
    /// from the beginning of the stream, except a world that this first record creates.
    fn introduce_existing_worlds(&mut self, first: &Recorded) {
        let born = (first.id == EventId::WorldCreated).then_some(usize::from(first.world.0) % MAX_WORLDS);
        for (number, world) in self.worlds.iter_mut().enumerate() {
            world.introduced |= world.facts.is_some() && Some(number) != born;
        }
    }

    /// Writes the existing state that readers need when these categories are turned on.
    fn write_existing_state(&mut self, added: u64) -> io::Result<()> {
        if added & (1 << Category::User as u32) != 0 {
            self.write_labels()?;
        }
        for number in 0..MAX_WORLDS {
            if self.worlds[number].introduced {
                self.write_world(number)?;
            }
        }
        Ok(())
    }

    /// Writes the state of a world, as far as the stream does not have it yet.
    fn write_world(&mut self, number: usize) -> io::Result<()> {
        if self.is_on(Category::Arena) {
            let arena = self.arena(number)?;
            let limit = self.worlds[number].facts.map_or(0, |facts| facts.limit);
            self.put(mps::CommitLimitSet { arena, limit, res: Res::Ok })?;
        }
        if self.is_on(Category::Pool) {
            for space in [Space::Small, Space::Pinned, Space::Large] {
                self.pool(number, space)?;
            }
        }
        let mut at = 0;
        while let Some((held, after)) = self.worlds[number].blocks.as_ref().and_then(|blocks| blocks.next(at)) {
            at = after;
            self.write_block(number, held)?;
        }
        Ok(())
    }

    fn write_block(&mut self, number: usize, mut held: Held) -> io::Result<()> {
        let Held { address, bytes, space, reported } = held;
        if self.is_on(Category::Arena) && reported & ARENA == 0 {
            let (pool, arena) = (self.pool(number, space)?, self.arena(number)?);
            self.put_along(mps::ArenaAlloc { arena, baseTract: address, base: address, size: bytes, pool })?;
            held.reported |= ARENA;
        }
        if self.is_on(Category::Seg) && reported & SEG == 0 {
            let (pool, arena) = (self.pool(number, space)?, self.arena(number)?);
            self.put_along(mps::SegAlloc { arena, seg: address, base: address, size: bytes, pool })?;
            held.reported |= SEG;
        }
        if let Some(blocks) = &mut self.worlds[number].blocks {
            blocks.hold(held);
        }
        Ok(())
    }

    fn release(&mut self, number: usize, held: Held) -> io::Result<()> {
        let Held { address, bytes, space, reported } = held;
        if self.is_on(Category::Seg) && reported & SEG != 0 {
            let arena = self.arena(number)?;
            self.put_along(mps::SegFree { arena, seg: address })?;
        }
        if self.is_on(Category::Arena) && reported & ARENA != 0 {
            let (pool, arena) = (self.pool(number, space)?, self.arena(number)?);
            self.put_along(mps::ArenaFree { arena, base: address, size: bytes, pool })?;
        }
        let world = &mut self.worlds[number];
        world.held_bytes = world.held_bytes.saturating_sub(bytes);
        if let Some(blocks) = &mut world.blocks {
            blocks.release(held);
        }
        Ok(())
    }

    /// Returns the identifier of the world's arena in records, after introducing the arena if necessary.
    fn arena(&mut self, number: usize) -> io::Result<u64> {
        let Facts { world, heap, reserved, chunk, block, .. } = self.worlds[number].facts.unwrap_or_default();
        if !self.worlds[number].arena_reported {
            self.worlds[number].arena_reported = true;
            self.put(mps::ArenaCreateVM {
                arena: world,
                userSize: reserved,
                chunkSize: chunk,
                grainSize: block,
                arenaClass: address(&CLASSES[0]),
                systemPools: 0,
                serial: self.arenas,
            })?;
            self.arenas += 1;
            if self.is_on(Category::Arena) {
                self.put(mps::VMInit { vm: heap, base: heap, limit: heap + reserved })?;
            }
        }
        Ok(world)
    }

    /// Returns the identifier of a pool in records, after introducing the pool if necessary.
    #[inline(always)]
    fn pool(&mut self, number: usize, space: Space) -> io::Result<u64> {
        if !self.worlds[number].pools_reported[space as usize] {
            self.introduce_pool(number, space)?;
        }
        // The facts are borrowed: copying all of them to read one would cost as much as the record.
        Ok(self.worlds[number].facts.as_ref().map_or(0, |facts| facts.pools[space as usize]))
    }

    #[cold]
    fn introduce_pool(&mut self, number: usize, space: Space) -> io::Result<()> {
        let arena = self.arena(number)?;
        self.worlds[number].pools_reported[space as usize] = true;
        let pool = self.worlds[number].facts.map_or(0, |facts| facts.pools[space as usize]);
        self.put(mps::PoolInit { pool, arena, poolClass: address(&CLASSES[1]), serial: space as u32 })
    }

    /// Returns the pool of an object.
    #[inline(always)]
    fn pool_of(&mut self, number: usize, object: u64, bytes: u64) -> io::Result<u64> {
        let known = self.worlds[number].blocks.as_ref().and_then(|blocks| blocks.space(object));
        // The record of an object may come just before that of its block.
        let guess = if bytes > LARGE_BYTES { Space::Large } else { Space::Small };
        self.pool(number, known.unwrap_or(guess))
    }

    // ---- Names ---------------------------------------------------------------------------------------------------------

    /// Writes all existing names.
    fn write_labels(&mut self) -> io::Result<()> {
        for named in Labels::of_the_process().iter() {
            match named {
                Named::Text { label, .. } => self.text(label)?,
                Named::Address { address, label } => self.label(address as u64, label)?,
            }
        }
        Ok(())
    }

    /// Writes a text, if the stream does not have it yet.
    fn text(&mut self, label: Label) -> io::Result<()> {
        let bit = label.get() as usize - 1;
        let word = self.texts.get_mut(bit / 64);
        if let Some(word) = word {
            if *word & (1 << (bit % 64)) != 0 {
                return Ok(());
            }
            *word |= 1 << (bit % 64);
        }
        let Some(text) = Labels::of_the_process().text(label) else { return Ok(()) };
        self.put_along(mps::Intern { stringId: label.get(), string: text.as_bytes() })
    }

    /// Writes the label of an address. Readers look up client addresses and manager pointers in different tables, and an address
    /// outside the heaps may appear as either, so it is written to both.
    fn label(&mut self, address: u64, label: Label) -> io::Result<()> {
        let recent = &mut self.labelled[(address >> 3) as usize % RECENT_LABELS];
        if *recent == (address, label.get()) {
            return Ok(());
        }
        *recent = (address, label.get());
        self.text(label)?;
        let in_heap = |facts: Facts| address.wrapping_sub(facts.heap) < facts.reserved;
        if !self.worlds.iter().filter_map(|world| world.facts).any(in_heap) {
            self.put_along(mps::LabelPointer { pointer: address, stringId: label.get() })?;
        }
        self.put_along(mps::Label { address, stringId: label.get() })
    }
}

impl Writer {
    /// Publishes the size of the file for the owner.
    fn count(&self) {
        self.shared_state.progress.publish(self.buffer.records, self.buffer.written_bytes());
    }
}

impl Consumer for Writer {
    #[inline]
    fn record(&mut self, record: &Recorded) -> io::Result<()> {
        self.buffer.count_event();
        if self.has_changes(record.ticks) {
            self.apply_changes(record.ticks)?;
        }
        if !self.begun {
            if self.filter == 0 {
                return Ok(());
            }
            if self.history == History::Ignored {
                self.introduce_existing_worlds(record);
            }
            self.begin(record.ticks)?;
        }
        self.set_now(record.ticks);
        let number = usize::from(record.world.0) % MAX_WORLDS;
        // `event` is inlined into this match, so no payload is built, and each arm reads only the words that it uses.
        match record.event() {
            Event::ObjectAllocated(e) if self.is_on(Category::Object) => {
                let (address, size) = (e.addr as u64, e.bytes as u64);
                let pool = self.pool_of(number, address, size)?;
                self.put(mps::PoolAlloc { pool, pReturn: address, size })
            }
            Event::ObjectFreed(e) if self.is_on(Category::Object) => {
                let (address, size) = (e.addr as u64, e.bytes as u64);
                let pool = self.pool_of(number, address, size)?;
                self.put(mps::PoolFree { pool, old: address, size })
            }
            Event::ReferenceFixed(e) if self.is_on(Category::Ref) => self.put(mps::TraceFix {
                ss: address(&SCANS[number]),
                refIO: e.slot_addr as u64,
                r#ref: e.reference as u64,
                rank: Rank::from_number(e.rank.into()),
            }),
            Event::CacheRefilled(e) if self.is_on(Category::Seg) => self.put(mps::BufferFill {
                buffer: e.buffer_addr as u64,
                size: e.asked_bytes as u64,
                base: e.addr as u64,
                filled: e.bytes as u64,
            }),
            _ => self.rare_event(record, number),
        }
    }

    fn lost(&mut self, lost: &Lost) -> io::Result<()> {
        if self.begun && self.is_on(Category::Arena) {
            self.now = self.last;
            self.put(mps::MessagesDropped { count: lost.count })?;
        }
        Ok(())
    }

    fn drained(&mut self, now: &Relation) -> io::Result<()> {
        if self.has_changes(now.ticks) {
            self.apply_changes(now.ticks)?;
        }
        if self.begun && self.buffer.records != self.synced { self.sync(now.ticks) } else { Ok(()) }
    }

    /// `.event.crash`: after a flush the file ends with a whole record, and no record is left in memory.
    fn flush(&mut self) -> io::Result<()> {
        self.buffer.write_out()?;
        self.count();
        Ok(())
    }

    fn close(&mut self, now: &Relation) -> io::Result<()> {
        // A sync is written even if the last record is one: a reader needs two of them to convert times.
        if self.begun {
            // The stream will not have the end of a running collection, so it is ended here.
            self.set_now(now.ticks);
            for number in 0..MAX_WORLDS {
                self.end_trace(number)?;
                self.end_poll(number, false)?;
            }
            self.sync(now.ticks)?;
        }
        self.flush()
    }

    fn unwritten(&self) -> u64 {
        self.count();
        self.buffer.lost()
    }

    fn policy(&self) -> Policy {
        self.policy
    }
}

#[cfg(test)]
#[path = "writer_tests.rs"]
mod tests;
