//! What can be written after `stopworld`: the declarations from which clap derives the parser and the help.
//!
//! Values are read into types that can't be wrong (a [`Size`] is at least one byte, a number of threads at least one),
//! so that everything behind this file works with arguments that make sense one by one. What must fit *together* (a
//! depth for a workload that has one, files for the one that reads them) is checked in [`super::run`].

use std::ffi::OsString;
use std::num::{NonZeroU32, NonZeroUsize};
use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgAction, Args, Parser, Subcommand, ValueEnum};

use super::format::{Format, Wanted};
use super::profiling::Profiling;
use super::size::{Size, seconds};
use mps_telemetry::decode::Style;
use stopworld::formats::nettrace::write::Providers;

/// The most threads a workload is started with: well below what a Linux machine takes, well above what teaches.
const MOST_THREADS: usize = 4096;
/// The most markers: a marker is a thread that wants a core of its own.
const MOST_MARKERS: usize = 64;
/// A tree of this depth already fills 64 GiB.
const DEEPEST: u32 = 30;

/// Run programs that make garbage under a stop-the-world garbage collector, and see what every stop cost.
#[derive(Debug, Parser)]
#[command(name = "stopworld", version, arg_required_else_help = true, after_help = EXAMPLES)]
pub struct Command {
    #[command(subcommand)]
    pub(super) action: Action,
}

const EXAMPLES: &str = "\
Try:
  stopworld run binary-trees --threads 2     trees built and dropped; then the table
  stopworld run churn --seconds 5            threads are born and die while it collects
  stopworld run lisp FILE.scm --flexowriter  a Scheme program with McCarthy's reports
  stopworld repl                             a Scheme prompt whose cells are collected
  stopworld events GcStart                   what an event means, and what it becomes for other tools
  stopworld run graph --trace run.mps        its events, as a telemetry stream of the Memory Pool System
  stopworld run graph --trace run.nettrace   the same for PerfView, dotnet-trace and their kin
  stopworld run graph --trace run.eventlog   the same for ThreadScope, ghc-events and eventlog2html
  stopworld run gcbench --profile hc --trace run.hp   what lives, by cost centre, for hp2ps
  stopworld run gcbench --time-profile --trace run.prof   where the time goes
  stopworld eventcnv -f mpsio.log --txt      a telemetry stream of the Memory Pool System, readable
  stopworld dump app.nettrace                the events of a trace of .NET or of ours
  stopworld convert run.nettrace run.json    the same as a timeline for Perfetto and Chrome
  stopworld eventlog show app.eventlog       the events of GHC's runtime, or of ours
  stopworld run graph --seconds 60 --diagnostics   then: stopworld counters PID, stopworld trace PID -o run.nettrace
  stopworld debug -- PROGRAM ARGUMENTS       a debugger that stops the program's world itself

While it runs, Ctrl-C ends it and still prints the table; `kill -USR1` collects; `kill -USR2` brings a trace up to date.";

#[derive(Debug, Subcommand)]
pub(super) enum Action {
    /// Run a workload and print what its collections cost
    #[command(after_help = RUN_HELP)]
    Run(Box<Run>),
    /// List the workloads that `run` knows
    Workloads,
    /// List the events that a world tells of, or explain one
    Events(Events),
    /// A Scheme prompt (the same as `run lisp` without files)
    Repl(Box<Settings>),
    /// Run a program under the debugger, which takes the stopping of its world into its hands
    #[command(after_help = DEBUG_HELP)]
    Debug(Debug),
    /// Debug a process that runs already
    #[command(after_help = DEBUG_HELP)]
    Attach(Attach),
    /// Print a telemetry stream of the Memory Pool System as text
    #[command(after_help = EVENTCNV_HELP)]
    Eventcnv(Eventcnv),
    /// Convert a trace to another format, or for Perfetto
    #[command(after_help = CONVERT_HELP)]
    Convert(Convert),
    /// List the events of a .nettrace file
    #[command(after_help = DUMP_HELP)]
    Dump(Dump),
    /// Print the collections of a .NET trace (.nettrace)
    #[command(after_help = GCSTATS_HELP)]
    Gcstats(Gcstats),
    /// Read an eventlog of GHC's runtime, or of ours
    Eventlog(Eventlog),
    /// Print what the heap was made of over time (.eventlog or .hp)
    #[command(after_help = HEAPPROF_HELP)]
    Heapprof(Heapprof),
    /// Print where the time went, by cost centre (.eventlog)
    #[command(after_help = TIMEPROF_HELP)]
    Timeprof(Timeprof),
    /// Write a trace of a process that runs, through its diagnostics socket
    #[command(after_help = LIVE_HELP)]
    Trace(LiveTrace),
    /// Show the counters of a process that runs, through its diagnostics socket
    #[command(after_help = LIVE_HELP)]
    Counters(LiveCounters),
    /// Print the script by which gdb takes part in collections (every program carries it, too)
    GdbScript,
    /// Print the script by which lldb takes part in collections
    LldbScript,
}

