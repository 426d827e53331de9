//! The facts of a trace as rows of tables, the same for every format: for Parquet files, and for anything else that stores tables.
//!
//! ```text
//!   .nettrace ─► facts of each process, collections ─► events, stops, phases, threads, heap sizes ─┐
//!   eventlog ──► facts of the program ─► events by time, collections, bands ───────────────────────┼─► RowSink
//!   .mps ──────► events sorted by time, traces, polls, bytes held ─────────────────────────────────┘
//! ```
//!
//! A format that does not contain a fact leaves the column null: nothing is invented. Times are nanoseconds since the start of the trace; where the
//! trace contains the time of day, the time in UTC is beside it. An integer above 2^63 - 1 is stored as 2^63 - 1. Rows are passed on one by one, so memory does not grow with the trace. A file is read
//! twice or more, because the facts about a process precede its rows: it must be a regular file.
//!
//! | file | part |
//! |---|---|
//! | `schema` | the tables and their columns |
//! | `sink` | what is known about a process; the trait that takes rows |
//! | `nettrace`, `nettrace_events` | .nettrace: the collections as `gcstats` reports them; everything else |
//! | `eventlog` | GHC eventlogs |
//! | `mps` | telemetry streams |
//! | `thread_rows` | the threads of a process |

mod eventlog;
mod mps;
mod nettrace;
mod nettrace_events;
mod schema;
mod sink;
mod thread_rows;

use std::fs::File;
use std::io::BufReader;

use crate::convert::detect::detect;
use crate::convert::{ConvertError, ConvertOptions, Source};

pub use schema::{COMMON, Cell, Column, ColumnType, Table};
pub use sink::{ProcessFacts, RowSink, TraceRead};

/// Reads a trace and passes the rows of the wanted tables to `sink`.
///
/// # Errors
///
/// The file is not a trace, or cannot be read, or the sink fails ([`ConvertError::Output`]). Damage of the trace is not an error: it is in the
/// result, and in the table of traces.
pub fn read(
    file: &File,
    wanted: &[Table],
    options: &ConvertOptions,
    sink: &mut dyn RowSink,
) -> Result<TraceRead, ConvertError> {
    let (source, _) = detect(file)?;
    sink::rewind(file)?;
    match source {
        Source::Nettrace => nettrace::read(file, wanted, sink),
        Source::Eventlog => eventlog::read(file, wanted, sink),
        Source::Mps => mps::read(BufReader::with_capacity(64 << 10, file), wanted, options, sink),
    }
}
