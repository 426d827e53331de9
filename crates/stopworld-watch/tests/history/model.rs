//! The rules by which events become pauses, heaps, threads and rates.

use rstest::rstest;
use stopworld_watch::model::{
    History, MOST_PAUSES, MOST_SECONDS, MOST_STOPS, MOST_THREADS, Observation, PHASES, Phase, Purpose,
};
use stopworld_watch::ring::Ring;

use super::{COLLECTOR, US, begin, collection, counter, history, start};

fn us(history: &History, phase: Phase) -> u64 {
    history.pauses.last().expect("a pause").phases[phase as usize] / US
}

#[test]
fn a_collection_is_one_pause_with_its_phases() {
    let history = history(&collection(0, 7));
    let pause = history.pauses.last().expect("a pause");
    assert_eq!((pause.begin, pause.ns, pause.number), (100 * US, 100 * US, Some(7)));
    assert_eq!((pause.heap, pause.reason, pause.failed), (Some(5120), "requested", false));
    let phases = Phase::ALL.map(|phase| us(&history, phase));
    assert_eq!(phases, [10, 41, 4, 0, 15, 0, 5, 25], "{:?}", Phase::ALL);
    assert_eq!(pause.stops, [(21, 9 * US), (22, 4 * US)], "the slowest thread is the first");
    assert_eq!(history.heaps.last().map(|heap| heap.bytes), Some([0, 0, 4096, 1024, 0]));
    assert_eq!((history.paused, history.longest, history.events), (100 * US, 100 * US, 10));
}

/// The parts of a pause add up to it, also if the reported times exceed it, as times rounded to microseconds do.
#[rstest]
#[case([0; 8])]
#[case([1, 40, 4, 0, 0, 0, 15, 0])]
#[case([0, 90, 90, 90, 90, 90, 90, 90])]
#[case([u32::MAX; 8])]
fn phases_add_up_to_the_pause(#[case] times: [u32; 8]) {
    let mut events = collection(0, 1);
    events[6].1 = Observation::Times(times);
    let history = history(&events);
    let pause = history.pauses.last().expect("a pause");
    assert_eq!(pause.phases.iter().sum::<u64>(), pause.ns, "{:?}", pause.phases);
    assert_eq!(us(&history, Phase::Stop), 10);
    assert_eq!(us(&history, Phase::Restart), 5);
}

#[rstest]
#[case::no_beginning(&[(10, Observation::SuspendEnd), (11, start(1)), (20, Observation::RestartEnd)], 0)]
#[case::no_end(&[(10, begin()), (11, Observation::SuspendEnd)], 0)]
#[case::another_purpose(&[(10, Observation::SuspendBegin(Purpose::Other)), (11, Observation::SuspendEnd), (20, Observation::RestartEnd)], 0)]
#[case::without_a_collection(&[(10, begin()), (11, Observation::SuspendEnd), (20, Observation::RestartEnd)], 1)]
#[case::the_end_of_the_first_was_lost(&[(10, begin()), (30, begin()), (31, Observation::SuspendEnd), (40, Observation::RestartEnd)], 1)]
#[case::a_stop_for_another_purpose_after_a_lost_end(&[(10, begin()), (20, Observation::SuspendBegin(Purpose::Other)), (30, Observation::RestartEnd)], 0)]
#[case::a_second_end(&[(10, begin()), (20, Observation::RestartEnd), (30, Observation::RestartEnd)], 1)]
fn only_whole_suspensions_for_collections_are_pauses(#[case] events: &[(u64, Observation)], #[case] pauses: u64) {
    let history = history(events);
    assert_eq!(history.pauses.next(), pauses);
    if let Some(pause) = history.pauses.last() {
        assert_eq!(pause.ns % (10 * US), 0, "from the latest beginning to the first end");
    }
}

#[test]
fn a_pause_of_which_events_were_lost_is_counted_and_not_shown() {
    let mut history = history(&[(10, begin()), (12, Observation::SuspendEnd)]);
    history.interrupt(COLLECTOR + 1);
    assert_eq!(history.incomplete, 0, "another thread's loss");
    history.interrupt(COLLECTOR);
    history.interrupt(COLLECTOR);
    for (us, what) in collection(10, 3) {
        history.add(us * US, COLLECTOR, 0, what);
    }
    assert_eq!((history.incomplete, history.pauses.next()), (1, 1));
    assert_eq!((history.longest, history.paused), (100 * US, 100 * US));
}

