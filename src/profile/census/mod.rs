//! A census: how many bytes live, and under which headings.
//!
//! ```text
//!   collection  stop ─ roots ─ mark ─ weak ─┬─ [retainers] ─ count ─┬─ sweep set-up ─ restart ─┬─ names, bands, events
//!                                           └──── stopped world ────┘                          └──── allocates
//! ```
//!
//! It is taken in a collection, when marking is over: then the marks are the list of what lives. So it is exact: its bands add up
//! to the live bytes that the collection reports and that the verifier counts, to the byte (`.census.exact`); each
//! object counts with what it takes of the heap, its header and the rest of its cell included.
//!
//! **In the stopped world** every live object is looked at once, in the order of addresses, and counted under its heading, a
//! number (`heading.rs`), in mapped memory (`table.rs`). Neighbours are of one heading or of a few, so most
//! are counted before they come to the table. **After the restart** headings become names and bands, on the thread that has collected.
//!
//! | breakdown | counts by |
//! |---|---|
//! | `hd` [`Description`](Breakdown::Description) | what the object says of itself ([`Description`](crate::Description)), or its type's name |
//! | `hy` [`Type`](Breakdown::Type) | its Rust type, without paths |
//! | `hT` [`Kind`](Breakdown::Kind) | its space, and whether it is a leaf, an array, mutable, weak |
//! | `hc` [`CostCentre`](Breakdown::CostCentre) | the cost centre stack that it was allocated under |
//! | `hm` [`Module`](Breakdown::Module) | the module of that stack's innermost centre |
//! | `hr` [`Retainer`](Breakdown::Retainer) | who keeps it alive (`retainers.rs`) |
//! | `hb` [`Biography`](Breakdown::Biography) | whether it has been used, and will be (`biography.rs`) |
//!
//! A census by itself is a value ([`World::census`](crate::World::census)). A [`HeapProfile`] takes them again and again, and
//! tells of each by events.

pub(crate) mod count;
pub(crate) mod heading;
pub(crate) mod on_demand;
pub(crate) mod profiler;
pub(crate) mod sieve;
pub(crate) mod table;
pub(crate) mod taker;

pub use profiler::Finished;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::collector::CollectError;
use crate::heap::uses::TRACKED;

/// What a census counts by. The numbers are those of the eventlog format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum Breakdown {
    /// The cost centre stack that an object was allocated under.
    CostCentre = 1,
    /// The module of the innermost centre of that stack.
    Module = 2,
    /// What the object is called.
    Description = 3,
    /// Its type.
    Type = 4,
    /// Who keeps it alive.
    Retainer = 5,
    /// Whether it has been used and will be used.
    Biography = 6,
    /// The kind of object.
    Kind = 7,
}

impl Breakdown {
    /// All of them, in the order of their numbers.
    pub const ALL: [Breakdown; 7] = [
        Breakdown::CostCentre,
        Breakdown::Module,
        Breakdown::Description,
        Breakdown::Type,
        Breakdown::Retainer,
        Breakdown::Biography,
        Breakdown::Kind,
    ];

    /// Whether a census by it, of what passes these filters, is known at the end of each object's life only.
    pub(crate) fn is_by_life(self, filters: &Filters) -> bool {
        self == Breakdown::Biography || !filters.biography.is_empty()
    }

    /// Whether it must be found out for that who keeps each object.
    pub(crate) fn needs_retainers(self, filters: &Filters) -> bool {
        self == Breakdown::Retainer || !filters.retainers.is_empty()
    }

    /// What asks for it on a command line: `hc`, `hm`, `hd`, `hy`, `hr`, `hb`, `hT`.
    pub const fn option(self) -> &'static str {
        match self {
            Breakdown::CostCentre => "hc",
            Breakdown::Module => "hm",
            Breakdown::Description => "hd",
            Breakdown::Type => "hy",
            Breakdown::Retainer => "hr",
            Breakdown::Biography => "hb",
            Breakdown::Kind => "hT",
        }
    }

    /// The inverse of [`option`](Self::option).
    pub fn from_option(option: &str) -> Option<Breakdown> {
        Self::ALL.into_iter().find(|breakdown| breakdown.option() == option)
    }
}

/// A stage in the life of an object, seen from its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Stage {
    /// It is never used.
    Void,
    /// It has not been used yet, and will be.
    Lag,
    /// It has been used, and will be until this census or longer.
    Use,
    /// Its uses can't be seen.
    InherentUse,
    /// It has been used for the last time.
    Drag,
}

