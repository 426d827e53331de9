//! Reads a heap profile from a `.hp` file.

use std::io::{self, BufRead};

use super::heap::{HeapProfile, Mark, Sample, SampleForwarder};
use super::log::Profiles;
use ghc_eventlog::hp::{self, Line, Summary};

/// Reads a file to its end.
pub fn read(input: impl BufRead) -> (Profiles, Summary) {
    let mut heap = HeapProfile::default();
    let mut end_ns = 0;
    let summary = hp::read(input, |line| {
        if let Line::Begin(time) = line {
            end_ns = end_ns.max(time);
        }
        take(&mut heap, line);
    });
    heap.finish();
    let mut profiles = Profiles::default();
    (profiles.has_heap, profiles.heap, profiles.end_ns) = (summary.samples > 0, heap, end_ns);
    (profiles, summary)
}

/// Reads a file again, if more samples [were read](read) than are kept. Calls `forward` with each sample, in file order. The bands
/// have the same numbers as in the first pass.
///
/// # Errors
///
/// The error of `forward`, which ends the reading.
pub fn each_sample(input: impl BufRead, forward: impl FnMut(&Sample) -> io::Result<()>) -> io::Result<()> {
    let (mut heap, mut forwarder) = (HeapProfile::handing_out(), SampleForwarder::new(forward));
    hp::read(input, |line| {
        take(&mut heap, line);
        forwarder.forward_complete(&mut heap);
    });
    forwarder.finish(&mut heap)
}

fn take(heap: &mut HeapProfile, line: Line<'_>) {
    match line {
        Line::Job(program) => heap.program = program.replace("\"\"", "\""),
        Line::Date(date) => heap.date = date.to_owned(),
        Line::SampleUnit(_) | Line::ValueUnit(_) => {}
        Line::Mark(time_ns) => heap.marks.push(Mark { time_ns, text: String::new() }),
        Line::Begin(time) => heap.begin_sample(time),
        Line::End(_) => heap.end_sample(),
        Line::Band(label, bytes) => heap.add_label(label, bytes),
    }
}
