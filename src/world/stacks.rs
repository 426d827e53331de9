//! The addresses of a stopped thread that are scanned.
//!
//! ```text
//!   stack_ptr is …                          scanned
//!   in the thread's own stack               [stack_ptr, base)
//!   in its alternate signal stack           [stack_ptr, top of it) and the own stack, all of it
//!   in a registered (coroutine's) stack     the own stack, all of it; registered stacks are scanned whole anyway
//!   in a stack that the binding knows       [stack_ptr, its end) and the own stack, all of it
//!   nowhere                                 nothing: an error
//! ```
//!
//! In all cases the part of the save area that holds registers is scanned too. If a thread was stopped on another stack, the stack
//! pointer with which it left its own stack is not known (it is in some frame there), so the whole mapped part of its own stack is
//! scanned. The kernel maps the main thread's stack as the thread uses it; memory below the mapped part was never written.
//!
//! A stack pointer outside every known range is an error, and is never used for a scan (`.stop.coroutine`): the scan would read
//! another thread's memory, or unmapped memory, and miss the thread's references.
//!
//! Everything here runs inside the stop, so it takes no lock and does not allocate. The bounds of the stacks were found at attach
//! (`.stop.locks`).

use std::mem::offset_of;

use crate::os::memory;
use crate::os::thread::{self, StackBounds};
use crate::sabotage::{Guard, removed};
use crate::sync::Ordering;

use super::stop_info::{MAIN_THREAD, ThreadStopInfo};

/// A stack that a mutator registered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RegisteredStack {
    pub(super) id: u64,
    pub(super) bounds: StackBounds,
}

/// For a reader outside the process: the size of a [`RegisteredStack`], and the offsets of the bounds in it.
pub(crate) const REGISTERED_STACK: [usize; 3] =
    [size_of::<RegisteredStack>(), offset_of!(RegisteredStack, bounds.low), offset_of!(RegisteredStack, bounds.high)];

/// The stack that contains a stack pointer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Location {
    /// In the thread's own stack.
    Own,
    /// In its alternate signal stack.
    Alternate,
    /// In a registered stack.
    Registered,
    /// In a stack that the program's binding knows, which ends here.
    Foreign { end: usize },
    /// In no known stack.
    Nowhere,
}

/// Finds the end of stacks that only the program knows.
pub(crate) trait ForeignStacks: Send + Sync {
    /// Returns the end of the memory to scan from `stack_ptr` on. Called in the stopped world.
    fn end(&self, info: &ThreadStopInfo, stack_ptr: usize) -> Option<usize>;
}

/// The stacks of a world besides the threads' own.
#[derive(Clone, Copy)]
pub(super) struct OtherStacks<'a> {
    pub(super) registered: &'a [RegisteredStack],
    pub(super) foreign: Option<&'a dyn ForeignStacks>,
}

/// Finds the stack of the thread that contains an address.
pub(super) fn locate(info: &ThreadStopInfo, stack_ptr: usize, others: OtherStacks<'_>) -> Location {
    let own = info.stack_bounds();
    if own.contains(stack_ptr) {
        Location::Own
    } else if info.alternate_bounds().contains(stack_ptr) {
        Location::Alternate
    } else if others.registered.iter().any(|stack| stack.bounds.contains(stack_ptr)) {
        Location::Registered
    } else if is_main(info) && has_grown_to(own, stack_ptr) {
        Location::Own
    } else if let Some(end) =
        others.foreign.and_then(|foreign| foreign.end(info, stack_ptr)).filter(|end| *end >= stack_ptr)
    {
        Location::Foreign { end }
    } else {
        Location::Nowhere
    }
}

/// Calls `scan` with each range of words that may hold references of the stopped thread.
pub(super) fn ranges(info: &ThreadStopInfo, stack_ptr: usize, location: Location, mut scan: impl FnMut(usize, usize)) {
    if removed(Guard::StopLocks) {
        // The known-bad variant: calls libc here, which takes its locks and allocates.
        let _ = thread::current_stack();
    }
    let own = info.stack_bounds();
    let from = stack_ptr & !7;
    match location {
        Location::Own => scan(from, own.high),
        Location::Alternate => {
            scan(from, info.alternate_bounds().high);
            if !removed(Guard::StopAltstack) {
                scan(lowest(info, own), own.high);
            }
        }
        Location::Registered => scan(lowest(info, own), own.high),
        Location::Foreign { end } => {
            scan(from, end);
            scan(lowest(info, own), own.high);
        }
        Location::Nowhere => {}
    }
    if let Some((low, high)) = info.saved_registers() {
        scan(low, high);
    }
}

