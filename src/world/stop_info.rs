//! The record of one thread, with everything that is needed to stop and scan it.
//!
//! Mono's collector had a `ThreadStopInfo` per thread with a field `stack_ptr`: the suspend handler stored its stack
//! pointer there, and a debugger that had taken over stopping wrote the same field instead. This record works in the same way.
//! The vtable or debugger that stops a thread must store in [`stack_ptr`](ThreadStopInfo::stack_ptr) the lowest address of the
//! thread's live stack. The collector scans from there to the stack's base, and does not depend on how the thread was stopped.
//!
//! # The layout
//!
//! `#[repr(C)]`, with the offsets that a debugger needs published in [`OFFSETS`]. The first cache line has everything
//! that a stop writes for a thread that is already stopped (in a blocking region, parked); from the second one it reads whether the
//! thread exists. A stop of hundreds of such threads fetches these lines ahead, and takes less than 50 ns per thread.
//!
//! ```text
//!   line 0   stack_ptr | saved_sp | state, resume | tid, owed | stack_low | stack_high | save_area_used, gone
//!   line 1   stopped_at and alternate stack, written by the handler; the liveness mutex. A stop reads these after all have stopped
//!   line 2+  the owner, the name, the mutator's own word …
//! ```
//!
//! # Type-stable memory
//!
//! Records are in mapped chunks of 64, which are never unmapped and only ever hold records. A debugger or a late
//! signal handler that still has a record's address therefore reads a record, perhaps of another thread, never other data.
//! A closed world returns its chunks to a pool of the process, from which the next world takes them.

use std::io;
use std::mem::size_of;

use crate::os::thread::{LivenessMutex, StackBounds};
use crate::os::{Tid, memory};
use crate::sabotage::{Guard, removed};
use crate::sync::{
    AtomicBool, AtomicI32, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, CurrentId, Lock, Locked, Ordering, prefetch,
    prefetch_for_writing,
};

use super::handshake::{HandshakeState, Holder, StopState};
use super::name::ThreadName;

/// The record of one attached thread, through which a [`ThreadVtable`](crate::ThreadVtable) or a debugger stops it.
///
/// The vtable or debugger that stops the thread stores the lowest address of the thread's live stack in the record's
/// [slot](Self::slot). The collector scans from there to the base of the stack.
///
/// The memory of records is type-stable: it is never unmapped and only ever holds records, so every `&'static` reference stays
/// readable. After the thread has detached, the record may belong to another thread; [`serial`](Self::serial) distinguishes the
/// two. All methods are atomic loads and stores; none allocates or takes a lock. [`OFFSETS`] has the layout, for debuggers.
#[repr(C, align(64))]
pub struct ThreadStopInfo {
    /// The lowest address of the live stack, written by the vtable or debugger that stops the thread; 0 while it is not stopped.
    pub(super) stack_ptr: AtomicUsize,
    /// The stack pointer that the thread itself published when it last entered a blocking region or parked. The built-in stoppers
    /// copy it to `stack_ptr`.
    pub(super) saved_sp: AtomicUsize,
    pub(super) state: StopState,
    pub(super) tid: AtomicI32,
    /// 1: a suspend signal was sent, and the handler has not run for it yet.
    pub(super) owed: AtomicU32,
    pub(super) stack_low: AtomicUsize,
    pub(super) stack_high: AtomicUsize,
    /// How many bytes of the save area hold registers; 0 outside a stop.
    pub(super) save_area_used: AtomicU32,
    /// 1: the thread does not exist any more; it ended without detaching.
    pub(super) gone: AtomicU32,

    // second line
    pub(super) stopped_at: AtomicU64,
    pub(super) alternate_low: AtomicUsize,
    pub(super) alternate_high: AtomicUsize,
    /// Shows whether the thread still exists, also in a blocking region, where it gets no signal.
    pub(super) liveness: LivenessMutex,

