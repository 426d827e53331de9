//! [`Mutator`], a thread that allocates.

use std::cell::Cell;
use std::fmt;
use std::marker::PhantomData;
use std::mem::{ManuallyDrop, align_of, needs_drop, size_of};
use std::ptr;
use std::time::Duration;

use super::inner::ThreadNews;
use super::own_walker::OwnWalker;
use super::{Exhausted, OutOfMemory, StackGuard, World};
#[cfg(feature = "check")]
use crate::collector::promise::Promise;
use crate::collector::report::{CollectionReport, Reason};
use crate::collector::{CollectError, Collected, Collecting};
use crate::events::{EventId, Events, record};
use crate::heap::arena_thread::DueCollection;
use crate::heap::cache::AllocationCache;
use crate::heap::large::blocks_of;
use crate::heap::layout::{
    BLOCK_BYTES, CELL_BYTES, CLASSES, FIRST_CELL, HEADER_BYTES, Space, bin, class_of, class_of_size,
};
use crate::heap::pointer::{Gc, Weak, WeakCell};
use crate::heap::trace::{Described, Shape, Trace, TypeInfo};
use crate::heap::{Need, Refill};
use crate::os::callback::refuse_inside;
use crate::os::clock::now_ns;
use crate::os::thread::NotCancelled;
use crate::profile::{self, StackId};
use crate::sync::{Lock, LockGuard, Ordering};
use crate::world::stop_info::ThreadStopInfo;
use crate::world::{AttachError, ThreadName, Tid};

/// A thread fires an allocation tick each time it has been given this many bytes, as in .NET.
const TICK_BYTES: usize = 100 << 10;

/// The name of all allocating functions in the message of an abort (`refuse_inside`).
const ALLOCATION: &str = "an allocation";

/// The number of types for which a thread stores that it has named them in the trace.
const TYPES_TOLD: usize = 16;

/// An attached thread's permission to allocate in a [`World`]. Dropping it detaches the thread.
///
/// [`World::attach`] and [`World::spawn`] make one. It is neither `Send` nor `Sync`: it stays on the thread that it belongs to. It
/// contains a handle to its world, so the world stays open as long as it exists.
///
/// ```
/// use stopworld::World;
///
/// let world = World::builder().build()?;
/// // SAFETY: this thread keeps every `Gc` in local variables, and uses none in a blocking region.
/// let mutator = unsafe { world.attach("main") }?;
/// let squares = mutator.alloc_array(1000, |i| (i * i) as u64)?;
/// // A collection by another thread does not wait for this system call.
/// let status = mutator.blocking(|| std::fs::read_to_string("/proc/self/status"))?;
/// for _ in status.lines() {
///     mutator.safepoint(); // for `Stopper::Safepoints`
/// }
/// mutator.collect()?;
/// assert_eq!(squares[12], 144);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Panics
/// An allocation inside the thread's own [blocking](Self::blocking) region panics if the thread's current run of free cells is used up.
pub struct Mutator {
    pub(super) record: &'static ThreadStopInfo,
    /// The cache is boxed, because the collector uses its address. It is freed after the thread has detached.
    pub(super) cache: Box<AllocationCache>,
    world: World,
    since_tick: Cell<usize>,
    pub(super) walker: OwnWalker,
    /// The serial of the record's use by this thread: another value means that the record now belongs to another thread.
    serial: u64,
    /// Types that this thread has named in the trace, hashed by address, with the value of [`Events::changes`] at that time.
    told: [Cell<(usize, u32)>; TYPES_TOLD],
    _stays_on_its_thread: PhantomData<*mut ()>,
}

