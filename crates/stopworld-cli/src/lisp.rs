//! Scheme programs on the command line, and the prompt.
//!
//! Each file is a separate program, run in a fresh interpreter. Every thread of the run executes the files one after the
//! other. A run with a duration or a number of collections starts again with the first file, and prints the output of the
//! programs only the first time. With several threads, lines are printed whole, each with the name of its thread.

use std::io::{self, IsTerminal, Write};
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, anyhow};
use rustyline::DefaultEditor;
use rustyline::error::ReadlineError;

use super::arguments::{Run, Settings};
use super::exit::Failure;
use super::progress::ProgramOutput;
use super::run::{LISP, perform, smallest_heap, until};
use super::session::Session;
use super::trace_request::TraceRequest;
use stopworld::{JoinHandle, Mutator};
use stopworld_workloads::lisp::{Interpreter, LispError, Prompt};
use stopworld_workloads::{RunControl, RunPlan, Until};

/// The description of the workload in one line.
pub(super) const ABOUT: &str = "Scheme programs: run lisp FILE.scm…; without files, a prompt";

/// The remedy for a heap that is too small.
const ENOUGH: &str = "--heap-limit 16MiB is enough for small programs";

/// A program's name and text.
type Program = (String, String);

/// `stopworld run lisp FILE.scm…`.
pub(super) fn run(run: &Run) -> Result<u8, Failure> {
    if run.depth.is_some() {
        return Err(Failure::Usage("--depth: the workload lisp has no depth; omit the option".to_owned()));
    }
    if run.files.is_empty() {
        return match (run.threads.get(), until(run)) {
            (1, Until::OnePass) => repl(&run.settings),
            _ => Err(Failure::Usage(
                "run lisp: name the programs to run; the prompt takes no --threads, --seconds or --collections".into(),
            )),
        };
    }
    let programs: Vec<Program> = run.files.iter().map(|file| read(file)).collect::<Result<_, _>>()?;
    let programs: Arc<[Program]> = programs.into();
    let plan = RunPlan { threads: run.threads, until: until(run), depth: 0 };
    let session = Session::begin(&run.settings, TraceRequest::by(&run.settings)?, plan)
        .map_err(|error| smallest_heap(error, ENOUGH))?;
    let mut exit_code = 0;
    let run_control = session.run_control.clone();
    let ended = perform(session, LISP, ProgramOutput::Prints, |m| {
        let _alarm = run_control.start();
        exit_code = on_threads(m, &run_control, &programs)?;
        Ok(())
    })?;
    Ok(if ended == 0 { exit_code } else { ended })
}

fn read(file: &Path) -> Result<Program, Failure> {
    let name = file.display().to_string();
    match std::fs::read(file).map(String::from_utf8) {
        Ok(Ok(text)) => Ok((name, text)),
        Ok(Err(error)) => {
            let at = error.utf8_error().valid_up_to();
            Err(Failure::Usage(format!("{name}: not a text file: byte {at} is not valid UTF-8")))
        }
        Err(error) => Err(Failure::Usage(format!("{name}: {error}; give the path of a Scheme program"))),
    }
}

/// Runs the programs on each thread of the plan. Returns their exit code.
fn on_threads(m: &Mutator, run_control: &RunControl, programs: &Arc<[Program]>) -> anyhow::Result<u8> {
    let threads = run_control.plan().threads.get();
    if threads == 1 {
        return exit_code(perform_all(m, run_control, programs, &mut Lines::plain()));
    }
    let mut crew: Vec<JoinHandle<Result<(), LispError>>> = Vec::new();
    for index in 0..threads {
        let name = format!("{LISP}-{index}");
        let (run_control_of_thread, programs) = (run_control.clone(), Arc::clone(programs));
        let mut lines = Lines::of(&name);
        let work = move |m: &Mutator| {
            let result = perform_all(m, &run_control_of_thread, &programs, &mut lines);
            if result.is_err() {
                run_control_of_thread.end();
            }
            result
        };
        // SAFETY: the interpreter keeps its values in collected objects and on the stack.
        match unsafe { m.world().spawn(&name, work) } {
            Ok(member) => crew.push(member),
            Err(error) => {
                run_control.end();
                crew.into_iter().for_each(|member| drop(member.join()));
                return Err(error.into());
            }
        }
    }
    let results: Vec<_> = crew.into_iter().map(JoinHandle::join).collect();
    let mut code = 0;
    for result in results {
        let result = result.map_err(|_| anyhow!("a thread of the interpreter panicked"))?;
        code = code.max(exit_code(result)?);
    }
    Ok(code)
}

