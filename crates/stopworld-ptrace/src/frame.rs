//! All registers of a stopped thread, as a signal frame on its stack.
//!
//! The registers must be where the collector scans: between `stack_ptr` and the base of the thread's stack. For the collector any format
//! is possible. This one is, byte for byte, the format in which the kernel stores registers when it delivers a signal, so that the thread
//! itself can restore them. If the debugger dies during the collection, the kernel resumes the thread. The thread continues at the `park`
//! function, waits there for the end of the collection as if it were in the suspend handler, and `rt_sigreturn` returns it to where it was.
//!
//! ```text
//!   rsp ──> ┌────────────────────────────────┐
//!           │ red zone, 128 bytes            │  the thread's own, never written
//!           ├────────────────────────────────┤
//!           │ magic2, 4 bytes                │
//!           │ XSAVE image                    │  a multiple of 64
//!           ├────────────────────────────────┤
//!           │ siginfo, 128 bytes             │  zeroes
//!           │ ucontext, 304 bytes            │  rax … r15, rip, flags; room for the blocked signals
//!           │ a word                         │  1: `park` is to block all signals, and to complete the frame's mask
//!   stack_ptr ─> └────────────────────────────────┘  8 above a multiple of 16
//! ```
//!
//! # A thread in a system call
//!
//! An interrupted system call that the kernel would restart has one of four results in rax that a program never sees, and `orig_rax` ≥ 0
//! marks such a call. The frame contains the registers that a program would see. For three of the results, the thread returns to the
//! instruction of the call and so restarts it. To restart the fourth, the kernel needs its own record of the call, which a return through
//! `rt_sigreturn` loses. So this call ends with EINTR, as sleeping calls do when a signal handler interrupts them. The frame matters only
//! if the debugger dies. A normal start restores the registers themselves, `orig_rax` included, and the kernel restarts the call as if it
//! had not been interrupted.
//!
//! # Limits
//!
//! The mask of signals that a thread blocks is neither read nor changed here, since each of these costs a request: `park` does both. So if
//! a signal with a handler of the program is pending when the debugger dies, the handler may run before the thread parks, as handlers may
//! in blocking regions.
//!
//! A tracer cannot read a thread's alternate stack, which `uc_stack` should contain: the flags of `uc_stack` are a value that the kernel
//! refuses, so that the thread keeps its alternate stack. A restartable sequence (rseq) that was interrupted is not aborted when the thread
//! goes through `park`.

use std::ops::Range;

use super::sys::{self, General};

/// The 128 bytes below the stack pointer, which belong to the interrupted function.
pub(super) const RED_ZONE: u64 = 128;
/// Flags that must be clear at a function's entry: single-stepping, and the direction flag.
pub(super) const TRAP_AND_DIRECTION: u64 = 0x100 | 0x400;
/// Size in bytes of a frame without the extended state.
const FRAME: u64 = 440;
/// The number of bytes below the frame that `park` and the functions that it calls may need.
pub(super) const PARKING_ROOM: u64 = 16 << 10;

/// The value of `uc_flags`: there is an XSAVE image, and a valid ss that must be restored exactly.
const UC_FLAGS: u64 = 1 | 2 | 4;
/// An invalid mode of an alternate stack.
const NO_STACK_MODE: u32 = 4;

const MAGIC1: u32 = 0x4650_5853;
const MAGIC2: u32 = 0x4650_5845;
/// The offset of the kernel's description in the image. In an image read by ptrace, the first word there is XCR0.
const SOFTWARE: usize = 464;
/// The offset in the image of the set of components that are not in their initial state.
const IN_USE: usize = 512;
/// The size in bytes of the legacy part and the header.
const SMALLEST_IMAGE: usize = 576;
/// The tile registers. A thread that has not requested them has no room for them in its kernel state, and the kernel rejects frames that
/// are larger than that room.
const TILE_DATA: u32 = 18;

// The results by which the kernel restarts calls.
const RESTART_SYS: i64 = -512;
const RESTART_NO_INTR: i64 = -513;
const RESTART_NO_HAND: i64 = -514;
const RESTART_BLOCK: i64 = -516;
const SYSCALL_BYTES: u64 = 2;

