//! Conversion of .nettrace files between the containers of version 4 and version 6: a reader gets the same events from both.

use crate::nettrace_plans;
use crate::nettrace_support;
use crate::trace_data;

use std::collections::BTreeMap;

use nettrace::{Container, EventType, Interest, Label, NetEvent, Reader, Summary, ThreadInfo, TraceInfo, Visitor};
use nettrace_plans::{event, introduced, kind, plan, written};
use nettrace_support::{Block, Event, Form, Type, file, index_of};
use proptest::prelude::*;
use rstest::rstest;
use stopworld_analysis::convert::{Conversion, ConvertError, ConvertOptions, Target, convert};

fn converted(input: &[u8], to: Container) -> (Vec<u8>, Conversion) {
    let mut output = Vec::new();
    let conversion = convert(input, &mut output, Target::Nettrace(to), &ConvertOptions::default()).unwrap();
    (output, conversion)
}

/// Everything that a reader gets from an event, except its number and its position, which differ between the containers.
#[derive(Clone, Debug, PartialEq)]
struct WrittenEvent {
    kind: EventType,
    version: u32,
    time: i64,
    thread: u64,
    capture: u64,
    process: u64,
    processor: Option<u32>,
    stack: Vec<u64>,
    activity: [u8; 16],
    related: [u8; 16],
    sorted: bool,
    payload: Vec<u8>,
}

type Pairs = Vec<(String, String)>;

#[derive(Default)]
struct Listener {
    trace: Option<TraceInfo>,
    events: Vec<WrittenEvent>,
    sequences: Vec<u32>,
    labels: Vec<Vec<String>>,
    threads: Vec<(u64, u64, u64, String, Pairs)>,
}

impl Visitor for Listener {
    fn trace(&mut self, trace: &TraceInfo) {
        self.trace = Some(trace.clone());
    }

    fn event_type(&mut self, _: &EventType) -> Interest {
        Interest::Deliver
    }

    fn thread(&mut self, thread: &ThreadInfo<'_>) {
        let ThreadInfo { index, thread, process, name, pairs } = thread.clone();
        self.threads.push((index, thread, process, name.into_owned(), pairs));
    }

    fn event(&mut self, event: &NetEvent<'_>) {
        self.sequences.push(event.sequence);
        self.labels.push(event.labels.into_iter().map(|label| format!("{label:?}")).collect());
        self.events.push(WrittenEvent {
            // The index among the types, and the number, depend on the file.
            kind: EventType { index: 0, id: 0, ..event.kind.clone() },
            version: event.version(),
            time: event.time,
            thread: event.thread,
            capture: event.capture_thread,
            process: event.process,
            processor: event.processor,
            stack: event.stack.addresses().collect(),
            activity: event.activity,
            related: event.related,
            sorted: event.in_file.sorted,
            payload: event.payload.to_vec(),
        });
    }
}

fn listen(file: &[u8], in_file_order: bool) -> (Listener, Summary) {
    let mut listener = Listener::default();
    let reader = Reader::new(file).with_stacks();
    let reader = if in_file_order { reader.in_file_order() } else { reader };
    let summary = reader.read(&mut listener);
    (listener, summary)
}

/// The losses and the order that a summary reports.
fn figures(summary: &Summary) -> (u64, u64, BTreeMap<u64, u64>, u64) {
    (summary.events, summary.lost, summary.lost_by_thread.clone(), summary.late)
}

/// Asserts that both files yield the same events, in file order and in time order.
fn assert_same(one: &[u8], other: &[u8], what: &str) {
    for in_file_order in [true, false] {
        let ((one, of_one), (other, of_other)) = (listen(one, in_file_order), listen(other, in_file_order));
        assert_eq!(of_other.damage, None, "{what}");
        assert!(of_other.ended_orderly, "{what}");
        assert_eq!(figures(&of_one), figures(&of_other), "{what}");
        assert_eq!(one.events.len(), other.events.len(), "{what}");
        for (one, other) in one.events.iter().zip(&other.events) {
            assert_eq!(one, other, "{what}");
        }
        let (one, other) = (one.trace.unwrap(), other.trace.unwrap());
        assert_eq!(
            (one.start, one.start_ticks, one.ticks_per_second),
            (other.start, other.start_ticks, other.ticks_per_second)
        );
        assert_eq!(
            (one.pointer_bytes, one.process_id, one.processors),
            (other.pointer_bytes, other.process_id, other.processors)
        );
        assert_eq!(one.sampling_period_ns, other.sampling_period_ns);
    }
}

