//! The arguments of the `stopworld` command: the declarations from which clap derives the parser and the help.
//!
//! Each value is parsed into a type that excludes invalid values (a [`Size`] is at least one byte, a number of threads
//! at least one), so the other modules receive arguments that are valid one by one. [`super::run`] checks *combinations*
//! (a depth only for a workload that has one, files only for the workload that reads them).

use std::ffi::OsString;
use std::net::{Ipv4Addr, SocketAddr};
use std::num::{NonZeroU32, NonZeroUsize};
use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgAction, Args, Parser, Subcommand, ValueEnum};

use super::alloc_stacks::AllocStacksOptions;
use super::conversion_arguments::{CONVERT_HELP, Convert, GCSTATS_HELP, Gcstats};
use super::format::{self, EventsArgument};
use super::numbers::{between, rows};
use super::post_mortem_arguments::{CORE_HELP, Core, CoreSource, address};
use super::profiling::Profiling;
use super::sample_time::SampleTime;
use super::size::{Size, seconds};
use mps_telemetry::decode::Style;
use stopworld_analysis::snapshot::SnapshotFormat;
use stopworld_metrics::otlp;
use stopworld_trace::TraceFormat;
use stopworld_trace::nettrace::Providers;

/// The largest number of workload threads: well below the limit of a Linux machine, well above what is instructive.
const MOST_THREADS: usize = 4096;
/// The largest number of markers: each marker is a thread that needs its own core.
const MOST_MARKERS: usize = 64;
/// The largest tree depth: a tree of this depth already fills 64 GiB.
const DEEPEST: u32 = 30;

/// Run programs that produce garbage under a stop-the-world garbage collector, and measure what each stop costs.
#[derive(Debug, Parser)]
#[command(name = "stopworld", version, arg_required_else_help = true, after_help = EXAMPLES)]
pub struct Command {
    #[command(subcommand)]
    pub(super) action: Action,
}

const EXAMPLES: &str = "\
Try:
  stopworld run binary-trees --threads 2     build and drop trees, then print the table
  stopworld run churn --seconds 5            start and end threads during collections
  stopworld run lisp FILE.scm --flexowriter  run a Scheme program, with McCarthy's reports
  stopworld repl                             open a Scheme prompt on the collected heap
  stopworld events GcStart                   explain an event and its counterparts in other tools
  stopworld run graph --trace run.mps        record events as a Memory Pool System telemetry stream
  stopworld run graph --trace run.nettrace   the same for PerfView and dotnet-trace
  stopworld run graph --trace run.eventlog   the same for ThreadScope, ghc-events and eventlog2html
  stopworld run gcbench --profile hc --trace run.hp   profile the heap by cost centre, for hp2ps
  stopworld run gcbench --time-profile --trace run.prof   profile the time by cost centre
  stopworld run gcbench --alloc-stacks run.pb.gz   profile allocations by call stack, for pprof
  stopworld eventcnv -f mpsio.log --txt      print a Memory Pool System telemetry stream as text
  stopworld dump app.nettrace                list the events of a trace by .NET or by stopworld
  stopworld convert run.nettrace run.json    convert a trace to a timeline for Perfetto and Chrome
  stopworld convert traces/ fleet.parquet/   convert all traces in a folder to a dataset for DuckDB and Spark
  stopworld eventlog show app.eventlog       list the events of an eventlog by GHC or by stopworld
  stopworld run graph --seconds 60 --diagnostics   then: stopworld counters PID, stopworld trace PID -o run.nettrace
  stopworld watch PID                        show its collections as they happen; --web shows them as a page
  stopworld snapshot PID -o heap.heapsnapshot   write the heap of a running process for Chrome DevTools
  stopworld heap heap.heapsnapshot           list what is in a heap, and what retains most
  stopworld core CORE                        print what was in the heap of a program that was killed
  stopworld debug -- PROGRAM ARGUMENTS       debug a program; the debugger stops its world

During a run, Ctrl-C ends it and still prints the table; `kill -USR1` requests a collection; `kill -USR2` flushes the trace.";

