//! A biography classifies every object that is alive at a census by its future use: never used (void), used later (lag), used now (use), used no
//! more (drag). The figures are exact to the byte, also for objects that died between two censuses.
//!
//! Shapes are built, read and dropped on threads that have detached before the census. Handles keep the objects alive, because reaching an object
//! is not using it; a use is a dereference.

use std::collections::BTreeMap;
use std::hint::black_box;
use std::sync::{Arc, Mutex};

use crate::heap_support::*;
use proptest::prelude::*;
use stopworld::events::{Event, EventId, Labels, MemorySink, Selection};
use stopworld::profile::census::{Breakdown, Census, Every, Filters, HeapProfile, ProfileError, Stage};
use stopworld::{DescribedType, Description, Layout, Mutator, Root, World, traced};

traced! {
    /// A cell of 16 bytes.
    struct One { number: u64 }
    /// A cell of 32 bytes.
    struct Three { numbers: [u64; 3] }
    /// A type that supplies its own description.
    struct Called { called: Description, number: u64 }
}

/// Allocates `count` objects and uses none.
fn make(world: &World, count: u64) -> Vec<Root<One>> {
    on_a_thread(world, move |m| (0..count).map(|number| m.root(m.alloc(One { number }).unwrap())).collect())
}

fn read(m: &Mutator, roots: &[Root<One>]) {
    roots.iter().for_each(|root| assert!(black_box(root.get(m).number) < 1 << 40));
}

/// Uses each object once.
fn use_all(world: &World, roots: &[&Vec<Root<One>>]) {
    let roots: Vec<Root<One>> = roots.iter().flat_map(|roots| roots.iter().cloned()).collect();
    on_a_thread(world, move |m| read(m, &roots));
}

fn on_demand(breakdown: Breakdown) -> HeapProfile {
    HeapProfile::by(breakdown).every(Every::Demand)
}

/// Returns the bytes by stage, after checking that all stages together are the live bytes.
fn stages(census: &Census) -> [u64; 5] {
    assert_eq!(census.bands.iter().map(|band| band.label.as_str()).collect::<Vec<_>>(), Stage::ALL.map(Stage::name));
    assert_eq!(census.bands.iter().map(|band| band.bytes).sum::<u64>(), census.live_bytes);
    assert_eq!(census.bands.iter().map(|band| band.objects).sum::<u64>(), census.live_objects);
    Stage::ALL.map(|stage| census.bytes_of(stage.name()))
}

/// `.biography.exact`: GHC's reference program has void, lag and drag sets. Here they are exact to the byte; so are a set that is used all the
/// time, a set whose uses are invisible, and a set that dies.
#[test]
fn sets_of_void_lag_use_and_drag_are_exact_to_the_byte() {
    let sink = Arc::new(MemorySink::with_capacity(1 << 10).unwrap());
    let events = [EventId::CensusProfileBegin, EventId::CensusBegin, EventId::CensusBand, EventId::CensusEnd];
    let world = paranoid().listen(sink.clone(), Selection::of(events.into_iter().collect())).build().unwrap();
    world.profile(on_demand(Breakdown::Biography)).unwrap();
    let (void, lag, used) = (make(&world, 1000), make(&world, 200), make(&world, 30));
    let (drag, dying) = (make(&world, 4), make(&world, 50));
    let described = DescribedType::new("described", 16, Layout::LEAF).unwrap();
    let inherent = on_a_thread(&world, move |m| {
        (m.root(m.alloc_pinned(Three { numbers: [0; 3] }).unwrap()), m.root(m.alloc_described(described).unwrap()))
    });
    use_all(&world, &[&used, &drag]);
    assert_eq!(world.sample().unwrap(), None, "a biography is known only at the end");
    use_all(&world, &[&used]);
    world.collect().unwrap();
    world.sample().unwrap();
    drop(dying);
    use_all(&world, &[&lag, &used]);
    world.collect().unwrap();
    world.sample().unwrap();
    use_all(&world, &[&used]);
    world.sample().unwrap();
    let finished = world.end_profile().unwrap().unwrap();
    assert_eq!(finished.censuses, 4);
    let (inherent_bytes, cell) = (32 + 24, 16);
    let found: Vec<_> = finished.biography.iter().map(stages).collect();
    let expected = [
        // void, lag, use, inherent use, drag
        [1050 * cell, 200 * cell, 34 * cell, inherent_bytes, 0],
        [1050 * cell, 200 * cell, 30 * cell, inherent_bytes, 4 * cell],
        [1000 * cell, 0, 230 * cell, inherent_bytes, 4 * cell],
        [1000 * cell, 0, 30 * cell, inherent_bytes, 204 * cell],
    ];
    assert_eq!(found, expected);
    drop((void, inherent));

    // The censuses are emitted at the end, each with the time at which it was taken.
    let told: Vec<_> = sink.drain().map(|record| (record.timestamp, record.event())).collect();
    assert_eq!(told.len(), 1 + 4 * 7);
    let mut last = 0;
    for (census, told) in finished.biography.iter().zip(told[1..].chunks(7)) {
        let Event::CensusBegin(begin) = told[0].1 else { panic!("{told:?}") };
        assert_eq!((begin.era, begin.taken_ns), (census.era, census.taken_ns));
        assert!(last < begin.taken_ns && begin.taken_ns < told[0].0);
        last = begin.taken_ns;
        for (band, (_, event)) in census.bands.iter().zip(&told[1..6]) {
            let Event::CensusBand(told) = event else { panic!("{event:?}") };
            let label = stopworld::events::Label::from_raw(told.label).unwrap();
            assert_eq!(Labels::of_the_process().text(label), Some(band.label.as_str()));
            assert_eq!((told.bytes, told.objects), (band.bytes, band.objects));
        }
    }
}

