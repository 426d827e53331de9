//! The commands of the debugger's prompt: parses a line into a [`Command`].
//!
//! The declaration of `Command` is the only list of the commands: clap derives the parser from it, and the help, the completion and
//! the usage in errors are read from clap's description of it. Words are split as in a shell. All of them are positional, so a
//! word may begin with `-`.

use std::error::Error;
use std::time::Duration;

use clap::builder::{PossibleValue, TypedValueParser};
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{CommandFactory, Parser, Subcommand, ValueEnum};

use super::super::arguments::DebugMode;
use stopworld::Tid;
use stopworld::debugger::Phase;
use stopworld_platform::suggest;
use stopworld_ptrace::Address;

/// A line of the prompt.
#[derive(Parser)]
#[command(multicall = true, disable_help_subcommand = true)]
struct Line {
    #[command(subcommand)]
    command: Command,
}

/// A parsed command. The texts are those of the help.
#[derive(Clone, Debug, PartialEq, Eq, Subcommand)]
pub(super) enum Command {
    /// list all commands, or explain one
    #[command(visible_aliases = ["h", "?"])]
    Help {
        #[arg(value_name = "COMMAND")]
        about: Option<String>,
    },
    /// show the process, its worlds, and the debugger's statistics
    Status,
    /// list all threads: activity, state for the collector, stack_ptr
    #[command(visible_alias = "t")]
    Threads,
    /// stop a thread, or all; it stays stopped across collections
    Stop {
        #[arg(value_name = "TID|all", default_value = "all", value_parser = Keywords(vec!["all"], threads))]
        threads: ThreadSelection,
    },
    /// resume a thread, or all threads and a held collection
    #[command(visible_aliases = ["c", "continue"])]
    Cont {
        #[arg(value_name = "TID|all", default_value = "all", value_parser = Keywords(vec!["all"], threads))]
        threads: ThreadSelection,
    },
    /// request a collection of each world, and wait until it is over or held
    Collect,
    /// report each phase of each collection
    Phases {
        #[arg(value_name = "on|off")]
        switch: Switch,
    },
    /// hold each collection at these phases until `step` or `cont`
    #[command(visible_alias = "break")]
    Hold {
        #[arg(value_name = "PHASE…|all|off", required = true, value_parser = Keywords(words_of_hold(), at))]
        at: Vec<At>,
    },
    /// resume the collection and hold it at its next phase
    #[command(visible_alias = "s")]
    Step,
    /// describe the object that contains this address: type, size, mark, fields
    #[command(visible_alias = "o")]
    Object {
        #[arg(value_name = "ADDR", value_parser = address)]
        address: Address,
    },
    /// list the object's fields and what they reference
    Fields {
        #[arg(value_name = "ADDR", value_parser = address)]
        address: Address,
    },
    /// list the objects that reference this object
    #[command(visible_alias = "who")]
    Referrers {
        #[arg(value_name = "ADDR", value_parser = address)]
        address: Address,
    },
    /// show a shortest path to the object from a root
    #[command(visible_aliases = ["why-alive", "why"])]
    Path {
        #[arg(value_name = "ADDR", value_parser = address)]
        address: Address,
    },
    /// count the objects of each type, and their bytes
    #[command(visible_alias = "census")]
    Heap {
        #[arg(value_name = "WORLD", value_parser = world)]
        world: Option<u64>,
    },
    /// show a thread's registers
    #[command(visible_alias = "r")]
    Registers {
        #[arg(value_name = "TID", value_parser = thread)]
        tid: Tid,
    },
    /// show a thread's call stack
    #[command(visible_alias = "bt")]
    Backtrace {
        #[arg(value_name = "TID", value_parser = thread)]
        tid: Tid,
    },
    /// report these events as they happen
    Watch {
        #[arg(value_name = "threads|collections", value_parser = Keywords(vec!["threads", "collections"], watched))]
        what: Watched,
        #[arg(value_name = "on|off")]
        switch: Switch,
    },
    /// set or show how the program's signals are handled
    #[command(visible_alias = "signals")]
    Handle {
        #[arg(
            value_name = "SIGNAL…|all [stop|nostop|print|noprint|pass|nopass]…",
            value_parser = Keywords(words_of_handle(), rule)
        )]
        rules: Vec<Rule>,
    },
    /// show memory, WORDS words (8 by default)
    #[command(name = "x", visible_alias = "memory")]
    Memory {
        #[arg(value_name = "ADDR", value_parser = address)]
        address: Address,
        #[arg(value_name = "WORDS", default_value = "8", value_parser = words)]
        words: usize,
    },
    /// wait for a time, for an event, or until the process ends (the default)
    #[command(visible_alias = "w")]
    Wait {
        #[arg(value_name = "SECONDS|event|exit", default_value = "exit", value_parser = Keywords(vec!["event", "exit"], until))]
        until: Until,
    },
    /// show or set what stops the world: the debugger, or the collector's signals
    Mode {
        #[arg(value_name = "full|assisted")]
        mode: Option<DebugMode>,
    },
    /// detach from the process, which continues to run
    Detach,
    /// kill the process
    #[command(visible_alias = "k")]
    Kill,
    /// end the session: kills a process that it started, detaches from others
    #[command(visible_aliases = ["q", "exit"])]
    Quit,
}

