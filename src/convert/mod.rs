//! From one format of traces to another.
//!
//! ```text
//!                        to mps                  to nettrace, nettrace6               to json
//!   from mps        anew, record by record   every record, described; the       every record; polls and traces
//!                                            phases as .NET's events, too       as slices
//!   from nettrace   the phases, and what     either container, with all that    every event; collections as slices,
//!                   .NET got from an mps     it says                            heap sizes as counters
//!   from eventlog                                                              every event; threads and collections
//!                                                                              as slices, heap sizes and samples as counters
//! ```
//!
//! What something *is* in another format the one table of events says ([`DESCRIPTORS`](crate::events::DESCRIPTORS)): an event of
//! .NET's and a record of the Memory Pool System are the same if a row has both. What a row says nothing of, and what an event
//! has that its counterpart has no place for, is on the list of what was left out ([`LeftOut`]), per kind with its count: nothing is dropped in
//! silence, and nothing is made up.
//!
//! **The input is known by its first bytes**, whatever it is called. Damage ends or interrupts the reading as the format's reader
//! says; what is readable is converted.
//!
//! **Memory does not grow with the trace.** What must be sorted (a telemetry stream, which comes category by category) is sorted in
//! files without a name.
//!
//! A further format is a module with a function that reads it into each target, a line in `detect`, and one in [`convert`].
//!
//! | file | part |
//! |---|---|
//! | `detect` | which format it is |
//! | `left_out` | the list |
//! | `containers` | .nettrace to .nettrace |
//! | `story` | what an event of .NET's is in the table |
//! | `nettrace_mps`, `nettrace_json` | from .nettrace |
//! | `stream` | a telemetry stream by time, and how fast its clock goes |
//! | `telemetry` | records of the stream as described events, and back |
//! | `eventlog_json` | from GHC's eventlog |
//! | `mps_mps`, `mps_nettrace`, `mps_json` | from a stream |
//! | `pages` | a timeline on an output |

mod containers;
mod detect;
mod eventlog_json;
mod left_out;
mod mps_json;
mod mps_mps;
mod mps_nettrace;
mod nettrace_json;
mod nettrace_mps;
mod pages;
mod story;
mod stream;
mod telemetry;

use std::fmt;
use std::io::{self, Read, Write};

pub use detect::Source;
pub use left_out::{LeftOut, LeftOutRow};

use crate::formats::and_more_places;
use nettrace::{Container, Summary};

/// What a trace becomes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// A telemetry stream of the Memory Pool System, of event version 2.0.0.
    Mps,
    /// A trace of .NET's format.
    Nettrace(Container),
    /// A timeline for Perfetto and Chrome.
    Json,
}

/// What can be said about a conversion beforehand.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    /// How fast the clock of a telemetry stream goes, which the stream does not say.
    pub ticks_per_second: Option<u64>,
}

/// What came of a conversion. If the input is damaged, everything that is readable has been converted.
#[derive(Clone, Debug)]
pub struct Conversion {
    /// What the input is.
    pub source: Source,
    /// Events or records of it that were carried over.
    pub carried: u64,
    /// What was not.
    pub left_out: LeftOut,
    /// What else there is to say, a line each.
    pub notes: Vec<String>,
    /// What is wrong with the input, with its offset.
    pub damage: Option<String>,
}

/// Why nothing was converted, or the output is not complete.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConvertError {
    /// There is no input.
    #[error("it is empty: there is nothing to convert")]
    Empty,
    /// The first bytes are those of no trace.
    #[error(
        "it begins with {0}, which is none of the formats that are read: a .nettrace begins with \"Nettrace\", a telemetry stream of \
         the Memory Pool System with a record of events 1.0.0 or 2.0.0, an eventlog of GHC's with \"hdrb\""
    )]
    Unknown(FirstBytes),
    /// A timeline, which is for looking at.
    #[error("it is JSON, and a timeline is only written: convert the trace that it was made of")]
    Timeline,
    /// A log of GHC's, of which only a timeline is made.
    #[error("it is an eventlog of GHC's, of which only a timeline can be made: name a FILE.json, or say --format json")]
    Eventlog,
    /// Not even its beginning can be read.
    #[error("{0}")]
    Unreadable(String),
    /// The input can't be read.
    #[error("it can't be read at byte {offset}: {error}")]
    Input {
        /// How far it could be read.
        offset: u64,
        /// Why not further.
        error: io::Error,
    },
    /// The output can't be written.
    #[error("the output can't be written: {0}")]
    Output(io::Error),
    /// There is no room to sort in.
    #[error("no room to sort in {directory}: {error}; TMPDIR names another directory")]
    Room {
        /// Where it was tried.
        directory: String,
        /// Why there is none.
        error: io::Error,
    },
}

/// The first bytes of something, as they are shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FirstBytes(Vec<u8>);

impl fmt::Display for FirstBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.iter().all(|byte| byte.is_ascii_graphic() || *byte == b' ') {
            return write!(f, "\"{}\"", String::from_utf8_lossy(&self.0));
        }
        f.write_str("the bytes")?;
        self.0.iter().try_for_each(|byte| write!(f, " {byte:02X}"))
    }
}

/// Converts a trace.
///
/// # Errors
/// The input is no trace, can't be read, or the output can't be written. That the input is damaged is no error: the
/// [`Conversion`] says so.
pub fn convert<R: Read, W: Write>(
    input: R,
    output: W,
    target: Target,
    options: &Options,
) -> Result<Conversion, ConvertError> {
    let (source, input) = detect::detect(input)?;
    let mut conversion =
        Conversion { source, carried: 0, left_out: LeftOut::default(), notes: Vec::new(), damage: None };
    let to = &mut conversion;
    match (source, target) {
        (Source::Mps, Target::Mps) => mps_mps::convert(input, output, to)?,
        (Source::Mps, Target::Nettrace(container)) => mps_nettrace::convert(input, output, container, options, to)?,
        (Source::Mps, Target::Json) => mps_json::convert(input, output, options, to)?,
        (Source::Nettrace, Target::Mps) => nettrace_mps::convert(input, output, to)?,
        (Source::Nettrace, Target::Nettrace(container)) => containers::convert(input, output, container, to)?,
        (Source::Nettrace, Target::Json) => nettrace_json::convert(input, output, to)?,
        (Source::Eventlog, Target::Json) => eventlog_json::convert(input, output, to)?,
        (Source::Eventlog, Target::Mps | Target::Nettrace(_)) => return Err(ConvertError::Eventlog),
    }
    Ok(conversion)
}

impl Conversion {
    /// What the reader of a .nettrace has to say. An error if there was no trace at all.
    fn take_summary(&mut self, summary: &Summary, has_trace: bool) -> Result<(), ConvertError> {
        if let Some(damage) = summary.damage {
            if !has_trace {
                return Err(ConvertError::Unreadable(damage.to_string()));
            }
            self.damage = Some(format!("{damage}{}", and_more_places(summary.damages)));
        }
        Ok(())
    }
}
