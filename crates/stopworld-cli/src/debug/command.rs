//! The commands of the debugger's prompt: parses the words of a line into a [`Command`].

use std::time::Duration;

use stopworld::Tid;
use stopworld::debugger::Phase;
use stopworld_platform::suggest;
use stopworld_ptrace::{Address, Mode};

/// A parsed command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Command {
    Help(Option<String>),
    Status,
    Threads,
    Stop(Whom),
    Cont(Whom),
    Collect,
    Phases(Switch),
    Hold(Vec<Phase>),
    Step,
    Object(Address),
    Fields(Address),
    Referrers(Address),
    Path(Address),
    Heap(Option<u64>),
    Registers(Tid),
    Backtrace(Tid),
    Watch(Watched, Switch),
    Handle(Vec<Signals>, Vec<Handling>),
    Memory(Address, usize),
    Wait(Until),
    Mode(Option<Mode>),
    Detach,
    Kill,
    Quit,
}

/// The threads that a command applies to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Whom {
    All,
    One(Tid),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Switch {
    On,
    Off,
}

/// The events that `watch` reports as they happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Watched {
    Threads,
    Collections,
}

/// The signals that `handle` applies to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Signals {
    /// Every signal except those that the debugger needs for itself.
    All,
    One(i32),
}

/// A change of the handling of a signal. The keywords are those of gdb.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Handling {
    Stop,
    NoStop,
    Print,
    NoPrint,
    Pass,
    NoPass,
}

/// The keywords of the changes.
const HANDLINGS: [(&str, Handling); 8] = [
    ("stop", Handling::Stop),
    ("nostop", Handling::NoStop),
    ("print", Handling::Print),
    ("noprint", Handling::NoPrint),
    ("pass", Handling::Pass),
    ("nopass", Handling::NoPass),
    ("noignore", Handling::Pass),
    ("ignore", Handling::NoPass),
];

/// The condition that ends a `wait`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Until {
    /// This time has passed.
    Time(Duration),
    /// An event has been reported.
    Event,
    /// The process has ended.
    Exit,
}

/// A command as the help lists it.
pub(super) struct Entry {
    pub(super) name: &'static str,
    /// Other names of the command.
    aliases: &'static [&'static str],
    pub(super) arguments: &'static str,
    pub(super) about: &'static str,
}

const fn entry(
    name: &'static str,
    aliases: &'static [&'static str],
    arguments: &'static str,
    about: &'static str,
) -> Entry {
    Entry { name, aliases, arguments, about }
}

/// All commands, in the order of the help.
pub(super) const COMMANDS: [Entry; 24] = [
    entry("help", &["h", "?"], "[COMMAND]", "list all commands, or explain one"),
    entry("status", &[], "", "show the process, its worlds, and the debugger's statistics"),
    entry("threads", &["t"], "", "list all threads: activity, state for the collector, stack_ptr"),
    entry("stop", &[], "[TID|all]", "stop a thread, or all; it stays stopped across collections"),
    entry("cont", &["c", "continue"], "[TID|all]", "resume a thread, or all threads and a held collection"),
    entry("collect", &[], "", "request a collection of each world, and wait until it is over or held"),
    entry("phases", &[], "on|off", "report each phase of each collection"),
    entry("hold", &["break"], "PHASE…|all|off", "hold each collection at these phases until `step` or `cont`"),
    entry("step", &["s"], "", "resume the collection and hold it at its next phase"),
    entry("object", &["o"], "ADDR", "describe the object that contains this address: type, size, mark, fields"),
    entry("fields", &[], "ADDR", "list the object's fields and what they reference"),
    entry("referrers", &["who"], "ADDR", "list the objects that reference this object"),
    entry("path", &["why-alive", "why"], "ADDR", "show a shortest path to the object from a root"),
    entry("heap", &["census"], "[WORLD]", "count the objects of each type, and their bytes"),
    entry("registers", &["r"], "TID", "show a thread's registers"),
    entry("backtrace", &["bt"], "TID", "show a thread's call stack"),
    entry("watch", &[], "threads|collections on|off", "report these events as they happen"),
    entry(
        "handle",
        &["signals"],
        "[SIGNAL…|all [stop|nostop|print|noprint|pass|nopass]…]",
        "set or show how the program's signals are handled",
    ),
    entry("x", &["memory"], "ADDR [WORDS]", "show memory, WORDS words (8 by default)"),
    entry(
        "wait",
        &["w"],
        "[SECONDS|event|exit]",
        "wait for a time, for an event, or until the process ends (the default)",
    ),
    entry("mode", &[], "[full|assisted]", "show or set what stops the world: the debugger, or the collector's signals"),
    entry("detach", &[], "", "detach from the process, which continues to run"),
    entry("kill", &["k"], "", "kill the process"),
    entry("quit", &["q", "exit"], "", "end the session: kills a process that it started, detaches from others"),
];

