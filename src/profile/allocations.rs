//! Allocation profiles: which call stacks allocate, estimated from samples.
//!
//! A world that [samples its allocations](crate::WorldBuilder::allocation_sampling) takes the call stack of some of them, on average of one in
//! each 512 KiB, and follows the sampled objects until they die. So a profile has what was allocated in total, and what was in use after the last
//! collection, by call stack, cost centre and type, as the heap profiles of Go and jemalloc do.
//!
//! ```
//! use stopworld::World;
//! use stopworld::profile::allocations::AllocationSampling;
//!
//! let world = World::builder().allocation_sampling(AllocationSampling::every(4096)).build()?;
//! // SAFETY: this thread keeps every reference in local variables.
//! let mutator = unsafe { world.attach("main") }?;
//! for number in 0..100_000_u64 {
//!     mutator.alloc(number)?;
//! }
//! let profile = world.allocation_profile().expect("the world samples its allocations");
//! let allocated: f64 = profile.sites.iter().map(|site| site.allocated_bytes()).sum();
//! assert!((1.1e6..2.1e6).contains(&allocated), "{allocated} of 1.6 MB");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Which allocations are sampled
//! Each byte is as likely to be chosen as any other. So an object of *s* bytes is sampled with the probability `1 - exp(-s / interval)`, and stands
//! for as many objects as the inverse of that: the estimates have no bias, whatever the sizes are. Bytes are those of the heap: an object's cell with
//! its header, or the blocks of a large object. They are the bytes that a [census](super::census) counts.
//!
//! # Forks
//! The child of a fork samples on, and its profiles begin with the samples of its parent. Call stacks in the child end at libraries that were
//! loaded after the parent had last listed them: when it built the world, or for one of its samples.
//!
//! # Cost
//! No instruction on the fast path of an allocation: the run of free cells that a thread allocates from ends at the next cell to sample. A
//! sample walks the stack. A collection searches the table of sampled objects while the threads are stopped. `cargo bench --bench profile` measures it.

use std::hash::{BuildHasher, RandomState};

use crate::collector::samples::{Counted, Counts, Site};
use crate::heap::trace::TypeInfo;
use crate::os::loaded;
use crate::profile::StackId;
use crate::sync::TraceStore;

/// The largest number of frames in a call stack. Those of outer frames are left out.
pub const MOST_FRAMES: usize = 64;
/// The largest number of different call stacks: their numbers are at most this.
pub const MOST_CALL_STACKS: usize = 1 << 20;
/// Words for call stacks: their pages cost nothing until they are written.
const WORDS: usize = 1 << 24;

static STORE: TraceStore<MOST_CALL_STACKS, WORDS> = TraceStore::new();

/// How a world samples its allocations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AllocationSampling {
    /// The mean number of bytes between two samples; at least 1. With 1, practically every object is sampled.
    pub interval_bytes: u64,
    /// The seed of the random numbers. A program that allocates the same in the same order, in one thread, has the same samples.
    pub seed: u64,
}

impl AllocationSampling {
    /// The default interval: 512 KiB, as in Go.
    pub const DEFAULT_INTERVAL: u64 = 512 << 10;

    /// One sample for this many bytes on average, with a random seed; 0 bytes count as 1.
    pub fn every(bytes: u64) -> Self {
        Self { interval_bytes: bytes.max(1), seed: RandomState::new().hash_one(bytes) }
    }
}

impl Default for AllocationSampling {
    fn default() -> Self {
        Self::every(Self::DEFAULT_INTERVAL)
    }
}

/// The number of a call stack. It belongs to the process, and never changes its meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CallStack(u32);

impl CallStack {
    /// Returns the number of these return addresses. `None` if there is no room.
    pub(crate) fn of(addresses: &[usize]) -> Option<Self> {
        STORE.number_of(addresses).map(Self)
    }

    /// Returns the call stack with this number, which is at least 1.
    pub fn from_raw(number: u32) -> Option<Self> {
        (number > 0).then_some(Self(number))
    }

    /// Returns the number.
    pub fn get(self) -> u32 {
        self.0
    }

    /// Returns the return addresses, innermost first, at most [`MOST_FRAMES`]. The innermost ones are those of the collector. Each address is
    /// the one after a call. Takes no lock.
    pub fn return_addresses(self) -> impl Iterator<Item = usize> {
        STORE.frames(self.0)
    }
}

