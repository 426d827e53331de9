//! The metrics, as scrapers read them: from hand-made reports, from real collections, over HTTP; checked by promtool, by the OpenMetrics
//! parser of Prometheus' Python client, and against the dashboard for Grafana.

#[path = "../../../tests/promtool/mod.rs"]
mod promtool;
#[path = "../../../tests/skipped/mod.rs"]
mod skipped;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use promtool::{check_metrics, fed, promtool};
use rstest::rstest;
use serde_json::Value;
use skipped::skipped;
use stopworld::{CloseError, CollectError, CollectionReport, Mutator, Reason, SpaceBytes, ThreadName, World};
use stopworld_metrics::{Metrics, ServeError, Server};

/// A report of a collection in which each figure is different.
fn report(reason: Reason) -> CollectionReport {
    CollectionReport {
        number: 1,
        reason,
        by: ThreadName::new("main"),
        stop_ns: 3_000,
        roots_ns: 50_000,
        mark_ns: 6_000_000,
        weak_ns: 700,
        sweep_ns: 80_000,
        restart_ns: 9_000,
        pause_ns: 6_200_000,
        live: SpaceBytes { small: 11, large: 22, pinned: 33 },
        live_objects: 44,
        freed_bytes: 55,
        allocated_bytes: 66,
        committed_bytes: 77,
        stack_bytes: 88,
        threads_stopped: 9,
        threads_blocking: 4,
        slowest: ThreadName::new("slow"),
        slowest_ns: 2_500,
        mark_stack_high: 111,
        weak_cleared: 12,
        finalizers_queued: 13,
    }
}

/// An error that is not one of a collection.
fn not_closed() -> CollectError {
    CollectError::NotClosed(CloseError::Ticks { within: Duration::ZERO })
}

/// The samples of a text: names with labels, and their values. The two formats write bounds of buckets in different ways.
fn samples(text: &str) -> BTreeMap<String, f64> {
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    let samples = lines.map(|line| {
        let (name, value) = line.rsplit_once(' ').unwrap();
        let name = match name.split_once("le=\"").and_then(|(before, rest)| Some((before, rest.split_once('"')?))) {
            Some((before, (bound, after))) => format!("{before}le=\"{}\"{after}", bound.parse::<f64>().unwrap()),
            None => name.to_owned(),
        };
        (name, value.parse().unwrap())
    });
    samples.collect()
}

#[rstest]
#[case("collections_total{reason=\"allocation\"}", 2.0)]
#[case("collections_total{reason=\"explicit\"}", 1.0)]
#[case("collections_total{reason=\"heap_limit\"}", 1.0)]
#[case("collection_failures_total", 1.0)]
#[case("pause_seconds_count", 4.0)]
#[case("pause_seconds_sum", 4.0 * 6.2e-3)]
#[case("pause_seconds_bucket{le=\"0.004096\"}", 0.0)]
#[case("pause_seconds_bucket{le=\"0.008192\"}", 4.0)]
#[case("time_to_stop_seconds_sum", 4.0 * 3e-6)]
#[case("time_to_stop_seconds_bucket{le=\"0.000002\"}", 0.0)]
#[case("time_to_stop_seconds_bucket{le=\"0.000004\"}", 4.0)]
#[case("time_to_restart_seconds_sum", 4.0 * 9e-6)]
#[case("phase_seconds_sum{phase=\"roots\"}", 4.0 * 50e-6)]
#[case("phase_seconds_sum{phase=\"mark\"}", 4.0 * 6e-3)]
#[case("phase_seconds_sum{phase=\"weak\"}", 4.0 * 0.7e-6)]
#[case("phase_seconds_sum{phase=\"sweep\"}", 4.0 * 80e-6)]
#[case("allocated_bytes_total", 4.0 * 66.0)]
#[case("freed_bytes_total", 4.0 * 55.0)]
#[case("live_objects", 44.0)]
#[case("stopped_threads{state=\"running\"}", 5.0)]
#[case("stopped_threads{state=\"blocking\"}", 4.0)]
#[case("weak_references_cleared_total", 4.0 * 12.0)]
#[case("finalizers_queued_total", 4.0 * 13.0)]
#[case("worlds", 0.0)]
fn each_figure_of_a_report_has_a_sample(#[case] name: &str, #[case] expected: f64) {
    let metrics = Metrics::new();
    for reason in [Reason::Allocation, Reason::Explicit, Reason::Allocation, Reason::HeapLimit] {
        metrics.observe(&report(reason));
    }
    metrics.observe_failure(&CollectError::Discarded { number: 1, answer: None });
    // Not a failure of a collection.
    metrics.observe_failure(&not_closed());
    for text in [metrics.text(), metrics.open_metrics()] {
        let samples = samples(&text);
        let value = samples.get(&format!("stopworld_{name}")).unwrap_or_else(|| panic!("{name}: {text}"));
        assert!((value - expected).abs() <= expected * 1e-9, "{name}: {value}");
    }
}

