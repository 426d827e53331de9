//! One collection, phase by phase.
//!
//! [`Collector::collect`] *is* the collection: it reads from top to bottom as what happens. Everything that it needs
//! while the world is stopped is known or taken before the first signal: the three locks of the world and that of
//! the finalizer tables, the sweep gate, all memory. From "all stopped" to "restart" nothing allocates from malloc,
//! prints, or waits for a lock that a stopped thread could hold (`.stop.no-malloc`, `.stop.locks`).

mod dump;
pub(crate) mod figures;
pub(crate) mod finalize;
pub(crate) mod living;
pub(crate) mod mark;
pub(crate) mod masks;
pub(crate) mod observer;
pub(crate) mod pacing;
pub(crate) mod parallel;
pub(crate) mod report;
pub(crate) mod roots;
pub(crate) mod termination;
pub(crate) mod timing;

use std::ops::Deref;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use dump::Dump;
use figures::Figures;
use finalize::Finalizers;
use living::Living;
use observer::{Observer, Observers, Observing};
use pacing::Pacing;
use parallel::{Company, Markers, Marking};
use report::{CollectionReport, Reason};
use roots::RootScan;

use crate::events::clock::Clock;
use crate::events::record::{self, Hurry};
use crate::events::{EventId, Events};
use crate::heap::Heap;
use crate::heap::cache::AllocationCache;
use crate::heap::slots::SlotTable;
use crate::heap::stopped::WorldStopped;
use crate::heap::sweep::SpaceBytes;
use crate::heap::verify::{Verified, VerifyError};
use crate::os::callback::{self, Callback};
use crate::os::clock::{Budget, now_ns};
use crate::os::thread::{NotCancelled, sleep_ns};
use crate::sabotage::{Guard, removed};
use crate::sync::{AtomicU32, AtomicU64, HeldBy, Lock, LockGuard, Ordering, SharedLock};
use crate::world::error::{FalseAnswer, SilenceReason, StopError};
use crate::world::handler;
use crate::world::locks::StopLocks;
use crate::world::name::ThreadName;
use crate::world::region::OwnStack;
use crate::world::registry::Threads;
use crate::world::stop::{StopBy, StopCensus, StoppedWorld};
use crate::world::stop_info::ThreadStopInfo;
use crate::world::{DebuggerNews, Phase, Tid};

/// Why there was no collection. The world runs on, and nothing was reclaimed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CollectError {
    /// The world could not be stopped.
    #[error(transparent)]
    Stop(#[from] StopError),
    /// The paranoid mode found the heap broken.
    #[error("the heap is damaged after collection {number}: {error}")]
    Damaged {
        /// The collection after which it was found.
        number: u32,
        /// What was found.
        error: VerifyError,
    },
    /// Whoever had stopped the world did not hold it any more when marking was over. The collection is repeated by the
    /// way of stopping that the world was built with, so that only a failure listener meets this.
    #[error(
        "collection {number} was discarded: {}; nothing was freed, the world runs on, and the collection is repeated by the world's own stopper",
        why_discarded(answer.as_ref())
    )]
    Discarded {
        /// The collection that was not.
        number: u32,
        /// The debugger's answer that was found to be false, if that is the reason.
        answer: Option<FalseAnswer>,
    },
    /// The world was closed.
    #[error("the world is closed")]
    Closed,
    /// The last handle of the world was dropped, and what the world had to end did not. Only a failure listener gets this;
    /// [`World::close`](crate::World::close) returns the same.
    #[error("the world was dropped, and {0}")]
    NotClosed(CloseError),
}

/// Why a world did not close in order.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CloseError {
    /// A finalizer has not returned.
    #[error(
        "after {within:?} the finalizer thread has not finished: the finalizer of a \"{type_name}\" object has been running for \
         {running:.1?}, and {due} more are due; what they hold is not released. A finalizer must return: end its loop, or give what \
         it waits for a time limit"
    )]
    Finalizer {
        /// How long it was waited for.
        within: Duration,
        /// The type of the object whose finalizer runs.
        type_name: &'static str,
        /// For how long.
        running: Duration,
        /// Finalizers that wait for their turn.
        due: u64,
    },
    /// The finalizer thread is between two finalizers, or can't go on: there are too many, or it is suspended.
    #[error("after {within:?} the finalizer thread has not finished: {due} finalizers are still due")]
    Finalizers {
        /// How long they were waited for.
        within: Duration,
        /// Finalizers that wait for their turn.
        due: u64,
    },
    /// A listener has not returned.
    #[error("after {within:?} the thread that ticks has not finished: a listener to ticks has not returned")]
    Ticks {
        /// How long it was waited for.
        within: Duration,
    },
}

fn why_discarded(answer: Option<&FalseAnswer>) -> String {
    match answer {
        Some(answer) => format!("{answer}; it is not asked any more"),
        None => "the thread vtable let go of the stopped world (was the debugger killed?)".to_owned(),
    }
}

