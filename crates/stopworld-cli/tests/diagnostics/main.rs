//! The diagnostics socket, tested by a client that shares no code with it. The bytes are those of the protocol's description, and of
//! exchanges with a real runtime.

mod command;
#[path = "../diagnostics_support/mod.rs"]
mod diagnostics_support;
#[path = "../../../../tests/patience/mod.rs"]
mod patience;

use std::collections::BTreeMap;
use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::UnixListener;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Stdio};

use diagnostics_support::client::*;
use diagnostics_support::stream::{Stream, read};
use diagnostics_support::subject::{Subject, descriptors, ended, resident_kib, sockets, threads, until};
use patience::Watchdog;
use rstest::rstest;

/// The program of a [`Subject`]. It does nothing in the process of the tests.
#[test]
fn subject() {
    diagnostics_support::subject::live();
}

const GC: u64 = 1;
const GC_HANDLE: u64 = 2;
const INFORMATIONAL: u32 = 4;
const VERBOSE: u32 = 5;

/// Numbers of events of the runtime's provider.
const GC_START: u32 = 1;
const GC_END: u32 = 2;
const SET_HANDLE: u32 = 30;
const DESTROY_HANDLE: u32 = 31;

fn pairs(stream: &Stream) -> BTreeMap<(String, u32), usize> {
    let mut pairs = BTreeMap::new();
    for event in &stream.events {
        *pairs.entry((event.kind.provider.clone(), event.kind.event)).or_default() += 1;
    }
    pairs
}

// ---- The socket's file -----------------------------------------------------------------------------------------------------

/// `.live.owner`
#[test]
fn the_socket_is_its_owners_only_and_named_after_the_process() {
    let subject = Subject::start();
    let found = fs::symlink_metadata(&subject.client.0).unwrap();
    assert!(found.file_type().is_socket());
    assert_eq!(found.permissions().mode() & 0o777, 0o600);
    let stat = fs::read_to_string(format!("/proc/{}/stat", subject.pid())).unwrap();
    let start = stat.rsplit_once(')').unwrap().1.split_ascii_whitespace().nth(19).unwrap();
    let name = format!("dotnet-diagnostic-{}-{start}-socket", subject.pid());
    assert_eq!(sockets(subject.directory.path()), [subject.directory.path().join(name)]);
}

#[test]
fn a_stale_socket_of_its_own_name_is_removed_and_nothing_else() {
    let mut subject = Subject::start();
    let path = subject.client.0.clone();
    let other = subject.directory.path().join("dotnet-diagnostic-1-1-socket");
    drop(UnixListener::bind(&other).unwrap());
    subject.tell("close");
    assert_eq!(sockets(subject.directory.path()), std::slice::from_ref(&other), "it is removed with its last handle");
    drop(UnixListener::bind(&path).unwrap());
    assert_eq!(subject.tell("open"), path.display().to_string());
    assert_eq!(subject.client.exchange(&message(4, 1, &[])), message(0xff, 0, &[]));
    subject.tell("close");
    fs::write(&path, "mine").unwrap();
    let refusal = subject.tell("open");
    assert!(refusal.contains("can't open the diagnostics socket") && refusal.lines().count() == 1, "{refusal}");
    assert_eq!(fs::read_to_string(&path).unwrap(), "mine", "a file that is no socket is not removed");
    assert!(other.exists());
}

#[rstest]
fn the_environment_turns_it_off(
    #[values("DOTNET_EnableDiagnostics", "DOTNET_EnableDiagnostics_IPC", "COMPlus_EnableDiagnostics")] name: &str,
) {
    let mut subject = Subject::start_with(|command| {
        command.env(name, "0");
    });
    assert_eq!(
        subject.client.0.to_str().unwrap(),
        format!("{name}=0 in the environment turns the diagnostics socket off")
    );
    assert_eq!(subject.tell("collect"), "done");
    assert!(sockets(subject.directory.path()).is_empty());
}

#[test]
fn a_path_that_is_too_long_is_one_line_and_the_program_runs_on() {
    let directory = tempfile::tempdir().unwrap();
    let deep = directory.path().join("d".repeat(100));
    fs::create_dir(&deep).unwrap();
    let mut subject = Subject::start_with(|command| {
        command.env("TMPDIR", &deep);
    });
    let line = subject.client.0.to_str().unwrap().to_owned();
    assert!(line.contains("TMPDIR") && line.contains("107"), "{line}");
    assert_eq!(subject.tell("collect"), "done");
}