#[derive(Debug, Subcommand)]
pub(super) enum Action {
    /// Run a workload and print what its collections cost
    #[command(after_help = RUN_HELP)]
    Run(Box<Run>),
    /// List the workloads that `run` knows
    Workloads,
    /// List the events that a world emits, or explain one
    Events(Events),
    /// Open a Scheme prompt (the same as `run lisp` without files)
    Repl(Box<Settings>),
    /// Run a program under the debugger, which takes over stopping its world
    #[command(after_help = DEBUG_HELP)]
    Debug(Debug),
    /// Debug a running process
    #[command(after_help = DEBUG_HELP)]
    Attach(Attach),
    /// Print a telemetry stream of the Memory Pool System as text
    #[command(after_help = EVENTCNV_HELP)]
    Eventcnv(Eventcnv),
    /// Convert a trace to another format or for Perfetto, or many traces to a Parquet dataset
    #[command(after_help = CONVERT_HELP)]
    Convert(Convert),
    /// List the events of a .nettrace file
    #[command(after_help = DUMP_HELP)]
    Dump(Dump),
    /// Print the collections of a .NET trace (.nettrace)
    #[command(after_help = GCSTATS_HELP)]
    Gcstats(Gcstats),
    /// Print an eventlog written by GHC's runtime or by stopworld
    Eventlog(Eventlog),
    /// Print a heap profile: the contents of the heap over time (.eventlog or .hp)
    #[command(after_help = HEAPPROF_HELP)]
    Heapprof(Heapprof),
    /// Print a time profile: the time spent in each cost centre (.eventlog)
    #[command(after_help = TIMEPROF_HELP)]
    Timeprof(Timeprof),
    /// Write a heap snapshot of a running process, of a core file, or of a heap dump in a trace
    #[command(after_help = SNAPSHOT_HELP)]
    Snapshot(Snapshot),
    /// Print what is in a heap snapshot: objects by type, what they retain, what keeps them alive
    #[command(after_help = HEAP_HELP)]
    Heap(Heap),
    /// Print what is in the core file of a program that was killed: worlds, threads, objects, damage
    #[command(after_help = CORE_HELP)]
    Core(Core),
    /// Record a trace of a running process through its diagnostics socket
    #[command(after_help = LIVE_HELP)]
    Trace(LiveTrace),
    /// Show the counters of a running process through its diagnostics socket
    #[command(after_help = LIVE_HELP)]
    Counters(LiveCounters),
    /// Show the collections of a running process as they happen: on the terminal, or with --web as a page for a browser
    #[command(after_help = WATCH_HELP)]
    Watch(Watch),
    /// Print the script that lets gdb take part in collections (also embedded in every program that builds a world)
    GdbScript,
    /// Print the script that lets lldb take part in collections
    LldbScript,
}

const RUN_HELP: &str = "\
Without --seconds and --collections the workload does its work once. A size is a number of bytes, or a number followed \
by k, m, g or t (KiB, MiB, GiB, TiB); all units are powers of 1024.

The table follows the program's own output. It lists the pauses in microseconds, split into stop (until every \
thread is stopped), mark (stacks, registers, handles and all objects reachable from them), weak (weak references and \
finalizers), sweep set-up and restart, with their total.

Exit code: 0 if the workload's results were right, 1 if it failed or its trace is incomplete, 2 if the arguments are wrong, 130 or 143 if \
Ctrl-C or SIGTERM ended it.";

const LIVE_HELP: &str = "\
The process can be a `stopworld run --diagnostics`, any program that opens the diagnostics socket itself, or a .NET process. \
Ctrl-C stops the session cleanly.

Exit code: 0, 1 if the session fails or the trace is cut off, 2 if the arguments are wrong.";

#[derive(Debug, Args)]
pub(super) struct LiveTrace {
    /// The id of the process to trace
    #[arg(value_name = "PID", value_parser = process_id, allow_negative_numbers = true)]
    pub(super) pid: u32,

    /// The file to write
    #[arg(short = 'o', long, value_name = "FILE", default_value = "trace.nettrace")]
    pub(super) output: PathBuf,

    /// The events to record, in dotnet-trace's syntax: NAME[:KEYWORDS[:LEVEL[:ARGUMENTS]]],… [default: the collections, that is
    /// Microsoft-Windows-DotNETRuntime:0x1:4 and the same for its private provider]
    #[arg(long, value_name = "LIST")]
    pub(super) providers: Option<String>,

