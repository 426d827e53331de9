//! Who has which capability, and which thread it is in the file.
//!
//! Haskell's capabilities are the processors of its runtime; tools draw a lane for each, from 0 to the highest number.
//! Here a capability is the place of a mutator thread: it has one from its attaching to its detaching, the lowest that is
//! free then. So there are as many lanes as there were threads at a time, and not as many as there ever were; a number is
//! a u16, and a program may start a million threads. A capability is deleted when its thread goes and created when
//! another comes, with both in the file; *threads* have numbers of their own, from 1, that are never used again.
//!
//! Threads that have not attached get a capability too, at the first thing that they do that a tool wants to see in one
//! (a collection, a message), and keep it until the kernel gives their id to somebody else, or to the end.
//!
//! Records name a thread by the kernel's id and by the recorder's number, which is never used again. The table here goes by the kernel's id,
//! which is below 4 Mi, and checks the number: if another thread has the id now, the old one has ended without a word.
//! Its memory is the kernel's until it is touched.

use std::io;
use std::ops::{Index, IndexMut};
use std::ptr::NonNull;

use crate::events::record::RecordingThread;
use crate::os::memory::{map_anonymous, unmap};

/// The kernel's ids are below this (`PID_MAX_LIMIT`).
const IDS: usize = 1 << 22;
/// Capabilities at most: the highest number is nobody's.
pub(super) const SEATS: usize = 0xffff;

/// The recorder's number of a thread of which only the kernel's id is known yet.
const UNKNOWN: u32 = u32::MAX;

/// What is known of one of the kernel's ids. All zero: nothing.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
struct Slot {
    /// The recorder's number of its thread and one, or [`UNKNOWN`].
    owner: u32,
    /// Its capability and one, 0 if it has none.
    seat: u32,
    /// When its thread detached last, in ticks.
    left: u64,
}

/// A capability. All zero: nobody has it.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(super) struct Seat {
    /// The kernel's id of who has it, 0 if nobody has.
    pub(super) tid: u32,
    /// The number of its thread in this file, 0 if it has not attached.
    pub(super) thread: u32,
    /// The worlds that its thread has attached to, a bit for each.
    pub(super) worlds: u64,
    /// The worlds for which its thread stands still.
    pub(super) stopped_for: u64,
    /// All that was ever allocated, as far as it was counted by collections on this capability.
    pub(super) allocated: u64,
    /// 1 while its thread runs, by what the file says.
    pub(super) runs: u64,
}

/// A thread comes: has it a capability?
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Meeting {
    /// This one.
    Has(u16),
    /// None.
    New,
    /// None; somebody who had the kernel's id before it has left this one behind.
    InPlaceOf(u16),
}

/// See the module's text.
#[derive(Debug)]
pub(super) struct Capabilities {
    slots: Mapped<Slot>,
    seats: Mapped<Seat>,
    /// Above the highest that was ever used.
    used: usize,
    /// Below it none is free.
    free_from: usize,
    threads: u32,
}

impl Capabilities {
    pub(super) fn new() -> io::Result<Capabilities> {
        // SAFETY: both are plain numbers.
        let (slots, seats) = unsafe { (Mapped::new(IDS)?, Mapped::new(SEATS)?) };
        Ok(Capabilities { slots, seats, used: 0, free_from: 0, threads: 0 })
    }

    /// Which capability a thread has.
    pub(super) fn meet(&mut self, thread: RecordingThread) -> Meeting {
        let slot = &mut self.slots[thread.tid as usize % IDS];
        let owner = thread.index.wrapping_add(1);
        if slot.owner != owner {
            let is_the_same = slot.owner == UNKNOWN;
            slot.owner = owner;
            if !is_the_same {
                slot.left = 0;
                return match std::mem::take(&mut slot.seat) {
                    0 => Meeting::New,
                    seat => Meeting::InPlaceOf((seat - 1) as u16),
                };
            }
        }
        match slot.seat {
            0 => Meeting::New,
            seat => Meeting::Has((seat - 1) as u16),
        }
    }

    /// The capability of the thread with this id of the kernel's, if it has one.
    pub(super) fn of_tid(&self, tid: u32) -> Option<u16> {
        let seat = self.slots[tid as usize % IDS].seat;
        Some(seat.checked_sub(1)? as u16)
    }

    /// A thread was there at this time: to know it by its id alone. `false` if it has detached since, or is known.
    pub(super) fn know(&mut self, tid: u32, ticks: u64) -> bool {
        let slot = &mut self.slots[tid as usize % IDS];
        if slot.seat != 0 || slot.left > ticks {
            return false;
        }
        slot.owner = UNKNOWN;
        true
    }

    /// The thread with this id of the kernel's has detached at this time, and had no capability.
    pub(super) fn forget(&mut self, tid: u32, ticks: u64) {
        self.slots[tid as usize % IDS].left = ticks;
    }

