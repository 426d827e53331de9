//! One collection, from beginning to end.

use super::binding::{BoundStop, MarkedHeap};
use super::caches::{caches, close_own_cache, records_and_caches};
use super::dump::Dump;
use super::ephemerons;
use super::error::CollectError;
use super::live_heap::LiveHeap;
use super::observer::Observers;
use super::outcome::Outcome;
use super::parallel::{Marking, MarkingThreads};
use super::phases::{Phases, Step};
#[cfg(feature = "check")]
use super::promise::{MayPanic, Promise, Search};
use super::report::{CollectionReport, Reason};
use super::roots::RootScan;
use super::state::{Collecting, Collector};
use super::stopping::Stopped;
use crate::events::EventId;
use crate::events::record::{self, NoWaitSection};
use crate::heap::cache::AllocationCache;
use crate::heap::verify::VerifyError;
use crate::os::callback::{self, Callback};
use crate::os::clock::Budget;
use crate::os::thread::NotCancelled;
use crate::sabotage::{Guard, removed};
use crate::sync::{LockGuard, Ordering};
use crate::world::error::StopError;
use crate::world::stop::{StopBy, StoppedWorld};
use crate::world::{DebuggerNews, LostStop, Phase};

/// The locks of tables that a collection holds through the stop.
struct HeldTables<'a> {
    finalizers: LockGuard<'a>,
    /// In a world that samples its allocations.
    samples: Option<LockGuard<'a>>,
}

/// A collection that has ended.
#[must_use]
pub(crate) struct Collected<'a> {
    report: CollectionReport,
    #[cfg_attr(not(feature = "check"), expect(dead_code, reason = "only the check of the promise needs it"))]
    collector: &'a Collector,
    #[cfg(feature = "check")]
    search: Option<Search<'a>>,
}

impl Collected<'_> {
    /// Ends the collection, and returns its report. Called when the caller has nothing else to do for it.
    ///
    /// # Panics
    /// If a check of the promise that panics has found a hidden reference, unless this is the thread that runs finalizers.
    pub(crate) fn end(self) -> CollectionReport {
        #[cfg(feature = "check")]
        if let Some(search) = self.search {
            let is_finalizing = self.collector.finalizers.is_own_thread();
            search.report(&self.collector.threads, if is_finalizing { MayPanic::No } else { MayPanic::Yes });
        }
        self.report
    }
}

