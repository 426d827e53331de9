//! The trace of a run: starts it as the options and the environment request, and writes it whatever ends the run.
//!
//! | end of the run | effect on the trace |
//! |---|---|
//! | the workload finishes or fails, or ends after SIGINT or SIGTERM | the world is dropped, then the trace is finished |
//! | the workload does not end after SIGINT or SIGTERM | finished without the end of the world |
//! | a second signal, or any other `exit` | flushed by an `atexit` function; later events are not written |
//! | a panic, on any thread | flushed by the panic hook; the run continues or ends as it would otherwise |
//! | SIGKILL | the file has everything up to the last flush, at most a tenth of a second before |
//!
//! With `--flight-recorder` the file is written on SIGUSR2, on a panic, and when the world could not be stopped. Each
//! time the whole contents of the recorder replace the previous contents of the file.

use std::ffi::CStr;
use std::io;
use std::panic;
use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use anyhow::Context;

use super::arguments::Settings;
use super::size::Size;
use super::trace_request::TraceRequest;
use stopworld::events::Categories;
use stopworld::events::record::{flush_at_exit, stopworld_telemetry_flush};
use stopworld_platform::os::remedy::remedy_of;
use stopworld_trace::mps::control::{CONTROL_VARIABLE, Environment};
use stopworld_trace::mps::{self, Telemetry};
use stopworld_trace::{Finished, OutputOptions, RunningTrace, report_failure};

/// The time limit for the end of the world, after which the trace is finished without it.
const LAST_WORDS: Duration = Duration::from_secs(10);
/// The number of attempts, a millisecond apart, to take the recorder's lock on a panic: its holder may never release it.
const TRIES: u32 = 100;

/// The trace of this process, for the hooks, which have no other access to it.
static TRACING: OnceLock<Tracing> = OnceLock::new();

/// The trace of a run.
#[derive(Clone, Debug)]
pub(super) struct Tracing {
    pub(super) trace: Arc<dyn RunningTrace>,
    flight: Flight,
}

/// Whether the trace is a flight recorder, and when its file is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Flight {
    No,
    OnDemand,
    AndAtTheEnd,
}

impl Tracing {
    /// Starts the requested trace, if any.
    pub(super) fn start(settings: &Settings, request: TraceRequest) -> anyhow::Result<Option<Tracing>> {
        let flight = match (settings.flight_recorder, settings.flight_at_end) {
            (None, _) => Flight::No,
            (Some(_), false) => Flight::OnDemand,
            (Some(_), true) => Flight::AndAtTheEnd,
        };
        let TraceRequest { mut selected, by_default, .. } = request;
        let mut file = settings.trace.clone();
        if let Some(categories) = selected.settings::<Telemetry>() {
            let environment = Environment::read();
            environment.unknown.iter().for_each(|word| eprintln!("stopworld: {CONTROL_VARIABLE}: {word}"));
            if by_default {
                *categories = categories_by_default(settings, flight, &environment);
            }
            if *categories == Categories::NONE {
                return Ok(None);
            }
            file = Some(file.unwrap_or_else(|| environment.file()));
        }
        let output = OutputOptions {
            flight_recorder: settings.flight_recorder.map(Size::bytes),
            // The failure of a flight recorder is reported when it is written.
            on_failure: (flight == Flight::No).then_some(report),
        };
        let trace = selected.start(file.unwrap_or_default(), output).context("can't start the trace")?;
        let tracing = Tracing { trace, flight };
        let tracing = TRACING.get_or_init(|| tracing).clone();
        flush_on_panic();
        flush_at_exit().context("the trace could not be made safe for the end of the process")?;
        Ok(Some(tracing))
    }

    /// Handles SIGUSR2: writes the flight recorder to the file, or flushes a trace that is written continuously.
    pub(super) fn write_now(&self) {
        if self.flight == Flight::No {
            // A failure has already been reported where it occurred.
            let _ = self.trace.flush();
        } else {
            self.write_flight();
        }
    }

    /// Writes the flight recorder to the file and reports the outcome. Returns whether it was written.
    fn write_flight(&self) -> bool {
        let path = path(&*self.trace).display();
        let written = self.trace.write_flight();
        match &written {
            Ok(events) => eprintln!("stopworld: wrote the last {events} events to {path}"),
            Err(error) => {
                eprintln!(
                    "stopworld: {path}: {error}; {}, or name another file ({ANOTHER}); the program goes on",
                    remedy_of(error)
                );
            }
        }
        written.is_ok()
    }

