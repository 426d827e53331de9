//! What is enabled: how a listener selects events, and the words that the fire functions test.
//!
//! A listener uses the vocabulary of its tools. The .NET tools select *keywords × levels* per provider; the MPS tools select
//! *categories*; stopworld's own tools select single events. A [`Selection`] holds all three, and an event is selected if any of them
//! selects it. A listener that uses one of them leaves the others empty.
//!
//! ```text
//!   Selection (per listener)                    EventSet (per listener)          EnabledWords (per world)
//!   provider  levels │ keywords   one word                   a bit per event,               the union
//!   categories                    one word      ──compute──► a word per group  ──or──►  of all listeners
//!   chosen events
//! ```
//!
//! **Levels are a set.** As in the .NET design of 2017, `enable_level(Verbose)` alone does not turn `Informational` on;
//! [`ProviderState::set`] enables every level up to the given one, as the shipped .NET runtime does. Levels and keywords are
//! in one word, so the new levels are never in force with the old keywords, or the new keywords with the old levels. The fire
//! functions read one bit that was computed from both.
//!
//! **Listeners do not enable each other's events.** Each listener has its own set. The union only decides whether the out-of-line part
//! of a fire function runs, which then checks each listener's own bit.

use std::ops::{BitOr, BitOrAssign};

use super::table::{EventId, GROUPS, Group};
pub use super::vocabulary::{Category, Keywords, Level, Provider};
use crate::sync::{AtomicU32, Ordering};

const KEYWORD_BITS: u64 = Keywords::ALL.0;
const LEVELS_SHIFT: u32 = KEYWORD_BITS.count_ones();

/// Returns the bit of a level: the levels are above the keywords.
const fn bit(level: Level) -> u64 {
    1 << (LEVELS_SHIFT + level as u32)
}

/// On or off: how a host sets a keyword or a level.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Switch {
    /// Enabled.
    On,
    /// Disabled.
    Off,
}

impl From<bool> for Switch {
    fn from(on: bool) -> Switch {
        if on { Switch::On } else { Switch::Off }
    }
}

/// What is enabled of one provider: a set of levels and a set of keywords in one word.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProviderState(u64);

impl ProviderState {
    /// Nothing is enabled.
    pub const OFF: ProviderState = ProviderState(0);

    /// Selects these keywords, and every level up to `up_to`; `None` selects no level.
    pub fn set(&mut self, keywords: Keywords, up_to: Option<Level>) {
        let levels = Level::ALL.iter().filter(|level| Some(**level) <= up_to).fold(0, |bits, level| bits | bit(*level));
        self.0 = levels | (keywords.0 & KEYWORD_BITS);
    }

    /// Adds keywords; the levels are unchanged.
    pub fn enable_keyword(&mut self, keywords: Keywords) {
        self.0 |= keywords.0 & KEYWORD_BITS;
    }

    /// Removes keywords; the levels are unchanged.
    pub fn disable_keyword(&mut self, keywords: Keywords) {
        self.0 &= !(keywords.0 & KEYWORD_BITS);
    }

    /// Adds this one level; the keywords and the other levels are unchanged.
    pub fn enable_level(&mut self, level: Level) {
        self.0 |= bit(level);
    }

    /// Removes this one level; the keywords and the other levels are unchanged.
    pub fn disable_level(&mut self, level: Level) {
        self.0 &= !bit(level);
    }

    /// Returns the enabled keywords.
    pub fn keywords(self) -> Keywords {
        Keywords(self.0 & KEYWORD_BITS)
    }

    /// Turns keywords on or off, as a host does; the levels are unchanged.
    pub fn set_event_keyword_state(&mut self, keywords: Keywords, enabled: impl Into<Switch>) {
        match enabled.into() {
            Switch::On => self.enable_keyword(keywords),
            Switch::Off => self.disable_keyword(keywords),
        }
    }

    /// Turns this one level on or off, as a host does; the keywords and the other levels are unchanged.
    pub fn set_event_level_state(&mut self, level: Level, enabled: impl Into<Switch>) {
        match enabled.into() {
            Switch::On => self.enable_level(level),
            Switch::Off => self.disable_level(level),
        }
    }

    /// Whether this level is enabled.
    pub fn has_level(self, level: Level) -> bool {
        self.0 & bit(level) != 0
    }

    /// Whether an event of this keyword and this level is enabled: its level and one of its keywords are both on.
    pub fn selects(self, keyword: Keywords, level: Level) -> bool {
        self.0 & bit(level) != 0 && self.0 & keyword.0 & KEYWORD_BITS != 0
    }
}

