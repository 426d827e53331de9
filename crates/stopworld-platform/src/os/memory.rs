//! Address space: reserved in one piece, committed and returned to the kernel by pieces.
//!
//! A heap reserves the largest range that it may ever use, as inaccessible memory that takes no swap space. The check whether a word
//! is an address in the heap is then two comparisons. [`Reservation::commit`] makes memory usable.
//!
//! Except where noted, all functions here make plain system calls: they take no lock of libc, and can be used while the world is
//! stopped (`.stop.no-malloc`).

use std::io;

use nix::sys::resource::{RLIM_INFINITY, Resource, getrlimit};

/// The size of a page.
pub const fn page_size() -> usize {
    // x86-64 has one base page size; asking sysconf each time would be a call for a constant.
    4096
}

/// The size of a huge page.
pub const HUGE_PAGE_BYTES: usize = 2 << 20;

/// Reads one word of a stack, or of other memory that is scanned conservatively. The compiler may have placed anything in such
/// memory, and may change it at any time.
///
/// AddressSanitizer must not check this read: it poisons the red zones between a stack's variables and the remains of frames
/// that are gone, and a conservative scan reads all of them. AddressSanitizer does not check inline assembly.
///
/// # Safety
/// The word is mapped, readable and aligned.
#[inline(always)]
pub unsafe fn conservative_word(address: usize) -> usize {
    #[cfg(not(stopworld_asan))]
    {
        // SAFETY: the caller's promise.
        unsafe { (address as *const usize).read_volatile() }
    }
    #[cfg(stopworld_asan)]
    {
        let word: usize;
        // SAFETY: the caller's promise; it only reads.
        unsafe {
            std::arch::asm!("mov {}, [{}]", out(reg) word, in(reg) address, options(nostack, readonly, preserves_flags))
        };
        word
    }
}

/// Returns the size of the machine's physical memory in bytes.
pub fn physical_memory() -> usize {
    // SAFETY: sysconf has no preconditions.
    let pages = unsafe { libc::sysconf(libc::_SC_PHYS_PAGES) };
    usize::try_from(pages).unwrap_or(0).saturating_mul(page_size())
}

/// Returns the number of bytes of physical memory that this process uses now, or 0 if /proc cannot be read. Allocates.
pub fn resident_bytes() -> u64 {
    let pages = std::fs::read_to_string("/proc/self/statm").ok();
    let pages = pages.and_then(|line| line.split_ascii_whitespace().nth(1)?.parse::<u64>().ok());
    pages.unwrap_or(0) * page_size() as u64
}

/// The address space of this process.
#[derive(Clone, Copy, Debug)]
pub struct AddressSpace {
    /// The limit in bytes (RLIMIT_AS), if there is one.
    pub limit: Option<u64>,
    /// The bytes in use. 0 if /proc cannot be read.
    pub used: u64,
}

impl AddressSpace {
    /// The number of bytes that can still be mapped, if there is a limit.
    pub fn free(&self) -> Option<u64> {
        self.limit.map(|limit| limit.saturating_sub(self.used))
    }
}

/// Returns the size and the limit of the process's address space. Allocates.
pub fn address_space() -> AddressSpace {
    let limit = getrlimit(Resource::RLIMIT_AS).map_or(RLIM_INFINITY, |(soft, _)| soft);
    let pages = std::fs::read_to_string("/proc/self/statm").ok();
    let pages = pages.and_then(|line| line.split_ascii_whitespace().next()?.parse::<u64>().ok());
    AddressSpace { limit: (limit != RLIM_INFINITY).then_some(limit), used: pages.unwrap_or(0) * page_size() as u64 }
}

fn map(len: usize, protection: i32, flags: i32) -> io::Result<*mut u8> {
    // SAFETY: a fresh anonymous mapping at an address of the kernel's choice can't overlap anything.
    let p = unsafe {
        libc::mmap(std::ptr::null_mut(), len, protection, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | flags, -1, 0)
    };
    if p == libc::MAP_FAILED { Err(io::Error::last_os_error()) } else { Ok(p.cast()) }
}

/// A range of addresses that belongs to this value. A part is not readable, and not in core files, until it is committed. Dropping unmaps the
/// range.
#[derive(Debug)]
pub struct Reservation {
    base: *mut u8,
    len: usize,
}

