//! State shared by the markers of a world: a pool of tasks, the idle count, the results.

use std::cell::UnsafeCell;
use std::io;

use super::helpers::Helpers;
use super::linked_objects::LinkedObjects;
use super::mark_stack::MarkStack;
use super::ranges::Ranges;
use super::root_areas::RootAreas;
use super::termination::Termination;
use super::timing::CollectorTime;
use crate::events::Events;
use crate::heap::Heap;
use crate::heap::ranges::Visit;
use crate::os::memory::Reservation;
use crate::sync::{AtomicU32, AtomicUsize, Lock, Ordering};

/// The number of tasks that move between markers at a time.
pub(super) const PACKET: usize = 512;
/// The maximum number of packets in the pool.
pub(super) const PACKETS: usize = 64;
/// A stack with fewer tasks than this keeps them.
const WORTH_SHARING: usize = 32;

/// Tasks that markers gave away.
pub(super) struct Pool {
    lock: Lock,
    /// Packets of `1 + PACKET` words: a length, then tasks. Guarded by `lock`.
    memory: Reservation,
    /// The number of packets in the pool. Written under the lock; read without it as a hint.
    packets: AtomicUsize,
}

// SAFETY: the memory is only accessed under `lock`.
unsafe impl Sync for Pool {}

impl Pool {
    pub(super) fn new() -> io::Result<Self> {
        let memory = Reservation::new(PACKETS * (PACKET + 1) * size_of::<usize>(), 4096)?;
        memory.commit(0, memory.len())?;
        Ok(Self { lock: Lock::new(), memory, packets: AtomicUsize::new(0) })
    }

    /// Returns the packet with this index.
    ///
    /// # Safety
    /// The caller holds the lock, and `index < PACKETS`.
    unsafe fn packet(&self, index: usize) -> *mut usize {
        // SAFETY: in bounds of the committed mapping.
        unsafe { self.memory.base().cast::<usize>().add(index * (PACKET + 1)) }
    }

    /// Moves some of the stack's tasks to the pool. Returns false if there was no room.
    pub(super) fn put(&self, stack: &mut MarkStack) -> bool {
        let _guard = self.lock.lock();
        // Relaxed, here and below: the lock orders it.
        let packets = self.packets.load(Ordering::Relaxed);
        if packets == PACKETS {
            return false;
        }
        // SAFETY: under the lock; a packet has room for its length and `PACKET` tasks.
        unsafe {
            let packet = self.packet(packets);
            let tasks = std::slice::from_raw_parts_mut(packet.add(1), PACKET);
            packet.write(stack.take_oldest(tasks));
        }
        self.packets.store(packets + 1, Ordering::Relaxed);
        true
    }

    /// Returns whether the pool has a packet. Only a hint.
    pub(super) fn has_work(&self) -> bool {
        self.packets.load(Ordering::Relaxed) > 0
    }

    /// Passes the tasks of one packet to `adopt`. Returns false if there is no packet.
    pub(super) fn take(&self, adopt: impl FnOnce(&[usize])) -> bool {
        let _guard = self.lock.lock();
        let packets = self.packets.load(Ordering::Relaxed);
        if packets == 0 {
            return false;
        }
        self.packets.store(packets - 1, Ordering::Relaxed);
        // SAFETY: under the lock; `put` wrote the length and the tasks.
        adopt(unsafe {
            let packet = self.packet(packets - 1);
            std::slice::from_raw_parts(packet.add(1), packet.read())
        });
        true
    }
}

/// The state that the markers of a world share.
pub(crate) struct Shared {
    pub(super) pool: Pool,
    /// The number of markers that have no work but do not sleep yet.
    pub(super) hungry: AtomicU32,
    pub(super) termination: Termination,
    /// The number of service threads that have not been woken yet for this mark phase. While there are any, only the collecting thread marks.
    pub(super) asleep: AtomicU32,
    /// The number of offers that the collecting thread still makes before it wakes the service threads, for its tasks or for roots that are
    /// left.
    pub(super) offers_alone: AtomicU32,
    pub(super) helpers: Helpers,
    /// What the service threads do in this phase. Written before the phase begins.
    pub(super) task: UnsafeCell<HelperTask>,
    pub(super) ranges: Ranges,
    pub(super) time: CollectorTime,
    /// The results of the service threads.
    pub(super) results: Box<[UnsafeCell<HelperResult>]>,
}

// SAFETY: `task` is written by the collecting thread between phases and read by the service threads in a phase; each result is written by its
// own thread in a phase and used by the collecting thread between phases, or by one thread in a phase that visits the lists of weak cells.
unsafe impl Sync for Shared {}
// SAFETY: as above; the pointers in it belong to no thread.
unsafe impl Send for Shared {}

/// What the service threads do in a phase. The pointers are valid until the phase has ended.
#[derive(Clone, Copy)]
pub(super) enum HelperTask {
    /// They mark, from these roots and from what other markers give away.
    Mark { heap: *const Heap, events: *const Events, areas: *const RootAreas<'static> },
    /// They visit ranges of numbers: see [`Ranges`].
    Visit(*const &'static Visit<'static>),
}

/// The result of one service thread in one mark phase.
#[derive(Clone, Copy)]
pub(super) struct HelperResult {
    pub(super) objects: u64,
    pub(super) overflowed: bool,
    pub(super) weak_cells: LinkedObjects,
    pub(super) bound_objects: LinkedObjects,
    pub(super) tables: LinkedObjects,
    pub(super) high_water: usize,
}

impl Shared {
    /// Called by a marker every few hundred tasks: moves part of its stack to the pool if a marker is idle.
    #[inline]
    pub(crate) fn offer(&self, stack: &mut MarkStack) {
        if self.asleep.load(Ordering::Relaxed) > 0 {
            return self.wake_helpers_if_useful(stack);
        }
        if (self.hungry.load(Ordering::Relaxed) > 0 || self.termination.has_idle())
            && stack.len() > WORTH_SHARING
            && self.pool.put(stack)
        {
            self.termination.work_added();
        }
    }

    /// Takes the list of the weak cells that a service thread has marked.
    ///
    /// # Safety
    /// The thread has finished marking, and no other thread uses its result.
    pub(super) unsafe fn take_weak_cells(&self, helper: usize) -> LinkedObjects {
        // SAFETY: the caller's promise.
        std::mem::replace(unsafe { &mut (*self.results[helper].get()).weak_cells }, LinkedObjects::EMPTY)
    }

    /// Wakes the helper threads if there is enough work for them.
    #[cold]
    fn wake_helpers_if_useful(&self, stack: &MarkStack) {
        let alone = self.offers_alone.load(Ordering::Relaxed);
        if alone > 0 {
            self.offers_alone.store(alone - 1, Ordering::Relaxed);
        } else if stack.len() > WORTH_SHARING || self.ranges.has_more() {
            self.wake_helpers();
        }
    }

    /// Wakes the helper threads, which are asleep, for the mark phase. Called by the collecting thread.
    pub(super) fn wake_helpers(&self) {
        let helpers = self.asleep.swap(0, Ordering::Relaxed);
        self.termination.start(helpers + 1);
        self.helpers.begin(helpers);
    }
}
