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
//! **Traps.** All of them are in the layout of the parts, and each makes some tool see nothing, or the wrong address:
//!
//! * A program can be moved after it was linked; the notes are not adjusted. The tools detect this by `.stapsdt.base`; without
//!   that section gdb sees no probe at all. No loaded section refers to it, so a linker that collects unused sections drops it
//!   unless it is marked as retained (the `R` in its flags).
//! * perf takes the section's offset in the file for its address, and so moves every probe by the difference. A uprobe is
//!   placed by an offset in the file, so the result is right exactly if the difference is that of the program's text, and lld
//!   does not place the text at its own offset. Therefore `.stapsdt.base` is marked as executable: it is then in the text's
//!   segment.
//! * With lld, a note does not keep the function alive that it refers to; what remains is a probe at address 0. A second
//!   reference keeps the function: from `.probes.places`, which is loaded and retained.
//! * A tracer looks for the semaphore in the file. It must be in a section that has contents there, which `.bss` has not.
//!
//! The notes are not debug information. They survive `strip`, and need no symbols (`.event.probes`).

use crate::sync::{AtomicU32, Ordering};

/// The number of tools that trace a probe. The kernel and gdb count in the low half. Nothing changes the high half; it exists
/// so that a single load of 32 bits can be combined with others.
#[derive(Debug)]
#[repr(transparent)]
pub struct Semaphore(AtomicU32);

impl Semaphore {
    /// Creates a semaphore with the value 0, for a static in the section `.probes`.
    pub const fn new() -> Semaphore {
        Semaphore(AtomicU32::new(0))
    }

    /// Not 0 while a tool traces the probe. Relaxed: only a hint, like everything that is enabled from outside the process.
    #[inline(always)]
    pub fn lookers(&self) -> u32 {
        self.0.load(Ordering::Relaxed)
    }
}

/// A probe `provider:name`: the nop, and its note. The arguments are variables of type `u32`, `u64` or `usize`.
///
/// A function that contains one must not be inlined if the probe is to have a single site; several sites work too.
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
