//! Questions that a debugger asks inside the process: what is this object, who refers to it, why is it alive?
//!
//! A debugger could answer them from outside, with copies of the block tables, of every object and of every type's description
//! in hand; or it calls a function in the stopped process and reads the answer, as it would for an expression of its user's. These
//! are those functions. Their addresses stand in the descriptor's [`Calls`](super::contract::Calls), so that a stripped program has them too.
//!
//! # What makes them safe to call on any thread that is stopped anywhere (`.debug.inspect`)
//! The thread may have been stopped in malloc, in the allocator, in the middle of a collection, with any lock in its hands.
//! So they take no lock, allocate nothing from malloc, use no thread-local storage but `errno`, which they put back, do not unwind, and
//! change nothing but the caller's buffer. What may be half done is read so that any state of it gives an answer: single words in
//! the order in which they are written. What may not be there at all is read by a system call that fails instead of faulting. Each
//! loop has a bound that does not lie in the memory that it reads.
//!
//! # What the caller must see to
//! **Every thread of the process stands until the answer is there**, wherever each was stopped, but the one that answers. Heaps and
//! records are not unmapped while their world exists; but a world goes when its last handle is dropped, a thread's allocation
//! cache, which tells what it was building, when its mutator is, and the list of registered stacks moves when it grows. Debuggers let
//! all threads run during a call unless they are told otherwise. Only [`request_collection`] looks at nothing that goes before its world
//! does: for it others may run, as long as nobody can drop a world.
//!
//! # How to call
//! C calling convention, addresses and sizes as 64-bit words; the result is a number of things, or negative, a [`Refusal`]. More may
//! have been found than the buffer has room for: then the number is larger than the capacity, and the buffer is full. On
//! x86-64 the caller keeps `rsp` aligned to 16 below the red zone, saves every register and sets `orig_rax` to −1; the stack needs some 8 KiB.
//!
//! [`path`] looks at stacks. A thread that waits in a collection or in a blocking region has said itself where its stack begins;
//! for one that was stopped anywhere else the debugger writes `stack_ptr` and the save area before it calls, as for a stop.

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
