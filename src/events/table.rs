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
//!     usdt [gc_start]                                         the probe at which gdb, perf and bpftrace see it, if it has one
//!     fields { number: u32 [Ordinal] "which collection, from 1", … }
//! }
//! ```
//!
//! and everything else is derived from it: [`EventId`], the [`DESCRIPTORS`] that documentation and consumers walk, a
//! payload struct per event in [`payload`], which serializes itself, a reader of such bytes per event in [`template`],
//! [`Event`] (any payload, for a `match`), `Events::fire_…` per event, and the reference page (`stopworld events`).
//!
//! **Payloads grow at the end.** A field that came later says so (`since 2`): a reader of an older payload asks for it and
//! is told that it is not there, and an older reader of a newer payload never looks that far.
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
//! **What a probe costs.** The place at which gdb, perf and bpftrace look (`usdt`) is a nop in that cold half, where the
//! fields are in registers anyway and of which there is one. The way there is open while somebody listens or somebody looks:
//! the check takes both in one, the event's bit and the probe's semaphore. So an event with a probe costs two loads and an
//! `or` more than one without, and no jump of its own (`.event.probes`).
//!
//! In a record a payload is at most [`PAYLOAD_WORDS`] words, each field in a word of its own. Serialized it is compact: the
//! fields in order, little-endian, without padding.

mod descriptor;
mod view;

pub use self::descriptor::*;
use self::descriptor::{index_of, offset_of, version_of};
use super::Events;
use super::state::{Category, Keywords, Level, Provider};
use crate::os;

/// A type that can be a field of an event.
trait FieldType: Copy {
    const KIND: FieldKind;
    fn into_word(self) -> u64;
    fn from_word(word: u64) -> Self;
}

/// The version that a field came with: 1 if the row does not say.
macro_rules! since {
    () => {
        1
    };
    ($version:literal) => {
        $version
    };
}

/// What its probe is called, if an event has one.
macro_rules! probe_name {
    ([]) => {
        None
    };
    ([$probe:ident]) => {
        Some(stringify!($probe))
    };
}

/// Whether somebody looks at the probe, if there is one: not 0 then.
macro_rules! probe_lookers {
    ([]) => {
        0
    };
    ([$probe:ident]) => {
        probes::$probe.lookers()
    };
}

