//! Traces of garbage collections as a dataset of Parquet files.
//!
//! ```text
//!   files, folders ─► inputs ─► workers, one for each processor ─► tables ─► columns ─► part files
//!                     sorted    a file at a time                   (rows)    row groups
//! ```
//!
//! The rows are those of [`stopworld_analysis::tables`]. Each table is a folder with partitions, `TABLE/host=…/process=…/day=…/PART.parquet`, which DuckDB,
//! Spark and others read as one table with the columns `host`, `process` and `day`.
//!
//! **Memory is bounded.** A worker reads one trace, and keeps at most a row group of each table. **A part file is complete or absent**: it is written to a
//! folder beside the tables and renamed when its trace has been read. **Converting a trace again replaces its part files**: their names are made from the
//! trace's path. The same trace with the same options yields the same bytes. **A trace that fails does not stop the others.**
//!
//! | file | part |
//! |---|---|
//! | `inputs` | the traces in files and folders; what their paths say about them |
//! | `columns` | the columns of a table in memory, and how they are written |
//! | `part` | the part files of one trace |
//! | `dataset` | the folder with all part files |
//! | `error` | the reasons why a trace is not converted |
//! | `fleet` | converts many traces in parallel |

mod columns;
mod dataset;
mod error;
mod fleet;
mod inputs;
mod part;

pub use dataset::{Abandon, Dataset};
pub use error::FleetError;
pub use fleet::{FileOutcome, FleetOptions, Written, convert};
pub use inputs::{Inputs, NETTRACE, PathFacts, TRACES};
/// The tables, and the options for reading a telemetry stream.
pub use stopworld_analysis::{convert::ConvertOptions, tables::Table};

/// Runs the examples of the README as tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
