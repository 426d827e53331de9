//! Several markers on one heap.
//!
//! The collecting thread is one marker; the others are service threads of the world, which sleep between phases
//! and are never mutators: nothing ever stops them, and they work for collections only.
//! Waking a service thread takes as long as marking some thousand objects. So they are woken only when the collecting thread has
//! marked that many and has tasks to give away: a small heap never wakes them, unless it has large roots. Work moves through a small pool: a
//! marker that sees an idle marker puts its oldest tasks there, up to half of all that it has. [`Termination`] decides when the phase is over.
//!
//! [Large roots](RootAreas) are in pieces, which the markers take before they look for other work. There too, the collecting thread begins
//! alone, and wakes the others if what is left would take it much longer than the waking.
//!
//! Marking needs no atomic read-modify-write: a mark is a byte of its own, and two markers that race write
//! the same value. Then both scan the object, which is wasted work but not wrong; counts are taken from the
//! mark bytes afterwards.
//!
//! # Other work
//! The service threads also help to count the marks of blocks, to find unmarked objects with finalizers, to clear weak references and to
//! remove the entries of dead keys. Most of these visit consecutive numbers ([`InRanges`]): the collecting thread begins alone, and wakes the others
//! if what is left would take it much longer than the waking. The weak references are in one list of each marker, and the lengths decide.

use std::cell::UnsafeCell;
use std::io;
use std::ops::Range;
use std::ptr;
use std::sync::Arc;

use super::helpers::{Helpers, LastPhase};
use super::key_index::IndexMemory;
use super::linked_objects::LinkedObjects;
use super::mark::Marker;
use super::mark_stack::MarkStack;
use super::ranges::Ranges;
use super::root_areas::RootAreas;
use super::sharing::{HelperResult, HelperTask, Pool, Shared};
use super::termination::{Idle, Termination};
use super::timing::CollectorTime;
use crate::events::Events;
use crate::heap::Heap;
use crate::heap::ranges::{InRanges, Visit};
use crate::os::callback;
use crate::os::clock::now_ns;
use crate::os::spawn::{Spawned, spawn};
use crate::sync::{AtomicU32, AtomicUsize, Ordering};
use crate::world::inside;

/// How often a marker without work checks the pool before it sleeps, which takes some 20 µs. Waking a sleeping processor takes
/// twice as long, and a busy marker shares its work within 2 µs after another has become hungry.
const LOOKS: u32 = 1000;

/// The collecting thread's number among the markers, as events report it.
const COLLECTING: u32 = 0;

/// The state changes of a marker, as events report them.
#[derive(Clone, Copy)]
#[repr(u32)]
enum Moment {
    Begins = 0,
    RanDry = 1,
    AllDone = 2,
}

/// How many offers of work the collecting thread skips before it wakes the helper threads: about 4,000 objects, 30 to
/// 50 µs, which is as long as waking them takes.
const OFFERS_ALONE: u32 = 16;

/// The remaining work, in nanoseconds, from which waking the helper threads pays. Waking takes about a third of it.
const WORTH_HELPERS_NS: u64 = 150_000;

/// How long the collecting thread visits ranges before it estimates what is left, in nanoseconds.
const ALONE_NS: u64 = 20_000;

/// The number of weak cells outside the longest list from which waking the helper threads pays. One thread visits that number in 100 to 200 µs.
const WORTH_HELPERS_CELLS: usize = 16_384;

/// Scans large roots on the collecting thread, and on the others if that is worth waking them.
fn scan_areas(shared: &Shared, marker: &mut Marker<'_>, areas: &RootAreas<'_>) {
    let pieces = areas.pieces();
    if pieces == 0 {
        return;
    }
    if marker.heap.paranoid {
        // The paranoid mode wants as many races as possible.
        shared.wake_helpers();
    }
    // What the other roots lead to is no measure for the pieces. If it is much, the others are woken for the pieces meanwhile.
    marker.drain();
    let begun = now_ns();
    shared.ranges.visit(|numbers| {
        let done = numbers.end;
        marker.pieces(areas, numbers);
        if shared.asleep.load(Ordering::Relaxed) > 0 && is_worth_helpers(now_ns() - begun, done, pieces) {
            shared.wake_helpers();
        }
    });
}

