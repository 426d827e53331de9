//! What is known about a process, and the trait that takes rows.

use std::fs::File;
use std::io::{self, Seek, SeekFrom};

use super::schema::{Cell, Table};
use crate::convert::ConvertError;

/// What a trace says about a process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProcessFacts {
    /// The format of the trace.
    pub format: &'static str,
    /// The process id.
    pub process_id: Option<i64>,
    /// The name of the program, without its folders.
    pub program: Option<String>,
    /// The command line.
    pub command_line: Option<String>,
    /// The runtime that wrote the trace, or its version.
    pub runtime: Option<String>,
    /// When the trace began, in microseconds since 1970, UTC.
    pub start_us: Option<i64>,
}

/// Takes the rows of a trace.
pub trait RowSink {
    /// The rows that follow belong to this process.
    ///
    /// # Errors
    ///
    /// The rows cannot be stored. The trace is not read further.
    fn process(&mut self, facts: &ProcessFacts) -> io::Result<()>;

    /// A row, with a cell for each of [the table's own columns](Table::columns).
    ///
    /// # Errors
    ///
    /// The row cannot be stored. The trace is not read further.
    fn row(&mut self, table: Table, cells: &[Cell<'_>]) -> io::Result<()>;
}

/// The result of reading a trace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TraceRead {
    /// The number of events.
    pub events: u64,
    /// The damage of the trace, with its offset.
    pub damage: Option<String>,
    /// Further remarks, one line each.
    pub notes: Vec<String>,
}

impl ProcessFacts {
    /// Returns the time in UTC of a moment of the trace, in microseconds since 1970.
    pub(super) fn time_of(&self, at_ns: i64) -> Cell<'static> {
        match self.start_us {
            Some(start) => Cell::Time(start.saturating_add(at_ns.div_euclid(1000))),
            None => Cell::Null,
        }
    }

    /// Returns the row of the table of traces.
    pub(super) fn trace_row<'a>(&'a self, events: u64, lost: Option<u64>, damage: Option<&'a str>) -> [Cell<'a>; 8] {
        [
            Cell::Text(self.format),
            self.start_us.map_or(Cell::Null, Cell::Time),
            self.program.as_deref().into(),
            self.command_line.as_deref().into(),
            self.runtime.as_deref().into(),
            Cell::Int(clamped(events)),
            lost.map(clamped).into(),
            damage.into(),
        ]
    }
}

/// Returns the integer that a cell stores for this value: a column has 64 bits with a sign, and a larger value is stored as the maximum.
pub(super) fn clamped(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

/// Returns the name of the program of a command line's first word: the part after the last folder.
pub(super) fn program_of(word: &str) -> Option<String> {
    let name = word.trim_matches('"').rsplit(['/', '\\']).next()?.trim();
    (!name.is_empty()).then(|| name.to_owned())
}

/// Prepares a trace for another reading.
pub(super) fn rewind(mut file: &File) -> Result<(), ConvertError> {
    file.seek(SeekFrom::Start(0)).map(drop).map_err(|error| ConvertError::Input { offset: 0, error })
}
