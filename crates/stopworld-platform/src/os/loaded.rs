//! The program and its shared libraries, as the dynamic loader has mapped them.

//!
//! [`files`] lists them, under a lock of this library, which a fork takes. glibc does not reset the lock of `dl_iterate_phdr` in the child of a
//! fork: if another thread was in that function, the child would wait for ever. So in the child the last list of the parent is used.

use std::ffi::{CStr, CString, c_int, c_void};
use std::sync::Arc;

use crate::sync::{Lock, Locked};

/// A file in memory: the program, or a shared library.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct File {
    /// The path. Empty for the program itself.
    pub path: CString,
    /// The difference between addresses in memory and addresses in the file.
    pub bias: usize,
    /// The segments: beginning, end, and whether the program may write there.
    pub segments: Vec<(usize, usize, bool)>,
    /// How far below a thread's thread pointer its thread-local variables of this file begin, and how far they end, in bytes. `None` if the file
    /// has none, or if it was loaded later and has them elsewhere.
    pub thread_locals: Option<(usize, usize)>,
}

struct Last {
    files: Option<Arc<[File]>>,
    is_inherited: bool,
}

static LAST: Locked<Last> = Locked::new(Last { files: None, is_inherited: false });

/// Returns the lock of [`files`]. A fork takes it, and releases it in the parent.
pub fn lock() -> &'static Lock {
    LAST.lock()
}

/// Resets the lock in the child of a fork. From now on [`files`] returns the last list of the parent.
///
/// # Safety
/// The caller is the only thread of the process. It has taken the lock before the fork, without a guard.
pub unsafe fn reset_in_child() {
    // SAFETY: the caller's promise.
    let mut held = unsafe { LAST.lock().assume_held() };
    let last = LAST.get_mut(&mut held);
    last.is_inherited = last.files.is_some();
    // SAFETY: as above; the guard is not used any more.
    unsafe { LAST.lock().reset_in_child() };
}

/// Returns the program and each shared library. Takes a lock of the dynamic loader, so it must not be called in the stopped world. In the child
/// of a fork: those of the parent's last call, without libraries that were loaded since; if the parent has never called it, those of now.
pub fn files() -> Arc<[File]> {
    let mut held = LAST.lock().lock();
    let last = LAST.get_mut(&mut held);
    match &last.files {
        Some(files) if last.is_inherited => Arc::clone(files),
        _ => Arc::clone(last.files.insert(list())),
    }
}

fn list() -> Arc<[File]> {
    let own_thread = thread_pointer();
    // The variables of the files that were loaded with the program are right below the thread pointer, in no more room than all of them need.
    let mut room = THREAD_LOCAL_SURPLUS;
    for_each(|file| room = room.saturating_add(file.thread_local_room()));
    let distance = |address: usize| own_thread.checked_sub(address).filter(|bytes| *bytes <= room);
    let mut files = Vec::new();
    for_each(|file| {
        let thread_locals = file.thread_locals().and_then(|(low, high)| Some((distance(low)?, distance(high)?)));
        files.push(File {
            path: file.path().to_owned(),
            bias: file.bias(),
            segments: file.segments().collect(),
            thread_locals,
        });
    });
    files.into()
}

/// More than the loader leaves between the thread-local variables of two files, and for those of libraries that are loaded later.
const THREAD_LOCAL_SURPLUS: usize = 8192;

/// The program itself, or a shared library.
struct Loaded<'a> {
    info: &'a libc::dl_phdr_info,
}

impl Loaded<'_> {
    /// Returns the path of the file. Empty for the program itself.
    fn path(&self) -> &CStr {
        if self.info.dlpi_name.is_null() {
            return c"";
        }
        // SAFETY: the loader's string, which lives as long as the library is loaded, and so as long as the call.
        unsafe { CStr::from_ptr(self.info.dlpi_name) }
    }

    /// Returns the difference between addresses in memory and addresses in the file.
    fn bias(&self) -> usize {
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
    fn segments(&self) -> impl Iterator<Item = (usize, usize, bool)> {
        self.headers().iter().filter(|header| header.p_type == libc::PT_LOAD).map(|header| {
            let low = self.bias().wrapping_add(header.p_vaddr as usize);
            (low, low.saturating_add(header.p_memsz as usize), header.p_flags & libc::PF_W != 0)
        })
    }

    /// Returns the number of bytes that the file's thread-local variables need, with the padding in front of them.
    fn thread_local_room(&self) -> usize {
        let headers = self.headers().iter().filter(|header| header.p_type == libc::PT_TLS);
        headers.map(|header| (header.p_memsz + header.p_align) as usize).sum()
    }

    /// Returns the range of the calling thread's thread-local variables of this file. `None` if the file has none, or the thread has not
    /// used them yet.
    fn thread_locals(&self) -> Option<(usize, usize)> {
        let header = self.headers().iter().find(|header| header.p_type == libc::PT_TLS)?;
        let low = self.info.dlpi_tls_data as usize;
        (low != 0).then(|| (low, low.saturating_add(header.p_memsz as usize)))
    }
}

/// Calls `visit` with the program and each shared library. Takes a lock of the dynamic loader, so it must not be called in the stopped
/// world. `visit` must not panic.
fn for_each(mut visit: impl FnMut(&Loaded<'_>)) {
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
        let files = files();
        let program = files.iter().find(|file| file.path.is_empty()).unwrap();
        let contains = |address: usize, writable| {
            program.segments.iter().any(|&(low, high, is)| (low..high).contains(&address) && is == writable)
        };
        assert!(contains(&raw const STATIC as usize, true));
        assert!(contains(thread_pointer as *const () as usize, false));
        let (low, high) = program.thread_locals.unwrap();
        assert!((high + 1..=low).contains(&(thread_pointer() - variable)), "{low} to {high}");
    }
}
