//! `stopworld core`: what is in the core file of a program that used the collector. And the heaps of cores, and of processes that are stopped
//! by ptrace, for `stopworld heap` and `stopworld snapshot`.
//!
//! The report goes to standard output, what can't be read to standard error. Exit codes: 0; 1 if something can't be read or is damaged, or
//! there is no such object; 141 if standard output was closed.

use std::collections::HashSet;
use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;

use anyhow::{Context, anyhow, bail};
use comfy_table::{ContentArrangement, Table, presets};

use super::exit::{FAILED, Failure, PIPE_CLOSED, unwritten_report};
use super::post_mortem_arguments::{Core, CoreSource};
use super::stopped_process::{self, StoppedMemory, stopped_threads};
use heap_snapshot::{Dominators, Graph, Heap as _, paths};
use stopworld::debugger::Phase;
use stopworld_analysis::report::{Bytes, heap_objects};
use stopworld_analysis::snapshot::census;
use stopworld_platform::os::signals;
use stopworld_postmortem::{CoreFile, Heap, OutsideWords, Process, StoppedThread, ThreadPlace, ThreadRecord, World};
use stopworld_ptrace::{Debugger, DebuggerOptions};

/// The largest number of rows that are listed of an object's fields, or of those that refer to it.
const MOST_ROWS: usize = 64;
/// The largest number of types that are listed because their words may be damaged.
const MOST_SUSPECTS: usize = 8;
/// The largest number of names of files that are listed.
const MOST_FILES: usize = 8;
/// The largest number of worlds whose heaps are read, and of their numbers that are listed. A damaged core may seem to have thousands.
const MOST_WORLDS: usize = 16;

/// `stopworld core`.
pub(super) fn run(arguments: &Core) -> Result<u8, Failure> {
    let core = open(super::heap_input::open(&arguments.core)?, &arguments.core, &arguments.source)?;
    report(arguments, &core)?.print()
}

fn report(arguments: &Core, core: &CoreFile) -> anyhow::Result<Report> {
    let process = Process::of_core(core).map_err(|error| not_found(&arguments.core, core, &error))?;
    let mut report = Report::default();
    report.missing.extend(core.complaints().iter().cloned());
    let asked = [arguments.object, arguments.referrers, arguments.why].into_iter().flatten().next();
    match asked {
        Some(address) => answer(arguments, &process, address, &mut report)?,
        None => overview(arguments, core, &process, &mut report)?,
    }
    report.unusable_files(core);
    Ok(report)
}

/// Returns what `stopworld core` prints about a core on standard output, and then on standard error.
#[cfg(feature = "fuzzing")]
pub(super) fn printed(arguments: &Core, core: &CoreFile) -> String {
    match report(arguments, core) {
        Ok(Report { text, missing, .. }) => missing.iter().fold(text, |text, line| text + &shown(line) + "\n"),
        Err(error) => format!("{error:#}"),
    }
}

/// What is printed.
#[derive(Default)]
struct Report {
    text: String,
    /// What can't be read.
    missing: Vec<String>,
    is_failure: bool,
}

impl Report {
    fn line(&mut self, line: impl std::fmt::Display) {
        let _ = writeln!(self.text, "{line}");
    }

    /// If something is missing, lists the files that could not be used: they may be the reason.
    fn unusable_files(&mut self, core: &CoreFile) {
        if self.missing.is_empty() {
            return;
        }
        let files: Vec<_> = core.unusable_files().collect();
        self.missing.extend(files.iter().take(MOST_FILES).map(|(_, reason)| format!("not used: {reason}")));
        if files.len() > MOST_FILES {
            self.missing.push(format!("not used: {} more files", files.len() - MOST_FILES));
        }
        let program = core.program().unwrap_or_default();
        if files.iter().any(|(path, _)| *path == program) {
            self.missing.push("--program FILE names the program, if it is elsewhere".to_owned());
        }
    }

    /// Prints on standard error what can't be read, each part once.
    fn tell_missing(&self, command: &str) {
        let mut told = HashSet::new();
        for missing in self.missing.iter().filter(|missing| told.insert(missing.as_str())) {
            eprintln!("{command}: {}", shown(missing));
        }
    }

