//! The arguments of `stopworld convert` and `stopworld gcstats`.

use std::num::NonZeroUsize;
use std::path::PathBuf;

use clap::Args;

use super::exit::Failure;
use super::format::{self, ConvertFormat};
use stopworld_parquet::{PathFacts, Table};

pub(super) const GCSTATS_HELP: &str = "\
The figures match PerfView's GCStats, except for some that PerfView computes wrongly; the documentation of the module gcstats \
lists them. Times are in milliseconds; a MB is a million bytes.

Of several traces, each report follows a line with the name of its file, and a file that fails does not stop the others.

Exit code: 0 (also for an intact trace without collections), 1 if the trace is damaged (its readable part is reported) or \
can't be read, 2 if the arguments are wrong.";

pub(super) const CONVERT_HELP: &str = "\
The format of the input is detected from its content, not its name: a Memory Pool System telemetry stream (1.0.0 or 2.0.0), a .nettrace \
of version 4 to 6, or (for a timeline or a dataset) a GHC eventlog. Standard error lists, with counts, everything that the output format can't represent; \
nothing is dropped silently. The output replaces an existing file only when it is complete; another trace with the input's extension only if --output names it. Memory use stays below 100 MiB for a trace \
of any length; a stream that must be sorted needs space in TMPDIR.

A Parquet dataset is a folder: OUT ends in .parquet or /, or --format parquet is given. IN may then be many files and folders, in which all \
.nettrace, .eventlog and .mps files are taken. They are converted in parallel, in less than 200 MiB for each job. Each table is a folder \
with partitions, TABLE/host=.../process=.../day=.../. Folders above a trace that are named host=, process=, version= or day= say so about it. \
Converting a trace again replaces its rows.

Exit code: 0 if the input could be read to its end, 1 if it is damaged (the readable part is converted) or not a trace (the output is not \
touched; of a dataset, the other traces are converted), 2 if the arguments are wrong, 141 if standard output was closed.";

#[derive(Debug, Args)]
pub(super) struct Convert {
    /// The trace to read; `-` is standard input. For Parquet: any number of files and folders. The last path is OUT, unless --output names it
    #[arg(value_name = "IN", required = true)]
    pub(super) inputs: Vec<PathBuf>,

    /// The file to write: FILE.mps, FILE.nettrace, or FILE.json for Perfetto and Chrome, FILE.sqlite (a telemetry stream only, with the
    /// tables of mpseventsql); `-` is standard output. For Parquet: the folder of the dataset, DIR.parquet or DIR/ [default: the last path]
    #[arg(short = 'o', long = "output", value_name = "OUT")]
    pub(super) named_output: Option<PathBuf>,

    /// The output: that of the option, or the last path.
    #[arg(skip)]
    pub(super) output: PathBuf,

    /// The format to write [default: selected by the extension of OUT]
    #[arg(long, value_name = "FORMAT", value_parser = format::conversion_parser())]
    pub(super) format: Option<ConvertFormat>,

    /// The clock frequency of a telemetry stream [default: as the stream records it, else estimated from the processor time
    /// of its process]
    #[arg(long, value_name = "HZ", value_parser = clap::value_parser!(u64).range(1..=1_000_000_000_000), allow_negative_numbers = true)]
    pub(super) ticks_per_second: Option<u64>,

    /// The tables of the dataset, separated by commas [default: all]
    #[arg(long, value_name = "TABLES", value_delimiter = ',', value_parser = format::table_parser())]
    pub(super) tables: Vec<Table>,

    #[command(flatten)]
    pub(super) fleet: FleetArguments,
}

impl Convert {
    /// Determines the output, and removes it from the inputs.
    pub(super) fn resolved(mut self) -> Result<Convert, Failure> {
        self.output = match &self.named_output {
            Some(output) => output.clone(),
            None => self.inputs.pop().unwrap_or_default(),
        };
        match self.inputs.is_empty() {
            true => Err(Failure::Usage(format!(
                "{}: is it the input, or the output? `stopworld convert IN OUT` needs both, as does `stopworld convert IN --output OUT`",
                self.output.display()
            ))),
            false => Ok(self),
        }
    }
}

/// The options for a dataset.
#[derive(Clone, Debug, Args, PartialEq, Eq)]
pub(super) struct FleetArguments {
    /// The machine of all traces, for a Parquet dataset [default: the folder host=HOST above a trace, else null]
    #[arg(long, value_name = "HOST")]
    pub(super) host: Option<String>,

    /// The program of all traces, for a Parquet dataset [default: the folder process=NAME above a trace, else the program that the trace names,
    /// else the name of its file]
    #[arg(long, value_name = "NAME")]
    pub(super) process_name: Option<String>,

    /// The version of the program, for a Parquet dataset [default: the folder version=VERSION above a trace, else the version of the runtime]
    #[arg(long, value_name = "VERSION")]
    pub(super) program_version: Option<String>,

    /// The number of traces to convert to a Parquet dataset at the same time [default: the number of processors]
    #[arg(long, value_name = "N", value_parser = super::numbers::jobs, allow_negative_numbers = true)]
    pub(super) jobs: Option<NonZeroUsize>,
}

impl FleetArguments {
    /// Returns what the options say about all traces.
    pub(super) fn facts(&self) -> PathFacts {
        PathFacts {
            host: self.host.clone(),
            process: self.process_name.clone(),
            version: self.program_version.clone(),
            day: None,
        }
    }

    /// Returns whether none is given.
    pub(super) fn is_empty(&self) -> bool {
        self.host.is_none() && self.process_name.is_none() && self.program_version.is_none() && self.jobs.is_none()
    }
}

#[derive(Debug, Args)]
pub(super) struct Gcstats {
    /// The traces, and folders in which all .nettrace files are taken; `-` is standard input
    #[arg(value_name = "FILE", required = true)]
    pub(super) files: Vec<PathBuf>,

    /// Print a CSV line per collection, in PerfView's export format
    #[arg(long, group = "gcstats_form")]
    pub(super) csv: bool,

    /// Print a CSV line per collection with the figures of each generation, in PerfView's export format
    #[arg(long, group = "gcstats_form")]
    pub(super) pergen_csv: bool,

    /// Print all that is known of each collection as XML, in PerfView's export format
    #[arg(long, group = "gcstats_form")]
    pub(super) xml: bool,

    /// Print a self-contained HTML page
    #[arg(long, group = "gcstats_form")]
    pub(super) html: bool,

    /// The id of the process to report, if the trace has several
    #[arg(long, value_name = "PID", value_parser = process, allow_negative_numbers = true)]
    pub(super) process: Option<u64>,

    /// Reproduce PerfView's known errors too
    #[arg(long)]
    pub(super) like_perfview: bool,

    /// Write the collections of all traces to this folder instead of a report: the tables traces, collections and phases, as `stopworld convert`
    /// writes them
    #[arg(long, value_name = "DIR", group = "gcstats_form", conflicts_with_all = ["process", "like_perfview"])]
    pub(super) parquet: Option<PathBuf>,

    #[command(flatten)]
    pub(super) fleet: FleetArguments,
}

fn process(text: &str) -> Result<u64, String> {
    super::numbers::between(text, 0, u64::MAX, "a process id")
}

impl Gcstats {
    /// Returns whether the output is an export, which covers one process only.
    pub(super) fn is_export(&self) -> bool {
        self.csv || self.pergen_csv || self.xml || self.html
    }
}