    /// Stop after this many seconds (fractions allowed) [default: when the process ends, or with Ctrl-C]
    #[arg(long, value_name = "S", value_parser = seconds, allow_negative_numbers = true)]
    pub(super) duration: Option<Duration>,
}

#[derive(Debug, Args)]
pub(super) struct LiveCounters {
    /// The id of the process to watch
    #[arg(value_name = "PID", value_parser = process_id, allow_negative_numbers = true)]
    pub(super) pid: u32,

    /// The interval between two readings, in seconds (fractions allowed)
    #[arg(long, value_name = "S", default_value = "1", value_parser = seconds, allow_negative_numbers = true)]
    pub(super) interval: Duration,

    /// Stop after this many seconds (fractions allowed) [default: when the process ends, or with Ctrl-C]
    #[arg(long, value_name = "S", value_parser = seconds, allow_negative_numbers = true)]
    pub(super) duration: Option<Duration>,
}

const WATCH_HELP: &str = "\
The process can be a `stopworld run --diagnostics`, any program that opens the diagnostics socket itself, or a .NET process. On the \
terminal q, Esc, Ctrl-C and SIGTERM end the view.

--web prints a URL with a random token. The page is served at 127.0.0.1 only, and only to requests with that token: the URL \
gives access to the process's data, and permits collections, snapshots and traces. The page keeps its data when the process ends; Ctrl-C ends the server.

Exit code: 0, also when the process ends; 1 if the session fails; 2 if the arguments are wrong or standard output is no terminal.";

#[derive(Debug, Args)]
pub(super) struct Watch {
    /// The id of the process to watch
    #[arg(value_name = "PID", value_parser = process_id, allow_negative_numbers = true)]
    pub(super) pid: u32,

    /// Serve a page for a browser on this machine instead, and print its URL
    #[arg(long)]
    pub(super) web: bool,

    /// The port of the page [default: any free one]
    #[arg(long, value_name = "N", requires = "web", allow_negative_numbers = true)]
    pub(super) port: Option<u16>,
}

const DEBUG_HELP: &str = "\
Commands come from the prompt, from --script, or from standard input if it is not a terminal; `help` lists them. In a script \
the first command that fails ends the session, and # begins a comment. When the session ends, the debugger kills a program that \
it started, and detaches from a process that it attached to.

A program that the debugger starts shares the terminal and standard input with it: pass the commands with --script if the program \
reads standard input. Ctrl-C stops every thread of the program; during a command it also ends the command, and in a script the script. \
The program receives SIGINT only after `handle SIGINT nostop pass`. Signals pass to the program silently, except for faults (SIGSEGV, \
SIGABRT …), which stop it; `handle` changes that.

Exit code: 0, or 1 if a command failed or the process could not be debugged, 2 if the arguments are wrong.";

#[derive(Debug, Args)]
pub(super) struct Debug {
    #[command(flatten)]
    pub(super) settings: DebugSettings,

    /// The program to debug, and its arguments
    #[arg(value_name = "PROGRAM", required = true, trailing_var_arg = true)]
    pub(super) program: Vec<OsString>,
}

#[derive(Debug, Args)]
pub(super) struct Attach {
    /// The id of the process to debug
    #[arg(value_name = "PID", value_parser = process_id, allow_negative_numbers = true)]
    pub(super) pid: u32,

    #[command(flatten)]
    pub(super) settings: DebugSettings,
}

#[derive(Debug, Args)]
pub(super) struct DebugSettings {
    /// Read commands from this file instead of the prompt (- for standard input)
    #[arg(long, value_name = "FILE")]
    pub(super) script: Option<PathBuf>,

    /// In a script, continue after a command fails
    #[arg(long)]
    pub(super) keep_going: bool,

    /// What stops the world
    #[arg(long, value_name = "HOW", default_value = "full")]
    pub(super) mode: DebugMode,

    /// Before a thread resumes from a full stop, check that the stop has not changed its state (slow)
    #[arg(long)]
    pub(super) compare: bool,
}

/// The values of `--mode`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum DebugMode {
    /// The debugger stops every thread itself
    Full,
    /// The collector stops threads by its own signals; the debugger acknowledges for threads that it holds stopped
    Assisted,
}