    // third line
    pub(super) save_area: AtomicPtr<u8>,
    pub(super) save_area_size: AtomicUsize,
    /// The [`Threads`](super::registry::Threads) of the world that the thread is attached to: one strong count, from attach to
    /// detach. Only `registry.rs` dereferences it.
    pub(super) owner: AtomicPtr<()>,
    /// The data of the thread's `Mutator`: its allocation cache.
    user: AtomicPtr<()>,
    pub(super) flags: AtomicU32,
    /// 1: the thread did not acknowledge the stop that was abandoned last.
    pub(super) silent: AtomicU32,
    /// Position in the list of attached threads; guarded by the thread list lock.
    pub(super) index: AtomicU32,
    name: [AtomicU64; 4],
    /// Incremented with each use of the record: distinguishes two threads that had the same record.
    pub(super) serial: AtomicU64,
    /// 1: the thread is in a short section in which the handler does not park it; it parks itself at the end of the section.
    pub(super) undisturbed: AtomicU32,
    /// A debugger's acknowledgement: the epoch of the stop for which the debugger holds the thread and has written the thread's registers.
    pub(super) frozen: AtomicU64,
    /// 1: the collector has subtracted the acknowledgement in `frozen` from its count.
    pub(super) counted: AtomicU32,
    /// The list that debuggers walk (`published.rs`); changed under the thread list lock.
    pub(super) next: AtomicPtr<ThreadStopInfo>,
    pub(super) previous: AtomicPtr<ThreadStopInfo>,
    /// The number of the cost centre stack that the thread is in.
    cost_stack: CurrentId,
    /// The previous value of `cost_stack`, if the thread has changed it since a time profile last read this; otherwise 0. It is next to
    /// `cost_stack`, in the same cache line, so the store is cheap.
    left_cost_stack: AtomicU32,
    /// For a time profile: whether the thread has reported the processor time that was not charged yet, which it does when it detaches.
    settled: AtomicBool,
    /// For a time profile: the value of the thread's processor time when its present collection began; 0 if it is not collecting.
    collects_since: AtomicU64,
    /// For a time profile: the processor time that the thread's collections took.
    collected_ns: AtomicU64,
}

/// Bit of `flags`: this is the main thread of the process, whose stack grows on demand.
pub(super) const MAIN_THREAD: u32 = 1;
/// Bit of `flags`: attach unblocked the suspend signal; detach blocks it again.
pub(super) const WAS_BLOCKED: u32 = 2;

/// The offsets of the fields of a [`ThreadStopInfo`], in bytes from its start, for debuggers. Fields are 64 bits wide unless
/// noted. See [`OFFSETS`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct StopInfoOffsets {
    /// Size of a record in bytes.
    pub size: usize,
    /// `stack_ptr`: write the lowest address of the live stack here.
    pub stack_ptr: usize,
    /// `saved_sp`: the stack pointer that the thread itself published last.
    pub saved_sp: usize,
    /// The state word of the handshake.
    pub state: usize,
    /// The kernel's thread id, 32 bits.
    pub tid: usize,
    /// Lowest usable address of the thread's stack.
    pub stack_low: usize,
    /// The base of the thread's stack: one past its highest address.
    pub stack_high: usize,
    /// Pointer to the save area, where registers may be stored.
    pub save_area: usize,
    /// Size of the save area in bytes.
    pub save_area_size: usize,
    /// The number of bytes of the save area that hold registers, 32 bits: write this last.
    pub save_area_used: usize,
    /// The name: one byte of length, then up to 31 bytes.
    pub name: usize,
    /// A debugger that holds the thread acknowledges here: it writes the epoch of the stop, after everything else. 64 bits.
    pub frozen: usize,
    /// The next record of the world's threads, or 0.
    pub next: usize,
    /// Incremented with each use of the record, 64 bits: distinguishes two threads that had the same record.
    pub serial: usize,
}

/// The offsets of [`ThreadStopInfo`], as debuggers read them in a process's memory.
pub const OFFSETS: StopInfoOffsets = StopInfoOffsets {
    size: size_of::<ThreadStopInfo>(),
    stack_ptr: memoffset::offset_of!(ThreadStopInfo, stack_ptr),
    saved_sp: memoffset::offset_of!(ThreadStopInfo, saved_sp),
    state: memoffset::offset_of!(ThreadStopInfo, state),
    tid: memoffset::offset_of!(ThreadStopInfo, tid),
    stack_low: memoffset::offset_of!(ThreadStopInfo, stack_low),
    stack_high: memoffset::offset_of!(ThreadStopInfo, stack_high),
    save_area: memoffset::offset_of!(ThreadStopInfo, save_area),
    save_area_size: memoffset::offset_of!(ThreadStopInfo, save_area_size),
    save_area_used: memoffset::offset_of!(ThreadStopInfo, save_area_used),
    name: memoffset::offset_of!(ThreadStopInfo, name),
    frozen: memoffset::offset_of!(ThreadStopInfo, frozen),
    next: memoffset::offset_of!(ThreadStopInfo, next),
    serial: memoffset::offset_of!(ThreadStopInfo, serial),
};