impl Collector {
    /// Collects. Returns `Ok(None)` if another thread has collected since `who.unless_after`.
    ///
    /// # Errors
    /// The world could not be stopped, or the paranoid mode found the heap damaged. The world runs on in either case.
    pub(crate) fn collect(&self, who: Collecting<'_>, reason: Reason) -> Result<Option<Collected<'_>>, CollectError> {
        callback::refuse_inside("a collection");
        let mut result = self.collect_and_report(who, reason, StopBy::InForce);
        let unless_after = match result {
            Err(CollectError::Discarded { number, .. }) => Some(who.unless_after.map(|_| number)),
            Err(CollectError::Stop(StopError::FalseAnswer(_))) => Some(who.unless_after),
            _ => None,
        };
        if let Some(unless_after) = unless_after {
            // The debugger lost the stopped world, or gave a false answer: collect again without it (`.debug.dies`,
            // `.debug.lies`).
            result = self.collect_and_report(Collecting { unless_after, ..who }, reason, StopBy::BuiltIn);
        }
        result
    }

    fn collect_and_report(
        &self,
        who: Collecting<'_>,
        reason: Reason,
        by: StopBy,
    ) -> Result<Option<Collected<'_>>, CollectError> {
        let result = self.collect_once(who, reason, by);
        if let Ok(Some(Collected { report, .. })) = &result {
            self.figures.note(report);
        }
        match (&result, &self.on_collection, &self.on_failure) {
            (Ok(Some(Collected { report, .. })), Some(listener), _) => listener(report),
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
    ) -> Result<Option<Collected<'_>>, CollectError> {
        let is_induced = reason == Reason::Allocation && self.heap.is_next_collection_induced();
        let reason = if is_induced { Reason::Explicit } else { reason };
        // The thread must not be cancelled in the middle of a collection, when the world is stopped: reading /proc for errors and writing
        // traces are cancellation points.
        let _whole = NotCancelled::begin();
        self.mutator_time.wait(&self.threads, reason);
        self.events.fire_gc_triggered(reason as u32);

        if let Some(binding) = &self.binding {
            binding.prepare();
        }
        #[cfg(feature = "check")]
        let mut search = self.promise.as_ref().map(Promise::prepare);
        self.events.forget_the_ended();
        // Take every lock that the stopped world needs, before the first signal. The recorder is drained first: while the locks are held, no
        // thread waits for it.
        record::catch_up();
        self.markers.wait_for_start();
        let no_wait = NoWaitSection::begin();
        let called_back = Callback::begin();
        let mut budget = Budget::new(self.stop_timeout);
        let locks = self.lock_outside_scopes(&mut budget)?;
        if who.unless_after.is_some_and(|seen| seen != self.collections.load(Ordering::Relaxed)) {
            return Ok(None);
        }
        let finalizers = self.lock_finalizers(&mut budget)?;
        let handles = self.lock_handles(&mut budget)?;
        let observers = self.observers(who, &mut budget)?;
        let mut tables = HeldTables { finalizers, samples: self.lock_samples(&mut budget)? };
        let locks = self.wait_for_sweeps(locks, &mut budget)?;
        close_own_cache();
        let number = self.collections.load(Ordering::Relaxed) + 1;
        self.heap.forget_request();
        // The record is needed also for a thread that collects in its blocking region and so passes no stack of its own.
        let collecting = self.threads.own_record();
        let _processor_time = self.markers.time().of_a_collection(collecting);

        let bound = BoundStop::begin(self.binding.as_deref());

        // Suspend.
        let mut phases = Phases::begin(self, number, reason);
        let stopped = match self.stop(locks, who.own, by, budget) {
            Ok(stopped) => stopped,
            Err(error) => {
                drop(bound);
                self.report_debugger_news();
                self.events.fire_stop_abandoned(number, error.unanswered());
                return Err(self.with_finalizer(error).into());
            }
        };
        self.report_debugger_news();
        phases.suspended(stopped.summary());
        if self.events.is_enabled(EventId::ThreadStopped) {
            stopped.thread_stops(|tid, activity, ns| {
                self.events.fire_thread_stopped(number, tid.0 as u32, activity as u32, ns);
            });
            phases.skip_time();
        }

        // Collect.
        phases.reach(Phase::GcStart);
        let result = self.collect_stopped(
            &stopped,
            &mut tables,
            number,
            &observers,
            &mut phases,
            #[cfg(feature = "check")]
            search.as_mut(),
        );
        self.collections.store(number, Ordering::Relaxed);
        self.threads.published().set_collections(u64::from(number));
        phases.reach(Phase::GcEnd);
        if result.is_ok() && phases.outcome.lost.is_none() {
            self.fire_heap_stats(number, &phases.outcome);
        }

        // Restart.
        phases.reach(Phase::RestartBegin);
        phases.skip_time();
        let others_wait = stopped.holds_others_up();
        let restart_ns = stopped.0.start();
        // The locks of the tables are still held, and the next collection waits for them before it fires any event. So it begins
        // after this one has ended, for event listeners too.
        phases.restarted(restart_ns);
        if others_wait {
            self.mutator_time.begin(phases.stop.pause_ns);
        }
        drop(bound);
        let Phases { stop, outcome, .. } = phases;
        drop(handles);
        drop(tables);
        let result = result.map_err(|error| self.damaged(number, error));
        // Release the observer's lock before anything that may wait: a trace, a debugger.
        let afterwards = if result.is_ok() && outcome.lost.is_none() {
            Some(observers.finish(self))
        } else {
            drop(observers);
            None
        };
        drop(no_wait);
        self.threads.notify_phase(Phase::RestartEnd);
        drop(called_back);
        self.report_debugger_news();

        result?;
        if let Some(lost) = outcome.lost {
            let answer = match lost {
                LostStop::Released => None,
                LostStop::FalseAnswer(answer) => Some(answer),
            };
            return Err(CollectError::Discarded { number, answer });
        }
        afterwards.into_iter().flatten().for_each(|tell| tell());
        let report = self.report(number, reason, collecting, &stop, &outcome);
        if outcome.queued > 0 {
            self.events.fire_finalizers_due(outcome.queued);
            self.finalizers.announce();
        }
        if let Some(target) = outcome.surplus {
            self.give_memory_back(target);
        }
        self.heap.choose_pages(outcome.live.total(), outcome.mark_ns);
        Ok(Some(Collected {
            report,
            collector: self,
            #[cfg(feature = "check")]
            search,
        }))
    }

