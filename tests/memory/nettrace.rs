//! Memory depends neither on the contents of a file nor on its length (`.format.hostile`).

use std::io::Read;

use crate::memory_support::{Pieces, alone, measured};
use crate::nettrace_support;
use crate::nettrace_support::{Block, Event, Form, Type, Writer};
use nettrace::{NetEvent, Reader, Summary, Visitor};

const LIMIT: usize = 96 << 20;

#[derive(Default)]
struct Count {
    events: u64,
    bytes: u64,
}

impl Visitor for Count {
    fn event(&mut self, event: &NetEvent<'_>) {
        self.events += 1;
        self.bytes += event.payload.len() as u64;
    }
}

/// Reads, and returns the peak memory.
fn counted(input: impl Read) -> (Count, Summary, usize) {
    let mut count = Count::default();
    let (summary, most) = measured(|| Reader::new(input).with_stacks().read(&mut count));
    (count, summary, most)
}

fn one_type() -> Block {
    Block::Types(vec![Type { id: 1, provider: "P".into(), event: 5, ..Type::default() }])
}

fn event(sequence: u32, thread: u64, time: i64, payload: usize) -> Event {
    let payload = vec![7; payload];
    Event { kind: 1, sequence, thread, capture: thread, time, payload, ..Event::default() }
}

/// A file of version 6, whose blocks do not depend on their position.
fn blocks(mut next: impl FnMut(u32) -> Block, count: u32) -> impl Read {
    let mut begin = Writer::new(Form::V6, 8);
    begin.add(&one_type());
    begin.add(&Block::Threads((0..4).map(|n| (nettrace_support::index_of(n * 2), String::new(), 7, n * 2)).collect()));
    let mut done = 0;
    Pieces::new(begin.bytes, move || {
        done += 1;
        if done > count {
            return (done == count + 1).then(|| vec![0; 4]);
        }
        let mut writer = Writer::new(Form::V6, 8);
        let begin = writer.bytes.len();
        writer.add(&next(done - 1));
        Some(writer.bytes.split_off(begin))
    })
}

#[test]
fn false_sizes_take_no_memory() {
    let _alone = alone();
    let mut writer = Writer::new(Form::V4, 8);
    writer.add(&one_type());
    writer.add(&Block::Events(vec![event(1, 4, 10, 3)]));
    let mut bytes = writer.bytes;
    // The sizes of the block and of the event become as large as possible.
    let body = bytes.windows(4).rposition(|window| window == [0xEE; 4]).unwrap() - 20;
    let size = body / 4 * 4 - 4 - (body - body / 4 * 4);
    bytes[size..size + 4].copy_from_slice(&(u32::MAX).to_le_bytes());
    let (_, summary, most) = counted(&bytes[..]);
    assert!(summary.damage.is_some());
    assert!(most < 1 << 20, "{most}");
}

/// The file has neither flags nor sequence points, so it never guarantees that all earlier events have been read.
#[test]
fn a_file_without_ordering_guarantees_is_not_kept_in_memory() {
    let _alone = alone();
    let mut sequence = 0;
    let next = |block: u32| {
        let events = (0..1000u32).map(|index| {
            let thread = u64::from(index / 250 * 2);
            if index % 250 == 0 {
                sequence = block * 250;
            }
            sequence += 1;
            event(sequence, thread, i64::from(block * 1000 + index % 250), 60)
        });
        Block::Events(events.collect())
    };
    let (count, summary, most) = counted(blocks(next, 2000));
    assert_eq!((count.events, summary.damage, summary.lost), (2_000_000, None, 0));
    // The events are delivered in order nevertheless, because events far apart in the file are far apart in time.
    assert_eq!(summary.late, 0);
    assert!(most < LIMIT, "{most}");
}

#[test]
fn large_payloads_that_wait_take_bounded_memory() {
    let _alone = alone();
    let (count, summary, most) =
        counted(blocks(|block| Block::Events(vec![event(block + 1, 0, block.into(), 1 << 20)]), 200));
    assert_eq!((count.events, count.bytes, summary.damage), (200, 200 << 20, None));
    assert!(most < LIMIT, "{most}");
}

#[test]
fn endless_stacks_labels_types_and_threads_take_bounded_memory() {
    let _alone = alone();
    let stacks = |block: u32| Block::Stacks(1 + block * 1000, vec![vec![1; 80]; 1000]);
    let labels = |block: u32| Block::Labels(1 + block * 1000, vec![[&[0x81][..], &[5; 16]].concat(); 1000]);
    let types = |block: u32| {
        let kind = |id| Type { id, provider: "Provider".into(), fields: vec![("f".into(), 8); 50], ..Type::default() };
        Block::Types((2 + block * 100..102 + block * 100).map(kind).collect())
    };
    let threads = |block: u32| {
        let first = 1000 + u64::from(block) * 1000;
        Block::Threads((first..first + 1000).map(|index| (index, "a name".into(), 7, index)).collect())
    };
    for (what, most) in [
        ("stacks", counted(blocks(stacks, 1000))),
        ("label lists", counted(blocks(labels, 1000))),
        ("descriptions of types", counted(blocks(types, 1000))),
        ("threads", counted(blocks(threads, 1000))),
    ]
    .map(|(what, (_, summary, most))| {
        assert!(summary.ended_orderly, "{what}");
        assert_eq!(summary.damage.is_some(), what != "threads", "{what}");
        (what, most)
    }) {
        assert!(most < LIMIT, "{what}: {most}");
    }
}

/// Version 4 cannot express that a thread has ended.
#[test]
fn threads_that_start_and_exit_take_bounded_memory() {
    let _alone = alone();
    let mut writer = Writer::new(Form::V4, 8);
    writer.add(&one_type());
    for block in 0..300u64 {
        let events = (0..1000).map(|index| event(1, block * 1000 + index, (block * 1000 + index) as i64, 4));
        writer.add(&Block::Events(events.collect()));
    }
    let bytes = writer.end();
    let (count, summary, most) = counted(&bytes[..]);
    assert_eq!((count.events, summary.damage, summary.lost, summary.late), (300_000, None, 0, 0));
    assert!(most < LIMIT, "{most}");
}

/// A field has at least three bytes in the file; a description has at most a mebibyte.
#[test]
fn descriptions_of_many_fields_take_bounded_memory() {
    let _alone = alone();
    let mut writer = Writer::new(Form::V4, 8);
    for id in 1..60 {
        let fields = vec![(String::new(), 8); 170_000];
        writer.add(&Block::Types(vec![Type { id, provider: "P".into(), fields, ..Type::default() }]));
    }
    let bytes = writer.end();
    let (_, summary, most) = counted(&bytes[..]);
    assert!(summary.damage.is_some());
    assert!(most < LIMIT, "{most}");
}
