//! The set of enabled events: tests of each rule, and a comparison with a simple model.

use std::collections::BTreeSet;
use std::sync::Arc;

use proptest::prelude::*;
use rstest::rstest;
use stopworld::events::{
    Categories, Category, EventId, Events, Keywords, Level, ListenError, ListenerId, NullSink, Provider, ProviderState,
    Selection, Settled,
};

fn state(keywords: Keywords, levels: &[Level]) -> ProviderState {
    let mut state = ProviderState::OFF;
    state.enable_keyword(keywords);
    levels.iter().for_each(|level| state.enable_level(*level));
    state
}

fn levels(state: ProviderState) -> Vec<Level> {
    Level::ALL.into_iter().filter(|level| state.has_level(*level)).collect()
}

// ---- One rule each -------------------------------------------------------------------------------------------------

#[test]
fn levels_are_a_set_and_enabling_verbose_alone_does_not_enable_informational() {
    let state = state(Keywords::GC, &[Level::Verbose]);
    assert!(state.selects(Keywords::GC, Level::Verbose));
    assert!(!state.selects(Keywords::GC, Level::Informational));
}

#[test]
fn set_enables_every_level_up_to_the_given_one_and_nothing_else() {
    let mut state = state(Keywords::TYPE, &[Level::Verbose]);
    state.set(Keywords::GC, Some(Level::Warning));
    assert_eq!(levels(state), [Level::Fatal, Level::Error, Level::Warning]);
    assert_eq!(state.keywords(), Keywords::GC);
    state.set(Keywords::GC, None);
    assert_eq!(levels(state), []);
}

#[test]
fn an_event_needs_its_level_and_one_of_its_keywords() {
    let state = state(Keywords::GC_HANDLE, &[Level::Informational]);
    assert!(state.selects(Keywords::GC | Keywords::GC_HANDLE, Level::Informational));
    assert!(!state.selects(Keywords::GC, Level::Informational));
    assert!(!state.selects(Keywords::GC_HANDLE, Level::Verbose));
    assert!(!state.selects(Keywords::NONE, Level::Informational), "an event without a keyword is never selected");
}

#[rstest]
#[case::on(true)]
#[case::off(false)]
fn a_keyword_is_switched_and_the_levels_stay(#[case] enabled: bool) {
    let mut state = state(Keywords::TYPE, &[Level::Error, Level::Verbose]);
    state.set_event_keyword_state(Keywords::GC, enabled);
    assert_eq!(state.keywords(), if enabled { Keywords::GC | Keywords::TYPE } else { Keywords::TYPE });
    state.set_event_keyword_state(Keywords::TYPE, false);
    assert_eq!(state.keywords(), if enabled { Keywords::GC } else { Keywords::NONE });
    assert_eq!(levels(state), [Level::Error, Level::Verbose]);
}

#[rstest]
#[case::on(true)]
#[case::off(false)]
fn a_level_is_switched_and_the_keywords_and_other_levels_stay(#[case] enabled: bool) {
    let mut state = state(Keywords::TYPE, &[Level::Error]);
    state.set_event_level_state(Level::Warning, enabled);
    assert_eq!(levels(state), if enabled { vec![Level::Error, Level::Warning] } else { vec![Level::Error] });
    state.set_event_level_state(Level::Error, false);
    assert_eq!(levels(state), if enabled { vec![Level::Warning] } else { vec![] });
    assert_eq!(state.keywords(), Keywords::TYPE);
}

#[test]
fn the_two_providers_are_apart() {
    let mut wants = Selection::nothing();
    wants.set(Provider::Private, Keywords::GC, Some(Level::Verbose));
    assert!(wants.selects(EventId::WorldCreated), "the settings belong to the private provider");
    assert!(!wants.selects(EventId::GcStart));
    wants.enable_level(Provider::Default, Level::Informational);
    assert!(!wants.selects(EventId::GcStart), "its keyword is still off");
    wants.enable_keyword(Provider::Default, Keywords::GC);
    assert!(wants.selects(EventId::GcStart));
    wants.disable_keyword(Provider::Private, Keywords::ALL);
    assert!(!wants.selects(EventId::WorldCreated));
    wants.disable_level(Provider::Default, Level::Informational);
    assert!(!wants.selects(EventId::GcStart));
}

