//! The statistics of a process with several worlds, which count their collections from 1 each, and may be collected at the same time.

use crate::gcstats_support;

use gcstats_support::{AnalysisFeed, BLOCKING, FOR_GC, SMALL};
use proptest::prelude::*;
use rstest::rstest;
use stopworld_analysis::gcstats::{Collection, Figures, Rules};

const KB: u64 = 1_000;

/// The steps of a collection.
const STEPS: u32 = 6;

/// A world: the thread that collects it, the number of its latest collection, and the next step.
#[derive(Clone, Debug)]
struct CollectedWorld {
    world: u16,
    thread: u64,
    number: u32,
    step: u32,
}

impl CollectedWorld {
    fn new(world: u16, thread: u64) -> CollectedWorld {
        CollectedWorld { world, thread, number: 0, step: 0 }
    }

    /// Adds the event of the next step at a time.
    fn next(&mut self, feed: &mut AnalysisFeed, now: i64) {
        (feed.now, feed.thread, feed.world, feed.number) = (now, self.thread, self.world, self.number);
        let size = KB * u64::from(self.number + 1) * u64::from(self.world + 1);
        match self.step {
            0 => feed.suspend_begin(FOR_GC),
            1 => feed.suspend_end(),
            2 => feed.start(2, SMALL, BLOCKING),
            3 => feed.heap_history(&[[3 * size, 0, 0, size, 0, 0, 0, 0, 0, 0]; 5]).end(),
            4 => feed.heap_stats([size; 5]),
            _ => feed.restart_end(),
        };
        self.number = feed.number;
        self.step = (self.step + 1) % STEPS;
    }

    fn collect(&mut self, feed: &mut AnalysisFeed, now: i64) {
        (0..i64::from(STEPS)).for_each(|step| self.next(feed, now + step));
    }
}

/// Returns the collections without their places among those of all worlds.
fn without_places(all: Vec<(Collection, Figures)>) -> Vec<(Collection, Figures)> {
    let without_place = |(mut collection, figures): (Collection, Figures)| {
        collection.index = 0;
        (collection, figures)
    };
    all.into_iter().map(without_place).collect()
}

proptest! {
    /// Each world has the collections and figures that it has in a trace without the others. `schedule` has the world of each step, and the time before it.
    #[test]
    fn worlds_do_not_affect_each_other(schedule in prop::collection::vec((0_u16..3, 0_i64..50), 0..200)) {
        let worlds: Vec<CollectedWorld> =
            (0..3).map(|world| CollectedWorld::new(world, 100 + u64::from(world))).collect();
        let mut together = AnalysisFeed::new(Rules::Ours);
        let mut alone: Vec<AnalysisFeed> = (0..3).map(|_| AnalysisFeed::new(Rules::Ours)).collect();
        for (feeds, is_alone) in [(std::slice::from_mut(&mut together), false), (&mut alone[..], true)] {
            let (mut now, mut worlds) = (0, worlds.clone());
            for &(world, wait) in &schedule {
                now += wait;
                let world = usize::from(world);
                worlds[world].next(&mut feeds[if is_alone { world } else { 0 }], now);
            }
        }
        // The trace says that its process is one of .NET with the first event.
        prop_assume!(!schedule.is_empty());
        let (process, all) = together.told();
        prop_assert!(all.iter().zip(0..).all(|((collection, _), index)| collection.index == index));
        prop_assert!(all.windows(2).all(|pair| pair[0].0.start <= pair[1].0.start));
        prop_assert_eq!(process.begun(), all.len() as u64);
        let mut complete = 0;
        for (world, feed) in (0..).zip(alone) {
            if !schedule.iter().any(|(scheduled, _)| *scheduled == world) {
                continue;
            }
            let (process, expected) = feed.told();
            let found = all.iter().filter(|(collection, _)| collection.world == world).cloned().collect();
            prop_assert_eq!(format!("{:?}", without_places(found)), format!("{:?}", without_places(expected)));
            complete += process.all.count;
        }
        prop_assert_eq!(process.all.count, complete);
    }
}

/// One thread collects two worlds, one after the other.
#[rstest]
#[case::ours(Rules::Ours, 100)]
// PerfView ignores a collection with the number of the one before.
#[case::like_perfview(Rules::LikePerfView, 50)]
fn collections_with_the_same_number_are_those_of_different_worlds(#[case] rules: Rules, #[case] expected: u64) {
    let mut feed = AnalysisFeed::new(rules);
    let mut worlds = [CollectedWorld::new(0, 100), CollectedWorld::new(1, 100)];
    for round in 0..50 {
        for (world, at) in worlds.iter_mut().zip([0, 500]) {
            world.collect(&mut feed, round * 1_000 + at);
        }
    }
    let (process, all) = feed.told();
    assert_eq!((process.begun(), process.all.count, all.len() as u64), (expected, expected, expected));
}

/// A world that is collected again and again, and many others that are collected once. A new one begins with number 1, as the last one did.
#[test]
fn there_may_be_many_worlds_one_after_the_other() {
    const WORLDS: u16 = 200;
    let mut feed = AnalysisFeed::new(Rules::Ours);
    let mut first = CollectedWorld::new(0, 100);
    for world in 1..=WORLDS {
        let now = i64::from(world) * 1_000;
        // The other world is collected while this one is.
        first.next(&mut feed, now);
        CollectedWorld::new(world, 101).collect(&mut feed, now + 100);
        (1..STEPS).for_each(|step| first.next(&mut feed, now + 200 + i64::from(step)));
    }
    let (process, all) = feed.told();
    assert_eq!((process.begun(), process.all.count), (400, 400));
    let firsts: Vec<i32> =
        all.iter().filter(|(collection, _)| collection.world == 0).map(|(collection, _)| collection.number).collect();
    assert_eq!(firsts, (1..=i32::from(WORLDS)).collect::<Vec<_>>());
}

/// A number is that of another collection if threads were suspended again since it was seen.
#[test]
fn a_number_counts_again_after_a_suspension() {
    let mut feed = AnalysisFeed::new(Rules::Ours);
    CollectedWorld::new(0, 100).collect(&mut feed, 1_000);
    CollectedWorld::new(0, 101).collect(&mut feed, 2_000);
    let collections = feed.collections();
    assert_eq!(collections.iter().map(|collection| collection.number).collect::<Vec<_>>(), [1, 1]);
}
