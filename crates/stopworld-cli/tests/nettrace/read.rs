//! Traces of real runtimes, traces made by hand, and random traces written by an encoder of the tests', read to their end.

use crate::nettrace_plans;
use crate::nettrace_support;

use nettrace::{Container, DamageKind, EventType, Interest, Label, NetEvent, Reader, Utc, Visitor};
use nettrace_plans::{event, introduced, kind, plan, written};
use nettrace_support::{
    Block, DeliveredEvent, Drops, Event, Form, Record, Type, file, index_of, read, read_in_file_order,
};
use proptest::prelude::*;
use rstest::rstest;

/// The numbers of events and types in each file were counted by a script that knows only the layout of version 4.
#[rstest]
#[case("tiny", Container::V4, 2, 1)]
#[case("handmade-v4-3gcs", Container::V4, 34, 15)]
#[case("handmade-v6-3gcs", Container::V6, 34, 15)]
#[case("gcapp-3.1-gc-info", Container::V4, 1081, 22)]
#[case("gcapp-3.1-collect-default", Container::V4, 750, 34)]
#[case("gcapp-3.1-gcheap-all", Container::V4, 2695, 30)]
fn a_trace_is_read_to_its_end(
    #[case] name: &str,
    #[case] container: Container,
    #[case] events: usize,
    #[case] types: usize,
) {
    let bytes = std::fs::read(format!("../../tests/fixtures/nettrace/{name}.nettrace")).unwrap();
    let (record, summary) = read(&bytes);
    assert_eq!((summary.damage, summary.ended_orderly, summary.late, summary.steps_back), (None, true, 0, 0));
    assert_eq!((summary.lost, summary.bytes), (0, bytes.len() as u64));
    assert_eq!(record.trace.unwrap().container, container);
    assert!(record.events.is_sorted_by_key(|event| event.time));
    assert_eq!((summary.events, record.events.len(), record.types.len()), (events as u64, events, types));
    // The same events are delivered in either order, and however the file arrives.
    let mut by_place = record.events.clone();
    by_place.sort_by_key(|event| event.offset);
    assert_eq!(read_in_file_order(&bytes).0.events, by_place);
    let mut dropped = Record::default();
    let summary_of_drops = Reader::new(Drops(&bytes)).with_stacks().read(&mut dropped);
    assert_eq!((summary_of_drops, dropped.events), (summary, record.events));
}

#[test]
fn the_smallest_file_has_the_contents_of_the_worked_example() {
    let (record, _) = read(&std::fs::read("../../tests/fixtures/nettrace/tiny.nettrace").unwrap());
    let trace = record.trace.unwrap();
    let start = Utc { year: 2026, month: 1, day_of_week: 3, day: 7, hour: 12, ..Utc::default() };
    assert_eq!((trace.start, trace.start_ticks, trace.ticks_per_second), (start, 1000, 1_000_000_000));
    assert_eq!((trace.pointer_bytes, trace.process_id, trace.processors), (8, 7, 4));
    assert_eq!(start.since_1970_ns(), Some(1_767_787_200_000_000_000));
    let [one, two] = &record.events[..] else { panic!("{:?}", record.events) };
    assert_eq!((one.time, one.thread, one.sequence, one.processor, one.offset), (2000, 77, 1, Some(1), 0x134));
    assert_eq!((two.time, two.thread, two.sequence, two.offset), (2300, 77, 2, 0x147));
    assert_eq!(
        (&one.payload[..], &two.payload[..]),
        (&[1, 0, 0, 0, 0, 0, 0, 0, 0, 0][..], &[2, 0, 0, 0, 1, 0, 0, 0, 0, 0][..])
    );
    assert_eq!(trace.milliseconds(one.time), 0.001);
}

#[rstest]
#[case(Utc { year: 1970, month: 1, day: 1, ..Utc::default() }, Some(0))]
#[case(Utc { year: 2000, month: 2, day: 29, hour: 23, minute: 59, second: 59, millisecond: 999, ..Utc::default() }, Some(951_868_799_999_000_000))]
#[case(Utc { year: 1969, month: 12, day: 31, ..Utc::default() }, Some(-86_400_000_000_000))]
#[case(Utc { year: 2000, month: 13, day: 1, ..Utc::default() }, None)]
#[case(Utc { year: 2000, month: 0, day: 1, ..Utc::default() }, None)]
#[case(Utc { year: u16::MAX, month: 1, day: 1, ..Utc::default() }, None)]
fn instants_have_a_time_if_the_trace_has_one(#[case] utc: Utc, #[case] expected: Option<i64>) {
    assert_eq!(utc.since_1970_ns(), expected);
}

