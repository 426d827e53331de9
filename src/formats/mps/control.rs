//! The environment: `MPS_TELEMETRY_CONTROL` says what is written, `MPS_TELEMETRY_FILENAME` where to.
//!
//! The MPS obeys both in every program that it is linked to. Here a program says whether it wants to: the command does, the
//! examples do by [`WorldBuilder::trace_from_environment`], and everybody else can.

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::OnceLock;

use super::trace::{Options, Trace};
use crate::WorldBuilder;
use crate::events::Categories;
use crate::events::filter::{Filter, UnknownWord};
use crate::formats::TraceError;

/// Says which categories are written: a number, or words. Not set, or 0: no stream.
pub const CONTROL_VARIABLE: &str = "MPS_TELEMETRY_CONTROL";
/// Names the file.
pub const FILE_VARIABLE: &str = "MPS_TELEMETRY_FILENAME";
/// The file if none is named.
pub const DEFAULT_FILE: &str = "mpsio.log";

/// What the environment asks for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Environment {
    /// What is to be written; `None` if the variable is not set.
    pub categories: Option<Categories>,
    /// The words of it that name nothing.
    pub unknown: Vec<UnknownWord>,
    /// Where to.
    pub file: Option<PathBuf>,
}

impl Environment {
    /// The environment of this process.
    pub fn read() -> Environment {
        Environment::of(std::env::var_os(CONTROL_VARIABLE), std::env::var_os(FILE_VARIABLE))
    }

    /// What these values of the two variables ask for.
    pub fn of(control: Option<OsString>, file: Option<OsString>) -> Environment {
        let filter = control.map(|value| Filter::parse(&value.to_string_lossy()));
        Environment {
            categories: filter.as_ref().map(|filter| filter.categories),
            unknown: filter.map_or(Vec::new(), |filter| filter.unknown),
            file: file.filter(|name| !name.is_empty()).map(PathBuf::from),
        }
    }

    /// The file that is named, or the default one.
    pub fn file(&self) -> PathBuf {
        self.file.clone().unwrap_or_else(|| DEFAULT_FILE.into())
    }
}

impl Trace {
    /// The trace that the environment asks for, one for the whole process. `None` if it asks for none. Its words that name nothing,
    /// and the failure of its file, are told on standard error: who set the variables looks there.
    ///
    /// # Errors
    /// Recording is not possible here.
    pub fn from_environment() -> Result<Option<Trace>, TraceError> {
        static OF_THE_PROCESS: OnceLock<Option<Trace>> = OnceLock::new();
        if let Some(trace) = OF_THE_PROCESS.get() {
            return Ok(trace.clone());
        }
        let environment = Environment::read();
        environment.unknown.iter().for_each(|word| eprintln!("stopworld: {CONTROL_VARIABLE}: {word}"));
        let trace = match environment.categories {
            Some(categories) if categories != Categories::NONE => {
                Some(Options::new(environment.file(), categories).tell_failures(FILE_VARIABLE).start()?)
            }
            _ => None,
        };
        Ok(OF_THE_PROCESS.get_or_init(|| trace).clone())
    }
}

impl WorldBuilder {
    /// Lets the world's events go to the stream that the environment asks for, if it does: see [`Trace::from_environment`].
    ///
    /// # Errors
    /// Recording is not possible here.
    pub fn trace_from_environment(self) -> Result<Self, TraceError> {
        Ok(match Trace::from_environment()? {
            Some(trace) => self.traced_by(&trace),
            None => self,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    #[rstest]
    #[case(None, None, None, "mpsio.log")]
    #[case(Some("Arena Pool Trace"), Some("t.mps"), Some(7), "t.mps")]
    #[case(Some("0"), Some(""), Some(0), "mpsio.log")]
    #[case(Some("all"), None, Some(u64::MAX), "mpsio.log")]
    fn the_environment_says_what_and_where(
        #[case] control: Option<&str>,
        #[case] file: Option<&str>,
        #[case] categories: Option<u64>,
        #[case] path: &str,
    ) {
        let environment = Environment::of(control.map(OsString::from), file.map(OsString::from));
        assert_eq!(environment.categories, categories.map(Categories));
        assert_eq!(environment.file(), PathBuf::from(path));
        assert_eq!(environment.unknown, []);
    }
}
