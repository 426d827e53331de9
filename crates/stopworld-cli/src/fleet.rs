//! Many traces as a Parquet dataset: `stopworld convert IN... DIR.parquet` and `stopworld gcstats --parquet DIR`.
//!
//! Standard error receives the damage and the errors of each trace, then a list of those that failed, then a summary. Exit codes: 0 if all traces
//! could be read to their ends; 1 if one is damaged (everything readable is in the dataset) or failed.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::fs;
use std::io::{self, IsTerminal, Write};
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Instant;

use anyhow::anyhow;
use indicatif::{HumanBytes, HumanCount, ProgressBar, ProgressStyle};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use super::conversion_arguments::{Convert, FleetArguments, Gcstats};
use super::exit::{FAILED, Failure};
use stopworld_analysis::convert::ConvertError;
use stopworld_parquet::{
    Abandon, ConvertOptions, Dataset, FileOutcome, FleetError, FleetOptions, Inputs, NETTRACE, TRACES, Table, Written,
    convert,
};
use stopworld_platform::os::open_files::raise_open_files;
use stopworld_platform::os::remedy::remedy_of;

/// `stopworld convert` to a dataset.
pub(super) fn run(arguments: &Convert) -> Result<u8, Failure> {
    let mut options = options(&arguments.fleet);
    if !arguments.tables.is_empty() {
        options.tables.clone_from(&arguments.tables);
    }
    options.reading = ConvertOptions { ticks_per_second: arguments.ticks_per_second };
    write(("convert", &arguments.inputs, TRACES), &arguments.output, &options)
}

/// `stopworld gcstats --parquet`.
pub(super) fn collections(arguments: &Gcstats, output: &Path) -> Result<u8, Failure> {
    let tables = vec![Table::Traces, Table::Collections, Table::Phases];
    write(("gcstats", &arguments.files, NETTRACE), output, &FleetOptions { tables, ..options(&arguments.fleet) })
}

fn options(arguments: &FleetArguments) -> FleetOptions {
    let by_default = FleetOptions::default();
    let jobs = arguments.jobs.unwrap_or(by_default.jobs).min(most_jobs(raise_open_files()));
    FleetOptions { facts: arguments.facts(), jobs, ..by_default }
}

/// Returns the maximum number of jobs with this limit of open files.
fn most_jobs(open_files: u64) -> NonZeroUsize {
    /// The files of the process itself.
    const OWN: u64 = 20;
    /// A trace, a part file for each table, and temporary files.
    const EACH: u64 = 12;
    let most = usize::try_from(open_files.saturating_sub(OWN) / EACH).unwrap_or(usize::MAX);
    NonZeroUsize::new(most).unwrap_or(NonZeroUsize::MIN)
}

fn write(
    (command, paths, extensions): (&str, &[PathBuf], &[&str]),
    output: &Path,
    options: &FleetOptions,
) -> Result<u8, Failure> {
    if paths.iter().any(|path| path.as_os_str() == "-") {
        return Err(Failure::Usage(
            "standard input can't be converted to a Parquet dataset, because a trace is read more than once: copy it to a file".to_owned(),
        ));
    }
    if output.as_os_str() == "-" {
        return Err(Failure::Usage(
            "a Parquet dataset is a folder, which can't be written to standard output: name a folder".to_owned(),
        ));
    }
    let name = output.display();
    let unwritable = |error: io::Error| anyhow!("{}", unwritable(output, &error));
    if !Dataset::is_possible(output).map_err(unwritable)? {
        return Err(Failure::Usage(format!(
            "{name}: the folder has files, but is not a dataset: name the folder of the dataset last, or with {option}",
            option = if command == "convert" { "--output" } else { "--parquet" }
        )));
    }
    let inputs = Inputs::find(paths, output, extensions);
    if inputs.is_empty() {
        let extensions: Vec<String> = extensions.iter().map(|extension| format!(".{extension}")).collect();
        return Err(anyhow!("no traces: the folders contain no file that ends in {}", extensions.join(", ")).into());
    }
    let begin = Instant::now();
    let is_new = !output.exists();
    let dataset = Dataset::open(output).map_err(unwritable)?;
    abandon_with_the_process(dataset.on_signal());
    let bar = bar(inputs.len());
    let mut report = Report::new(command, output);
    convert(&inputs, &dataset, options, |outcome| {
        bar.suspend(|| report.add(outcome));
        bar.inc(1);
    });
    bar.finish_and_clear();
    drop(dataset);
    if is_new {
        // Only an empty folder can be removed: no trace was converted.
        let _ = fs::remove_dir(output);
    }
    report.print(begin.elapsed().as_secs_f64());
    Ok(report.code())
}

