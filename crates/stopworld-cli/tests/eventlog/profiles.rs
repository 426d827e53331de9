//! Profiles in eventlogs and .hp files, compared with the censuses that the collector itself returns, and with each other.

use crate::eventlog_rules;
use crate::writer_support;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use eventlog_rules::{Event, Log, check, check_beginning, ticks_by_number, ticks_by_order};
use ghc_eventlog::events::id;
use rstest::rstest;
use stopworld::profile::census::{Band, Breakdown, Census, Every, Filters, HeapProfile};
use stopworld::profile::{StackId, TickClock, TimeProfile};
use stopworld::{Charging, World, cost_centre};
use stopworld_trace::{eventlog, profile_text};
use writer_support::{end, run, small};

/// The number of the first of the built-in centres, which every program has.
const BUILT_IN: u32 = 1 << 20;

struct Files(tempfile::TempDir);

impl Files {
    fn new() -> Files {
        Files(tempfile::tempdir().unwrap())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn start(&self) -> eventlog::Trace {
        eventlog::Options::new(self.path("t.eventlog")).start().unwrap()
    }

    fn log(&self) -> Log {
        Log::read(&self.path("t.eventlog"))
    }
}

/// A sample of a log: the bytes and the objects of its bands by key; the key of a stack is its centres.
#[derive(Debug, Default, PartialEq, Eq)]
struct Sample {
    era: u64,
    taken: Option<u64>,
    bands: BTreeMap<String, u64>,
    objects: BTreeMap<String, u64>,
}

impl Sample {
    fn sum(&self) -> u64 {
        self.bands.values().sum()
    }
}

/// The names of centres, by number.
type Names = BTreeMap<u32, String>;

fn stack(event: &Event, at: usize, names: &Names) -> String {
    let depth = usize::from(event.payload[at]);
    assert_eq!(event.payload.len(), at + 1 + 4 * depth);
    let centres: Vec<&str> = (0..depth).map(|index| names[&event.u32(at + 1 + 4 * index)].as_str()).collect();
    if depth == 0 { "MAIN".to_owned() } else { centres.join("/") }
}

/// Returns the samples of a log, after checking that each centre is defined before it is used.
fn samples(log: &Log) -> Vec<Sample> {
    let (mut names, mut samples) = (Names::new(), Vec::new());
    let mut open: Option<Sample> = None;
    let mut latest = String::new();
    let is_of_profile = |id: u16| (160..=168).contains(&id) || id == id::HEAP_PROF_SAMPLE_OBJECTS;
    for event in log.events.iter().filter(|event| is_of_profile(event.id)) {
        assert_eq!(event.capability, None, "{event:?}");
        match event.id {
            id::HEAP_PROF_COST_CENTRE => {
                let texts = event.texts_before_flags(4);
                assert_eq!(texts.len(), 3);
                let before = names.insert(event.u32(0), texts[0].to_owned());
                // At the end of a log with ticks all centres are defined once more.
                assert!(before.is_none_or(|before| before == texts[0]), "{event:?}");
            }
            id::HEAP_PROF_SAMPLE_BEGIN | id::HEAP_BIO_PROF_SAMPLE_BEGIN => {
                assert!(open.is_none());
                let taken = (event.id == id::HEAP_BIO_PROF_SAMPLE_BEGIN).then(|| event.u64(8));
                open = Some(Sample { era: event.u64(0), taken, ..Sample::default() });
            }
            id::HEAP_PROF_SAMPLE_COST_CENTRE | id::HEAP_PROF_SAMPLE_STRING => {
                assert_eq!(event.payload[0], 0);
                let heading = match event.id {
                    id::HEAP_PROF_SAMPLE_STRING => event.texts(9).concat(),
                    _ => stack(event, 9, &names),
                };
                let before = open.as_mut().unwrap().bands.insert(heading.clone(), event.u64(1));
                assert_eq!(before, None, "{heading} twice in a sample");
                latest = heading;
            }
            id::HEAP_PROF_SAMPLE_OBJECTS => {
                assert_eq!((event.payload[0], event.payload.len()), (0, 9));
                assert_eq!(open.as_mut().unwrap().objects.insert(latest.clone(), event.u64(1)), None, "{latest}");
            }
            id::HEAP_PROF_SAMPLE_END => {
                let sample = open.take().unwrap();
                assert_eq!(sample.era, event.u64(0));
                samples.push(sample);
            }
            id::PROF_SAMPLE_COST_CENTRE => assert!(!stack(event, 12, &names).is_empty()),
            _ => {}
        }
    }
    assert!(open.is_none());
    samples
}

/// The censuses that the collector itself returns.
type Censuses = Arc<Mutex<Vec<Census>>>;

fn kept(profile: HeapProfile) -> (HeapProfile, Censuses) {
    let censuses = Censuses::default();
    let kept = Arc::clone(&censuses);
    (profile.on_census(move |census| kept.lock().unwrap().push(census.clone())), censuses)
}

fn headings(census: &Census, value: fn(&Band) -> u64) -> BTreeMap<String, u64> {
    let mut headings = BTreeMap::new();
    for band in &census.bands {
        let centres = |stack| StackId::from_raw(stack).centres().map(|centre| centre.label()).collect::<Vec<_>>();
        let heading = match band.stack {
            None => band.label.clone(),
            Some(0) => "MAIN".to_owned(),
            Some(stack) => centres(stack).join("/"),
        };
        assert_eq!(headings.insert(heading, value(band)), None);
    }
    headings
}

/// The samples of a .hp file, with the labels as written there.
fn hp_samples(text: &str) -> Vec<(f64, BTreeMap<String, u64>)> {
    let mut samples: Vec<(f64, BTreeMap<String, u64>)> = Vec::new();
    let mut open = false;
    for line in text.lines().skip(4) {
        if let Some(time) = line.strip_prefix("BEGIN_SAMPLE ") {
            samples.push((time.parse().unwrap(), BTreeMap::new()));
            open = true;
        } else if let Some(time) = line.strip_prefix("END_SAMPLE ") {
            assert!(open && time.parse::<f64>().unwrap() == samples.last().unwrap().0);
            open = false;
        } else {
            let (label, bytes) = line.split_once('\t').unwrap();
            assert!(!label.contains(char::is_whitespace), "{label}");
            samples.last_mut().unwrap().1.insert(label.to_owned(), bytes.parse().unwrap());
        }
    }
    assert!(!open && samples.is_sorted_by_key(|(time, _)| *time));
    samples
}

/// `.census.exact`: the census, the log, the .hp file and the collection's live bytes agree.
#[rstest]
fn a_log_has_the_censuses_to_the_byte(
    #[values("hc", "hm", "hd", "hy", "hr", "hT")] by: &str,
    #[values("graph", "churn")] workload: &str,
) {
    let files = Files::new();
    let trace = files.start();
    let hp = profile_text::Options::new(files.path("t.hp"), profile_text::Kind::Heap).start().unwrap();
    let breakdown = Breakdown::from_option(by).unwrap();
    let (profile, censuses) = kept(HeapProfile::by(breakdown));
    let builder = small().record_to(&trace).record_to(&hp).charge_allocations(Charging::On);
    let world = builder.profile(profile).build().unwrap();
    run(&world, workload, 2);
    end(world);
    for finished in [trace.finish().unwrap(), hp.finish().unwrap()] {
        assert!(finished.is_complete(), "{finished:?}");
    }
    let log = files.log();
    let seen = check(&log);
    let begin = log.all(id::HEAP_PROF_BEGIN).next().unwrap();
    assert_eq!((log.count(id::HEAP_PROF_BEGIN), begin.u64(1), begin.u32(9)), (1, 0, breakdown as u32));
    assert_eq!(begin.texts(13), [""; 7]);

    let (samples, mut censuses) = (samples(&log), censuses.lock().unwrap());
    assert_eq!(
        (samples.len(), censuses.len()),
        (seen.len(), seen.len()),
        "one sample and one census for each collection"
    );
    // A census may be reported after the next collection has begun, so the reports may be out of order.
    censuses.sort_by_key(|census| census.era);
    for ((sample, census), seen) in samples.iter().zip(&*censuses).zip(&seen) {
        assert_eq!((sample.era, &sample.bands), (census.era, &headings(census, |band| band.bytes)));
        assert_eq!(sample.objects, headings(census, |band| band.objects));
        assert_eq!(sample.sum(), seen.live, "{by}: all that lives and no more");
    }

    let text = std::fs::read_to_string(files.path("t.hp")).unwrap();
    let of_hp = hp_samples(&text);
    assert_eq!(of_hp.len(), samples.len() + 2, "an empty sample at the beginning and at the end");
    for ((_, bands), sample) in of_hp[1..].iter().zip(&samples) {
        assert_eq!(bands.values().sum::<u64>(), sample.sum());
        let without_zeros: Vec<u64> = sample.bands.values().copied().filter(|bytes| *bytes > 0).collect();
        let (of_hp, of_log) = (BTreeSet::from_iter(bands.values()), BTreeSet::from_iter(&without_zeros));
        assert_eq!((bands.len(), of_hp), (without_zeros.len(), of_log));
    }
    if by == "hc" {
        let expected = if workload == "graph" { "vertices" } else { "child" };
        assert!(samples.iter().any(|sample| sample.bands.contains_key(expected)), "{samples:?}");
        assert!(of_hp.iter().any(|(_, bands)| bands.keys().any(|label| label.ends_with(&format!("){expected}")))));
    }
}

/// eventlog2html and hs-speedscope require this order: the seven centres of every program, then the program's own in descending order to 1.
#[test]
fn centres_are_defined_in_the_order_of_ghc() {
    let files = Files::new();
    for label in ["one", "two", "three"] {
        stopworld::profile::centre(label, "order", "here");
    }
    let trace = files.start();
    let world = small().record_to(&trace).charge_allocations(Charging::On).build().unwrap();
    world.profile(HeapProfile::by(Breakdown::CostCentre)).unwrap();
    end(world);
    trace.finish().unwrap();
    let log = files.log();
    let numbers: Vec<u32> = log.all(id::HEAP_PROF_COST_CENTRE).map(|event| event.u32(0)).collect();
    assert_eq!(numbers[..7], [7, 6, 5, 4, 3, 2, 1].map(|number| BUILT_IN + number));
    let last = numbers.len() as u32 - 7;
    assert!(last >= 3);
    assert_eq!(numbers[7..], (1..=last).rev().collect::<Vec<_>>());
}

/// hs-speedscope derives the numbers from the order of the definitions. Tested for centres that are first entered while the profile runs,
/// for a stack that has only the centre with the highest number, and for a log that ends with what each flush writes.
#[test]
fn hs_speedscope_has_the_right_names_of_late_centres() {
    let files = Files::new();
    let trace = files.start();
    let world = small().record_to(&trace).build().unwrap();
    // SAFETY: no reference is held.
    let m = unsafe { world.attach("main") }.unwrap();
    world.events().fire_ticker_begin(1_000_000);
    let (mut stack, mut ticks) = (StackId::MAIN, Vec::new());
    let centres = ["late one", "late two", "late three"].map(|label| stopworld::profile::centre(label, "late", "here"));
    for (tick, centre) in (1..).zip(centres) {
        stack = stack.push(centre);
        let tid = m.tid().0 as u32;
        world.events().fire_tick(tick * 2, tid, stack.get());
        world.events().fire_tick(tick * 2 + 1, tid, StackId::MAIN.push(centre).get());
        world.events().fire_tick(tick * 2 + 1, 0, StackId::GC.get());
        ticks.push(stack.centres().map(|centre| centre.label().to_owned()).collect::<Vec<_>>());
        ticks.push(vec![centre.label().to_owned()]);
        trace.flush().unwrap();
        let log = files.log();
        assert!(log.has_end);
        let shown: Vec<Vec<String>> = ticks_by_order(&log).into_iter().map(|(_, names)| names).collect();
        assert_eq!((&shown, ticks_by_order(&log)), (&ticks, ticks_by_number(&log)));
    }
    drop(m);
    end(world);
    let finished = trace.finish().unwrap();
    let log = files.log();
    check(&log);
    samples(&log);
    assert_eq!((ticks_by_order(&log), log.events.len() as u64), (ticks_by_number(&log), finished.records));
    let numbers: Vec<u32> = log.all(id::HEAP_PROF_COST_CENTRE).map(|event| event.u32(0)).collect();
    assert_eq!(
        numbers[..7],
        [7, 6, 5, 4, 3, 2, 1].map(|number| BUILT_IN + number),
        "also in a file that has defined nothing yet"
    );
}

/// A biography is known only at the end, and so is a profile filtered by its stages: both have the true times of the samples.
#[rstest]
fn samples_of_a_biography_have_their_own_times(#[values(Breakdown::Biography, Breakdown::Kind)] by: Breakdown) {
    let files = Files::new();
    let trace = files.start();
    let world = small().record_to(&trace).build().unwrap();
    let events = world.events();
    let label = |text: &str| world.telemetry_intern(text).unwrap().get();
    let early = stopworld::events::clock::Clock::of_process().relation().ns - 10_000;
    events.fire_census_filter(2, label("Tree,Node"));
    events.fire_census_filter(6, label("drag"));
    events.fire_census_profile_begin(1_000_000, by as u32);
    for era in 1..=2 {
        events.fire_census_begin(era, early + era * 1_000);
        for (name, bytes) in [("VOID", 8), ("LAG", 0), ("USE", 16), ("INHERENT_USE", 0), ("DRAG", era)] {
            events.fire_census_band(label(name), bytes, 1, 0);
        }
        events.fire_census_end(era);
    }
    end(world);
    trace.finish().unwrap();
    let log = files.log();
    check(&log);
    let begin = log.all(id::HEAP_PROF_BEGIN).next().unwrap();
    assert_eq!((begin.u64(1), begin.u32(9)), (1_000_000, by as u32));
    assert_eq!(begin.texts(13), ["", "", "Tree,Node", "", "", "", "drag"]);
    let samples = samples(&log);
    let times: Vec<u64> = samples.iter().map(|sample| sample.taken.unwrap()).collect();
    assert_eq!(times[1] - times[0], 1_000);
    let first_label = log.all(id::HEAP_PROF_SAMPLE_STRING).next().unwrap();
    assert!(times[1] < first_label.time, "written when it is known");
    assert_eq!(samples[1].bands.len(), 5);
    assert_eq!((samples[0].bands["DRAG"], samples[1].bands["DRAG"], samples[1].bands["LAG"]), (1, 2, 0));
}

#[test]
fn a_log_that_begins_late_names_the_profile_and_has_all_centres() {
    let files = Files::new();
    let time = TimeProfile { interval: Duration::from_millis(5), clock: TickClock::Wall };
    let world = small().charge_allocations(Charging::On).time_profile(time).build().unwrap();
    world.profile(HeapProfile::by(Breakdown::CostCentre).every(Every::Time(Duration::from_secs(3_600)))).unwrap();
    // SAFETY: the reference is a local variable.
    let m = unsafe { world.attach("main") }.unwrap();
    let array = {
        let _cost = cost_centre!("before");
        m.alloc_array::<u64>(5_000, |_| 0).unwrap()
    };
    let trace = files.start();
    world.record_to(&trace).unwrap();
    world.sample().unwrap();
    stopworld::keep_alive(array);
    drop(m);
    end(world);
    trace.finish().unwrap();
    let log = files.log();
    check(&log);
    let begin = log.all(id::HEAP_PROF_BEGIN).next().unwrap();
    assert_eq!((log.count(id::HEAP_PROF_BEGIN), begin.u64(1), begin.u32(9)), (1, 3_600_000_000_000, 1));
    let samples = samples(&log);
    assert!(samples.len() == 1 && samples[0].bands["before"] > 40_000, "{samples:?}");
    assert_eq!(log.all(id::PROF_BEGIN).map(|event| event.u64(0)).collect::<Vec<_>>(), [5_000_000]);
}

/// The trace has the facts that were recorded long before its last events: what is profiled, by which breakdown and with which filters,
/// and the length of a tick.
#[test]
fn a_flight_recorder_describes_the_profiles_of_its_samples() {
    let files = Files::new();
    let path = files.path("t.eventlog");
    let trace = eventlog::Options::new(path).flight_recorder(16 << 10).start().unwrap();
    let time = TimeProfile { interval: Duration::from_micros(700), clock: TickClock::Wall };
    let builder = small().record_to(&trace).charge_allocations(Charging::On).time_profile(time);
    let filters = Filters { types: vec!["Vertex".to_owned(), "Node".to_owned()], ..Filters::default() };
    let world = builder.profile(HeapProfile::by(Breakdown::CostCentre).filters(filters)).build().unwrap();
    run(&world, "graph", 2);
    // SAFETY: no reference is held.
    let m = unsafe { world.attach("main") }.unwrap();
    let written = || {
        trace.write_flight().unwrap();
        files.log()
    };
    for _ in 0..2 {
        for _ in 0..200 {
            m.collect().unwrap();
        }
        let log = written();
        check_beginning(&log);
        let begin = log.all(id::HEAP_PROF_BEGIN).next().unwrap();
        assert_eq!((begin.u32(9), begin.texts(13)[2]), (Breakdown::CostCentre as u32, "Vertex,Node"));
        assert_eq!(log.all(id::PROF_BEGIN).next().unwrap().u64(0), 700_000);
        assert_eq!((log.count(id::HEAP_PROF_BEGIN), log.count(id::PROF_BEGIN)), (1, 1));
        assert_eq!(log.count(id::HEAP_PROF_SAMPLE_STRING), 0, "stacks are written as stacks");
        assert_eq!(ticks_by_order(&log), ticks_by_number(&log));
    }
    drop(m);
    end(world);
    let log = written();
    assert_eq!(
        (log.count(id::HEAP_PROF_BEGIN), log.count(id::PROF_BEGIN)),
        (1, 1),
        "the profiles must be described once"
    );
    trace.finish().unwrap();
}

#[test]
fn a_second_heap_that_is_profiled_is_reported_and_not_mixed_in() {
    let files = Files::new();
    let trace = files.start();
    let worlds: Vec<World> = (0..2).map(|_| small().record_to(&trace).build().unwrap()).collect();
    for world in &worlds {
        world.profile(HeapProfile::by(Breakdown::Type)).unwrap();
        world.collect().unwrap();
    }
    worlds.into_iter().for_each(end);
    trace.finish().unwrap();
    let log = files.log();
    check(&log);
    assert_eq!((log.count(id::HEAP_PROF_BEGIN), samples(&log).len()), (1, 1));
    assert!(log.all(id::LOG_MSG).any(|event| event.text(0).contains("is profiled too")));
}

/// A tick record does not contain its length.
#[test]
fn a_log_has_ticks_of_one_length_and_says_which_are_left_out() {
    let files = Files::new();
    let trace = files.start();
    let worlds: Vec<World> = (0..3).map(|_| small().record_to(&trace).build().unwrap()).collect();
    for (world, interval) in worlds.iter().zip([1_000_000, 500_000, 1_000_000]) {
        world.events().fire_ticker_begin(interval);
        (1..=10).for_each(|tick| world.events().fire_tick(tick, 0, StackId::SYSTEM.get()));
    }
    worlds.into_iter().for_each(end);
    trace.finish().unwrap();
    let log = files.log();
    check(&log);
    assert_eq!(log.all(id::PROF_BEGIN).map(|event| event.u64(0)).collect::<Vec<_>>(), [1_000_000]);
    assert_eq!(log.count(id::PROF_SAMPLE_COST_CENTRE), 20);
    let said: Vec<&str> =
        log.all(id::LOG_MSG).map(|event| event.text(0)).filter(|said| said.contains("ticks")).collect();
    assert!(matches!(said[..], [said] if said.contains("500000 ns")), "{said:?}");
}

/// Each tick is in the log, with the thread's stack, and the .prof file has the same number of ticks.
#[test]
fn ticks_are_in_the_log_and_in_the_text() {
    let files = Files::new();
    let trace = files.start();
    let prof = profile_text::Options::new(files.path("t.prof"), profile_text::Kind::Time).start().unwrap();
    let time = TimeProfile { interval: Duration::from_micros(200), clock: TickClock::Cpu };
    let world = small().record_to(&trace).record_to(&prof).time_profile(time).build().unwrap();
    run(&world, "graph", 2);
    end(world);
    let finished = [trace.finish().unwrap(), prof.finish().unwrap()];
    assert!(finished.iter().all(|finished| finished.is_complete()), "{finished:?}");
    let log = files.log();
    check(&log);
    samples(&log);
    assert_eq!(ticks_by_order(&log), ticks_by_number(&log));
    assert_eq!(log.all(id::PROF_BEGIN).map(|event| event.u64(0)).collect::<Vec<_>>(), [200_000]);
    let ticks = log.count(id::PROF_SAMPLE_COST_CENTRE);
    assert!(ticks > 10, "{ticks}");
    let text = std::fs::read_to_string(files.path("t.prof")).unwrap();
    assert!(text.contains(&format!("({ticks} ticks @ 200 us)")), "{text}");
    // The root of all stacks inherits everything.
    let main = text.lines().rfind(|line| line.starts_with("MAIN ")).unwrap();
    assert!(main.ends_with(&format!(" 100.0 {ticks:6}")), "{text}");
    let by_centre: u64 = text
        .split("\n\n")
        .nth(4)
        .unwrap()
        .lines()
        .map(|line| line.split_whitespace().last().unwrap().parse::<u64>().unwrap())
        .sum();
    assert_eq!(by_centre, ticks as u64);
}
