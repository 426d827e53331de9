//! A wait-free table from thread ids to records.
//!
//! The suspend handler must find the record of the thread that it interrupted. Thread-local storage cannot be used: the first
//! access from a dlopen'ed library allocates, and the handler may have interrupted malloc (`.stop.locks`). So this is a
//! table of two levels, indexed by tid. Linux thread ids are below 2²² (`PID_MAX_LIMIT`):
//!
//! ```text
//!  tid:  | 10 bits: which page | 12 bits: which slot |
//!          level 1, in .bss      level 2, mapped by the first attach that needs it, never unmapped
//! ```
//!
//! In the handler a thread looks up only itself. A slot is changed only by its own thread, by the thread that survives a fork, or
//! by the thread that removes a thread that has ended. So a lookup never races with the removal of the entry that it finds.

use std::io;

use crate::os::{Tid, memory};
use crate::sync::{AtomicPtr, Ordering};

const LEVEL_1: usize = 1024;
const LEVEL_2: usize = 4096;

struct Page<T>([AtomicPtr<T>; LEVEL_2]);

/// A table from thread ids to records. See the module's text.
pub(crate) struct TidTable<T>([AtomicPtr<Page<T>>; LEVEL_1]);

impl<T> TidTable<T> {
    /// Creates an empty table.
    pub(crate) const fn new() -> Self {
        Self([const { AtomicPtr::new(std::ptr::null_mut()) }; LEVEL_1])
    }

    fn page(&self, tid: Tid) -> Option<&Page<T>> {
        let index = usize::try_from(tid.0).ok()? / LEVEL_2;
        // Acquire: pairs with the Release in `set`: the page's zeroes are visible.
        let page = self.0.get(index)?.load(Ordering::Acquire);
        // SAFETY: null or a page mapped by `set`, which is never unmapped.
        unsafe { page.as_ref() }
    }

    /// Returns the record filed under `tid`, or null. Async-signal-safe.
    #[inline]
    pub(crate) fn find(&self, tid: Tid) -> *mut T {
        self.page(tid).map_or(std::ptr::null_mut(), |page| {
            // Acquire: pairs with the Release in `set`: the record is initialised.
            page.0[tid.0 as usize % LEVEL_2].load(Ordering::Acquire)
        })
    }

    /// Files `record` under `tid`.
    pub(crate) fn set(&self, tid: Tid, record: *mut T) -> io::Result<()> {
        let outside = || io::Error::other(format!("thread id {tid} is outside Linux's range"));
        let index = usize::try_from(tid.0).map_err(|_| outside())?;
        let slot = self.0.get(index / LEVEL_2).ok_or_else(outside)?;
        if slot.load(Ordering::Acquire).is_null() {
            let size = std::mem::size_of::<Page<T>>();
            let fresh = memory::map_anonymous(size)?.cast::<Page<T>>();
            // Release: pairs with the Acquire in `page`.
            if slot.compare_exchange(std::ptr::null_mut(), fresh, Ordering::AcqRel, Ordering::Acquire).is_err() {
                // SAFETY: mapped just now; the race was lost, so no other thread has seen it.
                unsafe { memory::unmap(fresh.cast(), size) };
            }
        }
        if let Some(page) = self.page(tid) {
            // Release: pairs with the Acquire in `find`.
            page.0[index % LEVEL_2].store(record, Ordering::Release);
        }
        Ok(())
    }

    /// Removes the entry of `tid`. Async-signal-safe.
    pub(crate) fn clear(&self, tid: Tid) {
        if let Some(page) = self.page(tid) {
            page.0[tid.0 as usize % LEVEL_2].store(std::ptr::null_mut(), Ordering::Release);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_filed_is_found_until_cleared() {
        let table = TidTable::<u32>::new();
        let mut record = 7;
        assert!(table.find(Tid(4_194_303)).is_null());
        table.set(Tid(4_194_303), &mut record).unwrap();
        assert_eq!(table.find(Tid(4_194_303)), &raw mut record);
        assert!(table.find(Tid(4_194_302)).is_null());
        table.clear(Tid(4_194_303));
        assert!(table.find(Tid(4_194_303)).is_null());
    }

    #[test]
    fn ids_outside_the_range_are_refused_and_never_found() {
        let table = TidTable::<u32>::new();
        assert!(table.set(Tid(4_194_304), std::ptr::null_mut()).is_err());
        assert!(table.set(Tid(-1), std::ptr::null_mut()).is_err());
        assert!(table.find(Tid(-1)).is_null());
        assert!(table.find(Tid(i32::MAX)).is_null());
    }
}
