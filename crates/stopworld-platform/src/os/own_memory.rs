//! Copies of this process's own memory, of ranges that may be unmapped or written at any moment.

use super::{Errno, preserving_errno};

/// The largest number of ranges that are copied at once.
pub const MOST_RANGES: usize = 128;

/// A range of addresses: its beginning, and its length in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    /// The address of the first byte.
    pub low: usize,
    /// The number of bytes.
    pub bytes: usize,
}

/// Copies the ranges to `copy`, one after the other, and returns the number of bytes copied. Fewer than asked for mean that the byte after
/// those cannot be read. Memory that another thread writes meanwhile is copied in part before the
/// write, and in part after it. Makes one system call (process_vm_readv). Async-signal-safe and stop-safe.
///
/// # Errors
/// The system refused the call, for example because of a seccomp filter; nothing was copied.
///
/// # Panics
/// If there are more than [`MOST_RANGES`] ranges, or they do not fit into `copy`.
pub fn copy_to(ranges: &[Range], copy: &mut [u64]) -> Result<usize, Errno> {
    assert!(ranges.len() <= MOST_RANGES, "too many ranges at once");
    assert!(ranges.iter().map(|range| range.bytes).sum::<usize>() <= size_of_val(copy), "no room for the ranges");
    let nothing = libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 };
    let mut from = [nothing; MOST_RANGES];
    for (piece, range) in from.iter_mut().zip(ranges) {
        *piece = libc::iovec { iov_base: range.low as *mut libc::c_void, iov_len: range.bytes };
    }
    let to = libc::iovec { iov_base: copy.as_mut_ptr().cast(), iov_len: size_of_val(copy) };
    preserving_errno(|| {
        // SAFETY: the kernel checks each address of the source, and writes only to `copy`.
        let copied =
            unsafe { libc::process_vm_readv(libc::getpid(), &to, 1, from.as_ptr(), ranges.len() as libc::c_ulong, 0) };
        match usize::try_from(copied) {
            Ok(copied) => Ok(copied),
            Err(_) if Errno::last() == Errno::EFAULT => Ok(0),
            Err(_) => Err(Errno::last()),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::super::memory::{Reservation, page_size};
    use super::*;

    #[test]
    fn ranges_are_copied_up_to_the_first_byte_that_cannot_be_read() {
        let words = [1_u64, 2, 3, 4];
        let memory = Reservation::new(2 * page_size(), page_size()).unwrap();
        memory.commit(0, page_size()).unwrap();
        let range = |low: usize, bytes| Range { low, bytes };
        let first = range(&raw const words[1] as usize, 16);
        let mut copy = [9; 1024];
        assert_eq!(copy_to(&[first, range(&raw const words[0] as usize, 8)], &mut copy), Ok(24));
        assert_eq!(copy[..4], [2, 3, 1, 9]);
        let unreadable = range(memory.base() as usize + page_size(), 8);
        assert_eq!(copy_to(&[first, unreadable, first], &mut copy), Ok(16));
        assert_eq!(copy_to(&[unreadable], &mut copy), Ok(0));
    }
}
