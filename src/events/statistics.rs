//! A listener that keeps no records, only numbers: how long each phase takes, and how often each event happened.
//!
//! All its counters exist from the beginning and are only added to, so it can listen to a program that runs for a
//! year. A phase is the time between two events. Because a world has one collection at a time, one stored
//! timestamp per phase is enough. (Use one `Statistics` per world.)

use super::histogram::{Histogram, Summary};
use super::sink::{AfterFork, Record, Sink};
use super::state::EventSet;
use super::table::{Event, EventId, Group};
use crate::sync::{AtomicU64, Ordering};

macro_rules! phases {
    ($($(#[doc = $doc:literal])+ $name:ident: $begin:ident => $end:ident;)+) => {
        /// The time between two events.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(u8)]
        pub enum Phase {$(
            $(#[doc = $doc])+
            $name,
        )+}

        impl Phase {
            /// Every phase, in the order of a collection.
            pub const ALL: &[Phase] = &[$(Phase::$name),+];

            /// Returns the event that begins the phase and the event that ends it.
            pub const fn bounds(self) -> (EventId, EventId) {
                match self {
                    $(Phase::$name => (EventId::$begin, EventId::$end),)+
                }
            }
        }
    };
}

phases! {
    /// From the request to stop the threads until the last thread has stopped.
    Stop: SuspendBegin => SuspendEnd;
    /// Scanning registers, stacks, ranges and handles.
    Roots: RootsBegin => RootsEnd;
    /// Marking the objects reachable from the roots.
    Mark: MarkBegin => MarkEnd;
    /// Clearing weak references and queueing finalizers.
    Weak: MarkEnd => WeakEnd;
    /// Setting up the sweep.
    Sweep: SweepBegin => SweepEnd;
    /// Resuming the threads.
    Restart: RestartBegin => RestartEnd;
    /// The whole pause, as a mutator may experience it.
    Pause: SuspendBegin => RestartEnd;
    /// A batch of finalizers, while the program runs.
    Finalizers: FinalizerBegin => FinalizerEnd;
}

const PHASES: usize = Phase::ALL.len();

/// The phase has not begun.
const NOT_BEGUN: u64 = 0;

/// Sums over all collections so far, and the heap after the last one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// The number of collections that ended.
    pub collections: u64,
    /// The number of stops that were abandoned.
    pub abandoned: u64,
    /// The bytes of the objects that were found dead.
    pub freed_bytes: u64,
    /// Live bytes after the last collection.
    pub live_bytes: u64,
    /// The number of live objects after the last collection.
    pub live_objects: u64,
    /// Committed memory of the heap after the last collection.
    pub committed_bytes: u64,
    /// The number of weak references cleared.
    pub weak_cleared: u64,
    /// The number of objects handed to the finalizer thread.
    pub finalizers_queued: u64,
    /// The number of finalizers that were run.
    pub finalizers_run: u64,
}

#[derive(Debug, Default)]
struct Sums {
    freed_bytes: AtomicU64,
    live_bytes: AtomicU64,
    live_objects: AtomicU64,
    committed_bytes: AtomicU64,
    weak_cleared: AtomicU64,
    finalizers_queued: AtomicU64,
    finalizers_run: AtomicU64,
}

/// Counts events and measures phases. Never allocates when recording.
#[derive(Debug)]
pub struct Statistics {
    counts: [AtomicU64; EventId::COUNT],
    begun: [AtomicU64; PHASES],
    durations: [Histogram; PHASES],
    sums: Sums,
}

impl Statistics {
    /// Creates a listener whose numbers are all zero.
    pub fn new() -> Statistics {
        Statistics {
            counts: [const { AtomicU64::new(0) }; EventId::COUNT],
            begun: [const { AtomicU64::new(NOT_BEGUN) }; PHASES],
            durations: [const { Histogram::new() }; PHASES],
            sums: Sums::default(),
        }
    }

    /// Returns the events to select for this listener: all except those that are fired once per object.
    pub fn wants() -> EventSet {
        EventSet::all().without(EventSet::group(Group::Object))
    }

    /// Returns how often this event was received.
    pub fn count(&self, id: EventId) -> u64 {
        self.counts[id as usize].load(Ordering::Relaxed)
    }

    /// Returns a summary of the phase's durations, over all collections.
    pub fn phase(&self, phase: Phase) -> Summary {
        self.durations[phase as usize].summary()
    }

    /// Returns the sums.
    pub fn totals(&self) -> Totals {
        let read = |sum: &AtomicU64| sum.load(Ordering::Relaxed);
        Totals {
            collections: self.count(EventId::GcEnd),
            abandoned: self.count(EventId::StopAbandoned),
            freed_bytes: read(&self.sums.freed_bytes),
            live_bytes: read(&self.sums.live_bytes),
            live_objects: read(&self.sums.live_objects),
            committed_bytes: read(&self.sums.committed_bytes),
            weak_cleared: read(&self.sums.weak_cleared),
            finalizers_queued: read(&self.sums.finalizers_queued),
            finalizers_run: read(&self.sums.finalizers_run),
        }
    }

    /// Measures the phases that the record begins or ends. An event may end one phase and begin another.
    fn time(&self, record: &Record) {
        for phase in Phase::ALL {
            let begun = &self.begun[*phase as usize];
            let (begin, end) = phase.bounds();
            if record.id == end {
                // A phase whose beginning was not seen (because it was selected too late, or was abandoned) is not measured.
                let began = begun.swap(NOT_BEGUN, Ordering::Relaxed);
                if began != NOT_BEGUN {
                    self.durations[*phase as usize].add(record.timestamp.saturating_sub(began));
                }
            } else if record.id == begin {
                begun.store(record.timestamp, Ordering::Relaxed);
            }
        }
    }
}

impl Sink for Statistics {
    fn record(&self, record: &Record) {
        self.counts[record.id as usize].fetch_add(1, Ordering::Relaxed);
        self.time(record);
        let add = |sum: &AtomicU64, value: usize| {
            sum.fetch_add(value as u64, Ordering::Relaxed);
        };
        let set = |sum: &AtomicU64, value: usize| sum.store(value as u64, Ordering::Relaxed);
        match record.event() {
            Event::SweepEnd(sweep) => {
                add(&self.sums.freed_bytes, sweep.freed_bytes);
                set(&self.sums.live_bytes, sweep.live_bytes);
            }
            Event::HeapStats(heap) => {
                set(&self.sums.live_objects, heap.live_objects);
                set(&self.sums.committed_bytes, heap.committed_bytes);
            }
            Event::WeakEnd(weak) => {
                add(&self.sums.weak_cleared, weak.cleared);
                add(&self.sums.finalizers_queued, weak.finalizers_queued);
            }
            Event::FinalizerEnd(batch) => add(&self.sums.finalizers_run, batch.count as usize),
            _ => {}
        }
    }

    fn forked(&self) -> AfterFork {
        AfterFork::GoOn
    }
}

impl Default for Statistics {
    fn default() -> Statistics {
        Statistics::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::events::table::PAYLOAD_WORDS;

    fn at(timestamp: u64, id: EventId, fields: &[u64]) -> Record {
        let mut words = [0; PAYLOAD_WORDS];
        words[..fields.len()].copy_from_slice(fields);
        Record { timestamp, tid: 0, id, words }
    }

    #[test]
    fn phases_are_timed_by_the_events_around_them() {
        let statistics = Statistics::new();
        let story = [
            at(100, EventId::SuspendBegin, &[1, 0]),
            at(103, EventId::SuspendEnd, &[1, 4, 0]),
            at(104, EventId::MarkBegin, &[1]),
            at(110, EventId::MarkEnd, &[1, 50, 1600]),
            at(111, EventId::WeakEnd, &[1, 2, 3]),
            at(112, EventId::SweepBegin, &[1]),
            at(113, EventId::SweepEnd, &[1, 1600, 400]),
            at(113, EventId::GcEnd, &[1]),
            at(114, EventId::HeapStats, &[1, 1000, 600, 0, 4096, 50]),
            at(114, EventId::RestartBegin, &[1]),
            at(115, EventId::RestartEnd, &[1]),
        ];
        for round in 1..=3 {
            story.iter().for_each(|record| statistics.record(record));
            let measured =
                [Phase::Stop, Phase::Mark, Phase::Weak, Phase::Sweep, Phase::Restart, Phase::Pause].map(|phase| {
                    let summary = statistics.phase(phase);
                    assert_eq!(summary.count, round);
                    assert_eq!(summary.total, round * summary.median);
                    summary.median
                });
            assert_eq!(measured, [3, 6, 1, 1, 1, 15]);
            assert_eq!(statistics.phase(Phase::Roots), Summary::default());
            let expected = Totals {
                collections: round,
                freed_bytes: round * 400,
                live_bytes: 1600,
                live_objects: 50,
                committed_bytes: 4096,
                weak_cleared: round * 2,
                finalizers_queued: round * 3,
                ..Totals::default()
            };
            assert_eq!(statistics.totals(), expected);
        }
    }

    #[test]
    fn a_phase_whose_beginning_was_not_seen_is_not_measured() {
        let statistics = Statistics::new();
        statistics.record(&at(7, EventId::SuspendEnd, &[1, 0, 0]));
        statistics.record(&at(9, EventId::RestartEnd, &[1]));
        assert!(Phase::ALL.iter().all(|phase| statistics.phase(*phase).count == 0));
        assert_eq!(statistics.count(EventId::RestartEnd), 1);
    }

    #[test]
    fn an_abandoned_stop_is_not_measured_as_a_pause() {
        let statistics = Statistics::new();
        statistics.record(&at(1_000, EventId::SuspendBegin, &[1, 0]));
        statistics.record(&at(2_000, EventId::StopAbandoned, &[1, 1]));
        statistics.record(&at(9_000, EventId::SuspendBegin, &[2, 0]));
        statistics.record(&at(9_010, EventId::RestartEnd, &[2]));
        assert_eq!(statistics.phase(Phase::Pause).max, 10);
        assert_eq!(statistics.totals().abandoned, 1);
    }
}
