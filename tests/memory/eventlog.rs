//! Memory depends neither on the contents of a log nor on its length (`.format.hostile`).

use std::io;

use crate::eventlog_support::{Endless, Log, TYPES};
use crate::memory_support::{alone, measured};
use ghc_eventlog::read::show::{Form, Show};
use ghc_eventlog::read::{DamageKind, ReadAt, Summary, by_time, in_file_order};

/// The requirement is 64 MiB for the process; the rest of the command takes less than 8 MiB.
const LIMIT: usize = 52 << 20;

/// Shows a log, and returns the peak memory.
fn shown(input: &(impl ReadAt + ?Sized)) -> (Summary, usize) {
    measured(|| {
        let mut show = Show::new(io::sink(), Form::Whole);
        let summary = by_time(input, &mut show);
        show.finish().unwrap();
        summary
    })
}

#[test]
fn a_log_of_any_length_takes_the_same_memory() {
    let _alone = alone();
    let log = std::fs::read("tests/fixtures/eventlog/threads.l.eventlog").unwrap();
    let most: Vec<usize> = [24u64 << 20, 96 << 20]
        .into_iter()
        .map(|size| {
            let (summary, most) = shown(&Endless::new(&log, size));
            assert!(summary.damage.is_none() && summary.bytes >= size, "{summary:?}");
            assert!(most < LIMIT, "{most}");
            most
        })
        .collect();
    assert!(most[1] < most[0] + (2 << 20), "{most:?}");
}

/// The times are not ordered: each piece of the file has events of all times.
#[test]
fn a_jumbled_log_takes_no_more() {
    let _alone = alone();
    let mut log = Log::new(TYPES);
    let mut time = 1u64;
    for number in 0..2_000_000u32 {
        time = time.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        log.fixed(1, time >> 20, &number.to_be_bytes());
    }
    let (summary, most) = shown(&log.end()[..]);
    assert_eq!((summary.events, summary.damage), (2_000_000, None));
    assert!(most < LIMIT, "{most}");
}

/// Events of the largest size, all of one time.
#[test]
fn large_events_take_no_more() {
    let _alone = alone();
    let mut log = Log::new(TYPES);
    for _ in 0..1000 {
        log.variable(19, 7, &[b'x'; 0xffff]);
    }
    let (summary, most) = shown(&log.end()[..]);
    assert_eq!((summary.events, summary.damage), (1000, None));
    assert!(most < LIMIT, "{most}");
}

#[test]
fn endless_descriptions_take_bounded_memory() {
    let _alone = alone();
    let text = "d".repeat(60_000);
    let types: Vec<_> = (0..2000u16).map(|id| (id, Some(0), text.as_str())).collect();
    let log = Log::new(&types).end();
    let (summary, most) = shown(&log[..]);
    assert_eq!(summary.damage.unwrap().kind, DamageKind::TooMany("descriptions of types"));
    assert!(most < LIMIT, "{most}");
}

/// A false length in the file allocates no memory.
#[test]
fn a_false_length_costs_nothing() {
    let _alone = alone();
    for (at, kind) in [(4 + 4 + 4 + 4, "description"), (4 + 4 + 4 + 8 + "Run thread".len(), "extra")] {
        let mut log = Log::new(TYPES).end();
        log[at..at + 4].copy_from_slice(&u32::MAX.to_be_bytes());
        let (summary, most) = shown(&log[..]);
        assert!(summary.damage.is_some(), "{kind}");
        assert!(most < 4 << 20, "{kind}: {most}");
    }
}

/// Small blocks with times far apart, and end markers in between.
#[test]
fn an_index_of_many_blocks_takes_bounded_memory() {
    let _alone = alone();
    let mut log = Log::new(TYPES);
    for number in 0..400_000u64 {
        log.block(number * 7919 % 400_009, u64::MAX, number as u16, |log| log.fixed(9, number, &[]));
        if number % 3 == 0 {
            log.0.extend([0xff; 2]);
        }
    }
    let (summary, most) = shown(&log.end()[..]);
    assert_eq!(summary.events, 800_000);
    assert!(most < LIMIT, "{most}");
}

/// In file order only a buffer is held.
#[test]
fn file_order_takes_less_memory() {
    let _alone = alone();
    let mut log = Log::new(TYPES);
    (0..1_000_000u32).for_each(|number| log.fixed(1, number.into(), &number.to_be_bytes()));
    let log = log.end();
    let (summary, most) = measured(|| in_file_order(&log[..], &mut Show::new(io::sink(), Form::Events)));
    assert_eq!(summary.events, 1_000_000);
    assert!(most < 1 << 20, "{most}");
}