#[rstest]
fn every_trace_reads_the_same_in_either_container(#[values(Container::V4, Container::V6)] to: Container) {
    for path in trace_data::nettraces() {
        let original = std::fs::read(&path).unwrap();
        let name = path.display().to_string();
        let (output, conversion) = converted(&original, to);
        let (heard, summary) = listen(&original, true);
        assert_eq!(conversion.carried, summary.events, "{name}");
        assert_eq!(conversion.damage.is_some(), summary.damage.is_some(), "{name}");
        assert_same(&original, &output, &name);
        // After a second conversion back, the events have their original numbers.
        let from = heard.trace.as_ref().unwrap().container;
        let (back, _) = converted(&output, from);
        assert_same(&original, &back, &name);
        if conversion.left_out.is_empty() {
            assert_eq!(heard.sequences.len(), listen(&back, true).0.sequences.len(), "{name}");
        }
        // A conversion to the same container changes nothing.
        let (same, conversion) = converted(&original, from);
        let again = listen(&same, true).0;
        assert_eq!(
            (&heard.sequences, &heard.labels, &heard.threads),
            (&again.sequences, &again.labels, &again.threads)
        );
        assert!(conversion.left_out.is_empty(), "{name}: {}", conversion.left_out);
    }
}

const LOST_BEFORE: &str = "losses before a thread's first event";

fn left_out(conversion: &Conversion, what: &str) -> u64 {
    conversion.left_out.rows().iter().filter(|row| row.what == what).map(|row| row.count).sum()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn random_traces_keep_their_events_their_order_and_their_losses(plan in plan(), to_6 in any::<bool>()) {
        let (original, events, lost) = written(&plan);
        let to = if to_6 { Container::V6 } else { Container::V4 };
        let (output, conversion) = converted(&original, to);
        prop_assert_eq!(conversion.carried, events.len() as u64);
        let (heard, _) = listen(&original, true);
        let (written, summary) = listen(&output, true);
        prop_assert_eq!((summary.damage, summary.steps_back), (None, 0));
        prop_assert_eq!(summary.lost + left_out(&conversion, LOST_BEFORE), lost);
        let plain = |written: &WrittenEvent| {
            let WrittenEvent { mut kind, process: _, .. } = written.clone();
            // Version 4 cannot express these.
            (kind.message, kind.provider_guid) = (None, None);
            kind.pairs.clear();
            WrittenEvent { kind, process: 0, ..written.clone() }
        };
        prop_assert_eq!(
            heard.events.iter().map(plain).collect::<Vec<_>>(),
            written.events.iter().map(plain).collect::<Vec<_>>()
        );
        let by_time = |file: &[u8]| listen(file, false).0.events.iter().map(plain).collect::<Vec<_>>();
        prop_assert_eq!(by_time(&original), by_time(&output));
        // If the file is cut, only the events after the cut are lost.
        let at = original.len() * usize::from(plan.blocks[0]) / 12;
        let mut cut = Vec::new();
        match convert(&original[..at], &mut cut, Target::Nettrace(to), &ConvertOptions::default()) {
            Ok(conversion) => {
                let readable = listen(&original[..at], true).0.events.len() as u64;
                prop_assert_eq!(conversion.carried, readable);
                prop_assert!(conversion.damage.is_some());
                prop_assert_eq!(listen(&cut, true).1.damage, None);
            }
            Err(ConvertError::Unreadable(_) | ConvertError::Empty | ConvertError::Unknown(_)) => {}
            Err(error) => prop_assert!(false, "{}", error),
        }
    }
}

