//! Streams of which events are missing.

use std::sync::Mutex;

use nettrace::clr::SuspendReason;
use nettrace::clr::write::{GCRestartEEBegin, GCRestartEEEnd, GCSuspendEEBegin, GCSuspendEEEnd};
use rstest::rstest;
use stopworld_watch::follow::follow;
use stopworld_watch::model::History;

use super::COLLECTOR;
use crate::written::Written;

/// A part of a stream.
#[derive(Clone, Copy, Debug)]
enum Part {
    /// A pause from this time to that.
    Pause(i64, i64),
    /// The beginning of a pause.
    Begin(i64),
    /// The end of a pause.
    End(i64),
    /// Events that are missing.
    Lost(u32),
}

use Part::{Begin, End, Lost, Pause};

fn write(written: &mut Written, part: Part) {
    let begin = GCSuspendEEBegin { reason: SuspendReason::SuspendForGC, count: 0 };
    match part {
        Begin(us) => _ = written.event(us, COLLECTOR, 0, &begin).event(us + 1, COLLECTOR, 0, &GCSuspendEEEnd {}),
        End(us) => {
            written.event(us - 1, COLLECTOR, 0, &GCRestartEEBegin {}).event(us, COLLECTOR, 0, &GCRestartEEEnd {});
        }
        Pause(from, to) => [Begin(from), End(to)].into_iter().for_each(|part| write(written, part)),
        Lost(count) => _ = written.lose(COLLECTOR, count),
    }
}

/// A loss between pauses leaves them; a loss within leaves none, since what looks like one pause may be the beginning of one and the end of
/// another. A reader that must sort the events reports the loss before it delivers any of them.
#[rstest]
#[case::between(&[Pause(100, 200), Lost(5), Pause(300, 500)], &[100, 200], 0)]
#[case::within(&[Pause(100, 200), Begin(300), Lost(1), End(500), Pause(600, 700)], &[100, 100], 1)]
#[case::two_ends(&[Begin(100), Lost(8), End(900), Lost(3), Pause(1000, 1010)], &[10], 1)]
#[case::the_end_is_missing(&[Begin(100), Lost(2), Pause(300, 310)], &[10], 1)]
#[case::the_beginning_is_missing(&[Pause(100, 200), Lost(2), End(500)], &[100], 0)]
#[case::none(&[Pause(100, 200), Pause(300, 500)], &[100, 200], 0)]
fn a_loss_merges_no_pauses(
    #[values(true, false)] is_sorted: bool,
    #[case] parts: &[Part],
    #[case] pauses: &[u64],
    #[case] incomplete: u64,
) {
    let mut written = Written::new(is_sorted);
    parts.iter().for_each(|part| write(&mut written, *part));
    let history = Mutex::new(History::default());
    let summary = follow(&written.end()[..], &history, &|_| (), &|_| None);
    assert!(summary.ended_orderly && summary.damage.is_none(), "{summary:?}");
    let history = history.into_inner().expect("no panic");
    let lost: u32 = parts.iter().map(|part| if let Lost(count) = part { *count } else { 0 }).sum();
    assert_eq!(history.lost, u64::from(lost));
    let found: Vec<u64> = history.pauses.iter().map(|pause| pause.ns / 1000).collect();
    assert_eq!((found.as_slice(), history.incomplete), (pauses, incomplete));
}
