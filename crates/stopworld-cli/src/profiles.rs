//! `stopworld heapprof` and `stopworld timeprof`: reports of heap profiles and time profiles.
//!
//! Reports go to standard output; a file of pprof is not written to a terminal. Messages about the file go to standard error. Exit codes:
//! 0; 1 for a file that is damaged (the readable part is reported) or has no profile; 141 if standard output was closed.

use std::fmt;
use std::fs::File;
use std::io::{self, BufRead, BufReader, BufWriter, Seek, Write};
use std::path::Path;

use anyhow::Context;

use super::arguments::{Heapprof, Timeprof};
use super::eventlog::open;
use super::exit::PIPE_CLOSED;
use super::exit::{FAILED, Failure, refuse_terminal, unwritten_report};
use super::flame_graph;
use ghc_eventlog::hp::DamageKind;
use ghc_eventlog::read::seekable;
use stopworld_analysis::pprof;
use stopworld_analysis::profstats::{Profiles, folded, speedscope, text};
use stopworld_analysis::report::{heap_page, heapprof, timeprof};

/// The first bytes of an eventlog.
const EVENTLOG: &[u8] = b"hdrb";
/// The cause and the remedy of a profile without samples.
const NO_SAMPLES: &str = "the program ended before the first sample was due, or its filters matched nothing; record it again with a \
    shorter interval or other filters";
/// How a time profile is recorded.
const RECORD_TIME: &str = "record one with `stopworld run … --time-profile --trace FILE.eventlog`";
/// The size of a read buffer, in bytes.
const BUFFER: usize = 64 << 10;

/// `stopworld heapprof`.
pub(super) fn heap(arguments: &Heapprof) -> Result<u8, Failure> {
    if arguments.pprof {
        refuse_terminal("heapprof --pprof", "FILE --pprof > heap.pb.gz")?;
    }
    let mut input = open(&arguments.file)?;
    let name = arguments.file.display();
    if arguments.csv {
        // The file may have to be read twice.
        input = seekable(input).with_context(|| format!("can't copy {name} to a temporary file"))?;
        input.rewind().with_context(|| format!("can't read {name}"))?;
    }
    let Some((profiles, code)) = read("heapprof", &arguments.file, &input)? else { return Ok(FAILED) };
    if !profiles.has_heap {
        say(
            "heapprof",
            format_args!(
                "{name}: the file has no heap profile: record one with `stopworld run … --profile hy --trace FILE.eventlog`"
            ),
        );
        return Ok(FAILED);
    }
    if profiles.heap.is_empty() {
        say("heapprof", format_args!("{name}: its heap profile has no non-empty sample: {NO_SAMPLES}"));
        return Ok(FAILED);
    }
    let sample = if arguments.pprof { Some(arguments.at.choose(&profiles.heap, &name)?) } else { None };
    if profiles.heap.has_others() {
        let bands = profiles.heap.bands.len() - 1;
        say(
            "heapprof",
            format_args!("{name}: the profile has more than {bands} bands: the rest are summed under (others)"),
        );
    }
    write(code, |out| {
        if let Some(sample) = sample {
            pprof::heap(&profiles, sample, out)
        } else if arguments.csv && profiles.heap.samples.stride() > 1 {
            every_sample(&profiles, input, out)
        } else if arguments.csv {
            heapprof::csv(&profiles, out)
        } else if arguments.html {
            out.write_all(heap_page::render(&profiles, &name.to_string()).as_bytes())
        } else {
            writeln!(out, "{}", heapprof::render(&profiles, arguments.top))
        }
    })
}

/// Writes the lines of a profile with more samples than are kept in memory: reads the file a second time.
fn every_sample(profiles: &Profiles, mut input: File, out: &mut dyn Write) -> io::Result<()> {
    input.rewind()?;
    let mut input = BufReader::with_capacity(BUFFER, input);
    let csv = heapprof::Csv::begin(profiles, out)?;
    if input.fill_buf()?.starts_with(EVENTLOG) {
        Profiles::each_sample(input, |sample| csv.sample(sample, out)).map(drop)
    } else {
        text::each_sample(input, |sample| csv.sample(sample, out))
    }
}