// Offsets in the frame.
const UCONTEXT: usize = 8;
const SIGINFO: usize = 312;
const STACK_FLAGS: usize = 32;
const REGISTERS: usize = 48;
const SELECTORS: usize = 192;
const IMAGE_POINTER: usize = 232;

/// The value of the first word: the tracer has neither read nor changed the signal mask, since each would cost a request per thread.
const COMPLETE_THE_MASK: u64 = 1;

/// The addresses of the parts for a given stack pointer: the frame, and the image above it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Places {
    pub(super) frame: u64,
    pub(super) image: u64,
}

impl Places {
    /// Returns the places of a frame with an extended state of `image` bytes. `None` if there are too few addresses below the stack pointer,
    /// which the target can set to any number.
    pub(super) fn below(stack_pointer: u64, image: usize) -> Option<Self> {
        let with_magic = image as u64 + 4;
        let image = stack_pointer.checked_sub(RED_ZONE)?.checked_sub(with_magic)? & !63;
        let frame = (image.checked_sub(FRAME)? & !15).checked_sub(8)?;
        Some(Self { frame, image })
    }

    /// Returns the number of bytes from the start of the frame to the end of the second magic.
    pub(super) fn len(self, image: usize) -> usize {
        (self.image - self.frame) as usize + image + 4
    }
}

/// Appends the frame for these places to `into`, with room for an image of `image` bytes. Returns the range of `into` into which
/// the caller copies the image, which must then be [signed](sign).
pub(super) fn build(registers: &General, places: Places, image: usize, into: &mut Vec<u8>) -> Range<usize> {
    let start = into.len();
    into.resize(start + places.len(image), 0);
    let frame = &mut into[start..];
    let mut word = |at: usize, value: u64| frame[at..at + 8].copy_from_slice(&value.to_le_bytes());
    word(0, COMPLETE_THE_MASK);
    word(UCONTEXT, UC_FLAGS);
    word(STACK_FLAGS, NO_STACK_MODE.into());
    let r = after_the_call(registers);
    let general = [
        r.r8, r.r9, r.r10, r.r11, r.r12, r.r13, r.r14, r.r15, r.rdi, r.rsi, r.rbp, r.rbx, r.rdx, r.rax, r.rcx, r.rsp,
        r.rip, r.eflags,
    ];
    for (i, value) in general.into_iter().enumerate() {
        word(REGISTERS + 8 * i, value);
    }
    // cs, gs, fs, ss: 16 bits each. The kernel itself stores 0 for the two in the middle.
    word(SELECTORS, r.cs & 0xffff | (r.ss & 0xffff) << 48);
    word(IMAGE_POINTER, places.image);
    let at = start + (places.image - places.frame) as usize;
    at..at + image
}

/// Writes the kernel's description into an image in its frame, and the second magic after the image, by which the kernel recognises it.
pub(super) fn sign(frame: &mut [u8], image: Range<usize>) {
    if image.len() < SMALLEST_IMAGE {
        return;
    }
    let image = &mut frame[image.start..image.end + 4];
    let number = |image: &[u8], at: usize| u64::from_le_bytes(std::array::from_fn(|i| image[at + i]));
    let mut features = number(image, SOFTWARE);
    let mut size = image.len() - 4;
    if features >> TILE_DATA & 1 == 1 && number(image, IN_USE) >> TILE_DATA & 1 == 0 {
        features &= !(1 << TILE_DATA);
        size = (2..63).filter(|i| features >> i & 1 == 1).map(sys::component_end).fold(SMALLEST_IMAGE, usize::max);
    }
    let mut put = |at: usize, bytes: &[u8]| image[at..at + bytes.len()].copy_from_slice(bytes);
    put(SOFTWARE, &[0; 48]);
    put(SOFTWARE, &MAGIC1.to_le_bytes());
    put(SOFTWARE + 4, &(size as u32 + 4).to_le_bytes());
    put(SOFTWARE + 8, &features.to_le_bytes());
    put(SOFTWARE + 16, &(size as u32).to_le_bytes());
    put(size, &MAGIC2.to_le_bytes());
}