/// What a world calls when a collection that was due could not happen.
pub(crate) type FailureListener = Box<dyn Fn(&CollectError) + Send + Sync>;

/// Everything that a collection works on.
pub(crate) struct Collector {
    pub(crate) heap: Heap,
    pub(crate) threads: Arc<Threads>,
    pub(crate) events: Events,
    pub(crate) roots: SlotTable,
    pub(crate) ranges: roots::Ranges,
    pub(crate) finalizers: Finalizers,
    pub(crate) markers: Markers,
    pub(crate) pacing: Pacing,
    pub(crate) observing: Observing,
    pub(crate) stop_timeout: Duration,
    /// Finished collections.
    pub(crate) collections: AtomicU32,
    /// What was alive after the last one, and what was then unused in the threads' blocks.
    live_bytes: AtomicU64,
    /// The former, by space.
    live_spaces: LiveSpaces,
    unused_bytes: AtomicU64,
    /// Bytes allocated up to the last collection.
    pub(crate) allocated_total: AtomicU64,
    pub(crate) figures: Figures,
    pub(crate) on_collection: Option<report::Listener>,
    pub(crate) on_failure: Option<FailureListener>,
    /// What the paranoid mode found first: a thread that collected because it allocated has nobody to tell it to.
    pub(crate) damage: OnceLock<String>,
}

/// Who collects: one of the world's threads, with its registers on its stack, or a stranger.
#[derive(Clone, Copy)]
pub(crate) struct Collecting<'a> {
    /// Its own stack, if it is one of the world's threads.
    pub(crate) own: Option<&'a OwnStack>,
    /// Do nothing if a collection has finished since this one was.
    pub(crate) unless_after: Option<u32>,
    /// Who looks at what lives, this time.
    pub(crate) observer: Option<&'a dyn Observer>,
}

impl<'a> Collecting<'a> {
    /// This thread, whatever others have done.
    pub(crate) fn now(own: Option<&'a OwnStack>) -> Collecting<'a> {
        Collecting { own, unless_after: None, observer: None }
    }
}

impl Collector {
    pub(crate) fn new(parts: Parts) -> Self {
        Self {
            heap: parts.heap,
            threads: parts.threads,
            events: Events::new(),
            roots: parts.handles,
            ranges: parts.ranges,
            finalizers: parts.finalizers,
            markers: parts.markers,
            pacing: parts.pacing,
            observing: Observing::new(parts.observing),
            stop_timeout: parts.stop_timeout,
            collections: AtomicU32::new(0),
            live_bytes: AtomicU64::new(0),
            live_spaces: LiveSpaces::default(),
            unused_bytes: AtomicU64::new(0),
            allocated_total: AtomicU64::new(0),
            figures: Figures::new(),
            on_collection: parts.on_collection,
            on_failure: parts.on_failure,
            damage: OnceLock::new(),
        }
    }

    /// Collects. `Ok(None)` if somebody else did meanwhile and the caller did not insist.
    ///
    /// # Errors
    /// The world could not be stopped, or the paranoid mode found it broken; it runs on in either case.
    pub(crate) fn collect(
        &self,
        who: Collecting<'_>,
        reason: Reason,
    ) -> Result<Option<CollectionReport>, CollectError> {
        callback::refuse_inside("a collection");
        let mut result = self.collect_and_tell(who, reason, StopBy::InForce);
        let unless_after = match result {
            Err(CollectError::Discarded { number, .. }) => Some(who.unless_after.map(|_| number)),
            Err(CollectError::Stop(StopError::FalseAnswer(_))) => Some(who.unless_after),
            _ => None,
        };
        if let Some(unless_after) = unless_after {
            // The debugger that held the world does not answer for it any more: once again, without it (`.debug.dies`, `.debug.lies`).
            result = self.collect_and_tell(Collecting { unless_after, ..who }, reason, StopBy::BuiltIn);
        }
        result
    }

    fn collect_and_tell(
        &self,
        who: Collecting<'_>,
        reason: Reason,
        by: StopBy,
    ) -> Result<Option<CollectionReport>, CollectError> {
        let result = self.collect_once(who, reason, by);
        if let Ok(Some(report)) = &result {
            self.figures.note(report);
        }
        match (&result, &self.on_collection, &self.on_failure) {
            (Ok(Some(report)), Some(listener), _) => listener(report),
            (Err(error), _, Some(listener)) => listener(error),
            _ => {}
        }
        result
    }

