//! From events to collections: tests of each rule of PerfView's reader, and of the cases in which stopworld differs because PerfView's
//! reader is wrong.

use crate::gcstats_support;

use gcstats_support::{
    AnalysisFeed, BACKGROUND, BLOCKING, FOR_GC, FOR_OTHER, FOR_PREPARATION, FOREGROUND, PRIVATE, PROVISIONAL, SMALL,
    bytes,
};
use proptest::prelude::*;
use rstest::rstest;
use stopworld_analysis::gcstats::Rules;

const MB: u64 = 1_000_000;
const SIZES: [u64; 5] = [MB, 2 * MB, 3 * MB, 4 * MB, 5 * MB];

/// Compares times with a tolerance, because they are sums of floating-point numbers.
#[track_caller]
fn assert_near(found: f64, expected: f64) {
    assert!((found - expected).abs() < 1e-9, "{found} instead of {expected}");
}

#[rstest]
fn a_blocking_collection_pauses_from_the_first_request_to_the_last_restart(
    #[values(Rules::Ours, Rules::LikePerfView)] rules: Rules,
) {
    let mut feed = AnalysisFeed::new(rules);
    feed.wait(5_000).collect(1, SIZES);
    let collections = feed.collections();
    let [collection] = &collections[..] else { panic!("{collections:?}") };
    assert_eq!((collection.number, collection.generation), (1, 1));
    assert_near(collection.pause_start, 5.0);
    assert_near(collection.suspend, 0.010);
    assert_near(collection.start, 5.030);
    assert_near(collection.duration, 0.100);
    assert_near(collection.pause, 0.160);
    assert_near(collection.since_last, 5.0);
    assert_near(collection.after_mb(), 15.0);
    assert_near(collection.promoted_mb(), 1.5);
}

#[rstest]
fn a_start_without_any_stop_is_no_collection(#[values(Rules::Ours, Rules::LikePerfView)] rules: Rules) {
    let mut feed = AnalysisFeed::new(rules);
    feed.start(0, SMALL, BLOCKING).wait(100).end().heap_stats(SIZES).restart_end();
    assert_eq!(feed.process().begun(), 0);
}

#[rstest]
fn thread_0_stops_nothing(#[values(Rules::Ours, Rules::LikePerfView)] rules: Rules) {
    let mut feed = AnalysisFeed::new(rules);
    feed.on(0).collect(0, SIZES);
    assert_eq!(feed.process().begun(), 0);
}

#[test]
fn threads_with_identifiers_of_more_than_32_bits_stop_the_world_too() {
    let thread = 0x1_8000_0000;
    let count = |rules| {
        let mut feed = AnalysisFeed::new(rules);
        feed.on(thread).collect(0, SIZES);
        feed.process().all.count
    };
    assert_eq!((count(Rules::Ours), count(Rules::LikePerfView)), (1, 0));
}

#[rstest]
fn the_same_start_twice_is_one_collection(#[values(Rules::Ours, Rules::LikePerfView)] rules: Rules) {
    let mut feed = AnalysisFeed::new(rules);
    feed.suspend_begin(FOR_GC).wait(10).suspend_end().wait(20).start(0, SMALL, BLOCKING);
    feed.wait(1).start_of(1, 0, SMALL, BLOCKING);
    feed.wait(99).end().wait(10).heap_stats(SIZES).wait(20).restart_end();
    let (process, _) = feed.told();
    assert_eq!((process.begun(), process.all.count), (1, 1));
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Without {
    End,
    HeapStats,
    RestartEnd,
    RestartByThatThread,
    HeapStatsBeforeRestart,
}

#[rstest]
fn an_incomplete_collection_does_not_count(
    #[values(Rules::Ours, Rules::LikePerfView)] rules: Rules,
    #[values(
        Without::End,
        Without::HeapStats,
        Without::RestartEnd,
        Without::RestartByThatThread,
        Without::HeapStatsBeforeRestart
    )]
    without: Without,
) {
    let mut feed = AnalysisFeed::new(rules);
    feed.suspend_begin(FOR_GC).wait(10).suspend_end().wait(20).start(0, SMALL, BLOCKING).wait(100);
    if without != Without::End {
        feed.end();
    }
    if !matches!(without, Without::HeapStats | Without::HeapStatsBeforeRestart) {
        feed.wait(10).heap_stats(SIZES);
    }
    if without == Without::RestartByThatThread {
        feed.on(101);
    }
    if without != Without::RestartEnd {
        feed.wait(10).restart_end();
    }
    if without == Without::HeapStatsBeforeRestart {
        feed.wait(10).heap_stats(SIZES);
    }
    // The next collection is complete again.
    feed.on(100).wait(1_000).collect(0, SIZES);
    let (process, all) = feed.told();
    let complete: Vec<bool> = all.iter().map(|(collection, _)| collection.complete).collect();
    assert_eq!(complete, [false, true]);
    assert_eq!((process.begun(), process.all.count, process.generations[0].count), (2, 1, 1));
}

