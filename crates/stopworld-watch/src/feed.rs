//! The session with the process: a thread reads its stream and adds the events to the [`History`], which the views read.
//!
//! ```text
//!   process ──socket──► feed thread ──lock──► History ◄──lock── terminal, page
//!           queue of the                      bounded
//!           process, bounded
//! ```
//!
//! A view holds the lock only while it copies what it shows. If it held it for long, the feed would wait, then the queue in the process would
//! fill, and events would be lost, which both views show; the process itself never waits (see `stopworld_diagnostics`).

use std::fs;
use std::io::{self, Read};
use std::os::unix::net::UnixStream;
use std::sync::mpsc;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use nettrace::Summary;
use stopworld_diagnostics::client::{Client, ClientError, Provider, Rundown, Session};
use tokio::sync::watch;

use super::follow::{OWN, RUNTIME, follow};
use super::model::History;

/// The buffer that is requested for the session, in megabytes.
const MEGABYTES: u32 = 64;
/// Level Informational.
const INFORMATIONAL: u32 = 4;
/// The events of collections.
const GC: u64 = 0x1;
/// The groups World and Collection of the provider `stopworld`: threads, and how long each takes to stop.
const WORLD_AND_COLLECTION: u64 = 0x3;

/// What is known of the process before its first event.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Target {
    /// Its id.
    pub pid: u32,
    /// Its command line; empty if it does not report it.
    pub command_line: String,
}

/// A running session, and the history that it fills. Clones refer to the same session.
#[derive(Clone)]
pub struct Feed {
    shared: Arc<Shared>,
}

struct Shared {
    target: Target,
    client: Client,
    session: u64,
    history: Mutex<History>,
    /// The version of the history, for views that wait.
    version: watch::Sender<u64>,
}

impl Feed {
    /// Starts a session with this process, and the thread that reads its stream.
    ///
    /// # Errors
    /// The process has no socket, or refuses the session.
    pub fn start(pid: u32) -> Result<Feed, ClientError> {
        let client = Client::of_process(pid)?;
        let command_line = client.command_line()?;
        let Session { id, stream } = client.collect(&providers(), MEGABYTES, Rundown::LeftOut)?;
        let shared = Arc::new(Shared {
            target: Target { pid, command_line },
            client,
            session: id,
            history: Mutex::default(),
            version: watch::Sender::new(0),
        });
        let feed = Feed { shared };
        let reading = feed.clone();
        thread::Builder::new().name("stream".into()).spawn(move || reading.read(stream))?;
        Ok(feed)
    }

    /// Returns what is known of the process.
    pub fn target(&self) -> &Target {
        &self.shared.target
    }

    /// Locks the history. The feed waits meanwhile.
    pub fn history(&self) -> MutexGuard<'_, History> {
        // A panic under the lock leaves at worst one event half counted.
        self.shared.history.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns a receiver that is notified when the version of the history changes.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.shared.version.subscribe()
    }

    /// Ends the session. Returns after the process has confirmed it, or after a second: then the end of this process ends the session.
    pub fn stop(&self) {
        const PATIENCE: Duration = Duration::from_secs(1);
        let (send, stopped) = mpsc::channel();
        let shared = Arc::clone(&self.shared);
        let stop = move || {
            // If the process has ended, there is nothing to stop.
            let _ = shared.client.stop(shared.session);
            // If this fails, the other thread no longer waits.
            let _ = send.send(());
        };
        if thread::Builder::new().name("stop".into()).spawn(stop).is_ok() {
            let _ = stopped.recv_timeout(PATIENCE);
        }
    }

    fn read(&self, stream: UnixStream) {
        // If this thread panics, the views end too.
        let mut ends =
            Ends { feed: self, reason: "the thread that reads the session panicked".into(), is_broken: true };
        let pid = self.target().pid;
        let version = &self.shared.version;
        let changed = |now| _ = version.send_replace(now);
        let summary = follow(Unbroken(stream), &self.shared.history, &changed, &|thread| thread_name(pid, thread));
        (ends.reason, ends.is_broken) = ending(pid, &summary);
    }
}

/// Ends the history when it is dropped.
struct Ends<'a> {
    feed: &'a Feed,
    reason: String,
    is_broken: bool,
}

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        let reason = std::mem::take(&mut self.reason);
        let mut history = self.feed.history();
        history.end(reason, self.is_broken);
        self.feed.shared.version.send_replace(history.version);
    }
}

/// Returns why the stream has ended, and whether it is damaged.
fn ending(pid: u32, summary: &Summary) -> (String, bool) {
    let is_running = is_running(pid);
    match &summary.damage {
        // A process that is killed leaves an incomplete stream.
        Some(damage) if is_running => (format!("the stream of process {pid} is damaged {damage}"), true),
        _ if is_running => (format!("process {pid} has ended the session"), false),
        _ => (format!("process {pid} has ended"), false),
    }
}

/// Returns whether a process runs, shortly after its connection was closed: the kernel closes it before the process has ended.
fn is_running(pid: u32) -> bool {
    const STEP: Duration = Duration::from_millis(20);
    const STEPS: u32 = 50;
    for _ in 0..STEPS {
        // The state is the word after the name, which is in parentheses. A zombie (Z) has ended.
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        match stat.rsplit_once(") ").map(|(_, rest)| rest.as_bytes()) {
            None | Some([b'Z' | b'X', ..]) => return false,
            Some(_) => thread::sleep(STEP),
        }
    }
    true
}

/// The events that a view needs.
fn providers() -> [Provider; 3] {
    let provider = |name: &str, keywords, arguments: &str| Provider {
        name: name.into(),
        keywords,
        level: INFORMATIONAL,
        arguments: arguments.into(),
    };
    [
        provider(RUNTIME, GC, ""),
        provider(OWN, WORLD_AND_COLLECTION, ""),
        provider("System.Runtime", 0, "EventCounterIntervalSec=1"),
    ]
}

/// A stream that ends where it breaks off: a process that is killed resets its connections.
struct Unbroken(UnixStream);

impl Read for Unbroken {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self.0.read(buffer) {
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => Ok(0),
            read => read,
        }
    }
}

/// Returns the name of a thread of another process, if the system shows it.
fn thread_name(pid: u32, thread: u64) -> Option<String> {
    let name = fs::read_to_string(format!("/proc/{pid}/task/{thread}/comm")).ok()?;
    Some(name.trim_end().to_owned())
}
