//! The calls of libc and of the dynamic loader that only this library needs. The others are in `stopworld_platform::os`.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::io;
use std::mem::MaybeUninit;
use std::path::PathBuf;

pub(crate) use stopworld_platform::os::exit::at_exit;
pub(crate) use stopworld_platform::os::futex;
pub(crate) use stopworld_platform::os::memory::is_mapped;
pub(crate) use stopworld_platform::os::thread;

use stopworld_platform::os::memory;

/// The smallest part of memory that can be mapped or protected.
pub(crate) const PAGE: usize = 4096;

/// A key of thread-specific data with a destructor.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ThreadKey(libc::pthread_key_t);

impl ThreadKey {
    /// Creates a key whose destructor is called with the thread's value, if that is not null, when a thread ends.
    ///
    /// # Errors
    /// The process has no more keys.
    pub(crate) fn new(destructor: unsafe extern "C" fn(*mut c_void)) -> io::Result<Self> {
        let mut key = 0;
        // SAFETY: a place for the key, and a function that lives as long as the program.
        match unsafe { libc::pthread_key_create(&mut key, Some(destructor)) } {
            0 => Ok(Self(key)),
            error => Err(io::Error::from_raw_os_error(error)),
        }
    }

    /// Sets the calling thread's value.
    pub(crate) fn set(self, value: *const c_void) {
        // SAFETY: the key exists as long as the program. If memory is short, the destructor is not called.
        unsafe { libc::pthread_setspecific(self.0, value) };
    }
}

/// Returns the number that libc gives the calling thread.
pub(crate) fn own_pthread() -> usize {
    // SAFETY: has no precondition.
    unsafe { libc::pthread_self() as usize }
}

/// Returns the calling thread's name, as the kernel knows it.
pub(crate) fn thread_name() -> String {
    let mut name = [0_u8; 32];
    // SAFETY: the calling thread, and a buffer of this length.
    unsafe { libc::pthread_getname_np(libc::pthread_self(), name.as_mut_ptr().cast(), name.len()) };
    CStr::from_bytes_until_nul(&name).unwrap_or_default().to_string_lossy().into_owned()
}

/// Where an address of the program's code belongs.
pub(crate) struct Place {
    /// The name of the object file, without its folder; empty if the address is in none.
    pub(crate) file: String,
    /// The distance from the file's first byte in memory.
    pub(crate) offset: usize,
    /// The nearest exported symbol before the address, and the distance from it.
    pub(crate) symbol: Option<(String, usize)>,
}

/// Finds out where an address belongs.
pub(crate) fn place_of(address: usize) -> Place {
    let mut info = libc::Dl_info {
        dli_fname: std::ptr::null(),
        dli_fbase: std::ptr::null_mut(),
        dli_sname: std::ptr::null(),
        dli_saddr: std::ptr::null_mut(),
    };
    // SAFETY: a place for the answer; any address is allowed.
    if unsafe { libc::dladdr(address as *const c_void, &mut info) } == 0 || info.dli_fname.is_null() {
        return Place { file: String::new(), offset: address, symbol: None };
    }
    // SAFETY: a name of the loader, which lives as long as the object is loaded.
    let path = PathBuf::from(unsafe { CStr::from_ptr(info.dli_fname) }.to_string_lossy().into_owned());
    let file = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let symbol = (!info.dli_sname.is_null()).then(|| {
        // SAFETY: as above.
        let name = unsafe { CStr::from_ptr(info.dli_sname) }.to_string_lossy().into_owned();
        (name, address - info.dli_saddr as usize)
    });
    Place { file, offset: address - info.dli_fbase as usize, symbol }
}

/// Describes where an address belongs: `file+0x12 (function+0x3)`.
pub(crate) fn describe_address(address: usize) -> String {
    let Place { file, offset, symbol } = place_of(address);
    let symbol = symbol.map_or_else(String::new, |(name, distance)| format!(" ({name}+{distance:#x})"));
    if file.is_empty() { format!("{address:#x}") } else { format!("{file}+{offset:#x}{symbol}") }
}

/// Loads a library, as `dlopen`.
///
/// # Safety
/// `path` is null, or a text that ends in 0.
pub(crate) unsafe fn open_library(path: *const c_char, mode: c_int) -> *mut c_void {
    // SAFETY: the caller's promise.
    unsafe { libc::dlopen(path, mode) }
}