#[test]
fn a_collection_shorter_than_a_tick_counts_but_not_for_perfview() {
    let count = |rules| {
        let mut feed = AnalysisFeed::new(rules);
        feed.suspend_begin(FOR_GC).wait(1).suspend_end().start(0, SMALL, BLOCKING).end().heap_stats(SIZES);
        feed.wait(1).restart_end();
        feed.process().all.count
    };
    assert_eq!((count(Rules::Ours), count(Rules::LikePerfView)), (1, 0));
}

#[rstest]
fn a_collection_without_an_end_ends_at_statistics_after_its_restart(
    #[values(Rules::Ours, Rules::LikePerfView)] rules: Rules,
) {
    // The events are as in .NET 2, in a concurrent collection: the world restarts, then the collection ends.
    let mut feed = AnalysisFeed::new(rules);
    feed.suspend_begin(FOR_GC).wait(10).suspend_end().start(2, SMALL, BLOCKING).wait(10).restart_end();
    feed.wait(500).end().heap_stats(SIZES);
    let collections = feed.collections();
    let [collection] = &collections[..] else { panic!("{collections:?}") };
    assert_near(collection.pause, 0.020);
    assert_near(collection.duration, 0.510);
}

#[rstest]
fn where_the_end_of_the_suspension_is_missing_it_lasts_until_the_start(
    #[values(Rules::Ours, Rules::LikePerfView)] rules: Rules,
) {
    let mut feed = AnalysisFeed::new(rules);
    for _ in 0..2 {
        feed.wait(1_000).suspend_begin(FOR_GC).wait(30).start(0, SMALL, BLOCKING).wait(100).end().heap_stats(SIZES);
        feed.wait(20).restart_end();
    }
    let collections = feed.collections();
    assert_near(collections[0].suspend, 0.030);
    // PerfView takes the end of the first suspension.
    assert_near(collections[1].suspend, if rules == Rules::Ours { 0.030 } else { 0.030 - 1.150 });
}

#[rstest]
fn stops_for_other_reasons_are_no_pauses(#[values(Rules::Ours, Rules::LikePerfView)] rules: Rules) {
    let mut feed = AnalysisFeed::new(rules);
    let sample = |feed: &mut AnalysisFeed| {
        feed.on(9).suspend_begin(FOR_OTHER).wait(50).suspend_end().wait(100).restart_end().wait(10).on(100);
    };
    sample(&mut feed);
    // One of the other suspensions begins before the collection and ends within it.
    feed.on(9).suspend_begin(FOR_OTHER).wait(5).on(100);
    feed.suspend_begin(FOR_GC).wait(10).suspend_end().wait(20).start(0, SMALL, BLOCKING).wait(100).end();
    feed.on(9).restart_end().on(100).heap_stats(SIZES).wait(30).restart_end();
    sample(&mut feed);
    let (process, all) = feed.told();
    assert_eq!(process.begun(), 1);
    assert_near(all[0].0.pause, 0.160);
    assert_near(all[0].0.suspend, 0.010);
    assert_near(process.all.total_pause, 0.160);
}

