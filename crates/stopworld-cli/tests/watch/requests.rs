//! The server of the page, and a client that is no browser: which requests are answered, and what a slow client costs.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use nettrace::clr::write::{GCEnd, GCStart};
use nettrace::clr::{CollectionType, Reason};
use rstest::rstest;
use serde_json::{Value, json};
use stopworld_analysis::gcstats::{Rules, analyse};

use crate::diagnostics_support::client::PATIENCE;
use crate::diagnostics_support::subject::{Subject, resident_kib, until};
use crate::played::{Played, fixture};
use crate::watched::{Answer, Run, Watched};
use crate::written::Written;

/// Returns whether a page has this many pauses after the batch. A batch has few entries, so the process may have made more.
fn has(batch: &Value, pauses: u64) -> bool {
    let (first, entries) = (batch["first"].as_u64().unwrap(), batch["pauses"].as_array().unwrap());
    first + entries.len() as u64 >= pauses
}

/// The parts of an answer that only the page's own requests may get.
fn has_data(answer: &Answer) -> bool {
    ["<html", "pauses", "data:", "{"].iter().any(|part| answer.text().contains(part))
}

#[test]
fn only_requests_of_the_page_get_data() {
    let mut subject = Subject::start();
    subject.tell("collect 2");
    let watched = Watched::start(subject.pid());
    let host = format!("127.0.0.1:{}", watched.port);
    let own = [("Host", host.as_str())];
    let paths = ["", "events", "collect", "snapshot", "record", "none"];
    let path = |token: &str, name: &str| format!("/{token}/{name}");
    let wrong = "0".repeat(32);
    for (name, method) in paths.iter().flat_map(|name| ["GET", "POST", "OPTIONS", "HEAD"].map(|method| (*name, method)))
    {
        let refused = |token: &str, headers: &[(&str, &str)], status: u16| {
            let answer = watched.request(method, &path(token, name), headers);
            assert_eq!(answer.status, status, "{method} {name} {headers:?}: {answer:?}");
            assert!(!has_data(&answer), "{answer:?}");
            assert_eq!(answer.header("access-control-allow-origin"), None);
        };
        refused(&wrong, &[own[0], ("Origin", &format!("http://{host}"))], 403);
        refused("", &[own[0], ("Origin", &format!("http://{host}"))], 403);
        refused(&watched.token, &[("Host", &format!("evil.example:{}", watched.port))], 421);
        refused(&watched.token, &[("Host", "127.0.0.1")], 421);
        refused(&watched.token, &[own[0], ("Origin", "http://evil.example")], 403);
        refused(&watched.token, &[own[0], ("Origin", "null")], 403);
        refused(&watched.token, &[own[0], ("Sec-Fetch-Site", "cross-site"), ("Sec-Fetch-Mode", "no-cors")], 403);
    }
    // An action is a POST of the page itself.
    assert_eq!(watched.request("POST", &path(&watched.token, "collect"), &own).status, 403, "without an origin");
    let wrong_method = watched.own("GET", "collect");
    assert_eq!((wrong_method.status, wrong_method.header("allow")), (405, Some("POST")));
    assert_eq!(watched.own("POST", "events").status, 405);
    for (method, name) in [("GET", "nothing"), ("POST", "nothing"), ("GET", "collect/it")] {
        assert_eq!(watched.own(method, name).status, 404, "{method} {name}");
    }
    assert_eq!(subject.tell("collections"), "2", "no refused request has reached the process");
    assert_eq!(watched.end(libc::SIGTERM), Some(0));
}