    fn print(self) -> Result<u8, Failure> {
        self.tell_missing("core");
        let mut out = io::stdout().lock();
        match out.write_all(self.text.as_bytes()).and_then(|()| out.flush()) {
            Ok(()) if self.is_failure || !self.missing.is_empty() => Ok(FAILED),
            Ok(()) => Ok(0),
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(PIPE_CLOSED),
            Err(error) => Err(unwritten_report(&error)),
        }
    }
}

fn open(file: File, path: &Path, source: &CoreSource) -> anyhow::Result<CoreFile> {
    if let Some(program) = &source.program {
        File::open(program).with_context(|| format!("--program {}", program.display()))?;
    }
    CoreFile::of_file(file, source.program.as_deref()).map_err(|error| anyhow!("{}: {error}", path.display()))
}

fn not_found(path: &Path, core: &CoreFile, error: &dyn std::error::Error) -> anyhow::Error {
    let cut = core.complaints().first().map_or(String::new(), |complaint| format!(" ({complaint})"));
    anyhow!("{}: {error}{cut}", path.display())
}

fn answer(arguments: &Core, process: &Process<'_>, address: u64, report: &mut Report) -> anyhow::Result<()> {
    let (worlds, wrong) = process.worlds();
    report.missing.extend(wrong.iter().map(ToString::to_string));
    let mut reason = "the address is in no world's heap";
    let mut tried = 0;
    for world in chosen(arguments, &worlds)? {
        let reserves = process.reserves(world, address);
        if matches!(reserves, Ok(false)) {
            continue;
        }
        // Heaps of a sound process have no address in common.
        if tried == MOST_WORLDS {
            report.missing.push(format!("more than {MOST_WORLDS} worlds may have the address: --world selects one"));
            break;
        }
        tried += 1;
        let heap = reserves.and_then(|_| process.heap(world));
        let heap = match heap {
            Ok(heap) => heap,
            Err(error) => {
                report.missing.push(format!("world {}: {error}", world.number));
                continue;
            }
        };
        let Some(number) = heap.find(address) else {
            if heap.has(address) {
                reason = heap.why_no_object(address);
            }
            continue;
        };
        report.missing.extend(heap.gaps().iter().cloned());
        if arguments.why.is_some() {
            return why(process, world, &heap, number, report);
        }
        if arguments.referrers.is_some() {
            referrers(&heap, number, report);
        } else {
            object(&heap, number, world, report);
        }
        return Ok(());
    }
    let missing = report.missing.first().map_or(String::new(), |missing| format!(" ({})", shown(missing)));
    bail!("{}: no object is at {address:#x}: {reason}{missing}", arguments.core.display())
}

/// Returns the worlds that the arguments select: all, or the one with the number.
fn chosen<'w>(arguments: &Core, worlds: &'w [World]) -> anyhow::Result<Vec<&'w World>> {
    let Some(number) = arguments.source.world else { return Ok(worlds.iter().collect()) };
    let found: Vec<_> = worlds.iter().filter(|world| world.number == number).take(1).collect();
    match (found.is_empty(), worlds.is_empty()) {
        (false, _) => Ok(found),
        (true, true) => bail!("{}: no world of the process can be read: omit --world", arguments.core.display()),
        (true, false) => {
            bail!("{}: the process had no world {number}: it had {}", arguments.core.display(), numbers(worlds))
        }
    }
}

/// Lists the numbers of worlds.
fn numbers(worlds: &[World]) -> String {
    let listed: Vec<_> = worlds.iter().take(MOST_WORLDS).map(|world| world.number.to_string()).collect();
    match worlds.len().saturating_sub(MOST_WORLDS) {
        0 => listed.join(", "),
        more => format!("{}, and {more} more", listed.join(", ")),
    }
}

