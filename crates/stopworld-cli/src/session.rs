//! A world, those who listen to it, and the end of a run.
//!
//! A run can end in four ways: the workload is done; it fails; a signal asks it to end and it does; a signal asks and
//! it does not (a Scheme program in an endless loop). In each case the figures are printed exactly once, by whoever
//! comes to it first: the main thread, or in the last case the thread that lost patience.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};

use super::arguments::{Settings, Stop};
use super::asked::Asked;
use super::profiling::Passed;
use super::tracing::{self, End, Tracing};
use stopworld::debugger::mock::MockDebugger;
use stopworld::diagnostics::Diagnostics;
use stopworld::formats::Finished;
use stopworld::{CollectError, CollectionReport, Paranoid, Reason, Stopper, World, WorldBuilder};
use stopworld_analysis::report::{self, Ledger, flexowriter, json, table};
use stopworld_workloads::{Plan, Shift};

/// How long the finalizers that are queued at the end may take.
const CLOSING_TIME: Duration = Duration::from_secs(5);

/// Who asks for McCarthy's reports wants to see some: the first collection comes this early.
const FLEXOWRITER_HEAP: usize = 1 << 20;

/// What one run consists of. Shared with the threads that handle signals and draw the bar.
pub(super) struct Session {
    /// Until the end.
    world: Option<World>,
    pub(super) shift: Shift,
    pub(super) tracing: Option<Tracing>,
    diagnostics: Option<Diagnostics>,
    passed: Arc<Passed>,
    ledger: Arc<Mutex<Ledger>>,
    begun: Instant,
    heap_limit: Option<u64>,
    json: bool,
    paranoid: bool,
    /// The trace has heap dumps, which .NET's tools read from a requested collection only.
    has_heap_dump: bool,
    /// Taken by the first who prints the figures.
    unprinted: Mutex<Option<()>>,
}

impl Session {
    /// Builds the world that the settings describe.
    pub(super) fn begin(settings: &Settings, asked: &Asked, plan: Plan) -> anyhow::Result<Arc<Session>> {
        let shift = Shift::new(plan);
        let ledger = Arc::new(Mutex::new(Ledger::default()));
        let passed = Arc::new(Passed::default());
        let builder = described(settings, &passed, listener(settings, shift.clone(), Arc::clone(&ledger)));
        // A run that is refused has not touched the file of its trace.
        builder.check()?;
        let tracing = Tracing::start(settings, asked)?;
        let diagnostics = open(settings);
        let world = build(builder, settings, tracing.as_ref(), diagnostics.as_ref())?;
        if settings.profiling.is_by_time() {
            // A run may end before the first interval: its first collection takes a census in any case.
            world.sample_next_collection().context("--profile")?;
        }
        let has_heap_dump = matches!(asked, Asked::Nettrace(_, providers) if providers.wants_heap_dump());
        if has_heap_dump {
            world.induce_next_collection();
        }
        Ok(Arc::new(Session {
            world: Some(world),
            shift,
            tracing,
            diagnostics,
            passed,
            ledger,
            begun: Instant::now(),
            heap_limit: settings.heap_limit.map(|limit| limit.bytes() as u64),
            json: settings.json,
            paranoid: settings.paranoid,
            has_heap_dump,
            unprinted: Mutex::new(Some(())),
        }))
    }

    /// The world.
    pub(super) fn world(&self) -> &World {
        // Only taken by who has the session to itself.
        self.world.as_ref().expect("the session has a world until its end")
    }

