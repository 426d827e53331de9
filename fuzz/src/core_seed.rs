//! A small core file, made by hand: one of a real process is too large for an input.
//!
//! The memory of the process is one segment at [`MEMORY`]. Its heap has four blocks of a page: cells of 32 bytes, a large object of two blocks, and
//! compact cells. The descriptor is that of this program, with a smaller layout, so the seed follows the collector's structures.

use std::mem::offset_of;

use stopworld::OFFSETS;
use stopworld::debugger::WORLD_OFFSETS;
use stopworld::debugger::contract::{Descriptor, stopworld_debugger};
use stopworld::debugger::heap_layout::{BlockOffsets, CacheOffsets, HeapLayout, HeapTables};

/// The number of objects in the seed.
pub const OBJECTS: u32 = 5;

/// The address of the memory, and its offset in the file.
const MEMORY: u64 = 0x2000_0000;
const IN_FILE: usize = 0x400;
const PAGE: usize = 4096;

// Offsets in the memory.
const WORLD: usize = 0x800;
const TABLES: usize = 0xa00;
/// Single words to which the tables refer: the sizes and marks, then the ends of the lists of roots.
const WORDS: usize = 0xb80;
const RECORD: usize = 0xc00;
const BLOCK_WORDS: usize = 0x1000;
const HEADS: usize = 0x1040;
const TAILS: usize = 0x1080;
const KIND_TYPES: usize = 0x1100;
const ROOTS: usize = 0x1900;
const NAMES: usize = 0x1980;
const TYPES: usize = 0x1a00;
const MARKS: usize = 0x1d00;
const KINDS: usize = 0x2100;
const CACHE: usize = 0x2500;
const STACK: usize = 0x2600;
const HEAP: usize = 0x3000;
const BLOCKS: usize = 4;
const MEMORY_BYTES: usize = HEAP + BLOCKS * PAGE;

const MARKS_PER_BLOCK: usize = 256;
const CELL: u64 = 32;
const TYPE_STEP: usize = 0x100;

/// A smaller allocation cache than that of the collector, which is a quarter of an input.
const CACHE_LAYOUT: CacheOffsets = CacheOffsets {
    size: 0x40,
    bins: 2,
    cursor: 0,
    cursor_stride: 8,
    block: 0x10,
    end: 0x20,
    block_stride: 8,
    sweeping: 0x30,
    has_arena: 0x38,
};

fn address(at: usize) -> u64 {
    MEMORY + at as u64
}

/// The memory of a process.
struct Memory(Vec<u8>);

impl Memory {
    fn put(&mut self, at: usize, bytes: &[u8]) {
        self.0[at..at + bytes.len()].copy_from_slice(bytes);
    }

    fn word(&mut self, at: usize, word: u64) {
        self.put(at, &word.to_le_bytes());
    }

    /// Writes the description of a type: its name, shape, size and words.
    fn of_type(&mut self, layout: &HeapLayout, number: usize, name: &str, shape: u8, bytes: u64, words: u64) -> u64 {
        let (at, name_at) = (TYPES + number * TYPE_STEP, NAMES + number * 0x20);
        self.put(name_at, name.as_bytes());
        self.word(at + layout.types.magic, layout.type_magic);
        self.word(at + layout.types.name, address(name_at));
        self.word(at + layout.types.name_bytes, name.len() as u64);
        self.word(at + layout.types.value_bytes, bytes);
        self.put(at + layout.types.shape, &[shape]);
        self.word(at + layout.types.bitmaps, words);
        address(at)
    }
}

/// Returns the words of a structure that has nothing else.
fn words_of<T: OfWords>(structure: &T) -> Vec<u64> {
    let words = (&raw const *structure).cast::<u64>();
    // SAFETY: the structure consists of words, as `OfWords` promises.
    unsafe { std::slice::from_raw_parts(words, size_of::<T>() / 8) }.to_vec()
}

/// A structure of words of 64 bits.
///
/// # Safety
/// It has no other fields.
unsafe trait OfWords {}

// SAFETY: `repr(C)`, and each field is a `usize`.
unsafe impl OfWords for HeapTables {}

// SAFETY: `repr(C)`, and each field is a `usize`.
unsafe impl OfWords for CacheOffsets {}