/// The threads that a command applies to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ThreadSelection {
    All,
    One(Tid),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
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

/// The phases that one word of `hold` names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct At(pub(super) Vec<Phase>);

/// One word of `handle`: the signals that it applies to, or the change of their handling.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rule {
    Of(Signals),
    Change(Handling),
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

/// Parses a word by a function, and lists the keywords among the words that it accepts.
#[derive(Clone)]
struct Keywords<T>(Vec<&'static str>, fn(&str) -> Result<T, String>);

impl<T: Clone + Send + Sync + 'static> TypedValueParser for Keywords<T> {
    type Value = T;

    fn parse_ref(
        &self,
        command: &clap::Command,
        argument: Option<&clap::Arg>,
        word: &std::ffi::OsStr,
    ) -> Result<T, clap::Error> {
        self.1.parse_ref(command, argument, word)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new(self.0.iter().map(PossibleValue::new)))
    }
}

/// Returns all commands, in the order of the help.
pub(super) fn commands() -> Vec<clap::Command> {
    Line::command().get_subcommands().cloned().collect()
}

/// Returns the keywords that a command takes as arguments.
pub(super) fn words_for(command: &str) -> Vec<String> {
    let Some(command) = find(command) else { return Vec::new() };
    if command.get_name() == "help" {
        return commands().iter().map(|command| command.get_name().to_owned()).collect();
    }
    let values = command.get_positionals().flat_map(clap::Arg::get_possible_values);
    values.map(|value| value.get_name().to_owned()).collect()
}

/// Returns the command with this name or alias, or the only command whose name starts with it.
pub(super) fn find(name: &str) -> Option<clap::Command> {
    let line = Line::command();
    let begun = || {
        let mut begun = line.get_subcommands().filter(|command| command.get_name().starts_with(name));
        begun.next().filter(|_| begun.next().is_none())
    };
    line.find_subcommand(name).or_else(begun).cloned()
}

/// Returns a command with its arguments.
pub(super) fn usage(command: &clap::Command) -> String {
    let arguments = command.get_positionals().map(|argument| {
        let name = argument.get_value_names().and_then(|names| names.first()).map_or("", |name| name.as_str());
        if argument.is_required_set() { format!(" {name}") } else { format!(" [{name}]") }
    });
    command.get_name().to_owned() + &arguments.collect::<String>()
}

