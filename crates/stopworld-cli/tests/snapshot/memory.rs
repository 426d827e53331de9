//! The memory of `stopworld snapshot`: 2 bytes for each object of a dump in the order of addresses, besides what any dump needs.

use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::command_support;
use crate::nettrace_support::{Block, Event, Form, Type, file};

const OBJECTS: u64 = 2_000_000;
const FEW_OBJECTS: u64 = 100_000;
/// The number of objects in an event.
const IN_EVENT: u64 = 1_500;
const BASE: u64 = 0x7f00_0000_0000;

/// Which object is at a place in the dump.
#[derive(Clone, Copy, Debug)]
enum Order {
    Ascending,
    /// Each page has its objects in no order.
    Mixed,
}

/// Writes a dump of objects of 32 bytes without references.
fn dump(path: &Path, objects: u64, order: Order) {
    let kind = |id| Type { id, event: id, provider: "Microsoft-Windows-DotNETRuntime".into(), ..Type::default() };
    let types = vec![Type { version: 2, ..kind(1) }, Type { version: 1, ..kind(2) }, kind(18)];
    let event = |sequence: u64, kind, payload| {
        let (thread, time) = (7, sequence as i64);
        Event {
            kind,
            sequence: sequence as u32,
            thread,
            capture: thread,
            time,
            sorted: true,
            payload,
            ..Event::default()
        }
    };
    let number = |number: u64, bytes: usize| number.to_le_bytes().into_iter().take(bytes);
    let numbers = |all: &[(u64, usize)]| all.iter().flat_map(|(n, bytes)| number(*n, *bytes)).collect::<Vec<u8>>();
    let start = event(1, 1, numbers(&[(1, 4), (2, 4), (1, 4), (0, 4), (5, 2), (0, 8)]));
    let mut blocks = vec![Block::Types(types), Block::Events(vec![start])];
    let mut sequence = 1;
    for first in (0..objects).step_by(IN_EVENT as usize) {
        let count = IN_EVENT.min(objects - first);
        let mut payload = numbers(&[(sequence - 1, 4), (count, 4), (5, 2)]);
        for index in first..first + count {
            let index = match order {
                Order::Ascending => index,
                // A permutation of each 128 objects.
                Order::Mixed => index ^ 0x55,
            };
            payload.extend(numbers(&[(BASE + 32 * index, 8), (32, 8), (0x77, 8), (0, 8)]));
        }
        sequence += 1;
        blocks.push(Block::Events(vec![event(sequence, 18, payload)]));
    }
    blocks.push(Block::Events(vec![event(sequence + 1, 2, numbers(&[(1, 4), (2, 4), (5, 2)]))]));
    File::create(path).unwrap().write_all(&file(Form::V4, 8, &blocks)).unwrap();
}

/// The peak of the memory of `stopworld snapshot` in bytes. It writes to a pipe, so it can't end before its memory has been measured.
fn peak(directory: &Path) -> u64 {
    let pipe = directory.join("pipe.hprof");
    if !pipe.exists() {
        assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    }
    // Neither opening nor reading may wait for a process that ends without opening the pipe.
    let mut output = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(&pipe).unwrap();
    let mut command = command_support::stopworld(directory, "snapshot heap.nettrace -o pipe.hprof");
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let (mut peak, mut piece) = (0, vec![0; 64 << 10]);
    loop {
        let ended = child.try_wait().unwrap();
        match (output.read(&mut piece), ended) {
            (Ok(0), Some(status)) => {
                assert!(status.success(), "{status}");
                return peak;
            }
            (Ok(0), None) => std::thread::sleep(Duration::from_millis(1)),
            (Ok(_), _) => {
                let status = fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap_or_default();
                // A process that has ended has no memory.
                let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
                let kilobytes = line.map_or(0, |line| line.trim().trim_end_matches(" kB").parse::<u64>().unwrap());
                peak = peak.max(kilobytes << 10);
            }
            (Err(error), _) if error.kind() == ErrorKind::WouldBlock => std::thread::sleep(Duration::from_millis(1)),
            (Err(error), _) => panic!("{error}"),
        }
    }
}

/// The control is a dump in which the objects of a page are in no order: its objects need 12 bytes or more, which must exceed the limit.
#[test]
fn an_object_in_order_takes_2_bytes() {
    let directory = command_support::directory();
    let directory = directory.path();
    let peak_of = |objects, order| {
        dump(&directory.join("heap.nettrace"), objects, order);
        peak(directory)
    };
    let small = peak_of(FEW_OBJECTS, Order::Ascending);
    let limit = small + 2 * (OBJECTS - FEW_OBJECTS) + (3 << 20);
    let of_2_bytes = peak_of(OBJECTS, Order::Ascending);
    let of_more = peak_of(OBJECTS, Order::Mixed);
    println!("{small} bytes for a small dump, {of_2_bytes} in order, {of_more} in no order, limit {limit}");
    assert!(of_2_bytes <= limit, "{of_2_bytes} bytes; the limit is {limit}, of which {small} are for a small dump");
    assert!(of_more > limit, "the limit {limit} does not distinguish {of_more}");
}
