//! The parsers of both sides of the socket, for `fuzz/`.

use super::counters::{self, Schedule};
use super::message::{COLLECT_TRACING, HEADER_BYTES, Header, Payload, message, set};
use super::request::{self, Collect};
use super::{address, client};

/// Parses bytes as a server parses a request, and as a client parses a reply.
pub fn diagnostics_message(bytes: &[u8]) {
    let Some((head, rest)) = bytes.split_first_chunk::<HEADER_BYTES>() else { return };
    let Ok(header) = Header::parse(head) else { return };
    let Some(payload) = rest.get(..header.payload) else { return };
    let again = message(header.set, header.id, payload).expect("a payload taken from a message fits into a message");
    assert_eq!(again[14..18], head[14..18]);
    if header.set == set::EVENT_PIPE && COLLECT_TRACING.contains(&header.id) {
        request(header.id - 1, payload);
    }
    for id in [0, 4, 8] {
        let _ = client::info(id, payload);
    }
    let _ = (Payload::of(payload).u64(), Payload::of(payload).u32());
}

fn request(version: u8, payload: &[u8]) {
    let Ok(collect) = Collect::parse(version, payload) else { return };
    for wanted in &collect.providers {
        let _ = collect.wants(&wanted.name, 1, 1, 4);
        let Some(interval) = request::argument(&wanted.arguments, counters::INTERVAL_KEY) else { continue };
        if let Some(interval) = counters::interval(&interval) {
            let mut schedule = Schedule::new(interval, 1);
            for now in [0, 1, schedule.next_ns(), u64::MAX] {
                let _ = schedule.due(now);
            }
            let _ = schedule.series();
        }
    }
}

/// Parses the files of /proc that determine the path of a process's socket.
pub fn process_files(bytes: &[u8]) {
    let _ = (address::start_time(bytes), address::temporary(bytes), address::innermost(bytes));
}