#[derive(Debug, Args)]
pub(super) struct Events {
    /// The event to explain: its fields, and its counterpart for each family of tools
    #[arg(value_name = "EVENT", conflicts_with = "markdown")]
    pub(super) event: Option<String>,

    /// Print the documentation of all events as a Markdown page
    #[arg(long)]
    pub(super) markdown: bool,
}

#[derive(Debug, Args)]
pub(super) struct Run {
    /// The workload to run; `stopworld workloads` lists them
    #[arg(value_name = "WORKLOAD")]
    pub(super) workload: String,

    /// The Scheme programs to run, for the workload `lisp` only
    #[arg(value_name = "FILE.scm")]
    pub(super) files: Vec<PathBuf>,

    /// The number of threads that do the work
    #[arg(long, value_name = "N", default_value = "1", value_parser = threads, allow_negative_numbers = true)]
    pub(super) threads: NonZeroUsize,

    /// Start no new work after this many seconds (fractions allowed)
    #[arg(long, value_name = "S", conflicts_with = "collections", value_parser = seconds, allow_negative_numbers = true)]
    pub(super) seconds: Option<Duration>,

    /// Start no new work after this many collections
    #[arg(long, value_name = "N", value_parser = collections, allow_negative_numbers = true)]
    pub(super) collections: Option<NonZeroU32>,

    /// The depth of the trees, for binary-trees and gcbench [default: 18]
    #[arg(long, value_name = "N", value_parser = depth, allow_negative_numbers = true)]
    pub(super) depth: Option<u32>,

    #[command(flatten)]
    pub(super) settings: Settings,
}

const EVENTCNV_HELP: &str = "\
The styles: -S prints columns for people, -SL lists for Lisp, -SC decimal numbers separated by commas. They and --cnv print \
records in the order of the stream, in which the newest record of a category comes first; --txt sorts by clock. A stream of \
more than 8 MiB is sorted in unnamed files in TMPDIR (or /tmp), which need as much space as the stream. --txt keeps the labels \
of 114,688 addresses, and reports if there are more.

Memory use stays below 32 MiB for a stream of any length. Damage is reported on standard error with its byte offset; everything \
before it is printed.

Exit code: 0 if the stream could be read to its end, 1 if not, 2 if the arguments are wrong, 141 if standard output was closed.";

#[derive(Debug, Args)]
pub(super) struct Eventcnv {
    /// The stream to read; `-` is standard input [default: mpsio.log, or with --cnv and --txt the value of
    /// MPS_TELEMETRY_FILENAME if it is set]
    #[arg(short = 'f', value_name = "FILE")]
    pub(super) file: Option<PathBuf>,

    /// Print in a style of the MPS manual: -S (the default), -SL or -SC
    #[arg(short = 'S', value_name = "LC", num_args = 0..=1, value_parser = style, group = "form")]
    pub(super) style: Option<Option<Style>>,

    /// Print as mpseventcnv does: hexadecimal numbers, for programs to sort and read
    #[arg(long, group = "form")]
    pub(super) cnv: bool,

    /// Print as mpseventtxt does: sorted by clock, each parameter with its name and label
    #[arg(long, group = "form")]
    pub(super) txt: bool,

    /// The event version of the stream [default: the version that its first records state]
    #[arg(long, value_name = "VERSION")]
    pub(super) mps_version: Option<MpsVersion>,

    /// The same as -h
    #[arg(short = '?', action = ArgAction::HelpShort, hide = true)]
    question: Option<bool>,
}

const EVENTLOG_SHOW_HELP: &str = "\
The output is byte for byte that of `ghc-events show` (version 0.21), with --inc that of `ghc-events inc`. Without --inc, a pipe is first copied \
to an unnamed file in TMPDIR (or /tmp). Memory use stays below 64 MiB for a log of any length. Damage is reported on standard \
error with its byte offset; everything that can be read is printed.

Exit code: 0 if the log could be read to its end, 1 if not, 2 if the arguments are wrong, 141 if standard output was closed.";

#[derive(Debug, Args)]
pub(super) struct Eventlog {
    #[command(subcommand)]
    pub(super) action: EventlogAction,
}

