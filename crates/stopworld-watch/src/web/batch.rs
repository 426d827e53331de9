//! The stream of events for a page: what it does not have yet of the history, in batches.
//!
//! A page has a cursor, the numbers of the next pause, heap size and second. Each batch is made from the history when the page is ready for it,
//! so a slow page, or one that stopped reading, has no queue that could grow: it gets what is kept, and learns how many entries it has missed.
//! The cursor is also the id of the batch. A browser sends the last id when it connects again, and gets the rest.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::model::{Counter, HeapSize, History, Pause, Runtime, Second, Thread};

/// The number of entries of a kind in a batch.
const MOST_ENTRIES: usize = 512;
/// The number of threads in a batch: those that stops waited for longest.
const MOST_THREADS: usize = 64;

/// What a page has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Cursor {
    pauses: u64,
    heaps: u64,
    seconds: u64,
}

impl Cursor {
    /// Parses the id of a batch. Anything else is the beginning.
    pub(crate) fn parse(id: &str) -> Cursor {
        let mut numbers = id.split('-').map(|number| number.parse().ok());
        let mut next = || numbers.next().flatten();
        match (next(), next(), next()) {
            (Some(pauses), Some(heaps), Some(seconds)) => Cursor { pauses, heaps, seconds },
            _ => Cursor::default(),
        }
    }

    /// Formats the id of the batch that leads to this cursor.
    pub(crate) fn id(self) -> String {
        format!("{}-{}-{}", self.pauses, self.heaps, self.seconds)
    }
}

/// Whether an action can be requested.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Availability {
    pub(crate) name: &'static str,
    /// Why it cannot.
    pub(crate) reason: Option<String>,
}

