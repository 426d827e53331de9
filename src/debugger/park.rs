//! The function in which the threads of a full stop wait for the end of the collection if their debugger dies.

use crate::world::handler;

/// The function in which a thread that a debugger had stopped resumes if the debugger dies during the collection.
///
/// The thread enters the function like a signal handler: rsp points to the frame that the debugger has pushed, a word and then the kernel's
/// `ucontext`. The thread waits as long as the collection holds it. Then it returns through the frame by `rt_sigreturn`, with the registers
/// and the signal mask that are in the frame. All signals are blocked meanwhile: by the debugger, or, if the word is 1, by the first system
/// call here, which also stores the previous mask in the frame.
///
/// # Safety
/// Never call it from the process: only a debugger sends a thread here, with such a frame.
#[unsafe(naked)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn stopworld_debugger_park() {
    std::arch::naked_asm!(
        "cld",
        "mov rbx, rsp",
        "cmp qword ptr [rbx], 1",
        "jne 2f",
        // rt_sigprocmask(SIG_BLOCK, all, into uc_sigmask)
        "mov eax, 14",
        "xor edi, edi",
        "lea rsi, [rip + {all}]",
        "lea rdx, [rbx + 304]",
        "mov r10d, 8",
        "syscall",
        "2:",
        "and rsp, -16",
        "call {park}",
        "lea rsp, [rbx + 8]",
        "mov eax, 15",
        "syscall",
        "ud2",
        park = sym park,
        all = sym ALL_SIGNALS,
    )
}

/// The kernel's set of all signals.
static ALL_SIGNALS: u64 = u64::MAX;

extern "C" fn park() {
    crate::os::preserving_errno(|| {
        if let Some(record) = handler::current() {
            handler::park_below(record);
        }
    });
}
