//! Measures memory: an allocator for a test binary that counts what is allocated, and inputs that take no memory.

#![allow(dead_code, reason = "each test program uses its part")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::io::{self, Read};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Held by each test while it measures: concurrent allocations would count.
pub fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the result of `work`, and its peak memory. The caller is [`alone`].
pub fn measured<T>(work: impl FnOnce() -> T) -> (T, usize) {
    let before = NOW.load(Ordering::Relaxed);
    MOST.store(before, Ordering::Relaxed);
    let result = work();
    (result, MOST.load(Ordering::Relaxed) - before)
}

/// An input that is generated while it is read: a beginning, and then piece by piece until `next` returns none.
pub struct Pieces<F> {
    piece: Vec<u8>,
    at: usize,
    next: F,
}

impl<F: FnMut() -> Option<Vec<u8>>> Pieces<F> {
    pub fn new(beginning: Vec<u8>, next: F) -> Pieces<F> {
        Pieces { piece: beginning, at: 0, next }
    }
}

impl<F: FnMut() -> Option<Vec<u8>>> Read for Pieces<F> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.at == self.piece.len() {
            match (self.next)() {
                Some(piece) => (self.piece, self.at) = (piece, 0),
                None => return Ok(0),
            }
        }
        let count = buffer.len().min(self.piece.len() - self.at);
        buffer[..count].copy_from_slice(&self.piece[self.at..self.at + count]);
        self.at += count;
        Ok(count)
    }
}

/// The system's allocator, with its allocations counted.
struct Counting;

/// The number of bytes that are allocated now.
pub static NOW: AtomicUsize = AtomicUsize::new(0);
/// The peak of [`NOW`].
pub static MOST: AtomicUsize = AtomicUsize::new(0);

// SAFETY: the system's allocator does all the work.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let now = NOW.fetch_add(layout.size(), Ordering::Relaxed) + layout.size();
        MOST.fetch_max(now, Ordering::Relaxed);
        // SAFETY: the caller's contract.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        NOW.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller's contract.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;
