//! The addresses that are scanned for a debugger's request, inside or outside a collection.

use crate::sync::Ordering;

use super::handshake::HandshakeState;
use super::registry::Threads;
use super::stacks::{Location, OtherStacks, locate, lowest, ranges};
use super::stop_info::ThreadStopInfo;

/// Where a word was found, for a debugger's request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FoundIn {
    /// A thread's stack.
    Stack,
    /// A thread's registers, in its save area.
    Registers,
    /// A stack that the program registered.
    RegisteredStack,
}

/// Calls `scan` with each range of a thread that is stopped, or that a debugger has stopped, inside or outside a collection.
/// The stack is scanned from the stack pointer that the thread itself has published; for a running thread, from the stack pointer
/// that the debugger wrote to its slot. If there is neither, the whole stack is scanned.
///
/// # Safety
/// As for [`Threads::registered_if_unchanging`].
pub(crate) unsafe fn for_a_debugger(
    threads: &Threads,
    info: &ThreadStopInfo,
    mut scan: impl FnMut(FoundIn, usize, usize),
) {
    let stack_ptr = match info.state.handshake_state() {
        HandshakeState::Detached => return,
        HandshakeState::Running => info.stack_ptr(),
        HandshakeState::Blocking | HandshakeState::Parked => info.saved_sp.load(Ordering::Relaxed),
    };
    if info.is_gone() || info.has_died() {
        return;
    }
    // SAFETY: the caller's promise.
    let registered = unsafe { threads.registered_if_unchanging() }.unwrap_or_default();
    let location = locate(info, stack_ptr, OtherStacks { registered, foreign: threads.foreign() });
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

/// Calls `scan` with each registered stack, as [`for_a_debugger`] does. Does not call it if the registered stacks cannot be read.
///
/// # Safety
/// As for [`Threads::registered_if_unchanging`].
pub(crate) unsafe fn registered_for_a_debugger(threads: &Threads, mut scan: impl FnMut(FoundIn, usize, usize)) {
    // SAFETY: the caller's promise.
    for stack in unsafe { threads.registered_if_unchanging() }.unwrap_or_default() {
        scan(FoundIn::RegisteredStack, stack.bounds.low, stack.bounds.high);
    }
}

/// Returns whether the registered stacks can be read: no thread was stopped while it was changing them.
///
/// # Safety
/// As for [`Threads::registered_if_unchanging`].
pub(crate) unsafe fn registered_can_be_read(threads: &Threads) -> bool {
    // SAFETY: the caller's promise.
    unsafe { threads.registered_if_unchanging() }.is_some()
}
