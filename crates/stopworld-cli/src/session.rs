//! A world, its listeners, and the end of a run.
//!
//! A run can end in four ways: the workload finishes; it fails; a signal requests its end and it ends; a signal requests
//! its end and it does not end (a Scheme program in an endless loop). In each case the figures are printed exactly once,
//! by the first thread that reaches the end: the main thread, or in the last case the thread whose timeout expired.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};

use super::alloc_stacks::AllocStacks;
use super::arguments::{Settings, Stop};
use super::metrics::RunMetrics;
use super::profiling::Passed;
use super::run_snapshot::RunSnapshot;
use super::stop_observer::{StopLog, StopObserver};
use super::trace_request::TraceRequest;
use super::tracing::{self, End, Tracing};
use stopworld::debugger::bridge::DebuggerBridge;
use stopworld::debugger::mock::MockDebugger;
use stopworld::profile::allocations::AllocationProfile;
use stopworld::{
    CollectError, CollectionReport, Paranoid, Reason, SafepointStopper, SignalStopper, Stopper, ThreadVtable, World,
    WorldBuilder,
};
use stopworld_analysis::report::{self, RunSummary, flexowriter, json, table};
use stopworld_diagnostics::Diagnostics;
use stopworld_trace::Finished;
use stopworld_trace::nettrace::Nettrace;
use stopworld_workloads::{RunControl, RunPlan};

/// The time limit for the finalizers that are queued at the end.
const CLOSING_TIME: Duration = Duration::from_secs(5);

/// The initial heap with `--flexowriter`: small, so that even short programs collect and print McCarthy's report.
const FLEXOWRITER_HEAP: usize = 1 << 20;

/// The state of one run. Shared with the threads that handle signals and draw the bar.
pub(super) struct Session {
    /// `None` once the run has ended.
    world: Option<World>,
    pub(super) run_control: RunControl,
    pub(super) tracing: Option<Tracing>,
    diagnostics: Option<Diagnostics>,
    snapshot: Option<RunSnapshot>,
    alloc_stacks: Option<AllocStacks>,
    /// With `--stops`.
    stops: Option<Arc<StopLog>>,
    metrics: Arc<RunMetrics>,
    passed: Arc<Passed>,
    summary: Arc<Mutex<RunSummary>>,
    begun: Instant,
    heap_limit: Option<u64>,
    json: bool,
    paranoid: bool,
    /// Whether the trace has heap dumps, which the .NET tools read only from an induced collection.
    has_heap_dump: bool,
    /// Taken by the first thread that prints the figures.
    unprinted: Mutex<Option<()>>,
}

impl Session {
    /// Builds the world that the settings describe.
    pub(super) fn begin(settings: &Settings, mut request: TraceRequest, plan: RunPlan) -> anyhow::Result<Arc<Session>> {
        let run_control = RunControl::new(plan);
        let summary = Arc::new(Mutex::new(RunSummary::default()));
        let passed = Arc::new(Passed::default());
        let alloc_stacks = settings.alloc_stacks.output()?;
        let snapshot = RunSnapshot::start(settings)?;
        let count = snapshot.as_ref().map(RunSnapshot::counter);
        let stops = settings.stops.then(StopLog::new);
        let observed = stops.clone();
        let metrics = RunMetrics::start(settings)?;
        let measured = Arc::clone(&metrics);
        let note = listener(settings, run_control.clone(), Arc::clone(&summary));
        let builder = described(settings, &passed, Arc::clone(&metrics), move |report| {
            note(report);
            count.iter().for_each(|count| count());
            observed.iter().for_each(|stops| stops.take());
            measured.observe(report);
        });
        let builder = match request.sampling {
            Some(sampling) => builder.allocation_sampling(sampling),
            None => builder,
        };
        // Check before the trace starts: a refused run must not touch its trace file.
        builder.check()?;
        let nettrace = request.selected.settings::<Nettrace>();
        let has_heap_dump = nettrace.is_some_and(|nettrace| nettrace.providers.wants_heap_dump());
        let tracing = Tracing::start(settings, request)?;
        let diagnostics = open(settings);
        let builder = match &snapshot {
            Some(snapshot) => builder.record_to(&snapshot.trace),
            None => builder,
        };
        let builder = metrics.join(builder);
        let world = build(builder, settings, tracing.as_ref(), diagnostics.as_ref(), stops.as_ref())?;
        if settings.profiling.is_by_time() {
            // The run may end before the first interval does, so its first collection always takes a census.
            world.sample_next_collection().context("--profile")?;
        }
        if has_heap_dump {
            world.induce_next_collection();
        }
        Ok(Arc::new(Session {
            world: Some(world),
            run_control,
            tracing,
            diagnostics,
            snapshot,
            alloc_stacks,
            stops,
            metrics,
            passed,
            summary,
            begun: Instant::now(),
            heap_limit: settings.heap_limit.map(|limit| limit.bytes() as u64),
            json: settings.json,
            paranoid: settings.paranoid,
            has_heap_dump,
            unprinted: Mutex::new(Some(())),
        }))
    }

