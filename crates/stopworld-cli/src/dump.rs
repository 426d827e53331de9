//! `stopworld dump`: lists the events of a .nettrace file, one per line.
//!
//! Events go to standard output. Standard error receives messages about the file: damage with its byte offset, the number of
//! lost events, and that no event matches the filters. Exit codes: 0 for a file that was read to its end, 1 for one that can't
//! be read or is damaged (everything that can be read is listed before), 141 if standard output was closed.
//!
//! The names of an event's fields come from the file, or (for the runtime's own events) from the templates. If neither
//! describes an event, its bytes are shown.
//!
//! `--stacks` reads the file twice: first the names of functions, which are at its end, then the events.

use std::collections::{BTreeSet, HashMap};
use std::ffi::OsStr;
use std::fmt::{self, Write as _};
use std::fs::File;
use std::io::{self, BufWriter, Read, Seek, SeekFrom, Write};
use std::os::fd::AsFd;

use super::arguments::Dump;
use super::exit::FAILED;
use super::exit::PIPE_CLOSED;
use ghc_eventlog::read::seekable;
use nettrace::functions::Functions;
use nettrace::shown;
use nettrace::{EventType, Interest, NetEvent, Reader, Summary, TraceInfo, Visitor};
use stopworld_platform::suggest;
use trace_io::json::Quoted;

/// `stopworld dump`.
pub(super) fn run(arguments: &Dump) -> u8 {
    let name = arguments.file.display();
    let input = match open(arguments) {
        Ok(input) => input,
        Err(error) => {
            say(format_args!("can't open {name}: {error}"));
            return FAILED;
        }
    };
    let mut dumper = Dumper::new(arguments, io::stdout().lock());
    let summary = match input {
        Input::Once(input) => read(arguments, &mut dumper, input),
        Input::Twice(mut file, start) => {
            let functions = functions(&file);
            if let Err(error) = file.seek(SeekFrom::Start(start)) {
                say(format_args!("can't read {name} twice: {error}"));
                return FAILED;
            }
            dumper.functions = functions;
            read(arguments, &mut dumper, Box::new(file))
        }
    };
    let nothing = dumper.nothing_found();
    let has_unnamed = dumper.has_stacks && dumper.functions.is_empty();
    let left_out = dumper.functions.left_out();
    match dumper.finish() {
        Ok(()) => {
            if let Some(nothing) = nothing.filter(|_| summary.events > 0) {
                say(format_args!("{}: {nothing}", arguments.file.display()));
            }
            if has_unnamed {
                say(format_args!(
                    "{name}: the file names no functions, so stacks are addresses: the process was killed, or the trace was recorded \
                     without a rundown"
                ));
            }
            if left_out > 0 {
                say(format_args!(
                    "{name}: the names of functions take too much memory; {left_out} of them are left out, so their frames are addresses"
                ));
            }
            report(&arguments.file.display(), &summary)
        }
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => PIPE_CLOSED,
        Err(error) => {
            say(format_args!("the events can't be written: {error}"));
            FAILED
        }
    }
}

/// The input, by how often it is read.
enum Input {
    Once(Box<dyn Read>),
    /// Twice, from this byte on.
    Twice(File, u64),
}

/// Opens the input. A pipe that is read twice is copied to an unnamed file first.
fn open(arguments: &Dump) -> io::Result<Input> {
    let is_stdin = arguments.file.as_os_str() == OsStr::new("-");
    match (is_stdin, arguments.stacks) {
        (true, false) => Ok(Input::Once(Box::new(io::stdin().lock()))),
        (false, false) => Ok(Input::Once(Box::new(File::open(&arguments.file)?))),
        (true, true) => twice(io::stdin().as_fd().try_clone_to_owned()?.into()),
        (false, true) => twice(File::open(&arguments.file)?),
    }
}

fn twice(mut file: File) -> io::Result<Input> {
    // A pipe has no position.
    let start = file.stream_position().unwrap_or(0);
    let mut file = seekable(file)?;
    file.seek(SeekFrom::Start(start))?;
    Ok(Input::Twice(file, start))
}

/// Reads the names of functions.
pub(super) fn functions(input: impl Read) -> Functions {
    let mut functions = Functions::default();
    // Damage is reported by the second reading.
    let _ = Reader::new(input).in_file_order().read(&mut functions);
    functions
}

/// Reads the events.
pub(super) fn read<W: Write>(arguments: &Dump, dumper: &mut Dumper<'_, W>, input: impl Read) -> Summary {
    let reader = Reader::new(input);
    // Counts do not depend on the order.
    let reader = if arguments.counts { reader.in_file_order() } else { reader };
    if arguments.stacks { reader.with_stacks().read(dumper) } else { reader.read(dumper) }
}

