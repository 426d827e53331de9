//! Where a reader outside the process finds the heap and the roots of a world. The world publishes this with its threads
//! (`world/published.rs`); its layout is part of the contract with debuggers.

/// The addresses of the tables of one world. They do not change while the world exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct HeapTables {
    /// Size of this structure in bytes.
    pub size: usize,
    /// The lowest address of the heap: its first block.
    pub low: usize,
    /// The bytes that are reserved from there on.
    pub reserved_bytes: usize,
    /// Pointer to the number of bytes, from the lowest address on, that may have objects. 64 bits.
    pub committed_bytes: usize,
    /// Pointer to the mark of the present collection, or of the last one if there is none. 8 bits.
    pub epoch: usize,
    /// Pointer to the mark of the last finished collection. 8 bits.
    pub swept_epoch: usize,
    /// The table of words: 64 bits for each block.
    pub words: usize,
    /// The table of heads.
    pub heads: usize,
    /// The table of tails.
    pub tails: usize,
    /// The table of mark bytes.
    pub marks: usize,
    /// The byte for address 0 in the table of kinds, which has a byte for each 16 bytes of the heap; 0 if no cell lacks a header.
    pub kinds: usize,
    /// 256 pointers to types: those of the kinds.
    pub kind_types: usize,
    /// Which words in objects are references: 0 addresses of objects, 1 any address in an object, 2 addresses of objects and of bytes at a
    /// displacement.
    pub pointers: usize,
    /// Pointer to the displacements, a bit for each. 64 bits; bit 0 stands for any displacement.
    pub displacements: usize,
    /// The table of handles: words, odd or 0 if they are free.
    pub handles: usize,
    /// Pointer to the number of handles ever used.
    pub handles_used: usize,
    /// The number of words in the table of handles.
    pub handles_most: usize,
    /// The table of registered ranges: low and high address of each; the latter is 0 if it is free.
    pub ranges: usize,
    /// Pointer to the number of ranges ever used.
    pub ranges_used: usize,
    /// The number of entries in the table of ranges.
    pub ranges_most: usize,
    /// The queue of objects that wait for their finalizers.
    pub ready: usize,
    /// Pointer to the index of the first entry in the queue.
    pub ready_first: usize,
    /// Pointer to the index past the last entry in the queue.
    pub ready_end: usize,
    /// The capacity of the queue.
    pub ready_most: usize,
    /// The size of an entry in the queue.
    pub ready_bytes: usize,
    /// The offset of the address of an object in an entry of the queue; 0 if the entry is not used.
    pub ready_object: usize,
    /// Pointer to two words: the address of the list of registered stacks, and their number.
    pub stacks: usize,
    /// The size of an entry in the list of stacks.
    pub stack_bytes: usize,
    /// The offset of the lowest address of a stack in its entry.
    pub stack_low: usize,
    /// The offset of the end of a stack in its entry.
    pub stack_high: usize,
}