// ---- Requests and answers ------------------------------------------------------------------------------------------------

#[test]
fn the_process_identifies_itself_in_three_versions() {
    let subject = Subject::start();
    let ask = |id| subject.client.exchange(&message(4, id, &[]));
    let first = ask(0);
    let cookie = &first[28..44];
    assert_ne!(cookie, [0; 16]);
    let executable = std::env::current_exe().unwrap();
    let line = format!("{} subject --exact --nocapture", executable.display());
    let name = executable.file_name().unwrap().to_str().unwrap();
    let one =
        [&u64::from(subject.pid()).to_le_bytes()[..], cookie, &text(&line), &text("Linux"), &text("x64")].concat();
    let two = [&one[..], &text(name), &text(env!("CARGO_PKG_VERSION"))].concat();
    let three = [&1u32.to_le_bytes()[..], &two, &text("linux-x64")].concat();
    assert_eq!(first, message(0xff, 0, &one));
    assert_eq!(ask(4), message(0xff, 0, &two));
    assert_eq!(ask(8), message(0xff, 0, &three));
}

#[test]
fn the_worked_exchanges_are_answered_byte_for_byte() {
    let subject = Subject::start();
    let exchange = |request: &[u8]| subject.client.exchange(request);
    assert_eq!(exchange(b"DOTNET_IPC_V1\0\x14\0\x04\x01\0\0"), b"DOTNET_IPC_V1\0\x14\0\xff\0\0\0", "ResumeRuntime");
    assert_eq!(
        exchange(b"DOTNET_IPC_V1\0\x1c\0\x02\x01\0\0\x30\x20\0\xb8\x7e\x7f\0\0"),
        b"DOTNET_IPC_V1\0\x1c\0\xff\0\0\0\x30\x20\0\xb8\x7e\x7f\0\0",
        "StopTracing of an unknown session returns its number"
    );
    // CollectTracing2, 256 MB, format 1, rundown, the collections: 117 bytes.
    let mut request = b"DOTNET_IPC_V1\0\x75\0\x02\x03\0\0\0\x01\0\0\x01\0\0\0\x01\x01\0\0\0".to_vec();
    request.extend(b"\x01\0\0\0\0\0\0\0\x04\0\0\0\x20\0\0\0");
    RUNTIME.encode_utf16().chain([0]).for_each(|unit| request.extend(unit.to_le_bytes()));
    request.extend([0; 4]);
    assert_eq!(request.len(), 117);
    let mut stream = subject.client.connect();
    stream.write_all(&request).unwrap();
    let mut reply = [0; 28 + 102];
    stream.read_exact(&mut reply).unwrap();
    assert_eq!(reply[..20], *b"DOTNET_IPC_V1\0\x1c\0\xff\0\0\0");
    assert_ne!(reply[20..28], [0; 8]);
    let head = &reply[28..];
    assert_eq!(head[..32], *b"Nettrace\x14\0\0\0!FastSerialization.1");
    assert_eq!(head[32..53], *b"\x05\x05\x01\x04\0\0\0\x04\0\0\0\x05\0\0\0Trace\x06");
    assert_eq!(head[85..93], [&8u32.to_le_bytes()[..], &subject.pid().to_le_bytes()].concat());
    assert_eq!(head[97..102], [0x40, 0x42, 0x0f, 0, 6]);
}