#[test]
fn optional_events_may_be_missing() {
    let mut feed = AnalysisFeed::new(Rules::Ours);
    feed.event(35, 0, &bytes().u32(0).u16(0));
    feed.suspend_begin(FOR_GC).wait(10).suspend_end().wait(20).start(2, SMALL, BLOCKING);
    for (time, sort) in [(5, 0), (7, 2), (1, 1)] {
        feed.wait(time).event(202, 0, &bytes().u32(0).u16(0).u32(sort).u64(u64::from(sort) * 100));
    }
    feed.event(205, 4, &global_history(2)).heap_history(&[[MB, 0, 0, 0, 0, 0, 0, 0, 0, 0]; 5]);
    feed.wait(50).end().wait(10).heap_stats(SIZES).event(7, 1, &bytes().u16(0)).restart_end();
    let collections = feed.collections();
    let marks = &collections[0].marks[0];
    assert_eq!(marks.promoted.expect("the events have it")[..3], [0, 100, 200]);
    for (sort, time) in [(0, 0.005), (2, 0.007), (1, 0.001)] {
        assert_near(marks.times[sort].expect("the mark time is known"), time);
    }
    let global = collections[0].global.as_ref().expect("it has a global history");
    let phases = global.phases.as_ref().expect("version 4 has them");
    assert_eq!(
        (phases.roots, phases.plan, phases.relocate, phases.compact, phases.sweep),
        (11, Some(15), Some(16), Some(17), None)
    );
}

/// A history with the given mechanisms, in which phase n took 10 + n µs.
fn global_history(mechanisms: u32) -> gcstats_support::Bytes {
    let head = bytes().u64(0).u32(1).u32(2).u32(0).u32(0).u32(mechanisms).u16(0).u32(0).u32(55).u32(0).u32(0).u32(8);
    (0..8).fold(head, |all, phase| all.u32(10 + phase))
}

#[rstest]
fn a_background_collection_pauses_at_its_begin_and_at_its_end(
    #[values(Rules::Ours, Rules::LikePerfView)] rules: Rules,
) {
    let mut feed = AnalysisFeed::new(rules);
    feed.wait(1_000).suspend_begin(FOR_GC).wait(10).suspend_end().wait(5).start(2, SMALL, BACKGROUND);
    feed.wait(85).restart_end();
    // The background collection's own thread stops the world again.
    feed.on(200).wait(10_000).suspend_begin(FOR_PREPARATION).wait(20).suspend_end().wait(30).restart_end();
    feed.wait(5_000).suspend_begin(FOR_PREPARATION).wait(1).suspend_end().wait(2).restart_end();
    feed.wait(700).end().wait(3).heap_stats(SIZES);
    let now = feed.now;
    let (process, all) = feed.told();
    let (collection, _) = &all[0];
    assert!(collection.complete);
    assert_near(collection.pause, 0.100 + 0.050 + 0.003);
    assert_near(collection.suspend, 0.010 + 0.020 + 0.001);
    assert_near(collection.final_pause, 0.003);
    assert_near(collection.since_last, now as f64 / 1000.0);
    assert_near(process.duration, now as f64 / 1000.0 - 1.0);
    assert_eq!(collection.generation_name(), "2B");
}

/// A background collection whose histories follow its statistics. The threads that mark handles in a blocking collection, before or after
/// it, show whether the collector is the server's.
#[rstest]
#[case::server(Rules::LikePerfView, &[1, 2], true, 1)]
#[case::workstation(Rules::LikePerfView, &[1, 1], true, 0)]
#[case::known_later(Rules::LikePerfView, &[1, 2], false, 1)]
#[case::workstation_known_later(Rules::LikePerfView, &[1, 1], false, 0)]
#[case::ours_whatever_the_collector(Rules::Ours, &[1, 1], true, 1)]
fn a_history_after_the_statistics_is_that_of_the_background_collection(
    #[case] rules: Rules,
    #[case] markers: &[u64],
    #[case] marks_come_first: bool,
    #[case] rows: usize,
) {
    let mut feed = AnalysisFeed::new(rules);
    let blocking = |feed: &mut AnalysisFeed| {
        feed.on(200).wait(1_000).suspend_begin(FOR_GC).wait(10).suspend_end().wait(5).start(1, SMALL, BLOCKING);
        for (heap, &thread) in (0..).zip(markers) {
            feed.on(thread).wait(5).event(202, 0, &bytes().u32(heap).u16(0).u32(2).u64(0));
        }
        feed.on(200).wait(5).end().heap_stats(SIZES).wait(5).restart_end();
    };
    if marks_come_first {
        blocking(&mut feed);
    }
    feed.on(200).wait(1_000).suspend_begin(FOR_GC).wait(10).suspend_end().wait(5).start(2, SMALL, BACKGROUND);
    feed.wait(5).restart_end().wait(1_000).end().heap_stats(SIZES);
    feed.wait(5).event(205, 4, &global_history(2)).heap_history(&[[MB, 0, 0, 0, 0, 0, 0, 0, 0, 0]; 5]);
    if !marks_come_first {
        blocking(&mut feed);
    }
    let collections = feed.collections();
    let background = collections.iter().find(|one| one.generation_name() == "2B").expect("the collection is listed");
    assert_eq!((background.heaps.len(), usize::from(background.global.is_some())), (rows, rows));
    assert!(collections.iter().filter(|one| one.generation_name() != "2B").all(|one| one.heaps.is_empty()));
}

