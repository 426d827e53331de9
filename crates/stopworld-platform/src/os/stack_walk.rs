//! Walks the calling thread's stack: fast enough to be done for each sample of a profile.
//!
//! [`super::unwind`] asks the system's unwinder, which interprets a table for each frame. A [`Walker`] has a cache of the rules that
//! it has found, so that a frame takes some nanoseconds. It takes no lock, does not allocate, and reads nothing but the thread's stack and
//! copies of the unwind tables: a library that is unloaded meanwhile does no harm. Functions without a table are passed by their frame pointers.

use std::arch::asm;
use std::ops::Range;
use std::ptr;
use std::sync::Arc;

use framehop::x86_64::{CacheX86_64, UnwindRegsX86_64, UnwinderX86_64};
use framehop::{ExplicitModuleSectionInfo, FrameAddress, Module, Unwinder};

use super::loaded::{self, Changes, UnwindTables};

fn unwinder(tables: &[UnwindTables]) -> UnwinderX86_64<Arc<[u8]>> {
    let mut unwinder = UnwinderX86_64::new();
    tables.iter().map(module).for_each(|module| unwinder.add_module(module));
    unwinder
}

fn module(tables: &UnwindTables) -> Module<Arc<[u8]>> {
    let UnwindTables { bias, range, index, frames } = tables;
    let in_file = |table: &loaded::Table| {
        let begin = table.address.wrapping_sub(*bias) as u64;
        begin..begin + table.bytes.len() as u64
    };
    let sections = ExplicitModuleSectionInfo {
        eh_frame_hdr_svma: Some(in_file(index)),
        eh_frame_hdr: Some(Arc::clone(&index.bytes)),
        eh_frame_svma: Some(in_file(frames)),
        eh_frame: Some(Arc::clone(&frames.bytes)),
        ..ExplicitModuleSectionInfo::default()
    };
    Module::new(String::new(), range.start as u64..range.end as u64, *bias as u64, sections)
}

/// Walks the stack of a thread. Each thread has its own.
pub struct Walker {
    of: Changes,
    unwinder: UnwinderX86_64<Arc<[u8]>>,
    cache: Box<CacheX86_64>,
}

impl Walker {
    /// Creates a walker for the files that are loaded now. Takes a lock of the dynamic loader, and copies the unwind tables if files have been
    /// loaded or unloaded since another walker was created or renewed.
    pub fn new() -> Walker {
        let (of, tables) = loaded::unwind_tables();
        Walker { of, unwinder: unwinder(&tables), cache: Box::new(CacheX86_64::new()) }
    }

    /// Notes which files are loaded now, as [`new`](Self::new) does.
    pub fn renew(&mut self) {
        let (of, tables) = loaded::unwind_tables();
        if of != self.of {
            (self.of, self.unwinder) = (of, unwinder(&tables));
        }
    }

    /// Writes the return addresses of the calling thread's frames to `addresses`, innermost first, and returns their number. Each address is
    /// the one after the call. `stack` are the bounds of the stack that the thread runs on: nothing outside them is read, whatever the frames
    /// contain. If the thread is on another stack, there are no addresses.
    pub fn walk(&mut self, stack: Range<usize>, addresses: &mut [usize]) -> usize {
        let (pc, sp, bp): (u64, u64, u64);
        // SAFETY: reads three registers.
        unsafe {
            asm!("lea {pc}, [rip]", "mov {sp}, rsp", "mov {bp}, rbp", pc = out(reg) pc, sp = out(reg) sp, bp = out(reg) bp,
                options(nomem, nostack, preserves_flags));
        }
        if !stack.contains(&(sp as usize)) {
            return 0;
        }
        let readable = sp as usize..stack.end;
        let mut read = |address: u64| {
            let address = address as usize;
            let is_readable = address.is_multiple_of(align_of::<u64>())
                && address
                    .checked_add(size_of::<u64>())
                    .is_some_and(|end| readable.start <= address && end <= readable.end);
            // SAFETY: an aligned word of the calling thread's stack, between its stack pointer and its end. Volatile: the frames belong to
            // code that the compiler does not see from here.
            if is_readable { Ok(unsafe { ptr::read_volatile(address as *const u64) }) } else { Err(()) }
        };
        let registers = UnwindRegsX86_64::new(pc, sp, bp);
        let mut frames = self.unwinder.iter_frames(pc, registers, &mut self.cache, &mut read);
        let mut found = 0;
        // An error ends the list: the rest of the stack cannot be unwound.
        while found < addresses.len()
            && let Ok(Some(frame)) = frames.next()
        {
            if let FrameAddress::ReturnAddress(address) = frame {
                addresses[found] = address.get() as usize;
                found += 1;
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::os::thread::{StackBounds, current_stack};
    use crate::os::unwind;

    /// The bounds of the calling thread's stack.
    fn stack() -> Range<usize> {
        let StackBounds { low, high } = current_stack().unwrap();
        low..high
    }

    #[inline(never)]
    fn deeper(levels: usize, walk: &mut dyn FnMut() -> usize) -> usize {
        if levels > 0 { std::hint::black_box(deeper(levels - 1, walk)) } else { walk() }
    }

    /// The frames of the two functions themselves differ.
    fn callers(addresses: &[usize]) -> &[usize] {
        &addresses[2..]
    }

    #[test]
    fn a_walker_finds_the_frames_that_the_systems_unwinder_finds() {
        let mut walker = Walker::new();
        for levels in [0, 1, 7, 40] {
            let (mut ours, mut theirs) = ([0; 128], [0; 128]);
            let (mut found, mut expected) = (0, 0);
            let mut both = || {
                found = walker.walk(stack(), &mut ours);
                expected = unwind::return_addresses(&mut theirs);
                0
            };
            deeper(levels, &mut both);
            let (ours, theirs) = (&ours[..found], &theirs[..expected]);
            // From the caller of the closure on, both lists are the same, up to where the innermost frames of each walk end.
            let common = ours.iter().rev().zip(theirs.iter().rev()).take_while(|(a, b)| a == b).count();
            assert!(common > levels + 3, "{levels} levels: {common} frames of {found} and {expected}");
            assert!(common + 3 >= callers(ours).len(), "{ours:x?} {theirs:x?}");
        }
    }

    #[test]
    fn a_walk_ends_with_the_room_for_its_addresses() {
        let mut walker = Walker::new();
        let mut addresses = [0; 3];
        let mut walk = || walker.walk(stack(), &mut addresses);
        assert_eq!(deeper(10, &mut walk), 3);
        assert!(addresses.iter().all(|address| *address != 0));
    }

    #[test]
    fn on_another_stack_there_are_no_addresses() {
        let mut walker = Walker::new();
        let mut addresses = [0; 64];
        let mut walk = || walker.walk(0..0, &mut addresses);
        assert_eq!(deeper(10, &mut walk), 0);
    }
}
