//! The same metrics by OTLP: pushed to a collector of OpenTelemetry, over HTTP with protobuf.
//!
//! ```no_run
//! use std::time::Duration;
//! use stopworld::World;
//! use stopworld_metrics::otlp::Exporter;
//!
//! let exporter = Exporter::start("http://127.0.0.1:4318", Duration::from_secs(10))?;
//! let world = World::builder().on_collection(exporter.listener()).record_to(&exporter).build()?;
//! // …
//! exporter.finish()?; // sends the last values
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Names follow the conventions of OpenTelemetry: `stopworld.pause` in `s`, `stopworld.allocated` in `By`. A collector that converts them for
//! Prometheus makes of them the names that the [server](crate::Server) uses. Values are cumulative.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use opentelemetry::KeyValue;
use opentelemetry::metrics::{Counter, Gauge, Histogram, Meter, MeterProvider};
use opentelemetry_otlp::{MetricExporter, Protocol, WithExportConfig};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::metrics::{PeriodicReader, SdkMeterProvider};

use crate::metrics::{buckets, phases, spaces, threads};
use crate::process::{ProcessMetrics, Sums};
use stopworld::events::record::{RecordError, Recorder};
use stopworld::{CollectionReport, RecordWorld, Since, World};

/// The path that the protocol prescribes for metrics.
const PATH: &str = "v1/metrics";
/// The time limit of a request.
const TIMEOUT: Duration = Duration::from_secs(10);

/// The export failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ExportError {
    /// The URL cannot be used.
    #[error("{url}: {error}; give the base URL of a collector without TLS, for example http://127.0.0.1:4318")]
    Url {
        /// The URL that was given.
        url: String,
        /// What is wrong with it.
        error: String,
    },
    /// The last values could not be sent.
    #[error("{url}: the last metrics could not be sent: {error}; is the collector running there?")]
    Send {
        /// The URL of the collector.
        url: String,
        /// The exporter's error.
        error: String,
    },
}

/// Sends metrics to a collector, each interval and at the end. Clones share it.
#[derive(Clone)]
pub struct Exporter(Arc<Shared>);

struct Shared {
    url: String,
    provider: SdkMeterProvider,
    instruments: Instruments,
    process: Arc<ProcessMetrics>,
}

struct Instruments {
    collections: Counter<u64>,
    failures: Counter<u64>,
    pause: Histogram<f64>,
    stop: Histogram<f64>,
    restart: Histogram<f64>,
    phases: Histogram<f64>,
    allocated: Counter<u64>,
    freed: Counter<u64>,
    live: Gauge<u64>,
    live_objects: Gauge<u64>,
    stopped: Gauge<u64>,
    weak_cleared: Counter<u64>,
    finalizers: Counter<u64>,
}

impl Instruments {
    fn new(meter: &Meter) -> Instruments {
        let seconds = |name: &'static str, about: &'static str| {
            let histogram = meter.f64_histogram(name).with_unit("s").with_description(about);
            histogram.with_boundaries(buckets().collect()).build()
        };
        let counter = |name: &'static str, unit: &'static str, about: &'static str| {
            meter.u64_counter(name).with_unit(unit).with_description(about).build()
        };
        let gauge = |name: &'static str, unit: &'static str, about: &'static str| {
            meter.u64_gauge(name).with_unit(unit).with_description(about).build()
        };
        Instruments {
            collections: counter("stopworld.collections", "{collection}", "Collections by reason"),
            failures: counter("stopworld.collection.failures", "{collection}", "Collections that failed"),
            pause: seconds("stopworld.pause", "Time from the first request to stop until all threads were resumed"),
            stop: seconds("stopworld.time_to_stop", "Time until all threads were stopped"),
            restart: seconds("stopworld.time_to_restart", "Time to resume all threads"),
            phases: seconds("stopworld.phase", "Time of each phase of collections in the stopped world"),
            allocated: counter("stopworld.allocated", "By", "Bytes allocated up to the latest collection"),
            freed: counter("stopworld.freed", "By", "Bytes of objects that were found dead"),
            live: gauge("stopworld.live", "By", "Bytes left alive by the latest collection, by space"),
            live_objects: gauge("stopworld.live.objects", "{object}", "Objects left alive by the latest collection"),
            stopped: gauge(
                "stopworld.stopped.threads",
                "{thread}",
                "Threads stopped for the latest collection, without the collecting one",
            ),
            weak_cleared: counter("stopworld.weak_references.cleared", "{reference}", "Weak references cleared"),
            finalizers: counter("stopworld.finalizers.queued", "{object}", "Objects whose finalizers were queued"),
        }
    }

    fn observe(&self, report: &CollectionReport) {
        let seconds = |ns: u64| ns as f64 / 1e9;
        self.collections.add(1, &[KeyValue::new("reason", report.reason.to_string())]);
        self.pause.record(seconds(report.pause_ns), &[]);
        self.stop.record(seconds(report.stop_ns), &[]);
        self.restart.record(seconds(report.restart_ns), &[]);
        for (name, ns) in phases(report) {
            self.phases.record(seconds(ns), &[KeyValue::new("phase", name)]);
        }
        self.allocated.add(report.allocated_bytes, &[]);
        self.freed.add(report.freed_bytes, &[]);
        for (name, bytes) in spaces(report) {
            self.live.record(bytes, &[KeyValue::new("space", name)]);
        }
        self.live_objects.record(report.live_objects, &[]);
        for (state, count) in threads(report) {
            self.stopped.record(count.into(), &[KeyValue::new("state", state)]);
        }
        self.weak_cleared.add(report.weak_cleared.into(), &[]);
        self.finalizers.add(report.finalizers_queued.into(), &[]);
    }
}

