//! The same metrics by OTLP: pushed to a collector of OpenTelemetry, over HTTP with protobuf.
//!
//! ```no_run
//! use std::time::Duration;
//! use stopworld::World;
//! use stopworld_metrics::otlp::Exporter;
//!
//! let exporter = Exporter::start("http://127.0.0.1:4318", Duration::from_secs(10))?;
//! let world = World::builder()
//!     .on_collection(exporter.listener())
//!     .on_failure(exporter.failure_listener())
//!     .record_to(&exporter)
//!     .build()?;
//! // …
//! exporter.finish()?; // sends the last values, while there is still a world
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Names follow the conventions of OpenTelemetry: `stopworld.pause` in `s`, `stopworld.allocated` in `By`. A collector that converts them for
//! Prometheus converts the names to those that the [server](crate::Server) uses. Values are cumulative.
//!
//! The resource has the attributes `service.name`, `stopworld` unless `OTEL_SERVICE_NAME` or `OTEL_RESOURCE_ATTRIBUTES` sets another
//! one, and `service.instance.id`, which differs between processes. The variables `HTTP_PROXY` and `http_proxy` are ignored.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use opentelemetry::metrics::{AsyncInstrument, Counter, Gauge, Histogram, Meter, MeterProvider};
use opentelemetry::{Key, KeyValue};
use opentelemetry_otlp::{MetricExporter, Protocol, RetryPolicy, WithExportConfig, WithHttpConfig};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::OTelSdkError;
use opentelemetry_sdk::metrics::{PeriodicReader, SdkMeterProvider};
use opentelemetry_sdk::resource::{EnvResourceDetector, ResourceDetector};

use crate::client::{self, Client};
use crate::metrics::{LIVE_OBJECTS, REASONS, STOPPED_THREADS, buckets, is_collection_failure, phases, reason, threads};
use crate::process::{LIVE, ProcessMetrics, Sums};
use stopworld::events::record::{RecordError, Recorder};
use stopworld::{CollectError, CollectionReport, RecordWorld, Since, World};

/// The attributes of the resource.
const SERVICE_NAME: &str = "service.name";
const SERVICE_INSTANCE: &str = "service.instance.id";

/// The export failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ExportError {
    /// The URL cannot be used.
    #[error("'{url}': {error}; give the base URL of a collector without TLS, for example http://127.0.0.1:4318")]
    Url {
        /// The URL that was given.
        url: String,
        /// What is wrong with it.
        error: String,
    },
    /// The HTTP client could not be started.
    #[error("{url}: can't start the HTTP client: {error}")]
    Start {
        /// The URL of the collector.
        url: String,
        /// What failed.
        error: String,
    },
    /// The last values could not be sent.
    #[error("{url}: the last metrics could not be sent: {error}")]
    Send {
        /// The URL of the collector.
        url: String,
        /// What failed.
        error: String,
    },
}

/// Sends metrics to a collector, each interval and at the end. Clones share it.
#[derive(Clone)]
pub struct Exporter(Arc<Shared>);

struct Shared {
    url: String,
    client: Client,
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
        let all = Instruments {
            collections: counter("stopworld.collections", "{collection}", "Collections by reason"),
            failures: counter("stopworld.collection.failures", "{collection}", "Collections that failed"),
            pause: seconds("stopworld.pause", "Time from the first request to stop until all threads were resumed"),
            stop: seconds("stopworld.time_to_stop", "Time until all threads were stopped"),
            restart: seconds("stopworld.time_to_restart", "Time to resume all threads"),
            phases: seconds("stopworld.phase", "Time of each phase of collections in the stopped world"),
            allocated: counter("stopworld.allocated", "By", "Bytes allocated up to the latest collection"),
            freed: counter("stopworld.freed", "By", "Bytes of objects that were found dead"),
            live_objects: gauge("stopworld.live.objects", "{object}", LIVE_OBJECTS),
            stopped: gauge("stopworld.stopped.threads", "{thread}", STOPPED_THREADS),
            weak_cleared: counter("stopworld.weak_references.cleared", "{reference}", "Weak references cleared"),
            finalizers: counter("stopworld.finalizers.queued", "{object}", "Objects whose finalizers were queued"),
        };
        // Each series exists from the beginning. (A histogram without a value cannot be exported.)
        REASONS.into_iter().for_each(|value| all.collections.add(0, &[KeyValue::new("reason", reason(value))]));
        all.failures.add(0, &[]);
        all
    }

    fn observe(&self, report: &CollectionReport) {
        let seconds = |ns: u64| ns as f64 / 1e9;
        self.collections.add(1, &[KeyValue::new("reason", reason(report.reason))]);
        self.pause.record(seconds(report.pause_ns), &[]);
        self.stop.record(seconds(report.stop_ns), &[]);
        self.restart.record(seconds(report.restart_ns), &[]);
        for (name, ns) in phases(report) {
            self.phases.record(seconds(ns), &[KeyValue::new("phase", name)]);
        }
        self.allocated.add(report.allocated_bytes, &[]);
        self.freed.add(report.freed_bytes, &[]);
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
    let gauge = |name: &'static str, unit: &'static str, about: &'static str, value: fn(&Sums) -> Option<i64>| {
        let process = Arc::clone(process);
        let gauge = meter.i64_observable_gauge(name).with_unit(unit).with_description(about);
        gauge.with_callback(move |to| value(&process.sums()).iter().for_each(|value| to.observe(*value, &[]))).build();
    };
    gauge("stopworld.worlds", "{world}", "Worlds that are not closed", |sums| Some(sums.worlds));
    gauge("stopworld.threads", "{thread}", "Attached threads", |sums| sums.threads);
    gauge("stopworld.heap.committed", "By", "Memory that the heaps hold", |sums| Some(sums.committed));
    gauge("stopworld.heap.limit", "By", "Memory that the heaps may hold", |sums| Some(sums.limit));
    let spaces = Arc::clone(process);
    let live = meter.i64_observable_gauge("stopworld.live").with_unit("By").with_description(LIVE);
    let observe = move |to: &dyn AsyncInstrument<i64>| {
        spaces.sums().live().iter().for_each(|(space, bytes)| to.observe(*bytes, &[KeyValue::new("space", *space)]));
    };
    live.with_callback(observe).build();
    let fired = meter.u64_observable_counter("stopworld.trace.events").with_unit("{event}");
    let fired = fired.with_description("Events fired for traces");
    fired.with_callback(|to| to.observe(Recorder::of_process().totals().fired, &[])).build();
    let lost = meter.u64_observable_counter("stopworld.trace.events.lost").with_unit("{event}");
    let lost = lost.with_description("Events that were dropped because the buffers were full");
    lost.with_callback(|to| to.observe(Recorder::of_process().totals().dropped, &[])).build();
}