/// The place of the probe, if there is one.
macro_rules! probe_site {
    ([] $($field:ident: $type:ident),*) => {};
    ([$probe:ident] $($field:ident: $type:ident),*) => {
        // SAFETY: a plain name, and a semaphore of `probes`, which are all in their section.
        unsafe { os::probe::site!("stopworld", $probe, probes::$probe, $($field: $type),*) }
    };
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
            $(usdt [$probe:ident])?
            fields {$($field:ident: $type:ident [$unit:ident] $fdoc:literal $(since $since:literal)?),* $(,)?}
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

        /// The fields of each event.
        const FIELDS: [&[Field]; IDS.len()] = [$(
            &[$(Field {
                name: stringify!($field),
                doc: $fdoc,
                kind: <$type as FieldType>::KIND,
                unit: Unit::$unit,
                since: since!($($since)?),
            }),*],
        )+];

        /// The table, for documentation and for consumers: `DESCRIPTORS[id as usize]` describes `id`.
        pub static DESCRIPTORS: [Descriptor; IDS.len()] = [$(
            Descriptor {
                id: EventId::$name,
                name: stringify!($name),
                doc: concat!($($doc, "\n"),+),
                fire: stringify!($fire),
                group: Group::$group,
                version: version_of(FIELDS[EventId::$name as usize]),
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
                probe: probe_name!([$($probe)?]),
                fields: FIELDS[EventId::$name as usize],
            },
        )+];

        /// What each event carries: a plain struct of fixed size per event.
        pub mod payload {
            use super::template::FieldError;
            use super::{EventId, FIELDS, FieldType, PAYLOAD_WORDS, offset_of};
            $(
                $(#[doc = $doc])+
                #[derive(Clone, Copy, Debug, PartialEq, Eq)]
                #[non_exhaustive]
                pub struct $name {$(
                    #[doc = $fdoc]
                    pub $field: $type,
                )*}

                impl $name {
                    /// How many bytes it takes when serialized.
                    pub const BYTES: usize = {
                        let fields = FIELDS[EventId::$name as usize];
                        offset_of(fields, fields.len())
                    };

                    /// The fields in order, little-endian, without padding.
                    #[allow(unused_mut, unused_variables, unused_assignments, reason = "an event may have no fields")]
                    pub fn serialize(&self) -> [u8; Self::BYTES] {
                        let mut bytes = [0; Self::BYTES];
                        let mut rest = &mut bytes[..];
                        $(
                            let (field, behind) = rest.split_at_mut(<$type as FieldType>::KIND.bytes());
                            field.copy_from_slice(&self.$field.to_le_bytes());
                            rest = behind;
                        )*
                        bytes
                    }

                    /// The inverse of [`serialize`](Self::serialize), for a payload of `version`. Bytes behind its last field,
                    /// as a later version has them, are not looked at.
                    ///
                    /// # Errors
                    /// The version does not have all fields yet, or the bytes end too soon.
                    #[allow(unused_variables, reason = "an event may have no fields")]
                    pub fn deserialize(bytes: &[u8], version: u8) -> Result<$name, FieldError> {
                        let template = super::template::$name::at(bytes, version);
                        Ok($name { $($field: template.$field()?),* })
                    }

                    #[inline]
                    #[allow(unused_mut, unused_variables, unused_assignments, reason = "an event may have no fields")]
                    pub(super) fn from_words(words: &[u64; PAYLOAD_WORDS]) -> $name {
                        let mut next = words.iter();
                        // The default is never used: the table's events fit, as is checked below.
                        $(let $field = <$type>::from_word(next.next().copied().unwrap_or_default());)*
                        $name { $($field),* }
                    }
                }

                const _: () = assert!(
                    FIELDS[EventId::$name as usize].len() <= PAYLOAD_WORDS,
                    "an event has more fields than a record has words"
                );
            )+
        }

        /// Readers of serialized payloads: each field by its name, from its offset in the bytes. Nothing is copied; a field
        /// that the payload's version does not have, or that lies beyond the end of the bytes, is an error and not a number.
        pub mod template {
            pub use super::view::{FieldError, View};
            use super::{EventId, FIELDS, FieldType, index_of};
            $(
                $(#[doc = $doc])+
                #[derive(Clone, Copy, Debug)]
                pub struct $name<'a>(View<'a>);

                impl<'a> $name<'a> {
                    /// Over the bytes of a payload of this version.
                    #[inline]
                    pub fn at(bytes: &'a [u8], version: u8) -> $name<'a> {
                        $name(View::at(EventId::$name, bytes, version))
                    }

                    $(
                        #[doc = $fdoc]
                        ///
                        /// # Errors
                        /// The version has no such field, or the bytes end before it.
                        #[inline]
                        pub fn $field(&self) -> Result<$type, FieldError> {
                            const INDEX: usize = index_of(FIELDS[EventId::$name as usize], stringify!($field));
                            self.0.field(INDEX).map(<$type>::from_word)
                        }
                    )*

                    /// The same without the names.
                    pub fn view(&self) -> View<'a> {
                        self.0
                    }
                }
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

            /// Which event it is.
            pub fn id(&self) -> EventId {
                match self {
                    $(Event::$name(_) => EventId::$name,)+
                }
            }

            /// Its payload in order, little-endian, without padding, at the beginning of `buffer`.
            pub fn serialize<'b>(&self, buffer: &'b mut [u8; MAX_PAYLOAD_BYTES]) -> &'b [u8] {
                let length = match self {
                    $(Event::$name(payload) => {
                        buffer[..payload::$name::BYTES].copy_from_slice(&payload.serialize());
                        payload::$name::BYTES
                    })+
                };
                &buffer[..length]
            }
        }

        /// Who looks at the probes.
        #[allow(non_upper_case_globals, reason = "they are called as their probes")]
        mod probes {
            use crate::os::probe::Semaphore;
            $($(
                #[unsafe(link_section = ".probes")]
                pub(super) static $probe: Semaphore = Semaphore::new();
            )?)+
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
                    probe_site!([$($probe)?] $($field: $type),*);
                    events.deliver(EventId::$name, || [$($field.into_word()),*]);
                }

                const GROUP: usize = EventId::$name.group() as usize;
                const MASK: u32 = EventId::$name.mask();
                if self.enabled.word(GROUP) & MASK | probe_lookers!([$($probe)?]) != 0 {
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

/// Where each field of each event begins in its serialized payload.
static OFFSETS: [[u8; PAYLOAD_WORDS]; EventId::COUNT] = {
    let mut offsets = [[0; PAYLOAD_WORDS]; EventId::COUNT];
    let mut event = 0;
    while event < EventId::COUNT {
        let mut index = 0;
        while index < FIELDS[event].len() {
            offsets[event][index] = offset_of(FIELDS[event], index) as u8;
            index += 1;
        }
        event += 1;
    }
    offsets
};

/// Where this field of this event begins. The index is that of a field.
#[inline]
pub(super) fn offset_in(id: EventId, index: usize) -> usize {
    usize::from(OFFSETS[id as usize][index])
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
        mps [EventInit = 0x1D: Arena, ArenaCreateVM = 0x09: Arena, VMInit = 0x5A: Arena]
        ghc [RTS_IDENTIFIER = 29, PROGRAM_ARGS = 30, OSPROCESS_PID = 32, WALL_CLOCK_TIME = 43, CAPSET_CREATE = 25, HEAP_INFO = 52]
        fields {
            world_addr: usize [Address] "the world" since 2,
            heap_addr: usize [Address] "where its heap begins" since 2,
            reserved_bytes: usize [Bytes] "addresses that the heap may use" since 2,
            chunk_bytes: usize [Bytes] "memory is taken from the system in multiples of this" since 2,
            block_bytes: usize [Bytes] "size of a block" since 2,
        }
    }

    /// A world is gone, and its memory with it.
    WorldClosed / fire_world_closed in World {
        net []
        mps [VMFinish = 0x59: Arena, ArenaDestroy = 0x0A: Arena]
        ghc [CAPSET_DELETE = 26]
        fields {
            world_addr: usize [Address] "the world" since 2,
            heap_addr: usize [Address] "where its heap began" since 2,
        }
    }

    /// A space of the heap exists: for small, for pinned, or for large objects.
    PoolCreated / fire_pool_created in World {
        net []
        mps [PoolInit = 0x2D: Pool]
        ghc []
        fields {
            pool_addr: usize [Address] "the space",
            space: u32 [Code] "which: 0 small, 1 pinned, 2 large",
        }
    }

    /// A space of the heap is gone.
    PoolClosed / fire_pool_closed in World {
        net []
        mps [PoolFinish = 0x2B: Pool]
        ghc []
        fields {
            pool_addr: usize [Address] "the space",
            space: u32 [Code] "which: 0 small, 1 pinned, 2 large",
        }
    }

    /// The heap may not grow beyond this.
    CommitLimitSet / fire_commit_limit_set in World {
        net []
        mps [CommitLimitSet = 0x1B: Arena]
        ghc []
        fields {
            limit_bytes: usize [Bytes] "the heap limit",
        }
    }

    /// A thread has joined the world and may allocate.
    ThreadAttached / fire_thread_attached in World {
        net []
        mps []
        ghc [CREATE_THREAD = 0, THREAD_LABEL = 44]
        usdt [thread_attached]
        fields {
            tid: u32 [Thread] "the thread",
            record_addr: usize [Address] "its stop record",
            label: u64 [Label] "its name" since 2,
        }
    }

    /// A thread has left the world. Its stop record may be used again for another thread.
    ThreadDetached / fire_thread_detached in World {
        net []
        mps []
        ghc [STOP_THREAD = 2]
        usdt [thread_detached]
        fields {
            tid: u32 [Thread] "the thread",
            record_addr: usize [Address] "its stop record",
            label: u64 [Label] "its name" since 2,
        }
    }

    /// The world is asked to stop. The threads still run.
    SuspendBegin / fire_suspend_begin in Collection {
        net [GCSuspendEEBegin = 9 v 1 op 10: Default GC Informational]
        mps [ArenaPollBegin = 0x0D: Arena]
        ghc [REQUEST_SEQ_GC = 11, REQUEST_PAR_GC = 12]
        usdt [suspend_begin]
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
        usdt [suspend_end]
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
        usdt [stop_abandoned]
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
        usdt [gc_triggered]
        fields {
            reason: u32 [Code] "why",
        }
    }

    /// A collection starts, in the stopped world.
    GcStart / fire_gc_start in Collection {
        net [GCStart = 1 v 2 op 1: Default GC Informational]
        mps [TraceCreate = 0x44: Trace, TraceCondemnAll = 0x43: Trace, TraceStart = 0x51: Trace]
        ghc [GC_START = 9]
        usdt [gc_start]
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
        usdt [roots_begin]
        fields {
            number: u32 [Ordinal] "which collection",
        }
    }

    /// The roots have been scanned.
    RootsEnd / fire_roots_end in Collection {
        net []
        mps [TraceFlipEnd = 0x4C: Trace]
        ghc []
        usdt [roots_end]
        fields {
            number: u32 [Ordinal] "which collection",
            stack_bytes: usize [Bytes] "stack that was scanned, all threads together",
            roots: usize [Count] "objects that a root refers to",
        }
    }

    /// A root has been scanned: a thread's stacks, a registered range, a table of handles.
    RootScanned / fire_root_scanned in Block {
        net []
        mps [RootScan = 0x37: Seg]
        ghc []
        fields {
            root_addr: usize [Address] "the thread's stop record, the cell, the stack, the range, the table",
            kind: u32 [Code] "0 stacks of a thread, 1 half-built object, 2 registered stack, 3 range, 4 handles, 5 finalizers",
            bytes: usize [Bytes] "how much of it was looked at",
        }
    }

    /// Memory has been scanned conservatively: a piece of a stack, a range, a cell that was being built.
    AreaScanned / fire_area_scanned in Block {
        net []
        mps [TraceScanArea = 0x4E: Seg]
        ghc []
        fields {
            base_addr: usize [Address] "its first byte",
            limit_addr: usize [Address] "the byte behind its last",
        }
    }

    /// A word that lies in the heap was looked at: a reference, or on a stack what may be one. One event per reference:
    /// expect very many.
    ReferenceFixed / fire_reference_fixed in Object {
        net []
        mps [TraceFix = 0x49: Ref]
        ghc []
        fields {
            slot_addr: usize [Address] "where the word stands",
            reference: usize [Address] "the word",
            rank: u32 [Code] "0 ambiguous (a stack), 1 exact (an object, a handle), 2 final (a finalizer's)",
        }
    }

    /// What the roots reach is about to be marked.
    MarkBegin / fire_mark_begin in Collection {
        net []
        mps [TraceBandAdvance = 0x42: Trace]
        ghc []
        usdt [mark_begin]
        fields {
            number: u32 [Ordinal] "which collection",
        }
    }

    /// Several threads mark: one of them begins, has run dry, or the collecting one has seen all others through.
    MarkerJoined / fire_marker_joined in Collection {
        net [GCJoin = 203 v 2 op 203: Default GC Verbose]
        mps []
        ghc []
        fields {
            marker: u32 [Code] "which: 0 the collecting thread, then the service threads",
            moment: u32 [Code] "0 it begins, 1 it has run dry, 2 all have",
        }
    }

    /// Everything that the roots reach is marked.
    MarkEnd / fire_mark_end in Collection {
        net [GCMarkWithType = 202 v 0 op 202: Default GC Informational]
        mps []
        ghc [GC_IDLE = 20, GC_DONE = 22]
        usdt [mark_end]
        fields {
            number: u32 [Ordinal] "which collection",
            objects: usize [Count] "objects marked, those twice for which two markers raced",
            stack_bytes: usize [Bytes] "the most that a mark stack took",
        }
    }

    /// The marked objects of a block have been scanned. Told when marking is over, since it goes by object; and at once
    /// when a full mark stack makes it go over the blocks again.
    BlockScanned / fire_block_scanned in Block {
        net []
        mps [SegScan = 0x3D: Seg]
        ghc []
        fields {
            addr: usize [Address] "where the block begins",
            space: u32 [Code] "which: 0 small, 1 pinned, 2 large",
            objects: usize [Count] "marked objects in it",
        }
    }

    /// Weak references to the dead are cleared, and the dead that want a last word are queued.
    WeakEnd / fire_weak_end in Collection {
        net [GCMarkWithType = 202 v 0 op 202: Default GC Informational]
        mps [TraceBandAdvance = 0x42: Trace]
        ghc []
        usdt [weak_end]
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
        usdt [sweep_begin]
        fields {
            number: u32 [Ordinal] "which collection",
        }
    }

    /// An object of the pinned space lives. One event for each in each collection: expect many.
    ObjectPinned / fire_object_pinned in Object {
        net [PinObjectAtGCTime = 33 v 0 op 36: Default GC Verbose]
        mps []
        ghc []
        fields {
            addr: usize [Address] "the object",
            bytes: usize [Bytes] "what it takes of the heap",
            type_addr: usize [Address] "its type",
        }
    }

    /// What the heap held before a collection, told when it is known: what the one before left alive, by space, and what was
    /// allocated since, in whichever space.
    HeapBefore / fire_heap_before in Collection {
        net []
        mps []
        ghc []
        fields {
            number: u32 [Ordinal] "which collection",
            small_bytes: usize [Bytes] "left alive in size-class blocks",
            large_bytes: usize [Bytes] "large objects that were left alive",
            pinned_bytes: usize [Bytes] "left alive in the pinned object space",
            allocated_bytes: usize [Bytes] "allocated since",
            budget_bytes: usize [Bytes] "what may be allocated until the next collection",
        }
    }

    /// What a collection leaves alive, by space, and what it counted on the way.
    HeapAfter / fire_heap_after in Collection {
        net []
        mps []
        ghc []
        fields {
            number: u32 [Ordinal] "which collection",
            small_bytes: usize [Bytes] "lives in size-class blocks",
            large_bytes: usize [Bytes] "large objects that live",
            pinned_bytes: usize [Bytes] "lives in the pinned object space",
            pinned_objects: usize [Count] "objects that live in the pinned object space",
            handles: usize [Count] "root handles that are held",
        }
    }

    /// It is known what lives and what is free. Blocks may still be swept lazily by those who allocate.
    SweepEnd / fire_sweep_end in Collection {
        net [
            GCGlobalHeapHistory = 205 v 4 op 205: Default GC Informational,
            GCPerHeapHistory = 204 v 3 op 204: Default GC Informational,
        ]
        mps [TraceDestroy = 0x46: Trace]
        ghc [GC_STATS_GHC = 53]
        usdt [sweep_end]
        fields {
            number: u32 [Ordinal] "which collection",
            live_bytes: usize [Bytes] "what lives",
            freed_bytes: usize [Bytes] "what died in this collection",
        }
    }

    /// It is known of a block what lives in it.
    BlockReclaimed / fire_block_reclaimed in Block {
        net []
        mps [SegReclaim = 0x3C: Seg]
        ghc []
        fields {
            addr: usize [Address] "where the block begins",
            space: u32 [Code] "which: 0 small, 1 pinned, 2 large",
            live_bytes: usize [Bytes] "what lives in it",
        }
    }

    /// The collection has ended. The world is still stopped.
    GcEnd / fire_gc_end in Collection {
        net [GCEnd = 2 v 1 op 2: Default GC Informational]
        mps []
        ghc [GC_END = 10]
        usdt [gc_end]
        fields {
            number: u32 [Ordinal] "which collection",
        }
    }

    /// The heap by space, after a collection.
    HeapStats / fire_heap_stats in Collection {
        net [GCHeapStats = 4 v 2 op 133: Default GC Informational]
        mps []
        ghc [HEAP_ALLOCATED = 49, HEAP_LIVE = 51, HEAP_SIZE = 50]
        usdt [heap_stats]
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
        usdt [restart_begin]
        fields {
            number: u32 [Ordinal] "the collection that it was stopped for",
        }
    }

    /// Every thread has been let go. The pause is over.
    RestartEnd / fire_restart_end in Collection {
        net [GCRestartEEEnd = 3 v 1 op 132: Default GC Informational]
        mps [ArenaPollEnd = 0x0E: Arena]
        ghc []
        usdt [restart_end]
        fields {
            number: u32 [Ordinal] "the collection that it was stopped for",
        }
    }

    /// The marks of a collection were thrown away before anything was cleared or swept; it is repeated.
    CollectionDiscarded / fire_collection_discarded in Collection {
        net [GCDynamicEvent = 39 v 0 op 41: Default GC Informational]
        mps [TraceDestroy = 0x46: Trace]
        ghc [LOG_MSG = 16]
        usdt [collection_discarded]
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
        usdt [vtable_swapped]
        fields {
            old_kind: u32 [Code] "the outgoing vtable: 0 signals, 1 safepoints, 2 the mock debugger, 3 another",
            new_kind: u32 [Code] "the incoming vtable, likewise",
        }
    }

    /// The heap took memory from its reservation.
    SegmentCreated / fire_segment_created in Memory {
        net [GCCreateSegment = 5 v 1 op 134: Default GC Informational]
        mps [ArenaExtend = 0x0B: Arena, VMMap = 0x5B: Seg]
        ghc [BLOCKS_SIZE = 91]
        usdt [segment_created]
        fields {
            addr: usize [Address] "where it begins",
            bytes: usize [Bytes] "its size",
        }
    }

    /// The heap gave memory back to the system. The addresses stay its own.
    SegmentFreed / fire_segment_freed in Memory {
        net [GCFreeSegment = 6 v 1 op 135: Default GC Informational]
        mps [VMUnmap = 0x5C: Seg]
        ghc [MEM_RETURN = 90]
        usdt [segment_freed]
        fields {
            addr: usize [Address] "where it began",
            bytes: usize [Bytes] "its size",
        }
    }

    /// A space took a block, or for a large object several side by side.
    BlockAcquired / fire_block_acquired in Block {
        net []
        mps [ArenaAlloc = 0x06: Arena, SegAlloc = 0x38: Seg]
        ghc []
        fields {
            addr: usize [Address] "where the block begins",
            bytes: usize [Bytes] "its size",
            space: u32 [Code] "who took it: 0 small, 1 pinned, 2 large",
        }
    }

    /// Nothing lives in a block, and any space may take it.
    BlockReleased / fire_block_released in Block {
        net []
        mps [ArenaFree = 0x0C: Arena, SegFree = 0x3A: Seg]
        ghc []
        fields {
            addr: usize [Address] "where the block begins",
            bytes: usize [Bytes] "its size",
            space: u32 [Code] "who had it: 0 small, 1 pinned, 2 large",
        }
    }

    /// A thread's allocation cache got a run of free cells.
    CacheRefilled / fire_cache_refilled in Block {
        net []
        mps [BufferFill = 0x14: Seg]
        ghc []
        fields {
            buffer_addr: usize [Address] "where the thread keeps its run of this size",
            asked_bytes: usize [Bytes] "size of the cell that was asked for",
            addr: usize [Address] "the first cell of the run",
            bytes: usize [Bytes] "size of the run",
        }
    }

    /// There was no room for an object, and collections made none.
    AllocationFailed / fire_allocation_failed in Memory {
        net [GCDynamicEvent = 39 v 0 op 41: Default GC Informational]
        mps [ArenaAllocFail = 0x07: Arena, SegAllocFail = 0x39: Seg]
        ghc [LOG_MSG = 16]
        usdt [allocation_failed]
        fields {
            bytes: usize [Bytes] "what was asked for",
            live_bytes: usize [Bytes] "what was alive after the last collection",
            limit_bytes: usize [Bytes] "the heap limit",
        }
    }

    /// A thread found no room below the heap limit and begins to collect for it, or is through with that.
    EmergencySet / fire_emergency_set in Memory {
        net []
        mps [ArenaSetEmergency = 0x0F: Arena]
        ghc []
        fields {
            emergency: u32 [Code] "1 it begins, 0 it is over",
            bytes: usize [Bytes] "what the thread had asked for",
        }
    }

    /// So many bytes were allocated since the last tick: a sample of the allocation, by bytes.
    AllocationTick / fire_allocation_tick in Memory {
        net [
            GCAllocationTick = 10 v 4 op 11: Default GC Verbose,
            GCSampledObjectAllocation = 32 v 0 op 24: Default GC_SAMPLED_LOW Informational,
        ]
        mps []
        ghc []
        fields {
            bytes: usize [Bytes] "allocated since the last tick of this thread",
            object_addr: usize [Address] "the object that made the clock tick",
            type_addr: usize [Address] "its type",
            object_bytes: usize [Bytes] "what it takes of the heap" since 2,
            space: u32 [Code] "where it lies: 0 small, 1 pinned, 2 large" since 2,
        }
    }

    /// A thread got cells to allocate from, or a large object: the first object in them is a sample of what is allocated.
    ObjectSampled / fire_object_sampled in Memory {
        net [GCSampledObjectAllocation = 20 v 0 op 24: Default GC_SAMPLED_HIGH Informational]
        mps []
        ghc []
        fields {
            addr: usize [Address] "the object",
            type_addr: usize [Address] "its type",
            objects: usize [Count] "objects that it stands for",
            bytes: usize [Bytes] "bytes that it stands for",
        }
    }

    /// A large object was allocated, in blocks of its own.
    LargeAllocated / fire_large_allocated in Memory {
        net []
        mps []
        ghc []
        fields {
            addr: usize [Address] "the object",
            bytes: usize [Bytes] "the size of its value",
            type_addr: usize [Address] "its type" since 2,
        }
    }

    /// An object was allocated. One event per object: expect many. What is told as allocated and not as freed is, at the end
    /// of a collection, what lives.
    ObjectAllocated / fire_object_allocated in Object {
        net []
        mps [PoolAlloc = 0x2A: Object]
        ghc []
        fields {
            addr: usize [Address] "the object",
            bytes: usize [Bytes] "what it takes of the heap: its cell, or its blocks",
        }
    }

    /// An object was found dead and its memory is free. One event per object: expect many.
    ObjectFreed / fire_object_freed in Object {
        net []
        mps [PoolFree = 0x2C: Object]
        ghc []
        fields {
            addr: usize [Address] "the object that was there",
            bytes: usize [Bytes] "what it took of the heap: its cell, or its blocks",
        }
    }

    /// Finalizers are due, and the finalizer thread is told so.
    FinalizersDue / fire_finalizers_due in Memory {
        net []
        mps [MessagesExist = 0x26: Arena]
        ghc []
        fields {
            count: u32 [Count] "objects that the last collection queued",
        }
    }

    /// The finalizer thread starts on a batch.
    FinalizerBegin / fire_finalizer_begin in Memory {
        net [GCFinalizersBegin = 14 v 1 op 19: Default GC Informational]
        mps []
        ghc []
        usdt [finalizer_begin]
        fields {
            count: u32 [Count] "objects that are due",
        }
    }

    /// The finalizer thread is through with a batch.
    FinalizerEnd / fire_finalizer_end in Memory {
        net [GCFinalizersEnd = 13 v 1 op 15: Default GC Informational]
        mps []
        ghc []
        usdt [finalizer_end]
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

    /// A text has got a number. The text itself is in the store of labels.
    Interned / fire_interned in User {
        net []
        mps [Intern = 0x21: User]
        ghc []
        fields {
            label: u64 [Label] "the number of the text",
        }
    }

    /// An address has got a name.
    Labelled / fire_labelled in User {
        net []
        mps [Label = 0x22: User, LabelPointer = 0x23: User]
        ghc []
        fields {
            address: usize [Address] "what is named",
            label: u64 [Label] "its name",
        }
    }

    /// The program says something.
    UserMessage / fire_user_message in User {
        net []
        mps []
        ghc [USER_MSG = 19]
        fields {
            text: u64 [Label] "what it says",
        }
    }

    /// The program marks a moment, to be found again in a picture.
    UserMarker / fire_user_marker in User {
        net []
        mps []
        ghc [USER_MARKER = 58]
        fields {
            text: u64 [Label] "what it calls it",
        }
    }

    /// A heap dump tells of an object. Its references follow, in order.
    DumpNode / fire_dump_node in Profile {
        net [
            BulkType = 15 v 0 op 10: Default TYPE Informational,
            GCBulkNode = 18 v 0 op 22: Default GC_HEAP_DUMP Informational,
        ]
        mps []
        ghc []
        fields {
            addr: usize [Address] "the object",
            bytes: usize [Bytes] "what it takes of the heap",
            type_addr: usize [Address] "its type",
            edges: usize [Count] "references that follow",
        }
    }

    /// A heap dump tells of a reference in the object before it.
    DumpEdge / fire_dump_edge in Profile {
        net [GCBulkEdge = 19 v 0 op 23: Default GC_HEAP_DUMP Informational]
        mps []
        ghc []
        fields {
            target_addr: usize [Address] "the object that it refers to",
            offset: u32 [Bytes] "where in the object it stands",
        }
    }

    /// A heap dump tells of a root.
    DumpRoot / fire_dump_root in Profile {
        net [
            GCBulkRootEdge = 16 v 0 op 20: Default GC_HEAP_DUMP Informational,
            GCBulkRootStaticVar = 38 v 0 op 40: Default GC_HEAP_DUMP Informational,
        ]
        mps []
        ghc []
        fields {
            object_addr: usize [Address] "the object that it keeps alive",
            kind: u32 [Code] "as of a root that was scanned",
            root_addr: usize [Address] "where the root stands",
            type_addr: usize [Address] "the object's type" since 2,
        }
    }

    /// A heap dump is complete.
    DumpEnd / fire_dump_end in Profile {
        net []
        mps []
        ghc []
        fields {
            objects: usize [Count] "objects that it told of",
            bytes: usize [Bytes] "what they take of the heap together",
        }
    }

    /// The profiler begins to take censuses.
    CensusProfileBegin / fire_census_profile_begin in Profile {
        net []
        mps []
        ghc [HEAP_PROF_BEGIN = 160]
        fields {
            period_ns: u64 [Nanoseconds] "time between two censuses, 0 if they come with the collections",
            breakdown: u32 [Code] "what they count by: 1 cost centre, 2 module, 3 description, 4 type, 5 retainer, 6 biography, 7 closure type",
        }
    }

    /// A filter of the censuses that are about to begin: only what passes all of them is counted.
    CensusFilter / fire_census_filter in Profile {
        net []
        mps []
        ghc []
        fields {
            kind: u32 [Code] "what it looks at: 0 module, 1 description, 2 type, 3 cost centre, 4 cost centre stack, 5 retainer, 6 biography",
            text: u64 [Label] "what passes, separated by commas",
        }
    }

    /// The profiler knows a cost centre.
    CostCentre / fire_cost_centre in Profile {
        net []
        mps []
        ghc [HEAP_PROF_COST_CENTRE = 161]
        fields {
            id: u32 [Ordinal] "the cost centre",
            label: u64 [Label] "its name",
            module: u64 [Label] "the module that it is in",
            place: u64 [Label] "where in the source",
            flags: u32 [Code] "1 it belongs to the whole program and not to a caller",
        }
    }

    /// A census begins.
    CensusBegin / fire_census_begin in Profile {
        net []
        mps []
        ghc [HEAP_PROF_SAMPLE_BEGIN = 162, HEAP_BIO_PROF_SAMPLE_BEGIN = 166]
        fields {
            era: u64 [Ordinal] "which census",
            taken_ns: u64 [Nanoseconds] "the time that it speaks of",
        }
    }

    /// A census counted this much under one heading.
    CensusBand / fire_census_band in Profile {
        net []
        mps []
        ghc [HEAP_PROF_SAMPLE_COST_CENTRE = 163, HEAP_PROF_SAMPLE_STRING = 164]
        fields {
            label: u64 [Label] "the heading",
            bytes: u64 [Bytes] "what lives under it",
            objects: u64 [Count] "objects that live under it",
            stack: u32 [Ordinal] "the cost centre stack, 0 if it is a text",
        }
    }

    /// A census is over.
    CensusEnd / fire_census_end in Profile {
        net []
        mps []
        ghc [HEAP_PROF_SAMPLE_END = 165]
        fields {
            era: u64 [Ordinal] "which census",
        }
    }

    /// The profiler begins to tick.
    TickerBegin / fire_ticker_begin in Profile {
        net []
        mps []
        ghc [PROF_BEGIN = 168]
        fields {
            interval_ns: u64 [Nanoseconds] "time between two ticks",
        }
    }

    /// The profiler's clock ticked, and this is where a thread was.
    Tick / fire_tick in Profile {
        net []
        mps []
        ghc [PROF_SAMPLE_COST_CENTRE = 167]
        fields {
            tick: u64 [Ordinal] "which tick",
            tid: u32 [Thread] "the thread",
            stack: u32 [Ordinal] "the cost centre stack",
        }
    }

    /// A debugger outside of the process is in control: it is asked and told of stops.
    DebuggerAttached / fire_debugger_attached in World {
        net [GCDynamicEvent = 39 v 0 op 41: Default GC Informational]
        mps []
        ghc [LOG_MSG = 16]
        fields {
            control: u64 [Code] "its control word: the mode in the lowest byte, a number of its own in the upper half",
        }
    }

    /// It is not in control any more.
    DebuggerDetached / fire_debugger_detached in World {
        net [GCDynamicEvent = 39 v 0 op 41: Default GC Informational]
        mps []
        ghc [LOG_MSG = 16]
        fields {
            control: u64 [Code] "its control word",
        }
    }

    /// It was in control and did not answer: it was killed, or has let go without a word. The world is stopped by its own stopper again.
    DebuggerLost / fire_debugger_lost in World {
        net [GCDynamicEvent = 39 v 0 op 41: Default GC Informational]
        mps []
        ghc [LOG_MSG = 16]
        fields {
            control: u64 [Code] "its control word",
            phase: u32 [Code] "where the collection was: 0 outside, 1 before the threads stood, then by phases to 13 after the restart",
        }
    }
}
