//! The events that a session requests: providers with keywords and a level, in the syntax of the .NET tools.
//!
//! ```text
//!   Microsoft-Windows-DotNETRuntime:0x1:4,stopworld        as for dotnet-trace: name[:keywords[:level[:arguments]]],…
//!   GC+GCHandle@Verbose                                    keywords of the runtime's provider by name, and a level
//! ```
//!
//! An event is requested if its level is not above that of the request and the request has one of its keywords; an event without
//! keywords needs only the level. This is decided once for each kind of event in each session. A trace has exactly the events that its own
//! session requested, independent of the requests of other sessions.

use super::schema::{
    DEFAULT, Definition, EVENT_PIPE, Kind, Net, OWN, PRIVATE, RUNDOWN, is_own, own_keyword, own_level,
};
use stopworld::World;
use stopworld::events::{EventId, EventSet, Keywords};
use stopworld_platform::suggest;

/// The highest level used here; the default if a request has no level.
const VERBOSE: u32 = 5;
const INFORMATIONAL: u32 = 4;

/// The names of those keywords of the runtime's provider that select events here.
const KEYWORDS: [(&str, Keywords); 10] = [
    ("GC", Keywords::GC),
    ("GCHandle", Keywords::GC_HANDLE),
    ("Type", Keywords::TYPE),
    ("GCHeapDump", Keywords::GC_HEAP_DUMP),
    ("GCSampledObjectAllocationHigh", Keywords::GC_SAMPLED_HIGH),
    ("GCSampledObjectAllocationLow", Keywords::GC_SAMPLED_LOW),
    ("GCHeapSurvivalAndMovement", Keywords(0x40_0000)),
    ("GCHeapCollect", Keywords(0x80_0000)),
    ("GCHeapAndTypeNames", Keywords(0x100_0000)),
    ("all", Keywords::ALL),
];

const LEVELS: [(&str, u32); 6] =
    [("LogAlways", 0), ("Critical", 1), ("Error", 2), ("Warning", 3), ("Informational", 4), ("Verbose", 5)];

/// A request for the events of one provider.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProviderRequest {
    /// The name of the provider. A provider that does not exist here has no events.
    pub name: String,
    /// The keywords: events with at least one of them are requested.
    pub keywords: u64,
    /// The highest level requested; 5 or more requests all levels.
    pub level: u32,
}

/// The events that a session requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Providers {
    /// The requests. If a provider is named twice, an event needs to match only one of the requests.
    pub requests: Vec<ProviderRequest>,
    /// Whether the trace has events with the process, its version and its settings, even if no provider requests them.
    pub rundown: bool,
}

impl Default for Providers {
    /// Requests the collections: keyword GC at level Informational, from both providers of the runtime.
    fn default() -> Providers {
        Providers::of_runtime(Keywords::GC.0, INFORMATIONAL)
    }
}

/// An error in a text that requests providers.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ProvidersError(String);

impl Providers {
    /// Requests no events except the rundown.
    pub fn none() -> Providers {
        Providers { requests: Vec::new(), rundown: true }
    }

    fn of_runtime(keywords: u64, level: u32) -> Providers {
        let requests = [DEFAULT, PRIVATE].map(|name| ProviderRequest { name: name.to_owned(), keywords, level });
        Providers { requests: requests.into(), rundown: true }
    }

    /// Requests the collections and the samples of allocations: keyword GC at level Verbose, from both providers of the runtime.
    pub fn with_allocations() -> Providers {
        Providers::of_runtime(Keywords::GC.0, VERBOSE)
    }

    /// Parses a list of providers as for dotnet-trace. The default keywords are all; the default level is Verbose, but Informational
    /// for the provider `stopworld`, which has an event for each object and reference.
    ///
    /// # Errors
    /// A name is missing, keywords are not a number, or a level is not valid.
    pub fn parse(list: &str) -> Result<Providers, ProvidersError> {
        let wrong = |what: String| ProvidersError(what);
        let mut providers = Providers::none();
        for entry in list.split(',') {
            let mut parts = entry.trim().splitn(4, ':');
            let name = parts.next().unwrap_or_default().trim();
            if name.is_empty() {
                return Err(wrong(format!("'{list}': a provider needs a name, as in {DEFAULT}:0x1:4")));
            }
            let keywords = match parts.next().map(str::trim) {
                None | Some("") => u64::MAX,
                Some(text) => number(text).map_err(|()| {
                    wrong(format!("'{text}' is not a set of keywords: use a hexadecimal number, as in {name}:0x1"))
                })?,
            };
            let level = match parts.next().map(str::trim) {
                None | Some("") if name == OWN => INFORMATIONAL,
                None | Some("") => VERBOSE,
                Some(text) => level(text).map_err(wrong)?,
            };
            providers.requests.push(ProviderRequest { name: name.to_owned(), keywords, level });
        }
        Ok(providers)
    }

