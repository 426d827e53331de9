//! Probes: places in the program that a tracer finds by name, through a note in the file.
//!
//! gdb, perf, bpftrace and SystemTap share a convention by which a program declares where something happens and where its
//! arguments are at that moment: *user-space statically defined tracing*. The place contains a `nop`; a tool that traces it
//! puts a breakpoint over the `nop`. A note (owner `stapsdt`, type 3) gives its address:
//!
//! ```text
//! section .note.stapsdt, not loaded, one note per place:      section .probes, loaded, writable:
//!   address of the nop  ──────────────► 90  nop                 semaphore: number of tools
//!   address of .stapsdt.base, as the linker saw it                 ▲
//!   address of the semaphore ──────────────────────────────────────┘
//!   "stopworld\0" "gc_start\0" "4@%esi 4@%edx\0"                provider, name, where the arguments are
//! ```
//!
//! The tools raise the semaphore, a 16-bit number, while they trace. While it is 0, a thread need not pass the probe site at
//! all: [`Semaphore::lookers`] is one load, and the nop can follow a branch that is not taken.
//!
//! **Traps.** These details of the layout must be right; otherwise some tool sees no probe, or a wrong address:
//!
//! * A program can be moved after it was linked; the notes are not adjusted. The tools detect this by `.stapsdt.base`; without
//!   that section gdb sees no probe at all. No loaded section refers to it, so a linker that collects unused sections drops it
//!   unless it is marked as retained (the `R` in its flags).
//! * perf uses the offset of `.stapsdt.base` in the file as if it were the section's address, and so moves every probe by the
//!   difference of the two. A uprobe is placed by an offset in the file, so the result is right only if offset and address of the
//!   program's text have the same difference. With lld the difference of the text is not 0. Therefore `.stapsdt.base` is marked as
//!   executable, which places it in the segment of the text.
//! * With lld, a note does not keep alive the function that it refers to; if the function is discarded, the note has a probe at
//!   address 0. A second reference keeps the function, from `.probes.places`, which is loaded and retained.
//! * A tracer looks for the semaphore in the file. So the semaphore must be in a section with contents in the file, not in `.bss`.
//!
//! The notes are not debug information. They survive `strip`, and need no symbols (`.event.probes`).

use crate::sync::{AtomicU32, Ordering};

/// The number of tools that trace a probe. The kernel and gdb count in the low half. The high half is always 0; it exists so that
/// the number is one load of 32 bits, which can be combined with other words.
#[derive(Debug)]
#[repr(transparent)]
pub struct Semaphore(AtomicU32);

impl Semaphore {
    /// Creates a semaphore with the value 0, for a static in the section `.probes`.
    pub const fn new() -> Semaphore {
        Semaphore(AtomicU32::new(0))
    }

    /// Returns a number that is not 0 while a tool traces the probe. Relaxed: the number is only a hint, since tools change it from outside
    /// the process at any time.
    #[inline(always)]
    pub fn lookers(&self) -> u32 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Makes a probe `provider:name`: the nop, and its note. The arguments are variables of type `u32`, `u64` or `usize`.
///
/// If the function that contains the probe is inlined, the probe has several sites, which tools support.
///
/// # Safety
/// Expands to an unsafe operation. The provider's name becomes a part of an assembler string: it must have no quote, backslash or line
/// break. The semaphore is a [`Semaphore`] in the section `.probes`.
#[doc(hidden)]
#[macro_export]
macro_rules! __probe_site {
    ($provider:literal, $name:ident, $semaphore:path, $first:ident: $first_type:ident $(, $field:ident: $type:ident)*) => {
        std::arch::asm!(
            "990: nop",
            ".pushsection .note.stapsdt, \"\", \"note\"",
            ".balign 4",
            ".4byte 992f - 991f, 994f - 993f, 3",
            "991: .asciz \"stapsdt\"",
            "992: .balign 4",
            "993: .8byte 990b, _.stapsdt.base, {semaphore}",
            concat!(".asciz \"", $provider, "\""),
            concat!(".asciz \"", stringify!($name), "\""),
            concat!(
                ".asciz \"",
                $crate::__probe_operand!($first $first_type)
                $(, " ", $crate::__probe_operand!($field $type))*,
                "\""
            ),
            "994: .balign 4",
            ".popsection",
            ".pushsection .probes.places, \"aR\", \"progbits\"",
            ".4byte 990b - .",
            ".popsection",
            // Once per program, also if other libraries have probes.
            ".ifndef _.stapsdt.base",
            ".pushsection .stapsdt.base, \"axGR\", \"progbits\", .stapsdt.base, comdat",
            ".weak _.stapsdt.base",
            ".hidden _.stapsdt.base",
            "_.stapsdt.base: .space 1",
            ".size _.stapsdt.base, 1",
            ".popsection",
            ".endif",
            semaphore = sym $semaphore,
            $first = in(reg) $first,
            $($field = in(reg) $field,)*
            options(att_syntax, nostack, preserves_flags),
        )
    };
}
pub use crate::__probe_site as site;

/// How a note describes an argument: its size in bytes, unsigned, and its register.
#[doc(hidden)]
#[macro_export]
macro_rules! __probe_operand {
    ($field:ident u32) => {
        concat!("4@{", stringify!($field), ":e}")
    };
    ($field:ident u64) => {
        concat!("8@{", stringify!($field), ":r}")
    };
    ($field:ident usize) => {
        concat!("8@{", stringify!($field), ":r}")
    };
}
pub use crate::__probe_operand as operand;
