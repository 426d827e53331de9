//! Questions about addresses: which object, of which size and kind.

use std::ffi::{c_int, c_void};
use std::ptr::{self, NonNull};

use stopworld::TypeInfo;

use crate::data::{GC_is_valid_displacement_print_proc, GC_is_visible_print_proc, GC_same_obj_print_proc};
use crate::library::{Library, if_initialised};
use crate::tables::kinds::LEAVES_LAST_WORD;

use super::kind_facts::{KindFacts, kind_of};

/// An object of the program.
pub(crate) struct Object {
    pub(crate) address: NonNull<u8>,
    /// The bytes of the cell after its header.
    pub(crate) bytes: usize,
    pub(crate) kind: KindFacts,
    type_info: &'static TypeInfo,
}

impl Object {
    pub(crate) fn is_scanned(&self) -> bool {
        self.kind.variants[0].is_scanned()
    }
}

/// Returns the object that contains an address.
pub(crate) fn object_at(library: &'static Library, address: usize) -> Option<Object> {
    let found = library.world.untyped_object(address)?;
    let kind = kind_of(library, found.type_info)?;
    Some(Object { address: found.address, bytes: found.bytes, kind, type_info: found.type_info })
}

/// Returns the size that the program may use: at least what it requested.
pub(crate) fn room(object: &Object) -> usize {
    let leaves = object.kind.variants[LEAVES_LAST_WORD];
    if ptr::eq(leaves.type_info(), object.type_info) { object.bytes / 16 * 16 } else { object.bytes }
}

fn find(pointer: *const c_void) -> Option<Object> {
    object_at(if_initialised()?, pointer as usize)
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn GC_base(pointer: *mut c_void) -> *mut c_void {
    let object = || if_initialised()?.world.untyped_object(pointer as usize);
    object().map_or(ptr::null_mut(), |object| object.address.as_ptr().cast())
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn GC_is_heap_ptr(pointer: *const c_void) -> c_int {
    let is_in = |library: &Library| library.heap.contains(&(pointer as usize));
    c_int::from(
        if_initialised()
            .is_some_and(|library| is_in(library) && library.world.untyped_object(pointer as usize).is_some()),
    )
}

/// 0 for an address that is in no object.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn GC_size(pointer: *const c_void) -> usize {
    find(pointer).map_or(0, |object| room(&object))
}

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn GC_get_kind_and_size(pointer: *const c_void, size: *mut usize) -> c_int {
    let (kind, bytes) = find(pointer).map_or((0, 0), |object| (object.kind.number, room(&object)));
    // SAFETY: the program's promise: null, or a place for the size.
    if let Some(size) = unsafe { size.as_mut() } {
        *size = bytes;
    }
    kind
}

/// All memory is taken to be visible: the answer would need a look at all roots.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn GC_is_visible(pointer: *mut c_void) -> *mut c_void {
    let _ = GC_is_visible_print_proc.get();
    pointer
}

/// Displacements only matter for objects' words, so each pointer is taken to be valid.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn GC_is_valid_displacement(pointer: *mut c_void) -> *mut c_void {
    let _ = GC_is_valid_displacement_print_proc.get();
    pointer
}

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C-unwind" fn GC_same_obj(one: *mut c_void, other: *mut c_void) -> *mut c_void {
    let base = |pointer: *mut c_void| find(pointer).map(|object| object.address);
    // A pointer just past the end is of the object before it.
    let is_past = |object: Object| one as usize == object.address.as_ptr() as usize + object.bytes;
    if base(one) != base(other)
        && !find(other).is_some_and(is_past)
        && let Some(function) = GC_same_obj_print_proc.get()
    {
        // SAFETY: the program's function, or the one that ends the process.
        unsafe { function(one, other) };
    }
    one
}

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C-unwind" fn GC_pre_incr(place: *mut *mut c_void, distance: isize) -> *mut c_void {
    // SAFETY: the program's promise: a pointer that it increments.
    unsafe {
        let before = *place;
        *place = GC_same_obj(before.wrapping_byte_offset(distance), before);
        *place
    }
}

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C-unwind" fn GC_post_incr(place: *mut *mut c_void, distance: isize) -> *mut c_void {
    // SAFETY: the program's promise: a pointer that it increments.
    unsafe {
        let before = *place;
        *place = GC_same_obj(before.wrapping_byte_offset(distance), before);
        before
    }
}

/// Returns the size that an object gets for which the program requests this many bytes; 0 if it is not one of the small sizes.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn GC_get_size_map_at(bytes: c_int) -> usize {
    match usize::try_from(bytes) {
        Err(_) => usize::MAX,
        Ok(0) => 16,
        Ok(bytes) if bytes <= 512 => bytes.next_multiple_of(8),
        Ok(_) => 0,
    }
}

/// Gets an object, its size, and the program's word.
type ObjectFunction = unsafe extern "C-unwind" fn(*mut c_void, usize, *mut c_void);

/// Visits the objects that were alive after the last collection, and those allocated since.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C-unwind" fn GC_enumerate_reachable_objects_inner(
    function: ObjectFunction,
    data: *mut c_void,
) {
    let Some(library) = if_initialised() else { return };
    library.world.for_each_untyped(|found| {
        if let Some(object) = kind_of(library, found.type_info) {
            let object =
                Object { address: found.address, bytes: found.bytes, kind: object, type_info: found.type_info };
            // SAFETY: the program's function.
            unsafe { function(object.address.as_ptr().cast(), room(&object), data) };
        }
    });
}
