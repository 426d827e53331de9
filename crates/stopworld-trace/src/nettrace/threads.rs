//! Sequence numbers of the events of each thread, by which a reader counts missing events.
//!
//! Each event written takes a number, and so does each record that was lost before it could be written. So the gap that a reader finds
//! equals the recorder's count of lost records. Version 4 identifies threads by the kernel's thread id. The kernel reuses ids and a reader
//! cannot see that, so the numbers of a new thread continue where those of the id's last owner ended. Version 6 identifies threads by an
//! index that is not reused.
//!
//! There is a slot for each possible kernel id. The slots' memory takes no pages until it is touched.

use std::io;
use std::ptr::NonNull;

use crate::os::memory::{map_anonymous, unmap};
use stopworld::events::record::RecordingThread;

/// The kernel's thread ids are below this (`PID_MAX_LIMIT`).
const IDS: usize = 1 << 22;
/// The maximum number of threads in a sequence point, which keeps its block below 100 KiB.
pub(super) const MOST_TOUCHED: usize = 8_000;

#[derive(Clone, Copy)]
#[repr(C)]
struct Slot {
    /// The last number assigned.
    sequence: u32,
    /// The index of the slot's owner plus one; 0 if the slot never had an owner.
    owner: u32,
    /// The number of sequence points at the time when the slot was last touched, plus one.
    touched: u32,
}

/// The state of a thread's slot when the thread is looked up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ThreadLookup {
    /// The thread owns the slot already.
    Known,
    /// The slot never had an owner.
    New,
    /// The slot belonged to another thread with this kernel id, whose last number was `sequence`.
    InPlaceOf { owner: u32, sequence: u32 },
}

/// See the module documentation.
#[derive(Debug)]
pub(super) struct Threads {
    slots: NonNull<Slot>,
    /// Kernel ids with numbers assigned since the last sequence point.
    touched: Box<[u32]>,
    count: usize,
    points: u32,
}

// SAFETY: the value is the only owner of the memory.
unsafe impl Send for Threads {}

impl Threads {
    pub(super) fn new() -> io::Result<Threads> {
        let memory = map_anonymous(IDS * size_of::<Slot>())?;
        let slots = NonNull::new(memory.cast()).ok_or(io::ErrorKind::AddrNotAvailable)?;
        Ok(Threads { slots, touched: vec![0; MOST_TOUCHED].into(), count: 0, points: 0 })
    }

    fn slot(&mut self, tid: u32) -> &mut Slot {
        // SAFETY: in bounds of the mapping, which `self` owns; zeroes are a valid slot.
        unsafe { &mut *self.slots.as_ptr().add(tid as usize % IDS) }
    }

    /// Makes this thread the owner of its slot. If `anew` is true, the numbers of a new owner start from 1 again.
    #[inline]
    pub(super) fn look_up(&mut self, thread: RecordingThread, anew: bool) -> ThreadLookup {
        let slot = self.slot(thread.tid);
        let owner = thread.index.wrapping_add(1);
        if slot.owner == owner {
            return ThreadLookup::Known;
        }
        let before = std::mem::replace(&mut slot.owner, owner);
        match before {
            0 => ThreadLookup::New,
            before => {
                let sequence = slot.sequence;
                if anew {
                    slot.sequence = 0;
                }
                ThreadLookup::InPlaceOf { owner: before - 1, sequence }
            }
        }
    }

    /// Assigns `by` numbers and returns the last of them.
    #[inline]
    pub(super) fn advance(&mut self, tid: u32, by: u32) -> u32 {
        let points = self.points + 1;
        let slot = self.slot(tid);
        slot.sequence = slot.sequence.wrapping_add(by);
        let sequence = slot.sequence;
        if slot.touched != points {
            slot.touched = points;
            if let Some(place) = self.touched.get_mut(self.count) {
                *place = tid;
                self.count += 1;
            }
        }
        sequence
    }

    /// Returns whether the next sequence point has no room for another thread.
    #[inline]
    pub(super) fn is_full(&self) -> bool {
        self.count == MOST_TOUCHED
    }

    /// Iterates over the threads with numbers since the last sequence point: kernel id, index, last number.
    pub(super) fn touched(&mut self) -> impl ExactSizeIterator<Item = (u32, u32, u32)> {
        let slots = self.slots;
        self.touched[..self.count].iter().map(move |tid| {
            // SAFETY: in bounds of the mapping, which `self` owns.
            let slot = unsafe { *slots.as_ptr().add(*tid as usize % IDS) };
            (*tid, slot.owner.wrapping_sub(1), slot.sequence)
        })
    }

    /// Begins a new interval after a sequence point was written.
    pub(super) fn point(&mut self) {
        self.points += 1;
        self.count = 0;
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        // SAFETY: mapped in `new` with this size.
        unsafe { unmap(self.slots.as_ptr().cast(), IDS * size_of::<Slot>()) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn thread(tid: u32, index: u32) -> RecordingThread {
        RecordingThread { tid, index }
    }

    #[test]
    fn a_new_owner_of_a_kernel_id_continues_or_restarts_its_numbers() {
        for (anew, next) in [(false, 8), (true, 1)] {
            let mut threads = Threads::new().unwrap();
            assert_eq!(threads.look_up(thread(77, 0), anew), ThreadLookup::New);
            assert_eq!(threads.advance(77, 1), 1);
            assert_eq!(threads.advance(77, 6), 7);
            assert_eq!(threads.look_up(thread(77, 0), anew), ThreadLookup::Known);
            assert_eq!(threads.look_up(thread(77, 5), anew), ThreadLookup::InPlaceOf { owner: 0, sequence: 7 });
            assert_eq!(threads.advance(77, 1), next);
            assert_eq!(threads.touched().collect::<Vec<_>>(), [(77, 5, next)]);
            threads.point();
            assert_eq!(threads.touched().len(), 0);
            threads.advance(77, 1);
            assert_eq!(threads.touched().collect::<Vec<_>>(), [(77, 5, next + 1)]);
        }
    }
}
