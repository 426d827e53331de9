//! The destination of `display`: the host's sink, through a buffer.
//!
//! A thread that waits for a slow pipe must not delay the stop of the world: the buffer is written to the sink inside a
//! blocking region, in which the collector counts the thread as stopped. The buffer is plain bytes.

use std::io::{self, Write};
use std::time::{Duration, Instant};

use stopworld::Mutator;

const ENOUGH: usize = 8192;
/// The longest time for which text stays in the buffer while the program runs.
const LATE: Duration = Duration::from_millis(50);

/// The sink of a run.
pub struct Output<'o> {
    sink: &'o mut (dyn Write + Send),
    buffer: Vec<u8>,
    flushed: Instant,
    /// Whether the last character written was a newline, for `fresh-line`.
    pub at_line_start: bool,
}

impl<'o> Output<'o> {
    pub fn new(sink: &'o mut (dyn Write + Send)) -> Self {
        Self { sink, buffer: Vec::new(), flushed: Instant::now(), at_line_start: true }
    }

    pub fn write(&mut self, mutator: &Mutator, text: &str) -> io::Result<()> {
        self.buffer.extend_from_slice(text.as_bytes());
        if let Some(last) = text.chars().last() {
            self.at_line_start = last == '\n';
        }
        if self.buffer.len() < ENOUGH { Ok(()) } else { self.flush(mutator) }
    }

    /// Flushes the buffer if it is not empty and the last flush was longer ago than [`LATE`].
    pub fn flush_if_late(&mut self, mutator: &Mutator) -> io::Result<()> {
        if self.buffer.is_empty() || self.flushed.elapsed() < LATE { Ok(()) } else { self.flush(mutator) }
    }

    pub fn flush(&mut self, mutator: &Mutator) -> io::Result<()> {
        let (sink, buffer) = (&mut *self.sink, &self.buffer);
        let written = mutator.blocking(move || sink.write_all(buffer).and_then(|()| sink.flush()));
        self.buffer.clear();
        self.flushed = Instant::now();
        written
    }
}
