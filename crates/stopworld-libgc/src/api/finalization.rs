//! Finalizers and disappearing links.

use std::ffi::{c_int, c_void};
use std::ptr;

use crate::binding::PENDING;
use crate::data::{GC_finalize_on_demand, GC_finalizer_notifier, is_on};
use crate::hook::Hook;
use crate::lock::{Guarded, LOCK};
use crate::sync::Ordering;
use crate::tables::finalizers::{FINALIZERS, Finalizer, Function, Order};
use crate::tables::kinds::is_of;
use crate::tables::leaks;
use crate::tables::links::{LONG, Links, Moved, SHORT};
use crate::thread::{attached, library};

/// The results of the interface's functions.
pub(crate) const SUCCESS: c_int = 0;
pub(crate) const DUPLICATE: c_int = 1;
pub(crate) const NOT_FOUND: c_int = 4;

/// Gets an object when its finalizer becomes ready.
type AwaitFunction = unsafe extern "C-unwind" fn(*mut c_void);

static AWAIT: Hook<AwaitFunction> = Hook::new(ptr::null());

/// Called at the end of an allocation or a collection after which finalizers may be ready: runs them, or notifies the program that they
/// are.
#[cold]
#[inline(never)]
pub(crate) fn after_collection() {
    /// Ends the section in which the thread runs finalizers, also if one of them unwinds.
    struct Finalizing;

    impl Drop for Finalizing {
        fn drop(&mut self) {
            attached().is_finalizing.set(false);
        }
    }

    // A thread that holds the lock runs nothing of the program: the next allocation does.
    if LOCK.is_mine() || !PENDING.swap(false, Ordering::Relaxed) {
        return;
    }
    leaks::print(|type_info| is_of(&library().kinds.atomic, type_info));
    if is_on(&GC_finalize_on_demand) {
        if let Some(function) = GC_finalizer_notifier.get() {
            // SAFETY: the program's function, without a lock, as the interface has it.
            unsafe { function() };
        }
        return;
    }
    // Finalizers that allocate do not run others meanwhile.
    if attached().is_finalizing.replace(true) {
        PENDING.store(true, Ordering::Relaxed);
        return;
    }
    let _finalizing = Finalizing;
    GC_invoke_finalizers();
}

#[unsafe(no_mangle)]
pub(crate) extern "C-unwind" fn GC_invoke_finalizers() -> c_int {
    let mut count = 0;
    loop {
        // The thread is attached, so the object and the word are found in its registers and on its stack.
        attached();
        let ready = FINALIZERS.get(&LOCK.lock()).take_ready();
        let Some(ready) = ready else { return count };
        count += 1;
        // SAFETY: the program's function, with what the program registered for it, once.
        unsafe { (ready.finalizer.function)(ready.object as *mut c_void, ready.finalizer.data as *mut c_void) };
    }
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn GC_should_invoke_finalizers() -> c_int {
    c_int::from(FINALIZERS.get(&LOCK.lock()).ready() > 0)
}

/// Runs all finalizers, also those of objects that are alive.
#[unsafe(no_mangle)]
pub(crate) extern "C-unwind" fn GC_finalize_all() {
    while FINALIZERS.get(&LOCK.lock()).registered() > 0 {
        FINALIZERS.get(&LOCK.lock()).make_all_ready();
        GC_invoke_finalizers();
    }
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn GC_set_await_finalize_proc(function: Option<AwaitFunction>) {
    AWAIT.set(function);
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn GC_get_await_finalize_proc() -> Option<AwaitFunction> {
    AWAIT.get()
}

/// Sets, replaces or removes the finalizer of an object.
///
/// # Safety
/// The places for the old function and its word are null, or can be written.
unsafe fn register(
    object: *mut c_void,
    function: Option<Function>,
    data: *mut c_void,
    old_function: *mut Option<Function>,
    old_data: *mut *mut c_void,
    order: Order,
) {
    // As in bdwgc, an object that is none of the heap never dies.
    let is_object = library().world.untyped_object(object as usize).is_some();
    let finalizer = function.map(|function| Finalizer { function, data: data as usize, order });
    let before = if is_object { FINALIZERS.get(&LOCK.lock()).set(object as usize, finalizer) } else { None };
    // SAFETY: the caller's promise.
    unsafe {
        if let Some(place) = old_function.as_mut() {
            *place = before.map(|before| before.function);
        }
        if let Some(place) = old_data.as_mut() {
            *place = before.map_or(ptr::null_mut(), |before| before.data as *mut c_void);
        }
    }
}

macro_rules! register {
    ($($name:ident $order:ident;)*) => {$(
        #[unsafe(no_mangle)]
        pub(crate) unsafe extern "C" fn $name(
            object: *mut c_void,
            function: Option<Function>,
            data: *mut c_void,
            old_function: *mut Option<Function>,
            old_data: *mut *mut c_void,
        ) {
            // SAFETY: the program's promise.
            unsafe { register(object, function, data, old_function, old_data, Order::$order) };
        }
    )*};
}

// Objects of the debugging functions have no header, so their functions do the same.
register! {
    GC_debug_register_finalizer Topological;
    GC_debug_register_finalizer_ignore_self IgnoreSelf;
    GC_debug_register_finalizer_no_order None;
    GC_debug_register_finalizer_unreachable Unreachable;
    GC_register_finalizer Topological;
    GC_register_finalizer_ignore_self IgnoreSelf;
    GC_register_finalizer_no_order None;
    GC_register_finalizer_unreachable Unreachable;
}

fn add_link(links: &Guarded<Links>, link: *mut *mut c_void, object: *const c_void) -> c_int {
    library();
    if links.get(&LOCK.lock()).add(link as usize, object as usize) { DUPLICATE } else { SUCCESS }
}

fn remove_link(links: &Guarded<Links>, link: *mut *mut c_void) -> c_int {
    c_int::from(links.get(&LOCK.lock()).remove(link as usize))
}

fn move_link(links: &Guarded<Links>, link: *mut *mut c_void, new: *mut *mut c_void) -> c_int {
    match links.get(&LOCK.lock()).move_to(link as usize, new as usize) {
        Moved::Done => SUCCESS,
        Moved::Occupied => DUPLICATE,
        Moved::NotFound => NOT_FOUND,
    }
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn GC_general_register_disappearing_link(link: *mut *mut c_void, object: *const c_void) -> c_int {
    add_link(&SHORT, link, object)
}

/// The link is cleared when the object dies in which it lies.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn GC_register_disappearing_link(link: *mut *mut c_void) -> c_int {
    match library().world.untyped_object(link as usize) {
        Some(object) => add_link(&SHORT, link, object.address.as_ptr().cast()),
        None => crate::print::abort(&format!(
            "GC_register_disappearing_link({link:p}): the link is in no object, so use GC_general_register_disappearing_link"
        )),
    }
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn GC_unregister_disappearing_link(link: *mut *mut c_void) -> c_int {
    remove_link(&SHORT, link)
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn GC_move_disappearing_link(link: *mut *mut c_void, new: *mut *mut c_void) -> c_int {
    move_link(&SHORT, link, new)
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn GC_register_long_link(link: *mut *mut c_void, object: *const c_void) -> c_int {
    add_link(&LONG, link, object)
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn GC_unregister_long_link(link: *mut *mut c_void) -> c_int {
    remove_link(&LONG, link)
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn GC_move_long_link(link: *mut *mut c_void, new: *mut *mut c_void) -> c_int {
    move_link(&LONG, link, new)
}
