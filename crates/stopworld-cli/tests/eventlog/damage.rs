//! Logs that are cut, changed and random: everything readable is delivered, and damage is reported with its byte offset
//! (`.format.hostile`).

use crate::eventlog_support;

use std::io;

use eventlog_support::{Log, TYPES};
use ghc_eventlog::read::show::{Form, Show};
use ghc_eventlog::read::{DamageKind, Event, Resumed, Summary, Visitor, by_time, in_file_order};
use proptest::prelude::*;
use rstest::rstest;

/// An event: time, capability, offset, type, payload.
type EventFields = (u64, Option<u16>, u64, u16, Vec<u8>);

#[derive(Default)]
struct Collect(Vec<EventFields>);

impl Visitor for Collect {
    fn event(&mut self, event: &Event<'_>) {
        self.0.push((event.time, event.cap, event.offset, event.kind.id, event.payload.to_vec()));
    }
}

/// Reads in both orders, and prints: the events are the same, and nothing panics.
fn read(bytes: &[u8]) -> (Vec<EventFields>, Summary) {
    let (mut file, mut time) = (Collect::default(), Collect::default());
    let summary = in_file_order(bytes, &mut file);
    assert_eq!(by_time(bytes, &mut time), summary);
    let mut sorted = file.0.clone();
    sorted.sort_by_key(|event| event.0);
    assert_eq!(time.0, sorted);
    let mut show = Show::new(io::sink(), Form::Whole);
    by_time(bytes, &mut show);
    let (unclear, count) = show.finish().unwrap();
    assert_eq!(unclear.is_some(), count > 0);
    assert_eq!(file.0.len() as u64, summary.events);
    says_where(&summary, bytes.len());
    (file.0, summary)
}

fn says_where(summary: &Summary, length: usize) {
    let Some(damage) = summary.damage else {
        assert!(summary.ended_orderly && summary.damages == 0, "{summary:?}");
        return;
    };
    assert!(damage.offset <= length as u64 && summary.damages > 0, "{summary:?}");
    assert!(damage.to_string().contains(&format!("at byte {}", damage.offset)), "{damage}");
    assert!(!damage.to_string().contains('\n'));
}

fn fixture(name: &str) -> Vec<u8> {
    std::fs::read(format!("../../tests/fixtures/eventlog/{name}.eventlog")).unwrap()
}

#[rstest]
#[case("broken/min")]
#[case("broken/gcstats50")]
#[case("broken/full-hc")]
fn every_cut_of_a_log_gives_what_is_readable(#[case] name: &str) {
    let whole = fixture(name);
    let (all, summary) = read(&whole);
    assert_eq!(summary.damage, None);
    let first = all[0].2;
    for length in 0..whole.len() {
        let (events, summary) = read(&whole[..length]);
        let damage = summary.damage.unwrap();
        assert_eq!((damage.offset, summary.damages), (length as u64, 1), "{damage}");
        assert_eq!(events, all[..events.len()]);
        // An event is readable as soon as its last byte is present.
        let whole_ones = all.iter().filter(|event| {
            let head = if TYPES.iter().any(|kind| kind.0 == event.3 && kind.1.is_none()) || is_variable(event.3) {
                12
            } else {
                10
            };
            event.2 + head + event.4.len() as u64 <= length as u64
        });
        assert_eq!(events.len(), if (length as u64) < first { 0 } else { whole_ones.count() }, "{length}");
        if let Some(last) = events.last() {
            let told = damage.last_good.unwrap();
            assert_eq!((told.number, told.offset, told.time, told.id), (events.len() as u64, last.2, last.0, last.3));
        }
    }
}

fn is_variable(id: u16) -> bool {
    matches!(id, 16 | 19 | 29..=31 | 44 | 58 | 160 | 161 | 163 | 164 | 167 | 169 | 181)
}

#[test]
fn every_change_of_a_byte_of_a_small_log_is_read_without_a_panic() {
    for name in ["broken/min", "broken/nonul"] {
        let whole = fixture(name);
        let mut changed = whole.clone();
        for at in 0..whole.len() {
            for byte in 0..=u8::MAX {
                changed[at] = byte;
                read(&changed);
            }
            changed[at] = whole[at];
        }
    }
}

