//! [`GcMutex`], a lock in the collected heap.

use std::cell::UnsafeCell;
use std::fmt;
use std::mem::offset_of;
use std::ops::{Deref, DerefMut};

use crate::heap::trace::Layout;
use crate::sync::{Lock, LockGuard};
use crate::{Mutator, Trace};

/// A lock in the collected heap, with the interface of `Mutex`: how a collection in an object is changed.
///
/// Objects are shared, so their fields can't be changed, but for a [`GcCell`](crate::GcCell), which holds one word. A `GcMutex` holds a
/// value of any size, for example a [`GcHashMap`](crate::GcHashMap), and gives a `&mut` to it to one thread at a time.
///
/// A free lock costs one compare-exchange and one store. A thread that waits for a lock counts as
/// [blocking](Mutator::blocking), so it delays no stop. A thread may allocate and collect while it holds the lock; the collector does
/// not take it. There is no poisoning: after a panic the lock is free.
///
/// ```
/// use stopworld::{Gc, GcHashMap, GcMutex, Trace, World};
///
/// #[derive(Trace)]
/// struct Scope {
///     variables: GcMutex<GcHashMap<Gc<str>, f64>>,
///     parent: Option<Gc<Scope>>,
/// }
///
/// let world = World::builder().build()?;
/// // SAFETY: this thread keeps every `Gc` and every collection in local variables and in collected objects.
/// let mutator = unsafe { world.attach("main") }?;
/// let scope = mutator.alloc(Scope { variables: GcMutex::new(GcHashMap::new()), parent: None })?;
/// scope.variables.lock(&mutator).insert(&mutator, mutator.alloc_str("x")?, 0.5)?;
/// mutator.collect()?;
/// assert_eq!(scope.variables.lock(&mutator).get("x"), Some(&0.5));
/// assert!(scope.parent.is_none());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[repr(C)]
pub struct GcMutex<T: Trace> {
    lock: Lock,
    value: UnsafeCell<T>,
}

/// A locked [`GcMutex`]. Dropping it unlocks.
#[must_use = "the lock is released when the guard is dropped"]
pub struct GcMutexGuard<'a, T: Trace> {
    value: &'a UnsafeCell<T>,
    _held: LockGuard<'a>,
}

impl<T: Trace> GcMutex<T> {
    /// Makes a free lock with its value. O(1).
    pub const fn new(value: T) -> Self {
        Self { lock: Lock::new(), value: UnsafeCell::new(value) }
    }

    /// Takes the lock; waits until it is free. O(1) without a wait.
    ///
    /// # Panics
    /// If this thread holds the lock already.
    pub fn lock(&self, mutator: &Mutator) -> GcMutexGuard<'_, T> {
        self.lock_once(mutator).expect("this thread holds the `GcMutex` already: drop the first guard")
    }

    /// [`lock`](Self::lock); `None` if this thread holds the lock already.
    pub(crate) fn lock_once(&self, mutator: &Mutator) -> Option<GcMutexGuard<'_, T>> {
        let held = mutator.lock_once(&self.lock)?;
        Some(GcMutexGuard { value: &self.value, _held: held })
    }

    /// Takes the lock if it is free. O(1).
    pub fn try_lock(&self) -> Option<GcMutexGuard<'_, T>> {
        let held = self.lock.try_lock().ok()?;
        Some(GcMutexGuard { value: &self.value, _held: held })
    }

    /// Returns a mutable reference to the value. No lock is needed: the borrow is exclusive. O(1).
    pub fn get_mut(&mut self) -> &mut T {
        self.value.get_mut()
    }

    /// Returns the value. O(1).
    pub fn into_inner(self) -> T {
        self.value.into_inner()
    }
}

// SAFETY: the layout of the value, at its offset. One thread at a time reaches the value. It writes references as whole words, as it does
// wherever a value lies.
unsafe impl<T: Trace> Trace for GcMutex<T> {
    const NAME: &'static str = T::NAME;
    const LAYOUT: Layout = Layout::LEAF.with(offset_of!(Self, value), T::LAYOUT);
    const MUTABLE: bool = !T::LAYOUT.is_leaf();

    unsafe fn clear_unused(value: *mut Self) {
        // SAFETY: the caller's promise; an `UnsafeCell<T>` has the layout of a `T`.
        unsafe { T::clear_unused((&raw mut (*value).value).cast()) };
    }
}

impl<T: Trace> Deref for GcMutexGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: the lock is held, so no other reference to the value is mutable.
        unsafe { &*self.value.get() }
    }
}

impl<T: Trace> DerefMut for GcMutexGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: the lock is held, and the guard is borrowed exclusively, so there is no other reference to the value.
        unsafe { &mut *self.value.get() }
    }
}

impl<T: Trace + Default> Default for GcMutex<T> {
    fn default() -> Self {
        Self::new(T::default())
    }
}

impl<T: Trace + fmt::Debug> fmt::Debug for GcMutex<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.try_lock() {
            Some(value) => f.debug_tuple("GcMutex").field(&*value).finish(),
            None => f.write_str("GcMutex(<locked>)"),
        }
    }
}

impl<T: Trace + fmt::Debug> fmt::Debug for GcMutexGuard<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}
