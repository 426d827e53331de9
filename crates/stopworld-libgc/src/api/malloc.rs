//! Allocation, and explicit free.

use std::arch::naked_asm;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr::{self, NonNull};

use crate::binding::{FREED_BYTES, PENDING};
use crate::data::GC_oom_fn;
use crate::library::Kinds;
use crate::lock::LOCK;
use crate::os::describe_address;
use crate::print::log;
use crate::sync::Ordering;
use crate::tables::kinds::{LEAVES_LAST_WORD, SizedKind, USES_LAST_WORD, is_of};
use crate::tables::leaks;
use crate::tables::objects::UNCOLLECTABLE;
use crate::thread::{Attached, attached};

use super::finalization;
use super::objects::{object_at, room};

/// The alignment of every object.
const GRANULE: usize = 16;
/// About how many bytes of objects are given at once by `GC_malloc_many`.
const BYTES_AT_ONCE: usize = 4096;

/// Allocates an object of one of the two variants of a kind.
#[inline(always)]
pub(crate) fn allocate(thread: &Attached, bytes: usize, kind: &SizedKind) -> Option<NonNull<u8>> {
    // An object without bytes gets as many as the smallest of bdwgc.
    let bytes = if bytes == 0 { GRANULE } else { bytes };
    thread.mutator.alloc_untyped(bytes, kind[variant(bytes)]).ok()
}

/// Returns which variant of its kind an object of this size is.
#[inline(always)]
fn variant(bytes: usize) -> usize {
    const { assert!(USES_LAST_WORD == 0 && LEAVES_LAST_WORD == 1) };
    // 1 to 8 bytes beyond a multiple of 16 use the last word of their cell: see `SizedKind`.
    (bytes.wrapping_sub(1) >> 3) & 1
}

/// Allocates, and does what is due at the end of an allocation. `caller` is the address to which the program's call returns, or 0.
#[inline(always)]
pub(crate) fn allocated<'a>(
    bytes: usize,
    caller: usize,
    kind: impl FnOnce(&'static Kinds) -> &'a SizedKind,
) -> *mut c_void {
    allocated_and(bytes, caller, kind, |_| ())
}

/// As [`allocated`]. Calls `keep` with the new object before the program's code can run, which may collect.
#[inline(always)]
fn allocated_and<'a>(
    bytes: usize,
    caller: usize,
    kind: impl FnOnce(&'static Kinds) -> &'a SizedKind,
    keep: impl FnOnce(NonNull<u8>),
) -> *mut c_void {
    let thread = attached();
    charge(thread, caller);
    let Some(object) = allocate(thread, bytes, kind(thread.kinds())) else { return out_of_memory(bytes) };
    keep(object);
    if PENDING.load(Ordering::Relaxed) {
        finalization::after_collection();
    }
    object.as_ptr().cast()
}

/// Charges what is allocated next to the place of the call, if that is wanted.
#[inline(always)]
fn charge(thread: &Attached, caller: usize) {
    if let Some(sites) = &thread.call_sites {
        sites.enter(&thread.mutator, caller);
    }
}