    fn collect_once(
        &self,
        who: Collecting<'_>,
        reason: Reason,
        by: StopBy,
    ) -> Result<Option<CollectionReport>, CollectError> {
        let is_induced = reason == Reason::Allocation && self.heap.is_next_collection_induced();
        let reason = if is_induced { Reason::Explicit } else { reason };
        self.events.fire_gc_triggered(reason as u32);
        // Neither halfway through, nor with the world stopped: /proc is read for errors, and traces may be written.
        let _whole = NotCancelled::begin();

        // Every lock that the stopped world needs, before the first signal. Nobody waits for a trace with them, but here.
        record::catch_up();
        let hurry = Hurry::begin();
        let called_back = Callback::begin();
        let mut budget = Budget::new(self.stop_timeout);
        let locks = self.threads.lock_for_stop(&mut budget)?;
        if who.unless_after.is_some_and(|seen| seen != self.collections.load(Ordering::Relaxed)) {
            return Ok(None);
        }
        let finalizer_tables = self.lock_finalizers(&mut budget)?;
        let handles = self.lock_handles(&mut budget)?;
        let observers = self.observers(who, &mut budget)?;
        let locks = self.wait_for_sweeps(locks, &mut budget)?;
        close_own_cache();
        let number = self.collections.load(Ordering::Relaxed) + 1;
        self.heap.forget_request();
        // Also one that collects from its blocking region, where it has no stack to show.
        let collecting = self.threads.own_record();
        let _processor_time = self.markers.time().of_a_collection(collecting);

        // Suspend.
        self.events.fire_suspend_begin(number, reason as u32);
        let begun = self.events.recorded_at(EventId::SuspendBegin);
        let mut clock = PhaseClock::start();
        self.threads.enter_phase(Phase::SuspendBegin);
        let stopped = match self.stop(locks, who.own, by, budget) {
            Ok(stopped) => stopped,
            Err(error) => {
                self.tell_of_debuggers();
                self.events.fire_stop_abandoned(number, error.unanswered());
                return Err(self.with_finalizer(error).into());
            }
        };
        self.tell_of_debuggers();
        let crowd = stopped.census();
        self.events.fire_suspend_end(number, crowd.threads, crowd.blocking);
        self.threads.enter_phase(Phase::SuspendEnd);
        let stop_ns = clock.lap();

        self.events.fire_gc_start(number, reason as u32);
        self.threads.enter_phase(Phase::GcStart);
        let outcome = self.collect_stopped(&stopped, &finalizer_tables, number, &crowd, &observers, &mut clock);
        self.collections.store(number, Ordering::Relaxed);
        self.threads.published().set_collections(u64::from(number));
        self.events.fire_gc_end(number);
        self.threads.enter_phase(Phase::GcEnd);
        if let Ok(outcome) = &outcome
            && !outcome.discarded
        {
            self.fire_heap_stats(number, outcome);
        }

        // Restart.
        self.events.fire_restart_begin(number);
        self.threads.enter_phase(Phase::RestartBegin);
        clock.lap();
        let restart_ns = stopped.0.start();
        let mut pause_ns = clock.total() + restart_ns;
        // With these locks held, for which the next collection waits before it says anything: it begins when this one has
        // ended, for those who listen too.
        self.events.fire_restart_end(number);
        if let (Some(begun), Some(ended)) = (begun, self.events.recorded_at(EventId::RestartEnd)) {
            // Whoever computes the pause from a trace gets what the report says.
            pause_ns = Clock::of_process().span_ns(begun, ended);
        }
        drop(handles);
        drop(finalizer_tables);
        let outcome = outcome.map_err(|error| self.damaged(number, error));
        // Nor is anybody waited for with the observer's lock, neither a trace nor a debugger.
        let afterwards = match &outcome {
            Ok(outcome) if !outcome.discarded => Some(observers.finish(self)),
            _ => {
                drop(observers);
                None
            }
        };
        drop(hurry);
        self.threads.tell_phase(Phase::RestartEnd);
        drop(called_back);
        self.tell_of_debuggers();

        let outcome = outcome?;
        if outcome.discarded {
            return Err(CollectError::Discarded { number, answer: outcome.false_answer });
        }
        afterwards.into_iter().flatten().for_each(|tell| tell());
        let report =
            self.report(number, reason, collecting, &StopFacts { stop_ns, restart_ns, pause_ns, crowd }, &outcome);
        if outcome.queued > 0 {
            self.events.fire_finalizers_due(outcome.queued);
            self.finalizers.announce();
        }
        if let Some(target) = outcome.surplus {
            self.give_memory_back(target);
        }
        Ok(Some(report))
    }

    /// Debuggers that came, went, or were lost.
    fn tell_of_debuggers(&self) {
        while let Some(news) = self.threads.debugger_news() {
            match news {
                DebuggerNews::Attached { control } => self.events.fire_debugger_attached(control),
                DebuggerNews::Detached { control } => self.events.fire_debugger_detached(control),
                DebuggerNews::Lost { control, phase } => self.events.fire_debugger_lost(control, phase as u32),
            }
        }
    }

