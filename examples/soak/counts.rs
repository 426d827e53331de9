//! Counts of actions: atomics in a round's process, lines on its standard output, sums in the orchestrator.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

/// The prefix of each line with which a process reports a count.
const PREFIX: &str = "count ";

macro_rules! counts {
    ($($name:ident),* $(,)?) => {
        /// The counts of one process.
        #[derive(Default)]
        pub(crate) struct Counts { $(pub(crate) $name: AtomicU64),* }

        impl Counts {
            /// Writes each count that is not 0 to standard output, for [`Sums::take`].
            pub(crate) fn report(&self) {
                $(
                    let count = self.$name.load(Ordering::Relaxed);
                    if count > 0 {
                        println!("{PREFIX}{} {count}", stringify!($name));
                    }
                )*
            }
        }
    };
}

counts! {
    collections,
    collections_discarded,
    verifications,
    censuses,
    objects_checked,
    threads_born,
    threads_ended_without_detach,
    stoppers_swapped,
    stops_by_signals,
    stops_by_safepoints,
    stops_by_mock_debugger,
    stops_by_assisted_mock_debugger,
    threads_frozen,
    threads_suspended,
    forks,
    finalizers_registered,
    finalizers_run,
    weak_cleared,
    pinned,
    roots,
    ranges,
    worlds_closed,
    traces_mps,
    traces_nettrace,
    traces_eventlog,
    traces_perfetto,
    traces_hp,
    trace_events,
    trace_bytes,
    debuggers_attached,
    debuggers_detached,
    debugger_stops,
    debugger_threads_held,
    debugger_collections_held,
    debuggers_killed,
    debuggers_that_lied,
    false_answers,
}

/// Adds one to a counter.
pub(crate) fn one(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

/// Counts of many processes, added up by name.
#[derive(Default)]
pub(crate) struct Sums(BTreeMap<String, u64>);

impl Sums {
    /// Adds the counts that a process reported on its standard output.
    pub(crate) fn take(&mut self, output: &str) {
        for line in output.lines() {
            let Some((name, count)) = line.strip_prefix(PREFIX).and_then(|rest| rest.split_once(' ')) else { continue };
            self.add(name, count.parse().unwrap_or(0));
        }
    }

    /// Adds to one count.
    pub(crate) fn add(&mut self, name: &str, count: u64) {
        *self.0.entry(name.to_owned()).or_default() += count;
    }

    /// Returns the count with this name.
    pub(crate) fn get(&self, name: &str) -> u64 {
        self.0.get(name).copied().unwrap_or(0)
    }

    /// Returns all counts, sorted by name.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, u64)> {
        self.0.iter().map(|(name, count)| (name.as_str(), *count))
    }
}