/// Another thread may report the start, the times and the sizes of a collection; that threads stop or run is reported by the thread that did it.
#[test]
fn only_the_thread_that_pauses_reports_the_ends_of_its_stop() {
    let mut history = history(&[(10, begin()), (15, Observation::SuspendEnd)]);
    for (us, what) in [
        (16, start(4)),
        (20, Observation::SuspendEnd),
        (21, Observation::ThreadStopped { thread: 21, ns: US, waited: true }),
        (25, Observation::Times([1, 40, 0, 0, 0, 0, 0, 0])),
        (26, Observation::Stats([0, 0, 7, 0, 0])),
        (27, Observation::RestartBegin),
        (28, Observation::Discarded),
    ] {
        history.add(us * US, COLLECTOR + 1, 0, what);
    }
    history.add(90 * US, COLLECTOR, 0, Observation::RestartBegin);
    history.add(100 * US, COLLECTOR, 0, Observation::RestartEnd);
    let pause = history.pauses.last().expect("a pause");
    assert_eq!((pause.number, pause.heap, us(&history, Phase::Mark)), (Some(4), Some(7), 41));
    assert_eq!((us(&history, Phase::Stop), us(&history, Phase::Restart)), (5, 10));
    assert!(pause.stops.is_empty() && !pause.failed);
}

#[test]
fn an_abandoned_stop_is_a_failed_pause_that_was_spent_on_stopping() {
    let history = history(&[(10, begin()), (60, Observation::Abandoned), (70, Observation::RestartEnd)]);
    let pause = history.pauses.last().expect("a pause");
    assert!(pause.failed);
    assert_eq!((pause.ns, us(&history, Phase::Stop), history.pauses.next()), (50 * US, 50, 1));
}

#[test]
fn a_discarded_collection_is_a_failed_pause() {
    let mut events = collection(0, 1);
    events.insert(7, (190, Observation::Discarded));
    assert!(history(&events).pauses.last().expect("a pause").failed);
}

/// A background collection of .NET stops the program twice; its times are not those of its pauses.
#[test]
fn a_background_collection_has_two_pauses() {
    let background = Observation::Start { number: 3, generation: 2, reason: "requested", is_background: true };
    let history = history(&[
        (10, begin()),
        (12, Observation::SuspendEnd),
        (13, background),
        (20, Observation::RestartEnd),
        (50, Observation::SuspendBegin(Purpose::Preparation)),
        (53, Observation::SuspendEnd),
        (55, Observation::Times([0, 900, 0, 0, 0, 0, 0, 0])),
        (60, Observation::RestartEnd),
        (90, Observation::Stats([1, 2, 3, 4, 5])),
    ]);
    let pauses: Vec<_> = history.pauses.iter().map(|pause| (pause.number, pause.background, pause.ns / US)).collect();
    assert_eq!(pauses, [(Some(3), true, 10), (None, true, 10)]);
    assert_eq!((us(&history, Phase::Mark), us(&history, Phase::Stop)), (0, 3));
    assert_eq!(history.heaps.last().map(|heap| heap.time), Some(90 * US), "the heap after it, outside its pauses");
}

/// Two worlds of a process stop at the same time: their threads tell them apart.
#[test]
fn pauses_of_two_worlds_do_not_mix() {
    let mut history = History::default();
    for (us, thread, world, what) in [
        (10, 1, 0, begin()),
        (12, 2, 1, begin()),
        (14, 1, 0, Observation::SuspendEnd),
        (15, 2, 1, Observation::SuspendEnd),
        (16, 2, 1, start(5)),
        (17, 1, 0, start(9)),
        (20, 2, 1, Observation::RestartEnd),
        (30, 1, 0, Observation::RestartEnd),
    ] {
        history.add(us * US, thread, world, what);
    }
    let pauses: Vec<_> = history.pauses.iter().map(|pause| (pause.world, pause.number, pause.ns / US)).collect();
    assert_eq!(pauses, [(1, Some(5), 8), (0, Some(9), 20)]);
}