/// A part of the history, and the state of everything that is not a sequence.
#[derive(Serialize)]
struct Batch<'a> {
    /// The number of the first pause in the batch.
    first: u64,
    pauses: Vec<&'a Pause>,
    heaps: Vec<&'a HeapSize>,
    seconds: Vec<&'a Second>,
    runtime: Runtime,
    spaces: [&'static str; crate::model::SPACES],
    total: u64,
    paused: u64,
    longest: u64,
    events: u64,
    lost: u64,
    incomplete: u64,
    now: u64,
    threads: Vec<(u64, &'a Thread)>,
    counters: &'a BTreeMap<String, Counter>,
    actions: &'a [Availability],
    ended: Option<&'a str>,
}

/// Returns the next batch for a page as JSON, the cursor after it, and whether there is more.
pub(crate) fn next(history: &History, cursor: Cursor, actions: &[Availability]) -> (String, Cursor, bool) {
    let (first, pauses) = history.pauses.from(cursor.pauses, MOST_ENTRIES);
    let (first_heap, heaps) = history.heaps.from(cursor.heaps, MOST_ENTRIES);
    let (first_second, seconds) = history.seconds.from(cursor.seconds, MOST_ENTRIES);
    let (pauses, heaps, seconds): (Vec<_>, Vec<_>, Vec<_>) = (pauses.collect(), heaps.collect(), seconds.collect());
    let mut threads: Vec<(u64, &Thread)> =
        history.threads.iter().filter(|(_, thread)| !thread.left).map(|(id, thread)| (*id, thread)).collect();
    threads.sort_by_key(|(id, thread)| (std::cmp::Reverse((thread.last, thread.slowest)), *id));
    threads.truncate(MOST_THREADS);
    let after = Cursor {
        pauses: first + pauses.len() as u64,
        heaps: first_heap + heaps.len() as u64,
        seconds: first_second + seconds.len() as u64,
    };
    let is_more = after.pauses < history.pauses.next()
        || after.heaps < history.heaps.next()
        || after.seconds < history.seconds.next();
    let batch = Batch {
        first,
        pauses,
        heaps,
        seconds,
        runtime: history.runtime,
        spaces: history.runtime.spaces(),
        total: history.pauses.next(),
        paused: history.paused,
        longest: history.longest,
        events: history.events,
        lost: history.lost,
        incomplete: history.incomplete,
        now: history.now,
        threads,
        counters: &history.counters,
        actions,
        ended: history.ended.as_deref(),
    };
    let json = serde_json::to_string(&batch).expect("no map has keys that are no text");
    // The newest second may grow, so it is sent again.
    let seconds = after.seconds.min(history.seconds.next().saturating_sub(1));
    (json, Cursor { seconds, ..after }, is_more)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::Value;

    use super::*;
    use crate::model::{MOST_PAUSES, Observation, Purpose};

    /// A history of pauses of 1 µs, a millisecond apart.
    fn pauses(count: u64) -> History {
        let mut history = History::default();
        for number in 0..count {
            history.add(number * 1_000_000, 1, 0, Observation::SuspendBegin(Purpose::Collection));
            history.add(number * 1_000_000 + 1000, 1, 0, Observation::RestartEnd);
        }
        history
    }

    /// The beginnings of the pauses that a page gets from a cursor on, in milliseconds, and the cursor after them.
    fn read(history: &History, mut cursor: Cursor) -> (Vec<u64>, Cursor) {
        let mut begins = Vec::new();
        loop {
            let (json, after, is_more) = next(history, cursor, &[]);
            let batch: Value = serde_json::from_str(&json).expect("JSON");
            let pauses = batch["pauses"].as_array().expect("a list").iter();
            begins.extend(pauses.map(|pause| pause["begin"].as_u64().expect("a number") / 1_000_000));
            cursor = after;
            if !is_more {
                return (begins, cursor);
            }
        }
    }

    #[rstest]
    #[case(0)]
    #[case(1)]
    #[case(MOST_ENTRIES as u64)]
    #[case(5 * MOST_ENTRIES as u64 + 3)]
    fn a_new_page_gets_the_whole_history(#[case] count: u64) {
        let (begins, _) = read(&pauses(count), Cursor::default());
        assert_eq!(begins, (0..count).collect::<Vec<_>>());
    }

    #[test]
    fn a_page_that_connects_again_gets_what_it_missed() {
        let (_, cursor) = read(&pauses(100), Cursor::default());
        let again = Cursor::parse(&cursor.id());
        assert_eq!(again, cursor);
        let (begins, _) = read(&pauses(700), again);
        assert_eq!(begins, (100..700).collect::<Vec<_>>());
    }

    #[test]
    fn a_page_that_was_away_for_long_learns_how_much_is_gone() {
        let count = MOST_PAUSES as u64 + 1000;
        let (json, _, _) = next(&pauses(count), Cursor::parse("10-0-0"), &[]);
        let batch: Value = serde_json::from_str(&json).expect("JSON");
        assert_eq!((batch["first"].as_u64(), batch["total"].as_u64()), (Some(1000), Some(count)));
    }

    #[rstest]
    #[case("")]
    #[case("1-2")]
    #[case("a-b-c")]
    #[case("1--2")]
    #[case("99999999999999999999-0-0")]
    fn an_id_that_is_none_is_the_beginning(#[case] id: &str) {
        assert_eq!(Cursor::parse(id), Cursor::default());
    }

    #[test]
    fn a_cursor_beyond_the_history_gets_nothing_and_breaks_nothing() {
        let (begins, cursor) = read(&pauses(3), Cursor::parse("9-9-9"));
        assert_eq!((begins, cursor.id().as_str()), (Vec::new(), "3-0-0"));
    }

    /// The newest second is sent again, because it may have grown.
    #[test]
    fn the_newest_second_is_sent_again() {
        let history = pauses(1500);
        let (_, cursor) = read(&history, Cursor::default());
        let (json, _, _) = next(&history, cursor, &[]);
        let batch: Value = serde_json::from_str(&json).expect("JSON");
        assert_eq!(batch["seconds"].as_array().map(Vec::len), Some(1));
        assert_eq!(batch["seconds"][0]["second"], 1);
    }

    /// Also if the batch that had it did not have everything else, and a further second has begun since.
    #[test]
    fn a_second_that_grew_between_two_batches_is_complete() {
        let mut history = pauses(2 * MOST_ENTRIES as u64);
        let (_, cursor, is_more) = next(&history, Cursor::default(), &[]);
        assert!(is_more);
        for time in [1_900_000_000, 2_000_000_000] {
            history.add(time, 1, 0, Observation::Other);
        }
        let newest = history.seconds.iter().rev().nth(1).copied();
        let (json, _, _) = next(&history, cursor, &[]);
        let batch: Value = serde_json::from_str(&json).expect("JSON");
        let events = batch["seconds"].as_array().expect("a list").iter().map(|second| second["events"].as_u64());
        assert_eq!(events.collect::<Vec<_>>(), [newest.map(|second| second.events), Some(1)]);
    }
}
