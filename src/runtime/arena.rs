//! [`Arena`], the way to collected objects without `unsafe`.

use std::fmt;
use std::marker::PhantomData;
use std::mem::{ManuallyDrop, size_of, transmute_copy};

use super::mutator::Mutator;
use super::{OutOfMemory, Root, World};
use crate::collector::CollectError;
use crate::collector::report::CollectionReport;
use crate::heap::local::{InScope, Local, Scoped};
use crate::heap::pointer::Gc;
use crate::heap::trace::Trace;
use crate::os::callback::refuse_inside;
use crate::world::AttachError;

/// A graph of collected objects that safe code can use: everything that is reachable from one root object.
///
/// Code reaches the objects in a scope, the closure that [`enter`](Self::enter) runs. Its references are [`Local`]s, whose lifetime is that
/// of the scope: none can leave it. In the scope they may be anywhere, in a `Vec`, a `Box` or a thread-local of the closure's own, because **no
/// collection of the world begins while a thread is in a scope**. Between two scopes only what the root reaches is kept, and
/// nothing else: the thread's stack is not scanned. Between two scopes the thread counts as
/// [blocking](Mutator::blocking), so no stop waits for it or interrupts it.
///
/// ```
/// use stopworld::{Arena, GcCell, Local, Trace, World};
///
/// #[derive(Trace)]
/// struct Node<'gc> {
///     value: u64,
///     next: GcCell<Option<Local<'gc, Node<'gc>>>>,
/// }
///
/// let world = World::builder().build()?;
/// let arena = Arena::<Node<'static>>::new(&world, "main", |_| Node { value: 0, next: GcCell::new(None) })?;
/// arena.enter(|scope, root| {
///     let nodes = (1..=3).map(|value| scope.alloc(Node { value, next: root.next.clone() }));
///     let nodes: Vec<_> = nodes.collect::<Result<_, _>>()?; // a `Vec` of references is no mistake here
///     root.next.set(Some(nodes[2]));
///     nodes[2].next.set(Some(nodes[0])); // nothing refers to the second any more
///     Ok::<_, stopworld::OutOfMemory>(())
/// })?;
/// assert_eq!(arena.collect()?.live_objects, 3);
/// let sum = arena.enter(|_, root| {
///     let nodes = std::iter::successors(root.next.get(), |node| node.next.get());
///     nodes.map(|node| node.value).sum::<u64>()
/// });
/// assert_eq!(sum, 4);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// The lifetime of each scope is a type of its own, as in the crate gc-arena: a reference of one scope fits neither another scope nor
/// another arena.
///
/// ```compile_fail
/// # use stopworld::{Arena, GcCell, Local, Trace, World};
/// # #[derive(Trace)]
/// # struct Node<'gc> { next: GcCell<Option<Local<'gc, Node<'gc>>>> }
/// # let world = World::builder().build().unwrap();
/// # let arena = Arena::<Node<'static>>::new(&world, "main", |_| Node { next: GcCell::new(None) }).unwrap();
/// let escaped = arena.enter(|_, root| root);
/// ```
///
/// # What it costs, and what it forbids
/// * A scope delays the collections of all threads of the world: they wait for its end, at most
///   [`stop_timeout`](crate::WorldBuilder::stop_timeout). So a scope should be short, and should not wait for anything.
/// * In a scope the heap grows without a collection, up to the limit. A collection that became due runs at the end of the scope.
/// * Objects have no finalizers. A value without references may have a destructor, which runs on the finalizer thread: `Leaf<String>`.
/// * The [collections](crate::collections) need a [`Mutator`], so they are not available.
/// * A type of objects has one lifetime or none, and no type parameters besides a lifetime.
/// * Entering costs one acquisition of the allocation lock, about as much as an uncontended mutex. A reference costs nothing.
///
/// An arena attaches its thread to the world, so a thread has at most one at a time. Threads that are attached by
/// [`World::attach`] may use the same world.
pub struct Arena<R: Scoped<Static = R> + Trace> {
    // Dropped before the mutator.
    root: Root<R>,
    mutator: Mutator,
}