    /// Parses names of keywords of the runtime's providers, and a level: `GC`, `GC+GCHandle@Verbose`. The default level is
    /// Informational.
    ///
    /// # Errors
    /// A keyword or the level is unknown, or there is no keyword.
    pub fn parse_keywords(text: &str) -> Result<Providers, ProvidersError> {
        let (names, wanted) = match text.split_once('@') {
            Some((names, wanted)) => (names, level(wanted.trim()).map_err(ProvidersError)?),
            None => (text, INFORMATIONAL),
        };
        let mut keywords = 0;
        for name in names.split(['+', ' ', ',']).filter(|name| !name.is_empty()) {
            keywords |= keyword(name).map_err(ProvidersError)?;
        }
        if keywords == 0 {
            return Err(ProvidersError(format!("'{text}' has no keyword: the usual choice is GC@Informational")));
        }
        Ok(Providers::of_runtime(keywords, wanted))
    }

    fn asks_for(&self, definition: &Definition) -> bool {
        self.requests.iter().any(|request| {
            let has_keyword = definition.keywords == 0 || request.keywords & definition.keywords != 0;
            request.name == definition.provider && has_keyword && u32::from(definition.level) <= request.level
        })
    }

    /// Returns whether the trace has events of this kind.
    pub(super) fn wants(&self, kind: Kind) -> bool {
        let definition = kind.definition();
        match definition.provider {
            EVENT_PIPE | RUNDOWN => self.rundown || self.asks_for(&definition),
            _ => self.asks_for(&definition),
        }
    }

    /// Returns whether the trace is to have heap dumps.
    pub fn wants_heap_dump(&self) -> bool {
        self.wants(Kind::Net(Net::GCBulkNode))
    }

    /// Returns whether the trace is to have samples of the allocations, with call stacks if the world
    /// [samples](stopworld::WorldBuilder::allocation_sampling) them.
    pub fn wants_allocation_samples(&self) -> bool {
        self.wants(Kind::Net(Net::GCAllocationTick))
    }

    /// Returns whether the trace is to have this event of the provider `stopworld`: its group and level are requested, or it
    /// belongs to .NET events of the trace: the stacks of a heap dump with roots, the names of threads with the collections.
    pub fn wants_own(&self, id: EventId) -> bool {
        let belongs = belongs_to(id, |net| self.wants(Kind::Net(net)));
        if belongs || id == EventId::DumpStack {
            return belongs;
        }
        let group = id.descriptor().group;
        is_own(id)
            && self.requests.iter().any(|request| {
                request.name == OWN
                    && request.keywords & own_keyword(group) != 0
                    && own_level(group) as u32 <= request.level
            })
    }

    /// Returns the events of this world that must be recorded for the trace.
    pub(super) fn selection_of(&self, world: &World) -> EventSet {
        let events = self.selection();
        if self.wants(Kind::Net(Net::GCSampledObjectAllocationLow)) || !world.samples_allocations() {
            return events;
        }
        // The writer has no use for the ticks of a world with samples.
        events.without([EventId::AllocationTick].into_iter().collect())
    }

    /// Returns the events that must be recorded for the trace, of any world.
    pub(super) fn selection(&self) -> EventSet {
        let mut events: EventSet = EventId::all().filter(|id| self.wants_own(*id)).collect();
        for net in Net::ALL.iter().filter(|net| self.wants(Kind::Net(**net))) {
            sources(*net).iter().for_each(|id| events.insert(*id));
        }
        // After this event, the world's number may belong to another world.
        events.insert(EventId::WorldClosed);
        events
    }
}

/// Returns whether a trace with these .NET events also has this own event: a heap dump with its roots has their stacks, which no other trace
/// has, and a trace of the collections with a rundown has the names of the threads.
pub(super) fn belongs_to(id: EventId, has: impl Fn(Net) -> bool) -> bool {
    match id {
        EventId::DumpStack => has(Net::GCBulkRootEdge),
        EventId::ThreadAttached => has(Net::GCStart) && has(Net::RuntimeInformationDCStart),
        _ => false,
    }
}