const GCSTATS_HELP: &str = "\
The figures are those of PerfView's GCStats, but for some that PerfView has wrong; the documentation of the module gcstats \
lists them. Times are milliseconds, MB are millions of bytes.

Exit code: 0 (also for an intact trace without collections), 1 if the trace is damaged (what could be read of it is reported) or \
can't be read, 2 if the arguments are wrong.";

const RUN_HELP: &str = "\
Without --seconds and --collections the workload does its work once. Sizes are bytes, or a number with k, m, g or t \
(KiB, MiB, GiB, TiB); all are powers of 1024.

The table follows the program's own output. It gives the pauses in microseconds, split into stop (until every \
thread stands still), mark (stacks, registers, handles and all that they reach), weak (weak references and \
finalizers), sweep set-up and restart, with their total.

Exit code: 0 if the workload's results were right, 1 if it failed or its trace is not complete, 2 if the arguments are wrong, 130 or 143 if it was \
ended by Ctrl-C or SIGTERM.";

const LIVE_HELP: &str = "\
The process is one that `stopworld run --diagnostics` started, a program that opens the socket by itself, or one of .NET's. \
Ctrl-C stops the session in order.

Exit code: 0, 1 if the process can't be asked or the trace has no end, 2 if the arguments are wrong.";

#[derive(Debug, Args)]
pub(super) struct LiveTrace {
    /// The process
    #[arg(value_name = "PID", value_parser = clap::value_parser!(u32).range(1..), allow_negative_numbers = true)]
    pub(super) pid: u32,

    /// Where the trace is written
    #[arg(short = 'o', long, value_name = "FILE", default_value = "trace.nettrace")]
    pub(super) output: PathBuf,

    /// What it has, as dotnet-trace takes it: NAME[:KEYWORDS[:LEVEL[:ARGUMENTS]]],… [default: the collections, that is
    /// Microsoft-Windows-DotNETRuntime:0x1:4 and the same of its private provider]
    #[arg(long, value_name = "LIST")]
    pub(super) providers: Option<String>,

    /// Stop after this many seconds (fractions allowed) [default: when the process ends, or with Ctrl-C]
    #[arg(long, value_name = "S", value_parser = seconds, allow_negative_numbers = true)]
    pub(super) duration: Option<Duration>,
}

#[derive(Debug, Args)]
pub(super) struct LiveCounters {
    /// The process
    #[arg(value_name = "PID", value_parser = clap::value_parser!(u32).range(1..), allow_negative_numbers = true)]
    pub(super) pid: u32,

    /// How often they are read, in seconds (fractions allowed)
    #[arg(long, value_name = "S", default_value = "1", value_parser = seconds, allow_negative_numbers = true)]
    pub(super) interval: Duration,

    /// Stop after this many seconds (fractions allowed) [default: when the process ends, or with Ctrl-C]
    #[arg(long, value_name = "S", value_parser = seconds, allow_negative_numbers = true)]
    pub(super) duration: Option<Duration>,
}

const DEBUG_HELP: &str = "\
Commands come from the prompt, from --script, or from standard input if it is no terminal; `help` lists them. In a script \
the first command that fails ends the session, and # begins a remark. At the end a program that was started here is \
killed, and a process that was attached to goes its own way.

A program that is started shares the terminal and standard input with the debugger: give the commands by --script if it reads \
its own. Ctrl-C stops every thread of the program; during a command it also ends the command, and in a script the script. The program \
does not receive it unless you say `handle SIGINT nostop pass`. Signals pass to the program silently, but for faults (SIGSEGV, \
SIGABRT …), which stop it; `handle` changes that.

Exit code: 0, or 1 if a command failed or the process could not be debugged, 2 if the arguments are wrong.";

#[derive(Debug, Args)]
pub(super) struct Debug {
    #[command(flatten)]
    pub(super) settings: DebugSettings,

    /// The program, and its arguments
    #[arg(value_name = "PROGRAM", required = true, trailing_var_arg = true)]
    pub(super) program: Vec<OsString>,
}