/// Returns the keywords that a command takes as arguments.
pub(super) fn words_for(command: &str) -> Vec<&'static str> {
    match find(command).map(|entry| entry.name) {
        Some("help") => COMMANDS.iter().map(|entry| entry.name).collect(),
        Some("stop" | "cont") => vec!["all"],
        Some("phases") => vec!["on", "off"],
        Some("hold") => Phase::ALL[1..].iter().map(|phase| phase.name()).chain(["all", "off"]).collect(),
        Some("watch") => vec!["threads", "collections", "on", "off"],
        Some("handle") => HANDLINGS.iter().map(|(word, _)| *word).chain(["all"]).collect(),
        Some("wait") => vec!["event", "exit"],
        Some("mode") => vec!["full", "assisted"],
        _ => Vec::new(),
    }
}

/// Returns the command with this name or alias, or the only command whose name starts with it.
pub(super) fn find(name: &str) -> Option<&'static Entry> {
    let exact = COMMANDS.iter().find(|entry| entry.name == name || entry.aliases.contains(&name));
    exact.or_else(|| {
        let mut begun = COMMANDS.iter().filter(|entry| entry.name.starts_with(name));
        begun.next().filter(|_| begun.next().is_none())
    })
}

/// Parses a line. Returns the command and its name, or `None` for an empty line or a comment.
///
/// # Errors
/// One line that names the wrong word and the expected one.
pub(super) fn parse(line: &str) -> Result<Option<(&'static str, Command)>, String> {
    let line = line.split('#').next().unwrap_or_default();
    let mut words = line.split_whitespace();
    let Some(name) = words.next() else { return Ok(None) };
    let entry = find(name).ok_or_else(|| unknown(name))?;
    let arguments: Vec<&str> = words.collect();
    read(entry, &arguments).map(|command| Some((entry.name, command)))
}

fn unknown(name: &str) -> String {
    let mut begun = COMMANDS.iter().filter(|entry| entry.name.starts_with(name)).map(|entry| entry.name).peekable();
    if begun.peek().is_some() {
        return format!("'{name}' is ambiguous: it could be {}", begun.collect::<Vec<_>>().join(", "));
    }
    let guess = suggest::nearest(name, COMMANDS.iter().map(|entry| entry.name));
    let guess = guess.map_or(String::new(), |name| format!("did you mean '{name}'? "));
    format!("unknown command '{name}': {guess}`help` lists the commands")
}