    fn damaged(&self, number: u32, error: VerifyError) -> CollectError {
        let error = CollectError::Damaged { number, error };
        self.damage.get_or_init(|| error.to_string());
        error
    }

    /// The part of a collection in which every other thread stands still.
    fn collect_stopped(
        &self,
        stopped: &Stopped<'_>,
        finalizer_tables: &LockGuard<'_>,
        number: u32,
        crowd: &StopCensus,
        observers: &Observers<'_>,
        clock: &mut PhaseClock,
    ) -> Result<Outcome, VerifyError> {
        let mut outcome = Outcome::default();
        if removed(Guard::StopNoMalloc) {
            // The known-bad variant: one allocation, as any formatted message would make.
            drop(std::hint::black_box(Box::new(number)));
        }
        caches(stopped).for_each(|cache| cache.charge_for_the_stopped(stopped.proof()));
        self.heap.begin_marking(stopped.proof());
        let company = if stopped.is_whole_process() { Company::Alone } else { Company::All };
        // SAFETY: the collection lock is held and the world is stopped.
        let mut marking = unsafe { self.markers.begin(&self.heap, &self.events, company) };

        // Roots.
        self.events.fire_roots_begin(number);
        self.threads.enter_phase(Phase::RootsBegin);
        let mut scan = RootScan::new(&mut marking.marker);
        scan.stacks(stopped);
        scan.half_built_objects(&self.heap, stopped);
        scan.ranges(&self.ranges);
        scan.handles(&self.roots);
        scan.waiting_for_finalizers(&self.finalizers, finalizer_tables);
        outcome.handles = scan.handles;
        (outcome.stack_bytes, outcome.roots) = scan.finish();
        self.events.fire_roots_end(number, outcome.stack_bytes as usize, outcome.roots as usize);
        self.threads.enter_phase(Phase::RootsEnd);
        outcome.roots_ns = clock.lap();

        // Mark.
        self.events.fire_mark_begin(number);
        self.threads.enter_phase(Phase::MarkBegin);
        marking.run();
        if self.events.is_enabled(EventId::BlockScanned) {
            self.heap.tell_of_the_scanned(stopped.proof(), &self.events);
        }
        self.events.fire_mark_end(number, marking.objects() as usize, marking.stack_high());
        self.threads.enter_phase(Phase::MarkEnd);
        outcome.mark_ns = clock.lap();

        // Before anything is cleared or freed: does whoever stopped the world still hold it (`.debug.dies`)?
        if !stopped.is_still_held() {
            marking.for_each_weak(|_| {});
            self.heap.discard_marks(stopped.proof());
            self.tell_of_debuggers();
            self.events.fire_collection_discarded(number, 0);
            outcome.discarded = true;
            outcome.false_answer = stopped.false_answer();
            return Ok(outcome);
        }

        if removed(Guard::CensusExact) {
            self.show(stopped, finalizer_tables, number, observers);
        }
        // Weak references, then finalizers.
        self.clear_weak_references(&mut marking, &mut outcome);
        self.queue_finalizers(finalizer_tables, &mut marking, &mut outcome);
        outcome.mark_stack_high = marking.stack_high();
        self.events.fire_weak_end(number, outcome.cleared as usize, outcome.queued as usize);
        self.threads.enter_phase(Phase::WeakEnd);
        outcome.weak_ns = clock.lap();

        // Now that nothing more comes back to life: whoever wants to know what lives (`.census.exact`).
        if !removed(Guard::CensusExact) && self.show(stopped, finalizer_tables, number, observers) {
            clock.lap();
        }

        // Sweep set-up.
        self.events.fire_sweep_begin(number);
        self.threads.enter_phase(Phase::SweepBegin);
        self.settle_the_new(stopped);
        let live = self.heap.set_up_sweep(stopped.proof(), caches(stopped), &self.events);
        outcome.live = live.bytes;
        outcome.live_objects = live.objects;
        outcome.pinned_objects = live.pinned_objects;
        self.account(stopped, &mut outcome);
        let (live_bytes, mutators) = (live.bytes.total(), crowd.threads as usize);
        let resident = self.heap.resident_bytes(&stopped.locks().allocation);
        let budget = self.pacing.budget(live_bytes, mutators, self.heap.limit_bytes(), resident);
        self.heap.end_collection(stopped.proof(), budget);
        outcome.surplus = self.pacing.surplus(live_bytes, mutators, resident);
        self.fire_heap_figures(number, budget, &outcome);
        self.events.fire_sweep_end(number, live.bytes.total() as usize, outcome.freed as usize);
        self.threads.enter_phase(Phase::SweepEnd);
        outcome.sweep_ns = clock.lap();

        if self.heap.paranoid {
            let found = self.heap.verify(stopped.proof())?;
            if found.live.total() != live.bytes.total() {
                return Err(VerifyError::Count { counted: found.live.total(), reported: live.bytes.total() });
            }
            clock.lap();
        }
        Ok(outcome)
    }

