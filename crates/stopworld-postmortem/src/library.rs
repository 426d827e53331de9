//! What the collector publishes to debuggers: its descriptor, its worlds, and the records of their threads.

use std::collections::HashSet;
use std::mem::offset_of;

use super::memory::{Memory, Unreadable, read, u32_at, u64_at, word};
use stopworld::StopInfoOffsets;
use stopworld::debugger::contract::{Descriptor, MAGIC, VERSION};
use stopworld::debugger::heap_layout::{
    BlockOffsets, CacheOffsets, HEAP_LAYOUT_VERSION, HeapLayout, HeapTables, TypeOffsets,
};
use stopworld::debugger::{Phase, WorldOffsets};

/// What is wrong with the collector's published data.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LibraryError {
    /// There is no collector.
    #[error("no stopworld collector is in this process: no module has its note, and no memory its descriptor")]
    NotFound,
    /// Memory is not known.
    #[error("{what}: {place}")]
    Unreadable {
        /// What was read.
        what: &'static str,
        /// Where.
        place: Unreadable,
    },
    /// There is something else.
    #[error("there is no descriptor at {0:#x}: the magic number is missing")]
    Magic(u64),
    /// Another version of the contract, or of the layout of heaps.
    #[error(
        "the program has version {found} of {what}; this command reads version {known}: use the `stopworld` of the program's version"
    )]
    Version {
        /// What has versions.
        what: &'static str,
        /// The version in the process.
        found: u64,
        /// The version that is known.
        known: u64,
    },
    /// A size that cannot be.
    #[error("{what} at {at:#x} is damaged: {field} is {found}")]
    Damaged {
        /// The structure.
        what: &'static str,
        /// Its address.
        at: u64,
        /// The member.
        field: &'static str,
        /// Its value.
        found: u64,
    },
}

fn known<T>(what: &'static str, result: Result<T, Unreadable>) -> Result<T, LibraryError> {
    result.map_err(|place| LibraryError::Unreadable { what, place })
}

/// The maximum size of a published structure, in bytes.
const LARGEST: usize = 64 << 10;
/// The maximum size of the description of a type, in bytes.
const LARGEST_TYPE: usize = 1 << 10;
/// The maximum number of worlds and of records of threads that are followed in a list.
const MOST_WORLDS: usize = 4096;
const MOST_RECORDS: usize = 1 << 20;
/// Size in bytes of a name, with the byte of its length.
const NAME: usize = 32;
/// The size of an offset in bytes.
const WORD: usize = 8;

/// One copy of the collector in a process.
#[derive(Clone, Copy, Debug)]
pub struct Library {
    /// The address of its descriptor.
    pub descriptor: u64,
    world: WorldOffsets,
    thread: StopInfoOffsets,
    pub(crate) layout: HeapLayout,
}

impl Library {
    /// Reads the descriptor at an address.
    ///
    /// # Errors
    /// It is not known, damaged, or of another version.
    pub fn read(memory: &dyn Memory, descriptor: u64) -> Result<Library, LibraryError> {
        const HEAP: usize = offset_of!(Descriptor, heap);
        let what = "the collector's descriptor";
        let mut head = [0; 16];
        known(what, read(memory, descriptor, &mut head))?;
        if head[..8] != MAGIC {
            return Err(LibraryError::Magic(descriptor));
        }
        let version = u64::from(u32_at(&head, 8));
        if version != u64::from(VERSION) {
            let (what, known) = ("the contract with debuggers", u64::from(VERSION));
            return Err(LibraryError::Version { what, found: version, known });
        }
        let size = u32_at(&head, 12) as usize;
        if size < HEAP + 2 * WORD {
            return Err(LibraryError::Version { what: "the heap's layout", found: 0, known: HEAP_LAYOUT_VERSION });
        }
        let mut bytes = vec![0; size.min(LARGEST)];
        known(what, read(memory, descriptor, &mut bytes))?;
        let version = u64_at(&bytes, HEAP);
        if version != HEAP_LAYOUT_VERSION {
            return Err(LibraryError::Version {
                what: "the heap's layout",
                found: version,
                known: HEAP_LAYOUT_VERSION,
            });
        }
        let library = Library {
            descriptor,
            world: world_offsets(&bytes[offset_of!(Descriptor, world)..]),
            thread: thread_offsets(&bytes[offset_of!(Descriptor, thread)..]),
            layout: heap_layout(&bytes[HEAP..]),
        };
        library.check()?;
        Ok(library)
    }

