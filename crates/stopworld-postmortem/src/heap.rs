//! The objects of a heap that was stopped anywhere: in its allocator, in a sweep, in the middle of a collection.
//!
//! A cell is an object by the rule of the collector itself: it has a header and, in a block that is not swept yet, a mark of this
//! collection or the last. When a collection has marked everything and frees what is dead, only the marks count. Cells in the free
//! memory of threads have no header, wherever the thread was.
//!
//! The objects are numbered in the order of their addresses. Numbers are found from addresses without reading the memory again: for each
//! object the index keeps the number of its cell, two bytes, and its type.

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};

use super::damage::{Damage, Damages};
use super::library::{LibraryError, World};
use super::memory::{Memory, PAGE, array, for_each_word, read, read_pages, u64_at, word};
use super::types::{Type, Types};
use stopworld::debugger::Phase;
use stopworld::debugger::heap_layout::{HeapLayout, HeapTables};

/// Bits of the word of a block: what is in it.
const CELLS: u64 = 1 << 48;
const LARGE_HEAD: u64 = 2 << 48;
const LARGE_TAIL: u64 = 4 << 48;
const UNSWEPT: u64 = 1 << 56;
const COMPACT: u64 = 1 << 57;

/// The number of bytes that are read of a table at once.
const PIECE: usize = 64 << 10;
/// The maximum number of blocks of a heap.
const MOST_BLOCKS: u64 = 1 << 28;
/// The size of a granule of the table of kinds: log2 of its bytes.
const GRANULE_SHIFT: u32 = 4;
/// The smallest size of a cell.
const LEAST_CELL: u64 = 16;

/// The word of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BlockWord(pub(crate) u64);

impl BlockWord {
    pub(crate) fn has_cells(self) -> bool {
        self.0 & CELLS != 0
    }

    pub(crate) fn is_large_head(self) -> bool {
        self.0 & LARGE_HEAD != 0
    }

    pub(crate) fn is_large_tail(self) -> bool {
        // A damaged word may be of several kinds at once. It is then not the tail of a large object for any question.
        self.0 & (LARGE_TAIL | LARGE_HEAD | CELLS) == LARGE_TAIL
    }

    fn is_unswept(self) -> bool {
        self.0 & UNSWEPT != 0
    }

    pub(crate) fn is_compact(self) -> bool {
        self.0 & COMPACT != 0
    }

    pub(crate) fn cell_bytes(self) -> u64 {
        self.0 >> 32 & 0xffff
    }

    fn low(self) -> u32 {
        self.0 as u32
    }
}

/// Which cells with a header are objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Alive {
    /// All, but in unswept blocks only those with one of these marks.
    ByHeader([u8; 2]),
    /// Those with this mark: the others are being freed.
    ByMark(u8),
}

/// An object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Object {
    /// Its address.
    pub(crate) address: u64,
    pub(crate) type_number: u32,
    /// The size of its cell, or of its blocks.
    pub(crate) footprint: u64,
    /// The bytes that its cell has for it.
    pub(crate) room: u64,
}

/// The part of a heap that an object is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Space {
    /// Cells.
    Small,
    /// Cells of objects whose addresses were promised never to change.
    Pinned,
    /// Blocks of its own.
    Large,
}

impl std::fmt::Display for Space {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Space::Small => "small",
            Space::Pinned => "pinned",
            Space::Large => "large",
        })
    }
}

/// Where the objects of a block begin in the list of all objects.
#[derive(Clone, Copy, Debug)]
struct BlockStart {
    block: u32,
    first: u32,
    word: BlockWord,
}

/// The heap of a world.
pub struct Heap<'m> {
    pub(crate) memory: &'m dyn Memory,
    pub(crate) layout: HeapLayout,
    pub(crate) tables: HeapTables,
    pub(crate) types: Types<'m>,
    /// The number of blocks that may have objects.
    blocks: u64,
    /// The words of blocks that are used, by block.
    words: Vec<(u32, BlockWord)>,
    displacements: u64,
    alive: Alive,
    kind_types: Vec<u64>,
    starts: Vec<BlockStart>,
    cells: Vec<u16>,
    type_numbers: Vec<u32>,
    /// Bytes and footprint of the large objects, by block.
    large_sizes: HashMap<u32, (u64, u64)>,
    pub(crate) damages: Damages,
    gaps: Vec<String>,
    /// The block that was read last: its address, and its bytes as far as they are known.
    last_block: RefCell<(u64, Vec<u8>)>,
}

