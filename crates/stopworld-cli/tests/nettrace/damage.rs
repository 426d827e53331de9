//! Files that are cut, changed and random: everything readable is delivered, and damage is reported with its byte offset
//! (`.format.hostile`).

use crate::nettrace_support;

use nettrace::{DamageKind, Summary};
use nettrace_support::{Block, Event, FORMS, Form, Type, Writer, file, read, read_in_file_order};
use proptest::prelude::*;
use rstest::rstest;

fn fixture(name: &str) -> Vec<u8> {
    std::fs::read(format!("../../tests/fixtures/nettrace/{name}.nettrace")).unwrap()
}

fn says_where(summary: &Summary, length: usize) {
    let Some(damage) = summary.damage else {
        assert!(summary.ended_orderly && summary.damages == 0, "{summary:?}");
        return;
    };
    assert!(damage.offset <= length as u64 && summary.damages > 0, "{summary:?}");
    assert!(damage.to_string().contains(&format!("byte {}", damage.offset)), "{damage}");
}

#[rstest]
#[case("tiny")]
#[case("handmade-v4-3gcs")]
#[case("handmade-v6-3gcs")]
fn every_cut_of_a_file_gives_what_is_readable(#[case] name: &str) {
    let whole = fixture(name);
    let (all, summary) = read_in_file_order(&whole);
    assert_eq!(summary.damage, None);
    let mut delivered = 0;
    for length in 0..whole.len() {
        let (record, summary) = read_in_file_order(&whole[..length]);
        let damage = summary.damage.unwrap();
        assert_eq!((damage.offset, summary.damages, summary.ended_orderly), (length as u64, 1, false), "{damage}");
        says_where(&summary, length);
        assert_eq!(record.events, all.events[..record.events.len()], "{length}");
        // An event is readable as soon as its last byte is present.
        let here = record.events.len();
        for event in &all.events[delivered..here] {
            let end = length - event.payload.len();
            assert!((event.offset as usize..event.offset as usize + 90).contains(&end), "{length} {event:?}");
            assert!(whole[..length].ends_with(&event.payload));
        }
        assert!(here == delivered || here == delivered + 1);
        delivered = here;
        // Read in time order, the same events are delivered.
        assert_eq!(read(&whole[..length]).0.events.len(), here);
    }
    assert_eq!(delivered, all.events.len());
}

/// The offsets at which the two events of the format's worked example end.
#[test]
fn the_events_of_the_smallest_file_are_read_when_their_last_bytes_are_present() {
    let whole = fixture("tiny");
    for (length, events) in [(0x146, 0), (0x147, 1), (0x153, 1), (0x154, 2)] {
        assert_eq!(read(&whole[..length]).0.events.len(), events, "{length:#x}");
    }
}

#[test]
fn every_change_of_a_byte_of_the_smallest_file_is_read_without_a_panic() {
    let whole = fixture("tiny");
    let mut changed = whole.clone();
    for at in 0..whole.len() {
        for byte in 0..=u8::MAX {
            changed[at] = byte;
            let (record, summary) = read(&changed);
            says_where(&summary, whole.len());
            assert!(record.events.len() <= whole.len());
        }
        changed[at] = whole[at];
    }
}

#[rstest]
#[case("handmade-v4-3gcs")]
#[case("handmade-v6-3gcs")]
fn every_change_of_a_byte_is_read_without_a_panic(#[case] name: &str) {
    let whole = fixture(name);
    let mut changed = whole.clone();
    for at in 0..whole.len() {
        for byte in [0, 1, whole[at] ^ 1, whole[at] ^ 0x80, 0x7F, 0x80, 0xFF] {
            changed[at] = byte;
            let (record, summary) = read(&changed);
            says_where(&summary, whole.len());
            assert!(record.events.len() <= whole.len());
        }
        changed[at] = whole[at];
    }
}

fn one_type() -> Block {
    Block::Types(vec![Type { id: 1, provider: "P".into(), event: 5, name: "N".into(), ..Type::default() }])
}