#[rstest]
#[case("broken/full-hc")]
#[case("broken/full-hb")]
fn every_change_of_a_byte_is_read_without_a_panic(#[case] name: &str) {
    let whole = fixture(name);
    let mut changed = whole.clone();
    for at in 0..whole.len() {
        for byte in [0, whole[at] ^ 1, whole[at] ^ 0x80, 0xFF] {
            changed[at] = byte;
            read(&changed);
        }
        changed[at] = whole[at];
    }
}

/// If the first of two blocks is damaged, the events before the damage and the events of the second block are read.
#[rstest]
#[case::an_unknown_type(0x7777, DamageKind::Unknown { id: 0x7777, what_follows: Resumed::AtBlock(0) })]
#[case::a_payload_over_the_end(901, DamageKind::Overrun { id: 901, what_follows: Resumed::AtBlock(0) })]
fn the_blocks_after_a_damaged_one_are_read(#[case] id: u16, #[case] expected: DamageKind) {
    let mut log = Log::new(TYPES);
    let mut spoiled = 0;
    log.block(1, 5, 0, |log| {
        log.fixed(9, 1, &[]);
        spoiled = log.0.len() as u64;
        log.variable(id, 2, &[7; 20]);
        log.fixed(10, 3, &[]);
    });
    if id == 901 {
        // This is the length of the event's payload.
        log.0[spoiled as usize + 10..spoiled as usize + 12].copy_from_slice(&40u16.to_be_bytes());
    }
    let second = log.0.len() as u64;
    log.block(6, 9, 1, |log| log.fixed(10, 7, &[]));
    let (events, summary) = read(&log.end());
    let damage = summary.damage.unwrap();
    let expected = match expected {
        DamageKind::Unknown { id, .. } => DamageKind::Unknown { id, what_follows: Resumed::AtBlock(second) },
        _ => DamageKind::Overrun { id, what_follows: Resumed::AtBlock(second) },
    };
    assert_eq!((damage.offset, damage.kind, summary.damages), (spoiled, expected, 1));
    let times: Vec<_> = events.iter().map(|event| (event.3, event.0, event.1)).collect();
    assert_eq!(times, [(18, 1, Some(0)), (9, 1, Some(0)), (18, 6, Some(1)), (10, 7, Some(1))]);
    assert!(summary.ended_orderly);
}

#[test]
fn an_unknown_event_without_a_block_after_it_ends_the_reading() {
    let mut log = Log::new(TYPES);
    log.fixed(9, 1, &[]);
    let at = log.0.len() as u64;
    log.fixed(0x7777, 2, &[]);
    log.fixed(10, 3, &[]);
    let (events, summary) = read(&log.end());
    assert_eq!(events.len(), 1);
    let damage = summary.damage.unwrap();
    assert_eq!(damage.offset, at);
    assert_eq!(damage.kind, DamageKind::Unknown { id: 0x7777, what_follows: Resumed::Nowhere });
}

/// A block whose size is slightly wrong is read as the real tools read it: a size determines only the capability of events.
#[test]
fn a_wrong_size_of_a_block_loses_no_event() {
    let mut log = Log::new(TYPES);
    let began = log.0.len();
    log.block(1, 5, 0, |log| (0..5).for_each(|time| log.fixed(9, time, &[])));
    log.0[began + 13] -= 4;
    log.fixed(10, 9, &[]);
    let (events, summary) = read(&log.end());
    assert_eq!(events.len(), 7);
    assert_eq!(events[5].1, Some(0));
    assert_eq!(events[6].1, None);
    assert_eq!(summary.damage.unwrap().kind, DamageKind::Overrun { id: 9, what_follows: Resumed::AtOnce });
}

