//! What is known about one thread so that it can be stopped and scanned.
//!
//! Mono's collector had a `ThreadStopInfo` per thread with a field `stack_ptr`: the suspend handler stored its stack
//! pointer there, and a debugger that had taken over stopping wrote the same field instead. It is the same here. Whoever
//! stops a thread must leave in [`stack_ptr`](ThreadStopInfo::stack_ptr) the lowest address of the thread's live stack; the
//! collector scans from there to the stack's base, and knows nothing about how the thread was stopped.
//!
//! # The layout
//!
//! `#[repr(C)]`, with the offsets that a debugger needs published in [`OFFSETS`]. The first cache line has everything
//! that a stop touches for a thread that already stands (in a blocking region, parked): a stop over hundreds of them
//! is a walk over as many adjacent lines, under 50 ns each.
//!
//! ```text
//!   line 0   stack_ptr | saved_sp | state, resume | tid, owed | stack_low | stack_high | save_area_used, gone
//!   line 1   what the handler writes (stopped_at, alternate stack), the pulse: what a stop reads once all stand
//!   line 2+  the owner, the name, the mutator's own word …
//! ```
//!
//! # Type-stable memory
//!
//! Records live in mapped chunks of 64, which are never unmapped and only ever hold records: a debugger, or a late
//! signal handler, that still has an address reads a record, perhaps another thread's, never something else. Chunks
//! go from a closed world to the next one through a process-wide pool.

use std::io;
use std::mem::size_of;

use crate::os::thread::{Pulse, StackBounds};
use crate::os::{Tid, memory};
use crate::sabotage::{Guard, removed};
use crate::sync::{
    AtomicBool, AtomicI32, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Lock, Locked, Ordering, Present,
};

use super::handshake::{Holder, Place, StopState};
use super::name::ThreadName;

/// The record of one thread. See the module's text.
#[repr(C, align(64))]
pub struct ThreadStopInfo {
    /// The lowest address of the live stack, written by whoever stops the thread; 0 while it is not stopped.
    pub(super) stack_ptr: AtomicUsize,
    /// What the thread itself published when it last entered a blocking region or parked. The built-in stoppers copy
    /// it to `stack_ptr`.
    pub(super) saved_sp: AtomicUsize,
    pub(super) state: StopState,
    pub(super) tid: AtomicI32,
    /// 1: a suspend signal was sent that the handler has not seen yet.
    pub(super) owed: AtomicU32,
    pub(super) stack_low: AtomicUsize,
    pub(super) stack_high: AtomicUsize,
    /// How many bytes of the save area hold registers; 0 outside a stop.
    pub(super) save_area_used: AtomicU32,
    /// 1: the kernel has no such thread any more; it ended without telling anybody.
    pub(super) gone: AtomicU32,

    // second line
    pub(super) stopped_at: AtomicU64,
    pub(super) alternate_low: AtomicUsize,
    pub(super) alternate_high: AtomicUsize,
    /// Whether the thread still lives, also in a blocking region, where nobody signals it.
    pub(super) pulse: Pulse,

    // third line
    pub(super) save_area: AtomicPtr<u8>,
    pub(super) save_area_size: AtomicUsize,
    /// The [`Threads`](super::registry::Threads) of the world that the thread is attached to: one strong count, from attach to detach. Only
    /// `registry.rs` follows it.
    pub(super) owner: AtomicPtr<()>,
    /// The mutator's own structure.
    user: AtomicPtr<()>,
    pub(super) flags: AtomicU32,
    /// 1: did not answer the stop that was abandoned last.
    pub(super) silent: AtomicU32,
    /// Position in the list of living threads; guarded by the thread list lock.
    pub(super) index: AtomicU32,
    name: [AtomicU64; 4],
    /// Grows with each use of the record: two uses of one record are told apart by it.
    pub(super) serial: AtomicU64,
    /// 1: the thread is in the middle of something short, at whose end it stops itself.
    pub(super) undisturbed: AtomicU32,
    /// A debugger's answer: the epoch of the stop for which it holds the thread and has written its registers.
    pub(super) frozen: AtomicU64,
    /// 1: the collector has taken that answer off its count.
    pub(super) counted: AtomicU32,
    /// The list that debuggers walk (`published.rs`); changed under the thread list lock.
    pub(super) next: AtomicPtr<ThreadStopInfo>,
    pub(super) previous: AtomicPtr<ThreadStopInfo>,
    /// The number of the cost centre stack that the thread is in.
    cost_stack: Present,
    /// That which it was in before, if it has changed it since a time profile looked; else 0. Beside the other, so that the store costs
    /// nothing.
    left_cost_stack: AtomicU32,
    /// For a time profile: the thread has settled, since it detaches; the processor time at which the collection began
    /// that it makes, 0 if it makes none; what collections have taken of it.
    settled: AtomicBool,
    collects_since: AtomicU64,
    collected_ns: AtomicU64,
}