    /// Fires the events of debuggers that have attached, detached, or been lost.
    fn report_debugger_news(&self) {
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

    /// Runs the part of a collection in which every other thread is stopped.
    fn collect_stopped(
        &self,
        stopped: &Stopped<'_>,
        tables: &mut HeldTables<'_>,
        number: u32,
        observers: &Observers<'_>,
        phases: &mut Phases<'_>,
        #[cfg(feature = "check")] search: Option<&mut Search<'_>>,
    ) -> Result<(), VerifyError> {
        let HeldTables { finalizers, samples } = tables;
        let finalizer_tables: &LockGuard<'_> = finalizers;
        if removed(Guard::StopNoMalloc) {
            // The known-bad variant allocates once, as any formatted message would.
            drop(std::hint::black_box(Box::new(number)));
        }
        caches(stopped).for_each(|cache| {
            cache.charge_for_the_stopped(stopped.proof());
            cache.end_freed_lists(stopped.proof());
        });
        self.heap.begin_marking(stopped.proof());
        let threads = if stopped.is_whole_process() { MarkingThreads::Alone } else { MarkingThreads::All };
        // SAFETY: the collection lock is held and the world is stopped.
        let mut marking = unsafe { self.markers.begin(&self.heap, &self.events, threads) };

        phases.run(Step::Roots, |outcome| self.find_roots(stopped, finalizer_tables, &mut marking, outcome));
        phases.run(Step::Mark, |outcome| self.mark(stopped, &mut marking, outcome));

        // Before anything is cleared or freed: is the world still stopped (`.debug.dies`)?
        if let Err(lost) = stopped.still_holds() {
            self.discard(stopped, &mut marking, number);
            phases.outcome.lost = Some(lost);
            return Ok(());
        }

        // Before weak references are cleared and finalizers queued: an object that the search keeps is alive for these too (`.promise.keep`).
        #[cfg(feature = "check")]
        if let Some(search) = search {
            search.run(&self.live_heap(stopped, finalizer_tables, number), &mut marking);
            phases.skip_time();
        }

        if removed(Guard::CensusExact) {
            self.show(stopped, finalizer_tables, number, observers);
        }
        phases.run(Step::Weak, |outcome| {
            self.clear_weak_references(&mut marking, outcome);
            self.queue_finalizers(finalizer_tables, &mut marking, outcome);
            if let Some(binding) = &self.binding {
                callback::call(|| binding.after_marking(&mut MarkedHeap::new(&self.heap, &mut marking)));
                ephemerons::mark_values(&mut marking);
                // Those that the binding has not taken must not be in a list when the next collection begins.
                while marking.take_bound().is_some() {}
                // The weak cells and the weak maps that only the binding's marking has reached.
                self.clear_weak_references(&mut marking, outcome);
            }
            outcome.mark_stack_high = marking.stack_high();
        });

        // No object is resurrected after this.
        if let Some(samples) = samples {
            self.remove_dead_samples(stopped, samples);
        }

        // Show the live objects to observers (`.census.exact`).
        if !removed(Guard::CensusExact) && self.show(stopped, finalizer_tables, number, observers) {
            phases.skip_time();
        }

        let mutators = phases.stop.summary.threads;
        phases.run(Step::Sweep, |outcome| self.set_up_sweep(stopped, &marking, number, mutators, outcome));

        if self.heap.paranoid {
            let (found, reported) = (self.heap.verify(stopped.proof())?, phases.outcome.live.total());
            if found.live.total() != reported {
                return Err(VerifyError::Count { counted: found.live.total(), reported });
            }
            phases.skip_time();
        }
        Ok(())
    }

    /// Marks the objects to which roots refer.
    fn find_roots<'a>(
        &'a self,
        stopped: &Stopped<'_>,
        finalizer_tables: &LockGuard<'_>,
        marking: &mut Marking<'a>,
        outcome: &mut Outcome,
    ) {
        let mut scan = RootScan::new(&mut marking.marker, &mut marking.areas);
        scan.stacks(stopped);
        scan.half_built_objects(&self.heap, stopped);
        scan.ranges(&self.ranges);
        scan.handles(&self.roots);
        scan.waiting_for_finalizers(&self.finalizers, finalizer_tables);
        if let Some(binding) = &self.binding {
            scan.binding(&**binding);
        }
        outcome.handles = scan.handles;
        (outcome.stack_bytes, outcome.roots) = scan.finish();
    }

