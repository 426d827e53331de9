//! The list of formats, from which a program makes its options, its help texts and its error messages.
//!
//! A program that lets its user choose a format finds it here by name or by the extension of the file, has it parse the user's
//! selection of events, and starts the trace: it needs no code of its own for each format. A new format is an implementation of
//! [`Format`] and an entry of [`FORMATS`].

use std::any::Any;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use super::eventlog::{self, Classes};
use super::failure::FailureReport;
use super::finished::Finished;
use super::format::Format;
use super::mps::{self, Telemetry};
use super::nettrace::{self, Container, Nettrace, Providers};
use super::options::Options;
use super::perfetto::{self, Timeline};
use super::profile_text::{Kind, Profile};
use super::trace::Trace;
use super::trace_error::TraceError;
use stopworld::RecordWorld;
use stopworld::events::Categories;
use stopworld::events::filter::Filter;
use stopworld::events::record::RecordError;

/// A format that a user can choose.
#[derive(Debug)]
pub struct TraceFormat {
    /// Its name as the value of an option.
    pub name: &'static str,
    /// The extension of a file name that selects it, without the dot.
    pub extension: Option<&'static str>,
    /// A description of the format, for a list of values.
    pub about: &'static str,
    /// A noun for a trace of this format, for use in a sentence: `a .nettrace`.
    pub noun: &'static str,
    /// An example of a file name.
    pub file: &'static str,
    /// The syntax of a selection of events, and the default; `None` if the format contains only a profile.
    pub events: Option<&'static str>,
    /// The profiles that it can contain.
    pub profiles: Profiles,
    default: fn() -> Selected,
    parse: fn(&str) -> Result<Selected, String>,
}

/// The profiles that a format can contain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Profiles {
    /// No profile.
    None,
    /// Heap profiles and time profiles, next to other events.
    Both,
    /// Only a heap profile, and nothing else.
    OnlyHeap,
    /// Only a time profile, and nothing else.
    OnlyTime,
}

/// All formats.
pub static FORMATS: [TraceFormat; 7] = [
    TraceFormat {
        name: "mps",
        extension: Some("mps"),
        about: "A Memory Pool System telemetry stream",
        noun: "a telemetry stream",
        file: "FILE.mps",
        events: Some(
            "a number, or categories out of Arena Pool Trace Seg Ref Object User, or all [default: MPS_TELEMETRY_CONTROL, else \
             all but Ref and Object, which have a record for each reference and each object]",
        ),
        profiles: Profiles::None,
        default: || Selected::of::<Telemetry>(mps::usual()),
        parse: |text| categories(text).map(Selected::of::<Telemetry>),
    },
    TraceFormat {
        name: "nettrace",
        extension: Some("nettrace"),
        about: "A .NET trace, for PerfView and dotnet-trace",
        noun: "a .nettrace",
        file: "FILE.nettrace",
        events: Some(
            "keywords and a level, such as GC+GCHandle@Verbose [default: GC@Informational; GC@Verbose with --alloc-stacks]",
        ),
        profiles: Profiles::Both,
        default: || providers(Providers::default(), Container::V4),
        parse: |text| keywords(text, Container::V4),
    },
    TraceFormat {
        name: "nettrace6",
        extension: None,
        about: "A .NET trace in the newer container, version 6",
        noun: "a .nettrace",
        file: "FILE.nettrace",
        events: Some(
            "keywords and a level, such as GC+GCHandle@Verbose [default: GC@Informational; GC@Verbose with --alloc-stacks]",
        ),
        profiles: Profiles::Both,
        default: || providers(Providers::default(), Container::V6),
        parse: |text| keywords(text, Container::V6),
    },
    TraceFormat {
        name: "json",
        extension: Some("json"),
        about: "A timeline for Perfetto and Chrome",
        noun: "a timeline",
        file: "FILE.json",
        events: Some(
            "groups out of World Collection Memory Object Block User Profile, or all, which includes heap dumps [default: events \
             per collection or thread, not per object or block]",
        ),
        profiles: Profiles::None,
        default: || Selected::of::<Timeline>(perfetto::usual()),
        parse: |text| perfetto::groups(text).map(Selected::of::<Timeline>),
    },
    TraceFormat {
        name: "eventlog",
        extension: Some("eventlog"),
        about: "A GHC eventlog, for ThreadScope, ghc-events and eventlog2html",
        noun: "an .eventlog",
        file: "FILE.eventlog",
        events: Some("the letters of GHC's -l: s threads, g collections, u messages, a all [default: a]"),
        profiles: Profiles::Both,
        default: || Selected::of::<eventlog::Eventlog>(Classes::default()),
        parse: |text| Classes::parse(text).map(Selected::of::<eventlog::Eventlog>).map_err(|error| error.to_string()),
    },
    TraceFormat {
        name: "hp",
        extension: Some("hp"),
        about: "The heap profile as text, for hp2ps",
        noun: "a heap profile",
        file: "FILE.hp",
        events: None,
        profiles: Profiles::OnlyHeap,
        default: || Selected::of::<Profile>(Kind::Heap),
        parse: |_| Err("a heap profile has no other events".to_owned()),
    },
    TraceFormat {
        name: "prof",
        extension: Some("prof"),
        about: "The time profile as text",
        noun: "a time profile",
        file: "FILE.prof",
        events: None,
        profiles: Profiles::OnlyTime,
        default: || Selected::of::<Profile>(Kind::Time),
        parse: |_| Err("a time profile has no other events".to_owned()),
    },
];