fn object(heap: &Heap<'_>, number: u32, world: &World, report: &mut Report) {
    let Some(facts) = heap.facts(number, MOST_ROWS) else { return };
    let length = facts.length.map_or(String::new(), |length| format!(", {length} elements"));
    let (name, address) = (shown(&facts.type_name), facts.address);
    report.line(format_args!("{address:#x}  {name}, {} B{length}, in world {}", facts.footprint, world.number));
    if facts.fields.is_empty() {
        return;
    }
    let mut table = table(["offset", "value", "refers to"]);
    for field in facts.fields {
        let target = field.target.map_or(String::new(), |(address, name)| format!("{address:#x}  {}", shown(&name)));
        table.add_row([format!("+{}", field.offset), format!("{:#x}", field.value), target]);
    }
    report.line(table);
}

fn referrers(heap: &Heap<'_>, number: u32, report: &mut Report) {
    let (found, count) = heap.referrers(number, MOST_ROWS);
    if count == 0 {
        report.line("no object refers to it; --why also searches the roots");
        return;
    }
    let mut table = table(["object", "type", "offset"]);
    for referrer in &found {
        table.add_row([
            format!("{:#x}", referrer.address),
            shown(&referrer.type_name),
            format!("+{}", referrer.offset),
        ]);
    }
    report.line(table);
    if count > found.len() as u64 {
        report.line(format_args!("{} more", count - found.len() as u64));
    }
}

fn why(process: &Process<'_>, world: &World, heap: &Heap<'_>, number: u32, report: &mut Report) -> anyhow::Result<()> {
    let (graph, gaps) = process.graph(world, heap)?;
    report.missing.extend(gaps);
    match paths::shortest(&graph, number) {
        Some(path) => report.line(heap_objects::render_path(&graph, &Dominators::of(&graph), &path)),
        None => {
            let address = graph.address(number);
            report.line(format_args!("no root reaches the object at {address:#x}: it was garbage"));
            report.is_failure = true;
        }
    }
    Ok(())
}

fn overview(arguments: &Core, core: &CoreFile, process: &Process<'_>, report: &mut Report) -> anyhow::Result<()> {
    about_process(core, report);
    let (worlds, wrong) = process.worlds();
    report.missing.extend(wrong.iter().map(ToString::to_string));
    let chosen = chosen(arguments, &worlds)?;
    if chosen.is_empty() {
        report.line(match &wrong[..] {
            [] => "the process had no world",
            _ => "no world of the process can be read",
        });
    }
    for world in chosen.iter().take(MOST_WORLDS) {
        report.line("");
        about_world(world, report);
        let (records, wrong) = process.mutators(world);
        report.missing.extend(wrong.map(|error| error.to_string()));
        match process.heap(world) {
            Err(error) => report.missing.push(format!("world {}: {error}", world.number)),
            Ok(heap) => {
                threads(&heap, world, &records, process.threads(), report);
                report.line(format_args!("heap      {} committed", Bytes(heap.committed_bytes())));
                report.missing.extend(heap.gaps().iter().cloned());
                damage(&heap, &records, report);
                let (graph, gaps) = process.graph(world, &heap)?;
                report.missing.extend(gaps);
                let dominators = Dominators::of(&graph);
                let census = census(&graph, &dominators);
                report.line(heap_objects::render(&graph, &dominators, &census, arguments.top));
            }
        }
    }
    if chosen.len() > MOST_WORLDS {
        let (more, first) = (chosen.len() - MOST_WORLDS, chosen[MOST_WORLDS].number);
        report.line(format_args!("\n{more} more worlds are left out: --world N shows one, such as --world {first}"));
    }
    Ok(())
}

fn about_process(core: &CoreFile, report: &mut Report) {
    let command = if core.command().is_empty() { "a process" } else { core.command() };
    report.line(format_args!("core of   {}, pid {}", shown(command), core.pid()));
    if let Some(thread) = core.threads().first().filter(|thread| thread.signal != 0) {
        let signal = signals::name(thread.signal);
        report.line(format_args!("signal    {signal}, in thread {} at {:#x}", thread.tid, thread.rip));
    }
    let (bytes, segments) = core.size();
    report.line(format_args!("memory    {} in {segments} segments, {} threads", Bytes(bytes), core.threads().len()));
    if let Some(program) = core.program() {
        let unusable = core.unusable_files().find(|(path, _)| *path == program);
        let state = unusable.map_or(String::new(), |(_, reason)| format!(", not used: {reason}"));
        report.line(format_args!("program   {}{}", shown(program), shown(&state)));
    }
}

