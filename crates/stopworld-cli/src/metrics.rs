//! `--metrics` and `--otlp`: the metrics of a run, for Prometheus and for a collector of OpenTelemetry.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;

use super::arguments::Settings;
use stopworld::{CollectError, CollectionReport, WorldBuilder};
use stopworld_metrics::otlp::Exporter;
use stopworld_metrics::{Metrics, Server};

/// The interval between two exports to a collector.
const EXPORT_INTERVAL: Duration = Duration::from_secs(10);

/// The metrics of a run, each kind if it is requested.
pub(super) struct RunMetrics {
    served: Option<(Metrics, Server)>,
    exporter: Option<Exporter>,
}

impl RunMetrics {
    /// Starts what is requested, and prints the URL of the server.
    pub(super) fn start(settings: &Settings) -> anyhow::Result<Arc<RunMetrics>> {
        let exporter = settings.otlp.as_deref().map(|url| Exporter::start(url, EXPORT_INTERVAL));
        let exporter = exporter.transpose().context("--otlp")?;
        let serve = |address| -> anyhow::Result<_> {
            let metrics = Metrics::new();
            let server = Server::bind(&metrics, address).context("--metrics")?;
            eprintln!("stopworld: metrics at {}", server.url());
            Ok((metrics, server))
        };
        Ok(Arc::new(RunMetrics { served: settings.metrics.map(serve).transpose()?, exporter }))
    }

    /// Adds the heap and the threads of the world.
    pub(super) fn join(&self, mut builder: WorldBuilder) -> WorldBuilder {
        if let Some((metrics, _)) = &self.served {
            builder = builder.record_to(metrics);
        }
        if let Some(exporter) = &self.exporter {
            builder = builder.record_to(exporter);
        }
        builder
    }

    /// Adds a collection, after its restart.
    pub(super) fn observe(&self, report: &CollectionReport) {
        self.served.iter().for_each(|(metrics, _)| metrics.observe(report));
        self.exporter.iter().for_each(|exporter| exporter.observe(report));
    }

    /// Adds a collection that failed.
    pub(super) fn observe_failure(&self, error: &CollectError) {
        self.served.iter().for_each(|(metrics, _)| metrics.observe_failure(error));
        self.exporter.iter().for_each(|exporter| exporter.observe_failure(error));
    }

    /// Sends the last values to the collector.
    pub(super) fn finish(&self) -> anyhow::Result<()> {
        self.exporter.as_ref().map_or(Ok(()), Exporter::finish).context("--otlp")
    }
}
