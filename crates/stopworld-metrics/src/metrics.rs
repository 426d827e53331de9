//! What each collection adds to the metrics.

use std::sync::Arc;

use prometheus_client::encoding::{prometheus_text, text};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::{Registry, Unit};

use crate::process::ProcessMetrics;
use stopworld::events::record::RecordError;
use stopworld::{CollectionReport, RecordWorld, Since, World};

/// A label with its value.
type Label = [(&'static str, String); 1];

/// Buckets of all histograms: from a microsecond, doubling, to 8.4 seconds.
const SMALLEST: f64 = 1e-6;
const BUCKETS: u16 = 24;

/// The metrics of the worlds of a process. Clones share them.
///
/// A world takes part by two lines: [`listener`](Self::listener) for its collections, and
/// [`record_to`](stopworld::WorldBuilder::record_to) for its heap and threads.
#[derive(Clone, Debug)]
pub struct Metrics(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    registry: Registry,
    collections: Collections,
    process: Arc<ProcessMetrics>,
}

/// The metrics of collections.
#[derive(Debug)]
struct Collections {
    count: Family<Label, Counter>,
    failures: Counter,
    pause: Histogram,
    stop: Histogram,
    restart: Histogram,
    phases: Family<Label, Histogram>,
    allocated: Counter,
    freed: Counter,
    live_bytes: Family<Label, Gauge>,
    live_objects: Gauge,
    stopped_threads: Family<Label, Gauge>,
    weak_cleared: Counter,
    finalizers: Counter,
}

/// The upper bounds of the buckets, in seconds.
pub(crate) fn buckets() -> impl Iterator<Item = f64> {
    exponential_buckets(SMALLEST, 2.0, BUCKETS)
}

fn histogram() -> Histogram {
    Histogram::new(buckets())
}

/// Returns the phases in the stopped world, in nanoseconds.
pub(crate) fn phases(report: &CollectionReport) -> [(&'static str, u64); 4] {
    [("roots", report.roots_ns), ("mark", report.mark_ns), ("weak", report.weak_ns), ("sweep", report.sweep_ns)]
}

/// Returns the live bytes of the spaces.
pub(crate) fn spaces(report: &CollectionReport) -> [(&'static str, u64); 3] {
    [("small", report.live.small), ("large", report.live.large), ("pinned", report.live.pinned)]
}

/// Returns the numbers of stopped threads by their states.
pub(crate) fn threads(report: &CollectionReport) -> [(&'static str, u32); 2] {
    let running = report.threads_stopped.saturating_sub(report.threads_blocking);
    [("running", running), ("blocking", report.threads_blocking)]
}

impl Collections {
    fn new(registry: &mut Registry) -> Collections {
        let all = Collections {
            count: Family::default(),
            failures: Counter::default(),
            pause: histogram(),
            stop: histogram(),
            restart: histogram(),
            phases: Family::new_with_constructor(histogram),
            allocated: Counter::default(),
            freed: Counter::default(),
            live_bytes: Family::default(),
            live_objects: Gauge::default(),
            stopped_threads: Family::default(),
            weak_cleared: Counter::default(),
            finalizers: Counter::default(),
        };
        registry.register("collections", "Collections by reason", all.count.clone());
        registry.register("collection_failures", "Collections that failed", all.failures.clone());
        let mut seconds = |name, help, metric: &Histogram| {
            registry.register_with_unit(name, help, Unit::Seconds, metric.clone());
        };
        seconds("pause", "Time from the first request to stop until all threads were resumed", &all.pause);
        seconds("time_to_stop", "Time until all threads were stopped", &all.stop);
        seconds("time_to_restart", "Time to resume all threads", &all.restart);
        registry.register_with_unit(
            "phase",
            "Time of each phase of collections in the stopped world",
            Unit::Seconds,
            all.phases.clone(),
        );
        let mut bytes =
            |name, help, metric: &Counter| registry.register_with_unit(name, help, Unit::Bytes, metric.clone());
        bytes("allocated", "Bytes allocated up to the latest collection", &all.allocated);
        bytes("freed", "Bytes of objects that were found dead", &all.freed);
        registry.register_with_unit(
            "live",
            "Bytes left alive by the latest collection, by space",
            Unit::Bytes,
            all.live_bytes.clone(),
        );
        registry.register("live_objects", "Objects left alive by the latest collection", all.live_objects.clone());
        registry.register(
            "stopped_threads",
            "Threads stopped for the latest collection, without the collecting one",
            all.stopped_threads.clone(),
        );
        registry.register("weak_references_cleared", "Weak references cleared", all.weak_cleared.clone());
        registry.register("finalizers_queued", "Objects whose finalizers were queued", all.finalizers.clone());
        all
    }

    fn observe(&self, report: &CollectionReport) {
        let seconds = |ns: u64| ns as f64 / 1e9;
        self.count.get_or_create(&[("reason", report.reason.to_string())]).inc();
        self.pause.observe(seconds(report.pause_ns));
        self.stop.observe(seconds(report.stop_ns));
        self.restart.observe(seconds(report.restart_ns));
        for (name, ns) in phases(report) {
            self.phases.get_or_create(&[("phase", name.to_owned())]).observe(seconds(ns));
        }
        self.allocated.inc_by(report.allocated_bytes);
        self.freed.inc_by(report.freed_bytes);
        for (name, bytes) in spaces(report) {
            self.live_bytes.get_or_create(&[("space", name.to_owned())]).set(bytes as i64);
        }
        self.live_objects.set(report.live_objects as i64);
        for (state, threads) in threads(report) {
            self.stopped_threads.get_or_create(&[("state", state.to_owned())]).set(threads.into());
        }
        self.weak_cleared.inc_by(report.weak_cleared.into());
        self.finalizers.inc_by(report.finalizers_queued.into());
    }
}

impl Metrics {
    /// Creates metrics without a world.
    pub fn new() -> Metrics {
        let mut registry = Registry::with_prefix("stopworld");
        let collections = Collections::new(&mut registry);
        let process = Arc::new(ProcessMetrics::default());
        registry.register_collector(Box::new(Arc::clone(&process)));
        Metrics(Arc::new(Shared { registry, collections, process }))
    }

    /// Returns a listener for [`on_collection`](stopworld::WorldBuilder::on_collection). A program that has a listener of its own calls
    /// [`observe`](Self::observe) there.
    pub fn listener(&self) -> impl Fn(&CollectionReport) + Send + Sync + 'static {
        let metrics = self.clone();
        move |report| metrics.observe(report)
    }

    /// Adds a collection. Not for the stopped world: it may allocate and takes locks.
    pub fn observe(&self, report: &CollectionReport) {
        self.0.collections.observe(report);
    }

    /// Adds a collection that failed, for [`on_failure`](stopworld::WorldBuilder::on_failure).
    pub fn observe_failure(&self) {
        self.0.collections.failures.inc();
    }

    /// Returns the metrics in the text format of Prometheus, version 0.0.4.
    pub fn text(&self) -> String {
        let mut text = String::new();
        // Cannot fail: a string takes any text.
        prometheus_text::encode(&mut text, &self.0.registry).expect("metrics can be written to a string");
        text
    }

    /// Returns the metrics in the text format of OpenMetrics, version 1.0.0.
    pub fn open_metrics(&self) -> String {
        let mut text = String::new();
        // Cannot fail: a string takes any text.
        text::encode(&mut text, &self.0.registry).expect("metrics can be written to a string");
        text
    }
}

impl Default for Metrics {
    fn default() -> Metrics {
        Metrics::new()
    }
}

/// Adds the heap and the threads of a world. Records no events.
impl RecordWorld for Metrics {
    fn record_world(&self, world: &World, _: Since) -> Result<(), RecordError> {
        self.0.process.add(world);
        Ok(())
    }
}