/// Returns the exit code of the command. A program that calls `(exit n)` ends without an error message.
fn exit_code(result: Result<(), LispError>) -> anyhow::Result<u8> {
    match result {
        Ok(()) => Ok(0),
        Err(LispError::Exit(code)) => Ok(code),
        Err(error) => Err(explained(error)),
    }
}

/// Adds the remedy to an error of an interpreter.
fn explained(error: LispError) -> anyhow::Error {
    match error {
        LispError::OutOfMemory(error) => anyhow!("lisp: {error}; {ENOUGH}"),
        error => error.into(),
    }
}

/// Runs all programs repeatedly until the run plan is finished. Only the first pass prints output.
fn perform_all(
    m: &Mutator,
    run_control: &RunControl,
    programs: &[Program],
    lines: &mut Lines,
) -> Result<(), LispError> {
    loop {
        for (name, text) in programs {
            let result = Interpreter::new(m)?.run_until(m, name, text, lines, Some(run_control.flag()));
            lines.finish_line();
            match result {
                Err(LispError::Interrupted) if run_control.is_over() => return Ok(()),
                result => result?,
            }
        }
        if run_control.is_over() || run_control.plan().until == Until::OnePass {
            return Ok(());
        }
        lines.shown = Shown::Nothing;
    }
}

/// Whether a program's output is shown.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Shown {
    Everything,
    Nothing,
}

/// Standard output for one of several threads: whole lines, each with the thread's name in front.
struct Lines {
    prefix: String,
    line: Vec<u8>,
    shown: Shown,
}

impl Lines {
    /// For a single thread: output is printed at once and without a prefix.
    fn plain() -> Lines {
        Lines { prefix: String::new(), line: Vec::new(), shown: Shown::Everything }
    }

    fn of(thread: &str) -> Lines {
        Lines { prefix: format!("[{thread}] "), ..Lines::plain() }
    }

    /// Prints the last line if it did not end in a newline.
    fn finish_line(&mut self) {
        if !self.line.is_empty() {
            self.line.push(b'\n');
            self.show_line();
        }
    }

    fn show_line(&mut self) {
        super::exit::print(format_args!("{}{}", self.prefix, String::from_utf8_lossy(&self.line)));
        self.line.clear();
    }
}

impl Write for Lines {
    /// Never fails: a closed standard output is not an error.
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.shown == Shown::Nothing {
            return Ok(bytes.len());
        }
        if self.prefix.is_empty() {
            let mut stdout = io::stdout().lock();
            let _ = stdout.write_all(bytes).and_then(|()| stdout.flush());
            return Ok(bytes.len());
        }
        for part in bytes.split_inclusive(|&byte| byte == b'\n') {
            self.line.extend_from_slice(part);
            if part.ends_with(b"\n") {
                self.show_line();
            }
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// `stopworld repl`: reads with line editing on a terminal, otherwise from the lines of standard input.
pub(super) fn repl(settings: &Settings) -> Result<u8, Failure> {
    let plan = RunPlan { threads: std::num::NonZeroUsize::MIN, until: Until::OnePass, depth: 0 };
    let session =
        Session::begin(settings, TraceRequest::by(settings)?, plan).map_err(|error| smallest_heap(error, ENOUGH))?;
    let mut exit_code = 0;
    let ended = perform(session, LISP, ProgramOutput::Prints, |m| {
        let interpreter = Interpreter::new(m).map_err(explained)?;
        let mut next_line = lines_of_input()?;
        exit_code = interpreter.repl(m, &mut *next_line, &mut Lines::plain()).map_err(explained)?;
        Ok(())
    })?;
    Ok(if ended == 0 { exit_code } else { ended })
}

type NextLine = Box<dyn FnMut(Prompt) -> io::Result<Option<String>> + Send>;

/// Returns the source of the prompt's lines.
fn lines_of_input() -> anyhow::Result<NextLine> {
    if !io::stdin().is_terminal() {
        return Ok(Box::new(|_| {
            let mut line = String::new();
            let read = io::stdin().read_line(&mut line)?;
            Ok((read > 0).then_some(line))
        }));
    }
    let mut editor = DefaultEditor::new().context("can't use the terminal for a prompt")?;
    Ok(Box::new(move |prompt: Prompt| {
        loop {
            match editor.readline(prompt.text()) {
                Ok(line) => {
                    // A failure is ignored: the prompt also works without history.
                    let _ = editor.add_history_entry(line.as_str());
                    return Ok(Some(line));
                }
                // Ctrl-C discards the line, Ctrl-D ends the session.
                Err(ReadlineError::Interrupted) => {}
                Err(ReadlineError::Eof) => return Ok(None),
                Err(ReadlineError::Io(error)) => return Err(error),
                Err(error) => return Err(io::Error::other(error)),
            }
        }
    }))
}
