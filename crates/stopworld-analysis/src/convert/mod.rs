//! Conversions between trace formats.
//!
//! ```text
//!                        to mps                  to nettrace, nettrace6               to json
//!   from mps        anew, record by record   every record, described; the       every record; polls and traces
//!                                            phases also as .NET events         as slices
//!   from nettrace   the phases, and records  either container, with its whole   every event; collections as slices,
//!                   that came from mps       contents                           heap sizes as counters
//!   from eventlog                                                              every event; threads and collections
//!                                                                              as slices, heap sizes and samples as counters
//! ```
//!
//! One table of events defines the counterparts of an event in the other formats ([`DESCRIPTORS`](stopworld::events::DESCRIPTORS)): a .NET
//! event and a record of the Memory Pool System are the same event if one row has both. An event without a counterpart, and data for
//! which the counterpart has no field, are counted per kind in a list ([`LeftOut`]): nothing is dropped silently, and no data are invented.
//! **The first bytes of the input identify its format**; the file's name has no influence. Damage ends or interrupts the input as the
//! format's reader defines; everything readable is converted.
//!
//! **Memory does not grow with the trace.** A telemetry stream, which is ordered by category, must be sorted; this is done in
//! unnamed temporary files.
//!
//! To add a format, write a module with a function for each target, and add a line to `detect` and one to [`convert`].
//!
//! | file | part |
//! |---|---|
//! | `conversion` | the parameters and the result of a conversion, and its errors |
//! | `detect` | the format of the input |
//! | `left_out` | the list of events and data that were left out |
//! | `containers` | .nettrace to .nettrace |
//! | `decoded` | which event of the table a .nettrace event is |
//! | `nettrace_mps`, `nettrace_json` | from .nettrace |
//! | `stream` | a telemetry stream by time, and the rate of its clock |
//! | `telemetry` | records of the stream as described events, and back |
//! | `eventlog_json` | from a GHC eventlog |
//! | `mps_mps`, `mps_nettrace`, `mps_json` | from a stream |
//! | `pages` | writes a timeline to an output |

mod containers;
mod conversion;
pub(crate) mod decoded;
pub(crate) mod detect;
mod eventlog_json;
mod left_out;
mod mps_json;
mod mps_mps;
mod mps_nettrace;
mod nettrace_json;
mod nettrace_mps;
mod pages;
pub(crate) mod stream;
pub(crate) mod telemetry;

use std::io::{Read, Write};

pub use conversion::{Conversion, ConvertError, ConvertOptions, FirstBytes, Source, Target};
pub use detect::target_of;
pub use left_out::{LeftOut, LeftOutRow};

/// Converts a trace.
///
/// # Errors
/// The input is not a trace or cannot be read, or the output cannot be written. Damage of the input is not an error; it is reported in the
/// [`Conversion`].
pub fn convert<R: Read, W: Write>(
    input: R,
    output: W,
    target: Target,
    options: &ConvertOptions,
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
