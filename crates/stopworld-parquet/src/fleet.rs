//! Converts many traces in parallel.

use std::collections::BTreeMap;
use std::fs::{self, File, Metadata};
use std::io;
use std::num::NonZeroUsize;
use std::os::unix::fs::MetadataExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError, mpsc};
use std::thread;

use stopworld_analysis::convert::{ConvertError, ConvertOptions};
use stopworld_analysis::tables::{self, Table};

use super::dataset::Dataset;
use super::error::FleetError;
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

/// Converts traces, each in one of several threads. Calls `each` after each of them, in the order in which they are finished.
pub fn convert(inputs: &Inputs, dataset: &Dataset, options: &FleetOptions, mut each: impl FnMut(FileOutcome)) {
    for (path, error) in &inputs.missing {
        each(FileOutcome { path: path.clone(), result: Err(FleetError::Open(error.clone())) });
    }
    let next = Mutex::new(inputs.files.iter());
    let next_outcome = || {
        let input = next.lock().unwrap_or_else(PoisonError::into_inner).next()?;
        Some(FileOutcome { path: input.path.clone(), result: guarded(|| one(input, dataset, options)) })
    };
    let (sender, receiver) = mpsc::channel();
    thread::scope(|scope| {
        for _ in 0..options.jobs.get().min(inputs.files.len()) {
            let (sender, next_outcome) = (sender.clone(), &next_outcome);
            let work = move || {
                // The receiver is gone if `each` has panicked.
                while let Some(outcome) = next_outcome()
                    && sender.send(outcome).is_ok()
                {}
            };
            // With fewer threads than requested it only takes longer.
            if thread::Builder::new().name("convert".to_owned()).spawn_scoped(scope, work).is_err() {
                break;
            }
        }
        drop(sender);
        receiver.iter().for_each(&mut each);
    });
    // Without any thread, this one converts the traces.
    std::iter::from_fn(next_outcome).for_each(each);
}

/// Returns the result of a conversion; an error if it panics.
fn guarded(convert: impl FnOnce() -> Result<Written, FleetError>) -> Result<Written, FleetError> {
    // After a panic nothing but the dataset is used. What the conversion shares with others in it is consistent whenever its locks are released.
    catch_unwind(AssertUnwindSafe(convert)).unwrap_or_else(|panic| {
        let message = panic.downcast_ref::<String>().map(String::as_str);
        let message = message.or_else(|| panic.downcast_ref::<&str>().copied());
        Err(FleetError::Panicked(message.unwrap_or("a panic").to_owned()))
    })
}

/// Converts one trace.
fn one(input: &Input, dataset: &Dataset, options: &FleetOptions) -> Result<Written, FleetError> {
    let open = |error: io::Error| FleetError::Open(error.to_string());
    // Opening a pipe would wait for a writer.
    if !fs::metadata(&input.path).map_err(open)?.is_file() {
        return Err(FleetError::NotAFile);
    }
    let file = File::open(&input.path).map_err(open)?;
    let metadata = file.metadata().map_err(open)?;
    let facts = options.facts.clone().or(PathFacts::of(input.absolute()));
    let mut parts = Parts::new(dataset, input, &options.tables, facts);
    let read = tables::read(&file, &options.tables, &options.reading, &mut parts)?;
    let state = |metadata: &Metadata| (metadata.len(), metadata.mtime(), metadata.mtime_nsec());
    if state(&file.metadata().map_err(open)?) != state(&metadata) {
        return Err(ConvertError::Changed.into());
    }
    let bytes_written = parts.finish(read.damage.as_deref())?;
    Ok(Written {
        bytes_read: metadata.len(),
        events: read.events,
        rows: std::mem::take(&mut parts.rows),
        bytes_written,
        damage: read.damage,
        notes: read.notes,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_the_error_of_one_trace() {
        let error = guarded(|| panic!("broken {}", 7)).unwrap_err();
        assert!(matches!(&error, FleetError::Panicked(message) if message == "broken 7"), "{error}");
    }
}
