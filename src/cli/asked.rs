//! Which trace the arguments of a run ask for: the format, and what is in it in that format's own words.
//!
//! | format | `--events` | what else |
//! |---|---|---|
//! | mps | categories: `Arena Pool Trace`, or a number | the environment, as the Memory Pool System's own programs read it |
//! | nettrace, nettrace6 | keywords and a level: `GC+GCHandle@Verbose` | `--providers`, as dotnet-trace takes it |
//! | json | groups of the table of events: `Collection Memory` | |

use std::path::Path;

use clap::ValueEnum;

use super::Failure;
use super::arguments::Settings;
use crate::events::filter::Filter;
use crate::events::{Categories, EventId, EventSet, Group};
use crate::formats::nettrace::write::{Container, Providers};
use crate::suggest;

/// The values of `--format`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Format {
    /// A telemetry stream of the Memory Pool System
    Mps,
    /// A trace as .NET writes it, for PerfView and dotnet-trace
    Nettrace,
    /// The same in the newer container
    Nettrace6,
    /// A timeline for Perfetto and Chrome
    Json,
}

impl Format {
    /// The format that a file's name says, or the one that is asked for.
    fn of(settings: &Settings) -> Format {
        let named = settings.trace.as_deref().and_then(Format::by_name);
        settings.format.or(named).unwrap_or(Format::Mps)
    }

    /// The format that a file's name says, if it says one.
    pub(super) fn by_name(path: &Path) -> Option<Format> {
        match path.extension()?.to_str()? {
            "mps" => Some(Format::Mps),
            "nettrace" => Some(Format::Nettrace),
            "json" => Some(Format::Json),
            _ => None,
        }
    }

    fn container(self) -> Option<Container> {
        match self {
            Format::Mps | Format::Json => None,
            Format::Nettrace => Some(Container::V4),
            Format::Nettrace6 => Some(Container::V6),
        }
    }
}

/// What `--events` says, in each format's words.
#[derive(Clone, Debug)]
pub(super) struct Wanted {
    categories: Result<Categories, String>,
    keywords: Result<Providers, String>,
    groups: Result<EventSet, String>,
}

impl Wanted {
    /// Something that at least one format understands.
    pub(super) fn parse(text: &str) -> Result<Wanted, String> {
        let filter = Filter::parse(text);
        let categories = match filter.unknown.first() {
            Some(word) => Err(word.to_string()),
            None => Ok(filter.categories),
        };
        let keywords = Providers::parse_keywords(text).map_err(|error| error.to_string());
        let groups = groups(text);
        match (&categories, &keywords, &groups) {
            (Err(_), Err(error), Err(_)) if text.contains('@') => Err(error.clone()),
            (Err(of_mps), Err(of_net), Err(of_groups)) => {
                Err(format!("{of_mps}; for a .nettrace, {of_net}; for a timeline, {of_groups}"))
            }
            _ => Ok(Wanted { categories, keywords, groups }),
        }
    }
}

/// The events of these groups of the table. Heap dumps, which would be made for it, only if everything is asked for.
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
                return Err(format!("'{word}' is none of the groups {}, nor all{guess}", names.join(" ")));
            }
        }
    }
    Ok(events)
}

/// What is to be written.
#[derive(Clone, Debug)]
pub(super) enum Asked {
    /// In the Memory Pool System's format; the categories if they are named.
    Mps(Option<Categories>),
    /// In .NET's.
    Nettrace(Container, Providers),
    /// As a timeline; the events if they are named.
    Json(Option<EventSet>),
}

impl Asked {
    /// What the arguments say, if they fit together.
    pub(super) fn by(settings: &Settings) -> Result<Asked, Failure> {
        let usage = |line: String| Failure::Usage(line);
        let format = Format::of(settings);
        let wanted = settings.events.as_ref();
        if format == Format::Json {
            return Asked::timeline(settings, wanted);
        }
        let Some(container) = format.container() else {
            if settings.providers.is_some() {
                return Err(usage("--providers: only .NET's format has them: name a FILE.nettrace".to_owned()));
            }
            return match wanted.map(|wanted| wanted.categories.clone()).transpose() {
                Ok(categories) => Ok(Asked::Mps(categories)),
                Err(error) => Err(usage(format!("--events: {error}; .NET's keywords want a FILE.nettrace"))),
            };
        };
        if settings.trace.is_none() {
            return Err(usage("--format: name the file with --trace FILE.nettrace".to_owned()));
        }
        let by_keywords = wanted.map(|wanted| wanted.keywords.clone()).transpose();
        let by_keywords = by_keywords.map_err(|error| usage(format!("--events: {error}")))?;
        let mut providers = match (by_keywords, &settings.providers) {
            (Some(keywords), None) => keywords,
            (None, Some(providers)) => providers.clone(),
            (None, None) => Providers::default(),
            (Some(mut both), Some(providers)) => {
                both.requests.extend(providers.requests.iter().cloned());
                both
            }
        };
        providers.rundown = true;
        Ok(Asked::Nettrace(container, providers))
    }

    fn timeline(settings: &Settings, wanted: Option<&Wanted>) -> Result<Asked, Failure> {
        if settings.trace.is_none() {
            return Err(Failure::Usage("--format: name the file with --trace FILE.json".to_owned()));
        }
        if settings.providers.is_some() {
            return Err(Failure::Usage("--providers: only .NET's format has them: name a FILE.nettrace".to_owned()));
        }
        match wanted.map(|wanted| wanted.groups.clone()).transpose() {
            Ok(events) => Ok(Asked::Json(events)),
            Err(error) => Err(Failure::Usage(format!("--events: {error}"))),
        }
    }
}
