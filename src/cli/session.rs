//! A world, those who listen to it, and the end of a run.
//!
//! A run can end in four ways: the workload is done; it fails; a signal asks it to end and it does; a signal asks and
//! it does not (a Scheme program in an endless loop). In each case the figures are printed exactly once, by whoever
//! comes to it first: the main thread, or in the last case the thread that lost patience.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};

use super::arguments::{Settings, Stop};
use crate::debugger::mock::MockDebugger;
use crate::report::{self, Ledger, flexowriter, json, table};
use crate::workloads::{Plan, Shift};
use crate::{CollectionReport, Paranoid, Stopper, World};

/// How long the finalizers that are queued at the end may take.
const CLOSING_TIME: Duration = Duration::from_secs(5);

/// Who asks for McCarthy's reports wants to see some: the first collection comes this early.
const FLEXOWRITER_HEAP: usize = 1 << 20;

/// What one run consists of. Shared with the threads that handle signals and draw the bar.
pub(super) struct Session {
    pub(super) world: World,
    pub(super) shift: Shift,
    ledger: Arc<Mutex<Ledger>>,
    begun: Instant,
    heap_limit: Option<u64>,
    json: bool,
    paranoid: bool,
    /// Taken by the first who prints the figures.
    unprinted: Mutex<Option<()>>,
}

impl Session {
    /// Builds the world that the settings describe.
    pub(super) fn begin(settings: &Settings, plan: Plan) -> anyhow::Result<Arc<Session>> {
        let shift = Shift::new(plan);
        let ledger = Arc::new(Mutex::new(Ledger::default()));
        let world = build(settings, listener(settings, shift.clone(), Arc::clone(&ledger)))?;
        Ok(Arc::new(Session {
            world,
            shift,
            ledger,
            begun: Instant::now(),
            heap_limit: settings.heap_limit.map(|limit| limit.bytes() as u64),
            json: settings.json,
            paranoid: settings.paranoid,
            unprinted: Mutex::new(Some(())),
        }))
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
            if let Some(damage) = self.world.damage() {
                bail!("--paranoid: {damage}");
            }
            self.world.verify().context("--paranoid: the last look at the heap")?;
        }
        self.world.close(CLOSING_TIME).context("the world could not be closed")
    }

    /// Prints the figures, unless that has been done.
    pub(super) fn print_figures(&self) {
        // Held while printing, so that who comes second does not exit the process in the middle of the table.
        let mut unprinted = lock(&self.unprinted);
        if unprinted.take().is_none() {
            return;
        }
        let run = report::Run {
            wall: self.elapsed(),
            allocated: self.world.totals().allocated_bytes,
            heap_limit: self.heap_limit,
            threads: self.shift.plan().threads.get(),
        };
        let ledger = self.ledger();
        let render = if self.json { json::render } else { table::render };
        super::print(format_args!("{}\n", render(&ledger, &run)));
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
            super::print(flexowriter::render(report));
        }
    }
}

fn build(settings: &Settings, listener: impl Fn(&CollectionReport) + Send + Sync + 'static) -> anyhow::Result<World> {
    let stopper = match settings.stop {
        Stop::Safepoints => Stopper::Safepoints,
        Stop::Signals | Stop::MockDebugger => Stopper::Signals,
    };
    let paranoid = if settings.paranoid { Paranoid::On } else { Paranoid::Off };
    let mut builder = World::builder()
        .stopper(stopper)
        .paranoid(paranoid)
        .on_collection(listener)
        .on_failure(|error| eprintln!("stopworld: a collection that was due failed: {error}"));
    if let Some(markers) = settings.markers {
        builder = builder.markers(markers.get());
    }
    if let Some(limit) = settings.heap_limit {
        builder = builder.heap_limit(limit.bytes());
    }
    if let Some(initial) = settings.initial_heap {
        builder = builder.initial_heap(initial.bytes());
    } else if settings.flexowriter {
        builder = builder.initial_heap(FLEXOWRITER_HEAP);
    }
    let world = builder.build()?;
    if settings.stop == Stop::MockDebugger {
        let debugger = MockDebugger::new().context("--stop mock-debugger: the debugger could not be set up")?;
        world.set_thread_vtable(debugger).context("--stop mock-debugger: the debugger could not attach")?;
    }
    Ok(world)
}
