//! What goes wrong: for the host as [`LispError`], inside the machine as [`Trouble`].
//!
//! A [`Trouble`] is what a primitive returns. It may carry values, so it lives on the Rust stack only; the machine
//! turns it into a condition object, which Scheme handlers see. What nobody handles becomes a [`LispError`]: plain
//! text, no values, free to travel to other threads and into `Box`es.

use std::fmt;

use stopworld::OutOfMemory;

use super::value::Value;

/// A place in a source text, printed as `file:line:column`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The file's name as the caller gave it.
    pub file: String,
    /// Counted from 1.
    pub line: u32,
    /// Counted from 1, in characters.
    pub column: u32,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.file, self.line, self.column)
    }
}

/// Why a Scheme program did not come to its end.
#[derive(Debug, thiserror::Error)]
pub enum LispError {
    /// The text is no Scheme: nothing of the form that contains this place was evaluated.
    #[error("{place}: {message}")]
    Syntax {
        /// Where.
        place: Place,
        /// What is wrong, and what was expected.
        message: String,
        /// The text ended inside a form: a REPL asks for another line.
        incomplete: bool,
    },
    /// An error, or a raised object, that no handler took.
    #[error("{0}")]
    Uncaught(Box<Uncaught>),
    /// The heap is full, before or outside of the program's own code.
    #[error("{0}")]
    OutOfMemory(#[from] OutOfMemory),
    /// The program called `(exit n)` with something other than 0 or `#t`.
    #[error("the program ended with exit code {0}")]
    Exit(u8),
    /// The host asked the program to end.
    #[error("interrupted")]
    Interrupted,
    /// Output could not be written, or the thread's stack bounds not read.
    #[error("{0}")]
    Io(#[from] std::io::Error),
}

impl LispError {
    /// What a command should exit with.
    #[must_use]
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Exit(code) => *code,
            Self::Interrupted => 130,
            _ => 1,
        }
    }
}

/// A run-time error with what is known about where it happened.
#[derive(Debug)]
pub struct Uncaught {
    /// `file:line:column`, as far as known.
    pub place: Option<String>,
    /// What happened.
    pub message: String,
    /// The procedure in which it happened, as far as known.
    pub procedure: Option<String>,
    /// The calls that were waiting, the innermost first; a long list is cut.
    pub calls: Vec<String>,
}

impl fmt::Display for Uncaught {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(place) = &self.place {
            write!(f, "{place}: ")?;
        }
        f.write_str(&self.message)?;
        if let Some(procedure) = &self.procedure {
            write!(f, ", in {procedure}")?;
        }
        self.calls.iter().try_for_each(|call| write!(f, "\n    {call}"))
    }
}

/// Why a primitive did not return a value.
pub enum Trouble {
    /// An argument of the wrong type: what was expected, what was there.
    Type(&'static str, Value),
    /// An index outside of a sequence of this length.
    Range(Value, usize),
    /// Any other failure, with the value that it is about.
    Failure(&'static str, String, Option<Value>),
    /// No memory.
    Memory(OutOfMemory),
    /// The program ends here, whatever handlers it has.
    Halt(Box<LispError>),
}

impl From<OutOfMemory> for Trouble {
    fn from(error: OutOfMemory) -> Self {
        Self::Memory(error)
    }
}

impl From<LispError> for Trouble {
    fn from(error: LispError) -> Self {
        Self::Halt(Box::new(error))
    }
}

/// Why the reader or the compiler stopped.
pub enum SyntaxError {
    /// The text is wrong here.
    Syntax {
        /// Line and column; zeros if they are not known.
        at: (u32, u32),
        /// What is wrong.
        message: String,
        /// More text could make it right.
        incomplete: bool,
    },
    /// No memory.
    Memory(OutOfMemory),
}

impl From<OutOfMemory> for SyntaxError {
    fn from(error: OutOfMemory) -> Self {
        Self::Memory(error)
    }
}

impl From<Trouble> for SyntaxError {
    /// Literals are the only values that the reader computes.
    fn from(trouble: Trouble) -> Self {
        match trouble {
            Trouble::Memory(error) => Self::Memory(error),
            _ => Self::Syntax { at: (0, 0), message: "this literal is too large".to_owned(), incomplete: false },
        }
    }
}

/// A primitive's result.
pub type Outcome<T = Value> = Result<T, Trouble>;
