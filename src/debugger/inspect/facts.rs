//! What the questions answer: the structures that a debugger reads, and why there is no answer.

/// Why there is no answer: what the functions return instead of a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i64)]
#[non_exhaustive]
pub enum Refusal {
    /// The address lies in no world's heap, or there is no such world.
    NoWorld = -1,
    /// No object is at the address, inside or just past its end.
    NoObject = -2,
    /// The system gave no memory for the search.
    NoMemory = -3,
    /// The buffer is null and the capacity is not 0, or the buffer is not aligned to 8.
    NoBuffer = -4,
    /// What had been found was not there any more: other threads ran, or memory is damaged.
    Changed = -5,
    /// A thread was stopped in the middle of a change of what the answer depends on: let the program run for a moment, and ask again.
    Busy = -6,
}

/// What [`describe`](super::describe) tells of an address.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct ObjectFacts {
    /// The object's address, as a `Gc` holds it; of a free cell, where its object would be.
    pub base: usize,
    /// Bytes of its value; of bytes and of arrays of numbers, whose types do not say how many there are, all of the cell.
    pub bytes: usize,
    /// Bytes of its cell with the header; of a large object, of all its blocks.
    pub cell_bytes: usize,
    /// Address of its block.
    pub block: usize,
    /// Address of its type's description, which is what its header holds; 0 if the cell is free.
    pub type_info: usize,
    /// The name that its type gave itself: address …
    pub type_name: usize,
    /// … and bytes.
    pub type_name_bytes: usize,
    /// The full path of its Rust type: address …
    pub rust_name: usize,
    /// … and bytes.
    pub rust_name_bytes: usize,
    /// How many [`FieldFacts`] there are.
    pub fields: usize,
    /// An array's length; otherwise 0.
    pub length: usize,
    /// The world: the address of its published record.
    pub world: usize,
    /// 0 small, 1 pinned, 2 large.
    pub space: u32,
    /// [`ARRAY`], [`LEAF`], …
    pub flags: u32,
    /// 1: the collection that is under way has marked it, or the last one had.
    pub marked: u32,
    /// Nothing yet.
    pub reserved: u32,
}

/// [`ObjectFacts::flags`]: an array.
pub const ARRAY: u32 = 1;
/// [`ObjectFacts::flags`]: holds no references.
pub const LEAF: u32 = 2;
/// [`ObjectFacts::flags`]: a weak reference. Its one field does not keep the target alive.
pub const WEAK: u32 = 4;
/// [`ObjectFacts::flags`]: a large object, in blocks of its own.
pub const LARGE: u32 = 8;
/// [`ObjectFacts::flags`]: in the pinned space.
pub const PINNED: u32 = 16;
/// [`ObjectFacts::flags`]: the address is in a cell in which no object lives.
pub const FREE_CELL: u32 = 32;
/// [`ObjectFacts::flags`]: the address is in a block that holds no cells.
pub const FREE_BLOCK: u32 = 64;
/// [`ObjectFacts::flags`]: a thread was building the object when it was stopped; what it holds may be anything.
pub const HALF_BUILT: u32 = 128;
/// [`ObjectFacts::flags`]: the type's drop runs when it is found dead.
pub const DROPS: u32 = 256;

/// A word of an object that may hold a reference.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct FieldFacts {
    /// Bytes from the object's address.
    pub offset: usize,
    /// What stands there.
    pub value: usize,
    /// The object that it leads to; 0 if it leads to none.
    pub target: usize,
}

/// One step of a [`path`](super::path): a word, and the object that it keeps alive. The first is a root, the others are fields of the object
/// before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Step {
    /// A [`StepKind`].
    pub kind: u32,
    /// The thread whose stack, registers or half-built object it is; 0 if there is none.
    pub tid: i32,
    /// Where the word stands.
    pub slot: usize,
    /// The word.
    pub value: usize,
    /// The object.
    pub object: usize,
    /// Of a field: bytes from the address of the object before. Of a root: how far into the object it points.
    pub offset: usize,
}

/// What a [`Step`] is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
#[non_exhaustive]
pub enum StepKind {
    /// A word of the object before.
    Field = 0,
    /// A word of a thread's stack.
    Stack = 1,
    /// A word of a thread's registers, in its save area.
    Registers = 2,
    /// A word of an object that a thread was building.
    HalfBuilt = 3,
    /// A word of a stack that the program registered.
    RegisteredStack = 4,
    /// A word of a range that the program registered.
    Range = 5,
    /// A `Root` handle.
    Handle = 6,
    /// The queue of objects that wait for their finalizers.
    Finalizer = 7,
}

/// One row of a [`census`](super::census).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct CensusRow {
    /// Address of the type's description; 0 in the row of all types for which there was no row.
    pub type_info: usize,
    /// Its name: address …
    pub type_name: usize,
    /// … and bytes.
    pub type_name_bytes: usize,
    /// How many there are.
    pub objects: u64,
    /// Bytes of their cells, headers included.
    pub bytes: u64,
}
