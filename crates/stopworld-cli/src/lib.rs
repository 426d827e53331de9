//! The `stopworld` command: parses the command line, builds a world, runs a workload in it, and prints a table.
//!
//! | file | part |
//! |---|---|
//! | `arguments`, `conversion_arguments` | declarations of the arguments, from which clap derives the parser and the help |
//! | `size`, `numbers`, `complaint` | parsing of sizes and of numbers; one-line messages for wrong arguments |
//! | `trace_request`, `format` | the trace that the arguments request; the values of `--format` and `--events` |
//! | `run` | one run: its workload, its length, and its error messages |
//! | `lisp` | the workload that reads files, and the prompt |
//! | `session` | the world with its listeners, and the end of a run, whatever ended it |
//! | `stop_observer` | what each thread does in each stop, for `--stops` |
//! | `metrics` | the metrics of a run, for Prometheus and OpenTelemetry |
//! | `debug` | the ptrace debugger: its commands, its prompt, its tables |
//! | `eventcnv` | Memory Pool System telemetry streams as text |
//! | `convert`, `atomic_output` | conversion between trace formats; atomic replacement of the output file |
//! | `dump` | the events of .nettrace files, one per line |
//! | `gcstats` | the collections of a .NET trace |
//! | `fleet` | many traces as a Parquet dataset |
//! | `sqlite` | a telemetry stream as a database |
//! | `eventlog` | GHC eventlogs as text |
//! | `snapshot`, `run_snapshot` | heap snapshots of running processes and of heap dumps; the snapshot of a run |
//! | `heap`, `heap_input` | what is in a heap snapshot; the input of commands that read heaps |
//! | `post_mortem` | what is in a core file; heaps of cores, and of processes that are stopped by ptrace |
//! | `post_mortem_arguments` | the arguments for cores |
//! | `profiles`, `sample_time` | reports of heap profiles and time profiles; the sample that is exported |
//! | `live` | tracing and counters of a running process, through its diagnostics socket |
//! | `watch` | the collections of a running process as they happen (feature `watch`) |
//! | `profiling` | the options that select the profiles of a run |
//! | `tracing` | the trace of a run, which is written whatever ends the run |
//! | `control` | SIGINT and SIGTERM end the run, SIGUSR1 collects, SIGUSR2 writes the trace |
//! | `progress` | the progress bar on a terminal |
//!
//! Standard output receives what the program prints and then the table; everything about the run itself (the bar,
//! errors) goes to standard error. Exit codes: 0; 1 if the run failed; 2 for wrong arguments; 128 + the signal
//! number if a signal ended the run.

#[macro_use]
mod stderr;

mod alloc_stacks;
mod arguments;
mod atomic_output;
mod complaint;
mod control;
mod conversion_arguments;
mod convert;
mod debug;
mod dump;
mod eventcnv;
mod eventlog;
mod exit;
mod flame_graph;
mod fleet;
mod format;
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub mod fuzzing;
mod gcstats;
mod heap;
mod heap_input;
mod lisp;
mod live;
mod metrics;
mod numbers;
mod post_mortem;
mod post_mortem_arguments;
mod profiles;
mod profiling;
mod progress;
mod run;
mod run_snapshot;
mod sample_time;
mod session;
mod size;
mod snapshot;
mod sqlite;
mod stop_observer;
mod stopped_process;
mod trace_request;
mod tracing;
#[cfg(feature = "watch")]
mod watch;

use std::env;
use std::process::ExitCode;

use arguments::{Action, Command};
use clap::Parser;
use complaint::ArgumentError;
use exit::{FAILED, Failure, USAGE, print};

use stopworld::debugger::scripts;
use stopworld::events::reference;
use stopworld_platform::os::signals::FailingWrites;
use stopworld_workloads as workloads;

/// Runs the command with the process's arguments.
pub fn main() -> ExitCode {
    let command =
        match Command::try_parse().map_err(|error| ArgumentError::about(error, env::args_os().nth(1).as_deref())) {
            Ok(command) => command,
            Err(ArgumentError::Help(help)) => {
                exit::check_printed(help.print());
                return ExitCode::from(exit::code(0));
            }
            Err(ArgumentError::Usage(line)) => {
                eprintln!("{line}");
                return ExitCode::from(USAGE);
            }
        };
    // The debugged program must not inherit this signal disposition.
    let _errors = (!matches!(command.action, Action::Debug(_))).then(FailingWrites::are_errors);
    match execute(command.action) {
        Ok(code) => ExitCode::from(exit::code(code)),
        Err(Failure::Usage(line)) => {
            eprintln!("error: {line}");
            ExitCode::from(USAGE)
        }
        Err(Failure::Run(error)) => {
            eprintln!("error: {error:#}");
            ExitCode::from(FAILED)
        }
    }
}

fn execute(action: Action) -> Result<u8, Failure> {
    match action {
        Action::Workloads => {
            print(catalogue());
            Ok(0)
        }
        Action::Events(events) => {
            print(self::events(&events)?);
            Ok(0)
        }
        Action::Run(run) if run.workload == run::LISP => lisp::run(&run),
        Action::Run(run) => run::run(&run),
        Action::Repl(settings) => lisp::repl(&settings),
        Action::Debug(arguments) => debug::debug(&arguments),
        Action::Attach(arguments) => debug::attach(&arguments),
        Action::Eventcnv(arguments) => Ok(eventcnv::run(&arguments)),
        Action::Convert(arguments) => convert::run(&arguments.resolved()?),
        Action::Dump(arguments) => Ok(dump::run(&arguments)),
        Action::Gcstats(arguments) => gcstats::run(&arguments),
        Action::Eventlog(arguments) => eventlog::run(&arguments),
        Action::Heapprof(arguments) => profiles::heap(&arguments),
        Action::Timeprof(arguments) => profiles::time(&arguments),
        Action::Snapshot(arguments) => snapshot::run(&arguments),
        Action::Heap(arguments) => heap::run(&arguments),
        Action::Core(arguments) => post_mortem::run(&arguments),
        Action::Trace(arguments) => live::trace(&arguments),
        Action::Counters(arguments) => live::counters(&arguments),
        #[cfg(feature = "watch")]
        Action::Watch(arguments) => watch::run(&arguments),
        #[cfg(not(feature = "watch"))]
        Action::Watch(arguments) => Err(Failure::Usage(format!(
            "this stopworld was built without the feature `watch`; `stopworld counters {}` shows the process's counters",
            arguments.pid
        ))),
        Action::GdbScript => {
            print(scripts::GDB);
            Ok(0)
        }
        Action::LldbScript => {
            print(scripts::LLDB);
            Ok(0)
        }
    }
}

/// Formats the table of events, or the description of one event.
fn events(wanted: &arguments::Events) -> Result<String, Failure> {
    let Some(name) = &wanted.event else {
        return Ok(if wanted.markdown { reference::markdown() } else { reference::text() });
    };
    reference::find(name).map(reference::one).map_err(|nearest| {
        let guess = nearest.map_or(String::new(), |name| format!("did you mean '{name}'? "));
        Failure::Usage(format!("unknown event '{name}': {guess}`stopworld events` lists them"))
    })
}

/// Formats the list of workloads, one per line.
fn catalogue() -> String {
    let built_in = workloads::WORKLOADS.iter().map(|w| (w.name, w.about));
    let lines = built_in.chain([(run::LISP, lisp::ABOUT)]).map(|(name, about)| format!("{name:<14}{about}\n"));
    lines.collect()
}

/// Runs the examples of the README as tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
