//! The one table of events.
//!
//! A collector that wants to be seen by five families of tools must say everything five times, and five lists of the
//! same thing drift apart. So each event is declared here once:
//!
//! ```text
//! /// what happened, for people
//! GcStart / fire_gc_start in Collection {
//!     net [GCStart = 1 v 2 op 1: Default GC Informational]    what it becomes for .NET tools: name, id, version, opcode,
//!                                                             and which provider, keyword and level select it
//!     mps [TraceCreate = 0x44: Trace, …]                      what it becomes in an MPS stream: name, code, category
//!     ghc [GC_START = 9]                                      what it becomes in a GHC eventlog: name, tag
//!     fields { number: u32 [Ordinal] "which collection, from 1", … }
//! }
//! ```
//!
//! and everything else is derived from it: [`EventId`], the [`DESCRIPTORS`] that documentation and consumers walk, a
//! payload struct per event in [`payload`], [`Event`] (any payload, for a `match`), and `Events::fire_…` per event.
//!
//! **An event tells the story of the collector, not a record of some format.** One phase may become several records in
//! one format (a collection that starts is three MPS records) and none in another, so each of the three lists may be
//! empty or long. The order of the records inside a file is the affair of that format's writer.
//!
//! **What firing costs.** `fire_…` is inlined: one relaxed load of its group's word, one test of a constant bit, a
//! predicted branch. The enabled half is out of line, cold, and has a name that a debugger can break at
//! (`stopworld_fire_gc_start`); it is an `extern "C"` function, so a sink that panics aborts the process with a message
//! and does not unwind through the stopped world.
//!
//! A payload is at most [`PAYLOAD_WORDS`] words, each field in a word of its own; so every record has the same size, a
//! ring of them needs no lengths, and the compact little-endian form is the writers' affair.

use super::Events;
use super::state::{Category, Keywords, Level, Provider};

/// The most fields that an event may have. A record carries this many words, used or not.
pub const PAYLOAD_WORDS: usize = 6;

/// Events whose enabled bits share a word. The check of an event is one load of its group's word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Group {
    /// Worlds, threads, and the way they are stopped.
    World,
    /// The phases of a collection. Few per collection.
    Collection,
    /// Segments, ticks, large objects, roots and finalizers: the heap between collections.
    Memory,
    /// One event per object. Kept apart, and without the system call that finds the firing thread's id.
    Object,
}

/// How many [`Group`]s there are.
pub const GROUPS: usize = 4;

/// What a number in a payload means.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Unit {
    /// A running number, from 1.
    Ordinal,
    /// How many.
    Count,
    /// A size in bytes.
    Bytes,
    /// An address in this process.
    Address,
    /// A thread, by the kernel's thread id.
    Thread,
    /// One of an enumeration of the collector's: a reason or a kind.
    Code,
}

/// How a field is represented.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FieldKind {
    /// 32 bits, unsigned.
    U32,
    /// 64 bits, unsigned.
    U64,
    /// As wide as a pointer.
    Word,
}

/// A field of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field {
    /// Its name in the payload struct.
    pub name: &'static str,
    /// What it tells.
    pub doc: &'static str,
    /// How it is represented.
    pub kind: FieldKind,
    /// What its number means.
    pub unit: Unit,
}

/// What an event becomes for tools that read .NET runtime events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NetEvent {
    /// The manifest's name of the event.
    pub name: &'static str,
    /// The manifest's id.
    pub id: u16,
    /// The version of the payload that we write.
    pub version: u8,
    /// The manifest's opcode.
    pub opcode: u8,
    /// The provider that owns the id.
    pub provider: Provider,
    /// The keyword that selects it.
    pub keyword: Keywords,
    /// The level that selects it.
    pub level: Level,
}

/// What an event becomes in an MPS telemetry stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MpsEvent {
    /// The MPS's name of the record.
    pub name: &'static str,
    /// The record's code in event version 2.0.0.
    pub code: u16,
    /// The category that selects it.
    pub category: Category,
}