// SAFETY: the pointer is an address, not a borrow; its users are responsible for accesses to the memory.
unsafe impl Send for Reservation {}
// SAFETY: as above; the methods are system calls that any thread may make.
unsafe impl Sync for Reservation {}

impl Reservation {
    /// Reserves `bytes` (rounded up to pages) at a multiple of `align`.
    ///
    /// # Panics
    /// If `align` is not a power of two.
    pub fn new(bytes: usize, align: usize) -> io::Result<Self> {
        assert!(align.is_power_of_two(), "a reservation's alignment is {align}, which is not a power of two");
        let too_large = || io::Error::new(io::ErrorKind::OutOfMemory, "a reservation larger than the address space");
        let len = bytes.max(1).checked_next_multiple_of(page_size()).ok_or_else(too_large)?;
        let slack = if align > page_size() { align } else { 0 };
        let total = len.checked_add(slack).ok_or_else(too_large)?;
        let raw = map(total, libc::PROT_NONE, libc::MAP_NORESERVE)?;
        let before = (raw as usize).next_multiple_of(align.max(page_size())) - raw as usize;
        // SAFETY: `before <= slack`, so it stays inside the mapping.
        let base = unsafe { raw.add(before) };
        let after = total - before - len;
        if before > 0 {
            // SAFETY: the part of the new mapping before `base`; nothing refers to it.
            unsafe { libc::munmap(raw.cast(), before) };
        }
        if after > 0 {
            // SAFETY: the part of the new mapping after the reservation; nothing refers to it.
            unsafe { libc::munmap(base.add(len).cast(), after) };
        }
        // gdb's `generate-core-file` writes all memory that is not excluded, also pages that no program has touched.
        // SAFETY: our own new mapping; the advice changes no contents.
        unsafe { libc::madvise(base.cast(), len, libc::MADV_DONTDUMP) };
        Ok(Self { base, len })
    }

    /// Returns the lowest address of the reservation.
    #[inline]
    pub fn base(&self) -> *mut u8 {
        self.base
    }

    /// Returns the length in bytes.
    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }

    fn at(&self, offset: usize, len: usize) -> *mut libc::c_void {
        assert!(offset.checked_add(len).is_some_and(|end| end <= self.len), "outside the reservation");
        // SAFETY: checked above.
        unsafe { self.base.add(offset).cast() }
    }

    /// Makes `[offset, offset + len)` readable and writable, and a part of core files; fresh pages are zero. Both must be multiples of a
    /// page.
    pub fn commit(&self, offset: usize, len: usize) -> io::Result<()> {
        self.make_usable(offset, len)?;
        self.include_in_cores(offset, len);
        Ok(())
    }

    /// Makes everything readable and writable, for a large table of which only the beginning is used at first. Core files have the parts that
    /// [`include_in_cores`](Self::include_in_cores) was called for.
    pub fn commit_table(&self) -> io::Result<()> {
        self.make_usable(0, self.len)
    }

    /// Makes `[offset, offset + len)` a part of core files. Both must be multiples of a page. If the kernel refuses, the memory can be used
    /// all the same.
    pub fn include_in_cores(&self, offset: usize, len: usize) {
        // SAFETY: the range is inside our own mapping (checked by `at`); the advice changes no contents.
        unsafe { libc::madvise(self.at(offset, len), len, libc::MADV_DODUMP) };
    }

    fn make_usable(&self, offset: usize, len: usize) -> io::Result<()> {
        // SAFETY: the range is inside our own mapping (checked by `at`).
        let r = unsafe { libc::mprotect(self.at(offset, len), len, libc::PROT_READ | libc::PROT_WRITE) };
        if r == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }

    /// Returns the pages to the kernel; the range stays committed and reads as zero. Offset and length must be multiples of a
    /// page.
    ///
    /// # Safety
    /// As for a write of zeros to the whole range: no reference to it expects its bytes to stay as they are, and a value that other
    /// threads may read meanwhile is atomic and may be 0.
    pub unsafe fn release(&self, offset: usize, len: usize) -> io::Result<()> {
        // SAFETY: the range is inside our own mapping (checked by `at`); the caller promises that its bytes may become 0.
        let r = unsafe { libc::madvise(self.at(offset, len), len, libc::MADV_DONTNEED) };
        if r == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }

    /// Asks the kernel to make huge pages of the mapped pages now. Has no effect on a kernel that can't (before 6.1).
    pub fn collapse(&self, offset: usize, len: usize) {
        // SAFETY: the range is inside our own mapping (checked by `at`); the advice changes no contents.
        unsafe { libc::madvise(self.at(offset, len), len, libc::MADV_COLLAPSE) };
    }

    /// Asks the kernel to allocate the pages now instead of at the first access. Has no effect on a kernel that can't (before
    /// 5.14).
    pub fn populate(&self, offset: usize, len: usize) {
        // SAFETY: the range is inside our own mapping (checked by `at`); the contents stay.
        unsafe { libc::madvise(self.at(offset, len), len, libc::MADV_POPULATE_WRITE) };
    }

    /// Asks for huge pages. Has no effect, and reports nothing, on a kernel that has none.
    pub fn huge_pages(&self, offset: usize, len: usize) {
        // SAFETY: the range is inside our own mapping (checked by `at`); the advice changes no contents.
        unsafe { libc::madvise(self.at(offset, len), len, libc::MADV_HUGEPAGE) };
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        // SAFETY: our own mapping, whose owner is being dropped.
        unsafe { libc::munmap(self.base.cast(), self.len) };
    }
}