/// Runs one marker in a phase until no marker has work.
fn mark_until_the_end(shared: &Shared, marker: &mut Marker<'_>) {
    loop {
        marker.drain();
        if shared.asleep.load(Ordering::Relaxed) > 0 {
            return;
        }
        if look_for_work(shared, marker) {
            continue;
        }
        let snapshot = shared.termination.snapshot();
        if !shared.pool.take(|tasks| marker.adopt(tasks)) && shared.termination.became_idle(snapshot) == Idle::Finished
        {
            return;
        }
    }
}

/// Polls the pool for a while, still counted as a busy marker. Returns true if there was work.
fn look_for_work(shared: &Shared, marker: &mut Marker<'_>) -> bool {
    shared.hungry.fetch_add(1, Ordering::Relaxed);
    let found = (0..LOOKS).any(|_| {
        std::hint::spin_loop();
        shared.pool.has_work() && shared.pool.take(|tasks| marker.adopt(tasks))
    });
    shared.hungry.fetch_sub(1, Ordering::Relaxed);
    found
}

/// The markers of one world.
pub(crate) struct Markers {
    shared: Arc<Shared>,
    threads: Vec<Spawned>,
    stack: UnsafeCell<MarkStack>,
    /// The size of each marker's stack in bytes.
    stack_bytes: usize,
    /// The number of service threads that exist; 0 in a forked child.
    helpers: AtomicU32,
    index_memory: IndexMemory,
}

// SAFETY: only the collecting thread uses `stack`, and the collection lock allows one at a time.
unsafe impl Sync for Markers {}

impl Markers {
    /// Creates `count` markers, the collecting thread included.
    pub(crate) fn new(count: usize, stack_bytes: usize) -> io::Result<Self> {
        let helpers = count.saturating_sub(1);
        let idle = HelperResult {
            objects: 0,
            overflowed: false,
            weak_cells: LinkedObjects::EMPTY,
            bound_objects: LinkedObjects::EMPTY,
            tables: LinkedObjects::EMPTY,
            high_water: 0,
        };
        let shared = Arc::new(Shared {
            pool: Pool::new()?,
            hungry: AtomicU32::new(0),
            termination: Termination::new(),
            asleep: AtomicU32::new(0),
            offers_alone: AtomicU32::new(0),
            helpers: Helpers::new(),
            task: UnsafeCell::new(HelperTask::Mark { heap: ptr::null(), events: ptr::null(), areas: ptr::null() }),
            ranges: Ranges::new(),
            time: CollectorTime::new(helpers),
            results: (0..helpers).map(|_| UnsafeCell::new(idle)).collect(),
        });
        // All memory is mapped before the first thread starts. Each thread is stored in `markers` as soon as it has started, and `markers`
        // ends its threads when it is dropped. So if the world can't be built, no thread continues to run.
        let mut stacks =
            (0..=helpers).map(|_| MarkStack::new(stack_bytes)).collect::<io::Result<Vec<_>>>()?.into_iter();
        let stack = stacks.next().map(UnsafeCell::new).ok_or(io::ErrorKind::OutOfMemory)?;
        let (helpers, index_memory) = (AtomicU32::new(0), IndexMemory::new());
        let mut markers = Self { shared, threads: Vec::new(), stack, stack_bytes, helpers, index_memory };
        // The program's signal handlers must not run on these threads, and no stop signal is ever sent to them: a handler that allocates
        // would attach the thread, and no collection could stop it. From its first instruction on, a thread has the mask that it inherits.
        let _blocked = crate::os::signals::block_all();
        for (index, stack) in stacks.enumerate() {
            let shared = Arc::clone(&markers.shared);
            let name = format!("marker-{}", index + 1);
            let thread = spawn(&name, move || {
                // The thread fires events in the stopped world, where nothing may be allocated on first use
                // (`.stop.no-malloc`).
                crate::events::record::ring::allocate_thread_local();
                shared.time.is_helper(index);
                shared.helpers.start();
                help(&shared, index, stack);
            })?;
            markers.threads.push(thread);
            markers.helpers.store(index as u32 + 1, Ordering::Relaxed);
        }
        Ok(markers)
    }