#[test]
fn each_error_has_its_number_and_the_connection_ends() {
    let subject = Subject::start();
    let collections = [ask(RUNTIME, GC, INFORMATIONAL)];
    let good = collect(2, 16, true, &collections);
    let with = |at: usize, value: u8| {
        let mut payload = good.clone();
        payload[at] = value;
        message(2, 3, &payload)
    };
    let without_nul = [&good[..21], &[3, 0, 0, 0][..], b"a\0b\0c\0", &[0; 4]].concat();
    let nameless = collect(2, 16, true, &[ask("", GC, INFORMATIONAL)]);
    let mut wrong_magic = message(4, 0, &[]);
    wrong_magic[12] = b'9';
    let mut too_small = message(4, 0, &[]);
    too_small[14] = 10;
    let mut reserved = message(2, 3, &[&16u32.to_le_bytes()[..], &1u32.to_le_bytes(), &[1, 0, 0, 0, 0]].concat());
    reserved[18] = 7;
    let user_events = {
        let mut payload = collect(5, 16, false, &collections);
        payload[0] = 1;
        message(2, 6, &payload)
    };
    let cases: Vec<(&str, Vec<u8>, u32)> = vec![
        ("an unknown command set", message(0x77, 1, &[]), UNKNOWN_COMMAND),
        ("an unknown command of the event pipe", message(2, 0x7f, &[]), UNKNOWN_COMMAND),
        ("a seventh CollectTracing", message(2, 8, &good), UNKNOWN_COMMAND),
        ("an unknown command of profilers", message(3, 0x7f, &[]), UNKNOWN_COMMAND),
        ("an unknown command of dumps", message(1, 0x7f, &[]), UNKNOWN_COMMAND),
        ("an unknown command of the process", message(4, 9, &[]), UNKNOWN_COMMAND),
        ("another magic", wrong_magic, UNKNOWN_MAGIC),
        ("less than a header", too_small, BAD_ENCODING),
        ("StopTracing cut off", message(2, 1, &[1, 2]), BAD_ENCODING),
        ("no providers", message(2, 3, &[&good[..9], &[0; 4]].concat()), BAD_ENCODING),
        ("no providers, reserved bytes set", reserved, BAD_ENCODING),
        ("more providers than there are", with(9, 2), BAD_ENCODING),
        ("no memory", with(0, 0), BAD_ENCODING),
        ("an unknown format", with(4, 9), BAD_ENCODING),
        ("the previous format", with(4, 0), NOT_SUPPORTED),
        ("an unknown level", with(21, 9), BAD_ENCODING),
        ("a string without its end", message(2, 3, &without_nul), BAD_ENCODING),
        ("a provider without a name", message(2, 3, &nameless), BAD_ENCODING),
        ("the kernel's user events", user_events, NOT_SUPPORTED),
        ("GenerateCoreDump", message(1, 1, &[]), NOT_SUPPORTED),
        ("GenerateCoreDump3", message(1, 3, &[]), NOT_SUPPORTED),
        ("AttachProfiler", message(3, 1, &[]), NOT_SUPPORTED),
        ("ProcessEnvironment", message(4, 2, &[]), NOT_SUPPORTED),
        ("SetEnvironmentVariable", message(4, 3, &[]), NOT_SUPPORTED),
        ("EnablePerfMap", message(4, 5, &[]), NOT_SUPPORTED),
        ("ApplyStartupHook", message(4, 7, &[]), NOT_SUPPORTED),
    ];
    for (what, request, number) in cases {
        assert_eq!(subject.client.exchange(&request), error(number), "{what}");
    }
    // Requests that are cut off.
    let whole = message(2, 3, &good);
    for cut in [0, 1, 13, 19, 20, 30, whole.len() - 1] {
        assert_eq!(subject.client.exchange_cut(&whole[..cut]), error(BAD_ENCODING), "{cut} bytes");
    }
}

// ---- Sessions ------------------------------------------------------------------------------------------------------------

#[test]
fn a_session_has_the_collections_and_ends_as_it_should() {
    let mut subject = Subject::start();
    let session = subject.client.watch(&[ask(RUNTIME, GC, INFORMATIONAL)]);
    subject.tell("collect 5");
    let bytes = subject.client.end(session);
    assert!(bytes.ends_with(&[6, 1]));
    let stream = read(&bytes);
    assert!(stream.whole && stream.all_lost() == 0 && stream.pid == subject.pid());
    let counts = stream.counts(RUNTIME);
    assert_eq!((counts[&GC_START], counts[&GC_END]), (5, 5));
    assert_eq!(stream.providers(), [RUNTIME], "only the requested provider is present");
    for event in stream.events.iter().filter(|event| event.kind.provider == RUNTIME) {
        assert!(event.kind.level <= INFORMATIONAL && event.kind.keywords & GC != 0, "{event:?}");
    }
    let process = stream.events.iter().find(|event| event.kind.name == "ProcessInfo").unwrap();
    assert_eq!(process.kind.provider, "Microsoft-DotNETCore-EventPipe");
}

#[rstest]
fn each_version_of_the_request_starts_a_session(#[values(1, 2, 3, 4, 5, 6)] version: u8) {
    let mut subject = Subject::start();
    let session = subject.client.begin(version, &collect(version, 16, false, &[ask(RUNTIME, GC, INFORMATIONAL)]));
    subject.tell("collect");
    let stream = read(&subject.client.end(session));
    assert!(stream.whole);
    assert_eq!(stream.counts(RUNTIME)[&GC_START], 1);
}