    /// Waits until the dropped world has ended, so that its end is in the trace.
    pub(super) fn wait_for_the_world(&self) {
        self.trace.wait_for_worlds(LAST_WORDS);
    }

    /// Finishes the trace at the end of the run.
    pub(super) fn finish(&self) -> End {
        let is_written = self.flight != Flight::AndAtTheEnd || self.write_flight();
        match (self.trace.finish(), self.flight) {
            (Ok(finished), Flight::No) => End::Written(Ended { path: path(&*self.trace).to_owned(), finished }),
            _ if !is_written => End::NotWritten,
            // If this is the second thread that finishes the trace, there is nothing to add.
            _ => End::Kept,
        }
    }
}

/// Returns the categories of a stream for which the arguments select none: those of the environment, or else the usual ones, all for
/// a flight recorder, or none if nothing requests a stream.
fn categories_by_default(settings: &Settings, flight: Flight, environment: &Environment) -> Categories {
    let from_environment = environment.categories.filter(|categories| *categories != Categories::NONE);
    from_environment.unwrap_or(match flight {
        Flight::No if settings.trace.is_none() => Categories::NONE,
        Flight::No => mps::usual(),
        Flight::OnDemand | Flight::AndAtTheEnd => Categories::ALL,
    })
}

fn path(trace: &dyn RunningTrace) -> &Path {
    trace.path().expect("the command starts traces with a path")
}

/// The option that names another file, for error messages.
const ANOTHER: &str = "--trace FILE";

/// Reports a failure of the trace file at once. Called in a drain.
fn report(file: &CStr, error: &io::Error) {
    report_failure(file, error, ANOTHER);
}

/// The state of a trace at the end of the run.
pub(super) enum End {
    /// The trace was written continuously.
    Written(Ended),
    /// The trace was kept in memory, and written when requested.
    Kept,
    /// The trace should have been written at the end, but writing failed.
    NotWritten,
}

/// A trace that was written, and its statistics.
pub(super) struct Ended {
    path: std::path::PathBuf,
    pub(super) finished: Finished,
}

impl Ended {
    pub(super) fn path(&self) -> &Path {
        &self.path
    }
}

/// Writes the flight recorder after the world could not be stopped, to keep the events that led to the failure.
pub(super) fn stop_failed() {
    if let Some(tracing) = TRACING.get().filter(|tracing| tracing.flight != Flight::No) {
        tracing.write_now();
    }
}

