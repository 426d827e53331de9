//! Queries that a debugger makes inside the process: what is this object, which objects reference it, why is it alive?
//!
//! A debugger could answer such questions from outside, by copying the block tables, every object and every type descriptor. Instead it
//! calls a function of this module in the stopped process and reads the result, as it does for an expression of its user. The addresses of
//! the functions are in the descriptor's [`Calls`](super::contract::Calls), so that a debugger finds them in a stripped program too.
//!
//! # Why they are safe to call on any thread that is stopped anywhere (`.debug.inspect`)
//! The thread may have been stopped in malloc, in the allocator, in the middle of a collection, while it holds any lock. So the functions
//! take no lock, allocate nothing from malloc, use no thread-local storage except `errno`, which they restore, do not unwind, and modify
//! only the caller's buffer. Data that a stopped thread may have updated only in part are read word by word, in the order in which they
//! are written, so that each state of them gives a result. Memory that may not be mapped is read by a system call that fails instead of
//! faulting. Each loop has a bound that does not depend on the memory that it reads.
//!
//! # What the caller must ensure
//! **Every thread of the process except the one that executes the function is stopped until it returns**, wherever each was stopped. Heaps
//! and records are not unmapped while their world exists. But a world is freed when its last handle is dropped; a thread's allocation
//! cache, which has the address of the partially initialised object, is freed with its mutator; and the list of registered stacks moves
//! when it grows.
//! Debuggers let all threads run during a call unless configured otherwise. Only [`request_collection`] reads nothing that is freed before
//! its world: other threads may run during it, as long as none can drop a world.
//!
//! # How to call
//! C calling convention, addresses and sizes as 64-bit words. The result is a count, or a negative [`Refusal`]. If more items were found
//! than the buffer has room for, the count is larger than the capacity, and the buffer is full. On x86-64 the caller keeps `rsp` aligned to
//! 16 below the red zone, saves every register and sets `orig_rax` to −1; the call needs about 8 KiB of stack.
//!
//! [`path`] scans stacks. A thread that waits in a collection or in a blocking region has published where its stack begins. For a thread
//! that was stopped anywhere else the debugger writes `stack_ptr` and the save area before it calls, as for a stop.

pub(super) mod answers;
mod counting;
mod facts;
mod objects;
mod search;
#[cfg(test)]
mod tests;

pub use facts::{
    ARRAY, CensusRow, DROPS, FREE_BLOCK, FREE_CELL, FieldFacts, HALF_BUILT, LARGE, LEAF, ObjectFacts, PINNED, Refusal,
    Step, StepKind, WEAK,
};

pub use super::descriptor::{census, describe, fields, path, referrers, request_collection};
