//! The time that each thread takes to stop, and what it was doing when the stop was requested.
//!
//! The table at the end of a run shows how long stops took, and the single slowest one. This report answers the next question: which
//! thread do the stops wait for, how often, and why? A stop takes as long as its last thread, so the number of times that a thread
//! was the last one says more than its mean.
//!
//! [`Stops`] takes one [`ThreadStop`] for each thread of each stop, in the order of the stops. It keeps a histogram for each name of
//! threads, so its memory does not grow with the number of stops. Threads with the same name share a row.

use std::collections::HashMap;

use comfy_table::Table;
use serde::Serialize;

use super::Micros;
use super::layout::{align_right, empty};
use stopworld::ThreadName;
use stopworld::events::{Histogram, Summary};

/// Maximum number of names with a row of their own: about 5 KB each. Threads with other names share one more row.
const MOST_NAMES: usize = 1024;
/// The name of that row.
const OTHERS: &str = "(others)";
/// Maximum number of rows in the table for the terminal. (JSON has all.)
const MOST_ROWS: usize = 40;
/// The number of slowest stops that are listed.
const SLOWEST: usize = 10;

/// What a thread was doing when a stop was requested.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Activity {
    /// It ran, and stopped in the suspend signal's handler or at a safepoint. The stop waited for it.
    Running,
    /// It ran, and stopped by entering a blocking region. The stop waited for it.
    Entering,
    /// It was in a blocking region. The stop did not wait for it.
    InRegion,
    /// It was suspended by the program, or was stopped by a debugger. The time that a debugger takes is not known.
    Suspended,
    /// It collected.
    Collecting,
}

impl Activity {
    /// All of them.
    pub const ALL: [Activity; 5] =
        [Activity::Running, Activity::Entering, Activity::InRegion, Activity::Suspended, Activity::Collecting];

    /// Returns the name, for tables.
    pub fn name(self) -> &'static str {
        match self {
            Activity::Running => "running",
            Activity::Entering => "entering a region",
            Activity::InRegion => "in a region",
            Activity::Suspended => "suspended",
            Activity::Collecting => "collecting",
        }
    }

    /// Returns whether a stop waits for a thread that does this.
    pub fn is_waited_for(self) -> bool {
        matches!(self, Activity::Running | Activity::Entering)
    }
}

/// One thread in one stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ThreadStop {
    /// The number of the stop. All threads of a stop follow each other.
    pub stop: u64,
    /// The thread's name.
    pub name: ThreadName,
    /// What it was doing.
    pub activity: Activity,
    /// Nanoseconds from the request until it had stopped. Ignored unless the stop [waited](Activity::is_waited_for) for it.
    pub ns: u64,
}

/// Collects the report.
#[derive(Debug, Default)]
pub struct Stops {
    count: u64,
    omitted: u64,
    rows: Vec<Row>,
    by_name: HashMap<ThreadName, usize>,
    /// The latest stop, with the thread that was the last one so far, by the number of its row.
    latest: Option<(u64, Option<(usize, ThreadStop)>)>,
    slowest: Vec<SlowStop>,
}

#[derive(Debug)]
struct Row {
    name: ThreadName,
    times: Histogram,
    activities: Counts,
    last: Counts,
}

/// How often a thread did what.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// [`Activity::Running`].
    pub running: u64,
    /// [`Activity::Entering`].
    pub entering: u64,
    /// [`Activity::InRegion`].
    pub in_region: u64,
    /// [`Activity::Suspended`].
    pub suspended: u64,
    /// [`Activity::Collecting`].
    pub collecting: u64,
}

impl Counts {
    fn of(&mut self, activity: Activity) -> &mut u64 {
        match activity {
            Activity::Running => &mut self.running,
            Activity::Entering => &mut self.entering,
            Activity::InRegion => &mut self.in_region,
            Activity::Suspended => &mut self.suspended,
            Activity::Collecting => &mut self.collecting,
        }
    }
}