#[test]
fn events_arrive_while_the_session_runs() {
    let mut subject = Subject::start();
    let (id, mut stream) = subject.client.open(2, &collect(2, 16, false, &[ask(RUNTIME, GC, INFORMATIONAL)]));
    let mut bytes = Vec::new();
    for number in 1..=3 {
        subject.tell("collect");
        until("the collection is seen", || {
            let mut buffer = [0; 4096];
            let count = stream.read(&mut buffer).unwrap();
            bytes.extend(&buffer[..count]);
            read(&bytes).counts(RUNTIME).get(&GC_END) == Some(&number)
        });
    }
    subject.client.stop(id);
}

/// `.live.exact`
#[test]
fn two_sessions_get_what_each_asks_for() {
    let mut subject = Subject::start();
    let collections = subject.client.watch(&[ask(RUNTIME, GC, INFORMATIONAL)]);
    let handles = subject.client.watch(&[ask(RUNTIME, GC_HANDLE, INFORMATIONAL)]);
    let own = subject.client.watch(&[ask(OWN, u64::MAX, INFORMATIONAL), ask("Nobody", u64::MAX, VERBOSE)]);
    let only = ask(RUNTIME, GC | GC_HANDLE, VERBOSE);
    let only = |enable, ids: &[u32]| ask_filtered(&only, enable, ids);
    let ends = subject.client.begin(5, &collect(5, 16, false, &[only(true, &[GC_END, SET_HANDLE])]));
    let none = subject.client.begin(5, &collect(5, 16, false, &[only(true, &[])]));
    let fatal = subject.client.watch(&[ask(RUNTIME, GC | GC_HANDLE, 1)]);
    subject.tell("collect 3");
    subject.tell("root 4");
    let [collections, handles, own, ends, none, fatal] =
        [collections, handles, own, ends, none, fatal].map(|session| read(&subject.client.end(session)));
    assert!([&collections, &handles, &own, &ends, &none, &fatal].iter().all(|one| one.whole && one.all_lost() == 0));
    assert_eq!(collections.providers(), [RUNTIME]);
    assert_eq!(collections.counts(RUNTIME)[&GC_START], 3);
    assert!(!collections.counts(RUNTIME).contains_key(&SET_HANDLE));
    assert_eq!(handles.counts(RUNTIME), BTreeMap::from([(SET_HANDLE, 4), (DESTROY_HANDLE, 4)]));
    assert_eq!(handles.providers(), [RUNTIME]);
    assert_eq!(own.providers(), [OWN]);
    assert_eq!(ends.counts(RUNTIME), BTreeMap::from([(GC_END, 3), (SET_HANDLE, 4)]));
    assert_eq!(ends.providers(), [RUNTIME]);
    assert!(none.providers().is_empty() && fatal.providers().is_empty(), "{:?}", pairs(&none));
}

fn ask_filtered(like: &Ask, enable: bool, ids: &[u32]) -> Ask {
    Ask { filter: (enable, ids.to_vec()), ..like.clone() }
}

/// The limit of the subject's heap, which is among the settings in a rundown.
#[test]
fn a_rundown_has_the_version_and_the_settings() {
    const SETTINGS: u32 = 10;
    let mut subject = Subject::start();
    let session = subject.client.begin(2, &collect(2, 16, true, &[ask(RUNTIME, GC, INFORMATIONAL)]));
    subject.tell("collect");
    let stream = read(&subject.client.end(session));
    let rundown = "Microsoft-Windows-DotNETRuntimeRundown";
    assert_eq!(stream.providers(), [RUNTIME, rundown, OWN]);
    // The names of the threads, which had attached before.
    let named: Vec<&str> =
        stream.events.iter().filter(|event| event.kind.provider == OWN).map(|event| event.kind.name.as_str()).collect();
    assert!(!named.is_empty() && named.iter().all(|name| *name == "ThreadAttached"), "{named:?}");
    let settings =
        stream.events.iter().find(|event| event.kind.provider == rundown && event.kind.event == SETTINGS).unwrap();
    assert_eq!(settings.payload[..8], (64u64 << 20).to_le_bytes());
}

