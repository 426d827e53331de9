//! Describing a world before it exists.

use std::num::NonZeroUsize;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use super::build_error::BuildError;
use super::inner::Inner;
use super::reserve::{Reserved, Wanted};
use super::{World, finalizer};
use crate::collector::pacing::{GROWTH, Pacing};
use crate::collector::report::{CollectionReport, Listener};
use crate::collector::{CollectError, Collector, FailureListener, Parts};
use crate::debugger::bridge::{DebuggerBridge, WithoutContract};
use crate::events::{Selection, Sink};
use crate::heap::Paranoid;
use crate::heap::charges::Charging;
use crate::heap::layout::BLOCK_BYTES;
use crate::os::{memory, signals};
use crate::profile::TimeProfile;
use crate::profile::census::HeapProfile;
use crate::profile::census::profiler::Profiler;
use crate::profile::ticker::Ticker;
use crate::sync::{Lock, SharedLock};
use crate::world::registry::Threads;
use crate::world::vtable::ThreadVtable;
use crate::world::{SafepointStopper, SignalStopper};

/// How a new world stops its threads. Can be changed later by [`World::set_thread_vtable`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Stopper {
    /// By a signal to each thread, which stops it wherever it is.
    #[default]
    Signals,
    /// At safepoints, blocking regions and allocations that threads come to by themselves.
    Safepoints,
}

/// The smallest heap that anything can be done with.
const SMALLEST_LIMIT: usize = 16 * BLOCK_BYTES;
/// The largest heap, well below the 128 TiB that a process can address.
const LARGEST_LIMIT: usize = 16 << 40;
/// The most markers.
const MOST_MARKERS: usize = 64;
/// The most markers of a world that was not told how many.
const MOST_DEFAULT_MARKERS: usize = 4;

/// What a heap may allocate between two collections, however little is alive: with what the one mutator of a small
/// program adds, a third of a usual last-level cache.
const FLOOR_BYTES: u64 = 4 << 20;
/// As much again for each mutator.
const FLOOR_BYTES_PER_MUTATOR: u64 = 5 << 20;

/// How many threads of this process can run at once.
fn processors() -> usize {
    static PROCESSORS: OnceLock<usize> = OnceLock::new();
    *PROCESSORS.get_or_init(|| std::thread::available_parallelism().map_or(1, NonZeroUsize::get))
}

/// Describes a world. Every setting has a default.
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
    time_profile: Option<TimeProfile>,
    before_first_event: Vec<Preparation>,
    profile: Option<HeapProfile>,
}

/// What is done with a world before its first event.
type Preparation = Box<dyn FnOnce(&World) -> Result<(), BuildError> + Send>;

impl Default for WorldBuilder {
    fn default() -> Self {
        Self {
            heap_limit: None,
            pacing: Pacing {
                floor_bytes: FLOOR_BYTES,
                floor_bytes_per_mutator: FLOOR_BYTES_PER_MUTATOR,
                processors: processors(),
                growth: GROWTH,
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
            time_profile: None,
            before_first_event: Vec::new(),
            profile: None,
        }
    }
}

impl World {
    /// Begins to describe a world.
    pub fn builder() -> WorldBuilder {
        WorldBuilder::default()
    }
}

impl WorldBuilder {
    /// The most memory that the heap takes, in bytes. Beyond it allocation is an error. By default
    /// [half of the machine's memory](Self::default_heap_limit), or less if the process may not have that much address
    /// space; [`World::heap_limit`] tells. The address space for the limit that is set here is reserved by
    /// [`build`](Self::build), with a tenth more for tables.
    #[must_use]
    pub fn heap_limit(mut self, bytes: usize) -> Self {
        self.heap_limit = Some(bytes);
        self
    }

    /// The heap limit of a world that was not given one, unless the address space is limited: half of the machine's memory.
    pub fn default_heap_limit() -> usize {
        // Whole blocks, which is what a heap has.
        (memory::physical_memory() / 2).max(64 << 20) / BLOCK_BYTES * BLOCK_BYTES
    }

    /// Bytes that may always be allocated between two collections; each mutator adds a quarter of it.
    #[must_use]
    pub fn initial_heap(mut self, bytes: usize) -> Self {
        self.pacing.floor_bytes = bytes as u64;
        self.pacing.floor_bytes_per_mutator = bytes as u64 / 4;
        self
    }

    /// How many bytes may be allocated for each live byte before the next collection.
    #[must_use]
    pub fn growth(mut self, rate: f64) -> Self {
        self.pacing.growth = rate.max(0.05);
        self
    }

    /// How many threads mark, the collecting one included. By default as many as the process may use processors, 4 at
    /// most. The others are threads of the world's own, which sleep until a collection has enough for them to do.
    #[must_use]
    pub fn markers(mut self, count: usize) -> Self {
        self.markers = count;
        self
    }

    /// How threads are stopped. By default by signals.
    #[must_use]
    pub fn stopper(mut self, stopper: Stopper) -> Self {
        self.stopper = stopper;
        self
    }

    /// The signal that suspends threads, one for the whole process. By default SIGURG.
    #[must_use]
    pub fn suspend_signal(mut self, signal: i32) -> Self {
        self.suspend_signal = signal;
        self
    }

    /// How long a stop may take before it is given up with an error. By default 10 s.
    #[must_use]
    pub fn stop_timeout(mut self, timeout: Duration) -> Self {
        self.stop_timeout = timeout;
        self
    }