/// Why an [`Arena`] could not be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ArenaError {
    /// The thread could not attach to the world.
    #[error(transparent)]
    Attach(#[from] AttachError),
    /// There was no memory for the root object.
    #[error(transparent)]
    OutOfMemory(#[from] OutOfMemory),
}

impl<R: Scoped<Static = R> + Trace> Arena<R> {
    /// Attaches the calling thread to the world under this name, and makes the root object from the value that `root` returns.
    ///
    /// # Errors
    /// Those of [`World::attach`], for example if the thread is attached already; or there was no memory.
    pub fn new(
        world: &World,
        name: &str,
        root: impl for<'gc> FnOnce(&Scope<'gc>) -> R::In<'gc>,
    ) -> Result<Self, ArenaError> {
        let mutator = Mutator::attach(world.clone(), name)?;
        mutator.cache.arena.begin();
        let root = {
            let _inside = Inside::enter(&mutator);
            let value = root(&Scope { mutator: &mutator, _scope: PhantomData });
            // SAFETY: the same type but for the lifetime. The thread is in the scope until the object has its root.
            mutator.root(mutator.alloc(unsafe { same::<_, R>(value) })?)
        };
        mutator.begin_blocking();
        Ok(Self { root, mutator })
    }

    /// Runs `scope` with the root object, and returns its result. No collection of the world begins meanwhile. Scopes of one arena may be
    /// nested: the outermost counts.
    ///
    /// If a collection waits for the scopes of other threads, this waits for that collection first.
    pub fn enter<T>(&self, scope: impl for<'gc> FnOnce(&Scope<'gc>, Local<'gc, R::In<'gc>>) -> T) -> T {
        self.mutator.unblocked(|| {
            let _inside = Inside::enter(&self.mutator);
            let root = self.root.get(&self.mutator);
            // SAFETY: the same object, with the lifetime of this scope in its type.
            let root = unsafe { Local::from_gc(Gc::from_addr(Gc::addr(root))) };
            scope(&Scope { mutator: &self.mutator, _scope: PhantomData }, root)
        })
    }

    /// Runs a collection, as [`World::collect`] does, at the same cost: it stops all threads, and marks what is reachable.
    ///
    /// # Errors
    /// As for [`World::collect`]. In a scope of this arena it always fails.
    pub fn collect(&self) -> Result<CollectionReport, CollectError> {
        self.mutator.collect()
    }

    /// Returns the world of this arena. Costs nothing; a clone of it is two atomic additions.
    pub fn world(&self) -> &World {
        self.mutator.world()
    }
}

impl<R: Scoped<Static = R> + Trace> fmt::Debug for Arena<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Arena").field("root", &self.root).field("mutator", &self.mutator).finish()
    }
}

/// Permission to allocate in an [`Arena`], for the time of one scope.
pub struct Scope<'gc> {
    mutator: &'gc Mutator,
    _scope: InScope<'gc>,
}

impl<'gc> Scope<'gc> {
    /// Moves `value` into the collected heap, and returns a reference to it. Costs as much as [`Mutator::alloc`].
    ///
    /// # Errors
    /// The heap limit is reached. No collection runs in a scope: there may be room after it.
    #[inline]
    pub fn alloc<T>(&self, value: T) -> Result<Local<'gc, T>, OutOfMemory>
    where
        T: Scoped<In<'gc> = T>,
        T::Static: Trace,
    {
        // SAFETY: the same type but for the lifetime.
        let object = self.mutator.alloc(unsafe { same::<T, T::Static>(value) })?;
        // SAFETY: the object that was allocated. This thread is in the scope `'gc`.
        Ok(unsafe { Local::from_gc(Gc::from_addr(Gc::addr(object))) })
    }

    /// Allocates a copy of a text.
    ///
    /// # Errors
    /// As [`alloc`](Self::alloc).
    pub fn alloc_str(&self, text: &str) -> Result<Local<'gc, str>, OutOfMemory> {
        // SAFETY: this thread is in the scope `'gc`.
        self.mutator.alloc_str(text).map(|gc| unsafe { Local::from_gc(gc) })
    }

    /// Allocates a slice with the given elements.
    ///
    /// # Errors
    /// As [`alloc`](Self::alloc).
    pub fn alloc_slice<T>(&self, elements: &[T]) -> Result<Local<'gc, [T]>, OutOfMemory>
    where
        T: Scoped<In<'gc> = T> + Copy,
        T::Static: Trace,
    {
        let element = |index: usize| {
            // SAFETY: the same type but for the lifetime, and `Copy`.
            unsafe { same::<T, T::Static>(elements[index]) }
        };
        let array = self.mutator.alloc_array::<T::Static>(elements.len(), element)?;
        // SAFETY: this thread is in the scope `'gc`; the elements are the caller's.
        Ok(unsafe { Local::from_gc(Gc::from_addr(Gc::addr(array))) })
    }
}

impl fmt::Debug for Scope<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scope").field("mutator", self.mutator).finish()
    }
}

/// Converts a value to the same type with another lifetime.
///
/// # Safety
/// `From` and `To` differ only in a lifetime.
#[inline]
unsafe fn same<From, To>(value: From) -> To {
    const { assert!(size_of::<From>() == size_of::<To>()) };
    let value = ManuallyDrop::new(value);
    // SAFETY: the caller's promise.
    unsafe { transmute_copy(&*value) }
}

/// A thread's presence in a scope.
struct Inside<'a>(&'a Mutator);

impl<'a> Inside<'a> {
    fn enter(mutator: &'a Mutator) -> Self {
        refuse_inside("a scope of an arena");
        let thread = &mutator.cache.arena;
        if !thread.is_in_scope() {
            // A scope that ended by a panic has left it.
            mutator.collect_after_scope();
            let scopes = &mutator.world().collector().scopes;
            while !mutator.blocking(|| scopes.may_enter()) {}
            scopes.enter(&mutator.allocation_lock());
        }
        thread.enter();
        Self(mutator)
    }
}

impl Drop for Inside<'_> {
    fn drop(&mut self) {
        let Self(mutator) = self;
        mutator.cache.arena.leave();
        if !mutator.cache.arena.is_in_scope() {
            mutator.world().collector().scopes.leave();
            if !std::thread::panicking() {
                mutator.collect_after_scope();
            }
        }
    }
}