#[derive(Debug, Args)]
pub(super) struct Attach {
    /// The process
    #[arg(value_name = "PID", value_parser = clap::value_parser!(i32).range(1..), allow_negative_numbers = true)]
    pub(super) pid: i32,

    #[command(flatten)]
    pub(super) settings: DebugSettings,
}

#[derive(Debug, Args)]
pub(super) struct DebugSettings {
    /// Do what this file says instead of asking (- for standard input)
    #[arg(long, value_name = "FILE")]
    pub(super) script: Option<PathBuf>,

    /// In a script, go on after a command that failed
    #[arg(long)]
    pub(super) keep_going: bool,

    /// Who stops the world
    #[arg(long, value_name = "HOW", default_value = "full")]
    pub(super) mode: DebugMode,

    /// Compare every thread, before a full stop lets it go on, with what it was when the world stood
    #[arg(long)]
    pub(super) compare: bool,
}

/// The values of `--mode`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum DebugMode {
    /// The debugger stops every thread itself
    Full,
    /// The collector's own signals do; the debugger answers for the threads that it holds
    Assisted,
}

#[derive(Debug, Args)]
pub(super) struct Events {
    /// The event to explain: its fields, and what it becomes for each family of tools
    #[arg(value_name = "EVENT", conflicts_with = "markdown")]
    pub(super) event: Option<String>,

    /// Write the documentation's page
    #[arg(long)]
    pub(super) markdown: bool,
}

#[derive(Debug, Args)]
pub(super) struct Run {
    /// Which workload to run: `stopworld workloads` lists them
    #[arg(value_name = "WORKLOAD")]
    pub(super) workload: String,

    /// Scheme programs, for the workload `lisp`
    #[arg(value_name = "FILE.scm")]
    pub(super) files: Vec<PathBuf>,

    /// How many threads do the work
    #[arg(long, value_name = "N", default_value = "1", value_parser = threads, allow_negative_numbers = true)]
    pub(super) threads: NonZeroUsize,

    /// Start no new work after this many seconds (fractions allowed)
    #[arg(long, value_name = "S", conflicts_with = "collections", value_parser = seconds, allow_negative_numbers = true)]
    pub(super) seconds: Option<Duration>,

    /// Start no new work after this many collections
    #[arg(long, value_name = "N", value_parser = collections, allow_negative_numbers = true)]
    pub(super) collections: Option<NonZeroU32>,

    /// How deep the trees are, for binary-trees and gcbench [default: 18]
    #[arg(long, value_name = "N", value_parser = depth, allow_negative_numbers = true)]
    pub(super) depth: Option<u32>,

    #[command(flatten)]
    pub(super) settings: Settings,
}

const EVENTCNV_HELP: &str = "\
The styles: -S in columns for people, -SL as lists for Lisp, -SC as decimal numbers between commas. They and --cnv print \
records in the stream's order, in which the newest of a category comes first; --txt sorts by clock, and if the \
stream has more than 8 MiB it sorts in files without a name in TMPDIR (or /tmp), which takes as much room there as the \
stream has. It knows the labels of 114,688 addresses and says so if there are more.

Memory stays below 32 MiB however long the stream is. What is wrong with it is told on standard error with the byte at \
which it is; everything before that is printed.

Exit code: 0 if the stream could be read to its end, 1 if not, 2 if the arguments are wrong, 141 if standard output was closed.";

#[derive(Debug, Args)]
pub(super) struct Gcstats {
    /// The trace; `-` is standard input
    #[arg(value_name = "FILE")]
    pub(super) file: PathBuf,

    /// A line per collection, as PerfView exports it
    #[arg(long, group = "gcstats_form")]
    pub(super) csv: bool,

    /// A line per collection with the figures of each generation, as PerfView exports it
    #[arg(long, group = "gcstats_form")]
    pub(super) pergen_csv: bool,

    /// All that is known of each collection, as PerfView exports it
    #[arg(long, group = "gcstats_form")]
    pub(super) xml: bool,

    /// A page for a browser that needs nothing but itself
    #[arg(long, group = "gcstats_form")]
    pub(super) html: bool,

    /// The process, if the trace has several
    #[arg(long, value_name = "PID")]
    pub(super) process: Option<u64>,

    /// PerfView's figures also where they are wrong
    #[arg(long)]
    pub(super) like_perfview: bool,
}

impl Gcstats {
    /// Whether the output is for programs, and can be of one process only.
    pub(super) fn is_export(&self) -> bool {
        self.csv || self.pergen_csv || self.xml || self.html
    }
}