impl World {
    /// Makes the calling thread a mutator of this world, until the returned [`Mutator`] is dropped. An [`Arena`](crate::Arena) is a way to
    /// collected objects without `unsafe`.
    ///
    /// `name` appears in errors, reports and events; it is cut to 31 bytes. A thread can be attached to one world at a time.
    /// Attaching waits for a running collection, and unblocks the suspend signal in this thread until it detaches.
    ///
    /// # Errors
    /// The thread is attached already, the world is closed, or the system refused memory or the bounds of the thread's stack.
    ///
    /// # Safety
    /// While attached, the thread keeps every `Gc` of this world that it will use again, and every
    /// [collection](crate::collections), where the collector looks: on its stack or in its registers, in other collected objects, in
    /// a [`Root`](crate::Root), or in a registered range. A `Box`, a `Vec`, a thread-local or a future is not enough. The same holds for references into objects, which are `Send` although a `Gc` is not
    /// (the closure of a scoped thread is in a `Box`), and for the finalizers that the thread registers. The stable sort of std (`slice::sort_by` and
    /// others) moves elements through such a `Vec`: an array with a `Gc` is sorted by `sort_unstable`, or in a [`GcVec`](crate::GcVec).
    ///
    /// In a [blocking](Mutator::blocking) region, also of a function that is documented to run code of the program in one
    /// ([`in_blocking_region`](crate::events::record::in_blocking_region) and others), and in code that the collector calls (an event [sink](crate::events::Sink), a
    /// [thread vtable](crate::ThreadVtable)), the thread uses neither a `Gc` nor a mutator, even one in a thread-local.
    ///
    /// The thread uses no `Gc` after it has detached, and passes none to another world.
    pub unsafe fn attach(&self, name: &str) -> Result<Mutator, AttachError> {
        Mutator::attach(self.clone(), name)
    }
}

impl Mutator {
    pub(super) fn attach(world: World, name: &str) -> Result<Self, AttachError> {
        refuse_inside("World::attach");
        let _whole = NotCancelled::begin();
        crate::events::record::ring::allocate_thread_local();
        let record = world.collector().threads.attach(name)?;
        let cache = {
            // It holds addresses of objects without keeping them.
            #[cfg(feature = "check")]
            let _own_memory = crate::check::OwnMemory::begin();
            Box::new(world.collector().heap.new_cache(record.cost_stack_word()))
        };
        #[cfg(feature = "check")]
        world.collector().promise.iter().for_each(Promise::attached);
        record.set_user(ptr::from_ref(&*cache).cast_mut().cast());
        world.inner().ticker.joined(record);
        world.inner().report_thread(record, ThreadNews::Attached);
        Ok(Self {
            record,
            cache,
            serial: record.serial(),
            since_tick: Cell::new(0),
            walker: OwnWalker::default(),
            told: [const { Cell::new((0, 0)) }; TYPES_TOLD],
            _stays_on_its_thread: PhantomData,
            world,
        })
    }

    /// Returns the world that this thread is attached to.
    pub fn world(&self) -> &World {
        &self.world
    }

    /// Returns the name given at attach, cut to 31 bytes.
    pub fn name(&self) -> ThreadName {
        self.record.name()
    }

    /// Returns the kernel's id of this thread.
    pub fn tid(&self) -> Tid {
        self.record.tid()
    }

    /// Moves `value` into the collected heap and returns a reference to it.
    ///
    /// Usually bumps a cursor in the thread's own run of free cells. When the run is empty, it gets another one, which may sweep
    /// a block or run a collection. If `T` has drop glue, it is registered to run as a finalizer.
    ///
    /// # Errors
    /// The heap limit is reached and collections did not free enough; `value` is dropped.
    #[inline(always)]
    pub fn alloc<T: Trace>(&self, value: T) -> Result<Gc<T>, OutOfMemory> {
        self.alloc_in::<T, { Space::Small as u8 }>(value)
    }

    /// Moves `value` into the pinned space, a separate space that reports show as generation 4. Use it to document that the object's
    /// address is used outside the heap. (Objects in the other spaces do not move either.)
    ///
    /// # Errors
    /// As [`alloc`](Self::alloc).
    pub fn alloc_pinned<T: Trace>(&self, value: T) -> Result<Gc<T>, OutOfMemory> {
        self.alloc_in::<T, { Space::Pinned as u8 }>(value)
    }