#[derive(Debug, Subcommand)]
pub(super) enum EventlogAction {
    /// Print the event types of a log, and its events in order of time
    #[command(after_help = EVENTLOG_SHOW_HELP)]
    Show(EventlogShow),
}

#[derive(Debug, Args)]
pub(super) struct EventlogShow {
    /// The log; `-` is standard input
    #[arg(value_name = "FILE")]
    pub(super) file: PathBuf,

    /// Print only the events, in file order, as they are read
    #[arg(long)]
    pub(super) inc: bool,
}

const HEAPPROF_HELP: &str = "\
The file is an eventlog with a heap profile, written by GHC or by stopworld, or a .hp file. Bands are sorted by their area over \
the whole run; each sparkline is scaled to the peak of its band. Tables and pages show at most 65,536 samples, evenly thinned. --csv \
writes all of them and reads the file twice; a pipe is first copied to an unnamed file in TMPDIR (or /tmp).

Exit code: 0, 1 if the file is damaged (its readable part is reported) or has no heap profile or no samples, 2 if the arguments are \
wrong, 141 if standard output was closed.";

const TIMEPROF_HELP: &str = "\
Percentages refer to the program's own ticks; the ticks of the runtime (IDLE, GC, SYSTEM) are listed separately.

Exit code: 0, 1 if the log is damaged (its readable part is reported) or has no time profile, 2 if the arguments are \
wrong, 141 if standard output was closed.";

#[derive(Debug, Args)]
pub(super) struct Heapprof {
    /// The file; `-` is standard input
    #[arg(value_name = "FILE")]
    pub(super) file: PathBuf,

    /// Print a CSV line for each band of each sample: time in seconds, band, bytes, objects (if the file has their numbers)
    #[arg(long, group = "heapprof_form")]
    pub(super) csv: bool,

    /// Print a self-contained HTML page
    #[arg(long, group = "heapprof_form")]
    pub(super) html: bool,

    /// Write one sample in the format of pprof: for `go tool pprof` and Perfetto
    #[arg(long, group = "heapprof_form")]
    pub(super) pprof: bool,

    /// The sample for --pprof: last, peak (the one with the most bytes), or a time in seconds since the start of the program
    #[arg(long, value_name = "WHEN", default_value = "last", requires = "pprof", value_parser = SampleTime::parse, allow_negative_numbers = true)]
    pub(super) at: SampleTime,

    /// The number of bands to list separately
    #[arg(long, value_name = "N", default_value = "20", value_parser = rows, allow_negative_numbers = true, conflicts_with = "heapprof_form")]
    pub(super) top: usize,
}

#[derive(Debug, Args)]
pub(super) struct Timeprof {
    /// The log; `-` is standard input
    #[arg(value_name = "FILE")]
    pub(super) file: PathBuf,

    /// Print folded stacks, the input of flame graph tools
    #[arg(long, group = "timeprof_form")]
    pub(super) folded: bool,

    /// Print a flame graph as SVG, for a browser
    #[arg(long, group = "timeprof_form")]
    pub(super) svg: bool,

    /// Print a speedscope file: the cost centre stack of each capability, in order of time
    #[arg(long, group = "timeprof_form")]
    pub(super) speedscope: bool,

    /// Write the profile in the format of pprof: for `go tool pprof` and Perfetto
    #[arg(long, group = "timeprof_form")]
    pub(super) pprof: bool,
}

const SNAPSHOT_HELP: &str = "\
A process must have its diagnostics socket open, as `stopworld run --diagnostics` and .NET processes do; it collects once, and its threads \
are stopped while it sends the heap. A heap of more than about 700,000 objects and references may be sent faster than it can be read, and \
is then refused as incomplete: use --ptrace, or record a trace to a file instead. With --ptrace the process needs no socket and does not \
collect: its threads are stopped while its memory is read, and dead objects that no collection has found yet are in the snapshot, too; \
no root reaches them. Without --collection the last complete heap dump of a trace is used. If a process, a trace or a core file has several worlds, an error lists their numbers, and --world selects one; a trace numbers its worlds from 0. FILE may be a core file. A \
snapshot can be converted, too: FILE may be a .heapsnapshot or an HPROF file.

