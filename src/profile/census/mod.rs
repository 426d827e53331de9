//! A census: how many bytes are live, by band.
//!
//! ```text
//!   collection  stop ─ roots ─ mark ─ weak ─┬─ [retainers] ─ count ─┬─ sweep set-up ─ restart ─┬─ names, bands, events
//!                                           └──── stopped world ────┘                          └──── allocates
//! ```
//!
//! A census is taken in a collection, after marking: the marks then list the live objects. So it is exact: its bands add up to the
//! live bytes that the collection reports and the verifier counts, to the byte (`.census.exact`). Each object counts with its
//! whole cell in the heap, including the header and the unused rest.
//!
//! **In the stopped world** every live object is visited once, in the order of addresses, and counted under its band key, a number
//! (`band_key.rs`), in mapped memory (`table.rs`). Neighbouring objects often have the same band key, or one of a few, so most objects
//! are summed up before they reach the table. **After the restart** the thread that collected turns the band keys into names and bands.
//!
//! | breakdown | counts by |
//! |---|---|
//! | `hd` [`Description`](Breakdown::Description) | the object's own description ([`Description`](crate::Description)), or its type's name |
//! | `hy` [`Type`](Breakdown::Type) | its Rust type, without paths |
//! | `hT` [`Kind`](Breakdown::Kind) | its space, and whether it is a leaf, an array, mutable, or weak |
//! | `hc` [`CostCentre`](Breakdown::CostCentre) | the cost centre stack that it was allocated under |
//! | `hm` [`Module`](Breakdown::Module) | the module of the innermost centre of that stack |
//! | `hr` [`Retainer`](Breakdown::Retainer) | what keeps it alive (`retainers.rs`) |
//! | `hb` [`Biography`](Breakdown::Biography) | whether it has been used, and will be used again (`biography.rs`) |
//!
//! A single census is returned as a value ([`World::census`](crate::World::census)). A [`HeapProfile`] takes censuses repeatedly and
//! reports each by events.

pub(crate) mod band_key;
pub(crate) mod census_taker;
pub(crate) mod compiled_filters;
pub(crate) mod count;
pub(crate) mod on_demand;
pub(crate) mod profiler;
pub(crate) mod table;

pub use profiler::{Finished, MOST_ORDERED_CENTRES};

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::collector::CollectError;
use crate::heap::uses::TRACKED;

/// What a census counts by. The discriminants are those of the eventlog format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum Breakdown {
    /// The cost centre stack that an object was allocated under.
    CostCentre = 1,
    /// The module of the innermost centre of that stack.
    Module = 2,
    /// The object's description.
    Description = 3,
    /// The object's type.
    Type = 4,
    /// The set of retainers, which keep the object alive.
    Retainer = 5,
    /// Whether the object has been used, and whether it will be used again.
    Biography = 6,
    /// The kind of the object.
    Kind = 7,
}

impl Breakdown {
    /// All breakdowns, in the order of their numbers.
    pub const ALL: [Breakdown; 7] = [
        Breakdown::CostCentre,
        Breakdown::Module,
        Breakdown::Description,
        Breakdown::Type,
        Breakdown::Retainer,
        Breakdown::Biography,
        Breakdown::Kind,
    ];

    /// Returns whether the result of a census by this breakdown and these filters is known only when the objects' lives have ended.
    pub(crate) fn is_by_life(self, filters: &Filters) -> bool {
        self == Breakdown::Biography || !filters.biography.is_empty()
    }

    /// Returns whether the census needs to find the retainers of each object.
    pub(crate) fn needs_retainers(self, filters: &Filters) -> bool {
        self == Breakdown::Retainer || !filters.retainers.is_empty()
    }

    /// Returns the breakdown's command-line option: `hc`, `hm`, `hd`, `hy`, `hr`, `hb`, `hT`.
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

/// A stage in the life of an object, known after its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Stage {
    /// The object is never used.
    Void,
    /// The object has not been used yet, and will be.
    Lag,
    /// The object has been used, and was last used between the previous census and this one, or later.
    Use,
    /// The object's uses cannot be observed.
    InherentUse,
    /// The object has been used for the last time.
    Drag,
}

