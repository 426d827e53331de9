//! The registers that a call does not save by itself.
//!
//! A thread that enters a blocking region, polls a safepoint or collects is not interrupted by a signal, so no signal
//! frame holds its registers. By the System V ABI a called function may clobber all but rbx, rbp and r12–r15; so at a
//! call the caller keeps its live pointers in these six or in its frame, never in a vector register. Pushing the six and taking
//! the stack pointer below them puts everything that is live at or above that address (`.stop.registers`).

use std::ffi::c_void;

/// Pushes rbx, rbp and r12–r15 and calls `f(sp, arg)`, where `sp` is the lowest of them.
///
/// The frame has unwind information, so a debugger's backtrace, a panic and the unwinding of a cancelled thread go through
/// it. Async-signal-safe as far as `f` is.
///
/// # Safety
/// `f` may be called with this `arg` and with an address of the stack above which are the pushed registers and the caller's frame.
#[unsafe(naked)]
pub unsafe extern "C-unwind" fn with_registers_pushed(
    f: unsafe extern "C-unwind" fn(sp: *mut c_void, arg: *mut c_void),
    arg: *mut c_void,
) {
    std::arch::naked_asm!(
        ".cfi_startproc",
        "push rbp",
        ".cfi_adjust_cfa_offset 8",
        ".cfi_rel_offset rbp, 0",
        "push rbx",
        ".cfi_adjust_cfa_offset 8",
        ".cfi_rel_offset rbx, 0",
        "push r12",
        ".cfi_adjust_cfa_offset 8",
        ".cfi_rel_offset r12, 0",
        "push r13",
        ".cfi_adjust_cfa_offset 8",
        ".cfi_rel_offset r13, 0",
        "push r14",
        ".cfi_adjust_cfa_offset 8",
        ".cfi_rel_offset r14, 0",
        "push r15",
        ".cfi_adjust_cfa_offset 8",
        ".cfi_rel_offset r15, 0",
        // At entry rsp is 8 below a multiple of 16; six pushes keep that, so one more word aligns it for the call.
        "mov rax, rdi",
        "mov rdi, rsp",
        "sub rsp, 8",
        ".cfi_adjust_cfa_offset 8",
        "call rax",
        // The callee kept the six, so only the stack pointer must move.
        "add rsp, 56",
        ".cfi_adjust_cfa_offset -56",
        "ret",
        ".cfi_endproc",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// # Safety
    /// At `sp` are six words, and `arg` is a bool's address.
    unsafe extern "C-unwind" fn look(sp: *mut c_void, arg: *mut c_void) {
        let wanted = 0x5ee_d0f_5ecu64;
        // SAFETY: by the caller's promise.
        unsafe {
            let words = std::slice::from_raw_parts(sp.cast::<u64>(), 6);
            *arg.cast::<bool>() = words.contains(&wanted);
        }
    }

    /// `.stop.registers`
    #[test]
    fn a_word_that_only_a_callee_saved_register_holds_is_below_the_caller() {
        let mut seen = false;
        // SAFETY: r12 is restored; the call follows the C convention, the stack is aligned for it.
        unsafe {
            std::arch::asm!(
                "push r12", "push r13",
                "mov r13, rsp",
                "and rsp, -16",
                "mov r12, {word}",
                "call {call}",
                "mov rsp, r13",
                "pop r13", "pop r12",
                word = const 0x5ee_d0f_5ecu64,
                call = sym with_registers_pushed,
                in("rdi") look as unsafe extern "C-unwind" fn(*mut c_void, *mut c_void),
                in("rsi") &raw mut seen,
                clobber_abi("C"),
            );
        }
        assert!(seen);
    }
}
