//! The contract between the collector and external debuggers: the data that a debugger reads.
//!
//! In 2003 Mono's debugger found an exported structure with a magic number, a version, and the address of a function at which it set a
//! breakpoint. This contract works in the same way. There is one [`Descriptor`] per copy of the library. From it a debugger finds the
//! control word by which it takes control, the worlds, their threads, each thread's `stack_ptr`, and the notification function. The
//! descriptor contains all field offsets as data, so a debugger needs no header of this version.
//!
//! The document for authors of debuggers is `docs/debugger-contract.md`, the C header `debugger/include/stopworld-debugger.h`; the test
//! `tests/debuggers/contract.rs` checks that all three agree.
//!
//! # How the descriptor is found
//!
//! * By the symbol `stopworld_debugger`, in `.dynsym` where the linker exports it, otherwise in `.symtab`.
//! * In a stripped binary, static, position-independent or loaded later, by an allocated note (section `.note.stopworld`, name `stopworld`,
//!   type 1) whose descriptor is one signed 64-bit number: the distance from that number to the [`Descriptor`]. Notes are in a program
//!   header, which no tool strips.
//!
//! The symbol is *protected*: two copies of the library in one process each have their own descriptor, and each note refers to its own.
//!
//! # How the contract grows
//!
//! [`VERSION`] changes when the meaning of a field changes. New fields are added at the end of a structure. The structure's size is in its
//! first field (for the descriptor, in `size`): an older debugger does not read new fields, and a newer one checks the size first.

pub use super::descriptor::stopworld_debugger;
use super::heap_layout::HeapLayout;
pub use super::protocol::{Control, Mode};
use super::request::{Request, RequestOffsets};
use crate::sync::{AtomicU32, AtomicU64, UnsafeCell};
use crate::world::{StopInfoOffsets, WorldList, WorldOffsets};

/// The first eight bytes of a descriptor.
pub const MAGIC: [u8; 8] = *b"STOPWRLD";

/// The version of the contract.
pub const VERSION: u32 = 1;

/// Bytes that functions for inferior calls may write their results to.
pub const SCRATCH_BYTES: usize = 64 << 10;

/// The entry point to all published data. See the module documentation.
#[derive(Debug)]
#[repr(C)]
pub struct Descriptor {
    /// [`MAGIC`].
    pub magic: [u8; 8],
    /// [`VERSION`].
    pub version: u32,
    /// Size of this structure in bytes.
    pub size: u32,
    /// The control word: a debugger writes a [`Control`] here to take control. 0: no debugger is in control.
    pub control: AtomicU64,
    /// The real-time signal of notifications, whose handler does nothing; 0 before the first world.
    pub notify_signal: AtomicU32,
    /// The signal by which the collector suspends threads; 0 if it has none. A debugger always passes it on, at once.
    pub suspend_signal: AtomicU32,
    /// The address for a breakpoint: `nop; ret`, with the address of the [`Request`] in rdi.
    pub notify: unsafe extern "C" fn(*const Request),
    /// Where a thread whose registers were pushed as a signal frame resumes if its debugger dies.
    pub park: unsafe extern "C" fn(),
    /// A breakpoint instruction: the return address for inferior calls.
    pub call_return: unsafe extern "C" fn(),
    /// The worlds of this copy of the library.
    pub worlds: WorldList,
    /// Memory for the results of inferior calls.
    pub scratch: &'static Scratch,
    /// The size of that memory in bytes.
    pub scratch_size: usize,
    /// The offsets of the fields of a [`Request`].
    pub request: RequestOffsets,
    /// The offsets of the fields of a published world.
    pub world: WorldOffsets,
    /// The offsets of the fields of a thread's record.
    pub thread: StopInfoOffsets,
    /// The functions for inferior calls.
    pub calls: Calls,
    /// The layout of heaps, for a reader that cannot call functions.
    pub heap: HeapLayout,
}

/// A function for inferior calls: C calling convention, returns a count or 1/0, or a negative error.
pub type Call = unsafe extern "C" fn(usize, usize, usize, usize) -> i64;

/// Functions that a debugger may call in a stopped thread while all other threads are stopped too. They only read, take no lock, allocate
/// nothing, and always terminate.
#[derive(Debug)]
#[repr(C)]
pub struct Calls {
    /// The number of functions that follow.
    pub count: usize,
    /// `describe(address, *mut ObjectFacts)`: the object that holds this address.
    pub describe: Option<Call>,
    /// `fields(address, *mut FieldFacts, capacity)`: the objects that its fields reference.
    pub fields: Option<Call>,
    /// `referrers(address, *mut usize, capacity)`: the objects that reference it.
    pub referrers: Option<Call>,
    /// `path(address, *mut Step, capacity)`: a path from a root.
    pub path: Option<Call>,
    /// `request_collection(world)`.
    pub request_collection: Option<Call>,
    /// `census(world, out, capacity)`: types × count × bytes.
    pub census: Option<Call>,
}

/// Memory that the process itself never uses.
#[derive(Debug)]
#[repr(C, align(4096))]
pub struct Scratch(UnsafeCell<[u8; SCRATCH_BYTES]>);

// SAFETY: this process does not access it, except in functions that a debugger calls, one at a time.
unsafe impl Sync for Scratch {}

impl Scratch {
    pub(super) const fn new() -> Self {
        Self(UnsafeCell::new([0; SCRATCH_BYTES]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    #[rstest]
    #[case::nobody(0, None, false, false, 0)]
    #[case::full(1 | 77 << 32, Some(Mode::Full), false, false, 77)]
    #[case::assisted(2 | 1 << 8 | 77 << 32, Some(Mode::Assisted), true, false, 77)]
    #[case::phases(2 | 1 << 9, Some(Mode::Assisted), false, true, 0)]
    #[case::unknown(9, None, false, false, 0)]
    fn a_control_word_is_read(
        #[case] word: u64,
        #[case] mode: Option<Mode>,
        #[case] breakpoint: bool,
        #[case] phases: bool,
        #[case] who: u32,
    ) {
        let control = Control(word);
        assert_eq!(control.mode(), mode);
        assert_eq!((control.by_breakpoint(), control.wants_phases()), (breakpoint, phases));
        assert_eq!(control.who(), who);
    }
}
