//! The stack of a marker, in mapped memory.

use std::io;

use crate::os::memory::Reservation;
use crate::sync::AtomicU8;

/// Where the tasks of a stack are. The hot loop works on a copy of this, and stores it back.
#[derive(Clone, Copy)]
pub(super) struct Tasks {
    /// The bottom. The word before it is mapped too.
    memory: *mut usize,
    pub(super) capacity: usize,
    pub(super) bottom: usize,
    pub(super) top: usize,
}

impl Tasks {
    #[inline(always)]
    pub(super) const fn len(self) -> usize {
        self.top - self.bottom
    }

    #[inline(always)]
    pub(super) const fn has_room_for(self, tasks: usize) -> bool {
        self.top + tasks <= self.capacity
    }

    /// Pushes a task. The stack must not be full.
    #[inline(always)]
    pub(super) fn push(&mut self, task: usize) {
        debug_assert!(self.has_room_for(1));
        // SAFETY: `top < capacity`; only this marker uses the stack.
        unsafe { self.memory.add(self.top).write(task) };
        self.top += 1;
    }

    /// Pushes a task if `is_one`, without a branch. The stack must not be full.
    #[inline(always)]
    pub(super) fn push_if(&mut self, task: usize, is_one: bool) {
        debug_assert!(self.has_room_for(1));
        // SAFETY: `top < capacity`; only this marker uses the stack.
        unsafe { self.memory.add(self.top).write(task) };
        self.top += usize::from(is_one);
    }

    /// A byte that nothing reads, for a store that must go nowhere.
    #[inline(always)]
    pub(super) fn nowhere(&self) -> &AtomicU8 {
        // SAFETY: the word before the tasks; only this marker uses the stack.
        unsafe { AtomicU8::from_ptr(self.memory.sub(1).cast()) }
    }

    /// Pushes the tasks that `write` puts at the address that it is called with; it returns how many. The caller has made sure that
    /// there is room for everything that it writes.
    #[inline(always)]
    pub(super) fn fill(&mut self, write: impl FnOnce(*mut usize) -> usize) {
        // SAFETY: `top <= capacity`.
        self.top += write(unsafe { self.memory.add(self.top) });
        debug_assert!(self.top <= self.capacity);
    }

    #[inline(always)]
    pub(super) fn pop(&mut self) -> Option<usize> {
        if self.top == self.bottom {
            return None;
        }
        self.top -= 1;
        // SAFETY: `bottom <= top < capacity`, and the words between them were pushed.
        Some(unsafe { self.memory.add(self.top).read() })
    }
}

/// A stack of tasks in mapped memory. Its owner can give tasks away from its bottom.
pub(crate) struct MarkStack {
    pub(super) tasks: Tasks,
    high: usize,
    _memory: Reservation,
}

// SAFETY: the pointer in `tasks` is into the reservation, which the stack owns.
unsafe impl Send for MarkStack {}

/// The part of a mark stack that core files have. Few stacks become larger, and gdb would also write all that was never used.
const BYTES_IN_CORES: usize = 1 << 20;

impl MarkStack {
    /// Creates a stack of at most `bytes`; the kernel provides pages as it grows.
    pub(crate) fn new(bytes: usize) -> io::Result<Self> {
        let memory = Reservation::new(bytes.max(4096), 4096)?;
        memory.commit_table()?;
        memory.include_in_cores(0, memory.len().min(BYTES_IN_CORES));
        // The first word is none of the stack.
        let capacity = bytes.max(64) / size_of::<usize>() - 1;
        // SAFETY: the reservation is larger than a word.
        let first = unsafe { memory.base().cast::<usize>().add(1) };
        let tasks = Tasks { memory: first, capacity, bottom: 0, top: 0 };
        Ok(Self { tasks, high: 0, _memory: memory })
    }

    #[inline(always)]
    pub(super) fn push(&mut self, task: usize) -> bool {
        if !self.tasks.has_room_for(1) && !self.make_room() {
            return false;
        }
        self.tasks.push(task);
        true
    }

    pub(super) fn pop(&mut self) -> Option<usize> {
        self.tasks.pop()
    }

    pub(super) fn is_half_full(&self) -> bool {
        self.len() > self.tasks.capacity / 2
    }

    /// Called when the top has reached the end: moves the tasks down, if some were given away from the bottom.
    #[cold]
    #[inline(never)]
    pub(super) fn make_room(&mut self) -> bool {
        let Tasks { memory, capacity, bottom, top } = self.tasks;
        self.high = capacity;
        if bottom == 0 {
            return false;
        }
        // SAFETY: both ranges lie within the stack; they may overlap.
        unsafe { std::ptr::copy(memory.add(bottom), memory, top - bottom) };
        self.tasks.top -= bottom;
        self.tasks.bottom = 0;
        true
    }

    /// The number of tasks on the stack.
    pub(crate) fn len(&self) -> usize {
        self.tasks.len()
    }

    /// Takes up to `out.len()` of the oldest tasks, but at most half of all tasks. The oldest tasks lead to the most work.
    pub(crate) fn take_oldest(&mut self, out: &mut [usize]) -> usize {
        let count = (self.len() / 2).min(out.len());
        for slot in &mut out[..count] {
            // SAFETY: `bottom < top` for each of them.
            *slot = unsafe { self.tasks.memory.add(self.tasks.bottom).read() };
            self.tasks.bottom += 1;
        }
        count
    }

    pub(super) fn note_height(&mut self) {
        self.high = self.high.max(self.tasks.top);
    }

    /// Returns the largest size that the stack had since the last call, in bytes.
    pub(crate) fn take_high_water(&mut self) -> usize {
        std::mem::take(&mut self.high) * size_of::<usize>()
    }
}
