//! The trace of a run: what the options and the environment ask for, and that it is written however the run ends.
//!
//! | end | what is done |
//! |---|---|
//! | the workload is done, or fails, or SIGINT or SIGTERM ended it | the world is dropped, and the trace finished after it |
//! | a signal ended it, and it goes on | finished without the world's end |
//! | a second signal, or any other `exit` | flushed, by a function that `exit` calls; what is fired after that is not written |
//! | a panic, on any thread | flushed by the panic's hook; the run goes on or ends as it would have |
//! | SIGKILL | what was flushed is there, a tenth of a second before at most |
//!
//! With `--flight-recorder` the file is written instead when somebody asks (SIGUSR2), on a panic, and when the world could not be
//! stopped: each time all that the recorder has, in place of what was there.

use std::io;
use std::panic;
use std::path::Path;
use std::sync::OnceLock;
use std::time::Duration;

use anyhow::Context;

use super::arguments::Settings;
use super::asked::Asked;
use stopworld::WorldBuilder;
use stopworld::events::record::{RecordError, flush_at_exit, stopworld_telemetry_flush};
use stopworld::events::{Categories, Category, EventSet};
use stopworld::formats::eventlog::write::Classes;
use stopworld::formats::mps::control::{CONTROL_VARIABLE, Environment};
use stopworld::formats::nettrace::write::{Container, Providers};
use stopworld::formats::profile_text::Kind;
use stopworld::formats::{Finished, eventlog, mps, nettrace, perfetto, profile_text};
use stopworld_platform::os::remedy::remedy_of;

/// How long the world may take to end before the trace is finished without its end.
const LAST_WORDS: Duration = Duration::from_secs(10);
/// How often a panic asks for the recorder's lock, a millisecond apart: it may have been somebody's who is gone.
const TRIES: u32 = 100;

/// The trace of this process, for hooks that know nothing else.
static TRACING: OnceLock<Tracing> = OnceLock::new();

/// The trace of a run.
#[derive(Clone, Debug)]
pub(super) struct Tracing {
    pub(super) trace: Trace,
    flight: Flight,
}

/// Whether the file is written at all times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Flight {
    No,
    OnDemand,
    AndAtTheEnd,
}

/// Everything but what comes for each reference and each object.
fn by_default() -> Categories {
    Categories::of(&[Category::Arena, Category::Pool, Category::Trace, Category::Seg, Category::User])
}

impl Tracing {
    /// Starts the trace that is asked for, if one is.
    pub(super) fn start(settings: &Settings, asked: &Asked) -> anyhow::Result<Option<Tracing>> {
        let flight = match (settings.flight_recorder, settings.flight_at_end) {
            (None, _) => Flight::No,
            (Some(_), false) => Flight::OnDemand,
            (Some(_), true) => Flight::AndAtTheEnd,
        };
        let trace = match asked {
            Asked::Mps(categories) => Trace::start_mps(settings, *categories, flight)?,
            Asked::Nettrace(container, providers) => Some(Trace::start_nettrace(settings, *container, providers)?),
            Asked::Json(events) => Some(Trace::start_timeline(settings, *events)?),
            Asked::Eventlog(classes) => Some(Trace::start_eventlog(settings, *classes)?),
            Asked::Profile(kind) => Some(Trace::start_profile(settings, *kind)?),
        };
        let Some(trace) = trace else { return Ok(None) };
        let tracing = Tracing { trace, flight };
        let tracing = TRACING.get_or_init(|| tracing).clone();
        flush_on_panic();
        flush_at_exit().context("the trace could not be made safe for the end of the process")?;
        Ok(Some(tracing))
    }

    /// SIGUSR2: the flight recorder is written; a trace that is written anyway is brought up to date.
    pub(super) fn write_now(&self) {
        if self.flight == Flight::No {
            // A failure has been told where it happened.
            let _ = self.trace.flush();
        } else {
            self.write_flight();
        }
    }

    /// Says what came of it. Whether it was written.
    fn write_flight(&self) -> bool {
        let path = self.trace.path().display();
        let written = self.trace.write_flight();
        match &written {
            Ok(events) => eprintln!("stopworld: the last {events} events are in {path}"),
            Err(error) => {
                eprintln!(
                    "stopworld: {path}: {error}; {}, or name another file ({ANOTHER}); the program goes on",
                    remedy_of(error)
                );
            }
        }
        written.is_ok()
    }

    /// The world has been let go: its end belongs to the trace.
    pub(super) fn wait_for_the_world(&self) {
        self.trace.wait_for_worlds(LAST_WORDS);
    }

    /// The end of the run.
    pub(super) fn finish(&self) -> End {
        let is_written = self.flight != Flight::AndAtTheEnd || self.write_flight();
        match (self.trace.finish(), self.flight) {
            (Ok(finished), Flight::No) => End::Written(Ended { path: self.trace.path().to_owned(), finished }),
            _ if !is_written => End::NotWritten,
            // Or who comes second, and has nothing to add.
            _ => End::Kept,
        }
    }
}