fn about_world(world: &World, report: &mut Report) {
    let phase = match world.phase {
        Ok(phase) => format!("phase {}: {}", phase.name(), meaning(phase)),
        Err(number) => format!("phase {number}, which is none"),
    };
    report.line(format_args!("world {}   {phase}", world.number));
    let by =
        if world.collecting == 0 { String::new() } else { format!(", one was running in thread {}", world.collecting) };
    report.line(format_args!(
        "          {} collections were finished{by}; stopped by {}",
        world.collections,
        shown(&world.stopper)
    ));
}

/// Returns what a collection was doing in a phase.
fn meaning(phase: Phase) -> &'static str {
    match phase {
        Phase::Running => "no collection",
        Phase::SuspendBegin => "a collection was stopping the threads",
        Phase::SuspendEnd | Phase::GcStart => "a collection had stopped the threads",
        Phase::RootsBegin => "a collection was scanning roots",
        Phase::RootsEnd => "a collection had scanned the roots",
        Phase::MarkBegin => "a collection was marking",
        Phase::MarkEnd => "a collection had marked, and was clearing weak references",
        Phase::WeakEnd => "a collection had cleared weak references",
        Phase::SweepBegin => "a collection was setting up the sweep",
        Phase::SweepEnd | Phase::GcEnd => "a collection had set up the sweep",
        Phase::RestartBegin => "a collection was resuming the threads",
        Phase::RestartEnd => "a collection had resumed the threads",
    }
}

fn threads(heap: &Heap<'_>, world: &World, records: &[ThreadRecord], threads: &[StoppedThread], report: &mut Report) {
    let mut table = table(["thread", "name", "state", "at"]);
    for record in records {
        let thread = threads.iter().find(|thread| thread.tid == record.tid);
        let mut state = match record.place {
            _ if record.is_gone => "ended without detaching",
            ThreadPlace::Detached => "detached",
            ThreadPlace::Running if record.tid == world.collecting => "collecting",
            ThreadPlace::Running => "running",
            ThreadPlace::Blocking => "in a blocking region",
            ThreadPlace::Parked => "parked",
        }
        .to_owned();
        if let Some(block) = heap.sweeping(record) {
            let _ = write!(state, ", sweeping the block at {block:#x}");
        }
        for (holds, by) in record.held.into_iter().zip(["a collection", "a user"]) {
            if holds {
                let _ = write!(state, ", held by {by}");
            }
        }
        let at = thread.map_or("not in the core".to_owned(), |thread| format!("{:#x}", thread.rip));
        table.add_row([record.tid.to_string(), shown(&record.name), state, at]);
    }
    report.line(table);
}

fn damage(heap: &Heap<'_>, records: &[ThreadRecord], report: &mut Report) {
    let damages = heap.verify(records);
    if damages.count == 0 {
        // What could not be read is listed on standard error.
        report.line(match heap.gaps() {
            [] => "verified  no damage was found",
            _ => "verified  no damage was found in the part of the heap that the core has",
        });
    } else {
        report.is_failure = true;
        let places = if damages.count == 1 { "place" } else { "places" };
        report.line(format_args!("verified  {} damaged {places}:", damages.count));
        for (address, damage) in &damages.places {
            report.line(format_args!("  {address:#x}  {}", shown(&damage.to_string())));
        }
        let more = damages.count - damages.places.len() as u64;
        if more > 0 {
            report.line(format_args!("  {more} more"));
        }
    }
    suspects(&damages.outside, report);
}

/// Lists words that may be damaged references.
fn suspects(words: &[OutsideWords], report: &mut Report) {
    if words.is_empty() {
        return;
    }
    report.line("suspect   words in the place of references that are no addresses in the heap (right only if the type has such values):");
    for OutsideWords { type_name, count, object, offset, value } in words.iter().take(MOST_SUSPECTS) {
        let type_name = shown(type_name);
        report.line(format_args!(
            "  {object:#x}  type {type_name} has {value:#x} at offset {offset}, and {} more",
            count - 1
        ));
    }
    if words.len() > MOST_SUSPECTS {
        report.line(format_args!("  {} more types", words.len() - MOST_SUSPECTS));
    }
}