/// Makes the instruments that are read at each export.
fn observe_process(meter: &Meter, process: &Arc<ProcessMetrics>) {
    let gauge = |name: &'static str, unit: &'static str, about: &'static str, value: fn(&Sums) -> i64| {
        let process = Arc::clone(process);
        let gauge = meter.i64_observable_gauge(name).with_unit(unit).with_description(about);
        gauge.with_callback(move |to| to.observe(value(&process.sums()), &[])).build();
    };
    gauge("stopworld.worlds", "{world}", "Worlds that are not closed", |sums| sums.worlds);
    gauge("stopworld.threads", "{thread}", "Attached threads", |sums| sums.threads);
    gauge("stopworld.heap.committed", "By", "Memory that the heaps hold", |sums| sums.committed);
    gauge("stopworld.heap.limit", "By", "Memory that the heaps may hold", |sums| sums.limit);
    let fired = meter.u64_observable_counter("stopworld.trace.events").with_unit("{event}");
    let fired = fired.with_description("Events fired for traces");
    fired.with_callback(|to| to.observe(Recorder::of_process().totals().fired, &[])).build();
    let lost = meter.u64_observable_counter("stopworld.trace.events.lost").with_unit("{event}");
    let lost = lost.with_description("Events that were dropped because the buffers were full");
    lost.with_callback(|to| to.observe(Recorder::of_process().totals().dropped, &[])).build();
}

impl Exporter {
    /// Starts a thread that sends the metrics to the collector with this base URL, to which `/v1/metrics` is appended, each interval. A
    /// collector that cannot be reached is not an error here: values are cumulative, so the next export has them.
    ///
    /// # Errors
    /// The URL is not one of HTTP without TLS.
    pub fn start(url: &str, interval: Duration) -> Result<Exporter, ExportError> {
        let wrong = |error: String| ExportError::Url { url: url.to_owned(), error };
        if !url.starts_with("http://") {
            return Err(wrong("the URL does not begin with http://".to_owned()));
        }
        let endpoint = format!("{}/{PATH}", url.trim_end_matches('/'));
        let exporter = MetricExporter::builder().with_http().with_protocol(Protocol::HttpBinary);
        let exporter = exporter.with_endpoint(endpoint).with_timeout(TIMEOUT).build();
        let exporter = exporter.map_err(|error| wrong(error.to_string()))?;
        let reader = PeriodicReader::builder(exporter).with_interval(interval).build();
        let resource = Resource::builder().with_service_name("stopworld").build();
        let provider = SdkMeterProvider::builder().with_reader(reader).with_resource(resource).build();
        let meter = provider.meter("stopworld");
        let (instruments, process) = (Instruments::new(&meter), Arc::new(ProcessMetrics::default()));
        observe_process(&meter, &process);
        Ok(Exporter(Arc::new(Shared { url: url.to_owned(), provider, instruments, process })))
    }

    /// Returns a listener for [`on_collection`](stopworld::WorldBuilder::on_collection). A program that has a listener of its own calls
    /// [`observe`](Self::observe) there.
    pub fn listener(&self) -> impl Fn(&CollectionReport) + Send + Sync + 'static {
        let exporter = self.clone();
        move |report| exporter.observe(report)
    }

    /// Adds a collection. Not for the stopped world: it may allocate and takes locks.
    pub fn observe(&self, report: &CollectionReport) {
        self.0.instruments.observe(report);
    }

    /// Adds a collection that failed, for [`on_failure`](stopworld::WorldBuilder::on_failure).
    pub fn observe_failure(&self) {
        self.0.instruments.failures.add(1, &[]);
    }

    /// Sends the last values, and ends the export.
    ///
    /// # Errors
    /// The collector cannot be reached, or refuses the values; or the export has ended already.
    pub fn finish(&self) -> Result<(), ExportError> {
        let Shared { url, provider, .. } = &*self.0;
        // The shutdown itself exports once more.
        provider.shutdown().map_err(|error| ExportError::Send { url: url.clone(), error: error.to_string() })
    }
}

impl fmt::Debug for Exporter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Exporter").field("url", &self.0.url).finish_non_exhaustive()
    }
}

/// Adds the heap and the threads of a world. Records no events.
impl RecordWorld for Exporter {
    fn record_world(&self, world: &World, _: Since) -> Result<(), RecordError> {
        self.0.process.add(world);
        Ok(())
    }
}
