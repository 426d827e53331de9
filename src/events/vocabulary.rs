//! The vocabularies with which the tools select events: providers, levels and keywords for .NET, categories for the MPS.

use std::ops::BitOr;

/// One of the two .NET providers of events.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Provider {
    /// `Microsoft-Windows-DotNETRuntime`.
    Default,
    /// `Microsoft-Windows-DotNETRuntimePrivate`.
    Private,
}

/// A .NET level: the severity or detail of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Level {
    /// An error that ends the process.
    Fatal = 1,
    /// Something failed.
    Error = 2,
    /// Something may be wrong.
    Warning = 3,
    /// Normal operation.
    Informational = 4,
    /// Full detail.
    Verbose = 5,
}

impl Level {
    /// Every level, the least detailed first.
    pub const ALL: [Level; 5] = [Level::Fatal, Level::Error, Level::Warning, Level::Informational, Level::Verbose];
}

/// A set of .NET keywords. The highest eight bits are not keywords and are ignored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Keywords(pub u64);

impl Keywords {
    /// No keyword.
    pub const NONE: Keywords = Keywords(0);
    /// Collections, segments, finalizers. In the private provider the same bit is called GCPrivate.
    pub const GC: Keywords = Keywords(0x1);
    /// Root handles.
    pub const GC_HANDLE: Keywords = Keywords(0x2);
    /// Root handles, private provider.
    pub const GC_HANDLE_PRIVATE: Keywords = Keywords(0x4000);
    /// Types.
    pub const TYPE: Keywords = Keywords(0x8_0000);
    /// Heap dumps.
    pub const GC_HEAP_DUMP: Keywords = Keywords(0x10_0000);
    /// Samples of allocations, at the high rate.
    pub const GC_SAMPLED_HIGH: Keywords = Keywords(0x20_0000);
    /// Samples of allocations, at the low rate.
    pub const GC_SAMPLED_LOW: Keywords = Keywords(0x200_0000);
    /// Every keyword.
    pub const ALL: Keywords = Keywords((1 << 56) - 1);
}

impl BitOr for Keywords {
    type Output = Keywords;

    fn bitor(self, other: Keywords) -> Keywords {
        Keywords(self.0 | other.0)
    }
}

/// An MPS telemetry category: a bit of the filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Category {
    /// Arenas: memory from the system.
    Arena = 0,
    /// Pools.
    Pool = 1,
    /// Collections.
    Trace = 2,
    /// Segments, and their scanning.
    Seg = 3,
    /// References: one record per reference.
    Ref = 4,
    /// Objects: one record per object.
    Object = 5,
    /// Names and labels of the program.
    User = 6,
}

impl Category {
    /// Every category, in the order of their bits.
    pub const ALL: [Category; 7] = [
        Category::Arena,
        Category::Pool,
        Category::Trace,
        Category::Seg,
        Category::Ref,
        Category::Object,
        Category::User,
    ];

    /// Returns its name, as the MPS spells it.
    pub const fn name(self) -> &'static str {
        match self {
            Category::Arena => "Arena",
            Category::Pool => "Pool",
            Category::Trace => "Trace",
            Category::Seg => "Seg",
            Category::Ref => "Ref",
            Category::Object => "Object",
            Category::User => "User",
        }
    }
}
