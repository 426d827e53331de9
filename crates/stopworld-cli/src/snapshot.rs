//! `stopworld snapshot`: writes a heap snapshot of a running process, of a core file, or of a heap dump in a trace.
//!
//! A running process sends its heap as a .nettrace with a heap dump, through its diagnostics socket; the stream is copied to an unnamed
//! file. From there on both cases are the same: the heap stays in its file, and the writer visits it. The output replaces an existing
//! file only when it is complete (see `atomic_output`).

use std::fs::File;
use std::io::{self, BufWriter, IsTerminal, Read, Write};
use std::path::Path;
use std::sync::Mutex;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use anyhow::{Context, anyhow, bail};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use thiserror::Error;

use super::arguments::Snapshot;
use super::atomic_output::Output;
use super::exit::{FAILED, Failure, PIPE_CLOSED};
use super::heap_input::{open, process};
use super::post_mortem::Found;
use super::post_mortem_arguments::CoreSource;
use heap_snapshot::{Heap, Object, Root, RootGroup, hprof, v8};
use nettrace::clr::bulk::BulkNode;
use nettrace::clr::gc::End;
use nettrace::{EventType, Interest, NetEvent, Reader, Visitor};
use stopworld_analysis::snapshot::{DumpChoice, OpenedHeap, SnapshotError, SnapshotFormat, TraceHeap};
use stopworld_diagnostics::client::{Client, Provider, Rundown};
use stopworld_platform::os::remedy::remedy_of;

/// The size of the output buffer in bytes.
const BUFFER: usize = 1 << 20;
/// The buffer that is requested for a session, in megabytes.
const MEGABYTES: u32 = 256;
/// GC, Type, GCHeapDump and GCHeapCollect: the types and the heap, by a collection that the session requests; and the names of the types.
const HEAP_DUMP: u64 = 0x1 | 0x8_0000 | 0x10_0000 | 0x80_0000 | 0x100_0000;
/// Level Informational.
const INFORMATIONAL: u32 = 4;

/// `stopworld snapshot`.
pub(super) fn run(arguments: &Snapshot) -> Result<u8, Failure> {
    let format = format_of(&arguments.output)?;
    let name = arguments.input.display();
    let process = process(&arguments.input);
    let source = &arguments.core;
    if let Some(pid) = process.filter(|_| arguments.ptrace) {
        let output = Output::open(&arguments.output)?;
        let found = super::post_mortem::ptrace_graph(pid, arguments.core.world)?;
        return write_found(found, output, &arguments.output, format);
    }
    if arguments.ptrace {
        return Err(Failure::Usage(format!("--ptrace reads a process, and {name} is not the id of one")));
    }
    // The output is opened before the work begins.
    if let Some(pid) = process {
        if source.program.is_some() || arguments.collection.is_some() {
            return Err(Failure::Usage(format!(
                "--program and --collection: process {pid} collects and sends its heap itself: omit them"
            )));
        }
        let output = Output::open(&arguments.output)?;
        let trace = record(pid, source.world, arguments.timeout)?;
        let opened = Opened::new(trace, DumpChoice::default()).map_err(|error| of_process(pid, error))?;
        return write(opened, output, &arguments.output, format);
    }
    let file = open(&arguments.input)?;
    if let Some(found) = super::post_mortem::core_graph(&file, &arguments.input, source)? {
        if arguments.collection.is_some() {
            return Err(no_dumps(&name));
        }
        let output = Output::open(&arguments.output)?;
        return write_found(found, output, &arguments.output, format);
    }
    check_options(&arguments.input, &file, source, arguments.collection)?;
    let output = Output::open(&arguments.output)?;
    let choice = DumpChoice { collection: arguments.collection, world: source.world };
    let opened = Opened::new(file, choice).map_err(|error| anyhow!("{name}: {error}"))?;
    write(opened, output, &arguments.output, format)
}

/// The error for `--collection` with something that has one heap.
pub(super) fn no_dumps(name: &impl std::fmt::Display) -> Failure {
    Failure::Usage(format!("--collection selects a heap dump of a .nettrace, and {name} has one heap: omit it"))
}