/// Returns the events from which a .NET event is made.
fn sources(net: Net) -> &'static [EventId] {
    use EventId as Id;
    const BOUNDS: &[Id] = &[Id::SuspendBegin, Id::GcStart, Id::GcEnd, Id::RestartEnd];
    const HEAP: &[Id] = &[
        Id::SuspendBegin,
        Id::GcStart,
        Id::RootsBegin,
        Id::MarkEnd,
        Id::WeakEnd,
        Id::SweepBegin,
        Id::HeapBefore,
        Id::HeapAfter,
        Id::SweepEnd,
        Id::GcEnd,
        Id::HeapStats,
        Id::CollectionDiscarded,
    ];
    match net {
        Net::ProcessInfo | Net::RuntimeInformationDCStart | Net::GCSettingsRundown => &[],
        // Written for the stacks of other events.
        Net::ModuleDCEnd | Net::MethodDCEndVerbose => &[],
        Net::Settings => &[Id::WorldCreated],
        Net::GCSuspendEEBegin => &[Id::SuspendBegin],
        Net::GCSuspendEEEnd => &[Id::SuspendBegin, Id::SuspendEnd],
        Net::GCTriggered | Net::GCStart | Net::GCEnd => BOUNDS,
        Net::GCMarkWithType => &[Id::GcStart, Id::MarkEnd, Id::WeakEnd, Id::GcEnd],
        Net::GCGlobalHeapHistory | Net::GCPerHeapHistory | Net::GCHeapStats => HEAP,
        Net::GCRestartEEBegin => &[Id::SuspendBegin, Id::RestartBegin],
        Net::GCRestartEEEnd => &[Id::SuspendBegin, Id::RestartEnd],
        Net::GCCreateSegment => &[Id::SegmentCreated],
        Net::GCFreeSegment => &[Id::SegmentFreed],
        Net::GCAllocationTick => &[Id::AllocationTick, Id::AllocationSampled],
        Net::GCSampledObjectAllocationLow => &[Id::AllocationTick],
        Net::GCSampledObjectAllocationHigh => &[Id::ObjectSampled],
        Net::GCFinalizersBegin => &[Id::FinalizerBegin],
        Net::GCFinalizersEnd => &[Id::FinalizerEnd],
        Net::FinalizeObject => &[Id::FinalizeObject],
        Net::SetGCHandle => &[Id::RootCreated],
        Net::DestroyGCHandle => &[Id::RootDropped],
        Net::PinObjectAtGCTime => &[Id::ObjectPinned],
        Net::GCJoin => &[Id::MarkerJoined],
        Net::GCDynamicEvent => &[
            Id::StopAbandoned,
            Id::CollectionDiscarded,
            Id::VtableSwapped,
            Id::AllocationFailed,
            Id::DebuggerAttached,
            Id::DebuggerDetached,
            Id::DebuggerLost,
        ],
        Net::BulkType | Net::GCBulkNode => &[Id::DumpNode, Id::DumpEnd],
        Net::GCBulkEdge => &[Id::DumpEdge, Id::DumpEnd],
        Net::GCBulkRootEdge | Net::GCBulkRootStaticVar => &[Id::DumpRoot, Id::DumpEnd],
    }
}

fn number(text: &str) -> Result<u64, ()> {
    let digits = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")).unwrap_or(text);
    u64::from_str_radix(digits, 16).map_err(|_| ())
}

fn level(text: &str) -> Result<u32, String> {
    let is_it = |(name, level): &&(&str, u32)| name.eq_ignore_ascii_case(text) || text.parse() == Ok(*level);
    LEVELS.iter().find(is_it).map(|(_, level)| *level).ok_or_else(|| {
        let names: Vec<&str> = LEVELS.iter().map(|(name, _)| *name).collect();
        let guess = suggest::nearest(text, names.iter().copied());
        let guess = guess.map_or(String::new(), |name| format!(": did you mean '{name}'?"));
        format!("'{text}' is not a level: use a number from 0 to 5 or one of {}{guess}", names.join(" "))
    })
}