/// Returns fresh zeroed memory of at least `len` bytes, page-aligned and never moved; only [`unmap`] unmaps it.
pub fn map_anonymous(len: usize) -> io::Result<*mut u8> {
    let len = len.max(1).checked_next_multiple_of(page_size()).ok_or(io::ErrorKind::OutOfMemory)?;
    map(len, libc::PROT_READ | libc::PROT_WRITE, 0)
}

/// Unmaps memory from [`map_anonymous`].
///
/// # Safety
/// `base` and `len` are those of one `map_anonymous` call, and the memory is no longer used.
pub unsafe fn unmap(base: *mut u8, len: usize) {
    // SAFETY: by the caller's promise.
    unsafe { libc::munmap(base.cast(), len.max(1).next_multiple_of(page_size())) };
}

/// Returns whether every page of `[low, high)` is mapped (readable or not). Makes one system call, which does not affect the pages.
pub fn is_mapped(low: usize, high: usize) -> bool {
    let mut page = low & !(page_size() - 1);
    let mut residency = [0u8; 256];
    while page < high {
        let len = (high - page).min(residency.len() * page_size());
        let r = super::preserving_errno(|| {
            // SAFETY: mincore writes one byte per page of the range to `residency`, which holds that many; the range
            // itself is only looked up, never touched.
            unsafe { libc::mincore(page as *mut libc::c_void, len, residency.as_mut_ptr()) }
        });
        if r != 0 {
            return false;
        }
        page += len.next_multiple_of(page_size());
    }
    true
}

/// Copies memory of this process that may not be mapped: starts at `address`, stops at the first page that can't be read, and returns
/// the number of bytes copied. Reads at most three pages. One system call; no fault, no lock, `errno` preserved.
///
/// # Safety
/// Any address is allowed, but the compiler does not see that its memory is read. The caller must have a right to read whatever is there:
/// no thread has it borrowed exclusively, or the bytes are only compared and never trusted. Bytes that another thread writes meanwhile
/// may be torn.
pub unsafe fn read_carefully(address: usize, into: &mut [u8]) -> usize {
    let local = libc::iovec { iov_base: into.as_mut_ptr().cast(), iov_len: into.len() };
    // One piece for each page: the kernel copies whole pieces.
    let mut pieces = [libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 }; PIECES];
    let (mut at, mut count, end) = (address, 0, address.saturating_add(into.len()));
    while at < end && count < PIECES {
        let next = ((at | (page_size() - 1)).saturating_add(1)).min(end);
        pieces[count] = libc::iovec { iov_base: at as *mut libc::c_void, iov_len: next - at };
        count += 1;
        at = next;
    }
    let copied = super::preserving_errno(|| {
        // SAFETY: the kernel checks every address that it reads, and writes at most `into.len()` bytes to `into`.
        unsafe { libc::process_vm_readv(libc::getpid(), &raw const local, 1, pieces.as_ptr(), count as u64, 0) }
    });
    usize::try_from(copied).unwrap_or(0)
}

/// The maximum number of pages that [`read_carefully`] reads.
const PIECES: usize = 3;