fn table<const N: usize>(header: [&str; N]) -> Table {
    let mut table = Table::new();
    table.load_preset(presets::UTF8_FULL_CONDENSED).set_content_arrangement(ContentArrangement::Disabled);
    table.set_header(header);
    table
}

/// Replaces control characters, which must not reach the terminal.
fn shown(text: &str) -> String {
    text.chars().map(|char| if char.is_control() { '\u{fffd}' } else { char }).collect()
}

/// The heap of a core or of a process.
pub(super) struct Found {
    pub(super) graph: Graph,
    /// Whether all of it could be read.
    pub(super) is_whole: bool,
}

/// Returns the heap of a core, if the file is one. Reports on standard error what can't be read.
pub(super) fn core_graph(file: &File, path: &Path, source: &CoreSource) -> Result<Option<Found>, Failure> {
    let mut head = [0; 18];
    if file.read_exact_at(&mut head, 0).is_err() || !head.starts_with(b"\x7fELF") {
        return Ok(None);
    }
    let file = file.try_clone().with_context(|| format!("can't read {}", path.display()))?;
    let core = open(file, path, source)?;
    let process = Process::of_core(&core).map_err(|error| not_found(path, &core, &error))?;
    let mut report = Report::default();
    report.missing.extend(core.complaints().iter().cloned());
    let graph = graph(&process, source.world, true, &mut report).with_context(|| path.display().to_string())?;
    report.unusable_files(&core);
    report.tell_missing("core");
    Ok(Some(Found { graph, is_whole: report.missing.is_empty() }))
}

/// Returns the heap of a world. `verifies` also reports that it is damaged.
fn graph(process: &Process<'_>, number: Option<u64>, verifies: bool, report: &mut Report) -> anyhow::Result<Graph> {
    let (worlds, wrong) = process.worlds();
    report.missing.extend(wrong.iter().map(ToString::to_string));
    let world = match (worlds.as_slice(), number) {
        ([], _) if wrong.is_empty() => bail!("the process has no world"),
        ([], _) => bail!("no world of the process can be read: {}", wrong[0]),
        ([world], None) => world,
        (_, None) => bail!("the process has several worlds: --world selects one of {}", numbers(&worlds)),
        (_, Some(number)) => worlds
            .iter()
            .find(|world| world.number == number)
            .with_context(|| format!("the process has no world {number}: it has {}", numbers(&worlds)))?,
    };
    let heap = process.heap(world)?;
    report.missing.extend(heap.gaps().iter().cloned());
    let (graph, gaps) = process.graph(world, &heap)?;
    report.missing.extend(gaps);
    let damaged = if verifies { heap.verify(&process.mutators(world).0).count } else { 0 };
    if damaged > 0 {
        let places = if damaged == 1 { "place of the heap is" } else { "places of the heap are" };
        report.missing.push(format!("{damaged} {places} damaged: `stopworld core` lists them"));
    }
    Ok(graph)
}

/// Returns the heap of a running process, which is stopped meanwhile. The process executes no code for it.
pub(super) fn ptrace_graph(pid: u32, world: Option<u64>) -> anyhow::Result<Found> {
    let pid = i32::try_from(pid).context("there is no such process id")?;
    let mut debugger = Debugger::attach(pid, DebuggerOptions::default())?;
    debugger.stop_all()?;
    let threads = stopped_threads(&debugger)?;
    let mut report = Report::default();
    let memory = StoppedMemory(&debugger);
    let read = stopped_process::process(&debugger, &memory, threads)
        .map_err(anyhow::Error::from)
        // The process is stopped: it does not wait for the verification, too.
        .and_then(|process| graph(&process, world, false, &mut report));
    debugger.detach()?;
    report.tell_missing("snapshot");
    let graph = read.with_context(|| format!("process {pid}"))?;
    Ok(Found { graph, is_whole: report.missing.is_empty() })
}
