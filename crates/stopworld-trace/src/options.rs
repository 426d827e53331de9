//! The options of a trace, in any format.

use std::fmt;
use std::path::PathBuf;

use super::failure::FailureReport;
use super::format::Format;
use super::target::{OutputFile, Target};
use super::trace::Trace;
use super::trace_error::TraceError;
use super::trace_output::Destination;
use stopworld::events::record::{FlightRecorder, Policy};

/// Options of a trace. Each format has a constructor, and methods for its own settings.
pub struct Options<F: Format> {
    to: To,
    settings: F::Settings,
    policy: Policy,
    flight_bytes: Option<usize>,
    on_failure: Option<FailureReport>,
}

#[derive(Debug)]
enum To {
    File(PathBuf),
    Destination(Box<dyn Destination>),
}

impl<F: Format> Options<F> {
    pub(super) fn with_file(path: PathBuf, settings: F::Settings) -> Options<F> {
        Options::with(To::File(path), settings)
    }

    pub(super) fn with_destination(destination: Box<dyn Destination>, settings: F::Settings) -> Options<F> {
        Options::with(To::Destination(destination), settings)
    }

    fn with(to: To, settings: F::Settings) -> Options<F> {
        Options { to, settings, policy: Policy::Lossless, flight_bytes: None, on_failure: None }
    }

    pub(super) fn set(mut self, set: impl FnOnce(&mut F::Settings)) -> Options<F> {
        set(&mut self.settings);
        self
    }

    /// Keeps the last `bytes` bytes of records in memory; [`Trace::write_flight`] writes them to the file.
    #[must_use]
    pub fn flight_recorder(self, bytes: usize) -> Options<F> {
        Options { flight_bytes: Some(bytes), ..self }
    }

    /// Sets what happens when the writer is too slow: threads wait (the default), or events are lost. A flight recorder never makes
    /// threads wait.
    #[must_use]
    pub fn policy(self, policy: Policy) -> Options<F> {
        Options { policy, ..self }
    }

    /// Calls `report` when the file fails. Without it the failure is reported only by [`Trace::flush`] and [`Trace::finish`].
    #[must_use]
    pub fn on_failure(self, report: FailureReport) -> Options<F> {
        Options { on_failure: Some(report), ..self }
    }

    /// Starts the trace, with no world yet. The file is created, or truncated, at the first write.
    ///
    /// # Errors
    /// The path is invalid, a flight recorder has no file, or the process cannot record events.
    pub fn start(self) -> Result<Trace<F>, TraceError> {
        let Options { to, settings, policy, flight_bytes, on_failure } = self;
        let target = match to {
            To::File(path) => Target::File(OutputFile::new(path, on_failure)?),
            To::Destination(_) if flight_bytes.is_some() => return Err(TraceError::FlightWithoutFile),
            To::Destination(destination) => Target::Destination(destination),
        };
        let file = match &target {
            Target::File(file) => Some(file.clone()),
            Target::Destination(_) => None,
        };
        let format = F::begin(settings, policy);
        match flight_bytes {
            Some(bytes) => Trace::start(format, Box::new(FlightRecorder::with_capacity(bytes)?), file, true),
            None => {
                let writer = format.writer(target)?;
                Trace::start(format, writer, file, false)
            }
        }
    }
}

impl<F: Format> fmt::Debug for Options<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options")
            .field("to", &self.to)
            .field("settings", &self.settings)
            .field("policy", &self.policy)
            .field("flight_bytes", &self.flight_bytes)
            .finish_non_exhaustive()
    }
}