impl std::fmt::Debug for Heap<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Heap").field("objects", &self.cells.len()).field("blocks", &self.blocks).finish_non_exhaustive()
    }
}

impl<'m> Heap<'m> {
    /// Finds the objects of a world.
    ///
    /// # Errors
    /// The tables of its heap can't be read.
    pub fn read(memory: &'m dyn Memory, world: &World) -> Result<Heap<'m>, LibraryError> {
        let mut heap = Heap::without_objects(memory, world)?;
        heap.find_objects(None);
        Ok(heap)
    }

    /// Finds the objects in the blocks that have these addresses. The rest of the heap seems to be empty, so this takes a time that does not
    /// depend on the number of objects.
    ///
    /// # Errors
    /// The tables of the heap can't be read.
    pub fn near(memory: &'m dyn Memory, world: &World, addresses: &[u64]) -> Result<Heap<'m>, LibraryError> {
        let mut heap = Heap::without_objects(memory, world)?;
        // An address just past the end of an object belongs to it, too.
        let around = addresses.iter().flat_map(|address| [*address, address.wrapping_sub(1)]);
        let blocks = around.filter_map(|address| heap.first_block(address)).collect();
        heap.find_objects(Some(&blocks));
        Ok(heap)
    }

    /// Reads the tables of a heap.
    fn without_objects(memory: &'m dyn Memory, world: &World) -> Result<Heap<'m>, LibraryError> {
        let (layout, tables) = (world.library.layout, world.tables(memory)?);
        let byte = |what, at: usize| match array::<1>(memory, at as u64) {
            Ok([byte]) => Ok(byte),
            Err(place) => Err(LibraryError::Unreadable { what, place }),
        };
        let epoch = byte("the mark of the present collection", tables.epoch)?;
        let swept = byte("the mark of the last collection", tables.swept_epoch)?;
        let is_freeing = epoch != swept && world.phase.is_ok_and(|phase| phase > Phase::MarkEnd);
        let committed = match word(memory, tables.committed_bytes as u64) {
            Ok(bytes) => bytes.min(tables.reserved_bytes as u64),
            Err(place) => return Err(LibraryError::Unreadable { what: "the size of the heap", place }),
        };
        let mut heap = Heap {
            memory,
            types: Types::new(memory, &layout),
            blocks: (committed / layout.blocks.block_bytes as u64).min(MOST_BLOCKS),
            words: Vec::new(),
            displacements: word(memory, tables.displacements as u64).unwrap_or(0),
            alive: if is_freeing { Alive::ByMark(epoch) } else { Alive::ByHeader([swept, epoch]) },
            kind_types: Vec::new(),
            starts: Vec::new(),
            cells: Vec::new(),
            type_numbers: Vec::new(),
            large_sizes: HashMap::new(),
            damages: Damages::default(),
            gaps: Vec::new(),
            last_block: RefCell::default(),
            layout,
            tables,
        };
        heap.read_words();
        heap.read_kinds();
        Ok(heap)
    }

    /// Returns the block with an address; in a large object, its first block.
    fn first_block(&self, address: u64) -> Option<u32> {
        let block = self.offset(address)? / self.block_bytes();
        let word = self.word_of(block)?;
        let distance = if word.is_large_tail() { u64::from(word.low()) } else { 0 };
        u32::try_from(block.checked_sub(distance)?).ok()
    }

    /// Notes what could not be read.
    fn gap(&mut self, what: String) {
        const MOST: usize = 32;
        if self.gaps.len() < MOST {
            self.gaps.push(what);
        }
    }

    /// Reads the word of each block, as far as the table is known.
    fn read_words(&mut self) {
        let mut piece = vec![0; PIECE];
        let (mut block, mut missing) = (0, 0_u64);
        while block < self.blocks {
            let wanted = ((self.blocks - block) * 8).min(PIECE as u64) as usize;
            let at = (self.tables.words as u64).wrapping_add(block * 8);
            let known = self.memory.read_some(at, &mut piece[..wanted]) & !7;
            for (index, word) in piece[..known].as_chunks::<8>().0.iter().enumerate() {
                let word = BlockWord(u64::from_le_bytes(*word));
                if word.0 != 0 {
                    self.words.push(((block + index as u64) as u32, word));
                }
            }
            let step = if known == 0 { wanted.min((PAGE - at % PAGE) as usize).max(8) } else { known };
            missing += if known == 0 { step as u64 / 8 } else { 0 };
            block += step as u64 / 8;
        }
        if missing > 0 {
            self.gap(format!(
                "the table of {missing} of {} blocks is not in the core: their objects are missing",
                self.blocks
            ));
        }
    }

    fn read_kinds(&mut self) {
        let mut bytes = vec![0; 256 * 8];
        if self.tables.kinds != 0 && read(self.memory, self.tables.kind_types as u64, &mut bytes).is_ok() {
            self.kind_types = bytes.as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word)).collect();
        }
    }

    pub(crate) fn block_bytes(&self) -> u64 {
        self.layout.blocks.block_bytes as u64
    }

    /// The distance of the first payload from the beginning of its block.
    fn first_payload(&self) -> u64 {
        (self.layout.blocks.first_cell + self.layout.blocks.header_bytes) as u64
    }

    pub(crate) fn start(&self, block: u32) -> u64 {
        self.tables.low as u64 + u64::from(block) * self.block_bytes()
    }

    pub(crate) fn cells_per_block(&self, cell_bytes: u64) -> u64 {
        (self.block_bytes() - self.layout.blocks.first_cell as u64) / cell_bytes
    }

    /// Returns the words of the blocks that are used.
    pub(crate) fn used_blocks(&self) -> impl Iterator<Item = (u32, BlockWord)> {
        self.words.iter().copied()
    }

    fn word_of(&self, block: u64) -> Option<BlockWord> {
        let block = u32::try_from(block).ok()?;
        let found = self.words.binary_search_by_key(&block, |(block, _)| *block).ok()?;
        Some(self.words[found].1)
    }

    /// Returns the bytes of a large object, and of its blocks.
    fn large(&self, block: u32) -> (u64, u64) {
        self.large_sizes.get(&block).copied().unwrap_or_default()
    }

    /// Reads the bytes of a large object, and of its blocks, limited to the heap.
    fn read_large(&self, block: u32) -> (u64, u64) {
        let layout = &self.layout.blocks;
        let at = (self.tables.tails as u64).wrapping_add(u64::from(block) * layout.tail_bytes as u64);
        let number =
            array::<4>(self.memory, at.wrapping_add(layout.tail_large_blocks as u64)).map_or(0, u32::from_le_bytes);
        // Only as many blocks as refer to this one: they cannot belong to two objects.
        let here = self.words.binary_search_by_key(&block, |(block, _)| *block).unwrap_or(self.words.len());
        let rest = self.words.get(here + 1..).unwrap_or_default().iter().zip(1..);
        let tails = rest.take_while(|((other, word), distance)| {
            *other == block.saturating_add(*distance) && word.is_large_tail() && word.low() == *distance
        });
        let footprint = (1 + tails.count() as u64).min(u64::from(number).max(1)) * self.block_bytes();
        let bytes = word(self.memory, at.wrapping_add(layout.tail_large_bytes as u64)).unwrap_or(0);
        (bytes.min(footprint.saturating_sub(self.first_payload())), footprint)
    }

    /// Returns whether a block may be cut into cells of the size that its word has.
    pub(crate) fn is_sound(&self, word: BlockWord) -> bool {
        let bytes = word.cell_bytes();
        bytes >= LEAST_CELL
            && bytes.is_multiple_of(8)
            && self.cells_per_block(bytes) > 0
            && self.cells_per_block(bytes) <= self.layout.blocks.marks_per_block as u64
    }

    /// Returns the size of the payload in a cell of a block.
    fn room(&self, word: BlockWord) -> u64 {
        let header = if word.is_compact() { 0 } else { self.layout.blocks.header_bytes as u64 };
        word.cell_bytes() - header
    }

    /// Finds the objects; only those in `blocks`, if there is such a set.
    fn find_objects(&mut self, blocks: Option<&HashSet<u32>>) {
        let mut unknown_blocks = 0_u64;
        for at in 0..self.words.len() {
            let (block, word) = self.words[at];
            if blocks.is_some_and(|blocks| !blocks.contains(&block)) {
                continue;
            }
            let first = self.cells.len() as u32;
            if word.is_large_head() {
                self.find_large(block);
            } else if word.has_cells() {
                if !self.is_sound(word) {
                    let size = word.cell_bytes();
                    self.damages.add(self.start(block), || Damage::Block(format!("cut into cells of {size} bytes")));
                    continue;
                }
                unknown_blocks += u64::from(!self.find_in_block(block, word));
            }
            if self.cells.len() as u32 > first {
                self.starts.push(BlockStart { block, first, word });
            }
        }
        if unknown_blocks > 0 {
            self.gap(format!(
                "{unknown_blocks} blocks are not in the core as a whole: some of their objects may be missing"
            ));
        }
        let (_, unknown) = self.types.counts();
        if unknown > 0 {
            self.gap(format!(
                "{unknown} types can't be read: their names are missing, and perhaps the references in their objects"
            ));
        }
    }

    /// Returns whether a collection was freeing what is dead.
    pub(crate) fn is_freeing(&self) -> bool {
        matches!(self.alive, Alive::ByMark(_))
    }

    fn is_alive(&self, word: BlockWord, mark: u8) -> bool {
        match self.alive {
            Alive::ByMark(epoch) => mark == epoch,
            Alive::ByHeader(marks) => !word.is_unswept() || marks.contains(&mark),
        }
    }

    fn needs_marks(&self, word: BlockWord) -> bool {
        word.is_unswept() || self.is_freeing()
    }

    fn find_large(&mut self, block: u32) {
        let header_at = self.start(block) + self.layout.blocks.first_cell as u64;
        let Ok(header) = word(self.memory, header_at) else {
            self.gap(format!("the header of the large object at {header_at:#x} is not in the core"));
            return;
        };
        let mark = array::<1>(self.memory, self.marks(block)).map_or(0, |[mark]| mark);
        if header != 0 && self.is_alive(BlockWord(LARGE_HEAD), mark) {
            self.large_sizes.insert(block, self.read_large(block));
            self.add(header_at + 8, 0, header);
        }
    }

    fn marks(&self, block: u32) -> u64 {
        (self.tables.marks as u64).wrapping_add(u64::from(block) * self.layout.blocks.marks_per_block as u64)
    }

    /// Finds the objects in a block of cells. Returns false if a part of it is not known.
    fn find_in_block(&mut self, block: u32, word: BlockWord) -> bool {
        let count = self.cells_per_block(word.cell_bytes()) as usize;
        let mut marks = vec![0; count];
        let has_marks = !self.needs_marks(word) || read_pages(self.memory, self.marks(block), &mut marks);
        let (headers, has_headers) = self.headers(block, word, count);
        for (index, header) in headers.into_iter().enumerate().filter(|(_, header)| *header != 0) {
            if self.is_alive(word, marks[index]) {
                let payload = self.start(block) + self.first_payload() + index as u64 * word.cell_bytes();
                self.add(payload, index as u16, header);
            }
        }
        has_marks && has_headers
    }

    /// Returns the header of each cell of a block, 0 if it is free or not known, and whether all are known.
    pub(crate) fn headers(&self, block: u32, word: BlockWord, count: usize) -> (Vec<u64>, bool) {
        let start = self.start(block);
        let cell = word.cell_bytes() as usize;
        if word.is_compact() {
            let mut kinds = vec![0; self.block_bytes() as usize >> GRANULE_SHIFT];
            let at = (self.tables.kinds as u64).wrapping_add(start >> GRANULE_SHIFT);
            let is_whole = read_pages(self.memory, at, &mut kinds);
            let first = self.first_payload() as usize;
            let kind =
                |index: usize| kinds.get((first + index * cell) >> GRANULE_SHIFT).map_or(0, |kind| usize::from(*kind));
            // A kind without a type is damage: 8 is the address of no type.
            let header = |kind| {
                if kind == 0 { 0 } else { self.kind_types.get(kind).copied().filter(|at| *at != 0).unwrap_or(8) }
            };
            return ((0..count).map(|index| header(kind(index))).collect(), is_whole);
        }
        let mut bytes = vec![0; self.block_bytes() as usize];
        let is_whole = read_pages(self.memory, start, &mut bytes);
        let first = self.layout.blocks.first_cell;
        ((0..count).map(|index| u64_at(&bytes, first + index * cell)).collect(), is_whole)
    }

    fn add(&mut self, payload: u64, cell: u16, header: u64) {
        match self.types.of_header(header) {
            // Objects are numbered in 32 bits.
            Some(type_number) if self.cells.len() < u32::MAX as usize - 2 => {
                self.cells.push(cell);
                self.type_numbers.push(type_number);
            }
            Some(_) => {}
            None => self.damages.add(payload, || Damage::Header(header)),
        }
    }

    /// Returns the number of objects.
    pub fn objects(&self) -> u32 {
        self.cells.len() as u32
    }

    /// Returns what could not be read.
    pub fn gaps(&self) -> &[String] {
        &self.gaps
    }

    /// Returns the bytes that the heap had committed.
    pub fn committed_bytes(&self) -> u64 {
        self.blocks.saturating_mul(self.block_bytes())
    }

    fn object_of(&self, start: &BlockStart, number: u32) -> Object {
        let (footprint, room) = match start.word.is_large_head() {
            true => {
                let (bytes, footprint) = self.large(start.block);
                (footprint, bytes)
            }
            false => (start.word.cell_bytes(), self.room(start.word)),
        };
        let cell = u64::from(self.cells[number as usize]);
        Object {
            address: self.start(start.block) + self.first_payload() + cell * start.word.cell_bytes(),
            type_number: self.type_numbers[number as usize],
            footprint,
            room,
        }
    }

    /// Returns the place at which the objects of a block begin, for the block of an object.
    fn start_of(&self, number: u32) -> Option<&BlockStart> {
        let next = self.starts.partition_point(|start| start.first <= number);
        self.starts[..next].last().filter(|_| number < self.objects())
    }

    /// Returns the object with a number.
    pub(crate) fn object(&self, number: u32) -> Option<Object> {
        Some(self.object_of(self.start_of(number)?, number))
    }

    /// Returns the space of an object, and whether the last or the present collection has marked it.
    pub(crate) fn state(&self, number: u32) -> Option<(Space, bool)> {
        let BlockStart { block, word, .. } = *self.start_of(number)?;
        let offsets = &self.layout.blocks;
        let head = (self.tables.heads as u64).wrapping_add(u64::from(block) * offsets.head_bytes as u64);
        let byte = |at: u64| array::<1>(self.memory, at).ok().map(|[byte]| byte);
        let space = match byte(head.wrapping_add(offsets.head_space as u64)) {
            _ if word.is_large_head() => Space::Large,
            Some(1) => Space::Pinned,
            _ => Space::Small,
        };
        let mark = byte(self.marks(block).wrapping_add(u64::from(self.cells[number as usize])));
        Some((space, mark == byte(self.tables.epoch as u64)))
    }

    /// Returns the number of the object in a cell.
    fn in_cell(&self, block: u64, cell: u64) -> Option<u32> {
        let block = u32::try_from(block).ok()?;
        let found = self.starts.binary_search_by_key(&block, |start| start.block).ok()?;
        let first = self.starts[found].first as usize;
        let end = self.starts.get(found + 1).map_or(self.cells.len(), |next| next.first as usize);
        let within = self.cells[first..end].binary_search(&u16::try_from(cell).ok()?).ok()?;
        Some((first + within) as u32)
    }

    /// Returns the distance of an address from the beginning of the heap.
    fn offset(&self, address: u64) -> Option<u64> {
        address.checked_sub(self.tables.low as u64).filter(|offset| *offset < self.tables.reserved_bytes as u64)
    }

    /// Returns whether an address is in the heap.
    pub(crate) fn contains(&self, address: u64) -> bool {
        self.offset(address).is_some()
    }

    /// Returns the object at this address.
    pub(crate) fn at(&self, address: u64) -> Option<u32> {
        let offset = self.offset(address)?;
        let (block, within) = (offset / self.block_bytes(), offset % self.block_bytes());
        let word = self.word_of(block)?;
        let within = within.checked_sub(self.first_payload())?;
        match word.cell_bytes() {
            0 => (within == 0).then(|| self.in_cell(block, 0))?,
            bytes => within.is_multiple_of(bytes).then(|| self.in_cell(block, within / bytes))?,
        }
    }

    /// Returns the object that a word in an object or in a registered range refers to.
    pub(crate) fn target(&self, word: u64) -> Option<u32> {
        match self.tables.pointers {
            0 => self.at(word),
            1 => self.pointed_into(word),
            _ => self.at(word).or_else(|| self.displaced(word)),
        }
    }

    fn displaced(&self, word: u64) -> Option<u32> {
        if self.displacements == 0 {
            return None;
        }
        let number = self.pointed_into(word)?;
        let distance = word.checked_sub(self.object(number)?.address)?;
        let is_registered = distance < 64 && self.displacements >> distance & 1 == 1;
        (is_registered || self.displacements & 1 == 1).then_some(number)
    }

    /// Returns the object with the byte before `word` in it: the object into which it points, or past whose end.
    fn pointed_into(&self, word: u64) -> Option<u32> {
        let offset = self.offset(word.wrapping_sub(1))?;
        let (block, within) = (offset / self.block_bytes(), offset % self.block_bytes());
        let dense = self.word_of(block)?;
        let first_cell = self.layout.blocks.first_cell as u64;
        if dense.is_large_tail() {
            return self.in_cell(block.checked_sub(u64::from(dense.low()))?, 0);
        }
        if dense.is_large_head() {
            return (within >= first_cell).then(|| self.in_cell(block, 0))?;
        }
        if !dense.has_cells() || dense.cell_bytes() == 0 {
            return None;
        }
        let within = match dense.is_compact() {
            true => (within + 1).checked_sub(self.first_payload())?,
            false => within.checked_sub(first_cell)?,
        };
        self.in_cell(block, within / dense.cell_bytes())
    }

    /// Returns the object that has an address inside, its header included.
    fn containing(&self, address: u64) -> Option<u32> {
        let offset = self.offset(address)?;
        let (mut block, mut within) = (offset / self.block_bytes(), offset % self.block_bytes());
        let mut dense = self.word_of(block)?;
        let first_cell = self.layout.blocks.first_cell as u64;
        if dense.is_large_tail() {
            within += u64::from(dense.low()) * self.block_bytes();
            block = block.checked_sub(u64::from(dense.low()))?;
            dense = self.word_of(block)?;
        }
        if dense.is_large_head() {
            let end = self.first_payload() + self.large(block as u32).0;
            return (within >= first_cell && within < end.max(self.first_payload() + 1))
                .then(|| self.in_cell(block, 0))?;
        }
        if !dense.has_cells() || dense.cell_bytes() == 0 {
            return None;
        }
        let first = if dense.is_compact() { self.first_payload() } else { first_cell };
        self.in_cell(block, within.checked_sub(first)? / dense.cell_bytes())
    }

    /// Returns the objects that a word on a stack keeps alive: the one into which it points, and the one past whose end it points.
    pub(crate) fn around(&self, word: u64) -> [Option<u32>; 2] {
        let inside = self.containing(word);
        let before = self.containing(word.wrapping_sub(1)).filter(|object| Some(*object) != inside);
        [inside, before]
    }

    /// Returns whether an address is in the heap, or just past its end.
    pub fn has(&self, address: u64) -> bool {
        self.contains(address) || self.contains(address.wrapping_sub(1))
    }

    /// Returns the number of the object that has `address` inside, or just past its end.
    pub fn find(&self, address: u64) -> Option<u32> {
        self.around(address).into_iter().flatten().next()
    }

    /// Visits the objects in the order of their addresses.
    pub(crate) fn for_each_object(&self, mut visit: impl FnMut(u32, &Object)) {
        for (at, start) in self.starts.iter().enumerate() {
            let end = self.starts.get(at + 1).map_or(self.objects(), |next| next.first);
            for number in start.first..end {
                visit(number, &self.object_of(start, number));
            }
        }
    }

    /// Visits the words of an object that may be references: offset and value of each. Returns the number of its bytes that are not known.
    pub(crate) fn for_each_reference(&self, object: &Object, of_type: &Type, mut visit: impl FnMut(u64, u64)) -> u64 {
        let shape = &of_type.shape;
        if *shape == super::types::Shape::None {
            return 0;
        }
        let offset = object.address - self.tables.low as u64;
        if object.room <= self.block_bytes() - offset % self.block_bytes() {
            let mut last = self.last_block.borrow_mut();
            let within = (offset % self.block_bytes()) as usize;
            self.fill(&mut last, object.address - within as u64);
            if let Some(bytes) = last.1.get(within..within + object.room as usize) {
                let length = u64_at(bytes, 0);
                for (index, word) in bytes.as_chunks::<8>().0.iter().enumerate() {
                    let offset = index as u64 * 8;
                    if shape.refers_at(offset, length) {
                        visit(offset, u64::from_le_bytes(*word));
                    }
                }
                return 0;
            }
        }
        let length = word(self.memory, object.address).unwrap_or(0);
        for_each_word(self.memory, object.address, object.address + object.room, |at, word| {
            let offset = at - object.address;
            if shape.refers_at(offset, length) {
                visit(offset, word);
            }
        })
    }

    /// Reads a block, unless it was the last.
    fn fill(&self, last: &mut (u64, Vec<u8>), start: u64) {
        if last.0 == start {
            return;
        }
        last.0 = start;
        last.1.resize(self.block_bytes() as usize, 0);
        let missing = read(self.memory, start, &mut last.1).err().map_or(0, |unknown| unknown.bytes);
        let known = last.1.len() - missing;
        last.1.truncate(known);
    }

    /// Returns the size of the cell whose header is at this address; 0 if there are no cells.
    pub(crate) fn cell_bytes_at(&self, header: u64) -> u64 {
        let block = self.offset(header).map(|offset| offset / self.block_bytes());
        let word = block.and_then(|block| self.word_of(block)).filter(|word| word.has_cells() && self.is_sound(*word));
        word.map_or(0, BlockWord::cell_bytes)
    }

    /// Returns why there is no object at an address.
    pub fn why_no_object(&self, address: u64) -> &'static str {
        let Some(offset) = self.offset(address) else { return "the address is not in the heap" };
        match self.word_of(offset / self.block_bytes()) {
            Some(word) if word.has_cells() => "the address is in a free cell, or between cells",
            Some(_) => "the address is in the blocks of a large object that was free, or is damaged",
            None if !self.gaps.is_empty() => {
                "the address is in a block without objects, or in one that could not be read"
            }
            None => "the address is in a block without objects",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An object that is found in a block must be found again by its address.
    #[test]
    fn a_block_with_objects_of_its_own_is_no_tail() {
        for flags in [0, LARGE_HEAD, CELLS, LARGE_HEAD | CELLS] {
            assert_eq!(BlockWord(LARGE_TAIL | flags | 1).is_large_tail(), flags == 0);
            assert!(!BlockWord(flags).is_large_tail());
        }
    }
}