#[derive(Debug, Args)]
pub(super) struct Eventcnv {
    /// The stream to read; `-` is standard input [default: mpsio.log; with --cnv and --txt the environment's
    /// MPS_TELEMETRY_FILENAME comes first]
    #[arg(short = 'f', value_name = "FILE")]
    pub(super) file: Option<PathBuf>,

    /// The manual's styles: -S (the default), -SL or -SC
    #[arg(short = 'S', value_name = "LC", num_args = 0..=1, value_parser = style, group = "form")]
    pub(super) style: Option<Option<Style>>,

    /// As mpseventcnv prints it: hexadecimal numbers, to be sorted and read by programs
    #[arg(long, group = "form")]
    pub(super) cnv: bool,

    /// As mpseventtxt prints it: by clock, each parameter with its name and label
    #[arg(long, group = "form")]
    pub(super) txt: bool,

    /// The event version of the stream [default: as its first records say]
    #[arg(long, value_name = "VERSION")]
    pub(super) mps_version: Option<MpsVersion>,

    /// The same as -h
    #[arg(short = '?', action = ArgAction::HelpShort, hide = true)]
    question: Option<bool>,
}

const CONVERT_HELP: &str = "\
The input is known by its content, whatever it is called: a telemetry stream of the Memory Pool System (1.0.0 or 2.0.0), a .nettrace \
of version 4 to 6, or (for a timeline) an eventlog of GHC's. What the other format has no place for is listed on standard error with counts; nothing is dropped in silence. The output \
replaces what was there when it is whole. Memory stays below 100 MiB however long the trace is; a stream that must be sorted takes room in TMPDIR.

Exit code: 0 if the input could be read to its end, 1 if it is damaged (what can be read is converted) or no trace (the output is not \
touched), 2 if the arguments are wrong, 141 if standard output was closed.";

#[derive(Debug, Args)]
pub(super) struct Convert {
    /// The trace to read; `-` is standard input
    #[arg(value_name = "IN")]
    pub(super) input: PathBuf,

    /// What to write: FILE.mps, FILE.nettrace, FILE.json for Perfetto and Chrome; `-` is standard output
    #[arg(value_name = "OUT")]
    pub(super) output: PathBuf,

    /// The format to write, whatever the name of the output is
    #[arg(long, value_name = "FORMAT", value_parser = Format::of_events())]
    pub(super) format: Option<Format>,

    /// How fast the clock of a telemetry stream goes, which the stream does not say [default: by the processor time of
    /// its process]
    #[arg(long, value_name = "HZ", value_parser = clap::value_parser!(u64).range(1..=1_000_000_000_000), allow_negative_numbers = true)]
    pub(super) ticks_per_second: Option<u64>,
}

const EVENTLOG_SHOW_HELP: &str = "\
The text is that of `ghc-events show` to the last byte, with --inc that of `ghc-events inc`. A pipe is put into a file without \
a name in TMPDIR (or /tmp) first, unless --inc is given; memory stays below 64 MiB however long the log is. What is wrong with \
the log is told on standard error with the byte at which it is; everything that can be read is printed.

Exit code: 0 if the log could be read to its end, 1 if not, 2 if the arguments are wrong, 141 if standard output was closed.";

#[derive(Debug, Args)]
pub(super) struct Eventlog {
    #[command(subcommand)]
    pub(super) action: EventlogAction,
}

#[derive(Debug, Subcommand)]
pub(super) enum EventlogAction {
    /// Print its types and events, by time
    #[command(after_help = EVENTLOG_SHOW_HELP)]
    Show(EventlogShow),
}

#[derive(Debug, Args)]
pub(super) struct EventlogShow {
    /// The log; `-` is standard input
    #[arg(value_name = "FILE")]
    pub(super) file: PathBuf,

    /// Events only, in the order of the file, as they come
    #[arg(long)]
    pub(super) inc: bool,
}

const HEAPPROF_HELP: &str = "\
The file is an eventlog of GHC or of ours with a heap profile, or a .hp file. Bands are listed by the area that they take over \
the whole run; each little picture is scaled to its band's own peak. Of more than 65,536 samples tables and pages have every so \
many; --csv has all, for which it reads the file twice (a pipe is put into a file without a name in TMPDIR, or /tmp, first).

Exit code: 0, 1 if the file is damaged (what could be read of it is reported) or has no heap profile or no samples, 2 if the arguments are \
wrong, 141 if standard output was closed.";