/// For a reader outside the process: the offsets of the mutator's own word, of the bounds of the alternate signal stack, and of `gone`.
pub(crate) const MORE_OFFSETS: [usize; 4] = [
    memoffset::offset_of!(ThreadStopInfo, user),
    memoffset::offset_of!(ThreadStopInfo, alternate_low),
    memoffset::offset_of!(ThreadStopInfo, alternate_high),
    memoffset::offset_of!(ThreadStopInfo, gone),
];

// As the module's text states: all fields that a stop touches for a thread that is already stopped are in one cache line.
const _: () = assert!(memoffset::offset_of!(ThreadStopInfo, stopped_at) == 64);

impl ThreadStopInfo {
    /// Fetches into the cache the two lines that a stop uses.
    pub(super) fn prefetch(&self) {
        prefetch_for_writing(self);
        prefetch(std::ptr::from_ref(&self.stopped_at) as usize);
    }

    /// Returns the kernel's id of the thread.
    pub fn tid(&self) -> Tid {
        Tid(self.tid.load(Ordering::Relaxed))
    }

    /// Returns the thread's name, as given at attach.
    pub fn name(&self) -> ThreadName {
        ThreadName::from_words(std::array::from_fn(|i| self.name[i].load(Ordering::Relaxed)))
    }

    /// Returns the lowest address of the live stack while the thread is stopped; otherwise 0 or a stale value.
    #[inline]
    pub fn stack_ptr(&self) -> usize {
        // Acquire: pairs with the Release in `Slot::store`, for a thread that is stopped without the handshake, by a debugger in
        // this process.
        self.stack_ptr.load(Ordering::Acquire)
    }

    /// Copies the stack pointer that the thread itself published last to `stack_ptr`. For a thread that is in a blocking region or parked.
    pub(crate) fn use_saved_sp(&self) {
        self.stack_ptr.store(self.saved_sp.load(Ordering::Relaxed), Ordering::Relaxed);
    }

    /// Returns the thread's slot, through which a vtable writes `stack_ptr`.
    pub fn slot(&'static self) -> Slot {
        Slot(self)
    }