/// Returns a line about a dataset that cannot be written, with the remedy.
fn unwritable(output: &Path, error: &io::Error) -> String {
    let (name, remedy) = (output.display(), remedy_of(error));
    // The error of a temporary file names that file, which the user does not know.
    match error.raw_os_error() {
        Some(_) => format!("can't write the dataset {name}: {error}; {remedy}"),
        None => format!("can't write the dataset {name}: {}; {remedy}", error.kind()),
    }
}

/// Returns a bar of the traces that are finished. Without a terminal it is hidden.
fn bar(traces: usize) -> ProgressBar {
    if !io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let style = ProgressStyle::with_template("{bar:40} {pos} of {len} traces, {eta} left");
    ProgressBar::new(traces as u64).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
}

/// Starts a thread that removes the files being written when a signal ends the process.
fn abandon_with_the_process(dataset: Abandon) {
    // Without a handler the folder remains in the dataset, where no table is; nothing else changes.
    let Ok(mut signals) = Signals::new([SIGINT, SIGTERM, SIGHUP]) else { return };
    let wait = move || {
        if let Some(signal) = signals.forever().next() {
            dataset.abandon();
            std::process::exit(128 + signal);
        }
    };
    let _ = thread::Builder::new().name("signals".to_owned()).spawn(wait);
}

/// Writes a line to standard error. If that is closed, the traces are converted all the same.
fn say(line: impl Display) {
    let _ = writeln!(io::stderr(), "{line}");
}

/// What happened to all traces.
struct Report<'a> {
    command: &'a str,
    output: &'a Path,
    traces: u64,
    damaged: u64,
    failed: Vec<String>,
    rows: BTreeMap<Table, u64>,
    events: u64,
    bytes_read: u64,
    bytes_written: u64,
}

impl<'a> Report<'a> {
    fn new(command: &'a str, output: &'a Path) -> Report<'a> {
        Report {
            command,
            output,
            traces: 0,
            damaged: 0,
            failed: Vec::new(),
            rows: BTreeMap::new(),
            events: 0,
            bytes_read: 0,
            bytes_written: 0,
        }
    }

    fn add(&mut self, FileOutcome { path, result }: FileOutcome) {
        let (command, name) = (self.command, path.display());
        let written = match result {
            Ok(written) => written,
            Err(FleetError::Convert(ConvertError::Output(error))) => {
                return self.failed.push(format!("{name}: {}", unwritable(self.output, &error)));
            }
            Err(error) => return self.failed.push(format!("{name}: {error}")),
        };
        let Written { bytes_read, events, rows, bytes_written, damage, notes } = written;
        notes.iter().for_each(|note| say(format_args!("{command}: {name}: {note}")));
        if let Some(damage) = damage {
            say(format_args!("{command}: {name}: {damage}; everything that could be read is in the dataset"));
            self.damaged += 1;
        }
        self.traces += 1;
        self.events += events;
        self.bytes_read += bytes_read;
        self.bytes_written += bytes_written;
        rows.into_iter().for_each(|(table, rows)| *self.rows.entry(table).or_default() += rows);
    }

    fn print(&mut self, seconds: f64) {
        let command = self.command;
        self.failed.sort();
        if !self.failed.is_empty() {
            let all = self.traces + self.failed.len() as u64;
            say(format_args!("{command}: {} of {all} traces were not converted:", self.failed.len()));
            self.failed.iter().for_each(|failed| say(format_args!("  {failed}")));
        }
        let rows: u64 = self.rows.values().sum();
        let by_table: Vec<String> =
            self.rows.iter().map(|(table, rows)| format!("{} {}", table.name(), HumanCount(*rows))).collect();
        let by_table = if by_table.is_empty() { String::new() } else { format!(": {}", by_table.join(", ")) };
        say(format_args!(
            "{command}: {} events of {} traces ({}) are {} rows in {} ({}), after {seconds:.1} s{by_table}",
            HumanCount(self.events),
            HumanCount(self.traces),
            HumanBytes(self.bytes_read),
            HumanCount(rows),
            self.output.display(),
            HumanBytes(self.bytes_written)
        ));
    }

    fn code(&self) -> u8 {
        if self.failed.is_empty() && self.damaged == 0 { 0 } else { FAILED }
    }
}