/// A world with metrics.
fn world(metrics: &Metrics) -> World {
    World::builder().heap_limit(64 << 20).on_collection(metrics.listener()).record_to(metrics).build().unwrap()
}

fn attach(world: &World) -> Mutator {
    // SAFETY: no thread of these tests keeps a `Gc`.
    unsafe { world.attach("main") }.unwrap()
}

/// A collection holds the list of threads, so their number may be unknown.
#[test]
fn an_unknown_number_of_threads_is_omitted_or_the_last_one() {
    let metrics = Metrics::new();
    let world = World::builder().build().unwrap();
    let m = attach(&world);
    let read = || samples(&metrics.text()).get("stopworld_threads").copied();
    world.with_threads(|_| {
        world.record_to(&metrics).unwrap();
        assert_eq!(read(), None);
    });
    assert_eq!(read(), Some(1.0));
    world.with_threads(|_| assert_eq!(read(), Some(1.0)));
    drop(m);
}

#[test]
fn the_metrics_of_a_world_equal_its_own_counters() {
    let metrics = Metrics::new();
    let world = world(&metrics);
    let m = attach(&world);
    for _ in 0..5 {
        for number in 0..10_000_u64 {
            m.alloc(number).unwrap();
        }
        m.collect().unwrap();
    }
    let read = samples(&metrics.text());
    let (totals, counters) = (world.totals(), world.counters());
    let get = |name: &str| read[&format!("stopworld_{name}")];
    assert_eq!(get("collections_total{reason=\"explicit\"}"), f64::from(totals.collections));
    assert_eq!(get("allocated_bytes_total"), totals.allocated_bytes as f64);
    assert!(get("allocated_bytes_total") >= 5.0 * 10_000.0 * 8.0);
    assert_eq!(get("heap_committed_bytes"), totals.committed_bytes as f64);
    assert_eq!(get("heap_limit_bytes"), world.heap_limit() as f64);
    assert_eq!(get("live_bytes{space=\"small\"}"), counters.live.small as f64);
    assert!((get("pause_seconds_sum") * 1e9 - counters.pause_total_ns as f64).abs() < 100.0);
    assert_eq!((get("worlds"), get("threads")), (1.0, world.threads().len() as f64));
    drop(m);
    drop(world);
    let after = samples(&metrics.text());
    assert_eq!((after["stopworld_worlds"], after["stopworld_threads"]), (0.0, 0.0));
    assert_eq!(
        after["stopworld_allocated_bytes_total"], read["stopworld_allocated_bytes_total"],
        "counters never fall"
    );
}

#[test]
fn worlds_count_together() {
    let metrics = Metrics::new();
    let worlds = [world(&metrics), world(&metrics)];
    for world in &worlds {
        world.collect().unwrap();
    }
    // A world that is added twice counts once.
    worlds[0].record_to(&metrics).unwrap();
    let read = samples(&metrics.text());
    assert_eq!(read["stopworld_worlds"], 2.0);
    assert_eq!(read["stopworld_collections_total{reason=\"explicit\"}"], 2.0);
    assert_eq!(read["stopworld_heap_limit_bytes"], f64::from(128 << 20));
}

