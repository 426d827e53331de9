//! `stopworld eventlog`: prints eventlogs, written by GHC's runtime or by stopworld, as text.
//!
//! `show` prints what `ghc-events show` prints, byte for byte, and with `--inc` what `ghc-events inc` prints. Messages about
//! the log go to standard error. Exit codes: 0 for a log that was read to its end, 1 for one that can't be read or is damaged
//! (everything that can be read is printed), 141 if standard output was closed.

use std::ffi::OsStr;
use std::fmt;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::path::Path;

use anyhow::Context;

use super::arguments::{Eventlog, EventlogAction, EventlogShow};
use super::exit::PIPE_CLOSED;
use super::exit::{FAILED, Failure};
use ghc_eventlog::read::show::{Form, Show};
use ghc_eventlog::read::{Damage, by_time, in_file_order, last_before, seekable};

/// `stopworld eventlog`.
pub(super) fn run(arguments: &Eventlog) -> Result<u8, Failure> {
    match &arguments.action {
        EventlogAction::Show(arguments) => show(arguments),
    }
}

fn show(arguments: &EventlogShow) -> Result<u8, Failure> {
    let name = arguments.file.display();
    let input = open(&arguments.file)?;
    let output = io::stdout().lock();
    let (summary, finished) = if arguments.inc {
        let mut show = Show::new(output, Form::Events);
        (in_file_order(input, &mut show), show.finish())
    } else {
        let input = seekable(input).with_context(|| format!("can't copy {name} to a temporary file"))?;
        let mut show = Show::new(output, Form::Whole);
        let summary = by_time(&input, &mut show);
        let finished = show.finish().map(|(unclear, count)| {
            let with_last = |damage: Damage| Damage { last_good: last_before(&input, damage.offset), ..damage };
            (unclear.map(with_last), count)
        });
        (summary, finished)
    };
    match finished {
        Ok((unclear, count)) => Ok(report(&name, summary.damage, summary.damages, unclear, count)),
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(PIPE_CLOSED),
        Err(error) => Err(anyhow::Error::new(error).context("can't write the events").into()),
    }
}

/// Opens the file, or standard input for `-`.
pub(super) fn open(path: &Path) -> Result<File, Failure> {
    if path.as_os_str() == OsStr::new("-") {
        return Ok(io::stdin().as_fd().try_clone_to_owned().context("standard input is closed")?.into());
    }
    let name = path.display();
    let file = File::open(path).with_context(|| format!("can't open {name}"))?;
    if file.metadata().is_ok_and(|metadata| metadata.is_dir()) {
        return Err(anyhow::anyhow!("can't open {name}: it is a directory").into());
    }
    Ok(file)
}

/// Reports a log's damage, and events with contradictory contents, on standard error. Returns the exit code.
pub(super) fn report(
    name: &dyn fmt::Display,
    damage: Option<Damage>,
    damages: u64,
    unclear: Option<Damage>,
    unclears: u64,
) -> u8 {
    for (damage, count) in [(damage, damages), (unclear, unclears)] {
        let Some(damage) = damage else { continue };
        say(format_args!("{name}, {damage}"));
        if count > 1 {
            say(format_args!("{name}: {}", trace_io::more_places(count - 1)));
        }
    }
    if damage.is_none() && unclear.is_none() { 0 } else { FAILED }
}

/// Prints a line on standard error. If that is closed, the line is lost.
fn say(line: fmt::Arguments<'_>) {
    let _ = writeln!(io::stderr(), "eventlog: {line}");
}