impl Stage {
    /// All of them, in the order in which they are told.
    pub const ALL: [Stage; 5] = [Stage::Void, Stage::Lag, Stage::Use, Stage::InherentUse, Stage::Drag];

    /// Its name in a profile.
    pub const fn name(self) -> &'static str {
        match self {
            Stage::Void => "VOID",
            Stage::Lag => "LAG",
            Stage::Use => "USE",
            Stage::InherentUse => "INHERENT_USE",
            Stage::Drag => "DRAG",
        }
    }

    /// The stage of this name, in whatever case.
    pub fn from_name(name: &str) -> Option<Stage> {
        Self::ALL.into_iter().find(|stage| stage.name().eq_ignore_ascii_case(name))
    }
}

/// What is counted at all. Each list that is not empty lets only objects pass that match one of its entries; an object must
/// pass all of them. The bytes that do not pass are in the census too, as one sum.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filters {
    /// The module of the innermost cost centre.
    pub modules: Vec<String>,
    /// The description, as `hd` shows it.
    pub descriptions: Vec<String>,
    /// The type, as `hy` shows it.
    pub types: Vec<String>,
    /// The label of the innermost cost centre.
    pub centres: Vec<String>,
    /// The label of any cost centre of the stack.
    pub stacks: Vec<String>,
    /// One of those who keep it alive, as `hr` shows them.
    pub retainers: Vec<String>,
    /// The stage of its life.
    pub biography: Vec<Stage>,
}

impl Filters {
    /// Everything passes.
    pub fn none() -> Filters {
        Filters::default()
    }

    /// Whether everything passes.
    pub fn is_empty(&self) -> bool {
        *self == Filters::default()
    }

    /// Each filter that there is: its number in the event, and what passes, separated by commas.
    pub fn texts(&self) -> impl Iterator<Item = (u32, String)> + use<> {
        let stages: Vec<String> = self.biography.iter().map(|stage| stage.name().to_ascii_lowercase()).collect();
        let lists =
            [&self.modules, &self.descriptions, &self.types, &self.centres, &self.stacks, &self.retainers, &stages];
        let texts = lists.map(|list| list.join(","));
        (0..).zip(texts).filter(|(_, text)| !text.is_empty())
    }
}

/// What a census is to count.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CensusRequest {
    /// By what.
    pub breakdown: Breakdown,
    /// What at all.
    pub filters: Filters,
    /// How many retainers are told apart for one object; one that has more is under `MANY`.
    pub most_retainers: usize,
}

impl CensusRequest {
    /// Everything that lives, by this.
    pub fn by(breakdown: Breakdown) -> CensusRequest {
        CensusRequest { breakdown, filters: Filters::none(), most_retainers: MOST_RETAINERS }
    }
}

/// How many retainers are told apart for one object, unless said otherwise.
pub const MOST_RETAINERS: usize = 8;

/// When a profile takes its censuses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Every {
    /// At every so many collections.
    Collections(u32),
    /// Each time that this time has passed, a millisecond at least: at a collection that comes then, or else at one for the
    /// purpose.
    Time(Duration),
    /// When [`World::sample`](crate::World::sample) asks for one.
    Demand,
}

/// Called with each census of a profile.
pub type CensusListener = Arc<dyn Fn(&Census) + Send + Sync>;

/// Censuses again and again, told as events.
#[derive(Clone)]
pub struct HeapProfile {
    /// By what they count.
    pub breakdown: Breakdown,
    /// What they count at all.
    pub filters: Filters,
    /// When they are taken.
    pub every: Every,
    /// How many retainers are told apart for one object.
    pub most_retainers: usize,
    /// Called with each, when the world runs again, on the thread that collected, which has no lock. The next collection, and its
    /// census, may come before this returns.
    pub listener: Option<CensusListener>,
}

impl HeapProfile {
    /// By this, at every collection.
    pub fn by(breakdown: Breakdown) -> HeapProfile {
        let filters = Filters::none();
        let (every, most_retainers) = (Every::Collections(1), MOST_RETAINERS);
        HeapProfile { breakdown, filters, every, most_retainers, listener: None }
    }

    /// When censuses are taken.
    #[must_use]
    pub fn every(mut self, every: Every) -> HeapProfile {
        self.every = every;
        self
    }

    /// What they count at all.
    #[must_use]
    pub fn filters(mut self, filters: Filters) -> HeapProfile {
        self.filters = filters;
        self
    }

