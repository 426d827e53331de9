//! `stopworld trace` and `stopworld counters`: observe a running process, of stopworld or of .NET.
//!
//! Both start a session at the process's diagnostics socket and read its stream to the end. The stream ends when the process
//! ends, or when a request on a second connection stops the session. Ctrl-C and SIGTERM stop the session; a second signal
//! ends the command at once.
//!
//! After the request to stop, a .NET process first sends its rundown, which takes minutes in a large program. Like dotnet-trace,
//! the command waits as long as the stream continues. A stream that neither continues nor ends is an error.

use std::fs::File;
use std::io::{self, IsTerminal, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow, bail};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use super::arguments::{LiveCounters, LiveTrace};
use super::exit::{FAILED, Failure};
use nettrace::Reader;
use stopworld_analysis::report::Bytes;
use stopworld_diagnostics::client::{Client, ClientError, Provider, Rundown, Session};
use stopworld_diagnostics::watched::{CounterValue, CounterVisitor};
use stopworld_platform::os::remedy::remedy_of;
use stopworld_platform::sync::{AtomicU64, Ordering};
use stopworld_trace::nettrace::{Providers, ProvidersError};

/// The buffer size that is requested for a session, in megabytes: that of dotnet-trace.
const MEGABYTES: u32 = 256;
/// The last two bytes of a complete stream: the end tags of the last object and of the stream.
const END: [u8; 2] = [6, 1];
/// The interval between two redraws of the table, if values have changed.
const REPAINT: Duration = Duration::from_millis(200);

/// The longest time without a byte of the stream after the request to stop the session. It equals the client's time limit for
/// the reply to that request.
const SILENCE: Duration = Duration::from_secs(30);
/// If the request to stop a session fails, the time for its stream to end: the process may have ended.
const LAST_BYTES: Duration = Duration::from_secs(1);

/// An event that ends the wait for a session.
enum WaitEvent {
    Signal,
    /// The stream has ended.
    Over,
}

/// `stopworld trace`.
pub(super) fn trace(arguments: &LiveTrace) -> Result<u8, Failure> {
    let providers = match &arguments.providers {
        Some(list) => parse(list).map_err(|error| Failure::Usage(format!("--providers: {error}")))?,
        None => requested(&Providers::default(), &[]),
    };
    if arguments.output.as_os_str() == "-" {
        return Err(Failure::Usage(
            "--output -: a trace is not written to standard output: name a file, or a named pipe (mkfifo)".to_owned(),
        ));
    }
    let client = Client::of_process(arguments.pid).map_err(anyhow::Error::from)?;
    let path = arguments.output.display();
    let session = client.collect(&providers, MEGABYTES, Rundown::Requested).map_err(anyhow::Error::from)?;
    // The file is created after the session, so that a refused session leaves none. If creating it fails, the connection is
    // closed, which ends the session.
    let mut file = File::create(&arguments.output).map_err(|error| unwritable(&arguments.output, &error))?;
    let id = session.id;
    let (stream, received) = CountedStream::new(session.stream);
    let (send, events) = mpsc::channel();
    watch_signals(send.clone())?;
    let name = arguments.output.clone();
    let copying = thread::Builder::new().name("stream".into()).spawn(move || {
        let copied = copy(stream, &mut file, &name);
        // If this fails, the main thread no longer waits.
        let _ = send.send(WaitEvent::Over);
        copied
    })?;
    wait(&events, &received, arguments.duration, SILENCE, || client.stop(id)).with_context(|| {
        let size = Bytes(received.load(Ordering::Relaxed));
        format!("{path} is incomplete, but its {size} can be read")
    })?;
    let copied = copying.join().map_err(|_| anyhow!("the thread that copies the stream panicked"))?;
    let (bytes, last) = copied?;
    let size = Bytes(bytes);
    if last == END {
        eprintln!("stopworld: wrote {size} to {path}");
        return Ok(0);
    }
    eprintln!(
        "stopworld: wrote {size} to {path}: the process ended before the end of the trace; everything written is readable"
    );
    Ok(FAILED)
}

/// Parses a list in dotnet-trace's syntax, including arguments.
fn parse(list: &str) -> Result<Vec<Provider>, ProvidersError> {
    let providers = Providers::parse(list)?;
    let arguments: Vec<&str> = list.split(',').map(|entry| entry.splitn(4, ':').nth(3).unwrap_or_default()).collect();
    Ok(requested(&providers, &arguments))
}

