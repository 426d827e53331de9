//! The target that writes events with this project's writers and reads them back with its readers.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use ghc_eventlog::read::show::{Form, Show};
use ghc_eventlog::read::{DamageKind, in_file_order};
use nettrace::fields::{Value, decode};
use nettrace::{Container, NetEvent, Reader, Visitor};
use stopworld::events::EventId;
use stopworld::events::clock::Clock;
use stopworld::events::record::{Consumer, Lost, Recorded, RecordingThread, WorldNumber};
use stopworld_trace::nettrace::Destination;

use crate::limited;

/// The maximum number of events of one input.
const MOST: usize = 4096;
const THREADS: u32 = 6;
const WORLDS: u16 = 3;

/// A call that the recorder makes to a writer.
#[derive(Debug)]
enum Step {
    Record(Recorded),
    Lost(Lost),
    Drained(u64),
    Flush,
}

/// Makes steps from the input bytes: the event number, its thread and world, its time since the previous step, its fields.
fn steps(bytes: &[u8], start: u64) -> Vec<Step> {
    let mut bytes = bytes.iter().copied();
    let mut ticks = start;
    let mut steps = Vec::new();
    while let (Some(what), Some(who), true) = (bytes.next(), bytes.next(), steps.len() < MOST) {
        let thread = u32::from(who & 7) % THREADS;
        let thread = RecordingThread { tid: 1000 + thread, index: thread };
        let world = WorldNumber(u16::from(who >> 3 & 3) % WORLDS);
        // From one tick to several seconds.
        ticks += 1 << (2 * u32::from(who >> 5) * 2).min(34);
        steps.push(match (EventId::from_index(what.into()), what) {
            (Some(id), _) => {
                let fields: Vec<u64> = id.descriptor().fields.iter().map(|_| number(&mut bytes)).collect();
                Step::Record(Recorded::new(id, ticks, thread, world, &fields))
            }
            (None, 0xff) => Step::Lost(Lost { ticks, thread, count: number(&mut bytes) >> 24 }),
            (None, 0xfe) => Step::Flush,
            (None, _) => Step::Drained(ticks),
        });
    }
    steps
}

/// Reads a number: usually one byte; after 0xff a number of 48 bits, which is enough for any size or address of a program.
fn number(bytes: &mut impl Iterator<Item = u8>) -> u64 {
    match bytes.next() {
        Some(0xff) => (0..6).fold(0, |number, _| number << 8 | u64::from(bytes.next().unwrap_or(0))),
        Some(small) => small.into(),
        None => 0,
    }
}

/// A file in memory.
#[derive(Clone, Debug, Default)]
struct Memory(Arc<Mutex<Vec<u8>>>);

impl Destination for Memory {
    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(bytes);
        Ok(())
    }
}

fn file(steps: &[Step], writer: impl FnOnce(Box<dyn Destination>) -> io::Result<Box<dyn Consumer>>) -> Vec<u8> {
    let memory = Memory::default();
    let mut writer = writer(Box::new(memory.clone())).expect("a writer in memory");
    let relation = Clock::of_process().relation();
    let mut last = relation;
    for step in steps {
        match step {
            Step::Record(record) => writer.record(record),
            Step::Lost(lost) => writer.lost(lost),
            Step::Drained(ticks) => {
                last = stopworld::events::clock::Relation { ticks: *ticks, ns: relation.ns_of(*ticks), ..relation };
                writer.drained(&last)
            }
            Step::Flush => writer.flush(),
        }
        .expect("memory takes everything");
    }
    writer.close(&last).and_then(|()| writer.closed()).expect("memory takes everything");
    drop(writer);
    let bytes = memory.0.lock().unwrap_or_else(PoisonError::into_inner);
    bytes.clone()
}

/// The events of provider `stopworld` in a trace: name, thread, numbers.
#[derive(Default)]
struct Own(Vec<(String, u64, Vec<u64>)>);

impl Visitor for Own {
    fn event(&mut self, event: &NetEvent<'_>) {
        if event.kind.provider != "stopworld" {
            return;
        }
        let decoded = decode(&event.kind.fields, event.payload);
        assert_eq!((decoded.rest.len(), decoded.ends_in), (0, None), "{:?}", event.kind);
        let numbers = decoded.fields.iter().filter_map(|(_, value)| match value {
            Value::Unsigned(number) => Some(*number),
            _ => None,
        });
        self.0.push((event.kind.name.clone(), event.thread, numbers.collect()));
    }
}

/// Returns the same for the steps: the records for which .NET has no event.
fn expected(steps: &[Step]) -> Vec<(String, u64, Vec<u64>)> {
    let records = steps.iter().filter_map(|step| if let Step::Record(record) = step { Some(record) } else { None });
    let own = records.filter(|record| record.id.descriptor().net.is_empty());
    let expected = own.map(|record| {
        let descriptor = record.id.descriptor();
        let numbers = descriptor.fields.iter().zip(record.fields()).filter(|(field, _)| field.unit.name() != "label");
        // Truncated to the size of the field.
        let numbers =
            numbers.map(|(field, value)| if field.kind.bytes() == 4 { u64::from(*value as u32) } else { *value });
        (descriptor.name.to_owned(), record.thread.tid.into(), numbers.collect())
    });
    expected.collect()
}

/// Writes events in all formats and reads them back.
pub fn written(input: &[u8]) {
    limited(64 << 20, || {
        let steps = steps(input, Clock::of_process().now());
        let is_lossless = !steps.iter().any(|step| matches!(step, Step::Lost(_)));
        for container in [Container::V4, Container::V6] {
            let trace = file(&steps, |to| stopworld_trace::nettrace::consumer(container, to));
            let mut own = Own::default();
            let summary = Reader::new(&trace[..]).read(&mut own);
            assert_eq!((summary.damage, summary.ended_orderly, summary.late), (None, true, 0));
            assert!(summary.lost == 0 || !is_lossless, "{summary:?}");
            assert_eq!(own.0, expected(&steps));
        }
        let log = file(&steps, stopworld_trace::eventlog::consumer);
        let mut show = Show::new(io::sink(), Form::Events);
        let summary = in_file_order(&log[..], &mut show);
        // Codes are arbitrary numbers here, so the text of an event may be unclear.
        let _ = show.finish().unwrap();
        // The only damage allowed is a missing end mark.
        assert!(summary.damage.is_none_or(|damage| damage.kind == DamageKind::NoEnd), "{:?}", summary.damage);
        let timeline = file(&steps, stopworld_trace::perfetto::consumer);
        let read: Result<serde_json::Value, _> = serde_json::from_slice(&timeline);
        assert!(read.is_ok(), "{read:?}: {}", String::from_utf8_lossy(&timeline));
    });
}
