//! Objects that are allocated with a finalizer, and toggle references.

use std::ffi::{c_int, c_void};

use crate::lock::LOCK;
use crate::tables::finalizers::{FINALIZERS, Finalizer, Function, Order};
use crate::tables::toggles::{self, TOGGLES};
use crate::thread::attached;

use super::finalization::SUCCESS;
use super::malloc::allocated;

/// A function and its word, which are called with the object when it has died. The program may change it until then.
#[repr(C)]
pub(crate) struct Closure {
    function: Function,
    data: *mut c_void,
}

/// The finalizer of such an object.
unsafe extern "C-unwind" fn call_closure(object: *mut c_void, closure: *mut c_void) {
    // SAFETY: `GC_finalized_malloc` has registered it with a closure, which the finalizer's word keeps alive.
    unsafe {
        let Closure { function, data } = &*closure.cast::<Closure>();
        function(object, *data);
    }
}

/// As in bdwgc, objects may then have a word of the program before what it refers to, and words may have a tag in their lowest bit.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn GC_init_finalized_malloc() {
    let world = &attached().library.world;
    [1, size_of::<usize>()].into_iter().for_each(|bytes| world.register_displacement(bytes));
}

/// The function is called as a finalizer that waits as long as other dead objects with such functions refer to the object.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C-unwind" fn GC_finalized_malloc(bytes: usize, closure: *const Closure) -> *mut c_void {
    let object = allocated(bytes, 0, |kinds| &kinds.normal);
    if !object.is_null() {
        let finalizer = Finalizer { function: call_closure, data: closure as usize, order: Order::IgnoreSelf };
        FINALIZERS.get(&LOCK.lock()).set(object as usize, Some(finalizer));
    }
    object
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn GC_set_toggleref_func(function: Option<toggles::Function>) {
    toggles::FUNCTION.set(function);
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn GC_get_toggleref_func() -> Option<toggles::Function> {
    toggles::FUNCTION.get()
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn GC_toggleref_add(object: *mut c_void, is_strong: c_int) -> c_int {
    if toggles::FUNCTION.get().is_some() {
        TOGGLES.get(&LOCK.lock()).add(object as usize, is_strong != 0);
    }
    SUCCESS
}