/// A biography that was not ended ends with its world.
#[test]
fn a_world_that_closes_reports_its_biography() {
    let told: Arc<Mutex<Vec<Census>>> = Arc::default();
    let listener = Arc::clone(&told);
    let profile =
        HeapProfile::by(Breakdown::Biography).on_census(move |census| listener.lock().unwrap().push(census.clone()));
    let world = paranoid().profile(profile).build().unwrap();
    let roots = make(&world, 10);
    world.collect().unwrap();
    use_all(&world, &[&roots]);
    world.collect().unwrap();
    assert!(told.lock().unwrap().is_empty());
    drop(world);
    drop(roots);
    let told = told.lock().unwrap();
    assert_eq!(told.iter().map(stages).collect::<Vec<_>>(), [[0, 160, 0, 0, 0], [0, 0, 160, 0, 0]]);
}

/// The breakdown is by type, and the filter accepts only dragged objects; the other stages are in the totals.
#[test]
fn a_biography_is_a_filter_of_other_breakdowns() {
    let world = paranoid().build().unwrap();
    let filters = Filters { biography: vec![Stage::Drag, Stage::Void], ..Filters::none() };
    world.profile(on_demand(Breakdown::Type).filters(filters)).unwrap();
    let ones = make(&world, 10);
    let threes: Vec<Root<Three>> =
        on_a_thread(&world, |m| (0..5).map(|_| m.root(m.alloc(Three { numbers: [1; 3] }).unwrap())).collect());
    use_all(&world, &[&ones]);
    world.sample().unwrap();
    world.sample().unwrap();
    let finished = world.end_profile().unwrap().unwrap();
    let bands = |census: &Census| -> BTreeMap<String, u64> {
        census.bands.iter().map(|band| (band.label.clone(), band.bytes)).collect()
    };
    let [first, second] = &finished.biography[..] else { panic!("{finished:?}") };
    assert_eq!((bands(first), first.filtered_bytes), ([("Three".into(), 160)].into(), 160));
    assert_eq!((bands(second), second.filtered_bytes), ([("Three".into(), 160), ("One".into(), 160)].into(), 0));
    drop((ones, threes));
}

#[test]
fn retainers_of_the_dead_are_refused_and_a_second_biography_begins_anew() {
    let world = paranoid().build().unwrap();
    let filters = Filters { biography: vec![Stage::Drag], ..Filters::none() };
    let both = world.profile(on_demand(Breakdown::Retainer).filters(filters));
    assert!(matches!(both, Err(ProfileError::RetainersOfTheDead)));
    let roots = make(&world, 10);
    for _ in 0..3 {
        world.profile(on_demand(Breakdown::Biography)).unwrap();
        world.sample().unwrap();
        use_all(&world, &[&roots]);
        world.sample().unwrap();
        let finished = world.end_profile().unwrap().unwrap();
        assert_eq!(finished.biography.iter().map(stages).collect::<Vec<_>>(), [[0, 160, 0, 0, 0], [0, 0, 160, 0, 0]]);
    }
}