/// Refuses options that select in a core or in a trace, if the file is neither.
pub(super) fn check_options(
    path: &Path,
    file: &File,
    source: &CoreSource,
    collection: Option<i32>,
) -> Result<(), Failure> {
    let name = path.display();
    if source.program.is_some() {
        return Err(Failure::Usage(format!("--program is for core files, and {name} is none: omit it")));
    }
    // A file of no known format is reported when it is opened.
    match SnapshotFormat::of(file) {
        Ok(None | Some(SnapshotFormat::Nettrace)) | Err(_) => Ok(()),
        Ok(Some(_)) if collection.is_some() => Err(no_dumps(&name)),
        Ok(Some(_)) if source.world.is_some() => Err(Failure::Usage(format!(
            "--world selects a world of a core file or of a .nettrace, and {name} has one heap: omit it"
        ))),
        Ok(Some(_)) => Ok(()),
    }
}

/// Writes the heap of a core or of a process: what could be read of it. A heap of which a part is missing replaces no file, which may be a
/// whole one.
fn write_found(found: Found, output: Output, path: &Path, format: SnapshotFormat) -> Result<u8, Failure> {
    if !found.is_whole && output.replaces() {
        return Err(anyhow!(
            "{}: the heap is incomplete, so it does not replace the existing file: name another file for what could be read",
            path.display()
        )
        .into());
    }
    let opened = Opened { heap: OpenedHeap::Graph(Box::new(found.graph)), bar: Bar::none() };
    let code = write(opened, output, path, format)?;
    Ok(if code == 0 && !found.is_whole { FAILED } else { code })
}

/// Returns the format that the name of the output selects.
pub(super) fn format_of(output: &Path) -> anyhow::Result<SnapshotFormat> {
    SnapshotFormat::by_extension(output)
        .with_context(|| format!("{}: its name does not select a format", output.display()))
}

fn of_process(pid: u32, error: impl std::fmt::Display) -> anyhow::Error {
    anyhow!("process {pid}: {error}")
}

/// A heap, and the bar that shows how much of its file was read.
pub(super) struct Opened {
    heap: OpenedHeap,
    bar: Bar,
}

impl Opened {
    /// Opens a file with a heap. `choice` selects one of the dumps of a trace.
    pub(super) fn new(file: File, choice: DumpChoice) -> Result<Opened, SnapshotError> {
        // Opening a trace reads it twice, and so does the writer.
        const READINGS: u64 = 4;
        if SnapshotFormat::of(&file)? != Some(SnapshotFormat::Nettrace) {
            return Ok(Opened { heap: OpenedHeap::open(file, choice)?, bar: Bar::none() });
        }
        let bar = Bar::new(READINGS * file.metadata()?.len());
        let of_reader = bar.0.clone();
        let on_read = move |count| of_reader.iter().for_each(|bar| bar.inc(count));
        Ok(Opened { heap: OpenedHeap::open_watched(file, choice, Box::new(on_read))?, bar })
    }
}

/// Describes the damage of a trace, if it is damaged, and names the collection whose dump was complete nevertheless.
pub(super) fn damaged(trace: &TraceHeap) -> Option<String> {
    let (damage, collection) = (trace.damage()?, trace.collection());
    Some(format!("the trace is damaged {damage}; the heap dump of collection {collection} is complete and is used"))
}

/// Writes a heap in a format. Returns the exit code: a damaged trace is a failure, although its complete dump is written.
pub(super) fn write(opened: Opened, mut output: Output, path: &Path, format: SnapshotFormat) -> Result<u8, Failure> {
    let Opened { heap, bar } = opened;
    let mut code = 0;
    if let OpenedHeap::Trace(trace) = &heap {
        if trace.left_out() > 0 {
            let number = trace.left_out();
            bar.print_line(&format!(
                "{number} references and roots are left out, because their object is not in the dump"
            ));
        }
        if let Some(damaged) = damaged(trace) {
            bar.print_line(&damaged);
            code = FAILED;
        }
    }
    let is_graph = matches!(heap, OpenedHeap::Graph(_));
    // A heap in memory is visited twice.
    let (heap, bar): (&dyn Heap, Bar) = match &heap {
        OpenedHeap::Trace(trace) => (&**trace, bar),
        OpenedHeap::Graph(graph) => (&**graph, Bar::new(2 * u64::from(graph.objects()))),
    };
    let counted = Counted { heap, bar: bar.0.as_ref().filter(|_| is_graph) };
    let replaces = output.replaces();
    let buffered = BufWriter::with_capacity(BUFFER, &mut output);
    let written = match format {
        SnapshotFormat::Hprof => hprof::write(&counted, buffered),
        SnapshotFormat::HeapSnapshot | SnapshotFormat::Nettrace => v8::write(&counted, buffered),
    };
    let written = written.and_then(|()| output.finish().map_err(heap_snapshot::Error::Output));
    drop(bar);
    match written {
        Ok(()) => {
            let (name, roots) = (path.display(), heap.roots().len());
            let (objects, references) = (heap.objects(), heap.references());
            eprintln!("stopworld: wrote {objects} objects, {references} references and {roots} roots to {name}");
            Ok(code)
        }
        Err(heap_snapshot::Error::Output(error)) if error.kind() == io::ErrorKind::BrokenPipe => Ok(PIPE_CLOSED),
        Err(heap_snapshot::Error::Output(error)) => {
            let rest = if replaces { "the existing file is unchanged; " } else { "" };
            let (name, remedy) = (path.display(), remedy_of(&error));
            Err(anyhow!("{name}: {error}; {rest}{remedy}, or name another file").into())
        }
        Err(error) => Err(anyhow!("{}: {error}", path.display()).into()),
    }
}

