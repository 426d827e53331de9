//! What this library does in each collection: its [`Binding`].
//!
//! ```text
//!   prepare         records the data segments of loaded objects
//!   about_to_stop   takes the library's lock; start callback, events of the beginning
//!   roots           data segments, added ranges, uncollectable objects, words of finalizers; then GC_push_other_roots
//!   after_marking   mark procedures; short links; finalizers; dangling links; long links; disclaim procedures; leaks
//!   restarted       events of the end; releases the lock
//! ```
//!
//! The library's lock comes after the collector's: a thread that holds it neither allocates nor collects. Functions of the program run
//! here on the collecting thread, some of them in the stopped world, as the interface has it: they may push roots and ask for marks, and
//! must not allocate.

use std::ffi::c_void;

use stopworld::untyped::{Binding, MarkedHeap, RootScanner};
use stopworld::{ThreadStopInfo, TypeInfo};

use crate::data::{GC_dont_gc, GC_gc_no, GC_on_heap_resize, GC_push_other_roots, GC_stackbottom, Procedure, is_on};
use crate::environment::NOT_AUTOMATIC;
use crate::hook::Hook;
use crate::lock::{Guarded, Held, LOCK};
use crate::os::{PAGE, is_mapped, thread};
use crate::sync::{AtomicBool, AtomicPtr, AtomicUsize, Ordering};
use crate::tables::disclaim;
use crate::tables::finalizers::{FINALIZERS, Marking};
use crate::tables::intervals::Intervals;
use crate::tables::kinds::BoundProcedure;
use crate::tables::leaks;
use crate::tables::links::{LONG, SHORT};
use crate::tables::loaded::{self, LOADED};
use crate::tables::objects::{KEPT_WORDS, STACK_ENDS, UNCOLLECTABLE};
use crate::tables::toggles::{self, TOGGLES};

/// A stage of a collection, with the numbers of the interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub(crate) enum Stage {
    Start = 0,
    MarkStart = 1,
    MarkEnd = 2,
    ReclaimStart = 3,
    ReclaimEnd = 4,
    End = 5,
    PreStopWorld = 6,
    PostStopWorld = 7,
    PreStartWorld = 8,
    PostStartWorld = 9,
}

pub(crate) type StageFunction = unsafe extern "C-unwind" fn(Stage);

pub(crate) static START_CALLBACK: Hook<Procedure> = Hook::new(std::ptr::null());
pub(crate) static ON_COLLECTION_EVENT: Hook<StageFunction> = Hook::new(std::ptr::null());
/// The ranges that the program has added as roots.
pub(crate) static ADDED: Guarded<Intervals> = Guarded::new(Intervals::new());
/// Bytes of objects that the program has freed since the last collection.
pub(crate) static FREED_BYTES: AtomicUsize = AtomicUsize::new(0);
/// Whether finalizers may be ready: set by a collection, cleared by the thread that sees to it.
pub(crate) static PENDING: AtomicBool = AtomicBool::new(false);

/// The scanner of the roots, while `GC_push_other_roots` runs; null otherwise.
static SCANNER: AtomicPtr<()> = AtomicPtr::new(std::ptr::null_mut());
/// The heap after marking, while a mark procedure or a disclaim procedure runs; null otherwise.
static MARKED: AtomicPtr<()> = AtomicPtr::new(std::ptr::null_mut());
/// The size of the heap in the last collection.
static HEAP_BYTES: AtomicUsize = AtomicUsize::new(0);
/// Whether the collection that is under way has begun to scan its roots: a stop may fail, and roots may be scanned twice.
static HAS_STOPPED: AtomicBool = AtomicBool::new(false);

fn report(stage: Stage) {
    if let Some(function) = ON_COLLECTION_EVENT.get() {
        // SAFETY: the program's function, which the interface lets be called at this stage.
        unsafe { function(stage) };
    }
}

/// Reports a size of the heap to the program's function for that, unless it was the last one to be reported.
pub(crate) fn report_size(bytes: usize, _: &Held) {
    static REPORTED: AtomicUsize = AtomicUsize::new(0);
    let Some(function) = GC_on_heap_resize.get() else { return };
    if REPORTED.swap(bytes, Ordering::Relaxed) != bytes {
        // SAFETY: the program's function, with the lock held and the world running, as the interface has it.
        unsafe { function(bytes) };
    }
}