#[test]
fn each_series_exists_from_the_beginning() {
    let metrics = Metrics::new();
    let first = samples(&metrics.text());
    for reason in [Reason::Allocation, Reason::Explicit, Reason::HeapLimit] {
        metrics.observe(&report(reason));
    }
    let later = samples(&metrics.text());
    assert_eq!(first.keys().collect::<Vec<_>>(), later.keys().collect::<Vec<_>>());
    assert!(first.values().all(|value| *value == 0.0), "{first:?}");
    // A pause is at most a little longer than the time limit of a stop.
    let over_the_limit = |name: &&String| name.starts_with("stopworld_pause_seconds_bucket{le=\"16.");
    assert_eq!(first.keys().filter(over_the_limit).count(), 1);
}

#[test]
fn live_bytes_are_the_sum_over_the_worlds_that_are_not_closed() {
    let metrics = Metrics::new();
    let worlds = [world(&metrics), world(&metrics)];
    for (world, objects) in worlds.iter().zip([50_000_u64, 1_000]) {
        let m = attach(world);
        let kept: Vec<_> = (0..objects).map(|number| m.root(m.alloc(number).unwrap())).collect();
        m.collect().unwrap();
        drop(kept);
    }
    let live = |world: &World| world.counters().live.small as f64;
    let read = || samples(&metrics.text())["stopworld_live_bytes{space=\"small\"}"];
    let [first, second] = worlds;
    assert!(live(&first) > 2.0 * live(&second) && live(&second) > 0.0);
    assert_eq!(read(), live(&first) + live(&second));
    drop(first);
    assert_eq!(read(), live(&second));
    drop(second);
    assert_eq!(read(), 0.0);
}

#[test]
fn a_failed_collection_is_counted() {
    let metrics = Metrics::new();
    let listener = metrics.failure_listener();
    listener(&CollectError::Discarded { number: 1, answer: None });
    listener(&not_closed());
    assert_eq!(samples(&metrics.text())["stopworld_collection_failures_total"], 1.0);
}

/// Sends a request; returns the status line with the headers, and the body.
fn request(address: SocketAddr, method: &str, path: &str, accept: &str) -> (String, String) {
    let mut stream = TcpStream::connect(address).unwrap();
    write!(stream, "{method} {path} HTTP/1.1\r\nHost: {address}\r\nAccept: {accept}\r\nConnection: close\r\n\r\n")
        .unwrap();
    let mut response = String::new();
    stream.read_to_string(&mut response).unwrap();
    let (head, body) = response.split_once("\r\n\r\n").unwrap();
    (head.to_owned(), body.to_owned())
}

const OPEN_METRICS: &str = "application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.3";

#[rstest]
#[case::text("GET", "/metrics", "*/*", "200", "text/plain; version=0.0.4", "stopworld_worlds 1\n")]
#[case::open_metrics("GET", "/metrics", OPEN_METRICS, "200", "application/openmetrics-text; version=1.0.0", "# EOF\n")]
#[case::a_query("GET", "/metrics?x=1", "*/*", "200", "text/plain; version=0.0.4", "stopworld_worlds 1\n")]
#[case::no_body("HEAD", "/metrics", "*/*", "200", "text/plain; version=0.0.4", "")]
#[case::another_path("GET", "/", "*/*", "404", "text/plain", "the metrics are at /metrics")]
#[case::another_method("POST", "/metrics", "*/*", "405", "text/plain", "only GET")]
fn a_server_answers(
    #[case] method: &str,
    #[case] path: &str,
    #[case] accept: &str,
    #[case] status: &str,
    #[case] content_type: &str,
    #[case] part: &str,
) {
    let metrics = Metrics::new();
    let _world = world(&metrics);
    let server = Server::bind(&metrics, "127.0.0.1:0").unwrap();
    assert!(server.url().starts_with("http://127.0.0.1:"));
    let (head, body) = request(server.address(), method, path, accept);
    assert!(head.starts_with(&format!("HTTP/1.1 {status}")), "{head}");
    assert!(head.contains(&format!("Content-Type: {content_type}")), "{head}");
    assert!(body.contains(part), "{body}");
    assert_eq!(body.is_empty(), method == "HEAD");
}