/// The handmade files contain the same events in the two containers.
#[test]
fn both_containers_yield_the_same() {
    let events = |name: &str| {
        let (record, _) = read(&std::fs::read(format!("../../tests/fixtures/nettrace/{name}.nettrace")).unwrap());
        let types = record.types;
        let name = |event: &DeliveredEvent| {
            let kind = types.iter().find(|kind| kind.id == event.kind).unwrap();
            (kind.provider.clone(), kind.event, kind.version)
        };
        record
            .events
            .iter()
            .map(|event| (name(event), event.time, event.thread, event.sequence, event.payload.clone()))
            .collect::<Vec<_>>()
    };
    assert_eq!(events("handmade-v4-3gcs"), events("handmade-v6-3gcs"));
}

/// A file with these blocks, preceded by whatever they need.
fn around(form: Form, blocks: &[Block]) -> Vec<u8> {
    let mut all = vec![Block::Types(vec![kind(1)])];
    if form.is_v6() {
        all.insert(0, introduced(&[2, 4, 6]));
    }
    all.extend_from_slice(blocks);
    file(form, 8, &all)
}

#[rstest]
fn descriptions_have_all_that_was_written(#[values(Form::V4, Form::V4Fixed, Form::V6, Form::V6Fixed)] form: Form) {
    let kinds: Vec<Type> = (1..7).map(kind).collect();
    let (record, summary) = read(&file(form, 4, &[Block::Types(kinds.clone())]));
    assert_eq!(summary.damage, None);
    assert_eq!(record.trace.unwrap().pointer_bytes, 4);
    for (ours, written) in record.types.iter().zip(&kinds) {
        let read = Type {
            id: ours.id,
            provider: ours.provider.clone(),
            event: ours.event,
            name: ours.name.clone(),
            version: ours.version,
            level: ours.level,
            keywords: ours.keywords,
            opcode: ours.opcode,
            fields: written.fields.clone(),
        };
        assert_eq!(read, *written);
        let names: Vec<&str> = ours.fields.iter().map(|field| &*field.name).collect();
        assert_eq!(names, ["first", "second"]);
        assert_eq!(ours.message.is_some() && ours.provider_guid == Some([9; 16]), form.is_v6());
    }
    assert_eq!(record.types.len(), kinds.len());
}

/// The losses that the sequence numbers imply.
#[rstest]
#[case::none(&[1, 2, 3], Some(3), [0, 0], 0)]
#[case::between(&[1, 2, 5], None, [2, 2], 0)]
#[case::at_the_end(&[1, 2, 3], Some(8), [5, 5], 0)]
#[case::before_the_first(&[4, 5], Some(5), [0, 3], 0)]
#[case::all(&[], Some(9), [0, 9], 0)]
#[case::over_the_end_of_the_numbers(&[u32::MAX - 1, u32::MAX, 0, 1], Some(1), [0, 0], 1)]
#[case::back(&[5, 3, 4], None, [0, 4], 1)]
fn losses_follow_from_the_sequence_numbers(
    #[case] sequences: &[u32],
    #[case] point: Option<u32>,
    #[case] lost: [u64; 2],
    #[case] steps_back: u64,
    #[values(Form::V4, Form::V6, Form::V4Fixed, Form::V6Fixed)] form: Form,
) {
    let events = sequences.iter().enumerate().map(|(time, &sequence)| event(4, sequence, time as i64)).collect();
    let mut blocks = vec![Block::Events(events)];
    blocks.extend(point.map(|sequence| Block::Point(100, 0, vec![(4, sequence)])));
    let (record, summary) = read(&around(form, &blocks));
    let lost = lost[usize::from(form.is_v6())];
    assert_eq!((summary.lost, summary.damage), (lost, None));
    assert_eq!(
        record
            .lost
            .iter()
            .map(|&(thread, count)| {
                assert_eq!(thread, 4);
                count
            })
            .sum::<u64>(),
        lost
    );
    assert_eq!(summary.lost_by_thread.get(&4).copied().unwrap_or_default(), lost);
    // A thread of version 6 begins with 0, so a first number in the upper half is a step back.
    let steps_back = match (sequences.first(), form.is_v6()) {
        (Some(first), false) if *first > 1 << 31 => steps_back - 1,
        _ => steps_back,
    };
    assert_eq!(summary.steps_back, steps_back);
}

/// In version 4, if a sequence point states 0 as a thread's last sequence number, a new thread has reused the id.
#[test]
fn a_reused_thread_id_has_lost_nothing() {
    let blocks =
        [Block::Events(vec![event(4, 1, 1)]), Block::Point(5, 0, vec![(4, 0)]), Block::Events(vec![event(4, 7, 10)])];
    let (_, summary) = read(&around(Form::V4, &blocks));
    assert_eq!((summary.lost, summary.steps_back), (0, 1));
}

