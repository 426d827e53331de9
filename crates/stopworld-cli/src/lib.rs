//! The `stopworld` command: from words on a command line to a world, a workload in it, and a table.
//!
//! | file | part |
//! |---|---|
//! | `arguments` | what can be written, from which clap makes parser and help |
//! | `size`, `complaint` | sizes as people write them; wrong arguments in one line |
//! | `run` | one run: which workload, for how long, what to say when it fails |
//! | `lisp` | the workload that reads files, and the prompt |
//! | `session` | the world with its listeners, and the end of a run, however it comes about |
//! | `debug` | the debugger by ptrace: its commands, its prompt, its tables |
//! | `eventcnv` | telemetry streams of the Memory Pool System as text |
//! | `convert`, `beside` | a trace of one format as one of another; an output that is there when it is whole |
//! | `dump` | the events of .nettrace files, a line each |
//! | `gcstats` | the collections of a .NET trace |
//! | `eventlog` | logs of GHC's runtime as text |
//! | `profiles` | what the heap was made of, and where the time went |
//! | `live` | tracing and counting a process that runs, through its diagnostics socket |
//! | `profiling` | what of a run is profiled |
//! | `tracing` | the trace of a run, written however the run ends |
//! | `control` | SIGINT and SIGTERM end the run, SIGUSR1 collects, SIGUSR2 writes the trace |
//! | `progress` | the bar on a terminal |
//!
//! Standard output carries what the program prints and then the table; everything about the run itself (the bar,
//! errors) goes to standard error. Exit codes: 0, 1 for a run that failed, 2 for wrong arguments, 128 + the signal
//! for one that a signal ended.

mod arguments;
mod asked;
mod beside;
mod complaint;
mod control;
mod convert;
mod debug;
mod dump;
mod eventcnv;
mod eventlog;
mod exit;
mod format;
#[cfg(feature = "fuzzing")]
pub(crate) mod fuzzing;
mod gcstats;
mod lisp;
mod live;
mod profiles;
mod profiling;
mod progress;
mod run;
mod session;
mod size;
mod tracing;

use std::env;
use std::process::ExitCode;

use arguments::{Action, Command};
use clap::Parser;
use complaint::Complaint;
use exit::{FAILED, Failure, USAGE, print};

use stopworld::debugger::scripts;
use stopworld::events::reference;
use stopworld_platform::os::signals::FailingWrites;
use stopworld_workloads as workloads;

/// Runs the command with the process's arguments.
pub fn main() -> ExitCode {
    let command = match Command::try_parse().map_err(|error| Complaint::about(error, env::args_os().nth(1).as_deref()))
    {
        Ok(command) => command,
        Err(Complaint::Help(help)) => {
            // To a closed pipe nothing more can be said.
            let _ = help.print();
            return ExitCode::SUCCESS;
        }
        Err(Complaint::Usage(line)) => {
            eprintln!("{line}");
            return ExitCode::from(USAGE);
        }
    };
    // A program that is debugged must not inherit this.
    let _errors = (!matches!(command.action, Action::Debug(_))).then(FailingWrites::are_errors);
    match execute(command.action) {
        Ok(code) => ExitCode::from(code),
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
        Action::Convert(arguments) => convert::run(&arguments),
        Action::Dump(arguments) => Ok(dump::run(&arguments)),
        Action::Gcstats(arguments) => gcstats::run(&arguments),
        Action::Eventlog(arguments) => eventlog::run(&arguments),
        Action::Heapprof(arguments) => profiles::heap(&arguments),
        Action::Timeprof(arguments) => profiles::time(&arguments),
        Action::Trace(arguments) => live::trace(&arguments),
        Action::Counters(arguments) => live::counters(&arguments),
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

/// The table of events, or one of them.
fn events(wanted: &arguments::Events) -> Result<String, Failure> {
    let Some(name) = &wanted.event else {
        return Ok(if wanted.markdown { reference::markdown() } else { reference::text() });
    };
    reference::find(name).map(reference::one).map_err(|nearest| {
        let guess = nearest.map_or(String::new(), |name| format!("did you mean '{name}'? "));
        Failure::Usage(format!("unknown event '{name}': {guess}`stopworld events` lists them"))
    })
}

/// The workloads, a line each.
fn catalogue() -> String {
    let built_in = workloads::WORKLOADS.iter().map(|w| (w.name, w.about));
    let lines = built_in.chain([(run::LISP, lisp::ABOUT)]).map(|(name, about)| format!("{name:<14}{about}\n"));
    lines.collect()
}
