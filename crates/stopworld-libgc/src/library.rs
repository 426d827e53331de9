//! The library's one world, which is built when the program calls the first function that needs it: `GC_init`, or an allocation in a
//! constructor before `main`. It lives as long as the process.

use std::ffi::c_void;
use std::fs::OpenOptions;
use std::os::fd::IntoRawFd;
use std::sync::{Arc, Once, OnceLock};

use stopworld::debugger::mock::MockDebugger;
use stopworld::untyped::{ObjectPointers, UntypedKind};
use stopworld::{CollectionReport, Paranoid, World};

use crate::binding::LibgcBinding;
use crate::data::{
    GC_all_interior_pointers, GC_free_space_divisor, GC_greatest_plausible_heap_addr, GC_least_plausible_heap_addr,
    GC_parallel, GC_stackbottom, is_on,
};
use crate::environment::{MARKERS, MAXIMUM_HEAP, SUSPEND_SIGNAL, Settings, Stopping};
use crate::lock::LOCK;
use crate::os::{ThreadKey, thread};
use crate::print;
use crate::recording;
use crate::sync::Ordering;
use crate::tables::kinds::{SizedKind, sized};
use crate::tables::loaded;

/// The kinds that every program has.
#[derive(Debug)]
pub(crate) struct Kinds {
    pub(crate) atomic: SizedKind,
    pub(crate) normal: SizedKind,
    pub(crate) uncollectable: SizedKind,
    pub(crate) atomic_uncollectable: SizedKind,
}

/// The library, when it is initialised.
pub(crate) struct Library {
    pub(crate) world: World,
    pub(crate) kinds: Kinds,
    /// Its destructor detaches threads that end.
    pub(crate) thread_key: ThreadKey,
    /// Whether objects are charged to the places that allocate them.
    pub(crate) has_call_sites: bool,
    /// The addresses that objects can have.
    pub(crate) heap: std::ops::Range<usize>,
}

static LIBRARY: OnceLock<Library> = OnceLock::new();

/// Returns the library. Initialises it if necessary. `end_thread` is called with the data of a thread that ends.
#[inline]
pub(crate) fn get(end_thread: unsafe extern "C" fn(*mut c_void)) -> &'static Library {
    LIBRARY.get_or_init(|| initialise(end_thread))
}

/// Returns the library, if it is initialised.
#[inline]
pub(crate) fn if_initialised() -> Option<&'static Library> {
    LIBRARY.get()
}

#[cold]
fn initialise(end_thread: unsafe extern "C" fn(*mut c_void)) -> Library {
    refuse_a_second_library();
    let settings = Settings::read();
    if let Some(file) = &settings.log_file {
        match OpenOptions::new().create(true).append(true).open(file) {
            Ok(file) => print::GC_set_log_fd(file.into_raw_fd()),
            Err(error) => print::warn(&format!("GC_LOG_FILE={file} in the environment is ignored: {error}")),
        }
    }
    handle_forks();
    // Before the key of the world's own: destructors run in the order of keys.
    let thread_key = ThreadKey::new(end_thread);
    let Ok(thread_key) = thread_key else {
        print::abort(
            "the process has no more keys of thread-specific data (pthread_key_create), and the collector needs one",
        )
    };
    let world = match build(&settings) {
        Ok(world) => world,
        Err(error) => print::abort(&format!("the collector can't start: {error}")),
    };
    // The child of a fork cannot ask the loader.
    loaded::refresh();
    let facts = world.facts();
    let heap = facts.heap_base..facts.heap_base + facts.reserved_bytes;
    GC_least_plausible_heap_addr.store(heap.start, Ordering::Relaxed);
    GC_greatest_plausible_heap_addr.store(heap.end, Ordering::Relaxed);
    GC_parallel.store(facts.markers as i32 - 1, Ordering::Relaxed);
    if GC_stackbottom.load(Ordering::Relaxed) == 0
        && thread::is_main()
        && let Ok(stack) = thread::current_stack()
    {
        GC_stackbottom.store(stack.high, Ordering::Relaxed);
    }
    let kinds = Kinds {
        atomic: sized(|| UntypedKind::leaf("atomic")),
        normal: sized(|| UntypedKind::scanned("normal")),
        uncollectable: sized(|| UntypedKind::scanned("uncollectable")),
        atomic_uncollectable: sized(|| UntypedKind::leaf("atomic uncollectable")),
    };
    Library { world, kinds, thread_key, has_call_sites: recording::has_call_sites(), heap }
}

