//! Which addresses a debugger's question looks at, in a collection or outside of one.

use crate::sync::Ordering;

use super::handshake::Place;
use super::registry::Threads;
use super::stacks::{Location, locate, lowest, ranges};
use super::stop_info::ThreadStopInfo;

/// What a word was found in, when a debugger asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FoundIn {
    /// A thread's stack.
    Stack,
    /// A thread's registers, in its save area.
    Registers,
    /// A stack that the program registered.
    RegisteredStack,
}

/// Calls `scan` with each range of a thread that stands, or that a debugger has stopped, in a collection or outside of one.
/// What is looked at is what is known: where the thread itself says that it stands, from there; where it runs, from what
/// the debugger wrote to its slot; and without either, all of its stack.
///
/// # Safety
/// As for [`Threads::registered_if_unchanging`].
pub(crate) unsafe fn for_a_debugger(
    threads: &Threads,
    info: &ThreadStopInfo,
    mut scan: impl FnMut(FoundIn, usize, usize),
) {
    let stack_ptr = match info.state.place() {
        Place::Detached => return,
        Place::Running => info.stack_ptr(),
        Place::Blocking | Place::Parked => info.saved_sp.load(Ordering::Relaxed),
    };
    if info.is_gone() || info.has_died() {
        return;
    }
    // SAFETY: the caller's promise.
    let registered = unsafe { threads.registered_if_unchanging() }.unwrap_or_default();
    let location = locate(info, stack_ptr, registered);
    if location == Location::Nowhere {
        let own = info.stack_bounds();
        scan(FoundIn::Stack, lowest(info, own), own.high);
    }
    let registers = info.saved_registers();
    ranges(info, stack_ptr, location, |low, high| {
        let found_in = if registers == Some((low, high)) { FoundIn::Registers } else { FoundIn::Stack };
        scan(found_in, low, high);
    });
}

/// Calls `scan` with each registered stack, as [`for_a_debugger`]; with none if they can't be read.
///
/// # Safety
/// As for [`Threads::registered_if_unchanging`].
pub(crate) unsafe fn registered_for_a_debugger(threads: &Threads, mut scan: impl FnMut(FoundIn, usize, usize)) {
    // SAFETY: the caller's promise.
    for stack in unsafe { threads.registered_if_unchanging() }.unwrap_or_default() {
        scan(FoundIn::RegisteredStack, stack.bounds.low, stack.bounds.high);
    }
}

/// Whether the registered stacks can be read: no thread was stopped in the middle of changing them.
///
/// # Safety
/// As for [`Threads::registered_if_unchanging`].
pub(crate) unsafe fn registered_can_be_read(threads: &Threads) -> bool {
    // SAFETY: the caller's promise.
    unsafe { threads.registered_if_unchanging() }.is_some()
}