/// Returns the providers for the request of a session, each with its arguments, if there are any.
pub(super) fn requested(providers: &Providers, arguments: &[&str]) -> Vec<Provider> {
    let each = providers.requests.iter().enumerate().map(|(index, request)| Provider {
        name: request.name.clone(),
        keywords: request.keywords,
        level: request.level,
        arguments: arguments.get(index).copied().unwrap_or_default().to_owned(),
    });
    each.collect()
}

fn watch_signals(send: mpsc::Sender<WaitEvent>) -> anyhow::Result<()> {
    let mut signals = Signals::new([SIGINT, SIGTERM]).context("can't install the handlers for SIGINT and SIGTERM")?;
    thread::Builder::new().name("signals".into()).spawn(move || {
        let mut is_second = false;
        for signal in signals.forever() {
            if std::mem::replace(&mut is_second, true) {
                std::process::exit(128 + signal);
            }
            // If this fails, the command is about to end.
            let _ = send.send(WaitEvent::Signal);
        }
    })?;
    Ok(())
}

/// The stream of a session. Counts the bytes that have been read.
struct CountedStream {
    stream: UnixStream,
    received: Arc<AtomicU64>,
}

impl CountedStream {
    /// Returns the stream, and the count.
    fn new(stream: UnixStream) -> (CountedStream, Arc<AtomicU64>) {
        let received = Arc::new(AtomicU64::new(0));
        (CountedStream { stream, received: Arc::clone(&received) }, received)
    }
}

impl Read for CountedStream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.stream.read(buffer)?;
        self.received.fetch_add(count as u64, Ordering::Relaxed);
        Ok(count)
    }
}

/// Waits for a signal, the end of the duration, or the end of the stream. In the first two cases stops the session and waits
/// for the end of the stream. `received` is the number of bytes of the stream that have been read.
///
/// # Errors
/// The request to stop failed, or then no byte arrived for as long as `silence`.
fn wait(
    events: &mpsc::Receiver<WaitEvent>,
    received: &AtomicU64,
    duration: Option<Duration>,
    silence: Duration,
    stop: impl FnOnce() -> Result<(), ClientError>,
) -> anyhow::Result<()> {
    let first = match duration {
        Some(duration) => events.recv_timeout(duration),
        None => events.recv().map_err(|_| RecvTimeoutError::Disconnected),
    };
    if let Ok(WaitEvent::Over) | Err(RecvTimeoutError::Disconnected) = first {
        return Ok(());
    }
    let mut before = received.load(Ordering::Relaxed);
    let (within, refused) = match stop() {
        Ok(()) => (silence, None),
        // The reply follows the end of the stream, so a long stream delays it.
        Err(ClientError::Silent { .. }) => (Duration::ZERO, None),
        // If the process has ended, the stream ends soon, and the failure of the request is not an error.
        Err(error) => (LAST_BYTES, Some(error)),
    };
    let mut over = events.recv_timeout(within);
    if let (Some(error), Err(RecvTimeoutError::Timeout)) = (refused, &over) {
        return Err(error).context("can't stop the session");
    }
    loop {
        match over {
            Ok(WaitEvent::Over) | Err(RecvTimeoutError::Disconnected) => return Ok(()),
            Ok(WaitEvent::Signal) => {}
            Err(RecvTimeoutError::Timeout) => {
                let now = received.load(Ordering::Relaxed);
                if now == before {
                    bail!(
                        "the process has neither sent data nor ended the stream for {silence:?} after the request to stop"
                    );
                }
                before = now;
                eprintln!(
                    "stopworld: the process is still sending the end of the trace; Ctrl-C ends the command at once"
                );
            }
        }
        over = events.recv_timeout(silence);
    }
}

/// Returns the error for a file that can't be written, with its remedy.
fn unwritable(path: &Path, error: &io::Error) -> anyhow::Error {
    anyhow!("{}: {error}; {}, or name another file (-o FILE)", path.display(), remedy_of(error))
}