fn is_main(info: &ThreadStopInfo) -> bool {
    info.flags.load(Ordering::Relaxed) & MAIN_THREAD != 0
}

/// Returns whether the main thread's stack has grown down to `stack_ptr`: its limit may have been raised since attach, and the stack
/// may have grown below its lowest address of that time.
fn has_grown_to(own: StackBounds, stack_ptr: usize) -> bool {
    /// The largest growth that is accepted, in bytes.
    const FARTHEST: usize = 1 << 30;
    stack_ptr < own.low && own.low - stack_ptr < FARTHEST && memory::is_mapped(stack_ptr, own.high)
}

/// Returns the lowest address of the thread's own stack that can be read.
pub(super) fn lowest(info: &ThreadStopInfo, own: StackBounds) -> usize {
    if is_main(info) { memory::lowest_mapped(own.low, own.high) } else { own.low }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::os::Tid;
    use crate::world::name::ThreadName;
    use crate::world::stop_info::{give_chunks, take_chunk};
    use rstest::rstest;

    const OWN: StackBounds = StackBounds { low: 0x10_000, high: 0x20_000 };
    const ALTERNATE: StackBounds = StackBounds { low: 0x30_000, high: 0x32_000 };
    /// The binding knows this stack.
    const FIBER: StackBounds = StackBounds { low: 0x60_000, high: 0x62_000 };

    struct Fiber;

    impl ForeignStacks for Fiber {
        fn end(&self, _: &ThreadStopInfo, stack_ptr: usize) -> Option<usize> {
            FIBER.contains(stack_ptr).then_some(FIBER.high)
        }
    }

    const COROUTINE: StackBounds = StackBounds { low: 0x50_000, high: 0x51_000 };

    #[rstest]
    #[case::own(0x18_003, Location::Own, &[(0x18_000, 0x20_000)])]
    #[case::base(0x20_000, Location::Own, &[(0x20_000, 0x20_000)])]
    // .stop.altstack
    #[case::alternate(0x31_000, Location::Alternate, &[(0x31_000, 0x32_000), (0x10_000, 0x20_000)])]
    // .stop.coroutine
    #[case::coroutine(0x50_800, Location::Registered, &[(0x10_000, 0x20_000)])]
    #[case::foreign(0x61_000, Location::Foreign { end: 0x62_000 }, &[(0x61_000, 0x62_000), (0x10_000, 0x20_000)])]
    #[case::below(0xf_fff, Location::Nowhere, &[])]
    #[case::nowhere(0x40_000, Location::Nowhere, &[])]
    fn a_stack_pointer_decides_what_is_scanned(
        #[case] stack_ptr: usize,
        #[case] location: Location,
        #[case] expected: &[(usize, usize)],
    ) {
        let chunk = take_chunk().unwrap();
        let info = &chunk[0];
        info.prepare(Tid(1), ThreadName::EMPTY, OWN, 0);
        info.set_alternate(Some(ALTERNATE));
        let registered = [RegisteredStack { id: 1, bounds: COROUTINE }];
        let others = OtherStacks { registered: &registered, foreign: Some(&Fiber) };
        assert_eq!(locate(info, stack_ptr, others), location);
        let mut seen = Vec::new();
        ranges(info, stack_ptr, location, |low, high| seen.push((low, high)));
        assert_eq!(seen, expected);
        give_chunks(vec![chunk]);
    }

    /// A thread of a C program has no alternate signal stack. A slot that the stopper left at 0 must not count as inside it.
    #[test]
    fn no_stack_pointer_is_in_a_missing_alternate_stack() {
        let chunk = take_chunk().unwrap();
        let info = &chunk[0];
        info.prepare(Tid(1), ThreadName::EMPTY, OWN, 0);
        info.set_alternate(None);
        assert_eq!(locate(info, 0, OtherStacks { registered: &[], foreign: None }), Location::Nowhere);
        give_chunks(vec![chunk]);
    }

    #[test]
    fn registers_in_the_save_area_are_scanned() {
        let chunk = take_chunk().unwrap();
        let info = &chunk[1];
        info.prepare(Tid(1), ThreadName::EMPTY, OWN, 0);
        info.set_save_area_used(128);
        let mut seen = Vec::new();
        ranges(info, 0x1f_000, Location::Own, |low, high| seen.push((low, high)));
        let area = info.save_area().0 as usize;
        assert_eq!(seen, [(0x1f_000, 0x20_000), (area, area + 128)]);
        info.set_save_area_used(0);
        give_chunks(vec![chunk]);
    }
}