/// Checks the URL of a collector as [`Exporter::start`] does.
///
/// # Errors
/// The URL is not one of HTTP without TLS.
pub fn check_url(url: &str) -> Result<(), ExportError> {
    let wrong = |error| ExportError::Url { url: url.to_owned(), error };
    client::endpoint(url).map(drop).map_err(wrong)
}

/// Describes this process.
fn resource() -> Resource {
    let started = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
    let instance = KeyValue::new(SERVICE_INSTANCE, format!("{}-{started:x}", std::process::id()));
    // What is set here would replace the values of the environment.
    let named = EnvResourceDetector::new().detect();
    let name = std::env::var("OTEL_SERVICE_NAME").ok().filter(|name| !name.is_empty());
    let is_set = |key: &'static str| named.get(&Key::new(key)).is_some();
    let mut builder = Resource::builder();
    if name.is_none() && !is_set(SERVICE_NAME) {
        builder = builder.with_service_name("stopworld");
    }
    if !is_set(SERVICE_INSTANCE) {
        builder = builder.with_attribute(instance);
    }
    builder.build()
}

impl Exporter {
    /// Starts a thread that sends the metrics to the collector with this base URL, to which `/v1/metrics` is appended unless it ends
    /// with that, each interval. A collector that cannot be reached is not an error here: values are cumulative, so the next export has them.
    ///
    /// # Errors
    /// The URL is not one of HTTP without TLS.
    pub fn start(url: &str, interval: Duration) -> Result<Exporter, ExportError> {
        let wrong = |error: String| ExportError::Url { url: url.to_owned(), error };
        let endpoint = client::endpoint(url).map_err(wrong)?;
        let client = Client::new().map_err(|error| ExportError::Start { url: url.to_owned(), error })?;
        let exporter = MetricExporter::builder().with_http().with_protocol(Protocol::HttpBinary);
        // Without retries, because a request has to end before the time limit of the shutdown; the next export has the values.
        let exporter = exporter.with_http_client(client.clone()).with_retry_policy(RetryPolicy::disabled());
        let exporter = exporter.with_endpoint(endpoint).with_timeout(client::TIMEOUT).build();
        let exporter = exporter.map_err(|error| wrong(error.to_string()))?;
        let reader = PeriodicReader::builder(exporter).with_interval(interval).build();
        let provider = SdkMeterProvider::builder().with_reader(reader).with_resource(resource()).build();
        let meter = provider.meter("stopworld");
        let (instruments, process) = (Instruments::new(&meter), Arc::new(ProcessMetrics::default()));
        observe_process(&meter, &process);
        Ok(Exporter(Arc::new(Shared { url: url.to_owned(), client, provider, instruments, process })))
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

    /// Returns a listener for [`on_failure`](stopworld::WorldBuilder::on_failure), which counts collections that failed. A program that
    /// has a listener of its own calls [`observe_failure`](Self::observe_failure) there.
    pub fn failure_listener(&self) -> impl Fn(&CollectError) + Send + Sync + 'static {
        let exporter = self.clone();
        move |error| exporter.observe_failure(error)
    }

    /// Adds a collection that failed. Ignores [`CollectError::NotClosed`], which is not a failure of a collection.
    pub fn observe_failure(&self, error: &CollectError) {
        if is_collection_failure(error) {
            self.0.instruments.failures.add(1, &[]);
        }
    }

    /// Sends the last values, and ends the export. Waits for the collector for at most 5 seconds.
    ///
    /// # Errors
    /// The collector cannot be reached, or refuses the values; or the export has ended already.
    pub fn finish(&self) -> Result<(), ExportError> {
        let Shared { url, client, provider, .. } = &*self.0;
        // The shutdown itself exports once more. Its time limit is fixed.
        provider.shutdown().map_err(|error| {
            let error = match error {
                OTelSdkError::AlreadyShutdown => "the export has ended already".to_owned(),
                // The error itself does not say what failed.
                OTelSdkError::InternalFailure(_) => client.failure().unwrap_or_else(|| error.to_string()),
                OTelSdkError::Timeout(limit) => format!("the export did not end within {} s", limit.as_secs()),
            };
            ExportError::Send { url: url.clone(), error }
        })
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