/// What an event becomes in a GHC eventlog.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GhcEvent {
    /// GHC's name of the record.
    pub name: &'static str,
    /// The record's tag.
    pub tag: u16,
}

/// Everything the table says about one event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Descriptor {
    /// The event.
    pub id: EventId,
    /// Its name, as in [`EventId`].
    pub name: &'static str,
    /// What happened, for people. Lines as in the source, each with its leading space.
    pub doc: &'static str,
    /// The name of its fire function, and, with `stopworld_` before it, of the symbol of the enabled half.
    pub fire: &'static str,
    /// The group whose word holds its enabled bit.
    pub group: Group,
    /// What it becomes for .NET tools.
    pub net: &'static [NetEvent],
    /// What it becomes in an MPS stream.
    pub mps: &'static [MpsEvent],
    /// What it becomes in a GHC eventlog.
    pub ghc: &'static [GhcEvent],
    /// The payload, in order.
    pub fields: &'static [Field],
}

/// A type that can be a field of an event.
trait FieldType: Copy {
    const KIND: FieldKind;
    fn into_word(self) -> u64;
    fn from_word(word: u64) -> Self;
}

macro_rules! field_type {
    ($($type:ty => $kind:ident),*) => {$(
        impl FieldType for $type {
            const KIND: FieldKind = FieldKind::$kind;
            #[inline(always)]
            fn into_word(self) -> u64 {
                self as u64
            }
            #[inline(always)]
            fn from_word(word: u64) -> Self {
                word as $type
            }
        }
    )*};
}

field_type!(u32 => U32, u64 => U64, usize => Word);