    /// Returns the world.
    pub(super) fn world(&self) -> &World {
        // `finish` takes the world only if it owns the session exclusively.
        self.world.as_ref().expect("the session has a world until its end")
    }

    /// Returns the summary of the collections so far.
    pub(super) fn summary(&self) -> MutexGuard<'_, RunSummary> {
        lock(&self.summary)
    }

    /// Returns the time since the run began.
    pub(super) fn elapsed(&self) -> Duration {
        self.begun.elapsed()
    }

    /// Closes the world, which runs the queued finalizers. With `--paranoid` verifies the heap first. The main thread must
    /// be detached.
    pub(super) fn close(&self) -> anyhow::Result<()> {
        if self.paranoid {
            if let Some(damage) = self.world().damage() {
                bail!("--paranoid: {damage}");
            }
            self.world().verify().context("--paranoid: the verification of the heap at the end of the run")?;
        }
        self.take_missing_census()?;
        let explicit = Reason::Explicit.to_string();
        if self.has_heap_dump && !self.summary().reasons.iter().any(|(reason, _)| *reason == explicit) {
            self.world().collect().context("the collection for the heap dump failed")?;
        }
        self.world().close(CLOSING_TIME).context("can't close the world")
    }

    /// Takes a census at the end of a run that has had none, and reports it, so that the profile is not silently empty.
    fn take_missing_census(&self) -> anyhow::Result<()> {
        if self.world().censuses() != Some(0) {
            return Ok(());
        }
        self.world().sample().context("--profile: the census at the end of the run failed")?;
        eprintln!(
            "stopworld: --profile: the run ended before its first census, so the profile has only one census, taken at the \
             end: make the run longer (--seconds), or shorten --interval"
        );
        Ok(())
    }

    /// Ends a run: sends the last metrics (while there is a world to measure), drops the world, then finishes the trace (so that it
    /// contains the end of the world), then prints the figures.
    pub(super) fn finish(session: Arc<Session>) -> TraceEnd {
        match Arc::try_unwrap(session) {
            Ok(mut session) => {
                let allocated = session.world().totals().allocated_bytes;
                let sent = session.metrics.finish();
                let profile = session.world().allocation_profile();
                drop(session.world.take());
                session.tracing.iter().for_each(Tracing::wait_for_the_world);
                session.finish_trace_and_print(allocated, profile, || sent)
            }
            // The thread whose timeout expired still holds the session.
            Err(session) => session.finish_now(),
        }
    }

    /// Ends a run whose workload does not end: finishes the trace and prints the figures without dropping the world.
    pub(super) fn finish_now(&self) -> TraceEnd {
        let (allocated, profile) = (self.world().totals().allocated_bytes, self.world().allocation_profile());
        self.finish_trace_and_print(allocated, profile, || self.metrics.finish())
    }

    fn finish_trace_and_print(
        &self,
        allocated: u64,
        profile: Option<AllocationProfile>,
        send: impl FnOnce() -> anyhow::Result<()>,
    ) -> TraceEnd {
        // The lock is held while printing, so that a second thread does not exit the process in the middle of the table.
        let mut unprinted = lock(&self.unprinted);
        if unprinted.take().is_none() {
            return TraceEnd::Complete;
        }
        // Close first, so that clients receive the end of the world, too.
        self.diagnostics.iter().for_each(Diagnostics::close);
        let end = self.tracing.as_ref().map_or(End::Kept, Tracing::finish);
        let snapshot = self.snapshot.as_ref().map_or(Ok(()), RunSnapshot::finish);
        let stacks = self.alloc_stacks.iter().zip(&profile).try_for_each(|(file, profile)| file.write(profile));
        let sent = send();
        let ended = if let End::Written(ended) = &end { Some(ended) } else { None };
        let trace = ended.map(|ended| report::Trace {
            file: ended.path().display().to_string(),
            records: ended.finished.records,
            bytes: ended.finished.bytes,
            events: ended.finished.totals.fired,
            lost: ended.finished.totals.lost + ended.finished.totals.dropped,
        });
        let run = report::Run {
            wall: self.elapsed(),
            allocated,
            heap_limit: self.heap_limit,
            threads: self.run_control.plan().threads.get(),
            trace,
            stops: self.stops.as_ref().map(|stops| stops.report()),
        };
        let summary = self.summary();
        let render = if self.json { json::render } else { table::render };
        super::exit::print(format_args!("{}\n", render(&summary, &run)));
        self.passed.report_if_empty();
        for error in [&snapshot, &stacks, &sent].into_iter().filter_map(|result| result.as_ref().err()) {
            eprintln!("stopworld: {error:#}");
        }
        match end {
            End::Written(ended) if !ended.finished.is_complete() => {
                let Finished { totals, error, .. } = &ended.finished;
                if error.is_none() {
                    let (file, dropped, fired) = (ended.path().display(), totals.dropped, totals.fired);
                    eprintln!(
                        "stopworld: {file}: {dropped} of {fired} events were dropped because the buffers were full: request fewer categories"
                    );
                }
                TraceEnd::Incomplete
            }
            End::NotWritten => TraceEnd::Incomplete,
            _ if snapshot.is_err() || stacks.is_err() || sent.is_err() => TraceEnd::Incomplete,
            End::Written(_) | End::Kept => TraceEnd::Complete,
        }
    }
}