/// The report: times in nanoseconds.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct StopReport {
    /// The number of stops.
    pub count: u64,
    /// The number of observations that were omitted because there was no room for them.
    pub omitted: u64,
    /// The threads by name; those that were last most often are first.
    pub threads: Vec<ThreadStops>,
    /// The stops that took longest, slowest first.
    pub slowest: Vec<SlowStop>,
}

/// The threads of one name.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ThreadStops {
    /// The name.
    pub name: String,
    /// How long the stops waited for it. Minimum and maximum are exact, the median and the 99th percentile are accurate to 1/16.
    #[serde(serialize_with = "times")]
    pub waited: Summary,
    /// What it was doing in all stops.
    pub activities: Counts,
    /// What it was doing in those in which it was the last thread to stop.
    pub last: Counts,
}

impl ThreadStops {
    /// Returns how often it was the last thread to stop.
    pub fn times_last(&self) -> u64 {
        self.last.running + self.last.entering
    }
}

/// A stop, and the thread that was the last to stop.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SlowStop {
    /// The number of the stop among those of the report, from 1. The world's own numbers count attempts to stop, too.
    pub stop: u64,
    /// The name of the last thread.
    pub thread: String,
    /// What it was doing.
    pub activity: Activity,
    /// Nanoseconds until it had stopped.
    pub ns: u64,
}

impl Stops {
    /// Adds a thread of a stop. A thread of a new stop ends the stop before.
    pub fn add(&mut self, thread: &ThreadStop) {
        if self.latest.as_ref().is_none_or(|(stop, _)| *stop != thread.stop) {
            self.end_stop();
            self.count += 1;
            self.latest = Some((thread.stop, None));
        }
        let index = self.row(thread.name);
        *self.rows[index].activities.of(thread.activity) += 1;
        if !thread.activity.is_waited_for() {
            return;
        }
        self.rows[index].times.add(thread.ns);
        if let Some((_, last)) = &mut self.latest
            && last.as_ref().is_none_or(|(_, last)| last.ns < thread.ns)
        {
            *last = Some((index, *thread));
        }
    }

    /// Counts observations that could not be kept.
    pub fn add_omitted(&mut self, count: u64) {
        self.omitted += count;
    }

    /// Ends the latest stop, and returns the report so far.
    pub fn report(&mut self) -> StopReport {
        self.end_stop();
        let mut threads: Vec<ThreadStops> = self.rows.iter().map(Row::figures).collect();
        threads.sort_by_key(|thread| std::cmp::Reverse((thread.times_last(), thread.waited.max)));
        StopReport { count: self.count, omitted: self.omitted, threads, slowest: self.slowest.clone() }
    }

    fn end_stop(&mut self) {
        let Some((_, Some((index, last)))) = self.latest.take() else { return };
        *self.rows[index].last.of(last.activity) += 1;
        let place = self.slowest.partition_point(|slow| slow.ns >= last.ns);
        if place < SLOWEST {
            let thread = last.name.as_str().to_owned();
            self.slowest.insert(place, SlowStop { stop: self.count, thread, activity: last.activity, ns: last.ns });
            self.slowest.truncate(SLOWEST);
        }
    }

    fn row(&mut self, name: ThreadName) -> usize {
        let is_full = self.rows.len() >= MOST_NAMES;
        let name = if is_full && !self.by_name.contains_key(&name) { ThreadName::new(OTHERS) } else { name };
        *self.by_name.entry(name).or_insert_with(|| {
            let (activities, last) = (Counts::default(), Counts::default());
            self.rows.push(Row { name, times: Histogram::new(), activities, last });
            self.rows.len() - 1
        })
    }
}

impl Row {
    fn figures(&self) -> ThreadStops {
        let name = self.name.as_str().to_owned();
        ThreadStops { name, waited: self.times.summary(), activities: self.activities, last: self.last }
    }
}

/// Serializes the times without their sum.
fn times<S: serde::Serializer>(times: &Summary, to: S) -> Result<S::Ok, S::Error> {
    let Summary { count, min, median, p99, max, .. } = *times;
    to.collect_map([("count", count), ("min", min), ("median", median), ("p99", p99), ("max", max)])
}