    /// The size of each marker's stack in bytes.
    pub(crate) fn stack_bytes(&self) -> usize {
        self.stack_bytes
    }

    /// Begins the work of a collection with its objects: marking, and the steps that follow.
    ///
    /// # Safety
    /// The caller holds the collection lock and has stopped the world.
    pub(crate) unsafe fn begin<'a>(
        &'a self,
        heap: &'a Heap,
        events: &'a Events,
        threads: MarkingThreads,
    ) -> Marking<'a> {
        // SAFETY: the collection lock makes this the only collection.
        let stack = unsafe { &mut *self.stack.get() };
        let helpers = match (threads, self.helpers.load(Ordering::Relaxed)) {
            (MarkingThreads::All, helpers) if self.shared.helpers.have_started(helpers) => helpers,
            _ => 0,
        };
        Marking {
            heap,
            marker: Marker::new(heap, stack, None, events),
            shared: &self.shared,
            helpers,
            areas: RootAreas::new(helpers > 0, heap.paranoid),
            have_marked: 0,
            high: 0,
            tables: LinkedObjects::EMPTY,
            index_memory: &self.index_memory,
        }
    }

    /// Called before a stop: waits a little for service threads that have not started.
    pub(crate) fn wait_for_start(&self) {
        self.shared.helpers.wait_for_start(self.helpers.load(Ordering::Relaxed));
    }

    /// The number of marking threads, including the collecting one.
    pub(crate) fn count(&self) -> u32 {
        self.helpers.load(Ordering::Relaxed) + 1
    }

    /// Reserves what collections need for weak maps. Called before a weak map gets its table.
    ///
    /// # Errors
    /// The address space is exhausted.
    pub(crate) fn prepare_for_weak_maps(&self) -> io::Result<()> {
        self.index_memory.reserve()
    }

    /// The processor time of collections.
    pub(crate) fn time(&self) -> &CollectorTime {
        &self.shared.time
    }

    /// Called in a forked child, where the service threads do not exist (`.fork.services`).
    pub(crate) fn forget_helpers(&self) {
        self.shared.time.forget_helpers();
        self.helpers.store(0, Ordering::Relaxed);
    }
}

/// The threads that mark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MarkingThreads {
    /// The collecting thread alone: all other threads of the process are suspended from outside, the service threads included.
    Alone,
    /// The collecting thread and the service threads.
    All,
}

/// The work of one collection, from marking to the set-up of the sweep: the collecting thread's marker, and the service threads that may help.
pub(crate) struct Marking<'a> {
    heap: &'a Heap,
    /// The collecting thread's own marker, which takes the roots, except large ones.
    pub(crate) marker: Marker<'a>,
    /// The large roots, which all markers scan.
    pub(crate) areas: RootAreas<'a>,
    shared: &'a Shared,
    /// The number of service threads that may help.
    helpers: u32,
    /// The number of service threads that have marked in this collection: none or all. Only these have results.
    have_marked: u32,
    high: usize,
    /// The tables of weak maps whose entries are being decided.
    pub(super) tables: LinkedObjects,
    pub(super) index_memory: &'a IndexMemory,
}