Memory use is about 2 bytes for each object of a trace of this collector, and at most 30 of another one. The output replaces an existing file only when it is complete, and if no part of the heap is missing. A pipe is first copied to an unnamed file in TMPDIR (or /tmp).

Exit code: 0, 1 if there is no complete heap dump, the trace is damaged (a complete dump is written), a part of a core or of a process can't be read (the rest is written, if it replaces no file), or the output can't \
be written, 2 if the arguments are wrong.";

#[derive(Debug, Args)]
pub(super) struct Snapshot {
    /// The id of a process, or a file with a heap; `-` is standard input
    #[arg(value_name = "PID|FILE")]
    pub(super) input: PathBuf,

    /// The file to write: FILE.heapsnapshot for Chrome DevTools and memlab, FILE.hprof for VisualVM and Eclipse MAT
    #[arg(short = 'o', long, value_name = "FILE", value_parser = snapshot_file)]
    pub(super) output: PathBuf,

    /// Use the heap dump of the collection with this number [default: the last complete one]
    #[arg(long, value_name = "N", value_parser = collection, allow_negative_numbers = true)]
    pub(super) collection: Option<i32>,

    /// How long a process may send nothing, in seconds (fractions allowed)
    #[arg(long, value_name = "S", default_value = "30", value_parser = seconds, allow_negative_numbers = true)]
    pub(super) timeout: Duration,

    /// Read the memory of the process by ptrace, instead of asking it through its diagnostics socket
    #[arg(long, conflicts_with_all = ["collection", "program"])]
    pub(super) ptrace: bool,

    #[command(flatten)]
    pub(super) core: CoreSource,
}

const HEAP_HELP: &str = "\
The file is a .heapsnapshot (of stopworld or of V8), an HPROF file (of stopworld or of a Java machine), a .nettrace with a heap dump, or a \
core file (see `stopworld core`). The \
retained size of an object is what would be freed if the object were: its own size and that of all objects that only it keeps alive. For a \
type it is what its objects retain together. Sizes are in bytes.

The heap is read into memory: about 100 bytes for each object, and 20 for each reference.

Exit code: 0, 1 if the file has no heap, a trace is damaged (a complete dump is reported), a part of a core can't be read (the rest is reported), or no root reaches the object of --why, 2 if the arguments are wrong, 141 if standard output \
was closed.";

#[derive(Debug, Args)]
pub(super) struct Heap {
    /// The file; `-` is standard input
    #[arg(value_name = "FILE", required_unless_present = "diff", conflicts_with = "diff")]
    pub(super) file: Option<PathBuf>,

    /// Print a shortest path from a root to the object that contains this address
    #[arg(long, value_name = "ADDR", value_parser = address, allow_negative_numbers = true, conflicts_with = "diff")]
    pub(super) why: Option<u64>,

    /// Print by type what has grown from snapshot A to snapshot B
    #[arg(long, num_args = 2, value_names = ["A", "B"])]
    pub(super) diff: Option<Vec<PathBuf>>,

    /// Print a self-contained HTML page with a treemap of retained sizes
    #[arg(long, conflicts_with_all = ["why", "diff"])]
    pub(super) html: bool,

    /// Write number and bytes of the objects by type in the format of pprof: for `go tool pprof` and Perfetto
    #[arg(long, conflicts_with_all = ["why", "diff", "html"])]
    pub(super) pprof: bool,

    /// The number of types and of objects to list
    #[arg(long, value_name = "N", default_value = "20", value_parser = rows, allow_negative_numbers = true, conflicts_with_all = ["why", "html", "pprof"])]
    pub(super) top: usize,

    /// Use the heap dump of the collection with this number, if the file is a trace [default: the last complete one]
    #[arg(long, value_name = "N", value_parser = collection, allow_negative_numbers = true)]
    pub(super) collection: Option<i32>,

    #[command(flatten)]
    pub(super) core: CoreSource,
}

const DUMP_HELP: &str = "\
Each line shows the time in milliseconds since the trace began, the provider and name, the thread and the fields. Lines are in \
order of time. Versions 4 to 6 of the format are read, and memory use stays below 100 MiB for a file of any length. --stacks also keeps \
the names of functions in memory, up to 64 MiB, and reads the file twice; a pipe is first copied to an unnamed file in TMPDIR (or /tmp). Damage is \
reported on standard error with its byte offset; everything that can be read is listed.