    /// Returns the record whose `stack_ptr` is at this address, which a debugger outside the process uses.
    ///
    /// # Safety
    /// `slot` is from [`Slot::as_ptr`].
    pub(crate) unsafe fn of_slot(slot: *mut usize) -> &'static Self {
        // SAFETY: the caller's promise; records are never unmapped.
        unsafe { &*slot.byte_sub(OFFSETS.stack_ptr).cast::<Self>() }
    }

    /// Returns the lowest usable address of the thread's stack, and its base (one past the highest).
    pub fn stack(&self) -> (usize, usize) {
        (self.stack_low.load(Ordering::Relaxed), self.stack_high.load(Ordering::Relaxed))
    }

    pub(super) fn stack_bounds(&self) -> StackBounds {
        let (low, high) = self.stack();
        StackBounds { low, high }
    }

    pub(super) fn alternate_bounds(&self) -> StackBounds {
        StackBounds {
            low: self.alternate_low.load(Ordering::Relaxed),
            high: self.alternate_high.load(Ordering::Relaxed),
        }
    }

    pub(crate) fn set_alternate(&self, bounds: Option<StackBounds>) {
        let bounds = bounds.unwrap_or(StackBounds { low: 0, high: 0 });
        self.alternate_low.store(bounds.low, Ordering::Relaxed);
        self.alternate_high.store(bounds.high, Ordering::Relaxed);
    }

    /// Returns the save area, where registers may be stored if the stack has no room: its address, and its size in bytes.
    pub fn save_area(&self) -> (*mut u8, usize) {
        (self.save_area.load(Ordering::Relaxed), self.save_area_size.load(Ordering::Relaxed))
    }

    /// Sets the number of bytes of the save area that hold registers of the stopped thread, at most its size. The collector scans
    /// them in this stop. Call this after the registers have been stored. Each stop begins with 0.
    pub fn set_save_area_used(&self, bytes: usize) {
        let bytes = bytes.min(self.save_area_size.load(Ordering::Relaxed));
        // Release: pairs with the Acquire in `saved_registers`: the registers are in place.
        self.save_area_used.store(bytes as u32, Ordering::Release);
    }

    /// Returns the part of the save area that holds registers: its lowest address and its end.
    pub(super) fn saved_registers(&self) -> Option<(usize, usize)> {
        // Acquire: pairs with the Release in `set_save_area_used`.
        let used = self.save_area_used.load(Ordering::Acquire) as usize;
        let low = self.save_area.load(Ordering::Relaxed) as usize;
        (used != 0).then_some((low, low + used))
    }

    /// Returns the thread's side of the handshake.
    pub(crate) fn stop_state(&self) -> &StopState {
        &self.state
    }

    /// Returns the word with which a debugger that holds the thread acknowledges a stop.
    pub(crate) fn frozen_word(&self) -> &AtomicU64 {
        &self.frozen
    }

    /// Returns the word in which the collector notes that it has counted a debugger's acknowledgement.
    pub(crate) fn counted_word(&self) -> &AtomicU32 {
        &self.counted
    }

    /// Returns the word that is not 0 while the thread is in a short section that it finishes before it parks.
    pub(crate) fn undisturbed_word(&self) -> &AtomicU32 {
        &self.undisturbed
    }

    /// Returns the time at which the thread stopped, by CLOCK_MONOTONIC in nanoseconds. Meaningful inside a stop: a time before
    /// the stop began means that the thread was stopped already.
    pub fn stopped_at(&self) -> u64 {
        self.stopped_at.load(Ordering::Relaxed)
    }

    /// Returns whether the thread is in a blocking region. A hint, unless the thread is stopped.
    pub fn is_blocking(&self) -> bool {
        self.state.handshake_state() == HandshakeState::Blocking
    }

    /// Returns whether the thread is suspended by [`World::suspend`](crate::World::suspend) or a debugger.
    pub fn is_suspended(&self) -> bool {
        self.state.is_held_by(Holder::User)
    }

    /// Returns whether the thread was found to have ended without detaching. Its stack is not scanned.
    pub fn is_gone(&self) -> bool {
        self.gone.load(Ordering::Relaxed) != 0
    }

    /// Returns whether the thread has ended without detaching, as far as one load of its liveness mutex shows.
    #[inline]
    pub(super) fn has_died(&self) -> bool {
        self.liveness.owner_has_died() && !removed(Guard::StopSilentDeath)
    }

    /// For a vtable: notes that the thread does not exist any more. Its stack is not scanned, and its record is freed after the
    /// stop.
    pub fn mark_gone(&self) {
        self.gone.store(1, Ordering::Relaxed);
    }

    /// Returns the serial of this use of the record: two threads that had the same record have different serials.
    pub fn serial(&self) -> u64 {
        self.serial.load(Ordering::Relaxed)
    }

    /// Returns the mutator's own structure, as stored by [`set_user`](Self::set_user).
    #[inline]
    pub(crate) fn user(&self) -> *mut () {
        // Acquire: pairs with the Release in `set_user`.
        self.user.load(Ordering::Acquire)
    }

    /// Stores the mutator's own structure.
    pub(crate) fn set_user(&self, user: *mut ()) {
        self.user.store(user, Ordering::Release);
    }

    /// Returns the number of the thread's cost centre stack.
    #[inline(always)]
    pub(crate) fn cost_stack(&self) -> u32 {
        self.cost_stack.get()
    }

    /// Returns the word that holds the number of the thread's cost centre stack.
    pub(crate) fn cost_stack_word(&self) -> &CurrentId {
        &self.cost_stack
    }

    /// Moves the thread from one cost centre stack to another. Called by the thread itself.
    #[inline(always)]
    pub(crate) fn change_cost_stack(&self, before: u32, now: u32) {
        self.left_cost_stack.store(before, Ordering::Relaxed);
        self.cost_stack.set(now);
    }

    /// Returns the number of the cost centre stack that the thread was in before the present one. 0 if that was MAIN, or if the
    /// thread has not changed its stack since [`forget_left_cost_stack`](Self::forget_left_cost_stack). Only for the thread itself
    /// are the data of the stack with this number certain to be visible.
    pub(crate) fn left_cost_stack(&self) -> u32 {
        self.left_cost_stack.load(Ordering::Relaxed)
    }

    /// Forgets the previous cost centre stack. Any thread may call this: if the thread changes its stack at the same moment, the
    /// new value may be forgotten too.
    pub(crate) fn forget_left_cost_stack(&self) {
        if self.left_cost_stack() != 0 {
            self.left_cost_stack.store(0, Ordering::Relaxed);
        }
    }

    /// Records that the thread detaches and has reported its uncharged processor time to the time profile: the ticker must not begin to
    /// track it again.
    pub(crate) fn settle(&self) {
        self.settled.store(true, Ordering::Relaxed);
    }

    /// Returns whether the thread has reported its uncharged processor time to the time profile, as it does when it detaches.
    pub(crate) fn has_settled(&self) -> bool {
        self.settled.load(Ordering::Relaxed)
    }

    /// Notes that the thread begins to collect, at this value of its processor time.
    pub(crate) fn begins_to_collect(&self, cpu_ns: u64) {
        self.collects_since.store(cpu_ns.max(1), Ordering::Relaxed);
    }

    /// Notes that the thread has finished collecting, at this value of its processor time.
    pub(crate) fn has_collected(&self, cpu_ns: u64) {
        let took = cpu_ns.saturating_sub(self.collects_since.load(Ordering::Relaxed));
        self.collects_since.store(0, Ordering::Relaxed);
        self.collected_ns.store(self.collected_ns.load(Ordering::Relaxed) + took, Ordering::Relaxed);
    }

    /// Returns whether the thread is collecting, for a time profile.
    pub(crate) fn collects(&self) -> bool {
        self.collects_since.load(Ordering::Relaxed) != 0
    }

    /// Returns the processor time that the thread's collections have taken, given that the thread's processor time is now `cpu_ns`.
    /// Approximate while a collection ends.
    pub(crate) fn collected_ns(&self, cpu_ns: u64) -> u64 {
        let since = match self.collects_since.load(Ordering::Relaxed) {
            0 => cpu_ns,
            since => since,
        };
        self.collected_ns.load(Ordering::Relaxed) + cpu_ns.saturating_sub(since)
    }

    /// Initialises a free record, which is in no list, for the calling thread.
    pub(super) fn prepare(&self, tid: Tid, name: ThreadName, stack: StackBounds, flags: u32) {
        self.stack_ptr.store(0, Ordering::Relaxed);
        self.saved_sp.store(0, Ordering::Relaxed);
        self.tid.store(tid.0, Ordering::Relaxed);
        self.owed.store(0, Ordering::Relaxed);
        self.stack_low.store(stack.low, Ordering::Relaxed);
        self.stack_high.store(stack.high, Ordering::Relaxed);
        self.save_area_used.store(0, Ordering::Relaxed);
        self.gone.store(0, Ordering::Relaxed);
        self.undisturbed.store(0, Ordering::Relaxed);
        self.frozen.store(0, Ordering::Relaxed);
        self.counted.store(0, Ordering::Relaxed);
        self.stopped_at.store(0, Ordering::Relaxed);
        self.user.store(std::ptr::null_mut(), Ordering::Relaxed);
        self.collects_since.store(0, Ordering::Relaxed);
        self.collected_ns.store(0, Ordering::Relaxed);
        self.settled.store(false, Ordering::Relaxed);
        self.cost_stack.set(0);
        self.left_cost_stack.store(0, Ordering::Relaxed);
        self.flags.store(flags, Ordering::Relaxed);
        self.serial.fetch_add(1, Ordering::Relaxed);
        for (word, value) in self.name.iter().zip(name.to_words()) {
            word.store(value, Ordering::Relaxed);
        }
    }
}