/// The heap of the process is the sum of its worlds' heaps.
#[test]
fn the_sizes_of_worlds_are_added_up() {
    let mut history = History::default();
    for (us, world, bytes) in [
        (10, 0, [0, 0, 100, 10, 1]),
        (20, 1, [0, 0, 2000, 0, 0]),
        (30, 0, [0, 0, 50, 0, 1]),
        (40, 2, [0, 0, u64::MAX, 0, 0]),
    ] {
        history.add(us * US, 1, world, Observation::Stats(bytes));
    }
    let sizes: Vec<_> = history.heaps.iter().map(|heap| heap.bytes).collect();
    let expected = [[0, 0, 100, 10, 1], [0, 0, 2100, 10, 1], [0, 0, 2050, 0, 1], [0, 0, u64::MAX, 0, 1]];
    assert_eq!(sizes, expected);
}

#[test]
fn threads_have_their_latest_and_slowest_stop() {
    let mut events = vec![(0, Observation::ThreadNamed { thread: 21, name: "worker".into() })];
    events.extend(collection(0, 1));
    let mut second = collection(1000, 2);
    second[2].1 = Observation::ThreadStopped { thread: 21, ns: 2 * US, waited: true };
    events.extend(second);
    events.push((2000, Observation::ThreadLeft { thread: 22 }));
    let history = history(&events);
    let worker = &history.threads[&21];
    assert_eq!((worker.name.as_str(), worker.waited, worker.last), ("worker", 2, 1));
    assert_eq!((worker.latest, worker.slowest, worker.left), (2 * US, 9 * US, false));
    let other = &history.threads[&22];
    assert_eq!((other.last, other.left), (1, true));
    assert!(!history.threads.contains_key(&COLLECTOR), "no stop waits for the thread that collects");
}

fn stop(history: &mut History, thread: u64, ns: u64, waited: bool) {
    history.add(0, COLLECTOR, 0, Observation::ThreadStopped { thread, ns, waited });
}

#[test]
fn threads_for_which_no_stop_waits_take_no_room() {
    let mut history = History::default();
    for thread in 0..MOST_THREADS as u64 + 100 {
        stop(&mut history, 1000 + thread, 0, false);
    }
    assert!(history.threads.is_empty());
    for thread in 0..MOST_THREADS as u64 {
        history.add(0, 1, 0, Observation::ThreadNamed { thread: 1000 + thread, name: "idle".into() });
    }
    stop(&mut history, 7, 1, true);
    assert_eq!((history.threads.len(), history.threads[&7].waited), (MOST_THREADS, 1));
}

#[test]
fn the_threads_for_which_stops_waited_longest_are_kept() {
    let mut history = History::default();
    for thread in 0..MOST_THREADS as u64 {
        stop(&mut history, 1000 + thread, 500 + thread, true);
    }
    history.add(0, 1, 0, Observation::ThreadNamed { thread: 1, name: "idle".into() });
    stop(&mut history, 2, 499, true);
    stop(&mut history, 3, 501, true);
    history.add(0, 1, 0, Observation::ThreadLeft { thread: 1400 });
    stop(&mut history, 4, 1, true);
    let has = [1, 2, 3, 4, 1000, 1001, 1400].map(|thread| history.threads.contains_key(&thread));
    assert_eq!(has, [false, false, true, true, false, true, false]);
    assert_eq!(history.threads.len(), MOST_THREADS);
}

/// The kernel gives the id of a thread that has ended to a new thread.
#[rstest]
#[case::named(Observation::ThreadNamed { thread: 21, name: "new".into() }, "new", 0)]
#[case::stopped(Observation::ThreadStopped { thread: 21, ns: 5, waited: true }, "", 1)]
fn a_new_thread_inherits_nothing(#[case] what: Observation, #[case] name: &str, #[case] waited: u64) {
    let mut events = vec![(0, Observation::ThreadNamed { thread: 21, name: "old".into() })];
    events.extend(collection(0, 1));
    events.extend([(900, Observation::ThreadLeft { thread: 21 }), (1000, what)]);
    let thread = &history(&events).threads[&21];
    assert_eq!((thread.name.as_str(), thread.waited, thread.last, thread.left), (name, waited, 0, false));
}