#[rstest]
fn young_collections_run_while_one_is_in_the_background(#[values(Rules::Ours, Rules::LikePerfView)] rules: Rules) {
    let mut feed = AnalysisFeed::new(rules);
    let history = |size: u64| [[size * MB, 0, 0, 0, 0, 0, 0, 0, 0, 0]; 5];
    // The background collection begins with a young collection in its own pause.
    feed.suspend_begin(FOR_GC).wait(10).suspend_end().wait(5).start(2, SMALL, BACKGROUND);
    feed.wait(5).start(1, SMALL, BLOCKING).wait(50).heap_history(&history(1)).end().heap_stats(SIZES);
    feed.wait(30).restart_end();
    feed.on(300).wait(1_000);
    feed.suspend_begin(FOR_GC).wait(10).suspend_end().wait(10).start(0, SMALL, FOREGROUND);
    feed.wait(50).heap_history(&history(9)).end().heap_stats(SIZES).wait(5).restart_end();
    feed.on(200).wait(1_000);
    feed.suspend_begin(FOR_PREPARATION).wait(20).suspend_end().wait(30).restart_end();
    feed.wait(100).heap_history(&history(2)).end().heap_stats(SIZES);
    // After the background collection's end: the heap's size at this time must not count for it.
    feed.on(300).wait(1_000).suspend_begin(FOR_GC).wait(10).suspend_end().start(0, SMALL, BLOCKING);
    feed.wait(50).heap_history(&history(20)).end().heap_stats(SIZES).wait(5).restart_end();
    let (_, all) = feed.told();
    let names: Vec<String> = all.iter().map(|(collection, _)| collection.generation_name()).collect();
    assert_eq!(names, ["2B", "1N", "0F", "0N"]);
    assert!(all.iter().all(|(collection, _)| collection.complete));
    let (background, figures) = &all[0];
    // The first pause is the young collection's, except for the time to stop.
    assert_near(background.pause, 0.010 + 0.050);
    assert_near(figures.heap_before, 10.0);
    assert_near(figures.peak, 45.0);
    // The young collection's pause starts at its own begin.
    assert_near(all[1].0.pause, 0.080);
    assert_near(all[1].0.suspend, 0.0);
    assert_near(all[2].0.pause, 0.075);
}

#[rstest]
fn a_background_collection_that_never_ends_does_not_count(#[values(Rules::Ours, Rules::LikePerfView)] rules: Rules) {
    let mut feed = AnalysisFeed::new(rules);
    feed.suspend_begin(FOR_GC).wait(10).suspend_end().wait(5).start(2, SMALL, BACKGROUND).wait(85).restart_end();
    feed.wait(1_000).suspend_begin(FOR_GC).wait(10).suspend_end().start(2, SMALL, BACKGROUND).wait(5).restart_end();
    feed.wait(1_000).end().heap_stats(SIZES);
    let (_, all) = feed.told();
    assert_eq!(all.iter().map(|(collection, _)| collection.complete).collect::<Vec<_>>(), [false, true]);
}