/// Reports lost, late and damaged events on standard error. Returns the exit code.
fn report(file: &dyn fmt::Display, summary: &Summary) -> u8 {
    if summary.lost > 0 {
        say(format_args!("{file}: {} events are lost, according to the sequence numbers of the others", summary.lost));
    }
    if summary.steps_back > 0 {
        say(format_args!("{file}: the sequence numbers of events go back {} times", summary.steps_back));
    }
    if summary.late > 0 {
        say(format_args!("{file}: {} events are listed after newer ones", summary.late));
    }
    let Some(damage) = summary.damage else { return 0 };
    say(format_args!("{file}, {damage}"));
    if summary.damages > 1 {
        say(format_args!("{file}: {}", trace_io::more_places(summary.damages - 1)));
    }
    FAILED
}

/// Prints a line on standard error. If that is closed, the line is lost.
fn say(line: fmt::Arguments<'_>) {
    let _ = writeln!(io::stderr(), "dump: {line}");
}

/// Lists or counts events.
pub(super) struct Dumper<'a, W: Write> {
    arguments: &'a Dump,
    output: BufWriter<W>,
    trace: Option<TraceInfo>,
    /// The title of each event type, by its index, and the row of `counts` for it.
    titles: Vec<(String, usize)>,
    /// The number of events by provider and title: types that differ only in their version share a row.
    counts: Vec<(String, String, u64)>,
    rows: HashMap<(String, String), usize>,
    /// The providers and event names in the file, for suggestions if nothing matches.
    providers: BTreeSet<String>,
    names: BTreeSet<String>,
    found: u64,
    /// The times of the first and the last event that matches by name but lies outside `--from` and `--to`.
    times: Option<(f64, f64)>,
    line: String,
    failed: Option<io::Error>,
    /// The names for stacks.
    pub(super) functions: Functions,
    /// Whether a stack was printed.
    has_stacks: bool,
}

/// Returns the name after `PROVIDER/`, as `--counts` prints names, if the text begins with this provider.
fn of_provider<'a>(text: &'a str, provider: &str) -> Option<&'a str> {
    let (prefix, rest) = text.split_at_checked(provider.len())?;
    if prefix.eq_ignore_ascii_case(provider) { rest.strip_prefix('/') } else { None }
}

/// The maximum size of a printed stack in bytes. Further frames are counted.
const MOST_STACK_BYTES: usize = 1 << 20;
/// The number of names that are kept.
const MOST_NAMES: usize = 1 << 14;