    /// Checks what later code relies on: sizes that are small, offsets that are within their structures, and strides that are not 0.
    fn check(&self) -> Result<(), LibraryError> {
        let (world, thread, HeapLayout { types, cache, blocks, .. }) = (&self.world, &self.thread, &self.layout);
        let within = |offset: usize, bytes: usize, size: usize| offset <= size && size - offset >= bytes;
        let sizes = [
            ("the size of a world", world.size),
            ("the size of a thread's record", thread.size),
            ("the size of a type", types.size),
            ("the size of an allocation cache", cache.size),
            ("the size of the layout", self.layout.size),
        ];
        let mut wrong = sizes.into_iter().find(|(_, size)| !(WORD..=LARGEST).contains(size));
        // It is read for each header that is not a type, and there may be many.
        wrong = wrong.or(Some(("the size of a type", types.size)).filter(|(_, size)| *size > LARGEST_TYPE));
        let offsets = [
            ("next", world.next, 8, world.size),
            ("number", world.number, 8, world.size),
            ("threads", world.threads, 8, world.size),
            ("phase", world.phase, 4, world.size),
            ("collecting", world.collecting, 4, world.size),
            ("collections", world.collections, 8, world.size),
            ("stopper", world.stopper, NAME, world.size),
            ("tables", self.layout.tables, 8, world.size),
            ("saved_sp", thread.saved_sp, 8, thread.size),
            ("state", thread.state, 8, thread.size),
            ("tid", thread.tid, 4, thread.size),
            ("stack_low", thread.stack_low, 8, thread.size),
            ("stack_high", thread.stack_high, 8, thread.size),
            ("save_area", thread.save_area, 8, thread.size),
            ("save_area_used", thread.save_area_used, 4, thread.size),
            ("name", thread.name, NAME, thread.size),
            ("next of a thread", thread.next, 8, thread.size),
            ("thread_cache", self.layout.thread_cache, 8, thread.size),
            ("thread_alternate_low", self.layout.thread_alternate_low, 8, thread.size),
            ("thread_alternate_high", self.layout.thread_alternate_high, 8, thread.size),
            ("thread_gone", self.layout.thread_gone, 4, thread.size),
            ("types.name", types.name, 8, types.size),
            ("types.shape", types.shape, 1, types.size),
            ("types.element", types.element, 32, types.size),
            ("cache.sweeping", cache.sweeping, 4, cache.size),
            ("cache.has_arena", cache.has_arena, 1, cache.size),
        ];
        let outside = offsets.into_iter().find(|(_, offset, bytes, size)| !within(*offset, *bytes, *size));
        wrong = wrong.or(outside.map(|(field, offset, _, _)| (field, offset)));
        let is_power =
            |size: usize, range: std::ops::RangeInclusive<usize>| size.is_power_of_two() && range.contains(&size);
        let numbers = [
            ("blocks.block_bytes", blocks.block_bytes, is_power(blocks.block_bytes, 4096..=1 << 20)),
            ("blocks.first_cell", blocks.first_cell, blocks.first_cell < 64),
            ("blocks.header_bytes", blocks.header_bytes, blocks.header_bytes == WORD),
            ("blocks.marks_per_block", blocks.marks_per_block, (1..=1 << 16).contains(&blocks.marks_per_block)),
            ("blocks.classes", blocks.classes, (1..=255).contains(&blocks.classes)),
            ("blocks.head_bytes", blocks.head_bytes, (1..=64).contains(&blocks.head_bytes)),
            ("blocks.tail_bytes", blocks.tail_bytes, (1..=64).contains(&blocks.tail_bytes)),
            ("cache.bins", cache.bins, (1..=1024).contains(&cache.bins)),
        ];
        wrong = wrong.or(numbers.into_iter().find(|(_, _, is_good)| !is_good).map(|(field, found, _)| (field, found)));
        match wrong {
            None => Ok(()),
            Some((field, found)) => Err(LibraryError::Damaged {
                what: "the collector's descriptor",
                at: self.descriptor,
                field,
                found: found as u64,
            }),
        }
    }

    /// Returns the worlds, newest first, and what ended the list if it is damaged.
    pub fn worlds(&self, memory: &dyn Memory) -> (Vec<World>, Option<LibraryError>) {
        let (mut worlds, mut seen) = (Vec::new(), HashSet::new());
        let head = self.descriptor.wrapping_add(offset_of!(Descriptor, worlds) as u64);
        let mut next = known("the list of worlds", word(memory, head));
        loop {
            let at = match next {
                Ok(0) => return (worlds, None),
                Ok(at) => at,
                Err(error) => return (worlds, Some(error)),
            };
            if !seen.insert(at) || worlds.len() == MOST_WORLDS {
                let (what, field) = ("the list of worlds", "next");
                return (worlds, Some(LibraryError::Damaged { what, at, field, found: at }));
            }
            let mut bytes = vec![0; self.world.size];
            next = known("a world", read(memory, at, &mut bytes)).map(|()| {
                worlds.push(World::parse(*self, at, &bytes));
                u64_at(&bytes, self.world.next)
            });
        }
    }
}

