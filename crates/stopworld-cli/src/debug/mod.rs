//! `stopworld debug` and `stopworld attach`: a debugger for interactive use and for scripts.
//!
//! | file | part |
//! |---|---|
//! | `command` | the parser of the commands |
//! | `session` | the execution of the commands, and the reports of events |
//! | `heap_queries`, `answer` | requests about the heap, which the collector in the target answers |
//! | `backtrace` | unwinding a thread's call stack from its registers |
//! | `render` | the format of the output |
//! | `prompt` | the terminal |
//!
//! The main thread is the tracer: it serves the target's collections whenever it is not busy with a command. Lines come from
//! a prompt on another thread, from a script, or from standard input. In a script and on standard input, the first command
//! that fails ends the session, unless `--keep-going` is given.

mod answer;
mod backtrace;
mod command;
mod heap_queries;
mod prompt;
mod render;
mod session;

use std::cell::Cell;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, BufRead, IsTerminal, Read};
use std::path::Path;
use std::rc::Rc;
use std::sync::mpsc::{Receiver, TryRecvError, channel};
use std::thread;
use std::time::Duration;

use anyhow::{Context, anyhow, bail};
use object::elf::{EM_X86_64, FileHeader64};
use object::read::elf::FileHeader;
use object::{Endianness, FileKind};
use signal_hook::consts::SIGINT;

use super::arguments::{Attach, Debug, DebugSettings};
use super::exit::{FAILED, Failure};
use prompt::{LineEditor, Prompt, UserInput, print};
use session::{Flow, Origin, Session, mode_of};
use stopworld_ptrace::{Debugger, DebuggerError, DebuggerOptions, Restored, SignalRules, TargetError};

/// The longest time for which the target is served before checking for a new line. A new line ends the wait at once.
const SERVE: Duration = Duration::from_millis(500);

/// `stopworld debug -- PROGRAM ARGUMENTS`.
pub(super) fn debug(arguments: &Debug) -> Result<u8, Failure> {
    let Some((program, rest)) = arguments.program.split_first() else {
        return Err(Failure::Usage(
            "debug: name the program to run: `stopworld debug -- PROGRAM ARGUMENTS`".to_owned(),
        ));
    };
    let input = Input::of(&arguments.settings)?;
    check_architecture(Path::new(program))?;
    let debugger = Debugger::launch(program, rest, options(&arguments.settings))?;
    if debugger.libraries().is_empty() {
        let program = program.to_string_lossy();
        eprintln!(
            "note: {program} has no stopworld collector: unless it loads one later, only threads can be inspected"
        );
    }
    converse(debugger, Origin::Launched, input, &arguments.settings)
}

/// `stopworld attach PID`.
pub(super) fn attach(arguments: &Attach) -> Result<u8, Failure> {
    let pid = arguments.pid.cast_signed();
    let input = Input::of(&arguments.settings)?;
    check_architecture(Path::new(&format!("/proc/{pid}/exe")))?;
    let debugger = Debugger::attach(pid, options(&arguments.settings))?;
    if debugger.libraries().is_empty() {
        return Err(anyhow!(TargetError::NotFound).context(format!("process {pid}")).into());
    }
    converse(debugger, Origin::Attached, input, &arguments.settings)
}

fn options(settings: &DebugSettings) -> DebuggerOptions {
    let restored = if settings.compare { Restored::Compared } else { Restored::Trusted };
    let (mode, signals) = (mode_of(settings.mode), SignalRules::for_a_prompt());
    DebuggerOptions { mode, restored, signals, call_within: Duration::from_secs(30), ..DebuggerOptions::default() }
}

/// Refuses a program for another architecture, which can't be inspected. Anything that is not an ELF file is left to the
/// kernel.
fn check_architecture(program: &Path) -> anyhow::Result<()> {
    let mut head = [0; size_of::<FileHeader64<Endianness>>()];
    let read = File::open(program).and_then(|mut file| file.read_exact(&mut head));
    let is_foreign = match FileKind::parse(&head[..]) {
        Ok(FileKind::Elf32) => true,
        Ok(FileKind::Elf64) => FileHeader64::<Endianness>::parse(&head[..])
            .and_then(|header| Ok(header.e_machine(header.endian()?)))
            .is_ok_and(|machine| machine != EM_X86_64),
        _ => false,
    };
    if read.is_ok() && is_foreign {
        let name = std::fs::read_link(program).unwrap_or_else(|_| program.to_owned());
        bail!("{} is a program for another architecture: this debugger supports only 64-bit x86-64", name.display());
    }
    Ok(())
}

/// The source of commands.
enum Input {
    Terminal(Box<LineEditor>),
    /// The name of the source, and its lines.
    Lines(String, Box<dyn BufRead + Send>),
}

impl Input {
    fn of(settings: &DebugSettings) -> Result<Self, Failure> {
        match &settings.script {
            Some(path) if path.as_os_str() != OsStr::new("-") => {
                let name = path.display().to_string();
                let file = File::open(path)
                    .map_err(|error| Failure::Usage(format!("{name}: {error}; give the path of a script")))?;
                Ok(Self::Lines(name, Box::new(io::BufReader::new(file))))
            }
            None if io::stdin().is_terminal() => Ok(Self::Terminal(Box::new(LineEditor::new()?))),
            _ => Ok(Self::Lines("standard input".to_owned(), Box::new(io::BufReader::new(io::stdin())))),
        }
    }
}

