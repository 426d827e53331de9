//! [`WorldBuilder`], the settings of a new world.

use std::num::NonZeroUsize;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use super::build_error::BuildError;
use super::inner::Inner;
use super::reserve::{RequestedSizes, Reserved};
use super::{World, finalizer};
#[cfg(feature = "check")]
use crate::check::{CheckPromise, OwnMemory, is_installed};
use crate::collector::binding::Binding;
use crate::collector::pacing::{GROWTH, Pacing, SMALL, SMALL_UNTYPED};
#[cfg(feature = "check")]
use crate::collector::promise::{CannotCheck, Promise};
use crate::collector::report::{CollectionReport, Listener};
use crate::collector::samples::Samples;
use crate::collector::{CollectError, Collector, FailureListener, Parts};
use crate::debugger::bridge::{DebuggerBridge, WithoutContract};
use crate::events::{Selection, Sink};
#[cfg(feature = "check")]
use crate::heap::Heap;
use crate::heap::Paranoid;
use crate::heap::charges::Charging;
use crate::heap::layout::BLOCK_BYTES;
use crate::heap::references::ObjectPointers;
use crate::os::{callback, loaded, memory, signals};
use crate::profile::TimeProfile;
use crate::profile::allocations::AllocationSampling;
use crate::profile::census::HeapProfile;
use crate::profile::census::profiler::Profiler;
use crate::profile::ticker::Ticker;
use crate::sync::{Lock, SharedLock};
use crate::world::registry::Threads;
use crate::world::stacks::ForeignStacks;
use crate::world::stop_info::ThreadStopInfo;
use crate::world::vtable::ThreadVtable;
use crate::world::{SafepointStopper, SignalStopper};

/// How a new world stops its threads. [`World::set_thread_vtable`] can change this later.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Stopper {
    /// Preemptively: each running thread receives a signal, whose handler stops the thread at any instruction.
    #[default]
    Signals,
    /// Cooperatively: a thread stops at its next [safepoint](crate::Mutator::safepoint) or slow allocation. In a
    /// [blocking](crate::Mutator::blocking) region it counts as stopped.
    Safepoints,
}

/// The smallest heap limit that is accepted.
const SMALLEST_LIMIT: usize = 16 * BLOCK_BYTES;
/// The largest heap limit that is accepted, well below the 128 TiB that a process can address.
const LARGEST_LIMIT: usize = 16 << 40;
/// The largest number of markers that is accepted.
const MOST_MARKERS: usize = 64;
/// The largest default number of markers.
const MOST_DEFAULT_MARKERS: usize = 4;

/// Bytes that may be allocated between two collections, however little is live. Together with the bytes that the single mutator of a
/// small program adds, this is a third of a usual last-level cache.
const FLOOR_BYTES: u64 = 4 << 20;
/// Bytes that each mutator adds to [`FLOOR_BYTES`].
const FLOOR_BYTES_PER_MUTATOR: u64 = 5 << 20;

/// Returns how many threads of this process can run at the same time.
fn processors() -> usize {
    static PROCESSORS: OnceLock<usize> = OnceLock::new();
    *PROCESSORS.get_or_init(|| std::thread::available_parallelism().map_or(1, NonZeroUsize::get))
}

/// The settings of a new world. [`World::builder`] returns one with the defaults, and [`build`](Self::build) makes the world.
///
/// ```
/// use std::time::Duration;
/// use stopworld::{Stopper, World};
///
/// let world = World::builder()
///     .heap_limit(128 << 20)
///     .stopper(Stopper::Safepoints)
///     .stop_timeout(Duration::from_secs(2))
///     .on_collection(|report| println!("{} bytes are live", report.live.total()))
///     .on_failure(|error| eprintln!("no collection: {error}"))
///     .build()?;
/// assert_eq!(world.heap_limit(), 128 << 20);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct WorldBuilder {
    heap_limit: Option<usize>,
    pacing: Pacing,
    markers: usize,
    stopper: Stopper,
    suspend_signal: i32,
    stop_timeout: Duration,
    paranoid: Paranoid,
    mark_stack_limit: Option<usize>,
    on_collection: Option<Listener>,
    on_failure: Option<FailureListener>,
    charging: Charging,
    sampling: Option<AllocationSampling>,
    time_profile: Option<TimeProfile>,
    before_first_event: Vec<Preparation>,
    profile: Option<HeapProfile>,
    untyped: Option<ObjectPointers>,
    binding: Option<Arc<dyn Binding>>,
    #[cfg(feature = "check")]
    check_promise: Option<CheckPromise>,
}