/// Reads a structure of words: those at the offsets of its fields.
macro_rules! structure {
    ($structure:ident, $bytes:expr, [$($word:ident),* $(,)?]) => {{
        let bytes = $bytes;
        $structure { $($word: u64_at(bytes, offset_of!($structure, $word)) as usize),* }
    }};
}

fn world_offsets(bytes: &[u8]) -> WorldOffsets {
    structure!(
        WorldOffsets,
        bytes,
        [
            size,
            next,
            number,
            threads,
            bridged,
            phase,
            collecting,
            epoch,
            collections,
            heap_low,
            heap_high,
            collector,
            stopper
        ]
    )
}

fn thread_offsets(bytes: &[u8]) -> StopInfoOffsets {
    structure!(
        StopInfoOffsets,
        bytes,
        [
            size,
            stack_ptr,
            saved_sp,
            state,
            tid,
            stack_low,
            stack_high,
            save_area,
            save_area_size,
            save_area_used,
            name,
            frozen,
            next,
            serial
        ]
    )
}

fn heap_layout(bytes: &[u8]) -> HeapLayout {
    let part = |offset: usize| &bytes[offset.min(bytes.len())..];
    let types = structure!(
        TypeOffsets,
        part(offset_of!(HeapLayout, types)),
        [size, magic, name, name_bytes, value_bytes, shape, bitmaps, stride, element, is_array, drop_in_place]
    );
    let cache = structure!(
        CacheOffsets,
        part(offset_of!(HeapLayout, cache)),
        [size, bins, cursor, cursor_stride, block, end, block_stride, sweeping, has_arena]
    );
    let blocks = structure!(
        BlockOffsets,
        part(offset_of!(HeapLayout, blocks)),
        [
            block_bytes,
            first_cell,
            header_bytes,
            marks_per_block,
            classes,
            head_bytes,
            head_state,
            head_space,
            tail_bytes,
            tail_first_run,
            tail_large_blocks,
            tail_large_bytes
        ]
    );
    HeapLayout {
        version: u64_at(bytes, offset_of!(HeapLayout, version)),
        size: u64_at(bytes, offset_of!(HeapLayout, size)) as usize,
        tables: u64_at(bytes, offset_of!(HeapLayout, tables)) as usize,
        thread_cache: u64_at(bytes, offset_of!(HeapLayout, thread_cache)) as usize,
        thread_alternate_low: u64_at(bytes, offset_of!(HeapLayout, thread_alternate_low)) as usize,
        thread_alternate_high: u64_at(bytes, offset_of!(HeapLayout, thread_alternate_high)) as usize,
        thread_gone: u64_at(bytes, offset_of!(HeapLayout, thread_gone)) as usize,
        type_magic: u64_at(bytes, offset_of!(HeapLayout, type_magic)),
        types,
        cache,
        blocks,
    }
}

fn heap_tables(bytes: &[u8]) -> HeapTables {
    structure!(
        HeapTables,
        bytes,
        [
            size,
            low,
            reserved_bytes,
            committed_bytes,
            epoch,
            swept_epoch,
            words,
            heads,
            tails,
            marks,
            kinds,
            kind_types,
            pointers,
            displacements,
            handles,
            handles_used,
            handles_most,
            ranges,
            ranges_used,
            ranges_most,
            ready,
            ready_first,
            ready_end,
            ready_most,
            ready_bytes,
            ready_object,
            stacks,
            stack_bytes,
            stack_low,
            stack_high
        ]
    )
}

/// A world, as it was.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct World {
    /// Its address.
    pub address: u64,
    /// Its number in the process.
    pub number: u64,
    /// The phase of its collection; `Err` has an unknown number.
    pub phase: Result<Phase, u32>,
    /// The thread that had stopped it, or 0.
    pub collecting: i32,
    /// The number of its finished collections.
    pub collections: u64,
    /// The name of what stopped it.
    pub stopper: String,
    pub(crate) library: Library,
    threads: u64,
    tables: u64,
}

impl World {
    fn parse(library: Library, address: u64, bytes: &[u8]) -> World {
        let offsets = &library.world;
        let phase = u32_at(bytes, offsets.phase);
        World {
            address,
            number: u64_at(bytes, offsets.number),
            phase: Phase::of(phase).ok_or(phase),
            collecting: u32_at(bytes, offsets.collecting) as i32,
            collections: u64_at(bytes, offsets.collections),
            stopper: name(bytes, offsets.stopper),
            threads: u64_at(bytes, offsets.threads),
            tables: u64_at(bytes, library.layout.tables),
            library,
        }
    }

