//! Metrics of worlds for Prometheus and OpenTelemetry: pauses, time to stop, phases, the heap, threads, and lost events.
//!
//! ```
//! use stopworld::World;
//! use stopworld_metrics::{Metrics, Server};
//!
//! let metrics = Metrics::new();
//! let server = Server::bind(&metrics, "127.0.0.1:0")?; // http://127.0.0.1:PORT/metrics
//! let world = World::builder()
//!     .on_collection(metrics.listener())
//!     .on_failure(metrics.failure_listener())
//!     .record_to(&metrics)
//!     .build()?;
//! world.collect()?;
//! assert!(metrics.text().contains("stopworld_collections_total{reason=\"explicit\"} 1\n"));
//! # drop(server);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Where the numbers come from
//!
//! ```text
//!   collecting thread                                      thread of the server
//!   stop ─> collect ─> restart ─> on_collection(report)    GET /metrics ─> counters of the worlds
//!                                     └─> histograms, counters ──────────────┴─> text
//! ```
//!
//! Nothing happens in the stopped world. The report of a collection arrives after the restart, when the collecting thread may allocate and
//! take locks: an update costs some atomic additions and a dozen short locks, about a microsecond for each collection. A scrape reads the
//! counters of the worlds, which takes no lock that a collection needs. While the world is stopped, a scrape may have to wait for a lock that a
//! stopped thread holds, such as that of malloc.
//!
//! # Names and units
//!
//! Names follow the conventions of Prometheus: base units (`_seconds`, `_bytes`), `_total` for counters. Several worlds of a process
//! count together, except in two gauges: the number of live objects and the numbers of stopped threads are those of the latest collection of
//! any world. `rate(stopworld_allocated_bytes_total[1m])` is the allocation rate.
//!
//! | file | part |
//! |---|---|
//! | `metrics` | what each collection adds |
//! | `process` | what is read at each scrape |
//! | `server` | the HTTP server |
//! | `otlp` | the same metrics by OTLP, with the feature `otlp` |
//! | `client` | its URL and its HTTP client |

#[cfg(feature = "otlp")]
mod client;
mod metrics;
#[cfg(feature = "otlp")]
pub mod otlp;
mod process;
mod server;

pub use metrics::Metrics;
pub use server::{ServeError, Server};

/// Runs the examples of the README as tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
