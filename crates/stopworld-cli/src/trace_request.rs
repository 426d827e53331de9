//! Determines from the arguments of a run which trace to write: the format, and the events in the terms of that format.
//!
//! `--format`, or the extension of the file, selects an entry of the list of formats, which parses `--events`. Two formats have more:
//! the providers of a .nettrace are also selected by `--providers`, in dotnet-trace's syntax, and a telemetry stream also by the
//! environment variables of the Memory Pool System's own programs (in `tracing`).
//!
//! An eventlog, a profile file (.hp or .prof) and the provider `stopworld` of a .nettrace can contain a profile. The other
//! formats can't represent one, so the combination is refused.

use std::ffi::OsStr;

use super::alloc_stacks::AllocStacks;
use super::arguments::Settings;
use super::atomic_output::is_same_file;
use super::exit::Failure;
use super::format;
use super::profiling::Profiling;
use stopworld::events::EventId;
use stopworld::profile::allocations::AllocationSampling;
use stopworld_trace::mps::control::DEFAULT_FILE;
use stopworld_trace::nettrace::{Nettrace, Providers};
use stopworld_trace::{Profiles, Selected, TraceFormat};

/// The error if there is no trace, or its format can't contain a profile.
const NO_PLACE_FOR_HEAP: &str = "--profile: name the file with --trace FILE.eventlog or FILE.hp";
const NO_PLACE_FOR_TIME: &str = "--time-profile: name the file with --trace FILE.eventlog or FILE.prof";
/// The error if a .nettrace lacks the provider whose events contain the profile.
const NO_PROVIDER_FOR_HEAP: &str = "--profile: a .nettrace has the profile in the events of the provider stopworld: add --providers \
    stopworld:0x40, or name the file with --trace FILE.eventlog or FILE.hp";
const NO_PROVIDER_FOR_TIME: &str = "--time-profile: a .nettrace has the profile in the events of the provider stopworld: add \
    --providers stopworld:0x40, or name the file with --trace FILE.eventlog or FILE.prof";

/// Refuses two outputs with one name: the later one would replace the other. Refuses a trace on standard output, where the program prints.
fn check_outputs(settings: &Settings) -> Result<(), Failure> {
    if settings.trace.as_deref().is_some_and(|trace| trace.as_os_str() == "-") {
        return Err(usage(
            "--trace -: standard output has what the program prints: name a file, or a named pipe (mkfifo)".to_owned(),
        ));
    }
    let allocations = settings.alloc_stacks.alloc_stacks.as_ref().map(AllocStacks::path);
    let outputs = [
        ("--trace", settings.trace.as_deref()),
        ("--snapshot", settings.snapshot.as_deref()),
        ("--alloc-stacks", allocations),
    ];
    let mut named = outputs.iter().filter_map(|(option, path)| path.map(|path| (option, path)));
    while let Some((option, path)) = named.next() {
        if let Some((other, same)) = named.clone().find(|(_, other)| is_same_file(path, other)) {
            return Err(usage(format!("{other} {}: {option} writes this file, too: name another one", same.display())));
        }
    }
    Ok(())
}

/// The trace to write.
#[derive(Debug)]
pub(super) struct TraceRequest {
    /// The format with the events.
    pub(super) selected: Selected,
    /// Whether the events are the default.
    pub(super) by_default: bool,
    /// How the world samples its allocations, for the trace or for another purpose.
    pub(super) sampling: Option<AllocationSampling>,
}