/// A page whose name was made to resolve to 127.0.0.1 sends its own name.
#[rstest]
#[case::address("127.0.0.1:0", "Host: 127.0.0.1:9464\r\n", "200")]
#[case::no_port("127.0.0.1:0", "Host: 127.0.0.1\r\n", "200")]
#[case::name("127.0.0.1:0", "host: LocalHost:9464\r\n", "200")]
#[case::address_6("127.0.0.1:0", "Host: [::1]:9464\r\n", "200")]
#[case::not_from_a_browser("127.0.0.1:0", "", "200")]
#[case::another_name("127.0.0.1:0", "Host: evil.example:9464\r\n", "421")]
#[case::no_port_of_another_name("127.0.0.1:0", "Host: evil.example\r\n", "421")]
#[case::a_name_below("127.0.0.1:0", "Host: 127.0.0.1.evil.example:9464\r\n", "421")]
#[case::a_name_that_ends("127.0.0.1:0", "Host: evil-localhost\r\n", "421")]
#[case::one_of_two("127.0.0.1:0", "Host: localhost\r\nHost: evil.example\r\n", "421")]
#[case::nothing("127.0.0.1:0", "Host: \r\n", "421")]
#[case::not_text("127.0.0.1:0", "Host: \u{e9}\r\n", "421")]
#[case::all_addresses("0.0.0.0:0", "Host: gc.example:9464\r\n", "200")]
fn a_server_at_a_loopback_address_refuses_other_names(
    #[case] address: &str,
    #[case] hosts: &str,
    #[case] status: &str,
) {
    let metrics = Metrics::new();
    let server = Server::bind(&metrics, address).unwrap();
    let mut stream = TcpStream::connect(("127.0.0.1", server.address().port())).unwrap();
    write!(stream, "GET /metrics HTTP/1.1\r\n{hosts}Connection: close\r\n\r\n").unwrap();
    let mut response = String::new();
    stream.read_to_string(&mut response).unwrap();
    assert!(response.starts_with(&format!("HTTP/1.1 {status}")), "{response}");
    assert_eq!(response.contains("stopworld_worlds"), status == "200", "{response}");
    assert_eq!(response.contains("by its IP address or as localhost"), status == "421", "{response}");
}

#[test]
fn scrapes_go_on_while_a_world_collects() {
    let metrics = Metrics::new();
    let server = Server::bind(&metrics, "127.0.0.1:0").unwrap();
    let world = world(&metrics);
    let m = attach(&world);
    let address = server.address();
    std::thread::scope(|scope| {
        let scraper = scope.spawn(move || {
            let mut last = 0.0;
            for scrape in 0.. {
                if scrape >= 50 && last > 0.0 {
                    break;
                }
                let (_, body) = request(address, "GET", "/metrics", "*/*");
                let count = samples(&body)["stopworld_pause_seconds_count"];
                assert!(count >= last, "{count} after {last}");
                last = count;
            }
            assert!(last > 0.0, "a scrape saw a collection");
        });
        while !scraper.is_finished() {
            m.collect().unwrap();
        }
    });
}

/// Connects, sends this, and waits until the server has received it.
fn sent(address: SocketAddr, bytes: &[u8]) -> TcpStream {
    let mut stream = TcpStream::connect(address).unwrap();
    // A server that does not read what it gets makes the client wait.
    stream.set_write_timeout(Some(Duration::from_secs(1))).unwrap();
    let _ = stream.write_all(bytes);
    stream
}

