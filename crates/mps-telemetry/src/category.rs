//! The categories of events.

/// The category of an event: the number of its bit in the telemetry filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Category {
    /// Arenas: memory obtained from the operating system.
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
    /// Names and labels from the program.
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

    /// Returns the MPS's spelling of its name.
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
