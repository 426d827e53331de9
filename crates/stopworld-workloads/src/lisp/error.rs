//! Errors: [`LispError`] for the host, [`PrimitiveError`] inside the machine.
//!
//! Primitives return a [`PrimitiveError`]. It may contain values, so it must stay on the Rust stack; the machine converts it
//! to a condition object, which Scheme handlers receive. An unhandled condition becomes a [`LispError`]: plain text without
//! values, which may be moved to other threads and into a `Box`.

use std::fmt;

use stopworld::OutOfMemory;

use super::value::Value;

/// A place in a source text, printed as `file:line:column`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceLocation {
    /// The name of the file, as passed by the caller.
    pub file: String,
    /// The line, from 1.
    pub line: u32,
    /// The column in characters, from 1.
    pub column: u32,
}

impl fmt::Display for SourceLocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.file, self.line, self.column)
    }
}

/// The reason why a Scheme program did not reach its end.
#[derive(Debug, thiserror::Error)]
pub enum LispError {
    /// A syntax error: the form that contains this place was not evaluated.
    #[error("{place}: {message}")]
    Syntax {
        /// The place of the error.
        place: SourceLocation,
        /// The message: the error, and what was expected.
        message: String,
        /// Whether the text ended inside a form: a REPL then requests another line.
        incomplete: bool,
    },
    /// An error, or a raised object, that no handler caught.
    #[error("{0}")]
    Uncaught(Box<Uncaught>),
    /// The heap is full at a time when no code of the program runs that could handle the error as a condition; for example, while the text
    /// is read.
    #[error("{0}")]
    OutOfMemory(#[from] OutOfMemory),
    /// The program called `(exit n)` with something other than 0 or `#t`.
    #[error("the program ended with exit code {0}")]
    Exit(u8),
    /// The host requested the end of the program.
    #[error("interrupted")]
    Interrupted,
    /// Output could not be written, or the bounds of the thread's stack could not be read.
    #[error("{0}")]
    Io(#[from] std::io::Error),
}

impl LispError {
    /// Returns the exit code for a command.
    #[must_use]
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Exit(code) => *code,
            Self::Interrupted => 130,
            _ => 1,
        }
    }
}

/// A run-time error with its place.
#[derive(Debug)]
pub struct Uncaught {
    /// `file:line:column`, if known.
    pub place: Option<String>,
    /// The error message.
    pub message: String,
    /// The procedure in which the error occurred, if known.
    pub procedure: Option<String>,
    /// The waiting calls, innermost first; a long list is truncated.
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

/// The reason why a primitive did not return a value.
pub enum PrimitiveError {
    /// An argument of the wrong type: the expected type, and the argument.
    Type(&'static str, Value),
    /// An index outside a sequence of this length.
    Range(Value, usize),
    /// Any other failure: its kind, the message, and the value that caused it.
    Failure(&'static str, String, Option<Value>),
    /// The heap is full.
    Memory(OutOfMemory),
    /// The program ends at once; handlers are not called.
    Halt(Box<LispError>),
}

impl From<OutOfMemory> for PrimitiveError {
    fn from(error: OutOfMemory) -> Self {
        Self::Memory(error)
    }
}

impl From<LispError> for PrimitiveError {
    fn from(error: LispError) -> Self {
        Self::Halt(Box::new(error))
    }
}

/// An error of the reader or the compiler.
pub enum SyntaxError {
    /// The text is wrong at this place.
    Syntax {
        /// Line and column; zeros if they are not known.
        at: (u32, u32),
        /// The message.
        message: String,
        /// Whether more text could complete the form.
        incomplete: bool,
    },
    /// The heap is full.
    Memory(OutOfMemory),
}

impl From<OutOfMemory> for SyntaxError {
    fn from(error: OutOfMemory) -> Self {
        Self::Memory(error)
    }
}

impl From<PrimitiveError> for SyntaxError {
    /// Converts an error of the reader. The reader computes only literals, so any other error means a literal that is too large.
    fn from(failure: PrimitiveError) -> Self {
        match failure {
            PrimitiveError::Memory(error) => Self::Memory(error),
            _ => Self::Syntax { at: (0, 0), message: "this literal is too large".to_owned(), incomplete: false },
        }
    }
}

/// The result of a primitive.
pub type Outcome<T = Value> = Result<T, PrimitiveError>;