macro_rules! events {
    ($(
        $(#[doc = $doc:literal])+
        $name:ident / $fire:ident in $group:ident {
            net [$($nname:ident = $nid:literal v $nver:literal op $nop:literal: $nprov:ident $nkey:ident $nlevel:ident),* $(,)?]
            mps [$($mname:ident = $mcode:literal: $mcat:ident),* $(,)?]
            ghc [$($gname:ident = $gtag:literal),* $(,)?]
            fields {$($field:ident: $type:ty [$unit:ident] $fdoc:literal),* $(,)?}
        }
    )+) => {
        /// Every event there is, in the order of the table.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(u8)]
        pub enum EventId {$(
            $(#[doc = $doc])+
            $name,
        )+}

        /// The events, in the order of the table.
        const IDS: &[EventId] = &[$(EventId::$name),+];

        const GROUP_OF: [Group; IDS.len()] = [$(Group::$group),+];

        /// The table, for documentation and for consumers: `DESCRIPTORS[id as usize]` describes `id`.
        pub static DESCRIPTORS: [Descriptor; IDS.len()] = [$(
            Descriptor {
                id: EventId::$name,
                name: stringify!($name),
                doc: concat!($($doc, "\n"),+),
                fire: stringify!($fire),
                group: Group::$group,
                net: &[$(NetEvent {
                    name: stringify!($nname),
                    id: $nid,
                    version: $nver,
                    opcode: $nop,
                    provider: Provider::$nprov,
                    keyword: Keywords::$nkey,
                    level: Level::$nlevel,
                }),*],
                mps: &[$(MpsEvent { name: stringify!($mname), code: $mcode, category: Category::$mcat }),*],
                ghc: &[$(GhcEvent { name: stringify!($gname), tag: $gtag }),*],
                fields: &[$(Field {
                    name: stringify!($field),
                    doc: $fdoc,
                    kind: <$type as FieldType>::KIND,
                    unit: Unit::$unit,
                }),*],
            },
        )+];

        /// What each event carries: a plain struct of fixed size per event.
        pub mod payload {
            #[allow(unused_imports, reason = "an event without fields uses neither")]
            use super::{FieldType, PAYLOAD_WORDS};
            $(
                $(#[doc = $doc])+
                #[derive(Clone, Copy, Debug, PartialEq, Eq)]
                #[non_exhaustive]
                pub struct $name {$(
                    #[doc = $fdoc]
                    pub $field: $type,
                )*}

                impl $name {
                    #[inline]
                    #[allow(unused_mut, unused_variables, unused_assignments, reason = "an event may have no fields")]
                    pub(super) fn from_words(words: &[u64; PAYLOAD_WORDS]) -> $name {
                        let mut next = words.iter();
                        // The default is never used: the table's events fit, as is checked below.
                        $(let $field = <$type>::from_word(next.next().copied().unwrap_or_default());)*
                        $name { $($field),* }
                    }
                }

                const _: () = {
                    const FIELDS: &[&str] = &[$(stringify!($field)),*];
                    assert!(FIELDS.len() <= PAYLOAD_WORDS, "an event has more fields than a record has words");
                };
            )+
        }

        /// Any event with its payload: what a consumer matches on.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[non_exhaustive]
        pub enum Event {$(
            $(#[doc = $doc])+
            $name(payload::$name),
        )+}

        impl Event {
            pub(super) fn from_words(id: EventId, words: &[u64; PAYLOAD_WORDS]) -> Event {
                match id {
                    $(EventId::$name => Event::$name(payload::$name::from_words(words)),)+
                }
            }
        }

        /// One function per event of the table. Each costs a load, a test and a branch while nobody listens.
        impl Events {$(
            $(#[doc = $doc])+
            #[inline(always)]
            pub fn $fire(&self $(, $field: $type)*) {
                // SAFETY: the symbol is named after this crate and this event, and the table has each event once.
                #[unsafe(export_name = concat!("stopworld_", stringify!($fire)))]
                #[cold]
                #[inline(never)]
                extern "C" fn enabled(events: &Events $(, $field: $type)*) {
                    events.deliver(EventId::$name, || [$($field.into_word()),*]);
                }

                const GROUP: usize = EventId::$name.group() as usize;
                const MASK: u32 = EventId::$name.mask();
                if self.enabled.word(GROUP) & MASK != 0 {
                    enabled(self $(, $field)*);
                }
            }
        )+}
    };
}

impl EventId {
    /// How many events there are.
    pub const COUNT: usize = IDS.len();

    /// Every event, in the order of the table.
    pub fn all() -> impl ExactSizeIterator<Item = EventId> {
        IDS.iter().copied()
    }

    /// The event with this number, if there is one: the inverse of `id as usize`.
    pub fn from_index(index: usize) -> Option<EventId> {
        IDS.get(index).copied()
    }

    /// What the table says about it.
    pub fn descriptor(self) -> &'static Descriptor {
        &DESCRIPTORS[self as usize]
    }

    /// The group whose word holds its enabled bit.
    pub const fn group(self) -> Group {
        GROUP_OF[self as usize]
    }

    /// Its bit in its group's word: the events of a group take the bits in the order of the table.
    pub const fn mask(self) -> u32 {
        MASKS[self as usize]
    }
}

const MASKS: [u32; EventId::COUNT] = {
    let mut masks = [0; EventId::COUNT];
    let mut next = [1_u32; GROUPS];
    let mut index = 0;
    while index < EventId::COUNT {
        let group = GROUP_OF[index] as usize;
        masks[index] = next[group];
        // A group of more than 31 events does not compile: a new group is due.
        next[group] *= 2;
        index += 1;
    }
    masks
};

events! {
    /// A world exists and can collect.
    WorldCreated / fire_world_created in World {
        net [Settings = 2 v 1 op 14: Private GC Informational]
        mps [EventInit = 0x1D: Arena, ArenaCreateVM = 0x09: Arena, PoolInit = 0x2D: Pool]
        ghc [RTS_IDENTIFIER = 29, PROGRAM_ARGS = 30, OSPROCESS_PID = 32, WALL_CLOCK_TIME = 43, CAPSET_CREATE = 25, HEAP_INFO = 52]
        fields {}
    }

    /// A world is closed: its threads are gone and its memory is about to be.
    WorldClosed / fire_world_closed in World {
        net []
        mps [PoolFinish = 0x2B: Pool, ArenaDestroy = 0x0A: Arena]
        ghc [CAPSET_DELETE = 26]
        fields {}
    }

    /// A thread has joined the world and may allocate.
    ThreadAttached / fire_thread_attached in World {
        net []
        mps [Intern = 0x21: User, Label = 0x22: User]
        ghc [CREATE_THREAD = 0, THREAD_LABEL = 44]
        fields {
            tid: u32 [Thread] "the thread",
            record_addr: usize [Address] "its stop record",
        }
    }

    /// A thread has left the world. Its stop record may be used again for another thread.
    ThreadDetached / fire_thread_detached in World {
        net []
        mps []
        ghc [STOP_THREAD = 2]
        fields {
            tid: u32 [Thread] "the thread",
            record_addr: usize [Address] "its stop record",
        }
    }

    /// The world is asked to stop. The threads still run.
    SuspendBegin / fire_suspend_begin in Collection {
        net [GCSuspendEEBegin = 9 v 1 op 10: Default GC Informational]
        mps [ArenaPollBegin = 0x0D: Arena]
        ghc [REQUEST_SEQ_GC = 11, REQUEST_PAR_GC = 12]
        fields {
            number: u32 [Ordinal] "the collection that it is for",
            reason: u32 [Code] "why the world is stopped",
        }
    }

    /// The world has stopped: every thread is parked or in a blocking region.
    SuspendEnd / fire_suspend_end in Collection {
        net [GCSuspendEEEnd = 8 v 1 op 137: Default GC Informational]
        mps []
        ghc [GC_GLOBAL_SYNC = 54]
        fields {
            number: u32 [Ordinal] "the collection that it is for",
            threads_stopped: u32 [Count] "threads that had to be stopped",
            threads_blocking: u32 [Count] "threads that were in a blocking region and may stay there",
        }
    }

    /// The stop was given up: some thread did not answer in time. The world runs on and nothing was collected.
    StopAbandoned / fire_stop_abandoned in Collection {
        net [GCDynamicEvent = 39 v 0 op 41: Default GC Informational]
        mps [ArenaPollEnd = 0x0E: Arena]
        ghc [LOG_MSG = 16]
        fields {
            number: u32 [Ordinal] "the collection that it was for",
            unanswered: u32 [Count] "threads that did not answer",
        }
    }

    /// Somebody wants a collection.
    GcTriggered / fire_gc_triggered in Collection {
        net [GCTriggered = 35 v 0 op 35: Default GC Informational]
        mps []
        ghc []
        fields {
            reason: u32 [Code] "why",
        }
    }

    /// A collection starts, in the stopped world.
    GcStart / fire_gc_start in Collection {
        net [GCStart = 1 v 2 op 1: Default GC Informational]
        mps [TraceCreate = 0x44: Trace, TraceCondemnAll = 0x43: Trace, TraceStart = 0x51: Trace]
        ghc [GC_START = 9]
        fields {
            number: u32 [Ordinal] "which collection, from 1",
            reason: u32 [Code] "why",
        }
    }

    /// Registers, stacks, static ranges and handles are about to be scanned.
    RootsBegin / fire_roots_begin in Collection {
        net []
        mps [TraceFlipBegin = 0x4B: Trace]
        ghc [GC_WORK = 21]
        fields {
            number: u32 [Ordinal] "which collection",
        }
    }

    /// The roots have been scanned.
    RootsEnd / fire_roots_end in Collection {
        net [GCMarkWithType = 202 v 0 op 202: Default GC Informational]
        mps [RootScan = 0x37: Seg, TraceFlipEnd = 0x4C: Trace]
        ghc []
        fields {
            number: u32 [Ordinal] "which collection",
            stack_bytes: usize [Bytes] "stack that was scanned, all threads together",
            roots: usize [Count] "objects that a root refers to",
        }
    }

    /// What the roots reach is about to be marked.
    MarkBegin / fire_mark_begin in Collection {
        net []
        mps [TraceBandAdvance = 0x42: Trace]
        ghc []
        fields {
            number: u32 [Ordinal] "which collection",
        }
    }

    /// Everything that the roots reach is marked.
    MarkEnd / fire_mark_end in Collection {
        net [GCMarkWithType = 202 v 0 op 202: Default GC Informational]
        mps [SegScan = 0x3D: Seg]
        ghc [GC_IDLE = 20, GC_DONE = 22]
        fields {
            number: u32 [Ordinal] "which collection",
            objects: usize [Count] "objects marked, those twice for which two markers raced",
            stack_bytes: usize [Bytes] "the most that a mark stack took",
        }
    }

    /// Weak references to the dead are cleared, and the dead that want a last word are queued.
    WeakEnd / fire_weak_end in Collection {
        net []
        mps [TraceBandAdvance = 0x42: Trace]
        ghc []
        fields {
            number: u32 [Ordinal] "which collection",
            cleared: usize [Count] "weak references cleared",
            finalizers_queued: usize [Count] "objects handed to the finalizer thread",
        }
    }

    /// The sweep is being set up.
    SweepBegin / fire_sweep_begin in Collection {
        net []
        mps [TraceReclaim = 0x4D: Trace]
        ghc []
        fields {
            number: u32 [Ordinal] "which collection",
        }
    }

    /// It is known what lives and what is free. Blocks may still be swept lazily by those who allocate.
    SweepEnd / fire_sweep_end in Collection {
        net [
            GCGlobalHeapHistory = 205 v 4 op 205: Default GC Informational,
            GCPerHeapHistory = 204 v 3 op 204: Default GC Informational,
        ]
        mps [SegReclaim = 0x3C: Seg, TraceDestroy = 0x46: Trace]
        ghc [GC_STATS_GHC = 53]
        fields {
            number: u32 [Ordinal] "which collection",
            live_bytes: usize [Bytes] "what lives",
            freed_bytes: usize [Bytes] "what died in this collection",
        }
    }

    /// The collection has ended. The world is still stopped.
    GcEnd / fire_gc_end in Collection {
        net [GCEnd = 2 v 1 op 2: Default GC Informational]
        mps []
        ghc [GC_END = 10]
        fields {
            number: u32 [Ordinal] "which collection",
        }
    }

    /// The heap by space, after a collection.
    HeapStats / fire_heap_stats in Collection {
        net [GCHeapStats = 4 v 2 op 133: Default GC Informational]
        mps []
        ghc [HEAP_ALLOCATED = 49, HEAP_LIVE = 51, HEAP_SIZE = 50]
        fields {
            number: u32 [Ordinal] "which collection",
            small_bytes: usize [Bytes] "live in size-class blocks",
            large_bytes: usize [Bytes] "live large objects",
            pinned_bytes: usize [Bytes] "live in the pinned object space",
            committed_bytes: usize [Bytes] "memory that the heap has from the system",
            live_objects: usize [Count] "objects that live",
        }
    }

    /// The threads are about to be let go.
    RestartBegin / fire_restart_begin in Collection {
        net [GCRestartEEBegin = 7 v 1 op 136: Default GC Informational]
        mps []
        ghc []
        fields {
            number: u32 [Ordinal] "the collection that it was stopped for",
        }
    }

    /// Every thread has been let go. The pause is over.
    RestartEnd / fire_restart_end in Collection {
        net [GCRestartEEEnd = 3 v 1 op 132: Default GC Informational]
        mps [ArenaPollEnd = 0x0E: Arena]
        ghc []
        fields {
            number: u32 [Ordinal] "the collection that it was stopped for",
        }
    }

    /// The marks of a collection were thrown away before anything was cleared or swept; it is repeated.
    CollectionDiscarded / fire_collection_discarded in Collection {
        net [GCDynamicEvent = 39 v 0 op 41: Default GC Informational]
        mps [TraceDestroy = 0x46: Trace]
        ghc [LOG_MSG = 16]
        fields {
            number: u32 [Ordinal] "which collection",
            reason: u32 [Code] "why",
        }
    }

    /// Another way of stopping threads is in force.
    VtableSwapped / fire_vtable_swapped in World {
        net [GCDynamicEvent = 39 v 0 op 41: Default GC Informational]
        mps []
        ghc [LOG_MSG = 16]
        fields {
            old_kind: u32 [Code] "the outgoing vtable",
            new_kind: u32 [Code] "the incoming vtable",
        }
    }

    /// The heap took memory from its reservation.
    SegmentCreated / fire_segment_created in Memory {
        net [GCCreateSegment = 5 v 1 op 134: Default GC Informational]
        mps [ArenaAlloc = 0x06: Arena, SegAlloc = 0x38: Seg, VMMap = 0x5B: Seg]
        ghc [BLOCKS_SIZE = 91]
        fields {
            addr: usize [Address] "where it begins",
            bytes: usize [Bytes] "its size",
        }
    }

    /// The heap gave memory back to the system.
    SegmentFreed / fire_segment_freed in Memory {
        net [GCFreeSegment = 6 v 1 op 135: Default GC Informational]
        mps [ArenaFree = 0x0C: Arena, SegFree = 0x3A: Seg, VMUnmap = 0x5C: Seg]
        ghc [MEM_RETURN = 90]
        fields {
            addr: usize [Address] "where it began",
            bytes: usize [Bytes] "its size",
        }
    }

    /// So many bytes were allocated since the last tick: a sample of the allocation, by bytes.
    AllocationTick / fire_allocation_tick in Memory {
        net [GCAllocationTick = 10 v 4 op 11: Default GC Verbose]
        mps []
        ghc []
        fields {
            bytes: usize [Bytes] "allocated since the last tick of this thread",
            object_addr: usize [Address] "the object that made the clock tick",
            type_addr: usize [Address] "its type",
        }
    }

    /// A large object was allocated, in blocks of its own.
    LargeAllocated / fire_large_allocated in Memory {
        net []
        mps [ArenaAlloc = 0x06: Arena]
        ghc []
        fields {
            addr: usize [Address] "the object",
            bytes: usize [Bytes] "its size",
        }
    }

    /// An object was allocated. One event per object: expect many.
    ObjectAllocated / fire_object_allocated in Object {
        net []
        mps [PoolAlloc = 0x2A: Object]
        ghc []
        fields {
            addr: usize [Address] "the object",
            bytes: usize [Bytes] "its size",
        }
    }

    /// An object was found dead and its memory is free. One event per object: expect many.
    ObjectFreed / fire_object_freed in Object {
        net []
        mps [PoolFree = 0x2C: Object]
        ghc []
        fields {
            addr: usize [Address] "the object that was there",
            bytes: usize [Bytes] "its size",
        }
    }

    /// The finalizer thread starts on a batch.
    FinalizerBegin / fire_finalizer_begin in Memory {
        net [GCFinalizersBegin = 14 v 1 op 19: Default GC Informational]
        mps [MessagesExist = 0x26: Arena]
        ghc []
        fields {
            count: u32 [Count] "objects in the batch",
        }
    }

    /// The finalizer thread is through with a batch.
    FinalizerEnd / fire_finalizer_end in Memory {
        net [GCFinalizersEnd = 13 v 1 op 15: Default GC Informational]
        mps []
        ghc []
        fields {
            count: u32 [Count] "finalizers that were run",
        }
    }

    /// The finalizer of one object is about to run.
    FinalizeObject / fire_finalize_object in Memory {
        net [FinalizeObject = 29 v 0 op 32: Default GC Verbose]
        mps []
        ghc []
        fields {
            addr: usize [Address] "the object",
            type_addr: usize [Address] "its type",
        }
    }

    /// A root handle was made.
    RootCreated / fire_root_created in Memory {
        net [SetGCHandle = 30 v 0 op 33: Default GC_HANDLE Informational]
        mps []
        ghc []
        fields {
            slot_addr: usize [Address] "the handle's slot",
            object_addr: usize [Address] "the object that it keeps alive",
        }
    }

    /// A root handle was dropped.
    RootDropped / fire_root_dropped in Memory {
        net [DestroyGCHandle = 31 v 0 op 34: Default GC_HANDLE Informational]
        mps []
        ghc []
        fields {
            slot_addr: usize [Address] "the handle's slot",
        }
    }
}
