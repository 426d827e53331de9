//! The results of the queries: the structures that a debugger reads, and the error codes.

/// The error codes of the functions: a negative result instead of a count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i64)]
#[non_exhaustive]
pub enum Refusal {
    /// The address is in no world's heap, or there is no such world.
    NoWorld = -1,
    /// There is no object at the address, neither inside nor just past its end.
    NoObject = -2,
    /// The system provided no memory for the search.
    NoMemory = -3,
    /// The buffer is null and the capacity is not 0, or the buffer is not aligned to 8.
    NoBuffer = -4,
    /// An object that had been found was gone: other threads ran, or memory is damaged.
    Changed = -5,
    /// A thread was stopped while it changed data that the result depends on: let the program run for a moment, and retry.
    Busy = -6,
}

impl Refusal {
    /// All error codes, from -1 on.
    pub const ALL: [Self; 6] =
        [Self::NoWorld, Self::NoObject, Self::NoMemory, Self::NoBuffer, Self::Changed, Self::Busy];
}

/// The result of [`describe`](super::describe).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct ObjectFacts {
    /// The object's address, as a `Gc` holds it; for a free cell, the address that its object would have.
    pub base: usize,
    /// Size of the object's value in bytes; for byte blocks and arrays of numbers, whose types do not give it, the size of the cell.
    pub bytes: usize,
    /// Size of the object's cell in bytes, with the header; for a large object, the size of all its blocks.
    pub cell_bytes: usize,
    /// Address of the block that contains the object.
    pub block: usize,
    /// Address of the object's type descriptor, which is the value of its header; 0 if the cell is free.
    pub type_info: usize,
    /// The address of the name that the object's type declares.
    pub type_name: usize,
    /// The length of that name in bytes.
    pub type_name_bytes: usize,
    /// The address of the full path of the object's Rust type.
    pub rust_name: usize,
    /// The length of that path in bytes.
    pub rust_name_bytes: usize,
    /// The number of the object's [`FieldFacts`].
    pub fields: usize,
    /// An array's length; otherwise 0.
    pub length: usize,
    /// The world: the address of its published record.
    pub world: usize,
    /// The space: 0 small, 1 pinned, 2 large.
    pub space: u32,
    /// The flags: [`ARRAY`], [`LEAF`], …
    pub flags: u32,
    /// 1: the object is marked by the present collection or, if none is under way, by the last one.
    pub marked: u32,
    /// Unused.
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
/// [`ObjectFacts::flags`]: the address is in a cell without a live object.
pub const FREE_CELL: u32 = 32;
/// [`ObjectFacts::flags`]: the address is in a block without cells.
pub const FREE_BLOCK: u32 = 64;
/// [`ObjectFacts::flags`]: a thread was initialising the object when it was stopped; its contents may be anything.
pub const HALF_BUILT: u32 = 128;
/// [`ObjectFacts::flags`]: the type has a destructor, which runs when the object is found dead.
pub const DROPS: u32 = 256;

/// A word of an object that may hold a reference.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct FieldFacts {
    /// The word's offset from the object's address in bytes.
    pub offset: usize,
    /// The value of the word.
    pub value: usize,
    /// The object that the word references; 0 if there is none.
    pub target: usize,
}

/// One step of a [`path`](super::path): a word, and the object that it keeps alive. The word of the first step is a root, that of each
/// other step is a field of the previous object.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Step {
    /// A [`StepKind`].
    pub kind: u32,
    /// The thread whose stack, registers or partially initialised object contains the word; 0 if there is none.
    pub tid: i32,
    /// The address of the word.
    pub slot: usize,
    /// The value of the word.
    pub value: usize,
    /// The object that the word keeps alive.
    pub object: usize,
    /// For a field: its offset in bytes in the previous object. For a root: the offset in the object to which it points.
    pub offset: usize,
}

/// The kinds of a [`Step`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
#[non_exhaustive]
pub enum StepKind {
    /// A word of the previous object.
    Field = 0,
    /// A word of a thread's stack.
    Stack = 1,
    /// A word of a thread's registers, in its save area.
    Registers = 2,
    /// A word of an object that a thread was initialising.
    HalfBuilt = 3,
    /// A word of a stack that the program registered.
    RegisteredStack = 4,
    /// A word of a range that the program registered.
    Range = 5,
    /// A `Root` handle.
    Handle = 6,
    /// The queue of objects with pending finalizers.
    Finalizer = 7,
}

/// One row of a [`census`](super::census).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct CensusRow {
    /// Address of the type descriptor; 0 in the row of all types without a row of their own.
    pub type_info: usize,
    /// The address of the name that the type declares.
    pub type_name: usize,
    /// The length of that name in bytes.
    pub type_name_bytes: usize,
    /// The number of objects.
    pub objects: u64,
    /// The size of the objects' cells in bytes, headers included.
    pub bytes: u64,
}