    #[inline(always)]
    fn alloc_in<T: Trace, const SPACE: u8>(&self, value: T) -> Result<Gc<T>, OutOfMemory> {
        let class = const { class_of(size_of::<T>(), align_of::<T>()) };
        let value = ManuallyDrop::new(value);
        let payload = if class == CLASSES {
            let payload = match self.large(size_of::<T>(), T::INFO) {
                Ok(payload) => payload,
                Err(error) => {
                    drop(ManuallyDrop::into_inner(value));
                    return Err(error);
                }
            };
            // SAFETY: the object is fresh, has this size and, because it begins a block, any alignment up to 16.
            unsafe {
                ptr::copy_nonoverlapping::<T>(&*value, payload.cast(), 1);
                T::clear_unused(payload.cast());
            }
            payload
        } else {
            let space = if SPACE == Space::Pinned as u8 { Space::Pinned } else { Space::Small };
            let bin = bin(space, class);
            loop {
                // SAFETY: this thread's own cache; the bin's class has cells of this size, which hold a `T` aligned;
                // copying bytes neither allocates nor unwinds.
                let cell = unsafe {
                    self.cache.allocate(bin, CELL_BYTES[class], ptr::from_ref(T::INFO) as usize, |payload| {
                        ptr::copy_nonoverlapping::<T>(&*value, payload.cast(), 1);
                        // Where all words of the cell are scanned, old words behind the value must not keep objects alive.
                        if const { matches!(T::SHAPE, Shape::Untyped) } {
                            let rest = CELL_BYTES[class] - HEADER_BYTES - size_of::<T>();
                            ptr::write_bytes(payload.add(size_of::<T>()), 0, rest);
                            T::clear_unused(payload.cast());
                        }
                    })
                };
                match cell {
                    Some(payload) => {
                        self.report_allocated(bin, payload, CELL_BYTES[class], T::INFO);
                        break payload;
                    }
                    None => {
                        if let Err(error) = self.refill(bin, size_of::<T>(), T::INFO) {
                            drop(ManuallyDrop::into_inner(value));
                            return Err(error);
                        }
                    }
                }
            }
        };
        // SAFETY: the value is in place, and the cell belongs to this object.
        let gc = unsafe { Gc::from_payload(ptr::NonNull::new_unchecked(payload)) };
        if const { needs_drop::<T>() } {
            self.register_drop(gc)?;
        }
        Ok(gc)
    }