#[test]
fn a_later_world_is_seen_from_its_first_event_on() {
    let mut subject = Subject::start();
    let session = subject.client.watch(&[ask(RUNTIME, GC, INFORMATIONAL), ask(PRIVATE, GC, INFORMATIONAL)]);
    subject.tell("world");
    subject.tell("collect-more");
    let stream = read(&subject.client.end(session));
    assert_eq!(stream.counts(RUNTIME)[&GC_START], 1);
    assert_eq!(stream.counts(PRIVATE).values().sum::<usize>(), 1, "its settings, which it emits when it is created");
}

#[test]
fn a_session_that_enables_the_keyword_for_it_triggers_a_collection() {
    let mut subject = Subject::start();
    let session = subject.client.watch(&[ask(RUNTIME, GC | 0x80_0000, INFORMATIONAL)]);
    until("it has collected", || subject.tell("collections") == "1");
    let stream = read(&subject.client.end(session));
    assert_eq!(stream.counts(RUNTIME)[&GC_START], 1);
}

/// The session triggers the collection whose events describe the heap, as dotnet-gcdump's session does.
#[test]
fn a_heap_dump_is_obtained_by_requesting_a_collection() {
    const BULK_NODE: u32 = 18;
    let mut subject = Subject::start();
    subject.tell("keep 3000");
    let session = subject.client.watch(&[ask(RUNTIME, GC | 0x8_0000 | 0x10_0000 | 0x80_0000, VERBOSE)]);
    until("it has collected", || subject.tell("collections") == "1");
    let stream = read(&subject.client.end(session));
    assert_eq!((stream.counts(RUNTIME)[&GC_END], stream.all_lost()), (1, 0));
    let nodes = stream.events.iter().filter(|event| event.kind.provider == RUNTIME && event.kind.event == BULK_NODE);
    let counts = nodes.map(|event| {
        let count = u32::from_le_bytes(event.payload[4..8].try_into().unwrap());
        assert_eq!(event.payload.len(), 10 + 32 * count as usize);
        count
    });
    let nodes: u32 = counts.sum();
    // PerfView and dotnet-gcdump read the dump of an induced full collection only.
    let start =
        stream.events.iter().find(|event| event.kind.provider == RUNTIME && event.kind.event == GC_START).unwrap();
    let words: Vec<u32> =
        start.payload[..16].chunks_exact(4).map(|word| u32::from_le_bytes(word.try_into().unwrap())).collect();
    assert_eq!(words, [1, 2, 1, 0], "number, generation, induced, not in the background");
    assert!((3000..3200).contains(&nodes), "{nodes} objects");
}

#[test]
fn no_more_sessions_than_the_recorder_has_places_for() {
    let mut subject = Subject::start();
    let collections = [ask(RUNTIME, GC, INFORMATIONAL)];
    let running: Vec<Session> = (0..8).map(|_| subject.client.watch(&collections)).collect();
    let one_more = message(2, 3, &collect(2, 16, false, &collections));
    assert_eq!(subject.client.exchange(&one_more), error(FAIL));
    subject.tell("collect");
    for session in running {
        assert_eq!(read(&subject.client.end(session)).counts(RUNTIME)[&GC_START], 1);
    }
    let again = subject.client.watch(&collections);
    assert!(read(&subject.client.end(again)).whole);
}

// ---- Clients that behave badly -------------------------------------------------------------------------------------------

#[test]
fn a_client_that_vanishes_ends_its_session() {
    let mut subject = Subject::start();
    let before = (threads(subject.pid()), descriptors(subject.pid()));
    let mut gone = Vec::new();
    for _ in 0..3 {
        let (id, stream) = subject.client.open(2, &collect(2, 16, false, &[ask(RUNTIME, GC, VERBOSE)]));
        subject.tell("collect");
        drop(stream);
        gone.push(id);
    }
    // The recorder's thread stays.
    until("its thread has ended", || threads(subject.pid()) <= before.0 + 1 && descriptors(subject.pid()) == before.1);
    gone.iter().for_each(|id| subject.client.stop(*id));
    let session = subject.client.watch(&[ask(RUNTIME, GC, INFORMATIONAL)]);
    subject.tell("collect");
    assert_eq!(read(&subject.client.end(session)).counts(RUNTIME)[&GC_START], 1);
}

