//! How many events each thread has had: the sequence numbers by which a reader counts what is missing.
//!
//! A number is given out for each event that is written and for each record that was lost before it could be; so the gap that
//! a reader sees is the recorder's count. Version 4 names threads by the kernel's id. The kernel uses ids again, and a reader
//! can't tell: the numbers go on where the id's last owner stopped. Version 6 names them by an index of their own.
//!
//! A slot for each id that the kernel may give, in memory that the kernel gives as it is touched.

use std::io;
use std::ptr::NonNull;

use crate::events::record::RecordingThread;
use crate::os::memory::{map_anonymous, unmap};

/// The kernel's ids are below this (`PID_MAX_LIMIT`).
const IDS: usize = 1 << 22;
/// A sequence point has as many threads at most: its block is below 100 KiB.
pub(super) const MOST_TOUCHED: usize = 8_000;

#[derive(Clone, Copy)]
#[repr(C)]
struct Slot {
    /// The number that was given out last.
    sequence: u32,
    /// Its owner's index and one; 0 while nobody had it.
    owner: u32,
    /// The sequence points that there were when it was touched last, and one.
    touched: u32,
}

/// What became of a thread's slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Meeting {
    Known,
    /// Seen for the first time.
    New,
    /// Another thread had this kernel's id, and had come so far.
    InPlaceOf {
        owner: u32,
        sequence: u32,
    },
}

/// See the module's text.
#[derive(Debug)]
pub(super) struct Threads {
    slots: NonNull<Slot>,
    /// Ids of which a number was given out since the last sequence point.
    touched: Box<[u32]>,
    count: usize,
    points: u32,
}

// SAFETY: the memory belongs to it alone.
unsafe impl Send for Threads {}

impl Threads {
    pub(super) fn new() -> io::Result<Threads> {
        let memory = map_anonymous(IDS * size_of::<Slot>())?;
        let slots = NonNull::new(memory.cast()).ok_or(io::ErrorKind::AddrNotAvailable)?;
        Ok(Threads { slots, touched: vec![0; MOST_TOUCHED].into(), count: 0, points: 0 })
    }

    fn slot(&mut self, tid: u32) -> &mut Slot {
        // SAFETY: in bounds; the mapping is ours, and zeroes are a slot.
        unsafe { &mut *self.slots.as_ptr().add(tid as usize % IDS) }
    }

    /// Makes the slot this thread's. With `anew` another thread's numbers are not gone on with.
    #[inline]
    pub(super) fn meet(&mut self, thread: RecordingThread, anew: bool) -> Meeting {
        let slot = self.slot(thread.tid);
        let owner = thread.index.wrapping_add(1);
        if slot.owner == owner {
            return Meeting::Known;
        }
        let before = std::mem::replace(&mut slot.owner, owner);
        match before {
            0 => Meeting::New,
            before => {
                let sequence = slot.sequence;
                if anew {
                    slot.sequence = 0;
                }
                Meeting::InPlaceOf { owner: before - 1, sequence }
            }
        }
    }

    /// Gives out so many numbers; the last of them.
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

    /// Whether the next sequence point has no room for one more thread.
    #[inline]
    pub(super) fn is_full(&self) -> bool {
        self.count == MOST_TOUCHED
    }

    /// Who had numbers since the last sequence point: the kernel's id, the index, the last number.
    pub(super) fn touched(&mut self) -> impl ExactSizeIterator<Item = (u32, u32, u32)> {
        let slots = self.slots;
        self.touched[..self.count].iter().map(move |tid| {
            // SAFETY: in bounds, and ours.
            let slot = unsafe { *slots.as_ptr().add(*tid as usize % IDS) };
            (*tid, slot.owner.wrapping_sub(1), slot.sequence)
        })
    }

    /// A sequence point has been written.
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
    fn numbers_go_on_for_an_id_and_begin_anew_for_a_thread_if_asked() {
        for (anew, next) in [(false, 8), (true, 1)] {
            let mut threads = Threads::new().unwrap();
            assert_eq!(threads.meet(thread(77, 0), anew), Meeting::New);
            assert_eq!(threads.advance(77, 1), 1);
            assert_eq!(threads.advance(77, 6), 7);
            assert_eq!(threads.meet(thread(77, 0), anew), Meeting::Known);
            assert_eq!(threads.meet(thread(77, 5), anew), Meeting::InPlaceOf { owner: 0, sequence: 7 });
            assert_eq!(threads.advance(77, 1), next);
            assert_eq!(threads.touched().collect::<Vec<_>>(), [(77, 5, next)]);
            threads.point();
            assert_eq!(threads.touched().len(), 0);
            threads.advance(77, 1);
            assert_eq!(threads.touched().collect::<Vec<_>>(), [(77, 5, next + 1)]);
        }
    }
}