    /// Calls this with each census. See [`listener`](Self::listener).
    #[must_use]
    pub fn on_census(mut self, listener: impl Fn(&Census) + Send + Sync + 'static) -> HeapProfile {
        self.listener = Some(Arc::new(listener));
        self
    }

    /// Whether this build can tell what is asked for.
    ///
    /// # Errors
    /// It can't, in any world.
    pub fn check(&self) -> Result<(), ProfileError> {
        match self.breakdown.is_by_life(&self.filters) {
            true if !TRACKED => Err(ProfileError::NotTracked),
            true if self.breakdown.needs_retainers(&self.filters) => Err(ProfileError::RetainersOfTheDead),
            _ => Ok(()),
        }
    }

    fn request(&self) -> CensusRequest {
        CensusRequest { breakdown: self.breakdown, filters: self.filters.clone(), most_retainers: self.most_retainers }
    }

    /// Nanoseconds between two censuses; 0 if they come with collections.
    fn period_ns(&self) -> u64 {
        match self.every {
            Every::Time(period) => u64::try_from(period.as_nanos()).unwrap_or(u64::MAX).max(1_000_000),
            Every::Collections(_) | Every::Demand => 0,
        }
    }
}

impl fmt::Debug for HeapProfile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HeapProfile")
            .field("breakdown", &self.breakdown)
            .field("filters", &self.filters)
            .field("every", &self.every)
            .finish_non_exhaustive()
    }
}

/// What lives under one heading.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Band {
    /// The heading: at most 255 bytes. Of a cost centre stack the labels of its centres, innermost first, between them a `/`.
    pub label: String,
    /// The cost centre stack, by its number, if that is what is counted by; 0 is the empty one.
    pub stack: Option<u32>,
    /// What the objects take of the heap.
    pub bytes: u64,
    /// How many they are.
    pub objects: u64,
}

/// What a census counted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Census {
    /// Which census of its profile, from 1; 0 for one by itself.
    pub era: u64,
    /// By what it counted.
    pub breakdown: Breakdown,
    /// The time that it speaks of: CLOCK_MONOTONIC in nanoseconds.
    pub taken_ns: u64,
    /// How long the world stood for it, in nanoseconds.
    pub took_ns: u64,
    /// The collection in which it was taken.
    pub collection: u32,
    /// All bytes that live: the bands, and what did not pass the filters.
    pub live_bytes: u64,
    /// All objects that live.
    pub live_objects: u64,
    /// Bytes of objects that did not pass the filters.
    pub filtered_bytes: u64,
    /// How many they are.
    pub filtered_objects: u64,
    /// The bands: the largest first, those of one size by name. No two have one name, but
    /// for stacks of centres that have. A biography has its five, in their order.
    pub bands: Vec<Band>,
}

impl Census {
    /// The bytes of the band of this name; 0 if there is none.
    pub fn bytes_of(&self, label: &str) -> u64 {
        self.band(label).map_or(0, |band| band.bytes)
    }

    /// The band of this name.
    pub fn band(&self, label: &str) -> Option<&Band> {
        self.bands.iter().find(|band| band.label == label)
    }
}

/// Why there is no census, or no profile.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ProfileError {
    /// Nobody notes who allocates what.
    #[error(
        "this world does not charge allocations to cost centres, so nothing can be told of them: build it with `charge_allocations`"
    )]
    NotCharged,
    /// Nobody notes what is used.
    #[error("this build does not track which objects are used: build it with the feature `biography`")]
    NotTracked,
    /// A biography is known at the end only.
    #[error(
        "what becomes of an object is known at its end: a biography needs a profile that runs, not a single census"
    )]
    OnlyAtTheEnd,
    /// Retainers are known for the living, biographies for the dead.
    #[error(
        "retainers and biography can't be told together: who kept an object is not known any more when its life is over"
    )]
    RetainersOfTheDead,
    /// A biography counts its censuses in a word beside each object.
    #[error("the biography has as many censuses as it can have (65534): end it, and begin another")]
    NoMoreEras,
    /// There is no profile to take a sample of.
    #[error("no heap profile runs in this world: start one with `profile`")]
    NoProfile,
    /// The system gave no memory or no thread.
    #[error("the system refused memory or a thread for the profile: {0}")]
    System(#[from] std::io::Error),
    /// There was no collection to take it in.
    #[error(transparent)]
    Collect(#[from] CollectError),
}
