//! Which trace the arguments of a run ask for: the format, and what is in it in that format's own words.
//!
//! | format | `--events` | what else |
//! |---|---|---|
//! | mps | categories: `Arena Pool Trace`, or a number | the environment, as the Memory Pool System's own programs read it |
//! | nettrace, nettrace6 | keywords and a level: `GC+GCHandle@Verbose` | `--providers`, as dotnet-trace takes it |
//! | eventlog | classes, as behind GHC's `-l`: `gu`, `-s` | |

use std::ffi::OsStr;
use std::path::Path;

use clap::ValueEnum;

use super::Failure;
use super::arguments::Settings;
use crate::events::Categories;
use crate::events::filter::Filter;
use crate::formats::eventlog::write::Classes;
use crate::formats::nettrace::write::{Container, Providers};

/// The values of `--format`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Format {
    /// A telemetry stream of the Memory Pool System
    Mps,
    /// A trace as .NET writes it, for PerfView and dotnet-trace
    Nettrace,
    /// The same in the newer container
    Nettrace6,
    /// A log as GHC's runtime writes it, for ThreadScope, ghc-events and eventlog2html
    Eventlog,
}

impl Format {
    /// The format that a file's name says, or the one that is asked for.
    fn of(settings: &Settings) -> Format {
        let extension = settings.trace.as_deref().and_then(Path::extension).and_then(OsStr::to_str);
        settings.format.unwrap_or(match extension {
            Some("nettrace") => Format::Nettrace,
            Some("eventlog") => Format::Eventlog,
            _ => Format::Mps,
        })
    }
}

/// What `--events` says, in each format's words.
#[derive(Clone, Debug)]
pub(super) struct Wanted {
    categories: Result<Categories, String>,
    keywords: Result<Providers, String>,
    classes: Result<Classes, String>,
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
        let classes = Classes::parse(text).map_err(|error| error.to_string());
        match (&categories, &keywords, &classes) {
            (Err(_), Err(error), Err(_)) if text.contains('@') => Err(error.clone()),
            (Err(of_mps), Err(of_net), Err(_)) => Err(format!("{of_mps}; for a .nettrace, {of_net}")),
            _ => Ok(Wanted { categories, keywords, classes }),
        }
    }
}

/// What is to be written.
#[derive(Clone, Debug)]
pub(super) enum Asked {
    /// In the Memory Pool System's format; the categories if they are named.
    Mps(Option<Categories>),
    /// In .NET's.
    Nettrace(Container, Providers),
    /// In GHC's.
    Eventlog(Classes),
}

impl Asked {
    /// What the arguments say, if they fit together.
    pub(super) fn by(settings: &Settings) -> Result<Asked, Failure> {
        match Format::of(settings) {
            Format::Mps => Asked::mps(settings),
            Format::Nettrace => Asked::nettrace(settings, Container::V4),
            Format::Nettrace6 => Asked::nettrace(settings, Container::V6),
            Format::Eventlog => Asked::eventlog(settings),
        }
    }

    fn mps(settings: &Settings) -> Result<Asked, Failure> {
        without_providers(settings)?;
        match settings.events.as_ref().map(|wanted| wanted.categories.clone()).transpose() {
            Ok(categories) => Ok(Asked::Mps(categories)),
            Err(error) => Err(usage(format!("--events: {error}; .NET's keywords want a FILE.nettrace"))),
        }
    }

    fn eventlog(settings: &Settings) -> Result<Asked, Failure> {
        without_providers(settings)?;
        if settings.trace.is_none() {
            return Err(usage("--format: name the file with --trace FILE.eventlog".to_owned()));
        }
        let classes = settings.events.as_ref().map(|wanted| wanted.classes.clone()).transpose();
        let classes = classes.map_err(|error| usage(format!("--events: {error}")))?;
        Ok(Asked::Eventlog(classes.unwrap_or_default()))
    }

    fn nettrace(settings: &Settings, container: Container) -> Result<Asked, Failure> {
        if settings.trace.is_none() {
            return Err(usage("--format: name the file with --trace FILE.nettrace".to_owned()));
        }
        let by_keywords = settings.events.as_ref().map(|wanted| wanted.keywords.clone()).transpose();
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
}

fn usage(line: String) -> Failure {
    Failure::Usage(line)
}

fn without_providers(settings: &Settings) -> Result<(), Failure> {
    match settings.providers {
        None => Ok(()),
        Some(_) => Err(usage("--providers: only .NET's format has them: name a FILE.nettrace".to_owned())),
    }
}