impl TraceRequest {
    /// Returns the trace that the arguments request, or a usage error if they contradict each other.
    pub(super) fn by(settings: &Settings) -> Result<TraceRequest, Failure> {
        check_outputs(settings)?;
        settings.profiling.check().map_err(usage)?;
        let format = format_of(settings)?;
        check_profiles(settings, format)?;
        // A telemetry stream may be requested by the environment, which also names its file.
        if settings.trace.is_none() && !std::ptr::eq(format, stream()) {
            return Err(usage(format!("--format: name the file with --trace {}", format.file)));
        }
        if format.is_profile() && (settings.events.is_some() || settings.flight_recorder.is_some()) {
            let why = "it contains only the profile, so it takes neither --events nor --flight-recorder";
            return Err(usage(format!("--trace {}: {why}: name a FILE.eventlog instead", format.file)));
        }
        let mut selected = match &settings.events {
            Some(events) => events.of(format).map_err(|error| usage(format!("--events: {error}")))?,
            None => format.usual_events(),
        };
        match selected.settings::<Nettrace>() {
            Some(nettrace) => select_providers(settings, &mut nettrace.providers)?,
            None if settings.providers.is_some() => {
                let why = "only a .nettrace has providers: name a FILE.nettrace with --trace";
                return Err(usage(format!("--providers: {why}")));
            }
            None => {}
        }
        let nettrace = selected.settings::<Nettrace>();
        let is_traced = nettrace.is_some_and(|nettrace| nettrace.providers.wants_allocation_samples());
        let sampling = settings.alloc_stacks.sampling(is_traced, settings.diagnostics)?;
        Ok(TraceRequest { selected, by_default: settings.events.is_none(), sampling })
    }
}

/// Returns the format given by `--format`, or else by the extension of the trace file. A file without an extension (a
/// device, a pipe) is a telemetry stream, and so is the Memory Pool System's default file, `mpsio.log`.
fn format_of(settings: &Settings) -> Result<&'static TraceFormat, Failure> {
    if let Some(format) = settings.format {
        return Ok(format);
    }
    let Some(file) = settings.trace.as_deref() else { return Ok(stream()) };
    let is_stream = file.extension().is_none() || file.file_name() == Some(OsStr::new(DEFAULT_FILE));
    match TraceFormat::by_extension(file) {
        Some(format) => Ok(format),
        None if is_stream => Ok(stream()),
        None => Err(usage(format!(
            "--trace {}: unknown extension: end the name in {}, or add --format",
            file.display(),
            format::extensions(|_| true)
        ))),
    }
}

/// Returns the telemetry stream: the format of a trace that nothing else selects.
fn stream() -> &'static TraceFormat {
    TraceFormat::by_name("mps").expect("the list of formats has it")
}

/// Refuses a profile that the format can't contain, and a format of profiles without its profile. Whether a .nettrace contains
/// the profile is checked once its providers are known.
fn check_profiles(settings: &Settings, format: &TraceFormat) -> Result<(), Failure> {
    let Profiling { profile, time_profile, .. } = &settings.profiling;
    if profile.is_some() && !matches!(format.profiles, Profiles::Both | Profiles::OnlyHeap) {
        return Err(usage(NO_PLACE_FOR_HEAP.to_owned()));
    }
    if time_profile.is_some() && !matches!(format.profiles, Profiles::Both | Profiles::OnlyTime) {
        return Err(usage(NO_PLACE_FOR_TIME.to_owned()));
    }
    let (is_asked, option) = match format.profiles {
        Profiles::OnlyHeap => (profile.is_some(), "--profile"),
        Profiles::OnlyTime => (time_profile.is_some(), "--time-profile"),
        Profiles::None | Profiles::Both => return Ok(()),
    };
    if settings.trace.is_some() && !is_asked {
        return Err(usage(format!("--trace {}: there is nothing to write without {option}", format.file)));
    }
    Ok(())
}

/// Adds the providers of `--providers`, or replaces the default by them, and checks that the requested profiles have a provider.
fn select_providers(settings: &Settings, providers: &mut Providers) -> Result<(), Failure> {
    match (&settings.providers, &settings.events) {
        (Some(more), Some(_)) => providers.requests.extend(more.requests.iter().cloned()),
        (Some(instead), None) => *providers = instead.clone(),
        // The samples are taken in any case.
        (None, None) if settings.alloc_stacks.alloc_stacks.is_some() => *providers = Providers::with_allocations(),
        (None, _) => {}
    }
    let Profiling { profile, time_profile, .. } = &settings.profiling;
    if profile.is_some() && !providers.wants_own(EventId::CensusBand) {
        return Err(usage(NO_PROVIDER_FOR_HEAP.to_owned()));
    }
    if time_profile.is_some() && !providers.wants_own(EventId::Tick) {
        return Err(usage(NO_PROVIDER_FOR_TIME.to_owned()));
    }
    providers.rundown = true;
    Ok(())
}

fn usage(line: String) -> Failure {
    Failure::Usage(line)
}