/// `flags`: the process's first thread, whose stack grows on demand.
pub(super) const MAIN_THREAD: u32 = 1;
/// `flags`: attach unblocked the suspend signal; detach blocks it again.
pub(super) const WAS_BLOCKED: u32 = 2;

/// Where a debugger finds the fields of a [`ThreadStopInfo`], in bytes from its start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct StopInfoOffsets {
    /// Size of a record.
    pub size: usize,
    /// `stack_ptr`: write the lowest address of the live stack here.
    pub stack_ptr: usize,
    /// `saved_sp`: what the thread itself last published.
    pub saved_sp: usize,
    /// The state word of the handshake.
    pub state: usize,
    /// The kernel's thread id, 32 bits.
    pub tid: usize,
    /// Lowest usable address of the thread's stack.
    pub stack_low: usize,
    /// The stack's base.
    pub stack_high: usize,
    /// Pointer to the save area.
    pub save_area: usize,
    /// Size of the save area.
    pub save_area_size: usize,
    /// How many bytes of it hold registers, 32 bits: write this last.
    pub save_area_used: usize,
    /// One byte of length, then the name.
    pub name: usize,
    /// A debugger that holds the thread writes the epoch of the stop here, after everything else. 64 bits.
    pub frozen: usize,
    /// The next record of the world's threads, or 0.
    pub next: usize,
    /// Grows with each use of the record, 64 bits: two threads that had the same record are told apart by it.
    pub serial: usize,
}

/// The published offsets.
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

// The claim of the module's text: what a stop touches for a standing thread is one line.
const _: () = assert!(memoffset::offset_of!(ThreadStopInfo, stopped_at) == 64);

impl ThreadStopInfo {
    /// The kernel's id of the thread.
    pub fn tid(&self) -> Tid {
        Tid(self.tid.load(Ordering::Relaxed))
    }

    /// The thread's name, as given at attach.
    pub fn name(&self) -> ThreadName {
        ThreadName::from_words(std::array::from_fn(|i| self.name[i].load(Ordering::Relaxed)))
    }

    /// The lowest address of the live stack, while the thread is stopped; otherwise 0 or stale.
    #[inline]
    pub fn stack_ptr(&self) -> usize {
        // Acquire: pairs with the Release of whoever stops the thread without the handshake (a debugger in this process).
        self.stack_ptr.load(Ordering::Acquire)
    }

    /// What the thread itself published last is where its live stack begins: for one that stands in a region, or parked.
    pub(crate) fn use_saved_sp(&self) {
        self.stack_ptr.store(self.saved_sp.load(Ordering::Relaxed), Ordering::Relaxed);
    }

    /// The slot of this thread: its `stack_ptr`.
    pub fn slot(&'static self) -> Slot {
        Slot(self)
    }