impl Marking<'_> {
    /// Marks until nothing is left, with all available threads.
    pub(crate) fn run(&mut self) {
        if self.helpers == 0 {
            self.marker.pieces(&self.areas, 0..self.areas.pieces());
            self.marker.drain();
        } else {
            // The helpers need this thread to end the phase, so none may be left behind.
            callback::or_abort("a marker panicked", || self.run_together());
        }
        self.marker.recover_from_overflow();
    }

    fn run_together(&mut self) {
        let shared = self.shared;
        let areas = &self.areas;
        shared.ranges.start(0..areas.pieces(), 1);
        let task = HelperTask::Mark { heap: self.heap, events: self.marker.events, areas: ptr::from_ref(areas).cast() };
        // SAFETY: no service thread reads it between phases.
        unsafe { *shared.task.get() = task };
        shared.asleep.store(self.helpers, Ordering::Relaxed);
        // The paranoid mode wants as many races as possible.
        shared.offers_alone.store(if self.heap.paranoid { 0 } else { OFFERS_ALONE }, Ordering::Relaxed);
        self.marker.share = Some(shared);
        let events = self.marker.events;
        events.fire_marker_joined(COLLECTING, Moment::Begins as u32);
        scan_areas(shared, &mut self.marker, areas);
        mark_until_the_end(shared, &mut self.marker);
        events.fire_marker_joined(COLLECTING, Moment::RanDry as u32);
        self.marker.share = None;
        if shared.asleep.swap(0, Ordering::Relaxed) > 0 {
            // There was too little work to wake a helper.
            return;
        }
        shared.helpers.wait();
        self.have_marked = self.helpers;
        events.fire_marker_joined(COLLECTING, Moment::AllDone as u32);
        let (mut overflowed, mut high) = (false, 0);
        for result in self.results() {
            overflowed |= result.overflowed;
            high = high.max(result.high_water);
        }
        self.marker.overflowed |= overflowed;
        self.high = self.high.max(high);
    }

    /// Visits these numbers with all available threads.
    fn visit_together(&self, numbers: Range<usize>, at_once: usize, visit: &Visit<'_>) {
        let shared = self.shared;
        shared.ranges.start(numbers, at_once);
        // SAFETY: as in `run_together`. The reference is used until the end of the phase only, and `VisitPhase` waits for that, also if `visit`
        // panics here.
        unsafe { *shared.task.get() = HelperTask::Visit((&raw const visit).cast()) };
        let _phase = VisitPhase::begin(shared, self.helpers);
        shared.ranges.visit(visit);
    }

    /// The results of the service threads that have marked.
    fn results(&self) -> impl Iterator<Item = &mut HelperResult> + use<'_> {
        // SAFETY: the helpers have finished, and only the collecting thread comes here, one result after the other.
        self.shared.results[..self.have_marked as usize].iter().map(|result| unsafe { &mut *result.get() })
    }

    /// Continues marking on this thread alone, from the references pushed since [`run`](Self::run).
    pub(crate) fn run_on(&mut self) {
        self.marker.drain();
        self.marker.recover_from_overflow();
    }

    /// Visits the target word of every weak cell that was marked so far. Each cell is visited once, even if this is called again. If there are
    /// many, each thread visits those that one thread has marked. Returns for how many `visit` returned true.
    pub(crate) fn count_weak(&mut self, visit: impl Fn(&AtomicUsize) -> bool + Sync) -> u32 {
        let counted = AtomicU32::new(0);
        let lengths = || self.results().map(|result| result.weak_cells.len()).chain([self.marker.weak_cells.len()]);
        let outside_the_longest = lengths().sum::<usize>() - lengths().max().unwrap_or(0);
        let own = std::mem::replace(&mut self.marker.weak_cells, LinkedObjects::EMPTY);
        let (shared, lists) = (self.shared, self.have_marked as usize + 1);
        let visit_lists = |numbers: Range<usize>| {
            for number in numbers {
                let mut list = match number.checked_sub(1) {
                    None => own,
                    // SAFETY: the helpers have finished marking, and each list is taken by one thread.
                    Some(helper) => unsafe { shared.take_weak_cells(helper) },
                };
                let mut of_list = 0;
                list.take_all(&mut |link| {
                    // A weak cell's first word is its target, and the second its link.
                    // SAFETY: the target of a weak cell, in a stopped world.
                    let target = unsafe { &*((link - size_of::<usize>()) as *const AtomicUsize) };
                    of_list += u32::from(visit(target));
                });
                counted.fetch_add(of_list, Ordering::Relaxed);
            }
        };
        // The paranoid mode wants as many races as possible.
        let enough = if self.heap.paranoid { 1 } else { WORTH_HELPERS_CELLS };
        if outside_the_longest >= enough {
            self.visit_together(0..lists, 1, &visit_lists);
        } else {
            visit_lists(0..lists);
        }
        counted.into_inner()
    }

    /// Takes the address of one object that was marked so far and whose references the binding finds. Each is returned once.
    pub(crate) fn take_bound(&mut self) -> Option<usize> {
        let own = self.marker.bound_objects.take();
        let link = own.or_else(|| self.results().find_map(|result| result.bound_objects.take()))?;
        self.marker.object_of(link)
    }

    /// Takes the link word of the table of a weak map that was marked so far. Each table is returned once.
    pub(super) fn take_table(&mut self) -> Option<usize> {
        let own = self.marker.tables.take();
        own.or_else(|| self.results().find_map(|result| result.tables.take()))
    }

    /// Returns the number of objects marked in this phase. An object for which two markers raced counts twice.
    pub(crate) fn objects(&self) -> u64 {
        self.marker.marked + self.results().map(|result| result.objects).sum::<u64>()
    }

    /// Returns the largest number of bytes that a mark stack took in this phase.
    pub(crate) fn stack_high(&mut self) -> usize {
        self.high = self.high.max(self.marker.take_high_water());
        self.high
    }
}