Exit code: 0 if the file could be read to its end, 1 if not, 2 if the arguments are wrong, 141 if standard output was closed.";

#[derive(Debug, Args)]
pub(super) struct Dump {
    /// The file; `-` is standard input
    #[arg(value_name = "FILE")]
    pub(super) file: PathBuf,

    /// List only events of this provider
    #[arg(long, value_name = "NAME")]
    pub(super) provider: Option<String>,

    /// List only events with this name (GC/Start, or with its provider as --counts prints it: stopworld/ThreadStopped) or number
    #[arg(long, value_name = "NAME|ID")]
    pub(super) event: Option<String>,

    /// List only events from this time on, in milliseconds
    #[arg(long, value_name = "MS", value_parser = milliseconds, allow_negative_numbers = true)]
    pub(super) from: Option<f64>,

    /// List only events up to this time, in milliseconds
    #[arg(long, value_name = "MS", value_parser = milliseconds, allow_negative_numbers = true)]
    pub(super) to: Option<f64>,

    /// Print the number of events of each name instead of the events
    #[arg(long)]
    pub(super) counts: bool,

    /// Also print the call stack of each event, innermost function first: a line per function after the event, or the member `stack`
    /// with --json. The names are those at the end of the file; an address without a name is printed as a number
    #[arg(long, conflicts_with = "counts")]
    pub(super) stacks: bool,

    /// Print a JSON object per line
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
        _ => Err(format!("Unknown style code '{letter}': write -S, -SL or -SC")),
    }
}

/// The settings of the collected world itself, independent of the workload.
#[derive(Debug, Args)]
pub(super) struct Settings {
    /// The maximum memory that the heap may commit [default: half of the machine's memory]
    #[arg(long, value_name = "SIZE", allow_negative_numbers = true)]
    pub(super) heap_limit: Option<Size>,

    /// The amount that is allocated before the first collection [default: about 16MiB; 1MiB with --flexowriter]
    #[arg(long, value_name = "SIZE", allow_negative_numbers = true)]
    pub(super) initial_heap: Option<Size>,

    /// The mechanism that stops the threads
    #[arg(long, value_name = "HOW", default_value = "signals")]
    pub(super) stop: Stop,

    /// The number of marking threads, including the collecting one [default: the number of processors, at most 4]
    #[arg(long, value_name = "N", value_parser = markers, allow_negative_numbers = true)]
    pub(super) markers: Option<NonZeroUsize>,

    /// Poison freed cells and verify the whole heap after each collection (slow)
    #[arg(long)]
    pub(super) paranoid: bool,

    /// Print McCarthy's report of 1960 at each collection
    #[arg(long)]
    pub(super) flexowriter: bool,

    #[arg(long, value_name = "FILE", help = format::trace_help())]
    pub(super) trace: Option<PathBuf>,

    /// The format of the trace [default: selected by the extension of --trace]
    #[arg(long, value_name = "FORMAT", value_parser = format::parser(|_| true))]
    pub(super) format: Option<&'static TraceFormat>,

    #[arg(long, value_name = "EVENTS", value_parser = EventsArgument::parse, allow_hyphen_values = true, help = format::events_help())]
    pub(super) events: Option<EventsArgument>,

    /// The events to record in a .nettrace, in dotnet-trace's syntax: NAME[:KEYWORDS[:LEVEL]], separated by commas. The provider
    /// `stopworld` has the events that .NET lacks
    #[arg(long, value_name = "LIST", value_parser = providers)]
    pub(super) providers: Option<Providers>,

    /// Keep the last SIZE bytes of events in memory, and write the trace only on SIGUSR2, on a panic, and when the world
    /// can't be stopped (changes the default of --events to all)
    #[arg(long, value_name = "SIZE")]
    pub(super) flight_recorder: Option<Size>,

    /// Also write the contents of the flight recorder at the end of the run
    #[arg(long, requires = "flight_recorder")]
    pub(super) flight_at_end: bool,

    #[command(flatten)]
    pub(super) profiling: Profiling,

    #[command(flatten)]
    pub(super) alloc_stacks: AllocStacksOptions,