    /// Shows what lives to whoever wants to know. False: nobody does.
    fn show(
        &self,
        stopped: &StoppedWorld<'_>,
        finalizer_tables: &LockGuard<'_>,
        number: u32,
        observers: &Observers<'_>,
    ) -> bool {
        let dumps = Dump::is_wanted(&self.events);
        if !dumps && observers.is_empty() {
            return false;
        }
        let living = self.living(stopped, finalizer_tables, number);
        if dumps {
            let dump = Dump::new(&living, &self.events);
            dump.roots();
            dump.objects();
        }
        observers.look(&living);
        true
    }

    fn living<'a>(
        &'a self,
        stopped: &'a StoppedWorld<'a>,
        finalizer_tables: &'a LockGuard<'a>,
        number: u32,
    ) -> Living<'a> {
        let Self { heap, ranges, roots: handles, finalizers, .. } = self;
        Living { heap, stopped, ranges, handles, finalizers, finalizer_tables, epoch: heap.epoch(), number }
    }

    /// Clears every weak reference whose target nothing else keeps.
    fn clear_weak_references(&self, marking: &mut Marking<'_>, outcome: &mut Outcome) {
        let heap = &self.heap;
        marking.for_each_weak(|target| {
            let address = target.load(Ordering::Relaxed);
            if address != 0 && !heap.is_marked(address) && !removed(Guard::WeakClear) {
                target.store(0, Ordering::Relaxed);
                outcome.cleared += 1;
            }
        });
    }

    /// Queues the finalizers of dead objects, and keeps alive what they will see.
    fn queue_finalizers(&self, tables: &LockGuard<'_>, marking: &mut Marking<'_>, outcome: &mut Outcome) {
        let is_marked = |object| self.heap.is_marked(object);
        if removed(Guard::FinalOrder) {
            outcome.queued +=
                self.finalizers.queue_drops(tables, is_marked, |object| marking.marker.last_reference(object));
        }
        outcome.queued +=
            self.finalizers.queue_calls(tables, is_marked, |object| marking.marker.last_reference(object));
        marking.run_on();
        // Weak cells that only such an object reaches. Before the drops: a dead object that is about to be dropped
        // must not be met again by way of a weak reference that was resurrected.
        self.clear_weak_references(marking, outcome);
        outcome.queued +=
            self.finalizers.queue_drops(tables, is_marked, |object| marking.marker.last_reference(object));
        marking.run_on();
    }

    /// If somebody listens to each object: tells of those that their threads were stopped before they could. Not for a thread
    /// in the middle of telling, as only a debugger stops one: it goes on with that itself.
    fn settle_the_new(&self, stopped: &Stopped<'_>) {
        for (record, cache) in records_and_caches(stopped) {
            if !record.is_undisturbed() {
                self.heap.settle_the_new(stopped.proof(), cache, &self.events);
            }
        }
    }

    /// What was allocated since the last collection, and what died.
    fn account(&self, stopped: &Stopped<'_>, outcome: &mut Outcome) {
        let unused = caches(stopped).map(AllocationCache::all_unused_bytes).sum::<usize>() as u64;
        let mut state = self.heap.state(&stopped.locks().allocation);
        let unused_before = self.unused_bytes.swap(unused, Ordering::Relaxed);
        outcome.allocated =
            (state.acquired_bytes + unused_before).saturating_sub(unused + std::mem::take(&mut state.returned_bytes));
        self.allocated_total.fetch_add(outcome.allocated, Ordering::Relaxed);
        outcome.before = self.live_spaces.replace(outcome.live);
        let live = outcome.live.total();
        let live_before = self.live_bytes.swap(live, Ordering::Relaxed);
        outcome.freed = (live_before + outcome.allocated).saturating_sub(live);
    }

    /// The finalizer tables' lock, whose holder a user may have frozen (`.debug.frozen-owner`).
    fn lock_finalizers(&self, budget: &mut Budget) -> Result<LockGuard<'_>, StopError> {
        let held = |HeldBy(tid), within| self.threads.lock_denied("finalizer", Tid(tid as i32), within);
        self.finalizers.lock.lock_within(budget).map_err(|holder| held(holder, budget.total()))
    }

    /// What was there before, and what is there now.
    fn fire_heap_figures(&self, number: u32, budget: u64, outcome: &Outcome) {
        let [before, after] = [outcome.before, outcome.live]
            .map(|spaces| [spaces.small as usize, spaces.large as usize, spaces.pinned as usize]);
        let [small, large, pinned] = before;
        self.events.fire_heap_before(number, small, large, pinned, outcome.allocated as usize, budget as usize);
        let [small, large, pinned] = after;
        let (pinned_objects, handles) = (outcome.pinned_objects as usize, outcome.handles as usize);
        self.events.fire_heap_after(number, small, large, pinned, pinned_objects, handles);
    }

    fn fire_heap_stats(&self, number: u32, outcome: &Outcome) {
        self.events.fire_heap_stats(
            number,
            outcome.live.small as usize,
            outcome.live.large as usize,
            outcome.live.pinned as usize,
            self.heap.committed_bytes() as usize,
            outcome.live_objects as usize,
        );
    }

    /// A heap that was large once: its free memory goes back to the kernel.
    fn give_memory_back(&self, target: u64) {
        let mut below = usize::MAX;
        let give_back = |below: &mut usize| {
            self.heap.give_back(&self.threads.lock(&self.threads.locks().allocation), target, below)
        };
        // Piece by piece, so that nobody fires with the lock in his hands.
        while let Some((start, bytes)) = give_back(&mut below) {
            self.events.fire_segment_freed(start, bytes);
        }
    }

    /// The tables of handles and ranges. Threads that no stop reaches (strangers, those in blocking regions) may
    /// clone and drop handles too: one that was cloned into a slot that the scan has passed, and dropped in a slot
    /// that it has not come to, would be missed (`.root.race`).
    fn lock_handles<'a>(&'a self, budget: &mut Budget) -> Result<(LockGuard<'a>, LockGuard<'a>), StopError> {
        let mut lock = |table: &'static str, lock: &'a Lock| {
            let held = |HeldBy(tid), within| self.threads.lock_denied(table, Tid(tid as i32), within);
            lock.lock_within(budget).map_err(|holder| held(holder, budget.total()))
        };
        let roots = lock("root handle", &self.roots.lock)?;
        let ranges = lock("registered range", &self.ranges.lock)?;
        Ok((ranges, roots))
    }

    /// No thread may be in the middle of sweeping a block when the world stops.
    fn wait_for_sweeps<'a>(&self, locks: StopLocks<'a>, budget: &mut Budget) -> Result<QuietLocks<'a>, StopError> {
        loop {
            if self.heap.wait_for_sweeps(&locks.allocation, budget) {
                return Ok(QuietLocks(locks));
            }
            let is_sweeping = |record: &ThreadStopInfo| {
                // SAFETY: the allocation and the list lock are held.
                unsafe { cache_of(record) }.is_some_and(|cache| cache.sweeping().is_some())
            };
            let error = self.threads.hindered_by(&locks, budget.total(), is_sweeping);
            if error.unanswered() > 0 {
                return Err(error);
            }
            // They have left meanwhile, and nobody can enter.
        }
    }

    /// Calls [`Threads::stop`]. `locks` show that no thread is sweeping.
    fn stop<'a>(
        &'a self,
        locks: QuietLocks<'a>,
        own: Option<&OwnStack>,
        by: StopBy,
        budget: Budget,
    ) -> Result<Stopped<'a>, StopError> {
        self.threads.stop(locks.0, own, by, budget).map(Stopped)
    }

    fn report(
        &self,
        number: u32,
        reason: Reason,
        collecting: Option<&ThreadStopInfo>,
        stop: &StopFacts,
        outcome: &Outcome,
    ) -> CollectionReport {
        let by = collecting.map_or_else(|| ThreadName::new("(not attached)"), ThreadStopInfo::name);
        let slowest = stop.crowd.slowest;
        CollectionReport {
            number,
            reason,
            by,
            stop_ns: stop.stop_ns,
            roots_ns: outcome.roots_ns,
            mark_ns: outcome.mark_ns,
            weak_ns: outcome.weak_ns,
            sweep_ns: outcome.sweep_ns,
            restart_ns: stop.restart_ns,
            pause_ns: stop.pause_ns,
            live: outcome.live,
            live_objects: outcome.live_objects,
            freed_bytes: outcome.freed,
            allocated_bytes: outcome.allocated,
            committed_bytes: self.heap.committed_bytes(),
            stack_bytes: outcome.stack_bytes,
            threads_stopped: stop.crowd.threads - u32::from(collecting.is_some()),
            threads_blocking: stop.crowd.blocking,
            slowest: slowest.map_or(ThreadName::EMPTY, |slowest| slowest.name),
            slowest_ns: slowest.map_or(0, |slowest| slowest.ns),
            mark_stack_high: outcome.mark_stack_high,
            weak_cleared: outcome.cleared,
            finalizers_queued: outcome.queued,
        }
    }

    /// Names the finalizer if the finalizer thread is among those that did not stop and nothing else explains that.
    fn with_finalizer(&self, mut error: StopError) -> StopError {
        let StopError::Unanswered { threads, .. } = &mut error else { return error };
        let runner = Tid(self.finalizers.thread.load(Ordering::Relaxed) as i32);
        let is_unexplained =
            |reason: &SilenceReason| matches!(reason, SilenceReason::NoSafepoint | SilenceReason::Unknown);
        if let Some(running) = self.finalizers.running()
            && let Some(thread) =
                threads.iter_mut().find(|thread| thread.tid == runner && is_unexplained(&thread.reason))
        {
            thread.reason = SilenceReason::InFinalizer { type_name: running.type_name, running: running.since };
        }
        error
    }

    /// Stops the world only to verify the heap.
    ///
    /// # Errors
    /// As [`collect`](Self::collect).
    pub(crate) fn verify(&self, who: Collecting<'_>) -> Result<Verified, CollectError> {
        callback::refuse_inside("World::verify");
        match self.verify_once(who, StopBy::InForce) {
            Ok(Some(verified)) => return Ok(verified),
            // The debugger that stopped the world is not asked again, as in `collect`.
            Ok(None) => {}
            Err(error @ CollectError::Stop(StopError::FalseAnswer(_))) => {
                if let Some(listener) = &self.on_failure {
                    listener(&error);
                }
            }
            Err(error) => return Err(error),
        }
        let verified = self.verify_once(who, StopBy::BuiltIn)?;
        Ok(verified.expect("the built-in stopper keeps the world stopped"))
    }

    /// Returns `None` if the vtable resumed threads during the verification: what was found says nothing then.
    fn verify_once(&self, who: Collecting<'_>, by: StopBy) -> Result<Option<Verified>, CollectError> {
        let _called_back = Callback::begin();
        let _whole = NotCancelled::begin();
        let mut budget = Budget::new(self.stop_timeout);
        let locks = self.threads.lock_for_stop(&mut budget)?;
        let locks = self.wait_for_sweeps(locks, &mut budget)?;
        close_own_cache();
        let stopped = self.stop(locks, who.own, by, budget);
        let stopped = stopped.map_err(|error| self.with_finalizer(error))?;
        let found = self.heap.verify(stopped.proof());
        let is_held = stopped.is_still_held();
        let false_answer = stopped.false_answer();
        drop(stopped);
        if !is_held {
            return false_answer.map_or(Ok(None), |answer| Err(StopError::FalseAnswer(answer).into()));
        }
        let number = self.collections.load(Ordering::Relaxed);
        found.map(Some).map_err(|error| CollectError::Damaged { number, error })
    }

    /// Bytes allocated so far, collections or not. Exact for the calling thread, and for all that stand, are in a blocking region
    /// or have detached; of a thread that allocates at this moment, up to a block of 16 KiB more or less. As of the last
    /// collection if a thread holds the heap's lock for longer than a second, since it may be suspended, and if the caller holds
    /// it: a vtable that is being notified of a thread.
    pub(crate) fn allocated_bytes(&self) -> u64 {
        let Self { threads, heap, .. } = self;
        let up_to_the_last = || self.allocated_total.load(Ordering::Relaxed);
        let mut allocated = None;
        threads.as_blocking(|| {
            let allocation = &threads.locks().allocation;
            let mut budget = Budget::new(Duration::from_secs(1));
            if allocation.is_mine() {
                return;
            }
            let Ok(held) = allocation.lock_within(&mut budget) else { return };
            let mut look = |live: &[&'static ThreadStopInfo]| {
                // SAFETY: the allocation lock is held.
                let caches = live.iter().filter_map(|record| unsafe { cache_of(record) });
                let unused = caches.map(AllocationCache::unused_by_now).sum::<usize>() as u64;
                let state = heap.state(&held);
                let acquired = state.acquired_bytes + self.unused_bytes.load(Ordering::Relaxed);
                allocated = Some(up_to_the_last() + acquired.saturating_sub(unused + state.returned_bytes));
            };
            // Others hold the list for a moment.
            while !threads.look_now(&mut look) && budget.slice(1_000_000, sleep_ns).is_some() {}
        });
        allocated.unwrap_or_else(up_to_the_last)
    }

    /// Bytes handed to threads since the last collection. `None` if somebody allocates or collects at this moment.
    pub(crate) fn acquired_bytes(&self) -> Option<u64> {
        let held = self.threads.locks().allocation.try_lock().ok()?;
        Some(self.heap.state(&held).acquired_bytes)
    }

    /// What was alive after the last collection.
    pub(crate) fn live_bytes(&self) -> u64 {
        self.live_bytes.load(Ordering::Relaxed)
    }
}