/// A set of MPS categories: the whole 64-bit filter word, because tools read back what they wrote.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Categories(pub u64);

impl Categories {
    /// No category.
    pub const NONE: Categories = Categories(0);
    /// Every bit, including those without a meaning yet.
    pub const ALL: Categories = Categories(u64::MAX);

    /// Returns the set of these categories.
    pub fn of(categories: &[Category]) -> Categories {
        Categories(categories.iter().fold(0, |bits, category| bits | 1 << *category as u32))
    }

    /// `telemetry_control(reset, flip)` of the MPS: clears `reset`, then inverts `flip`. Returns the old filter.
    pub fn control(&mut self, reset: Categories, flip: Categories) -> Categories {
        let old = *self;
        self.0 = (self.0 & !reset.0) ^ flip.0;
        old
    }

    /// Returns the filter: `telemetry_control(0, 0)`.
    pub fn telemetry_get(&mut self) -> Categories {
        self.control(Categories::NONE, Categories::NONE)
    }

    /// Adds categories: `telemetry_control(mask, mask)`. Returns the old filter.
    pub fn telemetry_set(&mut self, mask: Categories) -> Categories {
        self.control(mask, mask)
    }

    /// Removes categories: `telemetry_control(mask, 0)`. Returns the old filter.
    pub fn telemetry_reset(&mut self, mask: Categories) -> Categories {
        self.control(mask, Categories::NONE)
    }

    /// Whether this category is in the set.
    pub fn contains(self, category: Category) -> bool {
        self.0 & (1 << category as u32) != 0
    }
}

/// A set of events: a bit for each, a word for each group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EventSet([u32; GROUPS]);

impl EventSet {
    /// No event.
    pub const NONE: EventSet = EventSet([0; GROUPS]);

    /// Returns every event.
    pub fn all() -> EventSet {
        EventId::all().collect()
    }

    /// Returns every event of a group.
    pub fn group(group: Group) -> EventSet {
        EventId::all().filter(|id| id.group() == group).collect()
    }

    /// Returns the set without the events of `other`.
    pub fn without(self, other: EventSet) -> EventSet {
        EventSet(std::array::from_fn(|group| self.0[group] & !other.0[group]))
    }

    /// Adds an event.
    pub fn insert(&mut self, id: EventId) {
        self.0[id.group() as usize] |= id.mask();
    }

    /// Whether the event is in the set.
    pub fn contains(self, id: EventId) -> bool {
        self.0[id.group() as usize] & id.mask() != 0
    }

    pub(super) fn words(self) -> [u32; GROUPS] {
        self.0
    }

    pub(super) fn from_words(words: [u32; GROUPS]) -> EventSet {
        EventSet(words)
    }
}

impl FromIterator<EventId> for EventSet {
    fn from_iter<I: IntoIterator<Item = EventId>>(ids: I) -> EventSet {
        let mut set = EventSet::NONE;
        ids.into_iter().for_each(|id| set.insert(id));
        set
    }
}

impl BitOr for EventSet {
    type Output = EventSet;

    fn bitor(mut self, other: EventSet) -> EventSet {
        self |= other;
        self
    }
}

impl BitOrAssign for EventSet {
    fn bitor_assign(&mut self, other: EventSet) {
        self.0.iter_mut().zip(other.0).for_each(|(mine, theirs)| *mine |= theirs);
    }
}

/// What one listener or consumer wants, in the vocabularies of the tools.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Selection {
    /// Keywords × levels of the default provider.
    pub default_provider: ProviderState,
    /// Keywords × levels of the private provider.
    pub private_provider: ProviderState,
    /// MPS categories.
    pub categories: Categories,
    /// Single events.
    pub events: EventSet,
}

impl Selection {
    /// Selects nothing.
    pub fn nothing() -> Selection {
        Selection::default()
    }

    /// Selects every event, including those that are fired once per object.
    pub fn everything() -> Selection {
        Selection::of(EventSet::all())
    }

    /// Selects these events.
    pub fn of(events: EventSet) -> Selection {
        Selection { events, ..Selection::default() }
    }

    /// Selects the provider's events with one of these keywords, up to this level.
    pub fn provider(provider: Provider, keywords: Keywords, up_to: Level) -> Selection {
        let mut selection = Selection::default();
        selection.provider_mut(provider).set(keywords, Some(up_to));
        selection
    }