#[test]
fn a_thread_that_ended_reports_its_losses_and_its_index_is_free() {
    let blocks = [
        Block::Events(vec![Event { sorted: false, ..event(4, 1, 1) }]),
        Block::Ended(vec![(index_of(4), 3)]),
        Block::Threads(vec![(index_of(4), "again".into(), 8, 44)]),
        Block::Events(vec![Event { sorted: false, ..event(4, 1, 2) }]),
    ];
    let (record, summary) = read(&around(Form::V6, &blocks));
    assert_eq!((summary.lost, summary.damage), (2, None));
    let threads: Vec<_> = record.events.iter().map(|event| (event.thread, event.process)).collect();
    assert_eq!(threads, [(4, 1004), (44, 8)]);
    assert_eq!(record.threads.last().unwrap(), &(index_of(4), 44, 8, "again".to_owned()));
}

#[rstest]
fn stacks_are_those_of_their_part_of_the_file(
    #[values(Form::V4, Form::V6)] form: Form,
    #[values(4, 8)] pointer_bytes: u8,
) {
    let stack = |addresses: &[u64]| -> Vec<u8> {
        addresses.iter().flat_map(|address| address.to_le_bytes()[..usize::from(pointer_bytes)].to_vec()).collect()
    };
    let with = |stack, sequence, time| Event { stack, sorted: false, ..event(4, sequence, time) };
    let blocks = [
        introduced(&[4]),
        Block::Types(vec![kind(1)]),
        Block::Stacks(1, vec![stack(&[1, 2, 3]), stack(&[]), stack(&[0xFFFF_FFF0])]),
        Block::Events(vec![with(1, 1, 1), with(2, 2, 2), with(3, 3, 3), with(4, 4, 4), with(0, 5, 5)]),
        Block::Point(6, 0, vec![]),
        Block::Stacks(1, vec![stack(&[7])]),
        Block::Events(vec![with(1, 6, 7), with(2, 7, 8)]),
    ];
    let blocks = if form.is_v6() { &blocks[..] } else { &blocks[1..] };
    let (record, summary) = read(&file(form, pointer_bytes, blocks));
    assert_eq!(summary.damage, None);
    let stacks: Vec<Vec<u64>> = record.events.into_iter().map(|event| event.addresses).collect();
    let expected: [&[u64]; 7] = [&[1, 2, 3], &[], &[0xFFFF_FFF0], &[], &[], &[7], &[]];
    assert_eq!(stacks, expected);
}

#[derive(Default)]
struct Labelled(Vec<WithLabels>);

/// The labels, and the event's version, keywords, level, opcode and activity.
type WithLabels = (Vec<String>, u32, u64, u32, Option<u8>, [u8; 16]);

impl Visitor for Labelled {
    fn event(&mut self, event: &NetEvent<'_>) {
        let labels = event.labels.into_iter().map(|label: Label<'_>| format!("{label:?}")).collect();
        self.0.push((labels, event.version(), event.keywords(), event.level(), event.opcode(), event.activity));
    }
}

/// Wants no events.
struct Indifferent;

impl Visitor for Indifferent {
    fn event_type(&mut self, _: &EventType) -> Interest {
        Interest::Skip
    }