    /// Whether freed cells are poisoned and the heap is verified after each collection.
    #[must_use]
    pub fn paranoid(mut self, paranoid: Paranoid) -> Self {
        self.paranoid = paranoid;
        self
    }

    /// Begins to [tick](World::start_ticking) as soon as the world is there.
    #[must_use]
    pub fn time_profile(mut self, profile: TimeProfile) -> Self {
        self.time_profile = Some(profile);
        self
    }

    /// Whether the world remembers of each object the [cost centre stack](crate::profile) that it was allocated under, as heap
    /// profiles by cost centre or module want it. By default it does not.
    #[must_use]
    pub fn charge_allocations(mut self, charging: Charging) -> Self {
        self.charging = charging;
        self
    }

    /// The most memory that each marker's stack takes, in bytes. By default 1 GiB of address space, or less if that is
    /// limited. A stack that is too small costs time, not correctness.
    #[must_use]
    pub fn mark_stack_limit(mut self, bytes: usize) -> Self {
        self.mark_stack_limit = Some(bytes);
        self
    }

    /// Calls `listener` after each collection, when the world runs again, on the thread that collected.
    #[must_use]
    pub fn on_collection(mut self, listener: impl Fn(&CollectionReport) + Send + Sync + 'static) -> Self {
        self.on_collection = Some(Box::new(listener));
        self
    }

    /// Calls `listener` when a collection that was due could not happen, on the thread that tried; also when the
    /// program did not ask for it: an allocation goes on without the collection as long as there is room. Also called
    /// before a collection that was [discarded](CollectError::Discarded) is repeated, before a stop for a collection or a verification
    /// is repeated because a debugger gave a [false answer](crate::StopError::FalseAnswer), and when the drop of the world's last
    /// handle has waited 5 s in vain for a [finalizer](CollectError::NotClosed).
    #[must_use]
    pub fn on_failure(mut self, listener: impl Fn(&CollectError) + Send + Sync + 'static) -> Self {
        self.on_failure = Some(Box::new(listener));
        self
    }

    /// Lets `sink` hear of what `selection` selects from the world's very first event on. Who listens later, by
    /// [`Events::listen`](crate::events::Events::listen), has missed the world's creation.
    #[must_use]
    pub fn listen(self, sink: Arc<dyn Sink>, selection: Selection) -> Self {
        self.before_first_event(move |world| {
            world.events().listen(sink, selection)?;
            Ok(())
        })
    }

    /// Calls `prepare` with the world before it fires its first event, and builds no world if that fails: the place from which
    /// to record, to listen, or to [serve](crate::events::Events::serve) a host, for who does not want to miss the
    /// world's creation. What was said first is called first.
    #[must_use]
    pub fn before_first_event(
        mut self,
        prepare: impl FnOnce(&World) -> Result<(), BuildError> + Send + 'static,
    ) -> Self {
        self.before_first_event.push(Box::new(prepare));
        self
    }

    /// Takes censuses of the heap from the beginning on. See [`World::profile`].
    #[must_use]
    pub fn profile(mut self, profile: HeapProfile) -> Self {
        self.profile = Some(profile);
        self
    }

    /// Checks the settings without building a world, for a program that must not begin something else if they are impossible.
    ///
    /// # Errors
    /// A setting is impossible; [`build`](Self::build) would return the same error.
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
        Ok(())
    }

    /// Builds the world.
    ///
    /// # Errors
    /// A setting is impossible, another world of this process uses another suspend signal, or the system refused.
    pub fn build(self) -> Result<World, BuildError> {
        crate::sabotage::choose();
        self.check()?;
        let vtable: Arc<dyn ThreadVtable> = match self.stopper {
            Stopper::Signals => Arc::new(SignalStopper::new(self.suspend_signal)?),
            Stopper::Safepoints => Arc::new(SafepointStopper),
        };
        let bridge = DebuggerBridge::over(vtable);
        let without_contract = Arc::new(WithoutContract(Arc::clone(&bridge)));
        let threads = Threads::with(bridge, without_contract)?;
        let observing = SharedLock::new(Arc::new(Lock::new()), |lock| lock);
        let profiler = Arc::new(Profiler::new(observing.clone()));
        let wanted = Wanted {
            heap: self.heap_limit,
            default_heap: Self::default_heap_limit(),
            mark_stack: self.mark_stack_limit,
            markers: self.markers,
            paranoid: self.paranoid,
            charging: self.charging,
        };
        let allocation = SharedLock::new(Arc::clone(&threads), |threads| &threads.locks().allocation);
        let Reserved { mut heap, markers, handles, ranges, finalizers } = wanted.reserve(&allocation)?;
        let limit_bytes = heap.limit_bytes();
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
                on_collection: self.on_collection,
                on_failure: self.on_failure,
            }),
            ticker: Arc::new(Ticker::new()),
            finalizer_thread: finalizer::run,
        });
        inner.collector.observing.set(profiler);
        crate::debugger::publish(&inner.collector);
        let weak = Arc::downgrade(&inner);
        threads.set_hooks(weak);
        let world = World::of(inner, true);
        for prepare in self.before_first_event {
            prepare(&world)?;
        }
        world.inner().tell_of_creation(self.heap_limit.unwrap_or(limit_bytes as usize));
        if let Some(profile) = self.profile {
            world.profile(profile)?;
        }
        if let Some(profile) = self.time_profile {
            world.start_ticking(profile)?;
        }
        Ok(world)
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
