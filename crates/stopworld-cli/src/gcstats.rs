//! `stopworld gcstats`: the collections of a .NET trace.
//!
//! The report goes to standard output, messages about the trace go to standard error. A damaged trace is reported as far as
//! it can be read, with the byte offset of the damage, and the exit code is 1. A trace without collections is not damaged:
//! standard error names what is missing, and the exit code is 0.

use std::fs::File;
use std::io::{self, BufWriter, Read, Write};
use std::path::Path;

use anyhow::{Context, anyhow};

use super::conversion_arguments::Gcstats;
use super::exit::{FAILED, Failure, PIPE_CLOSED, print, unwritten_report};
use super::fleet;
use nettrace::{Reader, Summary};
use stopworld_analysis::gcstats::{Process, Rules, analyse};
use stopworld_analysis::report::{collections, page};
use stopworld_parquet::{Inputs, NETTRACE};
use trace_io::and_more_places;

/// The remedy for a trace without collections.
const RECORD_THEM: &str = "record the keyword GC of Microsoft-Windows-DotNETRuntime while the program collects";

/// `stopworld gcstats`.
pub(super) fn run(arguments: &Gcstats) -> Result<u8, Failure> {
    if let Some(output) = &arguments.parquet {
        return fleet::collections(arguments, output);
    }
    if !arguments.fleet.is_empty() {
        return Err(Failure::Usage(
            "--host, --process-name, --program-version and --jobs are for a Parquet dataset: add --parquet DIR"
                .to_owned(),
        ));
    }
    let files = match &arguments.files[..] {
        [file] if !file.is_dir() => return one(arguments, file),
        paths => Inputs::find(paths, Path::new(""), NETTRACE).into_paths(),
    };
    if arguments.is_export() {
        return Err(Failure::Usage(format!(
            "an export is of one trace, but there are {}: name one file, or add --parquet DIR",
            files.len()
        )));
    }
    if files.is_empty() {
        return Err(anyhow!("no traces: the folders contain no file that ends in .nettrace").into());
    }
    let mut worst = 0;
    for file in files {
        print(format!("{}:\n", file.display()));
        match one(arguments, &file) {
            Ok(PIPE_CLOSED) => return Ok(PIPE_CLOSED),
            Ok(code) => worst = worst.max(code),
            // The file has no process of this id; another may.
            Err(Failure::Usage(error)) => {
                eprintln!("gcstats: {}: {error}", file.display());
                worst = worst.max(FAILED);
            }
            Err(Failure::Run(error)) => {
                eprintln!("gcstats: {error:#}");
                worst = worst.max(FAILED);
            }
        }
    }
    Ok(worst)
}

/// Reports one trace.
fn one(arguments: &Gcstats, file: &Path) -> Result<u8, Failure> {
    let name = file.display();
    let input: Box<dyn Read> = if file.as_os_str() == "-" {
        Box::new(io::stdin().lock())
    } else {
        Box::new(File::open(file).with_context(|| format!("can't open {name}"))?)
    };
    let rules = if arguments.like_perfview { Rules::LikePerfView } else { Rules::Ours };
    let (processes, summary) = analyse(Reader::new(input), rules).context("can't read a temporary file")?;
    if processes.is_empty() {
        eprintln!("gcstats: {name}: {}", why_nothing(&summary));
        return Ok(if summary.damage.is_some() { FAILED } else { 0 });
    }
    let code = notes(&name, &summary);
    let has_none = processes.iter().all(|process| process.begun() == 0) && summary.damage.is_none();
    let processes = choose(&processes, arguments)?;
    if has_none && !arguments.is_export() {
        eprintln!("gcstats: {name}: no collections: {RECORD_THEM}");
    }
    let mut out = BufWriter::new(io::stdout().lock());
    let written =
        processes.iter().try_for_each(|process| write(process, arguments, &mut out)).and_then(|()| out.flush());
    match written {
        Ok(()) => Ok(code),
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(PIPE_CLOSED),
        Err(error) => Err(unwritten_report(&error)),
    }
}

/// Returns a line that states why there is nothing to report.
fn why_nothing(summary: &Summary) -> String {
    let why = match &summary.damage {
        // The file is not a trace, or it is empty.
        Some(damage) if summary.events == 0 => damage.to_string(),
        Some(damage) => format!("{damage}; the readable part has no events of a .NET runtime"),
        None => format!("no collections: the trace has no events of a .NET runtime; {RECORD_THEM}"),
    };
    match summary.lost {
        0 => why,
        lost => format!("{why}; {lost} events were lost during recording"),
    }
}

/// Reports lost events and damage on standard error. Returns the exit code.
fn notes(name: &dyn std::fmt::Display, summary: &Summary) -> u8 {
    if summary.lost > 0 {
        eprintln!("gcstats: {name}: {} events were lost during recording", summary.lost);
    }
    match &summary.damage {
        Some(damage) => {
            let more = and_more_places(summary.damages);
            eprintln!("gcstats: {name}: {damage}{more}; the report covers the part that can be read");
            FAILED
        }
        None => 0,
    }
}

/// Returns the requested process, or all processes that the output can show.
fn choose<'a>(processes: &'a [Process], arguments: &Gcstats) -> Result<Vec<&'a Process>, Failure> {
    let list = || {
        let lines = processes.iter().map(|process| {
            let identity = &process.identity;
            format!("{} ({}, {} collections)", identity.process, identity.name(Rules::Ours), process.all.count)
        });
        lines.collect::<Vec<_>>().join(", ")
    };
    // Processes without collections are not candidates: damage can produce processes that never existed.
    let collecting: Vec<&Process> = processes.iter().filter(|process| process.all.count > 0).collect();
    match arguments.process {
        Some(wanted) => match processes.iter().find(|process| process.identity.process == wanted) {
            Some(process) => Ok(vec![process]),
            None => Err(Failure::Usage(format!("--process: the trace has no process {wanted}; it has {}", list()))),
        },
        None if arguments.is_export() && collecting.len() == 1 => Ok(collecting),
        None if arguments.is_export() && processes.len() > 1 => {
            Err(Failure::Usage(format!("the trace has several processes; choose one with --process: {}", list())))
        }
        None => Ok(processes.iter().collect()),
    }
}

fn write(process: &Process, arguments: &Gcstats, out: &mut dyn Write) -> io::Result<()> {
    if arguments.csv {
        process.write_csv(out)
    } else if arguments.pergen_csv {
        process.write_per_generation_csv(out)
    } else if arguments.xml {
        process.write_xml(out)
    } else if arguments.html {
        out.write_all(page::render(process)?.as_bytes())
    } else {
        writeln!(out, "{}", collections::render(process)?)
    }
}
