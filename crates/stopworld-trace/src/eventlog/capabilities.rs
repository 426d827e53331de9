//! Maps threads to capabilities, and to thread numbers in the file.
//!
//! In Haskell, capabilities are the virtual processors of the runtime; tools draw a lane for each, from 0 to the highest number.
//! Here each mutator thread has a capability from attach to detach: the lowest number that is free when it attaches. So there are
//! as many lanes as there were threads at the same time, not as there were threads in all. (A number is a u16, and a program may
//! start a million threads.) A capability is deleted when its thread detaches and created again for another thread; the file has
//! both events. *Threads* have separate numbers, from 1, that are never reused.
//!
//! A thread that has not attached gets a capability too, at its first event that tools expect on a capability (a collection, a
//! message). It keeps the capability until the kernel reuses its thread id, or until the end of the log.
//!
//! A record identifies a thread by the kernel's thread id and by the recorder's number, which is never reused. The table here is
//! indexed by the kernel's id, which is below 4 Mi, and checks the number. If another thread has the id now, the old thread has
//! ended without detaching. Pages of the table take no memory until they are touched.

use std::io;
use std::ops::{Index, IndexMut};
use std::ptr::NonNull;

use crate::os::memory::{map_anonymous, unmap};
use stopworld::events::record::RecordingThread;

/// The kernel's thread ids are below this (`PID_MAX_LIMIT`).
const IDS: usize = 1 << 22;
/// Maximum number of capabilities. The highest u16 means "no capability".
pub(super) const MOST_CAPABILITIES: usize = 0xffff;

/// Stands for the recorder's number of a thread while only its kernel id is known.
const UNKNOWN: u32 = u32::MAX;

/// The known facts about a kernel thread id. If all fields are zero, nothing is known.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
struct Slot {
    /// The recorder's number of its thread plus one, or [`UNKNOWN`].
    owner: u32,
    /// Its capability plus one; 0 if it has none.
    cap: u32,
    /// The time at which its thread last detached, in ticks.
    detached_at: u64,
}

/// A capability. If all fields are zero, it is free.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(super) struct CapabilityState {
    /// The kernel id of its thread; 0 if it is free.
    pub(super) tid: u32,
    /// The number of its thread in this file; 0 if the thread has not attached.
    pub(super) thread: u32,
    /// The worlds to which its thread is attached, one bit each.
    pub(super) worlds: u64,
    /// The worlds for which its thread is stopped, one bit each.
    pub(super) stopped_for: u64,
    /// The total number of bytes allocated, as counted by the collections on this capability.
    pub(super) allocated: u64,
    /// 1 if the file shows its thread as running.
    pub(super) runs: u64,
}

/// Whether a thread has a capability.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ThreadLookup {
    /// The thread has this capability.
    Has(u16),
    /// The thread has no capability.
    New,
    /// The thread has no capability, but this one still belongs to an ended thread that had the same kernel id.
    InPlaceOf(u16),
}

/// See the module documentation.
#[derive(Debug)]
pub(super) struct Capabilities {
    slots: Mapped<Slot>,
    caps: Mapped<CapabilityState>,
    /// One more than the highest capability ever used.
    used: usize,
    /// No capability below this is free.
    free_from: usize,
    threads: u32,
}

impl Capabilities {
    pub(super) fn new() -> io::Result<Capabilities> {
        // SAFETY: slots and capabilities consist of plain numbers, for which all-zero bytes are valid.
        let (slots, caps) = unsafe { (Mapped::new(IDS)?, Mapped::new(MOST_CAPABILITIES)?) };
        Ok(Capabilities { slots, caps, used: 0, free_from: 0, threads: 0 })
    }