/// Formats two tables for printing, the threads and the slowest stops (if stops waited for threads); no newline at the end.
pub fn render(report: &StopReport) -> String {
    let tables = match report.slowest.is_empty() {
        true => threads(report).to_string(),
        false => format!("{}\n{}", threads(report), slowest(report)),
    };
    match report.omitted {
        0 => tables,
        omitted => format!("{tables}\n{omitted} observations are not in these tables: there were too many threads"),
    }
}

fn threads(report: &StopReport) -> Table {
    let mut table = empty();
    table.set_header([
        "time to stop, µs",
        "waited for",
        "min",
        "median",
        "p99",
        "max",
        "was last",
        "while running",
        "while entering a region",
        "in a region",
        "suspended",
        "collecting",
    ]);
    for thread in report.threads.iter().take(MOST_ROWS) {
        let ThreadStops { name, waited, activities, last } = thread;
        let times = [waited.min, waited.median, waited.p99, waited.max];
        let times = times.map(|ns| if waited.count > 0 { Micros(ns).to_string() } else { String::new() });
        let Counts { in_region, suspended, collecting, .. } = activities;
        let counts = [thread.times_last(), last.running, last.entering, *in_region, *suspended, *collecting];
        let counts = counts.map(|count| count.to_string());
        table.add_row([name.clone(), waited.count.to_string()].into_iter().chain(times).chain(counts));
    }
    if let Some(rest) = report.threads.get(MOST_ROWS..).filter(|rest| !rest.is_empty()) {
        let max = rest.iter().map(|thread| thread.waited.max).max().unwrap_or(0);
        let sum = |of: fn(&ThreadStops) -> u64| rest.iter().map(of).sum::<u64>().to_string();
        table.add_row([
            format!("{} more", rest.len()),
            sum(|thread| thread.waited.count),
            String::new(),
            String::new(),
            String::new(),
            Micros(max).to_string(),
            sum(ThreadStops::times_last),
            sum(|thread| thread.last.running),
            sum(|thread| thread.last.entering),
            sum(|thread| thread.activities.in_region),
            sum(|thread| thread.activities.suspended),
            sum(|thread| thread.activities.collecting),
        ]);
    }
    align_right(&mut table, 1..usize::MAX);
    table
}

