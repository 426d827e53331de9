//! The prompt on a terminal: line editing, history and completion, on its own thread.
//!
//! The tracer thread serves the target, so it can't wait for a line. The prompt's thread therefore sends lines through a
//! channel, each after the previous one has been executed. Events in the target while the user types are printed above the
//! line being typed.

use std::borrow::Cow;
use std::fmt::Display;
use std::io::Write;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use anyhow::Context;
use rustyline::completion::Completer;
use rustyline::error::ReadlineError;
use rustyline::highlight::{CmdKind, Highlighter};
use rustyline::hint::Hinter;
use rustyline::history::DefaultHistory;
use rustyline::validate::Validator;
use rustyline::{Editor, Helper};

use super::command::{commands, words_for};
use stopworld_ptrace::Waker;

/// An input of the user.
pub(super) enum UserInput {
    Line(String),
    /// Ctrl-C.
    Interrupt,
    /// Ctrl-D, or the terminal was closed.
    End,
}

/// The contents of the terminal's last line: the prompt, and the text typed after it.
#[derive(Clone, Default)]
struct LastLine(Arc<Mutex<(String, String)>>);

impl LastLine {
    fn change(&self, change: impl FnOnce(&mut (String, String))) {
        // A panic under this lock leaves both strings intact.
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

/// The line editor. It is created before any process is started or stopped, so that an unusable terminal has no effect on a
/// process.
pub(super) struct LineEditor {
    editor: Editor<Words, DefaultHistory>,
    last_line: LastLine,
}

impl LineEditor {
    /// Creates a line editor for the terminal of this process.
    pub(super) fn new() -> anyhow::Result<Self> {
        let last_line = LastLine::default();
        let mut editor =
            Editor::new().context("can't use the terminal for a prompt; --script FILE needs no terminal")?;
        editor.set_helper(Some(Words(last_line.clone())));
        Ok(Self { editor, last_line })
    }
}

/// The thread that owns the terminal: it reads a line for each prompt that it receives.
pub(super) struct Prompt {
    pub(super) ready: Sender<String>,
    pub(super) typed: Receiver<UserInput>,
    last_line: LastLine,
}

impl Prompt {
    /// Starts the prompt thread. It wakes `waker` after each read from the terminal.
    pub(super) fn start(editor: LineEditor, waker: Waker) -> anyhow::Result<Self> {
        let LineEditor { mut editor, last_line } = editor;
        let (ready, prompts) = channel::<String>();
        let (send, typed) = channel();
        let shown = last_line.clone();
        thread::Builder::new().name("prompt".to_owned()).spawn(move || {
            while let Ok(prompt) = prompts.recv() {
                shown.change(|line| *line = (prompt.clone(), String::new()));
                let read = match editor.readline(&prompt) {
                    Ok(line) => {
                        // A failure is ignored: the prompt also works without history.
                        let _ = editor.add_history_entry(line.as_str());
                        UserInput::Line(line)
                    }
                    Err(ReadlineError::Interrupted) => UserInput::Interrupt,
                    Err(_) => UserInput::End,
                };
                let is_end = matches!(read, UserInput::End);
                let sent = send.send(read);
                waker.wake();
                if sent.is_err() || is_end {
                    return;
                }
            }
        })?;
        Ok(Self { ready, typed, last_line })
    }

    /// Prints above the line being typed. (rustyline's own printer is not used: with it, rustyline overlooks pasted text that
    /// is left in its buffer.)
    pub(super) fn print_above(&self, text: &dyn Display) {
        const TO_THE_LEFT_AND_CLEAR: &str = "\r\x1b[J";
        self.last_line.change(|(prompt, typed)| {
            let mut stdout = std::io::stdout().lock();
            // A closed terminal is detected by the thread that reads from it.
            let _ = write!(stdout, "{TO_THE_LEFT_AND_CLEAR}{text}\n{prompt}{typed}").and_then(|()| stdout.flush());
        });
    }
}

/// Prints a line while the prompt is not waiting for input.
pub(super) fn print(text: &dyn Display) {
    let mut stdout = std::io::stdout().lock();
    // A closed standard output is not an error.
    let _ = writeln!(stdout, "{text}").and_then(|()| stdout.flush());
}

/// Completes commands and their keywords, and keeps track of the contents of the last line.
struct Words(LastLine);

impl Completer for Words {
    type Candidate = String;

    fn complete(
        &self,
        line: &str,
        position: usize,
        _: &rustyline::Context<'_>,
    ) -> rustyline::Result<(usize, Vec<String>)> {
        Ok(complete(&line[..position]))
    }
}

/// Returns the position of the word to complete, and its candidates.
fn complete(line: &str) -> (usize, Vec<String>) {
    let start = line.rfind(char::is_whitespace).map_or(0, |at| at + 1);
    let (before, word) = line.split_at(start);
    let mut candidates: Vec<String> = match before.split_whitespace().next() {
        None => commands().iter().map(|command| command.get_name().to_owned()).collect(),
        Some(command) => words_for(command),
    };
    candidates.retain(|name| name.starts_with(word));
    (start, candidates)
}

impl Hinter for Words {
    type Hint = String;
}

impl Highlighter for Words {
    /// Called with each line before it is shown.
    fn highlight<'l>(&self, line: &'l str, _: usize) -> Cow<'l, str> {
        self.0.change(|(_, typed)| line.clone_into(typed));
        Cow::Borrowed(line)
    }

    /// Returns `true`, so that the line is redrawn at each key: text printed above may have overwritten it.
    fn highlight_char(&self, _: &str, _: usize, _: CmdKind) -> bool {
        true
    }
}

impl Validator for Words {}

impl Helper for Words {}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    #[rstest]
    #[case("thr", 0, &["threads"])]
    #[case("st", 0, &["status", "stop", "step"])]
    #[case("hold mark-", 5, &["mark-begin", "mark-end"])]
    #[case("mode ", 5, &["full", "assisted"])]
    #[case("x ", 2, &[])]
    fn a_word_is_completed_from_the_words_allowed_at_its_place(
        #[case] line: &str,
        #[case] start: usize,
        #[case] words: &[&str],
    ) {
        assert_eq!(complete(line), (start, words.iter().map(|word| (*word).to_owned()).collect()));
    }
}