    /// Gives the thread with this id of the kernel's the lowest capability that is free, if one is.
    pub(super) fn appoint(&mut self, tid: u32) -> Option<u16> {
        let free = (self.free_from..self.used).find(|seat| self.seats[*seat].tid == 0).unwrap_or(self.used);
        self.free_from = free;
        if free == SEATS {
            return None;
        }
        self.used = self.used.max(free + 1);
        self.seats[free].tid = tid;
        self.slots[tid as usize % IDS].seat = free as u32 + 1;
        Some(free as u16)
    }

    /// Makes a capability nobody's, at this time.
    pub(super) fn dismiss(&mut self, seat: u16, ticks: u64) {
        let Seat { tid, allocated, .. } = self[seat];
        let slot = &mut self.slots[tid as usize % IDS];
        if slot.seat == u32::from(seat) + 1 {
            (slot.seat, slot.left) = (0, ticks);
        }
        self[seat] = Seat { tid: 0, thread: 0, worlds: 0, stopped_for: 0, allocated, runs: 0 };
        self.free_from = self.free_from.min(usize::from(seat));
    }

    /// A number for a thread.
    pub(super) fn next_thread(&mut self) -> u32 {
        self.threads += 1;
        self.threads
    }

    /// The numbers that were ever used; of some, nobody has them now.
    pub(super) fn all(&self) -> std::ops::Range<u16> {
        0..self.used as u16
    }
}

impl Index<u16> for Capabilities {
    type Output = Seat;

    fn index(&self, seat: u16) -> &Seat {
        &self.seats[usize::from(seat)]
    }
}

impl IndexMut<u16> for Capabilities {
    fn index_mut(&mut self, seat: u16) -> &mut Seat {
        &mut self.seats[usize::from(seat)]
    }
}

/// A row of zeroed things in memory that the kernel gives as it is touched.
#[derive(Debug)]
struct Mapped<T> {
    first: NonNull<T>,
    count: usize,
}

// SAFETY: the memory belongs to it alone.
unsafe impl<T: Send> Send for Mapped<T> {}

impl<T: Copy> Mapped<T> {
    /// # Safety
    /// All zero bytes are a `T`.
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
        // SAFETY: in bounds; the mapping is ours, and zeroes are a `T` by the promise of `new`.
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

    fn seated(capabilities: &mut Capabilities, who: RecordingThread) -> u16 {
        match capabilities.meet(who) {
            Meeting::Has(seat) => seat,
            Meeting::New => capabilities.appoint(who.tid).unwrap(),
            Meeting::InPlaceOf(gone) => {
                capabilities.dismiss(gone, 1);
                capabilities.appoint(who.tid).unwrap()
            }
        }
    }

    #[test]
    fn a_thread_has_the_lowest_free_capability_and_keeps_it() {
        let mut all = Capabilities::new().unwrap();
        assert_eq!([1, 2, 3].map(|tid| seated(&mut all, thread(tid, tid))), [0, 1, 2]);
        assert_eq!(seated(&mut all, thread(2, 2)), 1);
        all.dismiss(1, 10);
        all.dismiss(0, 11);
        assert_eq!((all.of_tid(1), all.of_tid(2), all.of_tid(3)), (None, None, Some(2)));
        assert_eq!([7, 8, 9].map(|tid| seated(&mut all, thread(tid, tid))), [0, 1, 3]);
    }

    #[test]
    fn who_has_an_id_of_the_kernels_after_another_is_not_taken_for_it() {
        let mut all = Capabilities::new().unwrap();
        assert_eq!(seated(&mut all, thread(5, 1)), 0);
        assert_eq!(all.meet(thread(5, 2)), Meeting::InPlaceOf(0));
        all.dismiss(0, 3);
        assert_eq!(all.appoint(5), Some(0));
        assert_eq!(all.meet(thread(5, 2)), Meeting::Has(0));
    }

    #[test]
    fn a_thread_that_was_there_before_is_known_by_its_id_until_it_says_more() {
        let mut all = Capabilities::new().unwrap();
        assert!(all.know(5, 100));
        assert_eq!(all.appoint(5), Some(0));
        assert!(!all.know(5, 100), "once");
        assert_eq!(all.meet(thread(5, 9)), Meeting::Has(0));
        all.dismiss(0, 200);
        assert!(!all.know(5, 150), "it has left since");
        assert!(all.know(5, 250), "and another may have come");
    }

    #[test]
    fn there_are_as_many_capabilities_as_there_are_numbers_and_no_more() {
        let mut all = Capabilities::new().unwrap();
        for tid in 1..=SEATS as u32 {
            assert_eq!(all.appoint(tid).map(u32::from), Some(tid - 1));
        }
        assert_eq!(all.appoint(SEATS as u32 + 1), None);
        all.dismiss(4_000, 1);
        assert_eq!(all.appoint(SEATS as u32 + 1), Some(4_000));
    }
}