/// `.event.crash`: installs a panic hook that flushes the trace. The panic may end the process, and the panicking thread
/// may hold any lock.
fn flush_on_panic() {
    let before = panic::take_hook();
    panic::set_hook(Box::new(move |info| {
        before(info);
        let is_free = (0..TRIES).any(|_| {
            let answer = stopworld_telemetry_flush();
            if answer == 1 {
                std::thread::sleep(Duration::from_millis(1));
            }
            answer != 1
        });
        if is_free {
            stop_failed();
        }
    }));
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroUsize;
    use std::process::{Command, Output};
    use std::sync::atomic::{AtomicBool, Ordering};

    use clap::Parser;

    use super::super::session::Session;
    use super::*;
    use mps_telemetry::decode::{Form, decode};
    use stopworld::{Gc, Leaf, Mutator};
    use stopworld_workloads::{RunPlan, Until};

    const VARIABLE: &str = "STOPWORLD_TEST_FLIGHT_FILE";
    const LINKS: u64 = 1_000;
    const EVENT_CLOCK_SYNC: u16 = 0x1c;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        settings: Settings,
    }

    /// In the test process: runs the test with this name again in a process of its own, and returns that process's output,
    /// the decoded lines of its trace, and the trace. In that process: returns `None`, and the caller continues.
    fn in_own_process(name: &str) -> Option<(Output, String, Vec<u8>)> {
        std::env::var_os(VARIABLE).is_none().then(|| {
            let directory = tempfile::tempdir().unwrap();
            let file = directory.path().join("flight.mps");
            let mut again = Command::new(std::env::current_exe().unwrap());
            again.args([&format!("tracing::tests::{name}"), "--exact", "--nocapture"]).env(VARIABLE, &file);
            let output = again.output().unwrap();
            let (mut lines, mut words) = (Vec::new(), Vec::new());
            let stream = std::fs::read(&file).unwrap_or_default();
            let read = decode(&*stream, &mut lines, Form::Named, None, &mut |notice| words.push(notice.to_string()));
            assert!(read.is_ok() && words.is_empty(), "{read:?} {words:?} {output:?}");
            (output, String::from_utf8(lines).unwrap(), stream)
        })
    }

    /// Starts a session as the command does.
    fn session(more: &[&str]) -> Arc<Session> {
        let file = std::env::var(VARIABLE).unwrap();
        let line = ["stopworld", "--trace", &file];
        let settings = Line::parse_from(line.iter().chain(more)).settings;
        let threads = NonZeroUsize::MIN;
        let request = TraceRequest::by(&settings).unwrap_or_else(|_| panic!("the arguments request a stream"));
        Session::begin(&settings, request, RunPlan { threads, until: Until::OnePass, depth: 1 }).unwrap()
    }

    /// `.event.crash`: the file has whole records whichever thread has the recorder's lock at the exit, and although other threads continue to
    /// fire events.
    #[test]
    fn an_exit_leaves_whole_records() {
        for _ in 0..3 {
            let Some((output, _, stream)) = in_own_process("an_exit_leaves_whole_records") else {
                extern "C" fn linger() {
                    std::thread::sleep(Duration::from_millis(50));
                }
                // The function that was registered first is called last.
                stopworld_platform::os::exit::at_exit(linger).unwrap();
                let session = session(&["--events", "all"]);
                for _ in 0..2 {
                    let session = Arc::clone(&session);
                    std::thread::spawn(move || {
                        loop {
                            session.world().events().fire_object_allocated(4096, 32);
                        }
                    });
                }
                let bytes = || std::fs::metadata(std::env::var(VARIABLE).unwrap()).map_or(0, |file| file.len());
                while bytes() < 2 << 20 {
                    std::thread::yield_now();
                }
                std::process::exit(7);
            };
            assert_eq!((output.status.code(), &*output.stderr), (Some(7), &b""[..]));
            let (mut code, mut at) = (0, 0);
            while let [low, high, size_low, size_high, ..] = stream[at..] {
                code = u16::from_le_bytes([low, high]);
                at += usize::from(u16::from_le_bytes([size_low, size_high]));
                assert!(at <= stream.len(), "the last record is truncated");
            }
            assert_eq!(code, EVENT_CLOCK_SYNC);
        }
    }

    fn objects(m: &Mutator) -> Gc<Leaf<u64>> {
        (0..LINKS).map(|number| m.alloc(Leaf(number)).unwrap()).last().unwrap()
    }

    /// `.event.crash`: the file has whole records whichever thread panics, and whether or not the run survives the panic.
    #[test]
    fn a_panic_writes_what_the_flight_recorder_has() {
        let Some((output, lines, _)) = in_own_process("a_panic_writes_what_the_flight_recorder_has") else {
            let session = session(&["--flight-recorder", "1m"]);
            // SAFETY: the references are local variables.
            let worker = unsafe {
                session.world().spawn::<()>("unlucky", |m| {
                    objects(m);
                    panic!("on purpose");
                })
            };
            assert!(worker.unwrap().join().is_err());
            std::process::exit(7);
        };
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(7), "{said}");
        assert!(said.contains("on purpose") && said.contains("flight.mps"), "{said}");
        let allocated = lines.lines().filter(|line| line.contains("PoolAlloc")).count();
        assert_eq!(allocated as u64, LINKS, "the trace has all allocations before the panic");
    }

    /// The file has the events before the timeout, including the abandoned stop.
    #[test]
    fn a_stop_that_is_given_up_writes_what_the_flight_recorder_has() {
        let Some((output, lines, _)) = in_own_process("a_stop_that_is_given_up_writes_what_the_flight_recorder_has")
        else {
            let session = session(&["--flight-recorder", "1m", "--stop", "safepoints"]);
            static STARTED: AtomicBool = AtomicBool::new(false);
            // SAFETY: the references are local variables.
            let worker = unsafe {
                session.world().spawn::<()>("deaf", |m| {
                    objects(m);
                    STARTED.store(true, Ordering::Release);
                    loop {
                        std::thread::sleep(Duration::from_millis(10));
                    }
                })
            };
            while !STARTED.load(Ordering::Acquire) {
                std::thread::yield_now();
            }
            assert!(session.world().collect().is_err());
            std::mem::forget(worker);
            std::process::exit(7);
        };
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(7), "{said}");
        assert!(said.contains("deaf") && said.contains("flight.mps"), "{said}");
        let polls: Vec<&str> = lines.lines().filter(|line| line.contains("ArenaPoll")).collect();
        assert!(polls.len() == 2 && polls[1].contains("workWasDone:False"), "{polls:?}");
        assert!(lines.contains("PoolAlloc"));
    }
}