    /// The record whose `stack_ptr` lies at this address, found as a debugger outside of the process finds it.
    ///
    /// # Safety
    /// `slot` is from [`Slot::as_ptr`].
    pub(crate) unsafe fn of_slot(slot: *mut usize) -> &'static Self {
        // SAFETY: by the caller; records are never unmapped.
        unsafe { &*slot.byte_sub(OFFSETS.stack_ptr).cast::<Self>() }
    }

    /// The stack's lowest usable address and its base.
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

    /// Where registers may be saved when the stack has no room: address and size.
    pub fn save_area(&self) -> (*mut u8, usize) {
        (self.save_area.load(Ordering::Relaxed), self.save_area_size.load(Ordering::Relaxed))
    }

    /// Declares how many bytes of the save area hold registers of the stopped thread.
    pub fn set_save_area_used(&self, bytes: usize) {
        let bytes = bytes.min(self.save_area_size.load(Ordering::Relaxed));
        // Release: pairs with the Acquire in `saved_registers`: the registers are in place.
        self.save_area_used.store(bytes as u32, Ordering::Release);
    }

    /// The part of the save area that holds registers.
    pub(super) fn saved_registers(&self) -> Option<(usize, usize)> {
        // Acquire: pairs with the Release in `set_save_area_used`.
        let used = self.save_area_used.load(Ordering::Acquire) as usize;
        let low = self.save_area.load(Ordering::Relaxed) as usize;
        (used != 0).then_some((low, low + used))
    }

    /// The thread's side of the handshake.
    pub(crate) fn stop_state(&self) -> &StopState {
        &self.state
    }

    /// Where a debugger that holds the thread answers for it.
    pub(crate) fn frozen_word(&self) -> &AtomicU64 {
        &self.frozen
    }

    /// Where the collector notes that it has counted that.
    pub(crate) fn counted_word(&self) -> &AtomicU32 {
        &self.counted
    }

    /// Not 0 while the thread does something short that it ends before it parks.
    pub(crate) fn undisturbed_word(&self) -> &AtomicU32 {
        &self.undisturbed
    }

    /// When the thread stood, by CLOCK_MONOTONIC in nanoseconds; meaningful inside a stop. A time before the stop was asked for
    /// means that it stood already.
    pub fn stopped_at(&self) -> u64 {
        self.stopped_at.load(Ordering::Relaxed)
    }

    /// Whether the thread is in a blocking region (a hint, unless it is stopped).
    pub fn is_blocking(&self) -> bool {
        self.state.place() == Place::Blocking
    }

    /// Whether a user (a debugger) holds the thread through the built-in suspension.
    pub fn is_suspended(&self) -> bool {
        self.state.is_held_by(Holder::User)
    }

    /// Whether the kernel says that the thread ended without detaching. Its stack is not scanned.
    pub fn is_gone(&self) -> bool {
        self.gone.load(Ordering::Relaxed) != 0
    }

    /// Whether the thread has ended without detaching, as far as one load can tell.
    #[inline]
    pub(super) fn has_died(&self) -> bool {
        self.pulse.has_stopped() && !removed(Guard::StopSilentDeath)
    }

    /// A vtable found that the thread does not exist any more. Its record is buried after the stop.
    pub fn mark_gone(&self) {
        self.gone.store(1, Ordering::Relaxed);
    }

    /// Two uses of one record have different serials.
    pub fn serial(&self) -> u64 {
        self.serial.load(Ordering::Relaxed)
    }

    /// The mutator's own structure: whatever [`set_user`](Self::set_user) stored.
    #[inline]
    pub(crate) fn user(&self) -> *mut () {
        // Acquire: pairs with the Release in `set_user`.
        self.user.load(Ordering::Acquire)
    }

    /// Stores the mutator's own structure.
    pub(crate) fn set_user(&self, user: *mut ()) {
        self.user.store(user, Ordering::Release);
    }

    /// The number of the thread's cost centre stack.
    #[inline(always)]
    pub(crate) fn cost_stack(&self) -> u32 {
        self.cost_stack.get()
    }

    /// Where that number stands.
    pub(crate) fn cost_stack_word(&self) -> &Present {
        &self.cost_stack
    }

    /// The thread goes from one cost centre stack to another. For the thread itself.
    #[inline(always)]
    pub(crate) fn change_cost_stack(&self, before: u32, now: u32) {
        self.left_cost_stack.store(before, Ordering::Relaxed);
        self.cost_stack.set(now);
    }

    /// The number of the stack that the thread was in before the present one; 0 if that was MAIN, or if it has not changed it since
    /// somebody [forgot](Self::forget_left_cost_stack). What the number stands for only the thread itself is sure to find.
    pub(crate) fn left_cost_stack(&self) -> u32 {
        self.left_cost_stack.load(Ordering::Relaxed)
    }

    /// From now on counts only what it leaves from now on. For anybody: if the thread leaves one at this moment, either is forgotten.
    pub(crate) fn forget_left_cost_stack(&self) {
        if self.left_cost_stack() != 0 {
            self.left_cost_stack.store(0, Ordering::Relaxed);
        }
    }

    /// The thread settles with the time profile, since it detaches.
    pub(crate) fn settle(&self) {
        self.settled.store(true, Ordering::Relaxed);
    }

    /// Whether it has.
    pub(crate) fn has_settled(&self) -> bool {
        self.settled.load(Ordering::Relaxed)
    }

    /// The thread, whose processor time this is, begins to collect.
    pub(crate) fn begins_to_collect(&self, cpu_ns: u64) {
        self.collects_since.store(cpu_ns.max(1), Ordering::Relaxed);
    }

    /// It has done so.
    pub(crate) fn has_collected(&self, cpu_ns: u64) {
        let took = cpu_ns.saturating_sub(self.collects_since.load(Ordering::Relaxed));
        self.collects_since.store(0, Ordering::Relaxed);
        self.collected_ns.store(self.collected_ns.load(Ordering::Relaxed) + took, Ordering::Relaxed);
    }

    /// Whether it is at it, as far as somebody wants to know.
    pub(crate) fn collects(&self) -> bool {
        self.collects_since.load(Ordering::Relaxed) != 0
    }

    /// What collections have taken of the thread's processor time until it was `cpu_ns`: nearly, at the moment when one ends.
    pub(crate) fn collected_ns(&self, cpu_ns: u64) -> u64 {
        let since = match self.collects_since.load(Ordering::Relaxed) {
            0 => cpu_ns,
            since => since,
        };
        self.collected_ns.load(Ordering::Relaxed) + cpu_ns.saturating_sub(since)
    }

    /// Makes a free record, which no list has, that of the calling thread.
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
            .field("place", &self.state.place())
            .finish_non_exhaustive()
    }
}

