//! Heap profiles as text: the `.hp` files that GHC writes and hp2ps draws.
//!
//! ```text
//!   JOB "program and arguments"            BEGIN_SAMPLE 0.009124
//!   DATE "Sat Nov 21 00:56 2026"           main ⇥ 64
//!   SAMPLE_UNIT "seconds"                  build/main.long/main ⇥ 4530848
//!   VALUE_UNIT "bytes"                     END_SAMPLE 0.009124
//!   MARK 0.5                               …
//! ```
//!
//! A line is a keyword and its value. Between `BEGIN_SAMPLE` and `END_SAMPLE` a line is a label and a number of bytes, separated by a
//! tab. [`read`] passes on the lines of a file; [`Line`] formats itself as a line of a file, and [`Label`] as a label that hp2ps accepts.
//!
//! ```
//! use ghc_eventlog::hp::{Line, read};
//!
//! let lines = [Line::Job("gcbench"), Line::Begin(1_500_000_000), Line::Band("Tree", 64), Line::End(1_500_000_000)];
//! let file: String = lines.iter().map(|line| format!("{line}\n")).collect();
//! assert_eq!(file, "JOB \"gcbench\"\nBEGIN_SAMPLE 1.500000\nTree\t64\nEND_SAMPLE 1.500000\n");
//! let mut found = 0;
//! read(file.as_bytes(), |line| {
//!     assert_eq!(line, lines[found]);
//!     found += 1;
//! });
//! assert_eq!(found, 4);
//! ```

mod read;
mod write;

pub use read::{Damage, DamageKind, LONGEST_LINE, Summary, read};
pub use write::{Label, head};

/// One line of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Line<'a> {
    /// The program and its arguments.
    Job(&'a str),
    /// When the program ran.
    Date(&'a str),
    /// The unit of times.
    SampleUnit(&'a str),
    /// The unit of values.
    ValueUnit(&'a str),
    /// A time that the program marked, in nanoseconds if times are seconds.
    Mark(u64),
    /// A sample with this time begins.
    Begin(u64),
    /// The sample with this time ends.
    End(u64),
    /// A label and its bytes.
    Band(&'a str, u64),
}
