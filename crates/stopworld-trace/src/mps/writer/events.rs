//! Translates each event to its records: the arms of the writer, and the state of collections that they change.

use std::io;

use super::super::blocks::{Blocks, Held};
use super::super::shared_state::Facts;
use super::super::world::World;
use super::{LARGE_BYTES, SCANS, TRACES, Writer, address};
use mps_telemetry::{Rank, Res, TraceStartWhy, TypedRecord, v2 as mps};
use stopworld::Space;
use stopworld::events::record::Recorded;
use stopworld::events::{Category, Event, Label, payload};

/// The set of traces that contains the only trace of a world.
const TRACE_SET: u32 = 1;

impl Writer {
    // ---- Collections ---------------------------------------------------------------------------------------------------

    fn create_trace(&mut self, number: usize, reason: u32) -> io::Result<()> {
        let (arena, trace) = (self.arena(number)?, address(&TRACES[number]));
        self.end_trace(number)?;
        let world = &mut self.worlds[number];
        world.trace_open = true;
        // If the writer tracks the blocks, it has the exact number.
        let condemned = if world.held_bytes > 0 { world.held_bytes } else { world.committed };
        let mortality = world.mortality;
        let is_explicit = reason == stopworld::Reason::Explicit as u32;
        let why = if is_explicit { TraceStartWhy::Full } else { TraceStartWhy::Dynamic };
        self.put(mps::TraceCreate { trace, arena, why })?;
        self.put(mps::TraceCondemnAll { arena, trace })?;
        // Everything is condemned, in all zones; the trace ends before any thread allocates again.
        let white = u64::MAX;
        self.put(mps::TraceStart { arena, trace, mortality, condemned, white, ..mps::TraceStart::default() })
    }

    /// Writes a record of the current trace and its arena, if there is one.
    fn of_trace<'a, E: TypedRecord<'a>>(&mut self, number: usize, event: impl FnOnce(u64, u64) -> E) -> io::Result<()> {
        if !self.worlds[number].trace_open {
            return Ok(());
        }
        let arena = self.arena(number)?;
        self.put(event(address(&TRACES[number]), arena))
    }

    fn advance(&mut self, number: usize, rank: Rank) -> io::Result<()> {
        self.of_trace(number, |trace, arena| mps::TraceBandAdvance { arena, trace, rank })
    }

    pub(super) fn end_trace(&mut self, number: usize) -> io::Result<()> {
        if !std::mem::take(&mut self.worlds[number].trace_open) {
            return Ok(());
        }
        let (arena, trace) = (self.arena(number)?, address(&TRACES[number]));
        self.put(mps::TraceDestroy { arena, trace })
    }

    pub(super) fn end_poll(&mut self, number: usize, work_was_done: bool) -> io::Result<()> {
        if !std::mem::take(&mut self.worlds[number].poll_open) {
            return Ok(());
        }
        let arena = self.arena(number)?;
        self.put(mps::ArenaPollEnd { arena, workWasDone: work_was_done })
    }

    // ---- Events --------------------------------------------------------------------------------------------------------

