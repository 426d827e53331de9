//! `stopworld convert`: converts a trace to another format, or many to a dataset (see `fleet`).
//!
//! The output replaces an existing file only when it is complete (see `atomic_output`). Standard error receives a table of what the
//! output format can't represent, and the damage of the input with its byte offset. Exit codes: 0 for an input that was read
//! to its end, whatever the output format can't represent; 1 for an input that is damaged (everything readable is converted)
//! or not a trace (the output is not touched); 141 if standard output was closed.

use std::fs::{self, File};
use std::io::{self, BufReader, Read};
use std::path::Path;

use anyhow::{Context, anyhow};

use super::atomic_output::{Output, is_same_file};
use super::conversion_arguments::Convert;
use super::exit::PIPE_CLOSED;
use super::exit::{FAILED, Failure};
use super::fleet;
use super::format::{ConvertFormat, can_convert_to, conversion_target, extensions, named_format};
use super::sqlite;
use stopworld_analysis::convert::{Conversion, ConvertError, ConvertOptions, Target, convert, target_of};
use stopworld_parquet::TRACES;
use stopworld_platform::os::remedy::remedy_of;
use stopworld_trace::TraceFormat;

/// `stopworld convert`.
pub(super) fn run(arguments: &Convert) -> Result<u8, Failure> {
    let output_name = arguments.output.display();
    let format = arguments.format.or_else(|| named_format(&arguments.output));
    if format == Some(ConvertFormat::Parquet) {
        return fleet::run(arguments);
    }
    let [input] = &arguments.inputs[..] else {
        let traces = arguments.inputs.len();
        return Err(Failure::Usage(format!(
            "{output_name}: {traces} traces are only converted to a Parquet dataset: name it DIR.parquet, or add --format parquet"
        )));
    };
    if input.is_dir() {
        return Err(Failure::Usage(format!(
            "{}: a folder is only converted to a Parquet dataset, not to {output_name}: name the output DIR.parquet, or add --format parquet",
            input.display()
        )));
    }
    if !arguments.fleet.is_empty() || !arguments.tables.is_empty() {
        return Err(Failure::Usage(format!(
            "{output_name}: --tables, --host, --process-name, --program-version and --jobs are for a Parquet dataset: name it DIR.parquet, or add \
             --format parquet"
        )));
    }
    // Two traces of one format are more likely a pattern of the shell than an input and its output; one trace, given twice, is converted
    // in place.
    let is_alike = *input != arguments.output && input.extension() == arguments.output.extension();
    if arguments.named_output.is_none() && is_alike && is_trace(&arguments.output) {
        return Err(Failure::Usage(format!(
            "{output}: it is a trace, and converting {} would replace it: add `--output {output}`, or name another file",
            input.display(),
            output = arguments.output.display()
        )));
    }
    if is_same_file(input, &arguments.output) && !keeps_format(input, format, &arguments.output) {
        return Err(Failure::Usage(format!(
            "{output_name}: it is the trace itself, and would be replaced by a file of another format: name another file"
        )));
    }
    match format {
        Some(ConvertFormat::Sqlite) => sqlite::run(input, &arguments.output),
        _ => one(arguments, input),
    }
}

/// Returns whether a trace that is converted in place keeps the format that its name has: another one may not hold all that is in it. A
/// .nettrace may change its container.
fn keeps_format(trace: &Path, format: Option<ConvertFormat>, output: &Path) -> bool {
    let of_name = |path: &Path| TraceFormat::by_extension(path).and_then(conversion_target).map(ConvertFormat::File);
    let file = fs::canonicalize(trace);
    let of_file = file.ok().and_then(|file| of_name(&file).or_else(|| of_contents(&file)));
    let (before, after) = (of_file, format.or_else(|| of_name(output)));
    match (before, after) {
        (Some(ConvertFormat::File(Target::Nettrace(_))), Some(ConvertFormat::File(Target::Nettrace(_)))) => true,
        // An output without a format is refused later.
        (before, after) => after.is_none() || before == after,
    }
}

/// Returns the format of a trace whose name has none.
fn of_contents(trace: &Path) -> Option<ConvertFormat> {
    let target = target_of(File::open(trace).ok()?);
    target.ok().flatten().map(ConvertFormat::File)
}

/// Converts one trace to one file.
fn one(arguments: &Convert, path: &Path) -> Result<u8, Failure> {
    let target = target(arguments)?;
    let name = path.display();
    let input: Box<dyn Read> = if path.as_os_str() == "-" {
        Box::new(io::stdin().lock())
    } else {
        let file = File::open(path).with_context(|| format!("can't open {name}"))?;
        Box::new(BufReader::with_capacity(64 << 10, file))
    };
    let mut output = Output::open(&arguments.output)?;
    let options = ConvertOptions { ticks_per_second: arguments.ticks_per_second };
    let conversion = match convert(input, &mut output, target, &options) {
        Ok(conversion) => conversion,
        Err(ConvertError::Output(error)) if error.kind() == io::ErrorKind::BrokenPipe => return Ok(PIPE_CLOSED),
        Err(ConvertError::Output(error)) => return Err(unwritable(&error, &arguments.output, output.replaces()).into()),
        Err(error) => return Err(anyhow!("{name}: {error}").into()),
    };
    let replaces = output.replaces();
    output.finish().map_err(|error| unwritable(&error, &arguments.output, replaces))?;
    Ok(report(path, &arguments.output, &conversion))
}

/// Returns whether an output exists and is a trace, of any format. `convert *.nettrace` names one if there are two.
fn is_trace(output: &Path) -> bool {
    let extension = output.extension().and_then(|extension| extension.to_str());
    extension.is_some_and(|extension| TRACES.contains(&extension))
        && fs::metadata(output).is_ok_and(|metadata| metadata.is_file() && metadata.len() > 0)
}

/// Makes the error for an output that can't be written, with its remedy.
fn unwritable(error: &io::Error, path: &Path, replaces: bool) -> anyhow::Error {
    let remedy = remedy_of(error);
    let rest = if replaces { "the existing file is unchanged; " } else { "" };
    anyhow!("{}: {error}; {rest}{remedy}, or name another file", path.display())
}

/// Returns the format to write: that of `--format`, or else of the output's extension.
fn target(arguments: &Convert) -> Result<Target, Failure> {
    let (output, extensions) = (arguments.output.display(), extensions(can_convert_to));
    if let Some(ConvertFormat::File(target)) = arguments.format {
        return Ok(target);
    }
    let Some(format) = TraceFormat::by_extension(&arguments.output) else {
        return Err(Failure::Usage(format!(
            "{output}: its name does not select a format to write: end it in {extensions}, or add --format"
        )));
    };
    conversion_target(format).ok_or_else(|| {
        Failure::Usage(format!(
            "{output}: convert does not write eventlogs and GHC profiles, which `stopworld run` does: end the name in {extensions}, \
             or add --format"
        ))
    })
}

/// Reports the conversion on standard error. Returns the exit code.
fn report(input: &Path, output: &Path, conversion: &Conversion) -> u8 {
    let name = input.display();
    for note in &conversion.notes {
        eprintln!("convert: {name}: {note}");
    }
    if !conversion.left_out.is_empty() {
        let output = output.display();
        eprintln!("convert: {name}: {} events are in {output}; left out or changed:", conversion.carried);
        eprint!("{}", conversion.left_out);
    }
    match &conversion.damage {
        Some(damage) => {
            eprintln!("convert: {name}: {damage}; everything that could be read is converted");
            FAILED
        }
        None => 0,
    }
}
