//! The program and its shared libraries, as the dynamic loader has mapped them.

use std::ffi::{CStr, c_int, c_void};

/// The program itself, or a shared library.
pub struct Loaded<'a> {
    info: &'a libc::dl_phdr_info,
}

impl Loaded<'_> {
    /// Returns the path of the file. Empty for the program itself.
    pub fn path(&self) -> &CStr {
        if self.info.dlpi_name.is_null() {
            return c"";
        }
        // SAFETY: the loader's string, which lives as long as the library is loaded, and so as long as the call.
        unsafe { CStr::from_ptr(self.info.dlpi_name) }
    }

    /// Returns the difference between addresses in memory and addresses in the file.
    pub fn bias(&self) -> usize {
        self.info.dlpi_addr as usize
    }

    fn headers(&self) -> &[libc::Elf64_Phdr] {
        if self.info.dlpi_phdr.is_null() {
            return &[];
        }
        // SAFETY: the loader's array, with this many elements.
        unsafe { std::slice::from_raw_parts(self.info.dlpi_phdr, self.info.dlpi_phnum.into()) }
    }

    /// Returns the ranges of the file's segments: beginning, end, and whether the program may write there.
    pub fn segments(&self) -> impl Iterator<Item = (usize, usize, bool)> {
        self.headers().iter().filter(|header| header.p_type == libc::PT_LOAD).map(|header| {
            let low = self.bias().wrapping_add(header.p_vaddr as usize);
            (low, low.saturating_add(header.p_memsz as usize), header.p_flags & libc::PF_W != 0)
        })
    }

    /// Returns the range of the calling thread's thread-local variables of this file. `None` if the file has none, or the thread has not
    /// used them yet.
    pub fn thread_locals(&self) -> Option<(usize, usize)> {
        let header = self.headers().iter().find(|header| header.p_type == libc::PT_TLS)?;
        let low = self.info.dlpi_tls_data as usize;
        (low != 0).then(|| (low, low.saturating_add(header.p_memsz as usize)))
    }
}

/// Calls `visit` with the program and each shared library. Takes a lock of the dynamic loader, so it must not be called in the stopped
/// world. `visit` must not panic.
pub fn for_each(mut visit: impl FnMut(&Loaded<'_>)) {
    extern "C" fn call<F: FnMut(&Loaded<'_>)>(info: *mut libc::dl_phdr_info, _: usize, visit: *mut c_void) -> c_int {
        // SAFETY: `for_each` passes its closure, and the loader a description that is valid during the call.
        let (visit, info) = unsafe { (&mut *visit.cast::<F>(), &*info) };
        visit(&Loaded { info });
        0
    }
    fn function<F: FnMut(&Loaded<'_>)>(_: &F) -> extern "C" fn(*mut libc::dl_phdr_info, usize, *mut c_void) -> c_int {
        call::<F>
    }
    let call = function(&visit);
    // SAFETY: `call` was made for the type of `visit`, which outlives the call.
    unsafe { libc::dl_iterate_phdr(Some(call), (&raw mut visit).cast()) };
}

/// Returns the calling thread's thread pointer. The thread-local variables of the program, and of the libraries that are loaded with it, are
/// right below that address, at the same distance in each thread.
#[inline]
pub fn thread_pointer() -> usize {
    let pointer: usize;
    // SAFETY: in the x86-64 ABI, the word at fs:0 is the thread pointer itself.
    unsafe { std::arch::asm!("mov {}, fs:0", out(reg) pointer, options(nostack, readonly, preserves_flags)) };
    pointer
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    static STATIC: crate::sync::AtomicUsize = crate::sync::AtomicUsize::new(1);
    thread_local!(static LOCAL: Cell<usize> = const { Cell::new(1) });

    #[test]
    fn statics_thread_locals_and_code_are_in_the_ranges_of_the_program() {
        let variable = LOCAL.with(|local| local.as_ptr() as usize);
        let (mut has_static, mut has_code, mut has_local) = (false, false, false);
        for_each(|loaded| {
            let contains = |address: usize, writable| {
                loaded.segments().any(|(low, high, is)| (low..high).contains(&address) && is == writable)
            };
            let is_program = loaded.path().is_empty();
            has_static |= is_program && contains(&raw const STATIC as usize, true);
            has_code |= is_program && contains(thread_pointer as *const () as usize, false);
            let local = loaded.thread_locals().filter(|(low, high)| (*low..*high).contains(&variable));
            has_local |= is_program && local.is_some_and(|(_, high)| high <= thread_pointer());
        });
        assert!(has_static && has_code && has_local, "{has_static} {has_code} {has_local}");
    }
}