impl Stage {
    /// All stages, in the order of a profile's bands.
    pub const ALL: [Stage; 5] = [Stage::Void, Stage::Lag, Stage::Use, Stage::InherentUse, Stage::Drag];

    /// Returns the stage's name in a profile.
    pub const fn name(self) -> &'static str {
        match self {
            Stage::Void => "VOID",
            Stage::Lag => "LAG",
            Stage::Use => "USE",
            Stage::InherentUse => "INHERENT_USE",
            Stage::Drag => "DRAG",
        }
    }

    /// Returns the stage with this name; case is ignored.
    pub fn from_name(name: &str) -> Option<Stage> {
        Self::ALL.into_iter().find(|stage| stage.name().eq_ignore_ascii_case(name))
    }
}

/// Selects the objects that are counted, by lists. A list that is not empty passes only objects that match one of its entries. An
/// object must pass all lists. The bytes of the other objects are in the census too, as one sum.
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
    /// One of its retainers, as `hr` shows them.
    pub retainers: Vec<String>,
    /// The stage of its life.
    pub biography: Vec<Stage>,
}

impl Filters {
    /// No list: all objects pass.
    pub fn none() -> Filters {
        Filters::default()
    }

    /// Whether everything passes.
    pub fn is_empty(&self) -> bool {
        *self == Filters::default()
    }

    /// Returns the filters that are set: the number in the event, and the accepted names, separated by commas.
    pub fn texts(&self) -> impl Iterator<Item = (u32, String)> + use<> {
        let stages: Vec<String> = self.biography.iter().map(|stage| stage.name().to_ascii_lowercase()).collect();
        let lists =
            [&self.modules, &self.descriptions, &self.types, &self.centres, &self.stacks, &self.retainers, &stages];
        let texts = lists.map(|list| list.join(","));
        (0..).zip(texts).filter(|(_, text)| !text.is_empty())
    }
}

/// The settings of a census.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CensusRequest {
    /// The breakdown to count by.
    pub breakdown: Breakdown,
    /// Which objects to count.
    pub filters: Filters,
    /// The maximum number of retainers that are distinguished for one object; an object with more is counted under `MANY`.
    pub most_retainers: usize,
}

impl CensusRequest {
    /// Creates a request that counts all live objects by this breakdown.
    pub fn by(breakdown: Breakdown) -> CensusRequest {
        CensusRequest { breakdown, filters: Filters::none(), most_retainers: MOST_RETAINERS }
    }
}

/// The default limit of retainers that are distinguished for one object.
pub const MOST_RETAINERS: usize = 8;

/// When a profile takes its censuses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Every {
    /// At every n-th collection.
    Collections(u32),
    /// Whenever this time has passed, which is at least a millisecond: at the next collection if one happens soon, otherwise at a
    /// collection started for the census.
    Time(Duration),
    /// Only when [`World::sample`](crate::World::sample) requests one.
    Demand,
}

/// Called with each census of a profile.
pub type CensusListener = Arc<dyn Fn(&Census) + Send + Sync>;

/// The settings of a heap profile: repeated censuses, reported by events.
#[derive(Clone)]
pub struct HeapProfile {
    /// What the censuses count by.
    pub breakdown: Breakdown,
    /// Which objects they count.
    pub filters: Filters,
    /// When they are taken.
    pub every: Every,
    /// The maximum number of retainers that are distinguished for one object.
    pub most_retainers: usize,
    /// Called with each census after the restart, by the thread that collected, which holds no lock then. The next collection,
    /// with its census, may run before this returns.
    pub listener: Option<CensusListener>,
}

impl HeapProfile {
    /// Creates the settings of a profile by this breakdown, with a census at every collection.
    pub fn by(breakdown: Breakdown) -> HeapProfile {
        let filters = Filters::none();
        let (every, most_retainers) = (Every::Collections(1), MOST_RETAINERS);
        HeapProfile { breakdown, filters, every, most_retainers, listener: None }
    }

