//! `stopworld watch`: the collections of a running process as they happen, on the terminal or as a page.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, BufWriter, IsTerminal, Seek, Write};
use std::net::Shutdown;
use std::sync::Arc;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow};

use super::arguments::Watch;
use super::exit::Failure;
use super::snapshot::SeveralWorlds;
use super::{live, snapshot};
use heap_snapshot::{Heap, v8};
use nettrace::clr::gc::{End, EndV0, Start, StartV0};
use nettrace::clr::{Payload, Reason};
use nettrace::{EventType, Interest, NetEvent, Reader, TraceInfo, Visitor};
use stopworld_analysis::snapshot::{DumpChoice, OpenedHeap};
use stopworld_diagnostics::Refusal;
use stopworld_diagnostics::client::{Client, ClientError, Provider, Rundown, Session};
use stopworld_trace::nettrace::Providers;
use stopworld_watch::feed::Feed;
use stopworld_watch::terminal::{self, Ended};
use stopworld_watch::web::{ActionError, Actions, Server};

const RUNTIME: &str = "Microsoft-Windows-DotNETRuntime";
/// GC and GCHeapCollect: the collections, and one that the session requests.
const COLLECT: u64 = 0x1 | 0x80_0000;
/// Level Informational.
const INFORMATIONAL: u32 = 4;
/// The buffer that is requested for a session of an action, in megabytes.
const MEGABYTES: u32 = 64;
/// How long the page's recording takes.
const RECORDING: Duration = Duration::from_secs(10);
/// The longest wait for a requested collection, and for a heap dump.
const COLLECTION_TIME: Duration = Duration::from_secs(60);

/// `stopworld watch`.
pub(super) fn run(arguments: &Watch) -> Result<u8, Failure> {
    let pid = arguments.pid;
    if arguments.web {
        return serve(pid, arguments.port.unwrap_or(0));
    }
    if !io::stdout().is_terminal() {
        return Err(Failure::Usage(format!(
            "watch needs a terminal on standard output: `stopworld watch {pid} --web` serves a page instead, and \
             `stopworld counters {pid}` prints lines of text"
        )));
    }
    let feed = Feed::start(pid).map_err(anyhow::Error::from)?;
    let ended = terminal::show(&feed).context("the terminal failed")?;
    match ended {
        Ended::Requested => feed.stop(),
        // The terminal may be gone too.
        Ended::Session(reason) => _ = writeln!(io::stderr(), "stopworld: {reason}"),
        Ended::Broken(reason) => return Err(anyhow!(reason).into()),
    }
    Ok(0)
}

/// Serves the page until a signal ends the command.
fn serve(pid: u32, port: u16) -> Result<u8, Failure> {
    let feed = Feed::start(pid).map_err(anyhow::Error::from)?;
    let server = Server::bind(feed.clone(), Arc::new(ProcessActions { pid }), port).map_err(anyhow::Error::from)?;
    eprintln!("stopworld: process {pid} at {} (Ctrl-C ends)", server.url());
    let ended = |reason: &str| eprintln!("stopworld: {reason}; the page keeps its data until Ctrl-C");
    server.run(ended).map_err(anyhow::Error::from)?;
    feed.stop();
    Ok(0)
}

/// The actions of the page. Each is a session of its own.
struct ProcessActions {
    pid: u32,
}

impl Actions for ProcessActions {
    fn collect(&self) -> Result<(), ActionError> {
        collect(self.pid).map_err(failed)
    }

    fn snapshot(&self, world: Option<u64>) -> Result<File, ActionError> {
        heap_snapshot(self.pid, world).map_err(failed)
    }

    fn record(&self) -> Result<File, ActionError> {
        record(self.pid).map_err(failed)
    }
}

/// Returns the error for the page.
fn failed(error: anyhow::Error) -> ActionError {
    let text = format!("{error:#}");
    if let Some(SeveralWorlds { worlds, .. }) = error.downcast_ref() {
        return ActionError::SeveralWorlds(worlds.clone());
    }
    match error.downcast_ref() {
        Some(ClientError::Refused(Refusal::NotSupported | Refusal::UnknownCommand)) => ActionError::Unsupported(text),
        _ => ActionError::Failed(text),
    }
}

/// Requests a collection, and waits for its end in each world in which it has started.
fn collect(pid: u32) -> anyhow::Result<()> {
    let runtime = Provider { name: RUNTIME.into(), keywords: COLLECT, level: INFORMATIONAL, arguments: String::new() };
    let Session { stream, .. } = Client::of_process(pid)?.collect(&[runtime], MEGABYTES, Rundown::LeftOut)?;
    stream.set_read_timeout(Some(COLLECTION_TIME))?;
    let mut requested = Requested::new(Instant::now() + COLLECTION_TIME);
    Reader::new(&stream).in_file_order().read(&mut requested);
    // Closing the connection ends the session. If the process has closed it, there is nothing to close.
    let _ = stream.shutdown(Shutdown::Both);
    if requested.has_ended() {
        return Ok(());
    }
    Err(anyhow!(
        "process {pid} has not collected within {COLLECTION_TIME:?}: it may be unable to stop, or none of its worlds is recorded to the socket"
    ))
}