/// Returns the usage with the description and the aliases.
pub(super) fn explained(command: &clap::Command) -> String {
    let aliases: Vec<_> = command.get_visible_aliases().collect();
    let also = if aliases.is_empty() { String::new() } else { format!(" (also {})", aliases.join(", ")) };
    format!("{}: {}{also}", usage(command), command.get_about().unwrap_or_default())
}

/// Parses a line. Returns the command and its name, or `None` for an empty line or a comment.
///
/// # Errors
/// One line that names the wrong word and the expected one.
pub(super) fn parse(line: &str) -> Result<Option<(String, Command)>, String> {
    let words = shlex::split(line).ok_or("the line ends inside quotation marks, or after a backslash")?;
    let Some((name, arguments)) = words.split_first() else { return Ok(None) };
    let found = find(name).ok_or_else(|| unknown(name))?;
    let name = found.get_name();
    let words = [name, "--"].into_iter().chain(arguments.iter().map(String::as_str));
    let parsed = Line::try_parse_from(words).map_err(|error| fault(&found, &error));
    let parsed = parsed.and_then(|Line { command }| checked(command));
    parsed.map(|command| Some((name.to_owned(), command))).map_err(|error| format!("{name}: {error}"))
}

fn unknown(name: &str) -> String {
    let commands = commands();
    let names = || commands.iter().map(clap::Command::get_name);
    let begun: Vec<_> = names().filter(|known| known.starts_with(name)).collect();
    if !begun.is_empty() {
        return format!("'{name}' is ambiguous: it could be {}", begun.join(", "));
    }
    let guess = suggest::nearest(name, names());
    let guess = guess.map_or(String::new(), |name| format!("did you mean '{name}'? "));
    format!("unknown command '{name}': {guess}`help` lists the commands")
}

/// Returns the message for an error of clap: the wrong word and the words expected in its place if clap reports them, otherwise the
/// command's usage.
fn fault(command: &clap::Command, error: &clap::Error) -> String {
    let context = (error.get(ContextKind::InvalidValue), error.get(ContextKind::ValidValue));
    match (error.kind(), error.source(), context) {
        (ErrorKind::ValueValidation, Some(fault), _) => fault.to_string(),
        (ErrorKind::InvalidValue, _, (Some(word), Some(ContextValue::Strings(valid)))) => {
            format!("'{word}' is none of {}", valid.join(", "))
        }
        (ErrorKind::MissingRequiredArgument, ..) if command.get_name() == "hold" => {
            format!("name phases of a collection, all or off. {}", what_can_be_held_at())
        }
        _ => format!("write `{}`", usage(command)),
    }
}

/// Checks what concerns several words.
fn checked(command: Command) -> Result<Command, String> {
    match &command {
        Command::Hold { at } if at.len() > 1 && at.iter().any(|At(phases)| phases.len() != 1) => {
            Err("`all` and `off` stand alone".to_owned())
        }
        Command::Handle { rules } if !rules.is_empty() && rules.iter().all(|rule| matches!(rule, Rule::Change(_))) => {
            Err("name a signal, or all: `handle SIGUSR1 stop`".to_owned())
        }
        _ => Ok(command),
    }
}

fn address(word: &str) -> Result<Address, String> {
    let digits = word.strip_prefix("0x").or_else(|| word.strip_prefix("0X"));
    let number = digits.map_or_else(|| word.parse().ok(), |digits| u64::from_str_radix(digits, 16).ok());
    number.map(Address).ok_or_else(|| format!("'{word}' is not an address: write it as 0x7f0123456789"))
}

fn world(word: &str) -> Result<u64, String> {
    word.parse().map_err(|_| format!("'{word}' is not a world's number"))
}

fn words(word: &str) -> Result<usize, String> {
    let words = word.parse().map_err(|_| format!("'{word}' is not a number of words"))?;
    if (1..=4096).contains(&words) {
        Ok(words)
    } else {
        Err(format!("can't show {words} words: the number must be from 1 to 4096"))
    }
}