/// Returns the registers as after the interrupted system call, if there is one: either it has ended for the program, or it is about to restart.
fn after_the_call(registers: &General) -> General {
    let mut r = *registers;
    if (r.orig_rax as i64) < 0 {
        return r;
    }
    match r.rax as i64 {
        RESTART_SYS | RESTART_NO_INTR | RESTART_NO_HAND => {
            r.rax = r.orig_rax;
            r.rip = r.rip.wrapping_sub(SYSCALL_BYTES);
        }
        RESTART_BLOCK => r.rax = -i64::from(libc::EINTR) as u64,
        _ => {}
    }
    r
}

/// Returns the registers of a thread that continues at `park` with this frame.
pub(super) fn at_park(registers: &General, park: u64, frame: u64) -> General {
    let mut r = *registers;
    r.rip = park;
    r.rsp = frame;
    r.rdi = 0;
    r.rsi = frame.wrapping_add(SIGINFO as u64);
    r.rdx = frame.wrapping_add(UCONTEXT as u64);
    r.eflags &= !TRAP_AND_DIRECTION;
    // The thread is marked as in no system call, so that no call is restarted at the wrong address.
    r.orig_rax = u64::MAX;
    r
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn registers(rax: i64, orig_rax: i64) -> General {
        let mut r = sys::no_registers();
        (r.rax, r.orig_rax, r.rip, r.rsp) = (rax as u64, orig_rax as u64, 0x1002, 0x7fff_0123);
        r
    }

    #[rstest]
    #[case::no_call(-512, -1, -512, 0x1002)]
    #[case::finished(7, 35, 7, 0x1002)]
    #[case::failed(-4, 35, -4, 0x1002)]
    #[case::restart(-512, 0, 0, 0x1000)]
    #[case::restart_always(-513, 35, 35, 0x1000)]
    #[case::restart_without_handler(-514, 34, 34, 0x1000)]
    #[case::restart_by_the_kernels_memory(-516, 35, -4, 0x1002)]
    fn an_interrupted_call_is_what_a_program_may_see(
        #[case] rax: i64,
        #[case] orig: i64,
        #[case] seen: i64,
        #[case] rip: u64,
    ) {
        let r = after_the_call(&registers(rax, orig));
        assert_eq!((r.rax as i64, r.rip), (seen, rip));
    }

    #[rstest]
    fn a_frame_is_aligned_and_leaves_the_red_zone(#[values(0, 512, 832, 2440)] image: usize) {
        for sp in 0x7fff_0000u64..0x7fff_0080 {
            let places = Places::below(sp, image).unwrap();
            assert_eq!((places.frame % 16, places.image % 64), (8, 0));
            assert!(places.frame + FRAME <= places.image);
            assert!(places.frame + places.len(image) as u64 <= sp - RED_ZONE);
        }
    }

    #[test]
    fn the_image_is_signed_as_the_kernel_signs_it() {
        let mut image = vec![0xee; 832];
        image[SOFTWARE..SOFTWARE + 8].copy_from_slice(&7u64.to_le_bytes());
        let mut bytes = Vec::new();
        let registers = registers(1, -1);
        let places = Places::below(registers.rsp, image.len()).unwrap();
        let place = build(&registers, places, image.len(), &mut bytes);
        let at = place.start;
        bytes[place.clone()].copy_from_slice(&image);
        sign(&mut bytes, place);
        let number = |at: usize| u32::from_le_bytes(std::array::from_fn(|i| bytes[at + i]));
        assert_eq!([number(at + 464), number(at + 468), number(at + 472), number(at + 480)], [MAGIC1, 836, 7, 832]);
        assert_eq!(number(at + 832), MAGIC2);
        assert_eq!(bytes.len(), at + 836);
        assert_eq!(number(0), 1);
        assert_eq!(u64::from(number(IMAGE_POINTER)), places.image);
    }

    /// The stack pointer may be any value that the target has put into the register.
    #[rstest]
    fn a_stack_pointer_near_zero_has_no_room_for_a_frame(#[values(0, 512, 832, 2440)] image: usize) {
        for sp in 0..8192 {
            match Places::below(sp, image) {
                Some(places) => assert!(places.frame + (places.len(image) as u64) <= sp - RED_ZONE),
                None => assert!(sp < RED_ZONE + image as u64 + 4 + 63 + FRAME + 15 + 8),
            }
        }
        assert!(Places::below(u64::MAX, image).is_some());
    }
}
