//! The values of `--format` and `--events`.

use std::path::Path;

use clap::ValueEnum;
use clap::builder::{PossibleValuesParser, TypedValueParser};

use stopworld::events::filter::Filter;
use stopworld::events::{Categories, EventId, EventSet, Group};
use stopworld_platform::suggest;
use stopworld_trace::eventlog::Classes;
use stopworld_trace::nettrace::Providers;

/// The values of `--format`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Format {
    /// A Memory Pool System telemetry stream
    Mps,
    /// A .NET trace, for PerfView and dotnet-trace
    Nettrace,
    /// A .NET trace in the newer container, version 6
    Nettrace6,
    /// A timeline for Perfetto and Chrome
    Json,
    /// A GHC eventlog, for ThreadScope, ghc-events and eventlog2html
    Eventlog,
    /// The heap profile as text, for hp2ps
    Hp,
    /// The time profile as text
    Prof,
}

impl Format {
    /// Parses the formats that `convert` writes. (Only a run writes eventlogs and profiles.)
    pub(super) fn of_events() -> impl TypedValueParser<Value = Format> {
        let formats = [Format::Mps, Format::Nettrace, Format::Nettrace6, Format::Json];
        PossibleValuesParser::new(formats.iter().filter_map(ValueEnum::to_possible_value))
            .try_map(|name| <Format as ValueEnum>::from_str(&name, false))
    }

    /// Returns the format that the extension of a file selects, if any.
    pub(super) fn by_name(path: &Path) -> Option<Format> {
        match path.extension()?.to_str()? {
            "mps" => Some(Format::Mps),
            "nettrace" => Some(Format::Nettrace),
            "eventlog" => Some(Format::Eventlog),
            "hp" => Some(Format::Hp),
            "prof" => Some(Format::Prof),
            "json" => Some(Format::Json),
            _ => None,
        }
    }
}

/// The value of `--events`, parsed once for each format.
#[derive(Clone, Debug)]
pub(super) struct Wanted {
    pub(super) categories: Result<Categories, String>,
    pub(super) keywords: Result<Providers, String>,
    pub(super) groups: Result<EventSet, String>,
    pub(super) classes: Result<Classes, String>,
}

impl Wanted {
    /// Parses a value that is valid for at least one format.
    pub(super) fn parse(text: &str) -> Result<Wanted, String> {
        let filter = Filter::parse(text);
        let categories = match filter.unknown.first() {
            Some(word) => Err(word.to_string()),
            None => Ok(filter.categories),
        };
        let keywords = Providers::parse_keywords(text).map_err(|error| error.to_string());
        let classes = Classes::parse(text).map_err(|error| error.to_string());
        let groups = groups(text);
        match (&categories, &keywords, &classes, &groups) {
            (Err(_), Err(error), Err(_), Err(_)) if text.contains('@') => Err(error.clone()),
            (Err(of_mps), Err(of_net), Err(of_log), Err(of_groups)) => Err(format!(
                "{of_mps}; for a .nettrace, {of_net}; for an .eventlog, {of_log}; for a timeline, {of_groups}"
            )),
            _ => Ok(Wanted { categories, keywords, classes, groups }),
        }
    }
}

/// Returns the events of these groups of the table. Heap dumps are included only with `all`, because requesting their
/// events makes the collector dump the heap.
fn groups(text: &str) -> Result<EventSet, String> {
    let mut events = EventSet::NONE;
    let dumps: EventSet =
        [EventId::DumpNode, EventId::DumpEdge, EventId::DumpRoot, EventId::DumpEnd].into_iter().collect();
    for word in text.split([' ', ',', '+']).filter(|word| !word.is_empty()) {
        let named = |group: &&Group| format!("{group:?}").eq_ignore_ascii_case(word);
        match Group::ALL.iter().find(named) {
            Some(group) => events |= EventSet::group(*group).without(dumps),
            None if word.eq_ignore_ascii_case("all") => return Ok(EventSet::all()),
            None => {
                let names = Group::ALL.map(|group| format!("{group:?}"));
                let guess = suggest::nearest(word, names.iter().map(String::as_str));
                let guess = guess.map_or(String::new(), |name| format!(": did you mean '{name}'?"));
                return Err(format!("'{word}' is not one of the groups {}, or all{guess}", names.join(" ")));
            }
        }
    }
    Ok(events)
}
