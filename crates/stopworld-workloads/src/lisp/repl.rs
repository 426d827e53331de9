//! The read-eval-print loop.
//!
//! The caller provides the lines: the command edits them with history, a test has a list. After an unfinished form the loop
//! requests another line; after an error it prints the error and reads the next line.

use std::io::{self, Write};

use stopworld::Mutator;

use super::error::SyntaxError;
use super::output::Output;
use super::printer::{Style, to_text};
use super::reader::Reader;
use super::value::Value;
use super::{Interpreter, LispError, Source};

/// The kind of line that is requested.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Prompt {
    /// The beginning of a new form.
    Fresh,
    /// Another line of a form that is not complete.
    More,
}

impl Prompt {
    /// Returns the text to show.
    #[must_use]
    pub const fn text(self) -> &'static str {
        match self {
            Self::Fresh => "stopworld> ",
            Self::More => "      ... ",
        }
    }
}

impl Interpreter {
    /// Reads forms from lines until the lines end, and prints their values. Returns the exit code: that of `(exit n)`,
    /// otherwise 0.
    ///
    /// `next_line` is called inside a blocking region: it may wait for any time without delaying collections.
    ///
    /// # Errors
    /// If `next_line` or `out` failed, or the heap is full while a line is read. Other errors are printed to `out`.
    pub fn repl(
        &self,
        mutator: &Mutator,
        next_line: &mut (dyn FnMut(Prompt) -> io::Result<Option<String>> + Send),
        out: &mut (dyn Write + Send),
    ) -> Result<u8, LispError> {
        let mut out = Output::new(out);
        let mut text = String::new();
        loop {
            let prompt = if text.is_empty() { Prompt::Fresh } else { Prompt::More };
            let Some(line) = mutator.blocking(|| next_line(prompt))? else { return Ok(0) };
            text.push_str(&line);
            text.push('\n');
            if self.is_unfinished(mutator, &text)? {
                continue;
            }
            let store = self.store(mutator)?;
            match self.run(&store, Source::File { name: "repl", text: &text }, &mut out) {
                Ok(Value::UNSPECIFIED) => {}
                Ok(value) => {
                    let shown = to_text(&store, value, Style::Write);
                    let line_break = if out.at_line_start { "" } else { "\n" };
                    out.write(mutator, &format!("{line_break}{shown}\n"))?;
                }
                Err(LispError::Exit(code)) => {
                    out.flush(mutator)?;
                    return Ok(code);
                }
                Err(error @ LispError::Io(_)) => return Err(error),
                Err(error) => {
                    let line_break = if out.at_line_start { "" } else { "\n" };
                    out.write(mutator, &format!("{line_break}{error}\n"))?;
                }
            }
            out.flush(mutator)?;
            text.clear();
        }
    }

    /// Returns whether more text could complete the last form.
    fn is_unfinished(&self, mutator: &Mutator, text: &str) -> Result<bool, LispError> {
        let mut reader = Reader::new(self.store(mutator)?, text);
        loop {
            match reader.next() {
                Ok(Some(_)) => {}
                Ok(None) => return Ok(false),
                Err(SyntaxError::Syntax { incomplete, .. }) => return Ok(incomplete),
                Err(SyntaxError::Memory(error)) => return Err(error.into()),
            }
        }
    }
}
