//! The bridge to debuggers outside of the process.

/// Where a thread goes on that a debugger had stopped in mid-collection when it died.
///
/// It is entered as a signal handler is: rsp leads to a signal frame, which begins with a word that is not used.
#[unsafe(naked)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn stopworld_debugger_park() {
    std::arch::naked_asm!("ud2")
}