// ---- What one of the two can't express -------------------------------------------------------------------------------

fn var(out: &mut Vec<u8>, value: u64) {
    nettrace_support::var(out, value);
}

/// Thread names and properties, other processes, labels, losses before the first event: version 4 cannot express them.
#[test]
fn what_version_4_has_no_place_for_is_listed_with_counts() {
    let mut list = vec![3];
    list.extend([5; 16]);
    list.extend([5, 1, b'k', 1, b'v', 6, 1, b'n', 3, 1]);
    list.extend([7; 16]);
    list.extend([2 | 0x80]);
    list.extend([8; 16]);
    let other = Block::Threads(vec![(index_of(2), "two".into(), 7, 2), (index_of(4), "four".into(), 999, 4)]);
    let labelled = Event { labels: 1, ..event(4, 2, 30) };
    let blocks = [
        other,
        Block::Types(vec![kind(1)]),
        Block::Labels(1, vec![list]),
        Block::Events(vec![event(2, 4, 10), event(4, 1, 20), labelled]),
    ];
    let original = file(Form::V6, 8, &blocks);
    let (output, conversion) = converted(&original, Container::V4);
    for (what, count) in [
        ("names of threads", 2),
        ("key-value pairs of threads", 2),
        ("threads of other processes", 1),
        ("trace ids", 1),
        ("labels with a text", 1),
        ("labels with a number", 1),
        ("key-value pairs of the trace", 1),
        ("descriptive texts of Provider1/N\u{e4}me 1", 1),
        (LOST_BEFORE, 3),
    ] {
        assert_eq!(left_out(&conversion, what), count, "{what} in\n{}", conversion.left_out);
    }
    assert_eq!(conversion.left_out.rows().len(), 9);
    let (written, summary) = listen(&output, true);
    assert_eq!((summary.damage, summary.lost, summary.steps_back), (None, 0, 0));
    // What version 4 can express is present.
    let last = written.events.last().unwrap();
    assert_eq!((last.activity, last.related), ([7; 16], [8; 16]));
}

/// An event whose labels override its version or level gets a type of its own in a container without labels.
#[test]
fn an_event_that_overrides_its_type_gets_a_type_of_its_own() {
    let mut own = vec![7, 42, 8];
    own.extend(0xF0u64.to_le_bytes());
    own.extend([9, 1, 10 | 0x80, 2]);
    let with = |labels, sequence| Event { labels, ..event(4, sequence, sequence.into()) };
    let blocks = [
        introduced(&[4]),
        Block::Types(vec![kind(1)]),
        Block::Labels(1, vec![own]),
        Block::Events(vec![with(0, 1), with(1, 2), with(0, 3), with(1, 4)]),
    ];
    let (output, _) = converted(&file(Form::V6, 8, &blocks), Container::V4);
    let (written, summary) = listen(&output, true);
    assert_eq!(summary.damage, None);
    let says =
        |written: &WrittenEvent| (written.kind.opcode, written.kind.keywords, written.kind.level, written.kind.version);
    let said: Vec<_> = written.events.iter().map(says).collect();
    let (plain, own) = ((None, 2, 1, 1), (Some(42), 0xF0, 1, 2));
    assert_eq!(said, [plain, own, plain, own]);
}

/// Types with fields for which version 4 has no codes lose their fields; the payloads are unchanged.
#[test]
fn fields_that_version_4_can_not_describe_are_listed_and_payloads_stay() {
    let mut kind = kind(1);
    kind.fields = vec![("a".into(), 20)];
    let event = Event { payload: vec![0xAC, 2], ..event(4, 1, 10) };
    let original = file(Form::V6, 8, &[introduced(&[4]), Block::Types(vec![kind]), Block::Events(vec![event])]);
    let (output, conversion) = converted(&original, Container::V4);
    assert_eq!(left_out(&conversion, "fields of Provider1/N\u{e4}me 1"), 1, "{}", conversion.left_out);
    let written = listen(&output, true).0.events;
    assert_eq!((written[0].kind.fields.len(), &written[0].payload[..]), (0, &[0xAC, 2][..]));
    assert!(listen(&converted(&original, Container::V6).0, true).0.events[0].kind.fields.len() == 1);
}