#[test]
fn rates_count_the_events_of_each_second_and_not_the_counters() {
    let mut history = history(&[(0, Observation::Other), (10, Observation::Other), (1_000_000, Observation::Other)]);
    history.add_lost(4);
    history.add(2_500_000 * US, 0, 0, counter("gc-heap-size", 3.5));
    let seconds: Vec<_> = history.seconds.iter().map(|second| (second.second, second.events, second.lost)).collect();
    assert_eq!(seconds, [(0, 2, 0), (1, 1, 4), (2, 0, 0)]);
    assert_eq!((history.events, history.lost), (3, 4));
    assert_eq!(history.counters["gc-heap-size"].value, 3.5);
    // Views are notified of a value only if it is new.
    let version = history.version;
    history.add(2_600_000 * US, 0, 0, counter("gc-heap-size", 3.5));
    assert_eq!(history.version, version);
    history.add(2_700_000 * US, 0, 0, counter("gc-heap-size", 3.6));
    assert!(history.version > version);
}

/// However long a process runs, and whatever it sends, the memory is bounded.
#[test]
fn everything_is_bounded() {
    let mut history = History::default();
    let most = MOST_PAUSES as u64 + 10;
    for number in 0..most {
        // A new thread, which never ends its pause, in each second.
        let time = number * 1_000_000_000;
        history.add(time, 1_000_000 + number, 0, begin());
        for (us, what) in collection(0, number as i32) {
            history.add(time + us * US, COLLECTOR, 0, what);
        }
        for stopped in 0..2 * MOST_STOPS as u64 {
            let thread = 50_000 + number * 100 + stopped;
            history.add(time, COLLECTOR, 0, Observation::ThreadStopped { thread, ns: stopped, waited: true });
        }
    }
    assert_eq!((history.pauses.iter().len(), history.pauses.next()), (MOST_PAUSES, most));
    assert_eq!(history.heaps.iter().len(), MOST_PAUSES);
    assert_eq!(history.seconds.iter().len(), MOST_SECONDS);
    assert_eq!(history.threads.len(), MOST_THREADS);
}

#[test]
fn a_stop_keeps_the_threads_that_stopped_last() {
    let mut history = history(&[(10, begin())]);
    for ns in 0..3 * MOST_STOPS as u64 {
        history.add(11 * US, COLLECTOR, 0, Observation::ThreadStopped { thread: 100 + ns, ns, waited: true });
    }
    history.add(20 * US, COLLECTOR, 0, Observation::RestartEnd);
    let stops: Vec<u64> = history.pauses.last().expect("a pause").stops.iter().map(|(_, ns)| *ns).collect();
    let slowest: Vec<u64> = (0..3 * MOST_STOPS as u64).rev().take(MOST_STOPS).collect();
    assert_eq!(stops, slowest);
    assert_eq!(history.pauses.last().expect("a pause").phases.len(), PHASES);
}

#[rstest]
#[case(0, 0, &[3, 4, 5, 6], 3)]
#[case(3, 9, &[3, 4, 5, 6], 3)]
#[case(5, 9, &[5, 6], 5)]
#[case(4, 2, &[4, 5], 4)]
#[case(7, 9, &[], 7)]
#[case(99, 9, &[], 7)]
fn a_ring_gives_what_is_kept_from_a_number_on(
    #[case] from: u64,
    #[case] most: usize,
    #[case] entries: &[u64],
    #[case] first: u64,
) {
    let mut ring = Ring::new(4);
    (0..7).for_each(|number| ring.push(number));
    let most = if most == 0 { usize::MAX } else { most };
    let (number, found) = ring.from(from, most);
    assert_eq!((number, found.copied().collect::<Vec<u64>>().as_slice()), (first, entries));
    assert_eq!((ring.next(), ring.last()), (7, Some(&6)));
}