impl std::fmt::Debug for ThreadStopInfo {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ThreadStopInfo")
            .field("name", &self.name())
            .field("tid", &self.tid())
            .field("stack_ptr", &format_args!("{:#x}", self.stack_ptr.load(Ordering::Relaxed)))
            .field("state", &self.state.handshake_state())
            .finish_non_exhaustive()
    }
}

/// The word of a thread's record in which the vtable or debugger that stops the thread stores the lowest address of its live stack.
///
/// Only [`ThreadStopInfo::slot`] makes one, and records are never unmapped. So a slot is always the address of a readable word,
/// even after its thread has ended and the record belongs to another thread. A slot cannot be made from an address:
///
/// ```compile_fail,E0308
/// use stopworld::debugger::mock::MockDebugger;
/// use stopworld::{ThreadVtable, Tid};
///
/// let debugger = MockDebugger::new().unwrap();
/// debugger.thread_created(Tid(1), std::ptr::without_provenance_mut(0x1000));
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Slot(&'static ThreadStopInfo);

impl Slot {
    /// Returns the record that the slot belongs to.
    pub fn record(self) -> &'static ThreadStopInfo {
        self.0
    }

    /// Returns the address of the word, as it is passed to a debugger outside the process.
    pub fn as_ptr(self) -> *mut usize {
        self.0.stack_ptr.as_ptr()
    }

    /// Stores the lowest address of the thread's live stack.
    ///
    /// # Safety
    /// If a stop of the thread's world succeeds with this value, every reference that the stopped thread needs is between this
    /// address and the base of the stack that it points into, or in the record's save area.
    pub unsafe fn store(self, stack_ptr: usize) {
        // Release: pairs with the Acquire in `ThreadStopInfo::stack_ptr`.
        self.0.stack_ptr.store(stack_ptr, Ordering::Release);
    }
}