#[rstest]
fn a_full_collection_of_provisional_mode_ends_the_young_one_in_whose_pause_it_runs(
    #[values(Rules::Ours, Rules::LikePerfView)] rules: Rules,
) {
    let mut feed = AnalysisFeed::new(rules);
    feed.suspend_begin(FOR_GC).wait(10).suspend_end().wait(5).start(1, SMALL, BLOCKING).wait(50).end();
    feed.heap_stats(SIZES).wait(5).start(2, PROVISIONAL, BLOCKING).wait(500).end().heap_stats(SIZES);
    feed.wait(30).restart_end();
    let collections = feed.collections();
    assert_eq!(collections.len(), 2);
    assert_near(collections[0].pause, 0.0);
    assert_near(collections[1].pause, 0.530);
    assert_near(collections[1].suspend, 0.0);
}

#[test]
fn allocated_is_the_amount_between_two_collections() {
    let mut feed = AnalysisFeed::new(Rules::Ours);
    let generation = |before: u64, free: u64, after: u64| [before, free, 1_000, after, 2_000, 3_000, 0, 0, 0, 0];
    let mut collect = |number: u32, young, large, pinned| {
        feed.wait(10_000).suspend_begin(FOR_GC).wait(10).suspend_end().start(number, SMALL, BLOCKING);
        feed.heap_history(&[young, [0; 10], [0; 10], large, pinned]).wait(100).end().heap_stats(SIZES).restart_end();
    };
    collect(2, generation(MB, 0, 105_000), generation(500_000, 0, 205_000), generation(0, 0, 0));
    collect(
        0,
        generation(2 * MB, 0, 5_000),
        [801_000, 100_000, 1_000, 0, 0, 0, 0, 0, 0, 0],
        [300_000, 0, 0, 0, 0, 0, 0, 0, 0, 0],
    );
    collect(0, generation(3 * MB, 0, 5_000), generation(901_000, 0, 0), generation(301_000, 0, 0));
    let (process, all) = feed.told();
    let figures = all[1].1;
    // 1,999,000 bytes of objects before this collection, 100,000 bytes after the previous one.
    assert_near(figures.allocated_young, 1.899);
    assert_near(figures.allocated_large, 0.500);
    assert_near(figures.allocated_pinned, 0.300 + 0.005);
    assert_near(figures.before[3], 0.801);
    assert_near(figures.peak, 2.0 + 0.801 + 0.3);
    // After a young collection the large objects' size is unknown: the size before it is used.
    let figures = all[2].1;
    assert_near(figures.allocated_large, 0.200);
    assert_near(figures.allocated_pinned, 0.0);
    assert_near(process.all.total_allocated, all.iter().map(|(_, figures)| figures.allocated).sum());
    assert_near(figures.rate, figures.allocated * 1000.0 / all[2].0.since_last);
}

#[rstest]
#[case(Rules::Ours, 0.3)]
#[case(Rules::LikePerfView, 0.2)]
fn without_histories_ticks_give_the_allocated_bytes(#[case] rules: Rules, #[case] pinned: f64) {
    let mut feed = AnalysisFeed::new(rules);
    feed.allocation(0, 100_000).allocation(1, 200_000).allocation(2, 300_000);
    feed.wait(100).collect(0, SIZES);
    feed.allocation(0, 400_000).wait(1_000).collect(0, SIZES);
    let (_, all) = feed.told();
    let figures = all[0].1;
    assert_near(figures.allocated_young, 0.1);
    assert_near(figures.allocated_large, 0.2);
    assert_near(figures.allocated_pinned, pinned);
    assert_near(figures.peak, 0.1);
    assert_near(all[1].1.allocated_young, 0.4);
}

#[test]
fn amounts_that_overflowed_are_ignored() {
    let mut feed = AnalysisFeed::new(Rules::Ours);
    let tick = |amount: i32, kind: u32| bytes().u32(amount as u32).u32(kind).u16(0);
    feed.event(10, 1, &tick(1_000, 0)).event(10, 1, &tick(-5, 0)).event(10, 1, &tick(1_000_000, 0));
    feed.event(10, 1, &tick(i32::MAX, 1));
    feed.collect(0, SIZES);
    let (_, all) = feed.told();
    assert_near(all[0].0.ticked[0], (1_000 + 90 * 1024 + 110 * 1024) as f64 / 1e6);
    assert_near(all[0].0.ticked[1], (2 * 1024 * 1024) as f64 / 1e6);
}

