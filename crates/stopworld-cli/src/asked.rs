//! Determines from the arguments of a run which trace to write: the format, and the events in the terms of that format.
//!
//! | format | `--events` | other inputs |
//! |---|---|---|
//! | mps | categories: `Arena Pool Trace`, or a number | the environment variables of the Memory Pool System's own programs |
//! | nettrace, nettrace6 | keywords and a level: `GC+GCHandle@Verbose` | `--providers`, in dotnet-trace's syntax |
//! | json | groups of the table of events: `Collection Memory` | |
//! | eventlog | classes, in the letters of GHC's `-l`: `gu`, `-s` | |
//! | hp, prof | | `--profile`, `--time-profile`: required, because these files contain only the profile |
//!
//! An eventlog, a profile file (.hp or .prof) and the provider `stopworld` of a .nettrace can contain a profile. The other
//! formats can't represent one, so the combination is refused.

use std::ffi::OsStr;

use super::arguments::Settings;
use super::exit::Failure;
use super::format::Format;
use super::profiling::Profiling;
use stopworld::events::{Categories, EventId, EventSet};
use stopworld_trace::eventlog::Classes;
use stopworld_trace::mps::control::DEFAULT_FILE;
use stopworld_trace::nettrace::{Container, Providers};
use stopworld_trace::profile_text::Kind;

/// Returns the format given by `--format`, or else by the extension of the trace file. A file without an extension (a
/// device, a pipe) is a telemetry stream, and so is the Memory Pool System's default file, `mpsio.log`.
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

/// The error if there is no trace, or its format can't contain a profile.
const NO_PLACE_FOR_HEAP: &str = "--profile: name the file with --trace FILE.eventlog or FILE.hp";
const NO_PLACE_FOR_TIME: &str = "--time-profile: name the file with --trace FILE.eventlog or FILE.prof";
/// The error if a .nettrace lacks the provider whose events contain the profile.
const NO_PROVIDER_FOR_HEAP: &str = "--profile: a .nettrace has the profile in the events of the provider stopworld: add --providers \
    stopworld:0x40, or name the file with --trace FILE.eventlog or FILE.hp";
const NO_PROVIDER_FOR_TIME: &str = "--time-profile: a .nettrace has the profile in the events of the provider stopworld: add \
    --providers stopworld:0x40, or name the file with --trace FILE.eventlog or FILE.prof";

/// The trace to write.
#[derive(Clone, Debug)]
pub(super) enum Asked {
    /// A Memory Pool System telemetry stream, with the categories if `--events` names them.
    Mps(Option<Categories>),
    /// A .nettrace.
    Nettrace(Container, Providers),
    /// A timeline, with the events if `--events` names them.
    Json(Option<EventSet>),
    /// A GHC eventlog.
    Eventlog(Classes),
    /// A profile as text.
    Profile(Kind),
}

impl Asked {
    /// Returns the trace that the arguments request, or a usage error if they contradict each other.
    pub(super) fn by(settings: &Settings) -> Result<Asked, Failure> {
        settings.profiling.check().map_err(usage)?;
        let format = format_of(settings)?;
        let Profiling { profile, time_profile, .. } = &settings.profiling;
        // Whether a .nettrace contains the profile is checked once its providers are known.
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
            Err(error) => Err(usage(format!("--events: {error}; .NET keywords need --trace FILE.nettrace"))),
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
            let why = "it contains only the profile, so it takes neither --events nor --flight-recorder";
            return Err(usage(format!("--trace {file}: {why}: name a FILE.eventlog instead")));
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
        Some(_) => {
            Err(usage("--providers: only a .nettrace has providers: name a FILE.nettrace with --trace".to_owned()))
        }
    }
}