/// The expected values are the output of the real MPS, starting from filter 0x7f.
#[test]
fn the_mps_filter_is_controlled_as_in_the_transcript() {
    let events = Events::new();
    let listener = events.listen(Arc::new(NullSink), Selection::categories(Categories(0x7f))).unwrap();
    let control = events.control(listener);
    let mut before = 0x7f;
    for (reset, flip, then) in
        [(0x0, 0x5, 0x7a), (0x5, 0x0, 0x7a), (0x7f, 0x7f, 0x7f), (0x10, 0x0, 0x6f), (0x0, 0x30, 0x5f)]
    {
        assert_eq!(control.telemetry_control(Categories(reset), Categories(flip)), Ok(Categories(before)));
        assert_eq!(control.telemetry_get(), Ok(Categories(then)), "reset {reset:#x}, flip {flip:#x}");
        before = then;
    }
}

#[test]
fn the_mps_filter_is_read_set_and_reset() {
    let mut wants = Selection::nothing();
    let objects = Categories::of(&[Category::Object]);
    assert_eq!(wants.categories.telemetry_set(objects), Categories::NONE);
    assert_eq!(wants.categories.telemetry_get(), objects);
    assert!(wants.selects(EventId::ObjectFreed) && !wants.selects(EventId::ReferenceFixed));
    assert_eq!(wants.categories.telemetry_set(Categories::ALL), objects);
    assert_eq!(wants.categories, Categories(u64::MAX), "all 64 bits are kept");
    assert_eq!(wants.categories.telemetry_reset(objects), Categories::ALL);
    assert!(!wants.selects(EventId::ObjectFreed) && wants.selects(EventId::ReferenceFixed));
    assert_eq!(wants.telemetry_control(Categories::NONE, Categories::NONE), Categories(!objects.0), "a look");
}

#[test]
fn a_listener_that_has_ended_has_no_switches() {
    let events = Events::new();
    let listener = events.listen(Arc::new(NullSink), Selection::nothing()).unwrap();
    events.unlisten(listener).unwrap();
    assert_eq!(events.control(listener).enable_level(Provider::Default, Level::Error), Err(ListenError::Ended));
    assert_eq!(events.control(listener).telemetry_get(), Err(ListenError::Ended));
}

// ---- All rules together --------------------------------------------------------------------------------------------

/// One listener, implemented simply: sets of names instead of bits.
#[derive(Clone, Default)]
struct Oracle {
    keywords: [BTreeSet<u32>; 2],
    levels: [BTreeSet<Level>; 2],
    filter: BTreeSet<u32>,
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Set(Provider, u64, Option<Level>),
    Keyword(Provider, u64, bool),
    Level(Provider, Level, bool),
    Filter(u64, u64),
}

fn bits(word: u64) -> impl Iterator<Item = u32> {
    (0..64).filter(move |bit| word >> bit & 1 == 1)
}

impl Oracle {
    fn take(&mut self, step: Step) {
        match step {
            Step::Set(provider, keywords, up_to) => {
                self.keywords[provider as usize] = bits(keywords).collect();
                self.levels[provider as usize] =
                    Level::ALL.into_iter().filter(|level| up_to.is_some_and(|up_to| *level <= up_to)).collect();
            }
            Step::Keyword(provider, keywords, true) => self.keywords[provider as usize].extend(bits(keywords)),
            Step::Keyword(provider, keywords, false) => {
                self.keywords[provider as usize].retain(|bit| bits(keywords).all(|off| off != *bit));
            }
            Step::Level(provider, level, true) => {
                self.levels[provider as usize].insert(level);
            }
            Step::Level(provider, level, false) => {
                self.levels[provider as usize].remove(&level);
            }
            Step::Filter(reset, flip) => {
                self.filter.retain(|bit| bits(reset).all(|off| off != *bit));
                for bit in bits(flip) {
                    if !self.filter.remove(&bit) {
                        self.filter.insert(bit);
                    }
                }
            }
        }
    }