/// Calls `push` with the scanner of the roots. Returns false if the calling thread is not in `GC_push_other_roots`.
pub(crate) fn with_scanner(push: impl FnOnce(&mut RootScanner<'_>)) -> bool {
    let scanner = SCANNER.load(Ordering::Relaxed).cast::<RootScanner<'static>>();
    if scanner.is_null() || !LOCK.is_mine() {
        return false;
    }
    // SAFETY: set by `push_other_roots` further up this thread's stack, which does not use it meanwhile; another thread does not hold
    // the lock.
    push(unsafe { &mut *scanner });
    true
}

/// Calls `use_marks` with the heap after marking. `None` if the calling thread is not in a mark procedure or a disclaim procedure.
pub(crate) fn with_marks<R>(use_marks: impl FnOnce(&mut MarkedHeap<'_, '_>) -> R) -> Option<R> {
    let heap = MARKED.load(Ordering::Relaxed).cast::<MarkedHeap<'static, 'static>>();
    if heap.is_null() || !LOCK.is_mine() {
        return None;
    }
    // SAFETY: set by `in_program` further up this thread's stack, which does not use it meanwhile; another thread does not hold
    // the lock.
    Some(use_marks(unsafe { &mut *heap }))
}

/// Calls a function of the program that may use the heap after marking, by [`with_marks`].
fn in_program<R>(heap: &mut MarkedHeap<'_, '_>, call: impl FnOnce() -> R) -> R {
    MARKED.store(std::ptr::from_mut(heap).cast(), Ordering::Relaxed);
    let result = call();
    MARKED.store(std::ptr::null_mut(), Ordering::Relaxed);
    result
}

/// Marks what dead objects refer to, of those kinds whose disclaim procedures need it.
fn mark_for_disclaiming(heap: &mut MarkedHeap<'_, '_>) {
    if !disclaim::is_any() {
        return;
    }
    heap.for_each_dead(|heap, object, type_info| {
        if !disclaim::keeps_referents(type_info) {
            return;
        }
        match BoundProcedure::of(type_info) {
            // SAFETY: an object of the procedure's kind, which is not freed yet.
            Some(procedure) => in_program(heap, || unsafe { procedure.call(object) }),
            // SAFETY: the object was alive before this collection.
            None => unsafe { heap.keep_referents(object) },
        }
    });
    heap.mark();
    call_procedures(heap);
}

/// Asks the program about dead objects of kinds with a disclaim procedure.
fn ask_whether_to_keep(heap: &mut MarkedHeap<'_, '_>) {
    if !disclaim::is_any() {
        return;
    }
    heap.for_each_dead(|heap, object, type_info| {
        let Some(function) = disclaim::function_of(type_info) else { return };
        // SAFETY: the program's function, with an object of its kind that is not freed yet.
        if in_program(heap, || unsafe { function(object as *mut c_void) }) != 0 {
            heap.keep(object);
        }
    });
    heap.mark();
    call_procedures(heap);
}

/// Records the objects that this collection frees and the program should have freed. Returns whether there are any.
fn record_leaks(heap: &mut MarkedHeap<'_, '_>, held: &Held) -> bool {
    let mut any = false;
    if leaks::are_wanted() {
        heap.for_each_dead(|heap, object, type_info| {
            any = true;
            leaks::found(object, heap.room_of(object), type_info, held);
        });
    } else {
        leaks::forget_dead(|object| heap.is_marked(object), held);
    }
    any
}

/// Calls the mark procedure of each marked object of a kind that has one, and marks what it pushes, until there is no other such object.
fn call_procedures(heap: &mut MarkedHeap<'_, '_>) {
    // Objects of one kind often follow each other.
    let mut last: Option<(&'static TypeInfo, Option<BoundProcedure>)> = None;
    loop {
        let mut any = false;
        while let Some(object) = heap.take_bound() {
            any = true;
            let Some(type_info) = heap.type_of(object) else { continue };
            let procedure = match last {
                Some((info, procedure)) if std::ptr::eq(info, type_info) => procedure,
                _ => BoundProcedure::of(type_info),
            };
            last = Some((type_info, procedure));
            if let Some(procedure) = procedure {
                // SAFETY: the object is marked, and of the procedure's kind.
                in_program(heap, || unsafe { procedure.call(object) });
            }
        }
        if !any {
            return;
        }
        heap.mark();
    }
}

fn push_other_roots(roots: &mut RootScanner<'_>) {
    let Some(function) = GC_push_other_roots.get() else { return };
    SCANNER.store(std::ptr::from_mut(roots).cast(), Ordering::Relaxed);
    // SAFETY: the program's function, in the stopped world, as the interface has it.
    unsafe { function() };
    SCANNER.store(std::ptr::null_mut(), Ordering::Relaxed);
}

/// The library's part in collections.
pub(crate) struct LibgcBinding;

// SAFETY: between `about_to_stop` and `restarted` the code below allocates nothing and takes no lock but the one that it has. The stack
// ends that it returns are those that the program gave, or ends of ranges that the program has registered as readable.
unsafe impl Binding for LibgcBinding {
    fn prepare(&self) {
        loaded::refresh();
        leaks::prepare();
    }

    fn may_collect(&self) -> bool {
        !is_on(&GC_dont_gc) && !is_on(&NOT_AUTOMATIC)
    }

    fn about_to_stop(&self) {
        LOCK.acquire();
        HAS_STOPPED.store(false, Ordering::Relaxed);
        if let Some(function) = START_CALLBACK.get() {
            // SAFETY: the program's function, with the lock held and the world running, as the interface has it.
            unsafe { function() };
        }
        // SAFETY: taken above.
        let held = unsafe { Held::assume() };
        // The table is not borrowed while the program's function runs.
        let mut entries = TOGGLES.get(&held).take();
        toggles::ask(&mut entries);
        TOGGLES.get(&held).put_back(entries);
        [Stage::Start, Stage::MarkStart, Stage::PreStopWorld].into_iter().for_each(report);
    }

    fn roots(&self, roots: &mut RootScanner<'_>) {
        if !HAS_STOPPED.swap(true, Ordering::Relaxed) {
            report(Stage::PostStopWorld);
        }
        // SAFETY: taken in `about_to_stop`.
        let held = unsafe { Held::assume() };
        // SAFETY: the segments of loaded objects, and what the program has registered as readable; all threads are stopped.
        unsafe {
            LOADED.get(&held).for_each(|low, high| roots.range(low, high));
            ADDED.get(&held).for_each(|low, high| roots.range(low, high));
        }
        UNCOLLECTABLE.get(&held).iter().for_each(|&object| roots.object(object));
        KEPT_WORDS.get(&held).values().for_each(|&word| roots.word(word));
        FINALIZERS.get(&held).for_each_root(|word| roots.word(word));
        TOGGLES.get(&held).for_each_strong(|object| roots.object(object));
        push_other_roots(roots);
    }

    fn after_marking(&self, heap: &mut MarkedHeap<'_, '_>) {
        // SAFETY: taken in `about_to_stop`.
        let held = unsafe { Held::assume() };
        call_procedures(heap);
        mark_for_disclaiming(heap);
        // SAFETY: links are words that the program has registered, and says so before it frees them.
        unsafe { SHORT.get(&held).clear_dead(|object| heap.is_marked(object)) };
        if FINALIZERS.get(&held).find_dead(&mut Marks(heap)) > 0 {
            PENDING.store(true, Ordering::Relaxed);
        }
        SHORT.get(&held).forget_dangling(|link| heap.lies_in_dead_object(link));
        LONG.get(&held).forget_dangling(|link| heap.lies_in_dead_object(link));
        TOGGLES.get(&held).forget_dead(|object| heap.is_marked(object));
        // SAFETY: as above.
        unsafe { LONG.get(&held).clear_dead(|object| heap.is_marked(object)) };
        ask_whether_to_keep(heap);
        if record_leaks(heap, &held) {
            PENDING.store(true, Ordering::Relaxed);
        }
        GC_gc_no.fetch_add(1, Ordering::Relaxed);
        HEAP_BYTES.store(heap.heap_bytes(), Ordering::Relaxed);
        FREED_BYTES.store(0, Ordering::Relaxed);
        [Stage::MarkEnd, Stage::PreStartWorld].into_iter().for_each(report);
    }

    fn restarted(&self) {
        report(Stage::PostStartWorld);
        // SAFETY: taken in `about_to_stop`.
        let held = unsafe { Held::assume() };
        report_size(HEAP_BYTES.load(Ordering::Relaxed), &held);
        [Stage::ReclaimStart, Stage::ReclaimEnd, Stage::End].into_iter().for_each(report);
        LOCK.release();
    }

    fn stack_end(&self, thread: &ThreadStopInfo, stack_ptr: usize) -> Option<usize> {
        // SAFETY: taken in `about_to_stop`.
        let held = unsafe { Held::assume() };
        let tid = thread.tid().0;
        let of_main = || (tid == thread::getpid()).then(|| GC_stackbottom.load(Ordering::Relaxed));
        let set = STACK_ENDS.get(&held).get(&(tid as usize)).copied().or_else(of_main);
        // The end of the thread's own stack says nothing of the stack that it is on now.
        let (low, high) = thread.stack();
        let is_of_this_stack =
            |end: &usize| *end >= stack_ptr && !(low..=high).contains(end) && is_mapped(stack_ptr / PAGE * PAGE, *end);
        set.filter(is_of_this_stack).or_else(|| ADDED.get(&held).end_of(stack_ptr))
    }
}

/// The marks of the collection, for finalizers.
struct Marks<'a, 'b, 'c>(&'a mut MarkedHeap<'b, 'c>);

impl Marking for Marks<'_, '_, '_> {
    fn is_marked(&self, object: usize) -> bool {
        self.0.is_marked(object)
    }

    fn mark_referents(&mut self, object: usize, but_itself: bool) {
        // SAFETY: an object with a finalizer is alive until the finalizer is ready; then it is not in the table any more.
        unsafe {
            match but_itself {
                true => self.0.keep_other_referents(object),
                false => self.0.keep_referents(object),
            }
        }
    }

    fn keep(&mut self, object: usize) {
        self.0.keep(object);
    }

    fn run(&mut self) {
        self.0.mark();
        call_procedures(self.0);
    }
}
