//! Toggle references: objects that the program keeps alive or not, by a function that the collector asks before each collection.

use std::ffi::{c_int, c_void};
use std::ptr;

use crate::hook::Hook;
use crate::lock::Guarded;

/// What the program's function says of an object.
pub(crate) const DROP: c_int = 0;
pub(crate) const STRONG: c_int = 1;

/// Gets an object, and returns `DROP`, `STRONG` or 2, weak.
pub(crate) type Function = unsafe extern "C-unwind" fn(*mut c_void) -> c_int;

pub(crate) static FUNCTION: Hook<Function> = Hook::new(ptr::null());

/// The objects, and whether the collector keeps each alive.
#[derive(Debug)]
pub(crate) struct Toggles(Vec<(usize, bool)>);

pub(crate) static TOGGLES: Guarded<Toggles> = Guarded::new(Toggles(Vec::new()));

impl Toggles {
    pub(crate) fn add(&mut self, object: usize, is_strong: bool) {
        self.0.push((object, is_strong));
    }

    /// Takes all entries, so that the program's function may add others meanwhile.
    pub(crate) fn take(&mut self) -> Vec<(usize, bool)> {
        std::mem::take(&mut self.0)
    }

    pub(crate) fn put_back(&mut self, entries: Vec<(usize, bool)>) {
        let added = std::mem::replace(&mut self.0, entries);
        self.0.extend(added);
    }

    /// Calls `visit` with each object that is to be kept alive.
    pub(crate) fn for_each_strong(&self, mut visit: impl FnMut(usize)) {
        self.0.iter().filter(|entry| entry.1).for_each(|entry| visit(entry.0));
    }

    /// Forgets the objects that are dead. In the stopped world.
    pub(crate) fn forget_dead(&mut self, is_alive: impl Fn(usize) -> bool) {
        self.0.retain(|&(object, _)| is_alive(object));
    }
}

/// Asks the program about each entry.
pub(crate) fn ask(entries: &mut Vec<(usize, bool)>) {
    let Some(function) = FUNCTION.get() else { return };
    entries.retain_mut(|(object, is_strong)| {
        // SAFETY: the program's function, with an object that it has added, and that is alive.
        let status = unsafe { function(*object as *mut c_void) };
        *is_strong = status == STRONG;
        status != DROP
    });
}
