//! What a debugger sees: the contract between the collector and debuggers outside of the process.
//!
//! In 2003 Mono's debugger found an exported structure with a magic number, a version, and the address of a function at
//! which it set a breakpoint. It is the same here. One [`Descriptor`] per copy of the library leads to everything: the
//! word by which a debugger says that it is in control, the worlds, their threads, each thread's `stack_ptr`, the place
//! where it is notified, and all offsets as data, so that a debugger needs no header of this version's.
//!
//! The document for those who write debuggers is `docs/debugger-contract.md`, the C header
//! `debugger/include/stopworld-debugger.h`; the test `tests/debugger_contract.rs` holds all three together.
//!
//! # How it is found
//!
//! * By the symbol `stopworld_debugger`, in `.dynsym` where the linker exports it, otherwise in `.symtab`.
//! * In a stripped binary, static, position-independent or loaded later, by an allocated note (section
//!   `.note.stopworld`, name `stopworld`, type 1) whose descriptor is one signed 64-bit number: the distance from that number to the
//!   [`Descriptor`]. Notes are in a program header, which no tool strips.
//!
//! The symbol is *protected*: two copies of the library in one process each have their own descriptor, and each note leads to its own.
//!
//! # How it grows
//!
//! [`VERSION`] changes when something here means something else. What is only added comes at the end of a structure, whose size
//! is its first field (the descriptor's own is `size`): a debugger that knows less does not look that far, one that knows
//! more asks first.

pub use super::descriptor::stopworld_debugger;
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

/// Where everything begins. See the module's text.
#[derive(Debug)]
#[repr(C)]
pub struct Descriptor {
    /// [`MAGIC`].
    pub magic: [u8; 8],
    /// [`VERSION`].
    pub version: u32,
    /// Bytes of this structure.
    pub size: u32,
    /// A debugger writes a [`Control`] here: "I am in control". 0: nobody is.
    pub control: AtomicU64,
    /// The real-time signal of notifications, whose handler does nothing; 0 before the first world.
    pub notify_signal: AtomicU32,
    /// The signal by which the collector suspends threads; 0 if it has none. A debugger passes it on, always and at once.
    pub suspend_signal: AtomicU32,
    /// The place for a breakpoint: `nop; ret`, with the address of the [`Request`] in rdi.
    pub notify: unsafe extern "C" fn(*const Request),
    /// Where a thread whose registers were pushed as a signal frame goes on if its debugger dies.
    pub park: unsafe extern "C" fn(),
    /// A breakpoint instruction: the return address for inferior calls.
    pub call_return: unsafe extern "C" fn(),
    /// The worlds of this copy of the library.
    pub worlds: WorldList,
    /// Room for the results of inferior calls.
    pub scratch: &'static Scratch,
    /// Its size in bytes.
    pub scratch_size: usize,
    /// Where the fields of a [`Request`] are.
    pub request: RequestOffsets,
    /// Where the fields of a published world are.
    pub world: WorldOffsets,
    /// Where the fields of a thread's record are.
    pub thread: StopInfoOffsets,
    /// The functions for inferior calls.
    pub calls: Calls,
}

/// A function for inferior calls: C calling convention, returns a count or 1/0, or a negative error.
pub type Call = unsafe extern "C" fn(usize, usize, usize, usize) -> i64;

/// Functions that a debugger may call in a stopped thread while all others stand, too. They only read, take no lock, allocate nothing,
/// and come to an end.
#[derive(Debug)]
#[repr(C)]
pub struct Calls {
    /// How many of the following are there.
    pub count: usize,
    /// `describe(address, *mut ObjectFacts)`: the object that holds this address.
    pub describe: Option<Call>,
    /// `fields(address, *mut FieldFacts, capacity)`: what its fields lead to.
    pub fields: Option<Call>,
    /// `referrers(address, *mut usize, capacity)`: who leads to it.
    pub referrers: Option<Call>,
    /// `path(address, *mut Step, capacity)`: a way from a root.
    pub path: Option<Call>,
    /// `request_collection(world)`.
    pub request_collection: Option<Call>,
    /// `census(world, out, capacity)`: types × count × bytes.
    pub census: Option<Call>,
}

/// Memory that the process never uses itself.
#[derive(Debug)]
#[repr(C, align(4096))]
pub struct Scratch(UnsafeCell<[u8; SCRATCH_BYTES]>);

// SAFETY: this process neither reads nor writes it, but for functions that a debugger calls, one at a time.
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
