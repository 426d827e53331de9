//! The threads of a process: their names, and how long they were seen.

use std::collections::BTreeMap;
use std::io;

use super::schema::{Cell, Table};
use super::sink::{RowSink, clamped};

/// The maximum number of threads of a process that have rows.
const MOST_THREADS: usize = 1 << 16;
/// Maximum length of a name, in bytes.
const LONGEST_NAME: usize = 256;

/// Gathers the threads of a process.
#[derive(Debug, Default)]
pub(super) struct ThreadRows {
    threads: BTreeMap<i64, Seen>,
    /// The number of events whose threads have no rows.
    pub(super) without: u64,
}

#[derive(Debug, Default)]
struct Seen {
    name: Option<String>,
    /// The first and the last event.
    span: Option<(i64, i64)>,
    events: u64,
}

impl ThreadRows {
    fn thread(&mut self, id: i64) -> Option<&mut Seen> {
        if self.threads.len() >= MOST_THREADS && !self.threads.contains_key(&id) {
            return None;
        }
        Some(self.threads.entry(id).or_default())
    }

    /// Counts an event of a thread.
    pub(super) fn event(&mut self, id: i64, at_ns: i64) {
        match self.thread(id) {
            Some(thread) => {
                let (first, last) = thread.span.unwrap_or((at_ns, at_ns));
                thread.span = Some((first.min(at_ns), last.max(at_ns)));
                thread.events += 1;
            }
            None => self.without += 1,
        }
    }

    /// Names a thread.
    pub(super) fn name(&mut self, id: i64, name: &str) {
        let end = name.floor_char_boundary(LONGEST_NAME);
        if let Some(thread) = self.thread(id).filter(|_| !name.is_empty()) {
            thread.name = Some(name[..end].to_owned());
        }
    }

    /// Passes on a row for each thread with events.
    pub(super) fn finish(&self, sink: &mut dyn RowSink) -> io::Result<()> {
        for (id, thread) in &self.threads {
            let Some((first, last)) = thread.span else { continue };
            let name = thread.name.as_deref().into();
            let cells = [Cell::Int(*id), name, Cell::Int(first), Cell::Int(last), Cell::Int(clamped(thread.events))];
            sink.row(Table::Threads, &cells)?;
        }
        Ok(())
    }
}