/// What [`Collector::new`] is made of.
pub(crate) struct Parts {
    pub(crate) heap: Heap,
    pub(crate) threads: Arc<Threads>,
    pub(crate) markers: Markers,
    pub(crate) handles: SlotTable,
    pub(crate) ranges: roots::Ranges,
    pub(crate) finalizers: Finalizers,
    pub(crate) pacing: Pacing,
    pub(crate) stop_timeout: Duration,
    /// The lock of the world's own observer.
    pub(crate) observing: SharedLock,
    pub(crate) on_collection: Option<report::Listener>,
    pub(crate) on_failure: Option<FailureListener>,
}

/// The locks of a stop, taken when no thread was in the sweep gate. As long as they are held none can enter it.
struct QuietLocks<'a>(StopLocks<'a>);

/// The stopped world. No thread is sweeping its heap.
struct Stopped<'a>(StoppedWorld<'a>);

impl Stopped<'_> {
    /// The heap's proof of it.
    fn proof(&self) -> WorldStopped<'_> {
        // SAFETY: every other thread is stopped as long as `self` exists. It was made of `QuietLocks`, so no thread is in the
        // sweep gate; and the collecting thread, the only one to have it, neither allocates nor sweeps.
        unsafe { WorldStopped::assume(&self.0.locks().allocation) }
    }
}