/// `.live.no-wait`
#[test]
fn a_client_that_does_not_read_delays_no_thread_and_loses_events() {
    const OBJECTS: u64 = 100_000;
    let mut subject = Subject::start();
    let (id, mut lazy) = subject.client.open(2, &collect(2, 1, false, &[ask(OWN, u64::MAX, VERBOSE)]));
    subject.tell(&format!("allocate {OBJECTS}"));
    let eager = subject.client.watch(&[ask(RUNTIME, GC, INFORMATIONAL)]);
    subject.tell("collect 20");
    assert_eq!(read(&subject.client.end(eager)).counts(RUNTIME)[&GC_START], 20);
    // Now the client reads.
    let reading = std::thread::spawn(move || {
        let mut bytes = Vec::new();
        lazy.read_to_end(&mut bytes).unwrap();
        bytes
    });
    subject.tell("collect");
    subject.client.stop(id);
    let stream = read(&reading.join().unwrap());
    assert!(stream.whole);
    let seen = stream.events.iter().filter(|event| event.kind.name == "ObjectAllocated").count() as u64;
    assert!(seen < OBJECTS, "no event was lost");
    assert!(seen + stream.all_lost() >= OBJECTS, "{seen} seen, {} lost", stream.all_lost());
}

#[test]
fn a_session_whose_client_never_reads_can_be_stopped() {
    let mut subject = Subject::start();
    let (id, lazy) = subject.client.open(2, &collect(2, 1, false, &[ask(OWN, u64::MAX, VERBOSE)]));
    subject.tell("allocate 200000");
    subject.client.stop(id);
    drop(lazy);
}

#[test]
fn half_a_message_delays_no_other_client_and_is_refused_in_time() {
    let subject = Subject::start();
    let halves: Vec<_> = [0, 5, 14, 19]
        .into_iter()
        .map(|count| {
            let mut stream = subject.client.connect();
            stream.write_all(&message(4, 0, &[])[..count]).unwrap();
            stream
        })
        .collect();
    let mut promised = subject.client.connect();
    promised.write_all(&message(2, 3, &[0; 400])[..100]).unwrap();
    // These clients wait for their turn; other clients do not.
    assert_eq!(subject.client.exchange(&message(4, 1, &[])), message(0xff, 0, &[]));
    for mut half in halves.into_iter().chain([promised]) {
        let mut reply = Vec::new();
        half.read_to_end(&mut reply).unwrap();
        assert_eq!(reply, error(BAD_ENCODING));
    }
}

#[test]
fn a_thousand_connects_leak_nothing() {
    let mut subject = Subject::start();
    let collections = [ask(RUNTIME, GC, INFORMATIONAL)];
    let round = |subject: &Subject, count: usize| {
        for number in 0..count {
            match number % 5 {
                0 => drop(subject.client.connect()),
                1 => drop(subject.client.exchange(&message(4, 8, &[]))),
                2 => drop(subject.client.exchange(&message(0x77, 0, &[]))),
                3 => drop(subject.client.exchange_cut(&message(4, 0, &[])[..7])),
                _ => {
                    let session = subject.client.watch(&collections);
                    assert!(read(&subject.client.end(session)).whole);
                }
            }
        }
    };
    round(&subject, 50);
    subject.tell("collect");
    let settled = |subject: &Subject, threads_then: usize, descriptors_then: usize| {
        until("its threads and files are as before", || {
            threads(subject.pid()) <= threads_then && descriptors(subject.pid()) <= descriptors_then
        });
    };
    // The subject may still have its own descriptors: those of the test, of its main thread, of the collector, of the recorder and of the
    // listener.
    until("the connections are over", || descriptors(subject.pid()) <= 16);
    let (threads_then, descriptors_then) = (threads(subject.pid()), descriptors(subject.pid()));
    let resident_then = resident_kib(subject.pid());
    round(&subject, 1000);
    settled(&subject, threads_then, descriptors_then);
    let grown = resident_kib(subject.pid()).saturating_sub(resident_then);
    assert!(grown < 16 << 10, "{grown} KiB more than before");
    assert_eq!(subject.tell("collections"), "1");
}

// ---- The end -------------------------------------------------------------------------------------------------------------