fn slowest(report: &StopReport) -> Table {
    let mut table = empty();
    table.set_header(["slowest stops", "µs", "last thread", "which was"]);
    for SlowStop { stop, thread, activity, ns } in &report.slowest {
        table.add_row([
            format!("{stop} of {}", report.count),
            Micros(*ns).to_string(),
            thread.clone(),
            activity.name().to_owned(),
        ]);
    }
    align_right(&mut table, 0..2);
    table
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::Activity::*;
    use super::*;

    /// Observes stops that are written as lists of name, activity and time.
    fn observed(stops: &[Vec<(&str, Activity, u64)>]) -> StopReport {
        let mut observed = Stops::default();
        for (number, threads) in stops.iter().enumerate() {
            for &(name, activity, ns) in threads {
                observed.add(&ThreadStop { stop: number as u64 + 1, name: ThreadName::new(name), activity, ns });
            }
        }
        observed.report()
    }

    fn thread<'r>(report: &'r StopReport, name: &str) -> &'r ThreadStops {
        report.threads.iter().find(|thread| thread.name == name).expect("the thread has a row")
    }

    /// A thread's name, how often stops waited for it, its times, and how often it was last while running and entering a region.
    type Expected = (&'static str, u64, [u64; 3], [u64; 2]);

    #[rstest]
    #[case::the_slower_is_last(
        vec![vec![("a", Running, 10), ("b", Running, 12)]],
        &[("b", 1, [12, 12, 12], [1, 0]), ("a", 1, [10, 10, 10], [0, 0])]
    )]
    #[case::of_two_equal_the_first_is_last(
        vec![vec![("a", Running, 10), ("b", Entering, 10)]],
        &[("a", 1, [10; 3], [1, 0]), ("b", 1, [10; 3], [0, 0])]
    )]
    #[case::each_stop_has_one_last(
        vec![
            vec![("a", Running, 5), ("b", Entering, 9)],
            vec![("a", Running, 3), ("b", Running, 2)],
            vec![("a", Running, 4), ("b", Entering, 15)],
        ],
        &[("b", 3, [2, 9, 15], [0, 2]), ("a", 3, [3, 4, 5], [1, 0])]
    )]
    #[case::the_stop_waits_for_no_thread(
        vec![vec![("a", InRegion, 77), ("b", Collecting, 88), ("c", Suspended, 99)]],
        &[("a", 0, [0; 3], [0, 0]), ("b", 0, [0; 3], [0, 0]), ("c", 0, [0; 3], [0, 0])]
    )]
    #[case::one_name_of_two_threads(
        vec![vec![("a", Running, 4), ("a", Running, 8)]],
        &[("a", 2, [4, 4, 8], [1, 0])]
    )]
    fn threads_have_their_times_and_the_stops_in_which_they_were_last(
        #[case] stops: Vec<Vec<(&str, Activity, u64)>>,
        #[case] expected: &[Expected],
    ) {
        let report = observed(&stops);
        let read: Vec<_> = report
            .threads
            .iter()
            .map(|thread| {
                let Summary { count, min, median, max, .. } = thread.waited;
                (thread.name.as_str(), count, [min, median, max], [thread.last.running, thread.last.entering])
            })
            .collect();
        assert_eq!(read, expected);
        assert_eq!(report.count, stops.len() as u64);
    }

    #[test]
    fn each_activity_is_counted() {
        let report = observed(&Activity::ALL.map(|activity| vec![("a", activity, 1)]));
        let one_each = Counts { running: 1, entering: 1, in_region: 1, suspended: 1, collecting: 1 };
        assert_eq!(thread(&report, "a").activities, one_each);
        assert_eq!(thread(&report, "a").times_last(), 2);
    }

    #[test]
    fn the_slowest_stops_are_listed_with_their_last_threads() {
        let stops: Vec<_> = (1..=30).map(|ns| vec![("a", Running, ns), ("b", Entering, 31 - ns)]).collect();
        let report = observed(&stops);
        let read: Vec<_> = report.slowest.iter().map(|slow| (slow.stop, slow.thread.as_str(), slow.ns)).collect();
        let expected: Vec<_> = (0..5).flat_map(|n| [(1 + n, "b", 30 - n), (30 - n, "a", 30 - n)]).collect();
        assert_eq!(read, expected);
    }

    #[test]
    fn slow_stops_are_numbered_among_those_observed() {
        let mut observed = Stops::default();
        // Failed attempts to stop have numbers, but no threads.
        for (number, ns) in [(3, 5), (4, 9), (7, 6)] {
            observed.add(&ThreadStop { stop: number, name: ThreadName::new("a"), activity: Running, ns });
        }
        let report = observed.report();
        assert_eq!(
            report.slowest.iter().map(|slow| (slow.stop, slow.ns)).collect::<Vec<_>>(),
            [(2, 9), (3, 6), (1, 5)]
        );
        let printed = render(&report);
        assert!(printed.contains("2 of 3") && !printed.contains("7 of"), "{printed}");
    }

    #[test]
    fn the_report_of_no_stop_is_empty_and_can_be_printed() {
        let report = observed(&[]);
        assert_eq!((report.count, report.threads.len(), report.slowest.len()), (0, 0, 0));
        assert!(render(&report).contains("time to stop"));
    }

    #[test]
    fn more_names_than_are_kept_share_a_row() {
        let mut observed = Stops::default();
        for number in 0..MOST_NAMES as u64 + 10 {
            let name = ThreadName::new(&format!("thread {number}"));
            observed.add(&ThreadStop { stop: 1, name, activity: Running, ns: number });
        }
        let report = observed.report();
        assert_eq!(report.threads.len(), MOST_NAMES + 1);
        let others = &report.threads[0];
        assert_eq!((others.name.as_str(), others.waited.count, others.times_last()), (OTHERS, 10, 1));
        let printed = render(&report);
        assert!(printed.contains("985 more"), "{printed}");
    }
}