impl<'a> Deref for Stopped<'a> {
    type Target = StoppedWorld<'a>;

    fn deref(&self) -> &StoppedWorld<'a> {
        &self.0
    }
}

/// The stopped threads that allocate, the collecting one among them, with their allocation caches.
fn records_and_caches<'a>(
    stopped: &'a StoppedWorld<'_>,
) -> impl Iterator<Item = (&'static ThreadStopInfo, &'a AllocationCache)> + Clone + 'a {
    // SAFETY: the stop holds the allocation and the list lock as long as `stopped` exists.
    stopped.live().iter().filter_map(|&record| Some((record, unsafe { cache_of(record) }?)))
}

/// The allocation caches of the stopped threads, the collecting one's among them.
fn caches<'a>(stopped: &'a StoppedWorld<'_>) -> impl Iterator<Item = &'a AllocationCache> + Clone + 'a {
    records_and_caches(stopped).map(|(_, cache)| cache)
}

/// From here to the end of the stop the calling thread can't allocate: what the collector calls on it may try to
/// (`.stop.no-mutator`). Its cache may be another world's: a thread that collects a world which it is not attached to.
fn close_own_cache() {
    if !removed(Guard::StopNoMutator)
        // SAFETY: the calling thread's own, which does not detach here.
        && let Some(cache) = handler::known_current().and_then(|record| unsafe { cache_of(record) })
    {
        cache.close();
    }
}