    /// Returns which capability a thread has, if any.
    pub(super) fn look_up(&mut self, thread: RecordingThread) -> ThreadLookup {
        let slot = &mut self.slots[thread.tid as usize % IDS];
        let owner = thread.index.wrapping_add(1);
        if slot.owner != owner {
            let is_the_same = slot.owner == UNKNOWN;
            slot.owner = owner;
            if !is_the_same {
                slot.detached_at = 0;
                return match std::mem::take(&mut slot.cap) {
                    0 => ThreadLookup::New,
                    cap => ThreadLookup::InPlaceOf((cap - 1) as u16),
                };
            }
        }
        match slot.cap {
            0 => ThreadLookup::New,
            cap => ThreadLookup::Has((cap - 1) as u16),
        }
    }

    /// Returns the capability of the thread with this kernel id, if it has one.
    pub(super) fn of_tid(&self, tid: u32) -> Option<u16> {
        let cap = self.slots[tid as usize % IDS].cap;
        Some(cap.checked_sub(1)? as u16)
    }

    /// Notes that a thread with this kernel id was attached at this time; its recorder number is not known yet. Returns false if the thread
    /// has detached since then, or has a capability already.
    pub(super) fn note_attached(&mut self, tid: u32, ticks: u64) -> bool {
        let slot = &mut self.slots[tid as usize % IDS];
        if slot.cap != 0 || slot.detached_at > ticks {
            return false;
        }
        slot.owner = UNKNOWN;
        true
    }

    /// Notes that the thread with this kernel id, which had no capability, detached at this time.
    pub(super) fn note_detached(&mut self, tid: u32, ticks: u64) {
        self.slots[tid as usize % IDS].detached_at = ticks;
    }

    /// Assigns the lowest free capability, if there is one, to the thread with this kernel id, and returns it.
    pub(super) fn assign_capability(&mut self, tid: u32) -> Option<u16> {
        let free = (self.free_from..self.used).find(|cap| self.caps[*cap].tid == 0).unwrap_or(self.used);
        self.free_from = free;
        if free == MOST_CAPABILITIES {
            return None;
        }
        self.used = self.used.max(free + 1);
        self.caps[free].tid = tid;
        self.slots[tid as usize % IDS].cap = free as u32 + 1;
        Some(free as u16)
    }

    /// Frees a capability at this time.
    pub(super) fn release(&mut self, cap: u16, ticks: u64) {
        let CapabilityState { tid, allocated, .. } = self[cap];
        let slot = &mut self.slots[tid as usize % IDS];
        if slot.cap == u32::from(cap) + 1 {
            (slot.cap, slot.detached_at) = (0, ticks);
        }
        self[cap] = CapabilityState { tid: 0, thread: 0, worlds: 0, stopped_for: 0, allocated, runs: 0 };
        self.free_from = self.free_from.min(usize::from(cap));
    }

    /// Returns a new thread number.
    pub(super) fn next_thread(&mut self) -> u32 {
        self.threads += 1;
        self.threads
    }

    /// Returns all capabilities ever used. Some of them may be free now.
    pub(super) fn all(&self) -> std::ops::Range<u16> {
        0..self.used as u16
    }
}

impl Index<u16> for Capabilities {
    type Output = CapabilityState;

    fn index(&self, cap: u16) -> &CapabilityState {
        &self.caps[usize::from(cap)]
    }
}

impl IndexMut<u16> for Capabilities {
    fn index_mut(&mut self, cap: u16) -> &mut CapabilityState {
        &mut self.caps[usize::from(cap)]
    }
}

/// A zeroed array in anonymous memory: the kernel provides its pages when they are touched.
#[derive(Debug)]
struct Mapped<T> {
    first: NonNull<T>,
    count: usize,
}

// SAFETY: the value is the only owner of the memory.
unsafe impl<T: Send> Send for Mapped<T> {}

impl<T: Copy> Mapped<T> {
    /// # Safety
    /// All-zero bytes must be a valid `T`.
    unsafe fn new(count: usize) -> io::Result<Mapped<T>> {
        let memory = map_anonymous(count * size_of::<T>())?;
        let first = NonNull::new(memory.cast()).ok_or(io::ErrorKind::AddrNotAvailable)?;
        Ok(Mapped { first, count })
    }
}

