//! The program and its shared libraries, as the dynamic loader has mapped them.
//!
//! [`files`] lists them. glibc does not reset the lock of `dl_iterate_phdr` in the child of a fork: if another thread was in that function, the
//! child would wait for ever. So in the child the last list of the parent is used. Only a child that is forked before the first list is
//! complete calls the loader.
//!
//! The last lists have a lock, which a fork takes. It is never held across a call of the loader: a callback of `dl_iterate_phdr` in the program
//! holds the loader's lock, and may allocate, and so sample, list files or fork.

use std::ffi::{CStr, CString, OsStr, c_int, c_void};
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
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
    /// The GNU build id: the content of its note. Empty if the file has none.
    pub build_id: Vec<u8>,
}

/// The file of the program.
const PROGRAM: &str = "/proc/self/exe";

impl File {
    /// Returns the path of the file; for the program, that of its own file.
    pub fn real_path(&self) -> PathBuf {
        match self.path.to_bytes() {
            [] => std::fs::read_link(PROGRAM).unwrap_or_else(|_| PROGRAM.into()),
            path => PathBuf::from(OsStr::from_bytes(path)),
        }
    }

    /// Returns the lowest address of the file's segments, and the address after the highest one.
    pub fn range(&self) -> Range<usize> {
        range_of(self.segments.iter().copied())
    }
}

/// Returns the range of addresses that contains these segments.
fn range_of(segments: impl Iterator<Item = (usize, usize, bool)>) -> Range<usize> {
    let (low, high) = segments.fold((usize::MAX, 0), |(low, high), (from, to, _)| (low.min(from), high.max(to)));
    low..high
}

/// The unwind tables of a file in memory, copied: they stay valid if the file is unloaded.
#[derive(Clone, Debug)]
pub struct UnwindTables {
    /// The difference between addresses in memory and addresses in the file.
    pub bias: usize,
    /// The addresses of the file's segments.
    pub range: Range<usize>,
    /// The section .eh_frame_hdr.
    pub index: Table,
    /// The section .eh_frame.
    pub frames: Table,
}

/// A copy of a section.
#[derive(Clone, Debug)]
pub struct Table {
    /// Where the section is in memory.
    pub address: usize,
    /// Its content.
    pub bytes: Arc<[u8]>,
}

/// How many files the loader has loaded and unloaded so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Changes {
    loaded: u64,
    unloaded: u64,
}

struct Last {
    files: Option<Arc<[File]>>,
    unwinding: Option<(Changes, Arc<[UnwindTables]>)>,
    is_inherited: bool,
}

static LAST: Locked<Last> = Locked::new(Last { files: None, unwinding: None, is_inherited: false });

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
    last.is_inherited = last.files.is_some() || last.unwinding.is_some();
    // SAFETY: as above; the guard is not used any more.
    unsafe { LAST.lock().reset_in_child() };
}

/// Returns the program and each shared library. Takes a lock of the dynamic loader, so it must not be called in the stopped world. In the child
/// of a fork: those of the parent's last call, without libraries that were loaded since; if no call of the parent had ended, those of now.
pub fn files() -> Arc<[File]> {
    if let Some(inherited) = with_last(|last| last.files.clone().filter(|_| last.is_inherited)) {
        return inherited;
    }
    let files = list();
    let before = with_last(|last| last.files.replace(Arc::clone(&files)));
    drop(before);
    files
}

