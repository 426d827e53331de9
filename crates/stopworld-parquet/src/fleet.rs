//! Converts many traces in parallel.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError, mpsc};
use std::thread;

use stopworld_analysis::convert::{ConvertError, ConvertOptions};
use stopworld_analysis::tables::{self, Table};

use super::dataset::Dataset;
use super::inputs::{Input, Inputs, PathFacts};
use super::part::Parts;

/// The options of a conversion.
#[derive(Clone, Debug)]
pub struct FleetOptions {
    /// The tables to write.
    pub tables: Vec<Table>,
    /// What is said about all traces. It precedes what their paths and contents say.
    pub facts: PathFacts,
    /// The number of traces that are converted at the same time.
    pub jobs: NonZeroUsize,
    /// The options for reading a telemetry stream.
    pub reading: ConvertOptions,
}

impl Default for FleetOptions {
    /// All tables, and a job for each processor.
    fn default() -> FleetOptions {
        FleetOptions {
            tables: Table::ALL.to_vec(),
            facts: PathFacts::default(),
            jobs: thread::available_parallelism().unwrap_or(NonZeroUsize::MIN),
            reading: ConvertOptions::default(),
        }
    }
}

/// What happened to one trace.
#[derive(Debug)]
pub struct FileOutcome {
    /// Its path.
    pub path: PathBuf,
    /// What was written, or why nothing was.
    pub result: Result<Written, FleetError>,
}

/// What was written of a trace.
#[derive(Clone, Debug, Default)]
pub struct Written {
    /// The size of the trace.
    pub bytes_read: u64,
    /// The number of its events.
    pub events: u64,
    /// The number of rows of each table.
    pub rows: BTreeMap<Table, u64>,
    /// The size of its part files.
    pub bytes_written: u64,
    /// The damage of the trace, with its offset. Everything readable has been written.
    pub damage: Option<String>,
    /// Further remarks, one line each.
    pub notes: Vec<String>,
}

/// The reason why nothing was written of a trace.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FleetError {
    /// It cannot be found or opened.
    #[error("can't open the trace: {0}")]
    Open(String),
    /// It is not a regular file.
    #[error("the trace is not a regular file: it must be read more than once; copy it to a file first")]
    NotAFile,
    /// It cannot be converted.
    #[error(transparent)]
    Convert(#[from] ConvertError),
}

/// Converts traces, each in one of several threads. Calls `each` after each of them, in the order in which they are finished.
pub fn convert(inputs: &Inputs, dataset: &Dataset, options: &FleetOptions, mut each: impl FnMut(FileOutcome)) {
    for (path, error) in &inputs.missing {
        each(FileOutcome { path: path.clone(), result: Err(FleetError::Open(error.clone())) });
    }
    let next = Mutex::new(inputs.files.iter());
    let (sender, receiver) = mpsc::channel();
    thread::scope(|scope| {
        for _ in 0..options.jobs.get().min(inputs.files.len()) {
            let (sender, next) = (sender.clone(), &next);
            scope.spawn(move || {
                loop {
                    let input = next.lock().unwrap_or_else(PoisonError::into_inner).next();
                    let Some(input) = input else { break };
                    let outcome = FileOutcome { path: input.path.clone(), result: one(input, dataset, options) };
                    if sender.send(outcome).is_err() {
                        break;
                    }
                }
            });
        }
        drop(sender);
        receiver.iter().for_each(&mut each);
    });
}

/// Converts one trace.
fn one(input: &Input, dataset: &Dataset, options: &FleetOptions) -> Result<Written, FleetError> {
    let open = |error: io::Error| FleetError::Open(error.to_string());
    let file = File::open(&input.path).map_err(open)?;
    let metadata = file.metadata().map_err(open)?;
    if !metadata.is_file() {
        return Err(FleetError::NotAFile);
    }
    let facts = options.facts.clone().or(PathFacts::of(&input.path));
    let mut parts = Parts::new(dataset, input, &options.tables, facts);
    let read = tables::read(&file, &options.tables, &options.reading, &mut parts)?;
    let bytes_written = parts.finish().map_err(ConvertError::Output)?;
    Ok(Written {
        bytes_read: metadata.len(),
        events: read.events,
        rows: std::mem::take(&mut parts.rows),
        bytes_written,
        damage: read.damage,
        notes: read.notes,
    })
}