/// A function that is called with the world before its first event.
type Preparation = Box<dyn FnOnce(&World) -> Result<(), BuildError> + Send>;

impl Default for WorldBuilder {
    fn default() -> Self {
        Self {
            heap_limit: None,
            pacing: Pacing {
                floor_bytes: FLOOR_BYTES,
                floor_bytes_per_mutator: FLOOR_BYTES_PER_MUTATOR,
                processors: processors(),
                small: SMALL,
                growth: GROWTH,
                every: None,
                each_allocation: false,
            },
            markers: processors().min(MOST_DEFAULT_MARKERS),
            stopper: Stopper::default(),
            suspend_signal: signals::DEFAULT,
            stop_timeout: Duration::from_secs(10),
            paranoid: Paranoid::Off,
            mark_stack_limit: None,
            on_collection: None,
            on_failure: None,
            charging: Charging::Off,
            sampling: None,
            time_profile: None,
            before_first_event: Vec::new(),
            profile: None,
            untyped: None,
            binding: None,
            #[cfg(feature = "check")]
            check_promise: None,
        }
    }
}

impl World {
    /// Returns a builder with the default settings.
    pub fn builder() -> WorldBuilder {
        WorldBuilder::default()
    }
}

impl WorldBuilder {
    /// Sets the largest size of the heap in bytes. An allocation that would exceed it fails with
    /// [`OutOfMemory`](crate::OutOfMemory). From 256 KiB to 16 TiB; another value is an error of [`build`](Self::build).
    ///
    /// Default: [half of the machine's memory](Self::default_heap_limit), or less if the process's address space is limited;
    /// [`World::heap_limit`] returns the result. [`build`](Self::build) reserves address space for the whole limit, and a tenth
    /// more for tables, a seventh in a world of [`ObjectPointers::Bases`](crate::untyped::ObjectPointers::Bases). Memory is committed as the
    /// heap grows.
    #[must_use]
    pub fn heap_limit(mut self, bytes: usize) -> Self {
        self.heap_limit = Some(bytes);
        self
    }

    /// Returns the default heap limit in bytes: half of the machine's memory, at least 64 MiB. A world chooses less if the
    /// process's address space is limited.
    pub fn default_heap_limit() -> usize {
        // The limit is rounded down, because a heap consists of whole blocks.
        (memory::physical_memory() / 2).max(64 << 20) / BLOCK_BYTES * BLOCK_BYTES
    }

    /// Sets the bytes that may be allocated between two collections however little is live. Each mutator adds a quarter of
    /// `bytes`, up to the number of processors. Default: 4 MiB, and 5 MiB for each mutator.
    #[must_use]
    pub fn initial_heap(mut self, bytes: usize) -> Self {
        self.pacing.floor_bytes = bytes as u64;
        self.pacing.floor_bytes_per_mutator = bytes as u64 / 4;
        self
    }

    /// Sets how many bytes a large heap may allocate for each live byte before the next collection. Default: 0.25. Less than
    /// 0.05 counts as 0.05. A higher rate means fewer collections and more memory. Small heaps may allocate more.
    #[must_use]
    pub fn growth(mut self, rate: f64) -> Self {
        self.pacing.growth = rate.max(0.05);
        self
    }

    /// Makes the world collect each time about this many bytes were allocated, however much is alive: for stress tests, in which
    /// collections shall happen everywhere. Threads allocate from blocks of 16 KiB, so fewer bytes have no effect, but for 0: then a
    /// collection precedes each allocation.
    #[must_use]
    pub fn collect_every(mut self, bytes: usize) -> Self {
        self.pacing.each_allocation = bytes == 0;
        self.pacing.every = (bytes > 0).then_some(bytes as u64);
        self
    }