/// Whether the trace, the snapshot, the allocation profile and the exported metrics, if there are any, are complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub(super) enum TraceEnd {
    Complete,
    Incomplete,
}

impl TraceEnd {
    pub(super) fn is_complete(self) -> bool {
        self == TraceEnd::Complete
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // A panic under these locks leaves figures that at worst omit one collection.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the collection listener. It is called after the restart, on the thread that collected.
fn listener(
    settings: &Settings,
    run_control: RunControl,
    summary: Arc<Mutex<RunSummary>>,
) -> impl Fn(&CollectionReport) + Send + Sync + 'static {
    let typed = settings.flexowriter;
    move |report| {
        lock(&summary).note(report);
        run_control.count_collection();
        if typed {
            super::exit::print(flexowriter::render(report));
        }
    }
}

/// Opens the diagnostics socket if it is requested. If that fails, reports it and continues, as a .NET runtime does.
fn open(settings: &Settings) -> Option<Diagnostics> {
    if !settings.diagnostics {
        return None;
    }
    Diagnostics::open().map_err(|error| eprintln!("stopworld: --diagnostics: {error}")).ok()
}

/// Returns the builder of the world that the settings describe, without trace and diagnostics socket.
fn described(
    settings: &Settings,
    passed: &Arc<Passed>,
    metrics: Arc<RunMetrics>,
    listener: impl Fn(&CollectionReport) + Send + Sync + 'static,
) -> WorldBuilder {
    let stopper = match settings.stop {
        Stop::Safepoints => Stopper::Safepoints,
        Stop::Signals | Stop::MockDebugger => Stopper::Signals,
    };
    let paranoid = if settings.paranoid { Paranoid::On } else { Paranoid::Off };
    let mut builder = World::builder().stopper(stopper).paranoid(paranoid).on_collection(listener).on_failure(
        move |error| match error {
            CollectError::NotClosed(_) => eprintln!("stopworld: {error}"),
            _ => {
                metrics.observe_failure(error);
                eprintln!("stopworld: an automatic collection failed: {error}");
                if matches!(error, CollectError::Stop(_)) {
                    tracing::stop_failed();
                }
            }
        },
    );
    if let Some(markers) = settings.markers {
        builder = builder.markers(markers.get());
    }
    builder = settings.profiling.of_world(builder, passed);
    if let Some(limit) = settings.heap_limit {
        builder = builder.heap_limit(limit.bytes());
    }
    if let Some(initial) = settings.initial_heap {
        builder = builder.initial_heap(initial.bytes());
    } else if settings.flexowriter {
        builder = builder.initial_heap(FLEXOWRITER_HEAP);
    }
    builder
}

fn build(
    mut builder: WorldBuilder,
    settings: &Settings,
    tracing: Option<&Tracing>,
    diagnostics: Option<&Diagnostics>,
    stops: Option<&Arc<StopLog>>,
) -> anyhow::Result<World> {
    if let Some(tracing) = tracing {
        builder = builder.record_to(&tracing.trace);
    }
    if let Some(diagnostics) = diagnostics {
        builder = builder.record_to(diagnostics);
    }
    let world = builder.build()?;
    if settings.heap_limit.is_none() && world.heap_limit() < WorldBuilder::default_heap_limit() as u64 {
        let (limit, usual) = (world.heap_limit() >> 20, WorldBuilder::default_heap_limit() >> 20);
        eprintln!(
            "stopworld: the heap limit is {limit} MiB instead of {usual} MiB, because the address space of this process is limited \
             (`ulimit -v`); --heap-limit sets another limit"
        );
    }
    let debugger =
        match settings.stop {
            Stop::MockDebugger => Some(MockDebugger::new().context("--stop mock-debugger: can't set up the debugger")?
                as Arc<dyn ThreadVtable>),
            Stop::Signals | Stop::Safepoints => None,
        };
    if let Some(stops) = stops {
        let stopper = debugger.map_or_else(|| same_as_built(settings.stop), Ok).context("--stops")?;
        world.set_thread_vtable(StopObserver::around(stopper, Arc::clone(stops))).context("--stops")?;
    } else if let Some(debugger) = debugger {
        world.set_thread_vtable(debugger).context("--stop mock-debugger: can't attach the debugger")?;
    }
    Ok(world)
}

/// Makes a vtable like the one that the builder has made, which debuggers can take over.
fn same_as_built(stop: Stop) -> anyhow::Result<Arc<dyn ThreadVtable>> {
    let stopper: Arc<dyn ThreadVtable> = match stop {
        Stop::Safepoints => Arc::new(SafepointStopper),
        Stop::Signals | Stop::MockDebugger => Arc::new(SignalStopper::new(libc::SIGURG)?),
    };
    Ok(DebuggerBridge::over(stopper))
}