fn event(sequence: u32, time: i64) -> Event {
    Event { kind: 1, sequence, thread: 4, capture: 4, time, sorted: true, payload: vec![7; 3], ..Event::default() }
}

fn threads() -> Block {
    Block::Threads(vec![(3, "main".into(), 7, 4)])
}

/// The blocks before and after a damaged one are read.
#[rstest]
fn a_damaged_block_loses_no_other(
    #[values(Form::V4, Form::V4Fixed, Form::V6, Form::V6Fixed)] form: Form,
    #[values("header", "overrun", "number", "type", "size")] how: &str,
) {
    let mut writer = Writer::new(form, 8);
    if form.is_v6() {
        writer.add(&threads());
    }
    writer.add(&one_type());
    writer.add(&Block::Events(vec![event(1, 10)]));
    let began = writer.bytes.len();
    writer.add(&Block::Events(vec![event(2, 20), event(3, 30)]));
    let end = writer.bytes.len();
    writer.add(&Block::Events(vec![event(4, 40)]));
    let mut bytes = writer.end();
    let fixed = matches!(form, Form::V4Fixed | Form::V6Fixed);
    // The positions of the block's own header and of its first event.
    let tail = usize::from(!form.is_v6());
    let body = bytes[began..end].windows(4).position(|window| window == [0xEE; 4]).unwrap() + began + 4;
    let (at, events, expected) = match how {
        "header" => {
            bytes[body - 24] = 19;
            (body - 24, 2, DamageKind::BlockHeader(19))
        }
        "overrun" if fixed => {
            // These are both sizes of the second event.
            let size = (end - tail - body) / 2;
            let second = body + size;
            let payload = second + if form.is_v6() { 48 } else { 76 };
            bytes[second + 1] = 1;
            bytes[payload + 1] = 1;
            (payload + 4, 3, DamageKind::Overrun("the payload of an event"))
        }
        "size" if fixed => {
            bytes[body] += 9;
            let size = u32::from(bytes[body]);
            (body, 2, DamageKind::EventSize { size, payload: 3 })
        }
        "overrun" => {
            // The first event's size, which precedes its payload.
            let payload = bytes[body..].windows(3).position(|window| window == [7; 3]).unwrap() + body;
            bytes[payload - 1] = 100;
            (payload, 2, DamageKind::Overrun("the payload of an event"))
        }
        "number" if !fixed => {
            bytes[body + 1..body + 12].fill(0xFF);
            (body, 2, DamageKind::Number)
        }
        "type" => {
            // Type 1 becomes type 9: both events have that type.
            bytes[body + if fixed { 4 } else { 1 }] = 9;
            (body, if fixed { 3 } else { 2 }, DamageKind::UnknownType(9))
        }
        _ => return,
    };
    let (record, summary) = read(&bytes);
    let damage = summary.damage.unwrap();
    assert_eq!(damage.kind, expected);
    // Events that are skipped leave a gap in the numbers, except events whose type alone is unknown.
    let missing = if how == "type" { 0 } else { 4 - events as u64 };
    assert_eq!(summary.lost, missing);
    assert_eq!(damage.offset, at as u64);
    assert_eq!(record.events.len(), events, "{damage}");
    assert_eq!(record.events.last().unwrap().sequence, 4);
    assert!(summary.ended_orderly);
}

#[rstest]
#[case::nothing(b"", DamageKind::Magic)]
#[case::another_file(b"\x7FELF\x02\x01\x01\0 and so on, as long as a header would be", DamageKind::Magic)]
#[case::netperf(b"\x14\0\0\0!FastSerialization.1\x04\x04\x01", DamageKind::NetPerf)]
#[case::a_version_to_come(b"Nettrace\0\0\0\0\x07\0\0\0\0\0\0\0", DamageKind::Version(7))]
#[case::another_serializer(b"Nettrace\x14\0\0\0!FastSerialization.2", DamageKind::Serializer)]
#[case::no_trace(b"Nettrace\0\0\0\0\x06\0\0\0\0\0\0\0\0\0\0\x02", DamageKind::NoTrace)]
fn a_file_that_is_no_trace_is_one_line(#[case] bytes: &[u8], #[case] expected: DamageKind) {
    let (record, summary) = read(bytes);
    assert_eq!(summary.damage.unwrap().kind, expected);
    assert!(record.events.is_empty() && !summary.damage.unwrap().to_string().contains('\n'));
}