    /// Sets the number of threads that mark, the collecting thread included: 1 to 64; another value is an error of
    /// [`build`](Self::build). Default: the number of processors that the process may use, at most 4. The other markers are
    /// threads of the world, which sleep until a collection has enough work for them.
    #[must_use]
    pub fn markers(mut self, count: usize) -> Self {
        self.markers = count;
        self
    }

    /// Sets how threads are stopped. Default: [`Stopper::Signals`].
    #[must_use]
    pub fn stopper(mut self, stopper: Stopper) -> Self {
        self.stopper = stopper;
        self
    }

    /// Sets the signal number that [`Stopper::Signals`] suspends threads with. Default: SIGURG. A process has one suspend signal:
    /// a world with another one is an error of [`build`](Self::build).
    #[must_use]
    pub fn suspend_signal(mut self, signal: i32) -> Self {
        self.suspend_signal = signal;
        self
    }

    /// Sets how long a stop may take. After that time it is abandoned with a [`StopError`](crate::StopError), and the world
    /// continues to run. Default: 10 s.
    #[must_use]
    pub fn stop_timeout(mut self, timeout: Duration) -> Self {
        self.stop_timeout = timeout;
        self
    }

    /// Sets whether freed cells are poisoned and the whole heap is verified after each collection. Default: [`Paranoid::Off`].
    #[must_use]
    pub fn paranoid(mut self, paranoid: Paranoid) -> Self {
        self.paranoid = paranoid;
        self
    }

    /// Starts a [time profile](World::start_ticking) as soon as the world is built. Default: none.
    #[must_use]
    pub fn time_profile(mut self, profile: TimeProfile) -> Self {
        self.time_profile = Some(profile);
        self
    }

    /// Sets whether the world stores for each object the [cost centre stack](crate::profile) that it was allocated under. Heap
    /// profiles by cost centre or by module need this. Default: [`Charging::Off`].
    #[must_use]
    pub fn charge_allocations(mut self, charging: Charging) -> Self {
        self.charging = charging;
        self
    }

    /// Samples the allocations of the world: takes the call stacks of some of them, for [`World::allocation_profile`]. Default: none.
    ///
    /// In a world with [untyped objects](crate::untyped), the cells that [`Mutator::free_untyped`](crate::Mutator::free_untyped) frees are then
    /// free only after the next collection.
    #[must_use]
    pub fn allocation_sampling(mut self, sampling: AllocationSampling) -> Self {
        self.sampling = Some(sampling);
        self
    }

    /// Sets the largest size of each marker's mark stack in bytes. Default: 1 GiB, or less if the process's address space is
    /// limited. [`build`](Self::build) reserves this address space. With a stack that is too small marking is slower, but complete.
    #[must_use]
    pub fn mark_stack_limit(mut self, bytes: usize) -> Self {
        self.mark_stack_limit = Some(bytes);
        self
    }

    /// Sets a function that is called with the report of each collection, after the world has restarted, on the thread that
    /// collected. Default: none.
    #[must_use]
    pub fn on_collection(mut self, listener: impl Fn(&CollectionReport) + Send + Sync + 'static) -> Self {
        self.on_collection = Some(Box::new(listener));
        self
    }

    /// Sets a function that is called when a collection fails, on the thread that tried to collect. This includes collections
    /// that an allocation caused: the allocation then proceeds without the collection as long as there is room. Default: none.
    ///
    /// The function is also called
    /// * before a [discarded](CollectError::Discarded) collection is repeated;
    /// * before a stop for a collection or a verification is repeated, because a debugger gave a
    ///   [false answer](crate::StopError::FalseAnswer);
    /// * when the drop of the world's last handle has waited 5 s and the world is still [not closed](CollectError::NotClosed).
    #[must_use]
    pub fn on_failure(mut self, listener: impl Fn(&CollectError) + Send + Sync + 'static) -> Self {
        self.on_failure = Some(Box::new(listener));
        self
    }

