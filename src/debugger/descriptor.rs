//! The descriptor of this copy of the library, and the functions for inferior calls that it lists.
//!
//! An inferior call has no context, so each function starts from the descriptor's list of worlds. [`inspect`](super::inspect) explains how
//! to call them, and computes the results.

use std::mem::size_of;

use super::contract::{Calls, Descriptor, MAGIC, SCRATCH_BYTES, Scratch, VERSION};
use super::heap_layout::HEAP_LAYOUT;
use super::inspect::answers;
use super::park;
use super::request::{self, REQUEST_OFFSETS};
use crate::sync::{AtomicU32, AtomicU64, Ordering};
use crate::world::{OFFSETS, WORLD_OFFSETS, WorldList};

static SCRATCH: Scratch = Scratch::new();

/// The descriptor of this copy of the library.
#[allow(non_upper_case_globals, reason = "debuggers find it by this name")]
#[unsafe(no_mangle)]
#[used]
pub static stopworld_debugger: Descriptor = Descriptor {
    magic: MAGIC,
    version: VERSION,
    size: size_of::<Descriptor>() as u32,
    control: AtomicU64::new(0),
    notify_signal: AtomicU32::new(0),
    suspend_signal: AtomicU32::new(0),
    notify: request::stopworld_debugger_notify,
    park: park::stopworld_debugger_park,
    call_return: request::stopworld_debugger_return,
    worlds: WorldList::new(),
    scratch: &SCRATCH,
    scratch_size: SCRATCH_BYTES,
    request: REQUEST_OFFSETS,
    world: WORLD_OFFSETS,
    thread: OFFSETS,
    calls: Calls {
        count: 6,
        describe: Some(describe),
        fields: Some(fields),
        referrers: Some(referrers),
        path: Some(path),
        request_collection: Some(request_collection),
        census: Some(census),
    },
    heap: HEAP_LAYOUT,
};

// The note. Its symbol is hidden, so that each copy of the library has its own; the reference below makes the linker include it.
std::arch::global_asm!(
    ".protected stopworld_debugger",
    ".pushsection .note.stopworld, \"a\", @note",
    ".balign 8",
    ".hidden stopworld_debugger_note",
    ".globl stopworld_debugger_note",
    "stopworld_debugger_note:",
    ".long 2f - 1f",
    ".long 4f - 3f",
    ".long 1",
    "1: .asciz \"stopworld\"",
    "2: .balign 4",
    "3: .quad stopworld_debugger - 3b",
    "4: .balign 8",
    ".size stopworld_debugger_note, . - stopworld_debugger_note",
    ".popsection",
);

unsafe extern "C" {
    /// The note's header.
    static stopworld_debugger_note: u32;
}

/// A pointer that only linkers read.
#[repr(transparent)]
struct Reference(*const u32);

// SAFETY: it is never dereferenced.
unsafe impl Sync for Reference {}

/// Nothing in the program refers to the note; this keeps the linker from discarding it.
#[used]
static NOTE: Reference = Reference(&raw const stopworld_debugger_note);

/// Publishes the number of the suspend signal: a debugger must know it before it receives the first such signal.
pub(super) fn publish_suspend_signal() {
    let signal = crate::world::handler::installed().unwrap_or(0);
    stopworld_debugger.suspend_signal.store(signal as u32, Ordering::Relaxed);
}

/// `describe(address, *mut ObjectFacts)`: describes the object that has the address inside or just past its end, and returns 1. If there
/// is no such object, describes the cell and returns 0.
///
/// # Safety
/// As in [`inspect`](super::inspect): the buffer belongs to the caller, and all other threads are stopped during the call.
pub unsafe extern "C" fn describe(address: usize, out: usize, _: usize, _: usize) -> i64 {
    // SAFETY: the caller's promise.
    unsafe { answers::describe(&stopworld_debugger.worlds, address, out) }
}

/// `fields(address, *mut FieldFacts, capacity)`: the words of an object that may hold references, in the order of their addresses.
///
/// # Safety
/// As for [`describe`].
pub unsafe extern "C" fn fields(address: usize, out: usize, capacity: usize, _: usize) -> i64 {
    // SAFETY: the caller's promise.
    unsafe { answers::fields(&stopworld_debugger.worlds, address, out, capacity) }
}

/// `referrers(address, *mut usize, capacity)`: the objects with a field that references this one, in the order of their addresses. Searches
/// the whole heap.
///
/// # Safety
/// As for [`describe`].
pub unsafe extern "C" fn referrers(address: usize, out: usize, capacity: usize, _: usize) -> i64 {
    // SAFETY: the caller's promise.
    unsafe { answers::referrers(&stopworld_debugger.worlds, address, out, capacity) }
}

/// `path(address, *mut Step, capacity)`: finds a shortest path from a root to the object. Returns the number of steps; 0 if there is no
/// path; [`Refusal::Busy`](super::inspect::Refusal::Busy) if there is no path and a thread was stopped while it registered a stack. Visits
/// the objects that are reachable from the roots until it has found the object.
///
/// # Safety
/// As for [`describe`].
pub unsafe extern "C" fn path(address: usize, out: usize, capacity: usize, _: usize) -> i64 {
    // SAFETY: the caller's promise.
    unsafe { answers::path(&stopworld_debugger.worlds, address, out, capacity) }
}

/// `request_collection(world)`: requests a collection. The world's next thread that needs cells collects, or at once the world's finalizer
/// thread, if there is one. `world` is the address of the published record; 0 means all worlds. Returns the number of worlds in which a
/// thread was woken to collect.
///
/// The collection starts when the target runs. If no thread allocates and no object has a finalizer, no collection happens.
///
/// # Safety
/// No world is dropped during the call.
pub unsafe extern "C" fn request_collection(world: usize, _: usize, _: usize, _: usize) -> i64 {
    // SAFETY: the caller's promise.
    unsafe { answers::request_collection(&stopworld_debugger.worlds, world) }
}

/// `census(world, *mut CensusRow, capacity)`: the number of objects of each type, including dead ones that no collection has found yet.
/// `world` is the address of the published record. Returns the number of types.
///
/// # Safety
/// As for [`describe`].
pub unsafe extern "C" fn census(world: usize, out: usize, capacity: usize, _: usize) -> i64 {
    // SAFETY: the caller's promise.
    unsafe { answers::census(&stopworld_debugger.worlds, world, out, capacity) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::debugger::request::Request;

    #[test]
    fn the_descriptor_says_its_size_and_its_offsets() {
        let descriptor = &stopworld_debugger;
        assert_eq!(descriptor.magic, *b"STOPWRLD");
        assert_eq!(descriptor.size as usize, size_of::<Descriptor>());
        assert_eq!(descriptor.request.size, size_of::<Request>());
        assert_eq!(descriptor.thread, OFFSETS);
        assert_eq!(std::ptr::from_ref(descriptor.scratch) as usize % 4096, 0);
    }

    #[test]
    fn the_note_leads_to_the_descriptor() {
        // SAFETY: the note as laid out above: three words, ten bytes of name, two of padding, the distance.
        unsafe {
            let note = &raw const stopworld_debugger_note;
            assert_eq!([note.read(), note.add(1).read(), note.add(2).read()], [10, 8, 1]);
            assert_eq!(std::slice::from_raw_parts(note.add(3).cast::<u8>(), 10), b"stopworld\0");
            let distance = note.add(6).cast::<i64>();
            let found = distance.byte_offset(distance.read() as isize).cast::<Descriptor>();
            assert!(std::ptr::eq(found, &raw const stopworld_debugger));
        }
    }
}
