//! The parameters and the result of a conversion, and its errors.

use std::fmt;
use std::io;

use super::left_out::LeftOut;
use nettrace::{Container, Summary};
use trace_io::and_more_places;

/// The format of the input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// A telemetry stream of the Memory Pool System.
    Mps,
    /// A .nettrace file, of either container.
    Nettrace,
    /// A GHC eventlog.
    Eventlog,
}

/// The format to write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// A telemetry stream of the Memory Pool System, of event version 2.0.0.
    Mps,
    /// A .nettrace file.
    Nettrace(Container),
    /// A timeline for Perfetto or Chrome.
    Json,
}

/// The options of a conversion.
#[derive(Clone, Copy, Debug, Default)]
pub struct ConvertOptions {
    /// The clock rate of a telemetry stream, which the stream does not contain.
    pub ticks_per_second: Option<u64>,
}

/// The result of a conversion. If the input is damaged, everything readable in it has been converted.
#[derive(Clone, Debug)]
pub struct Conversion {
    /// The format of the input.
    pub source: Source,
    /// The number of events or records that were carried over.
    pub carried: u64,
    /// Everything that was not carried over.
    pub left_out: LeftOut,
    /// Further remarks, one line each.
    pub notes: Vec<String>,
    /// The damage of the input, with its offset.
    pub damage: Option<String>,
}

/// The reason why nothing was converted, or why the output is incomplete.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConvertError {
    /// The input is empty.
    #[error("the file is empty: there is nothing to convert")]
    Empty,
    /// The first bytes are not those of a known format.
    #[error(
        "unknown format: the file begins with {0}, but a .nettrace file begins with \"Nettrace\", a telemetry stream of the \
         Memory Pool System with a record of event version 1.0.0 or 2.0.0, and a GHC eventlog with \"hdrb\""
    )]
    Unknown(FirstBytes),
    /// The input is a heap snapshot, or a heap dump of a Java machine.
    #[error(
        "this is a heap snapshot, not a trace: `stopworld heap FILE` prints it, `stopworld snapshot FILE -o OUT` converts it"
    )]
    Heap,
    /// The input is a JSON timeline, which can only be written.
    #[error("JSON timelines cannot be read back: convert the original trace instead")]
    Timeline,
    /// A GHC eventlog can only be converted to a timeline.
    #[error("a GHC eventlog can only be converted to a timeline: name the output FILE.json, or add --format json")]
    Eventlog,
    /// Not even the beginning of the trace can be read.
    #[error("{0}")]
    Unreadable(String),
    /// The input changed between two readings.
    #[error("the file changed while it was read: convert it again when it is complete")]
    Changed,
    /// Reading the input failed.
    #[error("cannot read the file at byte {offset}: {error}")]
    Input {
        /// The number of bytes read before the error.
        offset: u64,
        /// The error of the read.
        error: io::Error,
    },
    /// Writing the output failed.
    #[error("cannot write the output: {0}")]
    Output(io::Error),
    /// The temporary files could not be written.
    #[error("no room for temporary files in {directory}: {error}; set TMPDIR to use another directory")]
    Room {
        /// The directory of the files.
        directory: String,
        /// The error of the system.
        error: io::Error,
    },
}

/// The first bytes of a file, formatted for an error message.
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
    /// Takes over the damage that the .nettrace reader reported. Returns an error if the file contains no trace at all.
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
