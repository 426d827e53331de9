//! Roots that the program registers: handles, ranges of memory, coroutine stacks.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::marker::PhantomData;
use std::sync::Arc;

use super::World;
use super::inner::Inner;
use crate::collector::Collector;
use crate::heap::pointer::Gc;
use crate::heap::slots::SlotTable;
use crate::os::callback::refuse_inside;
use crate::os::thread;
use crate::sync::{Lock, LockGuard};

/// Takes the lock of a table that a collection holds while it scans. A thread that waits for it counts as blocking.
fn lock<'a>(collector: &Collector, table: &'a Lock) -> LockGuard<'a> {
    // SAFETY: the calling thread's number; the child of a fork forgets the number of its parent.
    match unsafe { table.try_lock_as(thread::known_tid().0 as u32) } {
        Ok(guard) => guard,
        Err(_) => collector.threads.lock(table),
    }
}

/// A program that fills the table has a leak: the backtrace of the panic shows where it makes roots.
#[cold]
fn table_is_full(roots: &SlotTable) -> ! {
    panic!("all {} root handles of the world are in use: drop some of them", roots.capacity())
}

/// A handle that keeps a collected object alive wherever the handle itself is stored: in a struct on the malloc heap, in another
/// thread, in a channel. It is `Send` and `Sync`; [`Mutator::root`](crate::Mutator::root) makes one.
///
/// A `Root` takes one slot of a table. Making, cloning and dropping one takes a lock; [`get`](Self::get) does not. For a local
/// variable use a plain [`Gc`], which costs nothing. A `Root` does not keep its [`World`] open.
///
/// ```
/// use stopworld::World;
///
/// let world = World::builder().build()?;
/// // SAFETY: this thread keeps every `Gc` in local variables.
/// let mutator = unsafe { world.attach("main") }?;
/// let root = mutator.root(mutator.alloc(7_u64)?);
/// // SAFETY: as above. A `Gc` cannot move to another thread; a `Root` can.
/// let reader = unsafe { world.spawn("reader", move |mutator| *root.get(mutator)) }?;
/// mutator.collect()?;
/// assert_eq!(reader.join().unwrap(), 7);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// Roots are compared and hashed by the identity of their objects, because the value can be read only with a mutator.
///
/// # Panics
/// Making and cloning panic when the table is full: 4,194,304 roots, or fewer if the process's address space is limited.
pub struct Root<T: ?Sized + 'static> {
    pub(super) world: Arc<Inner>,
    pub(super) slot: usize,
    _refers: PhantomData<fn() -> Gc<T>>,
}

impl<T: ?Sized + 'static> Root<T> {
    pub(crate) fn new(world: &World, gc: Gc<T>) -> Self {
        refuse_inside("Mutator::root");
        let collector = world.collector();
        let roots = &collector.roots;
        let slot = roots.take(Gc::addr(gc), || lock(collector, &roots.lock)).unwrap_or_else(|| table_is_full(roots));
        collector.events.fire_root_created(roots.address(slot), Gc::addr(gc));
        Self { world: Arc::clone(world.inner()), slot, _refers: PhantomData }
    }

    /// The address of the object, in the slot that keeps it alive.
    fn addr(&self) -> usize {
        self.world.collector.roots.get(self.slot)
    }
}

impl<T: ?Sized + 'static> Clone for Root<T> {
    fn clone(&self) -> Self {
        refuse_inside("Root::clone");
        let collector = &self.world.collector;
        let roots = &collector.roots;
        let word = roots.get(self.slot);
        let slot = roots.take(word, || lock(collector, &roots.lock)).unwrap_or_else(|| table_is_full(roots));
        self.world.collector.events.fire_root_created(roots.address(slot), roots.get(slot));
        Self { world: Arc::clone(&self.world), slot, _refers: PhantomData }
    }
}

impl<T: ?Sized + 'static> Drop for Root<T> {
    fn drop(&mut self) {
        refuse_inside("the drop of a Root");
        let collector = &self.world.collector;
        collector.events.fire_root_dropped(collector.roots.address(self.slot));
        collector.roots.give_back(self.slot, || lock(collector, &collector.roots.lock));
    }
}

/// Two roots are equal if they keep the same object.
impl<T: ?Sized + 'static> PartialEq for Root<T> {
    fn eq(&self, other: &Self) -> bool {
        self.addr() == other.addr()
    }
}

impl<T: ?Sized + 'static> Eq for Root<T> {}

/// By the address of the object, which does not move.
impl<T: ?Sized + 'static> Hash for Root<T> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.addr().hash(state);
    }
}

impl<T: ?Sized + 'static> fmt::Debug for Root<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Root({:#x})", self.addr())
    }
}

impl World {
    /// Registers a range of ordinary memory as a root. Each collection scans all aligned words of it conservatively, until the
    /// guard is dropped. Returns `None` if 65,536 ranges are registered already. Takes a lock, for which it waits during a collection, and looks for a
    /// free place: O(n) for n registered ranges.
    ///
    /// # Safety
    /// The memory is readable until the guard is dropped, and references in it are written as whole words.
    #[must_use]
    pub unsafe fn register_range(&self, start: *const u8, bytes: usize) -> Option<RangeGuard> {
        RangeGuard::new(self, start as usize, bytes)
    }
}

/// Keeps a range of ordinary memory registered as a root until dropped. See [`World::register_range`].
#[derive(Debug)]
pub struct RangeGuard {
    world: World,
    index: usize,
}

impl RangeGuard {
    pub(crate) fn new(world: &World, low: usize, bytes: usize) -> Option<Self> {
        refuse_inside("World::register_range");
        let collector = world.collector();
        let index = collector.ranges.add(low, low + bytes, || lock(collector, &collector.ranges.lock))?;
        Some(Self { world: world.clone(), index })
    }
}

impl Drop for RangeGuard {
    fn drop(&mut self) {
        refuse_inside("the drop of a RangeGuard");
        let collector = self.world.collector();
        collector.ranges.remove(self.index, || lock(collector, &collector.ranges.lock));
    }
}

/// Keeps a coroutine's stack registered as a root until dropped: each collection scans all of it. See
/// [`Mutator::register_stack`](crate::Mutator::register_stack).
#[derive(Debug)]
pub struct StackGuard {
    world: World,
    id: u64,
}

impl StackGuard {
    pub(crate) fn new(world: &World, low: usize, high: usize) -> Self {
        refuse_inside("Mutator::register_stack");
        Self { world: world.clone(), id: world.collector().threads.register_stack(low, high) }
    }
}

impl Drop for StackGuard {
    fn drop(&mut self) {
        refuse_inside("the drop of a StackGuard");
        self.world.collector().threads.unregister_stack(self.id);
    }
}
