//! The values of `--format` and `--events`, and their help, from the list of formats.

use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use super::sqlite;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use nettrace::Container;
use stopworld_analysis::convert::Target;
use stopworld_parquet::Table;
use stopworld_trace::{FORMATS, Selected, TraceFormat};

/// Parses the name of a format out of those that `can_be` accepts.
pub(super) fn parser(can_be: fn(&TraceFormat) -> bool) -> impl TypedValueParser<Value = &'static TraceFormat> {
    let formats = FORMATS.iter().filter(move |format| can_be(format));
    PossibleValuesParser::new(formats.map(|format| PossibleValue::new(format.name).help(format.about)))
        .try_map(|name| TraceFormat::by_name(&name).ok_or("there is no such format"))
}

/// The format that `convert` writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ConvertFormat {
    /// A trace in one file.
    File(Target),
    /// A folder of Parquet files.
    Parquet,
    /// A database with the tables of mpseventsql.
    Sqlite,
}

/// The name of the format that is a dataset, and its extension.
const PARQUET: &str = "parquet";

/// Parses the name of a format that `convert` writes.
pub(super) fn conversion_parser() -> impl TypedValueParser<Value = ConvertFormat> {
    let formats = FORMATS.iter().filter(|format| can_convert_to(format));
    let parquet = PossibleValue::new(PARQUET).help("A folder of Parquet files, for DuckDB, Spark and others");
    let sqlite =
        PossibleValue::new(sqlite::EXTENSION).help("A database with the tables of mpseventsql, of a telemetry stream");
    let others = [parquet, sqlite];
    PossibleValuesParser::new(formats.map(|format| PossibleValue::new(format.name).help(format.about)).chain(others))
        .try_map(|name| conversion_format(&name).ok_or("there is no such format"))
}

fn conversion_format(name: &str) -> Option<ConvertFormat> {
    match name {
        PARQUET => Some(ConvertFormat::Parquet),
        sqlite::EXTENSION => Some(ConvertFormat::Sqlite),
        name => TraceFormat::by_name(name).and_then(conversion_target).map(ConvertFormat::File),
    }
}

/// Returns the format that the name of an output selects, if it is none of [`FORMATS`]: a dataset ends in `.parquet` or `/`, a database in `.sqlite`.
pub(super) fn named_format(output: &Path) -> Option<ConvertFormat> {
    match output.extension().and_then(|extension| extension.to_str()) {
        _ if output.as_os_str().as_bytes().ends_with(b"/") => Some(ConvertFormat::Parquet),
        Some(PARQUET) => Some(ConvertFormat::Parquet),
        Some(sqlite::EXTENSION) => Some(ConvertFormat::Sqlite),
        _ => None,
    }
}

/// Parses the name of a table.
pub(super) fn table_parser() -> impl TypedValueParser<Value = Table> {
    PossibleValuesParser::new(Table::ALL.map(Table::name))
        .try_map(|name| Table::ALL.into_iter().find(|table| table.name() == name).ok_or("there is no such table"))
}

/// Returns the formats that have a selection of events. Of several formats with the same selection, returns only one.
fn with_events() -> impl Iterator<Item = (&'static TraceFormat, &'static str)> {
    let with_events = FORMATS.iter().filter_map(|format| Some((format, format.events?)));
    with_events
        .scan(None, |last, (format, events)| {
            let is_new = last.replace(events) != Some(events);
            Some(is_new.then_some((format, events)))
        })
        .flatten()
}

/// Returns the help text of `--events`.
pub(super) fn events_help() -> String {
    with_events().fold("The events to record.".to_owned(), |help, (format, events)| {
        format!("{help} For {}: {events}.", format.noun)
    })
}

/// Returns the help text of `--trace`.
pub(super) fn trace_help() -> String {
    let named = FORMATS.iter().filter_map(|format| Some((format.extension?, format.about)));
    let named: Vec<String> = named.map(|(extension, about)| format!(".{extension} ({about})")).collect();
    format!(
        "Write a trace. The extension selects the format: {}. A file without an extension is a telemetry stream [default: no trace; \
         if --events or MPS_TELEMETRY_CONTROL requests a stream, MPS_TELEMETRY_FILENAME or mpsio.log]",
        named.join(", ")
    )
}

/// Returns the extensions that select a format: ".mps, .nettrace or .json".
pub(super) fn extensions(can_be: fn(&TraceFormat) -> bool) -> String {
    let formats = FORMATS.iter().filter(|format| can_be(format));
    let mut extensions: Vec<String> = formats.filter_map(|format| Some(format!(".{}", format.extension?))).collect();
    let last = extensions.pop().unwrap_or_default();
    format!("{} or {last}", extensions.join(", "))
}

/// The formats that `convert` writes. (Only a run writes eventlogs and profiles.)
const TARGETS: [(&str, Target); 4] = [
    ("mps", Target::Mps),
    ("nettrace", Target::Nettrace(Container::V4)),
    ("nettrace6", Target::Nettrace(Container::V6)),
    ("json", Target::Json),
];

/// Returns the target of a conversion to this format, if `convert` writes it.
pub(super) fn conversion_target(format: &TraceFormat) -> Option<Target> {
    TARGETS.iter().find(|(name, _)| *name == format.name).map(|(_, target)| *target)
}

/// Returns whether `convert` writes this format.
pub(super) fn can_convert_to(format: &TraceFormat) -> bool {
    conversion_target(format).is_some()
}

/// The value of `--events`: valid for at least one format.
#[derive(Clone, Debug)]
pub(super) struct EventsArgument(String);

impl EventsArgument {
    /// Parses a value that is valid for at least one format.
    pub(super) fn parse(text: &str) -> Result<EventsArgument, String> {
        let mut errors = Vec::new();
        for (format, _) in with_events() {
            match format.parse_events(text) {
                Ok(_) => return Ok(EventsArgument(text.to_owned())),
                Err(error) => errors.push((format, error)),
            }
        }
        // Only the keywords of a .nettrace have a level.
        if let Some((_, error)) = errors.iter().find(|(format, _)| text.contains('@') && format.name == "nettrace") {
            return Err(error.clone());
        }
        let named = errors.iter().enumerate().map(|(index, (format, error))| match index {
            0 => error.clone(),
            _ => format!("for {}, {error}", format.noun),
        });
        Err(named.collect::<Vec<_>>().join("; "))
    }

    /// Returns what the value selects in this format.
    pub(super) fn of(&self, format: &TraceFormat) -> Result<Selected, String> {
        format.parse_events(&self.0).map_err(|error| {
            let others = with_events().filter(|(other, _)| other.parse_events(&self.0).is_ok());
            let others: Vec<&str> = others.map(|(other, _)| other.file).collect();
            format!("{error}; the value is one for --trace {}", others.join(" or "))
        })
    }
}