fn converse(debugger: Debugger, origin: Origin, input: Input, settings: &DebugSettings) -> Result<u8, Failure> {
    // During a command and in a script the terminal turns Ctrl-C into SIGINT, which ends the command and stops the program. At the
    // prompt the line editor reads Ctrl-C as a key.
    signal_hook::flag::register(SIGINT, debugger.interrupt_flag()).context("can't install a handler for SIGINT")?;
    let mut session = Session::new(debugger, origin, Box::new(|text| print(text)));
    let outcome = match input {
        Input::Terminal(editor) => at_a_prompt(&mut session, *editor),
        Input::Lines(name, lines) => by_lines(&mut session, &name, lines, settings.keep_going),
    };
    // Also after an error: a program that the session started must not outlive it.
    session.end();
    outcome
}

fn at_a_prompt(session: &mut Session, editor: LineEditor) -> Result<u8, Failure> {
    let terminal = Terminal::open(&session.debugger, editor)?;
    session.set_output(terminal.say());
    terminal.converse(session)?;
    Ok(0)
}

fn by_lines(
    session: &mut Session,
    name: &str,
    lines: Box<dyn BufRead + Send>,
    keep_going: bool,
) -> Result<u8, Failure> {
    let waker = session.debugger.waker();
    let (send, lines_read) = channel();
    thread::Builder::new().name("script".to_owned()).spawn(move || {
        for line in lines.lines() {
            if send.send(line).is_err() {
                return;
            }
            waker.wake();
        }
        drop(send);
        waker.wake();
    })?;
    follow(session, name, &lines_read, keep_going)
}

/// The error of a script's command that Ctrl-C interrupts.
const INTERRUPTED: &str = "interrupted by SIGINT";

/// Executes the lines one after the other. Ctrl-C makes the current one fail.
fn follow(
    session: &mut Session,
    name: &str,
    lines: &Receiver<io::Result<String>>,
    keep_going: bool,
) -> Result<u8, Failure> {
    let mut code = 0;
    let mut number = 0;
    loop {
        let line = match lines.try_recv() {
            Ok(line) => line.with_context(|| format!("{name}:{}", number + 1))?,
            Err(TryRecvError::Empty) => {
                session.serve(SERVE)?;
                if session.take_interrupt() {
                    session.interrupt()?;
                }
                continue;
            }
            Err(TryRecvError::Disconnected) => break,
        };
        number += 1;
        session.drain();
        let done = perform(session, &line);
        let done = if session.take_interrupt() { session.interrupt().and(Err(anyhow!(INTERRUPTED))) } else { done };
        match done {
            Ok(Flow::Next) => {}
            Ok(Flow::Quit) => break,
            Err(error) if keep_going => {
                eprintln!("error: {name}:{number}: {error:#}");
                code = FAILED;
            }
            Err(error) => return Err(Failure::Run(anyhow!("{name}:{number}: {error:#}"))),
        }
    }
    Ok(code)
}

fn perform(session: &mut Session, line: &str) -> anyhow::Result<Flow> {
    let Some((name, command)) = command::parse(line).map_err(anyhow::Error::msg)? else { return Ok(Flow::Next) };
    session.execute(command).map_err(|error| explained(error, &name))
}

/// Adds the command's name to an error, and the remedy if the error does not state it.
fn explained(error: anyhow::Error, name: &str) -> anyhow::Error {
    let remedy = match error.downcast_ref() {
        Some(DebuggerError::NoThread(_)) => "; `threads` lists them",
        Some(DebuggerError::Ended) => "; `quit`",
        _ => "",
    };
    anyhow!("{name}: {error:#}{remedy}")
}

/// The prompt, and whether it is waiting for input.
struct Terminal {
    prompt: Rc<Prompt>,
    typing: Rc<Cell<Typing>>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Typing {
    Now,
    NotNow,
}

impl Terminal {
    fn open(debugger: &Debugger, editor: LineEditor) -> anyhow::Result<Self> {
        let prompt = Rc::new(Prompt::start(editor, debugger.waker())?);
        Ok(Self { prompt, typing: Rc::new(Cell::new(Typing::NotNow)) })
    }

    fn say(&self) -> session::Say {
        let (prompt, typing) = (Rc::clone(&self.prompt), Rc::clone(&self.typing));
        Box::new(move |text| match typing.get() {
            Typing::Now => prompt.print_above(text),
            Typing::NotNow => print(text),
        })
    }

    fn converse(self, session: &mut Session) -> anyhow::Result<()> {
        session.say(format_args!("process {}; `help` lists the commands", session.debugger.pid()));
        loop {
            session.drain();
            let prompt = match session.held() {
                Some(held) => format!("(stopworld: {}) ", held.phase.name()),
                None => "(stopworld) ".to_owned(),
            };
            // If the prompt's thread has ended, this fails, and `typed` reports the end below.
            let _ = self.prompt.ready.send(prompt);
            self.typing.set(Typing::Now);
            let typed = loop {
                match self.prompt.typed.try_recv() {
                    Ok(typed) => break typed,
                    Err(TryRecvError::Empty) => {
                        session.serve(SERVE)?;
                        // Another process sent the signal: the key Ctrl-C is read with the line.
                        if session.take_interrupt() {
                            session.interrupt()?;
                        }
                    }
                    Err(TryRecvError::Disconnected) => break UserInput::End,
                }
            };
            self.typing.set(Typing::NotNow);
            let done = match typed {
                UserInput::Line(line) => perform(session, &line),
                UserInput::Interrupt => session.interrupt().map(|()| Flow::Next),
                UserInput::End => return Ok(()),
            };
            let done = if session.take_interrupt() { session.interrupt().map(|()| Flow::Next) } else { done };
            match done {
                Ok(Flow::Next) => {}
                Ok(Flow::Quit) => return Ok(()),
                Err(error) => eprintln!("error: {error:#}"),
            }
        }
    }
}

/// Parses a line of the prompt, for `fuzz/`. Returns the error message if it is wrong.
#[cfg(feature = "fuzzing")]
pub(super) fn message_about(line: &str) -> Option<String> {
    command::parse(line).err()
}