/// A progress bar on standard error, if that is a terminal. Dropping it clears it.
#[derive(Debug)]
struct Bar(Option<ProgressBar>);

impl Bar {
    fn none() -> Bar {
        Bar(None)
    }

    fn new(length: u64) -> Bar {
        if !io::stderr().is_terminal() {
            return Bar::none();
        }
        let bar = ProgressBar::with_draw_target(Some(length), ProgressDrawTarget::stderr());
        let style = ProgressStyle::with_template("snapshot [{bar:30}] {percent} %  {elapsed}, {eta} left");
        Bar(style.ok().map(|style| {
            bar.set_style(style.progress_chars("=> "));
            bar
        }))
    }

    /// Prints a line on standard error, above the bar.
    fn print_line(&self, line: &str) {
        let print = || eprintln!("snapshot: {line}");
        self.0.as_ref().map_or_else(print, |bar| bar.suspend(print));
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        self.0.iter().for_each(ProgressBar::finish_and_clear);
    }
}

/// A heap whose visited objects a bar counts, if there is one.
struct Counted<'a> {
    heap: &'a dyn Heap,
    bar: Option<&'a ProgressBar>,
}

impl Heap for Counted<'_> {
    fn types(&self) -> &[String] {
        self.heap.types()
    }

    fn names(&self) -> &[String] {
        self.heap.names()
    }

    fn groups(&self) -> &[RootGroup] {
        self.heap.groups()
    }

    fn roots(&self) -> &[Root] {
        self.heap.roots()
    }

    fn objects(&self) -> u32 {
        self.heap.objects()
    }

    fn references(&self) -> u64 {
        self.heap.references()
    }

    fn address(&self, index: u32) -> u64 {
        self.heap.address(index)
    }

    fn visit(&self, visit: &mut dyn FnMut(&Object<'_>) -> heap_snapshot::Result<()>) -> heap_snapshot::Result<()> {
        const STEP: u32 = 1 << 16;
        self.heap.visit(&mut |object| {
            if let Some(bar) = self.bar.filter(|_| object.index % STEP == STEP - 1) {
                bar.inc(u64::from(STEP));
            }
            visit(object)
        })
    }
}

/// No world of several was selected.
#[derive(Debug, Error)]
#[error("process {pid}: the process has several worlds: --world selects one of {}", numbers(.worlds))]
pub(super) struct SeveralWorlds {
    pid: u32,
    pub(super) worlds: Vec<u64>,
}

/// Returns the number of the world to record: the wanted one, or the only one. `None` for a process of another runtime.
fn world_of(client: &Client, pid: u32, wanted: Option<u64>) -> anyhow::Result<Option<u64>> {
    let worlds = client.worlds()?.unwrap_or_default();
    match (worlds.as_slice(), wanted) {
        ([], None) => Ok(None),
        ([], Some(_)) => bail!("process {pid} has no worlds: omit --world"),
        ([world], None) => Ok(Some(*world)),
        (_, None) => Err(SeveralWorlds { pid, worlds }.into()),
        (_, Some(wanted)) if worlds.contains(&wanted) => Ok(Some(wanted)),
        (_, Some(wanted)) => {
            bail!("process {pid}: the process has no world {wanted}: it has {}", numbers(&worlds))
        }
    }
}

fn numbers(worlds: &[u64]) -> String {
    worlds.iter().map(u64::to_string).collect::<Vec<_>>().join(", ")
}