    /// Passes the events of `selection` to `sink`, from the world's first event on. A sink that is added later, with
    /// [`Events::listen`](crate::events::Events::listen), misses the world's creation.
    #[must_use]
    pub fn listen(self, sink: Arc<dyn Sink>, selection: Selection) -> Self {
        self.before_first_event(move |world| {
            world.events().listen(sink, selection)?;
            Ok(())
        })
    }

    /// Calls `prepare` with the world before it fires its first event. `prepare` can add consumers that need the creation events: it can
    /// record, listen, or [serve](crate::events::Events::serve) a host. An error of `prepare` makes [`build`](Self::build) fail.
    /// Several functions are called in the order in which they were added.
    #[must_use]
    pub fn before_first_event(
        mut self,
        prepare: impl FnOnce(&World) -> Result<(), BuildError> + Send + 'static,
    ) -> Self {
        self.before_first_event.push(Box::new(prepare));
        self
    }

    /// Lets the world have [untyped objects](crate::untyped), and sets which words in them, and in registered ranges, keep an object
    /// alive. Such a world collects a little earlier while its heap is small. Default: the world has none.
    #[must_use]
    pub fn untyped(mut self, pointers: ObjectPointers) -> Self {
        self.untyped = Some(pointers);
        self.pacing.small = SMALL_UNTYPED;
        self
    }

    /// Installs the binding of a language runtime, which takes part in each collection. Default: none.
    #[must_use]
    pub fn binding(mut self, binding: Arc<dyn Binding>) -> Self {
        self.binding = Some(binding);
        self
    }

    /// Lets each collection search for references that the collector does not see, to objects that it would free. See
    /// [`check`](crate::check), also for the costs. Needs the feature `check`, and [`check::Allocator`](crate::check::Allocator) as the
    /// program's global allocator; without it, and with a [`binding`](Self::binding), [`build`](Self::build) fails. Takes one of the world's
    /// [listeners](crate::events::MAX_LISTENERS), and a quarter of the heap limit in address space. Default: no search.
    #[cfg(feature = "check")]
    #[must_use]
    pub fn check_promise(mut self, check: CheckPromise) -> Self {
        self.check_promise = Some(check);
        self
    }

    /// Starts a heap profile as soon as the world is built. See [`World::profile`]. Default: none.
    #[must_use]
    pub fn profile(mut self, profile: HeapProfile) -> Self {
        self.profile = Some(profile);
        self
    }

    /// Checks the settings without building a world, for a program that must know whether they are valid before it starts other work.
    ///
    /// # Errors
    /// A setting is out of range; [`build`](Self::build) would return the same error.
    pub fn check(&self) -> Result<(), BuildError> {
        match self.heap_limit {
            Some(asked) if asked < SMALLEST_LIMIT => {
                return Err(BuildError::HeapLimit { asked, smallest: SMALLEST_LIMIT });
            }
            Some(asked) if asked > LARGEST_LIMIT => {
                return Err(BuildError::HeapLimitTooLarge { asked, largest: LARGEST_LIMIT });
            }
            _ => {}
        }
        if !(1..=MOST_MARKERS).contains(&self.markers) {
            return Err(BuildError::Markers(self.markers));
        }
        self.profile.as_ref().map_or(Ok(()), HeapProfile::check)?;
        #[cfg(feature = "check")]
        if self.binding.is_some() && self.check_promise.is_some() {
            return Err(BuildError::CheckWithBinding);
        }
        Ok(())
    }