    fn wants(&self, id: EventId) -> bool {
        let descriptor = id.descriptor();
        descriptor.net.iter().any(|net| {
            let provider = net.provider as usize;
            self.levels[provider].contains(&net.level)
                && bits(net.keyword.0).any(|bit| bit < 56 && self.keywords[provider].contains(&bit))
        }) || descriptor.mps.iter().any(|mps| self.filter.contains(&(mps.category as u32)))
    }
}

fn perform(events: &Events, listener: ListenerId, step: Step) {
    let control = events.control(listener);
    let settled = match step {
        Step::Set(provider, keywords, up_to) => control.set(provider, Keywords(keywords), up_to),
        // The two equivalent calls, alternately.
        Step::Keyword(provider, keywords, true) if keywords % 2 == 0 => {
            control.enable_keyword(provider, Keywords(keywords))
        }
        Step::Keyword(provider, keywords, false) if keywords % 2 == 0 => {
            control.disable_keyword(provider, Keywords(keywords))
        }
        Step::Keyword(provider, keywords, on) => control.set_event_keyword_state(provider, Keywords(keywords), on),
        Step::Level(provider, Level::Informational, true) => control.enable_level(provider, Level::Informational),
        Step::Level(provider, Level::Informational, false) => control.disable_level(provider, Level::Informational),
        Step::Level(provider, level, on) => control.set_event_level_state(provider, level, on),
        Step::Filter(reset, flip) => {
            control.telemetry_control(Categories(reset), Categories(flip)).map(|_| Settled::Quiet)
        }
    };
    assert_eq!(settled, Ok(Settled::Quiet));
}

/// Words in which meaningful bits are likely.
fn word() -> impl Strategy<Value = u64> {
    prop_oneof![
        any::<u64>(),
        0_u64..0x80,
        proptest::sample::select(vec![0, 1, 2, 3, 0x4000, 0x8_0000, 0x10_0000, 0x18_0001, u64::MAX]),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    let provider = || proptest::sample::select(vec![Provider::Default, Provider::Private]);
    let level = || proptest::sample::select(Level::ALL.to_vec());
    prop_oneof![
        (provider(), word(), proptest::option::of(level())).prop_map(|(p, k, l)| Step::Set(p, k, l)),
        (provider(), word(), any::<bool>()).prop_map(|(p, k, on)| Step::Keyword(p, k, on)),
        (provider(), level(), any::<bool>()).prop_map(|(p, l, on)| Step::Level(p, l, on)),
        (word(), word()).prop_map(|(reset, flip)| Step::Filter(reset, flip)),
    ]
}

proptest! {
    #[test]
    fn each_listener_gets_what_the_oracle_says_and_the_union_is_what_is_enabled(
        steps in proptest::collection::vec((0_usize..3, step()), 1..40),
    ) {
        let events = Events::new();
        let listeners: Vec<ListenerId> =
            (0..3).map(|_| events.listen(Arc::new(NullSink), Selection::nothing()).unwrap()).collect();
        let mut oracles = vec![Oracle::default(); 3];
        for (listener, step) in steps {
            perform(&events, listeners[listener], step);
            oracles[listener].take(step);
            for id in EventId::all() {
                for (listener, oracle) in listeners.iter().zip(&oracles) {
                    prop_assert_eq!(events.selection(*listener).unwrap().selects(id), oracle.wants(id), "{:?}", id);
                }
                prop_assert_eq!(events.is_enabled(id), oracles.iter().any(|oracle| oracle.wants(id)), "{:?}", id);
            }
        }
    }
}