    fn event(&mut self, _: &NetEvent<'_>) {
        panic!("an event that is not wanted");
    }
}

/// A reader that reads a file twice compares what it found: a difference would mean that the file has changed.
#[rstest]
#[case::labels(Event { labels: 1, ..event(4, 1, 1) }, DamageKind::UnknownLabels(1))]
#[case::thread(Event { thread: 98, ..event(4, 1, 1) }, DamageKind::UnknownThread(50))]
fn damage_does_not_depend_on_the_events_that_are_wanted(#[case] event: Event, #[case] expected: DamageKind) {
    let file = around(Form::V6, &[Block::Events(vec![event])]);
    let all = Reader::new(&file[..]).read(&mut Labelled::default());
    assert_eq!(all.damage.map(|damage| damage.kind), Some(expected));
    assert_eq!(Reader::new(&file[..]).read(&mut Indifferent), all);
}

#[test]
fn labels_are_shown_and_replace_what_the_type_says() {
    let mut all = vec![vec![1]];
    all[0].extend([7; 16]);
    all[0].extend([4, 1, 2, 3, 4, 5, 6, 7, 8, 5, 1, b'k', 1, b'v', 6, 1, b'n', 3, 7, 99, 8]);
    all[0].extend(0xF0u64.to_le_bytes());
    all[0].extend([9, 1, 10 | 0x80, 42]);
    all.push(vec![9 | 0x80, 3]);
    let with = |labels, sequence| Event { labels, ..event(4, sequence, sequence.into()) };
    let blocks = [
        Block::Labels(1, all),
        Block::Unknown(9, vec![1, 2, 3]),
        Block::Events(vec![with(0, 1), with(1, 2), with(2, 3)]),
        Block::Point(9, 0, vec![]),
        Block::Events(vec![with(1, 4)]),
    ];
    let mut labelled = Labelled::default();
    let summary = Reader::new(&around(Form::V6, &blocks)[..]).read(&mut labelled);
    // The sequence point has reset the label list of the last event.
    assert_eq!(summary.damage.map(|damage| damage.kind), Some(DamageKind::UnknownLabels(1)));
    assert_eq!(summary.damages, 1);
    let [none, all, level, forgotten] = &labelled.0[..] else { panic!("{:?}", labelled.0) };
    assert_eq!((none.0.len(), none.1, none.2, none.3, none.4), (0, 1, 2, 1, None));
    assert_eq!((all.1, all.2, all.3, all.4, all.5), (42, 0xF0, 1, Some(99), [7; 16]));
    assert_eq!(all.0[1..4], ["SpanId(578437695752307201)", "Text([107], [118])", "Number([110], -2)"]);
    assert_eq!((level.0.len(), level.1, level.3), (1, 1, 3));
    assert_eq!(forgotten.0.len(), 0);
}

#[test]
fn a_sequence_point_may_reset_types_and_threads() {
    let again = Type { event: 99, ..kind(1) };
    let blocks = [
        Block::Events(vec![event(4, 1, 1)]),
        Block::Point(2, 3, vec![(4, 1)]),
        Block::Threads(vec![(index_of(4), "another".into(), 9, 444)]),
        Block::Types(vec![again]),
        Block::Events(vec![event(4, 1, 3)]),
    ];
    let (record, summary) = read(&around(Form::V6, &blocks));
    assert_eq!((summary.damage, summary.lost), (None, 0));
    assert_eq!(record.events.iter().map(|event| event.thread).collect::<Vec<_>>(), [4, 444]);
    assert_eq!(record.types.iter().map(|kind| (kind.index, kind.event)).collect::<Vec<_>>(), [(0, 10), (1, 99)]);
}

struct Only(u32, u64);

impl Visitor for Only {
    fn event_type(&mut self, kind: &EventType) -> Interest {
        if kind.id == self.0 { Interest::Deliver } else { Interest::Skip }
    }

    fn event(&mut self, event: &NetEvent<'_>) {
        assert_eq!(event.kind.id, self.0);
        self.1 += 1;
    }
}

#[test]
fn unwanted_events_are_counted_and_not_delivered() {
    let blocks = [
        Block::Types(vec![kind(2)]),
        Block::Events(vec![event(4, 1, 1), Event { kind: 2, ..event(4, 2, 2) }, event(4, 3, 3)]),
    ];
    let mut only = Only(2, 0);
    let summary = Reader::new(&around(Form::V4, &blocks)[..]).read(&mut only);
    assert_eq!((only.1, summary.events, summary.lost), (1, 3, 0));
}

fn as_seen(event: &Event) -> (u32, u32, u64, i64, u32, [u8; 16], Vec<u8>) {
    let Event { kind, sequence, thread, time, processor, activity, payload, .. } = event.clone();
    (kind, sequence, thread, time, processor, activity, payload)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn what_is_written_is_read_by_time_and_nothing_else_is_lost(plan in plan()) {
        let (bytes, written, lost) = written(&plan);
        let (record, summary) = read(&bytes);
        prop_assert_eq!(summary.damage, None);
        prop_assert_eq!((summary.lost, summary.late, summary.steps_back), (lost, 0, 0));
        let seen = |events: &[DeliveredEvent]| {
            events.iter().map(|event| (event.kind, event.sequence, event.thread, event.time, event.processor.unwrap(), event.activity, event.payload.clone())).collect::<Vec<_>>()
        };
        // In file order, all events are delivered as they were written.
        let in_file = read_in_file_order(&bytes).0.events;
        prop_assert_eq!(seen(&in_file), written.iter().map(as_seen).collect::<Vec<_>>());
        // By time, sorted naively; the order of events with equal times is open, but each thread keeps its order.
        let by_time = seen(&record.events);
        prop_assert!(by_time.is_sorted_by_key(|event| event.3));
        let sort = |mut events: Vec<_>| { events.sort_by_key(|event: &(u32, u32, u64, i64, u32, [u8; 16], Vec<u8>)| (event.3, event.2, event.1)); events };
        prop_assert_eq!(sort(by_time.clone()), sort(written.iter().map(as_seen).collect()));
        for thread in 0..4u64 {
            let numbers: Vec<u32> = by_time.iter().filter(|event| event.2 == thread * 2).map(|event| event.1).collect();
            prop_assert!(numbers.is_sorted(), "{:?}", numbers);
        }
        // The result does not depend on the sizes of the reads.
        let mut dropped = Record::default();
        let of_drops = Reader::new(Drops(&bytes)).with_stacks().read(&mut dropped);
        prop_assert_eq!((of_drops, dropped.events), (summary, record.events));
    }
}