/// Returns the lowest address `>= floor` such that everything from it up to `high` is mapped.
///
/// This is for the main thread's stack, which the kernel grows as the thread uses it: memory below the mapped part was never
/// written. The page at `high - 1` must be mapped. The answer is exact: the mapping is one range, so a bisection finds its end.
pub fn lowest_mapped(floor: usize, high: usize) -> usize {
    let page = page_size();
    let (mut unmapped, mut mapped) = (floor & !(page - 1), (high - 1) & !(page - 1));
    if is_mapped(unmapped, unmapped + 1) && is_mapped(unmapped, high) {
        return unmapped.max(floor);
    }
    while mapped - unmapped > page {
        let middle = (unmapped + (mapped - unmapped) / 2) & !(page - 1);
        if is_mapped(middle, mapped) { mapped = middle } else { unmapped = middle }
    }
    mapped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reservation_is_aligned_and_starts_zeroed_when_committed() {
        let r = Reservation::new(3 << 20, 1 << 20).unwrap();
        assert_eq!(r.base() as usize % (1 << 20), 0);
        r.commit(1 << 20, 8192).unwrap();
        // SAFETY: just committed.
        let p = unsafe { r.base().add(1 << 20) };
        // SAFETY: as above.
        unsafe {
            assert_eq!(*p, 0);
            *p = 7;
        }
        // SAFETY: no reference to it.
        unsafe { r.release(1 << 20, 4096) }.unwrap();
        // SAFETY: still committed, reads as zero again.
        assert_eq!(unsafe { *p }, 0);
    }

    #[test]
    fn core_files_have_only_the_committed_part() {
        /// Returns whether a mapping is excluded from core files, by its `VmFlags` in `/proc/self/smaps`.
        fn is_excluded(address: *mut u8) -> bool {
            let maps = std::fs::read_to_string("/proc/self/smaps").unwrap();
            let mut contains = false;
            for line in maps.lines() {
                let first = line.split(' ').next().unwrap();
                if let Some((start, end)) = first.split_once('-') {
                    let [start, end] = [start, end].map(|end| usize::from_str_radix(end, 16).unwrap());
                    contains = (start..end).contains(&(address as usize));
                } else if contains && first == "VmFlags:" {
                    return line.split(' ').any(|flag| flag == "dd");
                }
            }
            panic!("nothing is mapped at {address:?}");
        }
        let r = Reservation::new(3 << 20, 1 << 20).unwrap();
        r.commit(1 << 20, 1 << 20).unwrap();
        let third = |number: usize| r.base().wrapping_add(number << 20);
        assert_eq!([0, 1, 2].map(|number| is_excluded(third(number))), [true, false, true]);
    }

    #[test]
    fn unmapped_memory_is_not_read_and_does_not_fault() {
        let r = Reservation::new(2 * 4096, 4096).unwrap();
        r.commit(0, 4096).unwrap();
        let base = r.base() as usize;
        // SAFETY: just committed.
        unsafe { r.base().add(4090).write_bytes(7, 6) };
        // SAFETY: the test's own reservation, or addresses at which nothing is ever mapped.
        let read_carefully = |address, into: &mut [u8]| unsafe { read_carefully(address, into) };
        let mut bytes = [0; 64];
        nix::errno::Errno::set_raw(libc::E2BIG);
        assert_eq!(read_carefully(base + 4090, &mut bytes), 6);
        assert_eq!(bytes[..7], [7, 7, 7, 7, 7, 7, 0]);
        assert_eq!(read_carefully(base + 4096, &mut bytes), 0);
        assert_eq!(read_carefully(8, &mut bytes), 0);
        assert_eq!(read_carefully(usize::MAX - 7, &mut bytes), 0);
        assert_eq!(nix::errno::Errno::last_raw(), libc::E2BIG, "`.stop.errno`");
    }

    #[test]
    fn holes_are_detected() {
        let r = Reservation::new(16 * 4096, 4096).unwrap();
        let base = r.base() as usize;
        assert!(is_mapped(base, base + r.len()));
        // SAFETY: a hole in our own reservation; dropping it later unmaps the hole once more, which is no error.
        unsafe { libc::munmap((base + 4096) as *mut _, 4096) };
        assert!(!is_mapped(base, base + r.len()));
        assert_eq!(lowest_mapped(base + 4096, base + r.len()), base + 2 * 4096);
    }
}
