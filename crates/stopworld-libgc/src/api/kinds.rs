//! Kinds of objects: those that every program has, those that it makes, and objects with a descriptor.

use std::arch::naked_asm;
use std::ffi::{c_int, c_void};
use std::ptr;

use crate::lock::LOCK;
use crate::print;
use crate::tables::disclaim;
use crate::tables::kinds::{FIRST_KIND, Kind, MADE, MOST_KINDS, Procedure, descriptor, own_kind};
use crate::thread::attached;

use super::kind_facts::{ATOMIC, ATOMIC_UNCOLLECTABLE, NORMAL, UNCOLLECTABLE};
use super::malloc::{allocated, many, uncollectable, with_caller};

/// The variants of a kind of the program, and the number of bytes to request of it.
fn own(bytes: usize, kind: c_int) -> (usize, &'static Kind) {
    let Some(kind) = usize::try_from(kind).ok().and_then(own_kind) else {
        print::abort(&format!("an object of kind {kind} was requested, which GC_new_kind has not returned"))
    };
    // The last word of the cell is the collector's: an object of a multiple of 16 bytes leaves it.
    (if kind.has_procedure() { bytes.max(1).saturating_add(15) & !15 } else { bytes }, kind)
}

with_caller! {
    GC_debug_generic_or_special_malloc(bytes: usize, kind: c_int) "rdx" => generic;
    GC_generic_malloc(bytes: usize, kind: c_int) "rdx" => generic;
    GC_generic_malloc_ignore_off_page(bytes: usize, kind: c_int) "rdx" => generic;
    GC_generic_malloc_many(bytes: usize, kind: c_int, place: *mut *mut c_void) "rcx" => generic_many;
    GC_generic_or_special_malloc(bytes: usize, kind: c_int) "rdx" => generic;
    GC_malloc_explicitly_typed(bytes: usize, descriptor: usize) "rdx" => typed;
    GC_malloc_explicitly_typed_ignore_off_page(bytes: usize, descriptor: usize) "rdx" => typed;
    GC_malloc_kind(bytes: usize, kind: c_int) "rdx" => generic;
    GC_malloc_kind_global(bytes: usize, kind: c_int) "rdx" => generic;
}

extern "C-unwind" fn generic(bytes: usize, kind: c_int, caller: usize) -> *mut c_void {
    match kind {
        ATOMIC => allocated(bytes, caller, |kinds| &kinds.atomic),
        NORMAL => allocated(bytes, caller, |kinds| &kinds.normal),
        UNCOLLECTABLE => uncollectable(bytes, caller, |kinds| &kinds.uncollectable),
        ATOMIC_UNCOLLECTABLE => uncollectable(bytes, caller, |kinds| &kinds.atomic_uncollectable),
        _ => {
            let (bytes, kind) = own(bytes, kind);
            allocated(bytes, caller, |_| &kind.variants)
        }
    }
}

/// The objects of own kinds stay until they are freed, too.
#[unsafe(no_mangle)]
pub(crate) extern "C-unwind" fn GC_generic_malloc_uncollectable(bytes: usize, kind: c_int) -> *mut c_void {
    match kind {
        ATOMIC | ATOMIC_UNCOLLECTABLE => uncollectable(bytes, 0, |kinds| &kinds.atomic_uncollectable),
        NORMAL | UNCOLLECTABLE => uncollectable(bytes, 0, |kinds| &kinds.uncollectable),
        _ => {
            let (bytes, kind) = own(bytes, kind);
            uncollectable(bytes, 0, |_| &kind.variants)
        }
    }
}

unsafe extern "C-unwind" fn generic_many(
    bytes: usize,
    kind: c_int,
    place: *mut *mut c_void,
    caller: usize,
) -> *mut c_void {
    // SAFETY: the program's promise: a place for the list.
    let keep = |list| unsafe { place.write(list) };
    match kind {
        ATOMIC => many(bytes, caller, |kinds| &kinds.atomic, keep),
        NORMAL => many(bytes, caller, |kinds| &kinds.normal, keep),
        UNCOLLECTABLE | ATOMIC_UNCOLLECTABLE => print::abort(
            "GC_generic_malloc_many: lists of uncollectable objects are not available: allocate them one by one",
        ),
        _ => {
            let (bytes, kind) = own(bytes, kind);
            many(bytes, caller, |_| &kind.variants, keep)
        }
    }
}