fn thread(word: &str) -> Result<Tid, String> {
    let tid = word.parse().ok().filter(|tid| *tid > 0);
    tid.map(Tid).ok_or_else(|| format!("'{word}' is not a thread id: `threads` lists them"))
}

fn threads(word: &str) -> Result<ThreadSelection, String> {
    if word == "all" { Ok(ThreadSelection::All) } else { thread(word).map(ThreadSelection::One) }
}

fn watched(word: &str) -> Result<Watched, String> {
    match word {
        "threads" => Ok(Watched::Threads),
        "collections" => Ok(Watched::Collections),
        "signals" => Err("signals are reported by `handle SIGNAL print`, or `handle all print`".to_owned()),
        _ => Err(format!("'{word}' can't be watched: threads and collections can")),
    }
}

fn until(word: &str) -> Result<Until, String> {
    /// A day.
    const LONGEST: f64 = 86_400.0;
    match word {
        "exit" => Ok(Until::Exit),
        "event" => Ok(Until::Event),
        word => match word.parse::<f64>() {
            Ok(seconds) if (0.0..=LONGEST).contains(&seconds) => Ok(Until::Time(Duration::from_secs_f64(seconds))),
            _ => Err(format!("'{word}' is not a number of seconds up to {LONGEST}, event, or exit")),
        },
    }
}

fn words_of_handle() -> Vec<&'static str> {
    HANDLINGS.iter().map(|(word, _)| *word).chain(["all"]).collect()
}

/// Parses a word of `handle`.
fn rule(word: &str) -> Result<Rule, String> {
    if let Some((_, handling)) = HANDLINGS.iter().find(|(name, _)| *name == word) {
        return Ok(Rule::Change(*handling));
    }
    if word == "all" {
        return Ok(Rule::Of(Signals::All));
    }
    match stopworld_platform::os::signals::of_name(word) {
        Some(libc::SIGKILL) => Err("SIGKILL ends the process at once: its handling can't be changed".to_owned()),
        Some(signal) => Ok(Rule::Of(Signals::One(signal))),
        None => Err(format!(
            "'{word}' is neither a signal (write SIGUSR1, SIGRTMIN+3 or a number) nor one of stop, nostop, print, noprint, pass and nopass"
        )),
    }
}

fn words_of_hold() -> Vec<&'static str> {
    Phase::ALL[1..].iter().map(|phase| phase.name()).chain(["all", "off"]).collect()
}

