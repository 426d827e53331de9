//! Which trace the arguments of a run ask for: the format, and what is in it in that format's own words.
//!
//! | format | `--events` | what else |
//! |---|---|---|
//! | mps | categories: `Arena Pool Trace`, or a number | the environment, as the Memory Pool System's own programs read it |
//! | nettrace, nettrace6 | keywords and a level: `GC+GCHandle@Verbose` | `--providers`, as dotnet-trace takes it |
//! | json | groups of the table of events: `Collection Memory` | |
//! | eventlog | classes, as behind GHC's `-l`: `gu`, `-s` | |
//! | hp, prof | | `--profile`, `--time-profile`: without them there is nothing to write |
//!
//! A profile is in an eventlog, in the file of its own, and among the events of a .nettrace's provider `stopworld`; any other trace
//! has no place for it, and is refused.

use std::ffi::OsStr;

use super::arguments::Settings;
use super::exit::Failure;
use super::format::Format;
use super::profiling::Profiling;
use stopworld::events::{Categories, EventId, EventSet};
use stopworld::formats::eventlog::write::Classes;
use stopworld::formats::mps::control::DEFAULT_FILE;
use stopworld::formats::nettrace::write::{Container, Providers};
use stopworld::formats::profile_text::Kind;

/// The format given by `--format`, or else by the extension of the trace's file. A file without an extension (a device,
/// a pipe) is a telemetry stream, and so is the Memory Pool System's own `mpsio.log`.
fn format_of(settings: &Settings) -> Result<Format, Failure> {
    if let Some(format) = settings.format {
        return Ok(format);
    }
    let Some(file) = settings.trace.as_deref() else { return Ok(Format::Mps) };
    let is_stream = file.extension().is_none() || file.file_name() == Some(OsStr::new(DEFAULT_FILE));
    match Format::by_name(file) {
        Some(format) => Ok(format),
        None if is_stream => Ok(Format::Mps),
        None => Err(usage(format!(
            "--trace {}: unknown extension: end the name in .mps, .nettrace, .json, .eventlog, .hp or .prof, or add --format",
            file.display()
        ))),
    }
}

/// No trace, or one that has no place for a profile.
const NO_PLACE_FOR_HEAP: &str = "--profile: name the file with --trace FILE.eventlog or FILE.hp";
const NO_PLACE_FOR_TIME: &str = "--time-profile: name the file with --trace FILE.eventlog or FILE.prof";
/// A .nettrace without the provider whose events a profile is among.
const NO_PROVIDER_FOR_HEAP: &str = "--profile: a .nettrace has the profile in the events of the provider stopworld: add --providers \
    stopworld:0x40, or name the file with --trace FILE.eventlog or FILE.hp";
const NO_PROVIDER_FOR_TIME: &str = "--time-profile: a .nettrace has the profile in the events of the provider stopworld: add \
    --providers stopworld:0x40, or name the file with --trace FILE.eventlog or FILE.prof";

/// What is to be written.
#[derive(Clone, Debug)]
pub(super) enum Asked {
    /// In the Memory Pool System's format; the categories if they are named.
    Mps(Option<Categories>),
    /// In .NET's.
    Nettrace(Container, Providers),
    /// As a timeline; the events if they are named.
    Json(Option<EventSet>),
    /// In GHC's.
    Eventlog(Classes),
    /// A profile as text.
    Profile(Kind),
}

impl Asked {
    /// What the arguments say, if they fit together.
    pub(super) fn by(settings: &Settings) -> Result<Asked, Failure> {
        settings.profiling.check().map_err(usage)?;
        let format = format_of(settings)?;
        let Profiling { profile, time_profile, .. } = &settings.profiling;
        // What a .nettrace has is known when its providers are.
        let has_place = |format| matches!(format, Format::Eventlog | Format::Nettrace | Format::Nettrace6);
        if profile.is_some() && format != Format::Hp && !has_place(format) {
            return Err(usage(NO_PLACE_FOR_HEAP.to_owned()));
        }
        if time_profile.is_some() && format != Format::Prof && !has_place(format) {
            return Err(usage(NO_PLACE_FOR_TIME.to_owned()));
        }
        match format {
            Format::Hp => Asked::profile(settings, Kind::Heap),
            Format::Prof => Asked::profile(settings, Kind::Time),
            Format::Mps => Asked::mps(settings),
            Format::Nettrace => Asked::nettrace(settings, Container::V4),
            Format::Nettrace6 => Asked::nettrace(settings, Container::V6),
            Format::Eventlog => Asked::eventlog(settings),
            Format::Json => Asked::timeline(settings),
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

    fn profile(settings: &Settings, kind: Kind) -> Result<Asked, Failure> {
        without_providers(settings)?;
        let (is_asked, option, file) = match kind {
            Kind::Heap => (settings.profiling.profile.is_some(), "--profile", "FILE.hp"),
            Kind::Time => (settings.profiling.time_profile.is_some(), "--time-profile", "FILE.prof"),
        };
        if settings.trace.is_none() {
            return Err(usage(format!("--format: name the file with --trace {file}")));
        }
        if !is_asked {
            return Err(usage(format!("--trace {file}: there is nothing to write without {option}")));
        }
        if settings.events.is_some() || settings.flight_recorder.is_some() {
            let why = "it has the profile, and neither other events nor a flight recorder";
            return Err(usage(format!("--trace {file}: {why}: name a FILE.eventlog")));
        }
        Ok(Asked::Profile(kind))
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
        let Profiling { profile, time_profile, .. } = &settings.profiling;
        if profile.is_some() && !providers.wants_own(EventId::CensusBand) {
            return Err(usage(NO_PROVIDER_FOR_HEAP.to_owned()));
        }
        if time_profile.is_some() && !providers.wants_own(EventId::Tick) {
            return Err(usage(NO_PROVIDER_FOR_TIME.to_owned()));
        }
        providers.rundown = true;
        Ok(Asked::Nettrace(container, providers))
    }

    fn timeline(settings: &Settings) -> Result<Asked, Failure> {
        without_providers(settings)?;
        if settings.trace.is_none() {
            return Err(usage("--format: name the file with --trace FILE.json".to_owned()));
        }
        match settings.events.as_ref().map(|wanted| wanted.groups.clone()).transpose() {
            Ok(events) => Ok(Asked::Json(events)),
            Err(error) => Err(usage(format!("--events: {error}"))),
        }
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