/// Copies the stream to its end. Returns the number of bytes and the last two bytes.
fn copy(mut stream: CountedStream, file: &mut File, path: &Path) -> anyhow::Result<(u64, [u8; 2])> {
    let (mut bytes, mut last) = (0, [0; 2]);
    let mut buffer = vec![0; 64 << 10];
    loop {
        let count = match stream.read(&mut buffer) {
            Ok(0) => return Ok((bytes, last)),
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            // The process was killed.
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => return Ok((bytes, last)),
            Err(error) => {
                return Err(error)
                    .context(format!("the stream broke off: the first {bytes} bytes are in {} and can be read; record again for a complete trace", path.display()));
            }
        };
        file.write_all(&buffer[..count]).map_err(|error| unwritable(path, &error))?;
        bytes += count as u64;
        last = match buffer[..count] {
            [.., before, end] => [before, end],
            [end] => [last[1], end],
            [] => last,
        };
    }
}

/// `stopworld counters`.
pub(super) fn counters(arguments: &LiveCounters) -> Result<u8, Failure> {
    let client = Client::of_process(arguments.pid).map_err(anyhow::Error::from)?;
    let seconds = arguments.interval.as_secs_f64();
    let provider = Provider {
        name: "System.Runtime".into(),
        keywords: 0,
        level: 4,
        arguments: format!("EventCounterIntervalSec={seconds}"),
    };
    let name = client.command_line().map_err(anyhow::Error::from)?;
    let session = client.collect(&[provider], MEGABYTES, Rundown::LeftOut).map_err(anyhow::Error::from)?;
    let Session { id, stream } = session;
    let (stream, received) = CountedStream::new(stream);
    let (send, events) = mpsc::channel();
    watch_signals(send.clone())?;
    let display = Arc::new(Mutex::new(CounterDisplay::new(title(arguments.pid, &name))));
    let painted = Arc::clone(&display);
    thread::Builder::new().name("painter".into()).spawn(move || {
        loop {
            thread::sleep(REPAINT);
            of(&painted).show();
        }
    })?;
    thread::Builder::new().name("stream".into()).spawn(move || {
        Reader::new(stream).read(&mut CounterVisitor { on_counter: |counter| of(&display).take(counter) });
        of(&display).show();
        // If this fails, the main thread no longer waits.
        let _ = send.send(WaitEvent::Over);
    })?;
    wait(&events, &received, arguments.duration, SILENCE, || client.stop(id))?;
    Ok(0)
}

/// Formats the title, cut so that it fits one line of a narrow terminal.
fn title(pid: u32, name: &str) -> String {
    const WIDEST: usize = 60;
    let title = format!("process {pid} {name}");
    match title.char_indices().nth(WIDEST) {
        Some((end, _)) => format!("{}…", &title[..end]),
        None => title,
    }
}

fn of(display: &Mutex<CounterDisplay>) -> MutexGuard<'_, CounterDisplay> {
    // A panic under this lock leaves at worst a row with its previous value.
    display.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Displays counter values: on a terminal in a table that is redrawn in place, otherwise one line per value.
struct CounterDisplay {
    title: String,
    is_terminal: bool,
    /// The counters, in the order of their first values.
    rows: Vec<CounterValue>,
    lines: usize,
    changed: bool,
    begun: Instant,
}

impl CounterDisplay {
    fn new(title: String) -> CounterDisplay {
        let is_terminal = io::stdout().is_terminal();
        CounterDisplay { title, is_terminal, rows: Vec::new(), lines: 0, changed: false, begun: Instant::now() }
    }

    fn take(&mut self, counter: CounterValue) {
        if !self.is_terminal {
            let after = self.begun.elapsed().as_secs_f64();
            super::exit::print(format_args!("{after:9.3}  {:<34}{:>18}\n", label(&counter), number(&counter)));
            return;
        }
        self.changed = true;
        let is_same = |row: &&mut CounterValue| row.provider == counter.provider && row.name == counter.name;
        match self.rows.iter_mut().find(is_same) {
            Some(row) => *row = counter,
            None => self.rows.push(counter),
        }
    }

    fn show(&mut self) {
        if !std::mem::take(&mut self.changed) {
            return;
        }
        let mut text = String::new();
        if self.lines > 0 {
            // Moves the cursor to the first line of the table and clears it.
            text.push_str(&format!("\x1b[{}A\x1b[J", self.lines));
        }
        text.push_str(&format!("{}   (Ctrl-C ends)\n", self.title));
        for counter in &self.rows {
            text.push_str(&format!("  {:<34}{:>18}\n", label(counter), number(counter)));
        }
        self.lines = self.rows.len() + 1;
        super::exit::print(text);
    }
}

