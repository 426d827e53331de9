//! The environment variables: `MPS_TELEMETRY_CONTROL` selects what is written, `MPS_TELEMETRY_FILENAME` the file.
//!
//! The MPS reads both variables in every program that links it. With this library they have an effect only in programs that read them: the
//! `stopworld` command does, the examples do with [`Trace::from_environment`], and any other program can.

use std::ffi::{CStr, OsString};
use std::io;
use std::path::PathBuf;
use std::sync::Mutex;

use super::trace::{Options, Trace};
use crate::{TraceError, report_failure};
use stopworld::events::Categories;
use stopworld::events::filter::{Filter, UnknownWord};
use stopworld::events::record::locked;

/// The variable that selects the categories: a number, or words. If it is not set, or 0, no stream is written.
pub const CONTROL_VARIABLE: &str = "MPS_TELEMETRY_CONTROL";
/// The variable with the path of the file.
pub const FILE_VARIABLE: &str = "MPS_TELEMETRY_FILENAME";
/// The file used if [`FILE_VARIABLE`] is not set or empty.
pub const DEFAULT_FILE: &str = "mpsio.log";

/// The values of the two environment variables.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Environment {
    /// The categories to write; `None` if the variable is not set.
    pub categories: Option<Categories>,
    /// The words in [`CONTROL_VARIABLE`] that are not categories.
    pub unknown: Vec<UnknownWord>,
    /// The path of the file; `None` if the variable is not set or empty.
    pub file: Option<PathBuf>,
}

impl Environment {
    /// Reads the environment of this process.
    pub fn read() -> Environment {
        Environment::of(std::env::var_os(CONTROL_VARIABLE), std::env::var_os(FILE_VARIABLE))
    }

    /// Parses these values of the two variables.
    pub fn of(control: Option<OsString>, file: Option<OsString>) -> Environment {
        let filter = control.map(|value| Filter::parse(&value.to_string_lossy()));
        Environment {
            categories: filter.as_ref().map(|filter| filter.categories),
            unknown: filter.map_or(Vec::new(), |filter| filter.unknown),
            file: file.filter(|name| !name.is_empty()).map(PathBuf::from),
        }
    }

    /// Returns the path of the file, or [`DEFAULT_FILE`] if none is given.
    pub fn file(&self) -> PathBuf {
        self.file.clone().unwrap_or_else(|| DEFAULT_FILE.into())
    }
}

impl Trace {
    /// Returns the trace requested by the environment variables, one for the whole process, or `None` if they request none. Worlds
    /// are [recorded to](stopworld::WorldBuilder::record_to) the result, whether or not there is a trace. Unknown words in the variable and
    /// a failure of the file are reported on standard error, for the user who set the variables.
    ///
    /// # Errors
    /// The process cannot record events.
    pub fn from_environment() -> Result<Option<Trace>, TraceError> {
        static OF_THE_PROCESS: Mutex<Option<Option<Trace>>> = Mutex::new(None);
        // A second trace of the same file would overwrite the first one, so it must not even be started.
        locked(&OF_THE_PROCESS, |known| match known {
            Some(trace) => Ok(trace.clone()),
            None => Ok(known.insert(start(Environment::read())?).clone()),
        })
    }
}

/// Starts the trace that the variables request, if any.
fn start(environment: Environment) -> Result<Option<Trace>, TraceError> {
    environment.unknown.iter().for_each(|word| eprintln!("stopworld: {CONTROL_VARIABLE}: {word}"));
    match environment.categories {
        Some(categories) if categories != Categories::NONE => {
            Options::new(environment.file(), categories).on_failure(report).start().map(Some)
        }
        _ => Ok(None),
    }
}

fn report(file: &CStr, error: &io::Error) {
    report_failure(file, error, FILE_VARIABLE);
}

#[cfg(test)]
mod tests {
    use std::process::Command;
    use std::sync::Barrier;

    use super::*;
    use rstest::rstest;

    #[rstest]
    #[case(None, None, None, "mpsio.log")]
    #[case(Some("Arena Pool Trace"), Some("t.mps"), Some(7), "t.mps")]
    #[case(Some("0"), Some(""), Some(0), "mpsio.log")]
    #[case(Some("all"), None, Some(u64::MAX), "mpsio.log")]
    fn the_environment_selects_categories_and_file(
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

    /// The recorder has room for eight consumers only, so a thread that starts a trace of its own makes others fail.
    #[test]
    fn threads_that_request_the_trace_at_the_same_time_share_one() {
        const THREADS: usize = 32;
        if std::env::var_os(CONTROL_VARIABLE).is_none() {
            let directory = tempfile::tempdir().unwrap();
            let mut again = Command::new(std::env::current_exe().unwrap());
            let name = "mps::control::tests::threads_that_request_the_trace_at_the_same_time_share_one";
            again.args([name, "--exact", "--nocapture"]).env(CONTROL_VARIABLE, "all");
            let output = again.env(FILE_VARIABLE, directory.path().join("shared.mps")).output().unwrap();
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            return;
        }
        let together = Barrier::new(THREADS);
        let request = || {
            together.wait();
            Trace::from_environment().map(|trace| trace.is_some())
        };
        std::thread::scope(|scope| {
            let threads: Vec<_> = (0..THREADS).map(|_| scope.spawn(request)).collect();
            for thread in threads {
                assert!(thread.join().unwrap().unwrap(), "the environment requests a trace");
            }
        });
    }
}