const TIMEPROF_HELP: &str = "\
Percentages are of the program's own ticks: what the runtime did beside it (IDLE, GC, SYSTEM) is told by itself.

Exit code: 0, 1 if the log is damaged (what could be read of it is reported) or has no time profile, 2 if the arguments are \
wrong, 141 if standard output was closed.";

#[derive(Debug, Args)]
pub(super) struct Heapprof {
    /// The file; `-` is standard input
    #[arg(value_name = "FILE")]
    pub(super) file: PathBuf,

    /// A line for each band of each sample: time in seconds, band, bytes
    #[arg(long, group = "heapprof_form")]
    pub(super) csv: bool,

    /// A page for a browser that needs nothing but itself
    #[arg(long, group = "heapprof_form")]
    pub(super) html: bool,

    /// How many bands are listed one by one
    #[arg(long, value_name = "N", default_value = "20", conflicts_with = "heapprof_form")]
    pub(super) top: usize,
}

#[derive(Debug, Args)]
pub(super) struct Timeprof {
    /// The log; `-` is standard input
    #[arg(value_name = "FILE")]
    pub(super) file: PathBuf,

    /// Stacks as lines, from which flame graphs are made
    #[arg(long, group = "timeprof_form")]
    pub(super) folded: bool,

    /// A flame graph for a browser
    #[arg(long, group = "timeprof_form")]
    pub(super) svg: bool,

    /// A file for speedscope: where each capability was, in the order of time
    #[arg(long, group = "timeprof_form")]
    pub(super) speedscope: bool,
}

const DUMP_HELP: &str = "\
A line has the time in milliseconds since the trace began, provider and name, the thread and the fields, in the order of \
time. Versions 4 to 6 of the format are read, and memory stays below 100 MiB however long the file is. What is wrong with \
the file is told on standard error with the byte at which it is; everything that can be read is listed.

Exit code: 0 if the file could be read to its end, 1 if not, 2 if the arguments are wrong, 141 if standard output was closed.";

#[derive(Debug, Args)]
pub(super) struct Dump {
    /// The file; `-` is standard input
    #[arg(value_name = "FILE")]
    pub(super) file: PathBuf,

    /// Only events of this provider
    #[arg(long, value_name = "NAME")]
    pub(super) provider: Option<String>,

    /// Only events of this name (GC/Start) or number
    #[arg(long, value_name = "NAME|ID")]
    pub(super) event: Option<String>,

    /// Only events from this time on, in milliseconds
    #[arg(long, value_name = "MS", value_parser = milliseconds, allow_negative_numbers = true)]
    pub(super) from: Option<f64>,

    /// Only events up to this time, in milliseconds
    #[arg(long, value_name = "MS", value_parser = milliseconds, allow_negative_numbers = true)]
    pub(super) to: Option<f64>,

    /// How many events of each name there are, instead of the events
    #[arg(long)]
    pub(super) counts: bool,

    /// An object of JSON in each line
    #[arg(long)]
    pub(super) json: bool,
}

/// The values of `--mps-version`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum MpsVersion {
    /// October 2012
    #[value(name = "1.0.0")]
    V1,
    /// Release 1.118 and later
    #[value(name = "2.0.0")]
    V2,
}

fn style(letter: &str) -> Result<Style, String> {
    match letter {
        "L" => Ok(Style::Lisp),
        "C" => Ok(Style::Commas),
        _ => Err(format!("Unknown style code '{letter}': it is -S, -SL or -SC")),
    }
}

/// The settings of the collected world itself, whatever runs in it.
#[derive(Debug, Args)]
pub(super) struct Settings {
    /// The most memory the heap may commit [default: half of the machine's]
    #[arg(long, value_name = "SIZE", allow_negative_numbers = true)]
    pub(super) heap_limit: Option<Size>,

    /// How much may be allocated before the first collection [default: about 16MiB; 1MiB with --flexowriter]
    #[arg(long, value_name = "SIZE", allow_negative_numbers = true)]
    pub(super) initial_heap: Option<Size>,

    /// How the threads are stopped
    #[arg(long, value_name = "HOW", default_value = "signals")]
    pub(super) stop: Stop,

    /// How many threads mark, the collecting one included [default: as many as there are processors, 4 at most]
    #[arg(long, value_name = "N", value_parser = markers, allow_negative_numbers = true)]
    pub(super) markers: Option<NonZeroUsize>,

    /// Poison freed cells and verify the whole heap after each collection (slow)
    #[arg(long)]
    pub(super) paranoid: bool,