#[test]
fn the_page_keeps_to_itself() {
    let subject = Subject::start();
    let watched = Watched::start(subject.pid());
    let page = watched.own("GET", "");
    assert_eq!((page.status, page.header("content-type")), (200, Some("text/html; charset=utf-8")));
    for (name, value) in [
        ("cache-control", "no-store"),
        ("referrer-policy", "no-referrer"),
        ("x-content-type-options", "nosniff"),
        ("x-frame-options", "DENY"),
        ("cross-origin-opener-policy", "same-origin"),
        ("cross-origin-resource-policy", "same-origin"),
    ] {
        assert_eq!(page.header(name), Some(value), "{name}");
    }
    let policy = page.header("content-security-policy").expect("a policy");
    for part in ["default-src 'none'", "script-src 'nonce-", "connect-src 'self'", "frame-ancestors 'none'"] {
        assert!(policy.contains(part), "{policy}");
    }
    assert!(!policy.contains("unsafe"));
    assert!(!page.text().contains(&watched.token), "the token is in the address only");
    for outside in ["src=", "url(", "@import", "<link", "<iframe"] {
        assert!(!page.text().contains(outside), "{outside}");
    }
    let again = watched.own("GET", "");
    assert_ne!(again.header("content-security-policy"), Some(policy), "each answer has a nonce of its own");
}

#[test]
fn a_stream_that_connects_again_gets_what_it_missed() {
    let mut subject = Subject::start();
    let watched = Watched::start(subject.pid());
    subject.tell("collect 3");
    let (id, pauses) = watched.events("").until(|batch| has(batch, 3));
    assert_eq!(pauses.len(), 3);
    subject.tell("collect 4");
    let (_, missed) = watched.events(&id).until(|batch| has(batch, 7));
    let (_, by_address) = watched.events_at(&format!("events?after={id}"), "").until(|batch| has(batch, 7));
    assert_eq!(missed, by_address);
    let (_, all) = watched.events("").until(|batch| has(batch, 7));
    assert_eq!((missed.len(), all.len()), (4, 7));
    assert_eq!(all, [pauses, missed].concat());
    let numbers: Vec<i64> = all.iter().filter_map(|pause| pause["number"].as_i64()).collect();
    assert_eq!(numbers, [1, 2, 3, 4, 5, 6, 7]);
}

#[test]
fn each_stop_names_the_threads_it_waited_for() {
    let mut run = Run::start();
    let watched = Watched::start(run.pid());
    // Not every stop finds a thread that runs.
    let has_stop = |batch: &Value| batch["pauses"].as_array().unwrap().iter().any(|pause| pause["stops"] != json!([]));
    let (_, pauses) = watched.events("").until(has_stop);
    for pause in &pauses {
        let stop = pause["phases"][0].as_u64().unwrap();
        for thread in pause["stops"].as_array().unwrap() {
            assert!(thread[1].as_u64().unwrap() <= stop, "a thread stops before the stop is over: {pause}");
        }
    }
    run.end();
}

#[test]
fn after_the_end_of_the_process_the_data_are_still_served() {
    let mut subject = Subject::start();
    let watched = Watched::start(subject.pid());
    subject.tell("collect 5");
    subject.order("exit");
    subject.ended();
    let ended = format!("process {} has ended", subject.pid());
    assert!(watched.said().contains(&ended));
    let (_, pauses) = watched.events("").until(|batch| batch["ended"] == ended.as_str());
    assert_eq!(pauses.len(), 5);
    for name in ["collect", "snapshot", "record"] {
        let answer = watched.own("POST", name);
        assert_eq!((answer.status, answer.text()), (409, ended.clone() + "\n"));
    }
    let (_, batch) = watched.events("").next();
    for action in batch["actions"].as_array().unwrap() {
        assert_eq!(action["reason"], ended.as_str(), "its button is disabled, with the reason");
    }
    assert_eq!(watched.end(libc::SIGINT), Some(0));
}