/// A phase in which all threads visit ranges. Dropping it ends the phase.
struct VisitPhase<'a> {
    shared: &'a Shared,
}

impl<'a> VisitPhase<'a> {
    fn begin(shared: &'a Shared, helpers: u32) -> Self {
        shared.helpers.begin(helpers);
        Self { shared }
    }
}

impl Drop for VisitPhase<'_> {
    fn drop(&mut self) {
        // A panic of this thread leaves ranges that need not be visited.
        self.shared.ranges.stop();
        // The others are visiting their last ranges. To sleep and to be woken would take longer.
        for _ in 0..LOOKS {
            if self.shared.helpers.have_finished() {
                return;
            }
            std::hint::spin_loop();
        }
        self.shared.helpers.wait();
    }
}

impl InRanges for Marking<'_> {
    fn for_each(&self, count: usize, at_once: usize, visit: &Visit<'_>) {
        if self.helpers == 0 || count <= 1 || count <= at_once && !self.heap.paranoid {
            return visit(0..count);
        }
        if self.heap.paranoid {
            // The paranoid mode wants as many races as possible.
            return self.visit_together(0..count, count / 8 + 1, visit);
        }
        let (begun, mut done) = (now_ns(), 0);
        while done < count {
            let next = count.min(done + at_once);
            visit(done..next);
            done = next;
            if is_worth_helpers(now_ns() - begun, done, count) {
                return self.visit_together(done..count, at_once, visit);
            }
        }
    }
}

/// Whether waking the helper threads pays, after this time in which the collecting thread has done some of all.
fn is_worth_helpers(spent_ns: u64, done: usize, all: usize) -> bool {
    let left_ns = spent_ns.saturating_mul((all - done) as u64) / done as u64;
    spent_ns >= ALONE_NS && left_ns >= WORTH_HELPERS_NS
}

/// Runs the main loop of a service thread.
fn help(shared: &Shared, index: usize, mut stack: MarkStack) {
    let mut last = LastPhase::NONE;
    while let Some(phase) = shared.helpers.next_phase(last) {
        last = phase;
        inside::enter();
        // The collecting thread waits for the end of the phase.
        callback::or_abort("a marker panicked", || work(shared, index, &mut stack));
        inside::leave();
        shared.helpers.finish();
    }
}

/// Does the part of a service thread in a phase.
fn work(shared: &Shared, index: usize, stack: &mut MarkStack) {
    // SAFETY: written before the phase began, and not changed before it ends.
    match unsafe { *shared.task.get() } {
        HelperTask::Mark { heap, events, areas } => {
            // SAFETY: the heap and the events of a world outlive the phase, and so does the collecting thread's list of areas.
            let (heap, events, areas) = unsafe { (&*heap, &*events, &*areas) };
            // SAFETY: this thread's own result, read only after the phase.
            unsafe { *shared.results[index].get() = mark_as_helper(shared, index, heap, events, areas, stack) };
        }
        // SAFETY: the collecting thread has borrowed it for the phase.
        HelperTask::Visit(visit) => shared.ranges.visit(unsafe { *visit }),
    }
}

