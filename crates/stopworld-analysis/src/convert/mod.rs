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
//! What something *is* in another format the one table of events says ([`DESCRIPTORS`](stopworld::events::DESCRIPTORS)): an event of
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
//! | `conversion` | what is converted into what, and the outcome |
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
mod conversion;
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

use std::io::{Read, Write};

pub use conversion::{Conversion, ConvertError, FirstBytes, Options, Source, Target};
pub use left_out::{LeftOut, LeftOutRow};

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