/// Returns the core.
pub fn core_seed() -> Vec<u8> {
    let mut memory = Memory(vec![0; MEMORY_BYTES]);
    let descriptor = &raw const stopworld_debugger;
    // SAFETY: a static of this size; its atomics are not changed while no world exists, and are read as bytes.
    let bytes = unsafe { std::slice::from_raw_parts(descriptor.cast::<u8>(), size_of::<Descriptor>()) };
    memory.put(0, bytes);
    let layout = HeapLayout { cache: CACHE_LAYOUT, ..stopworld_debugger.heap };
    let sizes = [size_of::<Descriptor>(), WORLD_OFFSETS.size, OFFSETS.size, layout.types.size];
    let rooms = [WORLD, TABLES - WORLD, BLOCK_WORDS - RECORD, TYPE_STEP];
    assert!(sizes.iter().zip(&rooms).all(|(size, room)| size <= room), "{sizes:?} bytes do not fit into {rooms:?}");
    let of_layout = |member: usize| offset_of!(Descriptor, heap) + member;
    let blocks = of_layout(offset_of!(HeapLayout, blocks));
    memory.word(blocks + offset_of!(BlockOffsets, block_bytes), PAGE as u64);
    memory.word(blocks + offset_of!(BlockOffsets, marks_per_block), MARKS_PER_BLOCK as u64);
    let cache = of_layout(offset_of!(HeapLayout, cache));
    for (index, word) in words_of(&CACHE_LAYOUT).iter().enumerate() {
        memory.word(cache + 8 * index, *word);
    }
    memory.word(offset_of!(Descriptor, worlds), address(WORLD));
    world(&mut memory, &layout);
    roots(&mut memory, &layout);
    objects(&mut memory, &layout);
    file(&memory.0)
}

fn world(memory: &mut Memory, layout: &HeapLayout) {
    memory.word(WORLD + WORLD_OFFSETS.number, 1);
    memory.word(WORLD + WORLD_OFFSETS.threads, address(RECORD));
    memory.put(WORLD + WORLD_OFFSETS.stopper, b"\x06signal");
    memory.word(WORLD + layout.tables, address(TABLES));
    let words = |index: usize| address(WORDS + 8 * index) as usize;
    let tables = HeapTables {
        size: size_of::<HeapTables>(),
        low: address(HEAP) as usize,
        reserved_bytes: 8 * PAGE,
        committed_bytes: words(0),
        epoch: words(1),
        swept_epoch: words(1),
        words: address(BLOCK_WORDS) as usize,
        heads: address(HEADS) as usize,
        tails: address(TAILS) as usize,
        marks: address(MARKS) as usize,
        kinds: (address(KINDS) - (address(HEAP) >> 4)) as usize,
        kind_types: address(KIND_TYPES) as usize,
        pointers: 0,
        displacements: words(2),
        handles: address(ROOTS) as usize,
        handles_used: words(3),
        handles_most: 4,
        ranges: address(ROOTS + 0x20) as usize,
        ranges_used: words(3),
        ranges_most: 2,
        ready: address(ROOTS + 0x40) as usize,
        ready_first: words(2),
        ready_end: words(3),
        ready_most: 2,
        ready_bytes: 16,
        ready_object: 8,
        stacks: address(ROOTS + 0x60) as usize,
        stack_bytes: 16,
        stack_low: 0,
        stack_high: 8,
    };
    for (index, word) in words_of(&tables).iter().enumerate() {
        memory.word(TABLES + 8 * index, *word);
    }
    memory.word(WORDS, (BLOCKS * PAGE) as u64);
    memory.word(WORDS + 8, 1);
    memory.word(WORDS + 24, 1);
}

fn roots(memory: &mut Memory, layout: &HeapLayout) {
    let object = address(HEAP) + 16;
    // A handle; a range and a registered stack, each a part of the stack; an object that waits for its finalizer.
    memory.word(ROOTS, object);
    for (at, word) in
        [(0x20, STACK + 0x80), (0x28, STACK + 0x88), (0x60, ROOTS + 0x70), (0x70, STACK + 0xc0), (0x78, STACK + 0xd0)]
    {
        memory.word(ROOTS + at, address(word));
    }
    memory.word(ROOTS + 0x48, object);
    memory.word(ROOTS + 0x68, 1);
    memory.word(RECORD + OFFSETS.state, 1);
    memory.put(RECORD + OFFSETS.tid, &100_u32.to_le_bytes());
    memory.word(RECORD + OFFSETS.stack_low, address(STACK));
    memory.word(RECORD + OFFSETS.stack_high, address(STACK + 0x100));
    memory.put(RECORD + OFFSETS.name, b"\x04main");
    memory.word(RECORD + layout.thread_cache, address(CACHE));
    memory.word(STACK + 0x90, object + CELL);
    // The first bin's run of free cells: from the third cell to the end of the block.
    memory.word(CACHE + layout.cache.cursor, address(HEAP) + 8 + 2 * CELL);
    memory.word(CACHE + layout.cache.block + layout.cache.block_stride, u64::MAX);
    memory.word(CACHE + layout.cache.end, address(HEAP + PAGE));
}