    /// Marks everything that marked objects reach.
    fn mark(&self, stopped: &Stopped<'_>, marking: &mut Marking<'_>, outcome: &mut Outcome) {
        marking.run();
        ephemerons::mark_values(marking);
        if self.events.is_enabled(EventId::BlockScanned) {
            self.heap.report_scanned(stopped.proof(), &self.events);
        }
        outcome.marked = marking.objects();
        outcome.mark_stack_high = marking.stack_high();
    }

    /// Discards the marks of a lost stop. Nothing has been cleared or freed.
    fn discard(&self, stopped: &Stopped<'_>, marking: &mut Marking<'_>, number: u32) {
        marking.count_weak(|_| false);
        ephemerons::forget_tables(marking);
        while marking.take_bound().is_some() {}
        self.heap.discard_marks(stopped.proof());
        self.report_debugger_news();
        self.events.fire_collection_discarded(number, 0);
    }

    /// Sorts the blocks for the mutators to sweep, and sets the next budget.
    fn set_up_sweep(
        &self,
        stopped: &Stopped<'_>,
        marking: &Marking<'_>,
        number: u32,
        mutators: u32,
        outcome: &mut Outcome,
    ) {
        self.settle_new_objects(stopped);
        let live = self.heap.set_up_sweep(stopped.proof(), caches(stopped), &self.events, marking);
        outcome.live = live.bytes;
        outcome.live_objects = live.objects;
        outcome.pinned_objects = live.pinned_objects;
        self.account(stopped, outcome);
        let (live_bytes, mutators) = (live.bytes.total(), mutators as usize);
        let resident = self.heap.resident_bytes(&stopped.locks().allocation);
        let minimum = self.heap.minimum_bytes();
        let budget = self.pacing.budget(live_bytes, mutators, self.heap.limit_bytes(), resident.max(minimum));
        self.heap.end_collection(stopped.proof(), budget);
        outcome.surplus = self.pacing.surplus(live_bytes, mutators, resident, minimum);
        self.fire_heap_figures(number, budget, outcome);
    }

