//! Metrics by OTLP, as a collector receives them: requests to a server in this process, decoded by the messages of the Python package
//! `opentelemetry-proto`.

#![cfg(feature = "otlp")]

#[path = "../../../tests/otlp_export/mod.rs"]
mod otlp_export;
#[path = "../../../tests/skipped/mod.rs"]
mod skipped;

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::process::Command;
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

use otlp_export::{decoded, metrics, number, point};
use rstest::rstest;
use serde_json::Value;
use stopworld::{CollectError, World};
use stopworld_metrics::otlp::{ExportError, Exporter, check_url};

/// Accepts exports at a free port for as long as the process runs, and answers with this status. Returns its URL, and the paths, content
/// types and bodies of the requests.
fn answering(status: &'static str) -> (String, Receiver<(String, String, Vec<u8>)>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let (send, requests) = channel();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = BufReader::new(stream.unwrap());
            let mut head = Vec::new();
            while !head.ends_with(b"\r\n\r\n") {
                assert_ne!(stream.read_until(b'\n', &mut head).unwrap(), 0, "a whole head");
            }
            let head = String::from_utf8(head).unwrap();
            let header = |name: &str| {
                let mut headers = head.lines().skip(1).filter_map(|line| line.split_once(": "));
                headers.find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value.to_owned()).unwrap()
            };
            let mut body = vec![0; header("Content-Length").parse().unwrap()];
            stream.read_exact(&mut body).unwrap();
            let path = head.split(' ').nth(1).unwrap().to_owned();
            let _ = send.send((path, header("Content-Type"), body));
            write!(stream.get_mut(), "HTTP/1.1 {status}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n").unwrap();
        }
    });
    (url, requests)
}

fn receiver() -> (String, Receiver<(String, String, Vec<u8>)>) {
    answering("200 OK")
}

fn failure() -> CollectError {
    CollectError::Discarded { number: 1, answer: None }
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
    exporter.observe_failure(&failure());
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
    assert_eq!(sum("stopworld.collections", "heap_limit"), 0);
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
    assert_eq!(pauses["explicitBounds"].as_array().unwrap().len(), 25);
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
    // Any other port that is free now may be given to another test.
    let unused = "127.0.0.1:1";
    let exporter = Exporter::start(&format!("http://{unused}"), Duration::from_secs(3600)).unwrap();
    let world = World::builder().heap_limit(64 << 20).on_collection(exporter.listener()).build().unwrap();
    world.collect().unwrap();
    let error = exporter.finish().unwrap_err();
    assert!(matches!(error, ExportError::Send { .. }));
    let message = error.to_string();
    assert!(message.contains(unused) && message.contains("Connection refused"), "{message}");
    assert!(message.contains("is the collector running there?"), "{message}");
}

#[rstest]
#[case::wrong_path("404 Not Found", &["404 Not Found", "base URL"])]
#[case::busy("503 Service Unavailable", &["503 Service Unavailable"])]
fn a_collector_that_refuses_is_an_error_with_its_answer(#[case] status: &'static str, #[case] parts: &[&str]) {
    let (url, _requests) = answering(status);
    let exporter = Exporter::start(&url, Duration::from_secs(3600)).unwrap();
    exporter.observe_failure(&failure());
    let message = exporter.finish().unwrap_err().to_string();
    for part in parts {
        assert!(message.contains(part), "{message}");
    }
    assert!(!message.contains("InternalFailure") && message.contains(&url), "{message}");
    assert!(exporter.finish().unwrap_err().to_string().contains("ended already"));
}

#[test]
fn a_collector_that_does_not_answer_is_an_error_within_the_time_limit() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let exporter =
        Exporter::start(&format!("http://{}", listener.local_addr().unwrap()), Duration::from_secs(3600)).unwrap();
    exporter.observe_failure(&failure());
    let message = exporter.finish().unwrap_err().to_string();
    assert!(message.contains("did not answer within 4 s"), "{message}");
}

#[rstest]
#[case("")]
#[case("/")]
#[case("/v1/metrics")]
fn the_path_is_appended_once(#[case] end: &str) {
    let (url, requests) = receiver();
    let exporter = Exporter::start(&format!("{url}{end}"), Duration::from_secs(3600)).unwrap();
    exporter.finish().unwrap();
    assert_eq!(requests.recv_timeout(Duration::from_secs(60)).unwrap().0, "/v1/metrics");
}

#[rstest]
#[case("", "empty")]
#[case("http://", "host")]
#[case("127.0.0.1:4318", "does not begin with http://")]
#[case("https://127.0.0.1:4318", "https:// is not supported")]
#[case("ftp://127.0.0.1:4318", "ftp://")]
#[case("http://127.0.0.1:99999", "port")]
#[case("http://not a host", "host")]
#[case("http://127.0.0.1:4318/?x=1", "query")]
fn only_http_is_accepted(#[case] url: &str, #[case] part: &str) {
    let error = Exporter::start(url, Duration::from_secs(1)).unwrap_err();
    assert!(matches!(error, ExportError::Url { .. }));
    let message = error.to_string();
    assert!(message.starts_with(&format!("'{url}': ")) && message.contains(part), "{message}");
    assert_eq!(check_url(url).unwrap_err().to_string(), message);
}

/// Runs the test below in a process with these variables; returns the attributes of the resource that it has sent.
fn sent_with(variables: &[(&str, &str)]) -> Option<BTreeMap<String, String>> {
    let (url, requests) = receiver();
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "sends_once_if_requested", "--nocapture"]).env("STOPWORLD_TEST_COLLECTOR", url);
    command.envs(variables.iter().copied());
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    let export = decoded(&requests.recv_timeout(Duration::from_secs(60)).unwrap().2)?;
    let attributes = export["resourceMetrics"][0]["resource"]["attributes"].as_array().unwrap();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    Some(attributes.iter().map(|pair| (text(&pair["key"]), text(&pair["value"]["stringValue"]))).collect())
}

#[test]
fn sends_once_if_requested() {
    let Ok(url) = std::env::var("STOPWORLD_TEST_COLLECTOR") else { return };
    let exporter = Exporter::start(&url, Duration::from_secs(3600)).unwrap();
    exporter.observe_failure(&failure());
    exporter.finish().unwrap();
}

#[rstest]
#[case::none(&[], "stopworld")]
#[case::name(&[("OTEL_SERVICE_NAME", "mine")], "mine")]
#[case::attributes(&[("OTEL_RESOURCE_ATTRIBUTES", "service.name=ours,service.instance.id=7")], "ours")]
// Port 9 has no proxy.
#[case::a_proxy(&[("HTTP_PROXY", "http://127.0.0.1:9"), ("http_proxy", "http://127.0.0.1:9")], "stopworld")]
fn the_environment_names_the_service(#[case] variables: &[(&str, &str)], #[case] name: &str) {
    let Some(sent) = sent_with(variables) else { return };
    assert_eq!(sent["service.name"], name);
    if name == "ours" {
        assert_eq!(sent["service.instance.id"], "7");
    } else {
        let again = sent_with(variables).unwrap();
        assert_ne!(sent["service.instance.id"], again["service.instance.id"], "each process has an instance");
    }
}
