//! Read, evaluate, print, again.
//!
//! Where lines come from is the caller's business: the command edits them with history, a test has a list. An
//! unfinished form asks for another line; an error is printed and the next line is read.

use std::io::{self, Write};

use stopworld::Mutator;

use super::error::SyntaxError;
use super::output::Output;
use super::printer::{Style, to_text};
use super::reader::Reader;
use super::value::Value;
use super::{Interpreter, LispError, Source};

/// What a line source is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Prompt {
    /// A new form.
    Fresh,
    /// The form that was begun is not finished.
    More,
}

impl Prompt {
    /// The text to show.
    #[must_use]
    pub const fn text(self) -> &'static str {
        match self {
            Self::Fresh => "stopworld> ",
            Self::More => "      ... ",
        }
    }
}

impl Interpreter {
    /// Reads forms from lines until they end, and prints what they evaluate to. Returns the exit code: that of
    /// `(exit n)`, else 0.
    ///
    /// `next_line` is called inside a blocking region: it may wait as long as it likes without delaying collections.
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

    /// Whether more text could finish the last form.
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