/// The allocations with one call stack and cost centre stack, of one type and size.
#[derive(Clone, Copy, Debug)]
pub struct AllocationSite {
    /// The call stack; `None` if the thread was on a stack that the world does not know, or the store of call stacks was full.
    pub call_stack: Option<CallStack>,
    /// The cost centres that the thread was in; [`StackId::MAIN`] in a program without them. A world records it whether or not it
    /// [charges](crate::Charging) its allocations.
    pub cost_stack: StackId,
    /// The type of the objects.
    pub type_info: &'static TypeInfo,
    /// The bytes of the heap that each object takes.
    pub object_bytes: u64,
    /// The number of samples.
    pub samples: u64,
    /// The number of samples whose objects were alive after the last collection, or were allocated since.
    pub samples_in_use: u64,
    /// The number of objects that a sample stands for.
    pub objects_per_sample: f64,
    /// The number of bytes that a sample stands for, rounded: the amount in the [event](crate::events::EventId::AllocationSampled) of the sample.
    pub bytes_per_sample: u64,
}

impl AllocationSite {
    fn of(counted: Counted, interval_bytes: u64) -> Self {
        let Counted { site: Site { stack, cost_stack, type_info, object_bytes }, allocated, freed } = counted;
        Self {
            call_stack: CallStack::from_raw(stack),
            cost_stack: StackId::from_raw(cost_stack),
            type_info,
            object_bytes,
            samples: allocated,
            samples_in_use: allocated - freed,
            objects_per_sample: objects_per_sample(object_bytes, interval_bytes),
            bytes_per_sample: bytes_per_sample(object_bytes, interval_bytes),
        }
    }

    /// Returns the estimated number of objects that were allocated since the world began.
    pub fn allocated_objects(&self) -> f64 {
        self.samples as f64 * self.objects_per_sample
    }

    /// Returns their estimated bytes, an integer.
    pub fn allocated_bytes(&self) -> f64 {
        self.samples as f64 * self.bytes_per_sample as f64
    }

    /// Returns the estimated number of objects that were alive after the last collection, or were allocated since.
    pub fn objects_in_use(&self) -> f64 {
        self.samples_in_use as f64 * self.objects_per_sample
    }

    /// Returns their estimated bytes, an integer.
    pub fn bytes_in_use(&self) -> f64 {
        self.samples_in_use as f64 * self.bytes_per_sample as f64
    }
}

/// Returns the number of objects that a sampled one stands for: the inverse of the probability that it is sampled.
pub(crate) fn objects_per_sample(object_bytes: u64, interval_bytes: u64) -> f64 {
    let probability = -libm::expm1(-(object_bytes as f64) / interval_bytes as f64);
    probability.recip()
}

/// Returns the number of bytes that a sample stands for. They are rounded here and nowhere else, so the totals of a profile and of the events of
/// its samples are equal.
pub(crate) fn bytes_per_sample(object_bytes: u64, interval_bytes: u64) -> u64 {
    (object_bytes as f64 * objects_per_sample(object_bytes, interval_bytes)).round() as u64
}

/// What a world has allocated, by call stack: see the [module](self).
#[derive(Clone, Debug)]
pub struct AllocationProfile {
    /// The mean number of bytes between two samples.
    pub interval_bytes: u64,
    /// The sites of which allocations were sampled, in the order of their first samples.
    pub sites: Vec<AllocationSite>,
    /// The number of samples for which there was no room. They are not in `sites`.
    pub dropped: u64,
    /// The number of samples whose objects are not followed, because there was no room. They are in `sites` as allocated, but not as in use.
    pub untracked: u64,
    /// The program and its libraries, as they are loaded now.
    pub modules: Vec<ProgramModule>,
}

impl AllocationProfile {
    pub(crate) fn new(interval_bytes: u64, counts: Counts) -> Self {
        let Counts { sites, dropped, untracked } = counts;
        let sites = sites.into_iter().map(|counted| AllocationSite::of(counted, interval_bytes)).collect();
        Self { interval_bytes, sites, dropped, untracked, modules: ProgramModule::all() }
    }
}

/// A file that is loaded in this process: the program, or a library.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProgramModule {
    /// The path of the file. For the program itself it is that of its file.
    pub path: std::path::PathBuf,
    /// The lowest address of its segments, and the address after the highest one.
    pub range: std::ops::Range<usize>,
    /// The difference between addresses in memory and addresses in the file.
    pub bias: usize,
    /// The GNU build id. Empty if the file has none.
    pub build_id: Vec<u8>,
}

impl ProgramModule {
    fn all() -> Vec<Self> {
        loaded::files().iter().map(Self::of).collect()
    }

    fn of(file: &loaded::File) -> Self {
        Self { path: file.real_path(), range: file.range(), bias: file.bias, build_id: file.build_id.clone() }
    }
}
