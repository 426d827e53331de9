//! The library's lock, which bdwgc calls the allocation lock.
//!
//! It guards the tables of this library: roots, finalizers, links, uncollectable objects. A collection takes it before it stops the
//! threads, and holds it until they run again. So a thread that holds it excludes collections, and in the stopped world the collecting thread
//! finds the tables whole.
//!
//! ```text
//!   word    0 free, 1 held, 2 held and a thread may be sleeping
//!   owner   the thread pointer of the holder: the same thread may take the lock again (GC_call_with_alloc_lock nests)
//! ```
//!
//! A thread that waits here can be stopped by a signal. A thread that holds the lock does not allocate in the collected heap, which could
//! cause a collection and so wait for this lock under others: see the order of locks in `binding.rs`.

use std::arch::asm;
use std::cell::{Cell, RefCell, RefMut};
use std::marker::PhantomData;
use std::mem::ManuallyDrop;

use crate::os::futex;
use crate::print;
use crate::sync::{AtomicU32, AtomicUsize, Ordering};

/// A re-entrant futex lock. See the module's text.
pub(crate) struct Lock {
    word: AtomicU32,
    owner: AtomicUsize,
    /// How many times the owner has taken the lock besides the first. Only the owner uses it.
    again: Cell<usize>,
}

// SAFETY: `again` is used only by the thread that holds the lock.
unsafe impl Sync for Lock {}

/// The library's lock.
pub(crate) static LOCK: Lock = Lock { word: AtomicU32::new(0), owner: AtomicUsize::new(0), again: Cell::new(0) };

/// Proof that the calling thread holds [`LOCK`]. Dropping it releases the lock.
pub(crate) struct Held(PhantomData<*mut ()>);

impl Drop for Held {
    #[inline]
    fn drop(&mut self) {
        LOCK.release();
    }
}

impl Held {
    /// Returns the proof for a lock that the thread holds already. Dropping it releases nothing.
    ///
    /// # Safety
    /// The calling thread holds the lock for as long as the proof is used.
    pub(crate) unsafe fn assume() -> ManuallyDrop<Held> {
        ManuallyDrop::new(Held(PhantomData))
    }
}

/// Data that [`LOCK`] guards. A function of the program that is called while the data are borrowed must not get here again: that ends
/// the process, with a message that needs no memory, because the world may be stopped (`.stop.no-malloc`).
pub(crate) struct Guarded<T>(RefCell<T>);

// SAFETY: the data are used only with the proof that the lock is held.
unsafe impl<T: Send> Sync for Guarded<T> {}

impl<T> Guarded<T> {
    pub(crate) const fn new(data: T) -> Self {
        Self(RefCell::new(data))
    }

    /// Returns the data. Ends the process if they are borrowed already, by a function further up the stack.
    #[inline]
    pub(crate) fn get<'a>(&'a self, _held: &'a Held) -> RefMut<'a, T> {
        let Ok(data) = self.0.try_borrow_mut() else { print::abort_in_stop(BORROWED) };
        data
    }
}

/// The message for a call from a function that may not make it.
const BORROWED: &str = "a function of the program that the collector calls in a collection (a mark procedure, a callback) has called a function \
                        that changes roots, links, finalizers or kinds: call it before or after the collection";

/// Returns the address of the thread's control block, which no other living thread has. The child of a fork keeps it.
#[inline(always)]
fn thread_pointer() -> usize {
    let pointer;
    // SAFETY: on x86-64 the first word at fs is the address of the thread control block itself.
    unsafe { asm!("mov {}, fs:[0]", out(reg) pointer, options(nostack, pure, readonly, preserves_flags)) };
    pointer
}

impl Lock {
    /// Takes the lock. The same thread may take it several times.
    #[inline]
    pub(crate) fn acquire(&self) {
        let me = thread_pointer();
        // Relaxed: only this thread stores this value.
        if self.owner.load(Ordering::Relaxed) == me {
            self.again.set(self.again.get() + 1);
            return;
        }
        // Acquire: pairs with the Release in `release`.
        if self.word.compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed).is_err() {
            self.wait();
        }
        self.owner.store(me, Ordering::Relaxed);
    }

    #[cold]
    fn wait(&self) {
        // Acquire: pairs with the Release in `release`.
        while self.word.swap(2, Ordering::Acquire) != 0 {
            futex::wait(&self.word, 2, None);
        }
    }

    /// Releases the lock, once for each call of [`acquire`](Self::acquire). Does nothing if the thread does not hold it.
    #[inline]
    pub(crate) fn release(&self) {
        if self.owner.load(Ordering::Relaxed) != thread_pointer() {
            return;
        }
        match self.again.get() {
            0 => {
                self.owner.store(0, Ordering::Relaxed);
                // Release: pairs with the Acquire in `acquire` and `wait`.
                if self.word.swap(0, Ordering::Release) == 2 {
                    futex::wake(&self.word, 1);
                }
            }
            more => self.again.set(more - 1),
        }
    }

    /// Takes the lock, and returns the proof.
    #[inline]
    pub(crate) fn lock(&self) -> Held {
        self.acquire();
        Held(PhantomData)
    }

    /// Returns whether the calling thread holds the lock.
    pub(crate) fn is_mine(&self) -> bool {
        self.owner.load(Ordering::Relaxed) == thread_pointer()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[test]
    fn one_thread_at_a_time_and_the_same_thread_again() {
        struct Scene(Lock, Cell<u64>);
        // SAFETY: the count is changed under the lock.
        unsafe impl Sync for Scene {}
        // SAFETY: as above.
        unsafe impl Send for Scene {}
        let scene = Arc::new(Scene(
            Lock { word: AtomicU32::new(0), owner: AtomicUsize::new(0), again: Cell::new(0) },
            Cell::new(0),
        ));
        let threads: Vec<_> = (0..4)
            .map(|_| {
                let scene = Arc::clone(&scene);
                std::thread::spawn(move || {
                    for round in 0..20_000 {
                        let depth = 1 + round % 3;
                        (0..depth).for_each(|_| scene.0.acquire());
                        assert!(scene.0.is_mine());
                        scene.1.set(scene.1.get() + 1);
                        (0..depth).for_each(|_| scene.0.release());
                        assert!(!scene.0.is_mine());
                        // A release too many changes nothing.
                        scene.0.release();
                    }
                })
            })
            .collect();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert_eq!(scene.1.get(), 80_000);
    }
}