/// Returns the unwind tables of the program and each shared library that has any, and the state of the loader to which they belong. Tables
/// are copied only of files that were loaded since the last call. Takes a lock of the dynamic loader, so it must not be called in the stopped
/// world. In the child of a fork, as for [`files`].
pub fn unwind_tables() -> (Changes, Arc<[UnwindTables]>) {
    let (known, is_inherited) = with_last(|last| (last.unwinding.clone(), last.is_inherited));
    if let Some((of, tables)) = &known
        && (is_inherited || *of == changes())
    {
        return (*of, Arc::clone(tables));
    }
    let mut tables = Vec::new();
    let mut of = Changes { loaded: 0, unloaded: 0 };
    // The loader unloads no file during this call.
    for_each(|file| {
        of = file.changes();
        // If nothing was unloaded, no other file has taken the place of a known one.
        let known = known.iter().filter(|(before, _)| before.unloaded == of.unloaded);
        let same = known
            .flat_map(|(_, tables)| tables.iter())
            .find(|tables| file.unwind_index() == Some(tables.index.address));
        tables.extend(same.cloned().or_else(|| file.unwind_tables()));
    });
    let tables: Arc<[UnwindTables]> = tables.into();
    let before = with_last(|last| last.unwinding.replace((of, Arc::clone(&tables))));
    drop(before);
    (of, tables)
}

/// Calls `look` with the last lists, under their lock. `look` must not call the dynamic loader: a callback of `dl_iterate_phdr` in the program
/// may wait for this lock while it holds that of the loader.
fn with_last<R>(look: impl FnOnce(&mut Last) -> R) -> R {
    let mut held = LAST.lock().lock();
    look(LAST.get_mut(&mut held))
}

/// Returns how many files the loader has loaded and unloaded so far.
fn changes() -> Changes {
    let mut changes = Changes { loaded: 0, unloaded: 0 };
    for_each(|file| changes = file.changes());
    changes
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
            build_id: file.build_id().map_or_else(Vec::new, <[u8]>::to_vec),
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

    fn changes(&self) -> Changes {
        Changes { loaded: self.info.dlpi_adds, unloaded: self.info.dlpi_subs }
    }

    /// Returns the bytes of a readable segment from this address on, at most `most` of them. `None` if the address is in no segment.
    fn bytes_at(&self, address: usize, most: usize) -> Option<&[u8]> {
        let loads = |header: &&libc::Elf64_Phdr| header.p_type == libc::PT_LOAD && header.p_flags & libc::PF_R != 0;
        let end = self.headers().iter().filter(loads).find_map(|header| {
            let low = self.bias().wrapping_add(header.p_vaddr as usize);
            let end = low.checked_add(header.p_filesz as usize)?;
            (low..end).contains(&address).then_some(end)
        })?;
        // SAFETY: within a readable segment, which stays mapped during the loader's call.
        Some(unsafe { std::slice::from_raw_parts(address as *const u8, (end - address).min(most)) })
    }

    /// Returns the content of the file's note with its build id.
    fn build_id(&self) -> Option<&[u8]> {
        let notes = self.headers().iter().filter(|header| header.p_type == libc::PT_NOTE);
        notes
            .filter_map(|header| {
                let address = self.bias().wrapping_add(header.p_vaddr as usize);
                build_id_of(self.bytes_at(address, header.p_memsz as usize)?)
            })
            .next()
    }

    fn unwind_header(&self) -> Option<&libc::Elf64_Phdr> {
        self.headers().iter().find(|header| header.p_type == libc::PT_GNU_EH_FRAME)
    }

    /// Returns the address of the index of the unwind tables.
    fn unwind_index(&self) -> Option<usize> {
        Some(self.bias().wrapping_add(self.unwind_header()?.p_vaddr as usize))
    }

    /// Copies the unwind tables. `None` if the file has none of the usual form: an index with relative addresses.
    fn unwind_tables(&self) -> Option<UnwindTables> {
        let header = self.unwind_header()?;
        let index_at = self.unwind_index()?;
        let index = self.bytes_at(index_at, header.p_memsz as usize)?;
        // Version 1; the address of .eh_frame as a signed word of 4 bytes, relative to its place.
        let [1, 0x1b, _, _, a, b, c, d, ..] = *index else { return None };
        let distance = i32::from_le_bytes([a, b, c, d]) as isize;
        let frames_at = (index_at + 4).wrapping_add_signed(distance);
        let frames = self.bytes_at(frames_at, usize::MAX)?;
        Some(UnwindTables {
            bias: self.bias(),
            range: range_of(self.segments()),
            index: Table { address: index_at, bytes: index.into() },
            frames: Table { address: frames_at, bytes: frames[..length_of_frames(frames)].into() },
        })
    }
}

