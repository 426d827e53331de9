//! The binding of a language runtime: code of the program that takes part in each collection (`.stop.binding`).
//!
//! A runtime that was written for another collector finds roots by code and not by data: it walks its own list of loaded objects, of
//! fibers, of weak tables. A [`Binding`] is that code. It is called at fixed points of a collection, on the collecting thread:
//!
//! ```text
//!   may_collect     the world runs; no lock is held                                 can postpone the collection
//!   prepare         the world runs; no lock is held                                 may allocate from malloc
//!   about_to_stop   the world runs; the collection's locks are held                 takes the binding's own locks
//!   stack_end       all threads are stopped                                         finds the end of an unknown stack
//!   roots           all threads are stopped; after the world's own roots
//!   after_marking   all threads are stopped; after weak references and finalizers
//!   restarted       the world runs; or it could not be stopped                      releases the binding's locks
//! ```
//!
//! Between `about_to_stop` and `restarted` the rules of the stopped world hold for this code too (`.stop.no-malloc`, `.stop.locks`,
//! `.stop.no-mutator`): no malloc, no lock that a stopped thread may hold, no use of the heap but through what the function is given. A
//! lock that `roots` or `after_marking` needs is taken in `about_to_stop`. Threads that wait for it must be in blocking regions
//! meanwhile, or stoppable by signals.

use super::ephemerons;
use super::mark::Marker;
use super::parallel::Marking;
use crate::heap::Heap;
use crate::heap::trace::TypeInfo;
use crate::os::callback;
use crate::world::stop_info::ThreadStopInfo;

/// Code of a language runtime that takes part in each collection of a world. Every function has a default that does nothing.
/// [`WorldBuilder::binding`](crate::WorldBuilder::binding) installs it. A panic in it aborts the process.
///
/// # Safety
/// * From [`about_to_stop`](Self::about_to_stop) to [`restarted`](Self::restarted), the functions allocate nothing from malloc, print
///   nothing, take no lock that a stopped thread may hold, and do not use the heap except through their argument.
/// * [`stack_end`](Self::stack_end) returns the end of readable memory that begins at the stack pointer.
pub unsafe trait Binding: Send + Sync {
    /// Called before a collection takes its first lock. Here the binding can map memory and call the dynamic loader.
    fn prepare(&self) {}

    /// Returns whether a collection may begin because the budget of allocations is spent. If not, the thread goes on to allocate, and the
    /// budget is doubled. Not asked for a collection that is requested, or when the heap's limit is reached.
    fn may_collect(&self) -> bool {
        true
    }

    /// Called when the collection holds its locks, right before it stops the threads.
    fn about_to_stop(&self) {}

    /// Adds roots. Called after the world's own roots have been scanned, except large ones, and again in the same stop if a heap dump or a profile needs
    /// the roots.
    fn roots(&self, roots: &mut RootScanner<'_>) {
        let _ = roots;
    }

    /// Looks at what marking has found, for weak tables and finalizers of the binding. Called after the world's own weak references
    /// have been cleared, and before anything is freed. Not called for a collection that is discarded.
    fn after_marking(&self, heap: &mut MarkedHeap<'_, '_>) {
        let _ = heap;
    }

    /// Called when the world runs again, and when a stop has failed: once for each call of `about_to_stop`.
    fn restarted(&self) {}

    /// Returns where the stack ends on which the thread was stopped, if that stack is neither the thread's own nor a registered one; `None`
    /// if the binding does not know it either, so that the stop fails. The memory from `stack_ptr` up to the end is scanned, and the
    /// thread's own stack too, all of it.
    fn stack_end(&self, thread: &ThreadStopInfo, stack_ptr: usize) -> Option<usize> {
        let _ = (thread, stack_ptr);
        None
    }
}

/// What is done with the roots of a binding: they are marked from, or shown to an observer.
pub(super) trait RootSink {
    /// # Safety
    /// As for [`RootScanner::range`].
    unsafe fn range(&mut self, low: usize, high: usize);

    /// # Safety
    /// As for [`RootScanner::range`].
    unsafe fn stack(&mut self, low: usize, high: usize);

    fn object(&mut self, address: usize);

    fn word(&mut self, word: usize);
}

impl RootSink for Marker<'_> {
    unsafe fn range(&mut self, low: usize, high: usize) {
        // SAFETY: the caller's promise.
        unsafe { self.registered_range(low, high) };
    }

    unsafe fn stack(&mut self, low: usize, high: usize) {
        // SAFETY: the caller's promise.
        unsafe { self.conservative_range(low, high) };
    }

    fn object(&mut self, address: usize) {
        self.handle(address);
    }

    fn word(&mut self, word: usize) {
        self.untyped_word(word);
    }
}

/// Adds roots to a collection. Given to [`Binding::roots`].
pub struct RootScanner<'a> {
    sink: &'a mut dyn RootSink,
    roots: u64,
}

impl<'a> RootScanner<'a> {
    /// Calls the binding, and returns how many roots it has added.
    pub(super) fn scan(binding: &dyn Binding, sink: &'a mut dyn RootSink) -> u64 {
        let mut scanner = Self { sink, roots: 0 };
        callback::call(|| binding.roots(&mut scanner));
        scanner.roots
    }