/// A thread's id is reused, and threads and types are reset at a sequence point. The sequence numbers restart, and no loss is reported for
/// that.
#[test]
fn threads_that_end_and_start_again_lose_nothing() {
    let again = Type { event: 99, ..kind(1) };
    let blocks = [
        introduced(&[4, 6]),
        Block::Types(vec![kind(1)]),
        Block::Events(vec![event(4, 1, 1), event(6, 1, 2), event(4, 3, 3)]),
        // Two more events were lost at the thread's end.
        Block::Ended(vec![(index_of(4), 5)]),
        Block::Threads(vec![(index_of(4), "another".into(), 7, 4)]),
        Block::Events(vec![event(4, 1, 4)]),
        Block::Point(5, 3, vec![(4, 1), (6, 2)]),
        Block::Threads(vec![(index_of(4), "the third".into(), 7, 444)]),
        Block::Types(vec![again]),
        Block::Events(vec![event(4, 2, 6)]),
    ];
    let original = file(Form::V6, 8, &blocks);
    let lost = listen(&original, true).1.lost;
    assert_eq!(lost, 1 + 2 + 1 + 1);
    let (output, conversion) = converted(&original, Container::V4);
    let (written, summary) = listen(&output, true);
    assert_eq!((summary.damage, summary.steps_back), (None, 0));
    assert_eq!(summary.lost + left_out(&conversion, LOST_BEFORE), lost, "{}", conversion.left_out);
    assert_eq!(written.events.iter().map(|written| written.kind.event).collect::<Vec<_>>(), [10, 10, 10, 10, 99]);
    assert_eq!(written.events.last().unwrap().thread, 444);
    let (same, _) = converted(&original, Container::V6);
    assert_eq!(listen(&same, true).1.lost, lost);
    assert!(listen(&same, true).0.threads == listen(&original, true).0.threads);
}

/// Activity ids are in the header of version 4, and in label lists in version 6.
#[test]
fn activities_are_converted_to_lists_and_back() {
    let with = |activity: u8, related: u8, sequence: u32| Event {
        activity: [activity; 16],
        related: [related; 16],
        ..event(4, sequence, sequence.into())
    };
    let events = vec![with(1, 0, 1), with(0, 2, 2), with(1, 2, 3), with(0, 0, 4), with(1, 0, 5)];
    let blocks = [
        Block::Types(vec![kind(1)]),
        Block::Events(events.clone()),
        Block::Point(6, 0, vec![(4, 5)]),
        Block::Events(vec![with(1, 0, 6), event(4, 7, 7)]),
    ];
    let original = file(Form::V4, 8, &blocks);
    let (output, conversion) = converted(&original, Container::V6);
    assert!(conversion.left_out.is_empty(), "{}", conversion.left_out);
    assert_same(&original, &output, "to version 6");
    assert_same(&original, &converted(&output, Container::V4).0, "and back");
}

/// If the container stays version 6, a label list that the reader cannot decode is copied unchanged.
#[test]
fn labels_stay_within_version_6() {
    let mut list = vec![4];
    list.extend(7u64.to_le_bytes());
    list.push(6 | 0x80);
    var(&mut list, 1);
    list.push(b'n');
    var(&mut list, 9);
    let labelled = Event { labels: 7, ..event(4, 1, 1) };
    let blocks =
        [introduced(&[4]), Block::Types(vec![kind(1)]), Block::Labels(7, vec![list]), Block::Events(vec![labelled])];
    let original = file(Form::V6, 4, &blocks);
    let (output, conversion) = converted(&original, Container::V6);
    assert!(conversion.left_out.is_empty());
    let (written, _) = listen(&output, true);
    assert_eq!(written.labels, [[format!("{:?}", Label::SpanId(7)), format!("{:?}", Label::Number(b"n", -5))]]);
}