#[test]
fn survival_is_of_the_generations_that_were_collected() {
    let mut feed = AnalysisFeed::new(Rules::Ours);
    let data = |survived: u64| [1_000, 100, 0, 500, 25, 25, 0, survived / 2, survived - survived / 2, 0];
    feed.suspend_begin(FOR_GC).wait(10).suspend_end().start(1, SMALL, BLOCKING).wait(10);
    // Two heaps, with 50 % and 33.3 %.
    feed.heap_history(&[data(450); 5]).heap_history(&[data(300); 5]);
    feed.end().heap_stats([1_000; 5]).wait(1).restart_end();
    let collections = feed.collections();
    let survival: Vec<f64> = (0..5).map(|generation| collections[0].survival_percent(generation)).collect();
    assert_eq!(survival[..2], [41.0, 41.0]);
    assert!(survival[2..].iter().all(|percent| percent.is_nan()));
    assert_near(collections[0].fragmentation_percent(3), 10.0);
    assert_near(collections[0].out_mb(0), 0.000_750);
}

#[test]
fn pins_are_counted_once() {
    let mut feed = AnalysisFeed::new(Rules::Ours);
    feed.suspend_begin(FOR_GC).wait(10).suspend_end().start(1, SMALL, BLOCKING).wait(10);
    let pin = |object: u64| bytes().u64(1).u64(object).u64(4_120).z16("System.Byte[]").u16(0);
    feed.event(33, 0, &pin(16)).event(33, 0, &pin(16)).event(33, 0, &pin(32));
    feed.event_of(PRIVATE, 199, 0, &bytes().u64(0).u64(16_480).u64(0).u16(0));
    feed.end().heap_stats(SIZES).wait(1).restart_end();
    let collections = feed.collections();
    assert_eq!((collections[0].pinned_bytes, collections[0].plug_bytes), (8_240, 16_480));
    assert_eq!(collections[0].pinned_percent(), Some(50));
}

#[test]
fn memory_from_the_system_is_reported_before_and_after() {
    let mut feed = AnalysisFeed::new(Rules::Ours);
    let usage = |in_use: u64| {
        let data = [in_use, 2, 3, 4, 5].iter().fold(bytes().u16(1), |data, number| data.u64(*number));
        bytes().z16("CommittedUsage").u32(42).all(&data.0).u16(0)
    };
    feed.suspend_begin(FOR_GC).wait(10).suspend_end().start(1, SMALL, BLOCKING).wait(10).event(39, 0, &usage(100));
    feed.event(39, 0, &bytes().z16("HeapCountSample").u32(2).u16(1).u16(0)).event(39, 0, &usage(200));
    feed.end().heap_stats(SIZES).wait(1).restart_end();
    let process = feed.process();
    let mut xml = Vec::new();
    process.write_xml(&mut xml).expect("a vector accepts it");
    let xml = String::from_utf8(xml).expect("the XML is UTF-8");
    let expected =
        "<CommittedData BeforeTotalCommittedInUse=     \"100\" BeforeTotalCommittedInGlobalDecommit=       \"2\"";
    assert!(xml.contains(expected), "{xml}");
    assert!(xml.contains(" AfterTotalCommittedInUse=     \"200\""), "{xml}");
}