fn build(settings: &Settings) -> Result<World, stopworld::BuildError> {
    let pointers = if is_on(&GC_all_interior_pointers) { ObjectPointers::Interior } else { ObjectPointers::Bases };
    let mut builder = World::builder()
        .untyped(pointers)
        .binding(Arc::new(LibgcBinding))
        .suspend_signal(SUSPEND_SIGNAL.load(Ordering::Relaxed))
        .growth(growth())
        .on_failure(|error| print::warn(&format!("a collection failed: {error}")));
    let requested = |bytes: usize| (bytes > 0).then_some(bytes);
    if let Some(bytes) = settings.maximum_heap.or_else(|| requested(MAXIMUM_HEAP.load(Ordering::Relaxed))) {
        builder = builder.heap_limit(limit(bytes));
    }
    // With this growth, a heap whose live bytes are few grows to five or six times what the builder calls its initial size.
    builder = builder.initial_heap(settings.initial_heap.unwrap_or(INITIAL_HEAP).min(INITIAL_HEAP) / 9 * 2);
    if let Some(bytes) = settings.budget {
        builder = builder.collect_every(bytes);
    }
    if let Some(count) = settings.markers.or_else(|| requested(MARKERS.load(Ordering::Relaxed) as usize)) {
        builder = builder.markers(count);
    }
    if settings.is_paranoid {
        builder = builder.paranoid(Paranoid::On);
    }
    if settings.prints_statistics {
        builder = builder.on_collection(print_statistics);
    }
    builder = recording::of_world(builder).stopper(settings.stopper.unwrap_or_default().built_in());
    let world = builder.build()?;
    if let Some(bytes) = settings.initial_heap {
        world.set_minimum_heap(bytes);
    }
    if settings.stopper == Some(Stopping::MockDebugger) {
        let installed = MockDebugger::new().map(|debugger| world.set_thread_vtable(debugger));
        if !matches!(installed, Ok(Ok(_))) {
            print::refuse("STOPWORLD_STOPPER=mock-debugger in the environment: the debugger can't be installed");
        }
    }
    Ok(world)
}

/// The size up to which a heap grows before its live bytes count. bdwgc begins with 64 KiB. A small heap of this collector is faster the
/// less often it is marked: with 6 MiB, guile needs 6 % less memory, and a fifth more time.
const INITIAL_HEAP: usize = 8 << 20;
/// The smallest heap limit that a world accepts.
const SMALLEST_LIMIT: usize = 256 << 10;
/// Heap limits are multiples of this.
const LIMIT_UNIT: usize = 16 << 10;

/// Returns the limit of the world for a requested one. It is rounded up, so that the heap can be expanded to exactly what was requested.
pub(crate) fn limit(bytes: usize) -> usize {
    bytes.max(SMALLEST_LIMIT).checked_next_multiple_of(LIMIT_UNIT).unwrap_or(usize::MAX)
}

/// How much a heap may grow for each live byte before the next collection. bdwgc collects after about the live bytes, divided by the
/// divisor, were allocated. Half as much again lets the crystal compiler and nix collect as seldom as with bdwgc, in as much memory.
fn growth() -> f64 {
    1.5 / GC_free_space_divisor.load(Ordering::Relaxed).max(1) as f64
}

fn print_statistics(report: &CollectionReport) {
    print::log(&format!("{report:?}\n"));
}

/// Ends the process if another libgc is loaded: the program would have two heaps, and each would free what only the other refers to.
fn refuse_a_second_library() {
    let mut other = None;
    loaded::for_each_other_object(|name| {
        let file = name.rsplit('/').next().unwrap_or_default();
        if file.starts_with("libgc.so.1") {
            other = Some(name.to_owned());
        }
    });
    if let Some(name) = other {
        print::refuse(&format!(
            "another libgc is loaded beside this one, {name}: load this one alone, by LD_LIBRARY_PATH and not by LD_PRELOAD"
        ));
    }
}

/// Registers the handlers of forks, once: when the library is loaded, before the program registers any, so that the program's own handlers
/// may use the heap.
extern "C" fn handle_forks() {
    static ONCE: Once = Once::new();
    // Handlers are called in reverse order before a fork, so the library's lock is taken after the world's locks, as in a collection.
    let register = || {
        // SAFETY: the functions only take and release the library's lock.
        unsafe { thread::at_fork(before_fork, after_fork_in_parent, after_fork_in_child) }?;
        World::handle_forks()
    };
    ONCE.call_once(|| {
        if register().is_err() {
            print::abort("the system has no memory for the handlers of forks");
        }
    });
}

/// Called by the loader.
#[used]
#[unsafe(link_section = ".init_array")]
static WHEN_LOADED: extern "C" fn() = handle_forks;

unsafe extern "C" fn before_fork() {
    LOCK.acquire();
}

unsafe extern "C" fn after_fork_in_parent() {
    LOCK.release();
}

unsafe extern "C" fn after_fork_in_child() {
    loaded::forked();
    LOCK.release();
}