/// A further collection comes after the biography's last one: an allocation can trigger it, or, as here, a listener that is notified of that last
/// collection.
#[test]
fn no_object_dies_twice_when_a_collection_falls_between_the_last_census_and_the_end() {
    let kept: Arc<Mutex<(Option<World>, Vec<Root<One>>)>> = Arc::default();
    let shared = Arc::clone(&kept);
    let world = paranoid().on_collection(move |_| {
        let (world, roots) = std::mem::take(&mut *shared.lock().unwrap());
        drop(roots);
        if let Some(world) = world {
            world.collect().unwrap();
        }
    });
    let world = world.build().unwrap();
    world.profile(on_demand(Breakdown::Biography)).unwrap();
    let roots = make(&world, 10);
    world.sample().unwrap();
    *kept.lock().unwrap() = (Some(world.clone()), roots);
    let finished = world.end_profile().unwrap().unwrap();
    assert_eq!(finished.biography.iter().map(stages).collect::<Vec<_>>(), [[160, 0, 0, 0, 0]]);
}

/// An object's description may change through a reference that the profile does not observe. Its death is then recorded under another key
/// than its life; the sum is still the live bytes.
#[test]
fn an_object_that_is_described_differently_at_its_death_does_not_falsify_the_others() {
    let world = paranoid().build().unwrap();
    let [first, second] = ["called first", "called second"].map(|text| world.telemetry_intern(text).unwrap());
    let filters = Filters { biography: Stage::ALL.to_vec(), ..Filters::none() };
    world.profile(on_demand(Breakdown::Description).filters(filters)).unwrap();
    on_a_thread(&world, move |m| {
        let called = |label| m.alloc(Called { called: Description::new(label), number: 0 }).unwrap();
        let (one, other) = (called(first), called(second));
        let (of_one, of_other) = (&*one, &*other);
        for _ in 0..2 {
            m.world().sample().unwrap();
        }
        of_one.called.set(second);
        assert_eq!(of_one.number + of_other.number, 0);
    });
    world.collect().unwrap();
    let finished = world.end_profile().unwrap().unwrap();
    assert_eq!(finished.biography.len(), 2);
    for census in finished.biography {
        let sum = census.bands.iter().map(|band| band.bytes).sum::<u64>() + census.filtered_bytes;
        assert_eq!(sum, census.live_bytes, "{census:?}");
    }
}

/// The life of one object: when it is allocated, when it is used, when it dies.
#[derive(Clone, Debug)]
struct Fate {
    born: usize,
    used: [bool; ERAS],
    dies: usize,
}

const ERAS: usize = 5;

impl Fate {
    /// The simplest definition of the object's stage at the census that ends an era.
    fn stage(&self, era: usize) -> Option<Stage> {
        let uses: Vec<usize> = (self.born..self.dies.min(ERAS)).filter(|&era| self.used[era]).collect();
        (self.born..self.dies).contains(&era).then_some(match (uses.first(), uses.last()) {
            (Some(first), _) if era < *first => Stage::Lag,
            (_, Some(last)) if era > *last => Stage::Drag,
            (Some(_), Some(_)) => Stage::Use,
            _ => Stage::Void,
        })
    }
}

fn fates() -> impl Strategy<Value = Vec<Fate>> {
    let fate = (0..ERAS, any::<[bool; ERAS]>(), 0..ERAS + 2);
    let fate = fate.prop_map(|(born, used, dies)| Fate { born, used, dies: dies.max(born + 1) });
    proptest::collection::vec(fate, 1..40)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    /// The expected stages are computed from the whole life of every object.
    #[test]
    fn random_lives_are_reported_correctly(fates in fates(), between in any::<[bool; ERAS]>()) {
        let world = World::builder().heap_limit(64 << 20).build().unwrap();
        world.profile(on_demand(Breakdown::Biography)).unwrap();
        let mut roots: Vec<Option<Root<One>>> = fates.iter().map(|_| None).collect();
        for (era, collects) in between.into_iter().enumerate() {
            for (fate, root) in fates.iter().zip(&mut roots) {
                if fate.dies == era {
                    *root = None;
                }
            }
            let plan = fates.clone();
            roots = on_a_thread(&world, move |m| {
                let live = |(fate, root): (&Fate, Option<Root<One>>)| {
                    let root = if fate.born == era { Some(m.root(m.alloc(One { number: 1 }).unwrap())) } else { root };
                    if let Some(root) = root.as_ref().filter(|_| fate.used[era]) {
                        assert_eq!(black_box(root.get(m).number), 1);
                    }
                    root
                };
                plan.iter().zip(roots).map(live).collect()
            });
            if collects {
                world.collect().unwrap();
            }
            world.sample().unwrap();
        }
        let finished = world.end_profile().unwrap().unwrap();
        prop_assert_eq!(finished.biography.len(), ERAS);
        for (era, census) in finished.biography.iter().enumerate() {
            let mut expected = [0; 5];
            fates.iter().filter_map(|fate| fate.stage(era)).for_each(|stage| expected[stage as usize] += 16);
            prop_assert_eq!(stages(census), expected, "at census {}", era + 1);
        }
    }
}