#[test]
fn the_actions_do_what_they_say() {
    let mut subject = Subject::start();
    subject.tell("keep 100");
    let watched = Watched::start(subject.pid());
    assert_eq!(watched.own("POST", "collect").status, 204);
    assert_eq!(subject.tell("collections"), "1");
    watched.events("").until(|batch| has(batch, 1));

    let snapshot = watched.own("POST", "snapshot");
    let name = format!("attachment; filename=\"process-{}.heapsnapshot\"", subject.pid());
    assert_eq!((snapshot.status, snapshot.header("content-disposition")), (200, Some(name.as_str())));
    let heap: Value = serde_json::from_slice(&snapshot.body).expect("a snapshot is JSON");
    assert!(heap["snapshot"]["node_count"].as_u64().unwrap() > 100);

    let before: u64 = subject.tell("collections").parse().unwrap();
    let record = std::thread::scope(|scope| {
        let recording = scope.spawn(|| watched.own("POST", "record"));
        until("it records", || {
            let (_, batch) = watched.events("").next();
            batch["actions"][2]["reason"] == "in progress"
        });
        assert_eq!(watched.own("POST", "record").status, 409, "one at a time");
        // The session begins a little later.
        while !recording.is_finished() {
            subject.tell("collect 1");
            std::thread::sleep(Duration::from_millis(100));
        }
        recording.join().unwrap()
    });
    assert_eq!(record.status, 200);
    let (processes, summary) = analyse(nettrace::Reader::new(&record.body[..]), Rules::Ours).unwrap();
    assert!(summary.ended_orderly);
    let collections = processes[0].all.count;
    let after: u64 = subject.tell("collections").parse().unwrap();
    assert!((1..=after - before).contains(&collections), "{collections}");
}

#[test]
fn a_snapshot_of_several_heaps_is_of_the_selected_one() {
    let mut subject = Subject::start();
    subject.tell("keep 100");
    subject.tell("world");
    let watched = Watched::start(subject.pid());
    let choice = watched.own("POST", "snapshot");
    assert_eq!((choice.status, choice.text().as_str()), (300, "[2, 1]"));
    let nodes = |world: u64| {
        let answer = watched.own("POST", &format!("snapshot?world={world}"));
        assert_eq!(answer.status, 200, "{}", answer.text());
        serde_json::from_slice::<Value>(&answer.body).unwrap()["snapshot"]["node_count"].as_u64().unwrap()
    };
    let (first, second) = (nodes(1), nodes(2));
    assert!(first > 100 && second < 100, "{first} and {second}");
    let none = watched.own("POST", "snapshot?world=3");
    assert!(none.status == 502 && none.text().contains("has no world 3"), "{}", none.text());
    assert_eq!(watched.own("POST", "snapshot?world=x").status, 400);
}

/// A file that is being downloaded takes room in the temporary directory, so there is one at a time.
#[test]
fn an_action_is_in_progress_until_its_file_has_been_sent() {
    let mut subject = Subject::start();
    // The file is larger than what the system keeps of an answer that is not read.
    subject.tell("keep 300000");
    let watched = Watched::start(subject.pid());
    let (host, origin) = (format!("127.0.0.1:{}", watched.port), format!("http://127.0.0.1:{}", watched.port));
    let path = format!("/{}/snapshot", watched.token);
    let mut unread = watched.open("POST", &path, &[("Host", &host), ("Origin", &origin)]);
    let mut beginning = [0; 12];
    unread.read_exact(&mut beginning).unwrap();
    assert_eq!(&beginning, b"HTTP/1.1 200");
    let reason = |watched: &Watched| watched.events("").next().1["actions"][1]["reason"].clone();
    assert_eq!(reason(&watched), "in progress");
    let second = watched.own("POST", "snapshot");
    assert_eq!((second.status, second.text().as_str()), (409, "this is in progress already\n"));
    drop(unread);
    until("it can be requested again", || reason(&watched) == Value::Null);
}

/// Only a collection that was requested answers a request, when it has ended in its own world.
#[rstest]
#[case::not_ended(&[], 502)]
#[case::another_world(&[(1, 3)], 502)]
#[case::ended(&[(0, 3)], 204)]
fn a_request_is_answered_by_a_requested_collection(#[case] ends: &[(u16, u32)], #[case] status: u16) {
    let start = |count, reason| GCStart {
        count,
        depth: 2,
        reason,
        kind: CollectionType::NonConcurrentGC,
        client_sequence_number: 0,
    };
    let end = |count| GCEnd { count, depth: 2 };
    let mut written = Written::new(true);
    // One that had begun before the session, one of the collector's own, and one that was requested.
    written.event(10, 1, 0, &end(1));
    written.event(20, 1, 0, &start(2, Reason::AllocSmall)).event(30, 1, 0, &end(2));
    written.event(40, 1, 0, &start(3, Reason::Induced));
    for (world, count) in ends {
        written.event(50, 1, *world, &end(*count));
    }
    let mut played = Played::start_with(written.end());
    let watched = Watched::start(played.pid());
    let answer = std::thread::scope(|scope| {
        let asking = scope.spawn(|| watched.own("POST", "collect"));
        if status == 502 {
            let in_progress = |watched: &Watched| watched.events("").next().1["actions"][0]["reason"] == "in progress";
            until("the request is in progress", || in_progress(&watched));
            std::thread::sleep(Duration::from_millis(300));
            assert!(in_progress(&watched), "nothing has answered it");
            played.end();
        }
        asking.join().unwrap()
    });
    assert_eq!(answer.status, status, "{answer:?}");
}