impl TraceFormat {
    /// Returns the format of this name.
    pub fn by_name(name: &str) -> Option<&'static TraceFormat> {
        FORMATS.iter().find(|format| format.name == name)
    }

    /// Returns the format that the extension of a file selects.
    pub fn by_extension(file: &Path) -> Option<&'static TraceFormat> {
        let extension = file.extension()?.to_str()?;
        FORMATS.iter().find(|format| format.extension == Some(extension))
    }

    /// Returns the default selection of events.
    pub fn usual_events(&self) -> Selected {
        (self.default)()
    }

    /// Parses a selection of events.
    ///
    /// # Errors
    /// A message with the wrong word and the words that are allowed.
    pub fn parse_events(&self, text: &str) -> Result<Selected, String> {
        (self.parse)(text)
    }

    /// Returns whether the format contains a profile and nothing else.
    pub fn is_profile(&self) -> bool {
        matches!(self.profiles, Profiles::OnlyHeap | Profiles::OnlyTime)
    }
}

fn categories(text: &str) -> Result<Categories, String> {
    let filter = Filter::parse(text);
    match filter.unknown.first() {
        Some(word) => Err(word.to_string()),
        None => Ok(filter.categories),
    }
}

fn providers(providers: Providers, container: Container) -> Selected {
    Selected::of::<Nettrace>(nettrace::Settings { providers, container })
}

fn keywords(text: &str, container: Container) -> Result<Selected, String> {
    let parsed = Providers::parse_keywords(text).map_err(|error| error.to_string())?;
    Ok(providers(parsed, container))
}

/// A format with its settings, from which a trace can be started.
#[derive(Debug)]
pub struct Selected(Box<dyn Start>);

/// Options that are the same in each format: see [`Options`].
#[derive(Clone, Copy, Debug, Default)]
pub struct OutputOptions {
    /// The size of the flight recorder in bytes, if the trace is one.
    pub flight_recorder: Option<usize>,
    /// Called when the file fails.
    pub on_failure: Option<FailureReport>,
}

impl Selected {
    /// Selects these settings of the format `F`.
    pub fn of<F: Format>(settings: F::Settings) -> Selected {
        Selected(Box::new(Settings::<F>(settings)))
    }

    /// Returns the settings if the format is `F`.
    pub fn settings<F: Format>(&mut self) -> Option<&mut F::Settings> {
        self.0.settings().downcast_mut()
    }