    /// Allocates a [weak reference](Weak) to `target`. It is a separate collected object, two words long.
    ///
    /// # Errors
    /// As [`alloc`](Self::alloc).
    pub fn alloc_weak<T: ?Sized + 'static>(&self, target: Gc<T>) -> Result<Weak<T>, OutOfMemory> {
        self.alloc(WeakCell::new(target))
    }

    /// Names an object in the trace, for example a data structure of the program, if a consumer has enabled names. The name
    /// belongs to the address: after the object has been freed, it applies to the next object at this address, until that is named.
    pub fn name_object<T: ?Sized>(&self, gc: Gc<T>, text: &str) {
        let events = &self.world.collector().events;
        if events.is_enabled(EventId::Labelled) {
            events.name(Gc::addr(gc), text);
        }
    }

    /// Returns the cost centre stack that this thread is in. Its top is the centre of the innermost
    /// [scope](crate::cost_centre).
    #[inline]
    pub fn cost_stack(&self) -> StackId {
        StackId::from_raw(self.record.cost_stack())
    }

    /// Moves the thread to another cost centre stack: for an interpreter that enters and leaves cost centres without
    /// [scopes](crate::cost_centre).
    #[inline]
    pub fn set_cost_stack(&self, stack: StackId) {
        profile::change(self.record, self.cost_stack(), stack);
    }

    /// Stops here while the world is being stopped or this thread is suspended. Otherwise this costs one relaxed load.
    ///
    /// With [`Stopper::Safepoints`](crate::Stopper::Safepoints), call it in every loop that neither allocates nor blocks.
    #[inline(always)]
    pub fn safepoint(&self) {
        self.record.safepoint();
    }

    /// Runs `region`, which must not touch collected objects, and returns its result. Meanwhile a stop neither interrupts this
    /// thread nor waits for it: use it for system calls, locks and long computations.
    ///
    /// ```
    /// # use stopworld::World;
    /// use std::sync::Mutex;
    ///
    /// # let world = World::builder().build()?;
    /// # // SAFETY: this thread keeps every `Gc` in local variables.
    /// # let mutator = unsafe { world.attach("main") }?;
    /// static TOTAL: Mutex<u64> = Mutex::new(0);
    /// let mut total = mutator.blocking(|| TOTAL.lock()).unwrap(); // a collection does not wait for the lock
    /// *total += *mutator.alloc(7_u64)?; // outside the region again, with the lock
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Why the region reaches no object, although its result may be anything
    /// A reference can come into the region in three ways. Captured values are `Send`, which neither a `Gc` nor a mutator is, nor a `&T`
    /// to a type that contains one; so the region can neither use a `Gc` of its caller, nor get one from a [`Root`](crate::Root), for which it needs a
    /// mutator. Thread-locals are excluded by the safety requirement of [`World::attach`]; with a mutator from a thread-local,
    /// [`Root::get`](crate::Root::get) panics here, and so does an allocation as soon as the thread needs more cells; `serde` returns an error. And a thread that is attached can't attach again.
    /// A `&u64` into an object is `Send`: its address stays on this stack, in view of the collector, until the region ends.
    ///
    /// So the result contains no `Gc`, and need not be `Send`: it never leaves the thread. A guard like `MutexGuard` is held from
    /// the moment at which it was made, also while the thread waits for the world to restart. That delays no stop, because the collector
    /// takes no lock of the program.
    ///
    /// ```compile_fail,E0277
    /// # use stopworld::World;
    /// # let world = World::builder().build().unwrap();
    /// # // SAFETY: this thread keeps every `Gc` in local variables.
    /// # let mutator = unsafe { world.attach("main") }.unwrap();
    /// let object = mutator.alloc(7_u64).unwrap();
    /// mutator.blocking(|| *object);
    /// ```
    ///
    /// # Cost
    /// Entering and leaving cost one compare-exchange each. If the world is stopped when `region` ends, the thread waits until it
    /// restarts. Regions may nest.
    ///
    /// # Cancellation
    /// A thread may be cancelled in `region` (`pthread_cancel`, deferred) or call `pthread_exit` there. It then leaves the region
    /// and, when unwinding drops its `Mutator`, detaches; if the world is stopped, it first waits for the restart. In Rust the
    /// cancellation point must be declared `extern "C-unwind"`.
    ///
    /// Code that catches unwinding ends the process when a thread is cancelled inside it. The standard library catches unwinding
    /// at the bottom of every thread that it starts, so threads of [`World::spawn`] and of `std::thread`, and the finalizer
    /// thread, cannot be cancelled. Collecting, attaching and detaching contain no cancellation point. Asynchronous cancellation
    /// is not supported: it may interrupt an allocation.
    #[inline]
    pub fn blocking<R>(&self, region: impl FnOnce() -> R + Send) -> R {
        self.record.blocking(region)
    }

    /// Enters a blocking region that ends when the thread detaches. For a thread with an arena, whose stack is not scanned.
    pub(super) fn begin_blocking(&self) {
        self.record.begin_blocking();
    }

    /// Leaves the [blocking](Self::blocking) region that this thread is in, runs `code`, which may use the heap, and enters the region
    /// again. Outside a region this just calls `code`. Everything on the stack below the region stays in view of the collector.
    ///
    /// For runtimes whose code calls back into the program from a blocking region.
    pub fn unblocked<R>(&self, code: impl FnOnce() -> R) -> R {
        self.record.unblocked(code)
    }

    /// Runs a full collection on this thread and returns its report, as [`World::collect`] does.
    ///
    /// # Errors
    /// The world could not be stopped, or the paranoid mode found the heap damaged. The world continues to run.
    pub fn collect(&self) -> Result<CollectionReport, CollectError> {
        self.world.collect()
    }

    /// Registers the stack of a coroutine, to which this or another thread switches by itself. Each collection scans all of it,
    /// until the guard is dropped. A thread that is stopped on an unregistered stack makes the stop fail.
    ///
    /// # Safety
    /// The memory from `low` to `high` is readable until the guard is dropped.
    pub unsafe fn register_stack(&self, low: *const u8, high: *const u8) -> StackGuard {
        StackGuard::new(&self.world, low as usize, high as usize)
    }

    /// Implements [`crate::testing::charged_to`].
    pub(crate) fn charged_to(&self, payload: usize) -> Option<StackId> {
        self.cache.settle_charges();
        profile::charged_to(&self.world.collector().heap, payload)
    }

    /// Implements [`crate::testing::alloc_with_a_pause`].
    ///
    /// # Safety
    /// As for that function.
    pub(crate) unsafe fn alloc_with_a_pause<T: Trace>(
        &self,
        build: impl Fn(*mut T),
        meanwhile: impl Fn(),
    ) -> Result<Gc<T>, OutOfMemory> {
        let class = class_of(size_of::<T>(), align_of::<T>());
        assert!(class < CLASSES && !needs_drop::<T>(), "for small plain objects");
        let bin = bin(Space::Small, class);
        loop {
            // SAFETY: as in `alloc_in`; `build` and `meanwhile` neither allocate nor unwind, by the caller's promise.
            let cell = unsafe {
                self.cache.allocate(bin, CELL_BYTES[class], ptr::from_ref(T::INFO) as usize, |payload| {
                    build(payload.cast());
                    meanwhile();
                })
            };
            match cell {
                Some(payload) => {
                    self.report_allocated(bin, payload, CELL_BYTES[class], T::INFO);
                    // SAFETY: `build` has put the value in place, by the caller's promise.
                    return Ok(unsafe { Gc::from_addr(payload as usize) });
                }
                None => self.refill(bin, size_of::<T>(), T::INFO)?,
            }
        }
    }

    /// Takes a lock that a collecting thread may hold while it waits for this thread to stop.
    pub(crate) fn lock<'a>(&self, lock: &'a Lock) -> LockGuard<'a> {
        // A free lock is taken without a blocking region.
        // SAFETY: a mutator stays on the thread of its record, and the child of a fork updates the record's id.
        match unsafe { lock.try_lock_as(self.record.tid().0 as u32) } {
            Ok(guard) => guard,
            Err(_) => self.record.lock(lock),
        }
    }

    /// Takes a lock of the program. `None` if this thread holds it.
    pub(crate) fn lock_once<'a>(&self, lock: &'a Lock) -> Option<LockGuard<'a>> {
        let me = self.record.tid().0 as u32;
        // SAFETY: as in `lock`.
        match unsafe { lock.try_lock_as(me) } {
            Ok(guard) => Some(guard),
            Err(holder) if holder.0 == me => None,
            Err(_) => Some(self.record.lock(lock)),
        }
    }

    pub(super) fn allocation_lock(&self) -> LockGuard<'_> {
        self.lock(&self.world.collector().threads.locks().allocation)
    }

    /// Allocates a zeroed payload, which is safe to trace before its elements are written.
    pub(super) fn zeroed(
        &self,
        bytes: usize,
        align: usize,
        info: &'static TypeInfo,
        length: usize,
    ) -> Result<*mut u8, OutOfMemory> {
        let class = class_of_size(bytes, align);
        if class == CLASSES {
            let payload = self.large(bytes, info)?;
            // SAFETY: a fresh zeroed payload; an array begins with its length.
            unsafe { payload.cast::<usize>().write(length) };
            return Ok(payload);
        }
        let bin = bin(Space::Small, class);
        let zeroed = if matches!(info.shape, Shape::Untyped) { CELL_BYTES[class] - HEADER_BYTES } else { bytes };
        loop {
            // SAFETY: as in `alloc_in`; writing zeros and a length neither allocates nor unwinds.
            let cell = unsafe {
                self.cache.allocate(bin, CELL_BYTES[class], ptr::from_ref(info) as usize, |payload| {
                    ptr::write_bytes(payload, 0, zeroed);
                    payload.cast::<usize>().write(length);
                })
            };
            match cell {
                Some(payload) => {
                    self.report_allocated(bin, payload, CELL_BYTES[class], info);
                    return Ok(payload);
                }
                None => self.refill(bin, bytes, info)?,
            }
        }
    }

    /// Gets a new run of free cells for the bin; collects if necessary.
    #[cold]
    #[inline(never)]
    pub(super) fn refill(&self, bin: usize, requested: usize, info: &'static TypeInfo) -> Result<(), OutOfMemory> {
        refuse_inside(ALLOCATION);
        let each_allocation = self.collect_before_allocation();
        self.sample_cell_if_due(bin, info);
        if if each_allocation { self.cache.open_for_one(bin) } else { self.cache.reopen(bin) } {
            return Ok(());
        }
        self.until_collected(requested, |mutator| {
            let heap = &mutator.world.collector().heap;
            match heap.refill(&mutator.cache, bin, || mutator.allocation_lock()) {
                Refill::Ready => Ok(()),
                Refill::NeedsCollection(need) => Err(need),
            }
        })?;
        if each_allocation {
            self.sample_cell_if_due(bin, info);
            self.cache.open_for_one(bin);
        }
        self.report_refill(bin);
        self.report_allocation(bin, info);
        self.report_type(info);
        Ok(())
    }

    /// Fires the event of a new object, if per-object events are enabled. Called right after the allocation, before this thread does
    /// anything else.
    #[inline(always)]
    pub(super) fn report_allocated(&self, bin: usize, payload: *mut u8, cell_bytes: usize, info: &'static TypeInfo) {
        if self.world.collector().events.is_enabled(EventId::ObjectAllocated) {
            self.report_cell(bin, payload as usize, cell_bytes, info);
        }
    }

    /// Reports a new object exactly once (`.event.objects`). If a collection has run between the allocation and this call, it has found
    /// the object unreported, and has reported it. No collection may run between the event and `settle`: it would report the
    /// object a second time.
    #[cold]
    #[inline(never)]
    fn report_cell(&self, bin: usize, payload: usize, cell_bytes: usize, info: &'static TypeInfo) {
        refuse_inside(ALLOCATION);
        let header = payload - HEADER_BYTES;
        self.record.undisturbed(|| {
            if self.cache.unsettled(bin).contains(&header) {
                self.world.collector().events.fire_object_allocated(payload, cell_bytes);
                self.cache.settle(bin, header + cell_bytes);
            }
        });
        record::catch_up();
        self.report_type(info);
    }

    /// Names a type in the trace, if names are enabled and this thread has not done it recently for the present consumers.
    fn report_type(&self, info: &'static TypeInfo) {
        let events = &self.world.collector().events;
        if events.is_enabled(EventId::Labelled) {
            let address = ptr::from_ref(info) as usize;
            let now = (address, events.changes());
            if self.told[address / size_of::<TypeInfo>() % TYPES_TOLD].replace(now) != now {
                events.name(address, info.name());
            }
        }
    }

    fn report_refill(&self, bin: usize) {
        let collector = self.world.collector();
        let cell_bytes = CELL_BYTES[bin % CLASSES];
        if let Some(block) = self.cache.take_block_to_report() {
            let start = collector.heap.blocks.start(block);
            collector.events.fire_block_acquired(start, BLOCK_BYTES, (bin / CLASSES) as u32);
        }
        let (first, bytes) = self.cache.run(bin);
        collector.events.fire_cache_refilled(self.cache.buffer(bin), cell_bytes, first, bytes);
    }

    /// Allocates a large object with a zeroed payload.
    #[cold]
    #[inline(never)]
    pub(super) fn large(&self, bytes: usize, info: &'static TypeInfo) -> Result<*mut u8, OutOfMemory> {
        refuse_inside(ALLOCATION);
        self.collect_before_allocation();
        let payload = self.until_collected(bytes, |mutator| {
            let heap = &mutator.world.collector().heap;
            heap.allocate_large(&mutator.cache, bytes, info, || mutator.allocation_lock())
        })?;
        let events = &self.world.collector().events;
        // The allocation succeeded, so the size in blocks is known.
        let footprint = blocks_of(bytes).unwrap_or_default() * BLOCK_BYTES;
        let start = payload as usize - HEADER_BYTES - FIRST_CELL;
        events.fire_block_acquired(start, footprint, Space::Large as u32);
        self.sample_large_if_due(payload as usize, footprint, info);
        self.record.undisturbed(|| {
            // As for cells, a collection may have reported the object already.
            if let Some(object) = self.cache.take_large() {
                events.fire_object_allocated(object, footprint);
            }
        });
        record::catch_up();
        let of_type = ptr::from_ref(info) as usize;
        events.fire_large_allocated(payload as usize, bytes, of_type);
        events.fire_object_sampled(payload as usize, of_type, 1, footprint);
        self.tick(footprint, payload as usize, of_type, footprint, Space::Large);
        self.report_type(info);
        Ok(payload)
    }

    /// Lets an allocation in a scope of an [`Arena`](crate::Arena) go on, or fail, without the collection that it needs, which runs after the
    /// scope.
    fn postpone_to_end_of_scope(&self, need: Need, seen: u32) {
        let heap = &self.world.collector().heap;
        self.cache.arena.set_due(DueCollection { seen, is_requested: need == Need::Request });
        match need {
            Need::Request => heap.forget_request(),
            Need::Budget => heap.postpone_collection(&self.allocation_lock()),
            Need::Room => {}
        }
    }

    /// Runs the collection that became due in a scope, if there is one.
    pub(super) fn collect_after_scope(&self) {
        if let Some(DueCollection { seen, is_requested }) = self.cache.arena.take_due() {
            let reason = if is_requested { Reason::Explicit } else { Reason::Allocation };
            self.collect_quietly(Some(seen), reason);
        }
    }

    /// Collects, unless another thread has collected since. An error is reported to the failure listener only, and the thread continues.
    fn collect_quietly(&self, unless_after: Option<u32>, reason: Reason) {
        let collect = |own: &_| {
            let who = Collecting { unless_after, ..Collecting::now(Some(own)) };
            self.world.collector().collect(who, reason)
        };
        if let Ok(collected) = self.record.with_own_stack(collect) {
            self.world.inner().start_finalizers_if_due();
            collected.map(Collected::end);
        }
    }

    /// In a world that collects at each allocation, collects, and returns `true`. Then a bin is never opened for more than one cell, so
    /// that each allocation comes here.
    fn collect_before_allocation(&self) -> bool {
        let collector = self.world.collector();
        if !collector.pacing.each_allocation {
            return false;
        }
        let may_collect = collector.binding.as_ref().is_none_or(|binding| binding.may_collect());
        if may_collect && !self.record.is_blocking() && !self.cache.arena.is_in_scope() {
            self.collect_quietly(None, Reason::Allocation);
        }
        true
    }

    /// Repeats `attempt` until it succeeds, with a collection in between. Gives up when collections free no room.
    fn until_collected<R>(
        &self,
        requested: usize,
        attempt: impl Fn(&Self) -> Result<R, Need>,
    ) -> Result<R, OutOfMemory> {
        let collector = self.world.collector();
        let mut for_room = 0;
        let emergency = Emergency { events: &collector.events, requested, on: Cell::new(false) };
        let mut finalizers_seen = collector.finalizers.run.load(Ordering::Relaxed);
        // A sink or a vtable can get here with a mutator in a thread-local. The check is here, not on the fast path: a program with this
        // error gets here soon.
        assert!(
            !self.record.is_blocking(),
            "a thread allocates inside its own blocking region, where a stop does not wait for it: allocate before or after the region"
        );
        loop {
            self.record.safepoint();
            let seen = collector.collections.load(Ordering::Relaxed);
            let need = match attempt(self) {
                Ok(done) => {
                    if let Some((start, bytes)) = collector.heap.take_news_of_growth() {
                        collector.events.fire_segment_created(start, bytes);
                    }
                    return Ok(done);
                }
                Err(need) => need,
            };
            if need == Need::Budget && collector.binding.as_ref().is_some_and(|binding| !binding.may_collect()) {
                collector.heap.postpone_collection(&self.allocation_lock());
                continue;
            }
            if self.cache.arena.is_in_scope() {
                self.postpone_to_end_of_scope(need, seen);
                if need == Need::Room {
                    return Err(self.out_of_memory(requested));
                }
                continue;
            }
            if need == Need::Room {
                emergency.begin();
            }
            // One collection may come too early for objects that this thread has just dropped. A second one frees them, unless
            // the room is taken by dead objects whose finalizers have not run yet.
            if need == Need::Room && for_room == 2 {
                if !give_finalizers_time(self, &mut finalizers_seen) {
                    return Err(self.out_of_memory(requested));
                }
                for_room = 1;
            }
            for_room += u32::from(need == Need::Room);
            let reason = match need {
                Need::Room => Reason::HeapLimit,
                Need::Budget => Reason::Allocation,
                Need::Request => Reason::Explicit,
            };
            let collected = self.record.with_own_stack(|own| {
                collector.collect(Collecting { unless_after: Some(seen), ..Collecting::now(Some(own)) }, reason)
            });
            match collected {
                Ok(collected) => {
                    self.world.inner().start_finalizers_if_due();
                    collected.map(Collected::end);
                }
                // The world could not be stopped. It continues, and so does this allocation, as long as there is room.
                Err(_) if need == Need::Request => collector.heap.forget_request(),
                Err(_) if need == Need::Budget => {
                    collector.heap.postpone_collection(&self.allocation_lock());
                }
                Err(_) => return Err(self.out_of_memory(requested)),
            }
        }
    }

    #[cold]
    pub(crate) fn out_of_memory(&self, requested: usize) -> OutOfMemory {
        let collector = self.world.collector();
        let (live, limit) = (collector.live_bytes(), collector.heap.limit_bytes());
        collector.events.fire_allocation_failed(requested, live as usize, limit as usize);
        OutOfMemory { exhausted: Exhausted::Heap, requested, live, limit }
    }

    /// Fires the sampling events of a run of cells. A run counts as allocated when the thread gets it; the sample is its first
    /// object, which is about to be made.
    fn report_allocation(&self, bin: usize, info: &'static TypeInfo) {
        let ((_, bytes), cell_bytes) = (self.cache.run(bin), CELL_BYTES[bin % CLASSES]);
        let (next, of_type) = (self.cache.building(bin) + HEADER_BYTES, ptr::from_ref(info) as usize);
        self.world.collector().events.fire_object_sampled(next, of_type, bytes / cell_bytes, bytes);
        let space = if bin < CLASSES { Space::Small } else { Space::Pinned };
        self.tick(bytes, next, of_type, cell_bytes, space);
    }

    fn tick(&self, bytes: usize, object: usize, of_type: usize, object_bytes: usize, space: Space) {
        let allocated = self.since_tick.get() + bytes;
        if allocated < TICK_BYTES {
            self.since_tick.set(allocated);
            return;
        }
        self.since_tick.set(0);
        let events = &self.world.collector().events;
        events.fire_allocation_tick(allocated, object, of_type, object_bytes, space as u32);
    }
}