fn read(entry: &Entry, arguments: &[&str]) -> Result<Command, String> {
    let usage = || format!("{name}: write `{line}`", name = entry.name, line = entry.line());
    let one = || match arguments {
        [one] => Ok(*one),
        _ => Err(usage()),
    };
    let optional = || match arguments {
        [] => Ok(None),
        [one] => Ok(Some(*one)),
        _ => Err(usage()),
    };
    let none = |command| if arguments.is_empty() { Ok(command) } else { Err(usage()) };
    let in_place = |error: String| format!("{}: {error}", entry.name);
    let object = |make: fn(Address) -> Command| Ok(make(address(one()?).map_err(in_place)?));
    match entry.name {
        "help" => Ok(Command::Help(optional()?.map(str::to_owned))),
        "status" => none(Command::Status),
        "threads" => none(Command::Threads),
        "stop" => Ok(Command::Stop(whom(optional()?).map_err(in_place)?)),
        "cont" => Ok(Command::Cont(whom(optional()?).map_err(in_place)?)),
        "collect" => none(Command::Collect),
        "phases" => Ok(Command::Phases(switch(one()?).map_err(in_place)?)),
        "hold" => phases(arguments).map_err(in_place).map(Command::Hold),
        "step" => none(Command::Step),
        "object" => object(Command::Object),
        "fields" => object(Command::Fields),
        "referrers" => object(Command::Referrers),
        "path" => object(Command::Path),
        "heap" => {
            Ok(Command::Heap(optional()?.map(|word| number(word, "a world's number")).transpose().map_err(in_place)?))
        }
        "registers" => Ok(Command::Registers(thread(one()?).map_err(in_place)?)),
        "backtrace" => Ok(Command::Backtrace(thread(one()?).map_err(in_place)?)),
        "watch" => match arguments {
            [what, how] => Ok(Command::Watch(watched(what).map_err(in_place)?, switch(how).map_err(in_place)?)),
            _ => Err(usage()),
        },
        "handle" => handle(arguments).map_err(in_place),
        "x" => match arguments {
            [at] => Ok(Command::Memory(address(at).map_err(in_place)?, 8)),
            [at, words] => {
                let words = number(words, "a number of words").map_err(in_place)?;
                if !(1..=4096).contains(&words) {
                    return Err(in_place(format!("can't show {words} words: the number must be from 1 to 4096")));
                }
                Ok(Command::Memory(address(at).map_err(in_place)?, words as usize))
            }
            _ => Err(usage()),
        },
        "wait" => Ok(Command::Wait(until(optional()?).map_err(in_place)?)),
        "mode" => Ok(Command::Mode(optional()?.map(mode).transpose().map_err(in_place)?)),
        "detach" => none(Command::Detach),
        "kill" => none(Command::Kill),
        _ => none(Command::Quit),
    }
}

impl Entry {
    /// Returns the command with its arguments.
    pub(super) fn line(&self) -> String {
        let space = if self.arguments.is_empty() { "" } else { " " };
        format!("{}{space}{}", self.name, self.arguments)
    }

    /// Returns the line with its description and aliases.
    pub(super) fn explained(&self) -> String {
        let also = if self.aliases.is_empty() { String::new() } else { format!(" (also {})", self.aliases.join(", ")) };
        format!("{}: {}{also}", self.line(), self.about)
    }
}

fn address(word: &str) -> Result<Address, String> {
    let digits = word.strip_prefix("0x").or_else(|| word.strip_prefix("0X"));
    let number = digits.map_or_else(|| word.parse().ok(), |digits| u64::from_str_radix(digits, 16).ok());
    number.map(Address).ok_or_else(|| format!("'{word}' is not an address: write it as 0x7f0123456789"))
}

fn number(word: &str, what: &str) -> Result<u64, String> {
    word.parse().map_err(|_| format!("'{word}' is not {what}"))
}

fn thread(word: &str) -> Result<Tid, String> {
    let tid = word.parse().ok().filter(|tid| *tid > 0);
    tid.map(Tid).ok_or_else(|| format!("'{word}' is not a thread id: `threads` lists them"))
}

fn whom(word: Option<&str>) -> Result<Whom, String> {
    match word {
        None | Some("all") => Ok(Whom::All),
        Some(word) => thread(word).map(Whom::One),
    }
}

fn switch(word: &str) -> Result<Switch, String> {
    match word {
        "on" => Ok(Switch::On),
        "off" => Ok(Switch::Off),
        _ => Err(format!("'{word}' is neither on nor off")),
    }
}

fn watched(word: &str) -> Result<Watched, String> {
    match word {
        "threads" => Ok(Watched::Threads),
        "collections" => Ok(Watched::Collections),
        "signals" => Err("signals are reported by `handle SIGNAL print`, or `handle all print`".to_owned()),
        _ => Err(format!("'{word}' can't be watched: threads and collections can")),
    }
}