#[test]
fn types_that_are_declared_longer_or_not_known_are_skipped_by_their_length() {
    let types = [
        (9, Some(5), "Starting GC"),
        (900, Some(3), "Three bytes"),
        (901, None, "Some bytes"),
        (10, Some(0), "Finished GC"),
    ];
    let mut log = Log::new(&types);
    log.fixed(9, 1, &[1; 5]);
    log.fixed(900, 2, &[2; 3]);
    log.variable(901, 3, &[3; 30]);
    log.fixed(10, 4, &[]);
    let (events, summary) = read(&log.end());
    assert_eq!(events.iter().map(|event| event.3).collect::<Vec<_>>(), [9, 900, 901, 10]);
    assert_eq!(summary.damage, None);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn random_bytes_are_read_without_a_panic(bytes in proptest::collection::vec(any::<u8>(), 0..600), begin in 0..4usize) {
        let mut input = match begin {
            0 => Vec::new(),
            1 => b"hdrbhetb".to_vec(),
            2 => b"hdrbhetbetb\0".to_vec(),
            _ => Log::new(TYPES).0,
        };
        input.extend(bytes);
        read(&input);
    }

    /// Events of known types with any payloads, in blocks with any sizes.
    #[test]
    fn random_events_are_read_without_a_panic(
        events in proptest::collection::vec(
            (prop_oneof![Just(18u16), 0..215u16, Just(900), Just(901), Just(0xffff)], 0..50u64, proptest::collection::vec(prop_oneof![Just(0u8), Just(1), any::<u8>()], 0..70)),
            0..40,
        ),
        declared in any::<bool>(),
    ) {
        let all: Vec<(u16, Option<u16>, String)> = (0..215).map(|id| (id, (!is_variable(id)).then_some(14), format!("type {id}"))).collect();
        let types: Vec<_> = all.iter().map(|(id, size, text)| (*id, *size, text.as_str())).collect();
        let mut log = Log::new(if declared { &types } else { TYPES });
        for (id, time, payload) in &events {
            if is_variable(*id) || *id == 901 { log.variable(*id, *time, payload) } else { log.fixed(*id, *time, payload) }
        }
        read(&log.end());
    }
}

/// Whether GHC's library finds the end of these events by their fields.
fn ends_itself(id: u16) -> bool {
    [160, 161, 163, 164, 167, 169].contains(&id)
}

#[rstest]
fn a_damaged_length_of_an_event_that_ends_itself_loses_nothing(
    #[values("broken/full-hc", "leak.hT")] name: &str,
    #[values(-1, 1, 2, 300, i32::from(u16::MAX))] change: i32,
) {
    let whole = fixture(name);
    let (all, _) = read(&whole);
    let damaged = all.iter().filter(|event| ends_itself(event.3));
    let mut tried = 0;
    // One of every seven events, because each needs a complete reading.
    for event in damaged.step_by(7) {
        let at = event.2 as usize + 10;
        let length = event.4.len() as i32;
        let said = (length + change).clamp(0, i32::from(u16::MAX)) as u16;
        let mut bytes = whole.clone();
        bytes[at..at + 2].copy_from_slice(&said.to_be_bytes());
        let (events, summary) = read(&bytes);
        assert_eq!(events, all, "{said} instead of {length} at byte {at}");
        let damage = summary.damage.unwrap();
        assert_eq!((damage.offset, summary.damages), (event.2, 1), "{damage}");
        assert_eq!(damage.kind, DamageKind::Length { id: event.3, said, found: length as usize }, "{damage}");
        tried += 1;
    }
    assert!(tried > 0);
}

#[rstest]
#[case("leak.hT")]
#[case("threads.l")]
fn a_length_that_runs_past_the_file_is_not_a_file_that_was_cut(#[case] name: &str) {
    let whole = fixture(name);
    let (all, _) = read(&whole);
    let texts: Vec<&EventFields> = all.iter().filter(|event| is_text(event.3)).collect();
    let last = texts.last().unwrap();
    let at = last.2 as usize + 10;
    let mut bytes = whole.clone();
    bytes[at..at + 2].copy_from_slice(&u16::MAX.to_be_bytes());
    assert!(whole.len() < at + 2 + usize::from(u16::MAX), "the last one is near the end");
    let (events, summary) = read(&bytes);
    let damage = summary.damage.unwrap();
    assert!(matches!(damage.kind, DamageKind::Overrun { .. }), "{damage}");
    let before = all.iter().position(|event| event.2 == last.2).unwrap();
    assert_eq!(events[..before], all[..before]);
}

fn is_text(id: u16) -> bool {
    [16, 19, 44, 58].contains(&id)
}