    /// What was seen of the collections so far.
    pub(super) fn ledger(&self) -> MutexGuard<'_, Ledger> {
        lock(&self.ledger)
    }

    /// How long the run has been going on.
    pub(super) fn elapsed(&self) -> Duration {
        self.begun.elapsed()
    }

    /// Lets the finalizers end, after a last look at the heap if the run is paranoid. The main thread is detached by
    /// now.
    pub(super) fn close(&self) -> anyhow::Result<()> {
        if self.paranoid {
            if let Some(damage) = self.world().damage() {
                bail!("--paranoid: {damage}");
            }
            self.world().verify().context("--paranoid: the last look at the heap")?;
        }
        self.take_missing_census()?;
        let explicit = Reason::Explicit.to_string();
        if self.has_heap_dump && !self.ledger().reasons.iter().any(|(reason, _)| *reason == explicit) {
            self.world().collect().context("the collection for the heap dump")?;
        }
        self.world().close(CLOSING_TIME).context("the world could not be closed")
    }

    /// A run that ended before its first census takes one at its end, so that the profile is not empty in silence.
    fn take_missing_census(&self) -> anyhow::Result<()> {
        if self.world().censuses() != Some(0) {
            return Ok(());
        }
        self.world().sample().context("--profile: the census at the end of the run")?;
        eprintln!(
            "stopworld: --profile: the run ended before its first census, so the profile has one, taken at the end: let \
             the run last longer (--seconds), or shorten --interval"
        );
        Ok(())
    }

    /// The end of a run: the world goes, then the trace is finished, which so has the world's own end; then the figures.
    pub(super) fn finish(session: Arc<Session>) -> TraceEnd {
        match Arc::try_unwrap(session) {
            Ok(mut session) => {
                let allocated = session.world().totals().allocated_bytes;
                drop(session.world.take());
                session.tracing.iter().for_each(Tracing::wait_for_the_world);
                session.finish_trace_and_print(allocated)
            }
            // Somebody who lost patience has it too.
            Err(session) => session.finish_in_haste(),
        }
    }

    /// The end of a run that does not end: the world stays as it is.
    pub(super) fn finish_in_haste(&self) -> TraceEnd {
        self.finish_trace_and_print(self.world().totals().allocated_bytes)
    }

    fn finish_trace_and_print(&self, allocated: u64) -> TraceEnd {
        // Held while printing, so that who comes second does not exit the process in the middle of the table.
        let mut unprinted = lock(&self.unprinted);
        if unprinted.take().is_none() {
            return TraceEnd::Complete;
        }
        // Clients get the end of the world, too.
        self.diagnostics.iter().for_each(Diagnostics::close);
        let end = self.tracing.as_ref().map_or(End::Kept, Tracing::finish);
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
            threads: self.shift.plan().threads.get(),
            trace,
        };
        let ledger = self.ledger();
        let render = if self.json { json::render } else { table::render };
        super::exit::print(format_args!("{}\n", render(&ledger, &run)));
        self.passed.tell();
        match end {
            End::Written(ended) if !ended.finished.is_complete() => {
                let Finished { totals, error, .. } = &ended.finished;
                if error.is_none() {
                    let (file, dropped, fired) = (ended.path().display(), totals.dropped, totals.fired);
                    eprintln!(
                        "stopworld: {file}: {dropped} of {fired} events found no room in memory: ask for fewer categories"
                    );
                }
                TraceEnd::Incomplete
            }
            End::NotWritten => TraceEnd::Incomplete,
            End::Written(_) | End::Kept => TraceEnd::Complete,
        }
    }
}

/// Whether everything is in the trace, if there is one.
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
    // A panic under these locks leaves figures that are at worst one collection behind.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What is done at each collection: after the restart, on the thread that collected.
fn listener(
    settings: &Settings,
    shift: Shift,
    ledger: Arc<Mutex<Ledger>>,
) -> impl Fn(&CollectionReport) + Send + Sync + 'static {
    let typed = settings.flexowriter;
    move |report| {
        lock(&ledger).note(report);
        shift.count_collection();
        if typed {
            super::exit::print(flexowriter::render(report));
        }
    }
}

/// The diagnostics socket, if it is asked for. A run goes on without, as a runtime of .NET's does; but we say so.
fn open(settings: &Settings) -> Option<Diagnostics> {
    if !settings.diagnostics {
        return None;
    }
    Diagnostics::open().map_err(|error| eprintln!("stopworld: --diagnostics: {error}")).ok()
}

/// The world that the settings describe, without those who listen from outside.
fn described(
    settings: &Settings,
    passed: &Arc<Passed>,
    listener: impl Fn(&CollectionReport) + Send + Sync + 'static,
) -> WorldBuilder {
    let stopper = match settings.stop {
        Stop::Safepoints => Stopper::Safepoints,
        Stop::Signals | Stop::MockDebugger => Stopper::Signals,
    };
    let paranoid = if settings.paranoid { Paranoid::On } else { Paranoid::Off };
    let mut builder =
        World::builder().stopper(stopper).paranoid(paranoid).on_collection(listener).on_failure(|error| match error {
            CollectError::NotClosed(_) => eprintln!("stopworld: {error}"),
            _ => {
                eprintln!("stopworld: a collection that was due failed: {error}");
                if matches!(error, CollectError::Stop(_)) {
                    tracing::stop_failed();
                }
            }
        });
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
) -> anyhow::Result<World> {
    if let Some(tracing) = tracing {
        builder = tracing.trace.of_world(builder);
    }
    if let Some(diagnostics) = diagnostics {
        builder = builder.diagnosed_by(diagnostics);
    }
    let world = builder.build()?;
    if settings.heap_limit.is_none() && world.heap_limit() < WorldBuilder::default_heap_limit() as u64 {
        let (limit, usual) = (world.heap_limit() >> 20, WorldBuilder::default_heap_limit() >> 20);
        eprintln!(
            "stopworld: the heap limit is {limit} MiB instead of {usual} MiB, because the address space of this process is limited \
             (`ulimit -v`); --heap-limit sets another one"
        );
    }
    if settings.stop == Stop::MockDebugger {
        let debugger = MockDebugger::new().context("--stop mock-debugger: the debugger could not be set up")?;
        world.set_thread_vtable(debugger).context("--stop mock-debugger: the debugger could not attach")?;
    }
    Ok(world)
}