/// Records a heap dump of a running process to an unnamed file. `world` is needed if the process has several.
pub(super) fn record(pid: u32, world: Option<u64>, timeout: Duration) -> anyhow::Result<File> {
    let client = Client::of_process(pid)?.with_reply_time(timeout);
    let world = world_of(&client, pid, world)?;
    let provider = Provider {
        name: "Microsoft-Windows-DotNETRuntime".into(),
        keywords: HEAP_DUMP,
        level: INFORMATIONAL,
        arguments: String::new(),
    };
    let provider = match world {
        Some(world) => provider.in_world(world),
        None => provider,
    };
    let session = client.collect(&[provider], MEGABYTES, Rundown::LeftOut)?;
    let copy = tempfile::tempfile().context("can't create a temporary file: set TMPDIR to a directory with room")?;
    session.stream.set_read_timeout(Some(timeout))?;
    let (send, over) = mpsc::channel();
    // The request to stop returns after the stream has been read to its end, so another thread makes it.
    let stopper = thread::Builder::new().name("stop".into()).spawn(move || {
        // Nothing is sent: an error means that there is a dump, or that the stream has ended without one.
        let _: Result<(), _> = over.recv();
        // If the process has ended, there is nothing to stop.
        let _ = client.stop(session.id);
    })?;
    let failure = Mutex::new(None);
    let tee = Tee { stream: session.stream, copy: &copy, failure: &failure };
    let mut watch = Watch { over: Some(send), is_dumping: false };
    let summary = Reader::new(tee).in_file_order().read(&mut watch);
    let seen = watch.has_seen_dump();
    drop(watch);
    // A panic of this thread leaves at worst a session that the process ends by itself.
    let _ = stopper.join();
    let failure = failure.into_inner().unwrap_or_default();
    match failure {
        Some(TeeFailure::Copy(error)) => Err(temporary_is_full(&error)),
        Some(TeeFailure::Stream(error)) if !seen => bail!(
            "process {pid} sent no heap dump within {timeout:?} ({error}): it may be unable to collect; --timeout waits longer"
        ),
        // The process ends a session with the end tag.
        _ if !seen && summary.damage.is_some() => {
            bail!("process {pid} closed the connection before it had sent its heap: it has probably ended")
        }
        _ if !seen => {
            bail!("process {pid} ended the session without a heap dump: is one of its worlds recorded to the socket?")
        }
        _ => Ok(copy),
    }
}

/// The error for a temporary file that can't be written.
pub(super) fn temporary_is_full(error: &io::Error) -> anyhow::Error {
    let remedy = remedy_of(error);
    anyhow!("can't write the temporary file: {error}; {remedy}, or set TMPDIR to a directory with room")
}

enum TeeFailure {
    Copy(io::Error),
    Stream(io::Error),
}

/// Copies what is read.
struct Tee<'a, R> {
    stream: R,
    copy: &'a File,
    failure: &'a Mutex<Option<TeeFailure>>,
}

impl<R> Tee<'_, R> {
    fn fail(&self, failure: TeeFailure) {
        if let Ok(mut first) = self.failure.lock() {
            first.get_or_insert(failure);
        }
    }
}

impl<R: Read> Read for Tee<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = match self.stream.read(buffer) {
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => return Err(error),
            Err(error) => {
                let kind = error.kind();
                self.fail(TeeFailure::Stream(error));
                return Err(kind.into());
            }
        };
        let mut copy = self.copy;
        if let Err(error) = copy.write_all(&buffer[..count]) {
            let kind = error.kind();
            self.fail(TeeFailure::Copy(error));
            return Err(kind.into());
        }
        Ok(count)
    }
}

/// Notices the end of the first collection with a heap dump.
struct Watch {
    /// Is dropped after the dump, which requests the end of the session.
    over: Option<mpsc::Sender<()>>,
    /// Whether the current collection has a dump.
    is_dumping: bool,
}

impl Watch {
    fn has_seen_dump(&self) -> bool {
        self.over.is_none()
    }
}

impl Visitor for Watch {
    fn event_type(&mut self, kind: &EventType) -> Interest {
        let is_runtime = kind.provider == "Microsoft-Windows-DotNETRuntime";
        let is_wanted = [BulkNode::EVENT, End::EVENT].contains(&kind.event);
        if is_runtime && is_wanted { Interest::Deliver } else { Interest::Skip }
    }

    fn event(&mut self, event: &NetEvent<'_>) {
        if event.kind.event == BulkNode::EVENT {
            self.is_dumping = true;
        } else if std::mem::take(&mut self.is_dumping) {
            self.over = None;
        }
    }
}
