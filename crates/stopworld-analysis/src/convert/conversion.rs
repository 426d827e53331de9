//! What is converted into what, and the outcome.

use std::fmt;
use std::io;

use super::left_out::LeftOut;
use nettrace::{Container, Summary};
use trace_io::and_more_places;

/// What is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// A telemetry stream of the Memory Pool System.
    Mps,
    /// A .nettrace file, of either container.
    Nettrace,
    /// A GHC eventlog.
    Eventlog,
}

/// What a trace becomes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// A telemetry stream of the Memory Pool System, of event version 2.0.0.
    Mps,
    /// A .nettrace file.
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
    /// A GHC eventlog can only be converted to a timeline.
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
pub struct FirstBytes(pub(super) Vec<u8>);

impl fmt::Display for FirstBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.iter().all(|byte| byte.is_ascii_graphic() || *byte == b' ') {
            return write!(f, "\"{}\"", String::from_utf8_lossy(&self.0));
        }
        f.write_str("the bytes")?;
        self.0.iter().try_for_each(|byte| write!(f, " {byte:02X}"))
    }
}

impl Conversion {
    /// What the reader of a .nettrace has to say. An error if there was no trace at all.
    pub(super) fn take_summary(&mut self, summary: &Summary, has_trace: bool) -> Result<(), ConvertError> {
        if let Some(damage) = summary.damage {
            if !has_trace {
                return Err(ConvertError::Unreadable(damage.to_string()));
            }
            self.damage = Some(format!("{damage}{}", and_more_places(summary.damages)));
        }
        Ok(())
    }
}
