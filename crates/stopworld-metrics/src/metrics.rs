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
use stopworld::{CollectError, CollectionReport, Reason, RecordWorld, Since, World};

/// A label with its value.
type Label = [(&'static str, &'static str); 1];

/// Buckets of all histograms: from a microsecond, doubling, to 16.8 seconds, which is more than the default time limit of a stop.
const SMALLEST: f64 = 1e-6;
const BUCKETS: u16 = 25;

/// The reasons of collections.
pub(crate) const REASONS: [Reason; 3] = [Reason::Allocation, Reason::Explicit, Reason::HeapLimit];
/// The phases in the stopped world.
const PHASES: [&str; 4] = ["roots", "mark", "weak", "sweep"];
/// The states of threads at a stop.
const STATES: [&str; 2] = ["running", "blocking"];

/// Descriptions of what only the report of a collection has.
pub(crate) const LIVE_OBJECTS: &str = "Objects of a world left alive by the latest collection of any world";
pub(crate) const STOPPED_THREADS: &str =
    "Threads stopped for the latest collection of any world, without the collecting one";

/// The metrics of the worlds of a process. Clones share them.
///
/// A world takes part by three calls of its builder: [`listener`](Self::listener) for its collections,
/// [`failure_listener`](Self::failure_listener) for those that fail, and [`record_to`](stopworld::WorldBuilder::record_to) for its heap and
/// threads.
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
    count: Family<[(&'static str, String); 1], Counter>,
    failures: Counter,
    pause: Histogram,
    stop: Histogram,
    restart: Histogram,
    phases: Family<Label, Histogram>,
    allocated: Counter,
    freed: Counter,
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

/// Returns the value of the label for a reason.
pub(crate) fn reason(reason: Reason) -> String {
    reason.to_string().replace(' ', "_")
}

/// Returns the phases in the stopped world, in nanoseconds.
pub(crate) fn phases(report: &CollectionReport) -> impl Iterator<Item = (&'static str, u64)> {
    PHASES.into_iter().zip([report.roots_ns, report.mark_ns, report.weak_ns, report.sweep_ns])
}

/// Returns the numbers of stopped threads by their states.
pub(crate) fn threads(report: &CollectionReport) -> impl Iterator<Item = (&'static str, u32)> {
    let running = report.threads_stopped.saturating_sub(report.threads_blocking);
    STATES.into_iter().zip([running, report.threads_blocking])
}

/// Returns whether a failure is one of a collection.
pub(crate) fn is_collection_failure(error: &CollectError) -> bool {
    !matches!(error, CollectError::NotClosed(_))
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
        registry.register("live_objects", LIVE_OBJECTS, all.live_objects.clone());
        registry.register("stopped_threads", STOPPED_THREADS, all.stopped_threads.clone());
        registry.register("weak_references_cleared", "Weak references cleared", all.weak_cleared.clone());
        registry.register("finalizers_queued", "Objects whose finalizers were queued", all.finalizers.clone());
        all.create_series();
        all
    }

    /// Makes each series exist from the beginning, so that a rate over its first increment is not missing.
    fn create_series(&self) {
        REASONS.into_iter().for_each(|value| drop(self.count.get_or_create(&[("reason", reason(value))])));
        PHASES.into_iter().for_each(|phase| drop(self.phases.get_or_create(&[("phase", phase)])));
        STATES.into_iter().for_each(|state| drop(self.stopped_threads.get_or_create(&[("state", state)])));
    }

    fn observe(&self, report: &CollectionReport) {
        let seconds = |ns: u64| ns as f64 / 1e9;
        self.count.get_or_create(&[("reason", reason(report.reason))]).inc();
        self.pause.observe(seconds(report.pause_ns));
        self.stop.observe(seconds(report.stop_ns));
        self.restart.observe(seconds(report.restart_ns));
        for (name, ns) in phases(report) {
            self.phases.get_or_create(&[("phase", name)]).observe(seconds(ns));
        }
        self.allocated.inc_by(report.allocated_bytes);
        self.freed.inc_by(report.freed_bytes);
        self.live_objects.set(report.live_objects as i64);
        for (state, threads) in threads(report) {
            self.stopped_threads.get_or_create(&[("state", state)]).set(threads.into());
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

    /// Returns a listener for [`on_failure`](stopworld::WorldBuilder::on_failure), which counts collections that failed. A program that
    /// has a listener of its own calls [`observe_failure`](Self::observe_failure) there.
    pub fn failure_listener(&self) -> impl Fn(&CollectError) + Send + Sync + 'static {
        let metrics = self.clone();
        move |error| metrics.observe_failure(error)
    }

    /// Adds a collection that failed. Ignores [`CollectError::NotClosed`], which is not a failure of a collection.
    pub fn observe_failure(&self, error: &CollectError) {
        if is_collection_failure(error) {
            self.0.collections.failures.inc();
        }
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