    /// Sets when censuses are taken.
    #[must_use]
    pub fn every(mut self, every: Every) -> HeapProfile {
        self.every = every;
        self
    }

    /// Sets which objects are counted.
    #[must_use]
    pub fn filters(mut self, filters: Filters) -> HeapProfile {
        self.filters = filters;
        self
    }

    /// Sets a listener that is called with each census. See [`listener`](Self::listener).
    #[must_use]
    pub fn on_census(mut self, listener: impl Fn(&Census) + Send + Sync + 'static) -> HeapProfile {
        self.listener = Some(Arc::new(listener));
        self
    }

    /// Checks whether this build supports the profile.
    ///
    /// # Errors
    /// This build does not support the profile, in any world.
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

    /// Nanoseconds between two censuses; 0 if they are not taken by time.
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

/// The live objects of one band.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Band {
    /// The name of the band, at most 255 bytes. For a cost centre stack: the labels of its centres, innermost first, separated by `/`.
    pub label: String,
    /// The number of the cost centre stack, if the breakdown is by stack; 0 is the empty one.
    pub stack: Option<u32>,
    /// The bytes that the objects occupy in the heap.
    pub bytes: u64,
    /// The number of objects.
    pub objects: u64,
}

/// The result of a census.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Census {
    /// The number of the census in its profile, from 1; 0 for a single census.
    pub era: u64,
    /// The breakdown by which the census counted.
    pub breakdown: Breakdown,
    /// The time that the census describes: CLOCK_MONOTONIC in nanoseconds.
    pub taken_ns: u64,
    /// How long the world was stopped for the census, in nanoseconds.
    pub took_ns: u64,
    /// The number of the collection in which the census was taken.
    pub collection: u32,
    /// Bytes of all live objects: those in the bands, and those that did not pass the filters.
    pub live_bytes: u64,
    /// The number of all live objects.
    pub live_objects: u64,
    /// Bytes of objects that did not pass the filters.
    pub filtered_bytes: u64,
    /// The number of objects that did not pass the filters.
    pub filtered_objects: u64,
    /// The bands, largest first; bands of the same size are sorted by name. No two bands have the same name, except stacks of centres
    /// with the same names. The five bands of a biography are in the order of [`Stage::ALL`].
    pub bands: Vec<Band>,
}

impl Census {
    /// Returns the bytes of the band with this name; 0 if there is none.
    pub fn bytes_of(&self, label: &str) -> u64 {
        self.band(label).map_or(0, |band| band.bytes)
    }

    /// Returns the band with this name.
    pub fn band(&self, label: &str) -> Option<&Band> {
        self.bands.iter().find(|band| band.label == label)
    }
}

/// Why there is no census, or no profile.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ProfileError {
    /// The world does not charge allocations.
    #[error(
        "this world does not charge allocations to cost centres, so it cannot be profiled by them: build it with `charge_allocations`"
    )]
    NotCharged,
    /// The build does not track the use of objects.
    #[error("this build does not track which objects are used: build it with the feature `biography`")]
    NotTracked,
    /// A biography is known only at its end.
    #[error("a biography is known only when the objects have died, so it needs a running profile, not a single census")]
    OnlyAtTheEnd,
    /// Retainers are known for live objects, biographies for dead ones.
    #[error("retainers and biography cannot be combined: when an object has died its retainers are not known any more")]
    RetainersOfTheDead,
    /// A biography stores the number of a census in a side word of each object.
    #[error("the biography has taken its maximum of 65534 censuses: end it, and start another one")]
    NoMoreEras,
    /// There is no profile to take a sample of.
    #[error("no heap profile runs in this world: start one with `profile`")]
    NoProfile,
    /// The system gave no memory or no thread.
    #[error("the system refused memory or a thread for the profile: {0}")]
    System(#[from] std::io::Error),
    /// There was no collection in which to take the census.
    #[error(transparent)]
    Collect(#[from] CollectError),
}