    /// Reads the addresses of the heap's tables.
    pub(crate) fn tables(&self, memory: &dyn Memory) -> Result<HeapTables, LibraryError> {
        let mut bytes = vec![0; size_of::<HeapTables>()];
        known("the addresses of the heap's tables", read(memory, self.tables, &mut bytes))?;
        let tables = heap_tables(&bytes);
        let damaged = |field, found: usize| {
            let what = "the structure with the addresses of the heap's tables";
            Err(LibraryError::Damaged { what, at: self.tables, field, found: found as u64 })
        };
        if tables.size < size_of::<HeapTables>() {
            return damaged("size", tables.size);
        }
        if tables.low == 0 || tables.low.checked_add(tables.reserved_bytes).is_none() {
            return damaged("low", tables.low);
        }
        if !(WORD..=LARGEST).contains(&tables.ready_bytes) {
            return damaged("ready_bytes", tables.ready_bytes);
        }
        if tables.pointers > 2 {
            return damaged("pointers", tables.pointers);
        }
        Ok(tables)
    }

    /// Returns the records of the threads, newest first, and what ended the list if it is damaged.
    pub fn threads(&self, memory: &dyn Memory) -> (Vec<ThreadRecord>, Option<LibraryError>) {
        let offsets = &self.library.thread;
        let (mut records, mut seen) = (Vec::new(), HashSet::new());
        let mut at = self.threads;
        while at != 0 {
            if !seen.insert(at) || records.len() == MOST_RECORDS {
                let (what, field) = ("the list of threads", "next");
                return (records, Some(LibraryError::Damaged { what, at, field, found: at }));
            }
            let mut bytes = vec![0; offsets.size];
            if let Err(error) = known("a thread's record", read(memory, at, &mut bytes)) {
                return (records, Some(error));
            }
            records.push(ThreadRecord::parse(&self.library, at, &bytes));
            at = u64_at(&bytes, offsets.next);
        }
        (records, None)
    }
}

/// What a thread was doing, as far as the collector knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ThreadPlace {
    /// It was not a mutator any more.
    Detached,
    /// It ran its own code, or the collector's.
    Running,
    /// It was in a blocking region.
    Blocking,
    /// It had stopped for a collection, or was suspended.
    Parked,
}

/// The record of a mutator.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ThreadRecord {
    /// Its address.
    pub address: u64,
    /// The thread's id.
    pub tid: i32,
    /// The name given at attach.
    pub name: String,
    /// What it was doing.
    pub place: ThreadPlace,
    /// Whether a collection held it, and whether a user did.
    pub held: [bool; 2],
    /// Whether it was found to have ended without detaching.
    pub is_gone: bool,
    /// The address of its allocation cache, or 0.
    pub(crate) cache: u64,
    pub(crate) saved_sp: u64,
    pub(crate) stack: (u64, u64),
    pub(crate) alternate: (u64, u64),
    /// The part of its save area that holds registers.
    pub(crate) saved: (u64, u64),
}

impl ThreadRecord {
    fn parse(library: &Library, address: u64, bytes: &[u8]) -> ThreadRecord {
        let (offsets, layout) = (&library.thread, &library.layout);
        let word = |offset| u64_at(bytes, offset);
        let state = word(offsets.state);
        let save_area = word(offsets.save_area);
        ThreadRecord {
            address,
            tid: u32_at(bytes, offsets.tid) as i32,
            name: name(bytes, offsets.name),
            place: match state & 3 {
                0 => ThreadPlace::Detached,
                1 => ThreadPlace::Running,
                2 => ThreadPlace::Blocking,
                _ => ThreadPlace::Parked,
            },
            held: [state & 4 != 0, state & 8 != 0],
            is_gone: u32_at(bytes, layout.thread_gone) != 0,
            cache: word(layout.thread_cache),
            saved_sp: word(offsets.saved_sp),
            stack: (word(offsets.stack_low), word(offsets.stack_high)),
            alternate: (word(layout.thread_alternate_low), word(layout.thread_alternate_high)),
            saved: (save_area, save_area.saturating_add(u64::from(u32_at(bytes, offsets.save_area_used)))),
        }
    }
}

fn name(bytes: &[u8], offset: usize) -> String {
    let bytes = bytes.get(offset..).unwrap_or_default();
    let length = usize::from(bytes.first().copied().unwrap_or(0)).min(NAME - 1);
    String::from_utf8_lossy(bytes.get(1..1 + length).unwrap_or_default()).into_owned()
}