impl<'a, W: Write> Dumper<'a, W> {
    pub(super) fn new(arguments: &'a Dump, output: W) -> Dumper<'a, W> {
        Dumper {
            arguments,
            output: BufWriter::with_capacity(64 << 10, output),
            trace: None,
            titles: Vec::new(),
            counts: Vec::new(),
            rows: HashMap::new(),
            providers: BTreeSet::new(),
            names: BTreeSet::new(),
            found: 0,
            times: None,
            line: String::new(),
            failed: None,
            functions: Functions::default(),
            has_stacks: false,
        }
    }

    pub(super) fn finish(mut self) -> io::Result<()> {
        self.counts.retain(|&(_, _, count)| count > 0);
        self.counts.sort();
        for (provider, title, count) in &self.counts {
            let line = if self.arguments.json {
                format!("{{\"provider\":{},\"event\":{},\"count\":{count}}}\n", Quoted(provider), Quoted(title))
            } else {
                format!("{count:>10}  {provider}/{title}\n")
            };
            if let Err(error) = self.output.write_all(line.as_bytes()) {
                self.failed.get_or_insert(error);
                break;
            }
        }
        match self.failed {
            Some(error) => Err(error),
            None => self.output.flush(),
        }
    }

    /// If nothing is listed, returns a message with the reason: what was requested, and what the file has.
    pub(super) fn nothing_found(&self) -> Option<String> {
        let Dump { provider, event, from, to, .. } = self.arguments;
        if self.found > 0 {
            return None;
        }
        let near = |given: &str, names: &BTreeSet<String>| {
            let guess = suggest::nearest(given, names.iter().map(String::as_str));
            guess.map_or(String::new(), |name| format!("; did you mean '{name}'?"))
        };
        let is_known = |wanted: &String| self.providers.iter().any(|known| known.eq_ignore_ascii_case(wanted));
        const REMEDY: &str = "`--counts` alone lists all events of the file";
        match (provider, event, self.times) {
            (_, _, Some((first, last))) => {
                let from = from.map_or(String::new(), |from| format!(" from {from} ms on"));
                let to = to.map_or(String::new(), |to| format!(" up to {to} ms"));
                Some(format!("no event matches{from}{to}: the requested events are at {first:.4} to {last:.4} ms"))
            }
            (Some(wanted), _, None) if !is_known(wanted) => Some(format!(
                "no event matches: the file has no provider '{wanted}'{}; {REMEDY}",
                near(wanted, &self.providers)
            )),
            (_, Some(wanted), None) => {
                let of = provider.as_ref().map_or(String::new(), |name| format!(" of provider '{name}'"));
                let name = self.providers.iter().find_map(|known| of_provider(wanted, known)).unwrap_or(wanted);
                Some(format!(
                    "no event matches: the file has no event '{wanted}'{of}{}; {REMEDY}",
                    near(name, &self.names)
                ))
            }
            (Some(wanted), None, None) => Some(format!("no event matches: provider '{wanted}' has none; {REMEDY}")),
            (None, None, None) => None,
        }
    }

    fn milliseconds(&self, event: &NetEvent<'_>) -> f64 {
        self.trace.as_ref().map_or(0.0, |trace| trace.milliseconds(event.time))
    }

    fn is_wanted(&self, milliseconds: f64) -> bool {
        self.arguments.from.is_none_or(|from| milliseconds >= from)
            && self.arguments.to.is_none_or(|to| milliseconds <= to)
    }

    fn print(&mut self, event: &NetEvent<'_>, milliseconds: f64) {
        let pointer_bytes = self.trace.as_ref().map_or(8, |trace| trace.pointer_bytes);
        let title = self.titles.get(event.kind.index as usize).map_or("", |(title, _)| title);
        let shown = shown::shown(event, pointer_bytes);
        self.line.clear();
        if self.arguments.json {
            shown::json(&mut self.line, event, title, milliseconds, &shown);
        } else {
            shown::text(&mut self.line, event, title, milliseconds, &shown);
        }
        if self.arguments.stacks {
            self.add_stack(event);
        }
        self.line.push('\n');
        if let Err(error) = self.output.write_all(self.line.as_bytes()) {
            self.failed = Some(error);
        }
    }
}

impl<W: Write> Dumper<'_, W> {
    /// Adds the stack of an event to its line: as further lines, or as a member of the object.
    fn add_stack(&mut self, event: &NetEvent<'_>) {
        let Dumper { arguments, line, functions, .. } = self;
        let is_json = arguments.json;
        if is_json {
            // The end of the object.
            line.pop();
            line.push_str(",\"stack\":[");
        }
        let (start, mut printed, mut left_out) = (line.len(), 0, 0_u64);
        let mut add = |line: &mut String, frame: &str| {
            let _ = match is_json {
                true => write!(line, "{}{}", if printed > 0 { "," } else { "" }, Quoted(frame)),
                // Control characters must not reach the terminal.
                false => write!(line, "\n{:15}{}", "", frame.replace(char::is_control, "\u{fffd}")),
            };
            printed += 1;
        };
        for address in event.stack.addresses() {
            match functions.at(event.process, address) {
                _ if line.len() - start >= MOST_STACK_BYTES => left_out += 1,
                Some(function) => add(line, &function.to_string()),
                None => add(line, &format!("{address:#x}")),
            }
        }
        if left_out > 0 {
            add(line, &format!("({left_out} more frames)"));
        }
        self.has_stacks |= printed > 0;
        if is_json {
            line.push_str("]}");
        }
    }
}

impl<W: Write> Visitor for Dumper<'_, W> {
    fn trace(&mut self, trace: &TraceInfo) {
        self.trace = Some(trace.clone());
    }

    fn event_type(&mut self, kind: &EventType) -> Interest {
        let title = kind.title().into_owned();
        let is_provider =
            self.arguments.provider.as_ref().is_none_or(|wanted| kind.provider.eq_ignore_ascii_case(wanted));
        let is_event = self.arguments.event.as_ref().is_none_or(|wanted| {
            let has_name = |name: &str| title.eq_ignore_ascii_case(name) || kind.name.eq_ignore_ascii_case(name);
            has_name(wanted)
                || of_provider(wanted, &kind.provider).is_some_and(has_name)
                || wanted.parse() == Ok(kind.event)
        });
        if self.names.len() < MOST_NAMES {
            self.providers.insert(kind.provider.clone());
            if is_provider {
                self.names.extend([title.clone(), kind.name.clone()]);
            }
        }
        if !is_provider || !is_event {
            return Interest::Skip;
        }
        let rows = self.counts.len();
        let row = *self.rows.entry((kind.provider.clone(), title.clone())).or_insert(rows);
        if row == rows {
            self.counts.push((kind.provider.clone(), title.clone(), 0));
        }
        let index = kind.index as usize;
        if index >= self.titles.len() {
            self.titles.resize(index + 1, (String::new(), 0));
        }
        self.titles[index] = (title, row);
        Interest::Deliver
    }

    fn event(&mut self, event: &NetEvent<'_>) {
        if self.failed.is_some() {
            return;
        }
        let milliseconds = self.milliseconds(event);
        if !self.is_wanted(milliseconds) {
            let (first, last) = self.times.unwrap_or((milliseconds, milliseconds));
            self.times = Some((first.min(milliseconds), last.max(milliseconds)));
            return;
        }
        self.found += 1;
        if !self.arguments.counts {
            return self.print(event, milliseconds);
        }
        let (_, row) = self.titles[event.kind.index as usize];
        self.counts[row].2 += 1;
    }

    fn is_done(&self) -> bool {
        self.failed.is_some()
    }
}