/// `.live.end`
#[rstest]
#[case("exit")]
#[case("close")]
fn sessions_end_in_order_when_the_process_does(#[case] how: &str) {
    let mut subject = Subject::start();
    let session = subject.client.watch(&[ask(RUNTIME, GC, INFORMATIONAL)]);
    subject.tell("collect 2");
    subject.order(how);
    let stream = read(&session.reading.join().unwrap());
    assert!(stream.whole);
    assert_eq!(stream.counts(RUNTIME)[&GC_END], 2);
    if how == "exit" {
        assert_eq!(subject.ended().code(), Some(7));
    }
    until("the file is removed", || sockets(subject.directory.path()).is_empty());
}

#[test]
fn a_killed_process_leaves_a_stream_without_end() {
    let mut subject = Subject::start();
    let session = subject.client.watch(&[ask(RUNTIME, GC, INFORMATIONAL)]);
    subject.tell("collect");
    subject.child.kill().unwrap();
    assert_eq!(subject.ended().signal(), Some(9));
    assert!(!read(&session.reading.join().unwrap()).whole);
    assert_eq!(sockets(subject.directory.path()).len(), 1);
}

/// `.fork.services`, `.live.end`: the child has neither the server nor the connections, and does not remove its parent's file.
#[test]
fn the_child_of_a_fork_has_no_server_and_no_connections() {
    let _watchdog = Watchdog::new("the child of the fork does not end", 300, 15);
    let mut subject = Subject::start();
    let session = subject.client.watch(&[ask(RUNTIME, GC, INFORMATIONAL)]);
    subject.tell("fork-and-exit");
    assert_eq!(sockets(subject.directory.path()).len(), 1, "the child's exit removes its own file only");
    let child: i32 = subject.tell("fork").parse().unwrap();
    subject.tell("collect");
    let is_socket =
        |path: std::path::PathBuf| fs::read_link(path).is_ok_and(|to| to.to_string_lossy().starts_with("socket:"));
    // The parent may return from the fork before the child has done anything.
    until("the child has no socket", || {
        let mut open = fs::read_dir(format!("/proc/{child}/fd")).unwrap();
        !open.any(|entry| is_socket(entry.unwrap().path()))
    });
    subject.order("exit");
    let stream = read(&session.reading.join().unwrap());
    assert!(stream.whole, "the stream ends with the parent although the child is alive");
    assert_eq!(stream.counts(RUNTIME)[&GC_START], 1);
    subject.ended();
    // SAFETY: a plain system call; the subject started this process.
    unsafe { libc::kill(child, libc::SIGKILL) };
}

#[test]
fn its_threads_block_all_signals() {
    let subject = Subject::start();
    let session = subject.client.watch(&[ask(RUNTIME, GC, INFORMATIONAL)]);
    let mut seen = 0;
    for entry in fs::read_dir(format!("/proc/{}/task", subject.pid())).unwrap() {
        let task = entry.unwrap().path();
        let name = fs::read_to_string(task.join("comm")).unwrap_or_default();
        if !name.starts_with("stopworld-diag") && !name.starts_with("stopworld-clien") {
            continue;
        }
        seen += 1;
        let status = fs::read_to_string(task.join("status")).unwrap();
        let blocked = status.lines().find_map(|line| line.strip_prefix("SigBlk:")).unwrap().trim();
        let blocked = u64::from_str_radix(blocked, 16).unwrap();
        let ordinary = [libc::SIGINT, libc::SIGTERM, libc::SIGURG, libc::SIGUSR1, libc::SIGPIPE];
        assert!(ordinary.iter().all(|signal| blocked >> (signal - 1) & 1 == 1), "{name}: {blocked:#x}");
    }
    // The threads are the listener, one thread for the session, and perhaps one that has no name yet.
    assert!(seen >= 2, "{seen}");
    subject.client.end(session);
}

// ---- Counters ------------------------------------------------------------------------------------------------------------