/// The allocation cache of a thread.
///
/// # Safety
/// As long as the result is used, the calling thread holds the allocation lock of the thread's world; or the thread is stopped, wherever
/// that is (a debugger's question); or the thread is the calling one and does not detach.
pub(crate) unsafe fn cache_of<'a>(record: &ThreadStopInfo) -> Option<&'a AllocationCache> {
    // SAFETY: a mutator sets its record's user word to its cache after attach and clears it under the allocation lock
    // before the cache goes: it does not go while the caller has the lock, nor while its thread is stopped.
    unsafe { record.user().cast::<AllocationCache>().as_ref() }
}

/// What the last collection left in each space. The collecting thread's alone.
#[derive(Default)]
struct LiveSpaces([AtomicU64; 3]);

impl LiveSpaces {
    /// What it was until now.
    fn replace(&self, live: SpaceBytes) -> SpaceBytes {
        let now = [live.small, live.large, live.pinned];
        let [small, large, pinned] = std::array::from_fn(|space| self.0[space].swap(now[space], Ordering::Relaxed));
        SpaceBytes { small, large, pinned }
    }
}

/// What the stopped part of a collection found.
#[derive(Default)]
struct Outcome {
    roots_ns: u64,
    mark_ns: u64,
    weak_ns: u64,
    sweep_ns: u64,
    stack_bytes: u64,
    roots: u64,
    handles: u64,
    live: SpaceBytes,
    live_objects: u64,
    pinned_objects: u64,
    /// What the collection before left.
    before: SpaceBytes,
    allocated: u64,
    freed: u64,
    cleared: u32,
    queued: u32,
    mark_stack_high: usize,
    discarded: bool,
    /// Why, if a debugger's answer was false.
    false_answer: Option<FalseAnswer>,
    /// How much may stay resident, if memory is to be given back.
    surplus: Option<u64>,
}

/// What is known of the stop itself.
struct StopFacts {
    stop_ns: u64,
    restart_ns: u64,
    pause_ns: u64,
    crowd: StopCensus,
}

/// Times the phases.
struct PhaseClock {
    begin: u64,
    last: u64,
}

impl PhaseClock {
    fn start() -> Self {
        let now = now_ns();
        Self { begin: now, last: now }
    }

    /// Nanoseconds since the last lap.
    fn lap(&mut self) -> u64 {
        let now = now_ns();
        now - std::mem::replace(&mut self.last, now)
    }

    /// Nanoseconds from the start to the last lap.
    fn total(&self) -> u64 {
        self.last - self.begin
    }
}