/// `stopworld timeprof`.
pub(super) fn time(arguments: &Timeprof) -> Result<u8, Failure> {
    if arguments.pprof {
        refuse_terminal("timeprof --pprof", "FILE --pprof > time.pb.gz")?;
    }
    let input = open(&arguments.file)?;
    let Some((profiles, code)) = read("timeprof", &arguments.file, &input)? else { return Ok(FAILED) };
    let name = arguments.file.display();
    if !profiles.has_time {
        say("timeprof", format_args!("{name}: the file has no time profile: {RECORD_TIME}"));
        return Ok(FAILED);
    }
    if profiles.time.samples == 0 && arguments.pprof {
        // An empty output is not a file of pprof.
        say(
            "timeprof",
            format_args!("{name}: its time profile has no ticks, so there is nothing to export: {NO_SAMPLES}"),
        );
        return Ok(FAILED);
    }
    if profiles.time.samples == 0 && (arguments.svg || arguments.folded) {
        // The table shows this by itself, and a speedscope file then has an empty profile.
        say("timeprof", format_args!("{name}: its time profile has no ticks, so there is nothing to draw"));
        return Ok(code);
    }
    if profiles.time.is_order_lost && arguments.speedscope {
        say(
            "timeprof",
            format_args!("{name}: the profile is too long to keep the order of all ticks: the last ones are omitted"),
        );
    }
    let Profiles { time, stacks, centres, heap, .. } = &profiles;
    let title = if heap.program.is_empty() { name.to_string() } else { heap.program.clone() };
    write(code, |out| {
        if arguments.folded {
            folded::write(out, time, stacks, centres)
        } else if arguments.svg {
            flame_graph(&profiles, &title, out)
        } else if arguments.pprof {
            pprof::time(&profiles, out)
        } else if arguments.speedscope {
            speedscope::write(out, &profiles, &title)
        } else {
            writeln!(out, "{}", timeprof::render(&profiles))
        }
    })
}

pub(super) fn flame_graph(profiles: &Profiles, title: &str, out: &mut dyn Write) -> io::Result<()> {
    let lines = folded::lines(&profiles.time, &profiles.stacks, &profiles.centres);
    flame_graph::draw(&lines, "ticks", title, out)
}

/// Reads the profiles of an eventlog or a .hp file. Returns them with the exit code for the state of the file, or `None`
/// after reporting that it is neither.
fn read(command: &str, path: &Path, input: &File) -> Result<Option<(Profiles, u8)>, Failure> {
    let name = path.display();
    let mut input = BufReader::with_capacity(BUFFER, input);
    let begin = input.fill_buf().with_context(|| format!("can't read {name}"))?;
    let (profiles, damage, damages) = if begin.starts_with(EVENTLOG) {
        let (profiles, summary) = Profiles::read(input);
        (profiles, summary.damage.map(|damage| damage.to_string()), summary.damages)
    } else {
        let (profiles, summary) = text::read(input);
        if summary.damage.is_some_and(|damage| damage.kind == DamageKind::Head) {
            match command {
                "timeprof" => say(
                    command,
                    format_args!("{name}: this is not an eventlog: expected it to begin with \"hdrb\": {RECORD_TIME}"),
                ),
                _ => say(
                    command,
                    format_args!(
                        "{name}: this is not a heap profile: expected an eventlog, which begins with \"hdrb\", or a .hp file, which begins with \"JOB\""
                    ),
                ),
            }
            return Ok(None);
        }
        (profiles, summary.damage.map(|damage| damage.to_string()), summary.damages)
    };
    let Some(damage) = damage else { return Ok(Some((profiles, 0))) };
    say(command, format_args!("{name}, {damage}"));
    if damages > 1 {
        say(command, format_args!("{name}: {}", trace_io::more_places(damages - 1)));
    }
    Ok(Some((profiles, FAILED)))
}

/// Writes a report to standard output. Returns the exit code.
fn write(code: u8, report: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Result<u8, Failure> {
    let mut out = BufWriter::new(io::stdout().lock());
    match report(&mut out).and_then(|()| out.flush()) {
        Ok(()) => Ok(code),
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(PIPE_CLOSED),
        Err(error) => Err(unwritten_report(&error)),
    }
}

/// Prints a line on standard error. If that is closed, the line is lost.
fn say(command: &str, line: fmt::Arguments<'_>) {
    let _ = writeln!(io::stderr(), "{command}: {line}");
}
