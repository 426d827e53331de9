//! The dynamic linker, for the workload that stresses its locks.

use std::ffi::CStr;

/// Whether the dynamic linker finds a symbol of this name. Takes the dynamic linker's lock: not async-signal-safe, not
/// stop-safe.
pub fn is_known(symbol: &CStr) -> bool {
    // SAFETY: only looks the name up; what it finds is compared with null and never called.
    let address = unsafe { libc::dlsym(libc::RTLD_DEFAULT, symbol.as_ptr()) };
    !address.is_null()
}