    /// Write a heap snapshot: FILE.heapsnapshot for Chrome DevTools and memlab, FILE.hprof for VisualVM and Eclipse MAT
    #[arg(long, value_name = "FILE", value_parser = snapshot_file)]
    pub(super) snapshot: Option<PathBuf>,

    /// The collection that takes the snapshot; the last one if the run has fewer
    #[arg(long, value_name = "N", default_value = "1", requires = "snapshot", value_parser = collections, allow_negative_numbers = true)]
    pub(super) snapshot_at: NonZeroU32,

    /// Also print the time to stop of each thread: how long stops waited for it, how often it was the last, and what it was doing
    #[arg(long)]
    pub(super) stops: bool,

    /// Serve metrics for Prometheus at this address: IP:PORT, or a port of 127.0.0.1 (0: any free one); the URL is printed on
    /// standard error
    #[arg(long, value_name = "ADDR", value_parser = metrics_address, allow_negative_numbers = true)]
    pub(super) metrics: Option<SocketAddr>,

    /// Send metrics by OTLP to the OpenTelemetry collector with this base URL (http://127.0.0.1:4318), every 10 s and at the end
    #[arg(long, value_name = "URL", value_parser = otlp_url)]
    pub(super) otlp: Option<String>,

    /// Open the diagnostics socket for `stopworld trace`, `stopworld counters`, dotnet-trace and dotnet-counters
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
    /// Each thread stops itself at its next safepoint poll
    Safepoints,
    /// A debugger inside the process stops the threads, as Mono's debugger did
    MockDebugger,
}

fn snapshot_file(text: &str) -> Result<PathBuf, String> {
    let file = PathBuf::from(text);
    match SnapshotFormat::by_extension(&file) {
        Some(_) => Ok(file),
        None if text == "-" => Err("a snapshot is not written to standard output: name a file that ends in .heapsnapshot or .hprof".to_owned()),
        None => Err("its name must select a format: end it in .heapsnapshot (Chrome DevTools, memlab) or .hprof (VisualVM, Eclipse MAT)".to_owned()),
    }
}

fn milliseconds(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(number) if number.is_finite() => Ok(number),
        _ => Err("the time must be a number of milliseconds since the trace began, such as 12.5".to_owned()),
    }
}

fn providers(text: &str) -> Result<Providers, String> {
    Providers::parse(text).map_err(|error| error.to_string())
}

fn process_id(text: &str) -> Result<u32, String> {
    // The kernel's ids are positive numbers of 32 bits with a sign.
    between(text, 1, i32::MAX as u64, "a process id").map(|pid| pid as u32)
}

fn threads(text: &str) -> Result<NonZeroUsize, String> {
    let n = between(text, 1, MOST_THREADS as u64, "the number of threads")?;
    NonZeroUsize::new(n as usize).ok_or_else(|| "the number of threads must be at least 1".to_owned())
}

fn markers(text: &str) -> Result<NonZeroUsize, String> {
    let n = between(text, 1, MOST_MARKERS as u64, "the number of markers")?;
    NonZeroUsize::new(n as usize).ok_or_else(|| "the number of markers must be at least 1".to_owned())
}

fn collections(text: &str) -> Result<NonZeroU32, String> {
    let n = between(text, 1, u64::from(u32::MAX), "the number of collections")?;
    NonZeroU32::new(n as u32).ok_or_else(|| "the number of collections must be at least 1".to_owned())
}

fn collection(text: &str) -> Result<i32, String> {
    between(text, 1, i32::MAX as u64, "the number of a collection").map(|number| number as i32)
}

fn metrics_address(text: &str) -> Result<SocketAddr, String> {
    let port = text.parse().map(|port: u16| SocketAddr::from((Ipv4Addr::LOCALHOST, port)));
    port.or_else(|_| text.parse())
        .map_err(|_| "give IP:PORT, for example 127.0.0.1:9464, or a port from 0 to 65535".to_owned())
}

fn otlp_url(text: &str) -> Result<String, String> {
    otlp::check_url(text).map(|()| text.to_owned()).map_err(|error| error.to_string())
}

fn depth(text: &str) -> Result<u32, String> {
    Ok(between(text, 1, u64::from(DEEPEST), "the depth of the trees")? as u32)
}