/// Defines functions of the interface that pass the address to which they return as the argument after their own. The second part has
/// all arguments.
macro_rules! with_caller {
    ($($(#[$attribute:meta])* $name:ident($($argument:ident: $type:ty),*) $register:literal => $second:ident;)*) => {$(
        $(#[$attribute])*
        #[unsafe(no_mangle)]
        #[unsafe(naked)]
        pub(crate) unsafe extern "C-unwind" fn $name($($argument: $type),*) -> *mut c_void {
            naked_asm!(concat!("mov ", $register, ", [rsp]"), "jmp {second}", second = sym $second)
        }
    )*};
}

pub(crate) use with_caller;

with_caller! {
    GC_malloc(bytes: usize) "rsi" => malloc;
    GC_malloc_atomic(bytes: usize) "rsi" => malloc_atomic;
    /// A pointer into the object keeps it alive wherever it points: more than the interface requires.
    GC_malloc_ignore_off_page(bytes: usize) "rsi" => malloc;
    /// As [`GC_malloc_ignore_off_page`].
    GC_malloc_atomic_ignore_off_page(bytes: usize) "rsi" => malloc_atomic;
    /// Objects are not protected against writes, so "stubborn" ones are like all others.
    GC_malloc_stubborn(bytes: usize) "rsi" => malloc;
    GC_malloc_uncollectable(bytes: usize) "rsi" => malloc_uncollectable;
    GC_malloc_atomic_uncollectable(bytes: usize) "rsi" => malloc_atomic_uncollectable;
    GC_malloc_many(bytes: usize) "rsi" => malloc_many;
    GC_realloc(object: *mut c_void, bytes: usize) "rdx" => realloc;
    GC_strdup(text: *const c_char) "rsi" => strdup;
    GC_strndup(text: *const c_char, most: usize) "rdx" => strndup;
}

/// Calls the program's function for an allocation that failed. It may end by a jump, so no caller has anything to do afterwards.
#[cold]
#[inline(never)]
pub(crate) fn out_of_memory(bytes: usize) -> *mut c_void {
    // SAFETY: the program's function, or the one that returns null.
    GC_oom_fn.get().map_or(ptr::null_mut(), |function| unsafe { function(bytes) })
}

pub(crate) extern "C-unwind" fn malloc(bytes: usize, caller: usize) -> *mut c_void {
    allocated(bytes, caller, |kinds| &kinds.normal)
}

pub(crate) extern "C-unwind" fn malloc_atomic(bytes: usize, caller: usize) -> *mut c_void {
    allocated(bytes, caller, |kinds| &kinds.atomic)
}

/// Allocates an object that only the program frees.
pub(crate) fn uncollectable<'a>(
    bytes: usize,
    caller: usize,
    kind: impl FnOnce(&'static Kinds) -> &'a SizedKind,
) -> *mut c_void {
    // The object's address is in a register or on the stack until it is in the table.
    allocated_and(bytes, caller, kind, |object| _ = UNCOLLECTABLE.get(&LOCK.lock()).insert(object.as_ptr() as usize))
}

pub(crate) extern "C-unwind" fn malloc_uncollectable(bytes: usize, caller: usize) -> *mut c_void {
    uncollectable(bytes, caller, |kinds| &kinds.uncollectable)
}

pub(crate) extern "C-unwind" fn malloc_atomic_uncollectable(bytes: usize, caller: usize) -> *mut c_void {
    uncollectable(bytes, caller, |kinds| &kinds.atomic_uncollectable)
}

/// Copies bytes into a new object without pointers.
fn copied(bytes: &[u8], caller: usize) -> *mut c_void {
    let copy = allocated(bytes.len() + 1, caller, |kinds| &kinds.atomic).cast::<u8>();
    if !copy.is_null() {
        // SAFETY: the object has one byte more than the text.
        unsafe {
            ptr::copy_nonoverlapping(bytes.as_ptr(), copy, bytes.len());
            copy.add(bytes.len()).write(0);
        }
    }
    copy.cast()
}

pub(crate) unsafe extern "C-unwind" fn strdup(text: *const c_char, caller: usize) -> *mut c_void {
    if text.is_null() {
        return ptr::null_mut();
    }
    // SAFETY: the program's promise: a text that ends in 0.
    copied(unsafe { CStr::from_ptr(text) }.to_bytes(), caller)
}

pub(crate) unsafe extern "C-unwind" fn strndup(text: *const c_char, most: usize, caller: usize) -> *mut c_void {
    // SAFETY: the program's promise: a text that ends in 0, or has `most` bytes.
    copied(unsafe { std::slice::from_raw_parts(text.cast(), libc::strnlen(text, most)) }, caller)
}

/// Allocates a list of objects, each of which has the address of the next one in its first word, and passes its head to `keep`.
///
/// The objects of a list without pointers are not found through its head. A collection that comes before the program knows the list would
/// free them. So such a list is made, and kept, while the lock excludes collections.
pub(crate) fn many<'a>(
    bytes: usize,
    caller: usize,
    kind: impl FnOnce(&'static Kinds) -> &'a SizedKind,
    keep: impl FnOnce(*mut c_void),
) -> *mut c_void {
    let thread = attached();
    charge(thread, caller);
    let (kind, bytes) = (kind(thread.kinds()), bytes.max(size_of::<usize>()));
    let variant = kind[variant(bytes)];
    let finds_all = is_of(&thread.kinds().normal, variant.type_info());
    let (mut list, mut left) = (None::<NonNull<u8>>, (BYTES_AT_ONCE / bytes).max(1));
    loop {
        let held = LOCK.lock();
        if let Some((head, count)) = thread.mutator.list_untyped(bytes, variant, left, list) {
            (list, left) = (Some(head), left - count);
        }
        if left == 0 || list.is_some() && !finds_all {
            keep(list.map_or(ptr::null_mut(), |head| head.as_ptr().cast()));
            break;
        }
        drop(held);
        // This provides cells for the rest of the list. It may collect; the head is on this stack.
        match allocate(thread, bytes, kind) {
            Some(object) => {
                // SAFETY: the object has at least a word.
                unsafe { object.cast::<Option<NonNull<u8>>>().write(list) };
                (list, left) = (Some(object), left - 1);
            }
            None if list.is_some() => left = 0,
            None => {
                let other = out_of_memory(bytes);
                keep(other);
                return other;
            }
        }
    }
    if PENDING.load(Ordering::Relaxed) {
        finalization::after_collection();
    }
    list.map_or(ptr::null_mut(), |head| head.as_ptr().cast())
}

extern "C-unwind" fn malloc_many(bytes: usize, caller: usize) -> *mut c_void {
    many(bytes, caller, |kinds| &kinds.normal, |_| ())
}

/// An object at a multiple of `align`. If that is more than the alignment of all objects, the result points into the object.
fn aligned(align: usize, bytes: usize) -> *mut c_void {
    if align <= GRANULE {
        return allocated(bytes, 0, |kinds| &kinds.normal);
    }
    let Some(more) = bytes.checked_add(align) else { return out_of_memory(bytes) };
    let object = allocated(more, 0, |kinds| &kinds.normal);
    let offset = object.align_offset(align);
    if object.is_null() || offset == 0 {
        return object;
    }
    attached().library.world.register_displacement(offset);
    // SAFETY: less than `align` bytes into an object that has `align` bytes more than requested.
    unsafe { object.byte_add(offset) }
}

#[unsafe(no_mangle)]
pub(crate) extern "C-unwind" fn GC_memalign(align: usize, bytes: usize) -> *mut c_void {
    if align.is_power_of_two() { aligned(align, bytes) } else { ptr::null_mut() }
}

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C-unwind" fn GC_posix_memalign(place: *mut *mut c_void, align: usize, bytes: usize) -> c_int {
    if !align.is_power_of_two() || align < size_of::<usize>() {
        return libc::EINVAL;
    }
    let object = aligned(align, bytes);
    if object.is_null() {
        return libc::ENOMEM;
    }
    // SAFETY: the program's promise: a place for the result.
    unsafe { place.write(object) };
    0
}

pub(crate) unsafe extern "C-unwind" fn realloc(old: *mut c_void, bytes: usize, caller: usize) -> *mut c_void {
    if old.is_null() {
        return malloc(bytes, caller);
    }
    if bytes == 0 {
        // SAFETY: the program gives the object up.
        unsafe { free(old, caller) };
        return ptr::null_mut();
    }
    let thread = attached();
    let Some(object) = object_at(thread.library, old as usize).filter(|object| object.address.as_ptr().cast() == old)
    else {
        report_unknown("GC_realloc", old, caller);
        return out_of_memory(bytes);
    };
    let (room, is_scanned) = (room(&object), object.is_scanned());
    if bytes <= room && (bytes > room / 2 || room <= 2 * GRANULE) {
        if is_scanned {
            // What the object does not use any more must keep nothing alive, and must be zero if it grows again.
            // SAFETY: within the object.
            unsafe { ptr::write_bytes(old.cast::<u8>().add(bytes), 0, object.bytes - bytes) };
        }
        return old;
    }
    charge(thread, caller);
    let Some(new) = allocate(thread, bytes, &object.kind.variants) else { return out_of_memory(bytes) };
    if object.kind.may_be_uncollectable {
        let held = LOCK.lock();
        let mut uncollectable = UNCOLLECTABLE.get(&held);
        if uncollectable.contains(&(old as usize)) {
            uncollectable.insert(new.as_ptr() as usize);
        }
    }
    // SAFETY: two objects of at least this size. The old one is not used after it is freed.
    unsafe {
        ptr::copy_nonoverlapping(old.cast::<u8>(), new.as_ptr(), bytes.min(room));
        free(old, caller);
    }
    if PENDING.load(Ordering::Relaxed) {
        finalization::after_collection();
    }
    new.as_ptr().cast()
}

/// Passes the address to which the call returns as the second argument.
#[unsafe(no_mangle)]
#[unsafe(naked)]
pub(crate) unsafe extern "C-unwind" fn GC_free(object: *mut c_void) {
    naked_asm!("mov rsi, [rsp]", "jmp {free}", free = sym free)
}

/// Frees an object. `caller` is the address to which the program's call returns, or 0.
///
/// # Safety
/// The program does not use the object any more.
pub(crate) unsafe extern "C-unwind" fn free(object: *mut c_void, caller: usize) {
    let Some(address) = NonNull::new(object.cast::<u8>()) else { return };
    leaks::freed(object as usize);
    let thread = attached();
    // SAFETY: the caller's promise.
    let Ok(freed) = (unsafe { thread.mutator.free_untyped(address) }) else {
        return report_unknown("GC_free", object, caller);
    };
    let kinds = thread.kinds();
    if !is_of(&kinds.normal, freed.type_info) && !is_of(&kinds.atomic, freed.type_info) {
        // The table may have named a freed cell for a moment, which is no object.
        UNCOLLECTABLE.get(&LOCK.lock()).remove(&(object as usize));
    }
    FREED_BYTES.fetch_add(freed.bytes, Ordering::Relaxed);
}

#[cold]
fn report_unknown(function: &str, object: *mut c_void, caller: usize) {
    let from = if caller == 0 { String::new() } else { format!(", called from {}", describe_address(caller)) };
    log(&format!(
        "stopworld libgc: {function}({object:p}): no object begins at this address, or it was freed already; the call is ignored{from}\n"
    ));
}