impl<T> Index<usize> for Mapped<T> {
    type Output = T;

    fn index(&self, index: usize) -> &T {
        assert!(index < self.count);
        // SAFETY: in bounds of the mapping, which `self` owns; zeroes are a valid `T` by the contract of `new`.
        unsafe { self.first.add(index).as_ref() }
    }
}

impl<T> IndexMut<usize> for Mapped<T> {
    fn index_mut(&mut self, index: usize) -> &mut T {
        assert!(index < self.count);
        // SAFETY: as above.
        unsafe { self.first.add(index).as_mut() }
    }
}

impl<T> Drop for Mapped<T> {
    fn drop(&mut self) {
        // SAFETY: mapped in `new` with this size.
        unsafe { unmap(self.first.as_ptr().cast(), self.count * size_of::<T>()) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn thread(tid: u32, index: u32) -> RecordingThread {
        RecordingThread { tid, index }
    }

    fn capability_of(capabilities: &mut Capabilities, who: RecordingThread) -> u16 {
        match capabilities.look_up(who) {
            ThreadLookup::Has(cap) => cap,
            ThreadLookup::New => capabilities.assign_capability(who.tid).unwrap(),
            ThreadLookup::InPlaceOf(gone) => {
                capabilities.release(gone, 1);
                capabilities.assign_capability(who.tid).unwrap()
            }
        }
    }

    #[test]
    fn a_thread_has_the_lowest_free_capability_and_keeps_it() {
        let mut all = Capabilities::new().unwrap();
        assert_eq!([1, 2, 3].map(|tid| capability_of(&mut all, thread(tid, tid))), [0, 1, 2]);
        assert_eq!(capability_of(&mut all, thread(2, 2)), 1);
        all.release(1, 10);
        all.release(0, 11);
        assert_eq!((all.of_tid(1), all.of_tid(2), all.of_tid(3)), (None, None, Some(2)));
        assert_eq!([7, 8, 9].map(|tid| capability_of(&mut all, thread(tid, tid))), [0, 1, 3]);
    }

    #[test]
    fn a_thread_that_reuses_a_kernel_id_is_not_taken_for_the_old_one() {
        let mut all = Capabilities::new().unwrap();
        assert_eq!(capability_of(&mut all, thread(5, 1)), 0);
        assert_eq!(all.look_up(thread(5, 2)), ThreadLookup::InPlaceOf(0));
        all.release(0, 3);
        assert_eq!(all.assign_capability(5), Some(0));
        assert_eq!(all.look_up(thread(5, 2)), ThreadLookup::Has(0));
    }

    #[test]
    fn a_thread_attached_before_the_log_is_known_by_its_kernel_id_until_its_first_record() {
        let mut all = Capabilities::new().unwrap();
        assert!(all.note_attached(5, 100));
        assert_eq!(all.assign_capability(5), Some(0));
        assert!(!all.note_attached(5, 100), "it is known already");
        assert_eq!(all.look_up(thread(5, 9)), ThreadLookup::Has(0));
        all.release(0, 200);
        assert!(!all.note_attached(5, 150), "it has detached since");
        assert!(all.note_attached(5, 250), "another thread may have the id now");
    }

    #[test]
    fn every_number_but_the_highest_can_be_a_capability() {
        let mut all = Capabilities::new().unwrap();
        for tid in 1..=MOST_CAPABILITIES as u32 {
            assert_eq!(all.assign_capability(tid).map(u32::from), Some(tid - 1));
        }
        assert_eq!(all.assign_capability(MOST_CAPABILITIES as u32 + 1), None);
        all.release(4_000, 1);
        assert_eq!(all.assign_capability(MOST_CAPABILITIES as u32 + 1), Some(4_000));
    }
}