    /// Selects these MPS categories.
    pub fn categories(categories: Categories) -> Selection {
        Selection { categories, ..Selection::default() }
    }

    /// Selects these keywords of the provider, and every level up to `up_to`; `None` selects no level.
    pub fn set(&mut self, provider: Provider, keywords: Keywords, up_to: Option<Level>) {
        self.provider_mut(provider).set(keywords, up_to);
    }

    /// Adds keywords of a provider; its levels are unchanged.
    pub fn enable_keyword(&mut self, provider: Provider, keywords: Keywords) {
        self.provider_mut(provider).enable_keyword(keywords);
    }

    /// Removes keywords of a provider; its levels are unchanged.
    pub fn disable_keyword(&mut self, provider: Provider, keywords: Keywords) {
        self.provider_mut(provider).disable_keyword(keywords);
    }

    /// Adds this one level of a provider; its keywords and other levels are unchanged.
    pub fn enable_level(&mut self, provider: Provider, level: Level) {
        self.provider_mut(provider).enable_level(level);
    }

    /// Removes this one level of a provider; its keywords and other levels are unchanged.
    pub fn disable_level(&mut self, provider: Provider, level: Level) {
        self.provider_mut(provider).disable_level(level);
    }

    /// Turns keywords of a provider on or off, as a host does; its levels are unchanged.
    pub fn set_event_keyword_state(&mut self, provider: Provider, keywords: Keywords, enabled: impl Into<Switch>) {
        self.provider_mut(provider).set_event_keyword_state(keywords, enabled);
    }

    /// Turns this one level of a provider on or off, as a host does; its keywords and other levels are unchanged.
    pub fn set_event_level_state(&mut self, provider: Provider, level: Level, enabled: impl Into<Switch>) {
        self.provider_mut(provider).set_event_level_state(level, enabled);
    }

    /// Changes the MPS filter: clears `reset`, then inverts `flip`. Returns the old filter.
    pub fn telemetry_control(&mut self, reset: Categories, flip: Categories) -> Categories {
        self.categories.control(reset, flip)
    }

    /// Returns the state of one provider, for changes.
    pub fn provider_mut(&mut self, provider: Provider) -> &mut ProviderState {
        match provider {
            Provider::Default => &mut self.default_provider,
            Provider::Private => &mut self.private_provider,
        }
    }

    /// Whether the event is selected by a provider, by a category, or by itself.
    pub fn selects(&self, id: EventId) -> bool {
        let descriptor = id.descriptor();
        let by_provider = descriptor.net.iter().any(|net| match net.provider {
            Provider::Default => self.default_provider.selects(net.keyword, net.level),
            Provider::Private => self.private_provider.selects(net.keyword, net.level),
        });
        by_provider
            || descriptor.mps.iter().any(|mps| self.categories.contains(mps.category))
            || self.events.contains(id)
    }

    /// Returns the selected events. This set is computed in advance when the selection changes.
    pub fn selected(&self) -> EventSet {
        EventId::all().filter(|id| self.selects(*id)).collect()
    }
}

/// The words that the fire functions test, on a cache line that is written only when a selection changes.
#[derive(Debug)]
#[repr(align(64))]
pub(super) struct EnabledWords([AtomicU32; GROUPS]);

impl EnabledWords {
    pub(super) const fn new() -> EnabledWords {
        EnabledWords([const { AtomicU32::new(0) }; GROUPS])
    }

    /// Tests one bit. The load is relaxed: the result is only a hint that there may be a listener. Each listener's gate decides what the
    /// listener receives.
    #[inline(always)]
    pub(super) fn word(&self, group: usize) -> u32 {
        self.0[group].load(Ordering::Relaxed)
    }

    pub(super) fn load(&self) -> EventSet {
        EventSet::from_words(std::array::from_fn(|group| self.word(group)))
    }