/// Marks as service thread `index` until no marker has work.
fn mark_as_helper(
    shared: &Shared,
    index: usize,
    heap: &Heap,
    events: &Events,
    areas: &RootAreas<'_>,
    stack: &mut MarkStack,
) -> HelperResult {
    let mut marker = Marker::new(heap, stack, Some(shared), events);
    events.fire_marker_joined(index as u32 + 1, Moment::Begins as u32);
    shared.ranges.visit(|pieces| marker.pieces(areas, pieces));
    mark_until_the_end(shared, &mut marker);
    events.fire_marker_joined(index as u32 + 1, Moment::RanDry as u32);
    HelperResult {
        objects: marker.marked,
        overflowed: marker.overflowed,
        weak_cells: marker.weak_cells,
        bound_objects: marker.bound_objects,
        tables: marker.tables,
        high_water: marker.take_high_water(),
    }
}

impl Drop for Markers {
    fn drop(&mut self) {
        if self.helpers.load(Ordering::Relaxed) == 0 {
            // There are no helpers, or they are threads of the parent process, which do not exist here.
            self.threads.drain(..).for_each(Spawned::forget);
            return;
        }
        self.shared.helpers.close();
        self.threads.drain(..).for_each(Spawned::join);
    }
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::time::Duration;

    use proptest::prelude::*;

    use super::*;
    use crate::heap::Paranoid;
    use crate::heap::charges::Charging;
    use crate::sync::SharedLock;

    /// Markers whose helpers have started.
    fn markers(count: usize) -> Markers {
        let markers = Markers::new(count, 4096).unwrap();
        while !markers.shared.helpers.have_started(count as u32 - 1) {
            markers.wait_for_start();
        }
        markers
    }

    /// Visits numbers together with the helpers.
    fn visit_together(markers: &Markers, numbers: Range<usize>, at_once: usize, visit: &Visit<'_>) {
        let heap = Heap::new(1 << 20, Paranoid::Off, Charging::Off, None, SharedLock::alone()).unwrap();
        let events = Events::new();
        // SAFETY: the heap has no mutators, and no other collection uses the markers.
        let marking = unsafe { markers.begin(&heap, &events, MarkingThreads::All) };
        marking.visit_together(numbers, at_once, visit);
    }

    #[test]
    fn each_number_is_visited_once() {
        let markers = markers(3);
        proptest!(|(first in 0_usize..50, count in 0_usize..3_000, at_once in 1_usize..700)| {
            let visits: Vec<AtomicU32> = (0..first + count).map(|_| AtomicU32::new(0)).collect();
            visit_together(&markers, first..first + count, at_once, &|numbers| {
                assert!(numbers.len() <= at_once);
                visits[numbers].iter().for_each(|visits| _ = visits.fetch_add(1, Ordering::Relaxed));
            });
            for (number, visits) in visits.into_iter().enumerate() {
                prop_assert_eq!(visits.into_inner(), u32::from(number >= first), "number {}", number);
            }
        });
    }

    /// What a helper uses lives on the stack of the collecting thread.
    #[test]
    fn a_panic_of_the_collecting_thread_waits_for_the_helpers() {
        let markers = markers(2);
        let collecting = std::thread::current().id();
        let (helper_is_inside, visited) = (AtomicU32::new(0), AtomicU32::new(0));
        let panics = catch_unwind(AssertUnwindSafe(|| {
            visit_together(&markers, 0..100, 1, &|_| {
                if std::thread::current().id() == collecting {
                    while helper_is_inside.load(Ordering::Relaxed) == 0 {
                        std::thread::yield_now();
                    }
                    panic!("in a range");
                }
                helper_is_inside.store(1, Ordering::Relaxed);
                std::thread::sleep(Duration::from_millis(20));
                visited.fetch_add(1, Ordering::Relaxed);
                helper_is_inside.store(0, Ordering::Relaxed);
            });
        }));
        assert!(panics.is_err());
        assert_eq!(helper_is_inside.load(Ordering::Relaxed), 0, "the phase has ended");
        assert!((1..50).contains(&visited.load(Ordering::Relaxed)), "and no more ranges were taken");
    }
}