/// The collections of a session that were requested, by the session or by the program meanwhile. Those that the collector started by itself,
/// and those that had begun before the session, are no answer to the request.
struct Requested {
    deadline: Instant,
    pointer_bytes: u8,
    /// World and number of each.
    started: BTreeSet<(u16, i32)>,
    /// World and number of each collection that ended. Another thread may report the end, before the start in the file.
    ended: BTreeSet<(u16, i32)>,
}

impl Requested {
    fn new(deadline: Instant) -> Requested {
        Requested { deadline, pointer_bytes: 8, started: BTreeSet::new(), ended: BTreeSet::new() }
    }

    /// Returns whether there was at least one, and all have ended.
    fn has_ended(&self) -> bool {
        !self.started.is_empty() && self.started.is_subset(&self.ended)
    }
}

impl Visitor for Requested {
    fn trace(&mut self, trace: &TraceInfo) {
        self.pointer_bytes = trace.pointer_bytes;
    }

    fn event_type(&mut self, kind: &EventType) -> Interest {
        let is_one = kind.provider == RUNTIME && [Start::EVENT, End::EVENT].contains(&kind.event);
        if is_one { Interest::Deliver } else { Interest::Skip }
    }

    fn event(&mut self, event: &NetEvent<'_>) {
        let (version, payload) = (event.version(), Payload::new(event.payload, self.pointer_bytes));
        if event.kind.event == End::EVENT {
            let end = End::new(version, payload);
            let number = if version == 0 { EndV0::new(version, payload).count() } else { end.count() };
            self.ended.extend(number.map(|number| (end.clr_instance_id().unwrap_or_default(), number)));
            return;
        }
        let start = Start::new(version, payload);
        let (number, reason) = match version {
            0 => {
                let start = StartV0::new(version, payload);
                (start.count(), start.reason())
            }
            _ => (start.count(), start.reason()),
        };
        let is_requested = matches!(
            reason.and_then(Reason::of),
            Some(Reason::Induced | Reason::InducedNotForced | Reason::InducedCompacting)
        );
        if is_requested {
            self.started.extend(number.map(|number| (start.clr_instance_id().unwrap_or_default(), number)));
        }
    }

    fn is_done(&self) -> bool {
        self.has_ended() || Instant::now() >= self.deadline
    }
}

/// Returns an unnamed file at its beginning.
fn from_the_beginning(mut file: File) -> anyhow::Result<File> {
    file.rewind()?;
    Ok(file)
}

fn unnamed() -> anyhow::Result<File> {
    tempfile::tempfile().context("can't create a temporary file: set TMPDIR to a directory with room")
}

/// Takes a heap snapshot.
fn heap_snapshot(pid: u32, world: Option<u64>) -> anyhow::Result<File> {
    let dump = snapshot::record(pid, world, COLLECTION_TIME)?;
    let heap = OpenedHeap::open(dump, DumpChoice::default()).map_err(|error| anyhow!("process {pid}: {error}"))?;
    let heap: &dyn Heap = match &heap {
        OpenedHeap::Trace(trace) => &**trace,
        OpenedHeap::Graph(graph) => &**graph,
    };
    let file = unnamed()?;
    let mut buffered = BufWriter::new(&file);
    v8::write(heap, &mut buffered)?;
    buffered.flush().context("can't write the temporary file")?;
    drop(buffered);
    from_the_beginning(file)
}

/// Records the collections of the next seconds, as `stopworld trace` does. If the process ends meanwhile, the trace ends there.
fn record(pid: u32) -> anyhow::Result<File> {
    let client = Client::of_process(pid)?;
    let providers = live::requested(&Providers::default(), &[]);
    let Session { id, mut stream } = client.collect(&providers, MEGABYTES, Rundown::Requested)?;
    let mut file = unnamed()?;
    let (send, over) = mpsc::channel();
    let copying = thread::Builder::new().name("recording".into()).spawn(move || {
        let copied = io::copy(&mut stream, &mut file).map(|_| file);
        // If this fails, the other thread no longer waits.
        let _ = send.send(());
        copied
    })?;
    if over.recv_timeout(RECORDING).is_err() {
        // If the process has just ended, so has the stream.
        let _ = client.stop(id);
    }
    let copied = copying.join().map_err(|_| anyhow!("the thread that copies the trace panicked"))?;
    from_the_beginning(copied.context("the trace is incomplete")?)
}
