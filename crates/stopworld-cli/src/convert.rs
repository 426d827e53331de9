//! `stopworld convert`: a trace of one format as one of another.
//!
//! The output is there when it is whole (see `beside`). What there is to say goes to standard error: what could not be carried
//! over, in a table; what is wrong with the input, with the byte at which it is. Exit codes: 0 for an input that was read to its end, whatever
//! the other format has no place for; 1 for one that is damaged (everything that is readable is converted) or is no trace (then the
//! output is not touched); 141 if whoever reads our output has seen enough.

use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::Path;

use anyhow::{Context, anyhow};

use super::arguments::Convert;
use super::beside::Output;
use super::exit::PIPE_CLOSED;
use super::exit::{FAILED, Failure};
use super::format::Format;
use nettrace::Container;
use stopworld_analysis::convert::{Conversion, ConvertError, Options, Target, convert};
use stopworld_platform::os::remedy::remedy_of;

/// `stopworld convert`.
pub(super) fn run(arguments: &Convert) -> Result<u8, Failure> {
    let target = target(arguments)?;
    let name = arguments.input.display();
    let input: Box<dyn Read> = if arguments.input.as_os_str() == "-" {
        Box::new(io::stdin().lock())
    } else {
        let file = File::open(&arguments.input).with_context(|| format!("can't open {name}"))?;
        Box::new(BufReader::with_capacity(64 << 10, file))
    };
    let mut output = Output::open(&arguments.output)?;
    let options = Options { ticks_per_second: arguments.ticks_per_second };
    let conversion = match convert(input, &mut output, target, &options) {
        Ok(conversion) => conversion,
        Err(ConvertError::Output(error)) if error.kind() == io::ErrorKind::BrokenPipe => return Ok(PIPE_CLOSED),
        Err(ConvertError::Output(error)) => return Err(unwritable(&error, &arguments.output, output.replaces()).into()),
        Err(error) => return Err(anyhow!("{name}: {error}").into()),
    };
    let replaces = output.replaces();
    output.finish().map_err(|error| unwritable(&error, &arguments.output, replaces))?;
    Ok(report(arguments, &conversion))
}

/// What is wrong with the output, and what to do about it.
fn unwritable(error: &io::Error, path: &Path, replaces: bool) -> anyhow::Error {
    let remedy = remedy_of(error);
    let rest = if replaces { "what was there is as it was; " } else { "" };
    anyhow!("{}: {error}; {rest}{remedy}, or name another file", path.display())
}

/// What is to be written: as it is asked for, or as the name ends.
fn target(arguments: &Convert) -> Result<Target, Failure> {
    let format = arguments.format.or_else(|| Format::by_name(&arguments.output));
    match format {
        Some(Format::Mps) => Ok(Target::Mps),
        Some(Format::Nettrace) => Ok(Target::Nettrace(Container::V4)),
        Some(Format::Nettrace6) => Ok(Target::Nettrace(Container::V6)),
        Some(Format::Json) => Ok(Target::Json),
        Some(Format::Eventlog | Format::Hp | Format::Prof) => Err(Failure::Usage(format!(
            "{}: its name is that of a log or profile of GHC's, which `stopworld run` makes: end it in .mps, .nettrace or .json, or say \
             --format",
            arguments.output.display()
        ))),
        None => Err(Failure::Usage(format!(
            "{}: its name does not say which format to write: end it in .mps, .nettrace or .json, or say --format",
            arguments.output.display()
        ))),
    }
}

/// Says what there is to say; the exit code.
fn report(arguments: &Convert, conversion: &Conversion) -> u8 {
    let name = arguments.input.display();
    for note in &conversion.notes {
        eprintln!("convert: {name}: {note}");
    }
    if !conversion.left_out.is_empty() {
        let output = arguments.output.display();
        eprintln!("convert: {name}: {} events are in {output}; left out or changed:", conversion.carried);
        eprint!("{}", conversion.left_out);
    }
    match &conversion.damage {
        Some(damage) => {
            eprintln!("convert: {name}: {damage}; everything that can be read is converted");
            FAILED
        }
        None => 0,
    }
}
