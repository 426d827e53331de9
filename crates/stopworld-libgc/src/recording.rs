//! What the environment lets other programs see of the collector: a trace, the diagnostics socket, a heap profile.
//!
//! | variable | effect |
//! |---|---|
//! | `STOPWORLD_TRACE=FILE` | writes a trace; `%p` in the name stands for the process id. The extension selects the format, as for the command `stopworld` |
//! | `STOPWORLD_TRACE_FORMAT=NAME` | selects the format by name |
//! | `STOPWORLD_TRACE_EVENTS=EVENTS` | selects the events, in the terms of the format |
//! | `STOPWORLD_DIAGNOSTICS=1` | opens the .NET diagnostics socket |
//! | `STOPWORLD_CALL_SITES=1` | charges each object to the place in the program that allocated it |
//! | `STOPWORLD_PROFILE=LETTERS` | takes a heap profile into the trace: `hy` by kind, `hc` by call site, `hr` by retainer, and the others of GHC |
//!
//! A wrong value is an error of the user who wanted to see something: it ends the process at once, with one line.

use std::env;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use stopworld::profile::census::{Breakdown, HeapProfile};
use stopworld::{Charging, WorldBuilder};
use stopworld_diagnostics::Diagnostics;
use stopworld_trace::{FORMATS, OutputOptions, Profiles, RunningTrace, TraceFormat, report_failure};

use crate::os::at_exit;
use crate::print;

/// The trace of the process. It is finished when the process exits.
static TRACE: OnceLock<Arc<dyn RunningTrace>> = OnceLock::new();
/// The open socket, which lives as long as the process.
static DIAGNOSTICS: OnceLock<Diagnostics> = OnceLock::new();

/// Ends the process because of a variable's value.
fn refuse(variable: &str, value: &str, reason: &str) -> ! {
    print::refuse(&format!("{variable}={value} in the environment: {reason}"))
}

fn text_of(variable: &str) -> Option<String> {
    env::var(variable).ok().filter(|text| !text.is_empty())
}

/// Whether allocations are charged to the places that call them.
pub(crate) fn has_call_sites() -> bool {
    env::var_os("STOPWORLD_CALL_SITES").is_some_and(|value| value != "0" && !value.is_empty())
}

/// Returns the format of the trace.
fn format_of(file: &str) -> &'static TraceFormat {
    if let Some(name) = text_of("STOPWORLD_TRACE_FORMAT") {
        return TraceFormat::by_name(&name).unwrap_or_else(|| {
            let names: Vec<_> = FORMATS.iter().map(|format| format.name).collect();
            refuse("STOPWORLD_TRACE_FORMAT", &name, &format!("the formats are {}", names.join(", ")))
        });
    }
    TraceFormat::by_extension(Path::new(file)).unwrap_or_else(|| {
        let names: Vec<_> = FORMATS.iter().filter_map(|format| format.extension).collect();
        let advice = format!("end the name in one of .{}, or set STOPWORLD_TRACE_FORMAT", names.join(", ."));
        refuse("STOPWORLD_TRACE", file, &advice)
    })
}

/// Returns the heap profile that the environment requests, for a trace of this format.
fn profile_of(format: Option<&'static TraceFormat>) -> Option<HeapProfile> {
    let has_place = format.is_some_and(|format| matches!(format.profiles, Profiles::Both | Profiles::OnlyHeap));
    if let Some(letters) = text_of("STOPWORLD_PROFILE") {
        let Some(breakdown) = Breakdown::from_option(&letters) else {
            let options: Vec<_> = Breakdown::ALL.iter().map(|breakdown| breakdown.option()).collect();
            refuse("STOPWORLD_PROFILE", &letters, &format!("the profiles are {}", options.join(", ")))
        };
        if !has_place {
            refuse("STOPWORLD_PROFILE", &letters, "set STOPWORLD_TRACE to a FILE.eventlog or FILE.hp for the profile");
        }
        let profile = HeapProfile::by(breakdown);
        if let Err(error) = profile.check() {
            refuse("STOPWORLD_PROFILE", &letters, &error.to_string());
        }
        return Some(profile);
    }
    let is_only_profile = format.is_some_and(TraceFormat::is_profile);
    match (has_call_sites(), is_only_profile) {
        (true, _) if has_place => Some(HeapProfile::by(Breakdown::CostCentre)),
        (false, true) => Some(HeapProfile::by(Breakdown::Type)),
        _ => None,
    }
}

/// Starts what the environment requests, and lets the world take part in it.
pub(crate) fn of_world(mut builder: WorldBuilder) -> WorldBuilder {
    let file = text_of("STOPWORLD_TRACE");
    let format = file.as_deref().map(format_of);
    if let (Some(file), Some(format)) = (&file, format) {
        builder = builder.record_to(&started(file, format));
    }
    if text_of("STOPWORLD_DIAGNOSTICS").is_some_and(|value| value != "0") {
        match Diagnostics::open() {
            Ok(diagnostics) => builder = builder.record_to(DIAGNOSTICS.get_or_init(|| diagnostics)),
            // As a .NET runtime does, the program goes on.
            Err(error) => print::warn(&format!("STOPWORLD_DIAGNOSTICS: {error}")),
        }
    }
    if has_call_sites() {
        builder = builder.charge_allocations(Charging::On);
    }
    match profile_of(format) {
        Some(profile) => builder.profile(profile),
        None => builder,
    }
}

fn started(file: &str, format: &'static TraceFormat) -> Arc<dyn RunningTrace> {
    let selected = match text_of("STOPWORLD_TRACE_EVENTS") {
        Some(events) if format.events.is_none() => {
            refuse("STOPWORLD_TRACE_EVENTS", &events, &format!("{} has no events to select", format.noun))
        }
        Some(events) => {
            format.parse_events(&events).unwrap_or_else(|error| refuse("STOPWORLD_TRACE_EVENTS", &events, &error))
        }
        None => format.usual_events(),
    };
    let path = PathBuf::from(file.replace("%p", &std::process::id().to_string()));
    let on_failure = |path: &_, error: &_| report_failure(path, error, "STOPWORLD_TRACE");
    let output = OutputOptions { on_failure: Some(on_failure), ..OutputOptions::default() };
    let trace = match selected.start(path, output) {
        Ok(trace) => TRACE.get_or_init(|| trace).clone(),
        Err(error) => refuse("STOPWORLD_TRACE", file, &error.to_string()),
    };
    if at_exit(finish).is_err() {
        refuse(
            "STOPWORLD_TRACE",
            file,
            "the system has no memory for the function that finishes the trace at the exit",
        );
    }
    trace
}

/// Finishes the trace when the process exits.
extern "C" fn finish() {
    let Some(trace) = TRACE.get() else { return };
    if let Ok(finished) = trace.finish()
        && finished.error.is_none()
        && !finished.is_complete()
    {
        let (dropped, fired) = (finished.totals.dropped, finished.totals.fired);
        print::log(&format!(
            "stopworld libgc: STOPWORLD_TRACE: {dropped} of {fired} events were dropped because the buffers were full: request \
             fewer events with STOPWORLD_TRACE_EVENTS\n"
        ));
    }
}