/// Formats the label in front of the number.
fn label(counter: &CounterValue) -> String {
    let name = if counter.display.is_empty() { &counter.name } else { &counter.display };
    let per = counter.grown_in.filter(|time| !time.is_zero());
    let per = per.map_or(String::new(), |time| format!(" / {} s", short(time.as_secs_f64())));
    match counter.units.as_str() {
        "" if counter.grown_in.is_some() => format!("{name} (count{per})"),
        "" => name.clone(),
        units if name.contains(units) && per.is_empty() => name.clone(),
        units => format!("{name} ({units}{per})"),
    }
}

/// Formats a number of seconds with one decimal, or with as many as needed to show a smaller number as more than 0.
fn short(number: f64) -> String {
    let decimals = (1..9).find(|&decimals| number >= 0.5 * 0.1_f64.powi(decimals)).unwrap_or(9);
    let text = format!("{number:.0$}", decimals as usize);
    text.strip_suffix(".0").map_or_else(|| text.clone(), str::to_owned)
}

fn number(counter: &CounterValue) -> String {
    let value = counter.value;
    if value.fract() == 0.0 && value.abs() < 1e15 { format!("{value:.0}") } else { format!("{value:.3}") }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    /// A time limit for the silence of a stream that the tests wait for.
    const SHORT: Duration = Duration::from_millis(100);

    fn late_reply() -> Result<(), ClientError> {
        Err(ClientError::Silent { pid: 1, within: SHORT })
    }

    #[rstest]
    #[case(|| Ok(()))]
    #[case(late_reply)]
    fn a_stream_that_is_silent_after_the_stop_is_an_error(#[case] stop: fn() -> Result<(), ClientError>) {
        let (_send, events) = mpsc::channel();
        let error = wait(&events, &AtomicU64::new(5), Some(Duration::ZERO), SHORT, stop).expect_err("nothing arrives");
        assert!(error.to_string().contains("nor ended the stream for 100ms"), "{error}");
    }

    #[test]
    fn a_stream_that_continues_after_the_stop_is_awaited() {
        /// The limit is ten steps of the stream, because each may take longer on a busy machine.
        const LIMIT: Duration = Duration::from_secs(1);
        let (send, events) = mpsc::channel();
        let received = Arc::new(AtomicU64::new(0));
        let counted = Arc::clone(&received);
        // The stream continues for longer than the limit, and longer than the client waits for the reply.
        let stream = thread::spawn(move || {
            for _ in 0..30 {
                thread::sleep(LIMIT / 10);
                counted.fetch_add(1, Ordering::Relaxed);
            }
            send.send(WaitEvent::Over).unwrap();
        });
        let stop = || {
            thread::sleep(LIMIT);
            late_reply()
        };
        wait(&events, &received, Some(Duration::ZERO), LIMIT, stop).expect("the stream ends");
        assert_eq!(received.load(Ordering::Relaxed), 30);
        stream.join().unwrap();
    }

    #[test]
    fn a_refused_stop_is_an_error_only_if_the_stream_continues() {
        let refused = || Err(ClientError::Nonsense);
        let (send, events) = mpsc::channel();
        let error = wait(&events, &AtomicU64::new(0), Some(Duration::ZERO), SHORT, refused).expect_err("it continues");
        assert_eq!(error.to_string(), "can't stop the session");
        let ended = || {
            send.send(WaitEvent::Over).unwrap();
            refused()
        };
        wait(&events, &AtomicU64::new(0), Some(Duration::ZERO), SHORT, ended).expect("the process has ended");
    }

    #[rstest]
    #[case(Some(1.0), "GCs (count / 1 s)")]
    #[case(Some(0.96), "GCs (count / 1 s)")]
    #[case(Some(0.5), "GCs (count / 0.5 s)")]
    #[case(Some(0.04), "GCs (count / 0.04 s)")]
    #[case(Some(0.000_2), "GCs (count / 0.0002 s)")]
    #[case(Some(0.0), "GCs (count)")]
    #[case(None, "GCs")]
    fn a_rate_names_the_time_it_is_over(#[case] seconds: Option<f64>, #[case] expected: &str) {
        let counter = CounterValue {
            provider: String::new(),
            name: "gcs".into(),
            display: "GCs".into(),
            units: String::new(),
            value: 1.0,
            grown_in: seconds.map(Duration::from_secs_f64),
            time: 0,
        };
        assert_eq!(label(&counter), expected);
    }
}
