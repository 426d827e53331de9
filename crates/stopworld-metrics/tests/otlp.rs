//! Metrics by OTLP, as a collector receives them: requests to a server in this process, decoded by the messages of the Python package
//! `opentelemetry-proto`.

#![cfg(feature = "otlp")]

#[path = "../../../tests/skipped/mod.rs"]
mod skipped;

use std::collections::BTreeMap;
use std::net::TcpListener;
use std::path::Path;
use std::process::Command;
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

use serde_json::Value;
use skipped::skipped;
use stopworld::World;
use stopworld_metrics::otlp::{ExportError, Exporter};

/// Accepts exports at a free port for as long as the process runs. Returns its URL, and the paths, content types and bodies of the
/// requests.
fn receiver() -> (String, Receiver<(String, String, Vec<u8>)>) {
    let server = tiny_http::Server::http("127.0.0.1:0").unwrap();
    let url = format!("http://{}", server.server_addr());
    let (send, requests) = channel();
    thread::spawn(move || {
        for mut request in server.incoming_requests() {
            let mut body = Vec::new();
            request.as_reader().read_to_end(&mut body).unwrap();
            let content_type = request.headers().iter().find(|header| header.field.equiv("Content-Type"));
            let content_type = content_type.map(|header| header.value.to_string()).unwrap_or_default();
            let _ = send.send((request.url().to_owned(), content_type, body));
            let header = tiny_http::Header::from_bytes("Content-Type", "application/x-protobuf").unwrap();
            request.respond(tiny_http::Response::from_data([]).with_header(header)).unwrap();
        }
    });
    (url, requests)
}

/// Decodes an export with the Python package that `.ci/otlp-messages` installs; `None`, with a skipped test reported, if it is missing.
fn decoded(body: &[u8]) -> Option<Value> {
    const PROGRAM: &str = "import sys\n\
        from google.protobuf.json_format import MessageToJson\n\
        from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest as Request\n\
        print(MessageToJson(Request.FromString(open(sys.argv[1], 'rb').read())))\n";
    let packages = Path::new(env!("CARGO_TARGET_TMPDIR")).with_file_name("otlp-messages");
    if !packages.exists() {
        skipped("opentelemetry-proto");
        return None;
    }
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(&file, body).unwrap();
    let output =
        Command::new("python3").args(["-c", PROGRAM]).arg(file.path()).env("PYTHONPATH", packages).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Some(serde_json::from_slice(&output.stdout).unwrap())
}

/// The metrics of an export by name.
fn metrics(export: &Value) -> BTreeMap<String, Value> {
    let scopes = export["resourceMetrics"][0]["scopeMetrics"].as_array().unwrap();
    let metrics = scopes.iter().flat_map(|scope| scope["metrics"].as_array().unwrap());
    metrics.map(|metric| (metric["name"].as_str().unwrap().to_owned(), metric.clone())).collect()
}

/// A number of 64 bits, which JSON of protobuf has as a string.
fn number(value: &Value) -> u64 {
    value.as_str().unwrap_or_else(|| panic!("{value}")).parse().unwrap()
}

/// The value of the point whose only attribute has this value, or of the first point.
fn point<'m>(metric: &'m Value, kind: &str, attribute: &str) -> &'m Value {
    let points = metric[kind]["dataPoints"].as_array().unwrap_or_else(|| panic!("no {kind}: {metric}"));
    let is_it = |point: &&Value| attribute.is_empty() || point["attributes"][0]["value"]["stringValue"] == attribute;
    points.iter().find(is_it).unwrap_or_else(|| panic!("{attribute}: {metric}"))
}

