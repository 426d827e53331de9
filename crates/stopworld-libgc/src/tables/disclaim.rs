//! Disclaim procedures: functions of the program that are asked about each dead object of a kind, and may keep it.
//!
//! bdwgc asks while it sweeps. Here the collecting thread asks in the stopped world, after finalizers and links: a dead object is still
//! whole then. The function may free what the object owns, and must not allocate. If it returns another value than 0, the object, with what
//! it refers to, lives until a later collection finds it dead again.

use std::ffi::{c_int, c_void};
use std::ptr;

use stopworld::TypeInfo;

use super::kinds::{FIRST_KIND, MOST_KINDS, own_kind, own_kind_of};
use crate::hook::Hook;
use crate::sync::{AtomicBool, Ordering};

/// Gets a dead object, and returns whether to keep it.
pub(crate) type Function = unsafe extern "C-unwind" fn(*mut c_void) -> c_int;

static FUNCTIONS: [Hook<Function>; MOST_KINDS] = [const { Hook::new(ptr::null()) }; MOST_KINDS];
/// Whether dead objects of the kind keep alive what they refer to, until they are freed themselves.
static KEEPS_REFERENTS: [AtomicBool; MOST_KINDS] = [const { AtomicBool::new(false) }; MOST_KINDS];
static ANY: AtomicBool = AtomicBool::new(false);

/// Sets or removes the function of a kind that the program has made. Returns false if it is not such a kind.
pub(crate) fn set(kind: usize, function: Option<Function>, keeps_referents: bool) -> bool {
    if kind < FIRST_KIND || own_kind(kind).is_none() {
        return false;
    }
    FUNCTIONS[kind].set(function);
    // Relaxed: the interface asks for it before the kind has objects.
    KEEPS_REFERENTS[kind].store(keeps_referents, Ordering::Relaxed);
    ANY.store(true, Ordering::Relaxed);
    true
}

/// Returns whether any kind has, or had, a function.
pub(crate) fn is_any() -> bool {
    ANY.load(Ordering::Relaxed)
}

/// Returns the function of the objects with this description.
pub(crate) fn function_of(type_info: &'static TypeInfo) -> Option<Function> {
    own_kind_of(type_info).and_then(|(kind, _)| FUNCTIONS[kind].get())
}

/// Returns whether a dead object with this description keeps alive what it refers to.
pub(crate) fn keeps_referents(type_info: &'static TypeInfo) -> bool {
    own_kind_of(type_info)
        .is_some_and(|(kind, _)| FUNCTIONS[kind].get().is_some() && KEEPS_REFERENTS[kind].load(Ordering::Relaxed))
}