    /// Builds the world: reserves its address space, starts its markers, and fires its first events.
    ///
    /// # Errors
    /// A setting is out of range, another world of this process uses another suspend signal, a `prepare` function failed, or the
    /// system refused address space, memory or a thread.
    pub fn build(self) -> Result<World, BuildError> {
        crate::sabotage::choose();
        self.check()?;
        // What the world allocates for itself holds addresses of objects without keeping them.
        #[cfg(feature = "check")]
        let own_memory = OwnMemory::begin();
        let vtable: Arc<dyn ThreadVtable> = match self.stopper {
            Stopper::Signals => Arc::new(SignalStopper::new(self.suspend_signal)?),
            Stopper::Safepoints => Arc::new(SafepointStopper),
        };
        let bridge = DebuggerBridge::over(vtable);
        let without_contract = Arc::new(WithoutContract(Arc::clone(&bridge)));
        let threads = Threads::with(bridge, without_contract)?;
        let observing = SharedLock::new(Arc::new(Lock::new()), |lock| lock);
        let profiler = Arc::new(Profiler::new(observing.clone()));
        let requested = RequestedSizes {
            heap: self.heap_limit,
            default_heap: Self::default_heap_limit(),
            mark_stack: self.mark_stack_limit,
            markers: self.markers,
            paranoid: self.paranoid,
            charging: self.charging,
            untyped: self.untyped,
        };
        let allocation = SharedLock::new(Arc::clone(&threads), |threads| &threads.locks().allocation);
        let Reserved { mut heap, markers, handles, ranges, finalizers } = requested.reserve(&allocation)?;
        let limit_bytes = heap.limit_bytes();
        #[cfg(feature = "check")]
        let promise = self.check_promise.map(|check| promise_of(check, &heap)).transpose()?;
        if let Some(AllocationSampling { interval_bytes, seed }) = self.sampling {
            heap.set_sampling(interval_bytes.max(1), seed);
            // In the child of a fork, these lists may be the last ones.
            loaded::files();
            loaded::unwind_tables();
        }
        heap.set_first_budget(self.pacing.budget(0, 1, limit_bytes, 0));
        let inner = Arc::new(Inner {
            profiler: Arc::clone(&profiler),
            collector: Collector::new(Parts {
                heap,
                threads: Arc::clone(&threads),
                markers,
                handles,
                ranges,
                finalizers,
                pacing: self.pacing,
                stop_timeout: self.stop_timeout,
                observing,
                samples: self.sampling.map(|sampling| Samples::new(sampling.interval_bytes.max(1))),
                on_collection: self.on_collection,
                on_failure: self.on_failure,
                binding: self.binding.clone(),
                #[cfg(feature = "check")]
                promise,
            }),
            ticker: Arc::new(Ticker::new()),
            finalizer_thread: finalizer::run,
        });
        inner.collector.observing.set(profiler);
        crate::debugger::publish(&inner.collector);
        let weak = Arc::downgrade(&inner);
        threads.set_hooks(weak);
        if let Some(binding) = self.binding {
            threads.set_foreign(Arc::new(StacksOfBinding(binding)));
        }
        let world = World::of(inner, true);
        #[cfg(feature = "check")]
        {
            let collector = world.collector();
            collector.promise.iter().try_for_each(|promise| promise.listen(&collector.events)).map_err(cannot_check)?;
            drop(own_memory);
        }
        for prepare in self.before_first_event {
            prepare(&world)?;
        }
        world.inner().report_creation(self.heap_limit.unwrap_or(limit_bytes as usize));
        if let Some(profile) = self.profile {
            world.profile(profile)?;
        }
        if let Some(profile) = self.time_profile {
            world.start_ticking(profile)?;
        }
        Ok(world)
    }
}

/// Prepares the check of the promise.
#[cfg(feature = "check")]
fn promise_of(check: CheckPromise, heap: &Heap) -> Result<Promise, BuildError> {
    if !is_installed() {
        return Err(BuildError::NoCheckedAllocator);
    }
    Promise::new(check, heap).map_err(cannot_check)
}

#[cfg(feature = "check")]
fn cannot_check(reason: CannotCheck) -> BuildError {
    match reason {
        CannotCheck::Copy => BuildError::NoCopy,
        CannotCheck::System(error) => BuildError::System(error),
        CannotCheck::Listen(error) => BuildError::Listen(error),
    }
}

/// The stacks that a binding knows.
struct StacksOfBinding(Arc<dyn Binding>);

impl ForeignStacks for StacksOfBinding {
    fn end(&self, info: &ThreadStopInfo, stack_ptr: usize) -> Option<usize> {
        callback::call(|| self.0.stack_end(info, stack_ptr))
    }
}

impl std::fmt::Debug for WorldBuilder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WorldBuilder")
            .field("heap_limit", &self.heap_limit)
            .field("markers", &self.markers)
            .field("stopper", &self.stopper)
            .finish_non_exhaustive()
    }
}