    /// Handles the less frequent events.
    #[inline(never)]
    pub(super) fn rare_event(&mut self, record: &Recorded, number: usize) -> io::Result<()> {
        let (arena, pool, trace) =
            (self.is_on(Category::Arena), self.is_on(Category::Pool), self.is_on(Category::Trace));
        let (seg, user) = (self.is_on(Category::Seg), self.is_on(Category::User));
        match record.event() {
            Event::WorldCreated(e) => self.world_created(number, &e),
            Event::WorldClosed(_) => self.world_closed(number),
            Event::PoolCreated(e) => {
                let space = space(e.space);
                if let Some(facts) = &mut self.worlds[number].facts {
                    facts.pools[space as usize] = e.pool_addr as u64;
                }
                if pool { self.pool(number, space).map(drop) } else { Ok(()) }
            }
            Event::PoolClosed(e) => self.pool_closed(number, space(e.space)),
            Event::CommitLimitSet(e) if arena => {
                let arena = self.arena(number)?;
                self.put(mps::CommitLimitSet { arena, limit: e.limit_bytes as u64, res: Res::Ok })
            }
            Event::SuspendBegin(_) if arena => {
                // The record of the previous trace's end was lost, so that trace is ended here.
                self.end_trace(number)?;
                self.end_poll(number, false)?;
                let arena = self.arena(number)?;
                self.worlds[number].poll_open = true;
                self.put(mps::ArenaPollBegin { arena })
            }
            Event::StopAbandoned(_) => self.end_poll(number, false),
            Event::RestartEnd(_) => self.end_poll(number, true),
            Event::GcStart(e) if trace => self.create_trace(number, e.reason),
            Event::RootsBegin(_) => self.of_trace(number, |trace, arena| mps::TraceFlipBegin { trace, arena }),
            Event::RootsEnd(_) => self.of_trace(number, |trace, arena| mps::TraceFlipEnd { trace, arena }),
            Event::MarkBegin(_) => self.advance(number, Rank::Exact),
            // Weak is the rank after the finalizers.
            Event::WeakEnd(_) => self.advance(number, Rank::Weak),
            Event::SweepBegin(_) => self.of_trace(number, |trace, arena| mps::TraceReclaim { trace, arena }),
            Event::SweepEnd(e) => {
                let whole = (e.live_bytes + e.freed_bytes).max(1);
                self.worlds[number].mortality = e.freed_bytes as f64 / whole as f64;
                self.end_trace(number)
            }
            Event::CollectionDiscarded(_) => self.end_trace(number),
            Event::HeapStats(e) => {
                self.worlds[number].committed = e.committed_bytes as u64;
                Ok(())
            }
            // The root may refer to any zone.
            Event::RootScanned(e) if seg => {
                self.put(mps::RootScan { root: e.root_addr as u64, ts: TRACE_SET.into(), summary: u64::MAX })
            }
            Event::AreaScanned(e) if seg => self.put(mps::TraceScanArea {
                ss: address(&SCANS[number]),
                base: e.base_addr as u64,
                limit: e.limit_addr as u64,
            }),
            Event::BlockScanned(e) if seg => {
                let (pool, arena) = (self.pool(number, space(e.space))?, self.arena(number)?);
                self.put(mps::SegScan { seg: e.addr as u64, pool, arena, ts: TRACE_SET, rank: Rank::Exact })
            }
            Event::BlockReclaimed(e) if seg => {
                let (pool, arena) = (self.pool(number, space(e.space))?, self.arena(number)?);
                // The names of the parameters are wrong: the MPS writes arena, pool, trace, segment, in this order.
                self.put(mps::SegReclaim { seg: arena, pool, arena: address(&TRACES[number]), trace: e.addr as u64 })
            }
            Event::SegmentCreated(e) => self.segment_created(number, e.addr as u64, e.bytes as u64),
            Event::SegmentFreed(e) if seg => {
                let (vm, base) = (self.vm(number), e.addr as u64);
                self.put(mps::VMUnmap { vm, base, limit: base + e.bytes as u64 })
            }
            Event::BlockAcquired(e) => self.block_acquired(number, e.addr as u64, e.bytes as u64, space(e.space)),
            Event::BlockReleased(e) => {
                let held = self.worlds[number].blocks.as_ref().and_then(|blocks| blocks.held(e.addr as u64));
                held.map_or(Ok(()), |held| self.release(number, held))
            }
            Event::AllocationFailed(e) => self.allocation_failed(number, e.bytes as u64),
            Event::EmergencySet(e) if arena => {
                let arena = self.arena(number)?;
                self.put(mps::ArenaSetEmergency { arena, emergency: e.emergency != 0 })
            }
            Event::FinalizersDue(_) if arena => self.put(mps::MessagesExist {}),
            Event::Interned(e) if user => Label::from_raw(e.label).map_or(Ok(()), |label| self.text(label)),
            Event::Labelled(e) if user => {
                Label::from_raw(e.label).map_or(Ok(()), |label| self.label(e.address as u64, label))
            }
            _ => Ok(()),
        }
    }