/// Reports that a thread searches for room at the heap limit: fires the first event at most once, and the second when dropped.
struct Emergency<'a> {
    events: &'a Events,
    requested: usize,
    on: Cell<bool>,
}

impl Emergency<'_> {
    fn begin(&self) {
        if !self.on.replace(true) {
            self.events.fire_emergency_set(1, self.requested);
        }
    }
}

impl Drop for Emergency<'_> {
    fn drop(&mut self) {
        if self.on.get() {
            self.events.fire_emergency_set(0, self.requested);
        }
    }
}

impl Drop for Mutator {
    fn drop(&mut self) {
        if self.record.serial() != self.serial || !ptr::eq(self.record.user().cast(), &*self.cache) {
            // The thread has ended already, and was detached when it ended.
            return;
        }
        refuse_inside("the drop of a Mutator");
        let _whole = NotCancelled::begin();
        let collector = self.world.collector();
        self.world.inner().ticker.leaves(self.record, &collector.events);
        {
            let allocation = self.allocation_lock();
            collector.heap.release_cache(&allocation, &self.cache);
            self.record.set_user(ptr::null_mut());
        }
        self.world.inner().report_thread(self.record, ThreadNews::Detached);
        crate::events::record::ring::leave();
        collector.threads.detach(self.record);
    }
}

impl fmt::Debug for Mutator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mutator").field("name", &self.name()).field("tid", &self.tid()).finish_non_exhaustive()
    }
}

/// Waits for the finalizer thread to run the due finalizers, for at most `PATIENCE_NS`. Returns whether it has run any since it
/// had run `seen` of them, and updates `seen`: the next collection may then free more.
fn give_finalizers_time(mutator: &Mutator, seen: &mut u64) -> bool {
    let finalizers = &mutator.world().collector().finalizers;
    if finalizers.thread.load(Ordering::Relaxed) == mutator.tid().0 as u32 {
        return false;
    }
    let deadline = now_ns() + PATIENCE_NS;
    while finalizers.due(|| mutator.lock(&finalizers.lock)) > 0 && now_ns() < deadline {
        mutator.blocking(|| std::thread::sleep(POLL));
    }
    let run = finalizers.run.load(Ordering::Relaxed);
    std::mem::replace(seen, run) != run
}

/// How long an allocation that found no room waits for finalizers, and how long it sleeps between two looks at their queue.
const PATIENCE_NS: u64 = 1_000_000_000;
const POLL: Duration = Duration::from_micros(500);