    /// Starts a trace that is written to this file, with no world yet.
    ///
    /// # Errors
    /// The errors of [`Options::start`].
    pub fn start(self, file: PathBuf, output: OutputOptions) -> Result<Arc<dyn RunningTrace>, TraceError> {
        self.0.start(file, output)
    }
}

struct Settings<F: Format>(F::Settings);

trait Start: fmt::Debug + Send + Sync {
    fn settings(&mut self) -> &mut dyn Any;

    fn start(self: Box<Self>, file: PathBuf, output: OutputOptions) -> Result<Arc<dyn RunningTrace>, TraceError>;
}

impl<F: Format> Start for Settings<F> {
    fn settings(&mut self) -> &mut dyn Any {
        &mut self.0
    }

    fn start(self: Box<Self>, file: PathBuf, output: OutputOptions) -> Result<Arc<dyn RunningTrace>, TraceError> {
        let mut options = Options::<F>::with_file(file, self.0);
        if let Some(bytes) = output.flight_recorder {
            options = options.flight_recorder(bytes);
        }
        if let Some(report) = output.on_failure {
            options = options.on_failure(report);
        }
        Ok(Arc::new(options.start()?))
    }
}

impl<F: Format> fmt::Debug for Settings<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A [`Trace`] of any format. The methods are those of `Trace`.
pub trait RunningTrace: RecordWorld + fmt::Debug + Send + Sync {
    /// See [`Trace::path`].
    fn path(&self) -> Option<&Path>;

    /// See [`Trace::flush`].
    ///
    /// # Errors
    /// The errors of `Trace::flush`.
    fn flush(&self) -> io::Result<()>;

    /// See [`Trace::write_flight`].
    ///
    /// # Errors
    /// There is no flight recorder, or the file failed.
    fn write_flight(&self) -> io::Result<u64>;

    /// See [`Trace::wait_for_worlds`].
    fn wait_for_worlds(&self, within: Duration);

    /// See [`Trace::finish`].
    ///
    /// # Errors
    /// The trace has ended already.
    fn finish(&self) -> Result<Finished, RecordError>;
}

impl<F: Format> RunningTrace for Trace<F> {
    fn path(&self) -> Option<&Path> {
        Trace::path(self)
    }

    fn flush(&self) -> io::Result<()> {
        Trace::flush(self)
    }

    fn write_flight(&self) -> io::Result<u64> {
        Trace::write_flight(self)
    }

    fn wait_for_worlds(&self, within: Duration) {
        Trace::wait_for_worlds(self, within);
    }

    fn finish(&self) -> Result<Finished, RecordError> {
        Trace::finish(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_format_is_found_by_its_name_and_by_its_extension() {
        for format in &FORMATS {
            assert!(std::ptr::eq(TraceFormat::by_name(format.name).unwrap(), format));
            if let Some(extension) = format.extension {
                let file = Path::new("t").with_extension(extension);
                assert!(std::ptr::eq(TraceFormat::by_extension(&file).unwrap(), format));
            }
            assert_eq!(format.events.is_none(), format.is_profile());
        }
    }

    #[test]
    fn every_selection_starts_a_trace_of_its_format() {
        let directory = tempfile::tempdir().unwrap();
        for format in &FORMATS {
            let file = directory.path().join(format.file);
            let trace = format.usual_events().start(file.clone(), OutputOptions::default()).unwrap();
            assert_eq!(trace.path(), Some(&*file));
            assert!(trace.finish().unwrap().is_complete(), "{}", format.name);
        }
    }

    #[test]
    fn the_settings_are_those_of_the_format_that_was_selected() {
        let mut selected = TraceFormat::by_name("nettrace6").unwrap().parse_events("GC@Verbose").unwrap();
        assert_eq!(selected.settings::<Nettrace>().unwrap().container, Container::V6);
        assert!(selected.settings::<Telemetry>().is_none());
    }
}