    fn world_created(&mut self, number: usize, e: &payload::WorldCreated) -> io::Result<()> {
        let world = &mut self.worlds[number];
        if world.facts.is_none() {
            let facts = Facts {
                world: e.world_addr as u64,
                heap: e.heap_addr as u64,
                reserved: e.reserved_bytes as u64,
                chunk: e.chunk_bytes as u64,
                block: e.block_bytes as u64,
                ..Facts::default()
            };
            world.facts = Some(facts);
            world.blocks = Blocks::new(facts.heap, facts.reserved, facts.block).ok();
        }
        world.introduced = true;
        if self.is_on(Category::Arena) { self.arena(number).map(drop) } else { Ok(()) }
    }

    fn world_closed(&mut self, number: usize) -> io::Result<()> {
        if self.is_on(Category::Arena) && self.worlds[number].arena_reported {
            let Facts { world, heap, .. } = self.worlds[number].facts.unwrap_or_default();
            self.put(mps::ArenaDestroy { arena: world })?;
            self.put(mps::VMFinish { vm: heap })?;
        }
        let generation = self.worlds[number].generation;
        self.worlds[number] = World { generation, ..World::new() };
        self.shared_state.progress.count_ended_world();
        Ok(())
    }

    fn pool_closed(&mut self, number: usize, space: Space) -> io::Result<()> {
        let mut at = 0;
        while let Some((held, after)) = self.worlds[number].blocks.as_ref().and_then(|blocks| blocks.next(at)) {
            at = after;
            if held.space == space {
                self.release(number, held)?;
            }
        }
        self.now += 1;
        if self.is_on(Category::Pool) && self.worlds[number].pools_reported[space as usize] {
            let (pool, arena) = (self.pool(number, space)?, self.arena(number)?);
            self.put(mps::PoolFinish { pool, arena })?;
            self.worlds[number].pools_reported[space as usize] = false;
        }
        Ok(())
    }

    /// Returns the identifier of a world's reservation in records.
    fn vm(&self, number: usize) -> u64 {
        self.worlds[number].facts.map_or(0, |facts| facts.heap)
    }

    fn segment_created(&mut self, number: usize, base: u64, size: u64) -> io::Result<()> {
        if self.is_on(Category::Seg) {
            self.put(mps::VMMap { vm: self.vm(number), base, limit: base + size })?;
        }
        if self.is_on(Category::Arena) {
            let arena = self.arena(number)?;
            self.put(mps::ArenaExtend { arena, base, size })?;
        }
        Ok(())
    }

    fn block_acquired(&mut self, number: usize, address: u64, bytes: u64, space: Space) -> io::Result<()> {
        let world = &mut self.worlds[number];
        let held = Held { address, bytes, space, reported: 0 };
        let known = world.blocks.as_ref().and_then(|blocks| blocks.held(address));
        match known {
            // The block was held already, and reported, when its world was introduced.
            Some(known) if known.space == space && known.bytes == bytes => return self.write_block(number, known),
            Some(known) => self.release(number, known)?,
            None => {}
        }
        self.worlds[number].hold(held);
        self.write_block(number, held)
    }

    fn allocation_failed(&mut self, number: usize, size: u64) -> io::Result<()> {
        let space = if size > LARGE_BYTES { Space::Large } else { Space::Small };
        let res = Res::CommitLimit;
        if self.is_on(Category::Arena) {
            let (pool, arena) = (self.pool(number, space)?, self.arena(number)?);
            self.put(mps::ArenaAllocFail { arena, size, pool, res })?;
        }
        if self.is_on(Category::Seg) {
            let (pool, arena) = (self.pool(number, space)?, self.arena(number)?);
            self.put(mps::SegAllocFail { arena, size, pool, res })?;
        }
        Ok(())
    }
}

fn space(number: u32) -> Space {
    match number {
        1 => Space::Pinned,
        2 => Space::Large,
        _ => Space::Small,
    }
}