    /// Shows the live objects to heap dumps and observers. Returns `false` if there is neither.
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
        let live_heap = self.live_heap(stopped, finalizer_tables, number);
        if dumps {
            let dump = Dump::new(&live_heap, &self.events);
            dump.roots();
            dump.objects();
        }
        observers.look(&live_heap);
        true
    }

    fn live_heap<'a>(
        &'a self,
        stopped: &'a StoppedWorld<'a>,
        finalizer_tables: &'a LockGuard<'a>,
        number: u32,
    ) -> LiveHeap<'a> {
        let Self { heap, ranges, roots: handles, finalizers, .. } = self;
        let binding = self.binding.as_deref();
        LiveHeap { heap, stopped, ranges, handles, binding, finalizers, finalizer_tables, epoch: heap.epoch(), number }
    }

    /// Removes the sampled objects that have died (`.profile.samples`). One whose cell a stopped thread has not made an object of is not marked,
    /// and stays.
    fn remove_dead_samples(&self, stopped: &Stopped<'_>, held: &mut LockGuard<'_>) {
        let Some(samples) = &self.samples else { return };
        samples.remove_dead(held, |payload| {
            let is_about_to_be_made = || caches(stopped).any(|cache| cache.is_about_to_be_made(payload));
            self.heap.is_marked(payload) || !removed(Guard::ProfileSamples) && is_about_to_be_made()
        });
    }

    /// Clears every weak reference whose target is not marked, and removes the entries of weak maps whose keys are not marked.
    fn clear_weak_references(&self, marking: &mut Marking<'_>, outcome: &mut Outcome) {
        let heap = &self.heap;
        outcome.cleared += marking.count_weak(|target| {
            let address = target.load(Ordering::Relaxed);
            let is_dead = address != 0 && !heap.is_marked(address) && !removed(Guard::WeakClear);
            if is_dead {
                target.store(0, Ordering::Relaxed);
            }
            is_dead
        });
        outcome.cleared += ephemerons::remove_dead_entries(marking, heap);
    }

    /// Queues the finalizers of dead objects, and marks everything that they can reach.
    fn queue_finalizers(&self, tables: &LockGuard<'_>, marking: &mut Marking<'_>, outcome: &mut Outcome) {
        let is_marked = |object| self.heap.is_marked(object);
        let mut unmarked = self.finalizers.find_unmarked(tables, is_marked, marking);
        if removed(Guard::FinalOrder) {
            outcome.queued += self
                .finalizers
                .queue_drops(tables, &mut unmarked, is_marked, |object| marking.marker.last_reference(object));
        }
        outcome.queued += self
            .finalizers
            .queue_calls(tables, &mut unmarked, is_marked, |object| marking.marker.last_reference(object));
        marking.run_on();
        ephemerons::mark_values(marking);
        // Clear the weak cells and the entries of weak maps that only such an object reaches. This comes before the drops: a dead object that
        // is about to be dropped must not be reachable through a weak reference that was resurrected.
        self.clear_weak_references(marking, outcome);
        outcome.queued += self
            .finalizers
            .queue_drops(tables, &mut unmarked, is_marked, |object| marking.marker.last_reference(object));
        marking.run_on();
    }

    /// Fires the allocation events that stopped threads have not fired yet, if such events are enabled. Leaves out a thread that a
    /// debugger stopped in the middle of firing such an event: the thread itself completes it after the restart.
    fn settle_new_objects(&self, stopped: &Stopped<'_>) {
        for (record, cache) in records_and_caches(stopped) {
            if !record.is_undisturbed() {
                self.heap.settle_new_objects(stopped.proof(), cache, &self.events);
            }
        }
    }

    /// Accounts for the bytes allocated since the last collection, and for those that died.
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

    /// Returns free memory to the kernel, for a heap that was larger before.
    fn give_memory_back(&self, target: u64) {
        let mut below = usize::MAX;
        let give_back = |below: &mut usize| {
            self.heap.give_back(&self.threads.lock(&self.threads.locks().allocation), target, below)
        };
        // One segment at a time: events are fired without the lock.
        while let Some((start, bytes)) = give_back(&mut below) {
            self.events.fire_segment_freed(start, bytes);
        }
    }
}