/// The trace itself, in one of the formats.
#[derive(Clone, Debug)]
pub(super) enum Trace {
    Mps(mps::Trace),
    Nettrace(nettrace::write::Trace),
    Timeline(perfetto::Trace),
    Eventlog(eventlog::write::Trace),
    Profile(profile_text::Trace),
}

/// How one names another file.
const ANOTHER: &str = "--trace FILE";

/// Options of any format: for a flight recorder, whose failures are told when it is written; or for a file that is written all along,
/// whose failure is told at once.
macro_rules! in_manner {
    ($settings:expr, $options:expr) => {
        match $settings.flight_recorder {
            Some(size) => $options.flight_recorder(size.bytes()),
            None => $options.tell_failures(ANOTHER),
        }
    };
}

impl Trace {
    fn start_mps(settings: &Settings, asked: Option<Categories>, flight: Flight) -> anyhow::Result<Option<Trace>> {
        let environment = Environment::read();
        environment.unknown.iter().for_each(|word| eprintln!("stopworld: {CONTROL_VARIABLE}: {word}"));
        let from_environment = environment.categories.filter(|categories| *categories != Categories::NONE);
        let is_asked = settings.trace.is_some() || asked.is_some() || flight != Flight::No;
        let otherwise = match (is_asked, flight) {
            (false, _) => Categories::NONE,
            (true, Flight::No) => by_default(),
            (true, _) => Categories::ALL,
        };
        let categories = asked.or(from_environment).unwrap_or(otherwise);
        if categories == Categories::NONE {
            return Ok(None);
        }
        let file = settings.trace.clone().unwrap_or_else(|| environment.file());
        let options = in_manner!(settings, mps::Options::new(file, categories));
        Ok(Some(Trace::Mps(options.start().context(NOT_STARTED)?)))
    }

    fn start_nettrace(settings: &Settings, container: Container, providers: &Providers) -> anyhow::Result<Trace> {
        let file = settings.trace.clone().unwrap_or_default();
        let options = nettrace::write::Options::new(file).container(container).providers(providers.clone());
        let options = in_manner!(settings, options);
        Ok(Trace::Nettrace(options.start().context(NOT_STARTED)?))
    }

    fn start_timeline(settings: &Settings, events: Option<EventSet>) -> anyhow::Result<Trace> {
        let file = settings.trace.clone().unwrap_or_default();
        let mut options = in_manner!(settings, perfetto::Options::new(file));
        if let Some(events) = events {
            options = options.events(events);
        }
        Ok(Trace::Timeline(options.start().context(NOT_STARTED)?))
    }

    fn start_eventlog(settings: &Settings, classes: Classes) -> anyhow::Result<Trace> {
        let file = settings.trace.clone().unwrap_or_default();
        let options = in_manner!(settings, eventlog::write::Options::new(file).classes(classes));
        Ok(Trace::Eventlog(options.start().context(NOT_STARTED)?))
    }

    fn start_profile(settings: &Settings, kind: Kind) -> anyhow::Result<Trace> {
        let file = settings.trace.clone().unwrap_or_default();
        let options = profile_text::Options::new(file, kind).tell_failures(ANOTHER);
        Ok(Trace::Profile(options.start().context(NOT_STARTED)?))
    }

    /// All events of the world that is built here belong to it.
    pub(super) fn of_world(&self, builder: WorldBuilder) -> WorldBuilder {
        match self {
            Trace::Mps(trace) => builder.traced_by(trace),
            Trace::Nettrace(trace) => builder.recorded_in(trace),
            Trace::Timeline(trace) => builder.drawn_by(trace),
            Trace::Eventlog(trace) => builder.logged_in(trace),
            Trace::Profile(trace) => builder.profiled_in(trace),
        }
    }

    fn path(&self) -> &Path {
        match self {
            Trace::Mps(trace) => trace.path(),
            // It was started with one.
            Trace::Nettrace(trace) => trace.path().unwrap_or(Path::new("")),
            Trace::Timeline(trace) => trace.path(),
            Trace::Eventlog(trace) => trace.path(),
            Trace::Profile(trace) => trace.path(),
        }
    }

    fn flush(&self) -> io::Result<()> {
        match self {
            Trace::Mps(trace) => trace.flush(),
            Trace::Nettrace(trace) => trace.flush(),
            Trace::Timeline(trace) => trace.flush(),
            Trace::Eventlog(trace) => trace.flush(),
            Trace::Profile(trace) => trace.flush(),
        }
    }

    fn write_flight(&self) -> io::Result<u64> {
        match self {
            Trace::Mps(trace) => trace.write_flight(),
            Trace::Nettrace(trace) => trace.write_flight(),
            Trace::Timeline(trace) => trace.write_flight(),
            Trace::Eventlog(trace) => trace.write_flight(),
            // It has no flight recorder.
            Trace::Profile(_) => Err(io::ErrorKind::Unsupported.into()),
        }
    }