fn keyword(name: &str) -> Result<u64, String> {
    if name.starts_with("0x") || name.starts_with("0X") {
        return number(name).map_err(|()| format!("'{name}' is not a hexadecimal number"));
    }
    let known = KEYWORDS.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
    known.map(|(_, keywords)| keywords.0).ok_or_else(|| {
        let names: Vec<&str> = KEYWORDS.iter().map(|(name, _)| *name).collect();
        let guess = suggest::nearest(name, names.iter().copied());
        let guess = guess.map_or(String::new(), |name| format!(": did you mean '{name}'?"));
        format!("'{name}' is not one of the keywords {}{guess}", names.join(" "))
    })
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn wants(providers: &Providers) -> Vec<Net> {
        Net::ALL.iter().copied().filter(|net| providers.wants(Kind::Net(*net))).collect()
    }

    #[rstest]
    #[case("Microsoft-Windows-DotNETRuntime:0x1:4", Net::GCStart, true)]
    #[case("Microsoft-Windows-DotNETRuntime:0x1:4", Net::GCAllocationTick, false)]
    #[case("Microsoft-Windows-DotNETRuntime:1:5", Net::GCAllocationTick, true)]
    #[case("Microsoft-Windows-DotNETRuntime:0x1:Verbose", Net::GCAllocationTick, true)]
    #[case("Microsoft-Windows-DotNETRuntime", Net::GCBulkEdge, true)]
    #[case("Microsoft-Windows-DotNETRuntime:0x2:4,stopworld", Net::GCStart, false)]
    #[case("Microsoft-Windows-DotNETRuntime:0x2:4,stopworld", Net::SetGCHandle, true)]
    #[case("Microsoft-Windows-DotNETRuntime:0x1:3", Net::GCStart, false)]
    #[case("Microsoft-Windows-DotNETRuntimePrivate:0x1:4", Net::GCStart, false)]
    #[case("Microsoft-Windows-DotNETRuntimePrivate:0x1:4", Net::Settings, true)]
    #[case("Others", Net::GCStart, false)]
    #[case("Others", Net::ProcessInfo, true)]
    fn a_list_of_providers_requests_its_events(#[case] list: &str, #[case] net: Net, #[case] expected: bool) {
        assert_eq!(Providers::parse(list).unwrap().wants(Kind::Net(net)), expected);
    }

    #[test]
    fn two_requests_for_one_provider_are_not_mixed() {
        let providers = Providers::parse(&format!("{DEFAULT}:0x1:5,{DEFAULT}:0x200000:3")).unwrap();
        assert!(providers.wants(Kind::Net(Net::GCAllocationTick)));
        assert!(
            !providers.wants(Kind::Net(Net::GCSampledObjectAllocationHigh)),
            "0x200000 was requested only up to Warning"
        );
    }

    #[test]
    fn keywords_are_parsed_by_name() {
        assert_eq!(Providers::parse_keywords("GC@Informational").unwrap(), Providers::default());
        assert_eq!(Providers::parse_keywords("gc").unwrap(), Providers::default());
        let both = Providers::parse_keywords("GC+GCHandle@5").unwrap();
        assert!(wants(&both).contains(&Net::SetGCHandle) && wants(&both).contains(&Net::GCAllocationTick));
        let error = Providers::parse_keywords("GCHandel").unwrap_err().to_string();
        assert!(error.contains("did you mean 'GCHandle'"), "{error}");
        assert!(Providers::parse_keywords("GC@Loud").is_err() && Providers::parse_keywords("@4").is_err());
    }

    #[rstest]
    #[case("")]
    #[case("a,,b")]
    #[case("a:green")]
    #[case("a:1:loud")]
    #[case("a:1:6")]
    #[case("a:1:-1")]
    fn an_invalid_list_of_providers_is_refused(#[case] list: &str) {
        assert!(Providers::parse(list).is_err());
    }

    #[test]
    fn the_own_provider_has_the_events_without_a_dotnet_counterpart() {
        let own = Providers::parse("stopworld").unwrap();
        assert!(own.wants_own(EventId::RootsBegin) && own.wants_own(EventId::ThreadAttached));
        assert!(!own.wants_own(EventId::GcStart), "it is a .NET event");
        assert!(!own.wants_own(EventId::DumpStack) && !Providers::default().wants_own(EventId::DumpStack));
        assert!(Providers::parse_keywords("GCHeapDump").unwrap().wants_own(EventId::DumpStack), "it is part of a dump");
        assert!(
            Providers::default().wants_own(EventId::ThreadAttached),
            "the names of threads belong to the collections"
        );
        assert!(!Providers::parse_keywords("GCHandle").unwrap().wants_own(EventId::ThreadAttached));
        let without_rundown = Providers { rundown: false, ..Providers::default() };
        assert!(!without_rundown.wants_own(EventId::ThreadAttached));
        assert!(!own.wants_own(EventId::ObjectAllocated), "Verbose");
        assert!(Providers::parse("stopworld:8:5").unwrap().wants_own(EventId::ObjectAllocated));
        assert!(!Providers::parse("stopworld:8:5").unwrap().wants_own(EventId::RootsBegin), "another keyword");
    }
}