    /// Print McCarthy's report of 1960 at each collection
    #[arg(long)]
    pub(super) flexowriter: bool,

    /// Write a trace in the format that the name's extension selects: .nettrace (.NET), .eventlog (GHC), .json (a timeline for
    /// Perfetto and Chrome), .mps or none (a telemetry stream of the Memory Pool System), .hp or .prof (only the profile, as text)
    /// [default: MPS_TELEMETRY_FILENAME, mpsio.log, if --events or MPS_TELEMETRY_CONTROL asks for a stream]
    #[arg(long, value_name = "FILE")]
    pub(super) trace: Option<PathBuf>,

    /// The trace's format, whatever its name is
    #[arg(long, value_name = "FORMAT")]
    pub(super) format: Option<Format>,

    /// What the trace has. Of a telemetry stream: a number, or categories out of Arena Pool Trace Seg Ref Object User, or all
    /// [default: MPS_TELEMETRY_CONTROL, else all but Ref and Object, which have a record for each reference and each object].
    /// Of a .nettrace: keywords and a level, as GC+GCHandle@Verbose [default: GC@Informational].
    /// Of an .eventlog: letters, as behind GHC's -l: s threads, g collections, u messages, a all [default: a].
    /// Of a timeline: groups out of World Collection Memory Object Block User Profile, or all, which makes heap dumps
    /// [default: what comes by the collection or the thread, not by the object or the block]
    #[arg(long, value_name = "EVENTS", value_parser = Wanted::parse, allow_hyphen_values = true)]
    pub(super) events: Option<Wanted>,

    /// What a .nettrace has, as dotnet-trace takes it: NAME[:KEYWORDS[:LEVEL]], with commas between; `stopworld` is the
    /// provider of what .NET has no events for
    #[arg(long, value_name = "LIST", value_parser = providers)]
    pub(super) providers: Option<Providers>,

    /// Keep the last so many bytes of events in memory, and write the stream only on SIGUSR2, on a panic, and when the
    /// world can't be stopped (then --events is all if not given)
    #[arg(long, value_name = "SIZE")]
    pub(super) flight_recorder: Option<Size>,

    /// Write what the flight recorder has at the end, too
    #[arg(long, requires = "flight_recorder")]
    pub(super) flight_at_end: bool,

    #[command(flatten)]
    pub(super) profiling: Profiling,

    /// Open the diagnostics socket, at which `stopworld trace`, `stopworld counters`, dotnet-trace and dotnet-counters can see the run
    #[arg(long)]
    pub(super) diagnostics: bool,

    /// Print the figures as one JSON object instead of the table (times in nanoseconds, sizes in bytes)
    #[arg(long)]
    pub(super) json: bool,
}

/// The values of `--stop`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Stop {
    /// A signal stops each thread wherever it is
    Signals,
    /// Each thread stops itself when it next asks whether it should
    Safepoints,
    /// A debugger inside the process takes over the stopping, as Mono's did
    MockDebugger,
}

fn between(text: &str, least: u64, most: u64, what: &str) -> Result<u64, String> {
    match text.parse::<u64>() {
        Ok(n) if (least..=most).contains(&n) => Ok(n),
        _ => Err(format!("{what} is a whole number from {least} to {most}")),
    }
}

fn milliseconds(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(number) if number.is_finite() => Ok(number),
        _ => Err("a time is a number of milliseconds since the trace began, as 12.5".to_owned()),
    }
}

fn providers(text: &str) -> Result<Providers, String> {
    Providers::parse(text).map_err(|error| error.to_string())
}

fn threads(text: &str) -> Result<NonZeroUsize, String> {
    let n = between(text, 1, MOST_THREADS as u64, "the number of threads")?;
    NonZeroUsize::new(n as usize).ok_or_else(|| "one thread at least".to_owned())
}

fn markers(text: &str) -> Result<NonZeroUsize, String> {
    let n = between(text, 1, MOST_MARKERS as u64, "the number of markers")?;
    NonZeroUsize::new(n as usize).ok_or_else(|| "one marker at least".to_owned())
}

fn collections(text: &str) -> Result<NonZeroU32, String> {
    let n = between(text, 1, u64::from(u32::MAX), "the number of collections")?;
    NonZeroU32::new(n as u32).ok_or_else(|| "one collection at least".to_owned())
}

fn depth(text: &str) -> Result<u32, String> {
    Ok(between(text, 1, u64::from(DEEPEST), "the depth of the trees")? as u32)
}
