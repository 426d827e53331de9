//! The registers of an interrupted thread, as the kernel saved them.
//!
//! The signal frame on the stack holds all registers: the general ones in `uc_mcontext`, the vector ones in the area that
//! `fpregs` points to, which lies on the same stack, above the frame. A scan from an address inside the handler's own frame up
//! to the base of the stack therefore covers all of them (`.stop.registers`). Async-signal-safe.

use super::thread::StackBounds;

/// A read-only view of `ucontext_t`.
#[repr(transparent)]
pub struct Context(libc::ucontext_t);

impl Context {
    /// The interrupted stack pointer. The red zone is the 128 bytes below it.
    #[inline]
    pub fn stack_pointer(&self) -> usize {
        self.0.uc_mcontext.gregs[libc::REG_RSP as usize] as usize
    }

    /// The interrupted instruction.
    #[inline]
    pub fn instruction_pointer(&self) -> usize {
        self.0.uc_mcontext.gregs[libc::REG_RIP as usize] as usize
    }

    /// All general registers, in the kernel's order.
    #[inline]
    pub fn general(&self) -> &[i64] {
        &self.0.uc_mcontext.gregs
    }

    /// The thread's alternate stack as it was set when the signal arrived, if it has one.
    #[inline]
    pub fn alternate_stack(&self) -> Option<StackBounds> {
        let stack = &self.0.uc_stack;
        (stack.ss_size != 0 && stack.ss_flags & libc::SS_DISABLE == 0)
            .then(|| StackBounds { low: stack.ss_sp as usize, high: stack.ss_sp as usize + stack.ss_size })
    }

    /// Returns the address and the length of the extended state (x87, xmm, ymm, zmm), as raw bytes.
    pub fn extended_state(&self) -> (*const u8, usize) {
        const SOFTWARE_RESERVED: usize = 464;
        const FP_XSTATE_MAGIC1: u32 = 0x4650_5853;
        const FXSAVE_BYTES: usize = 512;
        let area = self.0.uc_mcontext.fpregs.cast::<u8>().cast_const();
        if area.is_null() {
            return (area, 0);
        }
        // SAFETY: a non-null fpregs points to at least an FXSAVE image in the signal frame; bytes 464.. are the words
        // in which the kernel says whether an XSAVE image follows and how long it is.
        let (magic, extended) = unsafe {
            (
                area.add(SOFTWARE_RESERVED).cast::<u32>().read_unaligned(),
                area.add(SOFTWARE_RESERVED + 4).cast::<u32>().read_unaligned(),
            )
        };
        (area, if magic == FP_XSTATE_MAGIC1 { extended as usize } else { FXSAVE_BYTES })
    }
}