/// Parses a word of `hold`.
fn at(word: &str) -> Result<At, String> {
    match word {
        "off" => Ok(At(Vec::new())),
        "all" => Ok(At(Phase::ALL[1..].to_vec())),
        name => phase(name).map(|phase| At(vec![phase])),
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
    #[case("b 42", Some(Command::Backtrace { tid: Tid(42) }))]
    #[case("m", Some(Command::Mode { mode: None }))]
    #[case("watch 'threads' \"off\"", Some(Command::Watch { what: Watched::Threads, switch: Switch::Off }))]
    #[case("stop", Some(Command::Stop { threads: ThreadSelection::All }))]
    #[case("stop 42", Some(Command::Stop { threads: ThreadSelection::One(Tid(42)) }))]
    #[case("c all", Some(Command::Cont { threads: ThreadSelection::All }))]
    #[case("object 0x7f00", Some(Command::Object { address: Address(0x7f00) }))]
    #[case("why-alive 16", Some(Command::Path { address: Address(16) }))]
    #[case("x 0x10 3", Some(Command::Memory { address: Address(16), words: 3 }))]
    #[case("watch threads on", Some(Command::Watch { what: Watched::Threads, switch: Switch::On }))]
    #[case("hold mark-end gc-start", Some(Command::Hold { at: vec![At(vec![Phase::MarkEnd]), At(vec![Phase::GcStart])] }))]
    #[case("hold off", Some(Command::Hold { at: vec![At(Vec::new())] }))]
    #[case("wait 0.5", Some(Command::Wait { until: Until::Time(Duration::from_millis(500)) }))]
    #[case("wait", Some(Command::Wait { until: Until::Exit }))]
    #[case("mode", Some(Command::Mode { mode: None }))]
    #[case("mode assisted", Some(Command::Mode { mode: Some(DebugMode::Assisted) }))]
    #[case("handle", Some(Command::Handle { rules: Vec::new() }))]
    #[case("signals usr1", Some(Command::Handle { rules: vec![Rule::Of(Signals::One(libc::SIGUSR1))] }))]
    #[case("handle all nostop noprint", Some(Command::Handle { rules: vec![Rule::Of(Signals::All), Rule::Change(Handling::NoStop), Rule::Change(Handling::NoPrint)] }))]
    #[case("handle SIGRTMIN+3 ignore", Some(Command::Handle { rules: vec![Rule::Of(Signals::One(libc::SIGRTMIN() + 3)), Rule::Change(Handling::NoPass)] }))]
    #[case("break mark-end", Some(Command::Hold { at: vec![At(vec![Phase::MarkEnd])] }))]
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
    #[case("phases maybe", "phases: 'maybe' is none of on, off")]
    #[case("hold", "hold: name phases of a collection, all or off. The phases are suspend-begin,")]
    #[case("break", "restart-end. There are no breakpoints in code")]
    #[case("break main", "'main' is not a phase of a collection. The phases are")]
    #[case("break src/main.rs:12", "gdb has breakpoints (docs/gdb.md)")]
    #[case("hold off mark-end", "hold: `all` and `off` stand alone")]
    #[case("stop 'main", "the line ends inside quotation marks")]
    #[case("stop --help", "'--help' is not a thread id")]
    #[case("threads --version", "threads: write `threads`")]
    #[case("hold mark", "'mark' is not a phase of a collection. Did you mean 'mark-")]
    #[case("handle SIGFOO stop", "handle: 'SIGFOO' is neither a signal")]
    #[case("handle stop", "name a signal, or all")]
    #[case("handle SIGKILL stop", "SIGKILL ends the process at once")]
    #[case("watch signals on", "watch: signals are reported by `handle SIGNAL print`")]
    #[case("watch heap on", "'heap' can't be watched")]
    #[case("x 0x10 0", "1 to 4096")]
    #[case("wait soon", "not a number of seconds")]
    #[case("wait -1", "not a number of seconds")]
    #[case("mode half", "mode: 'half' is none of full, assisted")]
    #[case("heap one", "'one' is not a world's number")]
    fn a_wrong_line_gets_one_line_with_the_place_and_the_remedy(#[case] line: &str, #[case] told: &str) {
        let error = parse(line).expect_err("the line is wrong");
        assert_eq!(error.lines().count(), 1);
        assert!(error.contains(told), "'{error}' does not contain {told}");
    }

    #[test]
    fn every_command_can_be_parsed_by_its_name() {
        Line::command().debug_assert();
        for command in commands() {
            for name in command.get_visible_aliases().chain([command.get_name()]) {
                assert_eq!(find(name).expect("a command").get_name(), command.get_name());
            }
            if !command.get_positionals().any(clap::Arg::is_required_set) {
                assert!(parse(command.get_name()).is_ok(), "{}", command.get_name());
            }
        }
    }

    #[rstest]
    #[case("status", "status: show the process, its worlds, and the debugger's statistics")]
    #[case("x", "x ADDR [WORDS]: show memory, WORDS words (8 by default) (also memory)")]
    #[case("why", "path ADDR: show a shortest path to the object from a root (also why-alive, why)")]
    #[case("hold", "hold PHASE…|all|off: hold each collection at these phases until `step` or `cont` (also break)")]
    fn a_command_is_explained_in_one_line(#[case] name: &str, #[case] line: &str) {
        assert_eq!(explained(&find(name).expect("a command")), line);
    }
}