/// The `stack_ptr` of a thread's record: the vtable or debugger that stops the thread stores the lowest address of its live stack there.
///
/// Only a record gives one out, and records are never unmapped, so a slot is always the address of a readable word, also when its
/// thread has ended and the record is another thread's. None can be made of an address:
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
    /// The record that the slot belongs to.
    pub fn record(self) -> &'static ThreadStopInfo {
        self.0
    }

    /// The address of the word, as requests to a debugger outside of the process give it.
    pub fn as_ptr(self) -> *mut usize {
        self.0.stack_ptr.as_ptr()
    }

    /// Stores the lowest address of the live stack.
    ///
    /// # Safety
    /// If a stop of the thread's world succeeds with this value, everything that the stopped thread needs lies between this
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

/// Records per chunk.
const CHUNK: usize = 64;

/// A piece of mapped memory with [`CHUNK`] records.
pub(super) type Chunk = &'static [ThreadStopInfo];

/// Chunks of closed worlds.
static POOL: Locked<Vec<Chunk>> = Locked::new(Vec::new());

/// A chunk of free records. May allocate and map: never inside a stop.
pub(super) fn take_chunk() -> io::Result<Chunk> {
    let pooled = POOL.get_mut(&mut POOL.lock().lock()).pop();
    pooled.map_or_else(map_chunk, Ok)
}

/// Gives chunks back whose records are all free.
pub(super) fn give_chunks(chunks: Vec<Chunk>) {
    POOL.get_mut(&mut POOL.lock().lock()).extend(chunks);
}

/// In a fork's child: whoever held the pool's lock does not exist here.
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
        // SAFETY: inside the mapping, behind the records.
        let area = unsafe { base.add(records + i * save_area_size) };
        record.save_area.store(area, Ordering::Relaxed);
        record.save_area_size.store(save_area_size, Ordering::Relaxed);
    }
    Ok(chunk)
}

/// Room for all registers: the general ones and the largest extended state of this processor, in multiples of 64.
pub(crate) fn register_bytes() -> usize {
    const GENERAL: usize = 256;
    const FXSAVE: u32 = 512;
    // Leaf 0xD, sub-leaf 0, ecx: bytes that XSAVE needs with everything the processor has switched on.
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