/// Streams that are not read have no queue, and cost the process nothing.
#[test]
fn clients_that_do_not_read_cost_nothing() {
    let mut subject = Subject::start();
    let watched = Watched::start(subject.pid());
    let stalled: Vec<_> = (0..16).map(|_| watched.events("")).collect();
    let refused = watched.own("GET", "events");
    assert_eq!((refused.status, refused.text().as_str()), (503, "too many pages are open: close one\n"));
    subject.tell("collect 500");
    let before = resident_kib(watched.pid());
    subject.tell("collect 2000");
    drop(stalled);
    until("there is room again", || watched.own("HEAD", "events").status == 200);
    let (_, pauses) = watched.events("").until(|batch| has(batch, 2500));
    assert_eq!(pauses.len(), 2500);
    let (_, batch) = watched.events("").next();
    assert_eq!(batch["lost"], 0, "the process has lost no event");
    let grown = resident_kib(watched.pid()).saturating_sub(before);
    assert!(grown < 32 << 10, "{grown} KiB");
}

/// Other users of the machine can connect as often as they like: neither the page nor its stream notices it.
#[test]
fn clients_without_the_token_cannot_keep_the_page_out() {
    let mut subject = Subject::start();
    let watched = Watched::start(subject.pid());
    let mut stream = watched.events("");
    let connect = || TcpStream::connect(("127.0.0.1", watched.port)).unwrap();
    let request = format!("GET /events HTTP/1.1\r\nHost: 127.0.0.1:{}\r\n\r\n", watched.port);

    let mut refused = connect();
    refused.set_read_timeout(Some(PATIENCE)).unwrap();
    refused.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    refused.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 403 ") && answer.contains("connection: close\r\n"), "{answer}");

    // Some send nothing; the others send requests as long as the server takes them, and read no answer.
    let many = request.repeat(1000);
    let idle: Vec<TcpStream> = (0..80).map(|_| connect()).collect();
    let unread: Vec<TcpStream> = (0..80)
        .map(|_| {
            let mut client = connect();
            client.set_write_timeout(Some(Duration::from_millis(200))).unwrap();
            while client.write_all(many.as_bytes()).is_ok() {}
            client
        })
        .collect();
    assert_eq!(watched.own("GET", "").status, 200);
    subject.tell("collect 1");
    let (_, pauses) = stream.until(|batch| has(batch, 1));
    assert_eq!((pauses.len(), idle.len(), unread.len()), (1, 80, 80));
}

#[rstest]
#[case("gcapp-3.1-collect-default.nettrace")]
#[case("gcapp-3.1-gc-info.nettrace")]
#[case("bgc-srv.nettrace")]
fn a_process_of_net_is_shown_as_its_report_has_it(#[case] name: &str) {
    let file = fixture(name);
    let mut played = Played::start(&file);
    let watched = Watched::start(played.pid());
    played.end();
    let (_, pauses) = watched.events("").until(|batch| batch["ended"] != Value::Null);
    let trace = std::fs::File::open(&file).unwrap();
    let (processes, _) = analyse(nettrace::Reader::new(trace), Rules::Ours).unwrap();
    let mut collections = 0;
    let each = processes[0].for_each(|collection, _| -> std::io::Result<()> {
        if collection.complete {
            collections += 1;
            let is_shown = pauses.iter().any(|pause| pause["number"] == collection.number);
            assert!(is_shown, "collection {}", collection.number);
        }
        Ok(())
    });
    each.unwrap();
    assert!(collections > 0);
}