/// The number of objects that the loader has added and removed so far: if it is the same, so is the list.
pub(crate) type LoaderVersion = (u64, u64);

/// One loaded object, as the loader describes it.
pub(crate) struct LoadedObject<'a> {
    /// The difference between the addresses in its file and in memory.
    pub(crate) base: usize,
    /// Its path; empty for the program.
    pub(crate) name: &'a CStr,
    pub(crate) headers: &'a [libc::Elf64_Phdr],
}

/// Calls `visit` with each loaded object, in the order of the loader, until it returns false. The version comes with each call. Takes
/// the loader's lock, which the calling thread may hold already.
pub(crate) fn for_each_loaded(mut visit: impl FnMut(LoaderVersion, LoadedObject<'_>) -> bool) {
    type Visit<'a> = &'a mut dyn FnMut(LoaderVersion, LoadedObject<'_>) -> bool;

    unsafe extern "C" fn call(info: *mut libc::dl_phdr_info, _: usize, visit: *mut c_void) -> c_int {
        // SAFETY: the loader passes a valid description, and the pointer that it was given.
        let (info, visit) = unsafe { (&*info, &mut *visit.cast::<Visit<'_>>()) };
        // SAFETY: as above; the program headers are mapped with the object.
        let headers = unsafe { std::slice::from_raw_parts(info.dlpi_phdr, usize::from(info.dlpi_phnum)) };
        let name = if info.dlpi_name.is_null() {
            c""
        } else {
            // SAFETY: as above.
            unsafe { CStr::from_ptr(info.dlpi_name) }
        };
        let object = LoadedObject { base: info.dlpi_addr as usize, name, headers };
        c_int::from(!visit((info.dlpi_adds, info.dlpi_subs), object))
    }

    let mut visit: Visit<'_> = &mut visit;
    // SAFETY: `call` gets the address of `visit`, which outlives the call. It may unwind only by a panic, which ends the process there.
    unsafe { libc::dl_iterate_phdr(Some(call), std::ptr::from_mut(&mut visit).cast()) };
}

/// The loader's list of objects, which debuggers read: `struct r_debug` and `struct link_map` of <link.h>.
#[repr(C)]
struct DebugState {
    version: c_int,
    first: *const LinkMap,
    breakpoint: usize,
    state: c_int,
    loader_base: usize,
}

#[repr(C)]
struct LinkMap {
    base: usize,
    name: *const c_char,
    dynamic: usize,
    next: *const LinkMap,
    previous: *const LinkMap,
}

/// The loader's list, for the stopped world, where its lock may be held by a stopped thread.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LoaderList(*const DebugState);

// SAFETY: the address of a variable of the loader, which lives as long as the process. It is read in the stopped world only.
unsafe impl Send for LoaderList {}
// SAFETY: as above.
unsafe impl Sync for LoaderList {}

impl LoaderList {
    /// Finds the list. `None` if the loader does not export it.
    pub(crate) fn find() -> Option<Self> {
        // SAFETY: only looks the name up.
        let state = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"_r_debug".as_ptr()) };
        (!state.is_null()).then_some(Self(state.cast()))
    }

    /// Returns whether no thread is in the middle of adding or removing objects.
    pub(crate) fn is_consistent(self) -> bool {
        const RT_CONSISTENT: c_int = 0;
        // SAFETY: see the type. Volatile: other threads change it.
        unsafe { (&raw const (*self.0).state).read_volatile() == RT_CONSISTENT }
    }

    /// Calls `visit` with the base and the address of the dynamic section of each object.
    ///
    /// # Safety
    /// No other thread of the process runs: they may change the list.
    pub(crate) unsafe fn for_each(self, mut visit: impl FnMut(usize, usize)) {
        // SAFETY: the caller's promise. The loader links an entry when it is complete, and unlinks it before it frees it.
        unsafe {
            let mut entry = (*self.0).first;
            while let Some(object) = entry.as_ref() {
                visit(object.base, object.dynamic);
                entry = object.next;
            }
        }
    }
}

/// Reads a description from memory of this process. `None` if not all of it can be read.
///
/// # Safety
/// Any bytes are a valid `T`, and no thread writes there meanwhile.
unsafe fn read_carefully<T: Copy>(address: usize) -> Option<T> {
    let mut value = MaybeUninit::<T>::zeroed();
    // SAFETY: the value's own memory, which is zeroed.
    let bytes = unsafe { std::slice::from_raw_parts_mut(value.as_mut_ptr().cast::<u8>(), size_of::<T>()) };
    // SAFETY: no thread writes there, by the caller's promise.
    let copied = unsafe { memory::read_carefully(address, bytes) };
    // SAFETY: any bytes are a valid value, by the caller's promise.
    (copied == size_of::<T>()).then(|| unsafe { value.assume_init() })
}

/// Returns the program headers of an object that is mapped at this base, by its ELF header. `None` if there is none. The memory may be
/// of an object that the loader has unmapped already, and may belong to another mapping since, readable or not: it is read by the kernel
/// (one system call for each header), and the headers end at the first one that can't be read.
///
/// # Safety
/// No other thread of the process runs: it may write there.
pub(crate) unsafe fn headers_at(base: usize) -> Option<impl Iterator<Item = libc::Elf64_Phdr> + Clone> {
    if base == 0 {
        return None;
    }
    // SAFETY: integers and arrays of them; the caller's promise.
    let header = unsafe { read_carefully::<libc::Elf64_Ehdr>(base) }?;
    if header.e_ident[..4] != *b"\x7fELF" {
        return None;
    }
    let from = base.wrapping_add(header.e_phoff as usize);
    Some((0..usize::from(header.e_phnum)).map_while(move |index| {
        // SAFETY: as above. The iterator is used in the stopped world.
        unsafe { read_carefully(from.wrapping_add(index * size_of::<libc::Elf64_Phdr>())) }
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two pages of which the second one can't be read.
    struct Pages(usize);

    impl Pages {
        fn new() -> Self {
            // SAFETY: new memory, of which one page is protected.
            unsafe {
                let (all, private) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
                let start = libc::mmap(std::ptr::null_mut(), 2 * PAGE, all, private, -1, 0);
                assert_ne!(start, libc::MAP_FAILED);
                assert_eq!(libc::mprotect(start.byte_add(PAGE), PAGE, libc::PROT_NONE), 0);
                Self(start as usize)
            }
        }
    }

    impl Drop for Pages {
        fn drop(&mut self) {
            // SAFETY: the memory of `new`, to which nothing refers.
            unsafe { libc::munmap(self.0 as *mut c_void, 2 * PAGE) };
        }
    }

    #[test]
    fn the_headers_of_a_loaded_object_are_those_that_the_loader_returns() {
        let mut found = 0;
        for_each_loaded(|_, object| {
            // SAFETY: no thread writes to the headers.
            let Some(headers) = (unsafe { headers_at(object.base) }) else { return true };
            let fields = |header: &libc::Elf64_Phdr| (header.p_type, header.p_flags, header.p_vaddr, header.p_memsz);
            assert!(headers.map(|header| fields(&header)).eq(object.headers.iter().map(fields)), "{:?}", object.name);
            found += 1;
            true
        });
        assert!(found > 1);
    }

    #[test]
    fn memory_that_cannot_be_read_has_no_headers() {
        let pages = Pages::new();
        // SAFETY: only this thread uses the memory.
        assert!(unsafe { headers_at(pages.0 + PAGE) }.is_none());
        // SAFETY: as above.
        assert!(unsafe { headers_at(pages.0) }.is_none(), "zeros");
    }

    #[test]
    fn headers_end_where_the_memory_cannot_be_read() {
        let pages = Pages::new();
        // SAFETY: only this thread uses the memory; the first page can be written.
        unsafe {
            let header = pages.0 as *mut libc::Elf64_Ehdr;
            (&raw mut (*header).e_ident).cast::<[u8; 4]>().write(*b"\x7fELF");
            (*header).e_phoff = (PAGE - 2 * size_of::<libc::Elf64_Phdr>()) as u64;
            (*header).e_phnum = 5;
            assert_eq!(headers_at(pages.0).unwrap().count(), 2);
            (*header).e_phoff = PAGE as u64;
            assert_eq!(headers_at(pages.0).unwrap().count(), 0);
        }
    }
}