impl PartialEq for Slot {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self.0, other.0)
    }
}

impl Eq for Slot {}

/// The number of records per chunk.
const CHUNK: usize = 64;

/// Mapped memory with [`CHUNK`] records.
pub(super) type Chunk = &'static [ThreadStopInfo];

/// The chunks of closed worlds.
static POOL: Locked<Vec<Chunk>> = Locked::new(Vec::new());

/// Returns a chunk of free records. May allocate and map memory, so it is never called inside a stop.
pub(super) fn take_chunk() -> io::Result<Chunk> {
    let pooled = POOL.get_mut(&mut POOL.lock().lock()).pop();
    pooled.map_or_else(map_chunk, Ok)
}

/// Returns chunks, whose records are all free, to the pool.
pub(super) fn give_chunks(chunks: Vec<Chunk>) {
    POOL.get_mut(&mut POOL.lock().lock()).extend(chunks);
}

/// The pool's lock, which a fork takes before it and resets in the child.
pub(super) fn pool_lock() -> &'static Lock {
    POOL.lock()
}

fn map_chunk() -> io::Result<Chunk> {
    let save_area_size = register_bytes();
    let records = CHUNK * size_of::<ThreadStopInfo>();
    let base = memory::map_anonymous(records + CHUNK * save_area_size)?;
    let first = base.cast::<ThreadStopInfo>();
    // SAFETY: fresh zeroed memory, aligned to a page, long enough; a zeroed record is a valid detached one (all
    // fields are integers, pointers, or types that document it). Never unmapped, so 'static.
    let chunk = unsafe { std::slice::from_raw_parts(first, CHUNK) };
    for (i, record) in chunk.iter().enumerate() {
        // SAFETY: inside the mapping, after the records.
        let area = unsafe { base.add(records + i * save_area_size) };
        record.save_area.store(area, Ordering::Relaxed);
        record.save_area_size.store(save_area_size, Ordering::Relaxed);
    }
    Ok(chunk)
}

/// Returns the bytes needed for all registers: the general ones and the largest extended state of this processor, rounded up to a
/// multiple of 64.
pub(crate) fn register_bytes() -> usize {
    const GENERAL: usize = 256;
    const FXSAVE: u32 = 512;
    // Leaf 0xD, sub-leaf 0, ecx: bytes that XSAVE needs with all features of the processor enabled.
    let leaves = std::arch::x86_64::__cpuid(0).eax;
    let extended = if leaves >= 0xd { std::arch::x86_64::__cpuid_count(0xd, 0).ecx.max(FXSAVE) } else { FXSAVE };
    GENERAL + (extended as usize).next_multiple_of(64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_published_offsets_lead_to_the_fields() {
        let chunk = take_chunk().unwrap();
        let record = &chunk[3];
        record.prepare(Tid(42), ThreadName::new("probe"), StackBounds { low: 4096, high: 8192 }, 0);
        record.stack_ptr.store(5000, Ordering::Relaxed);
        let base = std::ptr::from_ref(record).cast::<u8>();
        // SAFETY: offsets inside the record, each of the type that is read.
        unsafe {
            assert_eq!(base.add(OFFSETS.stack_ptr).cast::<usize>().read(), 5000);
            assert_eq!(base.add(OFFSETS.tid).cast::<i32>().read(), 42);
            assert_eq!(base.add(OFFSETS.stack_high).cast::<usize>().read(), 8192);
            assert_eq!(base.add(OFFSETS.name).read(), 5);
            assert_eq!(base.add(OFFSETS.save_area).cast::<usize>().read(), record.save_area().0 as usize);
            assert!(std::ptr::eq(ThreadStopInfo::of_slot(record.slot().as_ptr()), record));
        }
        give_chunks(vec![chunk]);
    }

    #[test]
    fn the_save_area_has_room_for_avx() {
        assert!(register_bytes() >= 256 + 832);
    }
}
