//! The arguments of `stopworld core`, and those that other commands have for cores.

use std::path::PathBuf;

use clap::Args;

/// The help of `stopworld core` after its options.
pub(super) const CORE_HELP: &str = "\
The core is that of a program that used the collector, written by the kernel or by gdb's `generate-core-file`. No code of the program is \
called. What the core leaves out (code and constants, among them the names of types) is read from the program and its libraries, if they \
are those that ran. The program may be stripped.

A heap is read wherever its program was stopped, in the allocator or in the middle of a collection. Every object with a header counts, \
also dead ones that no collection has found yet; during a collection's sweep only what it had marked. Roots that the binding of a language \
runtime adds are not known. The heap is read into memory: about 60 bytes for each object, and 10 for each reference.

What can't be read is listed on standard error, and the rest is printed. Without --world at most 16 worlds are shown, the newest first. A pipe is \
first copied to an unnamed file in TMPDIR (or /tmp).

Exit code: 0, 1 if something can't be read or is damaged, or there is no such object or no path to it, 2 if the arguments are wrong, 141 if \
standard output was closed.";

#[derive(Debug, Args)]
pub(super) struct Core {
    /// The core file; `-` is standard input
    #[arg(value_name = "CORE")]
    pub(super) core: PathBuf,

    #[command(flatten)]
    pub(super) source: CoreSource,

    /// Print the object that contains this address, with its references
    #[arg(long, value_name = "ADDR", value_parser = address, allow_negative_numbers = true, group = "question")]
    pub(super) object: Option<u64>,

    /// Print the objects that refer to the object that contains this address
    #[arg(long, value_name = "ADDR", value_parser = address, allow_negative_numbers = true, group = "question")]
    pub(super) referrers: Option<u64>,

    /// Print a shortest path from a root to the object that contains this address
    #[arg(long, value_name = "ADDR", value_parser = address, allow_negative_numbers = true, group = "question")]
    pub(super) why: Option<u64>,

    /// The number of types and of objects to list
    #[arg(long, value_name = "N", default_value = "20", value_parser = super::numbers::rows, allow_negative_numbers = true, conflicts_with = "question")]
    pub(super) top: usize,
}

/// How a core is read.
#[derive(Debug, Args)]
pub(super) struct CoreSource {
    /// The program of the core, if its file is not where it was when it ran
    #[arg(long, value_name = "FILE")]
    pub(super) program: Option<PathBuf>,

    /// The number of the world, if the process or the trace has several
    #[arg(long, value_name = "N", value_parser = world, allow_negative_numbers = true)]
    pub(super) world: Option<u64>,
}

fn world(text: &str) -> Result<u64, String> {
    super::numbers::between(text, 0, u64::MAX, "the number of a world")
}

/// Parses an address.
pub(super) fn address(text: &str) -> Result<u64, String> {
    let digits = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X"));
    let parsed = digits.map_or_else(|| text.parse(), |digits| u64::from_str_radix(digits, 16));
    parsed.map_err(|_| "an address is a number such as 0x7f3a10002040".to_owned())
}