#[test]
fn the_head_identifies_the_process() {
    let mut feed = AnalysisFeed::new(Rules::Ours);
    let line = "\"/opt/my apps/Big.App.exe\" --serve";
    feed.event_of(gcstats_support::PIPE, 1, 1, &bytes().z16(line).z16("Linux").z16("x64"));
    let version = [8, 0, 11, 61].iter().fold(bytes().u16(0).u16(2), |all, part| all.u16(*part));
    let version = [8, 0, 1, 2].iter().fold(version, |all, part| all.u16(*part));
    let start = version.u32(0x1001).u8(0).z16("a <b> \"c\"").all(&[0; 16]).z16("/usr/lib/libcoreclr.so");
    feed.event_of(gcstats_support::RUNDOWN, 187, 0, &start);
    let settings = (1..=5).fold(bytes(), |all, number| all.u64(number)).u32(90).u32(0x11).u16(0);
    feed.event_of(gcstats_support::RUNDOWN, 10, 0, &settings);
    let process = feed.process();
    assert_eq!(process.identity.name(Rules::Ours), "Big.App");
    assert_eq!(process.identity.name(Rules::LikePerfView), "\"/opt/my".rsplit('/').next().expect("a part"));
    let mut xml = Vec::new();
    process.write_xml(&mut xml).expect("a vector accepts it");
    let xml = String::from_utf8(xml).expect("the XML is UTF-8");
    for part in [
        "<GCProcess Process= \"Big.App\" ProcessID=  \"7\" HardLimit=\"1\" LOHThreshold=\"2\"",
        "HighMemPercentConfig=\"90\" GCSettingsConcurrent=\"True\" GCSettingsLargePages=\"False\"",
        "GCSettingsNoAffinitize=\"True\" GCCount=   \"0\"",
        "RuntimeVersion=\"V 8.0.1.2\" StartupFlags=\"CONCURRENT_GC, SERVER_GC\"",
        "CommandLine=\"a &lt;b&gt; &quot;c&quot;\">",
    ] {
        assert!(xml.contains(part), "no {part} in {xml}");
    }
}

/// The events that the analysis interprets, by provider and number.
const KNOWN: [(&str, u32); 22] = [
    (gcstats_support::RUNTIME, 1),
    (gcstats_support::RUNTIME, 2),
    (gcstats_support::RUNTIME, 3),
    (gcstats_support::RUNTIME, 4),
    (gcstats_support::RUNTIME, 8),
    (gcstats_support::RUNTIME, 9),
    (gcstats_support::RUNTIME, 10),
    (gcstats_support::RUNTIME, 33),
    (gcstats_support::RUNTIME, 39),
    (gcstats_support::RUNTIME, 187),
    (gcstats_support::RUNTIME, 202),
    (gcstats_support::RUNTIME, 204),
    (gcstats_support::RUNTIME, 205),
    (gcstats_support::RUNTIME, 208),
    (gcstats_support::RUNTIME, 209),
    (PRIVATE, 7),
    (PRIVATE, 8),
    (PRIVATE, 10),
    (PRIVATE, 199),
    (gcstats_support::RUNDOWN, 10),
    (gcstats_support::RUNDOWN, 187),
    (gcstats_support::PIPE, 1),
];

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    /// For events of any contents in any order there is a report, and the number of collections that it lists is the number that it counts.
    #[test]
    fn any_events_make_a_report(
        events in proptest::collection::vec(
            (0..KNOWN.len(), 0_u32..6, 0_u64..4, 0_i64..2_000, proptest::collection::vec(any::<u8>(), 0..600)),
            0..120,
        ),
        // Small numbers, which are valid reasons and kinds, occur more often than random bytes.
        small in any::<bool>(),
        like_perfview in any::<bool>(),
        pointer in prop_oneof![Just(4_u8), Just(8)],
    ) {
        let rules = if like_perfview { Rules::LikePerfView } else { Rules::Ours };
        let mut feed = AnalysisFeed::with_pointers(rules, pointer);
        for (which, version, thread, time, mut payload) in events {
            if small {
                payload.iter_mut().enumerate().for_each(|(at, byte)| *byte = if at % 4 == 0 { *byte % 8 } else { 0 });
            }
            let (provider, event) = KNOWN[which];
            feed.on(thread).wait(time).event_of(provider, event, version, &bytes().all(&payload));
        }
        // One event of the runtime: a process that only the event pipe's own events mention is not listed.
        feed.event(35, 0, &bytes().u32(0).u16(0));
        let (process, all) = feed.told();
        prop_assert_eq!(process.begun(), all.len() as u64);
        let complete = all.iter().filter(|(collection, _)| collection.complete).count();
        prop_assert_eq!(process.all.count, complete as u64);
        let mut csv = Vec::new();
        process.write_csv(&mut csv)?;
        prop_assert_eq!(csv.split(|byte| *byte == b'\n').count(), complete + 2);
        process.write_per_generation_csv(&mut csv)?;
        process.write_xml(&mut csv)?;
    }
}