#[rstest]
#[case::a_body_that_is_not_sent(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100000\r\n\r\n", 1)]
#[case::answers_that_are_not_read(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n", 3000)]
#[case::no_request(b"", 1)]
#[case::half_a_request(b"GET /metr", 1)]
fn a_client_that_stalls_delays_no_scrape_and_no_drop(#[case] bytes: &[u8], #[case] times: usize) {
    let metrics = Metrics::new();
    let server = Server::bind(&metrics, "127.0.0.1:0").unwrap();
    let address = server.address();
    // Fewer than the server serves at a time.
    let _stalled: Vec<TcpStream> = (0..4).map(|_| sent(address, &bytes.repeat(times))).collect();
    let scraped = std::thread::spawn(move || request(address, "GET", "/metrics", "*/*"));
    let begun = Instant::now();
    while !scraped.is_finished() {
        assert!(begun.elapsed() < Duration::from_secs(4), "a scrape waits for another client");
        std::thread::sleep(Duration::from_millis(5));
    }
    assert!(scraped.join().unwrap().0.starts_with("HTTP/1.1 200"));
    let (dropping, dropped) = (Instant::now(), std::thread::spawn(move || drop(server)));
    while !dropped.is_finished() {
        assert!(dropping.elapsed() < Duration::from_secs(3), "the server waits for a client");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn more_clients_than_are_served_at_a_time_wait_until_the_first_ones_time_out() {
    let metrics = Metrics::new();
    let server = Server::bind(&metrics, "127.0.0.1:0").unwrap();
    let _stalled: Vec<TcpStream> = (0..20).map(|_| sent(server.address(), b"GET ")).collect();
    let (head, _) = request(server.address(), "GET", "/metrics", "*/*");
    assert!(head.starts_with("HTTP/1.1 200"), "{head}");
}

#[rstest]
#[case::too_long(format!("GET /metrics HTTP/1.1\r\nX: {}\r\n\r\n", "x".repeat(9000)), "HTTP/1.1 431")]
#[case::too_many_headers(format!("GET /metrics HTTP/1.1\r\n{}\r\n", "X: x\r\n".repeat(100)), "HTTP/1.1 431")]
#[case::not_http("\0\x01\x02\r\n\r\n".to_owned(), "HTTP/1.1 400")]
#[case::in_two_pieces("GET /metrics HTTP/1.0\r\n|\r\n".to_owned(), "HTTP/1.1 200")]
#[case::with_a_body(format!("POST /metrics HTTP/1.1\r\nContent-Length: 30000\r\n\r\n{}", "x".repeat(30000)), "HTTP/1.1 405")]
fn each_head_gets_an_answer(#[case] head: String, #[case] status: &str) {
    let metrics = Metrics::new();
    let server = Server::bind(&metrics, "127.0.0.1:0").unwrap();
    let mut stream = TcpStream::connect(server.address()).unwrap();
    for piece in head.split('|') {
        stream.write_all(piece.as_bytes()).unwrap();
        std::thread::sleep(Duration::from_millis(20));
    }
    let mut response = String::new();
    stream.read_to_string(&mut response).unwrap();
    assert!(response.starts_with(status), "{response}");
}

#[test]
fn a_dropped_server_frees_its_port_and_a_used_one_is_an_error() {
    let metrics = Metrics::new();
    let server = Server::bind(&metrics, "127.0.0.1:0").unwrap();
    let address = server.address();
    let error = Server::bind(&metrics, address).unwrap_err();
    assert!(matches!(error, ServeError::Bind { .. }));
    assert!(error.to_string().contains(&address.to_string()), "{error}");
    assert!(error.to_string().contains("choose another port"), "{error}");
    drop(server);
    let begun = Instant::now();
    while TcpListener::bind(address).is_err() {
        assert!(begun.elapsed() < Duration::from_secs(60), "the port is not free");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn an_address_that_no_port_helps_is_an_error_without_that_remedy() {
    // An address for documentation, which no interface has.
    let error = Server::bind(&Metrics::new(), "192.0.2.1:0").unwrap_err();
    let message = error.to_string();
    assert!(message.contains("192.0.2.1") && !message.contains("port"), "{message}");
    // A line with the causes, as commands print it, does not say the same twice.
    assert!(std::error::Error::source(&error).is_none());
}

/// Metrics with a sample in each family.
fn complete() -> Metrics {
    let metrics = Metrics::new();
    metrics.observe(&report(Reason::Allocation));
    metrics
}

fn said(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

#[test]
fn promtool_accepts_names_types_and_help() {
    let text = complete().text();
    let Some(output) = check_metrics(&text) else { return };
    assert!(output.status.success() && said(&output).is_empty(), "{}", said(&output));
    // The check is able to fail.
    assert!(!check_metrics(&text.replace("allocated_bytes_total", "allocated_kilobytes")).unwrap().status.success());
}

#[test]
fn the_parser_of_prometheus_python_client_reads_the_openmetrics() {
    const PROGRAM: &str = "import sys\n\
        from prometheus_client.openmetrics.parser import text_string_to_metric_families as families\n\
        for family in families(sys.stdin.read()):\n    print(family.name, family.type, family.unit, len(family.samples))\n";
    let parse = |text: &str| fed(Command::new("/usr/bin/python3").args(["-c", PROGRAM]), text);
    let text = complete().open_metrics();
    let output = match parse(&text) {
        Ok(output) if !said(&output).contains("ModuleNotFoundError") => output,
        _ => return skipped("python3-prometheus-client"),
    };
    assert!(output.status.success(), "{}", said(&output));
    let printed = said(&output);
    let read: BTreeSet<&str> = printed.lines().collect();
    // A histogram has 25 buckets and the infinite one, its count and its sum.
    for family in [
        "stopworld_pause_seconds histogram seconds 28",
        "stopworld_phase_seconds histogram seconds 112",
        "stopworld_allocated_bytes counter bytes 1",
        "stopworld_live_bytes gauge bytes 3",
        "stopworld_trace_events_lost counter  1",
    ] {
        assert!(read.contains(family), "{family}: {printed}");
    }
    assert!(!parse(&text.replace("# EOF\n", "")).unwrap().status.success());
}

/// The texts of these members, at any depth.
fn members(value: &Value, name: &str, found: &mut Vec<String>) {
    match value {
        Value::Object(object) => object.iter().for_each(|(key, value)| match value {
            Value::String(text) if key == name => found.push(text.clone()),
            _ => members(value, name, found),
        }),
        Value::Array(items) => items.iter().for_each(|item| members(item, name, found)),
        _ => {}
    }
}

fn dashboard() -> Value {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/grafana/stopworld.json");
    serde_json::from_str(&fs::read_to_string(file).unwrap()).unwrap()
}

#[test]
fn the_dashboard_names_only_series_that_exist_and_shows_each_metric_that_matters() {
    let text = complete().text();
    let series: BTreeSet<String> =
        samples(&text).keys().map(|name| name.split('{').next().unwrap().to_owned()).collect();
    let labels: BTreeSet<&str> =
        text.split(['{', ',']).filter_map(|part| part.split_once("=\"")).map(|(label, _)| label).collect();
    let mut expressions = Vec::new();
    for name in ["expr", "query"] {
        members(&dashboard(), name, &mut expressions);
    }
    let mut shown = BTreeSet::new();
    for expression in &expressions {
        let words = expression.split(|char: char| !char.is_ascii_alphanumeric() && char != '_');
        for name in words.filter(|word| word.starts_with("stopworld_")) {
            assert!(series.contains(name), "{name} in {expression}");
            shown.insert(name.to_owned());
        }
        for list in expression.split("by (").skip(1) {
            let label = list.split(')').next().unwrap();
            assert!(labels.contains(label), "{label} in {expression}");
        }
    }
    for name in
        ["pause_seconds_bucket", "time_to_stop_seconds_bucket", "time_to_restart_seconds_bucket", "phase_seconds_sum"]
    {
        assert!(shown.contains(&format!("stopworld_{name}")), "{name}");
    }
    assert!(shown.len() >= 15, "{shown:?}");
}

#[test]
fn prometheus_can_evaluate_each_expression_of_the_dashboard() {
    let Some(promtool) = promtool() else { return };
    let mut expressions = Vec::new();
    members(&dashboard(), "expr", &mut expressions);
    assert!(expressions.len() >= 15);
    let folder = tempfile::tempdir().unwrap();
    let check = |expressions: &[String]| {
        let rules = expressions.iter().enumerate().map(|(number, expression)| {
            // YAML accepts JSON strings.
            let expression = Value::from(expression.replace("$__rate_interval", "1m"));
            format!("      - record: rule_{number}\n        expr: {expression}\n")
        });
        let file = folder.path().join("rules.yml");
        fs::write(&file, format!("groups:\n  - name: dashboard\n    rules:\n{}", rules.collect::<String>())).unwrap();
        Command::new(&promtool).args(["check", "rules"]).arg(file).output().unwrap()
    };
    let output = check(&expressions);
    assert!(output.status.success(), "{}", said(&output));
    assert!(!check(&[format!("{})", expressions[0])]).status.success());
}