/// Own kinds have no lists that a program could use, so each gets one word.
#[unsafe(no_mangle)]
pub(crate) extern "C-unwind" fn GC_new_free_list() -> *mut *mut c_void {
    uncollectable(size_of::<*mut c_void>(), 0, |kinds| &kinds.uncollectable).cast()
}

/// For a program that holds the lock: an allocation is not possible then, so the memory is not the collector's.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn GC_new_free_list_inner() -> *mut *mut c_void {
    Box::into_raw(Box::new(ptr::null_mut()))
}

/// Objects are always zeroed if they are scanned.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn GC_new_kind(_: *mut *mut c_void, descriptor: usize, adds_size: c_int, _: c_int) -> u32 {
    match MADE.get(&LOCK.lock()).make_kind(descriptor, adds_size != 0) {
        Some(number) => number as u32,
        None => print::abort(&format!("GC_new_kind: a program can have {} kinds", MOST_KINDS - FIRST_KIND)),
    }
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn GC_new_kind_inner(
    list: *mut *mut c_void,
    descriptor: usize,
    adds_size: c_int,
    clears: c_int,
) -> u32 {
    GC_new_kind(list, descriptor, adds_size, clears)
}

/// Sets the function that is asked about each dead object of a kind that the program has made.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn GC_register_disclaim_proc(
    kind: c_int,
    function: Option<disclaim::Function>,
    keeps_referents: c_int,
) {
    if !usize::try_from(kind).is_ok_and(|kind| disclaim::set(kind, function, keeps_referents != 0)) {
        print::abort(&format!("GC_register_disclaim_proc: kind {kind} was not made by GC_new_kind"));
    }
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn GC_new_proc(procedure: Option<Procedure>) -> u32 {
    match MADE.get(&LOCK.lock()).make_procedure(procedure) {
        Some(number) => number as u32,
        None => print::abort("GC_new_proc: a program can have 56 mark procedures"),
    }
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn GC_new_proc_inner(procedure: Option<Procedure>) -> u32 {
    GC_new_proc(procedure)
}

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn GC_make_descriptor(bitmap: *const usize, bits: usize) -> usize {
    // SAFETY: the program's promise: `bits` bits, in whole words.
    descriptor(unsafe { std::slice::from_raw_parts(bitmap, bits.div_ceil(64)) }, bits)
}

/// Allocates a zeroed object with a descriptor.
extern "C-unwind" fn typed(bytes: usize, descriptor: usize, caller: usize) -> *mut c_void {
    attached();
    let kind = MADE.get(&LOCK.lock()).kind_of_descriptor(descriptor);
    let object = allocated(bytes, caller, |_| &kind);
    if !object.is_null() && !kind[0].is_scanned() {
        // SAFETY: the object has this size.
        unsafe { ptr::write_bytes(object.cast::<u8>(), 0, bytes) };
    }
    object
}

/// Elements with pointers are scanned whole.
#[unsafe(no_mangle)]
pub(crate) extern "C-unwind" fn GC_calloc_explicitly_typed(
    count: usize,
    bytes: usize,
    descriptor: usize,
) -> *mut c_void {
    let total = count.saturating_mul(bytes);
    match (descriptor, count) {
        (0, _) | (_, 1) => typed(total, descriptor, 0),
        _ => allocated(total, 0, |kinds| &kinds.normal),
    }
}

/// Objects whose class says where their pointers are: they are scanned whole.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn GC_init_gcj_malloc(_: c_int, _: *mut c_void) {
    attached();
}

/// The first word is the address of the class.
fn of_class(bytes: usize, class: *mut c_void) -> *mut c_void {
    let object = allocated(bytes, 0, |kinds| &kinds.normal);
    if !object.is_null() {
        // SAFETY: the object has at least a word.
        unsafe { object.cast::<*mut c_void>().write(class) };
    }
    object
}

#[unsafe(no_mangle)]
pub(crate) extern "C-unwind" fn GC_gcj_malloc(bytes: usize, class: *mut c_void) -> *mut c_void {
    of_class(bytes, class)
}

#[unsafe(no_mangle)]
pub(crate) extern "C-unwind" fn GC_gcj_malloc_ignore_off_page(bytes: usize, class: *mut c_void) -> *mut c_void {
    of_class(bytes, class)
}

#[unsafe(no_mangle)]
pub(crate) extern "C-unwind" fn GC_debug_gcj_malloc(bytes: usize, class: *mut c_void) -> *mut c_void {
    of_class(bytes, class)
}