    fn wait_for_worlds(&self, within: Duration) {
        match self {
            Trace::Mps(trace) => trace.wait_for_worlds(within),
            Trace::Nettrace(trace) => trace.wait_for_worlds(within),
            Trace::Timeline(trace) => trace.wait_for_worlds(within),
            Trace::Eventlog(trace) => trace.wait_for_worlds(within),
            Trace::Profile(trace) => trace.wait_for_worlds(within),
        }
    }

    fn finish(&self) -> Result<Finished, RecordError> {
        match self {
            Trace::Mps(trace) => trace.finish(),
            Trace::Nettrace(trace) => trace.finish(),
            Trace::Timeline(trace) => trace.finish(),
            Trace::Eventlog(trace) => trace.finish(),
            Trace::Profile(trace) => trace.finish(),
        }
    }
}

const NOT_STARTED: &str = "the trace could not be started";

/// What has become of a trace at the end.
pub(super) enum End {
    /// It was written all along.
    Written(Ended),
    /// It was kept in memory, and written where that was asked for.
    Kept,
    /// It was to be written at the end, and could not be.
    NotWritten,
}

/// A trace that was written, and its numbers.
pub(super) struct Ended {
    path: std::path::PathBuf,
    pub(super) finished: Finished,
}

impl Ended {
    pub(super) fn path(&self) -> &Path {
        &self.path
    }
}

/// The world could not be stopped: what led to it is worth keeping.
pub(super) fn stop_failed() {
    if let Some(tracing) = TRACING.get().filter(|tracing| tracing.flight != Flight::No) {
        tracing.write_now();
    }
}

/// `.event.crash`: a panic may be the end of the process, and this thread may hold anything.
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
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};

    use clap::Parser;

    use super::super::session::Session;
    use super::*;
    use mps_telemetry::decode::{Form, decode};
    use stopworld::{Gc, Leaf, Mutator};
    use stopworld_workloads::{Plan, Until};

    const VARIABLE: &str = "STOPWORLD_TEST_FLIGHT_FILE";
    const LINKS: u64 = 1_000;
    const EVENT_CLOCK_SYNC: u16 = 0x1c;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        settings: Settings,
    }

    /// In the process of the test: runs the test of this name again in one of its own, and says what it said and what it
    /// wrote. In that process `None`: the caller goes on.
    fn in_own_process(name: &str) -> Option<(Output, String, Vec<u8>)> {
        std::env::var_os(VARIABLE).is_none().then(|| {
            let directory = tempfile::tempdir().unwrap();
            let file = directory.path().join("flight.mps");
            let mut again = Command::new(std::env::current_exe().unwrap());
            again.args([&format!("cli::tracing::tests::{name}"), "--exact", "--nocapture"]).env(VARIABLE, &file);
            let output = again.output().unwrap();
            let (mut lines, mut words) = (Vec::new(), Vec::new());
            let stream = std::fs::read(&file).unwrap_or_default();
            let read = decode(&*stream, &mut lines, Form::Named, None, &mut |notice| words.push(notice.to_string()));
            assert!(read.is_ok() && words.is_empty(), "{read:?} {words:?} {output:?}");
            (output, String::from_utf8(lines).unwrap(), stream)
        })
    }

    /// A run as the command begins it.
    fn session(more: &[&str]) -> Arc<Session> {
        let file = std::env::var(VARIABLE).unwrap();
        let line = ["stopworld", "--trace", &file];
        let settings = Line::parse_from(line.iter().chain(more)).settings;
        let threads = NonZeroUsize::MIN;
        let asked = Asked::by(&settings).unwrap_or(Asked::Mps(None));
        Session::begin(&settings, &asked, Plan { threads, until: Until::OnePass, depth: 1 }).unwrap()
    }

    /// `.event.crash`: whoever holds the recorder's lock then, and whoever goes on firing for however long.
    #[test]
    fn an_exit_leaves_whole_records() {
        for _ in 0..3 {
            let Some((output, _, stream)) = in_own_process("an_exit_leaves_whole_records") else {
                extern "C" fn linger() {
                    std::thread::sleep(Duration::from_millis(50));
                }
                // What was registered first is called last.
                at_exit(linger).unwrap();
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
                assert!(at <= stream.len(), "the last record is cut");
            }
            assert_eq!(code, EVENT_CLOCK_SYNC);
        }
    }

    fn objects(m: &Mutator) -> Gc<Leaf<u64>> {
        (0..LINKS).map(|number| m.alloc(Leaf(number)).unwrap()).last().unwrap()
    }

    /// `.event.crash`: whichever thread panics, and whether the run survives it or not.
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
        assert_eq!(allocated as u64, LINKS, "all that it did before is there");
    }

    /// `.stop.timeout`: what led to it is worth keeping, the stop that was given up included.
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