/// A future minor version is read.
#[test]
fn another_minor_version_is_read() {
    let mut bytes = file(Form::V6, 8, &[threads(), one_type(), Block::Events(vec![event(1, 10)])]);
    bytes[16] = 9;
    assert_eq!((read(&bytes).0.events.len(), read(&bytes).1.damage), (1, None));
}

/// The block ends after the header of an event.
#[rstest]
fn a_block_that_ends_before_a_payload_is_damaged(#[values(Form::V4, Form::V6)] form: Form) {
    let whole = around_one_event(form);
    let mut writer = Writer::new(form, 8);
    if form.is_v6() {
        writer.add(&threads());
    }
    writer.add(&one_type());
    let body = &whole[..whole.len() - 3];
    writer.block("EventBlock", 2, body);
    let end = writer.bytes.len() - usize::from(!form.is_v6());
    let (record, summary) = read(&writer.end());
    let damage = summary.damage.unwrap();
    assert_eq!((damage.offset, damage.kind), (end as u64, DamageKind::Overrun("the payload of an event")));
    assert!(record.events.is_empty() && summary.ended_orderly);
}

/// The contents of a block with one event.
fn around_one_event(form: Form) -> Vec<u8> {
    let mut writer = Writer::new(form, 8);
    writer.add(&Block::Events(vec![event(1, 10)]));
    let end = writer.bytes.len() - usize::from(!form.is_v6());
    let begin = writer.bytes.windows(4).position(|window| window == [0xEE; 4]).unwrap() - 20;
    writer.bytes[begin..end].to_vec()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn random_bytes_are_read_without_a_panic(bytes in proptest::collection::vec(any::<u8>(), 0..600), begin in 0..5usize) {
        let mut input = match begin {
            0 => Vec::new(),
            1 => b"Nettrace\x14\0\0\0!FastSerialization.1".to_vec(),
            2 => b"Nettrace\0\0\0\0\x06\0\0\0\0\0\0\0".to_vec(),
            3 => Writer::new(Form::V4, 8).bytes,
            _ => Writer::new(Form::V6, 4).bytes,
        };
        input.extend(bytes);
        let (record, summary) = read(&input);
        says_where(&summary, input.len());
        prop_assert!(record.events.len() <= input.len());
    }

    /// Random bytes as the contents of a block.
    #[test]
    fn random_blocks_are_read_without_a_panic(
        bodies in proptest::collection::vec((0..10u8, proptest::collection::vec(prop_oneof![Just(0u8), Just(1), any::<u8>()], 0..120)), 0..6),
        form in 0..4usize,
    ) {
        let form = FORMS[form];
        let mut writer = Writer::new(form, 8);
        writer.add(&one_type());
        for (kind, body) in &bodies {
            let name = match kind { 2 | 6 | 7 => "EventBlock", 3 | 8 => "MetadataBlock", 4 => "SPBlock", 5 => "StackBlock", _ => "Trace" };
            let mut inside = if matches!(kind, 2 | 3) { vec![20, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0] } else { Vec::new() };
            inside.extend(body);
            if name != "Trace" || form.is_v6() {
                writer.block(name, *kind, &inside);
            }
        }
        let input = writer.end();
        let (record, summary) = read(&input);
        if let Some(damage) = summary.damage {
            prop_assert!(damage.offset <= input.len() as u64);
        }
        prop_assert!(record.events.len() <= input.len());
    }
}