/// Returns the length of the section .eh_frame at the beginning of these bytes: up to the record of length 0, which ends it.
fn length_of_frames(bytes: &[u8]) -> usize {
    let mut at = 0;
    while let Some(length) = bytes.get(at..).and_then(|rest| rest.first_chunk()) {
        at += size_of::<u32>();
        match u32::from_le_bytes(*length) {
            0 => break,
            // A record of 4 GiB or more: no linker makes one.
            u32::MAX => return at - size_of::<u32>(),
            length => at = at.saturating_add(length as usize),
        }
    }
    at.min(bytes.len())
}

/// Returns the content of the first note of type NT_GNU_BUILD_ID among these notes.
fn build_id_of(mut notes: &[u8]) -> Option<&[u8]> {
    const GNU_BUILD_ID: u32 = 3;
    const HEAD: usize = 3 * size_of::<u32>();
    let word = |notes: &[u8], index: usize| {
        let bytes = notes.get(index * size_of::<u32>()..)?.first_chunk()?;
        Some(u32::from_le_bytes(*bytes))
    };
    loop {
        let (name, content) = (word(notes, 0)? as usize, word(notes, 1)? as usize);
        let content_at = HEAD + name.checked_next_multiple_of(4)?;
        let bytes = notes.get(content_at..content_at.checked_add(content)?)?;
        if word(notes, 2)? == GNU_BUILD_ID && notes.get(HEAD..HEAD + name)? == b"GNU\0" {
            return Some(bytes);
        }
        notes = notes.get(content_at + content.checked_next_multiple_of(4)?..)?;
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

    #[test]
    fn unwind_tables_are_copied_once_for_each_state_of_the_loader() {
        let (changes, tables) = unwind_tables();
        let here = thread_pointer as *const () as usize;
        let own = tables.iter().find(|tables| tables.range.contains(&here)).unwrap();
        assert!(own.index.bytes.len() > 12 && own.frames.bytes.len() > own.index.bytes.len());
        assert!(own.frames.bytes.ends_with(&[0; 4]), "the section ends with a record of length 0");
        let (again, same) = unwind_tables();
        assert!(changes != again || Arc::ptr_eq(&tables, &same));
    }

    #[test]
    fn the_loader_is_never_called_under_the_lock_of_the_lists() {
        // A thread that holds the loader's lock, in its own callback, takes the lock of the lists while other threads list files.
        let is_done = crate::sync::AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    while is_done.load(crate::sync::Ordering::Relaxed) == 0 {
                        files();
                        unwind_tables();
                    }
                });
            }
            for _ in 0..2000 {
                for_each(|_| {
                    with_last(|_| ());
                    std::hint::black_box(unwind_tables());
                });
            }
            is_done.store(1, crate::sync::Ordering::Relaxed);
        });
    }

    #[test]
    fn a_build_id_is_found_among_other_notes() {
        let mut notes = Vec::new();
        let mut note = |kind: u32, name: &[u8], content: &[u8]| {
            for word in [name.len() as u32, content.len() as u32, kind] {
                notes.extend(word.to_le_bytes());
            }
            for bytes in [name, content] {
                notes.extend(bytes);
                notes.resize(notes.len().next_multiple_of(4), 0);
            }
        };
        note(3, b"Go\0", b"other");
        note(1, b"GNU\0", b"abi");
        note(3, b"GNU\0", b"identity");
        assert_eq!(build_id_of(&notes), Some(&b"identity"[..]));
        for cut in 0..notes.len() {
            assert_eq!(build_id_of(&notes[..cut]), None, "cut at {cut}");
        }
    }
}
