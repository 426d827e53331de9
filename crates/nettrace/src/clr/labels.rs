//! The names of enumerated values, as the runtime spells them.

/// The names of a field's values.
#[derive(Debug)]
pub(super) enum Labels {
    /// A name for each value, from 0.
    One(&'static [&'static str]),
    /// A name for each bit, from the lowest; several are separated by commas.
    Flags(&'static [(u32, &'static str)]),
}

impl Labels {
    /// The name of a value; a value without a name is formatted as a number.
    pub(super) fn of(&self, value: i32) -> String {
        match self {
            Labels::One(names) => one(names, value).map_or_else(|| value.to_string(), str::to_owned),
            Labels::Flags(flags) => flag_names(flags, value),
        }
    }
}

fn one(names: &'static [&'static str], value: i32) -> Option<&'static str> {
    names.get(usize::try_from(value).ok()?).copied()
}

/// Formats flags as .NET does: the names from the lowest bit, or the number if a set bit has no name.
fn flag_names(flags: &[(u32, &str)], value: i32) -> String {
    if value == 0 {
        return "None".to_owned();
    }
    let mut rest = value as u32;
    let mut names = Vec::new();
    for (bit, name) in flags {
        if rest & bit != 0 {
            rest &= !bit;
            names.push(*name);
        }
    }
    if rest == 0 { names.join(", ") } else { value.to_string() }
}

/// The name of a value in this enumeration, or the value itself.
pub fn label(enumeration: Enumeration, value: i32) -> String {
    match enumeration {
        Enumeration::Reason => &REASON,
        Enumeration::CollectionType => &GC_TYPE,
        Enumeration::Mechanisms => &MECHANISMS,
        Enumeration::StartupFlags => &STARTUP_FLAGS,
    }
    .of(value)
}

/// The enumerations that reports print.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Enumeration {
    /// Why a collection was started.
    Reason,
    /// Blocking, background, or foreground during a background collection.
    CollectionType,
    /// The mechanisms that a collection used.
    Mechanisms,
    /// The flags that the runtime was started with.
    StartupFlags,
}

/// The reasons for a collection.
pub(super) static REASON: Labels = Labels::One(&[
    "AllocSmall",
    "Induced",
    "LowMemory",
    "Empty",
    "AllocLarge",
    "OutOfSpaceSOH",
    "OutOfSpaceLOH",
    "InducedNotForced",
    "Internal",
    "InducedLowMemory",
    "InducedCompacting",
    "LowMemoryHost",
    "PMFullGC",
    "LowMemoryHostBlocking",
]);

pub(super) static GC_TYPE: Labels = Labels::One(&["NonConcurrentGC", "BackgroundGC", "ForegroundGC"]);

pub(super) static SUSPEND: Labels = Labels::One(&[
    "SuspendOther",
    "SuspendForGC",
    "SuspendForAppDomainShutdown",
    "SuspendForCodePitching",
    "SuspendForShutdown",
    "SuspendForDebugger",
    "SuspendForGCPrep",
    "SuspendForDebuggerSweep",
]);

pub(super) static ALLOCATION: Labels = Labels::One(&["Small", "Large", "Pinned"]);

pub(super) static SEGMENT: Labels =
    Labels::One(&["SmallObjectHeap", "LargeObjectHeap", "ReadOnlyHeap", "PinnedObjectHeap"]);

pub(super) static PAUSE_MODE: Labels =
    Labels::One(&["Batch", "Interactive", "LowLatency", "SustainedLowLatency", "NoGC"]);

pub(super) static MECHANISMS: Labels = Labels::Flags(&[
    (0x1, "Concurrent"),
    (0x2, "Compaction"),
    (0x4, "Promotion"),
    (0x8, "Demotion"),
    (0x10, "CardBundles"),
]);

pub(super) static ROOT_KIND: Labels = Labels::One(&["Stack", "Finalizer", "Handle", "Older", "SizedRef", "Overflow"]);

pub(super) static ROOT_FLAGS: Labels =
    Labels::Flags(&[(0x1, "Pinning"), (0x2, "WeakRef"), (0x4, "Interior"), (0x8, "RefCounted")]);

pub(super) static STATIC_FLAGS: Labels = Labels::Flags(&[(0x1, "ThreadLocal")]);

pub(super) static HANDLE: Labels = Labels::One(&[
    "WeakShort",
    "WeakLong",
    "Strong",
    "Pinned",
    "Variable",
    "RefCounted",
    "Dependent",
    "AsyncPinned",
    "SizedRef",
]);

pub(super) static JOIN_TIME: Labels = Labels::One(&["Start", "End"]);
pub(super) static JOIN_TYPE: Labels = Labels::One(&["LastJoin", "Join", "Restart", "FirstJoin"]);

/// The kinds of roots in mark events.
pub const MARK_ROOTS: [&str; 10] = [
    "MarkStack",
    "MarkFQ",
    "MarkHandles",
    "MarkOlder",
    "MarkSizedRef",
    "MarkOverflow",
    "MarkDependentHandles",
    "MarkNewFQ",
    "MarkSteal",
    "MarkBGCRoots",
];

pub(super) static MARK_ROOT: Labels = Labels::One(&MARK_ROOTS);

pub(super) static STARTUP_FLAGS: Labels = Labels::Flags(&[
    (0x00_0001, "CONCURRENT_GC"),
    (0x00_0002, "LOADER_OPTIMIZATION_SINGLE_DOMAIN"),
    (0x00_0004, "LOADER_OPTIMIZATION_MULTI_DOMAIN"),
    (0x00_0010, "LOADER_SAFEMODE"),
    (0x00_0100, "LOADER_SETPREFERENCE"),
    (0x00_1000, "SERVER_GC"),
    (0x00_2000, "HOARD_GC_VM"),
    (0x00_4000, "SINGLE_VERSION_HOSTING_INTERFACE"),
    (0x01_0000, "LEGACY_IMPERSONATION"),
    (0x02_0000, "DISABLE_COMMITTHREADSTACK"),
    (0x04_0000, "ALWAYSFLOW_IMPERSONATION"),
    (0x08_0000, "TRIM_GC_COMMIT"),
    (0x10_0000, "ETW"),
    (0x20_0000, "SERVER_BUILD"),
    (0x40_0000, "ARM"),
]);
