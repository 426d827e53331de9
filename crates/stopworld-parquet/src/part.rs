//! The part files of one trace: one for each table with rows, and for each process.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::path::PathBuf;

use parquet::errors::ParquetError;
use parquet::file::writer::SerializedFileWriter;
use stopworld_analysis::convert::ConvertError;
use stopworld_analysis::tables::{Cell, ProcessFacts, RowSink, Table};
use tempfile::{NamedTempFile, TempPath};

use super::columns::{self, Columns, Common};
use super::dataset::{Dataset, Partition};
use super::error::FleetError;
use super::inputs::{Input, PathFacts};

/// A part file that is being written.
struct Part {
    columns: Columns,
    writer: SerializedFileWriter<File>,
    /// The temporary file, and where it belongs.
    temporary: TempPath,
    path: PathBuf,
}

/// The part files of a trace, which appear in the dataset when [`finish`](Parts::finish) is called.
pub(crate) struct Parts<'a> {
    dataset: &'a Dataset,
    input: &'a Input,
    tables: &'a [Table],
    /// What the options say about the trace, and what its path says.
    facts: PathFacts,
    partition: Partition,
    common: Common,
    /// The number of the current process among those of the trace, from 1.
    process: usize,
    open: BTreeMap<Table, Part>,
    /// Complete temporary files, and where they belong.
    complete: Vec<(TempPath, PathBuf)>,
    pub(crate) rows: BTreeMap<Table, u64>,
}

impl<'a> Parts<'a> {
    pub(crate) fn new(dataset: &'a Dataset, input: &'a Input, tables: &'a [Table], facts: PathFacts) -> Parts<'a> {
        Parts {
            dataset,
            input,
            tables,
            facts,
            partition: Partition::default(),
            common: Common::default(),
            process: 0,
            open: BTreeMap::new(),
            complete: Vec::new(),
            rows: BTreeMap::new(),
        }
    }

    fn create(&self, table: Table) -> io::Result<Part> {
        let name = format!("{}-{}.parquet", self.input.part_name(), self.process);
        let path = self.dataset.folder(table, &self.partition).join(name);
        let (file, temporary) = NamedTempFile::new_in(self.dataset.staging())?.into_parts();
        let schema = columns::schema(table).map_err(failed)?;
        let writer = SerializedFileWriter::new(file, schema, columns::properties(table)).map_err(failed)?;
        Ok(Part { columns: Columns::new(table), writer, temporary, path })
    }

    /// Writes the rest of the part files of a process.
    fn end_process(&mut self) -> io::Result<()> {
        for (_, mut part) in std::mem::take(&mut self.open) {
            part.columns.write(&mut part.writer, &self.common).map_err(failed)?;
            part.writer.close().map_err(failed)?;
            self.complete.push((part.temporary, part.path));
        }
        Ok(())
    }

    /// Moves the part files into the dataset, and removes those of an earlier conversion of the trace that are not replaced. Returns the bytes
    /// written.
    ///
    /// # Errors
    ///
    /// The trace is damaged, and an earlier conversion had more rows; or a file cannot be written. The dataset then has the earlier rows, or, where a
    /// file of the same path was already replaced, none.
    pub(crate) fn finish(&mut self, damage: Option<&str>) -> Result<u64, FleetError> {
        let unwritable = |error| FleetError::from(ConvertError::Output(error));
        self.end_process().map_err(unwritable)?;
        let part = self.input.part_name();
        if let Some(damage) = damage {
            let (rows, earlier) = (self.rows.values().sum(), self.dataset.earlier_rows(self.tables, &part));
            if rows < earlier {
                return Err(FleetError::Worse { damage: damage.to_owned(), rows, earlier, part });
            }
        }
        let complete = std::mem::take(&mut self.complete);
        self.dataset.move_in(complete, self.tables, &part).map_err(unwritable)
    }
}

impl RowSink for Parts<'_> {
    fn process(&mut self, facts: &ProcessFacts) -> io::Result<()> {
        self.end_process()?;
        self.process += 1;
        let PathFacts { host, process, version, day } = self.facts.clone();
        let stem = || self.input.path.file_stem().map(|stem| stem.to_string_lossy().into_owned());
        self.partition = Partition {
            host,
            process: process.or_else(|| facts.program.clone()).or_else(stem),
            day: day.or_else(|| facts.start_us.map(day_of)),
        };
        self.common = Common {
            process_id: facts.process_id,
            program_version: version.or_else(|| facts.runtime.clone()),
            trace_file: self.input.path.to_string_lossy().into_owned(),
        };
        Ok(())
    }

    fn row(&mut self, table: Table, cells: &[Cell<'_>]) -> io::Result<()> {
        if !self.open.contains_key(&table) {
            let part = self.create(table)?;
            self.open.insert(table, part);
        }
        let Some(part) = self.open.get_mut(&table) else { return Ok(()) };
        *self.rows.entry(table).or_default() += 1;
        if part.columns.push(cells)? {
            part.columns.write(&mut part.writer, &self.common).map_err(failed)?;
        }
        Ok(())
    }
}

/// Returns the error of the file below, if there is one.
fn failed(error: ParquetError) -> io::Error {
    match error {
        ParquetError::External(error) => match error.downcast::<io::Error>() {
            Ok(error) => *error,
            Err(error) => io::Error::other(error),
        },
        error => io::Error::other(error),
    }
}

/// Returns the date, in UTC, of a time in microseconds since 1970.
fn day_of(us: i64) -> String {
    // Years begin in March, so that a leap day is the last day of a year; any 400 years have the same number of days.
    let from_march = us.div_euclid(86_400_000_000) + 719_468;
    let (era, day) = (from_march.div_euclid(146_097), from_march.rem_euclid(146_097));
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day_of_year = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    let (month, year) = if month < 10 { (month + 3, year) } else { (month - 9, year + 1) };
    format!("{:04}-{month:02}-{day:02}", era * 400 + year)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case(0, "1970-01-01")]
    #[case(-1, "1969-12-31")]
    #[case(951_782_400_000_000, "2000-02-29")]
    #[case(1_795_731_374_000_000, "2026-11-26")]
    #[case(4_107_542_399_999_999, "2100-02-28")]
    fn times_have_days(#[case] us: i64, #[case] expected: &str) {
        assert_eq!(day_of(us), expected);
    }
}