fn mode(word: &str) -> Result<Mode, String> {
    match word {
        "full" => Ok(Mode::Full),
        "assisted" => Ok(Mode::Assisted),
        _ => Err(format!("'{word}' is not a mode: write full or assisted")),
    }
}

fn until(word: Option<&str>) -> Result<Until, String> {
    /// A day.
    const LONGEST: f64 = 86_400.0;
    match word {
        None | Some("exit") => Ok(Until::Exit),
        Some("event") => Ok(Until::Event),
        Some(word) => match word.parse::<f64>() {
            Ok(seconds) if (0.0..=LONGEST).contains(&seconds) => Ok(Until::Time(Duration::from_secs_f64(seconds))),
            _ => Err(format!("'{word}' is not a number of seconds up to {LONGEST}, event, or exit")),
        },
    }
}

/// Parses the arguments of `handle`: the signals, and the changes of their handling.
fn handle(words: &[&str]) -> Result<Command, String> {
    let mut signals = Vec::new();
    let mut handlings = Vec::new();
    for word in words {
        if let Some((_, handling)) = HANDLINGS.iter().find(|(name, _)| name == word) {
            handlings.push(*handling);
        } else if *word == "all" {
            signals.push(Signals::All);
        } else {
            let signal = stopworld_platform::os::signals::of_name(word);
            signals.push(Signals::One(signal.ok_or_else(|| {
                format!(
                    "'{word}' is neither a signal (write SIGUSR1, SIGRTMIN+3 or a number) nor one of stop, nostop, print, noprint, pass and nopass"
                )
            })?));
        }
    }
    if signals.contains(&Signals::One(libc::SIGKILL)) {
        return Err("SIGKILL ends the process at once: its handling can't be changed".to_owned());
    }
    if signals.is_empty() && !handlings.is_empty() {
        return Err("name a signal, or all: `handle SIGUSR1 stop`".to_owned());
    }
    Ok(Command::Handle(signals, handlings))
}

/// Parses the names of phases.
fn phases(words: &[&str]) -> Result<Vec<Phase>, String> {
    match words {
        [] => Err(format!("name phases of a collection, all or off. {}", what_can_be_held_at())),
        ["off"] => Ok(Vec::new()),
        ["all"] => Ok(Phase::ALL[1..].to_vec()),
        names => names.iter().map(|name| phase(name)).collect(),
    }
}

/// Returns the part of an error that lists the phases. Users who type `break` expect breakpoints in code.
fn what_can_be_held_at() -> String {
    let all: Vec<_> = Phase::ALL[1..].iter().map(|phase| phase.name()).collect();
    format!(
        "The phases are {}. There are no breakpoints in code: `stop` stops threads where they are, and gdb has breakpoints (docs/gdb.md)",
        all.join(", ")
    )
}

