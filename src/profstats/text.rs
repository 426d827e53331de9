//! A heap profile out of a `.hp` file.

use std::io::BufRead;

use super::heap::{HeapProfile, Mark};
use super::log::Profiles;
use crate::formats::hp::{self, Line, Summary};

/// Reads a file to its end.
pub fn read(input: impl BufRead) -> (Profiles, Summary) {
    let mut heap = HeapProfile::default();
    let mut end_ns = 0;
    let summary = hp::read(input, |line| match line {
        Line::Job(program) => heap.program = program.replace("\"\"", "\""),
        Line::Date(date) => heap.date = date.to_owned(),
        Line::SampleUnit(_) | Line::ValueUnit(_) => {}
        Line::Mark(time_ns) => heap.marks.push(Mark { time_ns, text: String::new() }),
        Line::Begin(time) => {
            end_ns = end_ns.max(time);
            heap.begin_sample(time);
        }
        Line::End(_) => heap.end_sample(),
        Line::Band(label, bytes) => heap.add_label(label, bytes),
    });
    heap.finish();
    let mut profiles = Profiles::default();
    (profiles.has_heap, profiles.heap, profiles.end_ns) = (summary.samples > 0, heap, end_ns);
    (profiles, summary)
}