#[test]
fn a_collector_receives_the_counters_of_a_world() {
    let (url, requests) = receiver();
    // Only the end sends.
    let exporter = Exporter::start(&url, Duration::from_secs(3600)).unwrap();
    let world =
        World::builder().heap_limit(64 << 20).on_collection(exporter.listener()).record_to(&exporter).build().unwrap();
    // SAFETY: the thread keeps no `Gc`.
    let m = unsafe { world.attach("main") }.unwrap();
    for _ in 0..5 {
        for number in 0..10_000_u64 {
            m.alloc(number).unwrap();
        }
        m.collect().unwrap();
    }
    exporter.observe_failure();
    exporter.finish().unwrap();
    let (path, content_type, body) = requests.recv_timeout(Duration::from_secs(60)).unwrap();
    assert_eq!((path.as_str(), content_type.as_str()), ("/v1/metrics", "application/x-protobuf"));
    let Some(export) = decoded(&body) else { return };
    let service = export["resourceMetrics"][0]["resource"]["attributes"].as_array().unwrap();
    assert!(service.iter().any(|attribute| attribute["value"]["stringValue"] == "stopworld"), "{export}");
    let metrics = metrics(&export);
    let (totals, counters) = (world.totals(), world.counters());
    let sum = |name: &str, attribute: &str| {
        let metric = &metrics[name];
        assert_eq!(metric["sum"]["aggregationTemporality"], "AGGREGATION_TEMPORALITY_CUMULATIVE");
        assert_eq!(metric["sum"]["isMonotonic"], true);
        number(&point(metric, "sum", attribute)["asInt"])
    };
    let gauge = |name: &str, attribute: &str| number(&point(&metrics[name], "gauge", attribute)["asInt"]);
    assert_eq!(sum("stopworld.collections", "explicit"), 5);
    assert_eq!(sum("stopworld.collection.failures", ""), 1);
    assert_eq!(sum("stopworld.allocated", ""), totals.allocated_bytes);
    assert_eq!(gauge("stopworld.live", "small"), counters.live.small);
    assert_eq!(gauge("stopworld.heap.committed", ""), totals.committed_bytes);
    assert_eq!(gauge("stopworld.heap.limit", ""), world.heap_limit());
    assert_eq!(gauge("stopworld.threads", ""), world.threads().len() as u64);
    assert_eq!(gauge("stopworld.worlds", ""), 1);
    let pause = &metrics["stopworld.pause"];
    assert_eq!(pause["unit"], "s");
    let pauses = point(pause, "histogram", "");
    assert_eq!(number(&pauses["count"]), 5);
    let seconds = pauses["sum"].as_f64().unwrap();
    assert!((seconds * 1e9 - counters.pause_total_ns as f64).abs() < 100.0, "{pause}");
    assert_eq!(pauses["explicitBounds"].as_array().unwrap().len(), 24);
    for name in ["stopworld.time_to_stop", "stopworld.time_to_restart"] {
        assert_eq!(number(&point(&metrics[name], "histogram", "")["count"]), 5);
    }
    for phase in ["roots", "mark", "weak", "sweep"] {
        assert_eq!(number(&point(&metrics["stopworld.phase"], "histogram", phase)["count"]), 5);
    }
    for lost in ["stopworld.trace.events", "stopworld.trace.events.lost"] {
        assert!(metrics.contains_key(lost), "{export}");
    }
}

#[test]
fn each_interval_sends_the_values_so_far() {
    let (url, requests) = receiver();
    let exporter = Exporter::start(&url, Duration::from_millis(500)).unwrap();
    let world = World::builder().heap_limit(64 << 20).on_collection(exporter.listener()).build().unwrap();
    for collections in 1..=2 {
        world.collect().unwrap();
        // Exports that had begun before the collection arrive first.
        loop {
            let (_, _, body) = requests.recv_timeout(Duration::from_secs(60)).unwrap();
            let Some(export) = decoded(&body) else { return };
            let metrics = metrics(&export);
            let count =
                metrics.get("stopworld.collections").map(|count| number(&point(count, "sum", "explicit")["asInt"]));
            match count.unwrap_or(0) {
                count if count == collections => break,
                count => assert!(count < collections, "{export}"),
            }
        }
    }
    exporter.finish().unwrap();
}

#[test]
fn a_collector_that_is_not_there_is_an_error_at_the_end() {
    let unused = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let exporter = Exporter::start(&format!("http://{unused}"), Duration::from_secs(3600)).unwrap();
    let world = World::builder().heap_limit(64 << 20).on_collection(exporter.listener()).build().unwrap();
    world.collect().unwrap();
    let error = exporter.finish().unwrap_err();
    assert!(matches!(error, ExportError::Send { .. }));
    assert!(error.to_string().contains(&unused.to_string()), "{error}");
}

#[test]
fn only_http_is_accepted() {
    for url in ["https://127.0.0.1:4318", "127.0.0.1:4318", "http://not a host"] {
        let error = Exporter::start(url, Duration::from_secs(1)).unwrap_err();
        assert!(matches!(error, ExportError::Url { .. }) && error.to_string().contains(url), "{error}");
    }
}