/// Parses the payload of a counter event in either known layout.
fn counter(payload: &[u8]) -> (String, String, f64, String, String) {
    let mut at = 0;
    let z16 = |at: &mut usize| {
        let units: Vec<u16> = payload[*at..]
            .chunks_exact(2)
            .map(|unit| u16::from_le_bytes(unit.try_into().unwrap()))
            .take_while(|unit| *unit != 0)
            .collect();
        *at += 2 * units.len() + 2;
        String::from_utf16(&units).unwrap()
    };
    let double = |at: &mut usize| {
        *at += 8;
        f64::from_le_bytes(payload[*at - 8..*at].try_into().unwrap())
    };
    let (name, _display) = (z16(&mut at), z16(&mut at));
    // In this layout the interval is a text for a sum, and a number for a mean.
    let (value, series, kind) = if payload[at..].starts_with(b"0\x000\x00:\x00") {
        z16(&mut at);
        let value = double(&mut at);
        at += 4;
        assert_eq!(z16(&mut at), "");
        (value, z16(&mut at), z16(&mut at))
    } else {
        let value = double(&mut at);
        assert_eq!(double(&mut at), 0.0);
        at += 4;
        assert_eq!((double(&mut at), double(&mut at)), (value, value));
        at += 4;
        let (series, kind) = (z16(&mut at), z16(&mut at));
        assert_eq!(z16(&mut at), "");
        (value, series, kind)
    };
    let units = z16(&mut at);
    assert_eq!(at, payload.len(), "{name}: nothing is left over");
    (name, kind, value, series, units)
}

fn counters(interval: &'static str) -> Ask {
    Ask { arguments: interval, ..ask("System.Runtime", 0, 1) }
}

#[test]
fn counters_arrive_at_their_interval_and_add_up() {
    let mut subject = Subject::start();
    let (id, mut stream) = subject.client.open(3, &collect(3, 16, false, &[counters("EventCounterIntervalSec=0.1")]));
    subject.tell("collect 6");
    let (mut bytes, mut rounds) = (Vec::new(), 0);
    let mut told = Vec::new();
    until("the collections are counted", || {
        let mut buffer = [0; 4096];
        let count = stream.read(&mut buffer).unwrap();
        bytes.extend(&buffer[..count]);
        let stream = read(&bytes);
        let events = stream.events.iter().filter(|event| event.kind.provider == "System.Runtime");
        told = events.map(|event| counter(&event.payload)).collect();
        let collections: Vec<f64> =
            told.iter().filter(|(name, ..)| name == "gen-2-gc-count").map(|(_, _, value, ..)| *value).collect();
        rounds = collections.len();
        rounds >= 2 && collections.iter().sum::<f64>() == 6.0
    });
    assert!(told.iter().all(|(_, _, _, series, _)| series == "Interval=100"));
    let value = |name: &str| told.iter().rev().find(|one| one.0 == name).unwrap_or_else(|| panic!("{name}"));
    for name in ["gc-heap-size", "time-in-gc", "gen-0-size", "loh-size", "poh-size", "gc-fragmentation", "cpu-usage"] {
        let (_, kind, value, ..) = value(name);
        assert!(kind == "Mean" && *value >= 0.0, "{name}");
    }
    for name in ["gen-0-gc-count", "gen-1-gc-count", "alloc-rate", "total-pause-time-by-gc"] {
        assert_eq!(value(name).1, "Sum", "{name}");
    }
    assert_eq!((value("gc-committed").4.as_str(), value("alloc-rate").4.as_str()), ("MB", "B"));
    assert!(value("working-set").2 > 1.0 && value("gc-committed").2 >= 0.0);
    assert_eq!(value("thread-count").2, 1.0);
    subject.client.stop(id);
    let stream = read(&bytes);
    let kinds = stream.events.iter().filter(|event| event.kind.provider == "System.Runtime").map(|event| &event.kind);
    for kind in kinds {
        assert_eq!((kind.name.as_str(), kind.keywords, kind.version, kind.level), ("EventCounters", 0, 0, 0));
        let fields = kind.fields[16];
        assert!(fields == 12 || fields == 9);
        assert_eq!(kind.fields[..20], [1, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, fields, 0, 0, 0]);
        let payload: Vec<u8> = "Payload\0\0".encode_utf16().flat_map(u16::to_le_bytes).collect();
        assert!(kind.fields.ends_with(&payload));
    }
}

#[rstest]
#[case("")]
#[case("EventCounterIntervalSec=0")]
#[case("EventCounterIntervalSec=often")]
fn without_an_interval_there_are_no_counters(#[case] arguments: &'static str) {
    let mut subject = Subject::start();
    let session = subject.client.watch(&[
        counters(arguments),
        Ask { arguments: "Metrics=System.Runtime;RefreshInterval=1", ..ask("System.Diagnostics.Metrics", 2, 4) },
        ask(RUNTIME, GC, INFORMATIONAL),
    ]);
    subject.tell("collect");
    assert_eq!(read(&subject.client.end(session)).providers(), [RUNTIME]);
}