    pub(super) fn store(&self, events: EventSet) {
        self.0.iter().zip(events.words()).for_each(|(word, bits)| word.store(bits, Ordering::Relaxed));
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[test]
    fn levels_are_a_set_and_verbose_alone_does_not_enable_informational() {
        let mut state = ProviderState::OFF;
        state.enable_keyword(Keywords::GC);
        state.enable_level(Level::Verbose);
        assert!(state.selects(Keywords::GC, Level::Verbose));
        assert!(!state.selects(Keywords::GC, Level::Informational));
        state.set(Keywords::GC, Some(Level::Verbose));
        assert!(Level::ALL.iter().all(|level| state.selects(Keywords::GC, *level)));
        state.disable_level(Level::Informational);
        assert!(!state.selects(Keywords::GC, Level::Informational));
        assert!(state.selects(Keywords::GC, Level::Verbose));
    }

    #[test]
    fn an_event_needs_its_level_and_one_of_its_keywords() {
        let mut state = ProviderState::OFF;
        state.set(Keywords::GC_HANDLE, Some(Level::Verbose));
        assert!(!state.selects(Keywords::GC, Level::Informational));
        assert!(state.selects(Keywords::GC | Keywords::GC_HANDLE, Level::Informational));
        assert!(!state.selects(Keywords::NONE, Level::Informational));
        state.set(Keywords::ALL, None);
        assert!(Level::ALL.iter().all(|level| !state.selects(Keywords::ALL, *level)));
    }

    #[test]
    fn a_keyword_in_the_highest_byte_is_no_level() {
        let mut state = ProviderState::OFF;
        state.enable_keyword(Keywords(u64::MAX));
        assert!(Level::ALL.iter().all(|level| !state.selects(Keywords::ALL, *level)));
        state.enable_level(Level::Error);
        state.disable_keyword(Keywords(u64::MAX));
        assert_eq!(state.keywords(), Keywords::NONE);
        state.enable_keyword(Keywords::GC);
        assert!(state.selects(Keywords::GC, Level::Error), "disabling keywords left the levels alone");
    }

    /// The expected values are from a run of the real MPS that began with the filter 0x7f.
    #[test]
    fn telemetry_control_computes_as_the_mps_does() {
        let mut filter = Categories(0x7f);
        for (reset, flip, then) in
            [(0x0, 0x5, 0x7a), (0x5, 0x0, 0x7a), (0x7f, 0x7f, 0x7f), (0x10, 0x0, 0x6f), (0x0, 0x30, 0x5f)]
        {
            let before = filter;
            assert_eq!(filter.control(Categories(reset), Categories(flip)), before);
            assert_eq!(filter, Categories(then), "reset {reset:#x}, flip {flip:#x}");
        }
        assert_eq!(filter.control(Categories::ALL, Categories::ALL), Categories(0x5f));
        assert_eq!(filter, Categories(u64::MAX), "all reads back as all 64 bits");
    }

    #[rstest]
    #[case::gc_collect(
        Selection::provider(Provider::Default, Keywords::GC, Level::Informational),
        EventId::GcStart,
        true
    )]
    #[case::a_tick_is_verbose(
        Selection::provider(Provider::Default, Keywords::GC, Level::Informational),
        EventId::AllocationTick,
        false
    )]
    #[case::gc_verbose(
        Selection::provider(Provider::Default, Keywords::GC, Level::Verbose),
        EventId::AllocationTick,
        true
    )]
    #[case::the_other_provider(
        Selection::provider(Provider::Private, Keywords::GC, Level::Verbose),
        EventId::GcStart,
        false
    )]
    #[case::trace_category(Selection::categories(Categories::of(&[Category::Trace])), EventId::GcStart, true)]
    #[case::object_category(Selection::categories(Categories::of(&[Category::Trace])), EventId::ObjectAllocated, false)]
    #[case::objects(Selection::categories(Categories::of(&[Category::Object])), EventId::ObjectAllocated, true)]
    #[case::by_name(Selection::of([EventId::GcEnd].into_iter().collect()), EventId::GcEnd, true)]
    #[case::only_by_name(Selection::of([EventId::GcEnd].into_iter().collect()), EventId::GcStart, false)]
    fn a_selection_selects(#[case] selection: Selection, #[case] id: EventId, #[case] expected: bool) {
        assert_eq!(selection.selects(id), expected);
        assert_eq!(selection.selected().contains(id), expected);
    }

    #[test]
    fn sets_of_groups_split_the_whole() {
        for (index, group) in Group::ALL.iter().enumerate() {
            assert_eq!(*group as usize, index);
        }
        let union = Group::ALL.iter().fold(EventSet::NONE, |set, group| set | EventSet::group(*group));
        assert_eq!(union, EventSet::all());
        assert_eq!(Selection::everything().selected(), EventSet::all());
        assert_eq!(EventSet::all().without(EventSet::all()), EventSet::NONE);
        assert!(!EventSet::all().without(EventSet::group(Group::Object)).contains(EventId::ObjectFreed));
    }
}