fn objects(memory: &mut Memory, layout: &HeapLayout) {
    let pair = memory.of_type(layout, 0, "Pair", 1, 24, 0b11);
    let array = memory.of_type(layout, 1, "[Pair]", 3, 8, 1);
    memory.put(TYPES + TYPE_STEP + layout.types.stride, &8_u32.to_le_bytes());
    memory.put(TYPES + TYPE_STEP + layout.types.is_array, &[1]);
    let leaf = memory.of_type(layout, 2, "Leaf", 0, 16, 0);
    const COMPACT: usize = 3 * PAGE;
    let first = address(HEAP) + 16;
    for (at, word) in [
        // Two pairs of cells with headers; the first refers to the other and to the array.
        (8, pair),
        (16, first + CELL),
        (24, first + PAGE as u64),
        (8 + CELL as usize, pair),
        // The array of two elements.
        (PAGE + 8, array),
        (PAGE + 16, 2),
        (PAGE + 24, first),
        (PAGE + 32, first + COMPACT as u64),
    ] {
        memory.word(HEAP + at, word);
    }
    for (block, word) in [(0, 1 << 48 | CELL << 32), (1, 2 << 48), (2, 4 << 48 | 1), (3, 1 << 48 | 1 << 57 | 16 << 32)]
    {
        memory.word(BLOCK_WORDS + 8 * block, word);
    }
    for (block, state) in [1, 4, 5, 2].into_iter().enumerate() {
        memory.put(HEADS + block * layout.blocks.head_bytes + layout.blocks.head_state, &[state]);
        let run = TAILS + block * layout.blocks.tail_bytes + layout.blocks.tail_first_run;
        memory.put(run, &u32::MAX.to_le_bytes());
    }
    let tail = TAILS + layout.blocks.tail_bytes;
    memory.put(tail + layout.blocks.tail_large_blocks, &2_u32.to_le_bytes());
    memory.word(tail + layout.blocks.tail_large_bytes, 24);
    // Kind 1 is that of two compact cells.
    memory.word(KIND_TYPES + 8, leaf);
    memory.put(KINDS + (COMPACT + 16) / 16, &[1, 1]);
    memory.put(MARKS, &[1, 1]);
}

/// Writes a core with this memory, a thread, and what the kernel notes about the process.
fn file(memory: &[u8]) -> Vec<u8> {
    const NOTES: usize = 0x100;
    let mut status = vec![0; 336];
    status[12] = 11;
    status[32..36].copy_from_slice(&100_u32.to_le_bytes());
    status[112 + 8 * 19..][..8].copy_from_slice(&address(STACK + 0x80).to_le_bytes());
    let mut about = vec![0; 136];
    about[24..28].copy_from_slice(&100_u32.to_le_bytes());
    about[56..61].copy_from_slice(b"a.out");
    let entry: Vec<u8> = [9, MEMORY + 8].into_iter().flat_map(u64::to_le_bytes).collect();
    let mut files: Vec<u8> =
        [1, PAGE as u64, MEMORY, MEMORY + 0x100, 0].into_iter().flat_map(u64::to_le_bytes).collect();
    files.extend_from_slice(b"/a.out\0");
    let mut notes = Vec::new();
    for (kind, contents) in [(1, status), (3, about), (6, entry), (0x4649_4c45, files)] {
        for word in [5, contents.len() as u32, kind] {
            notes.extend_from_slice(&word.to_le_bytes());
        }
        notes.extend_from_slice(b"CORE\0\0\0\0");
        notes.extend_from_slice(&contents);
        notes.resize(notes.len().next_multiple_of(4), 0);
    }
    let mut core = vec![0; IN_FILE];
    core[NOTES..NOTES + notes.len()].copy_from_slice(&notes);
    core[..7].copy_from_slice(b"\x7fELF\x02\x01\x01");
    for (at, half) in [(16, 4_u16), (18, 62), (54, 56), (56, 2)] {
        core[at..at + 2].copy_from_slice(&half.to_le_bytes());
    }
    core[32] = 64;
    let headers = [(4_u64, NOTES, 0, notes.len()), (6 << 32 | 1, IN_FILE, MEMORY, memory.len())];
    for (index, (kind, offset, start, bytes)) in headers.into_iter().enumerate() {
        let words = [kind, offset as u64, start, start, bytes as u64, bytes as u64];
        let words: Vec<u8> = words.into_iter().flat_map(u64::to_le_bytes).collect();
        core[64 + 56 * index..][..words.len()].copy_from_slice(&words);
    }
    core.extend_from_slice(memory);
    core
}