    /// Scans a range as untyped objects are scanned: [`ObjectPointers`](crate::untyped::ObjectPointers) says which words count.
    /// `low` is rounded up, and `high` down, to a multiple of 8.
    ///
    /// # Safety
    /// The range is readable, and no running thread writes it.
    pub unsafe fn range(&mut self, low: usize, high: usize) {
        self.roots += 1;
        // SAFETY: the caller's promise.
        unsafe { self.sink.range(low, high) };
    }

    /// Scans a range as a stack is scanned: pointers to any byte of an object count.
    ///
    /// # Safety
    /// As for [`range`](Self::range).
    pub unsafe fn stack(&mut self, low: usize, high: usize) {
        self.roots += 1;
        // SAFETY: the caller's promise.
        unsafe { self.sink.stack(low, high) };
    }

    /// Keeps the object alive that begins at this address. Has no effect if none begins there.
    pub fn object(&mut self, address: usize) {
        self.roots += 1;
        self.sink.object(address);
    }

    /// Examines one word as a word of an untyped object is examined.
    #[inline]
    pub fn word(&mut self, word: usize) {
        self.roots += 1;
        self.sink.word(word);
    }
}

/// The heap after marking: what is marked lives. Given to [`Binding::after_marking`].
pub struct MarkedHeap<'a, 'm> {
    heap: &'a Heap,
    marking: &'a mut Marking<'m>,
}

impl<'a, 'm> MarkedHeap<'a, 'm> {
    pub(super) fn new(heap: &'a Heap, marking: &'a mut Marking<'m>) -> Self {
        Self { heap, marking }
    }

    /// Returns whether the object that begins at this address is alive. False if none begins there.
    pub fn is_marked(&self, address: usize) -> bool {
        self.heap.is_marked(address)
    }

    /// Keeps an object alive, with everything that it refers to. This takes effect at the next [`mark`](Self::mark).
    pub fn keep(&mut self, address: usize) {
        self.marking.marker.last_reference(address);
    }

    /// Keeps alive what a dead object refers to, and not the object itself unless it refers to itself in turn. For finalizers that
    /// run in the order of references. Takes effect at the next [`mark`](Self::mark).
    ///
    /// # Safety
    /// An object that was alive at the last collection, or was allocated since, begins at this address.
    pub unsafe fn keep_referents(&mut self, address: usize) {
        // SAFETY: the caller's promise.
        unsafe { self.marking.marker.referents(address) };
    }

    /// Does the same as [`keep_referents`](Self::keep_referents), but ignores pointers of the object to itself.
    ///
    /// # Safety
    /// As for [`keep_referents`](Self::keep_referents). The object is an untyped one.
    pub unsafe fn keep_other_referents(&mut self, address: usize) {
        // SAFETY: the caller's promise.
        unsafe { self.marking.marker.other_referents(address) };
    }

    /// Keeps the object alive to which this word refers as a word of an untyped object. Takes effect at the next [`mark`](Self::mark).
    pub fn keep_word(&mut self, word: usize) {
        self.marking.marker.untyped_word(word);
    }

    /// Returns the size of the heap in bytes: the memory that it has taken from the kernel, or its
    /// [minimum](crate::World::set_minimum_heap) if that is more.
    pub fn heap_bytes(&self) -> usize {
        self.heap.committed_bytes().max(self.heap.minimum_bytes()) as usize
    }

    /// Returns whether this address lies in an object that is not marked, or in a free part of the heap. False if it lies outside of the
    /// heap.
    pub fn lies_in_dead_object(&self, address: usize) -> bool {
        self.heap.lies_in_unmarked_cell(address)
    }

    /// Returns the description of the object that begins at this address; `None` if none does.
    pub fn type_of(&self, address: usize) -> Option<&'static TypeInfo> {
        self.heap.object_at(address).map(|(_, info)| info)
    }

    /// Takes one marked object of a kind whose references the binding finds
    /// ([`UntypedKind::bound`](crate::untyped::UntypedKind::bound)), and returns its address. Each object is returned once in a
    /// collection, after it was marked. The binding passes what the object refers to, to [`keep_word`](Self::keep_word).
    pub fn take_bound(&mut self) -> Option<usize> {
        self.marking.take_bound()
    }

    /// Calls `visit` with the address and the description of each object that is not marked, and so will be freed unless it is
    /// [kept](Self::keep). Reads the whole heap.
    pub fn for_each_dead(&mut self, mut visit: impl FnMut(&mut Self, usize, &'static TypeInfo)) {
        let heap = self.heap;
        heap.for_each_unmarked(|address, info| visit(self, address, info));
    }

    /// Returns the number of bytes that the program may use of the object that begins at this address: at least as many as were asked for.
    /// 0 if none begins there.
    pub fn room_of(&self, address: usize) -> usize {
        self.heap.object_at(address).map_or(0, |(payload, _)| self.heap.room_of(payload))
    }

    /// Marks everything that the objects to be kept refer to.
    pub fn mark(&mut self) {
        self.marking.run_on();
        ephemerons::mark_values(self.marking);
    }
}

/// A binding that was notified of a stop, until the world runs again.
pub(super) struct BoundStop<'a>(Option<&'a dyn Binding>);

impl<'a> BoundStop<'a> {
    pub(super) fn begin(binding: Option<&'a dyn Binding>) -> Self {
        if let Some(binding) = binding {
            callback::call(|| binding.about_to_stop());
        }
        Self(binding)
    }
}

impl Drop for BoundStop<'_> {
    fn drop(&mut self) {
        if let Some(binding) = self.0 {
            callback::call(|| binding.restarted());
        }
    }
}