fn phase(name: &str) -> Result<Phase, String> {
    let phases = &Phase::ALL[1..];
    phases.iter().copied().find(|phase| phase.name() == name).ok_or_else(|| {
        let guess = suggest::nearest(name, phases.iter().map(|phase| phase.name()));
        let guess = guess.map_or(String::new(), |name| format!("Did you mean '{name}'? "));
        format!("'{name}' is not a phase of a collection. {guess}{}", what_can_be_held_at())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    #[rstest]
    #[case("", None)]
    #[case("   # a remark", None)]
    #[case("threads", Some(Command::Threads))]
    #[case("thr # those", Some(Command::Threads))]
    #[case("stop", Some(Command::Stop(Whom::All)))]
    #[case("stop 42", Some(Command::Stop(Whom::One(Tid(42)))))]
    #[case("c all", Some(Command::Cont(Whom::All)))]
    #[case("object 0x7f00", Some(Command::Object(Address(0x7f00))))]
    #[case("why-alive 16", Some(Command::Path(Address(16))))]
    #[case("x 0x10 3", Some(Command::Memory(Address(16), 3)))]
    #[case("watch threads on", Some(Command::Watch(Watched::Threads, Switch::On)))]
    #[case("hold mark-end gc-start", Some(Command::Hold(vec![Phase::MarkEnd, Phase::GcStart])))]
    #[case("hold off", Some(Command::Hold(Vec::new())))]
    #[case("wait 0.5", Some(Command::Wait(Until::Time(Duration::from_millis(500)))))]
    #[case("wait", Some(Command::Wait(Until::Exit)))]
    #[case("mode", Some(Command::Mode(None)))]
    #[case("mode assisted", Some(Command::Mode(Some(Mode::Assisted))))]
    #[case("handle", Some(Command::Handle(Vec::new(), Vec::new())))]
    #[case("signals usr1", Some(Command::Handle(vec![Signals::One(libc::SIGUSR1)], Vec::new())))]
    #[case("handle all nostop noprint", Some(Command::Handle(vec![Signals::All], vec![Handling::NoStop, Handling::NoPrint])))]
    #[case("handle SIGRTMIN+3 ignore", Some(Command::Handle(vec![Signals::One(libc::SIGRTMIN() + 3)], vec![Handling::NoPass])))]
    #[case("break mark-end", Some(Command::Hold(vec![Phase::MarkEnd])))]
    #[case("q", Some(Command::Quit))]
    fn a_line_is_understood(#[case] line: &str, #[case] command: Option<Command>) {
        assert_eq!(parse(line).map(|parsed| parsed.map(|(_, command)| command)), Ok(command));
    }

    #[rstest]
    #[case("thraeds", "did you mean 'threads'?")]
    #[case("frobnicate", "`help` lists the commands")]
    #[case("st", "'st' is ambiguous: it could be status, stop, step")]
    #[case("object", "object: write `object ADDR`")]
    #[case("object here", "object: 'here' is not an address: write it as 0x")]
    #[case("object 0xgg", "is not an address")]
    #[case("object 0x1 0x2", "write `object ADDR`")]
    #[case("threads all", "write `threads`")]
    #[case("registers", "write `registers TID`")]
    #[case("registers -1", "'-1' is not a thread id")]
    #[case("stop main", "'main' is not a thread id: `threads` lists them")]
    #[case("phases maybe", "phases: 'maybe' is neither on nor off")]
    #[case("hold", "hold: name phases of a collection, all or off. The phases are suspend-begin,")]
    #[case("break", "restart-end. There are no breakpoints in code")]
    #[case("break main", "'main' is not a phase of a collection. The phases are")]
    #[case("break src/main.rs:12", "gdb has breakpoints (docs/gdb.md)")]
    #[case("hold mark", "'mark' is not a phase of a collection. Did you mean 'mark-")]
    #[case("handle SIGFOO stop", "handle: 'SIGFOO' is neither a signal")]
    #[case("handle stop", "name a signal, or all")]
    #[case("handle SIGKILL stop", "SIGKILL ends the process at once")]
    #[case("watch signals on", "watch: signals are reported by `handle SIGNAL print`")]
    #[case("watch heap on", "'heap' can't be watched")]
    #[case("x 0x10 0", "1 to 4096")]
    #[case("wait soon", "not a number of seconds")]
    #[case("wait -1", "not a number of seconds")]
    #[case("mode half", "write full or assisted")]
    #[case("heap one", "'one' is not a world's number")]
    fn a_wrong_line_gets_one_line_with_the_place_and_the_remedy(#[case] line: &str, #[case] told: &str) {
        let error = parse(line).expect_err("the line is wrong");
        assert_eq!(error.lines().count(), 1);
        assert!(error.contains(told), "'{error}' does not contain {told}");
    }

    #[test]
    fn every_command_can_be_parsed_by_its_name() {
        for entry in &COMMANDS {
            for name in entry.aliases.iter().chain([&entry.name]) {
                assert_eq!(find(name).map(|found| found.name), Some(entry.name));
            }
            if entry.arguments.is_empty() || entry.arguments.starts_with('[') {
                assert!(parse(entry.name).is_ok(), "{}", entry.name);
            }
        }
    }
}
