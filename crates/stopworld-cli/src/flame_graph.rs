//! Flame graphs of folded stacks.

use std::io::{self, Write};

/// Draws folded stacks. The drawing is complete before it is written, so an error is that of the writer.
pub(super) fn draw(lines: &[String], unit: &str, title: &str, out: &mut dyn Write) -> io::Result<()> {
    let mut options = inferno::flamegraph::Options::default();
    options.title = title.to_owned();
    options.count_name = unit.to_owned();
    let mut drawing = Vec::new();
    inferno::flamegraph::from_lines(&mut options, lines.iter().map(String::as_str), &mut drawing)?;
    out.write_all(&drawing)
}
