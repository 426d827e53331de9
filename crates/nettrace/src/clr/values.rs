//! Enumerated values: the meanings of the numbers in fields, as the runtime spells them.
//! A reader gets the number. A newer runtime may have added it, so `of` returns the value only if the number is known. A writer passes the
//! value.

use super::labels::Labels;

/// Declares enumerations whose values count from 0, and flags.
macro_rules! enumerations {
    ($(
        $(#[$doc:meta])*
        enum $name:ident { $($(#[$value_doc:meta])* $value:ident,)* }
    )*) => { $(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(u32)]
        pub enum $name { $($(#[$value_doc])* $value,)* }

        impl $name {
            /// The names, by number.
            pub const NAMES: &'static [&'static str] = &[$(stringify!($value)),*];
            pub(super) const LABELS: &'static Labels = &Labels::One($name::NAMES);

            /// Returns the number in a payload.
            pub const fn code(self) -> u32 {
                self as u32
            }

            /// Returns the value with this number, if it is known.
            pub fn of(code: u32) -> Option<$name> {
                [$($name::$value),*].get(code as usize).copied()
            }
        }
    )* };
}

/// Declares sets of flags.
macro_rules! flags {
    ($(
        $(#[$doc:meta])*
        struct $name:ident { $($flag:ident = $bit:literal $label:literal,)* }
    )*) => { $(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct $name(pub u32);

        impl $name {
            /// No flag.
            pub const NONE: $name = $name(0);
            $(
                #[doc = concat!("`", $label, "`.")]
                pub const $flag: $name = $name($bit);
            )*

            pub(super) const LABELS: &'static Labels = &Labels::Flags(&[$(($bit, $label)),*]);

            /// Returns the number in a payload.
            pub const fn code(self) -> u32 {
                self.0
            }

            /// Returns whether all of these flags are set.
            pub const fn contains(self, flags: $name) -> bool {
                self.0 & flags.0 == flags.0
            }
        }

        impl std::ops::BitOr for $name {
            type Output = $name;

            fn bitor(self, other: $name) -> $name {
                $name(self.0 | other.0)
            }
        }
    )* };
}

enumerations! {
    /// Why a collection was started.
    enum Reason {
        /// The budget of small objects is used up.
        AllocSmall,
        /// The program requested it.
        Induced,
        /// The system is short of memory.
        LowMemory,
        /// No reason.
        Empty,
        /// The budget of large objects is used up.
        AllocLarge,
        /// There is no room for a small object.
        OutOfSpaceSOH,
        /// There is no room for a large object.
        OutOfSpaceLOH,
        /// The program requested it, and the collector may decline.
        InducedNotForced,
        /// The runtime requested it.
        Internal,
        /// The program requested it because it is short of memory.
        InducedLowMemory,
        /// The program requested it, with compaction.
        InducedCompacting,
        /// The host is short of memory.
        LowMemoryHost,
        /// Provisional mode requires a full collection.
        PMFullGC,
        /// The host is short of memory, and waits.
        LowMemoryHostBlocking,
    }

    /// Whether the program runs during a collection.
    enum CollectionType {
        /// The threads are suspended during the whole collection.
        NonConcurrentGC,
        /// Most of the collection runs concurrently with the program.
        BackgroundGC,
        /// A blocking collection during a background one.
        ForegroundGC,
    }

    /// Why threads are suspended.
    enum SuspendReason {
        /// For another reason.
        SuspendOther,
        /// For a collection.
        SuspendForGC,
        /// To unload an application domain.
        SuspendForAppDomainShutdown,
        /// To discard compiled code.
        SuspendForCodePitching,
        /// To end the process.
        SuspendForShutdown,
        /// For a debugger.
        SuspendForDebugger,
        /// To prepare a collection, as in the second pause of a background collection.
        SuspendForGCPrep,
        /// For a debugger that looks again for threads that have not stopped yet.
        SuspendForDebuggerSweep,
    }

    /// The heap that contains the object of an allocation tick.
    enum AllocationKind {
        /// The small object heap.
        Small,
        /// The large object heap.
        Large,
        /// The pinned object heap.
        Pinned,
    }

    /// The heap to which a segment belongs.
    enum SegmentKind {
        /// Small objects.
        SmallObjectHeap,
        /// Large objects.
        LargeObjectHeap,
        /// Objects that are never written.
        ReadOnlyHeap,
        /// Pinned objects.
        PinnedObjectHeap,
    }

    /// How much a collection may disturb the program.
    enum PauseMode {
        /// No concurrent collections.
        Batch,
        /// Concurrent collections.
        Interactive,
        /// Full collections only if memory is short, for a short time.
        LowLatency,
        /// No blocking full collections.
        SustainedLowLatency,
        /// No collections.
        NoGC,
    }

    /// The kind of a root in a heap dump.
    enum RootKind {
        /// A stack or a register.
        Stack,
        /// The finalizer queue.
        Finalizer,
        /// A handle.
        Handle,
        /// An object of an older generation.
        Older,
        /// A handle with a size.
        SizedRef,
        /// A root found while an overflow of the mark stack was handled.
        Overflow,
    }

    /// The kind of a handle.
    enum HandleKind {
        /// Weak, cleared before finalizers run.
        WeakShort,
        /// Weak, cleared when the object is freed.
        WeakLong,
        /// Keeps its object alive.
        Strong,
        /// Keeps its object alive, and in its place.
        Pinned,
        /// A handle whose kind can change.
        Variable,
        /// Keeps its object alive while COM has references to the object.
        RefCounted,
        /// Keeps a value alive as long as its key.
        Dependent,
        /// Keeps the buffers of an asynchronous operation in their place.
        AsyncPinned,
        /// Keeps its object alive, and the collector computes the size of everything reachable from it.
        SizedRef,
    }

    /// The side of a join.
    enum JoinTime {
        /// The thread begins to wait.
        Start,
        /// The thread continues.
        End,
    }

    /// The part that a thread has in a join.
    enum JoinType {
        /// The thread is the last to arrive.
        LastJoin,
        /// The thread is not the last to arrive.
        Join,
        /// The last thread lets the others continue.
        Restart,
        /// The thread is the first to arrive, in a join that waits only for the first.
        FirstJoin,
    }

    /// The kinds of roots in mark events.
    enum MarkRoot {
        /// Stacks.
        MarkStack,
        /// Objects that wait for their finalizers.
        MarkFQ,
        /// Handles.
        MarkHandles,
        /// Objects of older generations.
        MarkOlder,
        /// Handles with sizes.
        MarkSizedRef,
        /// After an overflow of the mark stack.
        MarkOverflow,
        /// Dependent handles.
        MarkDependentHandles,
        /// Objects whose finalizers have just been queued.
        MarkNewFQ,
        /// Work taken from other markers.
        MarkSteal,
        /// The roots of a background collection.
        MarkBGCRoots,
    }
}

flags! {
    /// The mechanisms that a collection used.
    struct Mechanisms {
        CONCURRENT = 0x1 "Concurrent",
        COMPACTION = 0x2 "Compaction",
        PROMOTION = 0x4 "Promotion",
        DEMOTION = 0x8 "Demotion",
        CARD_BUNDLES = 0x10 "CardBundles",
    }

    /// The properties of a root in a heap dump.
    struct RootFlags {
        PINNING = 0x1 "Pinning",
        WEAK_REF = 0x2 "WeakRef",
        INTERIOR = 0x4 "Interior",
        REF_COUNTED = 0x8 "RefCounted",
    }

    /// The properties of a static variable in a heap dump.
    struct StaticFlags {
        THREAD_LOCAL = 0x1 "ThreadLocal",
    }

    /// The flags that the runtime was started with.
    struct StartupFlags {
        CONCURRENT_GC = 0x00_0001 "CONCURRENT_GC",
        LOADER_OPTIMIZATION_SINGLE_DOMAIN = 0x00_0002 "LOADER_OPTIMIZATION_SINGLE_DOMAIN",
        LOADER_OPTIMIZATION_MULTI_DOMAIN = 0x00_0004 "LOADER_OPTIMIZATION_MULTI_DOMAIN",
        LOADER_SAFEMODE = 0x00_0010 "LOADER_SAFEMODE",
        LOADER_SETPREFERENCE = 0x00_0100 "LOADER_SETPREFERENCE",
        SERVER_GC = 0x00_1000 "SERVER_GC",
        HOARD_GC_VM = 0x00_2000 "HOARD_GC_VM",
        SINGLE_VERSION_HOSTING_INTERFACE = 0x00_4000 "SINGLE_VERSION_HOSTING_INTERFACE",
        LEGACY_IMPERSONATION = 0x01_0000 "LEGACY_IMPERSONATION",
        DISABLE_COMMITTHREADSTACK = 0x02_0000 "DISABLE_COMMITTHREADSTACK",
        ALWAYSFLOW_IMPERSONATION = 0x04_0000 "ALWAYSFLOW_IMPERSONATION",
        TRIM_GC_COMMIT = 0x08_0000 "TRIM_GC_COMMIT",
        ETW = 0x10_0000 "ETW",
        SERVER_BUILD = 0x20_0000 "SERVER_BUILD",
        ARM = 0x40_0000 "ARM",
    }
}

/// The edition of the runtime.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
pub enum Sku {
    /// The .NET Framework.
    Desktop = 1,
    /// .NET Core and later.
    Core = 2,
}

impl Sku {
    /// Returns the number in a payload.
    pub const fn code(self) -> u32 {
        self as u32
    }
}

/// The element type of a type, with its number in the metadata of an assembly. Only the one that a writer needs is listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum ElementType {
    /// A class.
    Class = 0x12,
}

impl ElementType {
    /// Returns the number in a payload.
    pub const fn code(self) -> u32 {
        self as u32
    }
}

/// Settings of the collector that are on or off.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SettingBits(pub u32);

impl SettingBits {
    /// The heap has a limit.
    pub const HARD_LIMIT: SettingBits = SettingBits(8);

    /// Returns the number in a payload.
    pub const fn code(self) -> u32 {
        self.0
    }
}

/// The name of a value in this enumeration, or the value itself.
pub fn label(enumeration: Enumeration, value: i32) -> String {
    match enumeration {
        Enumeration::Reason => Reason::LABELS,
        Enumeration::CollectionType => CollectionType::LABELS,
        Enumeration::Mechanisms => Mechanisms::LABELS,
        Enumeration::StartupFlags => StartupFlags::LABELS,
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
